"""How often a watch of a growing log is wrong, and how often and when it finds what is there.

    python measurements/watching.py --logs 500

Each log has 2,000 episodes and is looked at 20 times, after every 100 of them, at delta 0.05.
Beside the watch: the safety test done once, at the end; and, wrongly, the same test (or Student's
t) done at every look until it says something.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

import surefoot
from surefoot.advice.safety import Sample
from surefoot.evidence.episode_values import LOSS, Standard, episode_values
from surefoot.evidence.gain_test import ORDER
from surefoot.statistics.bounds import Capital, log_capital, student_width

EPISODES, LOOKS, DELTA = 2000, 20, 0.05
Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Family:
    """Episodes of `steps` decisions between two actions; `pays(rng, action)` are the rewards.

    b, pi: how often baseline and policy take the second action; truth: -1, 0 or 1.
    """

    name: str
    steps: int
    b: float
    pi: float
    pays: Draw
    low: float
    high: float
    truth: int = 0
    episodes: int = EPISODES

    def sample(self, rng: np.random.Generator) -> tuple[Sample, Standard]:
        """(one log with both policies, what is declared of it)."""
        n = self.episodes * self.steps
        action = (rng.random(n) < self.b).astype(int)
        made: Any = surefoot.problem(
            state=np.zeros(n, dtype=int),
            action=action,
            reward=self.pays(rng, action),
            next_state=np.where(np.arange(n) % self.steps == self.steps - 1, 1, 0),
            episode=np.repeat(np.arange(self.episodes), self.steps),
            time=np.tile(np.arange(self.steps), self.episodes),
            gamma=0.9,
            terminal_states=[1],
            n_actions=2,
            pi_b=np.array([[1 - self.b, self.b], [0.5, 0.5]]),
            reward_range=(self.low, self.high),
        )
        pi = np.array([[1 - self.pi, self.pi], [0.5, 0.5]])
        standard = Standard(delta=DELTA, reward_range=(self.low, self.high), horizon=self.steps)
        return Sample(made.log, pi, np.asarray(made.pi_b)), standard

    def values(self, rng: np.random.Generator) -> tuple[tuple[np.ndarray, float], ...]:
        """(values, floor) of the episodes of one log, for a gain and for a loss."""
        made, standard = self.sample(rng)
        gain = episode_values(made.batch, made.pi, made.pi_b, 0.9, standard)
        loss = episode_values(made.batch, made.pi, made.pi_b, 0.9, standard, quantity=LOSS)
        return (gain.x, gain.lo), (loss.x, loss.lo)


def chance(p0: float, p1: float, size: float = 1.0) -> Draw:
    """A reward of `size` with probability p0 by the first action, p1 by the second; else 0."""
    return lambda rng, a: size * (rng.random(len(a)) < np.where(a, p1, p0))


NULL = (
    Family("1 step, success .3 whatever is done, .5 to .9", 1, 0.5, 0.9, chance(0.3, 0.3), 0, 1),
    Family("1 step, success .5, .05 to .95 (weights to 19)", 1, 0.05, 0.95, chance(0.5, 0.5), 0, 1),
    Family("1 step, failure .05, .05 to .5", 1, 0.05, 0.5, chance(0.95, 0.95), 0, 1),
    Family(
        "1 step, success .01, .01 to .5 (weights to 50)", 1, 0.01, 0.5, chance(0.01, 0.01), 0, 1
    ),
    Family(
        "1 step, loss of 100 once in 100, .1 to .9", 1, 0.1, 0.9, chance(0.01, 0.01, -100), -100, 0
    ),
    Family("3 steps, success .3, .8 to .1 (weights to 91)", 3, 0.8, 0.1, chance(0.3, 0.3), 0, 1),
    Family("10 steps, success .3, .3 to .6", 10, 0.3, 0.6, chance(0.3, 0.3), 0, 1),
)
DIFFERENT = (
    Family("1 step, .3 or .5, .5 to .9", 1, 0.5, 0.9, chance(0.3, 0.5), 0, 1, 1),
    Family("1 step, .5 or .6, .5 to .9", 1, 0.5, 0.9, chance(0.5, 0.6), 0, 1, 1),
    Family("1 step, .5 or .55, .5 to .9", 1, 0.5, 0.9, chance(0.5, 0.55), 0, 1, 1),
    Family("1 step, .3 or .6, .05 to .95", 1, 0.05, 0.95, chance(0.3, 0.6), 0, 1, 1),
    Family("3 steps, .3 or .5, .7 to .3 (worse)", 3, 0.7, 0.3, chance(0.3, 0.5), 0, 1, -1),
    Family("10 steps, .3 or .5, .5 to .7", 10, 0.5, 0.7, chance(0.3, 0.5), 0, 1, 1),
)


def at_once(x: np.ndarray, lo: float) -> bool:
    """Whether the safety test of these episodes shows a mean above 0 at DELTA / 2."""
    order = np.random.default_rng(ORDER).permutation(len(x))
    capital = log_capital(np.maximum(x - lo, 0)[order], DELTA / 2, -lo)
    return bool(capital.max() >= math.log(2 / DELTA) and x.mean() > 0)


def students(x: np.ndarray) -> bool:
    """Whether Student's t does."""
    return bool(x.mean() > student_width(float(x.var(ddof=1)), len(x), DELTA / 2))


