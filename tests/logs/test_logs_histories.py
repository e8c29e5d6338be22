"""States that remember earlier steps: `read_log(history=K)`, `--history K`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support.logfiles import run, write
from surefoot.core.errors import LogError
from surefoot.logs import histories, read_allowed, read_forbidden, read_log, read_policy

NONE = "(none)"
HEADER = ("episode", "time", "state", "action", "reward")


def steps(n: int = 60, seed: int = 0, length: int = 6) -> dict[str, Any]:
    """Episodes of different lengths over three states and two actions."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, length + 1, n)
    total = int(lengths.sum())
    return {
        "episode": np.repeat(np.arange(n), lengths),
        "time": np.concatenate([np.arange(k) for k in lengths]),
        "state": np.array(["x", "y", "z"])[rng.integers(0, 3, total)],
        "action": np.array(["l", "r"])[rng.integers(0, 2, total)],
        "reward": rng.normal(size=total),
    }


def naive(table: dict[str, Any], k: int, *, ends: bool) -> tuple[Counter[Any], Counter[Any]]:
    """(triples, starts), row by row as one would by hand."""
    triples: Counter[Any] = Counter()
    starts: Counter[Any] = Counter()
    for episode in np.unique(table["episode"]):
        rows = np.flatnonzero(table["episode"] == episode)
        past: list[str] = [NONE] * (2 * k)
        for i, row in enumerate(rows):
            o, a = str(table["state"][row]), str(table["action"][row])
            now = (o, *past)
            if i == 0 and (len(rows) > 1 or ends):
                starts[now] += 1
            past = [a, o, *past][: 2 * k]
            if i + 1 < len(rows):
                triples[now, a, (str(table["state"][rows[i + 1]]), *past)] += 1
            elif ends:
                triples[now, a, "(end)"] += 1
    return triples, starts


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("ends", [False, True])
def test_histories_are_counted_as_by_hand(
    k: int, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "BLOCK", 37)  # several blocks
    table = steps()
    log = read_log(table, history=k, episode_end="terminal" if ends else "cut")
    triples, starts = naive(table, k, ends=ends)
    dense = np.asarray(log.counts.n_sas)
    found = {
        (log.states[s], log.actions[a], log.states[t]): int(dense[s, a, t])
        for s, a, t in np.argwhere(dense > 0)
    }
    assert found == triples
    assert {log.states[s]: n for s, n in enumerate(log.starts) if n} == starts
    assert list(log.states[: log.n_states - log.has_end]) == sorted(
        x for x in log.states if x != "(end)"
    )


@pytest.mark.parametrize("limit", [2**26, 8])
def test_rows_and_counts_of_histories_agree(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "TABLE", limit)  # with tables, and with bisection
    log = read_log(steps(200, seed=3), history=2, episode_end="terminal")
    problem = log.problem(0.9, reward_range=(-5, 5))
    again = problem.with_log(log.batch())
    np.testing.assert_array_equal(again.counts.n_sas, log.counts.n_sas)
    np.testing.assert_allclose(again.counts.r_sas, log.counts.r_sas, atol=1e-12)
    np.testing.assert_allclose(again.counts.r_rest, log.counts.r_rest, atol=1e-12)
    assert log.batch().contradictions() is None


def test_a_given_next_state_gives_the_same_histories_and_ends_have_none() -> None:
    table = steps(80, seed=1)
    last = np.append(table["episode"][1:] != table["episode"][:-1], True)
    follow = np.where(last, "over", np.append(table["state"][1:], ""))
    log = read_log({**table, "next_state": follow, "terminal": last}, history=2)
    derived = read_log(table, history=2, episode_end="terminal")
    over = [x for x in log.states if x[0] == "over"]
    assert over == [("over", NONE, NONE, NONE, NONE)]
    assert log.terminal[log.states.index(over[0])]
    renamed = ["(end)" if x == over[0] else x for x in log.states]
    order = [renamed.index(x) for x in derived.states]
    np.testing.assert_array_equal(
        np.asarray(log.counts.n_sas)[np.ix_(order, [0, 1], order)], derived.counts.n_sas
    )


def test_without_history_nothing_changes() -> None:
    table = steps()
    log, plain = read_log(table, history=0), read_log(table)
    assert log.labels.states == plain.labels.states
    np.testing.assert_array_equal(log.counts.n_sas, plain.counts.n_sas)


def test_columns_of_several_parts_have_names() -> None:
    table = steps()
    table["ward"], table["dose"] = table.pop("state"), table.pop("action")
    table["bed"] = table["ward"]
    log = read_log(table, state="ward,bed", action="dose", history=1)
    assert log.labels.headers == ("ward", "bed", "dose before", "ward before", "bed before")
    assert log.states[0] == ("x", "x", NONE, NONE, NONE)


def test_a_baseline_over_observations_holds_for_every_history(tmp_path: Path) -> None:
    log = read_log(steps(), history=2)
    rows = [(s, a, p) for s in "xyz" for a, p in (("l", 0.25 * (1 + "xyz".index(s))), ("r", 0))]
    rows = [(s, a, p if a == "l" else 1 - 0.25 * (1 + "xyz".index(s))) for s, a, p in rows]
    file = write(tmp_path / "rule.csv", ("state", "action", "probability"), rows)
    pi = read_policy(file, log).pi
    for s, label in enumerate(log.states):
        assert pi[s, 0] == pytest.approx(0.25 * (1 + "xyz".index(label[0])))
    assert np.array_equal(log.problem(0.9, str(file), reward_range=(-5, 5)).pi_b, pi)
    by_labels = surefoot.load_policy(file)
    assert np.array_equal(log.problem(0.9, by_labels, reward_range=(-5, 5)).pi_b, pi)


