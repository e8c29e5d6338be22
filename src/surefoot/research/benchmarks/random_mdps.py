"""Random MDPs: a new one every trial, with a far goal and a baseline of a wanted quality."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from surefoot.core import DenseModel
from surefoot.core.arrays import Array, bincount, count_up, is_numpy_array, namespace, row_sum
from surefoot.core.parameters import check_choice, check_number
from surefoot.planning import evaluate, optimal
from surefoot.problems import ReturnRange
from surefoot.research.benchmarks.benchmark import NORMALISED, check_whole
from surefoot.research.simulate.sampling import Episodes, below, fold, uniforms
from surefoot.research.simulate.worlds import Worlds, dense_rows

COLDEST = 2e6  # the inverse temperature that the softmax starts with
STEP = 0.9  # by which the temperature, and an optimal action's odds, are multiplied
MOST_STEPS = 1 << 14  # heatings or perturbations
PART = 8  # worlds whose goals a CPU bounds together: their values stay in its cache
# of value iteration over all goals: stop when values are known this well
MOST_SWEEPS, CLOSE = 200, 0.05
# what the draws of a trial are for (data sets fold in their size, which is positive)
SUCCESSORS, GAPS, STATES, EGG = -1, -2, -3, -4


@dataclass(frozen=True)
class RandomMDPs:
    """S states, A actions, a few random successors a pair; reward 1 on entering the goal.

    Episodes start in state 0 and end in the goal. Laroche et al. 2019, Nadjahi et al. 2019, Scholl
    et al. 2022 (Section 5.1). The successors of a pair are distinct, their probabilities the gaps
    between sorted uniform numbers. The goal is the state whose optimal value from the start is the
    smallest above gamma^horizon. The baseline has the performance V_u + eta (V* - V_u), V_u that of
    the uniform policy: a softmax of q* is heated up (inverse temperature 2e6, times 0.9 again and
    again) until it is halfway between that and the optimum, then the odds of the optimal action of
    random states are multiplied by 0.9 until it is there. Both stopping points are searched by
    bisection, not walked to: performance falls almost always from step to step, and where it does
    not, a later crossing than the first may be found; the baseline then still has the performance
    asked for, to within one step. Where no number of perturbations makes it bad enough, 16,384 of
    them do (at eta 0.1 one instance in a thousand; the published recipe would not end). Last, a
    random other state becomes the easter egg: a second goal ("good", +1) or a trap ("bad", -1),
    unknown to the baseline. An episode is cut after `horizon` steps.
    """

    name: ClassVar[str] = "random-mdps"
    score: ClassVar[str] = NORMALISED
    sparse: ClassVar[bool] = False
    n_states: int = 50
    n_actions: int = 4
    n_successors: int = 4
    eta: float = 0.9
    egg: str = "good"
    gamma: float = 0.95
    horizon: int = 50

    def __post_init__(self) -> None:
        check_whole(self, "n_states", low=3)
        check_whole(self, "n_actions", low=1)
        check_whole(self, "n_successors", low=1, high=self.n_states)
        check_number(self, "eta", low=0, high=1)
        check_number(self, "gamma", low=0, high=1, open_high=True)
        check_whole(self, "horizon", low=1)
        check_choice(self, "egg", ("good", "bad", "none"))

    def episodes(self, size: int) -> Episodes:
        """`size` trajectories of at most `horizon` steps."""
        return Episodes(size, size, self.horizon)

    def worlds(self, keys: Array) -> Worlds:
        """One MDP with its baseline for every key [B]."""
        xp = namespace(keys)
        successor, probability = random_pairs(
            keys, self.n_states, self.n_actions, self.n_successors
        )
        p = dense_rows(successor, probability, self.n_states)
        goal, model, q_star = self._goal(p)
        pi_b = worsened(keys, model, q_star, self.eta)
        arrives = count_up(self.n_states, keys)[None, :] == goal[:, None]
        reward, terminal = xp.astype(arrives, xp.float64), arrives
        if self.egg != "none":
            egg = below(fold(keys, keys * 0 + EGG), keys * 0, self.n_states - 2) + 1
            egg = egg + xp.astype(egg >= goal, egg.dtype)
            finds = count_up(self.n_states, keys)[None, :] == egg[:, None]
            reward = reward + (1.0 if self.egg == "good" else -1.0) * xp.astype(finds, xp.float64)
            terminal = terminal | finds
        shape = (*pi_b.shape[:2], 1, self.n_states)
        low = -1.0 if self.egg == "bad" else 0.0
        first = xp.astype(count_up(self.n_states, keys)[None, :] == keys[:, None] * 0, xp.float64)
        return Worlds(
            successor=successor,
            probability=probability,
            reward_table=xp.broadcast_to(reward[:, None, None, :], shape),
            pi_b=pi_b,
            start=first,
            terminal=terminal,
            allowed=pi_b == pi_b,
            gamma=self.gamma,
            reward_range=(low, 1.0),
            return_range=ReturnRange(low, 1.0, declared=True),
        )

    def _model(self, p: Array, goal: Array) -> DenseModel:
        """Reward 1 on entering the goal [B], where it ends."""
        xp = namespace(p)
        live = xp.astype(count_up(self.n_states, p)[None, :] != goal[:, None], p.dtype)[..., None]
        at = xp.broadcast_to(goal[:, None, None, None], (*p.shape[:-1], 1))
        weight = live + xp.zeros_like(p[..., 0])
        return DenseModel(p, weight, xp.take_along_axis(p, at, axis=-1)[..., 0] * live, self.gamma)

    def _goal(self, p: Array) -> tuple[Array, DenseModel, Array]:
        """The goal [B], the MDP with it, and its optimal q.

        Bounds on the values of all goals from a few sweeps of value iteration leave a few
        candidates, which are then solved exactly.
        """
        xp = namespace(p)
        part = PART if is_numpy_array(p) else p.shape[0]
        bounds = [
            _value_bounds(p[i : i + part, ...], self.gamma) for i in range(0, p.shape[0], part)
        ]
        low, high = (xp.concat(list(x), axis=0) for x in zip(*bounds, strict=True))
        far = self.gamma**self.horizon
        possible = high > far
        sure = xp.min(xp.where(low > far, high, xp.inf), axis=-1)[:, None]
        possible = possible & (low <= sure)
        nearest = high >= xp.max(low, axis=-1)[:, None]  # where none is within reach
        possible = possible | (nearest & ~xp.any(high > far, axis=-1)[:, None])
        most = max(1, int(xp.max(xp.sum(xp.astype(possible, xp.int64), axis=-1))))
        order = xp.argsort(xp.where(possible, low, xp.inf), axis=-1, stable=True)
        found = []
        for c in range(most):
            goal = order[:, c] + 1
            q = optimal(self._model(p, goal)).q
            value = xp.max(q[:, 0, :], axis=-1)
            rank = xp.where(value > far, value, 2.0 - value)  # those out of reach come last
            candidate = xp.take_along_axis(possible, order[:, c : c + 1], axis=-1)[:, 0]
            found.append((xp.where(candidate, rank, xp.inf), goal, q))
        ranks, goals, qs = (xp.stack(list(x)) for x in zip(*found, strict=True))
        best = xp.argmin(ranks, axis=0), count_up(p.shape[0], p)
        return goals[best], self._model(p, goals[best]), qs[best]


def random_pairs(
    keys: Array, n_states: int, n_actions: int, n_successors: int
) -> tuple[Array, Array]:
    """successor and probability [B, S, A, K]: distinct states, gaps between sorted uniforms."""
    xp = namespace(keys)
    shape = (keys.shape[0], n_states, n_actions)
    pair = count_up(n_states * n_actions, keys)[None, :]
    chosen: list[Array] = []
    key = fold(keys, keys * 0 + SUCCESSORS)[:, None]
    for k in range(n_successors):  # the r-th of the states not chosen yet
        found = below(key, pair * n_successors + k, n_states - k)
        earlier = xp.sort(xp.stack(chosen, axis=-1), axis=-1) if chosen else None
        for other in () if earlier is None else xp.unstack(earlier, axis=-1):
            found = found + xp.astype(found >= other, found.dtype)
        chosen.append(found)
    counter = count_up(n_states * n_actions * (n_successors - 1), keys)[None, :]
    cuts = uniforms(fold(keys, keys * 0 + GAPS)[:, None], counter)
    cuts = xp.sort(xp.reshape(cuts, (*shape, n_successors - 1)), axis=-1)
    ones = xp.astype(xp.reshape(chosen[0] == chosen[0], (*shape, 1)), xp.float64)
    ends = xp.concat([0.0 * ones, cuts, ones], axis=-1)
    return xp.reshape(xp.stack(chosen, axis=-1), (*shape, -1)), ends[..., 1:] - ends[..., :-1]


def worsened(keys: Array, model: DenseModel, q_star: Array, eta: float) -> Array:
    """pi_b [B, S, A] with the performance V_u + eta (V* - V_u) in state 0; see `RandomMDPs`."""
    xp = namespace(keys)
    n_states, n_actions = q_star.shape[-2:]
    lowest = evaluate(model, xp.zeros_like(q_star) + 1.0 / n_actions)[:, 0]
    rise = q_star - xp.max(q_star, axis=-1)[..., None]
    gain = xp.max(q_star[:, 0, :], axis=-1) - lowest

    def heated(n: Array) -> Array:
        """The softmax of q* after n heatings."""
        weights = xp.exp(rise * (COLDEST * STEP ** xp.astype(n, xp.float64))[:, None, None])
        return weights / row_sum(weights)[..., None]

    def good(policy: Callable[[Array], Array], target: Array) -> Callable[[Array], Array]:
        return lambda n: evaluate(model, policy(n))[:, 0] > target

    start = heated(_first_failure(good(heated, lowest + (1 + eta) / 2 * gain), keys * 0))
    best = rise == 0.0
    best = best & (xp.cumulative_sum(xp.astype(best, xp.int64), axis=-1) == 1)
    key = fold(keys, keys * 0 + STATES)[:, None]

    @lru_cache(maxsize=1)
    def drawn(most: int) -> Array:
        """The states drawn, `most` of them, as cells of a flattened [B, S] array."""
        return (
            below(key, count_up(most, keys)[None, :], n_states)
            + (count_up(keys.shape[0], keys) * n_states)[:, None]
        )

    def perturbed(n: Array) -> Array:
        """The odds of the optimal action times 0.9 for each hit among the first n draws."""
        cell = drawn(1 << int(xp.max(n)).bit_length())
        early = count_up(cell.shape[1], n)[None, :] < n[:, None]
        times = bincount(cell, n.shape[0] * n_states, xp.astype(early, xp.float64))
        odds = STEP ** xp.reshape(times, (n.shape[0], n_states))
        weights = start * xp.where(best, odds[..., None], 1.0)
        return weights / row_sum(weights)[..., None]

    return perturbed(_first_failure(good(perturbed, lowest + eta * gain), keys * 0))


def _first_failure(holds: Callable[[Array], Array], zero: Array) -> Array:
    """The number n [B] at which `holds` [B] fails while it held at n - 1 (0: it never held).

    Found by doubling and bisection. Where it still holds at MOST_STEPS, that many.
    """
    xp = namespace(zero)
    low, high = zero - 1, zero
    step, failed = 256, ~holds(zero)
    while step <= MOST_STEPS and not bool(xp.all(failed)):
        low, high = xp.where(failed, low, high), xp.where(failed, high, zero + step)
        failed = failed | ~holds(high)
        step *= 2
    while int(xp.max(high - low)) > 1:
        middle = (low + high) // 2
        inside = high - low > 1
        fails = ~holds(xp.where(middle > 0, middle, 0))
        low, high = xp.where(inside & ~fails, middle, low), xp.where(inside & fails, middle, high)
    return high


def _value_bounds(p: Array, gamma: float) -> tuple[Array, Array]:
    """Bounds [B, S - 1] on the optimal value at the start, for each state 1, ... as the goal.

    Value iteration for all goals at once, from below: v of goal g backs up 1 in g and gamma v
    elsewhere. The last change bounds what is missing, gamma / (1 - gamma) times.
    """
    xp = namespace(p)
    b, s, a, _ = p.shape
    flat = xp.reshape(p, (b, s * a, s))
    is_goal = count_up(s, p)[:, None] == 1 + count_up(s - 1, p)[None, :]  # [S, goals]
    v = xp.zeros_like(p[:, :, 0, 1:])
    missing = xp.ones_like(v[:, 0, :])
    for _ in range(MOST_SWEEPS):
        old = v
        q = xp.matmul(flat, xp.where(is_goal, 1.0, gamma * v))
        v = xp.max(xp.reshape(q, (b, s, a, s - 1)), axis=2)
        missing = gamma / (1 - gamma) * xp.max(v - old, axis=1)
        if bool(xp.max(missing) < CLOSE):
            break
    return v[:, 0, :], v[:, 0, :] + missing
