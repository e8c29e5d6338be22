"""Random row problems, and the oracles the tests of `rows` share: HiGHS, and the cost of a row
written out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

KINDS = ("soft", "lower", "asymmetric", "spibb", "masked")
SIZES = range(2, 26)

quietly = settings(deadline=None, max_examples=60)  # a slow machine is no failure


@dataclass(frozen=True)
class Rows:
    """Row problems: q, b, up, down, w [n, A] and budget [n]; n is never A."""

    q: np.ndarray
    b: np.ndarray
    up: np.ndarray
    down: np.ndarray
    budget: np.ndarray
    w: np.ndarray

    @property
    def problem(self) -> tuple[np.ndarray, ...]:
        return self.q, self.b, self.up, self.down, self.budget

    @property
    def scale(self) -> np.ndarray:
        return 1 + np.abs(self.q).max(axis=-1)

    def take(self, which: np.ndarray) -> Rows:
        return Rows(*(getattr(self, f.name)[which] for f in fields(self)))


def random_rows(rng: np.random.Generator, n: int, n_actions: int, kind: str) -> Rows:
    """ties, zero and deterministic baselines, equal, zero and infinite costs, budgets of 0, w =
    -q.
    """

    def some(share: float) -> np.ndarray:
        return rng.random((n, 1)) < share

    def costs() -> np.ndarray:
        e = np.where(some(0.3), 1.0, rng.uniform(0.05, 3, (n, n_actions)))
        e = np.where(some(0.4) & (rng.random(e.shape) < 0.2), np.inf, e)
        return np.where(some(0.1) & (rng.random(e.shape) < 0.3), 0.0, e)

    q = rng.normal(size=(n, n_actions)) * 10 ** rng.uniform(-1, 1.6, (n, 1))
    q = np.where(some(0.3), np.round(q), q)
    b = rng.dirichlet(np.ones(n_actions), n)
    b = np.where(some(0.5) & (rng.random(b.shape) < 0.3), 0, b)
    b = np.where(
        some(0.1) | (b.sum(axis=1, keepdims=True) == 0),
        np.eye(n_actions)[rng.integers(n_actions, size=n)],
        b,
    )
    b = b / b.sum(axis=1, keepdims=True)
    up = costs()
    down = {"lower": np.zeros_like(up), "asymmetric": costs()}.get(kind, up)
    if kind == "spibb":
        up = np.where(rng.random(q.shape) < 0.4, np.inf, 0.0)
        down = np.where(some(0.5), up, 0.0)
    if kind == "masked":
        mask = (rng.random(q.shape) < 0.3) & (b < b.max(axis=1, keepdims=True))
        b = np.where(mask, 0, b) / np.where(mask, 0, b).sum(axis=1, keepdims=True)
        up, down = np.where(mask, np.inf, up), np.where(mask & some(0.5), np.inf, down)
    budget = np.where(some(0.1)[:, 0], 0, rng.uniform(0, 2.7, n) ** 2)
    w = np.where(some(0.3), np.round(q + 2 * rng.normal(size=q.shape)), rng.normal(size=q.shape))
    w = np.where(some(0.15), -q, w)
    return Rows(q, b, up, down, budget, w)


def batches(kind: str, per_size: int, seed: int = 0) -> Iterator[Rows]:
    """One batch of `per_size` random rows for every number of actions from 2 to 25."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    for n_actions in SIZES:
        yield random_rows(rng, per_size + (per_size == n_actions), n_actions, kind)


def cost(pi: np.ndarray, b: np.ndarray, up: np.ndarray, down: np.ndarray) -> np.ndarray:
    """sum_a up_a (pi_a - b_a)^+ + down_a (b_a - pi_a)^+, where an infinite cost of nothing is 0."""
    price = np.where(pi > b, up, np.where(pi < b, down, 0.0))
    return np.where(pi == b, 0.0, price * np.where(pi == b, 1.0, np.abs(pi - b))).sum(axis=-1)


def linear_programs(rows: Rows, advantage: bool = False) -> np.ndarray:
    """The gain q . (pi - b) of every row by HiGHS, in the variables (pi - b)^+ and (b - pi)^+; NaN
    where HiGHS fails.

    The rows are blocks of one linear program (a call costs ten times what it solves); if it fails,
    each half is tried.
    """
    n, width = len(rows.q), 2 * rows.q.shape[1]

    def block_diagonal(x: np.ndarray) -> csr_array:
        return csr_array(
            (x.ravel(), np.arange(n * width), np.arange(0, n * width + 1, width)),
            shape=(n, n * width),
        )

    def both(up: np.ndarray, down: np.ndarray) -> np.ndarray:
        return np.concatenate([up, down], axis=1)

    costs, most = both(rows.up, rows.down), both(np.full_like(rows.b, np.inf), rows.b)
    limits, at_most = [block_diagonal(np.where(costs < np.inf, costs, 0.0))], [rows.budget]
    if advantage:
        limits, at_most = [*limits, block_diagonal(both(-rows.w, rows.w))], [*at_most, np.zeros(n)]
    value = both(rows.q, -rows.q)
    answer = linprog(
        -value.ravel(),
        A_ub=vstack(limits),
        b_ub=np.concatenate(at_most),
        A_eq=block_diagonal(both(np.ones_like(rows.q), -np.ones_like(rows.q))),
        b_eq=np.zeros(n),
        bounds=np.stack([np.zeros(n * width), np.where(costs < np.inf, most, 0.0).ravel()], axis=1),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.status == 0:
        return (value * answer.x.reshape(n, width)).sum(axis=1)
    halves = np.array_split(np.arange(n), 2)
    return (
        np.array([np.nan])
        if n == 1
        else np.concatenate([linear_programs(rows.take(h), advantage) for h in halves])
    )


def shortfalls(rows: Rows, pi: np.ndarray, advantage: bool = False) -> np.ndarray:
    """HiGHS's gain minus that of pi, scaled by 1 + max|q|, for the rows that HiGHS solves."""
    gain = linear_programs(rows, advantage)
    return ((gain - (rows.q * (pi - rows.b)).sum(axis=1)) / rows.scale)[~np.isnan(gain)]


@st.composite
def small_rows(
    draw: st.DrawFn, n_actions: tuple[int, int] = (2, 7), infinite: bool = True, free: bool = True
) -> Rows:
    """A single row [A] of small dyadic numbers, full of ties: every sum and product in it is
    exact.
    """
    size = draw(st.integers(*n_actions))

    def numbers(of: st.SearchStrategy[float]) -> np.ndarray:
        return np.array(draw(st.lists(of, min_size=size, max_size=size)), dtype=float)

    costs = st.integers(0 if free else 1, 8).map(lambda x: x / 4)
    costs = st.one_of(costs, st.just(np.inf)) if infinite else costs
    weights = numbers(st.integers(0, 4))
    weights[draw(st.integers(0, size - 1))] += 1
    whole = 2.0 ** np.ceil(np.log2(weights.sum()))
    weights[0] += whole - weights.sum()
    q, w = numbers(st.integers(-6, 6)), numbers(st.integers(-6, 6))
    up, down = numbers(costs), numbers(costs)
    down = draw(st.sampled_from([up, np.zeros_like(up) if free else up, down]))
    return Rows(q, weights / whole, up, down, np.array(draw(st.integers(0, 24)) / 8), w)
