"""Findings of memory and drift that hardly matter for a gain: a note where the gain holds in the
model whose states know the circumstances, a veto everywhere else.
"""

from __future__ import annotations

import csv
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from support.faulty_logs import Log, decisions, season
from surefoot.advice import Advice, learn_and_test
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.checks.finding import DRIFT, MARKOV
from surefoot.evidence import model_of_units, units_of_batch
from surefoot.evidence.circumstances import LEVELS, circumstances_of
from surefoot.evidence.unit_estimate import UnitEstimate

MATTERS = "It hardly matters for this gain: where the state knows the circumstances too, it is"


def binned(seed: int, episodes: int = 1, steps: int = 4_000, better: float = 1.0) -> Log:
    """A slow measurement in six bins, of which the last rows still tell more than the bin; action
    1, taken three times in ten, pays `better` more.
    """
    rng = np.random.default_rng(seed)
    x = np.zeros((episodes, steps + 1))
    x[:, 0] = rng.normal(size=episodes)
    for t in range(steps):
        x[:, t + 1] = 0.9 * x[:, t] + 0.44 * rng.normal(size=episodes)
    state = np.searchsorted(np.quantile(x, np.arange(1, 6) / 6), x[:, :-1])
    action = (rng.random((episodes, steps)) < 0.3).astype(int)
    return {
        "episode": np.repeat(np.arange(episodes), steps),
        "time": np.tile(np.arange(steps), episodes),
        "state": state.ravel(),
        "action": action.ravel(),
        "reward": (better * action + 0.5 * x[:, 1:]).ravel(),
    }


def tired(seed: int, episodes: int = 400) -> Log:
    """Work pays 1 when fresh and makes tired, when it costs 0.6; rest pays 0 and makes fresh. Both
    look alike. Where most steps are rest, work looks good; always to work costs nearly 0.6 a step.
    """
    rng, rows = np.random.default_rng(seed), []
    for episode in range(episodes):
        fresh = True
        for t in range(30):
            work = bool(rng.random() < 0.3)
            reward = (1.0 if fresh else -0.6) * work + 0.2 * rng.normal()
            ends = bool(rng.random() < 0.1)
            rows.append((episode, t, 0, int(work), reward, ends))
            fresh = not work
            if ends:
                break
    names = "episode", "time", "state", "action", "reward", "terminal"
    return dict(zip(names, (np.array(x) for x in zip(*rows, strict=True)), strict=True))


def advised(columns: Log, gamma: float = 0.9, name: str = "basic-rl") -> Advice:
    log = surefoot.read_log(columns, threads=1)
    problem = log.problem(gamma)
    return learn_and_test(log, problem, chosen_algorithm(problem, name))


def test_memory_that_hardly_matters_for_a_clear_gain_is_a_note() -> None:
    found = advised(binned(0))
    assert found.supported
    assert [x.key for x in found.slight] == [MARKOV]
    assert not found.against
    assert not any(x.vetoes for x in found.slight)
    (note,) = [x for x in found.notes if MATTERS in x]
    assert note.startswith("outcomes depend on earlier steps")
    gain = found.gain
    assert gain is not None and gain.circumstances is not None and gain.held_out is not None
    inside, checked = gain.circumstances.gain(found.problem, gain.held_out, gain.pi, found.pi_b)
    assert f"it is {inside.value:.4g}, at least {inside.interval()[0]:.4g}" in note
    assert checked > 0.8
    assert inside.value == pytest.approx(gain.evidence.estimate, abs=0.3 * gain.evidence.low)


def test_the_command_says_so_to_people_and_to_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = binned(0)
    with (tmp_path / "log.csv").open("w", newline="") as file:
        csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])
    given = ("--gamma", 0.9, "--out", tmp_path / "out", "--no-report", "--algorithm", "basic-rl")
    start = ("improve", tmp_path / "log.csv", *given)
    code, out, _ = logfiles.run(monkeypatch, capsys, *start, "--json")
    told = json.loads(out)
    assert (code, told["supported"], told["against"]) == (0, True, [])
    assert any(MATTERS in x for x in told["notes"])
    code, out, _ = logfiles.run(monkeypatch, capsys, *start, "--explain")
    assert code == 0
    assert "hardly matters for this gain" in " ".join(out.split())


def test_memory_that_makes_the_gain_is_vetoed() -> None:
    found = advised(tired(0), gamma=0.95)
    assert not found.supported
    assert not found.slight
    assert MARKOV in [x.key for x in found.against]
    assert found.gain is not None
    assert found.gain.evidence.seen > 0  # what the veto is for


