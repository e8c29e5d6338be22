"""Small partially observable worlds with tables, their logs, and the exact value of a policy that
remembers K steps.

Tiger        Kaelbling, Littman & Cassandra, Artificial Intelligence 101 (1998)
CheeseMaze   McCallum, ICML (1993), after Cassandra's collection
Voicemail    Williams & Young, Computer Speech & Language 21 (2007)

Each is given by its tables; episodes end by chance after every step, so that they have ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve

NONE = "(none)"
History = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Pomdp:
    """hidden states h, actions a, observations o.

    start [H], first [H, O]    the first hidden state, and what is seen of it
    move [H, A, H]             where an action leads; rows that sum to less than 1: the rest ends
    see [A, H, O]              what is seen after an action led to h
    reward [H, A], noise       mean and standard deviation
    goes_on                    the probability that an episode goes on after a step
    pi_b [O, A]                the baseline, over observations
    """

    name: str
    observations: tuple[str, ...]
    actions: tuple[str, ...]
    start: np.ndarray
    first: np.ndarray
    move: np.ndarray
    see: np.ndarray
    reward: np.ndarray
    pi_b: np.ndarray
    noise: float = 0.0
    goes_on: float = 0.95
    gamma: float = 0.95


def tiger() -> Pomdp:
    """Listening costs 1, right 85 of 100 times; the tiger's door costs 100, the other pays 10."""
    stay, anew = np.eye(2), np.full((2, 2), 0.5)
    hear, blind = np.array([[0.85, 0.15], [0.15, 0.85]]), np.full((2, 2), 0.5)
    see = np.zeros((3, 2, 3))
    for a, table in enumerate((hear, blind, blind)):
        see[a, :, 1:] = table
    return Pomdp(
        name="Tiger",
        observations=("nothing yet", "hear left", "hear right"),
        actions=("listen", "open left", "open right"),
        start=np.array([0.5, 0.5]),
        first=np.tile([1.0, 0.0, 0.0], (2, 1)),
        move=np.stack([stay, anew, anew], axis=1),
        see=see,
        reward=np.array([[-1.0, -100.0, 10.0], [-1.0, 10.0, -100.0]]),
        pi_b=np.tile([0.8, 0.1, 0.1], (3, 1)),
    )


def cheese_maze() -> Pomdp:
    """Eleven cells, of which walls are seen alone; the goal below the middle pays 1 and ends.

    0 1 2 3 4
    5   6   7
    8   9  10      9 is the goal
    """
    north, east, south, west = {5: 0, 6: 2, 7: 4, 8: 5, 9: 6, 10: 7}, {}, {}, {}
    for i in range(4):
        east[i], west[i + 1] = i + 1, i
    south = {y: x for x, y in north.items()}
    move, reward = np.zeros((11, 4, 11)), np.zeros((11, 4))
    for a, ways in enumerate((north, east, south, west)):
        for h in range(11):
            to = ways.get(h, h)
            if to == 9:
                reward[h, a] = 1.0  # and ends
            else:
                move[h, a, to] = 1.0
    seen = [0, 1, 2, 1, 3, 4, 4, 4, 5, 6, 5]
    see = np.tile(np.eye(7)[seen], (4, 1, 1))
    start = np.full(11, 0.1)
    start[9] = 0.0
    return Pomdp(
        name="CheeseMaze",
        observations=tuple(f"walls {i}" for i in range(7)),
        actions=("north", "east", "south", "west"),
        start=start,
        first=np.eye(7)[seen],
        move=move,
        see=see,
        reward=reward,
        pi_b=np.full((7, 4), 0.25),
        goes_on=0.98,
    )


