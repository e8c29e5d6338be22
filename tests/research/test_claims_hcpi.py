"""C16 from planted results: strongly outperformed, equal to, or somewhere between."""

from __future__ import annotations

import numpy as np

from surefoot.research.paper import EXCEPT, FAILS, HOLDS, OPEN
from surefoot.research.paper.study_claims import by_setting, c16, hcpi_table
from surefoot.research.studies.results import Cell, Results
from surefoot.statistics.metrics import Intervals

OTHERS = {
    "ramdp": 0.6,
    "pi-b-spibb": 0.3,
    "pi-leq-b-spibb": 0.35,
    "adv-approx-soft-spibb": 0.5,
    "lower-approx-soft-spibb": 0.6,
    "mbie": 0.1,
}
CAUTIOUS, BOLD = "bound=betting delta=0.05", "bound=student-t delta=0.5"


def planted(cautious: float, bold: float, robust: float = 0.1, scatter: float = 0.02) -> Results:
    """Means of two versions of HCPI and of Robust MDP, among the others', at two sizes; 600
    trials.
    """
    rng = np.random.default_rng(0)
    plan = [(name, "", mean) for name, mean in OTHERS.items()]
    plan += [
        ("hcpi", CAUTIOUS, cautious),
        ("hcpi", BOLD, bold),
        ("robust", "delta=1", robust),
        ("certified-advantage", "delta=0.05", 0.0),
    ]
    cells = tuple(
        Cell("random-mdps", size, name, words) for size in (20, 500) for name, words, _ in plan
    )
    score = np.array(
        [mean + scatter * rng.standard_normal(600) for _ in (20, 500) for *_, mean in plan]
    )
    return Results(cells, score, np.zeros(score.shape), np.ones(score.shape, dtype=bool))


def judged(*means: float, **options: float) -> str:
    return c16(planted(*means, **options), Intervals(resamples=150)).verdict


def test_it_holds_where_every_version_and_robust_mdp_fall_behind_by_more_than_the_margin() -> None:
    assert judged(0.0, 0.2) == HOLDS


def test_one_version_of_hcpi_within_the_margin_refutes_it() -> None:
    assert judged(0.0, 0.28) == FAILS


def test_so_does_robust_mdp_within_the_margin() -> None:
    assert judged(0.0, 0.1, robust=0.28) == FAILS


def test_a_version_whose_margin_is_hidden_by_scatter_is_a_named_exception() -> None:
    found = c16(planted(0.0, 0.24, scatter=0.5), Intervals(resamples=150))
    assert found.verdict == EXCEPT
    assert f"Pi_b open against hcpi {BOLD}" in found.exceptions
    assert CAUTIOUS not in found.exceptions


def test_scatter_that_hides_every_margin_leaves_it_open() -> None:
    assert judged(0.0, 0.24, scatter=9.0) == OPEN


def test_settings_of_one_algorithm_are_kept_apart_in_the_table() -> None:
    results = planted(0.0, 0.2)
    assert {c.algorithm for c in by_setting(results).cells} == {
        *OTHERS,
        f"hcpi {CAUTIOUS}",
        f"hcpi {BOLD}",
        "robust",
        "certified-advantage",
    }
    table = hcpi_table(results)
    assert table.columns[1:] == ("20", "500")
    row = next(row for row in table.rows if row[0] == f"hcpi {BOLD}")
    assert row[1].startswith("0.20") and row[1].endswith(", 0.0%")
