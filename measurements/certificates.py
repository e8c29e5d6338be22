"""Certificates against the truth: how often each bound is violated, how far below the truth it
lies, and from which log on it helps.

Validity (10,000 logs a cell) and tightness, on 16 cores; a data set depends on its number alone,
not on the number of workers. With `--keep DIR` what is done is kept there and never computed again,
so that a run can be stopped, or shared between machines (`--first`):

    python measurements/certificates.py --data-sets 10000 --workers 16 --csv validity.csv
    python measurements/certificates.py --tightness --data-sets 100 --workers 16 --chunk 3 \\
        --csv tightness.csv
    python measurements/certificates.py --table validity.csv tightness.csv > certificates.md
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from scipy.stats import beta

import surefoot
from surefoot.algorithms.certified_advantage import CertifiedAdvantage, OneStepCertifiedAdvantage
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.evidence import bound as certificate
from surefoot.evidence import with_independent_returns
from surefoot.evidence.certificates import certify
from surefoot.problems import Problem
from surefoot.research.benchmarks import RandomMDPs, WetChicken
from surefoot.research.simulate import Episodes, Sampler, Worlds, first_key, trial_numbers

Maker = Callable[[Problem, float], np.ndarray]
VALIDITY_SIZES = {"wet-chicken": [2000, 20_000], "random-mdps": [100, 1000]}
TIGHTNESS_SIZES = {
    "wet-chicken": [1000, 10_000, 100_000, 200_000, 300_000, 500_000, 1_000_000],
    "random-mdps": [100, 1000, 2000, 5000, 10_000, 20_000, 50_000],
}
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

# How much data a bound would need is not measured here, and searching for it takes most of the time
# of the robust ones.
certificate._data_needed = lambda bound, bound_at, rows: (float("nan"), "not asked for")


@dataclass(frozen=True)
class Case:
    """A certificate with the algorithm whose policies it is tried on.

    fresh: the certificate sees another log than the algorithm; misuse: it is used against its
    conditions, and expected to fail.
    """

    label: str
    method: str
    policy: Maker
    parameters: dict[str, object]
    fresh: bool = False
    misuse: bool = False


def _soft(epsilon: float, error: str) -> Maker:
    def make(problem: Problem, delta: float) -> np.ndarray:
        algorithm = surefoot.algorithm(
            "one-step+exact-soft-spibb", epsilon=epsilon, delta=delta, error=error
        )
        return surefoot.improve(with_independent_returns(problem), algorithm).pi

    return make


def _by_name(name: str, **parameters: float | str) -> Maker:
    return lambda problem, delta: (
        surefoot.improve(problem, surefoot.algorithm(name, **parameters)).pi
    )


def _certified(one_step: bool, error: str) -> Maker:
    cls = OneStepCertifiedAdvantage if one_step else CertifiedAdvantage
    return lambda problem, delta: surefoot.improve(problem, cls(delta, error)).pi


def _screened(problem: Problem, delta: float) -> np.ndarray:
    return surefoot.improve(problem, surefoot.ScreenedAdvantage(delta)).pi


def _planned(problem: Problem, delta: float) -> np.ndarray:
    return surefoot.improve(problem, surefoot.PlannedAdvantage(delta)).pi


def _default(problem: Problem, delta: float) -> np.ndarray:
    """As `surefoot improve` would, from the whole log."""
    return surefoot.improve(problem, chosen_algorithm(problem)).pi


_SPIBB, _BASIC = _by_name("pi-b-spibb", n_wedge=10), _by_name("basic-rl")
WITHOUT_DELTA = {_SPIBB, _BASIC, _default}  # these need not be made again for another delta
CASES = (
    Case(
        "certified-advantage hoeffding",
        "certified-advantage",
        _certified(True, "hoeffding"),
        {"error": "hoeffding"},
    ),
    Case(
        "certified-advantage mpeb",
        "certified-advantage",
        _certified(True, "mpeb"),
        {"error": "mpeb"},
    ),
    Case(
        "certified-advantage bernstein",
        "certified-advantage",
        _certified(True, "bernstein"),
        {"error": "bernstein"},
    ),
    Case(
        "certified-advantage multi-step",
        "certified-advantage",
        _certified(False, "bernstein"),
        {"error": "bernstein"},
    ),
    Case("screened-advantage", "screened-advantage", _screened, {}),
    Case("planned-advantage", "planned-advantage", _planned, {}),
    Case("planned-advantage, greedy", "planned-advantage", _soft(100.0, "hoeffding"), {}),
    Case(
        "advantage hoeffding, greedy",
        "advantage",
        _soft(100.0, "hoeffding"),
        {"error": "hoeffding"},
    ),
    Case(
        "advantage bernstein, greedy",
        "advantage",
        _soft(100.0, "hoeffding"),
        {"error": "bernstein"},
    ),
    Case(
        "theorem-1 hoeffding, eps 0.1", "theorem-1", _soft(0.1, "hoeffding"), {"error": "hoeffding"}
    ),
    Case("theorem-1 mpeb, eps 0.001", "theorem-1", _soft(0.001, "mpeb"), {"error": "mpeb"}),
    Case(
        "theorem-1 bernstein, eps 0.001", "theorem-1", _soft(0.001, "mpeb"), {"error": "bernstein"}
    ),
    Case("spibb weissman, n_wedge 10", "spibb", _SPIBB, {"radius": "weissman"}),
    Case("spibb two-successor", "spibb", _SPIBB, {"radius": "two-successor"}),
    Case("spibb clopper-pearson", "spibb", _SPIBB, {"radius": "clopper-pearson"}),
    Case("spibb beta", "spibb", _SPIBB, {"radius": "beta"}),
    Case("robust, basic rl", "robust", _BASIC, {}),
    Case("mbie, basic rl", "mbie", _BASIC, {}),
    Case("delta-method, fresh log", "delta-method", _BASIC, {"data": "fresh"}, fresh=True),
    Case("delta-method, its own log", "delta-method", _BASIC, {"data": "fresh"}, misuse=True),
    Case("delta-method, default, fresh", "delta-method", _default, {"data": "fresh"}, fresh=True),
    Case("delta-method, default, own", "delta-method", _default, {"data": "fresh"}, misuse=True),
)
SLOW = {"robust, basic rl", "mbie, basic rl"}


@dataclass(frozen=True)
class Cell:
    """Which data sets: of this benchmark and size, cut after so many steps (None: as the
    benchmark does), from this seed.
    """

    benchmark: str
    size: int
    steps: int | None
    seed: int

    @property
    def data(self) -> Episodes:
        """The episodes of one data set."""
        benchmark = _benchmark(self.benchmark)
        data = benchmark.episodes(self.size)
        if self.steps is None:
            return data
        return Episodes(
            self.size,
            data.number if self.benchmark == "random-mdps" else max(1, self.size // self.steps),
            self.steps,
        )


def _benchmark(name: str) -> RandomMDPs | WetChicken:
    return RandomMDPs() if name == "random-mdps" else WetChicken()


def _problem(worlds: Worlds, log: dict[str, np.ndarray]) -> Problem:
    lo, hi = worlds.return_range.lo, worlds.return_range.hi
    return surefoot.problem(
        **log,
        pi_b=worlds.pi_b[0],
        gamma=worlds.gamma,
        start=worlds.start[0],
        terminal_states=np.flatnonzero(worlds.terminal[0]),
        n_states=worlds.n_states,
        n_actions=worlds.n_actions,
        reward_table=worlds.reward_table[0, :, 0, :],
        reward_range=worlds.reward_range,
        return_range=(lo, hi),
    )


@dataclass(frozen=True)
class Outcomes:
    """Of some data sets: truth, bound and whether the policy changed, each [deltas, cases, data
    sets]; a bound refused is NaN.
    """

    truth: np.ndarray
    bound: np.ndarray
    changed: np.ndarray
    labels: tuple[str, ...]
    lowest: float

    @classmethod
    def joined(cls, parts: Sequence[Outcomes]) -> Outcomes:
        """Those of all parts, in order."""
        arrays = (
            np.concatenate([getattr(p, name) for p in parts], axis=-1)
            for name in ("truth", "bound", "changed")
        )
        labels = tuple(
            next(filter(None, x), "") for x in zip(*(p.labels for p in parts), strict=True)
        )
        return cls(*arrays, labels, min(p.lowest for p in parts))


def _data_sets(
    cell: Cell, benchmark: RandomMDPs | WetChicken, numbers: range, with_fresh: bool
) -> Iterator[tuple[Worlds, Problem, Problem]]:
    """The world of every data set, its problem and, if asked for, that of a second log of the
    same world.
    """
    keys = first_key(
        cell.seed, benchmark.name, trial_numbers(2 * numbers.start, 2 * numbers.stop, "cpu")
    )
    if benchmark.name == "random-mdps":  # a world for each
        worlds = [benchmark.worlds(keys[i : i + 1]) for i in range(0, len(keys), 2)]
        logs = (
            log
            for i, w in enumerate(worlds)
            for log in Sampler(w).logs(keys[2 * i : 2 * i + 1 + with_fresh], cell.data)
        )
    else:
        worlds = [benchmark.worlds(keys[:1])] * len(numbers)
        logs = Sampler(worlds[0]).logs(keys if with_fresh else keys[::2], cell.data)
    for world in worlds:
        problem = _problem(world, next(logs))
        yield world, problem, _problem(world, next(logs)) if with_fresh else problem


def simulate(cell: Cell, deltas: Sequence[float], cases: Sequence[str], numbers: range) -> Outcomes:
    """Every case on the data sets of these numbers; their keys depend on the number alone."""
    benchmark, chosen = _benchmark(cell.benchmark), [c for c in CASES if c.label in cases]
    truth, bound = (np.full((len(deltas), len(chosen), len(numbers)), np.nan) for _ in range(2))
    changed, labels = np.zeros(truth.shape, dtype=bool), [""] * len(chosen)
    for t, (worlds, problem, fresh) in enumerate(
        _data_sets(cell, benchmark, numbers, any(c.fresh for c in chosen))
    ):
        rho_b = float(np.asarray(worlds.rho_b)[0])
        made: dict[tuple[Maker, float], np.ndarray] = {}
        for i, delta in enumerate(deltas):
            for j, case in enumerate(chosen):
                which = (case.policy, 0.0 if case.policy in WITHOUT_DELTA else delta)
                pi = (
                    made[which]
                    if which in made
                    else made.setdefault(which, case.policy(problem, delta))
                )
                changed[i, j, t] = bool((abs(pi - problem.pi_b) > 1e-12).any())
                truth[i, j, t] = float(np.asarray(worlds.value(pi[None]))[0]) - rho_b
                try:
                    found = certify(
                        fresh if case.fresh else problem,
                        pi,
                        case.method,
                        delta=delta,
                        **case.parameters,
                    )
                except (surefoot.PolicyError, surefoot.NotAvailableError):
                    continue
                bound[i, j, t], labels[j] = found.bound, found.label
    return Outcomes(truth, bound, changed, tuple(labels), -problem.return_range.width)


def kept(
    cell: Cell, deltas: Sequence[float], cases: Sequence[str], folder: Path | None, numbers: range
) -> Outcomes:
    """The same, from the folder where an earlier run left it there; else simulated, and left
    there.
    """
    if folder is None:
        return simulate(cell, deltas, cases, numbers)
    digest = hashlib.sha256(repr((cell, deltas, cases)).encode()).hexdigest()[:12]
    path = folder / f"{cell.benchmark}-{cell.size}-{digest}-{numbers.start}-{numbers.stop}.npz"
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}.part")
        with part.open("wb") as file:
            np.savez_compressed(file, **asdict(simulate(cell, deltas, cases, numbers)))
        part.replace(path)
    with np.load(path) as data:
        arrays = (data[name] for name in ("truth", "bound", "changed"))
        return Outcomes(*arrays, tuple(map(str, data["labels"])), float(data["lowest"]))


@dataclass(frozen=True)
class Work:
    """Data sets first .. stop - 1, by how many processes, how many at a time, kept where."""

    stop: int
    workers: int
    first: int = 0
    folder: Path | None = None
    chunk: int = 10


def measured(cell: Cell, deltas: Sequence[float], cases: Sequence[str], todo: Work) -> Outcomes:
    """The same for many data sets, by many processes."""
    chunks = [
        range(i, min(i + todo.chunk, todo.stop)) for i in range(todo.first, todo.stop, todo.chunk)
    ]
    work = partial(kept, cell, tuple(deltas), tuple(cases), todo.folder)
    if todo.workers == 1:
        return Outcomes.joined([work(x) for x in chunks])
    os.environ.update(
        dict.fromkeys(THREADS, "1")
    )  # a process a core; read by each of them when NumPy is loaded
    with ProcessPoolExecutor(todo.workers, mp_context=get_context("spawn")) as pool:
        return Outcomes.joined(list(pool.map(work, chunks)))


@dataclass(frozen=True)
class Validity:
    """One line of the table of validity; quantiles of slack = truth - bound, over the logs in
    which a changed policy got a bound.
    """

    benchmark: str
    size: int
    delta: float
    certificate: str
    label: str
    data_sets: int
    refused: int
    changed: int
    violated: int
    share: float
    at_most: float
    verdict: str
    least: float
    slack_5: float
    slack_50: float
    slack_95: float
    useful: float
    vacuous: float


def validity(
    cell: Cell, deltas: Sequence[float], cases: Sequence[str], found: Outcomes
) -> Iterator[Validity]:
    """What happened to every case at every delta.

    The share is of all data sets, since that is what a bound promises.
    """
    chosen, nan = [c for c in CASES if c.label in cases], float("nan")
    for i, delta in enumerate(deltas):
        for j, case in enumerate(chosen):
            truth, bound = found.truth[i, j], found.bound[i, j]
            n, use = len(truth), found.changed[i, j] & np.isfinite(bound)
            slack = (truth - bound)[use]
            violated = int((slack < -1e-9).sum())
            share = violated / n
            high = 1.0 if violated == n else float(beta.ppf(0.99, violated + 1, n - violated))
            low = 0.0 if violated == 0 else float(beta.ppf(0.01, violated, n - violated + 1))
            verdict = (
                "fails"
                if low > delta
                else "undecided"
                if high > delta
                else "holds"
                if len(slack)
                else "nothing certified"
            )
            quantiles = (
                [float(x) for x in np.quantile(slack, [0, 0.05, 0.5, 0.95])]
                if len(slack)
                else [nan] * 4
            )
            shares = (
                [float(x.mean()) for x in (bound[use] >= 0, bound[use] <= found.lowest)]
                if len(slack)
                else [nan] * 2
            )
            yield Validity(
                cell.benchmark,
                cell.size,
                delta,
                case.label + (" (misuse)" if case.misuse else ""),
                found.labels[j] or "refused",
                n,
                int(np.isnan(bound).sum()),
                len(slack),
                violated,
                share,
                high,
                verdict,
                *quantiles,
                *shares,
            )


@dataclass(frozen=True)
class Tightness:
    """The least size at which a case proves >= 0 for a changed, truly better policy in at least
    half of the logs; proved: size:share.
    """

    benchmark: str
    delta: float
    certificate: str
    data_sets: int
    smallest_log: str
    proved: str


def tightness(
    cell: Cell, sizes: Sequence[int], deltas: Sequence[float], cases: Sequence[str], work: Work
) -> Iterator[Tightness]:
    """Sizes upwards; a case leaves when it has proved enough at every delta.

    Misuses prove nothing.
    """
    todo = [c.label for c in CASES if c.label in cases and not c.misuse]
    found: dict[tuple[str, float], int] = {}
    shares: dict[tuple[str, float], list[str]] = {(x, d): [] for x in todo for d in deltas}
    for size in sizes:
        here = [x for x in todo if any((x, d) not in found for d in deltas)]
        if not here:
            break
        start = time.perf_counter()
        result = measured(Cell(cell.benchmark, size, cell.steps, cell.seed), deltas, here, work)
        proved = (
            result.changed & (result.truth > 0) & (np.nan_to_num(result.bound, nan=-1.0) >= 0)
        ).mean(axis=-1)
        for i, delta in enumerate(deltas):
            for j, label in enumerate(here):
                shares[label, delta].append(f"{size}:{proved[i, j]:.2f}")
                if proved[i, j] >= 0.5:
                    found.setdefault((label, delta), size)
        print(
            f"{cell.benchmark} size {size}: {time.perf_counter() - start:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    for (label, delta), x in shares.items():
        smallest = str(found.get((label, delta), f"never up to {max(sizes)}"))
        yield Tightness(cell.benchmark, delta, label, work.stop - work.first, smallest, " ".join(x))


def _number(x: str) -> str:
    """A cell of a table: numbers short, the rest as it is."""
    try:
        return f"{float(x):.4g}"
    except ValueError:
        return x


def table(path: Path) -> str:
    """The CSV of a run as Markdown, one table for each benchmark, size and delta."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    keys = [k for k in ("benchmark", "size", "delta") if k in rows[0]]
    lines, names = [], [k for k in rows[0] if k not in keys]
    for group in dict.fromkeys(tuple(row[k] for k in keys) for row in rows):
        of_it = [row for row in rows if tuple(row[k] for k in keys) == group]
        lines += [
            "",
            "## " + ", ".join(f"{k} {_number(v)}" for k, v in zip(keys, group, strict=True)),
            "",
        ]
        lines += ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
        lines += ["| " + " | ".join(_number(row[k]) for k in names) + " |" for row in of_it]
    return "\n".join(lines)


