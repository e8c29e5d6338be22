"""Studies as data: benchmark, sizes, algorithms and parameters, trials, seed; by name, as in a TOML
file, or as objects.
"""

from __future__ import annotations

import dataclasses
import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from surefoot.algorithms import Algorithm, Composed, algorithm
from surefoot.algorithms.conventions import conventions_of
from surefoot.core.errors import StudyError, SurefootError
from surefoot.core.parameters import value_of
from surefoot.core.text import parameters_text
from surefoot.research.benchmarks import benchmark
from surefoot.research.benchmarks.benchmark import Benchmark
from surefoot.research.studies.identity import PLAIN, digest

# what `surefoot.study` takes: names with parameters, tables as in a study file, objects
BenchmarkLike = str | Path | Mapping[str, Any] | Benchmark
AlgorithmLike = str | Algorithm | Mapping[str, Any]
AlgorithmsLike = AlgorithmLike | Sequence[AlgorithmLike]

Size = Annotated[int, Field(ge=1, strict=True)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Named(BaseModel):
    """A name and parameters, checked by what is named; a list makes one variant a value. Or an
    object that was made already, with the name that results give it.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str
    _made: Any = PrivateAttr(default=None)

    @classmethod
    def of(cls, made: Any, name: str = "", **more: Any) -> Self:
        """An object; a label shows its plain parameters, unless it has a name of its own."""
        found = cls(name=name or made.name, **({} if name else _told(made)), **more)
        found._made = made
        return found

    @property
    def made(self) -> Any:
        """The object, or None: it is made by name."""
        return self._made

    def grid(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """The parameters of every variant, the product of all lists; and those that vary."""
        given = sorted((self.model_extra or {}).items())
        values = {k: v if isinstance(v, list) else [v] for k, v in given}
        empty = next((k for k, v in values.items() if not v), None)
        if empty is not None:
            raise StudyError(
                f"{self.name}: {empty} is an empty list: give a value, or leave it out"
            )
        for chosen in itertools.product(*values.values()):
            one = dict(zip(values, chosen, strict=True))
            yield one, {k: v for k, v in one.items() if len(values[k]) > 1}


class _BenchmarkSpec(_Named):
    sizes: Annotated[list[Size], Field(min_length=1)]


class _ProblemSpec(_Strict):
    unseen_states: Literal["baseline", "first-action"] = "baseline"
    ties: Literal["baseline", "lowest-index"] = "baseline"


class Study(_Strict):
    """What a study file says.

    Trials are seeded by (seed, benchmark, trial), so that more trials extend a study.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    seed: Annotated[int, Field(ge=0, lt=2**62, strict=True)]
    trials: Annotated[int, Field(ge=1, le=10**8, strict=True)]
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.01
    benchmark: _BenchmarkSpec
    problem: _ProblemSpec = _ProblemSpec()
    algorithms: Annotated[list[_Named], Field(min_length=1)]

    @property
    def fingerprint(self) -> str:
        """A digest of everything that decides the results, with the code of classes of one's
        own.
        """
        made = [x.benchmark for x in variants(self)], [x.algorithm for x in settings(self)]
        return digest(self.model_dump(), *made)


@dataclasses.dataclass(frozen=True)
class StudySetting:
    """One algorithm with one set of parameters, and how results name it."""

    algorithm: Algorithm
    name: str
    parameters: str

    @property
    def label(self) -> str:
        """Name and parameters."""
        return f"{self.name} {self.parameters}".strip()

    @property
    def key(self) -> str:
        """What it is known by in a folder, however it is called."""
        return digest(self.algorithm)


@dataclasses.dataclass(frozen=True)
class Variant:
    """One benchmark with one set of parameters; the label names those that vary in the study."""

    benchmark: Benchmark
    label: str

    def key(self, study: Study) -> str:
        """What its data sets are known by in a folder."""
        return digest(self.benchmark, study.seed, study.problem.model_dump())


def settings(study: Study) -> tuple[StudySetting, ...]:
    """Every algorithm of the study with every set of its parameters."""
    found: list[StudySetting] = []
    for i, one in enumerate(study.algorithms):
        with _blame(f"algorithms[{i}]"):
            if one.made is not None:
                parameters = parameters_text(one.model_extra or {})
                found.append(StudySetting(one.made, one.name, parameters))
                continue
            for given, _ in one.grid():
                made = algorithm(one.name, **given)
                found.append(StudySetting(made, one.name, parameters_text(given)))
    _check_distinct("algorithms", [setting.label for setting in found])
    return tuple(found)


def variants(study: Study) -> tuple[Variant, ...]:
    """The benchmark of the study with every set of its parameters."""
    found, name = [], study.benchmark.name
    if study.benchmark.made is not None:
        return (Variant(study.benchmark.made, name),)
    with _blame("benchmark"):
        for given, varied in study.benchmark.grid():
            label = f"{name} {parameters_text(varied)}".strip()
            found.append(Variant(benchmark(name, **given), label))
    _check_distinct("benchmark", [variant.label for variant in found])
    return tuple(found)


def _check_distinct(key: str, labels: list[str]) -> None:
    twice = next((x for x in labels if labels.count(x) > 1), None)
    if twice is not None:
        raise StudyError(f"{key}: {twice!r} is asked for twice")


def read_study(
    path: str | Path, trials: int | None = None, conventions: str | None = None
) -> Study:
    """The study in a TOML file, checked; `trials` and `conventions` replace what the file says."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path} cannot be read: {error}") from error
    return parse_study(text, str(path), trials, conventions)


def parse_study(
    text: str, source: str, trials: int | None = None, conventions: str | None = None
) -> Study:
    """The study in a text, checked down to every parameter of every algorithm.

    `conventions = "scholl2022"` in it sets what it does not say itself; given beside it, also what
    it says, but for lists: what a study varies, it goes on to vary.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{source} is not a TOML file: {error}") from error
    try:
        return _checked(content | ({} if trials is None else {"trials": trials}), conventions)
    except StudyError as error:
        raise StudyError(f"{source}: {error}") from error


def define_study(
    benchmark: BenchmarkLike,
    algorithms: AlgorithmsLike | None = None,
    sizes: int | Sequence[int] | None = None,
    trials: int | None = None,
    seed: int = 0,
    *,
    name: str = "study",
    alpha: float = 0.01,
    conventions: str | None = None,
) -> Study:
    """What a study file says, from names or objects; see `surefoot.study`."""
    size = [sizes] if isinstance(sizes, (int, np.integer)) else sizes
    told = {"sizes": [_item(x) for x in size]} if size is not None else {}
    given = {"name": name, "seed": _item(seed), "trials": _item(trials), "alpha": alpha}
    content: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
    content |= {} if conventions is None else {"conventions": conventions}
    try:
        content["benchmark"] = _entry(_BenchmarkSpec, "benchmark", benchmark, **told)
        content |= {} if algorithms is None else {"algorithms": _entries(algorithms)}
    except ValidationError as error:
        raise StudyError(_first_complaint(error)) from error
    return _checked(content, None)


def _entries(given: Any) -> list[Any]:
    """The algorithms of a study: one, several, or {name in the results: one}."""
    if isinstance(given, Mapping) and not isinstance(given.get("name"), str):
        found = []
        for label, one in given.items():
            entry = _entry(_Named, f"algorithms[{label!r}]", one)
            made = entry.made if isinstance(entry, _Named) else algorithm(**entry)
            found.append(_Named.of(made, str(label)))
        return found
    several = isinstance(given, Sequence) and not isinstance(given, str)
    return [
        _entry(_Named, f"algorithms[{i}]", one)
        for i, one in enumerate(given if several else [given])
    ]


def _entry(kind: type[_Named], key: str, given: Any, **more: Any) -> Any:
    """A name ("ramdp kappa=2"), a table as in a study file, or an object."""
    if isinstance(given, str):
        name, *parameters = given.split() or [""]
        pairs = (x.partition("=") for x in parameters)
        return {"name": name, **{k: value_of(v) for k, _, v in pairs}, **more}
    if isinstance(given, Mapping):
        return {**given, **more}
    wanted = ("worlds", "episodes") if kind is _BenchmarkSpec else ("parameters", "taxonomy")
    if isinstance(given, type) or not all(hasattr(given, x) for x in wanted):
        what = key.partition("[")[0].removesuffix("s")
        called = getattr(given, "__name__", type(given).__name__)
        hint = f"; make one: {called}(...)" if isinstance(given, type) else ""
        raise StudyError(f"{key}: expected a name or an object of one {what}, got {called}{hint}")
    with _blame(key):
        digest(given)  # refuses what cannot be told apart
    return kind.of(given, **more)


def _told(made: Any) -> dict[str, Any]:
    """The plain parameters of an object that are not its class's defaults."""
    parts = [made.values, made.limits] if isinstance(made, Composed) else [made]
    return {
        f.name: _item(getattr(part, f.name))
        for part in parts
        for f in dataclasses.fields(part)
        if isinstance(_item(getattr(part, f.name)), PLAIN) and getattr(part, f.name) != f.default
    }


def _item(x: Any) -> Any:
    """A number of NumPy as one of Python."""
    return x.item() if isinstance(x, np.generic) else x


def _checked(content: dict[str, Any], conventions: str | None) -> Study:
    """The study with this content, checked as far down as it goes."""
    content = dict(content)
    said = content.pop("conventions", None)
    try:
        study = Study(**content)
    except ValidationError as error:
        raise StudyError(_first_complaint(error)) from error
    with _blame("conventions"):
        if conventions is None:
            study = _with_conventions(study, said, content.get("problem", {}))
        else:
            study = _with_conventions(study, conventions)
    sizes = study.benchmark.sizes
    if len(set(sizes)) < len(sizes):
        raise StudyError("benchmark.sizes: a size is given twice")
    for key, found in (("algorithms", settings(study)), ("benchmark", variants(study))):
        keys = [x.key if isinstance(x, StudySetting) else x.key(study) for x in found]
        again = next((i for i, x in enumerate(keys) if x in keys[:i]), None)
        if again is not None:
            first, second = found[keys.index(keys[again])].label, found[again].label
            raise StudyError(f"{key}: {first!r} and {second!r} are one and the same: leave one out")
    return study


def _with_conventions(study: Study, name: str | None, said: dict[str, Any] | None = None) -> Study:
    """The study with these conventions, which give way to what it has `said` (None: to lists)."""
    chosen = conventions_of(name)

    def met(one: _Named, by: dict[str, Any]) -> _Named | dict[str, Any]:
        if one.made is not None:
            return one
        own = one.model_dump()
        stays = {k: v for k, v in own.items() if said is not None or isinstance(v, list)}
        return own | by | stays

    changes = {
        "problem": study.problem.model_dump() | dict(chosen.problem) | (said or {}),
        "benchmark": met(study.benchmark, chosen.of_benchmark(study.benchmark.name)),
        "algorithms": [met(x, chosen.of_algorithm(x.name)) for x in study.algorithms],
    }
    return Study(**study.model_dump() | changes)


def shipped_studies() -> dict[str, str]:
    """The study files that come with the package: name -> text."""
    folder = resources.files("surefoot.research.studies") / "files"
    return {
        x.name.removesuffix(".toml"): x.read_text(encoding="utf-8")
        for x in folder.iterdir()
        if x.name.endswith(".toml")
    }


def shipped_study(name: str, trials: int | None = None, conventions: str | None = None) -> Study:
    """A study that comes with the package, by name."""
    known = shipped_studies()
    if name not in known:
        raise StudyError(f"no study is called {name!r}; these are: {', '.join(sorted(known))}")
    return parse_study(known[name], f"{name}.toml", trials, conventions)


def _first_complaint(error: ValidationError) -> str:
    # an unknown key first: where it is misspelt, the right one is missing elsewhere
    first = min(error.errors(), key=lambda x: x["type"] != "extra_forbidden")
    where = _key(first["loc"])
    if first["type"] == "missing":
        missing = [_key(x["loc"]) for x in error.errors() if x["type"] == "missing"]
        return f"{', '.join(missing)}: must be given"
    if first["type"] == "extra_forbidden":
        known = [*(_ProblemSpec if first["loc"][0] == "problem" else Study).model_fields]
        known += ["conventions"] * (first["loc"][0] != "problem")
        return f"{where}: there is no such key; here these can be given: {', '.join(known)}"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{where}: {first['msg']}, got {first['input']!r}{more}"


def _key(place: Sequence[int | str]) -> str:
    """Where something stands in a study file: benchmark.sizes[0]."""
    return "".join(f"[{x}]" if isinstance(x, int) else f".{x}" for x in place).lstrip(".")


@contextmanager
def _blame(key: str) -> Iterator[None]:
    """Name the key of the study file in errors from below."""
    try:
        yield
    except (SurefootError, TypeError) as error:
        raise StudyError(f"{key}: {error}") from error
