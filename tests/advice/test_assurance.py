"""Assurance of an improvement: the certificate that fits its algorithm, a proof where there is
one, and plain words.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from support.settings import EVERY, make
from surefoot.advice import assure, chosen_algorithm, fitting
from surefoot.advice.assurance import assurance_lines, assurance_summary, proof
from surefoot.logs import read_log, read_policy


def bandit(n: int = 1200, **options: Any) -> surefoot.Problem:
    """One decision, then the end: action 1 pays 1 with probability 0.8, action 0 with 0.3; both
    tried alike.
    """
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, n)
    return surefoot.problem(
        state=np.zeros(n, dtype=int),
        action=action,
        reward=(rng.random(n) < 0.3 + 0.5 * action) * 1.0,
        next_state=np.ones(n, dtype=int),
        episode=np.arange(n),
        gamma=0.9,
        terminal_states=[1],
        **{"pi_b": np.full((2, 2), 0.5), "reward_range": (0, 1), "return_range": (0, 1), **options},
    )


def assured(problem: surefoot.Problem, name: str, **options: Any) -> Any:
    algorithm = chosen_algorithm(problem, name)
    return assure(problem, surefoot.improve(problem, algorithm), algorithm, **options)


def words(found: Any) -> str:
    return "\n".join(assurance_lines(assurance_summary(found)))


@pytest.mark.parametrize("name", EVERY)
def test_every_algorithm_has_a_certificate_to_try(name: str) -> None:
    assert all(method in surefoot.CERTIFICATES for method, _ in fitting(make(name)))
    assert fitting(make(name))


def test_an_algorithm_is_given_the_bound_of_its_own_kind() -> None:
    first = {name: fitting(make(name))[0][0] for name in EVERY}
    assert (
        first["certified-advantage"] == first["ramdp+certified-advantage"] == "certified-advantage"
    )
    assert first["adv-exact-soft-spibb"] == first["one-step-lower-exact-soft-spibb"] == "theorem-1"
    assert (first["pi-b-spibb"], first["mbie"], first["robust"]) == ("spibb", "mbie", "robust")
    assert (
        first["pi-leq-b-spibb"]
        == first["lower-exact-soft-spibb"]
        == first["duipi"]
        == first["hcpi"]
        == "advantage"
    )
    made = surefoot.algorithm("certified-advantage", delta=0.3, error="hoeffding", visits="first")
    assert fitting(made) == (
        ("certified-advantage", {"delta": 0.3, "error": "hoeffding", "visits": "first"}),
    )


@pytest.mark.parametrize("name", ["certified-advantage", "lower-exact-soft-spibb"])
def test_a_useful_certificate_is_said_in_words(name: str) -> None:
    found = assured(bandit(), name)
    assert found.certificate.useful and found.certificate.bound < 0.25  # the truth
    assert "USEFUL, it is proved to be no worse" in words(found)


def test_an_algorithm_with_a_proof_of_its_own_is_supported_by_it_from_all_data() -> None:
    problem = bandit()
    solution, why = proof(problem, chosen_algorithm(problem, "certified-advantage"))
    assert np.allclose(
        solution.pi, surefoot.improve(problem, chosen_algorithm(problem, "certified-advantage")).pi
    )
    assert "proved (certified-advantage, rigorous)" in why
    assert proof(problem, chosen_algorithm(problem, "lower-exact-soft-spibb")) is None
    assert (
        proof(problem, chosen_algorithm(problem, "certified-advantage", {"delta": 0.3})) is None
    )  # the word promises 5 %
    assert proof(bandit(40), chosen_algorithm(problem, "certified-advantage")) is None
    assert (
        proof(
            bandit(reward_range=None, return_range=None),
            chosen_algorithm(problem, "certified-advantage"),
        )
        is None
    )  # only observed


def test_an_estimated_baseline_and_a_doubt_are_reasons_in_one_line() -> None:
    found = assured(bandit(pi_b=None, n_states=2, n_actions=2), "basic-rl")
    assert "certified nothing: advantage: the baseline is estimated" in words(found)
    found = assured(bandit(), "basic-rl", doubt="somebody else made it")
    assert words(found).splitlines() == ["certified nothing: somebody else made it"]


def test_a_large_problem_is_passed_over_with_a_sentence() -> None:
    found = assured(bandit(sparse=True), "pi-b-spibb")
    assert found.certificate is None
    assert words(found).count("the problem is large") == 1


def test_the_worst_case_over_many_states_is_not_computed_unasked() -> None:
    found = assured(bandit(n_states=102, pi_b=np.full((102, 2), 0.5)), "robust")
    assert "certified nothing: robust: the worst case over 102 states takes long" in words(found)


def test_a_vacuous_bound_is_called_vacuous() -> None:
    assert "VACUOUS, it says no more than the range of returns" in words(
        assured(bandit(40), "pi-b-spibb")
    )
    pi_b = np.tile([0.495, 0.495, 0.01], (2, 1))
    never = bandit(200, pi_b=pi_b, n_actions=3)  # action 2 is never tried, and loses its mass
    assert "certified nothing (advantage: VACUOUS): it moves probability of pairs" in words(
        assured(never, "basic-rl")
    )


def test_a_bound_that_does_not_apply_leaves_its_reason_and_the_place_to_the_next() -> None:
    found = assured(logfiles.random_problem(1, n=2000, episodes=200), "adv-exact-soft-spibb")
    assert found.certificate.method == "advantage"
    assert len(found.refused) == 1 and "theorem-1: not advantageous" in found.refused[0]


def small_log(folder: Path) -> tuple[Any, surefoot.Problem, Path]:
    path = logfiles.visits(folder / "log.csv", n=400)
    log = read_log(path)
    return (
        log,
        log.problem(
            0.9,
            read_policy(logfiles.coin(folder / "rule.csv", 0.5), log, unknown_states="ignore"),
            return_range=(0, 1),
        ),
        path,
    )


def test_improve_stores_the_certificate_and_the_held_out_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    *_, path = small_log(tmp_path)
    given = (
        "--gamma",
        0.9,
        "--baseline",
        tmp_path / "rule.csv",
        "--return-range",
        "0,1",
        "--out",
        tmp_path / "out",
    )
    code, text, _ = logfiles.run(monkeypatch, capsys, "improve", path, *given)
    kept = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert code == 0
    assert (kept["certificate"]["method"], kept["verdict"]) == ("advantage", "supported")
    assert (kept["worth"]["held_out"]["units"], kept["worth"]["held_out"]["units_tested"]) == (
        400,
        200,
    )
    assert "certified v^pi - v^{pi_b} at the start >= " in text
