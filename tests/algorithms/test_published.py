"""Other logs of the paper's benchmarks: the batched algorithms against naive twins of the
published ones.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import surefoot
from support import published, worlds
from support.naive_duipi import plain_duipi

LOGS = [
    ("random-mdp", 5, 0),
    ("random-mdp", 30, 1),
    ("random-mdp", 200, 2),
    ("wet-chicken", 150, 3),
    ("wet-chicken", 3000, 4),
]


@cache
def problem(kind: str, size: int, seed: int) -> tuple[worlds.World, surefoot.Problem]:
    rng = np.random.default_rng(seed)
    world = (
        worlds.wet_chicken()
        if kind == "wet-chicken"
        else worlds.random_mdp(rng, n_states=20, n_actions=3)
    )
    log = (
        worlds.sample(world, rng, 1, size)
        if kind == "wet-chicken"
        else worlds.sample(world, rng, size, 50)
    )
    return world, worlds.problem(world, log, unseen_states="first-action", ties="lowest-index")


def e_of(p: surefoot.Problem) -> np.ndarray:
    return surefoot.error_function(p, "hoeffding", 1.0)


TWINS: dict[str, Any] = {
    "basic-rl": ({}, lambda p: published.basic_rl(p)),
    "ramdp": ({"kappa": 0.07}, lambda p: published.ramdp(p, 0.07)),
    "r-min": ({"n_wedge": 3}, lambda p: published.r_min(p, 3)),
    "pi-b-spibb": ({"n_wedge": 5}, lambda p: published.pi_b_spibb(p, 5)),
    "pi-leq-b-spibb": ({"n_wedge": 5}, lambda p: published.pi_leq_b_spibb(p, 5)),
    "approx-soft-spibb": (
        {"epsilon": 1.5, "delta": 1, "published": True},
        lambda p: published.soft(p, e_of(p), 1.5, lower=False, published=True),
    ),
    "lower-approx-soft-spibb": (
        {"epsilon": 0.7, "delta": 1},
        lambda p: published.soft(p, e_of(p), 0.7, lower=True, published=False),
    ),
    "adv-approx-soft-spibb": (
        {"epsilon": 1.5, "delta": 1},
        lambda p: published.soft(p, e_of(p), 1.5, lower=False, published=False, w=p.returns.mean),
    ),
}


@pytest.mark.parametrize("log", LOGS, ids=str)
@pytest.mark.parametrize("name", TWINS)
def test_the_policy_is_worth_what_the_naive_twins_is(name: str, log: tuple[str, int, int]) -> None:
    world, p = problem(*log)
    parameters, twin = TWINS[name]
    ours = surefoot.improve(p, surefoot.algorithm(name, **parameters))
    assert world.value(ours.pi) == pytest.approx(world.value(twin(p)), rel=1e-9)


@pytest.mark.parametrize("log", LOGS, ids=str)
@pytest.mark.parametrize("prior", ["bayesian", "frequentist"])
def test_duipi_that_ends_early_ends_where_plain_steps_lead(
    prior: str, log: tuple[str, int, int]
) -> None:
    world, p = problem(*log)
    plain, converged = plain_duipi(p, 0.2, 0.1 if prior == "bayesian" else 0.0, 3000)
    ours = surefoot.improve(p, surefoot.algorithm("duipi", xi=0.2, prior=prior, max_steps=3000))
    assert ours.status.ok == converged
    if converged:
        assert world.value(ours.pi) == pytest.approx(world.value(plain), rel=1e-9)
    else:
        assert np.allclose(ours.pi, plain, atol=1e-6)
