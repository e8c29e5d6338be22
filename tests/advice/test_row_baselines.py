"""A known baseline that goes by raw rows, where states are made of measurements."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot.advice.gain import CHOSEN, called_by_rows
from surefoot.advice.measurements import Making, posed_with_states
from surefoot.core.errors import BaselineError, PolicyError
from surefoot.evidence.units import take_episodes
from surefoot.evidence.weights import weigh
from surefoot.serving import case_when
from surefoot.serving.encoders import QuantileEncoder

HOW: dict[str, Any] = {"bandit": True, "reward_range": (0, 1)}
COLUMNS = ("heat", "noise", "band", "action", "reward", "chance")


def cools(heat: float) -> float:
    """The baseline: by whole degrees, odd ones are cooled often."""
    return 0.75 if int(heat) % 2 else 0.25


def raw(folder: Path, n: int = 1200, seed: int = 0) -> Path:
    """Single decisions: cooling pays above a heat of 6, and costs below."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        heat = round(float(rng.uniform(0, 10)), 3)
        cool = rng.random() < cools(heat)
        good = 0.3 + 0.5 * ((heat > 6) == bool(cool))
        chance = cools(heat) if cool else 1 - cools(heat)
        noise = round(float(rng.normal()), 3)
        done = "cool" if cool else "wait"
        rows.append((heat, noise, f"b{int(heat)}", done, int(rng.random() < good), chance))
    return logfiles.write(folder / "raw.csv", COLUMNS, rows)


def rule(folder: Path, name: str = "rule.csv", column: str = "band") -> Path:
    rows = [
        (f"b{i}", a, cools(i) if a == "cool" else 1 - cools(i))
        for i in range(10)
        for a in ("cool", "wait")
    ]
    return logfiles.write(folder / name, (column, "action", "probability"), rows)


def function() -> surefoot.OfRows:
    return surefoot.OfRows(
        lambda row: {"cool": cools(row["heat"]), "wait": 1 - cools(row["heat"])}, ["heat"]
    )


def controller(folder: Path) -> Path:
    """The same as a controller with cut points of its own."""
    encoder = QuantileEncoder(("heat",), (tuple(map(float, range(1, 10))),))
    pi = {x: {"cool": cools(i), "wait": 1 - cools(i)} for i, x in enumerate(encoder.labels)}
    return surefoot.Controller(policy=pi, encoder=encoder).save(folder / "own.json")


def posed(log: Path, baseline: Any, **how: Any) -> Any:
    return posed_with_states(
        log, HOW | {"propensity": "-", "baseline": baseline} | how, Making(features=("heat",))
    )


def test_a_table_a_function_and_a_controller_are_one_baseline(tmp_path: Path) -> None:
    log = raw(tmp_path)
    given = [rule(tmp_path), function(), controller(tmp_path)]
    each = [posed(log, x).problem for x in given]
    for problem in each:
        assert problem.pi_b_estimated
        assert np.allclose(problem.pi_b, each[0].pi_b)
        assert np.allclose(problem.log.beside[CHOSEN], each[0].log.beside[CHOSEN])
    told = posed(log, None, propensity="chance").problem
    assert np.allclose(told.log.beside[CHOSEN], each[0].log.beside[CHOSEN])


def test_one_of_several_policies_is_not_what_made_the_log(tmp_path: Path) -> None:
    how = {"propensity": "chance", "policy_column": "band", "baseline_policy": "b1"}
    found = posed(raw(tmp_path), None, **how)
    assert not found.measured.by_row and CHOSEN not in found.problem.log.beside


def test_in_a_state_it_is_its_mean_over_the_rows(tmp_path: Path) -> None:
    log = raw(tmp_path, 300)
    found = posed(log, rule(tmp_path))
    with open(log, newline="") as file:
        heat = np.array([float(x["heat"]) for x in csv.DictReader(file)])
    codes = found.measured.encoder.encode(heat[:, None])
    a = found.log.labels.find_action("cool")
    for code, label in enumerate(found.measured.encoder.labels):
        s = found.log.labels.find_state(label)
        mean = np.mean([cools(x) for x in heat[codes == code]])
        assert found.problem.pi_b[s, a] == pytest.approx(mean)


def test_one_that_is_the_same_within_every_state_is_known_exactly(tmp_path: Path) -> None:
    made = Making(features=("heat",), edges={"heat": [float(i) for i in range(1, 10)]}, states=10)
    found = posed_with_states(raw(tmp_path), HOW | {"baseline": rule(tmp_path)}, made)
    assert not found.problem.pi_b_estimated
    assert not found.measured.by_row


def test_whole_episodes_are_weighted_row_by_row(tmp_path: Path) -> None:
    advice = surefoot.advise(
        raw(tmp_path), features=["heat"], states=6, baseline=rule(tmp_path), propensity="-", **HOW
    )
    gain = advice.gain
    assert advice.supported and gain is not None and gain.weighed
    batch = take_episodes(advice.problem.log, gain.held_out[advice.posed.measured.units.unit])
    ratio = gain.pi[batch.state, batch.action] / batch.beside[CHOSEN]
    same = np.abs(gain.pi - advice.problem.pi_b).sum(axis=1) <= 1e-9
    ratio = np.where(same[batch.state], 1.0, ratio)
    x = (ratio - 1) * batch.reward
    assert abs(gain.evidence.estimate - x.mean()) < x.std() / np.sqrt(len(x))
    rows = called_by_rows(batch, gain.pi, advice.problem)
    assert np.allclose(np.exp(weigh(rows, gain.pi).log), ratio)
    assert "row by row" in advice.explain()


