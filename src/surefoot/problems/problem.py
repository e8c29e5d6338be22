"""Problem: everything an algorithm may know about one data set, or about many at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.core import (
    Batch,
    Counts,
    DenseModel,
    Labels,
    Model,
    Policy,
    Returns,
    SparseModel,
    Support,
    count_batch,
)
from surefoot.core.array_checks import is_table
from surefoot.core.arrays import Array, block_rows, is_numpy_array, namespace, to_numpy
from surefoot.core.counts import read_only
from surefoot.core.errors import BaselineError, NotAvailableError, ProblemError
from surefoot.core.parameters import check_name
from surefoot.core.plain_values import Shown
from surefoot.core.support import Arrivals, arrivals, mean_reward, support
from surefoot.problems.given import SUM_TO_ONE
from surefoot.problems.montecarlo import monte_carlo
from surefoot.problems.ranges import ReturnRange

if TYPE_CHECKING:
    from surefoot.problems.guards import Guard

TIE = 1e-11  # values closer than this share of the return range are equal
# where the start comes from: declared, first states of episodes, all visits
GIVEN, EPISODES, VISITS = "given", "episodes", "visits"
OFF_POLICY = (
    "this needs returns of the baseline, but the propensities say that it did not make this log:"
    " take an algorithm that plans in the model, such as priced-soft-spibb, pi-b-spibb or ramdp"
)


@dataclass(frozen=True, repr=False, kw_only=True)
class Problem(Shown):
    """Counts, baseline and what is declared about the MDP; derived quantities are computed once and
    kept.

    Shapes: pi_b, allowed [..., S, A]; start, terminal [..., S]; leading dimensions are a batch of
    problems (sparse counts: none). `reward_table` [..., S, 1 or A, S'] replaces estimated rewards.
    `n_bound_states` is the S of error functions and bounds (the extra state "(end)" does not
    count). `start_episodes` is the number of independent episodes whose first states `start`
    counts; None: the start is known, or (`start_visits`) it is how often the log was in each state.
    `pi_b_policy`: the code of the policy whose rows pi_b was estimated from, where it is one of
    several. `pi_b_renormalised`: forbidden actions were taken out of pi_b, so it is not the policy
    that made the log. `made_log`: what made it, or seems to, where that is not pi_b: with the
    forbidden actions, and without smoothing (`logging_policy` is either). `others_made_log`:
    propensities say so, of rows that are not carried along. `labels` say what the
    codes stand for. `guards` are columns beside the log's steps that must not get worse
    (`with_guards`). `time_limit`: after so many rows every episode of a log without next states was
    cut (0: not known). `n_unfollowed`: rows left out because they did not end and nothing is known
    to follow them. `n_dropped`: bad rows left out. Build one with `surefoot.problem`, or directly
    for a batch.
    """

    counts: Counts
    pi_b: Array
    gamma: float
    start: Array
    terminal: Array
    allowed: Array
    return_range: ReturnRange
    reward_range: tuple[float, float]
    rewards_declared: bool = False  # whether you vouch for reward_range
    reward_table: Array | None = None
    pi_b_estimated: bool = False
    pi_b_policy: int | None = None
    pi_b_renormalised: bool = False
    made_log: Array | None = None
    others_made_log: bool = False
    unseen_states: str = "baseline"
    ties: str = "baseline"
    cut_returns: str | int = "as-end"
    log: Batch | None = None
    returns_given: Returns | None = None
    n_bound_states: int = 0
    labels: Labels = field(default=Labels(), compare=False)
    notes: tuple[str, ...] = field(default=())
    start_episodes: int | None = None
    start_visits: bool = False
    guards: tuple[Guard, ...] = ()
    time_limit: int = 0
    n_unfollowed: int = 0
    n_dropped: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1:
            raise ProblemError(f"gamma must lie in [0, 1], got {self.gamma!r}")
        check_name("unseen_states", self.unseen_states, ("baseline", "first-action"))
        check_name("ties", self.ties, ("baseline", "lowest-index"))
        if self.start_episodes is not None and self.start_episodes < 1:
            raise ProblemError(
                "start_episodes must be >= 1, or None where the start is known, got"
                f" {self.start_episodes!r}"
            )
        if self.n_bound_states == 0:
            object.__setattr__(self, "n_bound_states", self.n_states)
        _check_shapes(self)
        _check_baseline(self.pi_b, self.terminal, self.allowed, self.labels)
        for name in ("pi_b", "start", "terminal", "allowed"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def _facts(self) -> dict[str, Any]:
        many = {"problems": math.prod(self.batch_shape)} if self.batch_shape else {}
        return {
            **many,
            "states": self.n_states,
            "actions": self.n_actions,
            "share_of_pairs_seen": float(to_numpy(self.seen).sum() / math.prod(self.pi_b.shape)),
            "gamma": self.gamma,
            "baseline": "estimated" if self.pi_b_estimated else "given",
            "return_range": (self.return_range.lo, self.return_range.hi),
            "start": self.start_from,
            "counts": "sparse" if self.counts.is_sparse else "dense",
            "notes": self.notes,
        }

    @property
    def n_states(self) -> int:
        """S, "(end)" included where the log needed it."""
        return int(self.pi_b.shape[-2])

    @property
    def n_actions(self) -> int:
        """A."""
        return int(self.pi_b.shape[-1])

    @property
    def start_from(self) -> str:
        """Where the start comes from: "given", "episodes" or "visits"."""
        return VISITS if self.start_visits else GIVEN if self.start_episodes is None else EPISODES

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The leading dimensions: () for one problem."""
        return tuple(self.pi_b.shape[:-2])

    @property
    def tolerance(self) -> float:
        """Values closer than this are equal: in ties, and where policies stop to improve."""
        if self.counts.is_sparse:
            return 2 * self.evaluation_tolerance
        return TIE * self.return_range.width + 1e-14 * self.return_range.v_max

    @property
    def evaluation_tolerance(self) -> float:
        """How far values from an iterative (sparse) evaluation may be from exact.

        Small enough that ties decided by it cost at most 5e-10 of the return range in value: (2 +
        2) / 4 / (1 - gamma) of this. The last term is what rounding leaves: a residual of 1e-15
        v_max proves no more.
        """
        rounding = max(1e-13, 1e-15 / (1 - self.gamma)) if self.gamma < 1 else 1e-13
        return (
            1.25e-10 * (1 - self.gamma) * self.return_range.width
            + rounding * self.return_range.v_max
        )

    @cached_property
    def n_sa(self) -> Array:
        """How often each pair was taken, [..., S, A]."""
        return namespace(self.pi_b).reshape(self.counts.n_sa, self.pi_b.shape)

    @cached_property
    def seen(self) -> Array:
        """Pairs taken at least once."""
        return self.n_sa > 0

    @cached_property
    def may_rise(self) -> Array:
        """Pairs whose probability may be raised: seen, allowed, and not in a terminal state."""
        return self.seen & self.allowed & ~self.terminal[..., None]

    @cached_property
    def start_policy(self) -> Array:
        """Where a method without a baseline starts: pi_b; as published, the first allowed action
        in states never acted in.
        """
        if self.unseen_states == "baseline":
            return self.pi_b
        xp = namespace(self.pi_b)
        first = xp.cumulative_sum(xp.astype(self.allowed, xp.int64), axis=-1) == 1
        unseen = ~xp.any(self.seen, axis=-1)[..., None]
        return xp.where(unseen, xp.astype(first & self.allowed, self.pi_b.dtype), self.pi_b)

    @cached_property
    def choosable(self) -> Array:
        """What a method without a baseline chooses from: `may_rise`; as published
        (unseen_states="first-action") all allowed.
        """
        return (
            self.allowed & ~self.terminal[..., None]
            if self.unseen_states == "first-action"
            else self.may_rise
        )

    @cached_property
    def r(self) -> Array:
        """The mean reward of a pair; lo where never seen (its value then), 0 in terminal states."""
        xp = namespace(self.pi_b)
        table = self.reward_table
        if table is not None and self.counts.is_sparse:
            table = table.reshape(1, *table.shape[-3:])
        r = xp.reshape(mean_reward(self.counts, table, self.counts.n_sa), self.pi_b.shape)
        r = xp.where(self.seen, r, self.return_range.lo)
        return xp.where(self.terminal[..., None], 0.0, r)

    @cached_property
    def weight(self) -> Array:
        """1 / n where seen, 0 elsewhere."""
        xp = namespace(self.pi_b)
        return xp.where(self.seen, 1.0 / xp.where(self.seen, self.n_sa, 1.0), 0.0)

    @cached_property
    def model(self) -> Model:
        """The maximum-likelihood model: P = n_sas / n_sa; a pair never seen is worth lo."""
        return self.model_of(self.r, self.weight)

    def model_of(self, r: Array, weight: Array, prior: float = 0.0) -> Model:
        """The model with these rewards and weights of the counts."""
        if self.counts.is_sparse:
            shape = (1, self.n_states, self.n_actions)
            return SparseModel(
                self.counts.n_sas, weight.reshape(shape), r.reshape(shape), self.gamma, prior
            )
        return DenseModel(self.counts.n_sas, weight, r, self.gamma, prior)

    def policy_of(self, pi: Array) -> Policy:
        """A policy for this one problem, with its labels, baseline and counts."""
        if is_table(pi):
            raise ProblemError("a table has labels: put it in order with surefoot.align_policy")
        acting = ~to_numpy(self.terminal)[:, None]
        pi, pi_b = (np.where(acting, to_numpy(x), 0.0) for x in (pi, self.pi_b))
        return Policy(pi=pi, labels=self.labels, baseline=pi_b, count=to_numpy(self.n_sa))

    @cached_property
    def support(self) -> Support:
        """The successors seen of every pair, with their counts and rewards (blocks only)."""
        return support(self.counts, self.reward_table)

    @cached_property
    def arrivals(self) -> Arrivals:
        """Rewards of successors never observed (blocks only)."""
        return arrivals(self.counts, self.reward_table, self.reward_range[0])

    @property
    def logging_policy(self) -> Array:
        """The policy that made the log: pi_b as it was before forbidden actions were taken out."""
        return self.pi_b if self.made_log is None else self.made_log

    @property
    def pi_b_is_mixture(self) -> bool:
        """Whether the baseline is what all rows of the log show on average."""
        return self.pi_b_estimated and self.pi_b_policy is None

    @cached_property
    def off_policy(self) -> bool:
        """Whether the log says that another policy than the baseline made it: the propensities of
        its rows are not those of a baseline that was given, or it is one policy of several.
        """
        if self.pi_b_policy is not None or self.others_made_log:
            return True
        if self.log is None or self.pi_b_estimated or len(self.pi_b.shape) > 3:
            return False
        return not self.log.made_by(to_numpy(self.pi_b).reshape(self.pi_b.shape[-2:]))

    @cached_property
    def returns(self) -> Returns:
        """Monte-Carlo returns of the baseline, every visit; computed when first asked for."""
        return self.returns_of("every")

    def returns_of(self, visits: str) -> Returns:
        """Monte-Carlo returns by "every", "first" or "thinned" visits."""
        if visits == "every" and self.returns_given is not None:
            return self.returns_given
        if self.log is None:
            raise NotAvailableError(
                f"this needs Monte-Carlo returns ({visits} visits), but the problem was built from"
                " counts alone: build it from the log with surefoot.problem, or give returns_given"
            )
        if self.off_policy:
            raise NotAvailableError(OFF_POLICY)
        found = monte_carlo(self.log, self.gamma, visits=visits, cut_returns=self.cut_returns)
        return found.map(lambda x: x.reshape(self.pi_b.shape))

    def with_log(self, log: Batch) -> Problem:
        """The same problem with another log; baseline, start and declared facts stay."""
        counts = count_batch(log, *self.pi_b.shape[-2:], as_sparse=self.counts.is_sparse)
        # One problem, with or without a batch dimension of 1.
        counts = counts.map(lambda x: x.reshape(self.batch_shape + x.shape))
        return replace(self, counts=counts, log=log, returns_given=None, notes=())

    @cached_property
    def blocks(self) -> tuple[Problem, ...]:
        """What algorithms work on: one batch dimension, in parts that fit a CPU's cache."""
        lead, count = len(self.batch_shape), math.prod(self.batch_shape)
        size = count
        if is_numpy_array(self.pi_b):
            size = max(1, block_rows(self.n_actions) // self.n_states)
        if lead != 1:
            flat = self._map(lambda x: namespace(x).reshape(x, (-1, *x.shape[lead:])))
            return (flat,) if count <= size else flat.blocks
        if count <= size:
            return (self,)
        return tuple(self._map(itemgetter(slice(i, i + size))) for i in range(0, count, size))

    def _map(self, change: Callable[[Array], Array]) -> Problem:
        """The problem with every batched array changed."""
        given = self.returns_given
        return replace(
            self,
            counts=self.counts.map(change),
            pi_b=change(self.pi_b),
            start=change(self.start),
            terminal=change(self.terminal),
            allowed=change(self.allowed),
            made_log=None if self.made_log is None else change(self.made_log),
            reward_table=None if self.reward_table is None else change(self.reward_table),
            returns_given=None if given is None else given.map(change),
        )


def _check_shapes(problem: Problem) -> None:
    """Arrays fit each other, and the start is a distribution."""
    shape, counts, table = tuple(problem.pi_b.shape), problem.counts, problem.reward_table
    *lead, s, a = shape
    expected = {
        "start": (problem.start, (*lead, s)),
        "terminal": (problem.terminal, (*lead, s)),
        "allowed": (problem.allowed, shape),
        "counts.n_sas": (counts.n_sas, (s * a, s) if counts.is_sparse else (*shape, s)),
    }
    if problem.returns_given is not None:
        expected["returns_given"] = (problem.returns_given.n, shape)
    for name, (x, fits) in expected.items():
        if tuple(x.shape) != fits:
            raise ProblemError(
                f"{name} must have shape {fits} to fit pi_b {shape}, got {tuple(x.shape)}"
            )
    if table is not None and (*table.shape[:-2], table.shape[-1]) != (*lead, s, s):
        raise ProblemError(
            f"reward_table must be [..., S, 1 or A, S'] to fit pi_b {shape}, got"
            f" {tuple(table.shape)}"
        )
    xp = namespace(problem.start)
    if problem.pi_b.dtype != xp.float64 or (
        not counts.is_sparse and counts.n_sas.dtype != xp.float64
    ):
        raise ProblemError(
            f"arrays must be float64: pi_b is {problem.pi_b.dtype}, counts.n_sas is"
            f" {counts.n_sas.dtype}"
        )
    off = xp.abs(xp.sum(problem.start, axis=-1) - 1)
    if not bool(xp.all(problem.start >= 0) & xp.all(off <= 1e-6)):
        raise ProblemError("start must be a distribution over states: entries >= 0 that sum to 1")


def _check_baseline(pi_b: Array, terminal: Array, allowed: Array, labels: Labels) -> None:
    """Every row of the baseline is a probability row over allowed actions."""
    xp = namespace(pi_b)
    off = xp.abs(xp.sum(pi_b, axis=-1) - 1.0)
    good = xp.all(pi_b >= 0, axis=-1) & (off <= SUM_TO_ONE)
    if not bool(xp.all(good)):
        where = np.argwhere(to_numpy(~good))
        first = tuple(int(i) for i in where[0])
        row = to_numpy(pi_b)[first]
        raise BaselineError(
            "each row of pi_b must hold probabilities that sum to 1: state"
            f" {labels.state(first[-1])} has {np.array2string(row, threshold=8)} with sum"
            f" {row.sum():.12g} ({len(where)} such rows)"
        )
    masked = (pi_b > 0) & ~allowed & ~terminal[..., None]
    if bool(xp.any(masked)):
        where = np.argwhere(to_numpy(masked))
        *_, s, a = (int(i) for i in where[0])
        raise BaselineError(
            f"the baseline uses {len(where)} actions that are not allowed, first"
            f" {labels.pair(s, a)} with probability {float(to_numpy(pi_b)[tuple(where[0])]):.4g}:"
            " correct pi_b or the mask, or pass"
            ' --renormalise (masked_baseline="renormalise" in Python)'
        )
