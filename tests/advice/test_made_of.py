"""What a gain is made of: each change by itself, the rule without exploration, and beyond."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.advice.made_of import made_of, most_frequent, preferred_changes
from surefoot.evidence.units import units_of

DATA = Path(surefoot.__file__).parent / "data"
RIVER = {
    "gamma": 0.95,
    "baseline": DATA / "wet_chicken_rule.csv",
    "reward_range": (0, 4),
}


def decisions(better: list[float], share: float = 0.3, n: int = 4000, seed: int = 0) -> Any:
    """One-step episodes: in state s the rarer action pays better[s] more."""
    rng = np.random.default_rng(seed)
    state = rng.integers(0, len(better), n)
    rare = rng.random(n) < share
    reward = np.where(rare, np.array(better)[state], 0.0) + 0.5 * rng.normal(size=n)
    table = {
        "episode": np.arange(n), "state": state, "action": np.where(rare, "new", "old"),
        "reward": reward, "terminal": np.ones(n, dtype=int),
    }  # fmt: skip
    rows = {s: {"new": share, "old": 1 - share} for s in range(len(better))}
    return surefoot.advise(table, gamma=0.0, baseline=rows)


def test_a_change_by_itself_is_worth_what_the_policy_with_no_other_change_is() -> None:
    advice = decisions([0.5, 0.3, -0.4])
    found = advice.made_of.alone
    assert set(found) == {0, 1, 2}  # the last does less of what is worse
    for s, row in found.items():
        n = advice.log.n_sa.sum(axis=1)
        truth = n[s] / n.sum() * (advice.candidate[s] - advice.pi_b[s])[0] * [0.5, 0.3, -0.4][s]
        assert row.low < truth < row.high
        assert row.shown == "better"
    whole = sum(x.estimate for x in found.values())
    assert whole == pytest.approx(advice.gain.evidence.estimate, rel=0.02)


def test_what_is_not_supported_as_a_whole_has_no_change_that_is_shown() -> None:
    yes = decisions([0.5, 0.3])
    units = units_of(yes.log, yes.problem.log, yes.problem.gamma)
    for shown in (True, False):
        found = made_of(yes.problem, units, yes.gain, yes.pi_b, yes.moved, shown=shown)
        assert {x.shown for x in found.alone.values()} == {"better" if shown else ""}
    log = surefoot.advise(DATA / "wet_chicken.csv", **RIVER)
    assert sum(x.shown == "better" for x in log.made_of.alone.values()) == 3
    guarded = surefoot.advise(DATA / "wet_chicken.csv", algorithm="pi-b-spibb", **RIVER)
    assert guarded.made_of is not None
    if not guarded.supported:
        assert not any(x.shown for x in guarded.made_of.alone.values())
    nothing = decisions([0.01, 0.0], n=400)
    assert not nothing.supported
    assert not any(x.shown for x in nothing.made_of.alone.values())


def test_the_rule_without_exploration_and_what_lies_beyond_add_up_to_the_gain() -> None:
    advice = surefoot.advise(DATA / "wet_chicken.csv", **RIVER)
    made = advice.made_of
    assert made.mode.estimate + made.beyond.estimate == pytest.approx(
        advice.gain.evidence.estimate, abs=0.02
    )
    assert made.preferred == 3


def test_less_exploration_alone_is_named_as_such() -> None:
    """The usual action is the better one: all that can be gained is to take it more often."""
    advice = decisions([-0.5, -0.4], n=3000)
    assert advice.supported and advice.made_of.preferred == 0
    assert "no state prefers another action than before" in str(advice)
    assert advice.made_of.mode.estimate > 0
    assert advice.made_of.beyond.estimate <= 1e-9
    better = decisions([0.5, 0.4], n=3000)
    assert better.made_of.preferred == 2
    assert "no state prefers another action" not in str(better)


def test_a_baseline_that_never_chooses_by_lots_has_no_rule_without_exploration() -> None:
    pi_b = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert (most_frequent(pi_b, np.ones((2, 2), dtype=bool)) == pi_b).all()
    assert most_frequent(np.array([[0.7, 0.3]]), np.array([[False, True]])).tolist() == [[0.0, 1.0]]
    assert most_frequent(np.array([[0.7, 0.3]]), np.array([[False, False]])).tolist() == [
        [0.7, 0.3]
    ]


def test_another_action_is_preferred_only_where_it_is_clear() -> None:
    pi_b = np.array([[0.5, 0.5], [0.6, 0.4], [0.6, 0.4], [0.6, 0.4]])
    pi = np.array([[0.2, 0.8], [0.9, 0.1], [0.4, 0.6], [0.5, 0.5]])
    assert preferred_changes(pi, pi_b).tolist() == [False, False, True, False]


def test_files_and_page_show_each_change_with_its_own_evidence(tmp_path: Path) -> None:
    advice = surefoot.advise(DATA / "wet_chicken.csv", **RIVER)
    advice.save(tmp_path)
    with open(tmp_path / "changes.csv", newline="") as file:
        rows = {x["state"]: x for x in csv.DictReader(file)}
    found = {x["state"]: x for x in advice.document["changes"]["alone"]}
    assert set(found) == set(rows)
    for state, row in rows.items():
        assert float(row["held_out_gain"]) == pytest.approx(found[state]["gain"], rel=1e-5)
        assert float(row["held_out_low"]) == pytest.approx(found[state]["low"], rel=1e-5)
        assert row["shown_by_itself"] == ("yes" if found[state]["shown"] else "no")
    assert sum(x["shown_by_itself"] == "yes" for x in rows.values()) == 3
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(f'data-name="shown">{x}<' in page for x in ("yes", "no"))


def test_a_log_that_only_weights_may_judge_has_no_model_of_single_changes() -> None:
    rng = np.random.default_rng(2)
    n = 3000
    share = np.where(np.arange(n) < n // 2, 0.2, 0.7)
    new = rng.random(n) < share
    table = {
        "state": np.zeros(n, dtype=int), "action": np.where(new, "new", "old"),
        "reward": (rng.random(n) < 0.3 + 0.3 * new).astype(float),
        "propensity": np.where(new, share, 1 - share),
    }  # fmt: skip
    advice = surefoot.advise(
        table, bandit=True, baseline={0: {"new": 0.4, "old": 0.6}}, reward_range=(0, 1)
    )
    assert advice.supported
    assert advice.made_of.alone == {} and advice.made_of.mode is None
