"""The top of the package: what `import surefoot` loads, and what it offers."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import surefoot

SOURCE = Path(surefoot.__file__)
HEAVY = (
    "duckdb",
    "pandas",
    "polars",
    "pyarrow",
    "matplotlib",
    "scipy",
    "torch",
    "typer",
    "pydantic",
)


def test_importing_it_loads_nothing_heavy() -> None:
    code = f"import sys, surefoot; print([x for x in {HEAVY} if x in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_it_offers_is_there_and_is_shown() -> None:
    assert set(surefoot.__all__) <= set(dir(surefoot))
    assert all(getattr(surefoot, name) is not None for name in surefoot.__all__)
    for name in (
        "read_log",
        "advise",
        "safety_test",
        "tune",
        "load_policy",
        "certify",
        "check_log",
    ):
        assert name in surefoot.__all__
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = surefoot.nothing_like_it


def test_it_shows_public_names_only() -> None:
    code = "import surefoot; print(*dir(surefoot))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    shown = done.stdout.split()
    own = {"__all__", "__doc__", "__version__"}
    assert [x for x in shown if x.startswith("_") and x not in own] == []
    assert set(shown) - own == {*surefoot.__all__, *surefoot._ROOMS}


def test_its_parts_load_themselves_on_first_use() -> None:
    code = (
        "import sys, surefoot; assert 'surefoot.evidence' not in sys.modules;"
        "print(*(getattr(surefoot, x).__name__ for x in (*surefoot._MODULES, *surefoot._ROOMS)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    homes = (*surefoot._MODULES.values(), *surefoot._ROOMS)
    assert done.stdout.split() == [f"surefoot.{x}" for x in homes]
    rooms = {x.parent.name for x in SOURCE.parent.glob("*/__init__.py")}
    assert {*surefoot._ROOMS, "cli"} == rooms


def test_a_package_that_has_moved_leads_to_where_its_names_are_now() -> None:
    for former, name in (("ope", "evidence_of"), ("trust", "by_count"), ("errors", "LogError")):
        with pytest.warns(DeprecationWarning, match=rf"surefoot\.{former}\.{name} is surefoot\."):
            found = getattr(getattr(surefoot, former), name)
        assert found.__name__ == name
    for former in surefoot._FORMER:
        with pytest.raises(AttributeError, match="nothing_like_it"):
            _ = getattr(surefoot, former).nothing_like_it


def test_every_algorithm_class_is_offered() -> None:
    assert {cls.__name__ for cls in surefoot.ALGORITHMS.values()} <= set(surefoot.__all__)


def test_a_type_checker_sees_what_is_loaded_lazily() -> None:
    (block,) = (x for x in ast.parse(SOURCE.read_text()).body if isinstance(x, ast.If))
    seen = {
        (f"{line.module}.{alias.name}", alias.asname)
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }
    homes = {(f"surefoot.{module}.{name}", name) for name, module in surefoot._HOME.items()}
    homes |= {(f"surefoot.{path}", name) for name, path in surefoot._MODULES.items()}
    assert seen == homes | {(f"surefoot.{name}", name) for name in surefoot._ROOMS}


# (function, parameter) without a type of its own, and why
UNTYPED = {
    "problem": {"log": "the options of read_log, or arrays: both are typed where they are read"},
    "certify": {
        "source": "of a log or of a problem: certify_policy and certificates.certify have types",
        "policy": "the same",
        "method": "the same",
        "given": "the same",
        "return": "the same",
    },
    "tune": {
        "source": "a log, or a problem",
        "how": "of a log or of a problem: tune_log and tuning.choose have types",
        "given": "the same",
        "return": "the same",
    },
    "align_policy": {"given": "what is no policy comes back as it is", "return": "the same"},
    # what a log may be is told by read_log, in words: a file, a folder, a table, a Log, a log.toml
    "advise": {"source": "a log", "settings": "parameters by name, as typed"},
    "check": {"source": "a log"},
    "compare": {"source": "a log"},
    "evaluate_policy": {"source": "a log", "policy": "refused in words if it is none"},
    "safety_test": {
        "source": "a log",
        "policy": "refused in words if it is none",
        "training": "a log",
    },
    "watch": {"source": "a log", "policy": "refused in words if it is none"},
    "plan": {"source": "a log"},
    "read_log": {
        "source": "a log",
        "terminal_states": "labels of any kind",
        "actions": "labels of any kind",
    },
    "check_log": {"baseline": "refused in words if it is none"},
    "load_policy": {"source": "refused in words if it is no policy"},
    "read_policy": {"source": "refused in words if it is no policy"},
}


def says_nothing(annotation: str) -> bool:
    """Whether a type is Any, or a collection of Any, alone or among others."""
    return any(
        x.strip() in ("Any", "Iterable[Any]", "dict[str, Any]", "Mapping[str, Any]")
        for x in str(annotation).split(" | ")
    )


def test_public_functions_say_what_they_take_but_for_the_few_that_are_named() -> None:
    found: dict[str, set[str]] = {}
    for name in surefoot.__all__:
        x = getattr(surefoot, name)
        if inspect.isfunction(x):
            bare = {k for k, y in x.__annotations__.items() if says_nothing(y)}
            found |= {name: bare} if bare else {}
    assert found == {name: set(why) for name, why in UNTYPED.items()}


def test_the_version_has_one_source() -> None:
    project = (SOURCE.parents[2] / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in project
    assert f"version: {surefoot.__version__}" in (SOURCE.parents[2] / "CITATION.cff").read_text()
