"""Certified-advantage improvement: the row problem against a linear program, the closed form,
and what both promise.
"""

from __future__ import annotations

import dataclasses

import array_api_strict
import numpy as np
import pytest
from scipy.optimize import linprog

import surefoot
from support import worlds
from surefoot import Returns
from surefoot.algorithms.certified_advantage import (
    CertifiedAdvantage,
    CertifiedTrust,
    OneStepCertifiedAdvantage,
)
from surefoot.evidence.certificates import certify
from surefoot.evidence.return_evidence import evidence

BOTH = (CertifiedAdvantage, OneStepCertifiedAdvantage)


def random_row(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    a = int(rng.integers(2, 7))
    b = rng.dirichlet(np.ones(a))
    b[rng.random(a) < 0.2] = 0
    b = b / b.sum() if b.sum() > 0 else np.eye(a)[0]
    e = rng.random(a) * rng.choice([0.05, 0.3, 1.0])
    e[rng.random(a) < 0.2] = np.inf
    return rng.random(a) * 4, b, np.where(e < np.inf, rng.random(a) * 4, 0.0), e


def trust_of(b: np.ndarray, w: np.ndarray, e: np.ndarray) -> CertifiedTrust:
    return CertifiedTrust(b[None], w[None], e[None], (e < np.inf)[None], 0.0)


def by_lp(q: np.ndarray, b: np.ndarray, w: np.ndarray, e: np.ndarray) -> float:
    """max q . pi over (pi, t): |pi - b| <= t,  w . (pi - b) >= e . t."""
    a, finite = len(q), np.where(np.isinf(e), 0.0, e)
    eye = np.eye(a)
    above = np.block([[eye, -eye], [-eye, -eye], [-w[None], finite[None]]])
    bounds = [(x, x) if np.isinf(k) else (0, 1) for x, k in zip(b, e, strict=True)] + [
        (0, None)
    ] * a
    found = linprog(
        np.concatenate([-q, np.zeros(a)]), A_ub=above, b_ub=np.concatenate([b, -b, [-(w @ b)]]),
        A_eq=np.concatenate([np.ones(a), np.zeros(a)])[None], b_eq=[1.0], bounds=bounds,
    )  # fmt: skip
    return float(-found.fun)


def test_the_multi_step_row_is_the_optimum_of_the_linear_program() -> None:
    rng = np.random.default_rng(0)
    for _ in range(120):
        q, b, w, e = random_row(rng)
        trust = trust_of(b, w, e)
        pi = trust.step(q[None], b[None])[0]
        assert q @ pi == pytest.approx(by_lp(q, b, w, e), abs=1e-7)
        assert trust.c((pi - b)[None])[0] >= -1e-13
        assert pi.sum() == pytest.approx(1, abs=1e-13)
        assert (pi >= -1e-15).all()


def test_the_one_step_row_has_the_largest_certified_advantage_of_all_rows() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        _, b, w, e = random_row(rng)
        trust = trust_of(b, w, e)
        best = trust.c(trust.best_move(w[None], 1.0))[0]
        movable = np.where(e < np.inf, b, 0.0)
        others = rng.dirichlet(np.full(len(b), 0.5), 200) * movable.sum()
        others = np.where(e < np.inf, others, 0.0)
        others[:, np.isinf(e)] = b[np.isinf(e)]
        if (e < np.inf).any():
            many = CertifiedTrust(
                *(np.broadcast_to(x, others.shape) for x in (b, w, e, e < np.inf)), 0.0
            )
            assert best >= many.c(others - b).max() - 1e-12
        assert best >= 0


def two_actions(n: int, gap: float = 1.0) -> surefoot.Problem:
    """One decision, then the end: action 0 pays 0, action 1 pays `gap`, each tried n times;
    returns lie in [0, 2].
    """
    action = np.arange(2 * n) % 2
    return surefoot.problem(
        state=np.zeros(2 * n, dtype=int),
        action=action,
        reward=gap * action,
        next_state=np.ones(2 * n, dtype=int),
        episode=np.arange(2 * n),
        pi_b=np.full((2, 2), 0.5),
        gamma=0.9,
        terminal_states=[1],
        return_range=(0, 2),
    )


@pytest.mark.parametrize("cls", BOTH)
def test_the_baseline_is_kept_until_the_gap_is_larger_than_both_errors(cls: type) -> None:
    # Hoeffding: 2 sqrt( ln(4/0.1) / (2n) ) for each, so that the gap of 1 is proved from n = 30 on.
    enough = int(np.ceil(8 * np.log(2 * 2 / 0.1)))
    assert np.array_equal(
        surefoot.improve(two_actions(enough - 1), cls(0.1, "hoeffding")).pi[0], [0.5, 0.5]
    )
    assert np.array_equal(
        surefoot.improve(two_actions(enough + 1), cls(0.1, "hoeffding")).pi[0], [0, 1]
    )


@pytest.mark.parametrize("cls", BOTH)
def test_what_it_returns_has_a_certified_advantage_in_every_state(cls: type) -> None:
    world = worlds.garnet(np.random.default_rng(3), 4, 3, gamma=0.5)
    problem = worlds.problem(world, worlds.sample(world, np.random.default_rng(4), 4000, 12))
    solution = surefoot.improve(problem, cls(0.1, "mpeb"))
    found = evidence(problem, 0.1, error="mpeb")
    move = solution.pi - problem.pi_b
    c = (np.where(move == 0, 0, found.mean) * move).sum(-1) - (
        np.where(move == 0, 0, found.radius) * abs(move)
    ).sum(-1)
    assert (c >= 0).all()
    assert (move != 0).any()
    assert (
        surefoot.evaluate(world.model, solution.pi) >= surefoot.evaluate(world.model, world.pi_b)
    ).all()


def stacked() -> tuple[surefoot.Problem, list[surefoot.Problem]]:
    made = []
    for seed in range(3):
        world = worlds.garnet(np.random.default_rng(seed), 5, 3, gamma=0.6)
        log = worlds.sample(world, np.random.default_rng(seed + 9), 400, 10)
        made.append(worlds.problem(world, log, reward_table=None, reward_range=(0, 4)))
    return worlds.stacked(made), made


@pytest.mark.parametrize("cls", BOTH)
def test_a_batch_gives_what_each_problem_alone_gives(cls: type) -> None:
    together, alone = stacked()
    algorithm = cls(0.5, "hoeffding", visits="every")
    found = surefoot.improve(together, algorithm)
    assert (found.pi != together.pi_b).any()
    for i, problem in enumerate(alone):
        assert np.allclose(found.pi[i], surefoot.improve(problem, algorithm).pi, atol=1e-12)


@pytest.mark.parametrize("cls", BOTH)
def test_array_api_strict_gives_what_numpy_gives(cls: type) -> None:
    together, _ = stacked()
    change = lambda x: None if x is None else array_api_strict.asarray(np.array(x))  # noqa: E731
    counts, returns = together.counts, together.returns
    strict = dataclasses.replace(
        together,
        counts=surefoot.Counts(
            change(counts.n_sas), change(counts.r_sas), change(counts.r_rest), 5, 3
        ),
        pi_b=change(together.pi_b),
        start=change(together.start),
        terminal=change(together.terminal),
        allowed=change(together.allowed),
        returns_given=Returns(change(returns.n), change(returns.mean), change(returns.m2)),
    )
    algorithm = cls(0.5, "hoeffding", visits="every")
    found = surefoot.improve(strict, algorithm)
    assert np.allclose(
        np.asarray(found.pi._array), surefoot.improve(together, algorithm).pi, atol=1e-9
    )


@pytest.mark.parametrize("cls", BOTH)
def test_a_pair_never_seen_keeps_its_probability(cls: type) -> None:
    world = worlds.garnet(np.random.default_rng(0), 6, 4, gamma=0.5)
    problem = worlds.problem(world, worlds.sample(world, np.random.default_rng(1), 30, 5))
    unseen = problem.n_sa == 0
    assert unseen.any()
    assert np.array_equal(
        surefoot.improve(problem, cls(1.0, "hoeffding")).pi[unseen], problem.pi_b[unseen]
    )


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize(
    "wrong",
    [{"delta": 0}, {"delta": 2}, {"delta": 0.1, "error": "e"}, {"delta": 0.1, "visits": "all"}],
)
def test_a_wrong_parameter_raises(cls: type, wrong: dict[str, object]) -> None:
    with pytest.raises(surefoot.ParameterError):
        cls(**wrong)


def test_without_a_log_independent_returns_are_refused_in_words() -> None:
    together, _ = stacked()
    with pytest.raises(surefoot.NotAvailableError, match='visits="every"'):
        surefoot.improve(together, CertifiedAdvantage(0.1))


@pytest.mark.parametrize("cls", BOTH)
def test_the_certificate_by_its_name_accepts_what_the_algorithm_returns_at_the_same_delta(
    cls: type,
) -> None:
    world = worlds.garnet(np.random.default_rng(3), 4, 3, gamma=0.5)
    problem = worlds.problem(world, worlds.sample(world, np.random.default_rng(4), 4000, 12))
    solution = surefoot.improve(problem, cls(0.1))
    found = certify(problem, solution, "certified-advantage", delta=0.1)
    assert found.useful
    assert (
        found.bound
        == certify(problem, solution, "certified-advantage", delta=0.1, error=cls(0.1).error).bound
    )
    worse = (
        2 * problem.pi_b - solution.pi
    )  # the same moves the other way: what is proved to help is proved to harm
    with pytest.raises(surefoot.PolicyError, match="prove no advantage"):
        certify(
            problem,
            np.clip(worse, 0, 1) / np.clip(worse, 0, 1).sum(-1, keepdims=True),
            "certified-advantage",
            delta=0.1,
        )


def test_evidence_read_once_is_the_same_for_another_delta() -> None:
    world = worlds.garnet(np.random.default_rng(3), 4, 3, gamma=0.5)
    log = worlds.sample(world, np.random.default_rng(4), 300, 12)
    problem, again = worlds.problem(world, log), worlds.problem(world, log)
    first = evidence(problem, 0.1)
    second = dataclasses.replace(first, delta=0.3)
    np.testing.assert_array_equal(second.mean, evidence(again, 0.3).mean)
    np.testing.assert_array_equal(second.radius, evidence(again, 0.3).radius)
    np.testing.assert_array_equal(
        evidence(problem, 0.1, error="mpeb").radius, evidence(again, 0.1, error="mpeb").radius
    )
    assert (second.radius < first.radius).any()
