"""Certificates where the start is estimated: how often each bound lies above the truth, on logs of
one-step episodes with two starts.

Rewards are known and do not vary, so that all that is uncertain is where episodes start; one start
may be rare, and gain or lose most:

    python measurements/starts.py --logs 500
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import surefoot
from surefoot.evidence import bound as certificate
from surefoot.evidence.certificates import certify

BOTH = np.array([[0.0, 1.0], [0.0, 1.0], [0.5, 0.5]])  # action 1 in both starts; state 2 is the end
UNIFORM = np.full((3, 2), 0.5)
METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("advantage", {"error": "mpeb"}),
    ("advantage", {"error": "bernstein"}),
    ("certified-advantage", {"error": "bernstein"}),
    ("theorem-1", {"error": "mpeb"}),
    ("spibb", {"successors": 1}),
    ("robust", {"successors": 1}),
    ("delta-method", {"data": "fresh"}),
)
certificate._data_needed = lambda bound, bound_at, rows: (float("nan"), "not asked for")


@dataclass(frozen=True)
class Case:
    """Start 0 has probability `rare`; action 1 gains `gains[s]` over the baseline in start s,
    over `episodes` episodes.
    """

    name: str
    rare: float
    gains: tuple[float, float]
    episodes: int

    @property
    def truth(self) -> float:
        """What action 1 gains at the start."""
        return self.rare * self.gains[0] + (1 - self.rare) * self.gains[1]

    def log(self, rng: np.random.Generator) -> surefoot.Problem:
        """One log of the uniform baseline."""
        n = self.episodes
        state, action = (rng.random(n) >= self.rare).astype(int), rng.integers(0, 2, n)
        pays = np.array([[max(-2 * g, 0.0), max(2 * g, 0.0)] for g in self.gains])
        table = np.zeros((3, 2, 3))
        table[:2] = pays[..., None]
        return surefoot.problem(
            state=state,
            action=action,
            reward=pays[state, action],
            next_state=np.full(n, 2),
            episode=np.arange(n),
            gamma=0.0,
            pi_b=UNIFORM,
            terminal_states=[2],
            return_range=(0, 1),
            reward_table=table,
            n_states=3,
        )


def cases(episodes: int) -> tuple[Case, ...]:
    """Policies that are worse by 0.0002 and look better when the right start comes too often,
    and one that gains in both starts.
    """
    worse = -0.0002
    return tuple(
        Case(
            f"{name}, {rare:g}",
            rare,
            (gain, (worse - rare * gain) / (1 - rare) if gain_1 is None else gain_1),
            episodes,
        )
        for rare in (0.05, 0.5)
        for name, gain, gain_1 in (
            ("worse, start 0 gains", 0.4, None),
            ("worse, start 0 loses", -0.4, None),
            ("better", 0.5, 0.02),
        )
    )


def shares(case: Case, logs: int) -> Iterator[tuple[str, float, float, float]]:
    """(method, share of logs with a bound above the truth, share called useful, median bound
    minus truth); refused ones count as kept.
    """
    found: dict[str, list[tuple[float, bool]]] = {}
    rng = np.random.default_rng(0)
    for _ in range(logs):
        problem = case.log(rng)
        for method, options in METHODS:
            kept = found.setdefault(f"{method} {next(iter(options.values()))}", [])
            try:
                x = certify(problem, BOTH, method, delta=0.05, **options)
            except surefoot.PolicyError:
                continue
            kept.append((x.bound - case.truth, x.useful))
    for name, rows in found.items():
        above = np.array([x for x, _ in rows])
        if len(rows):
            yield (
                name,
                float((above > 1e-12).sum()) / logs,
                sum(useful for _, useful in rows) / logs,
                float(np.median(above)),
            )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--episodes", type=int, default=20_000)
    options = parser.parse_args()
    print(
        "| case | method | above the truth | called useful | median of bound - truth"
        " |\n|---|---|---|---|---|"
    )
    for case in cases(options.episodes):
        for name, above, useful, median in shares(case, options.logs):
            print(
                f"| {case.name} (truth {case.truth:.4g}) | {name} | {above:.1%} | {useful:.1%} |"
                f" {median:.4g} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
