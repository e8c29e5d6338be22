"""What a policy would have done in every row of a file: row by row as the policy says, in order,
with what it does not know named and counted.
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot.core.errors import LogError, ParameterError
from surefoot.serving import Controller, QuantileEncoder, apply, whole_files

COLUMNS = ("id", "state", "action")


def policy(states: tuple[Any, ...] = ("a", "b", "c"), **changes: Any) -> surefoot.Policy:
    """a: mostly x; b: a tie of y and z; c: always z."""
    pi = np.array([[0.7, 0.2, 0.1], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    labels = surefoot.Labels(states, ("x", "y", "z"), **changes)
    return surefoot.Policy(pi=pi, labels=labels, baseline=np.full((3, 3), 1 / 3))


def rows(n: int = 500, seed: int = 0) -> list[tuple[Any, ...]]:
    rng = np.random.default_rng(seed)
    state = rng.choice(["a", "b", "c", "d", "e", ""], n, p=[0.4, 0.2, 0.2, 0.1, 0.05, 0.05])
    action = rng.choice(["x", "y", "z", "odd", ""], n)
    return [(i, state[i], action[i]) for i in range(n)]


def read(path: Path) -> list[dict[str, str]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


def test_every_row_gets_the_most_probable_action_in_the_order_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_files, "BLOCK", 64)
    given = rows()
    log = logfiles.write(tmp_path / "new.csv", COLUMNS, given)
    done = apply(Controller(policy=policy()), log, tmp_path / "out.csv.gz")
    found = read(tmp_path / "out.csv.gz")
    best = {"a": ("x", "0.7"), "b": ("y", "0.5"), "c": ("z", "1.0")}
    assert [(x["id"], x["state"], x["action"]) for x in found] == [
        (str(i), s, a) for i, s, a in given
    ]
    assert [(x["decision"], x["decision_probability"]) for x in found] == [
        best.get(s, ("", "")) for _, s, _ in given
    ]
    known = [(s, a) for _, s, a in given if s in best]
    counts = {s: sum(x == s for _, x, _ in given) for s in "abcde"}
    assert (done.rows, done.decided) == (500, len(known))
    assert done.unseen == (("d", counts["d"]), ("e", counts["e"]))
    assert done.without_state == sum(s == "" for _, s, _ in given)
    assert (done.stochastic, done.tied) == (counts["a"] + counts["b"], counts["b"])
    assert done.actions == {"x": counts["a"], "y": counts["b"], "z": counts["c"]}
    compared = [(s, a) for s, a in known if a]
    assert (done.compared, done.differs) == (
        len(compared),
        sum(best[s][0] != a for s, a in compared),
    )
    pi = {s: policy().probabilities(s) for s in "abc"}
    assert done.agreement == pytest.approx(np.mean([pi[s].get(a, 0.0) for s, a in compared]))
    assert done.unknown_actions == {"odd": sum(a == "odd" for _, _, a in given)}


def test_the_distance_to_the_baseline_weighs_states_by_rows(tmp_path: Path) -> None:
    log = logfiles.write(
        tmp_path / "new.csv", ("state",), [("a",)] * 3 + [("c",)] + [("unheard",)] * 9
    )
    done = apply(Controller(policy=policy()), log, tmp_path / "out.csv")
    a, c = 0.7 - 1 / 3, 1 - 1 / 3  # what moves in a row
    assert done.moved == pytest.approx((3 * a + c) / 4)
    assert done.preferred == pytest.approx(1 / 4)  # of equal ones the baseline's first is x
    assert (done.compared, done.decided) == (None, 4)


def test_draws_follow_the_probabilities_and_the_seed(tmp_path: Path) -> None:
    log = logfiles.write(tmp_path / "new.csv", COLUMNS, rows(4000))

    def drawn(name: str, seed: int) -> list[tuple[str, str]]:
        apply(Controller(policy=policy()), log, tmp_path / name, sample=True, seed=seed)
        return [(x["state"], x["decision"]) for x in read(tmp_path / name)]

    found = drawn("one.csv", 3)
    assert found == drawn("two.csv", 3) != drawn("three.csv", 4)
    for state, expected in (("a", (0.7, 0.2, 0.1)), ("b", (0, 0.5, 0.5)), ("c", (0, 0, 1))):
        mine = [x for s, x in found if s == state]
        shares = [mine.count(x) / len(mine) for x in "xyz"]
        assert shares == pytest.approx(expected, abs=0.05)
        assert [x == 0 for x in shares] == [p == 0 for p in expected]
    assert {x for s, x in found if s in ("d", "e", "")} == {""}


def test_probability_rows_that_miss_one_by_rounding_never_draw_an_impossible_action() -> None:
    pi = np.array([[0.1] * 9 + [0.1 - 1e-4, 0.0]])
    drawn = whole_files._drawn(pi, np.zeros(200_000, dtype=int), np.random.default_rng(0))
    assert (drawn.min(), drawn.max()) == (0, 9)


def test_a_fallback_decides_what_the_policy_does_not_know(tmp_path: Path) -> None:
    log = logfiles.write(tmp_path / "new.csv", ("state",), [("a",), ("d",), ("e",), ("",)])
    rule = surefoot.Policy(pi=np.eye(2), labels=surefoot.Labels(("d", "a"), ("call", "x")))
    for otherwise, expected, n in (
        ("y", ["x", "y", "y", "y"], 3),
        (rule, ["x", "call", "", ""], 1),
    ):
        done = apply(Controller(policy=policy(), otherwise=otherwise), log, tmp_path / "out.csv")
        assert [x["decision"] for x in read(tmp_path / "out.csv")] == expected
        assert (done.fallback, done.decided) == (n, n + 1)


def test_several_columns_and_numbers_of_a_parquet_file_meet_the_text_of_a_policy_file(
    tmp_path: Path,
) -> None:
    labels = surefoot.Labels((("a", "1"), ("b", "2"), ("b", "3")), ("x", "y", "z"), ("w", "g"))
    saved = surefoot.Policy(pi=policy().pi, labels=labels).save(tmp_path / "policy.csv")
    sql = "select * from (values ('b', 3, 10), ('a', 1, 11), ('b', 2, 12), ('b', 9, 13)) t(w, g, i)"
    duckdb.sql(f"copy ({sql}) to '{tmp_path}/new.parquet'")
    controller = Controller(policy=surefoot.load_policy(saved))
    done = apply(controller, tmp_path / "new.parquet", tmp_path / "out.parquet")
    found = duckdb.sql(f"select i, decision from '{tmp_path}/out.parquet'").fetchall()
    assert found == [(10, "z"), (11, "x"), (12, "y"), (13, None)]
    assert done.unseen == ((("b", 9), 1),)


def test_columns_may_have_other_names_and_several_files_keep_their_order(tmp_path: Path) -> None:
    for i, part in enumerate((rows(70, 1), rows(70, 2))):
        logfiles.write(tmp_path / f"part{i}.csv", ("id", "ward", "done"), part)
    with pytest.raises(LogError, match=r"no column 'state' for the state.*--state-column"):
        apply(Controller(policy=policy()), tmp_path / "part*.csv", tmp_path / "o.csv")
    done = apply(
        Controller(policy=policy()),
        str(tmp_path / "part*.csv"),
        tmp_path / "o.csv",
        state_column="ward",
        action_column="done",
    )
    assert [x["id"] for x in read(tmp_path / "o.csv")] == [str(i) for i in range(70)] * 2
    assert done.compared
    assert (
        apply(
            Controller(policy=policy()),
            str(tmp_path / "part*.csv"),
            tmp_path / "o.csv",
            state_column="ward",
            action_column="-",
        ).compared
        is None
    )


def test_raw_measurements_are_encoded_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from surefoot.logs import features

    for module in (whole_files, features):
        monkeypatch.setattr(module, "BLOCK", 16)
    encoder = QuantileEncoder(("p",), ((1.0, 2.0),))
    known = {"p < 1": {"x": 0.7, "z": 0.3}, "1 <= p < 2": {"y": 1.0}}
    controller = Controller(policy=known, encoder=encoder)  # type: ignore[arg-type]
    numbers = np.random.default_rng(0).uniform(0, 3, 60).round(3)
    log = logfiles.write(tmp_path / "raw.csv", ("p", "action"), [(x, "x") for x in numbers])
    done = apply(controller, log, tmp_path / "out.csv")
    expected = ["x" if x < 1 else "y" if x < 2 else "" for x in numbers]
    assert [x["decision"] for x in read(tmp_path / "out.csv")] == expected
    assert done.unseen == (("p >= 2", expected.count("")),)
    logfiles.write(log, ("p", "action"), [("1.5", "x"), ("", "x"), ("NA", "y"), ("2", "y")])
    for otherwise, rest in ((None, ["", "", ""]), ("x", ["x", "x", "x"])):
        done = apply(controller, log, tmp_path / "out.csv", otherwise=otherwise)
        assert [x["decision"] for x in read(tmp_path / "out.csv")] == ["y", *rest]
        assert (done.without_state, done.unseen) == (2, (("p >= 2", 1),))
        assert done.fallback == 3 * (otherwise == "x")
    logfiles.write(log, ("p",), [("1",), ("fast",)])
    with pytest.raises(LogError, match="feature 'p' is 'fast', not a finite number, in row 2"):
        apply(controller, log, tmp_path / "out.csv")
    with pytest.raises(ParameterError, match="the encoder makes the state"):
        apply(controller, log, tmp_path / "out.csv", state_column="p")


def test_wrong_input_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    log, made = logfiles.write(tmp_path / "new.csv", COLUMNS, rows(5)), Controller(policy=policy())
    wide = logfiles.write(tmp_path / "wide.csv", ("state", "decision"), [("a", "b")])
    two = logfiles.write(tmp_path / "two.csv", ("state", "action", "act"), [("a", "b", "c")])
    out = tmp_path / "new" / "out.csv"
    for source, target, more, words in (
        (log, tmp_path / "out.txt", {}, r"must end in \.csv"),
        (log, log, {}, "is the log itself"),
        (wide, out, {}, "already has a column 'decision'"),
        (two, out, {}, "2 columns that could be the action.*--action-column"),
        (log, out, {"state_column": "stat"}, "no column 'stat'.*'state'"),
        (log, out, {"state_column": "state,id"}, "has 1 columns"),
        (log, out, {"action_column": "deed"}, "no column 'deed'"),
        (tmp_path / "none.csv", out, {}, "there is no file"),
    ):
        with pytest.raises((LogError, ParameterError), match=words):
            apply(made, source, target, **more)
    assert not out.exists()


def test_labels_that_a_spreadsheet_would_compute_are_protected_in_text_alone(
    tmp_path: Path,
) -> None:
    labels = surefoot.Labels(("a",), ("=cmd",))
    made = Controller(policy=surefoot.Policy(pi=np.ones((1, 1)), labels=labels))
    log = logfiles.write(tmp_path / "new.csv", ("state",), [("a",)])
    apply(made, log, tmp_path / "out.csv")
    apply(made, log, tmp_path / "out.parquet")
    assert read(tmp_path / "out.csv")[0]["decision"] == "'=cmd"
    assert duckdb.sql(f"select decision from '{tmp_path}/out.parquet'").fetchall() == [("=cmd",)]