def test_masks_over_observations_hold_for_every_history(tmp_path: Path) -> None:
    log = read_log(steps(), history=1)
    file = write(tmp_path / "mask.csv", ("state", "action"), [("y", "l")])
    is_y = np.array([label[0] == "y" for label in log.states])
    expected = np.ones((log.n_states, 2), dtype=bool)
    expected[is_y, 1] = False
    assert np.array_equal(read_allowed(file, log), expected)
    assert np.array_equal(read_forbidden(file, log)[:, 0], is_y)
    one = write(
        tmp_path / "one.csv",
        ("state", "action before", "state before", "action"),
        [("y", "r", "x", "l")],
    )
    assert np.argwhere(read_forbidden(one, log)).tolist() == [
        [log.states.index(("y", "r", "x")), 0]
    ]


def test_a_start_may_be_an_observation() -> None:
    log = read_log(steps(), history=1)
    start = log.problem(0.9, start="y", reward_range=(-5, 5)).start
    assert log.states[int(np.argmax(start))] == ("y", NONE, NONE)
    whole = log.problem(0.9, start=("y", "l", "x"), reward_range=(-5, 5)).start
    assert log.states[int(np.argmax(whole))] == ("y", "l", "x")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"history": -1}, "whole number of steps >= 0"),
        ({"history": 1.5}, "whole number of steps >= 0"),
        ({"history": "two"}, "whole number of steps >= 0"),
        ({"history": 9}, "no episode has more than"),
    ],
)
def test_bad_histories_get_a_sentence(change: dict[str, Any], words: str) -> None:
    with pytest.raises(LogError, match=words):
        read_log(steps(), **change)


def test_labels_that_clash_with_no_step_are_refused() -> None:
    table = steps()
    table["state"] = np.where(table["state"] == "x", NONE, table["state"])
    with pytest.raises(LogError, match="stands for a step before the first one"):
        read_log(table, history=1)


def test_rows_left_out_inside_episodes_are_refused() -> None:
    table = steps()
    table["reward"] = table["reward"].astype(object)
    table["reward"] = [None if i == 7 else float(x) for i, x in enumerate(table["reward"])]
    with pytest.raises(LogError, match="left out inside episodes"):
        read_log(table, history=1, drop_bad_rows=True)


def test_too_many_histories_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "MOST_HISTORIES", 5)
    with pytest.raises(LogError, match="too many to learn anything from"):
        read_log(steps(), history=1)


def test_a_history_needs_the_order_of_rows() -> None:
    table = steps()
    table["next_state"] = table["state"]
    with pytest.raises(surefoot.core.errors.NotAvailableError, match="rows in order"):
        read_log(table, history=1, check_order=False)


def delayed(path: Path, n: int = 1500, seed: int = 0) -> Path:
    """Episodes of four steps in one state: "push" pays 1 if "wait" came before, and costs 1
    otherwise; so only a policy with memory can gain.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for e in range(n):
        before = ""
        for t in range(4):
            action = "push" if rng.random() < 0.5 else "wait"
            reward = 0.0 if action == "wait" else 1.0 if before == "wait" else -1.0
            rows.append((f"e{e}", t, "on", action, repr(reward + rng.normal(0, 0.2))))
            before = action
    return write(path, HEADER, rows)


def test_improve_finds_what_needs_memory(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    log = delayed(tmp_path / "log.csv")
    rule = write(
        tmp_path / "rule.csv",
        ("state", "action", "probability"),
        [("on", "push", 0.5), ("on", "wait", 0.5)],
    )
    common = ("improve", log, "--gamma", 0.9, "--baseline", rule, "--episode-end", "terminal")
    more = ("--reward-range=-3,3", "--no-report", "--json")
    code, _, _ = run(monkeypatch, capsys, *common, *more, "--out", tmp_path / "plain")
    assert code == 3
    code, out, _ = run(
        monkeypatch, capsys, *common, *more, "--history", 1, "--out", tmp_path / "out"
    )
    assert code == 0 and json.loads(out)["verdict"] == "supported"
    policy = surefoot.load_policy(tmp_path / "out" / "policy.csv")
    assert policy.labels.headers == ("state", "action before", "state before")
    assert policy.probabilities(("on", "wait", "on"))["push"] > 0.9
    code, out, _ = run(
        monkeypatch,
        capsys,
        "apply",
        tmp_path / "out" / "policy.csv",
        "--state",
        "on,wait,on",
        "--json",
    )
    assert code == 0
    code, _, err = run(
        monkeypatch,
        capsys,
        "evaluate",
        log,
        "--gamma",
        0.9,
        "--policy",
        tmp_path / "out" / "policy.csv",
    )
    assert code == 2 and "--history" in err
    fresh = delayed(tmp_path / "fresh.csv", seed=1)
    code, _, _ = run(
        monkeypatch, capsys, "safety-test", fresh, "--gamma", 0.9, "--policy", tmp_path / "out" / "policy.csv",
        "--baseline", rule, "--history", 1, "--episode-end", "terminal", "--horizon", 4,
        "--reward-range=-3,3",
    )  # fmt: skip
    assert code == 0


def test_dask_and_history_do_not_go_together(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    log = delayed(tmp_path / "log.csv", 20)
    code, _, err = run(
        monkeypatch,
        capsys,
        "improve",
        log,
        "--gamma",
        0.9,
        "--history",
        1,
        "--dask",
        "tcp://nowhere:1",
    )
    assert code == 2 and "--history" in err


def test_a_bad_history_on_the_command_line_gets_a_sentence(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    log = delayed(tmp_path / "log.csv", 20)
    for bad in ("-1", "two", "1.5"):
        code, _, err = run(monkeypatch, capsys, "check", log, "--history", bad)
        assert code == 2 and err and "Traceback" not in err
