"""The examples run as a user runs them, and say what they should."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), "--quick"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def best_row(output: str) -> float:
    """The largest mean of the last column."""
    return max(float(x) for x in re.findall(r"(-?\d+\.\d+) ± \d+\.\d+\n", output))


def test_every_example_is_short() -> None:
    files = sorted(EXAMPLES.glob("*.py"))
    assert len(files) >= 3
    assert all(len(file.read_text().splitlines()) < 60 for file in files)


def test_frozen_lake_is_improved_from_its_log() -> None:
    pytest.importorskip("gymnasium")
    output = run("frozen_lake.py")
    assert "gamma = 0.95: policy that played 0.033, best possible 0.180" in output
    assert best_row(output) > 0.1


@pytest.mark.slow
def test_the_gate_lets_a_better_policy_pass_and_the_readme_shows_what_it_prints() -> None:
    output = run("safety_gate.py")
    assert re.findall(r"exit code (\d)", output) == ["0", "0", "4", "3"]
    shown = re.findall(
        r"```console\n(.*?)```", (EXAMPLES.parent / "README.md").read_text(), flags=re.DOTALL
    )
    assert len(shown) == 4
    assert all(part in output for part in shown)


@pytest.mark.slow
def test_taxi_is_improved_from_its_log() -> None:
    pytest.importorskip("gymnasium")
    output = run("taxi.py")
    assert "policy that played -29.373, best possible 1.730" in output
    assert best_row(output) > -5


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("icu_sepsis") is None, reason="needs icu-sepsis")
def test_sepsis_treatment_is_judged_undiscounted_between_clinicians_and_optimum() -> None:
    output = run("icu_sepsis.py")
    assert "clinicians 0.7820, best possible 0.8751" in output
    assert "learned at gamma = 0.99" in output
    assert 0.78 < best_row(output) < 0.8751
