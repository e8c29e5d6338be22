"""n_wedge from a wanted bound."""

from __future__ import annotations

import numpy as np
import pytest

import surefoot
from support import worlds
from surefoot.certificates.row_bounds import SPIBBBound
from surefoot.planning import evaluate_at_start
from surefoot.tuning import n_wedge_for


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
