"""How often the tests for memory and drift are wrong, measured on rivers with and without faults."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rivers import river_log
from surefoot.benchmarks import Sampler, WetChicken
from surefoot.diagnosis import check_log
from surefoot.logs import read_log

TESTS = ("Markov", "drift", "policy drift")


def p_values(columns: dict[str, np.ndarray]) -> list[float]:
    found = {finding.name: finding for finding in check_log(read_log(columns, threads=1))}
    return [found[name].numbers["p_value"] for name in TESTS]


def alarms(logs: list[dict[str, np.ndarray]]) -> np.ndarray:
    return np.mean([np.array(p_values(columns)) < 0.05 for columns in logs], axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [2_000, 10_000])
def test_false_alarms_on_markov_logs_are_at_most_five_percent_for_memory_and_not_clearly_more_for_drift(
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
@pytest.mark.parametrize(("repeat", "least"), [(0.1, 0.5), (0.2, 0.95), (0.3, 0.95)])
def test_hidden_memory_is_found_in_most_logs(repeat: float, least: float, capsys: pytest.CaptureFixture[str]) -> None:
    rates = alarms([river_log(np.random.default_rng(i), 5_000, repeat=repeat) for i in range(40)])
    with capsys.disabled():
        print(f"\npower, 40 logs of 5,000 steps whose turbulence repeats with probability {repeat:g}: {rates[0]:.1%}")
    assert rates[0] >= least


@pytest.mark.slow
def test_a_faster_stream_in_the_second_half_is_found_in_most_logs(capsys: pytest.CaptureFixture[str]) -> None:
    rates = alarms([river_log(np.random.default_rng(i), 5_000, change=0.5) for i in range(40)])
    with capsys.disabled():
        print(f"\npower, 40 logs of 5,000 steps, stream faster by 0.5 in the second half: drift {rates[1]:.1%}")
    assert rates[1] >= 0.9
