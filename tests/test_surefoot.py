"""The top of the package: what `import surefoot` loads, and what it offers."""

from __future__ import annotations

import ast
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
    assert set(shown) - own == {*surefoot.__all__, *surefoot._PARTS}


def test_its_parts_load_themselves_on_first_use() -> None:
    code = (
        "import sys, surefoot; assert 'surefoot.ope' not in sys.modules;"
        "print(*(getattr(surefoot, x).__name__ for x in surefoot._MODULES + surefoot._PARTS))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    parts = [f"surefoot.{x}" for x in surefoot._MODULES + surefoot._PARTS]
    assert done.stdout.split() == parts
    named = {x.stem for x in SOURCE.parent.iterdir() if x.is_dir() or x.suffix == ".py"}
    assert set(surefoot._PARTS) <= named


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
    modules = (*surefoot._MODULES, *surefoot._PARTS)
    assert seen == homes | {(f"surefoot.{name}", name) for name in modules}


def test_the_version_has_one_source() -> None:
    project = (SOURCE.parents[2] / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in project
    assert f"version: {surefoot.__version__}" in (SOURCE.parents[2] / "CITATION.cff").read_text()
