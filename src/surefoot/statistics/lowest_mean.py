"""How much a hidden confounder could change a mean: the marginal sensitivity model (Tan 2006).

u is what people acted on and the state does not say. The nominal probability of an action is
b(a|s), the true one e(a|s, u). The model says how far they may lie apart in odds:

    1 / Gamma  <=  e / (1 - e)  :  b / (1 - b)  <=  Gamma,        Gamma >= 1, here `strength`.

The mean outcome if a were always taken in s is E[w z | s, a] with w = b / e, where E[w | s, a] = 1
and b + (1 - b) / Gamma <= w <= b + (1 - b) Gamma. The least such mean over all w is

    l E[z] + (1 - l) CVaR(z),     l = b + (1 - b) / Gamma,

where CVaR is the mean of the lowest share 1 / (1 + Gamma) of outcomes (Dorn & Guo 2023, who call it
quantile balancing; docs/confounding.md has the proof). It is sharp: some u makes it true.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np

from surefoot.core.errors import ParameterError


@dataclass(frozen=True, repr=False)
class Worst:
    """The worst case of every cell: `weight` of every outcome [n], mean 1 in each cell; of every
    cell the mean of its outcomes, the mean of its lowest ones (`tail`), where those end (`cut`),
    and l (`stays`). `order` sorts the outcomes by cell and value.
    """

    weight: np.ndarray
    mean: np.ndarray
    tail: np.ndarray
    cut: np.ndarray
    stays: np.ndarray
    order: np.ndarray

    @property
    def bound(self) -> np.ndarray:
        """The least mean of every cell."""
        return np.asarray(self.stays * self.mean + (1 - self.stays) * self.tail)


def check_strength(strength: float) -> float:
    """The strength of a confounder as a number; raise unless it is one of at least 1."""
    good = isinstance(strength, Real) and not isinstance(strength, bool)
    if not (good and 1 <= float(strength) < math.inf):
        raise ParameterError(
            f"the strength of a hidden confounder (Gamma) must be a number >= 1, got {strength!r}:"
            " 1 is no confounder, 2 may double or halve the odds of an action"
        )
    return float(strength)


def lowest_mean(z: np.ndarray, b: float, strength: float, mass: np.ndarray | None = None) -> float:
    """The least mean outcome of one action, chosen with probability b, that a confounder of this
    strength allows.
    """
    z = np.asarray(z, dtype=float).reshape(-1)
    mass = np.ones(len(z)) if mass is None else np.asarray(mass, dtype=float)
    if not len(z) or not np.isfinite(z).all():
        raise ParameterError("the outcomes must be finite numbers, at least one")
    if not 0 <= b <= 1:
        raise ParameterError(f"the probability of the action must lie in [0, 1], got {b!r}")
    found = worst(z, np.zeros(len(z), dtype=int), mass, np.array([b]), strength)
    return float(found.bound[0])


def worst(
    z: np.ndarray,
    cell: np.ndarray,
    mass: np.ndarray,
    b: np.ndarray,
    strength: float,
    order: np.ndarray | None = None,
) -> Worst:
    """The worst case of every cell: outcome z[i] has the mass mass[i] > 0 in cell[i], which was
    chosen with probability b[cell]; a cell without outcomes has the mean 0. `order` is that of
    similar outcomes: what is nearly sorted is sorted in no time.
    """
    strength, n = check_strength(strength), len(b)
    stays, share = b + (1 - b) / strength, 1 / (1 + strength)
    total = np.bincount(cell, weights=mass, minlength=n)
    some = np.where(total > 0, total, 1.0)
    order = np.lexsort((z, cell)) if order is None else order[np.lexsort((z[order], cell[order]))]
    at, part = cell[order], (mass / some[cell])[order]
    ends = np.cumsum(part)
    first = np.append(True, at[1:] != at[:-1]) if len(at) else np.zeros(0, dtype=bool)
    start = np.zeros(n)
    start[at[first]] = (ends - part)[first]
    below = np.clip(ends - start[at], 0.0, share) - np.clip(ends - part - start[at], 0.0, share)
    low = np.empty(len(z))
    low[order] = below / (share * part)  # how often an outcome is among the lowest, over its mass
    fraction = mass / some[cell]
    cut = np.full(n, -np.inf)
    np.maximum.at(cut, at[below > 0], z[order][below > 0])
    return Worst(
        weight=stays[cell] + (1 - stays[cell]) * low,
        mean=np.bincount(cell, weights=fraction * z, minlength=n),
        tail=np.bincount(cell, weights=fraction * low * z, minlength=n),
        cut=np.where(np.isfinite(cut), cut, 0.0),
        stays=stays,
        order=order,
    )


def cross_fitted_tail(
    z: np.ndarray, cell: np.ndarray, mass: np.ndarray, odd: np.ndarray, n: int, strength: float,
    order: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """The mean of the lowest share of the outcomes of every cell [n], not above the true one on
    average; NaN in cells that lack one of the two parts, `odd` or not.

    The mean of the lowest share is the largest  t - E(t - z)^+ (1 + Gamma)  over all t (Rockafellar
    & Uryasev 2000). The t that is best for the outcomes at hand makes it too large on average. So t
    comes from one part of the outcomes, the mean from the other, and in turn. `order` as in
    `worst`.
    """
    found, total = np.zeros(n), np.bincount(cell, weights=mass, minlength=n)
    for part in (odd, ~odd):
        b, own = np.zeros(n), None
        if order is not None:
            own = (np.cumsum(part) - 1)[order[part[order]]]
        cut = worst(z[part], cell[part], mass[part], b, strength, own).cut
        cut = np.where(np.bincount(cell[part], minlength=n) > 0, cut, np.nan)
        at, x = cell[~part], z[~part]
        value = cut[at] - np.maximum(cut[at] - x, 0.0) * (1 + strength)
        found += np.bincount(at, weights=mass[~part] * value, minlength=n)
    lacking = (np.bincount(cell[odd], minlength=n) == 0) | (
        np.bincount(cell[~odd], minlength=n) == 0
    )
    return np.where(lacking, np.nan, found / np.where(total > 0, total, 1.0))
