"""What stands around the verdict, through the command line: groups, guards, several loggers, a
baseline file that is a little wrong, missing episodes, `watch` and `tune`; logs of known truth.

    python measurements/gates.py [--logs 300] [--only NAME,NAME] [--workers 2]

A family is false where its word ("SUPPORTED", a verdict of `watch`, a change that `tune` chooses)
must not be said, and counts how often it is; honest families beside them count how often it is said
where it is true.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import tempfile
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from promises import _command, rate

Columns = dict[str, Any]
Asked = Callable[[np.random.Generator, Path], bool]


@dataclass(frozen=True)
class Family:
    """`ask` makes a log, asks the command line, and says whether the word was said; `honest`: it
    is true there.
    """

    name: str
    words: str
    ask: Asked
    honest: bool = False
    logs: int = 300


def write(path: Path, columns: Columns) -> str:
    """A CSV file of these columns."""
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(columns)
        out.writerows(zip(*columns.values(), strict=True))
    return str(path)


def rule(path: Path, rows: dict[str, dict[str, float]]) -> str:
    """A policy file."""
    flat = [(s, a, p) for s, row in rows.items() for a, p in row.items()]
    names = ("state", "action", "probability")
    return write(path, dict(zip(names, zip(*flat, strict=True), strict=True)))


def ask(*command: str) -> tuple[int, str]:
    """(exit code, what is printed)."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()):
        code = _command().main([*command], standalone_mode=False)
    return int(code or 0), out.getvalue()


def supported(folder: Path, log: str, *more: str) -> bool:
    """Whether `improve` supports a change."""
    code, words = ask("improve", log, "--out", str(folder / "out"), "--json", "--no-report", *more)
    if code not in (0, 3):
        raise RuntimeError(f"exit code {code}: {words}")
    return code == 0


def one_step(n: int, **columns: Any) -> Columns:
    """One-step episodes in one state."""
    named = {"episode": [f"e{i:06d}" for i in range(n)], "state": ["s"] * n, "terminal": [1] * n}
    return named | {k: x.tolist() if isinstance(x, np.ndarray) else x for k, x in columns.items()}


def groups(
    rng: np.random.Generator,
    folder: Path,
    b: float = -2.0,
    small: int = 30,
    declared: bool = True,
    given: bool = True,
) -> bool:
    """1,000 one-step episodes, some of group B; the baseline takes "new" with .9, which gains .8
    for all others and `b` for B.
    """
    n = 1000
    group = np.where(rng.permutation(n) < small, "B", "A")
    new = rng.random(n) < 0.9
    reward = np.where(new, np.where(group == "A", 0.8, b), 0.0) + 0.5 * rng.standard_normal(n)
    reward = np.clip(reward, -4, 4)
    action = np.where(new, "new", "old")
    log = write(folder / "log.csv", one_step(n, group=group, action=action, reward=reward))
    base = rule(folder / "rule.csv", {"s": {"new": 0.9, "old": 0.1}})
    more = ["--gamma", "0", "--group", "group"]
    more += ["--reward-range", "-4,4"] if declared else []
    return supported(folder, log, *more, *(["--baseline", base] if given else []))


def loggers(
    rng: np.random.Generator,
    folder: Path,
    new: tuple[float, float] = (0.2, 0.8),
    success: tuple[float, float] = (0.2, 0.6),
    better: float = 0.0,
    how: str = "file",
    n: int = 1200,
) -> bool:
    """Two loggers with true propensities: success depends on the logger and, by `better`, on the
    action.
    """
    who = rng.integers(0, 2, n)
    share = np.array(new)[who]
    taken = rng.random(n) < share
    reward = (rng.random(n) < np.array(success)[who] + better * taken).astype(float)
    columns = {
        "policy": np.array(["p", "q"])[who].tolist(),
        "state": ["s"] * n,
        "action": np.where(taken, "new", "old").tolist(),
        "reward": reward.tolist(),
        "propensity": np.where(taken, share, 1 - share).tolist(),
    }
    log = write(folder / "log.csv", columns)
    more = ["--bandit", "--reward-range", "0,1"]
    if how == "file":
        base = rule(folder / "rule.csv", {"s": {"new": 0.5, "old": 0.5}})
        more += ["--baseline", base]
    elif how == "column":
        more += ["--policy-column", "policy", "--baseline-policy", "p"]
    return supported(folder, log, *more)


