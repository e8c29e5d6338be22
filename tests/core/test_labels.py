"""Sentences name states and actions by their labels where a log has them, whoever speaks; arrays
are named by their codes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot.algorithms import Whole, solve
from surefoot.core import Labels
from surefoot.core.errors import SurefootError
from surefoot.evidence import importance_sampling
from surefoot.evidence.row_bounds import SPIBBBound
from surefoot.logs import Log, read_log

STEPS = [("e", t, ("low", "mid", "high")[t % 3], ("keep", "try")[t % 2], 1.0) for t in range(24)]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Two episodes of three states and two actions, each pair seen."""
    rows = [(f"{e}{i}", *rest) for i in range(2) for e, *rest in STEPS]
    return read_log(
        logfiles.write(tmp_path / "log.csv", ("episode", "time", "state", "action", "reward"), rows)
    )


def pi(**rows: tuple[float, float]) -> np.ndarray:
    """A policy over the states high, low, mid and the actions keep, try."""
    return np.array([rows.get(name, (0.5, 0.5)) for name in ("high", "low", "mid")])


def said_by(work: Any) -> str:
    with pytest.raises(SurefootError) as raised:
        work()
    return str(raised.value)


def test_states_and_actions_are_named_by_label_or_code() -> None:
    labels = Labels(("low", ("a", 7)), (3, "try"))
    assert (labels.state(0), labels.state(np.int64(1)), labels.action(0)) == (
        "'low'",
        "'a, 7'",
        "'3'",
    )
    assert labels.pair(0, 1) == "action 'try' in state 'low'"
    assert Labels().pair(4, 2) == "action 2 in state 4"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pi_b": pi(low=(0.5, 0.6))}, "state 'low' has [0.5 0.6]"),
        ({"allowed": pi(mid=(0, 0)) > 0}, "state 'mid' has no allowed action"),
        ({"allowed": pi(mid=(0, 1)) > 0}, "first action 'keep' in state 'mid'"),
        (
            {
                "allowed": pi(mid=(0, 1)) > 0,
                "pi_b": pi(mid=(1, 0)),
                "masked_baseline": "renormalise",
            },
            "state 'mid': the baseline uses",
        ),
        ({"start": [0.5, 0.7, -0.2]}, "state 'mid' has -0.2"),
    ],
)
def test_a_problem_refuses_in_labels(log: Log, given: dict[str, Any], words: str) -> None:
    assert words in said_by(lambda: log.problem(0.9, **given))


def test_a_masked_baseline_is_named_in_labels(log: Log) -> None:
    """The mask may forbid what the log never did, and then the baseline may not do it either."""
    problem = log.problem(0.9)
    forbidden = pi(high=(1, 0)) > 0
    assert "first action 'try' in state 'high'" in said_by(
        lambda: replace(problem, allowed=forbidden)
    )


def test_importance_weights_speak_of_labels(log: Log) -> None:
    batch = log.batch()
    assert "action 'try' in state 'mid'" in said_by(
        lambda: importance_sampling(batch, pi(), pi(mid=(1, 0)), 0.9)
    )
    outside = log.problem(0.9).log
    assert outside is not None
    assert "state 'low' has [0.2 0.2]" in said_by(
        lambda: importance_sampling(outside, pi(low=(0.2, 0.2)), pi(), 0.9)
    )


def test_contradictions_between_rows_are_told_in_labels(log: Log) -> None:
    batch = log.batch()
    wrong = replace(batch, next_state=np.full(len(batch), 1))
    assert "(next state 'low', but row 1 is in state 'mid')" in str(wrong.contradictions())


@pytest.mark.parametrize("method", ["advantage", "spibb"])
def test_certificates_speak_of_labels(log: Log, method: str) -> None:
    problem = log.problem(0.9, pi(), reward_range=(0, 1))
    assert "state 'low'" in said_by(lambda: surefoot.certify(problem, pi(low=(0.7, 0.7)), method))
    forbidden = log.problem(
        0.9,
        pi(low=(1, 0)),
        allowed=pi(low=(1, 0)) > 0,
        masked_baseline="renormalise",
        reward_range=(0, 1),
    )
    assert "action 'try' in state 'low', which is not allowed" in said_by(
        lambda: surefoot.certify(forbidden, pi(), method)
    )


def test_an_unknown_pair_of_a_certificate_is_named(log: Log) -> None:
    problem = log.problem(0.9, pi(), reward_range=(0, 1))
    method = SPIBBBound(n_wedge=1000)
    assert "changes action 'keep' in state 'high'" in said_by(
        lambda: surefoot.certify(problem, pi(high=(1, 0)), method)
    )


def test_what_an_algorithm_does_wrong_is_named(log: Log) -> None:
    class Broken(Whole):
        name = "broken"

        def solve(self, problem: surefoot.Problem) -> surefoot.Solution:
            done = solve(problem, surefoot.algorithm("basic-rl"))
            return replace(done, pi=2 * done.pi)

    assert "first in state 'high'" in said_by(lambda: surefoot.improve(log.problem(0.9), Broken()))
