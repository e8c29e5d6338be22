"""Certificate: a lower bound on v^pi - v^{pi_b}, with all that must be true for it to hold; and
what every bound needs of its problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from surefoot.core.arrays import times, to_numpy
from surefoot.core.errors import NotAvailableError, PolicyError
from surefoot.core.evidence import APPROXIMATE, RIGOROUS, Evidence
from surefoot.core.parameters import check_choice, check_number
from surefoot.planning.ambiguity import OF_START, least_mean, left_for_values, start_is_estimated
from surefoot.problems import Problem

BAYESIAN = "Bayesian"  # a statement about a posterior
START, OF_LOG, EVERYWHERE = "start", "starts of the log", "every state"
STARTS = (START, OF_LOG)  # where a bound is a mean over starts
ASSUMES_MARKOV = (
    "what follows a state and an action depends on these two alone, in episodes to come as in"
    " the log"
)
OWN_LOG = "the log was collected by the baseline pi_b"
DOUBLINGS = 40  # how often the log is doubled, at most, in the search for the data needed
STILL = 1e-12  # a probability that differs from the baseline's by no more has not moved
SLACK = 1e-9  # what rounding may do to a probability row


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """With probability at least 1 - delta over the data:  `bounded`  >=  bound.

    where: "start" (the mean over the starts of episodes to come: where it is estimated, part of
    delta pays for it), "starts of the log" (the mean over those in the log) or "every state".
    label: "rigorous", "approximate", "Bayesian", or "asymptotic". data: "training" if the
    policy may have been chosen with the same data, else "fresh". n_smallest, n_typical: returns, or
    transitions, behind the pairs the bound rests on (the least, the median). search: finds
    (data_needed, data_needed_why), the rows of log at which the bound would reach 0 (inf: at none).
    changed: in how many states the policy is not the baseline; lowest: lo - hi of returns. waived:
    the keys of what the log says against it, and was passed over as asked.
    """

    method: str
    bounded: str
    where: str
    bound: float
    delta: float
    label: str
    data: str
    assumptions: tuple[str, ...]
    n_smallest: float
    n_typical: float
    changed: int
    lowest: float
    search: Callable[[], tuple[float, str]] = field(repr=False, compare=False)
    notes: tuple[str, ...] = field(default=())
    waived: tuple[str, ...] = ()

    @cached_property
    def _needed(self) -> tuple[float, str]:
        return self.search()

    @property
    def data_needed(self) -> float:
        """Rows of log at which the bound would reach 0: searched for when first asked for."""
        return self._needed[0]

    @property
    def data_needed_why(self) -> str:
        """The reasoning behind `data_needed`."""
        return self._needed[1]

    def __reduce__(self) -> tuple[Any, ...]:
        needed = self._needed  # what searches cannot be sent to another process, what it found can
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return _with_found, (given | {"search": None}, needed)

    @property
    def vacuous(self) -> bool:
        """Whether it says no more than the return range does: it lies at or below lo - hi."""
        return not self.bound > self.lowest

    @property
    def useful(self) -> bool:
        """Whether it proves a changed policy no worse."""
        return self.changed > 0 and self.bound >= 0

    @property
    def evidence(self) -> Evidence:
        """What it says of the whole, as a row: there is no bound from above."""
        return Evidence(
            low=self.bound, high=math.inf, delta=self.delta, validity=self.label,
            units=int(self.n_smallest), unit="samples", assumes=self.assumptions, notes=self.notes,
        )  # fmt: skip

    def __str__(self) -> str:
        verdict = "not useful" if self.changed else "policy unchanged"
        verdict = "useful" if self.useful else "vacuous" if self.vacuous else verdict
        holds = f"with probability at least {1 - self.delta:g}"
        needed = f"about {self.data_needed:.2g} rows"
        if math.isinf(self.data_needed):
            needed = "no amount of data"
        lines = [
            f"{self.bounded} >= {self.bound:.6g} {holds} ({self.label}; {verdict})",
            (
                f"  method {self.method}, {self.changed} states changed, {self.n_smallest:g}"
                f" samples at least, {self.n_typical:g} typically"
            ),
            f"  to reach 0: {needed} ({self.data_needed_why})",
        ]
        lines += [f"  assumes: {x}" for x in self.assumptions]
        return "\n".join(lines + [f"  note: {x}" for x in self.notes])


def _with_found(given: dict[str, Any], needed: tuple[float, str]) -> Certificate:
    """A certificate whose search is over."""
    return Certificate(**given | {"search": lambda: needed})


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Abstract: a bound with its parameters; `surefoot.certificates.certify` is the door for users.

    where: "start", "starts of the log" or "every state"; see `Certificate`.
    """

    name: ClassVar[str] = "certify"
    places: ClassVar[tuple[str, ...]] = (START, OF_LOG, EVERYWHERE)
    delta: float = 0.05
    where: str = START

    def __post_init__(self) -> None:
        check_number(self, "delta", low=0, high=1, open_low=True)
        check_choice(self, "where", self.places)

    def certify(self, problem: Problem, pi: np.ndarray) -> Certificate:
        """The certificate of a policy [S, A] that was `checked`."""
        raise NotImplementedError

    def checked(self, problem: Problem, pi: Any) -> np.ndarray:
        """The policy as [S, A]; raise unless a certificate may be given for it at all."""
        name, labels = self.name, problem.labels
        if problem.batch_shape:
            raise NotAvailableError(
                f"{name}: one problem at a time, got a batch of shape {problem.batch_shape}"
            )
        if problem.gamma >= 1:
            raise NotAvailableError(
                f"{name}: gamma = 1: the bound divides by 1 - gamma; use a gamma below 1"
            )
        if problem.pi_b_estimated:
            raise NotAvailableError(
                f"{name}: the baseline is estimated from the log, and the proof compares with the"
                " true one: give the baseline itself"
            )
        pi = to_numpy(pi).astype(float)
        if pi.shape != tuple(problem.pi_b.shape):
            raise PolicyError(
                f"{name}: the policy must be [S, A] = {list(problem.pi_b.shape)}, got"
                f" {list(pi.shape)}"
            )
        sound = (pi >= -SLACK).all(axis=-1) & (abs(pi.sum(axis=-1) - 1) <= SLACK)
        wrong = ~sound & ~problem.terminal
        if wrong.any():
            raise PolicyError(
                f"{name}: the policy in state {labels.state(np.argmax(wrong))} is no probability"
                f" row ({int(wrong.sum())} such rows)"
            )
        masked = (pi > STILL) & ~to_numpy(problem.allowed) & ~problem.terminal[:, None]
        if masked.any():
            s, a = np.argwhere(masked)[0]
            raise PolicyError(
                f"{name}: the policy takes {labels.pair(s, a)}, which is not allowed"
                f" ({int(masked.sum())} such pairs)"
            )
        pi_b = to_numpy(problem.pi_b)
        pi = pi / np.where(problem.terminal, 1.0, pi.sum(axis=-1))[:, None]
        still = (abs(pi - pi_b) <= STILL) | problem.terminal[:, None]
        return np.where(still, pi_b, pi)

    def pays_for_start(self, problem: Problem) -> bool:
        """Whether part of delta pays for an estimated start of episodes to come."""
        return self.where == START and start_is_estimated(problem)

    def left(self, problem: Problem) -> float:
        """The part of delta that remains for values or rows."""
        return left_for_values(problem, self.delta) if self.where == START else float(self.delta)

    def mean_at_start(self, problem: Problem, h: np.ndarray, scale: float) -> float:
        """The mean of h [S] over the starts, or the least that estimated starts allow."""
        if self.pays_for_start(problem):
            return least_mean(problem, h, OF_START * self.delta, scale)
        return float(times(h, to_numpy(problem.start)).sum())

    def _start_sentences(self, problem: Problem) -> tuple[str, str, tuple[str, ...]]:
        """(what is bounded, what is assumed of the start or "", notes on it)."""
        what, n = "v^pi - v^{pi_b}", problem.start_episodes
        if self.where == EVERYWHERE:
            return f"{what} in every state", "", ()
        if self.where == OF_LOG and n is None:
            raise NotAvailableError(
                f"{self.name}: the start was given, not read off the episodes of the log: ask for"
                f' where="{START}"'
            )
        if self.where == OF_LOG:
            return f"{what} averaged over the starts of this log", "", ()
        if n == 1:
            return f"{what} from where the one episode of the log starts", "", ()
        if n is None:
            if problem.start_visits:
                return f"{what} averaged over the visits of this log", "", ()
            return f"{what} at the start", "episodes start as given", ()
        assumed = (
            f"episodes to come start like the {n} of the log, which start independently of each"
            " other, in states that the problem has"
        )
        note = (
            "the start is estimated, and paid for: give start if you know it, or ask for"
            f' where="{OF_LOG}"'
        )
        return f"{what} at the start", assumed, (note,)

    def certificate(
        self,
        problem: Problem,
        pi: np.ndarray,
        bound_at: Callable[[float], float],
        *,
        label: str,
        assumptions: tuple[str, ...],
        n: Any,
        data: str = "training",
        notes: tuple[str, ...] = (),
    ) -> Certificate:
        """The certificate of a bound that is a function of the amount of data (1 is this log),
        with n samples behind each pair.
        """
        moved = pi != problem.pi_b
        bound = float(bound_at(1.0)) if moved.any() else 0.0
        behind = to_numpy(n)[moved] if moved.any() else to_numpy(n)[~problem.terminal]
        rows = float(to_numpy(problem.n_sa).sum())
        if not moved.any():
            notes += ("the policy is the baseline: the difference is 0, which needs no proof",)
        what, assumed, said = self._start_sentences(problem)
        if (problem.n_unfollowed or problem.n_dropped) and label == RIGOROUS:
            label = APPROXIMATE
        return Certificate(
            method=self.name,
            bounded=what,
            where=self.where,
            bound=bound,
            delta=float(self.delta),
            label=label,
            data=data,
            assumptions=assumptions + ((assumed,) if assumed else ()) + rows_left_out(problem),
            n_smallest=float(behind.min()) if behind.size else 0.0,
            n_typical=float(np.median(behind)) if behind.size else 0.0,
            changed=int(moved.any(axis=-1).sum()),
            lowest=-problem.return_range.width,
            search=lambda: _data_needed(bound, bound_at, rows),
            notes=notes + said,
        )