def one_log(family: Family, rng: np.random.Generator) -> dict[str, tuple[int, int]]:
    """{way: (episodes until a gain was shown, until a loss was); 0 where it never was}."""
    sides = family.values(rng)
    found: dict[str, tuple[int, int]] = {}
    cuts = [EPISODES * (i + 1) // LOOKS for i in range(LOOKS)]
    watched = []
    for x, lo in sides:
        capital = Capital()
        for start, stop in zip([0, *cuts], cuts, strict=False):
            capital = capital.after(x[start:stop], lo, DELTA / 2)
        at = capital.reached_at
        watched.append(0 if at is None else next(n for n in cuts if n >= at))
    found["watch"] = (watched[0], watched[1])
    ways: dict[str, Callable[[np.ndarray, float], bool]] = {
        "safety-test": at_once, "student-t": lambda x, lo: students(x)
    }  # fmt: skip
    for name, shows in ways.items():
        each = [next((n for n in cuts if shows(x[:n], lo)), 0) for x, lo in sides]
        found[f"{name} at every look"] = (each[0], each[1])
    once = [EPISODES * shows_it for shows_it in (at_once(x, lo) for x, lo in sides)]
    found["safety-test once"] = (once[0], once[1])
    return found


def unfinished(rng: np.random.Generator) -> tuple[bool, bool]:
    """Whether a verdict comes on a log that runs side by side, in which nothing helps: counting
    (in the order of arrival up to the first unfinished one, whatever is finished).

    A decision every minute, half of them "new", each a success with probability 1/2. Successes of
    "new" are known after 5 minutes and its failures after 300; of "old" it is the other way round.
    """
    n, alpha = EPISODES, DELTA / 2
    new, success = rng.random(n) < 0.5, rng.random(n) < 0.5
    x = (np.where(new, 1.8, 0.2) - 1.0) * success  # 0.5 to 0.9
    known = np.arange(n) + np.where(new == success, 5, 300)
    found = []
    for in_order in (True, False):
        gain, loss, settled = Capital(), Capital(), np.zeros(n, dtype=bool)
        for now in (n * (i + 1) // LOOKS for i in range(LOOKS)):
            over = (known <= now) & ~settled
            waits = np.flatnonzero((known > now) & (np.arange(n) < now))
            if in_order and len(waits):
                over[waits[0] :] = False
            taken = np.flatnonzero(over)
            taken = taken if in_order else taken[np.argsort(known[taken], kind="stable")]
            gain, loss = gain.after(x[taken], -1.0, alpha), loss.after(-x[taken], -0.8, alpha)
            settled |= over
        found.append(gain.reached_at is not None or loss.reached_at is not None)
    return found[0], found[1]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=500)
    logs, begin = parser.parse_args().logs, time.time()
    print(f"{logs} logs a family, {EPISODES:,} episodes, {LOOKS} looks, delta {DELTA}")
    limit = int(binom.ppf(0.99, logs, DELTA))
    print(
        f"no gain and no loss: share of logs with a verdict (at most {limit / logs:.1%} is delta)"
    )
    for i, family in enumerate(NULL):
        rng = np.random.default_rng([1, i])
        runs = [one_log(family, rng) for _ in range(logs)]
        shares = {way: np.mean([max(run[way]) > 0 for run in runs]) for way in runs[0]}
        print(f"  {family.name}: " + "; ".join(f"{way} {x:.1%}" for way, x in shares.items()))
    print("a gain, or a loss: share of logs in which it is shown, and median episodes until then")
    for i, family in enumerate(DIFFERENT):
        rng = np.random.default_rng([2, i])
        runs = [one_log(family, rng) for _ in range(logs)]
        side = 0 if family.truth > 0 else 1
        for way in ("watch", "safety-test once"):
            when = [run[way][side] for run in runs if run[way][side]]
            wrong = np.mean([run[way][1 - side] > 0 for run in runs])
            median = f"{np.median(when):,.0f}" if when else "-"
            print(f"  {family.name}: {way} {len(when) / logs:.1%} ({median}), wrong {wrong:.1%}")
    rng = np.random.default_rng(3)
    order, anyhow = np.mean([unfinished(rng) for _ in range(logs)], axis=0)
    print(
        "no gain, successes of one action and failures of the other are known late: verdicts"
        f" {order:.1%} in the order of arrival, {anyhow:.1%} if what is finished counts"
    )
    print(f"{time.time() - begin:.0f} s")


if __name__ == "__main__":
    main()
