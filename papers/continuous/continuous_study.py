"""What a policy made of measurements is truly worth: the algorithms on quantile states, the one
command that makes its own states, and two deep methods, on the same logs.

    python papers/continuous/continuous_study.py --out results [--benchmark continuous-wet-chicken]
        [--logs 20] [--sizes 1000,2000,5000,20000] [--only states,command,d3rlpy]

gains.csv in the folder has a row for each policy; what is in it is never computed again. From it
come summary.csv and figure.svg. `d3rlpy` needs d3rlpy and PyTorch, in an environment of its own
(d3rlpy asks for an old Gymnasium); see README.md.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import surefoot
from surefoot.core.atomic import write_csv
from surefoot.report.style import FAINT, STYLES, figure, save, style_of
from surefoot.research.benchmarks import CONTINUOUS, Continuous, returns, sampled
from surefoot.research.benchmarks.continuous import picked
from surefoot.research.figures import draw_curve, size_axis
from surefoot.serving.encoders import Encoder, fit_quantiles
from surefoot.statistics.metrics import Intervals, mean_and_cvar, numbers

Policy = Callable[[np.ndarray], np.ndarray]
ON_STATES = ("basic-rl", "lower-approx-soft-spibb", "priced-soft-spibb")
STATES = (4, 9, 25, 49, 100)
DEEP = ("DiscreteBCQ", "DiscreteCQL")
COMMAND, CANDIDATE, AS_TOLD = "improve --features", "its candidate", "improve --states"
COLUMNS = ("benchmark", "size", "log", "method", "states", "supported", "gain", "seconds")
ROLLOUTS = 4000
STEPS = {"continuous-wet-chicken": 0, "cart-pole": 200, "industrial": 200}  # of an episode; 0: one
ALPHA = 0.1  # of CVaR
FEWEST_LOGS, MANY_LOGS = 2, 20  # of a line, of one with its intervals
ENDS = ("low", "high")


@cache
def start_of(name: str) -> np.ndarray:
    """Where policies are valued: on the river where the baseline is in the long run, else where
    episodes start. The same for all logs.
    """
    benchmark, rng = CONTINUOUS[name](), np.random.default_rng(5)
    state = benchmark.reset(rng, ROLLOUTS)
    for _ in range(0 if STEPS[name] else 100):
        rows = benchmark.baseline(state[:, : len(benchmark.features)])
        state, _, _ = benchmark.step(rng, state, picked(rng, rows))
    return state


@cache
def baseline_value(name: str) -> float:
    """The mean return of the baseline from there."""
    return value(name, CONTINUOUS[name]().baseline)


def value(name: str, policy: Policy) -> float:
    """The mean return of a policy of raw features, on draws that are the same for all."""
    rng = np.random.default_rng(6)
    return float(returns(CONTINUOUS[name](), rng, policy, start_of(name)).mean())


def log_of(name: str, size: int, i: int) -> dict[str, np.ndarray]:
    """Log i of so many steps: one trajectory, or episodes up to that many."""
    steps = STEPS[name]
    rng = np.random.default_rng([31, size, i])
    if not steps:
        return sampled(CONTINUOUS[name](), rng, size)
    log = sampled(CONTINUOUS[name](), rng, steps, episodes=-(-size // 10))
    last = np.flatnonzero(log["episode"] == log["episode"][size - 1])[-1]
    return {column: x[: last + 1] for column, x in log.items()}


def by_state(benchmark: Continuous, encoder: Encoder, pi: np.ndarray) -> Policy:
    """A policy of states as one of measurements; the baseline in states without a row."""
    known = pi.sum(axis=1) > 0

    def act(x: np.ndarray) -> np.ndarray:
        s = encoder.encode(x)
        return np.where(known[s][:, None], pi[s], benchmark.baseline(x))

    return act


def on_states(name: str, log: dict[str, np.ndarray]) -> Iterator[tuple[Any, ...]]:
    """Every algorithm on quantile states, as many as asked for or a few fewer, learned from the
    whole log, not tested; the baseline estimated.
    """
    benchmark = CONTINUOUS[name]()
    x = np.stack([log[f] for f in benchmark.features], axis=1)
    action = {a: i for i, a in enumerate(benchmark.actions)}
    follow = np.append(log["episode"][1:] == log["episode"][:-1], False)
    terminal = log.get("terminal", np.zeros(len(x), dtype=int)) > 0
    keep = follow | terminal
    for n in STATES:
        if n < len(x) / 10:
            encoder = fit_quantiles(benchmark.features, x, n)
            state, k = encoder.encode(x), len(encoder.labels)
            after = np.where(terminal, k, np.append(state[1:], 0))
            columns = {
                "state": state, "next_state": after, "reward": log["reward"],
                "action": np.array([action[a] for a in log["action"]]), "episode": log["episode"],
            }  # fmt: skip
            problem = surefoot.problem(
                **{c: y[keep] for c, y in columns.items()}, gamma=benchmark.gamma,
                reward_range=benchmark.reward_range, n_states=k + 1, terminal_states=[k],
                n_actions=len(action),
            )  # fmt: skip
            for method in ON_STATES:
                start = time.perf_counter()
                algorithm = surefoot.algorithms.defaults.chosen_algorithm(problem, method)
                pi = surefoot.improve(problem, algorithm).pi
                seconds = time.perf_counter() - start
                pi = np.where(problem.n_sa.sum(axis=1, keepdims=True) > 0, pi, 0.0)[:k]
                gain = value(name, by_state(benchmark, encoder, pi)) - baseline_value(name)
                yield method, n, "", gain, seconds


def by_command(name: str, log: dict[str, np.ndarray], told: tuple[int, ...]) -> Iterator[Any]:
    """`improve --features`: what it writes, and what it would have written had the data supported
    it; and with the number of states told.
    """
    benchmark = CONTINUOUS[name]()
    more = {"terminal": "terminal"} if "terminal" in log else {}
    for n in (None, *told):
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/log.csv"
            write_csv(Path(file), list(log), zip(*(x.tolist() for x in log.values()), strict=True))
            start = time.perf_counter()
            advice = surefoot.advise(
                file, features=list(benchmark.features), states=n, gamma=benchmark.gamma,
                reward_range=benchmark.reward_range, **more,
            )  # fmt: skip
            seconds = time.perf_counter() - start
        encoder = advice.posed.measured.encoder
        pi = np.zeros((len(encoder.labels), len(benchmark.actions)))
        labels, visited = advice.problem.labels, advice.problem.n_sa.sum(axis=1) > 0
        for s, state in enumerate(encoder.labels):
            code = labels.find_state(state)
            if code is not None and visited[code]:
                for a, word in enumerate(benchmark.actions):
                    found = labels.find_action(word)
                    pi[s, a] = 0.0 if found is None else advice.candidate[code, found]
        gain = value(name, by_state(benchmark, encoder, pi)) - baseline_value(name)
        k = n or len(encoder.labels)
        if n is None:
            yield CANDIDATE, k, "", gain, seconds
        method = COMMAND if n is None else AS_TOLD
        yield method, k, int(advice.supported), gain if advice.supported else 0.0, seconds


def deep(name: str, log: dict[str, np.ndarray], steps: int) -> Iterator[tuple[Any, ...]]:
    """Discrete BCQ and CQL of d3rlpy, measurements and rewards standardised.

    Their defaults for the step size and how often the target moves (every 8,000 steps) are made for
    millions of steps of video games; these suit some thousand.
    """
    import d3rlpy

    benchmark = CONTINUOUS[name]()
    x = np.stack([log[f] for f in benchmark.features], axis=1).astype(np.float32)
    action = {a: i for i, a in enumerate(benchmark.actions)}
    ends = np.append(log["episode"][1:] != log["episode"][:-1], True)
    terminal = log.get("terminal", np.zeros(len(x), dtype=int)) > 0
    data = d3rlpy.dataset.MDPDataset(
        x, np.array([[action[a]] for a in log["action"]]),
        log["reward"].astype(np.float32)[:, None],
        terminal.astype(np.float32), timeouts=(ends & ~terminal).astype(np.float32),
        action_space=d3rlpy.ActionSpace.DISCRETE, action_size=len(action),
    )  # fmt: skip
    for method in DEEP:
        d3rlpy.seed(0)
        start = time.perf_counter()
        config = getattr(d3rlpy.algos, f"{method}Config")(
            gamma=benchmark.gamma,
            batch_size=64,
            learning_rate=1e-3,
            target_update_interval=200,
            observation_scaler=d3rlpy.preprocessing.StandardObservationScaler(),
            reward_scaler=d3rlpy.preprocessing.StandardRewardScaler(),
        )
        learner = config.create(device="cpu:0")
        learner.fit(
            data, n_steps=steps, n_steps_per_epoch=steps, show_progress=False,
            logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
        )  # fmt: skip
        seconds = time.perf_counter() - start

        def act(at: np.ndarray, learner: Any = learner) -> np.ndarray:
            return np.eye(len(action))[learner.predict(at.astype(np.float32))]

        yield method, steps, "", value(name, act) - baseline_value(name), seconds


def gains(given: argparse.Namespace) -> list[dict[str, str]]:
    """All rows of gains.csv, those that were missing computed and added."""
    path = given.out / "gains.csv"
    given.out.mkdir(parents=True, exist_ok=True)
    rows = []
    if path.exists():
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
    parts = {
        "states": (ON_STATES[0], lambda name, log: on_states(name, log)),
        "command": (COMMAND, lambda name, log: by_command(name, log, given.told)),
        "d3rlpy": (DEEP[-1], lambda name, log: deep(name, log, given.steps)),
    }
    there = {(x["benchmark"], x["size"], x["log"], x["method"]) for x in rows}
    for i in range(given.logs):
        for size in given.sizes:
            for part in given.only:
                mark, found = parts[part]
                key = given.benchmark, str(size), str(i)
                if (*key, mark) in there:
                    continue
                log = log_of(given.benchmark, size, i)
                for x in found(given.benchmark, log):
                    entry = *key, x[0], str(x[1]), str(x[2]), f"{x[3]:.4f}", f"{x[4]:.3f}"
                    rows.append(dict(zip(COLUMNS, entry, strict=True)))
                write_csv(path, COLUMNS, ([row[c] for c in COLUMNS] for row in rows))
    return rows


def summary(rows: list[dict[str, str]]) -> list[dict[str, Any]]:
    """A row for each benchmark, size, method and number of states."""
    cells: dict[tuple[Any, ...], list[dict[str, str]]] = {}
    for row in rows:
        states = row["states"] if row["method"] in (*ON_STATES, AS_TOLD) else ""
        key = row["benchmark"], int(row["size"]), row["method"], states
        cells.setdefault(key, []).append(row)
    made = []
    for key, here in sorted(cells.items()):
        gain = np.array([float(row["gain"]) for row in here])
        found = numbers(mean_and_cvar(gain[None], Intervals(alpha=ALPHA)))
        supported = [int(row["supported"]) for row in here if row["supported"]]
        worst = np.sort(gain)[: max(1, round(ALPHA * len(gain)))]
        made.append(
            {
                **dict(zip(("benchmark", "size", "method", "states"), key, strict=True)),
                "logs": len(here),
                "mean": float(gain.mean()),
                "mean_low": float(found["mean_low"][0]),
                "mean_high": float(found["mean_high"][0]),
                "worst_tenth": float(worst.mean()),
                "worst": float(gain.min()),
                "not_better": float((gain < 0).mean()),
                "supported": float(np.mean(supported)) if supported else "",
                "seconds": float(np.median([float(row["seconds"]) for row in here])),
            }
        )
    return made


def draw(rows: list[dict[str, Any]], name: str, out: Path) -> None:
    """Mean and worst tenth over the size of the log: a line a method, the best number of states;
    methods with few logs are left out, and so are their intervals.
    """
    here = [x for x in rows if x["benchmark"] == name and x["logs"] >= FEWEST_LOGS]
    if not here:
        return
    lines: dict[str, list[dict[str, Any]]] = {}
    for x in here:
        same = [y for y in here if (y["method"], y["size"]) == (x["method"], x["size"])]
        if x["mean"] == max(y["mean"] for y in same):  # of all numbers of states
            lines.setdefault(x["method"], []).append(x)
    spare = [x for x in lines if x not in STYLES]
    with figure(10.0, 4.2, 1, 2) as (made, panels):
        for panel, metric, title in zip(
            panels, ("mean", "worst_tenth"), ("Mean", "Worst tenth of the logs"), strict=True
        ):
            panel.set_title(f"{title}: true gain over the baseline", loc="left")
            panel.axhline(0.0, color=FAINT, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
            for method, line in lines.items():
                style = style_of(method, STYLES, spare.index(method) if method in spare else 0)
                best = ", best states" if method in (*ON_STATES, AS_TOLD) else ""
                line.sort(key=lambda x: x["size"])
                sizes, middle = ([x[c] for x in line] for c in ("size", metric))
                whole = metric == "mean" and min(x["logs"] for x in line) >= MANY_LOGS
                low, high = ([x[f"mean_{e}" if whole else metric] for x in line] for e in ENDS)
                shown = replace(style, label=style.label + best)
                draw_curve(panel, sizes, low, middle, high, shown)
            size_axis(panel, sorted({x["size"] for x in here}), name)
            panel.set_xlabel("steps in the log")
        made.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
        logs = sorted({x["logs"] for line in lines.values() for x in line})
        made.suptitle(f"{name}, {logs[0]} to {logs[-1]} logs a point", x=0.01, ha="left")
    png = save(made, out / ("figure" if name == "continuous-wet-chicken" else f"figure-{name}"))[1]
    png.unlink()  # one picture of each is enough


def main() -> None:
    """Measure what is missing, and write the summary."""
    numbers_of = lambda text: tuple(int(x) for x in text.split(",") if x)  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--benchmark", default="continuous-wet-chicken", choices=CONTINUOUS)
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--sizes", type=numbers_of, default=(1000, 2000, 5000, 20_000))
    parser.add_argument("--only", type=lambda x: x.split(","), default=["states", "command"])
    parser.add_argument("--told", type=numbers_of, default=(), help="numbers of states to tell")
    parser.add_argument("--steps", type=int, default=3000, help="gradient steps of d3rlpy")
    given = parser.parse_args()
    found = summary(gains(given))
    columns = list(found[0])
    shown = ([f"{x[c]:.4g}" if isinstance(x[c], float) else x[c] for c in columns] for x in found)
    write_csv(given.out / "summary.csv", columns, shown)
    for name in sorted({x["benchmark"] for x in found}):
        draw(found, name, given.out)


if __name__ == "__main__":
    main()
