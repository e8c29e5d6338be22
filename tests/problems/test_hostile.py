"""Hostile arguments: whatever is passed, `surefoot.problem` makes a valid Problem or says in
words what is wrong.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy import sparse

import surefoot
from surefoot import Problem, SurefootError

S, A, N = 4, 3, 5
# Two episodes: one ends in state 3, one is cut.
BASE: dict[str, Any] = {
    "state": [0, 1, 2, 0, 2],
    "action": [1, 2, 0, 0, 1],
    "reward": [1.0, -2.0, 0.5, 4.0, 0.25],
    "next_state": [1, 2, 3, 2, 1],
    "episode": [7, 7, 7, 3, 3],
    "time": [0, 1, 2, 0, 1],
    "terminal": [0, 0, 1, 0, 0],
    "truncated": [0, 0, 0, 0, 1],
    "pi_b": np.tile([0.5, 0.3, 0.2], (S, 1)),
    "gamma": 0.9,
    "start": 0,
    "n_states": S,
    "n_actions": A,
    "terminal_states": [3],
    "allowed": np.ones((S, A), dtype=bool),
    "reward_range": (-2, 4),
    "return_range": (-20, 40),
    "reward_table": np.zeros((S, S)),
    "unseen_states": "baseline",
    "ties": "baseline",
    "masked_baseline": "error",
    "cut_returns": "as-end",
    "sparse": False,
}
OPTIONAL = {
    "return_range",
    "reward_table",
    "reward_range",
    "pi_b",
    "truncated",
    "time",
    "allowed",
    "start",
    "sparse",
}
NAMED = {"unseen_states", "ties", "masked_baseline"}

SCALARS: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    2,
    3,
    4,
    -1,
    5,
    10**12,
    10**400,
    -(10**400),
    2**63,
    0.5,
    0.0,
    1.0,
    -0.0,
    2.5,
    1e300,
    1e308,
    -1e300,
    5e-324,
    np.nan,
    np.inf,
    -np.inf,
    1j,
    np.complex128(1),
    "",
    "a",
    "0.9",
    "baseline",
    "renormalise",
    "leave-out",
    "lowest-index",
    "first-action",
    b"x",
    {},
    {0: 1},
    set(),
    {3},
    frozenset({1, 2}),
    [],
    (),
    ...,
    object(),
    int,
    len,
    range(3),
    range(N),
    np.float32(0.5),
    np.int8(-3),
    np.uint64(2**63),
    np.bool_(True),
    np.str_("a"),
    slice(3),
    np.datetime64("2024-01-01"),
    np.datetime64("NaT", "s"),
    np.timedelta64(3, "s"),
    date(2024, 1, 1),
    Decimal("0.5"),
    Decimal("NaN"),
    Fraction(1, 2),
    np.dtype(float),
    np.array(None),
    np.array(0.5),
    np.array("x"),
    NotImplemented,
    np.longdouble("1e4000"),
    (x for x in (1, 2)),
    memoryview(b"12345"),
    bytearray(b"12345"),
    np.ma.masked,
    sparse.csr_array(np.eye(4)),
]
ELEMENTS: list[Any] = [*SCALARS[:-4], [0, 1], [[0]], np.zeros(2), "10", "9"]
DTYPES = [
    bool,
    np.int8,
    np.uint8,
    np.int64,
    np.uint64,
    np.float16,
    np.float32,
    float,
    np.longdouble,
    complex,
    str,
    "S3",
    object,
]
DTYPES += ["M8[s]", "m8[s]", [("x", float)]]
SHAPES = [
    (),
    (0,),
    (1,),
    (2,),
    (3,),
    (N,),
    (S,),
    (S, S),
    (S, A),
    (A, S),
    (S, A, S),
    (N, 1),
    (0, A),
    (S, 0),
    (S + 1, A),
    (1, S, A),
]


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """Arrays of all shapes and dtypes, with values that are wrong in some places, masked here
    and there.
    """
    shape, dtype = draw(st.sampled_from(SHAPES)), draw(st.sampled_from(DTYPES))
    values = np.array(draw(st.sampled_from([0, 1, 0.25, 1 / A, 1 / S, 3])))
    with np.errstate(all="ignore"):
        if isinstance(dtype, str) and dtype[0] in "mM":
            x = np.zeros(shape, dtype="i8").astype(dtype)
        elif isinstance(dtype, list):
            x = np.zeros(shape, dtype=dtype)
        else:
            x = np.full(shape, values).astype(dtype)
            if x.size and x.dtype.kind in "fcO" and draw(st.booleans()):
                x[np.unravel_index(draw(st.integers(0, x.size - 1)), shape)] = draw(
                    st.sampled_from([np.nan, np.inf, -np.inf, -1.0, 1e30, 1e200])
                )
    kind = draw(st.sampled_from(["plain", "plain", "plain", "masked", "list", "fortran", "locked"]))
    if kind == "masked":
        return np.ma.array(x, mask=draw(st.booleans()))
    if kind == "list":
        return x.tolist()
    if kind == "fortran":
        return np.asfortranarray(x)
    if kind == "locked":
        x.flags.writeable = False
    return x


MILD: list[Any] = [0, 1, 2, 3, -1, 0.0, 1.0, 0.5, True, False, "a", 1e-300, 1e59]


def lists() -> st.SearchStrategy[Any]:
    """Lists of anything, also as long as the log."""
    some = st.sampled_from(ELEMENTS)
    return st.one_of(
        st.lists(some, max_size=3), st.lists(some, min_size=N, max_size=N), st.tuples(some, some)
    )


def nearly(name: str) -> st.SearchStrategy[Any]:
    """The right value with one entry replaced."""
    right = BASE[name]
    flat = np.array(right, dtype=object)

    def spoiled(at: int, value: Any) -> Any:
        x = flat.copy()
        x.reshape(-1)[at] = value
        return x.tolist()

    if flat.size == 0:
        return st.just(right)
    return st.builds(
        spoiled, st.integers(0, flat.size - 1), st.sampled_from(MILD) | st.sampled_from(ELEMENTS)
    )


@st.composite
def hostile_calls(draw: st.DrawFn) -> dict[str, Any]:
    call = dict(BASE)
    for name in draw(st.sets(st.sampled_from(sorted(OPTIONAL)))):
        del call[name]
    for name in draw(
        st.sampled_from([1, 1, 2, 3]).flatmap(
            lambda n: st.permutations(sorted(BASE)).map(lambda x: x[:n])
        )
    ):
        call[name] = draw(values_for(name))
    return call


def values_for(name: str) -> st.SearchStrategy[Any]:
    if name in NAMED:  # compared with names; arrays are left out
        return st.sampled_from([x for x in SCALARS if not hasattr(x, "shape")])
    return st.one_of(
        nearly(name),
        st.sampled_from(SCALARS),
        nearly(name),
        arrays(),
        st.sampled_from(MILD),
        lists(),
    )


def check(problem: Problem) -> None:
    """What must hold of every Problem."""
    s, a = problem.n_states, problem.n_actions
    assert problem.pi_b.shape == problem.allowed.shape == problem.n_sa.shape == (s, a)
    assert problem.start.shape == problem.terminal.shape == (s,)
    assert (problem.pi_b >= 0).all()
    assert np.abs(problem.pi_b.sum(axis=-1) - 1).max() <= 1e-9
    assert not problem.pi_b[~problem.allowed & ~problem.terminal[:, None]].any()
    assert (problem.start >= 0).all()
    assert abs(problem.start.sum() - 1) <= 1e-9
    assert 0 <= problem.gamma <= 1
    assert -1e60 <= problem.return_range.lo <= problem.return_range.hi <= 1e60
    assert problem.n_sa.sum() == len(problem.log)
    assert np.isfinite(problem.r).all()
    assert not problem.n_sa[problem.terminal].any()


@given(hostile_calls())
@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@example({**BASE, "start": [np.nan, 1, 0, 0]})
@example({**BASE, "start": np.nan})
@example({**BASE, "gamma": 10**400})
@example({**BASE, "n_states": np.inf, "pi_b": None})
@example({**BASE, "terminal_states": [3.5]})
@example({**BASE, "state": np.array([2**63, 1, 2, 0, 2], dtype=np.uint64)})
@example(
    {**BASE, "reward": [1e308, -1e308, 1e308, 0, 0], "reward_range": None, "reward_table": None}
)
@example({**BASE, "pi_b": np.full((S, A), 1 / A, dtype=complex)})
@example({**BASE, "pi_b": np.tile([np.inf, -np.inf, 1.0], (S, 1))})
@example({**BASE, "reward_range": "04", "reward_table": None})
def test_whatever_comes_is_a_valid_problem_or_an_error_in_words(call: dict[str, Any]) -> None:
    try:
        problem = surefoot.problem(**call)
    except SurefootError as error:
        assert len(str(error).split()) >= 4
        return
    check(problem)


@given(hostile_calls())
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_was_let_in_can_be_solved_or_is_refused_in_words(call: dict[str, Any]) -> None:
    try:
        problem = surefoot.problem(**call)
        for algorithm in (
            "basic-rl",
            surefoot.algorithm("one-step+lower-exact-soft-spibb", epsilon=1, delta=1),
        ):
            solution = surefoot.improve(problem, algorithm)
            assert np.isfinite(solution.q).all()
    except SurefootError as error:
        assert len(str(error).split()) >= 4


@pytest.mark.parametrize("name", sorted(BASE))
def test_every_argument_stands_every_odd_scalar(name: str) -> None:
    for value in SCALARS:
        if name in NAMED and hasattr(value, "shape"):
            continue
        try:
            problem = surefoot.problem(**{**BASE, name: value})
        except SurefootError as error:
            assert len(str(error).split()) >= 4
        else:
            check(problem)


def test_the_plain_call_is_fine() -> None:
    check(surefoot.problem(**BASE))
