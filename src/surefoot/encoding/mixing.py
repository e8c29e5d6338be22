"""Mixing: how much rows of one state still differ, in their reward and in what follows, as a
share of how much all rows differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.logs.database import Database


@dataclass(frozen=True)
class Mixing:
    """Shares of variance within states: 0, a state says all; 1, it says nothing. None where there
    is nothing to explain.

    reward      of the reward of a step
    successor   of each feature of the next row of the episode, in the order of the features
    """

    reward: float | None
    successor: tuple[float | None, ...]


def mixing(database: Database, rows: str, n_features: int) -> Mixing:
    """sum_s n_s var_s / (n var) from a query of rows (code, e, place, r, x0, x1, ...), ordered
    by `place` within each episode e.
    """
    following = [f"lead(x{i}) over w as y{i}" for i in range(n_features)]
    names = ["r", *(f"y{i}" for i in range(n_features))]
    chosen = ", ".join(
        f"count({x}) as n_{x}, avg({x}) as mean_{x}, var_pop({x}) as var_{x}" for x in names
    )
    found = database.arrays(
        "looking at how states mix",
        f"select {chosen} from (select code, r, {', '.join(following)} from {rows} window w as"
        " (partition by e order by place)) group by code",
    )
    columns: dict[str, np.ndarray] = {
        name: np.ma.filled(np.ma.asarray(x, dtype=float), 0.0) for name, x in found.items()
    }
    reward, *successor = (
        _within(columns[f"n_{x}"], columns[f"mean_{x}"], columns[f"var_{x}"]) for x in names
    )
    return Mixing(reward, tuple(successor))


def _within(n: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> float | None:
    """The share of the variance that lies within groups of n rows with these means and
    variances.
    """
    if not n.sum():
        return None
    grand = float((n * mean).sum() / n.sum())
    within, between = float((n * variance).sum()), float((n * (mean - grand) ** 2).sum())
    total = within + between
    return within / total if total > 1e-24 * max(1.0, grand**2) * n.sum() else None


def in_words(found: Mixing, features: Sequence[str]) -> str:
    """How much the states mix, in a sentence."""

    def share(x: float | None) -> str:
        return "is constant" if x is None else f"{x:.0%}"

    parts = ", ".join(
        f"{name} {share(x)}" for name, x in zip(features, found.successor, strict=True)
    )
    return (
        f"left within states, of the variance of all rows: reward {share(found.reward)}; next"
        f" {parts}"
    )
