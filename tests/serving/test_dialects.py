"""The SQL of an export decides as the policy does, in databases that run it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, chi2_contingency, chisquare

import surefoot
from serving.test_exports import MORE, NASTY, one_hot
from support.databases import Columns, Database, DuckDB, SQLite, postgresql
from surefoot.core.errors import ParameterError, SurefootError, UnknownNameError
from surefoot.serving import Controller, QuantileEncoder, case_when
from surefoot.serving.dialects import DIALECTS
from surefoot.serving.encoders import KMeansEncoder

N = 100_000
THREE = np.array([0.2, 0.5, 0.3])


@pytest.fixture(scope="module")
def postgres() -> Iterator[Database]:
    yield from postgresql()


@pytest.fixture(
    params=["duckdb", "sqlite", pytest.param("postgres", marks=pytest.mark.slow)], scope="module"
)
def database(request: pytest.FixtureRequest) -> Database:
    made = {"duckdb": DuckDB, "sqlite": SQLite}
    return made[request.param]() if request.param in made else request.getfixturevalue("postgres")


def lottery() -> Controller:
    """Three actions in one state, one action in another."""
    pi = np.array([THREE, [0.0, 1.0, 0.0]])
    labels = surefoot.Labels(("draws", "fixed"), ("x", "y", "z"))
    return Controller(policy=surefoot.Policy(pi=pi, labels=labels), otherwise="x")


def test_labels_are_data_and_what_is_not_known_gets_the_fallback(database: Database) -> None:
    controller = Controller(policy=one_hot(NASTY, MORE))
    sql = case_when(controller, dialect=database.dialect)
    rows = [*NASTY, "other", "", None]
    found = database.asked({"state": ("text", rows)}, sql)
    assert found == [controller.decide(x) for x in NASTY] + [None] * 3
    second = Controller(policy=one_hot(NASTY, MORE), otherwise=MORE[0])
    assert (
        database.asked({"state": ("text", rows)}, case_when(second, dialect=database.dialect))[-3:]
        == [MORE[0]] * 3
    )


def test_columns_have_any_name_and_several_make_a_state(database: Database) -> None:
    names = ('odd "name"', "select")
    states = (("a", "1"), ("a", "2"), ("b", "1"))
    policy = one_hot(states, ("x", "y"), state_columns=names)
    columns: Columns = {names[0]: ("text", ["a", "a", "b", "b", None]), names[1]: ("whole", [1, 2, 1, 2, 1])}  # fmt: skip
    for numbers in ((), ["select"]):
        sql = case_when(Controller(policy=policy), dialect=database.dialect, numbers=numbers)
        assert database.asked(columns, sql) == ["x", "y", "x", None, None]


def test_the_state_has_the_column_that_is_named(database: Database) -> None:
    sql = case_when(lottery(), dialect=database.dialect, state_column=["ward"])
    assert database.asked({"ward": ("text", ["fixed", "lost"])}, sql) == ["y", "x"]


ENCODERS = {
    "two": QuantileEncoder(("lactate", "heart rate"), ((0.7, 4.0), (-0.5, 100.0)), ("heart rate",)),
    "one bin": QuantileEncoder(("lactate", "heart rate"), ((), (1e-7, 3e20)), ("lactate",)),
    "no edges": QuantileEncoder(("lactate",), ((),)),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_raw_readings_are_decided_as_the_controller_decides_them(
    name: str, database: Database
) -> None:
    """At the edges and just below them; missing, not a number, infinite; and a state that the
    policy does not know.
    """
    encoder = ENCODERS[name]
    rng = np.random.default_rng(1)
    edges = [e for x in encoder.edges for e in x]
    special = [0.0, None, np.nan, np.inf, -np.inf, 5e307, *edges, *np.nextafter(edges, -np.inf)]
    rows = [
        [special[i] for i in rng.integers(0, len(special), len(encoder.features))]
        for _ in range(600)
    ]
    states = encoder.labels[: max(1, len(encoder.labels) - 1)]
    actions = tuple(f"do {i}" for i in range(len(states)))
    policy = one_hot(states, (*actions, "last"))
    controller = Controller(policy=policy, encoder=encoder, otherwise="last")
    columns: Columns = {
        x: ("number", [None if r[i] is None else float(r[i]) for r in rows])
        for i, x in enumerate(encoder.features)
    }
    found = database.asked(columns, case_when(controller, dialect=database.dialect))
    expected = [controller.decide([x if x is not None else np.nan for x in row]) for row in rows]
    assert found == expected
    assert set(found) == {*controller.policy.labels.actions}


def test_text_in_a_column_of_numbers_is_no_reading_in_sqlite() -> None:
    encoder = ENCODERS["two"]
    controller = Controller(
        policy=one_hot(encoder.labels, ("x", "y")), encoder=encoder, otherwise="y"
    )
    columns: Columns = {"lactate": ("text", ["5.0", "abc"]), "heart rate": ("number", [-3.0, -3.0])}
    assert SQLite().asked(columns, case_when(controller, dialect="sqlite")) == ["y", "y"]


KEYS: dict[str, tuple[str, list[Any]]] = {
    "whole": ("whole", list(range(N))),
    "far": ("whole", [7_000_000_000 + 1000 * i for i in range(N)]),
    "text": ("text", [f"stay-{i:06d}" for i in range(N)]),
}


@pytest.mark.parametrize("kind", KEYS)
def test_a_hash_of_the_key_draws_with_the_probabilities(kind: str, database: Database) -> None:
    """Uniform over all keys, in parts of the keys, and from one key to the next: at the level of
    1e-4 for each of these.
    """
    sql = case_when(lottery(), dialect=database.dialect, key=["stay"])
    found = database.asked({"state": ("text", ["draws"] * N), "stay": KEYS[kind]}, sql)
    code = np.array(["xyz".index(x) for x in found])
    assert chisquare(np.bincount(code), N * THREE).pvalue > 1e-4
    parts = [chisquare(np.bincount(x, minlength=3), len(x) * THREE) for x in code.reshape(100, -1)]
    assert chi2.sf(sum(x.statistic for x in parts), 200) > 1e-4
    assert chi2.cdf(sum(x.statistic for x in parts), 200) > 1e-4  # nor more even than chance
    for lag in (1, 2, 10):
        pairs = np.bincount(3 * code[:-lag] + code[lag:], minlength=9).reshape(3, 3)
        assert chi2_contingency(pairs).pvalue > 1e-4


def test_the_same_key_draws_the_same_whatever_else_is_there_and_time_draws_anew(
    database: Database,
) -> None:
    sql = case_when(lottery(), dialect=database.dialect, key=["stay"])
    both = case_when(lottery(), dialect=database.dialect, key=["stay", "time"])
    n = 2000
    columns: Columns = {
        "state": ("text", ["draws"] * 2 * n),
        "stay": ("whole", [*range(n), *reversed(range(n))]),
        "time": ("whole", [0] * n + [1] * n),
    }
    found = database.asked(columns, sql, both)
    assert [x for x, _ in found[:n]] == [x for x, _ in reversed(found[n:])]
    first, then = ([y for _, y in x] for x in (found[:n], found[n:][::-1]))
    table = Counter(zip(first, then, strict=True))
    assert chi2_contingency([[table[a, b] for b in "xyz"] for a in "xyz"]).pvalue > 1e-4


def test_a_missing_key_gets_the_fallback_only_where_there_is_a_draw(database: Database) -> None:
    sql = case_when(lottery(), dialect=database.dialect, key=["stay", "time"])
    columns: Columns = {
        "state": ("text", ["draws", "fixed", "draws"]),
        "stay": ("text", [None, None, "a"]),
        "time": ("whole", [1, 1, None]),
    }
    assert database.asked(columns, sql) == ["x", "y", "x"]


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("postgres", marks=pytest.mark.slow)])
def test_the_lot_is_the_first_half_of_an_md5(engine: str, request: pytest.FixtureRequest) -> None:
    database = DuckDB() if engine == "duckdb" else request.getfixturevalue("postgres")
    keys = ["a", "stay-7", "ü大", "", "it's"]
    columns: Columns = {"k": ("text", keys), "t": ("whole", range(5))}
    expected = [
        int(hashlib.md5(f"surefoot:{k}:{t}".encode()).hexdigest()[:8], 16)
        for t, k in enumerate(keys)
    ]
    assert database.asked(columns, DIALECTS[engine].lot(["k", "t"])) == expected


def test_the_lots_of_sqlite_are_spread_over_their_whole_range() -> None:
    for kind, values in KEYS.values():
        lots = np.array(
            SQLite().asked({"k": (kind, values[:20_000])}, DIALECTS["sqlite"].lot(["k"]))
        )
        assert lots.min() >= 0 and lots.max() < DIALECTS["sqlite"].lots
        for bins in (64, 1000):
            counts = np.bincount(lots * bins // DIALECTS["sqlite"].lots, minlength=bins)
            assert len(counts) == bins and 1e-4 < chisquare(counts).pvalue < 1 - 1e-4
            low = np.bincount(lots % bins, minlength=bins)
            assert 1e-4 < chisquare(low).pvalue < 1 - 1e-4


def test_a_state_that_stays_as_it_was_is_drawn_or_left_open(database: Database) -> None:
    pi = np.array([THREE, [0.1, 0.9, 0.0], [0.0, 1.0, 0.0]])
    baseline = np.array([THREE, [0.2, 0.8, 0.0], [0.0, 1.0, 0.0]])
    labels = surefoot.Labels(("same", "moved", "rule"), ("x", "y", "z"))
    controller = Controller(policy=surefoot.Policy(pi=pi, labels=labels, baseline=baseline))
    n = 3000
    columns: Columns = {
        "state": ("text", ["same", "moved", "rule"] * n),
        "k": ("whole", range(3 * n)),
    }
    plain = case_when(controller, dialect=database.dialect)
    assert "-- in 1 of 3 states the policy does what its baseline does, which draws" in plain
    assert "-- in 1 of 3 states the policy draws its actions" in plain
    drawn = case_when(controller, dialect=database.dialect, key=["k"])
    assert "-- in 2 of 3 states the policy draws its actions, here by a hash of k" in drawn
    found = database.asked(columns, plain, drawn)
    assert {x for x, _ in found[0::3]} == {None}
    assert {x for x, _ in found[1::3]} == {x for x, _ in found[2::3]} == {"y"}
    share = Counter(y for _, y in found[0::3])
    assert chisquare([share[a] for a in "xyz"], n * THREE).pvalue > 1e-4
    assert Counter(y for _, y in found[1::3])["x"] == pytest.approx(
        0.1 * n, abs=4 * (0.09 * n) ** 0.5
    )


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_is_read_by_a_parser_of_it_and_means_the_same(dialect: str) -> None:
    """sqlglot translates what needs no hash to DuckDB, which runs it; what draws is parsed."""
    sqlglot = pytest.importorskip("sqlglot")
    quiet: Any = {"read": dialect, "error_level": sqlglot.ErrorLevel.RAISE}
    encoder = ENCODERS["two"]
    controller = Controller(
        policy=one_hot(encoder.labels[1:], ("a", "it's", "back\\slash", "ü")),
        encoder=encoder,
        otherwise="ü",
    )
    rng = np.random.default_rng(2)
    columns: Columns = {
        "lactate": ("number", [*rng.uniform(-1, 6, 300), None]),
        "heart rate": ("number", [*rng.uniform(-2, 200, 300), None]),
    }
    (sql,) = sqlglot.transpile(case_when(controller, dialect=dialect), write="duckdb", **quiet)
    expected = [
        controller.decide([np.nan if v is None else v for v in row])
        for row in zip(*(x for _, x in columns.values()), strict=True)
    ]
    assert DuckDB().asked(columns, sql) == expected
    labels = Controller(policy=one_hot(NASTY, ("x", "y")))
    text = case_when(labels, dialect=dialect).replace(" COLLATE Latin1_General_BIN2", "")
    (sql,) = sqlglot.transpile(text, write="duckdb", **quiet)
    assert DuckDB().asked({"state": ("text", NASTY)}, sql) == [labels.decide(x) for x in NASTY]
    assert sqlglot.parse_one(case_when(lottery(), dialect=dialect, key=["k", "t"]), **quiet)


def test_what_a_dialect_cannot_say_is_refused() -> None:
    controller = lottery()
    with pytest.raises(UnknownNameError, match=r"dialect must be one of .*, got 'oracle'"):
        case_when(controller, dialect="oracle")
    for label in ("two\\\nlines", "end "):
        with pytest.raises(ParameterError, match="is not the same text in T-SQL"):
            case_when(Controller(policy=one_hot((label, "b"), ("x", "y"))), dialect="tsql")
    with pytest.raises(ParameterError, match="BigQuery cannot have ` or"):
        case_when(controller, dialect="bigquery", key=["a`b"])
    with pytest.raises(ParameterError, match=r"has 1 columns .* but 2 are given"):
        case_when(controller, state_column=["a", "b"])
    centres = KMeansEncoder(("p",), (0.0,), (1.0,), ((0.0,), (1.0,)))
    clusters = Controller(policy=one_hot(centres.labels, ("x", "y")), encoder=centres)
    with pytest.raises(ParameterError, match=r"SQL has no kmeans encoder: .*discretize --apply"):
        case_when(clusters)
    bins = Controller(
        policy=one_hot(ENCODERS["no edges"].labels, ("x",)), encoder=ENCODERS["no edges"]
    )
    for wrong in ({"numbers": ["lactate"]}, {"state_column": ["lactate"]}):
        with pytest.raises(SurefootError, match="the encoder makes the state: leave"):
            case_when(bins, **wrong)