def _data_needed(
    bound: float, bound_at: Callable[[float], float], rows: float
) -> tuple[float, str]:
    """By which power of two the log must grow for the bound to reach 0, estimates as now."""
    if bound >= 0:
        return rows, "it does already"
    most = bound_at(2.0**DOUBLINGS)
    if not most >= 0:
        why = (
            "with these estimates, and unseen pairs unseen, the bound stays below 0 however much"
            " the log grows"
        )
        return math.inf, why
    # Most bounds are about most - b / sqrt(scale): where that is 0 the search begins. An evaluation
    # may be a robust plan: few of them.
    doublings = DOUBLINGS
    if most > 0 and math.isfinite(bound):
        doublings = min(max(math.ceil(2 * math.log2((most - bound) / most)), 1), DOUBLINGS)
    while doublings < DOUBLINGS and not bound_at(2.0**doublings) >= 0:
        doublings += 1
    while doublings > 1 and bound_at(2.0 ** (doublings - 1)) >= 0:
        doublings -= 1
    why = (
        "within a factor of 2: all counts grown by one factor, the same policy and estimates, the"
        " radii recomputed"
    )
    return rows * 2.0**doublings, why


def no_other_state(problem: Problem) -> str:
    """What bounds on rows of transitions assume of the states."""
    return f"there is no state but the {problem.n_bound_states} of the problem"


