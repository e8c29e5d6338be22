"""The gain over one of several policies, by its own episodes: two bounds, each at half of delta."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from surefoot.core import Batch
from surefoot.core.errors import LogError, ParameterError
from surefoot.core.evidence import Evidence
from surefoot.core.text import plural
from surefoot.evidence.episode_values import GAIN, VALUE, Standard, episode_values, negated
from surefoot.evidence.episodes import FEWEST_IN_PART, take_episodes
from surefoot.evidence.estimates import EpisodeValues, episode_returns
from surefoot.evidence.gain_test import OBSERVED, ORDER
from surefoot.statistics.bounds import uncapped_betting

OWN_EPISODES = "the episodes of that policy itself: two bounds, each at half of the level"


def evidence_of_two(
    quantity: str, batch: Batch, pi: np.ndarray, policy: int, gamma: float, standard: Standard
) -> tuple[Evidence, EpisodeValues]:
    """V^pi - V^b >= L(V^pi) + L(-V^b), or for a loss V^b - V^pi >= L(V^b) + L(-V^pi): the row, and
    the values of pi behind it.

    V^pi is bounded at delta / 2 by all episodes, weighted by their propensities; V^b at delta / 2
    by the returns of the episodes of the policy with this code, which need no weights and no
    knowledge of its probabilities. One of both fails with probability delta at most, however the
    two samples overlap (they do). L is the betting bound, L(-V) that of the negated rewards.
    """
    if standard.bound != "betting":
        raise ParameterError(
            'against the episodes of one policy the bound is "betting", got'
            f' "{standard.bound}": leave it out'
        )
    part = take_episodes(batch, _own_episodes(batch, policy))
    each = replace(standard, delta=standard.delta / 2).having_seen(batch.reward)
    of_pi, first, of_own, second = batch, each, negated(part), each.mirrored()
    if quantity != GAIN:
        of_pi, first, of_own, second = negated(batch), each.mirrored(), part, each
    values = episode_values(of_pi, pi, None, gamma, first, quantity=VALUE)
    # the floor of plain returns is that of whole-episode values with any weights
    plain = replace(second, estimator="is")
    floor = episode_values(of_own, pi, None, gamma, plain, quantity=VALUE).lo
    g = episode_returns(of_own, gamma)
    row, other = _bounded(values.x, values.lo, each), _bounded(g, floor, each)
    words = f"the value of the baseline is the mean of {plural(len(g), 'episode')} of its own"
    values = replace(
        values, x=values.x + g.mean(), lo=-math.inf, compared=OWN_EPISODES,
        notes=(*values.notes, words),
    )  # fmt: skip
    row = replace(
        row,
        estimate=values.estimate,
        low=row.low + other.low,
        delta=standard.delta,
        unit="episodes",
        validity=row.validity if values.declared else row.validity + OBSERVED,
    )
    return row, values


def _own_episodes(batch: Batch, policy: int) -> np.ndarray:
    """Which episodes are of this policy; each episode must be of one."""
    codes = batch.beside["policy"]
    first = codes[batch.first][batch.episode]
    mixed = np.flatnonzero(codes != first)
    if len(mixed):
        raise LogError(
            f"row {batch.row[mixed[0]]} was chosen by another policy than the first of its episode"
            f" ({len(mixed)} such rows): the returns of one policy are those of whole episodes;"
            " give the baseline as a file (--baseline)"
        )
    own: np.ndarray = codes[batch.first] == policy
    if own.sum() < FEWEST_IN_PART:
        raise LogError(
            f"the policy to compare with has {plural(int(own.sum()), 'episode')} in the tested log:"
            f" at least {FEWEST_IN_PART} are needed"
        )
    return own


def _bounded(x: np.ndarray, lo: float, standard: Standard) -> Evidence:
    """The betting bound on the mean, in an order drawn once and for all."""
    order = np.random.default_rng(ORDER).permutation(len(x))
    return uncapped_betting(x[order], standard.delta, lo=lo)
