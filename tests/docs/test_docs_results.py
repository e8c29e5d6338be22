"""What pages say of results and of code is what the results and the code say."""

from __future__ import annotations

import csv
import sys
from typing import Any

import numpy as np
import pytest

import surefoot
from support.documents import ROOT, blocks, text_of
from surefoot.algorithms.defaults import PARAMETERS
from surefoot.evidence.certificates import SUITED
from surefoot.planning import trade_rows
from surefoot.research.paper.claim import EXCEPT, FAILS, HOLDS, OPEN
from surefoot.research.paper.sentences import SENTENCES

sys.path.append(str(ROOT / "papers" / "benchmark"))

import write_page

RESULTS = ROOT / "papers" / "scholl2022"


def words(page: str) -> str:
    return " ".join(text_of(page).split())


def means(study: str, **where: Any) -> dict[str, float]:
    """{parameters: mean} of the rows of a study."""
    with open(RESULTS / study / "summary.csv", newline="", encoding="utf-8") as file:
        rows = [x for x in csv.DictReader(file) if all(x[k] == str(v) for k, v in where.items())]
    return {f"{x['size']} {x['parameters']}": float(x["mean"]) for x in rows}


@pytest.mark.parametrize("published", [False, True])
def test_the_greedy_step_of_the_page_is_that_of_the_library(published: bool) -> None:
    code = next(x.text for x in blocks("algorithms/soft-spibb.md") if "def greedy" in x.text)
    names: dict[str, Any] = {}
    exec(compile(code, "soft-spibb.md", "exec", dont_inherit=True), names)
    rng = np.random.default_rng(0)
    q, e = 10 ** rng.uniform(-2, 2, (300, 5)), rng.choice([0.3, 1.0, 3.0], (300, 5))
    b = rng.dirichlet(np.full(5, 0.5), 300)
    found = trade_rows(q, b, e, 0.4, published=published)
    page = [names["greedy"](*row, 0.4, published) for row in zip(q, b, e, strict=True)]
    np.testing.assert_allclose(page, found, atol=1e-12)
    spent = (e * abs(found - b)).sum(axis=1).max()
    assert bool(spent > 0.4 + 1e-9) is published


def test_one_step_stands_beside_the_value_that_was_measured() -> None:
    found = means("wet-chicken-product", size=50000, algorithm="lower-exact-soft-spibb")
    value = found["50000 delta=1 epsilon=1"]
    assert f"lower-exact-soft-spibb has {value:.2f}" in words("algorithms/one-step.md")


@pytest.mark.parametrize("study", ["random-mdps-product", "wet-chicken-product"])
def test_the_c_b_that_the_page_of_vi_lcb_recommends_is_the_best_that_was_run(study: str) -> None:
    assert "how much the penalty counts: 0.001." in words("algorithms/vi-lcb.md")
    found = means(study, algorithm="vi-lcb")
    sizes = {x.split()[0] for x in found}
    assert all(found[f"{n} c_b=0.001 delta=1"] >= found[f"{n} c_b=0.01 delta=1"] for n in sizes)
    default = PARAMETERS["vi-lcb"]["c_b"]
    assert not any(f"c_b={default:g} " in x for x in found)
    assert f"The default, {default:g}, was not measured" in words("algorithms/vi-lcb.md")


@pytest.mark.parametrize("name", ["adv-approx-soft-spibb", "adv-exact-soft-spibb"])
def test_theorem_1_is_tried_where_its_page_says_so(name: str) -> None:
    tried = surefoot.algorithm(name, epsilon=1, delta=1).proof or "theorem-1" in {
        bound.name for bound in SUITED
    }
    said = "does not try the certificate `theorem-1`" in words("algorithms/adv-soft-spibb.md")
    assert said is not bool(tried)


@pytest.mark.parametrize("page", ["algorithms/soft-spibb.md", "guarantees.md", "reproduced.md"])
def test_theorem_3_is_about_an_mdp_for_every_discount_factor(page: str) -> None:
    text = words(page)
    assert "fails for every discount factor" not in text
    assert "for every discount factor" in text and "MDP" in text


def test_the_taxonomy_says_of_means_and_tails_what_claim_8_found() -> None:
    claim = (RESULTS / "claims.md").read_text(encoding="utf-8").split("## C8: ")[1]
    assert claim.startswith("fails")
    assert "on Wet Chicken it is the other way round ([claim C8]" in words("taxonomy.md")


def test_every_sentence_of_the_paper_stands_on_the_page_with_its_verdict_and_evidence() -> None:
    judged = (RESULTS / "sentences.md").read_text(encoding="utf-8").splitlines()
    rows = [x for x in judged if x.startswith("| ") and "**" in x]
    shown = text_of("reproduced.md").splitlines()
    assert len(rows) == len([x for x in shown if x in rows]) >= len(SENTENCES) == len(rows)


def test_the_page_counts_its_verdicts() -> None:
    judged = (RESULTS / "sentences.md").read_text(encoding="utf-8")
    counts = [judged.count(f"| **{level}** |") for level in (HOLDS, EXCEPT, FAILS, OPEN)]
    said = "{} hold, {} hold with named exceptions, {} fail, and {} is not decided"
    assert said.format(*counts) in words("reproduced.md")


@pytest.mark.parametrize("page", ["screened-advantage", "planned-advantage"])
def test_a_mean_gain_has_its_unit(page: str) -> None:
    assert "v^pi - v^{pi_b} at the start, in the unit of the return," in words(
        f"algorithms/{page}.md"
    )


def test_the_table_of_the_benchmark_is_that_of_its_scores() -> None:
    text, rows = text_of("benchmark.md"), write_page.read_scores()
    assert write_page.page(text, rows) == text
    whole = [x for x in rows if (x.size, x.trials) == ("all", 2000)]
    for world in ("random-mdps", "wet-chicken"):
        assert len([x for x in whole if x.world == world]) >= 12
        assert f"### {world}, 2,000 trials" in text


def test_the_citations_name_this_version() -> None:
    cff = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    bib = (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")
    assert f"\nversion: {surefoot.__version__}\n" in cff
    assert f"version = {{{surefoot.__version__}}}" in bib
    assert "doi: 10.5220/0010786600003116" in cff and "{10.5220/0010786600003116}" in bib
