"""Certificates: each bound against a worked example and the truth, what is refused, and what a
certificate says of itself.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import worlds
from support.small_world import better, known, truth, world
from surefoot.algorithms.certified_advantage import OneStepCertifiedAdvantage
from surefoot.evidence import bound as certificate
from surefoot.evidence.certificates import CERTIFICATES, certify
from surefoot.evidence.delta_method import DeltaMethodBound
from surefoot.evidence.return_bounds import AdvantageBound
from surefoot.evidence.row_bounds import extreme_value, row_radius

FRESH = {"delta-method"}
ALL = [
    pytest.param(name, {"data": "fresh"} if name in FRESH else {}, id=name) for name in CERTIFICATES
]


def changed(name: str) -> surefoot.Solution:
    """A better policy of the small world, one that the certificate is for."""
    if name == "screened-advantage":
        return surefoot.improve(known(), surefoot.ScreenedAdvantage(0.05))
    return better()


def bandit(n: int, **options: Any) -> surefoot.Problem:
    """One decision, then the end: action 0 pays 0, action 1 pays 1, each tried n times; returns
    lie in [0, 2].
    """
    action = np.arange(2 * n) % 2
    rows = {
        "state": np.zeros(2 * n, dtype=int),
        "action": action,
        "reward": 1.0 * action,
        "next_state": np.ones(2 * n, dtype=int),
        "episode": np.arange(2 * n),
        "pi_b": np.full((2, 2), 0.5),
        "gamma": 0.9,
        "terminal_states": [1],
        "return_range": (0, 2),
        "start": 0,
    }
    return surefoot.problem(**{**rows, **options})


SHIFT = np.array([[0.4, 0.6], [0.5, 0.5]])  # a tenth of the mass to the better action
E = 2 * math.sqrt(
    math.log(2 * 2 / 0.05) / (2 * 50)
)  # Hoeffding's radius of 50 returns in [0, 2], two pairs, delta 0.05


def test_theorem_1_is_the_advantage_at_the_start_minus_epsilon_g_max_over_one_minus_gamma() -> None:
    found = certify(bandit(50), SHIFT, "theorem-1")
    assert found.bound == pytest.approx(0.1 - 0.2 * E / (1 - 0.9))
    assert certify(bandit(50), SHIFT, "theorem-1", where="every state").bound == pytest.approx(
        -0.2 * E / (1 - 0.9)
    )
    assert certify(bandit(50), SHIFT, "theorem-1", epsilon=0.3).bound == pytest.approx(
        0.1 - 0.3 / (1 - 0.9)
    )
    wide = bandit(50, return_range=(0, 6))  # g_max = 3
    assert certify(wide, SHIFT, "theorem-1").bound == pytest.approx(0.1 - 0.2 * 3 * E / (1 - 0.9))
    assert certify(wide, SHIFT, "theorem-1", epsilon=0.3).bound == pytest.approx(
        0.1 - 0.3 * 3 / (1 - 0.9)
    )
    assert found.label == "rigorous"


def test_the_advantage_bound_pays_the_error_once_at_the_start_and_gamma_over_one_minus_gamma_times_the_worst_state() -> (
    None
):
    for n in (20, 50):  # c is negative at 20, positive at 50
        c = 0.1 - 0.2 * E * math.sqrt(50 / n)
        found = certify(bandit(n), SHIFT, "advantage")
        assert found.bound == pytest.approx(c + 9 * min(0, c))
        assert found.bound >= certify(bandit(n), SHIFT, "theorem-1").bound


def test_the_certified_advantage_is_the_bound_at_the_start_and_zero_everywhere() -> None:
    n = 400
    e = 2 * math.sqrt(math.log(2 * 2 / 0.05) / (2 * n))
    pi = surefoot.improve(bandit(n), OneStepCertifiedAdvantage(0.05, "hoeffding")).pi
    found = certify(bandit(n), pi, "certified-advantage", error="hoeffding")
    assert found.bound == pytest.approx(0.5 - e)
    assert found.useful and not found.vacuous and found.changed == 1
    assert (found.n_smallest, found.n_typical) == (n, n)
    assert (
        certify(bandit(n), pi, "certified-advantage", error="hoeffding", where="every state").bound
        == 0
    )


def test_empirical_bernstein_certifies_returns_without_variance_from_fewer_data() -> None:
    bounds = [
        certify(bandit(1000), SHIFT, "advantage", error=error).bound
        for error in ("mpeb", "hoeffding")
    ]
    assert bounds[0] > bounds[1]


def test_the_spibb_bound_is_the_models_gain_minus_what_its_rows_may_be_wrong_by() -> None:
    problem = known()
    pi = surefoot.improve(problem, surefoot.algorithm("pi-b-spibb", n_wedge=100)).pi
    rho, rho_b = (
        float(surefoot.evaluate_at_start(problem.model, x, problem.start))
        for x in (pi, problem.pi_b)
    )
    n = problem.n_sa.min()
    r = math.sqrt(2 / n * (math.log(2**4 - 2) + math.log(12 * n * (n + 1) / 0.05)))
    found = certify(problem, pi, "spibb")
    assert found.bound == pytest.approx(rho - rho_b - 2 * problem.return_range.g_max * r / 0.5)
    assert found.label == "rigorous"
    by_state = np.broadcast_to(
        np.arange(4.0)[:, None], (4, 4)
    )  # rewards that do not depend on the successor: gamma v' alone varies
    log = worlds.sample(world(), np.random.default_rng(4), 4000, 12)
    log["reward"] = by_state[log["state"], 0]
    problem = worlds.problem(world(), log, reward_table=by_state)
    rho, rho_b = (
        float(surefoot.evaluate_at_start(problem.model, x, problem.start))
        for x in (pi, problem.pi_b)
    )
    assert certify(problem, pi, "spibb").bound == pytest.approx(
        rho - rho_b - 2 * 0.5 * problem.return_range.g_max * r / 0.5
    )


@pytest.mark.parametrize(
    ("radius", "successors", "label"),
    [("weissman", None, "rigorous"), ("two-successor", None, "approximate"), ("two-successor", 2, "rigorous"),
     ("clopper-pearson", 2, "rigorous"), ("clopper-pearson", 3, "approximate"), ("beta", 2, "Bayesian")],
)  # fmt: skip
def test_a_radius_for_two_successors_is_rigorous_only_where_two_are_declared(
    radius: str, successors: int | None, label: str
) -> None:
    pi = surefoot.improve(known(), surefoot.algorithm("pi-b-spibb", n_wedge=100)).pi
    assert certify(known(), pi, "spibb", radius=radius, successors=successors).label == label


def test_the_spibb_bound_says_where_the_baseline_uses_pairs_it_does_not_know() -> None:
    problem = known(60)
    middle = float(np.median(problem.n_sa))
    pi = surefoot.improve(problem, surefoot.algorithm("pi-b-spibb", n_wedge=middle)).pi
    found = certify(problem, pi, "spibb", n_wedge=middle)
    assert found.label == "approximate"
    assert any("unknown pairs" in x for x in found.assumptions)


def test_worst_and_best_case_are_reached_by_no_model_in_the_balls() -> None:
    """Random models in the L1 balls: none is worse than the worst case or better than the best."""
    problem, rng = known(60), np.random.default_rng(0)
    r = np.full(problem.pi_b.shape, 0.3)
    pi = surefoot.improve(problem, "basic-rl").pi
    low, high = (extreme_value(problem.blocks[0], pi, r, worst=x) for x in (True, False))
    p_hat = problem.model.p
    for _ in range(200):
        other = rng.dirichlet(np.full(4, 0.3), p_hat.shape[:2])
        step = np.minimum(1, r / np.maximum(abs(other - p_hat).sum(axis=-1), 1e-12))[..., None]
        p = p_hat + step * (other - p_hat)
        v = surefoot.evaluate(
            surefoot.known_model(p, np.einsum("sat,st->sa", p, world().reward), 0.5), pi
        )
        assert (v >= low - 1e-6).all()
        assert (v <= high + 1e-6).all()


def test_with_any_radius_the_robust_bound_is_no_lower_than_the_return_range_allows() -> None:
    problem = known(60)
    pi = surefoot.improve(problem, "basic-rl").pi
    low, high = (
        extreme_value(problem.blocks[0], pi, np.full(problem.pi_b.shape, 2.0), worst=x)
        for x in (True, False)
    )
    assert (low >= problem.return_range.lo).all()
    assert (high <= problem.return_range.hi).all()
    tight = surefoot.problem(
        **worlds.sample(world(), np.random.default_rng(4), 60, 12),
        pi_b=world().pi_b,
        gamma=0.5,
        start=0,
        reward_table=world().reward,
        return_range=(0.5, 7.5),
    )
    for delta in (1e-9, 0.05):
        assert certify(tight, pi, "robust", delta=delta).bound >= -7


def test_without_a_radius_the_worst_case_is_the_model() -> None:
    problem = known(60)
    pi = surefoot.improve(problem, "basic-rl").pi
    for worst in (True, False):
        value = extreme_value(problem.blocks[0], pi, np.zeros(problem.pi_b.shape), worst=worst)
        assert np.allclose(value, surefoot.evaluate(problem.model, pi), atol=1e-6)


def test_mbies_union_spends_half_as_much_as_the_robust_one() -> None:
    n = known().n_sa
    assert np.allclose(
        row_radius(known(), "weissman", n, 0.1, None, 2.0),
        row_radius(known(), "weissman", n, 0.05, None),
    )
    pi = surefoot.improve(known(), "basic-rl").pi
    assert certify(known(), pi, "mbie").bound < certify(known(), pi, "robust").bound


def test_the_delta_methods_deviation_is_that_of_the_models_gain_over_logs() -> None:
    pi = surefoot.improve(known(), "basic-rl").pi
    gains, deviations = [], []
    for seed in range(150):
        log = worlds.sample(world(), np.random.default_rng(seed), 150, 12)
        problem = worlds.problem(world(), log)
        rho, rho_b = (
            float(surefoot.evaluate_at_start(problem.model, x, problem.start))
            for x in (pi, problem.pi_b)
        )
        gains.append(rho - rho_b)
        if seed < 20:
            deviations.append(DeltaMethodBound(data="fresh").moments(problem, pi).sigma)
    assert np.mean(deviations) == pytest.approx(np.std(gains), rel=0.2)


@pytest.mark.parametrize("name", sorted(FRESH))
def test_visits_are_the_same_solved_for_and_step_by_step(name: str) -> None:
    solved, stepped = known(60), known(60, sparse=True)
    pi = surefoot.improve(solved, "basic-rl").pi
    expected = certify(solved, pi, name, data="fresh").bound
    assert certify(stepped, pi, name, data="fresh").bound == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("name", "options"), ALL)
def test_no_bound_lies_above_the_truth_on_an_ample_log(name: str, options: dict[str, Any]) -> None:
    found = certify(known(), changed(name), name, **options)
    assert found.bound <= truth(changed(name).pi)[0] + 1e-9
    assert found.changed > 0
    assert str(found).startswith("v^pi - v^{pi_b}")


@pytest.mark.parametrize(("name", "options"), ALL)
def test_the_baseline_itself_gets_a_bound_of_zero_that_is_not_called_useful(
    name: str, options: dict[str, Any]
) -> None:
    found = certify(known(), known().pi_b, name, **options)
    assert found.bound == 0
    assert not found.useful
    assert found.changed == 0


@pytest.mark.parametrize(("name", "options"), ALL)
def test_a_batch_an_estimated_baseline_and_gamma_one_are_refused(
    name: str, options: dict[str, Any]
) -> None:
    problem = known(60)
    many = worlds.stacked([problem, problem])
    with pytest.raises(surefoot.NotAvailableError, match="one problem at a time"):
        certify(many, many.pi_b, name, **options)
    with pytest.raises(surefoot.NotAvailableError, match="estimated"):
        certify(dataclasses.replace(problem, pi_b_estimated=True), problem.pi_b, name, **options)
    with pytest.raises(surefoot.NotAvailableError, match="gamma = 1"):
        certify(bandit(5, gamma=1.0), SHIFT, name, **options)


@pytest.mark.parametrize("name", sorted(FRESH))
def test_training_data_are_refused_where_fresh_data_are_needed(name: str) -> None:
    with pytest.raises(surefoot.NotAvailableError, match="fresh"):
        certify(known(), better(), name)


def test_the_conditions_are_checked_on_the_policy_whichever_algorithm_made_it() -> None:
    problem = bandit(50)
    worse = SHIFT[:, ::-1]
    with pytest.raises(surefoot.PolicyError, match="not advantageous"):
        certify(problem, worse, "theorem-1")
    with pytest.raises(surefoot.PolicyError, match="not constrained"):
        certify(problem, SHIFT, "theorem-1", epsilon=0.01)
    with pytest.raises(surefoot.PolicyError, match="no advantage"):
        certify(bandit(20), SHIFT, "certified-advantage")
    with pytest.raises(surefoot.PolicyError, match="unknown at n_wedge"):
        certify(problem, SHIFT, "spibb", n_wedge=50)
    with pytest.raises(surefoot.PolicyError, match="no probability row"):
        certify(problem, 2 * SHIFT, "advantage")
    with pytest.raises(surefoot.PolicyError, match=r"\[S, A\]"):
        certify(problem, SHIFT[:1], "advantage")


def test_a_log_that_the_baseline_cannot_have_made_is_refused() -> None:
    with pytest.raises(surefoot.NotAvailableError, match="baseline never does"):
        certify(bandit(50, pi_b=np.array([[1.0, 0.0], [0.5, 0.5]])), SHIFT, "advantage")


def test_a_masked_action_and_a_renormalised_baseline_are_refused() -> None:
    mask = np.array([[True, False], [True, True]])
    masked = {
        "allowed": mask,
        "masked_baseline": "renormalise",
        "reward_table": np.array([[0.0, 1.0], [0.0, 0.0]]),
        "reward": np.ones(10),
    }
    problem = bandit(5, **masked)
    with pytest.raises(surefoot.PolicyError, match="action 1 in state 0, which is not allowed"):
        certify(problem, SHIFT, "robust")
    for name in ("certified-advantage", "screened-advantage", "advantage", "theorem-1"):
        with pytest.raises(surefoot.NotAvailableError, match="returns of another policy"):
            certify(problem, problem.pi_b, name)
    assert certify(problem, problem.pi_b, "robust").bound == 0


def test_unknown_names_and_parameters_are_named() -> None:
    with pytest.raises(surefoot.UnknownNameError, match="did you mean 'theorem-1'"):
        certify(bandit(5), SHIFT, "theorem1")
    with pytest.raises(surefoot.ParameterError, match="does not take 'epsilon'"):
        certify(bandit(5), SHIFT, "robust", epsilon=1)
    with pytest.raises(surefoot.ParameterError, match="delta"):
        certify(bandit(5), SHIFT, "robust", delta=0)
    with pytest.raises(surefoot.ParameterError, match="where"):
        certify(bandit(5), SHIFT, "spibb", where="every state")


def test_an_observed_return_range_makes_a_bound_approximate() -> None:
    problem = bandit(50, return_range=None)
    found = certify(problem, SHIFT, "advantage")
    assert found.label == "approximate"
    assert any("observed" in x for x in found.assumptions)


@pytest.mark.parametrize(("name", "options"), ALL)
def test_every_certificate_says_that_the_state_must_say_enough_and_which_range_it_relies_on(
    name: str, options: dict[str, Any]
) -> None:
    said = certify(known(), changed(name), name, **options).assumptions
    assert any("in episodes to come as in the log" in x for x in said)
    assert any("no return from any state on lies outside" in x for x in said)
    assert ("there is no state but the 4 of the problem" in said) == (name != "delta-method")


def test_a_range_that_holds_only_if_no_episode_ends_says_so() -> None:
    n = 200
    log = {
        "state": np.arange(n) % 2,
        "action": np.arange(n) // 2 % 2,
        "reward": np.full(n, 0.5),
        "next_state": 1 - np.arange(n) % 2,
        "episode": np.zeros(n),
        "pi_b": np.full((2, 2), 0.5),
        "gamma": 0.5,
        "start": 0,
    }
    pi = np.array([[0.4, 0.6], [0.5, 0.5]])
    # rewards of 0.5 are worth 1 for ever, and a single one is not
    ends = "no episode ever ends: the problem has no terminal state"
    assert (
        ends in certify(surefoot.problem(**log, reward_range=(0.5, 1)), pi, "advantage").assumptions
    )
    assert (
        ends
        not in certify(surefoot.problem(**log, reward_range=(0, 1)), pi, "advantage").assumptions
    )


def test_a_log_as_large_as_said_to_be_needed_makes_the_bound_useful() -> None:
    found = certify(bandit(50), SHIFT, "theorem-1")
    assert found.bound < 0
    needed = int(found.data_needed / 2)
    assert certify(bandit(needed), SHIFT, "theorem-1").useful
    assert not certify(bandit(needed // 4), SHIFT, "theorem-1").useful
    assert certify(bandit(50), SHIFT, "theorem-1", where="every state").data_needed == math.inf


def test_a_bound_below_the_return_range_is_called_vacuous() -> None:
    found = certify(bandit(3), SHIFT, "spibb")
    assert found.vacuous
    assert not certify(bandit(50), SHIFT, "theorem-1").vacuous


@pytest.mark.parametrize("error", ["hoeffding", "mpeb"])
def test_in_a_small_world_the_certified_gain_is_violated_in_at_most_a_delta_share_of_logs(
    error: str,
) -> None:
    """Two decisions and a coin: the least policy that is certified, many logs."""
    violated, changed, rng = 0, 0, np.random.default_rng(0)
    for _ in range(150):
        n = 600
        action = rng.integers(0, 2, n)
        reward = (rng.random(n) < np.where(action == 1, 0.62, 0.5)).astype(float)
        problem = surefoot.problem(
            state=np.zeros(n, int),
            action=action,
            reward=reward,
            next_state=np.ones(n, int),
            episode=np.arange(n),
            gamma=0.5,
            pi_b=np.full((2, 2), 0.5),
            terminal_states=[1],
            return_range=(0, 1),
            start=0,
        )
        pi = surefoot.improve(problem, OneStepCertifiedAdvantage(0.2, error)).pi
        found = certify(problem, pi, "certified-advantage", delta=0.2, error=error)
        changed += found.changed > 0
        violated += found.bound > 0.12 * (pi[0, 1] - 0.5) + 1e-12
    assert violated <= 0.2 * 150
    assert changed > (20 if error == "hoeffding" else 0)


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", ["wet-chicken", "random-mdps"])
def test_rigorous_bounds_are_violated_in_at_most_a_delta_share_of_simulated_logs(
    benchmark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Path(__file__).parents[2] / "measurements" / "certificates.py"
    spec = importlib.util.spec_from_file_location("certificates_benchmark", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module  # dataclasses look their module up
    monkeypatch.setattr(
        certificate, "_data_needed", certificate._data_needed
    )  # the benchmark leaves it out: put it back afterwards
    spec.loader.exec_module(module)
    cases = [c.label for c in module.CASES if c.method not in FRESH]
    cell = module.Cell(benchmark, 1000 if benchmark == "wet-chicken" else 50, None, 1)
    found = module.measured(cell, [0.2], cases, module.Work(12, 1))
    rows = list(module.validity(cell, [0.2], cases, found))
    assert [x.certificate for x in rows] == cases
    assert all(x.violated <= 0.2 * x.data_sets for x in rows)
    assert any(x.changed == 12 for x in rows)
    path = tmp_path / "validity.csv"
    module._written(iter(rows), str(path), header=True)
    assert module.table(path).count("|\n| ") >= len(cases) - 1


def test_a_log_that_another_policy_made_is_refused_by_bounds_on_returns_and_not_by_bounds_on_rows() -> (
    None
):
    rng = np.random.default_rng(0)
    n = 400
    columns = {
        "state": np.zeros(n, int),
        "action": (rng.random(n) < 0.3).astype(int),
        "next_state": np.ones(n, int),
        "episode": np.arange(n),
    }
    pi = np.array([[0.5, 0.5], [0.5, 0.5]])

    def posed(p: float) -> surefoot.Problem:
        return surefoot.problem(
            **columns,
            reward=rng.random(n),
            gamma=0.5,
            pi_b=np.array([[1 - p, p], [0.5, 0.5]]),
            terminal_states=[1],
            return_range=(0, 1),
            start=0,
        )

    assert certify(posed(0.3), pi, "advantage").label == "rigorous"
    with pytest.raises(surefoot.NotAvailableError, match="cannot have made this log"):
        certify(posed(0.9), pi, "advantage")
    assert certify(posed(0.9), pi, "robust").bound < 0


def test_parameters_beside_a_certificate_that_has_its_own_are_refused() -> None:
    with pytest.raises(surefoot.ParameterError, match="has its parameters already"):
        certify(bandit(400), SHIFT, AdvantageBound(), delta=0.1)
    assert certify(bandit(400), SHIFT, AdvantageBound(delta=0.1)).delta == 0.1
