"""How often `surefoot improve` promises what is not true, and how often it finds what is: families
of logs with known truth.

    python measurements/promises.py [--logs 300] [--only NAME,NAME]
    [--kind false|true|rules|trees|studies] [--direct] [--algorithm NAME] [--refit]
    [--rule mixture|mode] [--table] [--workers 2] [--out FILE]

Each log is a CSV file that goes through the command line (`surefoot improve`, in this process);
exit code 0 is SUPPORTED, 5 SUPPORTED despite what was waived. A false promise is a supported policy
that is truly worse than the baseline, or no better where no policy can be. The gain printed is that
of what is used: the policy where it is supported, else the baseline (gain 0); a mean over the logs.
"forbidden" counts the logs in which a finding forbids the word: on logs that are what the test
assumes, a false veto.
Families marked "hidden" mislead every method that sees the log alone. `families.py` lists them.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from families import FALSE, RULES, STUDIES, TREES, TRUE, seed_of
from hidden_worlds import Case

SURE = 0.99
ZERO = 1e-12  # a true gain below this is none
FIELDS = "family", "words", "hidden", "logs", "supported", "not_better", "forbidden", "gain"


def improve(case: Case, folder: Path, refit: bool = False) -> dict[str, object]:
    """Whether it is supported, the true gain of policy.csv and of policy-all.csv (without `refit`
    the same twice), the reason, and the keys of findings that forbid the word.
    """
    log, rule = case.write(folder)
    command = [
        "improve",
        str(log),
        "--gamma",
        str(case.world.gamma),
        "--out",
        str(folder / "out"),
        "--json",
        "--no-report",
    ]
    command += ["--refit"] if refit else []
    every = ",".join(f"a{a:04d}" for a in range(case.world.pi_b.shape[1]))
    command += [] if rule is None else ["--baseline", str(rule), "--actions", every]
    command += [] if case.algorithm is None else ["--algorithm", case.algorithm]
    command += [x for name, value in case.settings.items() for x in ("--set", f"{name}={value}")]
    command += [x for name, value in case.options.items() for x in _option(name, value)]
    with redirect_stdout(io.StringIO()):
        exit_code = _command().main(command, standalone_mode=False)
    if exit_code not in (0, 3, 5, None):
        raise RuntimeError(f"{' '.join(command)}: exit code {exit_code}")
    written = [folder / "out" / name for name in ("policy.csv", "policy-all.csv")]
    gains = [case.gain(*_policy(path)) for path in written if path.exists()]
    summary = json.loads((folder / "out" / "summary.json").read_text())
    return {
        "supported": exit_code != 3,
        "gain": gains[0],
        "again": gains[-1],
        "reason": summary["reason"],
        "against": summary["against"],
    }


def _policy(path: Path) -> tuple[np.ndarray, tuple[str, ...], tuple[str, ...]]:
    """(policy [S, A], states, actions) of a file."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    states, actions = (tuple(sorted({row[name] for row in rows})) for name in ("state", "action"))
    pi = np.zeros((len(states), len(actions)))
    for row in rows:
        pi[states.index(row["state"]), actions.index(row["action"])] = float(row["probability"])
    return pi, states, actions


@cache
def _command() -> Any:
    """The command line, made once."""
    from typer.main import get_command

    from surefoot.cli import app

    return get_command(app)


def _option(name: str, value: object) -> tuple[str, ...]:
    """An option of the command line; a flag has no value."""
    flag = "--" + name.replace("_", "-")
    return (flag,) if value is None else (flag, str(value))


def direct(case: Case, rule: str | None = None, table: bool = False) -> tuple[bool, float]:
    """(supported, true gain) by the test behind the verdict alone: without files, and without
    the findings of `check`. `rule`: as --deterministic; `table`: no tree where one is asked for.
    """
    from surefoot.advice import held_out_gain
    from surefoot.advice.made_of import most_frequent
    from surefoot.algorithms.one_action import with_one_action
    from surefoot.core import Labels
    from surefoot.evidence import units_of_batch

    problem, algorithm = posed(case)
    algorithm = with_one_action(algorithm, rule)
    over = None
    if case.options.get("against") == "mode":
        over = most_frequent(problem.pi_b, problem.allowed & ~problem.terminal[:, None])
    units = units_of_batch(problem.log, problem.gamma)
    depth = None if table else case.options.get("tree")
    if depth is not None:  # states are the cells of a grid, row by row
        wide = case.options["columns"]
        cells = tuple(divmod(s, wide) for s in range(problem.n_states))
        problem = replace(problem, labels=Labels(cells, tuple("abc"), ("row", "column")))
    found = held_out_gain(problem, units, algorithm, tree=depth, over=over)
    if not found.evidence.positive or np.abs(found.pi - problem.pi_b).max() < 1e-9:
        return False, 0.0
    return True, case.world.gain(np.where(problem.terminal[:, None], case.world.pi_b, found.pi))


