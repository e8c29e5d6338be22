"""Doubly robust values of single decisions, where the probabilities of every policy are known."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.advice import whole_episodes
from surefoot.core import Batch, make_batch
from surefoot.evidence import LOSS, Standard, episode_values, evidence_of
from surefoot.evidence.known_policies import KnownPolicies, known_policies

MADE = np.array([[[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]], [[0.1, 0.5, 0.4], [0.5, 0.5, 0.0]]])
PI = np.array([[0.1, 0.2, 0.7], [0.5, 0.2, 0.3]])
PI_B = np.array([[0.5, 0.4, 0.1], [0.3, 0.3, 0.4]])
SUCCESS = np.array([[[0.2, 0.5, 0.9], [0.1, 0.4, 0.3]], [[0.6, 0.3, 0.7], [0.8, 0.2, 0.5]]])
RANGE = (0.0, 1.0)


def everything(made: np.ndarray = MADE) -> tuple[Batch, np.ndarray]:
    """(every row there can be, the probability of each): policy, state, action, success."""
    rows, chance = [], []
    for who, s, a, r in itertools.product(range(2), range(2), range(3), (0.0, 1.0)):
        if made[who, s, a] > 0:
            rows.append((who, s, a, r, made[who, s, a]))
            p = SUCCESS[who, s, a] if r else 1 - SUCCESS[who, s, a]
            chance.append(0.25 * made[who, s, a] * p)
    who, s, a, r, p = map(np.array, zip(*rows, strict=True))
    return batch_of(who.astype(int), s.astype(int), a.astype(int), r, p), np.array(chance)


def batch_of(who: np.ndarray, s: np.ndarray, a: np.ndarray, r: np.ndarray, p: np.ndarray) -> Batch:
    n = len(s)
    found = make_batch(
        state=s, action=a, reward=r, next_state=np.full(n, -1), episode=np.arange(n),
        time=np.zeros(n, dtype=int), terminal=np.ones(n, dtype=bool), propensity=p,
        n_states=2, n_actions=3,
    )  # fmt: skip
    return replace(found, beside={**found.beside, "policy": who})


def shown(batch: Batch) -> KnownPolicies:
    found = known_policies(batch)
    assert found is not None
    return found


def extended(pi: np.ndarray, batch: Batch) -> np.ndarray:
    return pi if batch.n_states == 2 else np.vstack([pi, np.full(3, 1 / 3)])


def test_an_earlier_part_shows_the_probabilities() -> None:
    known = shown(everything()[0])
    assert np.abs(known.p[:, :2] - MADE).max() < 1e-12


def test_the_mean_is_the_gain_whatever_q_is() -> None:
    batch, chance = everything()
    known = shown(batch)
    delta = extended(PI, batch) - extended(PI_B, batch)
    for seed in range(3):
        q = np.random.default_rng(seed).uniform(0, 1, known.q.shape)
        found = replace(known, q=q).values(batch, delta, RANGE)
        assert found is not None
        rows, x, _ = found
        # the second policy never takes action 2 in state 1: there it knows nothing
        policy = batch.beside["policy"]
        assert np.array_equal(rows, ~((policy == 1) & (batch.state == 1)))
        truth = 0.0
        for who, s in ((0, 0), (0, 1), (1, 0)):
            truth += 0.25 * float(((PI - PI_B)[s] * SUCCESS[who, s]).sum())
        assert (chance * np.where(rows, x, 0)).sum() == pytest.approx(truth, abs=1e-12)


def test_no_value_is_below_the_floor_and_one_is_at_it() -> None:
    batch, _ = everything()
    known, delta = shown(batch), extended(PI, batch) - extended(PI_B, batch)
    for q in (known.q, np.zeros_like(known.q), np.ones_like(known.q)):
        found = replace(known, q=q).values(batch, delta, RANGE)
        assert found is not None
        rows, x, floor = found
        assert x[rows].min() >= floor
        assert x[rows].min() == pytest.approx(floor, rel=2e-3)  # but for the room for rounding


def test_whatever_q_is_the_floor_holds() -> None:
    batch, _ = everything()
    known, delta = shown(batch), extended(PI, batch) - extended(PI_B, batch)
    found = replace(known, q=known.q + 5).values(batch, delta, RANGE)
    assert found is not None
    assert found[1][found[0]].min() >= found[2]


def test_a_policy_that_changes_is_not_known() -> None:
    batch, _ = everything()
    delta = extended(PI, batch) - extended(PI_B, batch)
    later = MADE.copy()
    later[0, 0] = [0.3, 0.6, 0.1]
    assert shown(batch).values(everything(later)[0], delta, RANGE) is None
    both = batch_of(
        *(
            np.concatenate([x, y])
            for x, y in zip(_columns(batch), _columns(everything(later)[0]), strict=True)
        )
    )
    assert not shown(both).p[0, 0].any()
    assert shown(both).p[1, 0].any()


def _columns(batch: Batch) -> tuple[np.ndarray, ...]:
    assert batch.propensity is not None
    return batch.beside["policy"], batch.state, batch.action, batch.reward, batch.propensity


def test_without_a_whole_row_of_probabilities_nothing_is_known() -> None:
    batch, _ = everything()
    columns = _columns(batch)
    assert known_policies(batch_of(*(x[columns[2] > 0] for x in columns))) is None


def test_rows_that_are_not_known_keep_their_values() -> None:
    batch, _ = everything()
    pi, pi_b = extended(PI, batch), extended(PI_B, batch)
    plain = Standard(reward_range=RANGE)
    better = replace(plain, known=shown(batch))
    x, y = (episode_values(batch, pi, pi_b, 0.0, z) for z in (plain, better))
    open_rows = (batch.beside["policy"] == 1) & (batch.state == 1)
    assert np.allclose(x.x[open_rows], y.x[open_rows])
    assert not np.allclose(x.x[~open_rows], y.x[~open_rows])
    assert y.lo <= min(x.lo, y.x.min())


def test_the_bounds_are_closer_and_hold() -> None:
    rng = np.random.default_rng(3)
    made = MADE.copy()
    made[1, 1] = [0.4, 0.4, 0.2]

    def drawn(n: int) -> Batch:
        who, s = rng.integers(0, 2, n), rng.integers(0, 2, n)
        p = made[who, s]
        a = (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(0, 2)
        r = (rng.random(n) < 0.1 * SUCCESS[who, s, a]).astype(float)
        return batch_of(who, s, a, r, p[np.arange(n), a])

    first, then = drawn(4000), drawn(4000)
    plain = Standard(reward_range=RANGE)
    better = replace(plain, known=shown(first))
    other = np.array([[0.1, 0.1, 0.8], [0.8, 0.1, 0.1]])  # far from both
    pi, pi_b = extended(PI, then), extended(other, then)
    truth = 0.1 * float(((PI - other) * SUCCESS.mean(axis=0)).sum(axis=1).mean())
    ends = [
        (evidence_of("V^pi - V^pi_b", then, pi, pi_b, 0.0, z).low,
         -evidence_of(LOSS, then, pi, pi_b, 0.0, z).low)
        for z in (plain, better)
    ]  # fmt: skip
    assert all(low <= truth <= high for low, high in ends)
    assert (ends[1][1] - ends[1][0]) < 0.4 * (ends[0][1] - ends[0][0])


def shop(n: int = 6000, seed: int = 0, rare: int = 0) -> dict[str, np.ndarray]:
    """Three versions of a shop, clicks of a few percent; `rare` rows are in a state of their own."""
    rng = np.random.default_rng(seed)
    made = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]])
    who, state = rng.integers(0, 3, n), (np.arange(n) < rare) * 1
    a = (rng.random(n)[:, None] > made[who].cumsum(axis=1)).sum(axis=1).clip(max=2)
    click = rng.random(n) < np.array([0.02, 0.03, 0.08])[a]
    return {
        "state": np.array(["often", "seldom"])[state], "action": np.array(["a", "b", "c"])[a],
        "reward": click * 1.0, "p": made[who, a], "version": who,
    }  # fmt: skip


def asked(log: dict[str, np.ndarray], **how: Any) -> Any:
    """The test of always c against mostly a."""
    pi, rule = (dict.fromkeys(("often", "seldom"), p) for p in ({"c": 1.0}, {"a": 0.9, "c": 0.1}))
    given: dict[str, Any] = {"bandit": True, "propensity": "p", "policy_column": "version"}
    how = {"baseline": rule, "reward_range": (0, 1)} | given | how
    return surefoot.safety_test(log, pi, **how)


def test_a_safety_test_prepares_on_a_tenth_and_shows_much_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = asked(shop())
    document, (row,), truth = found.document, found.rows, 0.9 * (0.08 - 0.02)
    assert (document["episodes_tested"], document["episodes_cap_chosen_on"]) == (5400, 600)
    assert found.verdict == "passes" and row.low < truth < row.high
    monkeypatch.setattr(whole_episodes, "weighs_both", lambda *_: False)
    (without,) = asked(shop()).rows
    assert without.low < truth < without.high
    assert row.high - row.low < 0.5 * (without.high - without.low)


@pytest.mark.parametrize("rare", [0, 60])
def test_no_declared_range_moves_the_estimate(rare: int) -> None:
    """Nor where versions are not known whole in some states, so that some rows are only weighted."""
    rows = [asked(shop(rare=rare), reward_range=x).rows[0] for x in ((0, 1), (-3, 5))]
    assert rows[0].estimate == pytest.approx(rows[1].estimate, rel=1e-9)
    assert rows[0].high - rows[0].low < rows[1].high - rows[1].low


def test_a_test_prepares_on_nothing_where_that_would_not_help() -> None:
    log = shop()
    keep = log["version"] == 0
    one = {k: x[keep] for k, x in log.items()}
    rule = {s: {"a": 0.7, "b": 0.2, "c": 0.1} for s in ("often", "seldom")}
    assert asked(one, baseline=rule).document["episodes_cap_chosen_on"] == 0
    unnamed = asked(log, policy_column=None)  # versions that nobody tells apart show nothing
    assert unnamed.document["episodes_tested"] == 6000
