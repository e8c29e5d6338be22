"""`choose`: hyper-parameters from the log alone, without an environment to try them in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.errors import NotAvailableError, ParameterError
from surefoot.problems import Problem
from surefoot.studies.metrics import Intervals, cvar, mean_and_cvar
from surefoot.tuning.posterior import Posterior
from surefoot.tuning.prior import RowPrior
from surefoot.tuning.settings import NO_CHANGE, Setting, default_settings
from surefoot.tuning.simulation import Progress, Simulation, simulate

CVAR, MEAN = RULES = ("cvar", "mean")
LOG, SIMULATED = SOURCES = ("log", "simulated")
FEWEST = 5  # models in the tail
LEVEL, RESAMPLES = 0.95, 400  # of the intervals, which are about the number of models
ODD = 0.01  # a posterior predictive p-value below which the drawn models are said to miss the log


@dataclass(frozen=True)
class Worth:
    """Mean and CVaR of a setting's gain over the drawn models, with intervals.

    The intervals are about the finite number of models.
    """

    mean: float
    mean_low: float
    mean_high: float
    cvar: float
    cvar_low: float
    cvar_high: float


NOTHING = Worth(*[0.0] * 6)


@dataclass(frozen=True)
class Row:
    """One setting: what its policy from this log is worth, and what it gains on simulated logs.

    on_simulated is None where no logs were simulated. loses is the share of models in which its
    policy from this log is worse than the baseline.
    """

    setting: Setting
    on_log: Worth
    on_simulated: Worth | None
    loses: float
    converged: bool

    def worth(self, by: str) -> Worth:
        """By "log" or "simulated"."""
        found = self.on_log if by == LOG else self.on_simulated
        assert found is not None
        return found


@dataclass(frozen=True, repr=False, kw_only=True)
class Tuning:
    """The settings tried, "no change" first, the one that the rule chose, and the simulation."""

    rows: tuple[Row, ...]
    chosen: Row
    rule: str
    by: str
    alpha: float
    tolerance: float
    simulation: Simulation
    prior: RowPrior

    def __repr__(self) -> str:
        return f"Tuning({len(self.rows)} settings, chosen: {self.chosen.setting.label})"

    @property
    def changes(self) -> bool:
        """Whether a setting other than "no change" was chosen."""
        return self.chosen.setting is not NO_CHANGE

    @property
    def predictive_p(self) -> float:
        """The two-sided posterior predictive p-value of the mean reward a step (Rubin 1984).

        2 min(P(simulated <= observed), P(simulated >= observed)), each counted with the observed
        one among the simulated; NaN without simulated logs.
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
        lost = [row.setting.label for row in self.rows if not row.converged]
        if lost:
            found.append(f"did not converge on this log: {', '.join(lost)}")
        return tuple(found)


def choose(
    problem: Problem,
    settings: Sequence[Setting] | None = None,
    *,
    models: int = 200,
    simulated: int = 100,
    rule: str = CVAR,
    by: str = LOG,
    alpha: float = 0.2,
    tolerance: float = 0.0,
    seed: int = 0,
    progress: Progress = lambda done, total: None,
) -> Tuning:
    """Choose a setting by its gains in models drawn from the posterior of the log.

    rule "cvar"      the largest CVaR_alpha of the gain: the mean over the worst alpha of the models
    rule "mean"      the largest mean gain among settings whose CVaR_alpha is at least -tolerance
    by "log"         gains of the policies learned from this log
    by "simulated"   gains of policies learned from logs simulated in the models

    "No change" is always among the candidates. The default is what the benchmarks favour
    (docs/tuning.md): choosing by the mean, or by simulated logs, keeps as much gain but had a tail
    far below the baseline on Wet Chicken. A choice is no evidence: judge the chosen policy on
    held-out data (`surefoot improve`).
    """
    _check(models, simulated, rule, by, alpha, tolerance)
    if problem.log is not None and problem.log.survives is not None:
        raise NotAvailableError(
            "tune draws models whose steps take equal time: it does not go with --discount-per"
            " where gaps differ"
        )
    given = default_settings(problem) if settings is None else settings
    tried = [x for x in given if x is not NO_CHANGE]
    if not tried:
        raise ParameterError("give at least one setting to try")
    posterior = Posterior(problem)
    algorithms = [x.algorithm for x in tried if x.algorithm is not None]
    found = simulate(posterior, algorithms, models, simulated, seed=seed, progress=progress)
    rows = _rows(tried, found, alpha)
    return Tuning(
        rows=rows,
        chosen=preferred(rows, rule, by, tolerance),
        rule=rule,
        by=by,
        alpha=alpha,
        tolerance=tolerance,
        simulation=found,
        prior=posterior.prior,
    )


def preferred(rows: Sequence[Row], rule: str, by: str, tolerance: float) -> Row:
    """The row that the rule prefers; the earlier one of equals, and "no change" is the first."""
    able = [row for row in rows if row.worth(by).cvar >= -tolerance] if rule == MEAN else list(rows)
    return max(able, key=lambda row: row.worth(by).cvar if rule == CVAR else row.worth(by).mean)


def _check(models: int, simulated: int, rule: str, by: str, alpha: float, tolerance: float) -> None:
    for name, value, known in (("rule", rule, RULES), ("by", by, SOURCES)):
        if value not in known:
            raise ParameterError(
                f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}"
            )
    if not 0 < alpha < 1 or not alpha * models >= FEWEST:
        raise ParameterError(
            f"alpha must lie in (0, 1), with at least {FEWEST} models in the tail: got alpha"
            f" {alpha!r} of {models} models"
        )
    if by == SIMULATED and alpha * min(simulated, models) < FEWEST:
        raise ParameterError(
            f"a choice by simulated logs needs at least {int(np.ceil(FEWEST / alpha))} of them,"
            f" got {simulated}"
        )
    if not 0 <= tolerance < np.inf:
        raise ParameterError(f"tolerance must be a number of at least 0, got {tolerance!r}")


def _rows(tried: Sequence[Setting], found: Simulation, alpha: float) -> tuple[Row, ...]:
    """ "No change", then the settings."""
    on_log = _worths(found.on_log, alpha)
    many = found.on_simulated.shape[1] > 1
    on_simulated = _worths(found.on_simulated, alpha) if many else [None] * len(tried)
    loses = (found.on_log < 0).mean(axis=1)
    rows = [Row(NO_CHANGE, NOTHING, NOTHING if many else None, 0.0, True)]
    for j, one in enumerate(tried):
        converged = bool(found.converged[j])
        rows.append(Row(one, on_log[j], on_simulated[j], float(loses[j]), converged))
    return tuple(rows)


def _worths(gains: np.ndarray, alpha: float) -> list[Worth]:
    """Mean and CVaR of every row; NaN for the interval of a CVaR of fewer than five models."""
    mean, tail = mean_and_cvar(gains, Intervals(alpha, RESAMPLES, level=LEVEL))
    columns = (mean.value, *mean.interval(), cvar(gains, alpha), *tail.interval())
    return [Worth(*map(float, row)) for row in zip(*columns, strict=True)]
