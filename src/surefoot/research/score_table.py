"""The benchmark: frozen worlds on which algorithms are compared with Lower-Approx-Soft-SPIBB, as
studies that grow, and one table of their scores.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from functools import lru_cache
from importlib import import_module, resources
from inspect import isabstract
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.algorithms import Algorithm
from surefoot.algorithms.defaults import DEFAULT
from surefoot.core.atomic import write_csv
from surefoot.core.errors import NotAvailableError, StudyError
from surefoot.core.plain_values import SHOWN_ROWS, Shown
from surefoot.core.policy import framed
from surefoot.core.text import aligned
from surefoot.research.studies.results import Results
from surefoot.research.studies.runner import run
from surefoot.research.studies.spec import AlgorithmsLike, Study, define_study, settings
from surefoot.statistics.metrics import Contrast, mean_and_cvar, worse_than_baseline

VERSION = "1"
REFERENCE = "lower-approx-soft-spibb"
ALL = "all"  # the average over the sizes of a world
Progress = Callable[[str, int, int], None]  # (what, done, total)


@dataclass(frozen=True, kw_only=True)
class ScoreRow:
    """How an algorithm does in a world at one size, or on average over its sizes ("all").

    Scores are normalised (0 the baseline, 1 the optimum), but on Wet Chicken, where they are
    values. `_more` is the paired difference from the reference, with its 95 % interval; `worse` the
    share of trials below the baseline; `seconds` of the processor for one data set. NaN: CVaR is
    not reported for fewer than five trials in the tail.
    """

    world: str
    size: str
    algorithm: str
    parameters: str
    trials: int
    mean: float
    mean_more: float
    mean_more_low: float
    mean_more_high: float
    cvar: float
    cvar_more: float
    cvar_more_low: float
    cvar_more_high: float
    worse: float
    seconds: float

    @property
    def label(self) -> str:
        """Algorithm and parameters."""
        return f"{self.algorithm} {self.parameters}".strip()


@dataclass(frozen=True, repr=False)
class ScoreTable(Shown):
    """The rows of a benchmark, world by world; `notes` say which worlds are missing, and why."""

    rows: tuple[ScoreRow, ...]
    notes: tuple[str, ...] = ()

    def _facts(self) -> dict[str, Any]:
        worlds = tuple(dict.fromkeys(row.world for row in self.rows))
        return {"version": VERSION, "worlds": worlds, "notes": self.notes}

    def _table(self) -> tuple[Sequence[str], Sequence[Sequence[Any]], int]:
        shown = [row for row in self.rows if row.size == ALL]
        header = [x.name for x in fields(ScoreRow)]
        return header, [astuple(x) for x in shown[:SHOWN_ROWS]], max(0, len(shown) - SHOWN_ROWS)

    def __str__(self) -> str:
        """The averages over sizes, best mean first, a block a world."""
        blocks = []
        for world in dict.fromkeys(row.world for row in self.rows):
            here = [row for row in self.rows if (row.world, row.size) == (world, ALL)]
            lines = [shown(row) for row in sorted(here, key=lambda row: -row.mean)]
            title = f"{world}, {here[0].trials:,} trials"
            blocks.append("\n".join([title, *aligned([HEADER, *lines], "<>>>>>>")]))
        return "\n\n".join([*blocks, *(f"note: {x}" for x in self.notes)])

    def to_frame(self) -> Any:
        """One row a world, size and algorithm; the library as `Results.to_frame`."""
        return framed([x.name for x in fields(ScoreRow)], [astuple(row) for row in self.rows])

    def save(self, path: str | Path) -> None:
        """Write it as a CSV, whole or not at all."""
        write_csv(path, [x.name for x in fields(ScoreRow)], map(astuple, self.rows))


HEADER = (
    "algorithm",
    "mean",
    "more than the reference",
    "1%-CVaR",
    "more than the reference",
    "worse",
    "seconds",
)


def shown(row: ScoreRow) -> tuple[str, ...]:
    """A row for people."""

    def more(value: float, low: float, high: float) -> str:
        if low == high == 0:  # the reference itself
            return "-"
        return "not reported" if value != value else f"{value:+.3f} [{low:+.3f}, {high:+.3f}]"

    return (
        row.label,
        f"{row.mean:.3f}",
        more(row.mean_more, row.mean_more_low, row.mean_more_high),
        "not reported" if row.cvar != row.cvar else f"{row.cvar:.3f}",
        more(row.cvar_more, row.cvar_more_low, row.cvar_more_high),
        f"{100 * row.worse:.1f} %",
        f"{row.seconds:.1g}",
    )


@lru_cache(maxsize=1)
def definition() -> Mapping[str, Any]:
    """The frozen worlds and the algorithms of surefoot, as the file of this version has them."""
    file = resources.files("surefoot.research.studies") / f"benchmark-{VERSION}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


def benchmark(
    entry: AlgorithmsLike | Path | None = None,
    *,
    worlds: Sequence[str] | None = None,
    trials: int | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    progress: Progress = lambda what, done, total: None,
) -> ScoreTable:
    """An entry against the reference and surefoot's default, in the frozen worlds of the benchmark.

    entry     an algorithm, as in `surefoot.study`: an object, a name with parameters, a list, or a
              dict by the names to show; a file (my_entry.py) with `ENTRY`, one of these, or with
              classes of algorithms; None: all algorithms of surefoot
    worlds    some of them; without it all, but for those whose data are not installed
    trials    fewer or more than the version says (the table of the documentation has as many)
    out       a folder, in which what was computed stays and is not computed again
    """
    known = [_title(world) for world in definition()["worlds"]]
    for name in worlds or ():
        if name not in known:
            raise StudyError(f"no world is called {name!r}; there are: {', '.join(known)}")
    given: Any = entry
    if isinstance(entry, (str, Path)) and str(entry).endswith(".py"):
        given = entry_of(Path(entry))
    rows: list[ScoreRow] = []
    notes: list[str] = []
    for name in worlds or known:
        try:
            study = world_study(name, given, trials)
            folder = None if out is None else Path(out) / name
            results = run(study, folder, workers=workers, progress=_told(progress, name))
        except NotAvailableError as error:
            if worlds:
                raise
            notes.append(f"{name} is left out: {error}")
            continue
        rows += score_rows(results, name)
    return ScoreTable(tuple(rows), tuple(notes))


def _title(world: Mapping[str, Any]) -> str:
    return str(world.get("title", world["name"]))


def _told(progress: Progress, name: str) -> Callable[[int, int], None]:
    return lambda done, total: progress(name, done, total)


def world_study(
    name: str,
    entry: Any = None,
    trials: int | None = None,
    only: Sequence[str] | None = None,
) -> Study:
    """The study of a world: of an entry, the reference and the default; or of surefoot's own
    algorithms, all or `only` some.
    """
    told = definition()
    world = dict(next(x for x in told["worlds"] if _title(x) == name))
    most, sizes, _ = world.pop("trials"), world.pop("sizes"), world.pop("title", None)
    mine: list[Any] = []
    for one in told["algorithms"]:
        if one["name"] in ((REFERENCE, DEFAULT) if entry is not None else only or [one["name"]]):
            plain = {k: v for k, v in one.items() if k != "on"}
            mine.append(plain | one.get("on", {}).get(world["name"], {}))
    trials = most if trials is None else trials

    def study(algorithms: Any) -> Study:
        return define_study(
            world, algorithms, sizes, trials, told["seed"], name=name, alpha=told["alpha"]
        )

    if entry is None:
        return study(mine)
    known = {x.key for x in settings(study(mine))}  # who enters one of these has it once
    new = {x.label: x.algorithm for x in settings(study(entry)) if x.key not in known}
    base = {one["name"]: one for one in mine}
    taken = next((label for label in new if label in base), None)
    if taken is not None:
        raise StudyError(f"{taken!r} is always in the table: give your algorithm another name")
    return study(base | new)


def score_rows(results: Results, world: str) -> tuple[ScoreRow, ...]:
    """The rows of one world: of every size, and of all on average; an algorithm after the other."""
    cells = results.cells
    labels = list(dict.fromkeys(cell.label for cell in cells))
    sizes = list(dict.fromkeys(cell.size for cell in cells))
    at = {(cell.label, cell.size): i for i, cell in enumerate(cells)}
    reference = next(cell.label for cell in cells if cell.algorithm == REFERENCE)
    groups = [(ALL, sizes), *((str(n), [n]) for n in sizes)]
    asked = [(label, size, inside) for label in labels for size, inside in groups]

    def over(label: str, inside: Sequence[int], weight: float) -> Contrast:
        return tuple((at[label, n], weight / len(inside)) for n in inside)

    plain = [over(label, inside, 1.0) for label, _, inside in asked]
    less = [
        over(label, inside, 0.0)
        if label == reference
        else over(label, inside, 1.0) + over(reference, inside, -1.0)
        for label, _, inside in asked
    ]
    values = [x.value for x in mean_and_cvar(results.score, results.how(), plain)]
    more = [(x.value, *x.interval()) for x in mean_and_cvar(results.score, results.how(), less)]
    worse = worse_than_baseline(results.score, results.baseline)
    seconds = np.full(len(cells), np.nan) if results.seconds is None else results.seconds
    rows = []
    for k, (label, size, inside) in enumerate(asked):
        here = [at[label, n] for n in inside]
        cell = cells[here[0]]
        numbers: dict[str, Any] = {}
        for j, name in enumerate(("mean", "cvar")):
            ends = zip(("", "_low", "_high"), more[j], strict=True)
            numbers |= {name: float(values[j][k])}
            numbers |= {f"{name}_more{end}": float(x[k]) for end, x in ends}
        rows.append(
            ScoreRow(
                world=world,
                size=size,
                algorithm=cell.algorithm,
                parameters=cell.parameters,
                trials=results.n_trials,
                worse=float(worse[here].mean()),
                seconds=float(seconds[here].mean()),
                **numbers,
            )
        )
    return tuple(rows)


def entry_of(path: Path) -> Any:
    """What a file enters: its `ENTRY`, or every class of an algorithm that it defines."""
    if not path.is_file():
        raise StudyError(f"{path} is no file: an entry is a Python file with an algorithm")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)  # last, so that it hides nothing; it stays, for worker processes
    try:
        module = import_module(path.stem)
    except Exception as error:  # a module of the user may raise anything
        raise StudyError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    if Path(str(module.__file__)).resolve() != path.resolve():
        raise StudyError(f"{path} is hidden by {module.__file__}: rename it")
    if hasattr(module, "ENTRY"):
        return module.ENTRY
    own = [x for x in vars(module).values() if getattr(x, "__module__", "") == path.stem]
    classes = [x for x in own if isinstance(x, type) and issubclass(x, Algorithm)]
    found = [x for x in classes if not isabstract(x)]
    if not found:
        raise StudyError(f"{path} has no class of an algorithm: see docs/benchmark.md for an entry")
    try:
        return [x() for x in found]
    except TypeError as error:
        raise StudyError(f"{path}: {error}: give defaults, or ENTRY = the object") from error
