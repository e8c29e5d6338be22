"""One small world with ample logs: what certificates and evidence are tested on."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import surefoot
from support import worlds
from surefoot.algorithms.certified_advantage import OneStepCertifiedAdvantage


@cache
def world() -> worlds.World:
    return worlds.garnet(np.random.default_rng(3), 4, 3, gamma=0.5)


@cache
def known(episodes: int = 4000, **options: Any) -> surefoot.Problem:
    """A small continuing problem in which every pair was seen often; rewards are declared."""
    return worlds.problem(
        world(), worlds.sample(world(), np.random.default_rng(4), episodes, 12), **options
    )


@cache
def better(episodes: int = 4000) -> surefoot.Solution:
    return surefoot.improve(known(episodes), OneStepCertifiedAdvantage(0.05, "hoeffding"))


def truth(pi: np.ndarray) -> np.ndarray:
    return surefoot.evaluate(world().model, pi) - surefoot.evaluate(world().model, world().pi_b)
