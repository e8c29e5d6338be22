"""The benchmark: its worlds are frozen, its scores are what the trials say, an entry is one file."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import surefoot
from surefoot.core.errors import StudyError
from surefoot.research import score_table
from surefoot.research.score_table import (
    ALL,
    REFERENCE,
    ScoreTable,
    definition,
    entry_of,
    score_rows,
    world_study,
)
from surefoot.research.simulate import Sampler, first_key
from surefoot.research.studies import Cell, Results, runner
from surefoot.research.studies.identity import digest
from surefoot.research.studies.spec import settings, variants

WORLDS = [world.get("title", world["name"]) for world in definition()["worlds"]]
# never to be changed: another world, size, seed or draw is another version of the benchmark
FROZEN = "3b11f0fbbc7761e2"
DATA = {
    "random-mdps": "c52d41f977c2c6a0",
    "wet-chicken": "69202b2dbbd50d32",
    "gridworld": "b06527f176d18547",
    "garnet": "619ea603b8a28bc4",
}


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Studies of this file are too small for processes of their own."""
    here = runner._here
    monkeypatch.setattr(runner, "_in_processes", lambda x, missing, _: here(x, missing, "cpu"))
    yield


def test_what_the_worlds_are_has_not_changed() -> None:
    told = definition()
    assert digest({k: told[k] for k in ("version", "seed", "alpha", "worlds")}) == FROZEN
    assert [*DATA, "gridworld-40", "icu-sepsis"] == WORLDS


@pytest.mark.parametrize("name", DATA)
def test_the_data_of_a_world_have_not_changed(name: str) -> None:
    """The counts of its first two data sets."""
    study = world_study(name, "basic-rl")
    bench = variants(study)[0].benchmark
    keys = first_key(study.seed, bench.name, np.arange(2))
    data = bench.episodes(study.benchmark.sizes[0])
    ((counts, _),) = Sampler(bench.worlds(keys)).counts(keys, (data,), with_returns=False)
    found = hashlib.sha256(np.asarray(counts.n_sas).astype(np.int64).tobytes()).hexdigest()
    assert found[:16] == DATA[name]


def test_the_table_is_of_all_algorithms_that_read_counts_and_an_entry_meets_two() -> None:
    every = [x.name for x in settings(world_study("wet-chicken"))]
    counting = {k for k, x in surefoot.ALGORITHMS.items() if "advantage" not in k and k != "hcpi"}
    left_out = {"one-step", "factored"}  # a part of others; it needs states of several columns
    assert counting - set(every) == left_out and len(every) == 20
    kappa = [x.parameters for x in settings(world_study("wet-chicken")) if x.name == "ramdp"]
    assert kappa == ["kappa=2"]
    assert [x.label for x in settings(world_study("garnet", "vi-lcb c_b=1 delta=0.1"))] == [
        REFERENCE,
        "priced-soft-spibb",
        "vi-lcb c_b=1 delta=0.1",
    ]
    assert len(settings(world_study("garnet", surefoot.PricedSoftSPIBB()))) == 2
    with pytest.raises(StudyError, match="'priced-soft-spibb' is always in the table"):
        world_study("garnet", {"priced-soft-spibb": surefoot.BasicRL()})


def test_scores_are_those_of_the_trials_and_differences_are_paired() -> None:
    rng = np.random.default_rng(3)
    names, sizes, n = ("other", REFERENCE), (10, 100), 40
    cells = tuple(Cell("w", size, name, "") for size in sizes for name in names)
    score = rng.normal(size=(4, n))
    found = Results(cells, score, np.zeros((4, n)), score > -9, seconds=np.arange(4.0))
    rows = {(x.algorithm, x.size): x for x in score_rows(found, "w")}
    assert len(rows) == 2 * 3
    one, both = rows["other", "100"], rows["other", ALL]
    assert one.mean == pytest.approx(score[2].mean())
    assert one.mean_more == pytest.approx((score[2] - score[3]).mean())
    assert one.worse == (score[2] < 0).mean() and one.seconds == 2 and one.trials == n
    assert both.mean == pytest.approx(score[[0, 2]].mean())
    assert both.mean_more == pytest.approx(score[[0, 2]].mean() - score[[1, 3]].mean())
    assert both.mean_more_low < both.mean_more < both.mean_more_high and both.seconds == 1
    reference = rows[REFERENCE, ALL]
    assert (reference.mean_more, reference.mean_more_low, reference.mean_more_high) == (0, 0, 0)
    assert np.isnan(one.cvar)  # 0.4 trials in the tail
    text = str(ScoreTable(tuple(rows.values()), ("a note",)))
    assert "w, 40 trials" in text and "not reported" in text and text.endswith("note: a note")
    assert text.index("other") != text.index(REFERENCE)


ENTRY = """
from dataclasses import dataclass
from typing import ClassVar
from surefoot.algorithms import Restricts
from surefoot.planning import by_count

@dataclass(frozen=True)
class Often(Restricts):
    name: ClassVar[str] = "often"
    share: float{default}
    def trust(self, problem, n):
        return by_count(problem, n > self.share * n.sum(axis=-1, keepdims=True), free_fall=False)
"""


def test_an_entry_is_a_file_and_what_was_computed_stays(tmp_path: Path) -> None:
    file, out = tmp_path / "often_entry.py", tmp_path / "out"
    file.write_text(ENTRY.replace("{default}", " = 0.1"))
    table = surefoot.benchmark(str(file), worlds=["wet-chicken"], trials=4, out=out)
    names = [REFERENCE, "priced-soft-spibb", "often"]
    assert [x.algorithm for x in table.rows if x.size == ALL] == names
    made = set(out.rglob("*.parquet"))
    again = surefoot.benchmark(entry_of(file), worlds=["wet-chicken"], trials=4, out=out)
    assert [x.mean for x in again.rows] == [x.mean for x in table.rows]
    assert set(out.rglob("*.parquet")) == made
    table.save(tmp_path / "scores.csv")
    with open(tmp_path / "scores.csv", newline="") as stored:
        assert [float(x["mean"]) for x in csv.DictReader(stored)] == pytest.approx(
            [x.mean for x in table.rows]
        )


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("entry_needs", ENTRY.replace("{default}", ""), "share.*give defaults, or ENTRY"),
        ("entry_empty", "x = 1", "has no class of an algorithm"),
        ("entry_broken", "import no_such_module_here", "cannot be imported: ModuleNotFoundError"),
        ("json", "x = 1", "is hidden by .*rename it"),
    ],
)
def test_a_file_that_enters_nothing_says_why(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    file = tmp_path / f"{name}.py"
    file.write_text(text)
    with pytest.raises(StudyError, match=words):
        surefoot.benchmark(file, worlds=["wet-chicken"], trials=2)
    with pytest.raises(StudyError, match="is no file"):
        entry_of(tmp_path / "nowhere.py")


def test_an_unknown_world_is_refused_and_one_without_its_data_is_left_out_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(StudyError, match=r"no world is called 'sea'; there are: random-mdps, wet"):
        surefoot.benchmark("basic-rl", worlds=["sea"])
    from surefoot.research.benchmarks import icu_sepsis

    monkeypatch.setattr(icu_sepsis, "find_spec", lambda name: None)
    icu_sepsis._assets.cache_clear()
    monkeypatch.setattr(
        score_table,
        "definition",
        lambda: {
            **definition(),
            "worlds": [x for x in definition()["worlds"] if "icu" in x["name"]],
        },
    )
    table = surefoot.benchmark("basic-rl", trials=2)
    assert table.rows == () and "icu-sepsis is left out: " in table.notes[0]
