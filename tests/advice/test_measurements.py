"""Measurements instead of states: only the half that learns cuts them, and the other half tests."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot.advice.gain import held_out_gain, without_measurements
from surefoot.advice.measurements import ALGORITHM, Making, _judged, posed_with_states
from surefoot.advice.posing import posed_by_hand
from surefoot.core.errors import ParameterError, SurefootError
from surefoot.evidence.units import units_of, units_of_batch
from surefoot.serving.encoders import fingerprint, read_encoder

GAMMA, COLUMNS = 0.9, ("episode", "time", "heat", "noise", "action", "reward")
HOW: dict[str, Any] = {"gamma": GAMMA, "reward_range": (0, 1), "episode_end": "terminal"}


def raw(folder: Path, episodes: int = 300, seed: int = 0, **changes: Any) -> Path:
    """Five steps each: cooling pays above a heat of 6, and costs below; noise does not matter."""
    rng = np.random.default_rng(seed)
    rows = []
    for e in range(episodes):
        for t in range(5):
            heat, cool = round(float(rng.uniform(0, 10)), 3), int(rng.random() < 0.4)
            good = 0.3 + 0.5 * ((heat > 6) == bool(cool))
            noise = round(float(rng.normal()), 3)
            rows.append([e, t, heat, noise, "cool" if cool else "wait", int(rng.random() < good)])
    rows = changes["change"](rows) if "change" in changes else rows
    return logfiles.write(folder / "raw.csv", COLUMNS, rows)


def made(log: Path, **how: Any) -> Any:
    """What `posed_with_states` makes of a log."""
    own = {x: how.pop(x) for x in ("states", "edges", "missing") if x in how}
    return posed_with_states(log, HOW | how, Making(features=("heat", "noise"), **own))


def test_one_command_goes_from_measurements_to_a_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--gamma", "0.9", "--reward-range", "0,1", "--episode-end", "terminal")
    code, out, _ = logfiles.run(
        monkeypatch, capsys, "improve", raw(tmp_path, seed=2), "--features", "heat,noise", *words
    )
    assert (code, out.startswith("verdict   SUPPORTED")) == (0, True)
    encoder = json.loads(Path("improved/encoder.json").read_text())
    assert encoder["features"] == ["heat", "noise"]
    assert len(encoder["edges"][0]) >= 2
    made_by = json.loads(Path("improved/summary.json").read_text())["log"]["encoder"]
    assert made_by == fingerprint(read_encoder(Path("improved/encoder.json")))
    code, _, _ = logfiles.run(
        monkeypatch, capsys, "export", "improved/policy.csv",
        "--encoder", "improved/encoder.json", "--out", "controller.json",
    )  # fmt: skip
    controller = surefoot.load_controller("controller.json")
    chosen = [controller.probabilities({"heat": x, "noise": 0.0}) for x in (9.0, 1.0)]
    assert [max(p, key=lambda a: p[a]) for p in chosen] == ["cool", "wait"]


def test_the_half_that_tests_cuts_nothing(tmp_path: Path) -> None:
    log = raw(tmp_path)
    before = made(log)
    units = before.measured.units
    batch = before.problem.log
    held_out = ~before.measured.learning[units.unit]
    tested = {int(e) for e in batch.episode[held_out]}
    assert 0 < len(tested) < 300

    def moved(of: set[int]) -> Any:
        return lambda rows: [
            [e, t, 10 - heat if e in of else heat, *rest] for e, t, heat, *rest in rows
        ]

    elsewhere, here = tmp_path / "elsewhere", tmp_path / "here"
    elsewhere.mkdir(), here.mkdir()
    after = made(raw(elsewhere, change=moved(tested)))
    assert after.measured.encoder == before.measured.encoder
    other = made(raw(here, change=moved({e for e in range(300) if e not in tested})))
    assert other.measured.encoder != before.measured.encoder


def test_the_verdict_is_that_of_states_that_were_made_before(tmp_path: Path) -> None:
    log, states = raw(tmp_path, seed=2), tmp_path / "states.csv"
    advice = surefoot.advise(log, features=["heat", "noise"], **HOW)
    assert advice.posed is not None and advice.posed.measured is not None
    surefoot.discretize(log, states, encoder=advice.posed.measured.encoder)
    same = surefoot.advise(states, **HOW)
    assert advice.gain is not None and same.gain is not None
    found, known = advice.gain.evidence, same.gain.evidence
    # where in its state a row lies may explain something, too
    assert replace(found, explained=0.0) == replace(known, explained=0.0)
    assert (advice.pi == same.pi).all()
    assert advice.log.states == same.log.states


def test_the_number_of_states_and_edges_may_be_given(tmp_path: Path) -> None:
    log = raw(tmp_path)
    assert len(made(log, states=30).measured.encoder.labels) == 30
    own = made(log, states=8, edges={"heat": [6]}).measured.encoder
    assert own.edges[0] == (6.0,)


def test_a_log_of_one_trajectory_and_one_of_single_decisions(tmp_path: Path) -> None:
    log = raw(tmp_path)
    one = posed_with_states(
        log,
        {"gamma": 0.9, "episode": "-", "order": "file", "time": "-"},
        Making(features=("heat",)),
    )
    assert one.problem.start_visits and one.measured.units.blocks
    rows = posed_with_states(log, {"bandit": True}, Making(features=("heat",)))
    assert rows.gamma == 0 and rows.log.n_states > 4


def test_propensities_that_the_states_explain_split_the_log_at_random(tmp_path: Path) -> None:
    """They differ in the log as a whole, where the earlier half would learn, and in no state."""
    rng = np.random.default_rng(3)
    rows = []
    for e in range(400):
        heat = round(float(rng.uniform(0, 10)), 3)
        p = 0.7 if heat > 6 else 0.2
        cool = rng.random() < p
        rows.append(
            (e, 0, heat, 0.1 * (e % 3), "cool" if cool else "wait", int(cool), p if cool else 1 - p)
        )
    header = (*COLUMNS, "propensity")
    log = logfiles.write(tmp_path / "raw.csv", header, rows)
    found = made(log, states=6, edges={"heat": [6.0]})
    assert found.measured.units.turn is None
    finer = made(log, states=2, edges={"heat": [5.0]})
    assert finer.measured.units.turn is not None


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"state": "heat"}, "leave --state"),
        ({"next_state": "heat"}, "leave --next-state"),
        ({"baseline": np.full((5, 2), 0.5)}, "surefoot discretize"),
        ({"forbidden": "never.csv"}, "surefoot discretize"),
        ({"dask": "tcp://here"}, "leave out --dask"),
    ],
)
def test_what_does_not_go_with_features_is_refused(
    how: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(SurefootError, match=said):
        surefoot.advise(raw(tmp_path), features=["heat"], **(HOW | how))


def test_words_about_states_need_features(tmp_path: Path) -> None:
    log = raw(tmp_path)
    for how in ({"states": 20}, {"missing": "last"}):
        with pytest.raises(ParameterError, match="--features"):
            surefoot.advise(log, **HOW, state="heat", **how)
    with pytest.raises(ParameterError, match="read already"):
        surefoot.advise(surefoot.read_log(log, state="heat"), features=["heat"], gamma=0.9)


def test_halves_are_those_of_the_log_with_states(tmp_path: Path) -> None:
    posed = made(raw(tmp_path))
    units = units_of(posed.log, posed.problem.log, GAMMA)
    assert np.array_equal(units.unit, posed.measured.units.unit)
    assert posed_by_hand(posed.log, posed.problem).log is posed.log


def test_single_decisions_need_no_episode(tmp_path: Path) -> None:
    rows = [(heat, noise, action, r) for _, _, heat, noise, action, r in _rows(raw(tmp_path))]
    log = logfiles.write(tmp_path / "bare.csv", COLUMNS[2:], rows)
    found = surefoot.advise(log, features=["heat"], bandit=True, reward_range=(0, 1))
    assert found.supported and found.log.n_states > 3


def test_nothing_is_proved_from_rows_that_made_the_states(tmp_path: Path) -> None:
    """An algorithm that proves its policy from all rows is tested on the other half instead."""
    how = HOW | {"baseline": lambda state: {"cool": 0.4, "wait": 0.6}}
    log = raw(tmp_path, 6000, change=lambda rows: [x for x in rows if x[1] == 0])
    asked = {"algorithm": "certified-advantage", **how}
    found = surefoot.advise(log, features=["heat"], states=2, edges={"heat": [6.0]}, **asked)
    assert found.gain is not None and "proved" not in found.reason
    assert isinstance(found.assurance, str) and "--features" in found.assurance
    before = tmp_path / "states.csv"
    surefoot.discretize(log, before, edges={"heat": [6.0]}, states=2)
    assert "proved" in surefoot.advise(before, **asked).reason


def _rows(log: Path) -> list[list[str]]:
    with open(log, newline="") as file:
        return list(csv.reader(file))[1:]


def test_where_in_its_state_a_row_lies_may_explain_all_of_a_gain(tmp_path: Path) -> None:
    """One wide state, in which the habit jumps and the reward rises; actions do nothing."""
    rng = np.random.default_rng(5)
    heat = rng.normal(size=1500)
    cool = rng.random(1500) < np.where(heat > 0.37, 0.9, 0.1)
    reward = 0.5 * heat + rng.normal(size=1500)
    rows = [(h, int(c), r) for h, c, r in zip(heat, cool, reward, strict=True)]
    log = logfiles.write(tmp_path / "raw.csv", ("heat", "action", "reward"), rows)
    made = Making(features=("heat",), states=2, edges={"heat": [-2.0]})
    found = posed_with_states(log, {"bandit": True}, made)
    units = units_of(found.log, found.problem.log, 0.0)
    gain = held_out_gain(found.problem, units, ALGORITHM).evidence
    assert gain.low > 0 and not gain.positive
    assert gain.explained > gain.estimate
    without = held_out_gain(without_measurements(found.problem), units, ALGORITHM).evidence
    assert without.positive  # and the word would be false
    advice = surefoot.advise(log, features=["heat"], states=2, edges={"heat": [-2.0]}, bandit=True)
    assert not advice.supported and "where within its state a row lies" in advice.reason


def test_the_measurement_that_a_reward_follows_beside_a_habit_of_its_own(tmp_path: Path) -> None:
    """Honest exploration: where in its state a row lies explains next to nothing."""
    posed = made(raw(tmp_path), states=9)
    units = units_of(posed.log, posed.problem.log, GAMMA)
    gain = held_out_gain(posed.problem, units, ALGORITHM).evidence
    assert gain.positive and abs(gain.explained) < 0.25 * gain.estimate


def test_numbers_of_states_are_compared_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = raw(tmp_path)
    advice = surefoot.advise(log, features=["heat", "noise"], **HOW)
    assert advice.posed is not None and advice.posed.measured is not None
    tried = advice.posed.measured.tried
    assert tried[0].states < 16  # few states are compared, too, but not made of 750 rows
    best = max((x for x in tried if x.states >= 16), key=lambda x: x.gain)
    assert best.states == len(advice.posed.measured.encoder.labels)
    assert [x.states for x in tried] == sorted({x.states for x in tried})
    cells = advice.document["log"]["cells"]
    assert [x["states"] for x in cells["tried"]] == [x.states for x in tried]
    assert f"states {best.states} *, rows a state" in advice.explain()
    assert f"{best.states} states</text>" in advice.page()
    code, out, _ = logfiles.run(
        monkeypatch, capsys, "check", log, "--features", "heat,noise", "--gamma", "0.9",
        "--episode-end", "terminal", "--report", tmp_path / "page.html",
    )  # fmt: skip
    assert code == 0
    table = out.partition("what finer or coarser states would give")[2].splitlines()
    assert any(x.split()[:2] == [str(best.states), "*"] for x in table)
    page = (tmp_path / "page.html").read_text()
    assert "What finer or coarser states would give" in page
    assert f"{best.states} states</text>" in page


def test_the_share_of_returns_within_states(tmp_path: Path) -> None:
    """A reward that is the measurement: cells of it leave what a bin leaves of a uniform number."""
    rng = np.random.default_rng(0)
    heat = rng.uniform(0, 1, 4000)
    rows = [(h, int(rng.random() < 0.5), h + 0.01 * rng.normal()) for h in heat]
    log = logfiles.write(tmp_path / "raw.csv", ("heat", "action", "reward"), rows)
    found = posed_with_states(log, {"bandit": True}, Making(features=("heat",)))
    for x in found.measured.tried[:4]:
        assert x.left == pytest.approx(1 / x.states**2, rel=0.25)


def test_edges_and_bins_for_what_is_missing_are_the_least_states(tmp_path: Path) -> None:
    edges = {"heat": [1.0, 2.0, 3.0, 4.0, 5.0], "noise": [0.0]}
    encoder = made(raw(tmp_path), edges=edges).measured.encoder
    assert len(encoder.labels) == 12


def test_a_column_that_is_called_state_is_not_the_state_that_is_made(tmp_path: Path) -> None:
    log = raw(tmp_path)
    header, *lines = log.read_text().splitlines()
    own = [f"{line},asleep" for line in lines]
    log.write_text("\n".join([f"{header},State", *own]) + "\n")
    found = made(log, states=6)
    assert "asleep" not in found.log.states and found.log.n_states >= 6


def test_states_that_are_too_coarse_are_not_flattered_where_finer_ones_judge() -> None:
    """In one state for all, the action that sick people get looks bad; in finer states it is not."""
    rng = np.random.default_rng(0)
    sick = rng.integers(0, 2, 4000)
    action = (rng.random(4000) < np.where(sick, 0.9, 0.1)).astype(int)
    steps = {"state": sick, "action": action, "reward": 1.0 - sick, "next_state": sick + 2}
    every = {"gamma": 0.9, "episode": np.arange(4000), "terminal": np.ones(4000, dtype=bool)}
    finer = surefoot.problem(**steps, **every, n_states=4)
    coarse = surefoot.problem(**(steps | {"state": 0 * sick}), **every, n_states=4)
    units = units_of_batch(finer.log, 0.9)
    gain = held_out_gain(coarse, units_of_batch(coarse.log, 0.9), ALGORITHM)
    assert gain.evidence.estimate > 0.3
    assert abs(_judged(gain, coarse, finer, units).value) < 1e-9
    assert _judged(gain, coarse, coarse, units_of_batch(coarse.log, 0.9)).value == pytest.approx(
        gain.evidence.estimate
    )


def test_rows_in_memory_are_taken_as_those_of_a_file(tmp_path: Path) -> None:
    with open(raw(tmp_path, 100), newline="") as file:
        rows = list(csv.DictReader(file))
    text = ("action",)
    table = {x: np.array([row[x] if x in text else float(row[x]) for row in rows]) for x in COLUMNS}
    assert made(table).problem.n_sa.tolist() == made(tmp_path / "raw.csv").problem.n_sa.tolist()
