"""surefoot plan: what the next log needs to decide."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot import ParameterError

Run = Callable[..., tuple[int, str, str]]
DATA = Path(surefoot.__file__).parent / "data"
RULE = DATA / "wet_chicken_rule.csv"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: logfiles.run(monkeypatch, capsys, *arguments)


@pytest.fixture
def short(tmp_path: Path) -> Path:
    """The first 1,500 rows of the shipped log: too few to decide."""
    lines = (DATA / "wet_chicken.csv").read_text().splitlines()[:1501]
    path = tmp_path / "short.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_log_that_does_not_decide_is_told_what_the_next_one_needs(short: Path, run: Run) -> None:
    asked = ("plan", short, "--gamma", 0.95, "--baseline", RULE, "--reward-range", "0,4")
    code, words, _ = run(*asked)
    assert code == 0
    assert words.startswith("verdict   NOT SUPPORTED by this log")
    assert "rows like these" in words and "if it is half of that" in words
    assert "a/b test  its size cannot be foretold: the log has no whole episodes" in words
    found = json.loads(run(*asked, "--json")[1])
    assert not found["supported"]
    assert found["test"]["rows"] == pytest.approx(1500 * found["test"]["times"])
    assert found["test"]["rows_if_half"] > 2 * found["test"]["rows"]
    assert found["trials"] and sum(x["costs"] for x in found["trials"]) <= found["loss"] + 1e-9


def test_trying_costs_no_more_than_was_said(short: Path) -> None:
    how = {"gamma": 0.95, "baseline": RULE, "reward_range": (0, 4)}
    nothing = surefoot.plan(short, loss=0.0, **how)
    assert all(x.costs == 0 for x in nothing.trials)
    free = surefoot.plan(short, loss=5.0, **how)
    assert sum(x.costs for x in free.trials) <= 5.0 + 1e-9
    assert sum(x.more for x in free.trials) >= sum(x.more for x in nothing.trials)
    rows = free.tried
    np.testing.assert_allclose(rows.sum(axis=1), 1.0)
    for x in free.trials:
        assert rows[x.state, x.action] == pytest.approx(x.share, rel=0.2)
    with pytest.raises(ParameterError, match="--loss is what trying may cost, a number >= 0"):
        surefoot.plan(short, loss=-1.0, **how)


def test_whole_episodes_are_told_the_size_of_an_ab_test() -> None:
    rng = np.random.default_rng(0)
    n = 120
    new = rng.random(n) < 0.3
    table = {
        "episode": np.arange(n), "state": np.zeros(n, dtype=int),
        "action": np.where(new, "new", "old"), "terminal": np.ones(n, dtype=int),
        "reward": 0.4 * new + rng.normal(size=n),
    }  # fmt: skip
    found = surefoot.plan(table, gamma=0.0, baseline={0: {"new": 0.3, "old": 0.7}})
    gain, ab = found.advice.gain.evidence.estimate, found.document["ab_test"]
    assert gain > 0
    assert ab["episodes_each"] == pytest.approx(
        2 * (2.8016 * ab["deviation"] / gain) ** 2, rel=1e-3
    )


def test_what_more_rows_do_not_mend_is_said_first(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    n = 1500
    late = np.arange(n) > n // 2
    new = rng.random(n) < np.where(late, 0.6, 0.1)
    table = {
        "episode": np.arange(n), "time": np.arange(n), "state": np.zeros(n, dtype=int),
        "action": np.where(new, "new", "old"), "terminal": np.ones(n, dtype=int),
        "reward": 0.5 * late + rng.normal(size=n),
    }  # fmt: skip
    found = surefoot.plan(table, gamma=0.0)
    assert "more rows of this kind will not help while this stands: " in str(found)
    assert "drift" in found.document["vetoes"]