def _written(
    rows: Iterator[Validity] | Iterator[Tightness], path: str | None, header: bool
) -> None:
    """Print the rows as CSV, or add them to a file."""
    with open(path, "a", newline="") if path else os.fdopen(os.dup(1), "w") as file:
        out = csv.writer(file)
        for i, row in enumerate(rows):
            if i == 0 and header:
                out.writerow([f.name for f in fields(row)])
            out.writerow(asdict(row).values())


def main() -> None:
    """Validity by default; --tightness for the smallest log that helps; --table for Markdown of
    earlier runs.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--benchmark", choices=list(VALIDITY_SIZES), nargs="*", default=list(VALIDITY_SIZES)
    )
    parser.add_argument("--data-sets", type=int, default=100)
    parser.add_argument(
        "--sizes", type=int, nargs="*", help="steps (Wet Chicken), trajectories (Random MDPs)"
    )
    parser.add_argument("--delta", type=float, nargs="*", default=[0.05, 0.2])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--steps", type=int, help="cut episodes after so many steps (Wet Chicken: then restart)"
    )
    parser.add_argument("--tightness", action="store_true")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="leave the two robust evaluations out, which take most of the time",
    )
    parser.add_argument("--cases", nargs="*", help="only cases whose label contains one of these")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--first", type=int, default=0, help="leave out the data sets before this one"
    )
    parser.add_argument(
        "--keep", type=Path, help="keep what is done in this folder, and go on from what is there"
    )
    parser.add_argument(
        "--chunk", type=int, default=10, help="data sets a task: those of Wet Chicken walk together"
    )
    parser.add_argument("--csv", help="write the results here; a file that exists gets more lines")
    parser.add_argument(
        "--table",
        type=Path,
        nargs="*",
        help="print these CSV files as Markdown, and do nothing else",
    )
    options = parser.parse_args()
    if options.table:
        print("\n".join(map(table, options.table)).strip())
        return
    cases = [c.label for c in CASES if not (options.quick and c.label in SLOW)]
    cases = [x for x in cases if not options.cases or any(y in x for y in options.cases)]
    work = Work(options.data_sets, options.workers, options.first, options.keep, options.chunk)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    header = not (options.csv and Path(options.csv).exists())
    for name in options.benchmark:
        if options.tightness:
            sizes = options.sizes or TIGHTNESS_SIZES[name]
            cell = Cell(name, 0, options.steps, options.seed)
            _written(tightness(cell, sizes, options.delta, cases, work), options.csv, header)
            header = False
            continue
        for size in options.sizes or VALIDITY_SIZES[name]:
            start = time.perf_counter()
            cell = Cell(name, size, options.steps, options.seed)
            found = measured(cell, options.delta, cases, work)
            _written(validity(cell, options.delta, cases, found), options.csv, header)
            header = False
            print(
                f"{name} size {size}: {time.perf_counter() - start:.0f} s",
                file=sys.stderr,
                flush=True,
            )


if __name__ == "__main__":
    main()
