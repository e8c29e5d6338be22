"""How often `surefoot improve` promises what is not true, and how often it finds what is: families of logs with known truth.

    python benchmarks/promises.py [--logs 300] [--only NAME,NAME] [--kind false|true|studies] [--workers 2] [--out FILE]

Each log is a CSV file that goes through the command line (`surefoot improve`, in this process); exit code 0 is SUPPORTED. A false
promise is a supported policy that is truly worse than the baseline, or no better where no policy can be. Families marked "hidden"
mislead every method that sees the log alone. `families.py` lists what there is.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from scipy import stats

from families import FALSE, STUDIES, TRUE, seed_of
from hidden_worlds import Case

SURE = 0.99
ZERO = 1e-12  # a true gain below this is none


def improve(case: Case, folder: Path) -> tuple[bool, np.ndarray, tuple[str, ...], tuple[str, ...], dict[str, object]]:
    """(supported, policy [S, A], states, actions, summary) as the command line writes them."""
    from typer.testing import CliRunner

    from surefoot.cli import app

    log, rule = case.write(folder)
    command = ["improve", str(log), "--gamma", str(case.world.gamma), "--out", str(folder / "out"), "--json"]
    every = ",".join(f"a{a:04d}" for a in range(case.world.pi_b.shape[1]))
    command += [] if rule is None else ["--baseline", str(rule), "--actions", every]
    command += [] if case.algorithm is None else ["--algorithm", case.algorithm]
    command += [x for name, value in case.settings.items() for x in ("--set", f"{name}={value}")]
    command += [x for name, value in case.options.items() for x in _option(name, value)]
    done = CliRunner().invoke(app, command)
    if done.exit_code not in (0, 3):
        raise RuntimeError(f"{' '.join(command)}: {done.output[-2000:]} {done.exception!r}")
    with open(folder / "out" / "policy.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    states, actions = (tuple(sorted({row[name] for row in rows})) for name in ("state", "action"))
    pi = np.zeros((len(states), len(actions)))
    for row in rows:
        pi[states.index(row["state"]), actions.index(row["action"])] = float(row["probability"])
    return done.exit_code == 0, pi, states, actions, json.loads((folder / "out" / "summary.json").read_text())


def _option(name: str, value: object) -> tuple[str, ...]:
    """An option of the command line; a flag has no value."""
    flag = "--" + name.replace("_", "-")
    return (flag,) if value is None else (flag, str(value))


def one(name: str, i: int) -> dict[str, object]:
    """What happens on log i of a family."""
    family = {f.name: f for f in (*FALSE, *TRUE, *STUDIES)}[name]
    made = family.make(np.random.default_rng([seed_of(name), i]))
    with tempfile.TemporaryDirectory() as folder:
        supported, pi, states, actions, summary = improve(made, Path(folder))
    for file in made.clean:
        file.unlink()
    gain = made.gain(pi, states, actions) if supported else 0.0
    return {"family": name, "log": i, "supported": supported, "gain": gain, "reason": summary["reason"]}


def rate(hits: int, n: int) -> str:
    """A share with its one-sided 99 % bounds (Clopper & Pearson)."""
    low = stats.beta.ppf(1 - SURE, hits, n - hits + 1) if hits else 0.0
    high = stats.beta.ppf(SURE, hits + 1, n - hits) if hits < n else 1.0
    return f"{hits / n:6.1%} [{low:5.1%}, {high:6.1%}]"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=300, help="of each family")
    parser.add_argument("--only", default="", help="names of families, joined by commas")
    parser.add_argument("--kind", choices=("false", "true", "studies"), default=None)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=None, help="a CSV file with a row for each family")
    given = parser.parse_args()
    names = {x for x in given.only.split(",") if x}
    kinds = {"false": FALSE, "true": TRUE, "studies": STUDIES}
    asked = [f for kind, fs in kinds.items() if given.kind in (None if kind != "studies" else kind, kind) for f in fs]
    chosen = [f for fs in kinds.values() for f in fs if f.name in names] if names else asked
    begin, table = time.perf_counter(), []
    with ProcessPoolExecutor(given.workers) as pool:
        for family in chosen:
            found = list(pool.map(one, [family.name] * given.logs, range(given.logs), chunksize=10))
            supported = sum(bool(x["supported"]) for x in found)
            wrong = sum(bool(x["supported"]) and float(str(x["gain"])) <= ZERO for x in found)
            print(
                f"{family.name:26} supported {rate(supported, given.logs)}  not better {rate(wrong, given.logs)}"
                f"{'  hidden' if family.hidden else ''}  {family.words}", flush=True,
            )  # fmt: skip
            table.append((family.name, family.words, family.hidden, given.logs, supported, wrong))
    print(f"{time.perf_counter() - begin:.0f} s")
    if given.out is not None:
        with open(given.out, "w", newline="") as file:
            csv.writer(file).writerows([("family", "words", "hidden", "logs", "supported", "not_better"), *table])


if __name__ == "__main__":
    main()
