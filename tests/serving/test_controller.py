"""One object from raw measurements to an action: what it does, saved and loaded, and in a loop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.core.errors import PolicyError
from surefoot.serving import Controller, KMeansEncoder, QuantileEncoder, load_controller
from surefoot.serving.controller import most_probable

ENCODER = QuantileEncoder(("pulse", "age"), ((60.0, 90.0), (50.0,)), missing=("age",))
CENTRES = KMeansEncoder(("pulse",), (70.0,), (10.0,), ((-1.0,), (2.0,)))


def policy(**changes: Any) -> surefoot.Policy:
    states = tuple(x for x in ENCODER.labels if x != "pulse >= 90 and age >= 50")
    pi = np.array([[0.2, 0.5, 0.3]] * len(states))
    pi[0] = [0.0, 1.0, 0.0]
    labels = surefoot.Labels(states, ("wait", "drug", 7))
    return surefoot.Policy(**({"pi": pi, "labels": labels, "baseline": pi[::-1]} | changes))


def same(one: Controller, other: Controller, rows: list[Any]) -> bool:
    return all(one.probabilities(row) == other.probabilities(row) for row in rows)


def test_a_row_of_measurements_leads_to_an_action_whatever_its_form() -> None:
    controller = Controller(policy=policy(), encoder=ENCODER)
    rows = [{"age": 40, "pulse": "59.5", "name": "x"}, [59.5, 40], np.array([59.5, 40.0])]
    assert {controller.state(row) for row in rows} == {"pulse < 60 and age < 50"}
    assert [controller.decide(row) for row in rows] == ["drug"] * 3
    assert controller.state({"pulse": 95, "age": None}) == "pulse >= 90 and age missing"
    drawn = [controller.act([75, 60], np.random.default_rng(i)) for i in range(300)]
    assert {x: drawn.count(x) for x in ("wait", "drug", 7)} == pytest.approx(
        {"wait": 60, "drug": 150, 7: 90}, abs=30
    )


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"pulse": 60}, "has no 'age', of which the state is made; it has 'pulse'"),
        ([60.0], r"has 2 measurements \(pulse, age\), got 1"),
        ({"pulse": "fast", "age": 3}, "'pulse' must be a number, got 'fast'"),
        ({"pulse": None, "age": 3}, "no state: measurement 'pulse' is missing"),
        ([np.inf, 3], "'pulse' must be a finite number"),
        (
            "pulse < 60 and age < 50",
            "a dict of measurements, or their values in the order pulse, age",
        ),
    ],
)
def test_a_row_that_is_none_is_refused_in_words(row: Any, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        Controller(policy=policy(), encoder=ENCODER).decide(row)


def test_in_a_state_never_seen_it_refuses_takes_an_action_or_asks_another_policy() -> None:
    row, known = [95, 60], [70, 40]
    rule = surefoot.Policy(
        pi=np.array([[1.0, 0.0], [0.0, 1.0]]),
        labels=surefoot.Labels(
            ("pulse >= 90 and age >= 50", "60 <= pulse < 90 and age < 50"), ("call", "wait")
        ),
    )
    for otherwise, expected in (("wait", "wait"), ("7", 7), (rule, "call")):
        controller = Controller(policy=policy(), encoder=ENCODER, otherwise=otherwise)
        assert (controller.decide(row), controller.knows(row)) == (expected, False)
        assert controller.decide(known) == "drug"  # not what the second policy says
    with pytest.raises(PolicyError, match="state 'pulse >= 90 and age >= 50' is not in the policy"):
        Controller(policy=policy(), encoder=ENCODER).decide(row)
    strange = surefoot.Policy(pi=np.eye(1), labels=surefoot.Labels(("x",), ("call",)))
    with pytest.raises(PolicyError, match="is not in the policy"):
        Controller(policy=policy(), encoder=ENCODER, otherwise=strange).decide(row)


def test_a_fallback_that_no_action_is_and_an_encoder_of_something_else_are_refused() -> None:
    with pytest.raises(
        PolicyError, match=r"the fallback action 'druk' is not in the policy.*'drug'"
    ):
        Controller(policy=policy(), otherwise="druk")
    with pytest.raises(PolicyError, match="policy and encoder do not belong together"):
        Controller(policy=policy(), encoder=CENTRES)


@pytest.mark.parametrize("otherwise", [None, 7, "policy"])
@pytest.mark.parametrize("encoder", [ENCODER, None])
def test_what_is_loaded_does_what_was_saved(tmp_path: Path, otherwise: Any, encoder: Any) -> None:
    other = policy(pi=policy().pi[:, ::-1]) if otherwise == "policy" else otherwise
    made = Controller(policy=policy(), encoder=encoder, otherwise=other)
    again = load_controller(made.save(tmp_path / "controller.json"))
    rows: list[Any] = [[p, a] for p in (50, 70, 95) for a in (40, None)]
    rows = rows if encoder else list(policy().labels.states)
    rows += [[95, 60]] if encoder and otherwise == 7 else []
    assert same(made, again, rows)
    assert again.decide(rows[0]) == "drug"
    assert again.policy.baseline is not None
    assert (again.policy.baseline == policy().baseline).all()
    assert repr(again) == repr(made)
    assert surefoot.load_controller is load_controller


def test_states_of_several_columns_and_numbers_keep_their_kind(tmp_path: Path) -> None:
    labels = surefoot.Labels((("a", 1), ("b", 2.5)), (0, 1), ("ward", "grade"))
    made = Controller(policy=surefoot.Policy(pi=np.eye(2), labels=labels))
    again = load_controller(made.save(tmp_path / "c.json"))
    for controller in (made, again):
        assert controller.decide({"grade": 2.5, "ward": "b", "more": 0}) == 1
        assert controller.decide(["a", 1]) == 0
        with pytest.raises(PolicyError, match="has no 'grade'"):
            controller.decide({"ward": "b"})


def test_what_the_baseline_says_of_other_states_goes_with_the_policy(tmp_path: Path) -> None:
    made = policy(elsewhere=(("far away", "7", 0.75), ("far away", "wait", 0.25)))
    again = load_controller(Controller(policy=made).save(tmp_path / "c.json"))
    assert again.probabilities("far away") == {"wait": 0.25, "drug": 0.0, 7: 0.75}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other"}, "is no controller: a JSON file with format"),
        ({"states": "x"}, "a controller with a fault"),
        ({"encoder": {"format": "no"}}, "with a fault: .* is no encoder"),
        ({"otherwise": {"action": "none"}}, "with a fault: the fallback action 'none'"),
        ({"actions": ["wait"]}, "with a fault: .*action 'drug' is not in the log"),
        ({"actions": ["wait", "drug", "drug", 7]}, "there twice"),
        ({"otherwise": None}, "with a fault"),
    ],
)
def test_a_file_that_is_no_controller_is_refused_in_words(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    path = Controller(policy=policy(), encoder=ENCODER).save(tmp_path / "c.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(PolicyError, match=words):
        load_controller(path)


def test_probabilities_that_were_changed_in_the_file_are_refused(tmp_path: Path) -> None:
    path = Controller(policy=policy()).save(tmp_path / "c.json")
    content = json.loads(path.read_text())
    content["states"][1]["probabilities"]["wait"] = 0.9
    path.write_text(json.dumps(content))
    with pytest.raises(PolicyError, match=r"sum to 1\.7, not 1"):
        load_controller(path)
    path.write_text("no json")
    with pytest.raises(PolicyError, match="is no controller"):
        load_controller(path)
    with pytest.raises(PolicyError, match="is no controller"):
        load_controller(tmp_path / "nowhere.json")


def test_the_most_probable_action_is_the_first_of_equal_ones() -> None:
    found = most_probable(np.array([[0.2, 0.4, 0.4], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    assert found.action.tolist() == [1, 0, -1]
    assert found.tied.tolist() == [True, False, False]
    assert found.stochastic.tolist() == [True, False, False]


def test_it_balances_a_pole_from_raw_observations(tmp_path: Path) -> None:
    """Gymnasium's CartPole: a log of a rule that pushes at random, states from the measurements,
    an improved policy, saved, loaded and run in the loop; it balances longer than the rule.
    """
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("CartPole-v1")
    names = ("place", "speed", "angle", "spin")
    cut = QuantileEncoder(names, ((), (), (-0.05, 0.0, 0.05), (-0.5, 0.0, 0.5)))
    rng = np.random.default_rng(0)
    rows: dict[str, list[Any]] = {
        x: [] for x in ("episode", "time", "state", "action", "reward", "terminal")
    }
    for episode in range(150):
        seen, _ = env.reset(seed=episode)
        for t in range(200):
            action = int(rng.integers(2))
            state = cut.labels[int(cut.encode(np.asarray(seen, dtype=float)[None, :])[0])]
            seen, reward, ended, _, _ = env.step(action)
            for name, x in zip(rows, (episode, t, state, action, reward, ended), strict=True):
                rows[name].append(x)
            if ended:
                break
    log = surefoot.read_log(rows)
    problem = log.problem(
        0.95, surefoot.Policy(pi=np.full((log.n_states, 2), 0.5), labels=log.labels)
    )
    solution = surefoot.improve(problem, surefoot.PiBSPIBB(n_wedge=5))
    made = Controller(policy=solution.policy, encoder=cut, otherwise=0)
    loaded = load_controller(made.save(tmp_path / "pole.json"))
    assert all(
        loaded.probabilities([0, 0, x, 0]) == made.probabilities([0, 0, x, 0]) for x in (-0.1, 0.1)
    )
    steps: list[int] = []
    for episode in range(30):
        seen, _ = env.reset(seed=1000 + episode)
        steps.append(0)
        while steps[-1] < 200:
            seen, _, ended, _, _ = env.step(loaded.act(seen, rng))
            steps[-1] += 1
            if ended:
                break
    assert np.mean(steps) > 2 * np.mean(np.bincount(rows["episode"]))


@pytest.mark.parametrize("depth", [300, 100_000])
def test_a_controller_nested_without_end_is_refused_in_words(tmp_path: Path, depth: int) -> None:
    made = Controller(policy=surefoot.Policy(pi=np.ones((1, 1))))
    file = made.save(tmp_path / "deep.json")
    text = file.read_text().replace('"state": 0', f'"state": {"[" * depth}0{"]" * depth}')
    file.write_text(text)
    with pytest.raises(PolicyError, match=r"is (no controller|a controller with a fault)"):
        load_controller(file)


def test_a_row_without_a_reading_gets_the_fallback() -> None:
    encoder = QuantileEncoder(("pulse", "age"), ((60.0,), (50.0,)), ("age",))
    states = {x: {"go": 1.0} for x in encoder.labels}
    rows = (
        {"pulse": None, "age": 3},
        [np.nan, 3],
        [np.inf, 3],
        [70, -np.inf],
        {"pulse": "", "age": 3},
    )
    for row in rows:
        for otherwise in (None, {encoder.labels[0]: {"go": 1.0}}):
            with pytest.raises(PolicyError, match="this row has no state: measurement"):
                Controller(policy=states, encoder=encoder, otherwise=otherwise).decide(row)
        controller = Controller(
            policy={**states, encoder.labels[0]: {"stop": 1.0}}, encoder=encoder, otherwise="stop"
        )
        assert controller.decide(row) == "stop" and not controller.knows(row)
    assert controller.decide([70, None]) == "go"
