"""How often the tests for memory and drift are wrong, measured on rivers with and without
faults.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from support.effort import few
from support.faulty_logs import Log, chain, decisions, season, stay_while_you_win
from support.rivers import river_log
from surefoot.checks import check_log, vetoes
from surefoot.logs import read_log
from surefoot.research.benchmarks import RandomMDPs, WetChicken
from surefoot.research.simulate import Sampler

TESTS = ("Markov", "drift", "policy drift")


def p_values(columns: dict[str, np.ndarray]) -> list[float]:
    found = {finding.name: finding for finding in check_log(read_log(columns, threads=1))}
    return [found[name].numbers["p_value"] for name in TESTS]


def alarms(logs: list[dict[str, np.ndarray]]) -> np.ndarray:
    return np.mean([np.array(p_values(columns)) < 0.05 for columns in logs], axis=0)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("steps", [2_000, 10_000])
def test_false_alarms_are_at_most_five_percent_for_memory_and_not_clearly_more_for_drift(
    steps: int, capsys: pytest.CaptureFixture[str]
) -> None:
    river = WetChicken()
    sampler = Sampler(river.worlds(np.array([0])))
    rates = alarms(list(sampler.logs(np.arange(200), river.episodes(steps))))
    with capsys.disabled():
        print(
            f"\nfalse alarms, 200 Wet Chicken logs of {steps:,} steps: "
            + ", ".join(f"{n} {x:.1%}" for n, x in zip(TESTS, rates, strict=True))
        )
    assert rates[0] <= 0.05
    assert (200 * rates <= stats.binom.ppf(0.99, 200, 0.05)).all()


@pytest.mark.slow
@pytest.mark.parametrize(("repeat", "least"), few([(0.2, 0.95), (0.1, 0.5), (0.3, 0.95)], 1))
def test_hidden_memory_is_found_in_most_logs(
    repeat: float, least: float, capsys: pytest.CaptureFixture[str]
) -> None:
    rates = alarms([river_log(np.random.default_rng(i), 5_000, repeat=repeat) for i in range(40)])
    with capsys.disabled():
        print(
            f"\npower, 40 logs of 5,000 steps whose turbulence repeats with probability {repeat:g}:"
            f" {rates[0]:.1%}"
        )
    assert rates[0] >= least


@pytest.mark.slow
def test_a_faster_stream_in_the_second_half_is_found_in_most_logs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rates = alarms([river_log(np.random.default_rng(i), 5_000, change=0.5) for i in range(40)])
    with capsys.disabled():
        print(
            "\npower, 40 logs of 5,000 steps, stream faster by 0.5 in the second half: drift"
            f" {rates[1]:.1%}"
        )
    assert rates[1] >= 0.9


def random_world(seed: int, episodes: int) -> Log:
    worlds = RandomMDPs()
    return next(
        Sampler(worlds.worlds(np.array([seed]))).logs(np.array([seed]), worlds.episodes(episodes))
    )


FAULTLESS = {
    "50 walks in a random world": lambda seed: random_world(seed, 50),
    "500 walks in a random world": lambda seed: random_world(seed, 500),
    "600 decisions": lambda seed: decisions(seed, 600),
    "600 decisions with rare successes": lambda seed: decisions(1_000 + seed, 600, kind="rare"),
    "10,000 decisions with coins": lambda seed: decisions(2_000 + seed, 10_000, kind="coin"),
    "20 chains of 100 steps": lambda seed: chain(seed, 20, 100),
    "400 chains of 5 steps": lambda seed: chain(seed, 400, 5),
}
LATE = np.repeat([0.0, 1.0], 300)
FAULTY = {
    "rewards and actions change half way": lambda seed: decisions(
        seed, 600, rewards=LATE, actions=0.4 * LATE
    ),
    "4 seasons": lambda seed: decisions(
        seed, 600, rewards=season(600, 4, seed), actions=0.4 * season(600, 4, seed)
    ),
    "12 seasons": lambda seed: decisions(
        seed, 600, rewards=season(600, 12, seed), actions=0.4 * season(600, 12, seed)
    ),
    "a hidden level of 0.3 standard deviations in 20 episodes": lambda seed: chain(
        seed, 20, 100, level=0.3
    ),
    "a hidden level of 0.15 standard deviations in 100 episodes": lambda seed: chain(
        seed, 100, 100, level=0.15
    ),
    "the previous action adds half a standard deviation": lambda seed: chain(
        seed, 400, 5, after=0.5
    ),
}


def vetoed(make: Callable[[int], Log], logs: int) -> float:
    return float(np.mean([bool(vetoes(read_log(make(seed), threads=1))) for seed in range(logs)]))


@pytest.mark.slow
@pytest.mark.parametrize("name", few(FAULTLESS, 1))
def test_a_log_without_fault_is_hardly_ever_vetoed(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    share = vetoed(FAULTLESS[name], 100)
    with capsys.disabled():
        print(f"\nvetoed, 100 logs without fault, {name}: {share:.1%}")
    assert 100 * share <= stats.binom.ppf(0.99, 100, 0.03)


@pytest.mark.slow
@pytest.mark.parametrize("name", few(FAULTY, 2))
def test_a_fault_is_vetoed_in_nearly_all_logs(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    share = vetoed(FAULTY[name], 40)
    with capsys.disabled():
        print(f"\nvetoed, 40 logs in which {name}: {share:.1%}")
    assert share >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("states", "each", "ends"), few([(200, 6, 0.3), (100, 40, 0.175), (200, 12, 0.2)], 2)
)
def test_a_markov_log_in_which_outcomes_decide_who_goes_on_is_hardly_ever_vetoed(
    states: int, each: int, ends: float, capsys: pytest.CaptureFixture[str]
) -> None:
    share = vetoed(lambda seed: stay_while_you_win(seed, states, each, ends), 40)
    with capsys.disabled():
        print(f"\nvetoed, 40 logs of {states} states, {each} episodes each: {share:.1%}")
    assert 40 * share <= stats.binom.ppf(0.99, 40, 0.02)
