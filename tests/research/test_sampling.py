"""Sampled data sets: counts against the log they count, the log against the law of the world,
and what a data set may not depend on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import surefoot
from surefoot.core import make_batch
from surefoot.problems import ReturnRange
from surefoot.research.benchmarks import Benchmark, RandomMDPs, ToyText, WetChicken
from surefoot.research.simulate import Episodes, Sampler, Worlds, first_key, trial_numbers
from surefoot.research.simulate.worlds import dense_rows, one_world


def loop_world(keys: np.ndarray, start: tuple[float, ...] = (0.5, 0.0, 0.25, 0.25, 0.0)) -> Worlds:
    """Five states, three actions, two ends (1 and 4); pairs with one to four successors, rewards
    of (s, a, s'), several starts.
    """
    p = np.zeros((5, 3, 5))
    p[0, 0] = [0, 1, 0, 0, 0]
    p[0, 1] = [0.25, 0, 0.25, 0.5, 0]
    p[0, 2] = [0, 0, 0.9, 0.1, 0]
    p[2, 0] = [0.1, 0.2, 0.3, 0.4, 0]
    p[2, 1] = [0, 0, 0, 0, 1]
    p[2, 2] = [1, 0, 0, 0, 0]
    p[3, 0] = [0, 0, 0.5, 0.5, 0]
    p[3, 1] = [0.3, 0, 0.3, 0.3, 0.1]
    p[3, 2] = [0, 0, 0, 1, 0]
    p[[1, 4]] = 0.2  # whatever the rows of terminal states say, nobody follows them
    pi_b = np.array([[0.2, 0.5, 0.3], [1, 0, 0], [0.6, 0.0, 0.4], [0.3, 0.3, 0.4], [0, 0, 1.0]])
    reward = np.random.default_rng(3).normal(size=(5, 3, 5))
    return one_world(
        keys,
        p,
        reward_table=reward,
        pi_b=pi_b,
        start=np.array(start),
        terminal_states=(1, 4),
        gamma=0.9,
        reward_range=(-4.0, 4.0),
        return_range=ReturnRange(-40.0, 40.0, declared=True),
    )


class _Loop:
    """The small world as a benchmark."""

    name, gamma, horizon = "loop", 0.9, 18

    def worlds(self, keys: Any) -> Worlds:
        return loop_world(keys)

    def episodes(self, size: int) -> Episodes:
        return Episodes(size, size, self.horizon)


CASES: list[tuple[Any, tuple[int, ...]]] = [
    (_Loop(), (3, 40)),
    (RandomMDPs(n_states=9, n_actions=3, n_successors=2, horizon=33), (4, 60)),
    (RandomMDPs(n_states=6, n_actions=2, n_successors=6, egg="bad"), (4, 25)),
    (WetChicken(), (3, 100, 700)),
    (WetChicken(length=4, width=3, epsilon=0.4), (250,)),
    (ToyText(), (5, 60)),
    (ToyText("CliffWalking-v1", max_steps=40), (30,)),
    (ToyText("Taxi-v4", max_steps=30), (8,)),
]
IDS = [
    "loop",
    "random mdps",
    "bad egg",
    "wet chicken",
    "rectangle",
    "frozen lake",
    "cliff walking",
    "taxi",
]


def made(benchmark: Any) -> Any:
    """Skip what needs an extra that is not there."""
    if isinstance(benchmark, ToyText):
        pytest.importorskip("gymnasium", reason="Gymnasium is an extra")
    return benchmark


def keys_of(benchmark: Benchmark, start: int, stop: int, device: str = "cpu") -> Any:
    return first_key(11, benchmark.name, trial_numbers(start, stop, device))


def sampled(
    benchmark: Any, keys: Any, sizes: tuple[int, ...]
) -> list[tuple[surefoot.Counts, surefoot.Returns]]:
    data = tuple(benchmark.episodes(size) for size in sizes)
    return list(Sampler(benchmark.worlds(keys)).counts(keys, data, with_returns=True))


def log_of(benchmark: Any, key: int, size: int) -> tuple[Worlds, dict[str, np.ndarray]]:
    worlds = benchmark.worlds(np.array([key], dtype=np.int64))
    return worlds, Sampler(worlds).log(key, benchmark.episodes(size))


def batch_of(worlds: Worlds, log: dict[str, np.ndarray]) -> Any:
    return make_batch(
        **log,
        terminal_states=np.flatnonzero(worlds.terminal[0]),
        n_states=worlds.n_states,
        n_actions=worlds.n_actions,
    )


@pytest.mark.parametrize(("benchmark", "sizes"), CASES, ids=IDS)
def test_counts_and_returns_are_those_of_the_log(benchmark: Any, sizes: tuple[int, ...]) -> None:
    keys = keys_of(made(benchmark), 3, 6)
    for size, (counts, returns) in zip(sizes, sampled(benchmark, keys, sizes), strict=True):
        for trial, key in enumerate(keys):
            worlds, log = log_of(benchmark, int(key), size)
            n_sas = np.zeros(counts.n_sas.shape[1:])
            np.add.at(n_sas, (log["state"], log["action"], log["next_state"]), 1)
            assert np.array_equal(counts.n_sas[trial], n_sas)
            wanted = surefoot.monte_carlo(batch_of(worlds, log), worlds.gamma)
            assert np.array_equal(returns.n[trial], wanted.n)
            scale = max(abs(worlds.return_range.lo), abs(worlds.return_range.hi))
            assert np.allclose(
                returns.mean[trial], wanted.mean, rtol=0, atol=1e-12 * scale, equal_nan=True
            )
            assert np.allclose(
                returns.m2[trial], wanted.m2, rtol=1e-9, atol=1e-12 * scale**2 * (1 + wanted.n)
            )


@pytest.mark.parametrize(("benchmark", "sizes"), CASES, ids=IDS)
def test_a_log_is_made_of_whole_episodes_of_the_world(
    benchmark: Any, sizes: tuple[int, ...]
) -> None:
    size = sizes[-1]
    data = made(benchmark).episodes(size)
    worlds, log = log_of(benchmark, int(keys_of(benchmark, 0, 1)[0]), size)
    assert np.array_equal(np.unique(log["episode"]), np.arange(data.number))
    last = np.append(np.diff(log["episode"]) != 0, True)
    first = np.append(True, last[:-1])
    assert (log["time"][first] == 0).all() and (np.diff(log["time"])[~last[:-1]] == 1).all()
    assert np.array_equal(log["state"][1:][~last[:-1]], log["next_state"][:-1][~last[:-1]])
    ended = worlds.terminal[0, log["next_state"]]
    assert not ended[~last].any()  # nobody walks on after an end
    assert not worlds.terminal[0, log["state"]].any()
    assert (log["time"] < data.steps).all()
    assert (
        log["time"][last & ~ended] == data.steps - 1
    ).all()  # who did not end was cut at the limit
    assert np.array_equal(log["truncated"], last & ~ended)
    table = np.broadcast_to(worlds.reward_table[0], worlds.p.shape[1:])
    assert np.array_equal(log["reward"], table[log["state"], log["action"], log["next_state"]])
    assert (worlds.p[0, log["state"], log["action"], log["next_state"]] > 0).all()
    assert (worlds.pi_b[0, log["state"], log["action"]] > 0).all()


def p_value(observed: np.ndarray, probability: np.ndarray) -> float:
    """Of the likelihood-ratio test of counts [rows, K] against probabilities [rows, K], over
    rows with enough data, all together.
    """
    n = observed.sum(axis=-1)
    rows = n >= 100
    observed, expected = observed[rows], probability[rows] * n[rows, None]
    assert not observed[expected == 0].any()
    some = observed > 0
    g = 2 * (observed[some] * np.log(observed[some] / expected[some])).sum()
    freedom = int(((expected > 0).sum(axis=-1) - 1).sum())
    assert freedom > 0
    return float(stats.chi2.sf(g, freedom))


@pytest.mark.parametrize(
    ("benchmark", "size"),
    [
        (_Loop(), 20_000),
        (WetChicken(), 60_000),
        (ToyText(), 6_000),
        (RandomMDPs(n_states=8, n_actions=3, n_successors=3, eta=0.3), 5_000),
    ],
    ids=["loop", "wet chicken", "frozen lake", "random mdps"],
)
def test_actions_and_successors_come_as_often_as_the_baseline_and_the_world_say(
    benchmark: Any, size: int
) -> None:
    keys = keys_of(made(benchmark), 0, 1)
    worlds = benchmark.worlds(keys)
    ((counts, _),) = sampled(benchmark, keys, (size,))
    n_sas = counts.n_sas[0]
    acting = ~worlds.terminal[0]
    assert p_value(n_sas.sum(axis=-1)[acting], worlds.pi_b[0][acting]) > 1e-4
    assert (
        p_value(
            n_sas[acting].reshape(-1, worlds.n_states),
            worlds.p[0][acting].reshape(-1, worlds.n_states),
        )
        > 1e-4
    )


def test_episodes_start_as_the_start_distribution_says() -> None:
    keys = keys_of(_Loop(), 0, 1)
    _, log = log_of(_Loop(), int(keys[0]), 8_000)
    first = log["state"][log["time"] == 0]
    start = np.array([0.5, 0, 0.25, 0.25, 0])
    assert p_value(np.bincount(first, minlength=5)[None, :].astype(float), start[None, :]) > 1e-4


def test_an_episode_that_starts_at_an_end_has_no_steps() -> None:
    keys = keys_of(_Loop(), 0, 1)
    worlds = loop_world(keys, start=(0.5, 0.5, 0, 0, 0))
    log = Sampler(worlds).log(int(keys[0]), Episodes(200, 200, 5))
    assert not worlds.terminal[0, log["state"]].any()
    ((counts, _),) = Sampler(worlds).counts(keys, (Episodes(200, 200, 5),), with_returns=False)
    assert not counts.n_sas[0][worlds.terminal[0]].any()


def test_steps_one_after_the_other_are_independent_given_the_state() -> None:
    """Two draws of one episode: in state 3, the next action does not depend on the last one."""
    _, log = log_of(_Loop(), int(keys_of(_Loop(), 1, 2)[0]), 30_000)
    same = (
        (log["episode"][1:] == log["episode"][:-1])
        & (log["state"][1:] == 3)
        & (log["state"][:-1] == 3)
    )
    table = np.zeros((3, 3))
    np.add.at(table, (log["action"][:-1][same], log["action"][1:][same]), 1)
    assert table.sum() > 5_000
    assert stats.chi2_contingency(table).pvalue > 1e-4


@pytest.mark.parametrize(("benchmark", "sizes"), CASES[:5], ids=IDS[:5])
def test_a_data_set_does_not_depend_on_other_trials_other_sizes_or_their_order(
    benchmark: Any, sizes: tuple[int, ...]
) -> None:
    sizes = (*sizes, 17)
    keys = keys_of(benchmark, 0, 5)
    together = sampled(benchmark, keys, sizes)
    backwards = sampled(benchmark, keys, sizes[::-1])[::-1]
    for i, size in enumerate(sizes):
        counts, returns = together[i]
        (alone,) = sampled(benchmark, keys[2:3], (size,))
        for other, pick in ((alone, slice(2, 3)), (backwards[i], slice(0, 5))):
            assert np.array_equal(other[0].n_sas, counts.n_sas[pick])
            assert np.allclose(other[1].mean, returns.mean[pick], atol=1e-12, equal_nan=True)
            assert np.allclose(other[1].m2, returns.m2[pick], rtol=1e-9, atol=1e-9)


def test_a_successor_that_is_listed_twice_has_both_probabilities() -> None:
    index, values = (
        np.array([[[1, 1, 0], [2, 0, 2]]]),
        np.array([[[0.2, 0.3, 0.5], [0.1, 0.2, 0.7]]]),
    )
    assert np.allclose(
        dense_rows(index, values, 4), [[[0.5, 0.5, 0, 0], [0.2, 0, 0.8, 0]]], atol=1e-15
    )


def test_sizes_and_trials_are_different_data() -> None:
    """A larger data set does not begin with the smaller one, and no two trials are alike."""
    keys = keys_of(_Loop(), 0, 4)
    logs = [log_of(_Loop(), int(key), size)[1] for key in keys for size in (30, 31)]
    firsts = [
        tuple(zip(log["state"][:40], log["action"][:40], log["next_state"][:40], strict=True))
        for log in logs
    ]
    assert len(set(firsts)) == len(firsts)


def test_the_returns_are_left_out_when_nobody_asks() -> None:
    keys = keys_of(_Loop(), 0, 2)
    ((counts, returns),) = Sampler(loop_world(keys)).counts(
        keys, (Episodes(4, 4, 9),), with_returns=False
    )
    assert returns is None
    assert np.array_equal(counts.n_sas, sampled(_NineSteps(), keys, (4,))[0][0].n_sas)


class _NineSteps(_Loop):
    horizon = 9


@pytest.mark.parametrize("steps", [1, 15, 16, 17, 32, 33, 50])
def test_any_limit_of_steps_is_kept(steps: int) -> None:
    """Steps are drawn in strides: limits before, at and after the end of one."""
    keys = keys_of(_Loop(), 0, 2)
    worlds = WetChicken().worlds(keys)
    data = (Episodes(steps, 3, steps), Episodes(7, 2, 20))
    found = list(Sampler(worlds).counts(keys, data, with_returns=True))
    assert [float(counts.n_sas[0].sum()) for counts, _ in found] == [3.0 * steps, 40.0]
    assert float(found[0][1].n[1].sum()) == 3.0 * steps


@pytest.mark.slow
@pytest.mark.parametrize(
    ("benchmark", "sizes"),
    [
        *CASES,
        (WetChicken(epsilon=0.2), (300,)),
        (WetChicken(epsilon=0.5), (300,)),
        (WetChicken(epsilon=1.0), (300,)),
    ],
    ids=[*IDS, "epsilon 0.2", "epsilon 0.5", "epsilon 1"],
)
def test_pytorch_samples_the_same_data(benchmark: Any, sizes: tuple[int, ...]) -> None:
    pytest.importorskip("torch", reason="PyTorch is an extra; make test-all installs it")
    made(benchmark)
    ours = sampled(benchmark, keys_of(benchmark, 0, 3), sizes)
    theirs = sampled(benchmark, keys_of(benchmark, 0, 3, "torch"), sizes)
    for (counts, returns), (counts_t, returns_t) in zip(ours, theirs, strict=True):
        assert np.array_equal(counts.n_sas, counts_t.n_sas.numpy())
        assert np.allclose(
            returns.mean, returns_t.mean.numpy(), rtol=1e-9, atol=1e-9, equal_nan=True
        )
        assert np.allclose(returns.m2, returns_t.m2.numpy(), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(("benchmark", "size"), [(WetChicken(), 300), (RandomMDPs(), 20)])
def test_logs_that_walk_together_are_those_of_each_trial_alone(benchmark: Any, size: int) -> None:
    keys = first_key(3, benchmark.name, trial_numbers(0, 4, "cpu"))
    sampler = Sampler(benchmark.worlds(keys[:1]))
    together = list(sampler.logs(keys, benchmark.episodes(size)))
    assert len(together) == 4
    for key, found in zip(keys, together, strict=True):
        alone = sampler.log(int(key), benchmark.episodes(size))
        assert all(np.array_equal(found[name], alone[name]) for name in alone)
        assert (np.diff(found["episode"]) >= 0).all()
        assert (found["time"][1:][np.diff(found["episode"]) == 0] > 0).all()
    assert not np.array_equal(together[0]["state"], together[1]["state"])