def voicemail() -> Pomdp:
    """Does the caller want the message saved or deleted? To ask costs 1, a wrong deletion 20."""
    stay, anew = np.eye(2), np.tile([0.65, 0.35], (2, 1))
    hear, blind = np.array([[0.8, 0.2], [0.3, 0.7]]), np.full((2, 2), 0.5)
    see = np.zeros((3, 2, 3))
    for a, table in enumerate((hear, blind, blind)):
        see[a, :, 1:] = table
    return Pomdp(
        name="Voicemail",
        observations=("nothing yet", "hear save", "hear delete"),
        actions=("ask", "save", "delete"),
        start=np.array([0.65, 0.35]),
        first=np.tile([1.0, 0.0, 0.0], (2, 1)),
        move=np.stack([stay, anew, anew], axis=1),
        see=see,
        reward=np.array([[-1.0, 5.0, -20.0], [-1.0, -10.0, 5.0]]),
        pi_b=np.tile([0.6, 0.25, 0.15], (3, 1)),
    )


def log_of(world: Pomdp, episodes: int, rng: np.random.Generator) -> dict[str, Any]:
    """The table of a log that the baseline makes: all episodes at once, step by step."""
    h = _draw(np.tile(world.start, (episodes, 1)), rng)
    o = _draw(world.first[h], rng)
    alive, t = np.arange(episodes), 0
    parts: list[tuple[np.ndarray, ...]] = []
    while len(alive):
        a = _draw(world.pi_b[o], rng)
        r = world.reward[h, a] + world.noise * rng.normal(size=len(alive))
        rows = world.move[h, a]
        on = rng.random(len(alive)) < world.goes_on * rows.sum(axis=1)
        parts.append((alive, np.full(len(alive), t), o, a, r, ~on))
        follow = _draw(rows[on], rng)
        o = _draw(world.see[a[on], follow], rng)
        h, alive, t = follow, alive[on], t + 1
    episode, time, o, a, r, ends = (np.concatenate(x) for x in zip(*parts, strict=True))
    order = np.lexsort((time, episode))
    return {
        "episode": episode[order],
        "time": time[order],
        "state": np.array(world.observations)[o[order]],
        "action": np.array(world.actions)[a[order]],
        "reward": r[order],
        "terminal": ends[order],
    }


def _draw(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    total = np.cumsum(p, axis=1)
    u = rng.random(len(p))[:, None] * total[:, -1:]
    return np.minimum((u > total).sum(axis=1), p.shape[1] - 1)


def true_value(world: Pomdp, policy: dict[Any, np.ndarray], steps: int) -> float:
    """The exact value at the start of a policy over histories of so many steps; the baseline
    where it says nothing. One linear system over (hidden state, history).
    """
    nodes: dict[tuple[int, History], int] = {}
    todo: list[tuple[int, History]] = []

    def node(h: int, past: History) -> int:
        key = (h, past)
        if key not in nodes:
            nodes[key] = len(nodes)
            todo.append(key)
        return nodes[key]

    begin: dict[int, float] = {}
    for h, o in np.argwhere(world.start[:, None] * world.first > 0):
        at = node(int(h), (world.observations[o], *[NONE] * (2 * steps)))
        begin[at] = begin.get(at, 0.0) + float(world.start[h] * world.first[h, o])
    rows, columns, weights, rewards = [], [], [], []
    scale = world.gamma * world.goes_on
    place = {x: i for i, x in enumerate(world.observations)}
    while todo:
        h, past = todo.pop()
        i = nodes[h, past]
        pi = policy.get(past if steps else past[0])
        pi = world.pi_b[place[past[0]]] if pi is None else pi
        rewards.append((i, float(pi @ world.reward[h])))
        for a in np.flatnonzero(pi > 0):
            for to in np.flatnonzero(world.move[h, a] > 0):
                for o in np.flatnonzero(world.see[a, to] > 0):
                    then = (world.observations[o], world.actions[a], *past)[: 2 * steps + 1]
                    p = pi[a] * world.move[h, a, to] * world.see[a, to, o]
                    rows.append(i)
                    columns.append(node(int(to), then))
                    weights.append(scale * p)
    n = len(nodes)
    r = np.zeros(n)
    for i, x in rewards:
        r[i] = x
    p = sparse.csr_array((weights, (rows, columns)), shape=(n, n))
    v = spsolve(sparse.csc_array(sparse.eye_array(n) - p), r)
    return float(sum(x * v[i] for i, x in begin.items()))
