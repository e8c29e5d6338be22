"""Paired differences, their floors, the bound on improvement, and HCPI: one honest test, else
the baseline.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from test_ope_estimates import (
    END,
    PI,
    PI_B,
    A,
    Everything,
    everything,
    hand_log,
    long_log,
    random_world,
    sample,
)

from support.held_out import hcpi
from surefoot import NotAvailableError, ParameterError, ProblemError, UnknownNameError
from surefoot.core import Batch, known_model
from surefoot.evidence import (
    GAIN,
    LOSS,
    MIXTURE_ALPHAS,
    VALUE,
    Standard,
    best_of,
    episode_values,
    evidence_of,
    fitted_model,
    mixtures,
    split_episodes,
)
from surefoot.statistics import choose_cap, uncapped_betting

GAMMA = 0.9
FINITE = ("betting", "maurer-pontil", "hoeffding")


def standard(**changes: Any) -> Standard:
    return Standard(**{"reward_range": (0.0, 1.0), **changes})


def better_world(low: float = 0.0) -> Everything:
    """Rewards in [low, low + 1]: action 2 pays most, action 0 least."""
    p, r = random_world()
    r[:, 0], r[:, 2] = 0.3 * r[:, 0], 0.7 + 0.3 * r[:, 2]
    return everything(p, r + low, steps=3)


def policy_towards(action: int) -> np.ndarray:
    pi = 0.5 * PI_B
    pi[:END, action] += 0.5
    return pi


def test_differences_by_hand() -> None:
    assert episode_values(
        hand_log(), PI, PI_B, 0.5, Standard(bound="student-t")
    ).x == pytest.approx([1.5 - 2, 0.8 - 0.4])
    assert episode_values(
        hand_log(), PI, PI_B, 0.5, Standard(bound="student-t", estimator="is")
    ).x == pytest.approx([0, 0.4])
    ranges = {"reward_range": (-1, 2), "return_range": (-1, 3)}
    found = episode_values(hand_log(), PI, PI_B, 0.5, Standard(estimator="is", **ranges))
    assert found.x == pytest.approx([0, (2 - 1) * (0.4 + 1)])  # (rho - 1) (G - lo)
    assert found.lo == pytest.approx(-4)
    found = episode_values(hand_log(), PI, PI_B, 0.5, Standard(**ranges))
    # (1/2 - 1) (1 + 1) + 0, and (2 - 1) (0.4 + 1) + (2 - 1) (0 + 1) (1/2 + 1/4 + ...)
    assert found.x == pytest.approx([-1, 1.4 + 1])
    assert found.lo == pytest.approx(-(3 + 1 / (1 - 0.5)))


@pytest.mark.parametrize("low", [0.0, -0.7])
@pytest.mark.parametrize(
    ("estimator", "bound"),
    [("is", "betting"), ("pdis", "betting"), ("is", "bca"), ("pdis", "bca"), ("dr", "bca")],
)
def test_differences_have_the_improvement_as_their_mean_and_stay_above_their_floor(
    low: float, estimator: str, bound: str
) -> None:
    world = everything(*random_world(low=low), steps=3)
    how = Standard(estimator=estimator, bound=bound, reward_range=(low, low + 1))
    model = known_model(*random_world(1), GAMMA, [END]) if estimator == "dr" else None
    found = episode_values(world.batch, PI, PI_B, GAMMA, how, model=model)
    alone = episode_values(world.batch, PI, PI_B, GAMMA, how, model=model, quantity=VALUE)
    chance = world.probability(PI_B)
    assert chance @ found.x == pytest.approx(
        world.value(PI, GAMMA) - world.value(PI_B, GAMMA), abs=1e-12
    )
    assert chance @ alone.x == pytest.approx(world.value(PI, GAMMA), abs=1e-12)
    if how.floored:
        assert found.x.min() >= found.lo
        assert alone.x.min() >= alone.lo
        assert alone.lo == pytest.approx(
            low / (1 - GAMMA) if low < 0 or estimator == "pdis" else low, abs=1e-9
        )


@pytest.mark.parametrize("gamma", [0.9, 1.0])
@pytest.mark.parametrize("estimator", ["is", "pdis"])
def test_a_horizon_narrows_the_floor_and_keeps_the_mean(estimator: str, gamma: float) -> None:
    world = everything(*random_world(low=-0.7), steps=3)
    how = Standard(estimator=estimator, reward_range=(-0.7, 0.3), horizon=3)
    found = episode_values(world.batch, PI, PI_B, gamma, how)
    steps = 1 + gamma + gamma**2
    assert found.lo == pytest.approx(-0.3 * steps - 0.7 * steps)
    assert found.x.min() >= found.lo
    assert world.probability(PI_B) @ found.x == pytest.approx(
        world.value(PI, gamma) - world.value(PI_B, gamma), abs=1e-12
    )
    with pytest.raises(ProblemError, match="an episode of 3 steps"):
        episode_values(world.batch, PI, PI_B, gamma, replace(how, horizon=2))


def test_equal_policies_differ_by_nothing() -> None:
    batch = hand_log()
    for estimator in ("is", "pdis"):
        how = standard(estimator=estimator, reward_range=(0, 2))
        assert np.array_equal(episode_values(batch, PI_B, PI_B, 0.5, how).x, [0, 0])
        assert not evidence_of(GAIN, batch, PI_B, PI_B, 0.5, how).positive
    model, how = fitted_model(batch, 0.5), Standard(estimator="dr", bound="student-t")
    assert np.array_equal(episode_values(batch, PI_B, PI_B, 0.5, how, model=model).x, [0, 0])
    assert not evidence_of(GAIN, batch, PI_B, PI_B, 0.5, how, model=model).positive


@pytest.mark.parametrize("bound", [*FINITE, "student-t", "bca"])
@pytest.mark.parametrize("estimator", ["is", "pdis"])
def test_a_large_log_shows_what_is_better_and_what_is_worse(bound: str, estimator: str) -> None:
    world = better_world()
    batch = sample(world, 12_000 if bound in FINITE else 2_000, np.random.default_rng(0))
    training, held_out = split_episodes(batch, np.random.default_rng(1))
    gains = {a: world.value(policy_towards(a), GAMMA) - world.value(PI_B, GAMMA) for a in range(A)}
    best, worst = max(gains, key=lambda a: gains[a]), min(gains, key=lambda a: gains[a])
    assert gains[best] > 0.1 and gains[worst] < -0.1
    how = standard(bound=bound, estimator=estimator, horizon=3)
    for action, quantity, other in ((best, GAIN, LOSS), (worst, LOSS, GAIN)):
        options = {"training": training, "rng": np.random.default_rng(2)}
        found = evidence_of(quantity, held_out, policy_towards(action), PI_B, GAMMA, how, **options)
        assert 0 < found.low < abs(gains[action])
        against = evidence_of(other, held_out, policy_towards(action), PI_B, GAMMA, how, **options)
        assert against.low < 0
    alone = evidence_of(
        VALUE,
        held_out,
        policy_towards(best),
        PI_B,
        GAMMA,
        how,
        training=training,
        rng=np.random.default_rng(2),
    )
    assert world.value(PI_B, GAMMA) / 2 < alone.low < world.value(policy_towards(best), GAMMA)


def test_doubly_robust_differences_need_a_model_and_mirror() -> None:
    batch = sample(better_world(), 400, np.random.default_rng(0))
    training, held_out = split_episodes(batch, np.random.default_rng(1))
    how = Standard(estimator="dr", bound="student-t")
    with pytest.raises(ParameterError, match="need model="):
        evidence_of(GAIN, held_out, PI, PI_B, GAMMA, how)
    gamma = 0.3  # the model goes on where the log is cut after three steps: little is left there
    model = fitted_model(training, gamma)
    up, down = (
        episode_values(held_out, PI, PI_B, gamma, how, model=model, quantity=quantity).x
        for quantity in (GAIN, LOSS)
    )
    assert up == pytest.approx(-down)
    plain = episode_values(held_out, PI, PI_B, gamma, Standard(bound="student-t")).x
    assert up.var() < 0.8 * plain.var()  # a model takes variance away


def test_the_range_behind_a_floor_is_declared_or_said_to_be_observed() -> None:
    batch = sample(better_world(), 50, np.random.default_rng(0))
    assert "observed" in evidence_of(GAIN, batch, PI, PI_B, GAMMA, Standard()).validity
    assert "observed" not in evidence_of(GAIN, batch, PI, PI_B, GAMMA, standard()).validity
    returns_only = Standard(return_range=(0, 2.71))
    assert "observed" in evidence_of(GAIN, batch, PI, PI_B, GAMMA, returns_only).validity
    assert (
        "observed"
        not in evidence_of(
            GAIN, batch, PI, PI_B, GAMMA, replace(returns_only, estimator="is")
        ).validity
    )
    with pytest.raises(ProblemError, match=r"return_range .* does not hold: episode"):
        evidence_of(GAIN, batch, PI, PI_B, GAMMA, standard(return_range=(0, 0.1)))


def test_weights_beyond_all_numbers_are_cut_where_there_is_a_floor() -> None:
    batch = long_log(2_000)  # rho = 2^2000
    for estimator in ("is", "pdis"):
        how = standard(estimator=estimator)
        x = episode_values(batch, PI, PI_B, GAMMA, how).x
        assert np.isfinite([*x, evidence_of(GAIN, batch, PI, PI_B, GAMMA, how).low]).all()
        assert (
            evidence_of(
                GAIN,
                batch,
                PI,
                PI_B,
                GAMMA,
                standard(estimator=estimator, bound="hoeffding"),
                cap=5.0,
            ).low
            <= 5.0
        )
        with pytest.raises(NotAvailableError, match="beyond any number"):
            evidence_of(
                GAIN, batch, PI, PI_B, GAMMA, standard(estimator=estimator, bound="student-t")
            )


def test_the_bound_uses_the_cap_chosen_on_the_training_part() -> None:
    training, held_out = split_episodes(
        sample(better_world(), 500, np.random.default_rng(0)), np.random.default_rng(1)
    )
    how = standard(bound="maurer-pontil")
    other, found = (episode_values(part, PI, PI_B, GAMMA, how) for part in (training, held_out))
    promise = choose_cap(other.x, found.lo, 400, 0.05, "maurer-pontil")
    evidence = evidence_of(GAIN, held_out, PI, PI_B, GAMMA, how, training=training)
    assert evidence == evidence_of(GAIN, held_out, PI, PI_B, GAMMA, how, cap=promise.cap)
    assert evidence.low != evidence_of(GAIN, held_out, PI, PI_B, GAMMA, how, cap=2.0).low


def test_betting_takes_episodes_in_a_drawn_order_so_that_a_sorted_log_is_none_the_worse() -> None:
    batch = sample(better_world(), 300, np.random.default_rng(0))
    found = episode_values(batch, PI, PI_B, GAMMA, standard())
    row = evidence_of(GAIN, batch, PI, PI_B, GAMMA, standard())
    order = np.random.default_rng(0).permutation(300)
    assert row.low == uncapped_betting(found.x[order], 0.05, lo=found.lo).low


def test_an_observed_range_is_that_of_the_training_part_too() -> None:
    batch = sample(better_world(), 60, np.random.default_rng(0))
    other = replace(batch, reward=batch.reward - 3 * (batch.row == 0))
    lo = episode_values(batch, PI, PI_B, GAMMA, Standard()).lo
    seen = Standard().having_seen(other.reward)
    assert episode_values(batch, PI, PI_B, GAMMA, seen).lo < lo
    row = evidence_of(GAIN, batch, PI, PI_B, GAMMA, Standard(), training=other)
    assert row == evidence_of(GAIN, batch, PI, PI_B, GAMMA, seen)
    assert row.low != evidence_of(GAIN, batch, PI, PI_B, GAMMA, Standard()).low
    assert episode_values(batch, PI, PI_B, GAMMA, Standard(seen=(-3, 0))).lo < lo
    with pytest.raises(ProblemError, match=r"reward_range .* does not hold"):
        evidence_of(GAIN, batch, PI, PI_B, GAMMA, standard(), training=other)
    up, down = Standard(seen=(-3, 0)), Standard(seen=(0, 3))
    turned = replace(batch, reward=-batch.reward)
    assert evidence_of(LOSS, batch, PI, PI_B, GAMMA, up) == evidence_of(
        GAIN, turned, PI, PI_B, GAMMA, down
    )


def test_wrong_input_is_refused() -> None:
    with pytest.raises(ParameterError, match="no floor"):
        Standard(estimator="dr")
    with pytest.raises(UnknownNameError, match="estimator"):
        Standard(estimator="wis")
    with pytest.raises(UnknownNameError, match="bound"):
        Standard(bound="clt")
    with pytest.raises(ParameterError, match="failure probability"):
        Standard(delta=0.95)
    with pytest.raises(ParameterError, match="horizon"):
        Standard(horizon=0)
    with pytest.raises(ParameterError, match="needs a cap"):
        evidence_of(GAIN, hand_log(), PI, PI_B, 0.5, Standard(bound="maurer-pontil"))
    with pytest.raises(ParameterError, match="takes no cap"):
        evidence_of(GAIN, hand_log(), PI, PI_B, 0.5, cap=1.0)
    with pytest.raises(ParameterError, match="rng"):
        evidence_of(GAIN, hand_log(), PI, PI_B, 0.5, Standard(bound="bca"))
    with pytest.raises(NotAvailableError, match="gamma = 1"):
        how = Standard(reward_range=(-1, 2), return_range=(-1, 9))
        evidence_of(GAIN, hand_log(), PI, PI_B, 1.0, how)
    with pytest.raises(ParameterError, match="alphas"):
        mixtures(PI, PI_B, [1.5])


def test_mixtures_go_from_the_proposal_to_the_baseline() -> None:
    found = mixtures(PI, PI_B)
    assert len(found) == len(MIXTURE_ALPHAS) == 10
    assert np.array_equal(found[0], PI)
    assert found[3] == pytest.approx(0.7 * PI + 0.3 * PI_B)


def best_action(world: Everything) -> int:
    return max(range(A), key=lambda a: world.value(policy_towards(a), GAMMA))


@pytest.mark.parametrize(
    ("estimator", "bound"),
    [("pdis", "betting"), ("is", "maurer-pontil"), ("dr", "student-t"), ("pdis", "bca")],
)
def test_hcpi_accepts_what_is_better_from_ample_data(estimator: str, bound: str) -> None:
    world = better_world()
    batch = sample(world, 5_000 if bound != "bca" else 2_000, np.random.default_rng(0))
    parts: list[Batch] = []

    def propose(training: Batch) -> np.ndarray:
        parts.append(training)
        return policy_towards(best_action(world))

    how = standard(estimator=estimator, bound=bound)
    pi, row, promises = hcpi(batch, propose, PI_B, GAMMA, how, rng=np.random.default_rng(1))
    assert row.positive
    assert [part.n_episodes for part in parts] == [batch.n_episodes // 5]
    assert row.units == batch.n_episodes - parts[0].n_episodes
    best = mixtures(policy_towards(best_action(world)), PI_B)[int(np.argmax(promises))]
    assert pi[:END] == pytest.approx(best[:END])
    again, *_ = hcpi(batch, propose, PI_B, GAMMA, how, rng=np.random.default_rng(1))
    assert np.array_equal(pi, again)


def test_hcpi_keeps_the_baseline_without_evidence() -> None:
    batch = sample(better_world(), 30, np.random.default_rng(0))
    for proposed in (PI, PI_B):
        rng = np.random.default_rng(1)
        pi, row, _ = hcpi(batch, lambda training, x=proposed: x, PI_B, GAMMA, standard(), rng=rng)
        assert not row.positive
        assert np.array_equal(pi[:END], PI_B[:END])
        assert row.tested == (proposed is PI)
        assert ("nothing to test" in row.trouble) == (proposed is PI_B)


def test_a_candidate_that_cannot_be_judged_leaves_the_choice_to_the_others() -> None:
    batch = long_log(2_000, n=16)
    training, held_out = split_episodes(batch, np.random.default_rng(0))
    near = 0.999999 * PI_B + 0.000001 * PI
    how = Standard(bound="student-t")
    _, row, promises = best_of(training, held_out, [PI, near], PI_B, GAMMA, how)
    assert promises[0] == -np.inf < promises[1]
    assert any("could not be judged" in note for note in row.notes)
    with pytest.raises(NotAvailableError, match="beyond any number"):
        best_of(training, held_out, [PI], PI_B, GAMMA, Standard(bound="student-t"))


def false_alarms(trials: int, n: int, bound: str, delta: float) -> int:
    """How often HCPI accepts a candidate that is worse, when each log's training part proposes
    what looks best there.
    """
    world = better_world()
    value = {a: world.value(policy_towards(a), GAMMA) for a in range(A)}
    worse = [policy_towards(a) for a in value if value[a] < world.value(PI_B, GAMMA)]
    assert worse
    rng, count = np.random.default_rng(11), 0
    for _ in range(trials):
        training, held_out = split_episodes(sample(world, n, rng), rng)
        how = standard(bound=bound, delta=delta)
        _, row, _ = best_of(training, held_out, worse, PI_B, GAMMA, how, rng=rng)
        count += row.positive
    return count


def test_hcpi_rarely_accepts_what_is_worse() -> None:
    assert false_alarms(60, 60, "betting", 0.2) <= binom.ppf(0.99, 60, 0.2)


@pytest.mark.slow
@pytest.mark.parametrize("bound", [*FINITE, "student-t"])
def test_hcpi_accepts_what_is_worse_at_most_at_its_level(bound: str) -> None:
    assert false_alarms(400, 100, bound, 0.2) <= binom.ppf(0.99, 400, 0.2)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["pdis", "is"])
@pytest.mark.parametrize("bound", FINITE)
def test_the_bound_on_improvement_holds_for_logs_drawn_anew(estimator: str, bound: str) -> None:
    world = better_world(low=-0.3)
    truth = world.value(PI, GAMMA) - world.value(PI_B, GAMMA)
    rng, missed, slack = np.random.default_rng(5), 0, []
    how = Standard(delta=0.2, estimator=estimator, bound=bound, reward_range=(-0.3, 0.7), horizon=3)
    for _ in range(400):
        training, held_out = split_episodes(sample(world, 100, rng), rng)
        found = evidence_of(GAIN, held_out, PI, PI_B, GAMMA, how, training=training).low
        missed += found > truth
        slack.append(found - truth)
    assert missed <= binom.ppf(0.99, 400, 0.2)
    print(f"{estimator} {bound}: {missed} of 400 missed, slack {np.mean(slack):.3f}")
