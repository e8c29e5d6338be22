"""`choose`: hyper-parameters from the log alone, without an environment to try them in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.advice.tuning.posterior import Posterior
from surefoot.advice.tuning.prior import RowPrior
from surefoot.advice.tuning.settings import NO_CHANGE, Setting, default_settings
from surefoot.advice.tuning.simulation import Progress, Simulation, simulate
from surefoot.core.errors import NotAvailableError, ParameterError
from surefoot.problems import Problem
from surefoot.statistics.metrics import Intervals, cvar, mean_and_cvar

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
    """One setting: what its policy from this log is worth in the drawn models.

    loses is the share of models in which it is worse than the baseline.
    """

    setting: Setting
    on_log: Worth
    loses: float
    converged: bool


@dataclass(frozen=True, repr=False, kw_only=True)
class Tuning:
    """The settings tried, "no change" first, the one that was chosen, and the simulation."""

    rows: tuple[Row, ...]
    chosen: Row
    alpha: float
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
    alpha: float = 0.2,
    seed: int = 0,
    progress: Progress = lambda done, total: None,
) -> Tuning:
    """Choose a setting by its gains in models drawn from the posterior of the log.

    The policy that a setting learns from this log is valued in every model, and the setting with
    the largest CVaR_alpha of the gain is chosen: the mean over the worst alpha of the models. "No
    change" is always among the candidates, and the first of equals is taken. Choosing by the mean,
    or by policies learned from simulated logs, had a tail far below the baseline on Wet Chicken
    (docs/tuning.md). A choice is no evidence: judge the chosen policy on held-out data (`surefoot
    improve`).
    """
    if not 0 < alpha < 1 or not alpha * models >= FEWEST:
        raise ParameterError(
            f"alpha must lie in (0, 1), with at least {FEWEST} models in the tail: got alpha"
            f" {alpha!r} of {models} models"
        )
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
        chosen=max(rows, key=lambda row: row.on_log.cvar),
        alpha=alpha,
        simulation=found,
        prior=posterior.prior,
    )


def _rows(tried: Sequence[Setting], found: Simulation, alpha: float) -> tuple[Row, ...]:
    """ "No change", then the settings."""
    on_log = _worths(found.on_log, alpha)
    loses = (found.on_log < 0).mean(axis=1)
    rows = [Row(NO_CHANGE, NOTHING, 0.0, True)]
    for j, one in enumerate(tried):
        rows.append(Row(one, on_log[j], float(loses[j]), bool(found.converged[j])))
    return tuple(rows)


def _worths(gains: np.ndarray, alpha: float) -> list[Worth]:
    """Mean and CVaR of every row; NaN for the interval of a CVaR of fewer than five models."""
    mean, tail = mean_and_cvar(gains, Intervals(alpha, RESAMPLES, level=LEVEL))
    columns = (mean.value, *mean.interval(), cvar(gains, alpha), *tail.interval())
    return [Worth(*map(float, row)) for row in zip(*columns, strict=True)]
