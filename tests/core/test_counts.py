"""Counts: what a log says about every triple, the same dense and sparse, whole and in pieces."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from surefoot import Counts, LogError
from surefoot.core import count

S, A = 4, 3
Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@st.composite
def rows(draw: st.DrawFn, size: int = 12) -> Rows:
    """Rows (s, a, r, s') with few distinct triples, so that many repeat, and rewards that often
    cancel.
    """
    n = draw(st.integers(1, size))
    ids = [
        draw(st.lists(st.integers(0, top), min_size=n, max_size=n)) for top in (S - 1, A - 1, S - 1)
    ]
    reward = draw(st.lists(st.sampled_from([-1.5, -1.0, 0.0, 1.0, 2.25]), min_size=n, max_size=n))
    return np.array(ids[0]), np.array(ids[1]), np.array(reward), np.array(ids[2])


def counted(log: Rows, as_sparse: bool = False) -> Counts:
    return count(*log, S, A, as_sparse=as_sparse)


def dense(counts: Counts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """n_sas, r_sas [S, A, S] and r_rest [S, A] of either kind."""
    n, r = (x.toarray() if counts.is_sparse else x for x in (counts.n_sas, counts.r_sas))
    return n.reshape(S, A, S), r.reshape(S, A, S), counts.r_rest.reshape(S, A)


def naive(log: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same, counted in a dictionary."""
    seen: dict[tuple[int, int, int], list[float]] = defaultdict(list)
    for s, a, r, to in zip(*log, strict=True):
        seen[s, a, to].append(r)
    n, r_sas, rest = np.zeros((S, A, S)), np.zeros((S, A, S)), np.zeros((S, A))
    for (s, a, to), rewards in seen.items():
        n[s, a, to] = len(rewards)
        r_sas[s, a, to] = sum(rewards)
        rest[s, a] += sum((r - sum(rewards) / len(rewards)) ** 2 for r in rewards)
    return n, r_sas, rest


def same(found: tuple[np.ndarray, ...], wanted: tuple[np.ndarray, ...]) -> bool:
    return all(np.allclose(x, y, rtol=0, atol=1e-12) for x, y in zip(found, wanted, strict=True))


@given(rows(), st.booleans())
@settings(max_examples=100, deadline=None)
def test_counts_are_those_of_a_dictionary(log: Rows, as_sparse: bool) -> None:
    assert same(dense(counted(log, as_sparse)), naive(log))


@given(rows())
@settings(max_examples=100, deadline=None)
def test_dense_and_sparse_counts_are_equal(log: Rows) -> None:
    assert same(dense(counted(log)), dense(counted(log, as_sparse=True)))


@given(rows(), rows(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_counts_of_two_logs_add_up_to_the_counts_of_both(
    one: Rows, other: Rows, as_sparse: bool
) -> None:
    both = tuple(np.concatenate(pair) for pair in zip(one, other, strict=True))
    together = counted(one, as_sparse) + counted(other, as_sparse)
    assert same(dense(together), dense(counted(both, as_sparse)))


@given(rows(), rows(), rows(), st.booleans())
@settings(max_examples=50, deadline=None)
def test_the_order_of_adding_does_not_matter(
    one: Rows, two: Rows, three: Rows, as_sparse: bool
) -> None:
    a, b, c = (counted(x, as_sparse) for x in (one, two, three))
    assert same(dense((a + b) + c), dense(c + (b + a)))


@given(rows(), rows())
@settings(max_examples=100, deadline=None)
def test_sparse_sums_hold_rewards_where_they_hold_counts(one: Rows, other: Rows) -> None:
    together = counted(one, as_sparse=True) + counted(other, as_sparse=True)
    assert np.array_equal(together.n_sas.indices, together.r_sas.indices)
    assert np.array_equal(together.n_sas.indptr, together.r_sas.indptr)
    assert (together.n_sas.data > 0).all()


@given(rows(), st.booleans())
@settings(max_examples=100, deadline=None)
def test_rewards_that_are_a_function_of_the_triple_leave_no_rest(
    log: Rows, as_sparse: bool
) -> None:
    s, a, _, to = log
    reward = np.random.default_rng(0).integers(-5, 5, (S, A, S)).astype(float)[s, a, to]
    halves = [
        counted((s[i], a[i], reward[i], to[i]), as_sparse) for i in (slice(0, 2), slice(2, None))
    ]
    assert (counted((s, a, reward, to), as_sparse).r_rest == 0).all()
    assert ((halves[0] + halves[1]).r_rest == 0).all()


@given(rows(), st.booleans())
@settings(max_examples=50, deadline=None)
def test_pairs_sum_over_their_triples(log: Rows, as_sparse: bool) -> None:
    counts = counted(log, as_sparse)
    n, r, _ = naive(log)
    assert same(
        (counts.n_sa.reshape(S, A), counts.r_sa.reshape(S, A)), (n.sum(axis=-1), r.sum(axis=-1))
    )


def test_a_triple_whose_rewards_cancel_between_logs_keeps_its_place() -> None:
    one = (np.array([0, 1]), np.array([0, 2]), np.array([1.0, 2.0]), np.array([1, 3]))
    other = (np.array([0, 1]), np.array([0, 2]), np.array([-1.0, 2.0]), np.array([1, 3]))
    both = tuple(np.concatenate(pair) for pair in zip(one, other, strict=True))
    merged = counted(one, as_sparse=True) + counted(other, as_sparse=True)
    assert same(dense(merged), dense(counted(both)))
    assert merged.r_sas.data.tolist() == [0.0, 4.0]


def test_the_rest_of_two_rewards_in_one_triple_is_half_their_squared_difference() -> None:
    one, other = ((np.array([2]), np.array([1]), np.array([r]), np.array([3])) for r in (1.0, 4.0))
    for as_sparse in (False, True):
        rest = dense(counted(one, as_sparse) + counted(other, as_sparse))[2]
        assert rest[2, 1] == 4.5
        assert rest.sum() == 4.5


def test_different_successors_are_no_rest() -> None:
    log = (np.array([2, 2]), np.array([1, 1]), np.array([1.0, 4.0]), np.array([3, 0]))
    assert (counted(log).r_rest == 0).all()


LOG: Rows = (
    np.array([0, 1, 1]),
    np.array([2, 0, 0]),
    np.array([1.0, 2.0, 3.0]),
    np.array([1, 3, 3]),
)


@pytest.mark.parametrize("as_sparse", [False, True])
def test_counts_of_other_sizes_do_not_add_up(as_sparse: bool) -> None:
    with pytest.raises(LogError, match="5 x 3 states x actions do not add up"):
        counted(LOG, as_sparse) + count(*LOG, S + 1, A, as_sparse=as_sparse)
    with pytest.raises(LogError, match="same n_states and n_actions"):
        counted(LOG, as_sparse) + count(*LOG, S, A + 1, as_sparse=as_sparse)


def test_dense_and_sparse_counts_do_not_add_up() -> None:
    with pytest.raises(LogError, match=r"dense \(4, 3, 4\) and sparse \(12, 4\)"):
        counted(LOG) + counted(LOG, as_sparse=True)


def test_batches_of_different_shapes_do_not_add_up() -> None:
    x = counted(LOG)
    two = Counts(*(np.stack([part, part]) for part in (x.n_sas, x.r_sas, x.r_rest)), S, A)
    assert (two + two).n_sa.shape == (2, S, A)
    with pytest.raises(LogError, match="add up"):
        two + x


def test_counts_add_only_to_counts() -> None:
    with pytest.raises(TypeError):
        counted(LOG) + 1  # type: ignore[operator]


def test_counts_without_rewards_add_up_and_say_so() -> None:
    x = counted(LOG)
    bare = Counts(x.n_sas, None, None, S, A)
    assert ((bare + x).n_sas == 2 * x.n_sas).all()
    with pytest.raises(LogError, match="no rewards"):
        _ = (bare + x).r_sa


def test_counts_without_rests_keep_their_rewards_in_a_sum() -> None:
    x = counted(LOG)
    plain = Counts(x.n_sas, x.r_sas, None, S, A)
    assert (plain + x).r_rest is None
    assert ((plain + x).r_sas == 2 * x.r_sas).all()


def wrong_parts() -> list[tuple[str, dict[str, Any]]]:
    x, y = counted(LOG), counted(LOG, as_sparse=True)
    return [
        ("n_sas", {"n_sas": x.n_sas[:-1], "r_sas": x.r_sas, "r_rest": x.r_rest}),
        ("n_sas", {"n_sas": np.swapaxes(x.n_sas, 0, 1), "r_sas": x.r_sas, "r_rest": x.r_rest}),
        ("r_sas", {"n_sas": x.n_sas, "r_sas": x.r_sas[None], "r_rest": x.r_rest}),
        ("r_rest", {"n_sas": x.n_sas, "r_sas": x.r_sas, "r_rest": x.r_rest.T}),
        ("n_sas", {"n_sas": y.n_sas.T.tocsr(), "r_sas": y.r_sas, "r_rest": y.r_rest}),
        ("r_rest", {"n_sas": y.n_sas, "r_sas": y.r_sas, "r_rest": x.r_rest}),
        (
            "same entries",
            {
                "n_sas": y.n_sas,
                "r_sas": sparse.csr_array(y.r_sas.toarray() * 0),
                "r_rest": y.r_rest,
            },
        ),
    ]


@pytest.mark.parametrize(("name", "parts"), wrong_parts())
def test_shapes_that_do_not_fit_are_refused(name: str, parts: dict[str, Any]) -> None:
    with pytest.raises(LogError, match=name):
        Counts(**parts, n_states=S, n_actions=A)


@pytest.mark.parametrize("as_sparse", [False, True])
def test_counts_are_read_only(as_sparse: bool) -> None:
    counts = counted(LOG, as_sparse)
    parts = [counts.r_rest, counts.n_sa, counts.r_sa]
    parts += [counts.n_sas.data, counts.r_sas.data] if as_sparse else [counts.n_sas, counts.r_sas]
    for part in parts:
        with pytest.raises(ValueError, match="read-only"):
            part[...] = 1


def test_counting_leaves_the_arrays_it_was_given_writable() -> None:
    n, r, rest = np.ones((S, A, S)), np.ones((S, A, S)), np.zeros((S, A))
    Counts(n, r, rest, S, A)
    assert n.flags.writeable
    assert r.flags.writeable
    assert rest.flags.writeable
