"""summary.csv: its columns, its numbers, the same bytes each time, and a file that is whole or
not there.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from surefoot.atomic import write_whole
from surefoot.errors import ProblemError, WriteError
from surefoot.studies.metrics import bootstrap, cvar
from surefoot.studies.results import Cell, Results
from surefoot.studies.summaries import COLUMNS, read_summary, summarise, write_summary

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


def test_the_columns_are_those_asked_for_and_not_converged() -> None:
    assert list(COLUMNS) == [*ASKED, "not_converged"]


def test_rows_hold_the_metrics_of_their_cells_in_the_cells_order() -> None:
    results = study()
    rows = summarise(results, resamples=50)
    assert [row.cell for row in rows] == list(results.cells)
    mean, tail = bootstrap(results.score, resamples=50)
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
    rows = summarise(
        Results(cells, score, np.zeros_like(score), np.ones(score.shape, dtype=bool)), resamples=10
    )
    assert [row.worse_than_baseline for row in rows] == [0, 1]


def test_two_runs_write_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_summary(tmp_path / name, summarise(study(), resamples=50))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    rows = summarise(study(), resamples=50)
    write_summary(tmp_path / "summary.csv", rows)
    back = read_summary(tmp_path / "summary.csv")
    assert [row.cell for row in back] == [row.cell for row in rows]
    for name in COLUMNS[4:]:
        assert [getattr(row, name) for row in back] == pytest.approx(
            [getattr(row, name) for row in rows], rel=1e-11
        )


def test_any_reader_of_csv_finds_numbers(tmp_path: Path) -> None:
    write_summary(tmp_path / "summary.csv", summarise(study(100), resamples=50))
    with open(tmp_path / "summary.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["cvar"]) for row in rows] == pytest.approx([np.nan] * 3, nan_ok=True)
    assert all(28 < float(row["mean"]) < 30 for row in rows)


def test_a_study_without_cells_has_a_summary_without_rows(tmp_path: Path) -> None:
    nothing = Results((), *(np.zeros((0, 7)) for _ in range(3)))
    write_summary(tmp_path / "summary.csv", summarise(nothing))
    assert read_summary(tmp_path / "summary.csv") == ()


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_whole(tmp_path / "summary.csv", "old")

    def refuse(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(WriteError, match="no space"):
        write_summary(tmp_path / "summary.csv", summarise(study(), resamples=10))
    assert [path.name for path in tmp_path.iterdir()] == ["summary.csv"]
    assert (tmp_path / "summary.csv").read_text() == "old"


@pytest.mark.parametrize("content", ["", "a,b\n1,2\n"])
def test_another_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "other.csv").write_text(content)
    with pytest.raises(ProblemError, match="no summary"):
        read_summary(tmp_path / "other.csv")


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "summary.csv").write_text(",".join(COLUMNS) + "\nwet-chicken,100,ramdp\n")
    with pytest.raises(ProblemError, match="line 2"):
        read_summary(tmp_path / "summary.csv")
