"""A policy as a few rules: a decision tree over the columns of the state (--tree)."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot.advice import tree as trees
from surefoot.core import Labels

GRID = tuple(itertools.product(range(4), range(3)))


def questions(states: tuple[Any, ...] = GRID, columns: tuple[str, ...] = ("row", "column")) -> Any:
    return trees.questions_of(Labels(states, ("x",), columns), np.ones(len(states), dtype=bool))


def best_of_all(states: np.ndarray, credit: np.ndarray, asked: Any, depth: int) -> float:
    """The naive twin: all trees."""
    leaf = float(credit[states].sum(axis=0).max())
    if not depth:
        return leaf
    each = (
        sum(best_of_all(x, credit, asked, depth - 1) for x in (states & q.yes, states & ~q.yes))
        for q in asked
    )
    return max(leaf, *each)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("seed", range(10))
def test_the_questions_of_a_small_tree_are_the_best_there_are(seed: int, depth: int) -> None:
    credit = np.random.default_rng(seed).normal(size=(len(GRID), 4))
    credit[:, 0] = 0
    everywhere = np.ones(len(GRID), dtype=bool)
    found = trees._grown(everywhere, questions(), credit, depth)
    expected = best_of_all(everywhere, credit, questions(), depth)
    assert trees._worth(found) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(10))
def test_joining_leaves_loses_no_more_than_it_may_and_a_rule_says_which_states_it_means(
    seed: int,
) -> None:
    credit = np.random.default_rng(seed).normal(size=(len(GRID), 3))
    credit[:, 0] = 0
    found = trees._grown(np.ones(len(GRID), dtype=bool), questions(), credit, 3)
    for spare in (0.0, 0.5, 2.0, 100.0):
        joined = trees._joined(found, spare)
        assert trees._worth(joined) >= trees._worth(found) - spare - 1e-12
        leaves = list(trees._leaves(joined, ()))
        assert sum(node.states.sum() for node, _ in leaves) == len(GRID)
        for node, path in leaves:
            words = trees._if(path) or "True"  # such words are Python, too
            means = [eval(words, {}, {"row": r, "column": c}) for r, c in GRID]
            assert means == node.states.tolist()
    assert len(leaves) == 1
    fewest = trees._fewest(np.ones(len(GRID), dtype=bool), questions(), credit, 3, 0.5)
    assert trees._worth(fewest) >= trees._worth(found) - 0.5


@pytest.mark.parametrize(
    ("labels", "columns"),
    [
        (("x < 2", "2 <= x < 4", "x >= 4"), {"x": [-np.inf, 2, 4]}),
        (("x >= 4 and heart rate < 1e+06", "x < 4 and heart rate missing"),
         {"x": [4, -np.inf], "heart rate": [-np.inf, None]}),
        (("a given and b < 1", "a missing and b >= 1"), {"a": [-np.inf, None], "b": [-np.inf, 1]}),
        (("x=2 y=1", "x=-1 y=0.5"), {"x": [2, -1], "y": [1, 0.5]}),
        (((1, "a"), (2, "b")), {"age": [1, 2], "ward": ["a", "b"]}),
        (((1, None), (2, 3)), {"age": [1, 2], "ward": [None, 3]}),
        ((("1", "a"), ("2.5", "b")), {"age": [1, 2.5], "ward": ["a", "b"]}),
    ],
)  # fmt: skip
def test_columns_are_those_of_the_state_or_of_the_names_of_its_bins(
    labels: tuple[Any, ...], columns: dict[str, list[Any]]
) -> None:
    names = ("age", "ward") if isinstance(labels[0], tuple) else ("state",)
    assert trees._columns(Labels(labels, ("x",), names), labels) == columns


def test_words_of_missing_values_and_of_words() -> None:
    states = ((1.0, "a"), (2.0, "b"), (None, "c"))
    asked = {(x.column, x.cut, x.word): x for x in questions(states, ("age", "ward"))}
    older, lost, ward = asked["age", 2.0, None], asked["age", None, None], asked["ward", None, "b"]
    assert older.yes.tolist() == [False, True, False] and lost.yes.tolist() == [False, False, True]
    assert trees._if(((older, False),)) == "(age < 2 or age missing)"
    assert trees._if(((older, False), (lost, False))) == "age < 2"
    assert trees._if(((lost, False),)) == "age not missing"
    assert trees._if(((lost, True), (ward, False))) == "age missing and ward is not b"
    assert trees._if(((older, True), (ward, True))) == "age >= 2 and ward is b"


def table(n: int = 4000, seed: int = 0, better: Any = None) -> dict[str, Any]:
    """Single decisions in a grid: "new" pays 1 more from row 2 on, 1 less before."""
    rng = np.random.default_rng(seed)
    cell, new = rng.integers(0, len(GRID), n), rng.random(n) < 0.3
    row, column = np.array(GRID)[cell].T
    pays = np.where(row >= 2, 1.0, -1.0) if better is None else better(row, column)
    return {
        "episode": np.arange(n), "row": row, "column": column,
        "action": np.where(new, "new", "old"), "reward": new * pays + rng.normal(size=n),
        "terminal": np.ones(n, dtype=int),
    }  # fmt: skip


def advised(source: Any = None, **how: Any) -> surefoot.Advice:
    how = {"gamma": 0.0, "tree": 2, "state": ["row", "column"], **how}
    return surefoot.advise(table() if source is None else source, **how)


def rules_of(advice: surefoot.Advice) -> list[tuple[str, Any]]:
    told = advice.document["changes"]["tree"]["rules"]
    return [(x["condition"], x["action"]) for x in told]


def test_what_is_tested_and_written_is_the_tree(tmp_path: Path) -> None:
    advice = advised()
    assert advice.supported
    assert rules_of(advice) == [("row >= 2", "new"), ("", "old")] or rules_of(advice) == [
        ("row < 2", "old"), ("", "new"),
    ]  # fmt: skip
    advice.save(tmp_path / "out")
    written = surefoot.load_policy(tmp_path / "out" / "policy.csv")
    for (row, _), found in zip(written.labels.states, written.pi, strict=True):
        assert found[written.labels.actions.index("new")] == (int(row) >= 2)
    said = " ".join(str(advice).split())
    assert "Rules: if row" in said and "otherwise '" in said and "% of decisions)" in said
    assert "the table that they imitate" in " ".join(advice.explain().split())
    assert "Rules: if row" in advice.page().replace("&gt;", ">")
    told = advice.document["changes"]["tree"]
    assert told["gain_learned"] == pytest.approx(0.5, abs=0.2)
    assert abs(told["gain_learned"] - told["gain_of_table"]) < 0.01
    assert sum(x["decisions"] for x in told["rules"]) == pytest.approx(1)
    assert "tree" not in advised(tree=None).document["changes"]


def test_leaves_without_a_better_action_stay_as_before() -> None:
    log = table(n=8000)
    tried = (log["row"] >= 2) & (log["column"] >= 1)
    log["action"] = np.where(tried, log["action"], "old")
    for how in ("mixture", "mode", None):
        advice = advised(log, deterministic=how)
        assert rules_of(advice) == [("row >= 2 and column >= 1", "new"), ("", None)]
        stays = [s for s, (r, c) in enumerate(advice.log.states[:12]) if not (r >= 2 and c >= 1)]
        rows = advice.candidate[stays]
        base = advice.pi_b[stays]
        np.testing.assert_allclose(rows, base)


def test_a_forbidden_or_untried_action_stays_out_and_that_is_said() -> None:
    log = table()
    never = (log["row"] == 3) & (log["column"] == 1)
    log = {name: x[~(never & (log["action"] == "new"))] for name, x in log.items()}
    log["episode"] = np.arange(len(log["row"]))
    advice = advised(log)
    s = advice.log.labels.state_code((3, 1))
    assert advice.candidate[s].tolist() == advice.pi_b[s].tolist()
    (rule,) = [x for x in advice.document["changes"]["tree"]["rules"] if x["action"] == "new"]
    n = advice.log.n_sa.sum(axis=1)
    assert rule["not_followed"] == pytest.approx(n[s] / n.sum())
    assert "tried too rarely there" in " ".join(advice.explain().split())
    mask = np.zeros(advice.log.n_sa.shape, dtype=bool)
    mask[s, 0] = True
    taboo = advised(forbidden=mask, renormalise=True)
    assert taboo.candidate[s, 0] == 0


def test_what_the_table_did_not_dare_is_no_reason_for_a_rule() -> None:
    how: dict[str, Any] = {"algorithm": "pi-b-spibb", "settings": {"n_wedge": 10_000}}
    advice = advised(**how)
    assert np.abs(advice.gain.solution.pi - advice.pi_b).max() < 1e-9  # type: ignore[union-attr]
    assert rules_of(advice) == [("", None)]
    assert advice.candidate.tolist() == advice.pi_b.tolist()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"tree": 0}, "whole number from 1 to 6"),
        ({"tree": 7}, "whole number from 1 to 6"),
        ({"tree": 1.5}, "got 1.5"),
        ({"tree": True}, "got True"),
        ({"most_changes": 2}, "give one of them"),
        ({"refit": True}, "imitate what one half taught"),
        ({"state": "cell"}, "a state such as 'c0' has none"),
    ],
)
def test_what_a_tree_cannot_be_is_refused(how: dict[str, Any], words: str) -> None:
    log = table(n=400)
    log["cell"] = [f"c{r}" for r in log["row"]]
    with pytest.raises(surefoot.SurefootError, match=words):
        advised(log, **how)


def test_the_command_says_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = table()
    header = list(log)
    logfiles.write(tmp_path / "log.csv", header, list(zip(*log.values(), strict=True)))
    code, said, _ = logfiles.run(
        monkeypatch, capsys, "improve", tmp_path / "log.csv", "--gamma", "0", "--tree", "2",
        "--state", "row,column", "--out", tmp_path / "out", "--json",
    )  # fmt: skip
    assert code == 0
    logfiles.validated(said)
    rules = json.loads(said)["changes"]["tree"]["rules"]
    assert [x["action"] for x in rules] in (["new", "old"], ["old", "new"])
    plain = logfiles.good_log(tmp_path)
    code, _, error = logfiles.run(
        monkeypatch, capsys, "improve", plain, "--gamma", "0.9", "--tree", "2", "--out",
        tmp_path / "none",
    )  # fmt: skip
    assert code == 2 and "surefoot discretize" in error and not (tmp_path / "none").exists()
