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


def test_the_five_minutes_end_with_an_action() -> None:
    output = run("five_minutes.py")
    assert "2. supported: asymptotic test at 5%" in output
    assert output.endswith("4. in state x=2 y=2: hold\n")


def test_an_own_algorithm_works_alone_and_combined() -> None:
    output = run("own_algorithm.py").splitlines()
    assert [x.split(":")[0] for x in output] == ["only-often", "only-often", "ramdp+only-often"]
    assert "not supported, 0 states change" in output[1]  # with a share of one half


def test_the_cliff_is_walked_better_with_the_policy_in_the_loop() -> None:
    pytest.importorskip("gymnasium")
    played, improved = map(float, re.findall(r"mean return\s+(-\d+\.\d+)", run("cliff_walking.py")))
    assert improved > played / 2  # both are negative


@pytest.mark.slow
def test_an_own_study_prints_a_row_for_every_cell() -> None:
    rows = re.findall(r"^ *(\d+) steps  (\S+) +mean (\d+\.\d+)", run("own_study.py"), re.M)
    assert [x[0] for x in rows] == ["500"] * 3 + ["2000"] * 3
    assert float(rows[5][2]) > 35 > float(rows[3][2])  # priced-soft-spibb, basic-rl


@pytest.mark.slow
def test_a_frame_goes_in_and_comes_out() -> None:
    pytest.importorskip("polars")
    pytest.importorskip("pandas")
    output = run("frames.py")
    assert output.startswith("polars in;")
    assert re.search(r"A +┆ false +┆ high +┆ 1\.0 +┆ 0\.18\d+ +┆ 24", output)  # polars out


@pytest.mark.slow
def test_the_gate_lets_a_better_policy_pass() -> None:
    output = run("safety_gate.py")
    assert re.findall(r"exit code (\d)", output) == ["0", "0", "4", "3"]


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


@pytest.mark.slow
def test_a_ward_gets_doses_from_measurements() -> None:
    doses = re.findall(r"pressure \d+: (\d+) ml", run("measured_ward.py"))
    assert [int(x) > 500 for x in doses] == [True, False]


@pytest.mark.slow
def test_a_pump_gets_a_block_from_measurements() -> None:
    output = run("measured_pump.py")
    assert "what finer or coarser states would give" in output
    assert "verdict   SUPPORTED" in output
    assert output.endswith("lines of Structured Text\n")
