"""n_wedge from a wanted bound, and the epsilon path of Soft-SPIBB."""

from __future__ import annotations

import numpy as np
import pytest

import surefoot
from support import worlds
from surefoot.certificates.row_bounds import SPIBBBound
from surefoot.planning import evaluate_at_start
from surefoot.rows import best_rows
from surefoot.rows.one_row import budget_path
from surefoot.tuning import epsilon_path, n_wedge_for, row_paths


def problem(seed: int = 0, episodes: int = 60, **changes: object) -> surefoot.Problem:
    world = worlds.garnet(np.random.default_rng(seed), 6, 3)
    return worlds.problem(
        world, worlds.sample(world, np.random.default_rng(seed + 1), episodes, 40), **changes
    )


@pytest.mark.parametrize("radius", ["weissman", "two-successor", "clopper-pearson"])
def test_the_n_wedge_found_is_the_smallest_that_the_certificate_grants(radius: str) -> None:
    """A policy that moves pairs seen n_wedge + 1 times at least has a bound of the model's gain
    minus the loss asked for, no less.
    """
    data = problem()
    n = data.n_sa
    s = int(
        np.argmax(np.sort(n, axis=1)[:, -2])
    )  # mass moves between the two pairs of a state that were seen most
    one, other = np.argsort(n[s])[-2:]
    least = float(n[s, one])
    pi = np.array(data.pi_b)
    step = 0.5 * min(pi[s, one], pi[s, other])
    pi[s, one] -= step
    pi[s, other] += step
    gain = float(
        evaluate_at_start(data.model, pi, data.start)
        - evaluate_at_start(data.model, data.pi_b, data.start)
    )
    bound = surefoot.certify(
        data, pi, SPIBBBound(delta=0.1, radius=radius, n_wedge=least - 1)
    ).bound
    loss = gain - bound  # of pairs seen `least` times
    found = n_wedge_for(data, loss * (1 + 1e-9), 0.1, radius=radius)
    assert found.n_wedge == least - 1
    assert found.bound == pytest.approx(loss)
    assert n_wedge_for(data, loss * (1 - 1e-9), 0.1, radius=radius).n_wedge == least
    assert found.known == int((n > found.n_wedge).sum())


def test_a_smaller_loss_needs_more_data_and_leaves_less_to_change() -> None:
    data = problem()
    found = [n_wedge_for(data, loss, 0.1) for loss in (1e6, 5.0, 1.0)]
    assert found[0].n_wedge == 0
    assert found[0].n_wedge < found[1].n_wedge < found[2].n_wedge
    assert found[0].free == pytest.approx(
        float((data.pi_b * data.seen).sum(axis=1) @ data.n_sa.sum(axis=1) / data.n_sa.sum())
    )
    assert found[2].free == 0
    one = n_wedge_for(data, 120.0, 0.1)
    assert np.sort(data.n_sa, axis=None)[-2] <= one.n_wedge < data.n_sa.max()
    assert one.known == 1  # the pair seen most: there is nothing to move its mass to
    assert one.free == 0
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(surefoot.ParameterError):
            n_wedge_for(data, wrong)


def test_the_budget_path_is_the_row_solver_at_every_budget() -> None:
    rng = np.random.default_rng(0)
    for trial in range(100):
        n = int(rng.integers(2, 7))
        q = rng.normal(size=n).round(int(rng.integers(0, 6)))
        b = rng.dirichlet(np.ones(n)) * (rng.random(n) < 0.9)
        b = b / b.sum() if b.sum() > 0 else np.full(n, 1 / n)
        up, down = rng.exponential(size=(2, n)) * ([1], [trial % 2])
        up = np.where(rng.random(n) < 0.2, np.inf, np.where(rng.random(n) < 0.1, 0.0, up))
        down = np.where(rng.random(n) < 0.1, np.inf, down)
        path = budget_path(q, b, up, down)
        assert (np.diff(path.price) <= 1e-12 * np.abs(path.price[:-1])).all()  # concave
        assert (np.diff(path.budget) > 0).all()
        for budget in (0.0, *rng.random(3) * (path.budget[-1] + 0.1)):
            best = best_rows(q, b, up, down, budget)
            gain, moved, price = path.at(budget)
            assert gain == pytest.approx(float((best.pi - b) @ q), abs=1e-12)
            assert price == pytest.approx(float(best.multiplier))
            assert moved == pytest.approx(0.5 * float(np.abs(best.pi - b).sum()), abs=1e-12)


@pytest.mark.parametrize("name", ["lower-exact-soft-spibb", "exact-soft-spibb"])
def test_row_paths_are_the_first_step_of_the_algorithm(name: str) -> None:
    data = problem()
    paths = row_paths(data, name, delta=0.5)
    v = surefoot.evaluate(data.model, data.pi_b)
    q = data.model.backup(v)
    for epsilon in (0.05, 0.4, 3.0):
        block = data.blocks[0]
        trust = surefoot.algorithm(name, epsilon=epsilon, delta=0.5).trust(block, block.n_sa)
        step = trust.step(q[None], data.pi_b[None])[0]
        for s, path in paths.items():
            assert path.at(epsilon)[0] == pytest.approx(
                float((step[s] - data.pi_b[s]) @ q[s]), abs=1e-9
            )


def test_the_path_of_the_policy_starts_at_the_baseline_and_rises() -> None:
    data = problem()
    points = epsilon_path(data, (0.0, 0.1, 1.0, 100.0))
    assert points[0].gain == pytest.approx(0, abs=1e-12)
    assert points[0].mass_moved == 0
    assert np.all(np.diff([x.gain for x in points]) >= -1e-9)
    pi = surefoot.improve(
        data, surefoot.algorithm("lower-exact-soft-spibb", epsilon=1.0, delta=1.0)
    ).pi
    assert points[2].value == pytest.approx(float(evaluate_at_start(data.model, pi, data.start)))
    with pytest.raises(surefoot.ParameterError):
        epsilon_path(data, (1.0,), "pi-b-spibb")
