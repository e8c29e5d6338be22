"""The measurement of the safety test's power: its values are those of the package, and it runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import surefoot
from surefoot.evidence import Standard, episode_values

PLACE = Path(__file__).parents[2] / "measurements"


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PLACE))


@pytest.mark.parametrize("n", [40, 700])
@pytest.mark.parametrize("at", [0, 2, 4, 5])
def test_the_values_of_a_family_are_those_of_a_log_of_it(at: int, n: int) -> None:
    from safety_power import FAMILIES

    family, gain = FAMILIES[at], 0.05
    steps = family.steps
    x, control = family.values(np.random.default_rng(3), n, gain)
    u = np.random.default_rng(3).random((n, steps, 2))
    action = (u[..., 0] < family.b).astype(int)
    mean = family.p + action * gain / (family.pi - family.b)
    reward = u[..., 1] < mean
    if family.scatter is not None:
        reward = mean + family.scatter * (2 * u[..., 1] - 1)
    problem = surefoot.problem(
        state=np.zeros(n * steps, int), action=action.ravel(), reward=reward.ravel() / steps,
        next_state=np.tile(np.arange(steps) == steps - 1, n).astype(int),
        episode=np.repeat(np.arange(n), steps), terminal_states=[1], gamma=1.0,
        pi_b=np.array([[1 - family.b, family.b], [0.5, 0.5]]), reward_range=(0, 1 / steps),
        return_range=(0, 1),
    )  # fmt: skip
    pi = np.array([[1 - family.pi, family.pi], [0.5, 0.5]])
    standard = Standard(
        reward_range=(0, 1 / steps), horizon=steps, largest_ratio=family.pi / family.b
    )
    found = episode_values(problem.log, pi, problem.pi_b, 1.0, standard)
    assert found.lo == pytest.approx(-1)
    assert found.x == pytest.approx(x)
    assert found.control is not None
    assert found.control.values == pytest.approx(control.values)
    k = np.linspace(0, 1, 7)
    assert found.control.floors(k) == pytest.approx(control.floors(k))
    assert (control.floors(k)[-1] < -2) == (n > 250 and family.largest_weight > 3)


def test_values_have_the_gain_as_their_mean() -> None:
    from safety_power import FAMILIES

    for i, family in enumerate(FAMILIES):
        x, control = family.values(np.random.default_rng(i), 20_000, 0.02)
        for y, mean in ((x, 0.02), (control.values, 0.0)):
            assert abs(y.mean() - mean) < 4.5 * y.std() / np.sqrt(len(y))
        assert x.min() >= -1
        for k in (0.1, 1.0):
            assert (x - k * control.values).min() >= control.floors(np.array(k)) - 1e-9


def test_it_prints_a_row_for_each_gain(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import safety_power

    monkeypatch.setattr(safety_power, "SIZES", (20, 60))
    monkeypatch.setattr(safety_power, "GRID", (50, 400))
    safety_power.measure(safety_power.FAMILIES[2], 2, 4)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0].strip() for line in lines[1:]] == [
        f"gain {x}" for x in ("+0.00", "-0.02", "+0.02", "+0.05", "+0.10", "+0.20")
    ]
    assert safety_power.needed((100, 200), (0.8, 0.9)) == 100
    assert 100 < safety_power.needed((100, 200), (0.7, 0.9)) < 200
    assert safety_power.needed((100, 200), (0.1, 0.2)) == np.inf