def test_where_nothing_changes_the_weight_is_one(tmp_path: Path) -> None:
    problem = posed(raw(tmp_path, 300), rule(tmp_path)).problem
    pi = np.array(problem.pi_b)
    s = int(np.flatnonzero(~problem.terminal)[0])
    pi[s] = pi[s, ::-1]
    found = np.exp(weigh(called_by_rows(problem.log, pi, problem), pi).log)
    there = problem.log.state == s
    assert np.allclose(found[~there], 1.0)
    assert len(np.unique(np.round(found[there], 9))) > 2


def test_a_baseline_that_cannot_have_made_the_log_is_found(tmp_path: Path) -> None:
    log = raw(tmp_path)
    never = surefoot.OfRows(
        lambda row: {"cool": float(row["heat"] > 5), "wait": float(row["heat"] <= 5)}, ["heat"]
    )
    with pytest.raises(BaselineError, match="never does there"):
        posed(log, never)
    other = surefoot.OfRows(
        lambda row: (
            {"cool": 0.05, "wait": 0.95} if row["noise"] > 0 else {"cool": 0.9, "wait": 0.1}
        ),
        ["noise"],
    )
    advice = surefoot.advise(
        log, features=["heat"], states=6, baseline=other, propensity="-", **HOW
    )
    assert not advice.supported and "cannot have made this log" in advice.reason


@pytest.mark.parametrize("change", [0.1, 0.4])
def test_a_rule_with_its_exploration(change: float, tmp_path: Path) -> None:
    rows = [(f"b{i}", "cool" if i % 2 else "wait") for i in range(10)]
    taken = logfiles.write(tmp_path / "taken.csv", ("band", "action"), rows)
    found = posed(raw(tmp_path), taken, exploration=change)
    odd = 1 - change / 2
    assert set(np.round(found.problem.log.beside[CHOSEN], 9)) == {odd, change / 2}
    with pytest.raises(BaselineError, match="probabilities already"):
        posed(raw(tmp_path), rule(tmp_path), exploration=0.1)


def test_what_a_baseline_must_say(tmp_path: Path) -> None:
    log = raw(tmp_path)
    with pytest.raises(BaselineError, match=r"no column 'zone'.*surefoot discretize"):
        posed(log, rule(tmp_path, "zone.csv", "zone"))
    some = logfiles.write(tmp_path / "some.csv", ("band", "action"), [("b0", "wait")])
    with pytest.raises(BaselineError, match="says nothing about row"):
        posed(log, some)
    strange = [(f"b{i}", "dance") for i in range(10)]
    strange = logfiles.write(tmp_path / "strange.csv", ("band", "action"), strange)
    with pytest.raises(BaselineError, match="'dance' is not in the log"):
        posed(log, strange)


def test_where_nothing_changes_exports_leave_the_decision_to_the_baseline(tmp_path: Path) -> None:
    """Two states change; in all others the mean of the baseline is not what it does."""
    advice = surefoot.advise(
        raw(tmp_path), features=["heat"], states=6, baseline=rule(tmp_path), propensity="-",
        most_changes=2, **HOW,
    )  # fmt: skip
    assert advice.supported and len(advice.changed) == 2 < advice.log.n_states
    advice.save(tmp_path / "out")
    policy, encoder = tmp_path / "out" / "policy.csv", tmp_path / "out" / "encoder.json"
    made = surefoot.export(policy, tmp_path / "alone.json", encoder=encoder)
    assert len(made.policy.labels.states) == 2
    heats = np.linspace(0.05, 9.95, 100)
    changed = [made.knows({"heat": x}) for x in heats]
    assert 0 < sum(changed) < 100
    still = float(heats[changed.index(False)])
    with pytest.raises(PolicyError, match="do as before"):
        made.probabilities({"heat": still})
    with pytest.raises(PolicyError, match="cannot stand in where the policy changes nothing"):
        surefoot.export(
            policy, tmp_path / "one.sql", encoder=encoder, otherwise=made.policy.labels.actions[0]
        )
    assert not (tmp_path / "one.sql").exists()
    surefoot.export(policy, tmp_path / "alone.sql", encoder=encoder)
    sql = (tmp_path / "alone.sql").read_text()
    assert "ELSE NULL" in sql and "'as before'" in sql
    again = surefoot.load_controller(tmp_path / "alone.json")
    assert again.policy.labels.states == made.policy.labels.states


def test_a_controller_calls_the_baseline_where_it_changes_nothing(tmp_path: Path) -> None:
    import duckdb

    advice = surefoot.advise(
        raw(tmp_path), features=["heat"], states=6, baseline=rule(tmp_path), propensity="-",
        most_changes=2, **HOW,
    )  # fmt: skip
    advice.save(tmp_path / "out")
    policy, encoder = tmp_path / "out" / "policy.csv", tmp_path / "out" / "encoder.json"
    for second in (controller(tmp_path), rule(tmp_path)):
        surefoot.export(policy, tmp_path / "both.json", encoder=encoder, otherwise=second)
        both = surefoot.load_controller(tmp_path / "both.json")
        for heat in np.linspace(0.05, 9.95, 50):
            row = {"heat": heat, "band": f"b{int(heat)}"}
            found = both.probabilities(row)
            if not both.knows(row):
                assert found["cool"] == pytest.approx(cools(heat))
        text = case_when(both)
        heats = ", ".join(f"({x}, 'b{int(x)}')" for x in np.linspace(0.05, 9.95, 50))
        said = duckdb.sql(f"select heat, {text} from (values {heats}) rows(heat, band)").fetchall()
        for heat, action in said:
            row = {"heat": heat, "band": f"b{int(heat)}"}
            assert action == both.decide(row)
    assert "controller" in json.loads((tmp_path / "both.json").read_text())["otherwise"]
