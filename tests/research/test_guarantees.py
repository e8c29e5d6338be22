"""The paper's guarantees put to the test: budgets, bounds and certificates are counted right,
and verdicts follow the counts.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import surefoot
from surefoot.research.benchmarks import RandomMDPs
from surefoot.research.paper import FAILS, HOLDS, OPEN, guarantees
from surefoot.research.paper.study_claims import c13, mending
from surefoot.research.simulate import Sampler, first_key, trial_numbers
from surefoot.research.studies.results import Cell, Results

CASE = guarantees.Case(RandomMDPs(n_states=12, n_actions=4), 30, 1.0)


@pytest.fixture(scope="module")
def found() -> guarantees.Guarantees:
    return guarantees.guarantees_study(30, cases=(CASE,))


def test_budgets_are_those_of_each_fit_alone(found: guarantees.Guarantees) -> None:
    keys = first_key(20220128, CASE.benchmark.name, trial_numbers(0, 30))
    worlds = CASE.benchmark.worlds(keys)
    ((counts, returns),) = Sampler(worlds).counts(
        keys, (CASE.benchmark.episodes(30),), with_returns=True
    )
    problem = worlds.problem(counts, returns, unseen_states="first-action", ties="lowest-index")
    algorithm = surefoot.algorithm("approx-soft-spibb", epsilon=0.5, delta=1, published=True)
    pi = surefoot.improve(problem, algorithm).pi
    spent = []
    for i in range(30):
        with np.errstate(divide="ignore", invalid="ignore"):
            e = np.sqrt(2 * np.log(2 * 12 * 4) / counts.n_sa[i])
            spent.append(np.nansum(e * np.abs(pi[i] - worlds.pi_b[i]), axis=1).max() / 0.5)
    row = next(
        r
        for r in found.budgets
        if (r.algorithm, r.published, r.epsilon) == ("approx-soft-spibb", True, 0.5)
    )
    assert row.worst == pytest.approx(max(spent), rel=1e-9)
    assert row.overspent == sum(x > 1 + 1e-9 for x in spent)


def test_the_published_step_overspends_and_the_mended_one_never(
    found: guarantees.Guarantees,
) -> None:
    published = [row for row in found.budgets if row.published]
    assert sum(row.overspent for row in published) > 0
    assert all(row.overspent == 0 for row in found.budgets if not row.published)
    assert guarantees.c11b(found.budgets).verdict == FAILS
    assert guarantees.c12(found.exact).verdict == HOLDS
    # 30 fits without a violation cannot prove a share below 0.05
    assert guarantees.c11(found.bounds).verdict == OPEN


def test_a_bound_is_judged_by_the_share_of_fits_that_violate_it(
    found: guarantees.Guarantees,
) -> None:
    def with_violations(n: int, fits: int) -> str:
        rows = tuple(dataclasses.replace(row, violated=n, fits=fits) for row in found.bounds)
        return guarantees.c11(rows).verdict

    assert with_violations(0, 1000) == HOLDS
    assert with_violations(400, 1000) == FAILS


def test_an_uncertified_row_makes_the_exact_step_fail(found: guarantees.Guarantees) -> None:
    worse = tuple(dataclasses.replace(row, gap=1e-9) for row in found.exact)
    assert guarantees.c12(worse).verdict == FAILS


def steps(shift: float) -> Results:
    """Scores of the six settings of the step studies: exact = approx + shift, mended = published
    + 0.001.
    """
    rng = np.random.default_rng(0)
    base = rng.normal(0.5, 0.1, (2, 2000))
    cells, scores = [], []
    for i, size in enumerate((10, 100)):
        for name in ("approx-soft-spibb", "adv-approx-soft-spibb"):
            for published, more in (("True", 0.0), ("False", 0.001)):
                cells.append(
                    Cell("random-mdps", size, name, f"delta=1 epsilon=2 published={published}")
                )
                scores.append(base[i] + more)
        for name in ("exact-soft-spibb", "adv-exact-soft-spibb"):
            cells.append(Cell("random-mdps", size, name, "delta=1 epsilon=2"))
            scores.append(base[i] + shift)
    score = np.stack(scores)
    return Results(tuple(cells), score, np.zeros_like(score), score == score)


def test_exact_and_approximate_steps_are_alike_within_the_margin_only() -> None:
    assert c13([steps(0.01)]).verdict == HOLDS
    assert c13([steps(0.2)]).verdict == FAILS


def test_what_mending_moves_is_the_mended_minus_the_published_score() -> None:
    rows = mending([steps(0.0)]).rows
    assert len(rows) == 4
    assert all(row[3].startswith("+0.0010") for row in rows)
