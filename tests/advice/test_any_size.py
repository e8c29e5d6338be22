"""The verdict of a log does not depend on its size, or on who counts it; what could not be looked
at is named, and forbids the word.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import logfiles
from surefoot.advice import learn_and_test, summarise
from surefoot.advice.provenance import read_fingerprints
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.checks import check_log
from surefoot.evidence.units import Units, units_of_batch, units_of_log, units_of_tallies
from surefoot.logs import Log, add_up, count_part, make_log, read_log
from surefoot.logs.read import options_of
from surefoot.report.improvement_words import improvement_statements
from surefoot.report.statements import text

Run = Any
UNSEEN = ["markov", "drift", "policy-drift", "copies", "contradictions", "time", "cuts"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: logfiles.run(monkeypatch, capsys, *arguments)


def counted_elsewhere(path: Path, parts: int = 16) -> tuple[Log, Units]:
    """The log and its units as a cluster counts them, part by part."""
    options, ends = options_of()
    tallies = [count_part([str(path)], options, (i, parts)) for i in range(parts)]
    log = make_log(add_up(tallies), options, terminal_states=ends)
    return log, units_of_tallies(tallies, log)


def advised(path: Path, despite: tuple[str, ...] = ()) -> Any:
    log, units = counted_elsewhere(path)
    problem = log.problem(0.9)
    algorithm = chosen_algorithm(problem)
    return learn_and_test(log, problem, algorithm, units=units, assured=True, despite=despite)


def test_what_was_not_looked_at_is_named_everywhere_and_forbids_the_word(tmp_path: Path) -> None:
    advice = advised(logfiles.good_log(tmp_path, n=1200))
    found = summarise(advice, "log.csv")
    assert not advice.supported and found["against"] == []
    assert [x["key"] for x in found["not_looked_at"]] == UNSEEN
    assert not any(x["waived"] for x in found["not_looked_at"])
    assert f"--despite {','.join(UNSEEN)}" in advice.reason
    first = improvement_statements(found)[0].words
    assert first.startswith("NOT SUPPORTED") and "not looked at: memory, drift" in first
    assert text(improvement_statements(found)).startswith(f"verdict   {first[:70]}")


def test_what_was_not_looked_at_can_be_waived_by_name_and_the_verdict_says_so(
    tmp_path: Path,
) -> None:
    path = logfiles.good_log(tmp_path, n=1200)
    advice = advised(path, tuple(UNSEEN))
    assert advice.supported and advice.verdict == f"supported despite {', '.join(UNSEEN)}"
    assert all(x["waived"] for x in summarise(advice, "log.csv")["not_looked_at"])
    assert not advised(path, tuple(UNSEEN[:-1])).supported  # one is left


def test_a_certificate_is_not_given_on_what_was_not_looked_at(tmp_path: Path) -> None:
    log, units = counted_elsewhere(logfiles.good_log(tmp_path, n=1200))
    problem = log.problem(0.9, logfiles.rule(tmp_path), reward_range=(-2, 4))
    algorithm = chosen_algorithm(problem)
    found = learn_and_test(log, problem, algorithm, units=units, assured=True).assurance
    assert isinstance(found, str)
    assert "not looked at: memory" in found and "Otherwise" in found


def test_rows_left_out_are_no_question_where_episodes_end(tmp_path: Path) -> None:
    log, _ = counted_elsewhere(logfiles.visits(tmp_path / "visits.csv"))
    assert [x.key for x in check_log(log) if not x.looked] == UNSEEN[:-1]


def improved(run: Run, path: Path, out: Path, *more: Any) -> tuple[int, dict[str, Any]]:
    code, _, _ = run("improve", path, "--gamma", 0.9, "--out", out, *more)
    return code, json.loads((out / "summary.json").read_text())


def test_a_log_that_is_not_held_in_memory_gets_the_answer_of_one_that_is(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = logfiles.good_log(tmp_path, n=6000)  # 1,200 episodes
    code, small = improved(run, path, tmp_path / "small")
    monkeypatch.setattr("surefoot.logs.log.IN_MEMORY", 100)
    blocks = Log.blocks
    monkeypatch.setattr(Log, "blocks", lambda self, rows=700: blocks(self, 700))
    large_code, large = improved(run, path, tmp_path / "large")
    assert code == large_code == 0
    one, other = (x["worth"]["held_out"] for x in (small, large))
    assert (one["units"], one["unit"]) == (other["units"], other["unit"])
    assert other["units"] == 1000
    for name in ("gain", "low", "high", "explained_by_time_and_past"):
        assert other[name] == pytest.approx(one[name], abs=1e-9)
    for name in ("outcome", "could_take"):
        assert large["cannot_exclude"][name] == pytest.approx(small["cannot_exclude"][name])
    assert any("not held in memory" in note for note in large["notes"])
    found = [read_fingerprints(tmp_path / x / "training.npz") for x in ("small", "large")]
    for name in ("label", "content", "head", "piece", "of"):
        assert np.array_equal(*(getattr(x, name) for x in found))


def test_what_time_explains_is_taken_off_where_rows_are_not_held_in_memory(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    passed = np.arange(2000) / 2000
    b = rng.random(2000) < 0.1 + 0.6 * passed
    r = 2 * passed - 0.3 * b + rng.normal(size=2000)
    rows = [(f"v{i:05d}", 0, "s", "ab"[int(b[i])], repr(float(r[i])), 1) for i in range(2000)]
    path = logfiles.write(tmp_path / "log.csv", logfiles.VISIT, rows)
    monkeypatch.setattr("surefoot.logs.log.IN_MEMORY", 100)
    monkeypatch.setattr("surefoot.evidence.units.SAMPLED_ROWS", 1000)
    code, found = improved(
        run, path, tmp_path / "out", "--despite", "drift,policy-drift", "--no-report"
    )
    assert code == 3 and found["worth"]["held_out"]["explained_by_time_and_past"] > 0.1


def test_the_log_of_other_policies_is_known_as_such_where_rows_are_not_held_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(*x, 0.25 if x[3] == "try" else 0.75) for x in logfiles.steps(600)]
    header = (*logfiles.HEADER, "propensity")
    log = read_log(logfiles.write(tmp_path / "log.csv", header, rows))
    other = {s: {"keep": 0.5, "try": 0.5} for s in ("low", "mid", "high")}
    monkeypatch.setattr("surefoot.logs.log.IN_MEMORY", 100)
    assert log.problem(0.9, other).off_policy
    assert not log.problem(0.9, logfiles.rule(tmp_path)).off_policy


def test_the_returns_of_the_log_are_held_against_the_model_where_rows_are_not_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = read_log(logfiles.visits(tmp_path / "visits.csv"))
    held = log.problem(0.9)
    small = learn_and_test(log, held, chosen_algorithm(held)).own
    monkeypatch.setattr("surefoot.logs.log.IN_MEMORY", 100)
    streamed = log.problem(0.9)
    large = learn_and_test(log, streamed, chosen_algorithm(streamed)).own
    assert streamed.log is None and small is not None and large == small


def test_the_least_reward_of_many_rows_is_known_or_thought_lower(tmp_path: Path) -> None:
    path = logfiles.good_log(tmp_path, n=1200)
    rows = units_of_batch(read_log(path).batch(), 0.9)
    log, parts = counted_elsewhere(path)
    for units, slack in ((units_of_log(read_log(path), 0.9), 1e-12), (parts, np.inf)):
        for pair in np.unique(rows.pair):
            least = rows.r[rows.pair == pair].min()
            found = units.ends[0][units.pair == pair].min()
            assert max(least - slack, log.rewards[0]) <= found <= least + 1e-12


@pytest.mark.parametrize("episodes", [True, False])
def test_the_sample_of_a_large_log_is_of_whole_pieces_from_all_of_it(
    episodes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = logfiles.steps(20_000)
    rows = rows if episodes else [("e", i, *row[2:]) for i, row in enumerate(rows)]
    log = read_log(logfiles.write(tmp_path / "log.csv", logfiles.HEADER, rows))
    monkeypatch.setattr("surefoot.evidence.units.SAMPLED_ROWS", 5000)
    monkeypatch.setattr("surefoot.evidence.units.PIECE", 100)
    units = units_of_log(log, 0.9)
    assert units.sample is not None
    batch, part = units.sample
    assert len(part.unit) == len(batch) == pytest.approx(5000, rel=0.1)
    assert np.bincount(batch.row // 2000, minlength=10).min() > 300  # from all of the log
    assert len(np.unique(part.unit)) > 0.4 * units.number  # and of units of all kinds
    assert np.array_equal(np.unique(np.diff(batch.row)[~batch.first[1:]]), [1])


def test_the_units_of_a_large_log_grow_fewer_where_its_triples_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = read_log(logfiles.good_log(tmp_path, n=10_000))
    assert units_of_log(log, 0.9).number == 1000
    monkeypatch.setattr("surefoot.evidence.units.MOST_ENTRIES", 2000)
    triples = int((np.asarray(log.counts.n_sas) > 0).sum())
    assert units_of_log(log, 0.9).number == 2000 // triples < 1000
    monkeypatch.setattr("surefoot.evidence.units.MOST_ENTRIES", 10)
    assert units_of_log(log, 0.9).number == 64


@pytest.mark.parametrize("comparable", [True, False])
def test_drift_is_not_looked_at_where_too_many_rows_lie_in_another_order_than_that_of_time(
    comparable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("surefoot.checks.time_order.MOST_STAMPS", 100)
    rows = [
        (x[0], (1000 - i // 5 if comparable else 0) + x[1], *x[2:])
        for i, x in enumerate(logfiles.steps(600))
    ]
    log = read_log(logfiles.write(tmp_path / "log.csv", logfiles.HEADER, rows))
    unseen = [x.key for x in check_log(log) if not x.looked]
    assert unseen == (["drift", "policy-drift"] if comparable else [])


def test_copies_that_come_late_in_a_large_log_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = logfiles.steps(3000)
    again = [(f"again-{x[0]}", *x[1:]) for x in fresh[-1000:]]
    log = read_log(logfiles.write(tmp_path / "log.csv", logfiles.HEADER, fresh + again))
    monkeypatch.setattr(sys.modules["surefoot.checks.completeness"], "MOST_ROWS", 2000)
    blocks = Log.blocks
    monkeypatch.setattr(Log, "blocks", lambda self, rows=250: blocks(self, 250))
    found = {x.name: x for x in check_log(log)}
    assert found["copies"].vetoes and "evenly spaced" in found["copies"].sentence
    assert "evenly spaced" in found["Markov"].sentence
