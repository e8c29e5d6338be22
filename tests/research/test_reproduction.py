"""Reproducing the paper, every target, on studies cut down to a few trials: all that a target
promises is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support import small_study
from surefoot.core.errors import StudyError
from surefoot.research.paper import FAILS, HOLDS, OPEN, reproduction
from surefoot.research.paper.reproduction import RunOptions, draw_study, reproduce, run_study
from surefoot.research.studies.spec import Study, shipped_study
from surefoot.statistics import metrics

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


def small(name: str, *beside: Any, **changes: Any) -> Study:
    """A shipped study with two small sizes, few trials, and one setting of some algorithms."""
    study = shipped_study(name, trials=12)
    cut = {
        k: v[0] if isinstance(v, list) else v
        for k, v in (study.benchmark.model_extra or {}).items()
    }
    settings = [
        one.model_copy(
            update={
                k: v[0] if isinstance(v, list) and k != "published" else v
                for k, v in (one.model_extra or {}).items()
            }
        )
        for one in study.algorithms
        if one.name in KEPT
    ]
    settings = list({one.name: one for one in settings}.values())
    benchmark = study.benchmark.model_copy(update={"sizes": study.benchmark.sizes[:2], **cut})
    return study.model_copy(update={"benchmark": benchmark, "algorithms": settings})


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunOptions:
    pytest.importorskip(
        "torch", reason="PyTorch is an extra; make test-all installs it"
    )  # runs in this process, unlike "cpu"
    monkeypatch.setattr(reproduction, "shipped_study", small)
    return RunOptions(out=tmp_path / "out", trials=12, device="torch")


def test_an_unknown_target_is_named_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"figure-3.*wet-chicken.*all"):
        reproduce("figure-3", RunOptions(out=tmp_path))


@pytest.mark.slow
def test_the_grids_become_table_1_and_a_verdict(
    options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        reproduction,
        "c9",
        lambda results: pytest.fail("no cell of Table 1") if not results else None,
    )
    monkeypatch.setattr(reproduction, "render_table_1", lambda results: f"{len(results)} grids\n")
    monkeypatch.setattr(reproduction, "render_claims", lambda verdicts: "verdicts\n")
    reproduce("table-1", options)
    assert (options.out / "table-1.md").read_text() == "2 grids\n"
    for name in ("random-mdps-grid", "wet-chicken-grid"):
        assert (options.out / name / "summary.csv").exists()


@pytest.mark.slow
def test_assumption_1_becomes_a_table_a_heat_map_and_a_verdict(
    options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def few(instances: int, **keywords: Any) -> Any:
        from surefoot.research.paper.guarantees import assumption_1_study

        return assumption_1_study(2, gammas=(0.5, 0.9), etas=(0.1,), sizes=(20, 500), **keywords)

    monkeypatch.setattr(reproduction, "assumption_1_study", few)
    (verdict,) = reproduce("assumption-1", options)
    assert verdict.claim == "C10"
    assert verdict.verdict in (HOLDS, OPEN)
    assert {x.name for x in options.out.iterdir()} == {
        "assumption-1.csv",
        "assumption-1.svg",
        "assumption-1.png",
        "claims-assumption-1.md",
    }


@pytest.mark.slow
def test_the_guarantees_become_three_tables_and_four_verdicts(
    options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    from surefoot.research.paper import guarantees

    found = guarantees.guarantees_study(20, cases=guarantees.CASES[1:2])
    monkeypatch.setattr(reproduction, "guarantees_study", lambda trials, **keywords: found)
    verdicts = {v.claim: v.verdict for v in reproduce("guarantees", options)}
    assert set(verdicts) == {"C11", "C11b", "C12", "C13"}
    assert verdicts["C11b"] == FAILS
    assert {x.name for x in options.out.glob("*.csv")} == {
        f"guarantees-{name}.csv" for name in ("bounds", "budgets", "exact")
    }
    assert "mended minus published" in (options.out / "mending.md").read_text()


@pytest.mark.slow
def test_the_hcpi_study_becomes_a_table_and_a_verdict(
    options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = shipped_study("random-mdps-hcpi", trials=4)
    study = study.model_copy(
        update={"benchmark": study.benchmark.model_copy(update={"sizes": [10, 50]})}
    )
    monkeypatch.setattr(reproduction, "shipped_study", lambda name, *changes: study)
    (verdict,) = reproduce("hcpi", options)
    assert verdict.claim == "C16"
    lines = (options.out / "random-mdps-hcpi" / "hcpi.md").read_text().splitlines()
    assert len(lines) == 4 + 18
    assert sum(line.startswith("| hcpi ") for line in lines) == 8
    assert (options.out / "claims-hcpi.md").exists()


def test_a_study_is_resampled_once_for_its_summary_and_its_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    estimate = metrics.contrast

    def counted(score: Any, contrasts: Any, metric: str, how: Any = None) -> Any:
        calls.append(metric)
        return estimate(score, contrasts, metric, how)

    monkeypatch.setattr(metrics, "contrast", counted)
    done = run_study(
        small_study.small(trials=4), tmp_path, RunOptions(out=tmp_path, trials=4, workers=1)
    )
    assert len(draw_study(done)) == 4
    assert calls == ["mean", "cvar"]
