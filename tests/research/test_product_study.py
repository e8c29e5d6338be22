"""Pareto fronts of mean and CVaR, averages over sizes, and the settings that are as good as a
reference everywhere.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.core.errors import ProblemError
from surefoot.report.style import save
from surefoot.research.paper.reproduction import RunOptions
from surefoot.research.studies.results import Cell, Results
from surefoot.research.studies.spec import Study, read_study, settings, variants
from surefoot.statistics.metrics import Intervals, cvar, mean_and_cvar

pytest.importorskip("matplotlib")
import matplotlib

sys.path.append(str(Path(__file__).parents[2] / "papers" / "scholl2022"))

import product_study
from product_study import (
    PRODUCT,
    STUDIES,
    FrontRow,
    class_of,
    front,
    good_everywhere,
    make,
    pareto_figure,
    pareto_table,
    rivals_of,
    write_fronts,
    write_rivals,
)

POINTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12)
REFERENCE = ("lower", "epsilon=1")


def classify(cell: Cell) -> str:
    return "penalises" if cell.algorithm == "ramdp" else "restricts"


def study(
    shift: dict[str, tuple[float, float]],
    benchmarks: tuple[str, ...] = ("wet-chicken",),
    sizes: tuple[int, ...] = (100, 200),
) -> Results:
    """Settings "algorithm parameters" that differ from a shared skewed score by (a constant, a
    factor of the tail).
    """
    rng = np.random.default_rng(4)
    cells, score = [], []
    for benchmark in benchmarks:
        for size in sizes:
            shared = rng.exponential(size=700)
            for name, (constant, tail) in shift.items():
                cells.append(Cell(benchmark, size, *name.split(" ", 1)))
                score.append(constant - tail * shared + 0.001 * rng.standard_normal(700))
    found = np.array(score)
    return Results(tuple(cells), found, np.zeros_like(found), np.ones(found.shape, dtype=bool))


BASE = {
    "lower epsilon=1": (1.0, 0.2),
    "ramdp kappa=1": (2.0, 0.9),
    "ramdp kappa=2": (1.8, 0.95),
    "soft epsilon=1": (0.9, 0.19),
}


@given(POINTS)
def test_the_front_holds_exactly_the_undominated_points(points: list[tuple[int, int]]) -> None:
    naive = [not any(x >= a and y >= b and (x, y) != (a, b) for x, y in points) for a, b in points]
    mean, tail = np.array(points, dtype=float).T
    assert front(mean, tail).tolist() == naive


def test_a_setting_without_a_cvar_is_on_no_front() -> None:
    assert front(np.array([1.0, 2.0]), np.array([1.0, np.nan])).tolist() == [True, False]


def test_fronts_are_those_of_the_class_and_of_all() -> None:
    rows = pareto_table(
        study({**BASE, "soft epsilon=9": (0.8, 0.3)}), classify, Intervals(resamples=50)
    )
    on_front = {(row.algorithm, row.parameters) for row in rows if row.size == 100 and row.on_front}
    on_combined = {
        (row.algorithm, row.parameters) for row in rows if row.size == 100 and row.on_combined
    }
    assert on_front == {("lower", "epsilon=1"), ("ramdp", "kappa=1")}
    assert on_combined == {("lower", "epsilon=1"), ("ramdp", "kappa=1")}
    beaten = pareto_table(
        study({**BASE, "both x=1": (3.0, 0.1)}), classify, Intervals(resamples=50)
    )
    assert {row.algorithm for row in beaten if row.on_combined} == {"both"}
    assert {row.algorithm for row in beaten if row.on_front} == {"both", "ramdp"}


def test_the_average_over_sizes_averages_the_metrics() -> None:
    results = study(BASE)
    row = next(
        r
        for r in pareto_table(results, classify, Intervals(resamples=50))
        if r.size is None and r.parameters == "kappa=2"
    )
    mine = results.where(parameters="kappa=2").score
    assert row.mean == pytest.approx(mine.mean())
    assert row.cvar == pytest.approx(cvar(mine).mean())
    assert row.cvar != pytest.approx(cvar(mine.mean(axis=0)), abs=0.1)
    assert row.cvar_low < row.cvar < row.cvar_high


def test_intervals_at_a_size_are_those_of_the_summary() -> None:
    results = study(BASE)
    rows = [
        row
        for row in pareto_table(results, classify, Intervals(resamples=50))
        if row.size is not None
    ]
    low, high = mean_and_cvar(results.score, Intervals(resamples=50))[1].interval()
    by_cell = {cell: (low[i], high[i]) for i, cell in enumerate(results.cells)}
    assert all(
        (row.cvar_low, row.cvar_high)
        == by_cell[Cell(row.benchmark, row.size or 0, row.algorithm, row.parameters)]
        for row in rows
    )


def test_a_setting_above_the_reference_everywhere_is_found() -> None:
    rivals = rivals_of(
        study({**BASE, "both x=1": (1.1, 0.2), "twin x=1": (1.0, 0.2)}),
        REFERENCE,
        classify,
        Intervals(resamples=200),
    )
    assert good_everywhere(rivals, strictly=True) == (("both", "x=1"),)
    assert set(good_everywhere(rivals)) >= {("both", "x=1")}
    assert not {("ramdp", "kappa=1"), ("soft", "epsilon=1")} & set(good_everywhere(rivals))


def test_an_identical_setting_is_as_good_but_not_better() -> None:
    results = study(BASE)
    twin = results.where(algorithm="lower")
    cells = tuple(Cell(c.benchmark, c.size, "twin", "x=1") for c in twin.cells)
    both = Results(
        results.cells + cells,
        *(
            np.concatenate([getattr(results, k), getattr(twin, k)])
            for k in ("score", "baseline", "converged")
        ),
    )
    rivals = rivals_of(both, REFERENCE, classify, Intervals(resamples=50))
    assert good_everywhere(rivals) == (("twin", "x=1"),)
    assert good_everywhere(rivals, strictly=True) == ()


def test_one_bad_size_is_enough_to_fail() -> None:
    results = study({**BASE, "both x=1": (1.1, 0.2)})
    score = results.score.copy()
    score[
        [i for i, cell in enumerate(results.cells) if cell.algorithm == "both" and cell.size == 200]
    ] -= 1.0
    rivals = rivals_of(
        Results(results.cells, score, results.baseline, results.converged),
        REFERENCE,
        classify,
        Intervals(resamples=50),
    )
    assert ("both", "x=1") not in good_everywhere(rivals)


def test_everywhere_means_on_every_benchmark() -> None:
    both = study({**BASE, "both x=1": (1.1, 0.2)}, benchmarks=("random-mdps", "wet-chicken"))
    keep = [
        i
        for i, c in enumerate(both.cells)
        if not (c.benchmark == "random-mdps" and c.algorithm == "both")
    ]
    part = Results(
        tuple(both.cells[i] for i in keep),
        both.score[keep],
        both.baseline[keep],
        both.converged[keep],
    )
    assert good_everywhere(
        rivals_of(both, REFERENCE, classify, Intervals(resamples=100)), strictly=True
    ) == (("both", "x=1"),)
    assert (
        good_everywhere(
            rivals_of(part, REFERENCE, classify, Intervals(resamples=100)), strictly=True
        )
        == ()
    )


def test_too_few_trials_for_a_cvar_show_nothing() -> None:
    results = study({**BASE, "both x=1": (1.1, 0.2)})
    few = Results(
        results.cells, results.score[:, :100], results.baseline[:, :100], results.converged[:, :100]
    )
    assert good_everywhere(rivals_of(few, REFERENCE, classify, Intervals(resamples=50))) == ()


def test_a_missing_reference_or_cell_is_named() -> None:
    results = study(BASE)
    with pytest.raises(ProblemError, match="has no lower epsilon=7"):
        rivals_of(results, ("lower", "epsilon=7"), classify)
    part = Results(
        results.cells[1:], results.score[1:], results.baseline[1:], results.converged[1:]
    )
    with pytest.raises(ProblemError, match="lower epsilon=1 did not run at size 100"):
        pareto_table(part, classify)


def test_both_tables_are_written_with_their_intervals(tmp_path: Path) -> None:
    results = study(BASE)
    write_fronts(tmp_path / "fronts.csv", pareto_table(results, classify, Intervals(resamples=50)))
    write_rivals(
        tmp_path / "rivals.csv", rivals_of(results, REFERENCE, classify, Intervals(resamples=50))
    )
    fronts, rivals = (
        list(csv.DictReader((tmp_path / name).read_text().splitlines()))
        for name in ("fronts.csv", "rivals.csv")
    )
    assert [row["size"] for row in fronts] == ["100"] * 4 + ["200"] * 4 + ["all"] * 4
    assert len(rivals) == 3 * 2
    assert all(
        float(row["cvar_low"]) < float(row["cvar"]) < float(row["cvar_high"])
        for row in fronts + rivals
    )


def point(
    size: int | None, group: str, parameters: str, x: float, y: float, **fronts: bool
) -> FrontRow:
    return FrontRow(
        benchmark="random-mdps",
        size=size,
        group=group,
        algorithm=group,
        parameters=parameters,
        mean=x,
        mean_low=x - 0.01,
        mean_high=x + 0.01,
        cvar=y,
        cvar_low=y - 0.01,
        cvar_high=y + 0.01,
        **fronts,
    )


def points() -> list[FrontRow]:
    made = []
    for size in (10, None):
        for i, group in enumerate(("neither", "penalises", "restricts", "both")):
            for k in range(3):
                x, y = 0.1 * i + 0.01 * k, 0.1 * i - 0.02 * k
                made.append(point(size, group, f"k={k}", x, y, on_front=True, on_combined=i == 3))
    return made


def test_settings_outside_a_panel_are_counted() -> None:
    far = point(10, "both", "k=9", -50, -50, on_front=False, on_combined=False)
    assert "4 of 13 outside" in words(pareto_figure([*points(), far]))


def test_fronts_drawn_twice_give_the_same_bytes(tmp_path: Path) -> None:
    one, two = (
        save(pareto_figure(points(), reference=("restricts", "k=0")), tmp_path / name)
        for name in ("one", "two")
    )
    assert [x.read_bytes() for x in one] == [x.read_bytes() for x in two]


def test_fronts_of_no_setting_are_refused() -> None:
    with pytest.raises(ProblemError, match="no rows"):
        pareto_figure([])


@pytest.mark.parametrize("name", PRODUCT)
def test_every_study_is_a_study_that_can_be_cut_short(name: str) -> None:
    study = read_study(STUDIES / f"{name}.toml", 3)
    assert study.name == name and study.trials == 3 and settings(study) and variants(study)


def words(figure: matplotlib.figure.Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(matplotlib.text.Text))


def test_the_classes_are_those_of_the_papers_taxonomy() -> None:
    cells = {
        name: class_of(Cell("", 1, name, ""))
        for name in ("basic-rl", "ramdp", "pi-b-spibb", "ramdp+pi-b-spibb")
    }
    assert cells == {
        "basic-rl": "neither",
        "ramdp": "penalises",
        "pi-b-spibb": "restricts",
        "ramdp+pi-b-spibb": "both",
    }


KEPT = (
    "lower-approx-soft-spibb",
    "basic-rl",
    "ramdp",
    "pi-b-spibb",
    "ramdp+pi-b-spibb",
    "approx-soft-spibb",
    "adv-approx-soft-spibb",
    "exact-soft-spibb",
    "adv-exact-soft-spibb",
)


def small(place: Path, trials: int | None = None) -> Study:
    """A study with two small sizes, few trials, and one setting of some algorithms."""
    study = read_study(place, 12)
    cut = {
        k: v[0] if isinstance(v, list) else v
        for k, v in (study.benchmark.model_extra or {}).items()
    }
    chosen = [
        one.model_copy(
            update={
                k: v[0] if isinstance(v, list) and k != "published" else v
                for k, v in (one.model_extra or {}).items()
            }
        )
        for one in study.algorithms
        if one.name in KEPT
    ]
    chosen = list({one.name: one for one in chosen}.values())
    benchmark = study.benchmark.model_copy(update={"sizes": study.benchmark.sizes[:2], **cut})
    return study.model_copy(update={"benchmark": benchmark, "algorithms": chosen})


@pytest.mark.slow
def test_the_product_study_becomes_fronts_and_rivals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="PyTorch is an extra; make test-all installs it")
    monkeypatch.setattr(product_study, "read_study", small)
    monkeypatch.setattr(product_study, "PRODUCT", ("wet-chicken-product",))
    options = RunOptions(out=tmp_path / "out", trials=12, device="torch")
    make(options)
    out = options.out / "wet-chicken-product"
    assert {
        "summary.csv",
        "fronts.csv",
        "fronts.svg",
        "fronts.png",
        "rivals.csv",
        "product.md",
    } <= {x.name for x in out.iterdir()}
    assert "at least as good in mean and CVaR at every size" in (out / "product.md").read_text()
