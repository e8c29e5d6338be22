"""papers/priced/priced_study.py: which settings are compared, what the differences are, what is
written.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binomtest

from surefoot.research.paper.claim import ALL, LOWER
from surefoot.research.paper.reproduction import RunOptions
from surefoot.research.studies.results import Cell, Results
from surefoot.research.studies.spec import Study, read_study, settings, variants
from surefoot.statistics.metrics import Intervals, cvar

sys.path.append(str(Path(__file__).parents[2] / "papers" / "priced"))

import priced_study
from priced_study import (
    ABOVE,
    BELOW,
    FIGURES,
    STUDIES,
    TOUCHES,
    UNKNOWN,
    UNTOUCHED,
    PairedCell,
    make,
    method,
    paired,
    paper_table,
    priced_words,
    role,
)

TRIALS = 600
RIVER = 43.084  # the value of the optimum on Wet Chicken, to three digits


def made_up(study: Study, seed: int = 0) -> Results:
    """Scores drawn at random for the first two sizes; a baseline of 30."""
    cells = tuple(
        Cell(variant.label, size, one.name, one.parameters)
        for variant in variants(study)
        for size in study.benchmark.sizes[:2]
        for one in settings(study)
    )
    score = 32 + np.random.default_rng(seed).standard_normal((len(cells), TRIALS))
    return Results(cells, score, np.full_like(score, 30.0), score == score)


def two_sizes(place: Path, trials: int | None = None) -> Study:
    study = read_study(place, trials)
    benchmark = study.benchmark.model_copy(update={"sizes": study.benchmark.sizes[:2]})
    return study.model_copy(update={"benchmark": benchmark})


def test_differences_are_paired_and_in_shares_of_the_way_to_the_optimum() -> None:
    study = two_sizes(STUDIES / "wet-chicken-priced.toml")
    results = made_up(study)
    cells = paired(study, results, Intervals(resamples=50))
    way = RIVER - 30
    for x in (cells[3], cells[-1]):
        ours, rival = (
            results.where(size=x.size, algorithm=name, parameters=parameters)
            for name, parameters in ((x.algorithm, x.parameters), (x.rival, x.rival_parameters))
        )
        apart = ours.score[0] - rival.score[0]
        assert x.mean == pytest.approx(apart.mean() / way, rel=1e-3)
        assert x.cvar == pytest.approx(
            float(cvar(ours.score[0]) - cvar(rival.score[0])) / way, rel=1e-3
        )
        assert x.mean_low < x.mean < x.mean_high
        assert_allclose(x.worse, (ours.score[0] < 30).mean())
        assert_allclose(x.rival_worse, (rival.score[0] < 30).mean())
        lost = [one.score[0] < 30 for one in (ours, rival)]
        k, n = int((lost[0] & ~lost[1]).sum()), int((lost[0] != lost[1]).sum())
        assert x.more_often == pytest.approx(binomtest(k, n, alternative="greater").pvalue)
        assert x.less_often == pytest.approx(binomtest(k, n, alternative="less").pvalue)


def test_on_the_figures_the_method_meets_all_of_the_paper_and_every_part_meets_lower_approx() -> (
    None
):
    for name in FIGURES:
        study = two_sizes(STUDIES / f"{name}.toml")
        cells = paired(study, made_up(study), Intervals(resamples=5))
        first = method(cells)
        assert {role(x) for x in first} == {"the method"}
        assert [x.size for x in first] == study.benchmark.sizes
        assert {x.rival for x in cells if role(x) == "the method"} == set(ALL)
        assert {role(x) for x in cells if x.rival == LOWER} == {
            "the method",
            "the default",
            "without shrinkage",
            "without price",
            "without budget",
            "one sigma for all states",
            "neither price nor shrinkage",
            "RaMDP's penalty instead of price and shrinkage",
        }
        assert {x.rival for x in cells if role(x) != "the method"} == {LOWER}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("random-mdps-other-priced", {("0.5", "0.5"), ("1", "1"), ("default", "1")}),
        ("wet-chicken-other-priced", {("0.5", "0.5"), ("1", "1"), ("default", "0.5")}),
        (
            "icu-sepsis-priced",
            {("0.5", "0.5"), ("1", "1"), ("default", "0.5"), ("default", "1")},
        ),
    ],
)
def test_elsewhere_the_price_meets_its_own_epsilon_and_the_default_that_of_table_1(
    name: str, wanted: set[tuple[str, str]]
) -> None:
    study = two_sizes(STUDIES / f"{name}.toml")
    cells = paired(study, made_up(study), Intervals(resamples=5))
    found = {
        (
            "default" if x.is_default else x.parameters.split()[0].removeprefix("epsilon="),
            x.rival_parameters.removeprefix("delta=1 epsilon="),
        )
        for x in cells
    }
    assert found == wanted
    assert len({x.benchmark for x in cells}) == len(variants(study))


def cell(mean: float, tail: float, half: float = 0.1, **changes: Any) -> PairedCell:
    made = PairedCell(
        benchmark="b",
        size=10,
        algorithm="priced-soft-spibb",
        parameters="epsilon=1",
        rival=LOWER,
        rival_parameters="epsilon=1",
        trials=TRIALS,
        mean=mean,
        mean_low=mean - half,
        mean_high=mean + half,
        cvar=tail,
        cvar_low=tail - half,
        cvar_high=tail + half,
        worse=0.1,
        rival_worse=0.2,
        more_often=0.9,
        less_often=0.2,
    )
    return replace(made, **changes)


def test_a_cell_is_above_touches_0_or_is_below() -> None:
    assert cell(0.2, -0.2).verdict("mean") == ABOVE
    assert cell(0.2, -0.2).verdict("cvar") == BELOW
    assert cell(0.05, -0.05).verdict("mean") == TOUCHES
    assert cell(0.05, -0.05).verdict("cvar") == TOUCHES
    assert cell(0.0, float("nan")).verdict("cvar") == UNKNOWN


def test_the_algorithms_of_the_paper_that_are_ahead_are_named_with_their_lead() -> None:
    here = [cell(-0.03, 0.2), cell(0.1, -0.2, rival="ramdp"), cell(-0.1, -0.4, rival="basic-rl")]
    (row,) = paper_table(here).rows
    assert row[2:] == (
        "basic-rl by 0.100, lower-approx-soft-spibb by 0.030",
        "basic-rl by 0.400, ramdp by 0.200",
        "basic-rl",
    )


def test_the_words_count_the_cells_and_name_those_that_are_not_above() -> None:
    figures = [cell(0.2, 0.2), cell(0.2, 0.05, size=20)]
    others = [
        cell(0.2, -0.3, size=50, benchmark="c"),
        cell(
            0.2, 0.3, size=50, benchmark="c", parameters="growth=0.12", worse=0.3, more_often=0.01
        ),
    ]
    text = priced_words(figures, others)
    assert "Of 2 cells: in mean 2 above; in CVaR 1 above, 1 touches 0." in text
    assert "CVaR at 50 below" in text
    assert "50 (30.0% and 20.0%)" in text


@pytest.mark.parametrize("name", [*FIGURES, *UNTOUCHED])
def test_every_study_of_the_price_is_a_study_that_can_be_cut_short(name: str) -> None:
    study = read_study(STUDIES / f"{name}.toml", 3)
    assert study.name == name and study.trials == 3 and settings(study) and variants(study)


@pytest.mark.slow
def test_the_script_writes_tables_figures_and_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(priced_study, "read_study", two_sizes)
    monkeypatch.setattr(priced_study, "FIGURES", ("wet-chicken-priced",))
    monkeypatch.setattr(priced_study, "UNTOUCHED", ("wet-chicken-other-priced",))
    options = RunOptions(out=tmp_path / "out", trials=6, workers=1)
    make(options)
    stems = ("priced-figures", "priced-elsewhere")
    assert {x.name for x in options.out.iterdir() if x.is_file()} == {
        "priced.md",
        *(f"{stem}.{ending}" for stem in stems for ending in ("csv", "png", "svg")),
    }
    with (options.out / "priced-elsewhere.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 3  # variants, sizes, comparisons
    assert {row["mean_verdict"] for row in rows} <= {ABOVE, TOUCHES, BELOW}
