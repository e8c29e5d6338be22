"""The families of logs behind docs/supported.md: their truth is the truth, and the verdict keeps
its word on a sample of them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from support.effort import few

BENCHMARKS = Path(__file__).parents[2] / "measurements"


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def test_the_value_of_a_policy_is_what_its_episodes_return_on_average() -> None:
    import hostile

    world = hostile.aliased(np.random.default_rng(0)).world
    log = world.log(np.random.default_rng(1), 4000, 60)
    episode = np.unique(log["episode"], return_inverse=True)[1].reshape(-1)
    returns = np.bincount(
        episode, weights=world.gamma ** np.array(log["time"]) * np.array(log["reward"])
    )
    value = world.value(world.pi_b[world.labels])
    assert abs(returns.mean() - value) < 4 * returns.std() / np.sqrt(len(returns))
    assert world.gain(world.pi_b) == pytest.approx(0, abs=1e-12)


def test_every_family_that_must_not_be_promised_has_nothing_better_or_a_trap() -> None:
    """Where all actions do the same no policy gains; in the others the move that looks good
    loses.
    """
    import families

    names = [family.name for family in (*families.FALSE, *families.TRUE)]
    assert len(set(names)) == len(names)
    assert (
        len(families.FALSE) >= 15
        and len({name.rsplit("-", 1)[0] for name in names[len(families.FALSE) :]}) >= 8
    )
    trap = (
        next(f for f in families.FALSE if f.name == "aliased").make(np.random.default_rng(0)).world
    )
    assert trap.gain(np.array([[0.0, 1.0], [0.5, 0.5]])) < -1
    equal = (
        next(f for f in families.FALSE if f.name == "hidden-level")
        .make(np.random.default_rng(0))
        .world
    )
    assert equal.gain(np.eye(3)) == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    few(
        [
            "rarer-is-worse",
            "catastrophe",
            "rare-traps",
            "hidden-level",
            "copies",
            "drift",
            "seasons",
            "aliased",
        ],
        4,
    ),
)
def test_the_word_is_kept_through_the_command_line(name: str) -> None:
    import promises

    found = [promises.one(name, i) for i in range(15)]
    wrong = sum(bool(x["supported"]) and x["gain"] <= promises.ZERO for x in found)
    assert stats.binom.sf(wrong - 1, len(found), 0.05) > 0.001


@pytest.mark.slow
@pytest.mark.parametrize("name", ["large-effect-1000", "random-mdps-1000"])
def test_what_is_there_is_found_through_the_command_line(name: str) -> None:
    import promises

    found = [promises.one(name, i) for i in range(10)]
    assert sum(bool(x["supported"]) for x in found) >= 8
    assert all(x["gain"] > 0 for x in found if x["supported"])
