"""One action a state: the best row among those that do one action, within a trust."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.planning import RowGuard, SoftTrust
from surefoot.planning.rules import RuleTrust


def some_trust(rng: np.random.Generator, rows: int = 3, n_actions: int = 4) -> SoftTrust:
    b = rng.dirichlet(np.ones(n_actions), size=(2, rows))
    up = np.where(rng.random(b.shape) < 0.3, np.inf, rng.random(b.shape))
    return SoftTrust(
        b=b,
        up=up,
        down=rng.random(b.shape) * (rng.random() < 0.5),
        budget=float(rng.random()),
        tolerance=1e-12,
        price=rng.random(b.shape) * 0.2 if rng.random() < 0.5 else None,
    )


def best_by_hand(trust: SoftTrust, stay: np.ndarray, q: np.ndarray) -> float:
    """The worth of the best row of one state, by trying every one."""
    price = np.zeros_like(q) if trust.price is None else trust.price

    def worth(row: np.ndarray) -> float:
        return float(row @ q - price @ np.maximum(row - trust.b, 0.0))

    found = [worth(stay)]
    for a, row in enumerate(np.eye(len(q))):
        rise, fall = np.maximum(row - trust.b, 0.0), np.maximum(trust.b - row, 0.0)
        cost = sum(c * m for c, m in zip(trust.up, rise, strict=True) if m)
        cost += sum(c * m for c, m in zip(trust.down, fall, strict=True) if m)
        if cost <= trust.budget and np.isfinite(trust.up[a]):
            found.append(worth(row))
    return max(found)


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_no_single_action_within_the_trust_is_worth_more(seed: int) -> None:
    rng = np.random.default_rng(seed)
    trust = some_trust(rng)
    q = rng.normal(size=trust.b.shape)
    rows = RuleTrust(within=trust, stay=trust.b).step(q, trust.b)
    for at in np.ndindex(trust.b.shape[:2]):
        one = replace(
            trust, b=trust.b[at], up=trust.up[at], down=trust.down[at],
            price=None if trust.price is None else trust.price[at],
        )  # fmt: skip
        price = np.zeros(4) if one.price is None else one.price
        worth = rows[at] @ q[at] - price @ np.maximum(rows[at] - one.b, 0.0)
        assert worth == pytest.approx(best_by_hand(one, one.b, q[at]), abs=1e-9)
        assert rows[at].max() == 1.0 or (rows[at] == one.b).all()


def test_equal_actions_move_nothing_and_of_equal_better_ones_it_is_the_most_frequent() -> None:
    trust = SoftTrust(
        b=np.array([[[0.5, 0.3, 0.2], [0.5, 0.2, 0.3]]]),
        up=np.zeros((1, 2, 3)),
        down=np.zeros((1, 2, 3)),
        budget=0.0,
        tolerance=1e-9,
    )
    rule = RuleTrust(within=trust, stay=trust.b)
    q = np.array([[[1.0, 1.0, 1.0], [0.0, 1.0, 1.0]]])
    assert rule.step(q, trust.b).tolist() == [[[0.5, 0.3, 0.2], [0.0, 0.0, 1.0]]]


def test_an_action_that_breaks_a_guard_is_not_taken() -> None:
    trust = SoftTrust(
        b=np.array([[[0.6, 0.4]]]),
        up=np.zeros((1, 1, 2)),
        down=np.zeros((1, 1, 2)),
        budget=0.0,
        tolerance=0.0,
    )
    q, w = np.array([[[0.0, 1.0]]]), np.array([[[1.0, 0.0]]])
    free = RuleTrust(within=trust, stay=trust.b).step(q, trust.b)
    assert free.tolist() == [[[0.0, 1.0]]]
    held = replace(trust, guards=(RowGuard(w),))
    assert RuleTrust(within=held, stay=trust.b).step(q, trust.b).tolist() == [[[0.6, 0.4]]]
    fined = replace(trust, guards=(RowGuard(-w, fine=np.full((1, 1, 2), 2.0)),))
    assert RuleTrust(within=fined, stay=trust.b).step(q, trust.b).tolist() == [[[0.6, 0.4]]]
