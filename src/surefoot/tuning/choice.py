"""`tune`: hyper-parameters from the log alone, without an environment to try them in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.errors import ParameterError
from surefoot.problems import Problem
from surefoot.studies.metrics import Intervals, cvar, mean_and_cvar
from surefoot.tuning.heldout import HeldOut, held_out
from surefoot.tuning.posterior import Posterior
from surefoot.tuning.prior import RowPrior
from surefoot.tuning.settings import NO_CHANGE, Setting, default_settings
from surefoot.tuning.simulation import Progress, Simulation, simulate

CVAR, MEAN = RULES = ("cvar", "mean")
HERE, AGAIN = SOURCES = ("here", "again")
MODELS, MODELS_AGAIN, ALPHA = 200, 100, 0.2
LEVEL, RESAMPLES = 0.95, 400  # of the intervals, which are about the number of models
ODD = 0.01  # a posterior predictive p-value below which the drawn models are said to miss the log


@dataclass(frozen=True)
class Worth:
    """Mean and CVaR of a setting's gain over the drawn models, with intervals for the finite
    number of models.
    """

    mean: float
    mean_low: float
    mean_high: float
    cvar: float
    cvar_low: float
    cvar_high: float


@dataclass(frozen=True)
class Row:
    """One setting: what its policy is worth here, how it does on logs made anew (None where none
    were), and what it changes.
    """

    setting: Setting
    here: Worth
    again: Worth | None
    loses: float  # the share of models in which its policy is worse than the baseline
    converged: bool

    def worth(self, by: str) -> Worth:
        """By "here" or "again"."""
        found = self.here if by == HERE else self.again
        assert found is not None
        return found


@dataclass(frozen=True, repr=False)
class Tuning:
    """The settings tried, "no change" first, the one chosen, and whether the drawn models look like
    the log.

    best is the setting that the rule prefers. It is chosen if its held-out gain is above 0; if not,
    no change is. held_out is None where the best is no change, or the log cannot be halved.
    predictive_p is the two-sided posterior predictive p-value of the mean reward a step (NaN
    without logs made anew).
    """

    rows: tuple[Row, ...]
    best: Row
    held_out: HeldOut | None
    rule: str
    by: str
    alpha: float
    tolerance: float
    simulation: Simulation
    prior: RowPrior

    def __repr__(self) -> str:
        return f"Tuning({len(self.rows)} settings, chosen: {self.chosen.setting.label})"

    @property
    def chosen(self) -> Row:
        """The best setting where data it did not learn from agree that it gains, else "no
        change".
        """
        agreed = self.held_out is not None and self.held_out.mean > 0
        return self.best if agreed else self.rows[0]

    @property
    def changes(self) -> bool:
        """Whether a setting other than "no change" was chosen."""
        return self.chosen.setting is not NO_CHANGE

    @property
    def predictive_p(self) -> float:
        """2 min(P(simulated <= observed), P(simulated >= observed)), each counted with the
        observed one among the simulated.
        """
        reward, observed = self.simulation.reward, self.simulation.observed
        if not len(reward):
            return float("nan")
        sides = ((reward <= observed).sum(), (reward >= observed).sum())
        return float(min(1.0, 2 * (1 + min(sides)) / (1 + len(reward))))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know."""
        found = []
        if self.predictive_p < ODD:
            reward = self.simulation.reward
            found.append(
                "the drawn models miss the log: its mean reward a step is"
                f" {self.simulation.observed:.4g}, theirs {reward.min():.4g} to {reward.max():.4g};"
                " the choice rests on them"
            )
        if self.best is not self.chosen:
            why = (
                "the log cannot be halved"
                if self.held_out is None
                else "learned from one half of the log it does not gain by the other"
            )
            found.append(
                f"{self.best.setting.label} gains most in the drawn models, but {why}: no change"
            )
        lost = [row.setting.label for row in self.rows if not row.converged]
        if lost:
            found.append(f"did not converge on this log: {', '.join(lost)}")
        return tuple(found)


