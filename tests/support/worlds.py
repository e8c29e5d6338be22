"""Small worlds for tests and benchmarks: Random MDPs and Wet Chicken by the paper's recipe,
Garnets, and logs sampled from them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import surefoot
from surefoot.core import Labels


@dataclass(frozen=True)
class World:
    """A true MDP with its baseline: p [S, A, S], reward table [S, S'], terminal states, start
    state.
    """

    p: np.ndarray
    reward: np.ndarray
    pi_b: np.ndarray
    gamma: float
    terminal: tuple[int, ...]

    @property
    def model(self) -> surefoot.Model:
        return surefoot.known_model(
            self.p, np.einsum("sat,st->sa", self.p, self.reward), self.gamma, self.terminal
        )

    def value(self, pi: np.ndarray) -> float:
        return float(surefoot.evaluate(self.model, pi)[0])


def random_mdp(
    rng: np.random.Generator,
    n_states: int = 50,
    n_actions: int = 4,
    eta: float = 0.9,
    egg: bool = True,
) -> World:
    """The paper's Random MDP: 4 successors a pair, a far goal, a baseline by target ratio, a
    good easter egg.
    """
    gamma = 0.95
    p = np.zeros((n_states, n_actions, n_states))
    for s in range(n_states):
        for a in range(n_actions):
            where = rng.choice(n_states, 4, replace=False)
            p[s, a, where] = np.diff(np.concatenate([[0], np.sort(rng.random(3)), [1]]))

    # The value of every possible goal, all planned at once: the goal is the farthest one that is
    # still within reach.
    goals = np.arange(1, n_states)
    live = np.arange(n_states) != goals[:, None]  # [goal, s]: a goal is terminal
    every = surefoot.known_model(
        p * live[:, :, None, None],
        (p[None, :, :, goals].transpose(3, 0, 1, 2)[:, 0] * live[:, :, None]),
        gamma,
    )
    plans = surefoot.optimal(every)
    value = plans.q[:, 0].max(axis=-1)
    chosen = int(np.flatnonzero(value > gamma**50)[np.argmin(value[value > gamma**50])])
    goal, best_pi, best_q, top = (
        int(goals[chosen]),
        plans.pi[chosen],
        plans.q[chosen],
        value[chosen],
    )

    def rho(pi: np.ndarray) -> float:
        chain = np.einsum("sa,sat->st", pi, p)
        chain[goal] = 0
        entering = np.where(
            np.arange(n_states) == goal, 0.0, np.einsum("sa,sa->s", pi, p[:, :, goal])
        )
        return float(np.linalg.solve(np.eye(n_states) - gamma * chain, entering)[0])

    uniform = rho(np.full((n_states, n_actions), 1 / n_actions))
    temperature, pi = 2e6, best_pi.copy()
    while rho(pi) > uniform + (eta + 1) / 2 * (top - uniform):
        z = temperature * (best_q - best_q.max(axis=1, keepdims=True))
        pi = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        temperature *= 0.9
    while rho(pi) > uniform + eta * (top - uniform):
        s = rng.integers(n_states)
        pi[s, best_q[s].argmax()] *= 0.9
        pi[s] /= pi[s].sum()
    ends = (goal, int(rng.choice([s for s in range(1, n_states) if s != goal]))) if egg else (goal,)
    reward = np.zeros((n_states, n_states))
    reward[:, list(ends)] = 1
    return World(p, reward, pi, gamma, tuple(sorted(ends)))


def wet_chicken(length: int = 5, width: int = 5, epsilon: float = 0.1) -> World:
    """The paper's Wet Chicken (its typos corrected), state = x * width + y; actions drift, hold,
    paddle back, left, right.
    """
    moves = ((0, 0), (-1, 0), (-2, 0), (0, -1), (0, 1))
    n_states = length * width
    p = np.zeros((n_states, 5, n_states))
    for x in range(length):
        for y in range(width):
            velocity = 3 * y / width
            turbulence = 3.5 - velocity
            for a, (ax, ay) in enumerate(moves):
                low, high = x + ax + velocity - turbulence, x + ax + velocity + turbulence
                to_y = min(max(y + ay, 0), width - 1)
                for k in range(-12, length + 12):
                    share = max(0.0, min(high, k + 0.5) - max(low, k - 0.5)) / (high - low)
                    to = 0 if k >= length else max(k, 0) * width + to_y
                    p[x * width + y, a, to] += share
    heuristic = np.zeros((n_states, 5))
    for x in range(length):
        for y in range(width):
            a = 2 if x > 2 else 4 if y < 2 else 3 if y > 2 else (0, 1, 2)[x]
            heuristic[x * width + y, a] = 1
    reward = np.broadcast_to(np.arange(n_states) // width, (n_states, n_states)).astype(float)
    return World(p, reward, (1 - epsilon) * heuristic + epsilon / 5, 0.95, ())


def garnet(
    rng: np.random.Generator, n_states: int, n_actions: int, successors: int = 3, gamma: float = 0.9
) -> World:
    """A random continuing MDP with random rewards of arrival and a random baseline."""
    p = np.zeros((n_states, n_actions, n_states))
    for s in range(n_states):
        for a in range(n_actions):
            p[s, a, rng.choice(n_states, min(successors, n_states), replace=False)] = rng.dirichlet(
                np.ones(min(successors, n_states))
            )
    reward = np.round(rng.random((n_states, n_states)) * 4, 2)
    return World(p, reward, rng.dirichlet(np.ones(n_actions), n_states), gamma, ())


def sample(
    world: World, rng: np.random.Generator, episodes: int, steps: int
) -> dict[str, np.ndarray]:
    """A log of `episodes` from state 0, each cut after `steps` steps unless it ends: the
    arguments of surefoot.problem.
    """
    p, pi = world.p.cumsum(axis=-1), world.pi_b.cumsum(axis=-1)
    state = np.zeros(episodes, dtype=int)
    alive = np.ones(episodes, dtype=bool)
    columns: list[tuple[np.ndarray, ...]] = []
    for t in range(steps):
        at = np.flatnonzero(alive)
        if len(at) == 0:
            break
        s = state[at]
        a = np.minimum((rng.random(len(at))[:, None] > pi[s]).sum(axis=1), pi.shape[1] - 1)
        to = np.minimum((rng.random(len(at))[:, None] > p[s, a]).sum(axis=1), p.shape[0] - 1)
        columns.append((at, np.full(len(at), t), s, a, world.reward[s, to], to))
        state[at] = to
        alive[at] = ~np.isin(to, world.terminal)
    episode, time, s, a, r, to = (np.concatenate(c) for c in zip(*columns, strict=True))
    return {
        "episode": episode,
        "time": time,
        "state": s,
        "action": a,
        "reward": r,
        "next_state": to,
    }


def problem(world: World, log: dict[str, np.ndarray], **options: Any) -> surefoot.Problem:
    """The problem of a log from this world; rewards declared, start in state 0."""
    return surefoot.problem(
        **log,
        **{
            "pi_b": world.pi_b,
            "gamma": world.gamma,
            "start": 0,
            "terminal_states": world.terminal,
            "reward_table": world.reward,
            **options,
        },
    )


def stacked(problems: list[surefoot.Problem]) -> surefoot.Problem:
    """Many dense problems of one shape as one batch, Monte-Carlo returns included."""
    first = problems[0]
    pick = lambda f: np.stack([f(x) for x in problems])  # noqa: E731
    returns = surefoot.Returns(
        pick(lambda x: x.returns.n),
        pick(lambda x: x.returns.mean),
        pick(lambda x: x.returns.m2),
        sum(x.returns.cut for x in problems),
    )
    has_rest = first.counts.r_rest is not None
    counts = surefoot.Counts(
        pick(lambda x: x.counts.n_sas), pick(lambda x: x.counts.r_sas),
        pick(lambda x: x.counts.r_rest) if has_rest else None, first.n_states, first.n_actions,
    )  # fmt: skip
    return surefoot.Problem(
        counts=counts,
        pi_b=pick(lambda x: x.pi_b),
        gamma=first.gamma,
        start=pick(lambda x: x.start),
        terminal=pick(lambda x: x.terminal),
        allowed=pick(lambda x: x.allowed),
        return_range=first.return_range,
        reward_range=first.reward_range,
        reward_table=None if first.reward_table is None else pick(lambda x: x.reward_table),
        unseen_states=first.unseen_states,
        ties=first.ties,
        returns_given=returns,
        n_bound_states=first.n_bound_states,
    )


def in_columns(problem: surefoot.Problem, order: Any = None) -> surefoot.Problem:
    """The same problem with states of two columns, as `factored` needs them; `order`: the new ids
    of the states.
    """
    names = [divmod(s, 3) for s in range(problem.n_states)]
    if order is not None:
        names = [names[s] for s in np.argsort(order)]
    labels = Labels(tuple(names), tuple(range(problem.n_actions)))
    return replace(problem, labels=labels)
