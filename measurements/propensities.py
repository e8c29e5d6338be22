"""Logs of several policies with a known truth: false verdicts and power with propensities, beside
the same logs pooled as if one policy had made them; and of the check of the propensities.

    python measurements/propensities.py --logs 500

Two policies take turns, episode by episode. The baseline is a third one, given; or what made the
log; or one of both. Rewards are 0 or 1. A verdict is false if the policy is not better. In "equal"
no action matters, in "worse" the policy to be tested loses a little, in "rare" it wins often and
loses rarely and more (reward 0 against 0.9), in "better" it gains. Rates come with the 99 % upper
limit of Clopper and Pearson.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import beta

import surefoot
from surefoot.advice.gain import held_out_gain
from surefoot.advice.whole_episodes import KNOWN_SHARE
from surefoot.checks.propensities import Gambler
from surefoot.core import Batch, make_batch
from surefoot.evidence import GAIN, LOSS, Standard, evidence_of
from surefoot.evidence.gain_test import evidence_of_two
from surefoot.evidence.known_policies import known_policies
from surefoot.evidence.units import split_episodes, units_of_batch

S, A = 3, 3
MADE = np.array([[[0.8, 0.15, 0.05]] * S, [[0.3, 0.3, 0.4]] * S])
NEW = np.array([[0.1, 0.2, 0.7]] * S)


@dataclass(frozen=True)
class Family:
    """Mean rewards of (s, a), and how many steps an episode has (states follow at random)."""

    name: str
    mean: np.ndarray
    steps: int = 1
    rare: bool = False
    apart: bool = False  # one policy comes first, the other later
    baseline: tuple[float, ...] = (0.5, 0.4, 0.1)

    @property
    def house(self) -> np.ndarray:
        """The given baseline [S, A]."""
        return np.array([self.baseline] * S)


Test = Callable[[Batch], tuple[bool, bool, float]]


def families() -> list[Family]:
    """What is measured."""
    level = np.array([0.3, 0.4, 0.5])[:, None]
    equal = np.repeat(level, A, axis=1)
    return [
        Family("equal", equal),
        Family("equal, first one policy then the other", equal, apart=True),
        Family("equal, 3 steps", equal, steps=3),
        Family("worse", level + np.array([0.02, 0.02, 0.0])),
        Family("rare loss", np.full((S, A), 0.9) - np.array([0.0, 0.0, 0.01]), rare=True),
        Family(
            "a baseline better than the log",
            level + np.array([0.1, 0.05, 0.0]),
            baseline=(0.98, 0.01, 0.01),
        ),
        Family("better", level + np.array([0.0, 0.05, 0.2])),
        Family("better, 3 steps", level + np.array([0.0, 0.05, 0.2]), steps=3),
    ]


def sampled(family: Family, n: int, rng: np.random.Generator) -> Batch:
    """A log of n episodes."""
    rows = n * family.steps
    state = rng.integers(0, S, rows)
    episode = np.repeat(np.arange(n), family.steps)
    who = (np.arange(n) * 2 // n if family.apart else rng.integers(0, 2, n))[episode]
    action = (rng.random(rows)[:, None] > MADE[who, state].cumsum(axis=1)).sum(axis=1)
    reward = (rng.random(rows) < family.mean[state, action]).astype(float)
    if family.rare:  # 0.9 for certain, but for one in 50 of the last action: 0.4 less
        lost = (action == 2) & (rng.random(rows) < 0.02)
        reward = 0.9 - 0.5 * lost
    last = np.append(np.diff(episode) > 0, True)
    follow = np.append(state[1:], 0)
    batch = make_batch(
        state=state, action=action, reward=reward, next_state=np.where(last, -1, follow),
        episode=episode, terminal=last, propensity=MADE[who, state, action], n_states=S,
        n_actions=A,
    )  # fmt: skip
    return Batch(**{**vars_of(batch), "beside": {**batch.beside, "policy": who[batch.row]}})


def vars_of(batch: Batch) -> dict[str, object]:
    """The fields of a batch."""
    return {name: getattr(batch, name) for name in Batch.__dataclass_fields__}


def without(batch: Batch) -> Batch:
    """The same log without propensities."""
    return Batch(**{**vars_of(batch), "beside": {}})


def over_end(pi: np.ndarray) -> np.ndarray:
    """A policy with a row for "(end)"."""
    return np.vstack([pi, np.full(A, 1 / A)])


def true_gain(family: Family, pi: np.ndarray, pi_b: np.ndarray) -> float:
    """Per episode: states do not depend on actions."""
    weight = sum(0.9**t for t in range(family.steps))
    return weight * float(((pi - pi_b) * family.mean).sum() / S)


def tests(family: Family) -> dict[str, Test]:
    """{name: log -> (better?, worse?, the true gain)} of the safety test of a fixed policy."""
    standard = Standard(delta=0.025, reward_range=(0, 1), horizon=family.steps)
    gamma, new, house = 0.9 if family.steps > 1 else 0.0, over_end(NEW), over_end(family.house)

    def weighed(pi_b: np.ndarray | None, truth: np.ndarray, *, pooled: bool = False) -> Test:
        def verdict(batch: Batch) -> tuple[bool, bool, float]:
            log = without(batch) if pooled else batch
            found = [evidence_of(x, log, new, pi_b, gamma, standard) for x in (GAIN, LOSS)]
            return found[0].positive, found[1].positive, true_gain(family, NEW, truth)

        return verdict

    def knowing(batch: Batch) -> tuple[bool, bool, float]:
        first, rest = split_episodes(batch, np.random.default_rng(0), KNOWN_SHARE)
        known = replace(standard, known=known_policies(first))
        found = [evidence_of(x, rest, new, house, gamma, known) for x in (GAIN, LOSS)]
        return found[0].positive, found[1].positive, true_gain(family, NEW, family.house)

    def one(batch: Batch) -> tuple[bool, bool, float]:
        found = [evidence_of_two(x, batch, new, 0, gamma, standard)[0] for x in (GAIN, LOSS)]
        return found[0].positive, found[1].positive, true_gain(family, NEW, MADE[0])

    average = MADE.mean(axis=0)
    return {
        "a baseline that did not make it, as surefoot safety-test does it": knowing,
        "a baseline that did not make it, without what a tenth shows": weighed(house, family.house),
        "what made the log": weighed(None, average),
        "one of both policies": one,
        "POOLED: the baseline taken for its maker": weighed(house, family.house, pooled=True),
    }


def improved(batch: Batch, family: Family, *, pooled: bool) -> tuple[bool, float]:
    """(supported?, the true gain over the given baseline) of what `improve` learns and tests.

    Pooled, the baseline that improve can know is the mixture of both policies.
    """
    gamma = 0.9 if family.steps > 1 else 0.0
    given = {name: getattr(batch, name) for name in ("state", "action", "reward", "episode")}
    problem = surefoot.problem(
        **given, next_state=np.where(batch.last, -1, batch.next_state), terminal=batch.last,
        propensity=None if pooled else batch.propensity, n_states=S, n_actions=A,
        pi_b=None if pooled else family.house, gamma=gamma, reward_range=(0, 1),
    )  # fmt: skip
    assert problem.log is not None
    units = units_of_batch(problem.log, gamma)
    gain = held_out_gain(problem, units, surefoot.PricedSoftSPIBB(epsilon=1))
    changed = bool(np.abs(gain.pi - problem.pi_b).max() > 1e-9)
    return gain.evidence.positive and changed, true_gain(family, gain.pi[:S], family.house)


def rate(hits: list[bool]) -> str:
    """k of n, and the upper limit."""
    k, n = sum(hits), len(hits)
    top = 1.0 if k == n else float(beta.ppf(0.99, k + 1, n - k))
    return f"{k / n:6.1%} (at most {top:.1%})"


def checked(logs: int) -> None:
    """False alarms and power of the check of propensities."""
    print("\nthe check of propensities, 1,000 rows of 'equal': found at 5 %, and at 0.5 %")
    family = families()[0]
    wrong: dict[str, Callable[[Batch, np.ndarray], np.ndarray]] = {
        "true": lambda batch, p: p,
        "of the other policy": lambda batch, p: MADE[
            1 - batch.beside["policy"], batch.state, batch.action
        ],
        "of the mixture": lambda batch, p: MADE.mean(axis=0)[batch.state, batch.action],
        "uniform": lambda batch, p: np.full(len(p), 1 / A),
        "a fifth too small": lambda batch, p: 0.8 * p,
    }
    for actions in (30, 1000):
        found = [adaptive(actions, np.random.default_rng([9, seed])) for seed in range(logs)]
        at = [rate([x >= np.log(1 / level) for x in found]) for level in (0.05, 0.005)]
        print(f"  true, {actions:4} actions, changing {at[0]:24} {at[1]}")
    for name, change in wrong.items():
        found = []
        for seed in range(logs):
            batch = sampled(family, 1000, np.random.default_rng([7, seed]))
            assert batch.propensity is not None
            p = change(batch, batch.propensity)
            found.append(capital((S + 1, A), batch.state, batch.action, p))
        at = [rate([x >= np.log(1 / level) for x in found]) for level in (0.05, 0.005)]
        print(f"  {name:22} {at[0]:24} {at[1]}")


def capital(shape: tuple[int, int], state: np.ndarray, action: np.ndarray, p: np.ndarray) -> float:
    """The logarithm of the capital against these propensities."""
    gambler = Gambler(shape)
    gambler.add(state, action, p)
    return gambler.capital()[0]


def adaptive(actions: int, rng: np.random.Generator) -> float:
    """The capital against true propensities of a policy that repeats what it did: 200 rows."""
    n = np.full(actions, 1.0 / actions)
    taken, p = [], []
    for _ in range(200):
        a = int(rng.choice(actions, p=n / n.sum()))
        p.append(n[a] / n.sum())
        taken.append(a)
        n[a] += 0.1 * rng.random()
    state = np.zeros(200, dtype=np.int64)
    return capital((1, actions), state, np.array(taken), np.array(p))


def main() -> None:
    """All tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--episodes", type=int, default=600)
    options = parser.parse_args()
    start = time.process_time()
    for family in families():
        print(f"\n{family.name}: {options.logs} logs of {options.episodes} episodes")
        logs = [
            sampled(family, options.episodes, np.random.default_rng([1, seed]))
            for seed in range(options.logs)
        ]
        for name, test in tests(family).items():
            found = [test(log) for log in logs]
            truth = found[0][2]
            better, worse = [x[0] for x in found], [x[1] for x in found]
            print(f"  safety test, {name}: true gain {truth:+.4f}")
            print(f"    PASSES {rate(better)}   FAILS {rate(worse)}")
        for pooled in (False, True):
            learned = [improved(log, family, pooled=pooled) for log in logs]
            said = [x for x, _ in learned]
            false = [x and truth <= 1e-12 for x, truth in learned]
            name = "POOLED, over the mixture" if pooled else "over the given baseline"
            print(f"  improve, {name}: SUPPORTED {rate(said)}; falsely {rate(false)}")
    checked(options.logs)
    print(f"\n{time.process_time() - start:.0f} s of the processor")


if __name__ == "__main__":
    main()
