"""One word sets every switch in which the published code differs, and what is given stays."""

from __future__ import annotations

import numpy as np
import pytest

import surefoot
from support.settings import PARAMETERS
from surefoot.algorithms.conventions import CONVENTIONS
from surefoot.core.errors import StudyError
from surefoot.research.benchmarks import BENCHMARKS, WetChicken, benchmark
from surefoot.research.simulate import Sampler, first_key
from surefoot.research.studies.spec import (
    Study,
    parse_study,
    settings,
    shipped_study,
    variants,
)

WORD = "scholl2022"
ARRAYS = {
    "state": [0, 1],
    "action": [0, 1],
    "reward": [1.0, 0.0],
    "next_state": [1, 0],
    "episode": [0, 0],
    "time": [0, 1],
    "gamma": 0.9,
    "pi_b": np.full((2, 2), 0.5),
    "reward_range": (0, 1),
}
STUDY = """
name = "x"
seed = 1
trials = 10
{word}
[benchmark]
name = "wet-chicken"
sizes = [10]
{more}
[[algorithms]]
name = "duipi"
xi = 0.5
{steps}
[[algorithms]]
name = "adv-approx-soft-spibb"
epsilon = 1
delta = 1
{published}
"""


def study(given: str | None = None, **lines: str) -> Study:
    blank = {"word": "", "more": "", "steps": "", "published": ""}
    return parse_study(STUDY.format(**blank | lines), "x.toml", conventions=given)


def needed(name: str) -> dict[str, float]:
    return {
        k: v for k, v in PARAMETERS.items() if k in surefoot.ALGORITHMS[name].__dataclass_fields__
    }


@pytest.mark.parametrize("option", CONVENTIONS[WORD].problem)
def test_the_word_sets_every_option_of_a_problem(option: str) -> None:
    ours, theirs = surefoot.problem(**ARRAYS), surefoot.problem(**ARRAYS, conventions=WORD)
    assert getattr(theirs, option) == CONVENTIONS[WORD].problem[option] != getattr(ours, option)
    given = surefoot.problem(**ARRAYS, conventions=WORD, **{option: "baseline"})
    assert getattr(given, option) == "baseline"


@pytest.mark.parametrize("name", CONVENTIONS[WORD].algorithms)
def test_the_word_sets_the_parameters_of_an_algorithm(name: str) -> None:
    for parameter, value in CONVENTIONS[WORD].algorithms[name].items():
        plain = {k: v for k, v in needed(name).items() if k != parameter}
        made = surefoot.algorithm(name, conventions=WORD, **plain)
        assert getattr(made, parameter) == value
        other = 7 if parameter == "max_steps" else not value
        given = surefoot.algorithm(name, conventions=WORD, **plain | {parameter: other})
        assert getattr(given, parameter) == other


def test_a_composed_name_has_the_conventions_of_its_halves() -> None:
    made = surefoot.algorithm(
        "ramdp+approx-soft-spibb", kappa=1, epsilon=1, delta=1, conventions=WORD
    )
    assert made.limits.published
    assert surefoot.algorithm("basic-rl", conventions=WORD) == surefoot.algorithm("basic-rl")


@pytest.mark.parametrize("name", CONVENTIONS[WORD].benchmarks)
def test_the_word_sets_the_parameters_of_a_benchmark(name: str) -> None:
    for parameter, value in CONVENTIONS[WORD].benchmarks[name].items():
        assert getattr(benchmark(name, conventions=WORD), parameter) == value
        assert getattr(BENCHMARKS[name](), parameter) != value


def test_the_word_in_a_study_gives_way_to_what_the_study_says() -> None:
    plain, said = study(), study(word=f'conventions = "{WORD}"')
    assert [x.algorithm.max_steps for x in settings(said)[:1]] == [5000]
    assert [x.algorithm.published for x in settings(said)[1:]] == [True]
    assert not variants(said)[0].benchmark.resets
    assert said.problem.ties == "lowest-index" != plain.problem.ties
    assert said.problem.unseen_states == "first-action" != plain.problem.unseen_states
    own = study(
        word=f'conventions = "{WORD}"',
        more='resets = true\n[problem]\nties = "baseline"',
        steps="max_steps = 9",
        published="published = false",
    )
    assert settings(own)[0].algorithm.max_steps == 9
    assert not settings(own)[1].algorithm.published
    assert variants(own)[0].benchmark.resets
    assert own.problem.ties == "baseline"
    assert own.problem.unseen_states == "first-action"


def test_the_word_beside_a_study_replaces_what_it_says_but_for_what_it_varies() -> None:
    found = study(WORD, steps="max_steps = 9", published="published = [false, true]")
    assert settings(found)[0].algorithm.max_steps == 5000
    assert [x.algorithm.published for x in settings(found)[1:]] == [False, True]
    assert found.fingerprint != study(steps="max_steps = 9").fingerprint


def test_without_the_word_a_study_is_what_it_was() -> None:
    assert shipped_study("wet-chicken").fingerprint == "9844aef997e1909b"


@pytest.mark.parametrize("given", [{"given": "scholl22"}, {"word": 'conventions = "scholl22"'}])
def test_an_unknown_word_is_answered_with_the_known_one(given: dict[str, str]) -> None:
    with pytest.raises(StudyError, match=r"x\.toml: conventions: .*did you mean 'scholl2022'"):
        study(**given)
    with pytest.raises(surefoot.UnknownNameError, match="did you mean 'scholl2022'"):
        surefoot.algorithm("basic-rl", conventions="scholl22")


def test_a_boat_that_is_never_reset_starts_its_logs_where_the_baseline_is_in_the_long_run() -> None:
    river = WetChicken(resets=False)
    chain = np.einsum("sa,sat->st", river.pi_b, river.p)
    assert np.allclose(np.linalg.matrix_power(chain, 4096)[7], river.long_run, atol=1e-12)
    keys = first_key(3, river.name, np.arange(4000))
    first = [x["state"][0] for x in Sampler(river.worlds(keys)).logs(keys, river.episodes(1))]
    share = np.bincount(first, minlength=25) / 4000
    assert np.abs(share - river.long_run).max() < 4 * 0.5 / 4000**0.5
    assert river.worlds(keys).rho_b == WetChicken().worlds(keys).rho_b


def test_r_min_has_the_published_mean_on_logs_of_a_boat_that_is_never_reset() -> None:
    values = {}
    for resets in (True, False):
        river = WetChicken(resets=resets)
        keys = first_key(4, river.name, np.arange(600))
        worlds = river.worlds(keys)
        ((counts, returns),) = Sampler(worlds).counts(
            keys, (river.episodes(100),), with_returns=False
        )
        problem = worlds.problem(counts, returns, **CONVENTIONS[WORD].problem)
        pi = surefoot.improve(problem, surefoot.algorithm("r-min", n_wedge=3)).pi
        values[resets] = worlds.value(pi).mean()
    assert values[True] == pytest.approx(25.93, abs=0.5)  # 10,000 logs: papers/scholl2022
    assert values[False] == pytest.approx(24.65, abs=0.5)  # 2,000 logs


def test_resets_must_be_true_or_false() -> None:
    with pytest.raises(surefoot.ParameterError, match="wet-chicken: resets must be True or False"):
        WetChicken(resets=1)