@pytest.mark.parametrize("name", ["BEYOND_SEEN", "MOST_MOVES"])
def test_what_differs_too_much_or_cannot_be_checked_is_vetoed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("surefoot.advice.verdict")
    monkeypatch.setattr(module, name, {"BEYOND_SEEN": 1e6, "MOST_MOVES": 1.0}[name])
    found = advised(binned(0))
    assert not found.supported
    assert not found.slight
    assert [x.key for x in found.against] == [MARKOV]


def test_of_single_decisions_drift_is_vetoed_however_clear_the_gain() -> None:
    log = decisions(1, 2_000, rewards=season(2_000, 4))
    log["reward"] = log["reward"] + 2.0 * log["action"]
    found = advised(log)
    assert [x.key for x in found.against] == [DRIFT]
    assert not found.supported and not found.slight
    assert found.gain is not None and found.gain.evidence.positive


def wide_gain(problem: Any, effect: np.ndarray, pi: np.ndarray, half: np.ndarray) -> UnitEstimate:
    """The gain in the problem whose states are (state, third of the effect), posed row by row; what
    follows the last row of an episode is in the circumstances of that row.
    """
    log = problem.log
    cuts = np.quantile(effect, [1 / 3, 2 / 3])
    third = [sum(bool(x >= cut) for cut in cuts) for x in effect]
    state = [3 * s + k for s, k in zip(log.state, third, strict=True)]
    follow = [3 * log.next_state[i] + third[i if log.last[i] else i + 1] for i in range(len(log))]
    wide = surefoot.problem(
        state=state, action=log.action, reward=log.reward, next_state=follow, episode=log.episode,
        n_states=3 * log.n_states, gamma=problem.gamma, pi_b=np.repeat(problem.pi_b, 3, axis=0),
    )  # fmt: skip
    model = model_of_units(wide, units_of_batch(wide.log, wide.gamma), half)
    return model.compare(np.repeat(pi, 3, axis=0)).gain


def test_the_gain_among_circumstances_is_that_of_states_that_know_them() -> None:
    columns = binned(3, episodes=60, steps=40)
    problem = surefoot.problem(
        **{x: columns[x] for x in ("state", "action", "reward", "episode")},
        next_state=np.append(columns["state"][1:], 0),
        gamma=0.9,
        pi_b=np.tile([0.7, 0.3], (6, 1)),
    )
    units, pi = units_of_batch(problem.log, 0.9), np.tile([0.2, 0.8], (6, 1))
    half = np.arange(units.number) % 2 == 0
    compared = model_of_units(problem, units, half).compare(pi)
    found = circumstances_of(problem, units, compared)
    assert found is not None and LEVELS == 3
    inside, checked = found.gain(problem, half, pi, np.asarray(problem.pi_b))
    expected = wide_gain(problem, found.effect, pi, half)
    assert inside.value == pytest.approx(expected.value, rel=1e-9)
    assert inside.interval() == pytest.approx(expected.interval(), rel=1e-9)
    seen: dict[tuple[int, int], list[int]] = {}
    third = np.searchsorted(np.quantile(found.effect, [1 / 3, 2 / 3]), found.effect, side="right")
    for i in np.flatnonzero(half[units.unit]):
        row = int(3 * units.state[i] + third[i]), int(units.action[i])
        seen.setdefault(row, []).append(int(units.unit[i]))
    visits = {s: sum(len(x) for (t, _), x in seen.items() if t == s) for s, _ in seen}
    twice = sum(visits[s] for (s, _), x in seen.items() if len(set(x)) >= 2)
    assert checked == pytest.approx(twice / (2 * sum(visits.values())))
    assert 0.9 < checked < 1


def test_the_effect_of_circumstances_is_what_the_past_tells_beyond_the_state() -> None:
    """Action 1 of the step before adds 1 to the reward: so the effect of steps after it is 1 more
    than that of others.
    """
    rng, n = np.random.default_rng(0), 4_000
    action = (rng.random(n) < 0.3).astype(int)
    before = np.append(0, action[:-1])
    problem = surefoot.problem(
        state=np.zeros(n), action=action, reward=before + 0.1 * rng.normal(size=n),
        next_state=np.zeros(n), episode=np.arange(n) // 40, gamma=0.5, pi_b=[[0.7, 0.3]],
    )  # fmt: skip
    units = units_of_batch(problem.log, 0.5)
    compared = model_of_units(problem, units).compare(np.array([[0.5, 0.5]]))
    found = circumstances_of(problem, units, compared)
    assert found is not None
    later = ~problem.log.first
    after, others = (found.effect[later & (before == a)].mean() for a in (1, 0))
    assert after - others == pytest.approx(1.0, abs=0.05)
