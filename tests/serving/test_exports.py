"""SQL that decides as the policy does, whatever the labels are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import surefoot
from surefoot.core.errors import ParameterError
from surefoot.serving import Controller, apply, case_when

NASTY = (
    "a'b",
    'say "hi"',
    "x -- y",
    "'; drop table t; --",
    "back\\slash",
    "two\nlines",
    "ü大",
    "7",
)
MORE = ("*/", "%", " padded ", "CASE")


def decided(sql: str, table: str) -> list[Any]:
    return [row[0] for row in duckdb.sql(f"select ({sql}) from {table}").fetchall()]


def one_hot(states: tuple[Any, ...], actions: tuple[Any, ...], **names: Any) -> surefoot.Policy:
    """Action i in state i, in turn."""
    pi = np.eye(len(actions))[np.arange(len(states)) % len(actions)]
    return surefoot.Policy(pi=pi, labels=surefoot.Labels(states, actions, **names))


def test_quotes_and_comments_in_labels_are_data() -> None:
    controller = Controller(policy=one_hot(NASTY, MORE))
    con = duckdb.connect()
    con.execute("create table t (state varchar)")
    con.executemany("insert into t values (?)", [[x] for x in (*NASTY, "other", None)])
    sql = case_when(controller, made_from="evil\nname")
    found = [x[0] for x in con.execute(f"select ({sql}) from t").fetchall()]
    assert found == [controller.decide(x) for x in NASTY] + [None, None]


def test_column_names_are_quoted_and_several_make_one_state() -> None:
    names = ('odd "name"', "select")
    states = (("a", "1"), ("a", "2"), ("b", "1"))
    controller = Controller(policy=one_hot(states, ("x", "y"), state_columns=names), otherwise="x")
    table = (
        "(select * from (values ('a', 1), ('a', 2), ('b', 1), ('b', 2), (null, 1))"
        ' t("odd ""name""", "select"))'
    )
    assert decided(case_when(controller), table) == ["x", "y", "x", "x", "x"]
    assert decided(case_when(controller, numbers=["select"]), table) == ["x", "y", "x", "x", "x"]


def test_numbers_are_compared_as_numbers_where_they_are_or_are_said_to_be() -> None:
    text = Controller(policy=one_hot(("1", "2", "2.5"), ("x", "y")))
    typed = Controller(policy=one_hot((1, 2, 2.5), ("x", "y")))
    table = "(select unnest([1.0, 2.0, 2.5, 3.0]::double[]) as state)"
    assert decided(case_when(text), table) == [None, None, "x", None]  # '1.0' is not '1'
    assert decided(case_when(text, numbers=["state"]), table) == ["x", "y", "x", None]
    assert decided(case_when(typed), table) == ["x", "y", "x", None]
    whole = "(select unnest([1, 2, 3]) as state)"
    assert decided(case_when(text), whole) == ["x", "y", None]
    flags = Controller(policy=one_hot((True, False), ("x", "y")))
    assert decided(case_when(flags), "(select unnest([false, true]) as state)") == ["y", "x"]


def test_a_missing_value_is_a_label_where_the_policy_has_one() -> None:
    table = "(select unnest(['a', null, 'b']) as state)"
    assert decided(case_when(Controller(policy=one_hot(("a", None), ("x", "y")))), table) == [
        "x", "y", None,
    ]  # fmt: skip
    several = one_hot((("a", None), ("a", "1")), ("x", "y"), state_columns=("s", "t"))
    pairs = "(select * from (values ('a', null), ('a', '1'), (null, null)) v(s, t))"
    assert decided(case_when(Controller(policy=several)), pairs) == ["x", "y", None]


def test_the_sql_decides_as_the_file_is_decided(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    states = tuple((w, str(g)) for w in ("a", "o'n", 'q"') for g in range(4))
    labels = surefoot.Labels(states, ("x", "y's", "z"), ("ward", "grade"))
    pi = rng.dirichlet(np.full(3, 0.5), len(states))
    rule = surefoot.Policy(
        pi=np.ones((1, 1)),
        labels=surefoot.Labels((("far", "9"),), ("call",), ("ward", "grade")),
    )
    saved = surefoot.Policy(pi=pi, labels=labels).save(tmp_path / "p.csv")
    for otherwise in (None, "z", rule):
        controller = Controller(policy=surefoot.load_policy(saved), otherwise=otherwise)
        con = duckdb.connect()
        con.execute("create table t (ward varchar, grade integer)")
        wards, grades = rng.choice(["a", "o'n", 'q"', "far", None], 300), rng.integers(0, 11, 300)
        con.executemany(
            "insert into t values (?, ?)", [[w, int(g)] for w, g in zip(wards, grades, strict=True)]
        )
        con.execute(f"copy t to '{tmp_path}/t.parquet'")
        apply(controller, tmp_path / "t.parquet", tmp_path / "out.parquet")
        said = con.execute(
            f"select decision, ({case_when(controller)}) from '{tmp_path}/out.parquet'"
        )
        found = said.fetchall()
        assert len(found) == 300 and len({x for x, _ in found}) >= 3
        assert [x for x, y in found if x != y] == []


def test_what_is_lost_is_said_above_the_sql() -> None:
    pi = np.array([[0.5, 0.5], [0.6, 0.4], [1.0, 0.0]])
    text = case_when(Controller(policy=surefoot.Policy(pi=pi)), made_from="policy.csv")
    assert "-- made by surefoot from policy.csv\n" in text
    assert "-- in 2 of 3 states the policy draws its actions." in text
    assert "ANOTHER POLICY than the one that was tested" in text
    assert "-- in 1 state several actions are equally probable" in text
    assert "tested" not in case_when(Controller(policy=one_hot(("a", "b"), ("x", "y"))))


def test_a_long_case_is_said_to_be_slow() -> None:
    def notes(n: int, p: float, **how: Any) -> str:
        pi = np.tile([p, 1 - p], (n, 1))
        return case_when(Controller(policy=surefoot.Policy(pi=pi)), **how)

    assert "201 states with draws make a long CASE" in notes(201, 0.9, key=["k"])
    assert "1,001 states make a long CASE: a join" in notes(1001, 1.0, key=["k"])
    assert "long CASE" not in notes(200, 0.9, key=["k"]) + notes(1000, 0.9) + notes(999, 1.0)


def test_what_sql_cannot_say_is_refused() -> None:
    policy = one_hot(("p < 1", "p >= 1"), ("x", "y"))
    with pytest.raises(ParameterError, match="no column 'grade'; those of its state are state"):
        case_when(Controller(policy=policy), numbers=["grade"])
    for label in ("p < 1", "nan", "1) or (1=1"):
        with pytest.raises(ParameterError, match="cannot be compared as a number"):
            case_when(Controller(policy=one_hot((label, "1"), ("x", "y"))), numbers=["state"])
