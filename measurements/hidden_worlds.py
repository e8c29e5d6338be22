"""Worlds whose truth is known and whose log may mislead: hidden states, drifting behaviour, rare
outcomes; and the logs they make.

A world has hidden states h; the log shows `shown[h]`. The value of a policy over shown states is
exact, whatever the log looks like.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Draw = Callable[[np.random.Generator, np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
Columns = dict[str, list[Any]]


@dataclass(frozen=True, kw_only=True)
class World:
    """p [H, A, H], mean rewards r [H, A]; `draw` makes the rewards of (rng, h, a, h', share of the
    log that has passed).

    shown [H]   the label's code; the last `ends` hidden states are terminal
    acts        (h, share of the log) -> rows [n, A]: the behaviour; pi_b over shown states where it
                is a plain policy
    """

    p: np.ndarray
    r: np.ndarray
    draw: Draw
    start: np.ndarray
    gamma: float
    pi_b: np.ndarray
    shown: np.ndarray | None = None
    acts: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    behaviour: np.ndarray | None = (
        None  # [H, A]: what the baseline is worth is that of this policy over hidden states
    )
    ends: int = 0

    @property
    def labels(self) -> np.ndarray:
        """The shown state of every hidden one."""
        return np.arange(len(self.p)) if self.shown is None else self.shown

    def value(self, rows: np.ndarray) -> float:
        """The value at the start of a policy over hidden states."""
        chain = np.einsum("ha,hat->ht", rows, self.p)
        r = (rows * self.r).sum(axis=1)
        if self.ends:
            chain[-self.ends :], r[-self.ends :] = 0.0, 0.0
        return float(self.start @ np.linalg.solve(np.eye(len(r)) - self.gamma * chain, r))

    def gain(self, pi: np.ndarray) -> float:
        """What a policy over shown states is truly worth beyond the one that made the log."""
        made = self.pi_b[self.labels] if self.behaviour is None else self.behaviour
        return self.value(pi[self.labels]) - self.value(made)

    def log(self, rng: np.random.Generator, episodes: int, steps: int) -> Columns:
        """Episodes of at most so many steps, one after the other; a single one is one long
        trajectory.
        """
        h = rng.choice(len(self.start), size=episodes, p=self.start)
        alive = np.ones(episodes, dtype=bool)
        parts: list[np.ndarray] = []
        for t in range(steps):
            who = np.flatnonzero(alive)
            if not len(who):
                break
            at = h[who]
            passed = (who * steps + t) / (episodes * steps)
            rows = self.pi_b[self.labels[at]] if self.acts is None else self.acts(at, passed)
            a = _pick(rng, rows)
            to = _pick(rng, self.p[at, a])
            r = self.draw(rng, at, a, to, passed)
            ended = to >= len(self.p) - self.ends
            parts.append(
                np.array(
                    [who, np.full(len(who), t), self.labels[at], a, r, self.labels[to], ended],
                    dtype=float,
                )
            )
            h[who] = to
            alive[who[ended]] = False
        found = np.concatenate(parts, axis=1)
        found = found[:, np.lexsort((found[1], found[0]))]
        names = ("episode", "time", "state", "action", "reward", "next_state", "terminal")
        columns = {name: x.tolist() for name, x in zip(names, found, strict=True)}
        for name, letter in (
            ("state", "s"),
            ("next_state", "s"),
            ("action", "a"),
            ("episode", "e"),
        ):
            columns[name] = [f"{letter}{int(x):04d}" for x in columns[name]]
        return columns


def _pick(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
    """One draw from each row."""
    return np.minimum(
        (rng.random((len(rows), 1)) > np.cumsum(rows, axis=1)).sum(axis=1), rows.shape[1] - 1
    )


@dataclass(frozen=True, kw_only=True)
class Case:
    """One log: its columns, its baseline (None: to be estimated), the options of the command
    line, and the truth.
    """

    world: World
    columns: Columns
    given: bool = True
    options: dict[str, Any] = field(default_factory=dict)
    algorithm: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    clean: tuple[Path, ...] = ()  # files to be removed afterwards

    def write(self, folder: Path) -> tuple[Path, Path | None]:
        """(the log, the baseline) as CSV files."""
        names = list(self.columns)
        _write(folder / "log.csv", names, zip(*self.columns.values(), strict=True))
        if not self.given:
            return folder / "log.csv", None
        rows = [
            (f"s{s:04d}", f"a{a:04d}", repr(float(p)))
            for (s, a), p in np.ndenumerate(self.world.pi_b)
        ]
        _write(folder / "rule.csv", ["state", "action", "probability"], rows)
        return folder / "log.csv", folder / "rule.csv"

    def gain(self, policy: np.ndarray, states: tuple[Any, ...], actions: tuple[Any, ...]) -> float:
        """The true gain of a policy over the labels of a log; states that the log lacks keep the
        baseline.
        """
        pi = np.array(self.world.pi_b)
        columns = [int(str(a)[1:]) for a in actions]
        for row, label in zip(policy, states, strict=True):
            if str(label).startswith("s"):
                pi[int(str(label)[1:])] = 0.0
                pi[int(str(label)[1:]), columns] = row
        return self.world.gain(pi)


def _write(path: Path, header: list[str], rows: Any) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def case(world: World, rng: np.random.Generator, episodes: int, steps: int, **more: Any) -> Case:
    """A log of a world."""
    return Case(world=world, columns=world.log(rng, episodes, steps), **more)


def bandit(
    pi_b: Any,
    means: Any,
    draw: Draw,
    *,
    visits: Any = None,
    gamma: float = 0.9,
    ends: bool = False,
    **more: Any,
) -> World:
    """States that come at random whatever is done (`visits`, default equally often): decisions
    without consequences.

    With `ends` every decision is an episode of its own; otherwise they are the steps of a
    trajectory.
    """
    pi_b, means = (
        np.atleast_2d(np.asarray(pi_b, dtype=float)),
        np.atleast_2d(np.asarray(means, dtype=float)),
    )
    n, a = pi_b.shape
    visits = np.full(n, 1 / n) if visits is None else np.asarray(visits, dtype=float)
    if not ends:
        return World(
            p=np.tile(visits, (n, a, 1)),
            r=means,
            draw=draw,
            start=visits,
            gamma=gamma,
            pi_b=pi_b,
            **more,
        )
    p = np.zeros((n + 1, a, n + 1))
    p[:, :, -1] = 1.0
    pad = np.full((1, a), 1 / a)
    return World(
        p=p,
        r=np.vstack([means, np.zeros((1, a))]),
        draw=draw,
        start=np.append(visits, 0.0),
        gamma=gamma,
        pi_b=np.vstack([pi_b, pad]),
        ends=1,
        **more,
    )


def normal(means: Any, sd: float = 1.0) -> Draw:
    """Normal rewards around means [H, A]."""
    means = np.atleast_2d(np.asarray(means, dtype=float))
    return lambda rng, h, a, to, passed: means[h, a] + sd * rng.standard_normal(len(h))


def coin(p: Any, low: float = 0.0, high: float = 1.0) -> Draw:
    """`high` with probability p [H, A], else `low`."""
    p = np.atleast_2d(np.asarray(p, dtype=float))
    return lambda rng, h, a, to, passed: np.where(rng.random(len(h)) < p[h, a], high, low)


def gamble(chance: np.ndarray, loss: float, pays: np.ndarray, sd: float) -> Draw:
    """Action 0 pays 0; the others pay pays[h], and `loss` in its place with probability
    chance[h]; both with normal noise.
    """

    def draw(
        rng: np.random.Generator, h: np.ndarray, a: np.ndarray, to: np.ndarray, passed: np.ndarray
    ) -> np.ndarray:
        outcome = np.where(rng.random(len(h)) < chance[h], loss, pays[h])
        return np.where(a == 0, 0.0, outcome) + sd * rng.standard_normal(len(h))

    return draw
