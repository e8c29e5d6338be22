"""How often `improve` promises what is not true, and what it finds, on logs that need memory
(`--history`) or whose steps take unequal time (`--discount-per`); truths are exact.

    python measurements/memory_and_time.py [--logs 500] [--only NAME,...] [--direct]

Families: in "null ..." no policy is better than the baseline, so that every SUPPORTED is false; in
the others it is false where the policy is worse. Each log is judged with several ways to read it:
that is what the option changes. With --direct the findings of `check` are not asked, which forbid
many false promises: the test behind the verdict is measured alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from pomdps import Pomdp, cheese_maze, log_of, tiger, true_value, voicemail
from surefoot import Labels, Policy
from surefoot.advice import learn_and_test
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.logs import Log, read_log
from surefoot.logs.histories import remember
from surefoot.logs.pace import with_pace

ZERO = 1e-9


@dataclass(frozen=True)
class Way:
    """How a log is read and judged."""

    name: str
    history: int = 0
    per: float | None = None
    despite: tuple[str, ...] = ()
    direct: bool = False


STEPS = tuple(Way(f"K = {k}", k) for k in range(3))
TIMED, PLAIN = Way("--discount-per 1", per=1.0), Way("steps count as equal")
ACCEPTED = tuple(replace(x, name=f"{x.name}, despite markov", despite=("markov",)) for x in STEPS)
Worth = Callable[[dict[Any, np.ndarray], int], float]


@dataclass(frozen=True)
class Drawn:
    """A log, its baseline over observations (None: estimated), and the true gain of a policy."""

    table: dict[str, Any]
    gamma: float
    baseline: Policy | None
    gain: Worth
    actions: tuple[str, ...]  # in the order of the policies that `gain` takes


@dataclass(frozen=True)
class Family:
    """Logs of one kind, and the ways to read them; `null`: no policy is better."""

    name: str
    make: Callable[[np.random.Generator], Drawn]
    ways: tuple[Way, ...]
    null: bool


def of_pomdp(world: Pomdp, episodes: int, rng: np.random.Generator, *, given: bool = True) -> Drawn:
    """A log of a partially observable world."""
    base = true_value(world, {}, 0)
    rule = Policy(pi=world.pi_b, labels=Labels(world.observations, world.actions))

    def gain(policy: dict[Any, np.ndarray], steps: int) -> float:
        return true_value(world, policy, steps) - base

    return Drawn(
        log_of(world, episodes, rng), world.gamma, rule if given else None, gain, world.actions
    )


def machine() -> Pomdp:
    """To push pays 1 after wait and costs 1 otherwise: hidden is the action before."""
    move = np.zeros((3, 2, 3))
    move[:, 0, 1], move[:, 1, 2] = 1.0, 1.0  # hidden: nothing yet, waited, pushed
    return Pomdp(
        name="machine",
        observations=("on",),
        actions=("wait", "push"),
        start=np.array([1.0, 0.0, 0.0]),
        first=np.ones((3, 1)),
        move=move,
        see=np.ones((2, 3, 1)),
        reward=np.array([[0.0, -1.0], [0.0, 1.0], [0.0, -1.0]]),
        pi_b=np.array([[0.5, 0.5]]),
        noise=1.0,
        goes_on=0.8,
        gamma=0.9,
    )


def follows_the_past(episodes: int, rng: np.random.Generator, lag: int) -> Drawn:
    """No action does anything. The rule treats after a bad observation `lag` steps before, and such
    an observation makes the reward of the present step lower: treatment looks harmful.
    """
    length = 1 + rng.geometric(0.15, episodes)
    rows: dict[str, list[Any]] = {
        x: [] for x in ("episode", "time", "state", "action", "reward", "terminal")
    }
    for e, n in enumerate(length):
        bad = rng.random(n + lag) < 0.4
        for t in range(n):
            before = bad[t]  # of the step `lag` before; before the first one nobody saw it
            seen = t >= lag and before
            treats = rng.random() < (0.7 if seen else 0.3)
            values = (
                e, t, "bad" if bad[t + lag] else "good", "treat" if treats else "leave",
                1.0 - 1.0 * seen + rng.normal(0, 0.5), t == n - 1,
            )  # fmt: skip
            for name, x in zip(rows, values, strict=True):
                rows[name].append(x)
    return Drawn(
        {k: np.array(x) for k, x in rows.items()},
        0.9,
        None,
        lambda policy, steps: 0.0,
        ("leave", "treat"),
    )


def noise(episodes: int, rng: np.random.Generator) -> Drawn:
    """Tiger whose rewards do not depend on what is done: memory finds chance alone."""
    world = replace(tiger(), reward=np.zeros((2, 3)), noise=1.0, goes_on=0.85)
    world = replace(world, pi_b=np.tile([0.5, 0.25, 0.25], (3, 1)))
    return of_pomdp(world, episodes, rng)


def service(episodes: int, rng: np.random.Generator, better: float) -> Drawn:
    """One kind of visit, fast (1 day) or slow (5 to 15 days), after which one customer of eight
    leaves. The slow one pays so much that by days both are worth the same, plus `better`; by visits
    it looks far better.
    """
    gamma, on, share = 0.95, 0.875, 0.3
    lengths = np.arange(5, 16)
    after = np.array([on * gamma, on * float(np.mean(gamma**lengths))])
    # v = 1 + after[0] v = pay + after[1] v where both are worth the same
    level = 1.0 / (1 - after[0])
    pay = np.array([1.0, level * (1 - after[1]) + better])

    def value(slow: float) -> float:
        pi = np.array([1 - slow, slow])
        return float(pi @ pay / (1 - pi @ after))

    rows: dict[str, list[Any]] = {
        x: [] for x in ("episode", "time", "state", "action", "reward", "terminal")
    }
    for e in range(episodes):
        day = 0
        while True:
            slow = int(rng.random() < share)
            ends = rng.random() >= on
            reward = pay[slow] + rng.normal(0, 0.5)
            for name, x in zip(
                rows, (e, day, "visit", ("fast", "slow")[slow], reward, ends), strict=True
            ):
                rows[name].append(x)
            day += int(rng.choice(lengths)) if slow else 1
            if ends:
                break

    def gain(policy: dict[Any, np.ndarray], steps: int) -> float:
        found = policy.get("visit")
        return 0.0 if found is None else value(float(found[1])) - value(share)

    rule = Policy(pi=np.array([[1 - share, share]]), labels=Labels(("visit",), ("fast", "slow")))
    return Drawn({k: np.array(x) for k, x in rows.items()}, gamma, rule, gain, ("fast", "slow"))


def chain_of_lengths(episodes: int, rng: np.random.Generator, null: bool) -> Drawn:
    """Two states; in the second an action leads on quickly or slowly. Rewards come in the first
    alone; whether an end comes depends on neither. Estimated baseline. By visits both actions are
    the same; by days the quick one is better, unless `null` (then both take as long).
    """
    gamma, on = 0.9, 0.9
    long = np.array([1, 2, 3]) if null else np.array([4, 5, 6])
    lengths = {"quick": np.array([1, 2, 3]), "slow": long}
    rows: dict[str, list[Any]] = {
        x: [] for x in ("episode", "time", "state", "action", "reward", "terminal")
    }
    for e in range(episodes):
        day, state, ends = 0, "paid", False
        while not ends:
            action = "slow" if rng.random() < 0.5 else "quick"
            ends = bool(rng.random() >= on)
            reward = (1.0 if state == "paid" else 0.0) + rng.normal(0, 0.3)
            for name, x in zip(rows, (e, day, state, action, reward, ends), strict=True):
                rows[name].append(x)
            day += int(rng.choice(lengths[action] if state == "way" else [1]))
            state = "way" if state == "paid" else "paid"
    mean = {a: float(np.mean(gamma**x)) for a, x in lengths.items()}

    def value(slow: float) -> float:
        back = on * (slow * mean["slow"] + (1 - slow) * mean["quick"])
        return 1.0 / (1 - on * gamma * back)

    def gain(policy: dict[Any, np.ndarray], steps: int) -> float:
        found = policy.get("way")
        return 0.0 if found is None else value(float(found[1])) - value(0.5)

    return Drawn({k: np.array(x) for k, x in rows.items()}, gamma, None, gain, ("quick", "slow"))


FAMILIES = (
    Family(
        "null: follows the past",
        lambda g: follows_the_past(300, g, 1),
        (*STEPS, ACCEPTED[0]),
        True,
    ),
    Family("null: memory of noise", lambda g: noise(400, g), STEPS, True),
    Family("machine, 300 episodes", lambda g: of_pomdp(machine(), 300, g), STEPS, False),
    Family("Tiger", lambda g: of_pomdp(tiger(), 1500, g), (*STEPS, *ACCEPTED), False),
    Family("CheeseMaze", lambda g: of_pomdp(cheese_maze(), 300, g), (*STEPS, *ACCEPTED), False),
    Family("Voicemail", lambda g: of_pomdp(voicemail(), 1500, g), (*STEPS, *ACCEPTED), False),
    Family("null: slow pays as much", lambda g: service(300, g, 0.0),
           (TIMED, PLAIN), True),
    Family("slow pays less by days", lambda g: service(300, g, -0.6), (TIMED, PLAIN), False),
    Family("null: lengths do not differ", lambda g: chain_of_lengths(300, g, True),
           (TIMED, PLAIN), True),
    Family("quick way", lambda g: chain_of_lengths(300, g, False), (TIMED, PLAIN), False),
)  # fmt: skip


def judged(drawn: Drawn, plain: Log, way: Way) -> tuple[bool, float, float]:
    """(supported, true gain of what is used, true gain of the candidate)."""
    log = with_pace(remember(plain, way.history), way.per)
    problem = log.problem(drawn.gamma, drawn.baseline)
    algorithm = chosen_algorithm(problem, "priced-soft-spibb")
    against = () if way.direct else None
    advice = learn_and_test(log, problem, algorithm, despite=way.despite, against=against)
    pi = np.asarray(advice.candidate)[:, [log.labels.action_code(a) for a in drawn.actions]]
    worth = drawn.gain(
        {s: pi[i] for i, s in enumerate(log.states) if not log.terminal[i]}, way.history
    )
    return advice.supported, worth if advice.supported else 0.0, worth


def main() -> None:
    """Measure what the command line asks for, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--only", default="")
    parser.add_argument("--direct", action="store_true")
    given = parser.parse_args()
    for family in FAMILIES:
        if given.only and not any(x in family.name for x in given.only.split(",")):
            continue
        ways = [replace(x, direct=given.direct) for x in family.ways]
        ways = [x for x in ways if not (x.direct and x.despite)]
        begin, found = time.perf_counter(), {way: [] for way in ways}
        for i in range(given.logs):
            drawn = family.make(np.random.default_rng([i, 15]))
            plain = read_log(drawn.table, threads=1)
            for way in ways:
                found[way].append(judged(drawn, plain, way))
        print(f"{family.name}: {given.logs} logs, {time.perf_counter() - begin:.0f} s", flush=True)
        for way, results in found.items():
            supported, used, candidate = (np.array(x) for x in zip(*results, strict=True))
            false = supported & ((used < ZERO) if family.null else (used < -ZERO))
            k, n = int(false.sum()), len(false)
            above = float(stats.beta.ppf(0.99, k + 1, n - k)) if k < n else 1.0
            print(
                f"  {way.name:32} supported {supported.mean():6.1%}  false {k:4d} (rate at most"
                f" {above:.1%}, 99 %)  true gain used {used.mean():+.4g}  candidate"
                f" {candidate.mean():+.4g}",
                flush=True,
            )


if __name__ == "__main__":
    main()