def versions(
    rng: np.random.Generator,
    folder: Path,
    level: tuple[float, float, float] = (0.1, 0.4, 0.7),
    better: float = 0.0,
    rare: float = 0.1,
    changed: bool = False,
    n: int = 3000,
    guard: bool = False,
) -> bool:
    """Three named versions with true propensities, that of one action down to `rare`, in 4 states:
    success depends on the version and, by `better`, on the action. `changed`: in the second half of
    the log the first version takes the other probabilities of a state. `guard`: a column like it.
    """
    shares = rng.dirichlet(np.ones(3), (3, 4))
    shares = (shares + rare) / (1 + 3 * rare)
    who, state = rng.integers(0, 3, n), rng.integers(0, 4, n)
    late = changed & (np.arange(n) >= n // 2) & (who == 0)
    p = np.where(late[:, None], shares[0, state][:, ::-1], shares[who, state])
    action = (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    reward = rng.random(n) < np.array(level)[who] + better * (action == state % 3)
    columns = {
        "time": np.arange(n).tolist(),
        "version": np.array(["v0", "v1", "v2"])[who].tolist(),
        "state": [f"s{x}" for x in state],
        "action": [f"a{x}" for x in action],
        "reward": reward.astype(int).tolist(),
        "cost": np.where(rng.random(n) < 0.3, rng.lognormal(0, 1, n).clip(0, 20), 0.0).tolist(),
        "propensity": p[np.arange(n), action].tolist(),
    }
    log = write(folder / "log.csv", columns)
    first = {f"s{s}": {f"a{a}": float(shares[0, s, a]) for a in range(3)} for s in range(4)}
    more = ["--bandit", "--reward-range", "0,1", "--policy-column", "version"]
    more += ["--guard", "cost:lower:0:0,20", "--accept"] if guard else []
    if guard:  # is a guard called "no worse" of a policy that costs as much? half of them should
        ask("improve", log, "--out", str(folder / "out"), *more, "--baseline",
            rule(folder / "rule.csv", first))  # fmt: skip
        found = json.loads((folder / "out" / "summary.json").read_text())
        return any(x["low"] is not None and x["low"] > 0 for x in found["guards"])
    return supported(folder, log, *more, "--baseline", rule(folder / "rule.csv", first))


def guarded(
    rng: np.random.Generator,
    folder: Path,
    n: int = 400,
    cost: float = 1.0,
    chance: tuple[float, float] = (0.0, 0.002),
    declared: bool = False,
) -> bool:
    """One-step episodes; the second action pays .3 more, and costs so much with so small a chance:
    the guarded column.
    """
    action = (rng.random(n) < 0.5).astype(int)
    harm = cost * (rng.random(n) < np.array(chance)[action])
    reward = 0.3 * action + 0.3 * rng.standard_normal(n)
    columns = one_step(n, action=np.array(["a0", "a1"])[action], reward=reward, harm=harm)
    base = rule(folder / "rule.csv", {"s": {"a0": 0.5, "a1": 0.5}})
    guard = f"harm:lower:0:0,{cost:g}" if declared else "harm:lower"
    log = write(folder / "log.csv", columns)
    return supported(folder, log, "--gamma", "0", "--guard", guard, "--baseline", base)


def slightly_wrong(
    rng: np.random.Generator,
    folder: Path,
    file: float = 0.88,
    true: float = 0.9,
    better: float = 0.0,
) -> bool:
    """1,500 episodes of four steps; the log takes a0 with .90, the file says otherwise; no action
    matters, or a1 pays more.
    """
    n, steps = 1500, 4
    action = (rng.random((n, steps)) >= true).astype(int)
    reward = (rng.random((n, steps)) < 0.5 + better * action).astype(float)
    columns = {
        "episode": np.repeat(np.arange(n), steps).tolist(),
        "time": np.tile(np.arange(steps), n).tolist(),
        "state": ["s"] * (n * steps),
        "action": np.array(["a0", "a1"])[action.reshape(-1)].tolist(),
        "reward": reward.reshape(-1).tolist(),
        "terminal": np.tile(np.arange(steps) == steps - 1, n).astype(int).tolist(),
    }
    base = rule(folder / "rule.csv", {"s": {"a0": file, "a1": 1 - file}})
    more = ("--gamma", "1", "--return-range", "0,4", "--reward-range", "0,1", "--baseline", base)
    return supported(folder, write(folder / "log.csv", columns), *more)


def missing(
    rng: np.random.Generator,
    folder: Path,
    n: int = 800,
    removed: float = 0.3,
    geometric: bool = False,
    better: float = 0.0,
) -> bool:
    """Two actions with success .5; episodes in which the second one failed are removed with some
    chance; the others keep their numbers.
    """
    length = rng.geometric(0.5, n) if geometric else np.ones(n, dtype=int)
    episode = np.repeat(np.arange(n), length)
    rows = len(episode)
    action = rng.integers(0, 2, rows)
    reward = (rng.random(rows) < 0.5 + better * action).astype(float)
    failed = np.bincount(episode, weights=action * (1 - reward), minlength=n) > 0
    gone = failed & (rng.random(n) < removed)
    kept = ~gone[episode]
    first = np.append(True, episode[1:] != episode[:-1])
    step = np.arange(rows) - np.maximum.accumulate(np.where(first, np.arange(rows), 0))
    columns = {
        "episode": episode[kept].tolist(),
        "time": step[kept].tolist(),
        "state": ["s"] * int(kept.sum()),
        "action": np.array(["a0", "a1"])[action[kept]].tolist(),
        "reward": reward[kept].tolist(),
        "terminal": np.append(first[1:], True)[kept].astype(int).tolist(),
    }
    base = rule(folder / "rule.csv", {"s": {"a0": 0.5, "a1": 0.5}})
    gamma = "0.9" if geometric else "0"
    more = ("--gamma", gamma, "--reward-range", "0,1", "--baseline", base)
    return supported(folder, write(folder / "log.csv", columns), *more)


def watched(
    rng: np.random.Generator,
    folder: Path,
    better: float = 0.0,
    stamps: bool = True,
    ordered: bool = True,
    looks: int = 30,
) -> bool:
    """A growing log, a new file of 100 rows a look, each sorted by action (or not); whether a watch
    ever says something.
    """
    base = rule(folder / "rule.csv", {"s": {"a0": 0.5, "a1": 0.5}})
    new = rule(folder / "new.csv", {"s": {"a0": 0.0, "a1": 1.0}})
    state = folder / "watch.json"
    for look in range(looks):
        action = (rng.random(100) < 0.5).astype(int)
        reward = (rng.random(100) < 0.9 - better * (1 - action)).astype(float)
        order = np.argsort(-action, kind="stable") if ordered else np.arange(100)
        at = 100 * look + order
        columns = {
            "episode": [f"e{i:06d}" for i in at],
            **({"time": (1_700_000_000 + 60 * at).tolist()} if stamps else {}),
            "state": ["s"] * 100,
            "action": np.array(["a0", "a1"])[action[order]].tolist(),
            "reward": reward[order].tolist(),
            "terminal": [1] * 100,
        }
        more = ("--policy", new, "--baseline", base, "--gamma", "0", "--reward-range", "0,1")
        log = write(folder / f"{look:03d}.csv", columns)
        _, words = ask("watch", log, *more, "--state-file", str(state), "--json")
        if json.loads(words)["verdict"] != "no evidence":
            return True
    return False


def tuned(rng: np.random.Generator, folder: Path, n: int = 200, loss: float = -59.0) -> bool:
    """Five states; a1 pays 1, but `loss` once in 50; a0 pays 0: whether `tune` chooses a change.
    Without a loss it is better.
    """
    action = (rng.random(n) < 0.3).astype(int)
    bad = rng.random(n) < 0.02
    reward = np.where(action == 1, np.where(bad, loss, 1.0), 0.0)
    states = [f"s{i}" for i in rng.integers(0, 5, n)]
    columns = one_step(n, action=np.array(["a0", "a1"])[action], reward=reward)
    log = write(folder / "log.csv", columns | {"state": states})
    base = rule(folder / "rule.csv", {f"s{i}": {"a0": 0.7, "a1": 0.3} for i in range(5)})
    low = f"{min(loss, 0.0):g},1"
    more = ("--gamma", "0", "--baseline", base, f"--reward-range={low}", "--simulated", "0")
    _, words = ask("tune", log, *more, "--json")
    return json.loads(words)["next"] is not None


def combined(rng: np.random.Generator, folder: Path, gate: str, option: str) -> bool:
    """Null logs of two states and three steps, nothing matters: a guard, or two groups, together
    with propensities of two loggers, a history of one step, or steps of one to three days.
    """
    n, steps = 500, 3
    share = np.repeat(np.array([0.3, 0.6])[rng.integers(0, 2, n)], steps)
    share = share if option == "propensity" else np.full(n * steps, 0.4)
    taken = rng.random(n * steps) < share
    day = np.tile(np.arange(steps), n)
    if option == "per":
        gap = rng.integers(1, 4, (n, steps))
        day = (np.cumsum(gap, axis=1) - gap[:, :1]).reshape(-1)
    last = np.tile(np.arange(steps) == steps - 1, n)
    end = rng.random(n * steps) < 0.2
    over = np.cumsum(np.where(end | last, 1, 0).reshape(n, steps), axis=1)
    kept = (over - np.where(end | last, 1, 0).reshape(n, steps) == 0).reshape(-1)
    states = np.array(["x", "y"])[rng.integers(0, 2, n * steps)]
    columns = {
        "episode": np.repeat(np.arange(n), steps),
        "time": day,
        "state": states,
        "action": np.where(taken, "new", "old"),
        "reward": (rng.random(n * steps) < 0.5).astype(float),
        "harm": (rng.random(n * steps) < 0.3).astype(float),
        "group": np.repeat(np.where(rng.random(n) < 0.5, "f", "m"), steps),
        "terminal": (end | last).astype(int),
    }
    if option == "propensity":
        columns["propensity"] = np.where(taken, share, 1 - share)
    log = write(folder / "log.csv", {k: x[kept].tolist() for k, x in columns.items()})
    row = {"new": 0.4, "old": 0.6}
    base = rule(folder / "rule.csv", {"x": row, "y": row})
    more = ["--gamma", "0.9", "--reward-range", "0,1", "--baseline", base]
    more += ["--guard", "harm:lower:0.1:0,1"] if gate == "guard" else ["--group", "group"]
    more += {"propensity": [], "history": ["--history", "1"], "per": ["--discount-per", "1"]}[
        option
    ]
    return supported(folder, log, *more)


FAMILIES = (
    Family("group-hurt", '1: "new" costs 30 of group B 2, range declared', groups),
    Family("group-hurt-undeclared", "without the range", partial(groups, declared=False)),
    Family("group-hurt-estimated", "baseline estimated", partial(groups, given=False)),
    Family("group-gains", "B gains .8 too, 300 of B", partial(groups, b=0.8, small=300), True),
    Family("loggers", "2: success by logger, not by action, .2 / .8", loggers),
    Family("loggers-estimated", "baseline estimated", partial(loggers, how="")),
    Family("loggers-column", "baseline one of them", partial(loggers, how="column")),
    Family("loggers-close", ".35 / .45", partial(loggers, new=(0.35, 0.45))),
    Family(
        "loggers-honest",
        "equal caseload, new better by .2",
        partial(loggers, success=(0.4, 0.4), better=0.2),
        True,
    ),
    Family("versions", "three named versions, success by version", versions),
    Family(
        "versions-rare",
        "success .01, shares down to .01",
        partial(versions, level=(0.01, 0.01, 0.02), rare=0.01),
    ),
    Family("versions-changed", "the first changes halfway", partial(versions, changed=True)),
    Family(
        "versions-guard",
        "a guard that nothing moves is shown to fall",
        partial(versions, better=0.2, level=(0.2, 0.3, 0.4), guard=True),
    ),
    Family(
        "versions-honest",
        "one action better by .1",
        partial(versions, level=(0.2, 0.2, 0.2), better=0.1),
        True,
    ),
    Family("watch-sorted", "3: null, batches sorted by action, stamps", watched, logs=400),
    Family("watch-unstamped", "the same without stamps", partial(watched, stamps=False), logs=400),
    Family("watch-better", "sorted, a1 better by .3", partial(watched, better=0.3), True, 100),
    Family("guard-rare", "4: harm .002 under a1 only, no range, 400", guarded),
    Family("guard-rare-100", "the same, 100 episodes", partial(guarded, n=100)),
    Family(
        "guard-costly",
        "cost 100 with .02, 100 episodes",
        partial(guarded, n=100, cost=100.0, chance=(0.0, 0.02)),
    ),
    Family("guard-declared", "harm .002, range declared", partial(guarded, declared=True)),
    Family(
        "guard-holds",
        "harm .1 under a0, .02 under a1, range declared",
        partial(guarded, n=1000, chance=(0.1, 0.02), declared=True),
        True,
    ),
    Family("wrong-file", "5: .90 true, .88 in the file, null", slightly_wrong),
    Family("wrong-file-.92", ".92 in the file", partial(slightly_wrong, file=0.92)),
    Family(
        "right-file",
        "the true file, .6, a1 better by .2",
        partial(slightly_wrong, file=0.6, true=0.6, better=0.2),
        True,
    ),
    Family("missing-.3", "6: failures of a1 removed with .3, 800", missing),
    Family("missing-.1", "with .1, 3,000", partial(missing, n=3000, removed=0.1)),
    Family("missing-geometric", "episodes of several steps", partial(missing, geometric=True)),
    Family(
        "missing-none",
        "all there, a1 better by .15",
        partial(missing, removed=0.0, better=0.15),
        True,
    ),
    *(
        Family(
            f"{gate}-{option}",
            f"null, {gate} with {words}",
            partial(combined, gate=gate, option=option),
        )
        for gate in ("guard", "group")
        for option, words in (
            ("propensity", "propensities"),
            ("history", "--history 1"),
            ("per", "--discount-per"),
        )
    ),
    Family("tune-200", "7: a1 pays 1, -59 once in 50; 200 rows", tuned),
    Family("tune-1000", "1,000 rows", partial(tuned, n=1000)),
    Family("tune-better", "a1 pays 1, no loss, 200 rows", partial(tuned, loss=1.0), True),
)


def one(name: str, i: int) -> bool:
    """Whether the word was said on log i of a family."""
    family = next(x for x in FAMILIES if x.name == name)
    with tempfile.TemporaryDirectory() as folder:
        return family.ask(np.random.default_rng([zlib.crc32(name.encode()), i]), Path(folder))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=0, help="of each family; 0: as listed")
    parser.add_argument("--only", default="", help="names of families, joined by commas")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    names = {x for x in given.only.split(",") if x}
    begin = time.perf_counter()
    with ProcessPoolExecutor(given.workers) as pool:
        for family in (x for x in FAMILIES if not names or x.name in names):
            n = given.logs or family.logs
            said = sum(pool.map(one, [family.name] * n, range(n), chunksize=5))
            kind = "power" if family.honest else "false"
            print(f"{family.name:24} {kind} {rate(said, n)}  {family.words}", flush=True)
    print(f"{time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
