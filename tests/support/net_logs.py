"""Small logs of every kind for the golden runs of tests/net: tables from seeds, and for each what
the commands are asked about it.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

STATES = ("dry", "wet", "ice")
ACTIONS = ("hold", "push", "stop")
USUAL = ((0.6, 0.2, 0.2), (0.5, 0.3, 0.2), (0.7, 0.15, 0.15))
EVEN = ((0.4, 0.3, 0.3), (0.3, 0.4, 0.3), (0.3, 0.3, 0.4))
BETTER = ((0.2, 0.7, 0.1), (0.2, 0.7, 0.1), (0.7, 0.15, 0.15))
WORSE = ((0.7, 0.1, 0.2), (0.6, 0.1, 0.3), (0.6, 0.1, 0.3))
GAIN = ((0.0, 0.6, 0.1), (0.0, 0.5, -0.2), (0.0, -0.3, 0.1))  # what an action pays beyond "hold"
CAP = 60  # steps that no episode exceeds
NOTHING = ((0.0,) * 3,) * 3

Table = dict[str, list[Any]]
Policy = Sequence[Sequence[float]]


@dataclass(frozen=True)
class NetLog:
    """`write` makes log.csv and its other files in a folder; `runs` are the command lines by
    command, without the log and what all of them share.
    """

    write: Callable[[Path], None]
    shared: tuple[str, ...]
    runs: Mapping[str, tuple[str, ...]]
    log: str = "log.csv"


def walk(
    seed: int,
    episodes: int,
    steps: int,
    *,
    pi_b: Policy = USUAL,
    gain: Policy = GAIN,
    noise: float = 0.5,
    remembers: float = 0.0,
    drifts: float = 0.0,
    learns: float = 0.0,
    forbidden: tuple[int, int] | None = None,
) -> Table:
    """Episodes of so many steps on average, ended by chance; a single one has all of them and no
    end. With `remembers` an action pays that much more after "push"; `drifts`: rewards grow by that
    over the log; `learns`: "push" grows more frequent by that.
    """
    rng = np.random.default_rng(seed)
    p = np.random.default_rng(99).dirichlet(np.ones(3), size=(3, 3)).cumsum(axis=-1)
    made: Table = {x: [] for x in ("episode", "time", "state", "action", "reward", "terminal")}
    for episode in range(episodes):
        s, last = int(rng.integers(3)), 0
        for t in range(steps if episodes == 1 else CAP):
            done = t / steps if episodes == 1 else episode / episodes
            over = episodes > 1 and (rng.random() * steps < 1 or t == CAP - 1)
            row = np.array(pi_b[s]) + learns * done * np.array([-1.0, 1.0, 0.0])
            a = min(int(np.searchsorted(row.cumsum(), rng.random())), 2)
            if (s, a) == forbidden:
                a = 0
            pays = gain[s][a] + 0.4 * s + remembers * (last == 1) + drifts * done
            reward = round(float(np.clip(pays + noise * rng.normal(), -2, 3)), 3)
            values = (f"e{episode:04d}", t, STATES[s], ACTIONS[a], reward, int(over))
            for name, value in zip(made, values, strict=True):
                made[name].append(value)
            s, last = min(int(np.searchsorted(p[s, a], rng.random())), 2), a
            if over:
                break
    return made


def put(path: Path, table: Mapping[str, Sequence[Any]], delimiter: str = ",") -> None:
    """Write a table as text."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))


