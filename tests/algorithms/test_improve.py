"""improve: the one door checks what comes back; names and parameters are checked before anything
runs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

import surefoot
from support import worlds
from surefoot import (
    ALGORITHMS,
    ParameterError,
    PolicyError,
    Problem,
    Solution,
    Status,
    UnknownNameError,
)
from surefoot.algorithms import Whole, parameters_of

S, A = 5, 3
DEFAULTS: dict[str, Any] = {
    "kappa": 0.1,
    "n_wedge": 3,
    "xi": 0.5,
    "delta": 0.9,
    "epsilon": 1.5,
    "c_b": 0.1,
}


def make_problem(seed: int = 1, **options: Any) -> Problem:
    """State 4 and action 2 of state 0 are never seen; action 1 of state 3 is forbidden."""
    rng = np.random.default_rng(seed)
    n = 60
    state = rng.integers(0, S - 1, n)
    action = rng.integers(0, A, n)
    action[(state == 0) & (action == 2)] = 0
    action[(state == 3) & (action == 1)] = 2
    allowed = np.ones((S, A), dtype=bool)
    allowed[3, 1] = False
    pi_b = np.tile([0.5, 0.3, 0.2], (S, 1))
    pi_b[3] = [0.5, 0.0, 0.5]
    log = {
        "state": state,
        "action": action,
        "reward": rng.random(n),
        "next_state": rng.integers(0, S - 1, n),
        "episode": np.arange(n),
    }
    return surefoot.problem(
        **log,
        **{
            "pi_b": pi_b,
            "allowed": allowed,
            "gamma": 0.9,
            "n_states": S,
            "reward_range": (0, 1),
            **options,
        },
    )


@dataclasses.dataclass(frozen=True)
class Fake(Whole):
    """Returns the baseline with some rows changed."""

    name: ClassVar[str] = "fake"
    taxonomy: ClassVar[str] = "neither"
    change: Callable[[np.ndarray], None]
    converged: bool = True

    def solve(self, problem: Problem) -> Solution:
        pi = problem.pi_b.copy()
        self.change(pi)
        n = pi.shape[0]
        return Solution(pi, np.zeros_like(pi), Status(np.full(n, self.converged), np.full(n, 7)))


def row(s: int, values: list[float]) -> Fake:
    def change(pi: np.ndarray) -> None:
        pi[-1, s] = values  # of the last problem of a batch

    return Fake(change)


# What comes back


def test_the_baseline_itself_passes() -> None:
    problem = make_problem()
    solution = surefoot.improve(problem, Fake(lambda pi: None))
    assert (solution.pi == problem.pi_b).all()
    assert solution.status.ok


def test_what_rounding_left_below_0_is_0() -> None:
    def row(pi: np.ndarray) -> None:
        pi[..., 2, :] = [-1e-16, 1 + 1e-16, 0.0]

    assert surefoot.improve(make_problem(), Fake(row)).pi.min() == 0


@pytest.mark.parametrize(
    "values",
    [
        [0.5, 0.3, 0.1],
        [0.5, 0.3, 0.3],
        [np.nan, 0.3, 0.2],
        [np.nan] * 3,
        [1.2, -0.2, 0.0],
        [np.inf, 0.0, 0.0],
        [0.0, 0.0, 0.0],
    ],
)
@pytest.mark.parametrize("batched", [False, True])
def test_a_row_that_is_no_probability_row_is_caught(values: list[float], batched: bool) -> None:
    problem = worlds.stacked([make_problem(i) for i in range(3)]) if batched else make_problem()
    with pytest.raises(
        PolicyError, match="fake returned a row that is not a probability row, first in state 2"
    ):
        surefoot.improve(problem, row(2, values))


def test_a_forbidden_action_is_caught() -> None:
    with pytest.raises(
        PolicyError, match="fake returned a row that uses a forbidden action, first in state 3"
    ):
        surefoot.improve(make_problem(), row(3, [0.5, 1e-12, 0.5]))


@pytest.mark.parametrize(("s", "values"), [(0, [0.4, 0.3, 0.3]), (4, [0.6, 0.2, 0.2])])
def test_a_pair_never_seen_that_rises_is_caught(s: int, values: list[float]) -> None:
    with pytest.raises(PolicyError, match=f"never seen, first in state {s}"):
        surefoot.improve(make_problem(), row(s, values))


def test_a_pair_never_seen_may_fall() -> None:
    assert surefoot.improve(make_problem(), row(0, [0.6, 0.4, 0.0])).pi[0, 2] == 0


def test_rounding_is_no_fault() -> None:
    surefoot.improve(make_problem(), row(1, [0.5 + 1e-12, 0.3, 0.2]))


def test_the_published_choice_in_unseen_states_is_let_through() -> None:
    problem = make_problem(unseen_states="first-action")
    assert surefoot.improve(problem, row(4, [1.0, 0.0, 0.0])).pi[4, 0] == 1
    with pytest.raises(PolicyError, match="forbidden"):
        surefoot.improve(problem, row(3, [0.5, 0.5, 0.0]))


def test_terminal_states_are_held_to_probability_rows_only() -> None:
    problem = surefoot.problem(
        state=[0, 1],
        action=[0, 1],
        reward=[0, 1],
        next_state=[1, 2],
        episode=[0, 0],
        terminal=[0, 1],
        gamma=0.9,
        n_actions=3,
    )
    surefoot.improve(problem, row(2, [0.0, 0.0, 1.0]))
    with pytest.raises(PolicyError, match="probability row, first in state 2"):
        surefoot.improve(problem, row(2, [0.0, 0.0, 0.0]))


# Status, never silence


def test_trouble_to_converge_is_in_status_repr_and_notes() -> None:
    solution = surefoot.improve(make_problem(), surefoot.algorithm("duipi", xi=0.5, max_steps=1))
    assert not solution.status.ok
    assert repr(solution.status) == "<NOT CONVERGED after 1 steps>"
    assert "NOT CONVERGED" in repr(solution)
    assert any("did not converge" in note for note in solution.notes)


def test_one_problem_of_a_batch_that_does_not_converge_is_counted() -> None:
    batch = worlds.stacked([make_problem(i) for i in range(3)])

    @dataclasses.dataclass(frozen=True)
    class Half(Whole):
        name: ClassVar[str] = "half"

        def solve(self, problem: Problem) -> Solution:
            status = Status(np.array([True, False, True]), np.array([2, 9, 4]))
            return Solution(problem.pi_b, problem.pi_b, status)

    solution = surefoot.improve(batch, Half())
    assert repr(solution.status) == "<NOT CONVERGED: 1 of 3 problems; 2 to 9 steps>"
    assert any("did not converge" in note for note in solution.notes)


def test_convergence_is_said_plainly() -> None:
    solution = surefoot.improve(make_problem(), "basic-rl")
    assert repr(solution.status).startswith("<converged after")
    assert not any("did not converge" in note for note in solution.notes)


def test_the_notes_of_a_problem_reach_the_solution() -> None:
    problem = make_problem(pi_b=None)
    solution = surefoot.improve(problem, "basic-rl")
    assert set(problem.notes) <= set(solution.notes)
    assert all(f"note: {note}" in repr(solution) for note in problem.notes)


def test_the_notes_of_an_algorithm_appear_once() -> None:
    class Talks(Whole):
        name = "talks"

        def solve(self, problem: Problem) -> Solution:
            one = np.ones(problem.pi_b.shape[0], dtype=int)
            return Solution(problem.pi_b, problem.pi_b, Status(one > 0, one), notes=("watch out",))

    assert surefoot.improve(make_problem(), Talks()).notes.count("watch out") == 1


def test_a_solution_knows_its_algorithm() -> None:
    algorithm = surefoot.algorithm("ramdp", kappa=0.1)
    assert surefoot.improve(make_problem(), algorithm).algorithm is algorithm


# Names


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("basic_rl", "basic-rl"),
        ("ramdb", "ramdp"),
        ("pi-b-spib", "pi-b-spibb"),
        ("soft-spibb", "exact-soft-spibb"),
        ("duipi-centered", "duipi-centred"),
        ("ramdp+pi-b-spib", "pi-b-spibb"),
    ],
)
def test_an_unknown_name_is_answered_with_near_ones(name: str, near: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        surefoot.algorithm(name)
    assert "no algorithm is called" in str(caught.value)
    assert repr(near) in str(caught.value)


@pytest.mark.parametrize(
    "name", ["zzz", "", "+", "ramdp+", "+pi-b-spibb", "ramdp+zzz", "zzz+pi-b-spibb"]
)
def test_a_name_like_no_other_points_to_the_list(name: str) -> None:
    with pytest.raises(UnknownNameError, match=r"surefoot\.ALGORITHMS lists all"):
        surefoot.algorithm(name)


@pytest.mark.parametrize("name", [None, 3, surefoot.ALGORITHMS["basic-rl"], ["basic-rl"]])
def test_a_name_is_text(name: Any) -> None:
    with pytest.raises(UnknownNameError, match="by name"):
        surefoot.algorithm(name)


def test_improve_takes_a_name() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'basic-rl'"):
        surefoot.improve(make_problem(), "basic-lr")
    with pytest.raises(ParameterError, match="ramdp needs kappa"):
        surefoot.improve(make_problem(), "ramdp")


def test_the_list_of_algorithms_is_complete_and_cannot_be_changed() -> None:
    names = {
        "basic-rl",
        "one-step",
        "ramdp",
        "r-min",
        "duipi",
        "duipi-centred",
        "mbie",
        "robust",
        "vi-lcb",
    }
    names |= {
        "pi-b-spibb",
        "pi-leq-b-spibb",
        "priced-soft-spibb",
        "shrunk",
        "factored",
        "certified-advantage",
        "one-step-certified-advantage",
        "planned-advantage",
        "screened-advantage",
        "hcpi",
    }
    soft = {
        f"{kind}{how}-soft-spibb" for kind in ("", "lower-", "adv-") for how in ("approx", "exact")
    }
    assert set(ALGORITHMS) == names | soft
    with pytest.raises(TypeError):
        ALGORITHMS["mine"] = object  # type: ignore[index]


# Composed names


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pi-b-spibb+ramdp", "'pi-b-spibb' cannot lend its values"),
        ("exact-soft-spibb+pi-b-spibb", "'exact-soft-spibb' cannot lend its values"),
        ("basic-rl+pi-b-spibb", "'basic-rl' cannot lend its values"),
        ("duipi+pi-b-spibb", "'duipi' cannot lend its values"),
        ("ramdp+vi-lcb", "'vi-lcb' does not restrict"),
        ("ramdp+ramdp", "'ramdp' does not restrict"),
        ("ramdp+one-step+exact-soft-spibb", "one penalising and one restricting"),
        # names of earlier versions
        ("one-step-exact-soft-spibb", "is written 'one-step+exact-soft-spibb'"),
        ("ramdp+vi-lcb+pi-b-spibb", "one penalising and one restricting"),
        ("ramdp++pi-b-spibb", "one penalising and one restricting"),
    ],
)
def test_a_composition_that_makes_no_sense_is_refused(name: str, said: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        surefoot.algorithm(name, kappa=1, n_wedge=2)
    assert said in str(caught.value)
    assert repr(name) in str(caught.value)


def test_the_parameters_of_both_parts_are_checked() -> None:
    name = "ramdp+exact-soft-spibb"
    with pytest.raises(ParameterError, match="ramdp needs kappa"):
        surefoot.algorithm(name, epsilon=1, delta=1)
    with pytest.raises(ParameterError, match="exact-soft-spibb needs epsilon, delta"):
        surefoot.algorithm(name, kappa=1)
    with pytest.raises(
        ParameterError,
        match="does not take 'n_wedge'; it takes delta, epsilon, error, g_max, kappa",
    ):
        surefoot.algorithm(name, kappa=1, epsilon=1, delta=1, n_wedge=3)
    with pytest.raises(ParameterError, match="exact-soft-spibb: epsilon must be"):
        surefoot.algorithm(name, kappa=1, epsilon=-1, delta=1)


def test_a_parameter_of_the_same_name_goes_to_both_parts() -> None:
    both = surefoot.algorithm("vi-lcb+exact-soft-spibb", c_b=0.1, delta=0.25, epsilon=1)
    assert (both.values.delta, both.limits.delta) == (0.25, 0.25)  # type: ignore[attr-defined]
    assert both.name == "vi-lcb+exact-soft-spibb"


# Parameters


def fields_of(name: str) -> list[Any]:
    return list(dataclasses.fields(ALGORITHMS[name]))


def owner(name: str) -> str:
    """The part of a name that has the parameters."""
    return str(ALGORITHMS[name].name)


def required(name: str) -> dict[str, Any]:
    fields = [f for f in fields_of(name) if f.default is dataclasses.MISSING]
    return {
        f.name: 0.4 if (name, f.name) == ("hcpi", "delta") else DEFAULTS[f.name] for f in fields
    }


NAMES = sorted(ALGORITHMS)
FIELDS = [(name, f.name) for name in NAMES for f in fields_of(name)]
NUMBERS = {
    "kappa",
    "n_wedge",
    "xi",
    "delta",
    "epsilon",
    "z",
    "shrink",
    "weight",
    "pool",
    "growth",
    "c_b",
    "g_max",
    "alpha",
    "max_steps",
    "share",
    "seed",
    "fewest_effective",
}
OUTSIDE: dict[str, list[Any]] = {
    "kappa": [-0.1, math.inf],
    "n_wedge": [-1],
    "xi": [-0.1, math.inf],
    "delta": [0, -0.1, 1.5, math.inf],
    "epsilon": [-0.1, -math.inf],
    "c_b": [-0.1, math.inf],
    "z": [-0.1, math.inf],
    "shrink": [-1, math.inf],
    "weight": [-1],
    "pool": [0, -1],
    "growth": [-0.1, math.inf],
    "g_max": [0, -1, math.inf],
    "alpha": [0, -1, math.inf],
    "max_steps": [0, -3, 2.5, math.inf],
    "error": ["Hoeffding", ""],
    "prior": ["bayes", ""],
    "published": [],
    "visits": ["all", ""],
    "estimator": ["wis", ""],
    "bound": ["t", ""],
    "share": [0, 1, 0.995],
    "seed": [-1, 0.5, math.inf],
    "propose": ["", "zzz", "ramdp", "ramdp kappa", "basic-rl kappa=1", "hcpi delta=0.1"],
    "fewest_effective": [-1, math.inf],
}
INSIDE: dict[str, list[Any]] = {
    "kappa": [0, 3],
    "n_wedge": [0, 2.5, math.inf],
    "xi": [0, 2],
    "delta": [1, 1e-9],
    "c_b": [0, 144],
    "z": [0, 2],
    "shrink": [0, 2.5],
    "weight": [0, math.inf],
    "pool": [1e-3, math.inf],
    "growth": [0, 0.5],
    "epsilon": [0, math.inf, Fraction(1, 3)],
    "g_max": [None, 40, 1e-3],
    "alpha": [1e-3, 7],
    "max_steps": [1, 10.0, np.int64(4)],
    "prior": ["bayesian", "frequentist"],
    "published": [True, False],
    "error": ["hoeffding", "transition", "mpeb", "hoeffding-thinned", "mpeb-thinned"],
    "visits": ["independent", "first", "thinned", "every"],
    "estimator": ["is", "pdis"],
    "bound": ["betting", "hoeffding", "bca"],
    "share": [0.01, 0.5],
    "seed": [0, 7, np.int64(4)],
    "propose": ["ramdp kappa=0.1", "ramdp+pi-b-spibb kappa=1 n_wedge=3"],
    "fewest_effective": [0, 30],
}
LIMITS: dict[
    tuple[str, str], Callable[[Any], bool]
] = {  # algorithms that take less of a parameter than others do
    ("certified-advantage", "error"): lambda value: value in ("hoeffding", "mpeb"),
    ("one-step-certified-advantage", "error"): lambda value: value in ("hoeffding", "mpeb"),
    ("planned-advantage", "error"): lambda value: value in ("hoeffding", "mpeb"),
    ("hcpi", "delta"): lambda value: value <= 0.5,
}


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_parameter_is_named_with_the_known_ones(name: str) -> None:
    with pytest.raises(ParameterError, match=f"{name} does not take 'zeta'") as caught:
        surefoot.algorithm(name, **required(name), zeta=1)
    for field in fields_of(name):
        assert field.name in str(caught.value)


@pytest.mark.parametrize("name", [n for n in NAMES if required(n)])
def test_a_missing_parameter_is_named(name: str) -> None:
    with pytest.raises(ParameterError, match=f"^{owner(name)} needs {', '.join(required(name))}$"):
        surefoot.algorithm(name)


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_a_parameter_in_range_is_kept_as_it_came(name: str, field: str) -> None:
    for value in (
        filter(LIMITS.get((name, field)), INSIDE[field])
        if (name, field) in LIMITS
        else INSIDE[field]
    ):
        made = surefoot.algorithm(name, **{**required(name), field: value})
        assert parameters_of(made)[field] == value


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_a_parameter_out_of_range_is_named_with_what_came(name: str, field: str) -> None:
    beyond = [
        value
        for value in INSIDE[field]
        if (name, field) in LIMITS and not LIMITS[name, field](value)
    ]
    for value in OUTSIDE[field] + beyond:
        with pytest.raises(ParameterError) as caught:
            surefoot.algorithm(name, **{**required(name), field: value})
        assert f"{owner(name)}: {field} must be" in str(caught.value)
        assert str(caught.value).endswith(f"got {value!r}")


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_a_parameter_of_another_kind_is_refused(name: str, field: str) -> None:
    wrong = [math.nan, "0.5", 1j, [0.5], {}, b"x"]
    wrong += [True, np.True_] if field in NUMBERS else [1, 0.0]
    wrong += [] if field == "g_max" else [None]
    for value in wrong:
        with pytest.raises(ParameterError, match=f"^{owner(name)}: {field} must be"):
            surefoot.algorithm(name, **{**required(name), field: value})


@pytest.mark.parametrize("name", NAMES)
def test_an_algorithm_is_frozen_and_compares_by_its_parameters(name: str) -> None:
    one, other = (surefoot.algorithm(name, **required(name)) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "x"  # type: ignore[misc]


@pytest.mark.parametrize("name", NAMES)
def test_the_problem_is_left_as_it_was(name: str) -> None:
    problem = worlds.in_columns(make_problem())
    kept = [
        x.copy()
        for x in (problem.counts.n_sas, problem.pi_b, problem.n_sa, problem.r, problem.weight)
    ]
    surefoot.improve(problem, surefoot.algorithm(name, **required(name)))
    for x, y in zip(
        kept,
        (problem.counts.n_sas, problem.pi_b, problem.n_sa, problem.r, problem.weight),
        strict=True,
    ):
        assert np.array_equal(x, y)