def posed(case: Case) -> tuple[Any, Any]:
    """(the problem of a case, its algorithm), without files."""
    import surefoot
    from surefoot.algorithms.defaults import chosen_algorithm

    columns = case.columns
    state, action, follow = (
        np.array([int(x[1:]) for x in columns[name]]) for name in ("state", "action", "next_state")
    )
    limits = str(case.options.get("reward_range", "")).split(",")
    times = np.array(columns["time"])
    problem = surefoot.problem(
        state=state,
        action=action,
        reward=np.array(columns["reward"]),
        next_state=follow,
        gamma=case.world.gamma,
        episode=np.unique(columns["episode"], return_inverse=True)[1],
        time=times.astype("datetime64[s]") if times.dtype.kind == "U" else times,
        terminal=np.array(columns.get("terminal", [0] * len(state))) > 0,
        propensity=np.array(columns["propensity"]) if "propensity" in columns else None,
        n_states=len(case.world.pi_b),
        n_actions=case.world.pi_b.shape[1],
        pi_b=case.world.pi_b if case.given else None,
        reward_range=tuple(map(float, limits)) if len(limits) > 1 else None,
    )
    if problem.log.n_episodes == 1:
        visits = problem.n_sa.sum(axis=1)
        problem = replace(
            problem, start=visits / visits.sum(), start_episodes=None, start_visits=True
        )
    return problem, chosen_algorithm(problem, *filter(None, [case.algorithm]), given=case.settings)


def one(
    name: str,
    i: int,
    quick: bool = False,
    algorithm: str | None = None,
    refit: bool = False,
    rule: str | None = None,
    table: bool = False,
) -> dict[str, object]:
    """What happens on log i of a family; `algorithm` stands in for the default; `refit`: with the
    gain of the policy learned from all rows, where the tested one is supported.
    """
    family = {f.name: f for f in (*FALSE, *TRUE, *RULES, *TREES, *STUDIES)}[name]
    made = family.make(np.random.default_rng([seed_of(name), i]))
    made = replace(made, algorithm=made.algorithm or algorithm)
    if quick:
        supported, gain = direct(made, rule, table)
        said: dict[str, object] = {"supported": supported, "gain": gain, "again": gain}
        return {"family": name, "log": i, **said, "against": []}
    with tempfile.TemporaryDirectory() as folder:
        said = improve(made, Path(folder), refit)
    for file in made.clean:
        file.unlink()
    if not said["supported"]:
        said |= {"gain": 0.0, "again": 0.0}
    return {"family": name, "log": i, **said}


def _in_arrays(case: Case) -> bool:
    """Whether `posed` can pose a case without files."""
    return "next_state" in case.columns and not {"allowed", "smoothing"} & set(case.options)


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
    parser.add_argument(
        "--kind", choices=("false", "true", "rules", "trees", "studies"), default=None
    )
    parser.add_argument(
        "--direct",
        action="store_true",
        help="the test alone: many times faster; leaves out masks, smoothing, no next states",
    )
    parser.add_argument(
        "--refit", action="store_true", help="beside it what is learned again from all rows"
    )
    parser.add_argument("--algorithm", default=None, help="in place of the default of improve")
    parser.add_argument(
        "--rule", choices=("mixture", "mode"), default=None, help="--deterministic, with --direct"
    )
    parser.add_argument(
        "--table", action="store_true", help="no tree in families that ask for one, with --direct"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--out", type=Path, default=None, help="a CSV file with a row for each family"
    )
    given = parser.parse_args()
    names = {x for x in given.only.split(",") if x}
    kinds = {"false": FALSE, "true": TRUE, "rules": RULES, "trees": TREES, "studies": STUDIES}
    asked = [
        f
        for kind, fs in kinds.items()
        if given.kind in (kind, None if kind in ("false", "true") else kind)
        for f in fs
    ]
    chosen = [f for fs in kinds.values() for f in fs if f.name in names] if names else asked
    begin, table = time.perf_counter(), []
    with ProcessPoolExecutor(given.workers) as pool:
        for family in chosen:
            if given.direct and not _in_arrays(family.make(np.random.default_rng(0))):
                continue
            how = given.direct, given.algorithm, given.refit, given.rule, given.table
            each = [(family.name, i, *how) for i in range(given.logs)]
            found = list(pool.map(one, *zip(*each, strict=True), chunksize=10))
            supported = sum(bool(x["supported"]) for x in found)
            wrong = sum(bool(x["supported"]) and float(str(x["gain"])) <= ZERO for x in found)
            gain, again = (np.mean([float(str(x[k])) for x in found]) for k in ("gain", "again"))
            lost = sum(bool(x["supported"]) and float(str(x["again"])) <= ZERO for x in found)
            forbidden = sum(bool(x["against"]) for x in found)
            print(
                f"{family.name:26} supported {rate(supported, given.logs)}  not better"
                f" {rate(wrong, given.logs)}  gain {gain:8.3g}  forbidden {forbidden}"
                f"{f'  refit: not better {lost}, gain {again:.3g}' if given.refit else ''}"
                f"{'  hidden' if family.hidden else ''}  {family.words}",
                flush=True,
            )
            counted = given.logs, supported, wrong, forbidden, f"{gain:.6g}"
            table.append((family.name, family.words, family.hidden, *counted))
    print(f"{time.perf_counter() - begin:.0f} s")
    if given.out is not None:
        with open(given.out, "w", newline="") as file:
            csv.writer(file).writerows([FIELDS, *table])


if __name__ == "__main__":
    main()
