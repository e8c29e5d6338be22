"""Gains over the baseline's rule, its most frequent action in every state (--against mode)."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot.evidence.units import units_of

Run = Callable[..., tuple[int, str, str]]
PAYS = np.array([[0.0, 0.4, -1.0], [0.3, 0.0, -1.0]])  # of stay, try, bad by state
NOISY = np.array([0.7, 0.2, 0.1])
ACTIONS = ("stay", "try", "bad")


def table(n: int = 3000, seed: int = 0, pays: np.ndarray = PAYS, **more: Any) -> dict[str, Any]:
    """Single decisions of a rule ("stay") with its noise; `pays` by state."""
    rng = np.random.default_rng(seed)
    s, a = rng.integers(0, len(pays), n), rng.choice(3, n, p=NOISY)
    reward = pays[s, a] + 0.5 * rng.normal(size=n)
    found = {
        "episode": np.arange(n), "state": s, "action": np.array(ACTIONS)[a], "reward": reward,
        "terminal": np.ones(n, dtype=int),
    }  # fmt: skip
    return found | {name: make(s, a, rng) for name, make in more.items()}


def asked(source: Any = None, **how: Any) -> surefoot.Advice:
    rule = {s: dict(zip(ACTIONS, NOISY, strict=True)) for s in (0, 1)}
    how = {"gamma": 0.0, "baseline": rule, "against": "mode", **how}
    return surefoot.advise(table() if source is None else source, **how)


def shares(advice: surefoot.Advice) -> np.ndarray:
    """The share of the log in each state."""
    n = advice.log.n_sa.sum(axis=1)[:2]
    return np.asarray(n / n.sum())


def flat(words: str) -> str:
    return " ".join(words.split())


def in_order(advice: surefoot.Advice) -> list[int]:
    return [ACTIONS.index(str(a)) for a in advice.log.actions]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *words: logfiles.run(monkeypatch, capsys, *words)


@pytest.mark.parametrize("rule", [None, "mixture", "mode"])
def test_the_gain_is_that_over_always_doing_what_the_baseline_does_most(rule: Any) -> None:
    advice = asked(deterministic=rule)
    worth = (advice.candidate[:2] * PAYS[:, in_order(advice)]).sum(axis=1)
    truth = float(shares(advice) @ (worth - PAYS[:, 0]))
    row = advice.gain.evidence
    assert row.low < truth < row.high and advice.supported
    over_noisy = asked(deterministic=rule, against="baseline")
    noise = float(shares(advice) @ (PAYS[:, 0] - PAYS @ NOISY))
    assert over_noisy.gain.evidence.estimate - row.estimate == pytest.approx(noise, abs=0.05)


def test_not_exploring_is_no_gain_over_the_rule() -> None:
    log = table(pays=PAYS - np.array([0.0, 0.6, 0.0]))  # staying is best everywhere
    assert asked(log, deterministic="mode", against="baseline").supported
    advice = asked(log, deterministic="mode")
    assert not advice.supported and "is the baseline's rule itself" in advice.reason


def test_weighted_episodes_are_weighed_for_both_policies() -> None:
    advice = asked(deterministic="mode")
    assert advice.gain.weighed and not asked(reward_range=(-4, 4)).gain.weighed
    rows = advice.problem.log
    units = units_of(advice.log, rows, 0.0)
    mine = advice.gain.held_out[units.unit]
    taken = advice.pi_b[rows.state, rows.action]
    delta = (advice.candidate - advice.over)[rows.state, rows.action]
    plain = (delta / taken * rows.reward)[mine]
    scatter = plain.std() / np.sqrt(len(plain))
    assert advice.gain.evidence.estimate == pytest.approx(plain.mean(), abs=2 * scatter)
    worth = (advice.candidate[:2] * PAYS[:, in_order(advice)]).sum(axis=1)
    truth = float(shares(advice) @ (worth - PAYS[:, 0]))
    assert advice.gain.evidence.low < truth < advice.gain.evidence.high


def test_guards_and_groups_must_be_no_worse_than_under_the_rule() -> None:
    def cost(s: np.ndarray, a: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.array([1.0, 1.3, 9.0])[a] + 0.1 * rng.normal(size=len(a))

    def sex(s: np.ndarray, a: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.choice(["f", "m"], len(s))

    log = table(cost=cost, sex=sex)
    how: dict[str, Any] = {"guard": ["cost:lower:0:0,10"], "group": "sex", "deterministic": "mode"}
    noisy, rule = asked(log, against="baseline", **how), asked(log, **how)
    assert noisy.supported and not rule.supported and "cost" in rule.reason
    kept = {x.part.name: x for x in rule.parts}
    expected = -0.3 * shares(rule)[0]  # of better-is-more
    assert kept["cost"].low < expected < kept["cost"].high < 0
    assert kept["f"].positive and kept["m"].positive


def test_each_change_is_told_against_the_rule() -> None:
    advice = asked(deterministic="mode")
    assert list(advice.made_of.alone) == [0]  # in the other state the rule stays
    row = advice.made_of.alone[0]
    assert row.low < 0.4 * shares(advice)[0] < row.high
    (told,) = advice.document["changes"]["alone"]
    assert (told["more_of"], told["less_of"], told["moved"]) == ("try", "stay", 1.0)
    assert advice.made_of.beyond is None and advice.made_of.mode is not None


def test_what_was_compared_is_said_everywhere() -> None:
    advice = asked(deterministic="mode")
    assert "than the baseline's rule (without its exploration)" in flat(str(advice))
    assert "the policy is not that rule in 1 visited state" in flat(advice.explain())
    assert "every proof compares with the baseline" in flat(advice.explain())
    baseline = json.loads(json.dumps(advice.document["baseline"]))
    assert (baseline["against"], baseline["tied_states"], baseline["states_unlike_rule"]) == (
        "mode", 0, 1,
    )  # fmt: skip
    assert {x["of"] for x in advice.document["worth"]["estimates"]} >= {"rule", "candidate"}
    assert "baseline's rule" in html.unescape(advice.page()) and ">rule</th>" in advice.page()
    assert "against" not in asked(against="baseline").document["baseline"]
    assert "not computed" in flat(advice.explain())


def test_several_most_frequent_actions_are_said_and_the_first_counts() -> None:
    tied = {s: {"stay": 0.45, "try": 0.45, "bad": 0.1} for s in (0, 1)}
    advice = asked(baseline=tied, despite=["baseline"])
    assert advice.tied == 2
    assert [str(advice.log.actions[a]) for a in advice.over[:2].argmax(axis=1)] == ["stay"] * 2
    assert "several actions are as frequent" in flat(advice.explain())


def test_a_state_that_stays_does_what_the_rule_does_though_one_half_never_saw_it() -> None:
    log = table(n=400)
    for name, values in {"state": 7, "action": "bad", "reward": 0.0, "terminal": 1}.items():
        log[name] = np.append(log[name], [values] * 2)
    log["episode"] = np.arange(402)
    rule = {s: dict(zip(ACTIONS, NOISY, strict=True)) for s in (0, 1, 7)}
    advice = asked(log, baseline=rule, deterministic="mode")
    s = advice.log.labels.state_code(7)
    assert advice.candidate[s].tolist() == advice.over[s].tolist()
    assert advice.candidate[s, advice.log.labels.action_code("stay")] == 1


def test_wrong_words_are_refused(tmp_path: Path, run: Run) -> None:
    with pytest.raises(surefoot.ParameterError, match=r"is baseline .* or mode"):
        asked(against="rule")
    with pytest.raises(surefoot.NotAvailableError, match="does not go with --renormalise"):
        forbidden = np.zeros((3, 3), dtype=bool)
        forbidden[0, 0] = True
        asked(forbidden=forbidden, renormalise=True)
    code, _, error = run(
        "improve", logfiles.good_log(tmp_path), "--gamma", "0.9", "--against", "noise",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert code == 2 and "baseline" in error and "mode" in error
    assert not (tmp_path / "out").exists()