def tune(
    problem: Problem,
    settings: Sequence[Setting] | None = None,
    *,
    models: int = MODELS,
    again: int = MODELS_AGAIN,
    rule: str = CVAR,
    by: str = HERE,
    alpha: float = ALPHA,
    tolerance: float = 0.0,
    seed: int = 0,
    progress: Progress = lambda done, total: None,
) -> Tuning:
    """Choose a setting by simulation in models drawn from the posterior of the log; "no change" is
    always among the candidates.

    rule "cvar"   the largest CVaR_alpha of the gain: the mean over the worst alpha of the models
    rule "mean"   the largest mean gain among settings whose CVaR_alpha is at least -tolerance
    by "here"     gains of the policies that this log teaches; by "again": gains over logs made anew
                  in every model

    The default is what the benchmarks favour (docs/tuning.md): choosing by the mean, or over logs
    made anew, keeps as much gain but had a tail far below the baseline on Wet Chicken. The setting
    that the rule prefers is chosen if it also gains where it learns from one half of the log and is
    valued in models of the other; else "no change" is. A choice is no evidence: judge the chosen
    policy on held-out data (`surefoot improve`).
    """
    for name, value, known in (("rule", rule, RULES), ("by", by, SOURCES)):
        if value not in known:
            raise ParameterError(
                f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}"
            )
    if not 0 < alpha < 1 or not alpha * models >= 5:
        raise ParameterError(
            f"alpha must lie in (0, 1), with at least 5 models in the tail: got alpha {alpha!r} of"
            f" {models} models"
        )
    if by == AGAIN and alpha * min(again, models) < 5:
        raise ParameterError(
            f"a choice by logs made anew needs at least {int(np.ceil(5 / alpha))} of them (again),"
            f" got {again}"
        )
    if not 0 <= tolerance < np.inf:
        raise ParameterError(f"tolerance must be a number of at least 0, got {tolerance!r}")
    tried = default_settings(problem) if settings is None else tuple(settings)
    if not tried:
        raise ParameterError("give at least one setting to try")
    posterior = Posterior(problem)
    found = simulate(
        problem,
        [x.algorithm for x in tried],
        models,
        again,
        seed=seed,
        posterior=posterior,
        progress=progress,
    )
    rows = _rows(tried, found, alpha)
    best = preferred(rows, rule, by, tolerance)
    check = (
        None if best.setting is NO_CHANGE else held_out(problem, best.setting.algorithm, seed=seed)
    )
    return Tuning(rows, best, check, rule, by, alpha, tolerance, found, posterior.prior)


def preferred(rows: Sequence[Row], rule: str, by: str, tolerance: float) -> Row:
    """The row that the rule prefers; the earlier one of equals, and "no change" is the first."""
    able = [row for row in rows if row.worth(by).cvar >= -tolerance] if rule == MEAN else list(rows)
    return max(able, key=lambda row: row.worth(by).cvar if rule == CVAR else row.worth(by).mean)


def _rows(tried: Sequence[Setting], found: Simulation, alpha: float) -> tuple[Row, ...]:
    """ "No change", then the settings."""
    nothing = Worth(*[0.0] * 6)
    here = _worths(found.here, alpha)
    many = found.again.shape[1] > 1
    again = _worths(found.again, alpha) if many else [None] * len(tried)
    rows = [Row(NO_CHANGE, nothing, nothing if many else None, 0.0, True)]
    for j, one in enumerate(tried):
        rows.append(
            Row(one, here[j], again[j], float((found.here[j] < 0).mean()), bool(found.converged[j]))
        )
    return tuple(rows)


def _worths(gains: np.ndarray, alpha: float) -> list[Worth]:
    """Mean and CVaR of every row; the interval of a CVaR of fewer than five models is not given
    (NaN).
    """
    mean, tail = mean_and_cvar(gains, Intervals(alpha, RESAMPLES, level=LEVEL))
    columns = (mean.value, *mean.interval(), cvar(gains, alpha), *tail.interval())
    return [Worth(*map(float, row)) for row in zip(*columns, strict=True)]
