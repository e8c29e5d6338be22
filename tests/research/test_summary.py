"""summary.csv: its columns, its numbers, the same bytes each time, and a file that is whole or
not there.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from surefoot.core.atomic import write_whole
from surefoot.core.errors import WriteError
from surefoot.research.studies.results import Cell, Results, SummaryRow, summary_rows, write_summary
from surefoot.statistics.metrics import Intervals, cvar, mean_and_cvar

ASKED = ["benchmark", "size", "algorithm", "parameters", "trials", "mean", "mean_low", "mean_high"]
ASKED += ["cvar", "cvar_low", "cvar_high", "worse_than_baseline"]


def study(trials: int = 600) -> Results:
    rng = np.random.default_rng(2)
    cells = (
        Cell("wet-chicken", 100, "basic-rl", ""),
        Cell("wet-chicken", 100, "ramdp", "kappa=2"),
        Cell("random-mdps", 10, "duipi", "xi=1"),
    )
    score = 30 - rng.exponential(size=(3, trials))
    baseline = np.full((3, trials), 29.0)
    converged = np.ones((3, trials), dtype=bool)
    converged[1, :4] = False
    return Results(cells, score, baseline, converged)


def cells(rows: Sequence[SummaryRow]) -> list[Cell]:
    return [Cell(row.benchmark, row.size, row.algorithm, row.parameters) for row in rows]


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_columns_are_those_asked_for_and_not_converged(tmp_path: Path) -> None:
    write_summary(tmp_path / "summary.csv", summary_rows(study(), Intervals(resamples=10)))
    assert list(read(tmp_path / "summary.csv")[0]) == [*ASKED, "not_converged"]


def test_rows_hold_the_metrics_of_their_cells_in_the_cells_order() -> None:
    results = study()
    rows = summary_rows(results, Intervals(resamples=50))
    assert cells(rows) == list(results.cells)
    mean, tail = mean_and_cvar(results.score, Intervals(resamples=50))
    for i, row in enumerate(rows):
        assert row.mean == pytest.approx(results.score[i].mean(), rel=1e-12)
        assert row.cvar == pytest.approx(cvar(results.score[i]), rel=1e-12)
        assert (row.mean_low, row.mean_high) == tuple(x[i] for x in mean.interval())
        assert (row.cvar_low, row.cvar_high) == tuple(x[i] for x in tail.interval())
        assert row.worse_than_baseline == np.mean(results.score[i] < 29)
        assert row.trials == 600
    assert [row.not_converged for row in rows] == [0, 4, 0]


def test_rounding_below_the_baseline_is_not_worse() -> None:
    cells = (Cell("random-mdps", 10, "pi-b-spibb", ""), Cell("random-mdps", 10, "basic-rl", ""))
    score = np.stack([np.full(600, -1e-17), np.full(600, -1.0)])
    rows = summary_rows(
        Results(cells, score, np.zeros_like(score), np.ones(score.shape, dtype=bool)),
        Intervals(resamples=10),
    )
    assert [row.worse_than_baseline for row in rows] == [0, 1]


def test_two_runs_write_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_summary(tmp_path / name, summary_rows(study(), Intervals(resamples=50)))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    rows = summary_rows(study(), Intervals(resamples=50))
    write_summary(tmp_path / "summary.csv", rows)
    back = read(tmp_path / "summary.csv")
    assert [
        Cell(row["benchmark"], int(row["size"]), row["algorithm"], row["parameters"])
        for row in back
    ] == cells(rows)
    for name in (*ASKED[4:], "not_converged"):
        assert [float(row[name]) for row in back] == pytest.approx(
            [getattr(row, name) for row in rows], rel=1e-11
        )


def test_any_reader_of_csv_finds_numbers(tmp_path: Path) -> None:
    write_summary(tmp_path / "summary.csv", summary_rows(study(100), Intervals(resamples=50)))
    rows = read(tmp_path / "summary.csv")
    assert [float(row["cvar"]) for row in rows] == pytest.approx([np.nan] * 3, nan_ok=True)
    assert all(28 < float(row["mean"]) < 30 for row in rows)


def test_a_study_without_cells_has_a_summary_without_rows(tmp_path: Path) -> None:
    nothing = Results((), *(np.zeros((0, 7)) for _ in range(3)))
    write_summary(tmp_path / "summary.csv", summary_rows(nothing))
    assert read(tmp_path / "summary.csv") == []


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_whole(tmp_path / "summary.csv", "old")

    def refuse(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(WriteError, match="no space"):
        write_summary(tmp_path / "summary.csv", summary_rows(study(), Intervals(resamples=10)))
    assert [path.name for path in tmp_path.iterdir()] == ["summary.csv"]
    assert (tmp_path / "summary.csv").read_text() == "old"
