"""papers/continuous/continuous_study.py: its logs, its cells, what is written; with few roll-outs."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "papers" / "continuous"))

import continuous_study as study
from surefoot.research.benchmarks import CONTINUOUS


@pytest.fixture(autouse=True)
def few_rollouts(monkeypatch: Any) -> Any:
    monkeypatch.setattr(study, "ROLLOUTS", 30)
    study.start_of.cache_clear()
    study.baseline_value.cache_clear()
    yield
    study.start_of.cache_clear()
    study.baseline_value.cache_clear()


@pytest.mark.parametrize("name", CONTINUOUS)
def test_a_log_has_its_size_and_whole_episodes(name: str) -> None:
    first, again = (study.log_of(name, 150, 0) for _ in range(2))
    assert all(np.array_equal(first[x], again[x]) for x in first)
    assert 150 <= len(first["time"]) < 150 + 200
    if name == "cart-pole":
        last = np.append(first["episode"][1:] != first["episode"][:-1], True)
        assert np.array_equal(first["terminal"] == 1, last)


def test_the_baseline_gains_nothing_and_states_without_rows_keep_it() -> None:
    name = "continuous-wet-chicken"
    river = CONTINUOUS[name]()
    assert study.value(name, river.baseline) == study.baseline_value(name)
    encoder = study.fit_quantiles(
        river.features, study.log_of(name, 150, 0)["x"][:, None] + [[0, 1]], 4
    )
    nothing = study.by_state(river, encoder, np.zeros((len(encoder.labels), 5)))
    assert study.value(name, nothing) == study.baseline_value(name)


def test_every_cell_is_computed_once_and_summed_up(tmp_path: Path, monkeypatch: Any) -> None:
    words = ["study", "--out", str(tmp_path), "--logs", "2", "--sizes", "150", "--only", "states"]
    monkeypatch.setattr(sys, "argv", words)
    study.main()
    gains = (tmp_path / "gains.csv").read_text()
    with open(tmp_path / "summary.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(x["method"], x["states"]) for x in rows] == [
        (method, states) for method in study.ON_STATES for states in ("4", "9")
    ]  # 25 states would have less than 10 rows each
    with open(tmp_path / "gains.csv", newline="") as file:
        found = [float(x["gain"]) for x in csv.DictReader(file) if x["states"] == "9"]
    assert float(rows[1]["mean"]) == pytest.approx(np.mean(found[::3]), rel=1e-3)
    assert float(rows[1]["worst"]) == pytest.approx(min(found[::3]), rel=1e-3)
    assert (tmp_path / "figure.svg").exists()
    monkeypatch.setattr(study, "on_states", None)  # nothing is computed again
    study.main()
    assert (tmp_path / "gains.csv").read_text() == gains


@pytest.mark.slow
def test_the_one_command_is_asked_as_a_user_would(tmp_path: Path, monkeypatch: Any) -> None:
    words = ["study", "--out", str(tmp_path), "--logs", "1", "--sizes", "400", "--only", "command"]
    monkeypatch.setattr(sys, "argv", [*words, "--told", "6"])
    study.main()
    with open(tmp_path / "gains.csv", newline="") as file:
        rows = {x["method"]: x for x in csv.DictReader(file)}
    assert set(rows) == {study.COMMAND, study.CANDIDATE, study.AS_TOLD}
    assert rows[study.AS_TOLD]["states"] == "6"
    for row in (rows[study.COMMAND], rows[study.AS_TOLD]):
        assert row["supported"] in "01"
        assert row["supported"] == "1" or float(row["gain"]) == 0