def unknown_lengths(problem: Problem) -> tuple[str, ...]:
    """What bounds on rows assume where steps take unequal time; nothing where they do not."""
    log = problem.log
    if log is None or log.survives is None or not log.cuts.any():
        return ()
    return ("the steps before cuts, of unknown length, took as long as others of their pair",)


def rows_left_out(problem: Problem) -> tuple[str, ...]:
    """What is assumed of rows that were left out: since they are bad, or since nothing is known to
    follow them.
    """
    found = []
    if problem.n_dropped:
        found.append(f"the {problem.n_dropped:,} bad rows left out are like those that are used")
    if problem.n_unfollowed:
        found.append(
            f"the {problem.n_unfollowed:,} rows that did not end and are left out, as nothing is"
            " known to follow them, are like those that are used: give next_state"
        )
    elif problem.time_limit:
        found.append(f"every episode that had not ended was cut after {problem.time_limit} rows")
    return tuple(found)


def range_sentences(problem: Problem) -> tuple[str, ...]:
    """What is assumed of the range of returns."""
    lo, hi = problem.return_range.lo, problem.return_range.hi
    declared, (least, most) = problem.return_range.declared, problem.reward_range
    rests = "the shortest step of the log: declare return_range"
    if not problem.rewards_declared:
        rests = "observed rewards: declare reward_range"
    how = "as declared" if declared else f"which rests on {rests}"
    sentence = f"no return from any state on lies outside [{lo:g}, {hi:g}], {how}"
    # A single reward may be a return, if an episode ends there.
    if to_numpy(problem.terminal).any() or lo <= least <= most <= hi:
        return (sentence,)
    return sentence, "no episode ever ends: the problem has no terminal state"
