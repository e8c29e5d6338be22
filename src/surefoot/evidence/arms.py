"""Two arms of a roll-out: values of episodes whose mean is v(new) - v(old).

By lot, an episode gets the new policy with probability p and the old one with 1 - p. With its
return G in [lo, hi],

    X = u (G - c),   u = 1{new} / p - 1{old} / (1 - p),

has the mean v(new) - v(old) for every c that does not depend on the arm of the episode, as E[u] =
0; so c may be what earlier episodes earned (`centred`). What changes for both arms alike, as a good
season does, changes c and not the mean of X.

Where both policies are known, so is with which probability q an episode that went so is of the new
arm: its odds are p/(1 - p) prod_t pi_new(a_t|s_t) / pi_old(a_t|s_t). Then

    u = q / p - (1 - q) / (1 - p) = E[ 1{new} / p - 1{old} / (1 - p) | what happened ]

has the same mean, never scatters more (Rao-Blackwell), and lets each arm's episodes count for both:
where both policies do the same it is 0. It takes for granted that the arm bears on what happens by
the actions of its policy alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from surefoot.core import Batch
from surefoot.core.errors import LogError
from surefoot.statistics.sequences import Values

FADES = 0.98  # how much of the weight of an episode is left after the next one


@dataclass(frozen=True, repr=False)
class Difference:
    """Values whose mean is v(new) - v(old), and how low and how high each could be, as is known
    before it.
    """

    x: np.ndarray
    floor: np.ndarray
    ceiling: np.ndarray
    width: float

    @property
    def estimate(self) -> float:
        """The mean; NaN of no episodes."""
        return float(self.x.mean()) if len(self.x) else math.nan

    @property
    def above(self) -> Values:
        """As values that show what the difference is at least."""
        return Values(self.x, self.floor, -self.width)

    @property
    def below(self) -> Values:
        """The negative ones: what it is at most is minus what these are at least."""
        return Values(-self.x, -self.ceiling, -self.width)


def log_odds(
    batch: Batch, share: float, policies: tuple[np.ndarray, np.ndarray] | None = None
) -> np.ndarray:
    """The log-odds of "new" of every episode, given what happened in it; `policies`: (new, old)
    [S, A], as given.
    """
    found = np.full(batch.n_episodes, math.log(share / (1 - share)))
    if policies is None:
        return found
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.subtract(*(np.log(pi[batch.state, batch.action]) for pi in policies))
        found += np.bincount(batch.episode, weights=ratio, minlength=batch.n_episodes)
    return found


def check_arms(
    batch: Batch,
    new: np.ndarray,
    policies: tuple[np.ndarray, np.ndarray],
    names: tuple[str, str],
) -> None:
    """Raise where an episode did what the policy of its arm never does."""
    for pi, mine, name in zip(policies, (new, ~new), names, strict=True):
        taken = pi[batch.state, batch.action]
        wrong = np.flatnonzero(mine[batch.episode] & ~(taken > 0))
        if len(wrong):
            i = wrong[0]
            raise LogError(
                f"an episode of {name!r} takes {batch.labels.pair(batch.state[i], batch.action[i])}"
                f" (row {batch.row[i]}), which the policy given for it never does ({len(wrong):,}"
                " such rows): give the policy that acted, or neither (--policy, --baseline)"
            )


def directions(odds: np.ndarray, share: float) -> np.ndarray:
    """u of every episode; with odds of +-inf those of its arm alone."""
    q = 1 / (1 + np.exp(-np.clip(odds, -700, 700)))
    return np.asarray(q / share - (1 - q) / (1 - share))


def centred(u: np.ndarray, g: np.ndarray, returns: tuple[float, float], share: float) -> Difference:
    """X = u (G - c) of episodes in their order.

    c is a mean of earlier returns with the weights u^2, which makes the scatter least, and FADES an
    episode: it follows a season, and then hardly anything comes of lots that were drawn with a
    slightly other share than was said. The middle of the range counts as one more. As u lies in
    [-1/(1 - p), 1/p],
        -max( (c - lo)/p, (hi - c)/(1 - p) ) <= X <= max( (hi - c)/p, (c - lo)/(1 - p) ).
    """
    from scipy.signal import lfilter  # takes 0.4 s: for roll-outs alone

    low, high = returns
    one = 1 / (share * (1 - share))  # the mean of u^2 of plain arms
    paid, weight = (lfilter([0.0, 1.0], [1.0, -FADES], x) for x in (u**2 * g, u**2))
    c = np.clip((one * (low + high) / 2 + paid) / (one + weight), low, high)
    up, down = high - c, c - low
    return Difference(
        x=u * (g - c),
        floor=-np.maximum(down / share, up / (1 - share)),
        ceiling=np.maximum(up / share, down / (1 - share)),
        width=high - low,
    )