def put_policy(path: Path, pi: Policy, states: Sequence[str] = STATES) -> None:
    """Write a policy in the long form."""
    rows = [(s, a, pi[i][j]) for i, s in enumerate(states) for j, a in enumerate(ACTIONS)]
    names = ("state", "action", "probability")
    put(path, dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def written(
    table: Callable[[], Table], *, rule: Policy | None = USUAL, new: Policy = BETTER
) -> Callable[[Path], None]:
    """Writes log.csv, rule.csv and policy.csv."""

    def write(folder: Path) -> None:
        put(folder / "log.csv", table())
        put_policy(folder / "policy.csv", new)
        if rule is not None:
            put_policy(folder / "rule.csv", rule)

    return write


def binary(seed: int, episodes: int, steps: int, chance: float = 0.3) -> Table:
    """A walk whose reward is 0 or 1: "push" succeeds more often."""
    made = walk(seed, episodes, steps, pi_b=EVEN)
    draws = np.random.default_rng(seed + 1).random(len(made["action"]))
    odds = chance + 0.4 * np.array([a == "push" for a in made["action"]])
    return made | {"reward": (draws < odds).astype(int).tolist()}


def with_costs(seed: int) -> Table:
    """Beside the reward a cost that "push" lowers, and a quality that it hardly touches."""
    made = walk(seed, 400, 5)
    rng = np.random.default_rng(seed + 1)
    push, n = np.array([a == "push" for a in made["action"]]), len(made["action"])
    cost = np.round(1 - 0.4 * push + 0.3 * rng.normal(size=n), 3)
    quality = (rng.random(n) < 0.5 + 0.05 * push).astype(int)
    return made | {"cost": cost.tolist(), "quality": quality.tolist()}


def with_groups(seed: int) -> Table:
    """Episodes of three groups; for the smallest "push" pays nothing."""
    made = walk(seed, 400, 5)
    of = np.random.default_rng(seed + 1).choice(3, 400, p=(0.5, 0.35, 0.15))
    group = [int(of[int(e[1:])]) for e in made["episode"]]
    rows = zip(made["reward"], group, made["action"], strict=True)
    less = [r - 0.4 * (g == 2) * (a == "push") for r, g, a in rows]
    site = [("north", "south", "west")[g] for g in group]
    return made | {"site": site, "reward": [round(x, 3) for x in less]}


def several(seed: int, episodes: int = 150, steps: int = 5) -> Table:
    """Two policies by turns of episodes, with the probability of each choice."""
    both = [walk(seed + i, episodes, steps, pi_b=pi) for i, pi in enumerate((USUAL, EVEN))]
    made: Table = {name: [] for name in both[0]} | {"who": [], "chance": []}
    for made_by, pi, part in zip("AB", (USUAL, EVEN), both, strict=True):
        for name, values in part.items():
            made[name] += [f"{made_by}{x}" for x in values] if name == "episode" else values
        pairs = zip(part["state"], part["action"], strict=True)
        made["who"] += [made_by] * len(part["state"])
        made["chance"] += [pi[STATES.index(s)][ACTIONS.index(a)] for s, a in pairs]
    return made


def uneven(seed: int) -> Table:
    """Steps of one to four hours."""
    made = walk(seed, 250, 8)
    n = len(made["time"])
    return made | {"time": np.random.default_rng(seed + 1).integers(1, 5, n).cumsum().tolist()}


def copied(seed: int) -> Table:
    """Every third episode stands there twice."""
    made = walk(seed, 200, 8)
    again = [i for i, e in enumerate(made["episode"]) if int(e[1:]) % 3 == 0]
    more = {name: [values[i] for i in again] for name, values in made.items()}
    more["episode"] = [f"f{e[1:]}" for e in more["episode"]]
    return {name: values + more[name] for name, values in made.items()}


def untidy(folder: Path) -> None:
    """Semicolons, decimal commas, other names, rewards left empty and a row that is bad."""
    made = walk(41, 250, 6)
    rewards = [
        "" if i % 97 == 5 else str(r).replace(".", ",") for i, r in enumerate(made["reward"])
    ]
    rewards[11] = "n/a"
    names = {"episode": "trip", "time": "no", "state": "road", "action": "did", "terminal": "over"}
    put(folder / "log.csv", {names[x]: made[x] for x in names} | {"paid": rewards}, ";")
    put_policy(folder / "rule.csv", USUAL)
    put_policy(folder / "policy.csv", BETTER)


def masked(folder: Path) -> None:
    """ "stop" is never taken on ice, and must not be taken when wet, where the rule takes it."""
    written(lambda: walk(3, 400, 5, forbidden=(2, 2)))(folder)
    put_policy(folder / "rule.csv", (*USUAL[:2], (0.85, 0.15, 0.0)))
    pairs = [(s, a) for s in STATES for a in ACTIONS if (s, a) not in (("wet", "stop"),)]
    pairs.remove(("ice", "stop"))
    put(folder / "allowed.csv", {"state": [s for s, _ in pairs], "action": [a for _, a in pairs]})
    put_policy(folder / "policy.csv", ((0.2, 0.7, 0.1), (0.3, 0.7, 0.0), (0.85, 0.15, 0.0)))


def one_step(seed: int) -> Table:
    """Rows of single decisions, without episodes."""
    made = walk(seed, 900, 1)
    return {name: made[name] for name in ("state", "action", "reward")}


def lower(seed: int) -> Table:
    """A column of which less is better."""
    made = walk(seed, 400, 5)
    made["harm"] = [round(1 - r, 3) for r in made.pop("reward")]
    return made


def shipped(folder: Path) -> None:
    """Nothing: the log comes with surefoot."""


DATA = Path(__file__).parents[2] / "src" / "surefoot" / "data"
G = ("--gamma", "0.8")
RULE = ("--baseline", "rule.csv")
ENDS = ("--reward-range=-2,3",)
PI = ("--policy", "policy.csv")
HOPS = ("basic-rl", "hcpi", "pi-b-spibb", "ramdp+pi-b-spibb", "priced-soft-spibb")
TUNED = ("--models", "40", "--simulated", "0", "--try", "pi-b-spibb n_wedge=5,20")
TUNED += ("--try", "priced-soft-spibb epsilon=0.5,1")
WATCH = (*PI, "--state-file", "capital.json")

LOGS: dict[str, NetLog] = {
    "shipped": NetLog(
        shipped,
        (*("--gamma", "0.95"), "--baseline", str(DATA / "wet_chicken_rule.csv")),
        {
            "improve": ("--reward-range", "0,4"),
            "check": (),
            "compare": ("--only", "basic-rl,pi-b-spibb"),
        },
        log=str(DATA / "wet_chicken.csv"),
    ),
    "plain": NetLog(
        written(lambda: walk(1, 300, 5)),
        (*G, *RULE),
        {
            "improve": ENDS,
            "check": (),
            "safety-test": (*PI, *ENDS, "--horizon", "60"),
            "certify": (*PI, *ENDS),
            "evaluate": (*PI, *ENDS),
            "watch": (*WATCH, *ENDS, "--horizon", "60"),
            "tune": TUNED,
            "compare": ("--only", ",".join(HOPS)),
        },
    ),
    "masked": NetLog(
        masked,
        (*G, *RULE),
        {
            "improve": ("--allowed", "allowed.csv", "--renormalise"),
            "compare": ("--allowed", "allowed.csv", "--renormalise", "--only", "pi-b-spibb"),
            "evaluate": PI,
            "check": (),
        },
    ),
    "guards": NetLog(
        written(lambda: with_costs(4)),
        (*G, *RULE, "--guard", "cost:lower:0.2:-1,3", "--guard", "quality:higher:0.4:0,1"),
        {"improve": (), "safety-test": (*PI, *ENDS, "--horizon", "60")},
    ),
    "groups": NetLog(
        written(lambda: with_groups(5)),
        (*G, *RULE, "--group", "site"),
        {
            "improve": ("--group-tolerance", "0.1"),
            "safety-test": (*PI, *ENDS, "--horizon", "60"),
        },
    ),
    "several": NetLog(
        written(lambda: several(6), rule=None),
        (*G, "--policy-column", "who", "--propensity", "chance"),
        {
            "improve": ("--baseline-policy", "A"),
            "check": (),
            "evaluate": (*PI, "--baseline-policy", "A"),
            "safety-test": (*PI, *ENDS, "--baseline-policy", "A", "--horizon", "60"),
        },
    ),
    "policies": NetLog(
        written(lambda: several(25), rule=None),
        (*G, "--policy-column", "who"),
        {"improve": ("--baseline-policy", "B"), "check": ()},
    ),
    "propensities": NetLog(
        written(lambda: several(26, 1200, 1)),
        (*G, *RULE, "--propensity", "chance"),
        {"improve": ENDS, "check": (), "watch": (*WATCH, *ENDS), "evaluate": PI},
    ),
    "one": NetLog(
        written(lambda: walk(7, 1, 2500)),
        G,
        {
            "improve": ("--episode", "-", "--terminal", "-"),
            "check": ("--episode", "-", "--terminal", "-"),
            "tune": ("--terminal", "-", *TUNED),
        },
    ),
    "bandit": NetLog(
        written(lambda: one_step(8)),
        ("--bandit", *RULE),
        {
            "improve": ENDS,
            "check": (),
            "evaluate": PI,
            "safety-test": (*PI, *ENDS),
            "certify": (*PI, *ENDS),
            "watch": (*WATCH, *ENDS),
        },
    ),
    "estimated": NetLog(
        written(lambda: walk(9, 300, 5)),
        G,
        {
            "improve": ("--smoothing", "0.5"),
            "check": (),
            "evaluate": PI,
            "compare": ("--only", "basic-rl,pi-b-spibb"),
        },
    ),
    "uneven": NetLog(
        written(lambda: uneven(10)),
        (*G, "--discount-per", "2"),
        {"improve": RULE, "check": RULE, "compare": (*RULE, "--only", "pi-b-spibb")},
    ),
    "history": NetLog(
        written(lambda: walk(11, 400, 5, remembers=0.6)),
        (*G, "--history", "1"),
        {"improve": (), "check": (), "tune": TUNED},
    ),
    "remembers": NetLog(
        written(lambda: walk(12, 400, 5, remembers=1.2)),
        G,
        {
            "improve": (),
            "check": RULE,
            "evaluate": (*RULE, *PI),
            "certify": (*RULE, *PI, *ENDS),
            "compare": (*RULE, "--only", "pi-b-spibb"),
        },
    ),
    "idle": NetLog(
        written(lambda: walk(13, 200, 5, gain=NOTHING)),
        (*G, *RULE),
        {"improve": (), "safety-test": (*PI, *ENDS, "--horizon", "60"), "certify": (*PI, *ENDS)},
    ),
    "drifts": NetLog(
        written(lambda: walk(14, 400, 5, drifts=1.5, learns=0.3)),
        G,
        {"improve": (), "check": ()},
    ),
    "despite": NetLog(
        written(lambda: walk(15, 400, 5, drifts=1.5)),
        G,
        {"improve": ("--despite", "drift"), "check": ()},
    ),
    "copies": NetLog(
        written(lambda: copied(16)), (*G, *RULE), {"improve": (), "check": (), "evaluate": PI}
    ),
    "lower": NetLog(
        written(lambda: lower(17)),
        (*G, *RULE, "--reward", "harm:lower"),
        {
            "improve": ("--reward-range=-2,3",),
            "check": (),
            "evaluate": PI,
            "certify": (*PI, "--reward-range=-2,3"),
        },
    ),
    "few": NetLog(
        written(lambda: walk(18, 400, 5)), (*G, *RULE), {"improve": ("--most-changes", "1")}
    ),
    "refit": NetLog(written(lambda: walk(19, 400, 5)), (*G, *RULE), {"improve": ("--refit",)}),
    "episodes": NetLog(
        written(lambda: binary(20, 3000, 1), rule=EVEN),
        (*G, *RULE, "--reward-range", "0,1"),
        {
            "improve": (),
            "safety-test": (*PI, "--horizon", "1"),
            "watch": (*WATCH, "--horizon", "1"),
        },
    ),
    "proof": NetLog(
        written(lambda: binary(21, 6000, 1), rule=EVEN),
        (*G, *RULE, "--reward-range", "0,1", "--return-range", "0,1"),
        {"improve": ("--algorithm", "screened-advantage"), "certify": PI},
    ),
    "certified": NetLog(
        written(lambda: binary(22, 3000, 1), rule=EVEN),
        (*G, *RULE, "--reward-range", "0,1", "--return-range", "0,1"),
        {"improve": ("--algorithm", "certified-advantage", "--set", "delta=0.05")},
    ),
    "worse": NetLog(
        written(lambda: binary(23, 2000, 1), rule=EVEN, new=WORSE),
        (*G, *RULE),
        {
            "evaluate": (*PI, *ENDS),
            "safety-test": (*PI, "--reward-range", "0,1", "--horizon", "1"),
            "watch": (*WATCH, "--reward-range", "0,1", "--horizon", "1"),
            "certify": PI,
        },
    ),
    "untidy": NetLog(
        untidy,
        (
            *(*G, *RULE, "--delimiter", ";", "--decimal", ",", "--drop-bad-rows", "reward"),
            *("--missing-reward", "0", "--episode", "trip", "--time", "no", "--state", "road"),
            *("--action", "did", "--reward", "paid", "--terminal", "over"),
        ),
        {"improve": (), "check": ()},
    ),
}
