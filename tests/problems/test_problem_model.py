"""Problem: the model it estimates, dense or sparse, frozen, one or many at once."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surefoot
from support import worlds
from support.small_problem import ENDED, LOG, PI_B, A, S, mask, message, problem
from surefoot import (
    BaselineError,
    Counts,
    LogError,
    ProblemError,
    Returns,
    SurefootError,
    UnknownNameError,
)

# The model


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("ends", [False, True])
def test_a_pair_never_seen_is_worth_the_least_and_a_terminal_state_nothing(
    sparse: bool, ends: bool
) -> None:
    found = surefoot.problem(**(ENDED if ends else LOG), sparse=sparse)
    lo = found.return_range.lo
    acting = ~found.terminal
    assert (found.r[acting][~found.seen[acting]] == lo).all()
    assert (found.r[found.terminal] == 0).all()
    v = np.random.default_rng(0).normal(size=S)
    q = found.model.backup(v[None] if sparse else v).reshape(S, A)
    assert (q[acting][~found.seen[acting]] == lo).all()
    assert (q[found.terminal] == 0).all()


def test_the_mean_reward_is_that_of_the_pair() -> None:
    found = problem()
    assert (found.r[0, 0], found.r[1, 1], found.r[2, 0], found.r[0, 2]) == (1.0, -1.0, 0.5, 3.0)


@given(st.integers(0, 2**32), st.sampled_from([None, 2, 3]), st.booleans())
@settings(max_examples=30, deadline=None)
def test_dense_and_sparse_problems_back_up_alike(seed: int, table: int | None, ends: bool) -> None:
    rng = np.random.default_rng(seed)
    n = 20
    state = rng.integers(0, S - 1, n)
    log = {
        "state": state,
        "action": rng.integers(0, A, n),
        "reward": rng.normal(size=n),
        "episode": np.arange(n),
        "next_state": rng.integers(0, S, n),
        "terminal_states": [S - 1] if ends else [],
        "gamma": 0.9,
        "n_states": S,
        "n_actions": A,
        "reward_table": None
        if table is None
        else rng.normal(size=(S, S) if table == 2 else (S, A, S)),
    }
    dense, thin = (surefoot.problem(**log, sparse=sparse) for sparse in (False, True))
    v = rng.normal(size=S)
    assert np.allclose(dense.model.backup(v), thin.model.backup(v[None])[0], rtol=0, atol=1e-12)
    assert np.allclose(dense.n_sa, thin.n_sa)
    assert np.allclose(dense.pi_b, thin.pi_b)
    assert dense.return_range == thin.return_range
    assert np.allclose(dense.returns.mean, thin.returns.mean, equal_nan=True)


def test_large_problems_are_held_sparse() -> None:
    assert not problem().counts.is_sparse
    assert problem(n_states=1300).counts.is_sparse
    assert not problem(n_states=1200).counts.is_sparse


@pytest.mark.parametrize("bad", ["no", 1, 0.0, np.array([True, False]), []])
def test_sparse_is_a_flag(bad: Any) -> None:
    assert "sparse must be True, False or None" in message(ProblemError, sparse=bad)


def test_dense_counts_that_cannot_fit_are_refused() -> None:
    assert "sparse=False" in message(ProblemError, n_states=100_000, sparse=False)


@pytest.mark.parametrize("n_states", [4, 7, 50])
def test_states_never_seen_keep_the_baseline(n_states: int) -> None:
    found = problem(n_states=n_states)
    assert found.n_states == n_states
    solution = surefoot.improve(found, "basic-rl")
    assert np.allclose(solution.pi[3:], 1 / A)


@pytest.mark.parametrize("name", ["n_states", "n_actions"])
@pytest.mark.parametrize("bad", [0, -1, 2.5, np.nan, np.inf, "4", [4], True, 1j])
def test_a_size_that_is_no_whole_number_is_refused(name: str, bad: Any) -> None:
    assert f"{name} must be a whole number >= 1" in message(ProblemError, **{name: bad})


@pytest.mark.parametrize("option", ["unseen_states", "ties", "masked_baseline"])
@pytest.mark.parametrize("bad", ["Baseline", "", 3, True])
def test_an_unknown_option_value_is_named(option: str, bad: Any) -> None:
    text = message(UnknownNameError, **{option: bad})
    assert f"{option} must be one of" in text
    assert repr(bad) in text


def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="discount"):
        problem(discount=0.9)


def test_cut_episodes_are_noted() -> None:
    assert any("1 of 1 episodes are cut" in note for note in problem().notes)
    assert not any("cut" in note for note in surefoot.problem(**ENDED).notes)


# Frozen


def test_a_problem_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        problem().gamma = 0.5  # type: ignore[misc]


@pytest.mark.parametrize("sparse", [False, True])
def test_the_arrays_of_a_problem_are_read_only(sparse: bool) -> None:
    found = problem(
        pi_b=PI_B, allowed=mask((1, 0)), start=0, reward_table=np.zeros((S, A, S)), sparse=sparse
    )
    arrays = [
        found.pi_b,
        found.start,
        found.terminal,
        found.allowed,
        found.reward_table,
        found.n_sa,
        found.counts.r_rest,
    ]
    arrays += [found.returns.n, found.returns.mean, found.returns.m2]
    for x in arrays:
        with pytest.raises(ValueError, match="read-only"):
            x[...] = 0


def test_what_the_user_passed_is_neither_changed_nor_locked() -> None:
    given_arrays: dict[str, Any] = {
        "pi_b": PI_B.copy(),
        "allowed": mask((2, 1)),
        "start": np.array([1.0, 0, 0, 0]),
        "reward_table": np.full((S, S), 3.0),
    }
    kept = {name: x.copy() for name, x in given_arrays.items()}
    problem(**given_arrays, masked_baseline="renormalise")
    for name, x in given_arrays.items():
        assert (x == kept[name]).all()
        assert x.flags.writeable


# Many problems at once


def several(n: int) -> list[surefoot.Problem]:
    world = worlds.garnet(np.random.default_rng(7), S, A)
    return [
        worlds.problem(world, worlds.sample(world, np.random.default_rng(i), 3, 8), start=0)
        for i in range(n)
    ]


@pytest.mark.parametrize("cells", [10**6, 60, 25, 1])
def test_blocks_cover_a_batch_in_order(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problems = several(7)
    batch = worlds.stacked(problems)
    monkeypatch.setattr("surefoot.core.arrays.BLOCK_CELLS", cells)
    blocks = batch.blocks
    assert len(blocks) == {10**6: 1, 60: 2, 25: 4, 1: 7}[cells]
    for name in ("pi_b", "start", "terminal", "allowed", "n_sa", "r"):
        joined = np.concatenate([getattr(block, name) for block in blocks])
        assert np.allclose(
            joined, np.stack([getattr(x, name) for x in problems]), rtol=1e-14, atol=0
        )
    assert np.array_equal(
        np.concatenate([b.returns.n for b in blocks]), np.stack([x.returns.n for x in problems])
    )


@pytest.mark.parametrize("cells", [10**6, 25])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("basic-rl", {}),
        ("adv-exact-soft-spibb", {"epsilon": 2, "delta": 1}),
        ("duipi", {"xi": 0.5}),
    ],
)
def test_a_batch_gives_what_each_problem_gives(
    cells: int, name: str, parameters: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    problems = several(7)
    algorithm = surefoot.algorithm(name, **parameters)
    alone = [surefoot.improve(x, algorithm) for x in problems]
    monkeypatch.setattr("surefoot.core.arrays.BLOCK_CELLS", cells)
    together = surefoot.improve(worlds.stacked(problems), algorithm)
    assert np.allclose(together.pi, [x.pi for x in alone], rtol=0, atol=1e-12)
    assert np.allclose(together.q, [x.q for x in alone], rtol=0, atol=1e-10)
    assert together.status.steps.tolist() == [int(x.status.steps) for x in alone]


def test_a_batch_may_have_two_leading_dimensions() -> None:
    problems = several(6)
    flat = worlds.stacked(problems)

    def shaped(x: np.ndarray) -> np.ndarray:
        return x.reshape(2, 3, *x.shape[1:])

    counts, given_returns = flat.counts, flat.returns
    square = dataclasses.replace(
        flat,
        counts=Counts(shaped(counts.n_sas), shaped(counts.r_sas), shaped(counts.r_rest), S, A),
        returns_given=Returns(
            shaped(given_returns.n), shaped(given_returns.mean), shaped(given_returns.m2)
        ),
        **{
            name: shaped(getattr(flat, name))
            for name in ("pi_b", "start", "terminal", "allowed", "reward_table")
        },
    )
    assert square.batch_shape == (2, 3)
    found = surefoot.improve(square, "basic-rl")
    assert np.allclose(found.pi, shaped(surefoot.improve(flat, "basic-rl").pi), rtol=0, atol=1e-12)
    assert found.status.converged.shape == (2, 3)


def test_one_problem_is_a_batch_of_one_to_algorithms() -> None:
    (block,) = problem(pi_b=PI_B).blocks
    assert block.pi_b.shape == (1, S, A)
    assert block.counts.n_sas.shape == (1, S, A, S)


def test_every_error_is_a_surefoot_error_and_a_value_error() -> None:
    for error in (BaselineError, LogError, ProblemError, UnknownNameError):
        assert issubclass(error, SurefootError)
        assert issubclass(error, ValueError)
