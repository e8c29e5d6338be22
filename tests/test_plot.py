"""surefoot.plot: every picture draws into given axes or new ones, and says what it shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")
import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes

import surefoot
from support import worlds
from surefoot import PolicyError, ProblemError
from surefoot.core.evidence import Evidence
from surefoot.evidence.confounding import Sensitivity
from surefoot.research.studies.results import SummaryRow


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    pyplot.close("all")


def problem() -> surefoot.Problem:
    rng = np.random.default_rng(0)
    world = worlds.random_mdp(rng, n_states=6, n_actions=3)
    return worlds.problem(world, worlds.sample(world, rng, 30, 20))


def rows() -> list[SummaryRow]:
    numbers = {"mean": 1.0, "mean_low": 0.9, "mean_high": 1.1}
    tail = {"cvar": 0.5, "cvar_low": 0.2, "cvar_high": 0.7}
    return [
        SummaryRow(
            benchmark="wet-chicken", size=n, algorithm=name, parameters="", trials=100,
            **numbers, **tail, worse_than_baseline=0.0, not_converged=0,
        )
        for n in (100, 1000) for name in ("basic-rl", "ramdp")
    ]  # fmt: skip


def held_up() -> Sensitivity:
    points = {x: Evidence(estimate=1 - x / 3, low=0.5 - x / 3) for x in (1.0, 2.0, 4.0)}
    return Sensitivity(vanishes_at=3.0, shown_up_to=1.5, curve=points)


PICTURES: dict[str, Any] = {
    "curve": lambda ax: surefoot.plot.curve(rows(), baseline=0.8, ax=ax),
    "cvar": lambda ax: surefoot.plot.curve(rows(), "cvar", ax=ax),
    "ecdf": lambda ax: surefoot.plot.ecdf({"a": [1, 2, 3], "b": [0, 5]}, baseline=1, ax=ax),
    "coverage": lambda ax: surefoot.plot.coverage(problem(), ax=ax),
    "difference": lambda ax: surefoot.plot.policy_difference(
        surefoot.improve(problem(), "basic-rl"), ax=ax
    ),
    "sensitivity": lambda ax: surefoot.plot.sensitivity(held_up(), ax=ax),
    "path": lambda ax: surefoot.plot.epsilon_path(problem(), epsilons=(0.1, 1.0), ax=ax),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_draws_into_given_axes_or_new_ones(name: str) -> None:
    _, mine = pyplot.subplots()
    given, new = PICTURES[name](mine), PICTURES[name](None)
    assert given is mine
    assert isinstance(new, Axes)
    assert new.get_xlabel()
    assert new.get_legend() is not None or name == "coverage"
    new.figure.canvas.draw()


def test_coverage_counts_pairs_and_rows() -> None:
    p = problem()
    ax = surefoot.plot.coverage(p)
    heights = [bar.get_height() for bar in ax.patches]
    assert sum(heights[:7]) == pytest.approx(1)
    assert sum(heights[7:]) == pytest.approx(1)
    visited = p.n_sa[p.n_sa.sum(axis=1) > 0]
    assert heights[0] == pytest.approx(float((visited == 0).mean()))


def test_the_difference_shows_the_states_that_change_most() -> None:
    solution = surefoot.improve(problem(), "basic-rl")
    ax = surefoot.plot.policy_difference(solution, most=2)
    policy = solution.policy
    moved = np.abs(policy.pi - policy.baseline).sum(axis=1) * policy.pi.any(axis=1)
    shown = [int(label.get_text()) for label in ax.get_yticklabels()]
    assert sorted(moved[shown], reverse=True) == sorted(moved, reverse=True)[:2]


def test_certificates_over_sizes() -> None:
    p = problem()
    found = surefoot.certify(p, p.pi_b, "advantage")
    ax = surefoot.plot.certificates({100: found, 1000: found}, gain=0.5)
    assert len(ax.get_lines()) == 3


def test_what_cannot_be_drawn_is_named() -> None:
    with pytest.raises(ProblemError, match='metric is "mean" or "cvar"'):
        surefoot.plot.curve(rows(), "median")
    with pytest.raises(PolicyError, match="no baseline beside it"):
        surefoot.plot.policy_difference(surefoot.Policy(pi=np.ones((2, 1))))


def test_the_sensitivity_is_drawn_as_it_was_found_or_says_why_there_is_none() -> None:
    ax = surefoot.plot.sensitivity(held_up())
    assert ax.get_lines()[0].get_ydata().tolist() == pytest.approx([2 / 3, 1 / 3, -1 / 3])
    with pytest.raises(ProblemError, match="not Markov"):
        surefoot.plot.sensitivity(Sensitivity(not_given="the states are not Markov"))
