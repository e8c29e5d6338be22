"""Worlds: the true MDPs of trials, which no algorithm sees, and their baselines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from surefoot.core import Counts, DenseModel, Returns, SparseModel
from surefoot.core.arrays import (
    Array,
    count_up,
    device_of,
    is_numpy_array,
    namespace,
    row_sum,
    to_numpy,
)
from surefoot.planning import evaluate_at_start, optimal
from surefoot.problems import Problem, ReturnRange, problem

LARGE = 300  # states from which one world is evaluated by sparse sweeps


@dataclass(frozen=True, repr=False, kw_only=True)
class Worlds:
    """W true MDPs, one a trial, or one that all trials share (W = 1).

    successor, probability [W, S, A, K]: where each pair leads (a padding entry has probability 0; a
    state may occur twice); reward_table [W, 1 or S, 1 or A, S']; pi_b and allowed [W, S, A]; start
    and terminal [W, S]. No trial leaves a terminal state. Policies are valued at `start`; logs
    begin there, too, or as `log_start` [W, S] says.
    """

    successor: Array
    probability: Array
    reward_table: Array
    pi_b: Array
    start: Array
    terminal: Array
    allowed: Array
    gamma: float
    reward_range: tuple[float, float]
    return_range: ReturnRange
    log_start: Array | None = None

    def __repr__(self) -> str:
        w, s, a = self.pi_b.shape
        return f"Worlds({w} of {s} states x {a} actions, gamma {self.gamma:g})"

    @property
    def n_states(self) -> int:
        """S."""
        return int(self.pi_b.shape[-2])

    @property
    def n_actions(self) -> int:
        """A."""
        return int(self.pi_b.shape[-1])

    @cached_property
    def p(self) -> Array:
        """P(s'|s, a), dense [W, S, A, S]."""
        return dense_rows(self.successor, self.probability, self.n_states)

    @cached_property
    def model(self) -> DenseModel:
        """The true MDPs; terminal states have the value 0."""
        xp = namespace(self.p)
        live = xp.astype(~self.terminal, self.p.dtype)[..., None] * xp.ones_like(self.pi_b)
        r = row_sum(self.p * self.reward_table) * live
        return DenseModel(self.p, live, r, self.gamma)

    def value(self, pi: Array) -> Array:
        """rho: the exact value at the start of one policy a trial, pi [B, S, A] -> [B].

        In one large world to 1e-12 of its width.
        """
        if not self._alone:
            return evaluate_at_start(self.model_for(pi.shape[0]), pi, self.start)
        near = 1e-12 * self.return_range.width
        values = [evaluate_at_start(self._sparse, x[None], self.start, tolerance=near) for x in pi]
        return np.concatenate(values)

    @property
    def _alone(self) -> bool:
        """Whether this is one large world, whose dense arrays are avoided."""
        alone = self.pi_b.shape[0] == 1 and is_numpy_array(self.pi_b)
        return alone and self.n_states >= LARGE and self.gamma < 1

    @cached_property
    def _sparse(self) -> SparseModel:
        """One true MDP by its successors alone: with 700 states, ten times as fast."""
        return listed_model(
            self.successor[0],
            self.probability[0],
            self.reward_table[0],
            np.flatnonzero(self.terminal[0]),
            self.gamma,
        )

    def model_for(self, n: int) -> DenseModel:
        """The true MDPs of n trials, also where they share one."""
        transitions, weight, r = (
            _repeat(x, n) for x in (self.model.transitions, self.model.weight, self.model.r)
        )
        return DenseModel(transitions, weight, r, self.gamma)

    @cached_property
    def rho_b(self) -> Array:
        """The value of the baseline, [W]."""
        if self._alone:
            return self.value(self.pi_b)
        return evaluate_at_start(self.model, self.pi_b, self.start)

    @cached_property
    def rho_star(self) -> Array:
        """The value of the optimal policy over allowed actions, [W]."""
        if self._alone:
            return self.value(optimal(self._sparse, self.allowed).pi[None])
        return evaluate_at_start(self.model, optimal(self.model, self.allowed).pi, self.start)

    def problem(self, counts: Counts, returns: Returns | None, **options: Any) -> Problem:
        """What an algorithm may know of data sets [B], or [sizes * B], sampled here."""
        names = ("pi_b", "start", "terminal", "allowed")
        n, table = counts.n_sas.shape[0], self.reward_table
        parts = {name: _repeat(getattr(self, name), n) for name in names}
        shape = (table.shape[0], self.n_states, *table.shape[2:])
        parts["reward_table"] = _repeat(namespace(table).broadcast_to(table, shape), n)
        return Problem(
            counts=counts,
            gamma=self.gamma,
            return_range=self.return_range,
            reward_range=self.reward_range,
            returns_given=returns,
            **parts,
            **options,
        )

    def only(self, trial: int) -> Worlds:
        """The world of one trial by itself, in NumPy."""
        names = ("successor", "probability", "reward_table", "pi_b", "start", "terminal", "allowed")
        w = trial if self.pi_b.shape[0] > 1 else 0
        parts: dict[str, Any] = {
            name: to_numpy(getattr(self, name)[w : w + 1, ...]) for name in names
        }
        if self.log_start is not None:
            parts["log_start"] = to_numpy(self.log_start[w : w + 1, ...])
        return replace(self, **parts)

    def problem_of_log(
        self, log: dict[str, Any], *, sparse: bool = True, **options: Any
    ) -> Problem:
        """The same for one log of a world by itself (NumPy), with sparse counts or dense ones."""
        table = self.reward_table[0]
        table = table[:, 0, :] if table.shape[1] == 1 else table
        return problem(
            **log,
            pi_b=self.pi_b[0],
            gamma=self.gamma,
            start=self.start[0],
            terminal_states=np.flatnonzero(self.terminal[0]),
            n_states=self.n_states,
            n_actions=self.n_actions,
            allowed=self.allowed[0],
            reward_table=table[0] if len(table) == 1 else table,
            reward_range=self.reward_range,
            return_range=(self.return_range.lo, self.return_range.hi),
            sparse=sparse,
            **options,
        )


def _repeat(x: Array, n: int) -> Array:
    """x [W, ...] for n data sets: of the one world they share, or of all trials for each size."""
    xp, w = namespace(x), x.shape[0]
    if w == n:
        return x
    return xp.broadcast_to(x, (n, *x.shape[1:])) if w == 1 else xp.concat([x] * (n // w), axis=0)


def dense_rows(index: Array, values: Array, n: int) -> Array:
    """[..., n] with values[..., k] added at index[..., k]."""
    xp = namespace(values)
    shape = (*index.shape[:-1], n)
    rows = count_up(math.prod(shape[:-1]), values)
    found = xp.zeros((len(rows), n), dtype=values.dtype, device=device_of(values))
    index, values = (xp.reshape(x, (len(rows), -1)) for x in (index, values))
    for k in range(index.shape[1]):  # one entry a row at a time: a state that occurs twice adds up
        found[rows, index[:, k]] += values[:, k]
    return xp.reshape(found, shape)


def listed_model(
    successor: np.ndarray,
    probability: np.ndarray,
    reward_table: np.ndarray,
    terminal_states: Any,
    gamma: float,
) -> SparseModel:
    """A known MDP from lists of successors [S, A, K] and a reward_table [1 or S, 1 or A, S']."""
    s, a, k = successor.shape
    state, action = np.arange(s)[:, None, None], np.arange(a)[None, :, None]
    reward = np.broadcast_to(reward_table, (s, a, s))[state, action, successor]
    weight = np.ones((1, s, a))
    weight[:, list(terminal_states)] = 0.0
    flat = (probability.reshape(-1), successor.reshape(-1), np.arange(0, s * a * k + 1, k))
    rows = sparse.csr_array(flat, shape=(s * a, s), copy=True)  # what follows works in place
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return SparseModel(rows, weight, weight * (probability * reward).sum(axis=-1)[None], gamma)


def one_world(keys: Array, p: np.ndarray, **facts: Any) -> Worlds:
    """The MDP p [S, A, S] that all trials share; `facts` as in `shared_world`."""
    most = int((p > 0).sum(axis=-1).max())
    order = np.argsort(p <= 0, axis=-1, kind="stable")[..., :most]  # successors, in their order
    return shared_world(keys, order, np.take_along_axis(p, order, axis=-1), **facts)


def shared_world(
    keys: Array,
    successor: np.ndarray,
    probability: np.ndarray,
    *,
    reward_table: np.ndarray,
    pi_b: np.ndarray,
    start: np.ndarray,
    terminal_states: Sequence[int] = (),
    allowed: np.ndarray | None = None,
    log_start: np.ndarray | None = None,
    **facts: Any,
) -> Worlds:
    """The MDP with these lists of successors [S, A, K] and reward_table [1 or S, 1 or A, S'] that
    all trials share: nothing of size S S' is formed. `facts`: gamma and the ranges of `Worlds`.
    """
    xp, device = namespace(keys), device_of(keys)
    arrays = {
        "successor": successor,
        "probability": probability,
        "reward_table": reward_table,
        "pi_b": pi_b,
        "start": start,
        "terminal": np.isin(np.arange(len(pi_b)), list(terminal_states)),
        "allowed": np.ones_like(pi_b, dtype=bool) if allowed is None else allowed,
        **({} if log_start is None else {"log_start": log_start}),
    }
    placed: dict[str, Any] = {
        name: xp.asarray(np.require(x[None], requirements=("C", "W")), device=device)
        for name, x in arrays.items()
    }
    return Worlds(**placed, **facts)
