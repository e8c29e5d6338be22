"""One-step evidence, which surefoot does not use: what it would prove, and what stands in the way.

    python measurements/one_step.py [--logs 100] [--benchmark random-mdps|wet-chicken] [--sizes ..]

At every visit of a pair r + gamma v_b(s') has the mean q_b, for the true v_b: no visit is left out,
and what happens after s' adds no scatter. v_b is bounded by the returns of states, |v_b - v| <= e
in all of them (half of delta), and then, for a move m of mass in a state, with y = r + gamma v(s'),

    sum_a m q_b  >=  sum_a m mean(y) - sum_a |m| R - gamma sum_s' |sum_a m P^_a(s')| e(s'),

R the any-time Bernstein radius of the pair's targets (the other half), whose squares are taken at
their largest: (|y_i - m_i| + gamma (e_i + mean of e before i))^2. The width of targets is what v
and e leave possible. In cycles v = E X + v* E D; what v* leaves open is common to all states: the
bound is linear in v*, so it is taken at both ends of its interval. A log is proved if some state
has a move, of mass from one action to another, with a bound above 0. Beside it the same by returns
(`certified-advantage`), and by one-step targets if somebody told us v_b (e = 0): the most that the
idea can give.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

import surefoot
from certificates import Cell, _benchmark, _data_sets
from surefoot.core.arrays import to_numpy
from surefoot.evidence.return_evidence import bracket, evidence, regenerations_of, star_interval
from surefoot.evidence.screening import _states_only
from surefoot.problems import Problem
from surefoot.statistics.radii import any_time_bernstein, squares_in_order

SIZES = {"random-mdps": (2000, 5000, 10_000), "wet-chicken": (100_000, 200_000)}
DELTA = 0.05


@dataclass(frozen=True)
class Values:
    """|v_b - v| <= e in every state [S] for a v between two ends; share: of delta that is left."""

    ends: tuple[np.ndarray, ...]
    e: np.ndarray
    share: float


def by_returns(problem: Problem) -> Values:
    """First visits of states in episodes, or in cycles of one trajectory: on-policy, all actions
    together.
    """
    log, ends, size = problem.log, problem.return_range, problem.n_states
    assert log is not None
    only, middle, share = _states_only(log), 0.5 * (ends.lo + ends.hi), DELTA / 2
    if log.n_episodes > 1:
        rows, of_star = np.sort(only.first_visits), 0.0
        low, high = bracket(problem, log, rows, len(log))
    else:
        of_star = 0.1
        cycles = regenerations_of(only, problem.gamma)
        rows = cycles.row
        star = star_interval(cycles, problem, of_star * share, "bernstein")
        low, high = (cycles.x + v * cycles.d for v in star)
    n = np.bincount(log.state[rows], minlength=size).astype(float)
    means = [np.bincount(log.state[rows], x, size) / np.maximum(n, 1.0) for x in (low, high)]
    squares = [squares_in_order(log.state[rows], x, size, middle) for x in (low, high)]
    variance = np.max(squares, axis=0) / np.maximum(n, 1.0)
    e = any_time_bernstein(n, variance, (1 - of_star) * share / size, ends.width)
    if of_star == 0:  # what cuts leave open is no common number
        e, means = e + 0.5 * (means[1] - means[0]), [0.5 * (means[0] + means[1])]
    seen, terminal = (n > 0) & (e < 0.5 * ends.width), to_numpy(problem.terminal)
    e = np.where(terminal, 0.0, np.where(seen, e, 0.5 * ends.width))
    v = (np.where(terminal, 0.0, np.where(seen, x, middle)) for x in means)
    return Values(tuple(v), e, share)


def proved_by_one_step(problem: Problem, values: Values) -> float:
    """The largest bound of any move, over states."""
    log, returns, gamma = problem.log, problem.return_range, problem.gamma
    assert log is not None
    shape = problem.n_states, problem.n_actions
    size, pair, b = shape[0] * shape[1], log.pair, to_numpy(problem.pi_b)
    n = np.bincount(pair, minlength=size).astype(float)
    some = np.maximum(n, 1.0)
    table = to_numpy(problem.reward_table).reshape(-1, shape[0])
    edges = [x + sign * values.e for x in values.ends for sign in (-1, 1)]
    edges = [np.clip(table + gamma * x, returns.lo, returns.hi) for x in edges]
    least, most = float(np.min(edges)), float(np.max(edges))
    e, targets = gamma * values.e[log.next_state], []
    for v in values.ends:
        targets.append(log.reward + gamma * v[log.next_state])
    squares = [_squares(pair, y, e, size, 0.5 * (least + most)) for y in targets]
    pairs = int(((b > 0) & ~to_numpy(problem.terminal)[:, None]).sum())
    variance = np.max(squares, axis=0) / some
    radius = any_time_bernstein(n, variance, values.share / pairs, most - least).reshape(shape)
    to = np.zeros((size, shape[0]))
    np.add.at(to, (pair, log.next_state), 1.0)
    p = (to / some[:, None]).reshape(*shape, shape[0])
    apart = gamma * abs(p[:, :, None] - p[:, None]) @ values.e
    q = [(np.bincount(pair, y, size) / some).reshape(shape) for y in targets]
    gain = np.min([x[:, None, :] - x[:, :, None] for x in q], axis=0) - apart
    gain = gain - radius[:, None, :] - radius[:, :, None]
    usable = (b > 0) & (n.reshape(shape) > 0)
    return float(np.where(usable[:, :, None] & usable[:, None, :], gain, -np.inf).max())


def _squares(
    pair: np.ndarray, y: np.ndarray, e: np.ndarray, size: int, middle: float
) -> np.ndarray:
    """sum over i of (|y_i - m_i| + e_i + mean of e before i)^2 in each pair, m_i as in
    `squares_in_order`.
    """
    order = np.argsort(pair, kind="stable")
    group, y, e = pair[order], y[order] - middle, e[order]
    begins = np.append(True, group[1:] != group[:-1])[: len(y)]
    at = np.flatnonzero(begins)[np.cumsum(begins) - 1]
    place = np.arange(len(y)) - at + 1

    def before(x: np.ndarray) -> np.ndarray:
        total = np.cumsum(x) - x
        found: np.ndarray = (total - total[at]) / place
        return found

    return np.bincount(group, (abs(y - before(y)) + e + before(e)) ** 2, size)


def proved_by_returns(problem: Problem) -> float:
    """The same moves by returns of pairs, as `certified-advantage` has them."""
    found = evidence(problem, DELTA, error="bernstein")
    b, q, radius = to_numpy(problem.pi_b), found.mean, found.radius
    usable = (b > 0) & np.isfinite(radius)
    low, high = (np.where(usable, x, y) for x, y in ((q - radius, -np.inf), (q + radius, np.inf)))
    with np.errstate(invalid="ignore"):
        gain = low[:, None, :] - high[:, :, None]
    return float(np.where(usable[:, :, None] & usable[:, None, :], gain, -np.inf).max())


def main() -> None:
    """Shares of logs with a proof."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--benchmark", choices=list(SIZES), nargs="*", default=list(SIZES))
    parser.add_argument("--sizes", type=int, nargs="*")
    options = parser.parse_args()
    print(f"{options.logs} logs, delta {DELTA}: share with a proof, and the median of e / width")
    for name in options.benchmark:
        for size in options.sizes or SIZES[name]:
            found, errors, cell = [], [], Cell(name, size, None, 0)
            for world, problem, _ in _data_sets(
                cell, _benchmark(name), range(options.logs), with_fresh=False
            ):
                v_b = np.asarray(surefoot.evaluate(world.model, world.pi_b))[0]
                values, nobody = by_returns(problem), np.zeros(problem.n_states)
                found.append(
                    (
                        proved_by_returns(problem),
                        proved_by_one_step(problem, values),
                        proved_by_one_step(problem, Values((v_b,), nobody, DELTA)),
                    )
                )
                errors.append(np.median(values.e) / problem.return_range.width)
            share = (np.array(found) > 0).mean(axis=0)
            print(
                f"{name} {size}: by returns {share[0]:.0%}, one step {share[1]:.0%},"
                f" with v_b known {share[2]:.0%}; e {np.median(errors):.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
