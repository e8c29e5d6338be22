"""HCPI: leave the baseline only for a policy that held-out episodes show to be better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.algorithms.algorithm import RESTRICTS, Algorithm, Whole, solve
from surefoot.core import Batch, Solution
from surefoot.core.errors import NotAvailableError, ParameterError, UnknownNameError
from surefoot.core.evidence import Evidence
from surefoot.core.parameters import check_choice, check_number, value_of
from surefoot.evidence.episode_values import ESTIMATORS, FEWEST_EFFECTIVE, GAIN, Standard
from surefoot.evidence.gain_test import MIXTURE_ALPHAS, best_of, mixtures
from surefoot.evidence.units import FEWEST_IN_PART, split_episodes
from surefoot.problems import Problem
from surefoot.statistics.bounds import APPROXIMATE_BOUNDS, FLOORED


@dataclass(frozen=True)
class HCPI(Whole):
    """(1 - alpha) pi_hat + alpha pi_b  if held-out episodes show at level delta that it is better
    than pi_b, else pi_b.

    Thomas, Theocharous & Ghavamzadeh, "High Confidence Policy Improvement", ICML 2015; the mixtures
    as in Satija et al. 2021. A random `share` of the episodes makes pi_hat, with the algorithm
    `propose` ("ramdp kappa=0.1": a name, then its parameters), and chooses alpha (0, 0.1, ..., 0.9)
    and the cap of the bound; the others are used for one test. estimator and bound as in
    `surefoot.evidence.Standard`: "betting", "maurer-pontil" and "hoeffding" are finite-sample,
    "student-t" and "bca" approximate ("dr" values need one of these). An approximate bound counts
    only where the weights leave `fewest_effective` episodes (0, as in the literature, lets "dr"
    accept what the model promises where no episode says anything). The verdict is in the notes of
    the solution. Needs the log, of at least 4 episodes, and the true baseline.
    """

    name: ClassVar[str] = "hcpi"
    taxonomy: ClassVar[str] = RESTRICTS
    needs_log: ClassVar[bool] = True
    delta: float
    estimator: str = "pdis"
    bound: str = "betting"
    propose: str = "basic-rl"
    share: float = 0.2
    seed: int = 0
    fewest_effective: float = FEWEST_EFFECTIVE

    def __post_init__(self) -> None:
        check_number(self, "delta", low=0, high=0.5, open_low=True)
        check_choice(self, "estimator", ESTIMATORS)
        check_choice(self, "bound", (*FLOORED, *APPROXIMATE_BOUNDS))
        check_number(self, "share", low=0.01, high=0.99)
        check_number(self, "seed", low=0, whole=True, finite=True)
        check_number(self, "fewest_effective", low=0, finite=True)
        # refuses "dr" with a bound that needs a floor
        Standard(delta=self.delta, estimator=self.estimator, bound=self.bound)
        self.proposer  # noqa: B018 - refuses what is no algorithm

    @property
    def proposer(self) -> Algorithm:
        """The algorithm that makes pi_hat."""
        from surefoot.algorithms import algorithm  # the list that this class is part of

        try:
            if not isinstance(self.propose, str) or not self.propose.split():
                raise ParameterError("it is a name, then key=value for each parameter")
            name, *parameters = self.propose.split()
            if name == self.name:
                raise ParameterError("it cannot propose to itself")
            pairs = (x.partition("=") for x in parameters)
            return algorithm(name, **{key: value_of(value) for key, _, value in pairs})
        except (ParameterError, UnknownNameError) as error:
            words = (
                f"{self.name}: propose must be an algorithm such as 'ramdp kappa=0.1' ({error}),"
                f" got {self.propose!r}"
            )
            raise ParameterError(words) from error

    def solve(self, problem: Problem) -> Solution:
        """Split, propose, choose the mixture, test it once."""
        log, pi_b = self._log(problem), np.asarray(problem.pi_b[0])
        rng = np.random.default_rng(int(self.seed))
        training, held_out = split_episodes(log, rng, self.share)
        try:
            proposed = solve(problem.with_log(training), self.proposer)
        except NotAvailableError as trouble:
            raise NotAvailableError(
                f"{self.name}: {self.proposer.name} cannot propose a policy: {trouble}"
            ) from trouble
        candidates = mixtures(np.asarray(proposed.pi[0]), pi_b)
        standard = self._standard(problem)
        try:
            pi, row, promises = best_of(
                training, held_out, candidates, pi_b, problem.gamma, standard, rng=rng
            )
            said = (row.trouble,) if row.trouble else row.notes
            notes = (self._words(row, int(np.argmax(promises))), *said, *proposed.notes)
        except NotAvailableError as trouble:
            words = f"{self.name}: the baseline is kept, for no candidate can be judged: {trouble}"
            pi, notes = pi_b, (words,)
        return Solution(np.array(pi)[None], proposed.q, proposed.status, notes=notes)

    def _log(self, problem: Problem) -> Batch:
        if problem.log is None or problem.pi_b.shape[0] != 1:
            raise NotAvailableError(
                f"{self.name} splits the episodes of the log, but the problem has none (it was"
                " built from counts, or is a batch): build each problem from its log with"
                " surefoot.problem"
            )
        if problem.pi_b_estimated:
            raise NotAvailableError(
                f"{self.name} weighs episodes by the baseline that made them, but it is estimated"
                " here: give the baseline itself"
            )
        if problem.log.n_episodes < 2 * FEWEST_IN_PART:
            raise NotAvailableError(
                f"{self.name} needs {2 * FEWEST_IN_PART} episodes, the log has"
                f" {problem.log.n_episodes}: one long trajectory cannot be split"
            )
        return problem.log

    def _words(self, row: Evidence, chosen: int) -> str:
        """What was decided, in one sentence; `chosen` is the number of the mixture."""
        if row.trouble:
            return (
                f"{self.name}: the baseline is kept, for {self.proposer.name} proposes nothing else"
            )
        alpha = MIXTURE_ALPHAS[chosen]
        word = "accepted" if row.positive else "rejected, and the baseline kept"
        return (
            f"{self.name}: {1 - alpha:g} x {self.proposer.name} + {alpha:g} x baseline is {word}:"
            f" {GAIN} >= {row.low:.4g} at delta {self.delta:g} on {row.units} episodes not learned"
            f" from ({self.estimator}, {self.bound}; {row.validity})"
        )

    def _standard(self, problem: Problem) -> Standard:
        """The standard with the ranges that the problem declares."""
        returns, vouched = problem.return_range, problem.rewards_declared
        vouched = vouched or problem.reward_table is not None
        return Standard(
            delta=self.delta,
            estimator=self.estimator,
            bound=self.bound,
            reward_range=problem.reward_range if vouched else None,
            return_range=(returns.lo, returns.hi) if returns.declared else None,
            fewest_effective=self.fewest_effective,
        )
