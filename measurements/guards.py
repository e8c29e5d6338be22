"""False verdicts and power of guards and groups, on logs whose truth is known.

    python measurements/guards.py --logs 500            # all families, one after the other
    python measurements/guards.py --only trade,losing --logs 100

A guarded verdict is wrong if it is SUPPORTED and the policy is truly no better in the reward, or
truly worse in the guarded column by more than the tolerance; with groups, if it is truly worse for
one of them. "without" is the same log with the guard left out, or the group hidden. It is `advise`
without the findings of `check`, which forbid further verdicts: an upper bound.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from scipy.stats import beta

from surefoot import Problem, read_log
from surefoot.advice import learn_and_test
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.logs import Log
from surefoot.problems import return_range
from surefoot.problems.guards import guards_of, with_guards

STATES, STEPS, GAMMA = 4, 10, 0.8
B = np.array([0.6, 0.2, 0.2])
P = np.random.default_rng(99).dirichlet(np.ones(STATES), size=(STATES, 3))
Found = tuple[bool, bool, bool, bool, float]
Effect = tuple[float, float, float]  # of the three actions, in every state


@dataclass(frozen=True, kw_only=True)
class Family:
    """Logs of one kind: `reward` and `cost` of the actions; with groups, their shares and how each
    of them responds; `rare`: the cost is an event of this probability.
    """

    name: str
    reward: Effect = (0.0, 0.3, 0.6)
    cost: Effect = (0.0, 0.0, 0.0)
    guard: str = ""
    rare: bool = False
    shares: tuple[float, ...] = ()
    responds: tuple[float, ...] = ()
    tolerance: float = 0.0
    episodes: int = 600
    given: bool = True
    says: str = field(default="", compare=False)


GUARDED = (
    Family(name="hurts", cost=(0.0, 0.2, 0.4), guard="cost:lower",
           says="what is better costs more"),
    Family(name="hurts-estimated", cost=(0.0, 0.2, 0.4), guard="cost:lower", given=False,
           says="the same, baseline estimated"),
    Family(name="hurts-little", cost=(0.0, 0.04, 0.08), guard="cost:lower",
           says="it costs a little more"),
    Family(name="hurts-most", cost=(0.0, 0.06, 0.12), guard="cost:lower:0.15",
           says="it costs a little more, tolerance 0.15"),
    Family(name="deadly", cost=(0.01, 0.02, 0.03), rare=True, guard="cost:lower:0:0,1",
           says="one of 100 steps is an accident; of what is better one of 50, of 33"),
    Family(name="deadly-tolerance", cost=(0.005, 0.01, 0.03), rare=True,
           guard="cost:lower:0.03:0,1", says="accidents, tolerance 0.03"),
    Family(name="trade", cost=(0.0, 0.0, 0.5), guard="cost:lower", episodes=1000,
           says="one of two better actions costs more"),
    Family(name="trade-tolerance", cost=(0.0, 0.0, 0.5), guard="cost:lower:0.1", episodes=1000,
           says="the same, tolerance 0.1"),
    Family(name="helps", cost=(0.3, 0.0, 0.0), guard="cost:lower", says="the better costs less"),
    Family(name="nothing", guard="cost:lower:0.3", episodes=1000,
           says="nothing changes the cost, tolerance 0.3"),
)  # fmt: skip
GROUPED = (
    Family(name="losing", shares=(0.7, 0.3), responds=(1.0, -1.0), episodes=1000,
           says="3 of 10 lose what the others gain"),
    Family(name="losing-little", shares=(0.7, 0.3), responds=(1.0, -0.1), episodes=1000,
           says="3 of 10 lose a tenth of what the others gain"),
    Family(name="losing-few", shares=(0.95, 0.05), responds=(1.0, -0.5), episodes=1000,
           says="1 of 20 loses half of what the others gain"),
    Family(name="losing-estimated", shares=(0.7, 0.3), responds=(1.0, -0.1), episodes=1000,
           given=False, says="as the second, baseline estimated"),
    Family(name="losing-five", shares=(0.3, 0.25, 0.2, 0.15, 0.1), episodes=1500,
           responds=(1.0, 1.0, 1.0, 1.0, -0.2), says="the smallest of five groups loses"),
    Family(name="losing-tolerance", shares=(0.7, 0.3), responds=(1.0, -0.35), tolerance=0.3,
           episodes=1000, says="3 of 10 lose, tolerance 0.3"),
    Family(name="all-gain", shares=(0.7, 0.3), responds=(1.0, 1.0), episodes=1000,
           says="both groups gain"),
    Family(name="all-gain-five", shares=(0.3, 0.25, 0.2, 0.15, 0.1), episodes=1500,
           responds=(1.0, 1.0, 1.0, 1.0, 1.0), says="all of five groups gain"),
    Family(name="one-gains", shares=(0.7, 0.3), responds=(1.0, 0.0), tolerance=0.5,
           episodes=1000, says="one group gains, nothing changes for the other, tolerance 0.5"),
)  # fmt: skip


def table(family: Family, rng: np.random.Generator) -> dict[str, Any]:
    """One log."""
    n, steps = family.episodes, []
    state = rng.integers(0, STATES, n)
    group = rng.choice(len(family.shares or (1,)), n, p=family.shares or (1.0,))
    for _ in range(STEPS):
        action = rng.choice(3, n, p=B)
        after = (rng.random(n)[:, None] > P[state, action].cumsum(axis=1)).sum(axis=1)
        steps.append((state, action, np.minimum(after, STATES - 1)))
        state = steps[-1][2]
    states, actions, follow = (np.stack(x, axis=1).ravel() for x in zip(*steps, strict=True))
    responds = np.asarray(family.responds or (1.0,))[np.repeat(group, STEPS)]
    cost = np.asarray(family.cost)[actions]
    size = n * STEPS
    return {
        "episode": np.repeat(np.arange(n), STEPS),
        "t": np.tile(np.arange(STEPS), n),
        "state": states,
        "action": actions,
        "next_state": follow,
        "reward": np.asarray(family.reward)[actions] * responds + rng.normal(size=size),
        "cost": (rng.random(size) < cost) * 1.0 if family.rare else cost + rng.normal(size=size),
        "group": [f"group {x}" for x in np.repeat(group, STEPS)],
    }


def change(pi: np.ndarray, effect: Effect) -> float:
    """The true change of the discounted sum at the start."""

    def value(rows: np.ndarray) -> float:
        p = np.einsum("sa,sat->st", rows, P)
        r = (rows * np.asarray(effect)).sum(axis=1)
        return float(np.linalg.solve(np.eye(STATES) - GAMMA * p, r).mean())

    return value(pi) - value(np.tile(B, (STATES, 1)))


@cache
def template(*, guarded: bool, grouped: bool, given: bool, groups: int) -> tuple[Log, Problem]:
    """A log that was read in full; others differ in their numbers alone."""
    shares = (1.0 / groups,) * groups
    columns = table(Family(name="", shares=shares, responds=shares), np.random.default_rng(0))
    log = read_log(columns, guard="cost" if guarded else None, group="group" if grouped else None)
    return log, log.problem(GAMMA, np.tile(B, (STATES, 1)) if given else None)


def posed(family: Family, columns: dict[str, Any], guards: list[str]) -> tuple[Log, Problem]:
    """(log, problem) as `read_log` and `Log.problem` would make them."""
    grouped, n = bool(family.shares), len(family.shares) or 1
    log, problem = template(guarded=bool(guards), grouped=grouped, given=family.given, groups=n)
    assert problem.log is not None
    beside = {"g0": columns["cost"]} if guards else {}
    if grouped:
        beside["group"] = np.unique(columns["group"], return_inverse=True)[1]
    last = columns["t"] == STEPS - 1
    rows: dict[str, Any] = {
        x: np.asarray(columns[x]) for x in ("state", "action", "reward", "next_state", "episode")
    }
    batch = replace(
        problem.log, **rows, beside=beside, ends=np.zeros(len(last), dtype=bool),
        truncated=np.zeros(len(last), dtype=bool), row=np.arange(len(last)),
    )  # fmt: skip
    low, high = float(batch.reward.min()), float(batch.reward.max())
    returns = return_range((low, high), GAMMA, has_terminal=False, declared=False)
    problem = replace(problem, reward_range=(low, high), return_range=returns).with_log(batch)
    if not family.given:
        n_sa = np.asarray(problem.n_sa)
        problem = replace(problem, pi_b=n_sa / n_sa.sum(axis=1, keepdims=True))
    return replace(log, counts=problem.counts, rewards=(low, high)), with_guards(problem, guards)


def guarded(family: Family, seed: int) -> Found:
    """(supported, wrong, supported without the guard, wrong then, true gain) of one log."""
    columns = table(family, np.random.default_rng([7, seed]))
    tolerance = guards_of([family.guard])[0].tolerance
    found = []
    for guards in ([family.guard], []):
        log, problem = posed(family, columns, guards)
        advice = learn_and_test(
            log, problem, chosen_algorithm(problem, "priced-soft-spibb"), against=[], seed=seed
        )
        gain = change(advice.candidate, family.reward)
        lost = change(advice.candidate, family.cost)
        found.append((advice.supported, gain <= 0 or lost > tolerance + 1e-12, gain))
    (one, wrong, gain), (other, wrong_other, _) = found
    return one, one and wrong, other, other and wrong_other, gain


def grouped(family: Family, seed: int) -> Found:
    """The same of a log with groups; the policy does not depend on them."""
    log, problem = posed(family, table(family, np.random.default_rng([8, seed])), [])
    advice = learn_and_test(
        log, problem, chosen_algorithm(problem, "priced-soft-spibb"), against=[], seed=seed,
        group_tolerance=np.inf,
    )  # fmt: skip
    asked = [replace(x, part=replace(x.part, tolerance=family.tolerance)) for x in advice.parts]
    holds = all(row.holds for row in asked)
    gain = change(advice.candidate, family.reward)
    total = gain * float(np.dot(family.shares, family.responds))
    worst = gain * min(family.responds) if gain > 0 else gain * max(family.responds)
    wrong = total <= 0 or worst < -family.tolerance - 1e-12
    both = advice.supported and holds
    return both, both and wrong, advice.supported, advice.supported and wrong, total


def at_most(wrong: int, n: int) -> float:
    """The 99 % one-sided upper limit of a share (Clopper and Pearson)."""
    return 1.0 if wrong == n else float(beta.ppf(0.99, wrong + 1, n - wrong))


def lines(logs: int, only: list[str]) -> Iterator[str]:
    """One line a family, as soon as it is there."""
    yield f"{'family':18} {'supported':>9} {'wrong':>5} {'<= 99 %':>8}   without: supported wrong"
    for family in (*GUARDED, *GROUPED):
        if only and family.name not in only:
            continue
        begun, one = time.perf_counter(), guarded if family.guard else grouped
        found = np.array([one(family, seed) for seed in range(logs)], dtype=float)
        n_one, wrong, n_other, wrong_other, _ = found.sum(axis=0).astype(int)
        yield (
            f"{family.name:18} {n_one:9} {wrong:5} {at_most(wrong, logs):8.2%}"
            f"   {n_other:18} {wrong_other:5}   true gain {found[:, 4].mean():+.3f};"
            f" {family.says}; {logs} logs, {time.perf_counter() - begun:.0f} s"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    for line in lines(given.logs, [x for x in given.only.split(",") if x]):
        print(line, flush=True)


if __name__ == "__main__":
    main()
