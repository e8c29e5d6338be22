"""Gates: guarded columns and groups on the held-out half, and the verdict they allow."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from support.logfiles import said
from support.naive_bias import bias_by_loops
from surefoot import LogError, NotAvailableError, ParameterError, Problem, read_log
from surefoot.advice import Advice, held_out_gain, learn_and_test, summarise
from surefoot.advice.parts import parts_of
from surefoot.advice.verdict import SUPPORTED, Verdict, unless_worse
from surefoot.advice.why_no_further import GUARDED, trust_of, why_no_further
from surefoot.core import known_model
from surefoot.core.evidence import GROUP, GUARD, Evidence, Part
from surefoot.evidence import units_of
from surefoot.logs import Log
from surefoot.logs.column_roles import Groupings
from surefoot.planning import evaluate_at_start
from surefoot.problems.guards import with_guards

B = np.array([0.6, 0.2, 0.2])
GAMMA = 0.8
DEFAULT = surefoot.PricedSoftSPIBB(epsilon=1.0, z=0.0, growth=0.12)


def table(
    seed: int = 0,
    episodes: int = 400,
    steps: int = 10,
    shares: tuple[float, ...] = (0.6, 0.4),
    effect: tuple[float, ...] = (0.3, 0.3),
    cost: float = -0.3,
) -> dict[str, Any]:
    """Action 1 is worth `effect` more than 0 in each group, action 2 twice that; each costs as
    much times `cost`.
    """
    rng = np.random.default_rng(seed)
    n = episodes * steps
    state, action = rng.integers(0, 3, n), rng.choice(3, n, p=B)
    group = np.repeat(rng.choice(len(shares), episodes, p=shares), steps)
    return {
        "episode": np.repeat(np.arange(episodes), steps),
        "t": np.tile(np.arange(steps), episodes),
        "state": state,
        "action": action,
        "terminal": np.tile(np.arange(steps) == steps - 1, episodes),
        "reward": action * np.asarray(effect)[group] + rng.normal(size=n),
        "cost": action * cost + rng.normal(size=n),
        "sex": np.array(["f", "m", "x"])[group].tolist(),
    }


def posed(
    columns: dict[str, Any], *guards: str, group: Groupings = None, baseline: bool = True
) -> tuple[Log, Problem]:
    names = [x.split(":")[0] for x in guards] or None
    log = read_log(columns, guard=names, group=group, terminal_to_end=True)
    pi_b = np.tile(B, (log.n_states, 1)) if baseline else None
    return log, with_guards(log.problem(GAMMA, pi_b), guards)


def advised(
    columns: dict[str, Any],
    *guards: str,
    group: Groupings = None,
    baseline: bool = True,
    **given: Any,
) -> Advice:
    log, problem = posed(columns, *guards, group=group, baseline=baseline)
    return learn_and_test(log, problem, DEFAULT, against=[], **given)


def test_a_guard_that_gains_too_is_supported() -> None:
    found = advised(table(), "cost:lower:0:-10,10")
    assert found.supported
    assert found.reason.endswith("cost no worse")
    (gate,) = found.parts
    assert gate.part.kind == GUARD
    assert gate.low > 0


def test_what_is_supported_without_the_guard_is_not_where_it_costs() -> None:
    costly = table(cost=0.3)
    assert advised(costly).supported
    found = advised(costly, "cost:lower")
    assert not found.supported


def test_a_policy_that_ignores_the_guard_is_stopped_by_the_test() -> None:
    log, problem = posed(table(cost=0.3), "cost:lower")
    units = units_of(log, problem.log, GAMMA)
    free = held_out_gain(replace(problem, guards=()), units, DEFAULT)
    (gate,) = parts_of(log, problem, units, free, np.asarray(problem.pi_b))
    assert free.evidence.low > 0
    assert gate.shown == "worse"
    assert not gate.holds
    judged = unless_worse(Verdict(SUPPORTED, "the gain is above 0"), [gate])
    assert not judged.supported
    assert judged.reason.startswith("the gain is above 0; but cost gets WORSE: +")


@pytest.mark.parametrize("baseline", [True, False])
def test_the_reward_as_its_own_guard_has_the_numbers_of_the_gain(baseline: bool) -> None:
    found = advised(table(), "reward:higher", baseline=baseline)
    (gate,), gain = found.parts, found.gain
    assert gain is not None
    assert gain.evidence.validity == "asymptotic"
    assert (gate.estimate, gate.low, gate.high) == pytest.approx(
        (gain.evidence.estimate, gain.evidence.low, gain.evidence.high), rel=1e-9
    )
    assert gate.explained == pytest.approx(gain.evidence.explained, rel=1e-9)
    assert gain.unseen is not None
    assert gate.unseen == pytest.approx(gain.unseen.change, rel=1e-9)


def test_weighted_episodes_bound_a_guard_too() -> None:
    found = advised(table(episodes=6000, steps=1, effect=(1.0, 1.0)), "cost:lower")
    assert found.gain is not None
    assert found.gain.evidence.validity == "finite-sample"
    (gate,) = found.parts
    assert gate.low <= gate.estimate <= gate.high
    assert gate.units == 3000


def _bias(n: np.ndarray, r: np.ndarray, pi: Any, start: np.ndarray) -> float:
    """What a value is too high on average in the model of counts n and sums of rewards r [S, A,
    S].
    """
    pi, n_sa = np.asarray(pi), np.maximum(n.sum(axis=-1, keepdims=True), 1)
    chain, pays = np.einsum("sa,sat->st", pi, n / n_sa), (pi[..., None] * r / n_sa).sum((1, 2))
    back = np.linalg.inv(np.eye(len(pi)) - GAMMA * chain)
    v, d = back @ pays, start @ back
    places = []
    for s, a in np.ndindex(*pi.shape):
        to = [(t, k, r[s, a, t] / k) for t, k in enumerate(n[s, a]) if k]
        outcomes = [(t, k, k, x + GAMMA * v[t]) for t, k, x in to]
        places.append((d[s], pi[s, a] ** 2, s, outcomes))
    return bias_by_loops(chain, GAMMA, places)[0]


def test_a_group_is_tested_in_the_model_of_its_own_episodes() -> None:
    log, problem = posed(table(effect=(0.5, 0.1)), group="sex")
    units = units_of(log, problem.log, GAMMA)
    gain = held_out_gain(problem, units, DEFAULT)
    gates = parts_of(log, problem, units, gain, np.asarray(problem.pi_b))
    batch = problem.log
    assert batch is not None
    assert gain.held_out is not None
    for code, gate in enumerate(gates):
        mine = (batch.beside["group"] == code) & gain.held_out[units.unit]
        n = np.zeros((log.n_states, log.n_actions, log.n_states))
        r = np.zeros_like(n)
        triple = batch.state[mine], batch.action[mine], batch.next_state[mine]
        np.add.at(n, triple, 1)
        np.add.at(r, triple, batch.reward[mine])
        n_sa = np.maximum(n.sum(axis=-1), 1)
        model = known_model(n / n_sa[..., None], r.sum(axis=-1) / n_sa, GAMMA)
        start = np.bincount(batch.state[mine & batch.first], minlength=log.n_states)
        new, old = (
            evaluate_at_start(model, x, start / start.sum()) for x in (gain.pi, problem.pi_b)
        )
        bias = [_bias(n, r, x, start / start.sum()) for x in (gain.pi, problem.pi_b)]
        assert abs(bias[0] - bias[1]) > 1e-4
        assert gate.estimate == pytest.approx(float(new - old) - (bias[0] - bias[1]), rel=1e-9)
        assert gate.low < gate.estimate < gate.high
    assert gates[0].estimate > gates[1].estimate
    assert sum(gate.units for gate in gates) == gain.evidence.units


def test_a_group_that_loses_stops_what_the_mean_would_support() -> None:
    columns = table(episodes=1200, shares=(0.75, 0.25), effect=(0.4, -0.4))
    assert advised(columns).supported
    found = advised(columns, group="sex")
    assert not found.supported
    assert "but the group m gets WORSE: -" in found.reason
    assert [gate.shown for gate in found.parts] == ["better", "worse"]


def test_groups_that_all_gain_are_supported() -> None:
    found = advised(table(episodes=1200), group="sex")
    assert found.supported
    assert found.reason.endswith("no worse for any of the groups f, m")
    assert all(gate.part.kind == GROUP for gate in found.parts)


def test_episodes_that_were_put_together_are_counted_one_by_one() -> None:
    document = summarise(advised(table(episodes=1300), group="sex"), "log.csv")
    found, held = " ".join(said(document).split()), document["worth"]["held_out"]
    assert "of episodes" not in found and "tested: held-out episodes" in found
    tested, taken = held["episodes_tested"], held["units_tested"]
    assert held["episodes"] == 1300 and taken == 500 and 500 < tested < 800
    assert f"learned from {1300 - tested:,} episodes, tested once on {tested:,} others" in found
    assert "takes them as 500 pieces of several episodes each" in found
    assert sum(x["episodes_tested"] for x in document["groups"]) == tested


def test_a_group_too_small_to_say_is_named_and_is_not_enough() -> None:
    columns = table(episodes=1200, shares=(0.6, 0.395, 0.005), effect=(0.3, 0.3, 0.3))
    found = advised(columns, group="sex")
    assert not found.supported
    assert "the group x is too small to say anything: " in found.reason
    page = said(summarise(found, "log.csv"))
    assert "episodes): TOO SMALL to say anything, so NOT PASSED" in page
    told = advised(columns, group="sex", group_tolerance=math.inf)
    assert told.supported
    assert "TOO SMALL" in said(summarise(told, "log.csv"))


def test_a_tolerance_is_what_may_be_lost() -> None:
    columns = table(cost=0.0)
    (gate,) = advised(columns, "cost:lower:0:-10,10").parts
    assert gate.low < 0
    enough = -gate.low + max(gate.explained, 0.0) + gate.unseen
    assert advised(columns, f"cost:lower:{enough + 0.01}:-10,10").parts[0].holds
    assert not advised(columns, f"cost:lower:{-gate.low - 0.01}:-10,10").parts[0].holds


def test_a_guard_whose_range_nobody_declared_is_not_shown_and_says_what_it_rests_on() -> None:
    """A harm that has not been seen yet may be rare, and as bad as it likes."""
    columns = table() | {"cost": np.zeros(len(table()["cost"]))}
    found = advised(columns, "cost:lower")
    (gate,) = found.parts
    assert (gate.low, gate.within, gate.holds, gate.holds_within) == (0, (0, 0), False, True)
    assert not found.supported
    words = "cost is not shown to be no worse, unless no value of cost lies outside [0, 0]"
    assert words in found.reason and "--guard cost:lower:0:LOW,HIGH" in found.reason
    assert "NOT PASSED, as nobody declared the range of cost" in said(summarise(found, "log.csv"))


def test_what_a_group_has_not_tried_counts_against_taking_it_away() -> None:
    """ "old" is hardly seen in group B; who takes it away there may lose the best outcome."""
    rng = np.random.default_rng(3)
    n = 1000
    group = np.where(np.arange(n) % 33 == 0, "B", "A")
    new = rng.random(n) < 0.9
    new[(group == "B") & (np.arange(n) > 33)] = True
    reward = np.where(new, np.where(group == "A", 0.8, -2.0), 0.0) + 0.1 * rng.normal(size=n)
    log = read_log(
        {
            "episode": np.arange(n), "state": np.zeros(n, dtype=int), "terminal": np.ones(n),
            "action": np.where(new, "new", "old").tolist(), "reward": reward,
            "sex": group.tolist(),
        },
        group="sex",
    )  # fmt: skip
    problem = log.problem(0.0, {0: {"new": 0.9, "old": 0.1}}, reward_range=(-4, 4))
    found = learn_and_test(log, problem, DEFAULT, against=[])
    assert found.gain is not None and found.gain.evidence.positive and not found.supported
    gate = next(x for x in found.parts if x.part.name == "B")
    assert gate.low < -0.3 and gate.unseen > 0.3  # 0.1 of decisions, 4 - (-2) at the most


@pytest.mark.parametrize(
    ("changed", "holds"),
    [
        ({}, True),
        ({"low": -0.2}, False),
        ({"low": -0.2, "tolerance": 0.3}, True),
        ({"unseen": 0.6}, True),  # the low bound counts it already
        ({"explained": 0.2}, False),  # more than the low bound
        ({"explained": -0.2}, True),
        ({"low": math.nan}, False),
        ({"low": math.nan, "tolerance": math.inf}, True),
    ],
)
def test_what_a_gate_needs_to_hold(changed: dict[str, float], holds: bool) -> None:
    part = Part(kind=GUARD, name="cost", tolerance=changed.get("tolerance", 0.0))
    row = Evidence(part=part, units=100, estimate=0.5, low=0.1, high=0.9, unseen=0.3)
    changed = {name: x for name, x in changed.items() if name != "tolerance"}
    assert replace(row, **changed).holds == holds


def test_bounds_for_all_gates_at_once_are_wider() -> None:
    for gate in advised(table(), "cost:lower", "reward:higher", group="sex").parts:
        assert gate.together[0] < gate.low < gate.high < gate.together[1]
    (single,) = advised(table(), "cost:lower").parts
    assert single.together[0] == single.low


def test_changes_are_told_in_the_unit_of_the_column() -> None:
    found = advised(table(), "cost:lower")
    (gate,), (told,) = found.parts, summarise(found, "log.csv")["guards"]
    assert told["change"] == -gate.estimate < 0
    assert told["low"] < told["change"] < told["high"]
    assert told["low"] == -gate.high


def test_a_guard_is_no_part_of_a_log_without_one() -> None:
    found = advised(table())
    assert found.parts == ()
    summary = summarise(found, "log.csv")
    assert summary["guards"] == summary["groups"] == []
    assert "guard" not in said(summary)


def test_one_group_is_none() -> None:
    columns = table() | {"sex": ["f"] * 4000}
    with pytest.raises(LogError, match="every episode belongs to the group 'f'"):
        advised(columns, group="sex")


def test_a_group_that_changes_within_an_episode_is_named() -> None:
    columns = table()
    columns["sex"] = ["m" if i == 25 else "f" for i in range(4000)]
    with pytest.raises(LogError, match=r"group changes within episode '2': 'f' and 'm' .1 such"):
        advised(columns, group="sex")


def test_guarded_columns_without_a_direction_are_refused() -> None:
    log = read_log(table(), guard="cost", terminal_to_end=True)
    with pytest.raises(ParameterError, match="no guards: say which way is better"):
        learn_and_test(log, log.problem(GAMMA), DEFAULT)


@pytest.mark.parametrize("tolerance", [-1.0, math.nan])
def test_a_wrong_tolerance_of_groups_gets_a_sentence(tolerance: float) -> None:
    with pytest.raises(ParameterError, match=r"tolerance of groups is .* number >= 0 or inf"):
        advised(table(), group="sex", group_tolerance=tolerance)


def test_groups_whose_rows_are_not_in_memory_are_refused() -> None:
    log = read_log(table(), group="sex", terminal_to_end=True)
    with pytest.raises(NotAvailableError, match="groups need the rows of the log in memory"):
        learn_and_test(log, log.problem(GAMMA, needs_returns=False), DEFAULT)


def test_the_reason_names_the_guard_where_it_holds_a_state_back() -> None:
    made = (
        advised(table(cost=0.3), "cost:lower"),
        advised(table(cost=0.3)),
        advised(table(cost=-0.3), "cost:lower"),
    )
    held, free, cheap = (why_no_further(x, trust_of(x)) for x in made)
    assert set(held[:3]) == {GUARDED}
    assert GUARDED not in free
    assert GUARDED not in cheap


def wards(**given: Any) -> dict[str, Any]:
    """A log whose groups are wards; each patient has a sex, too, which says nothing."""
    columns = table(episodes=1200, **given)
    sex = np.random.default_rng(9).choice(["f", "m"], 1200)
    return {**columns, "ward": columns["sex"], "sex": np.repeat(sex, 10).tolist()}


def test_of_several_groupings_each_group_has_the_bounds_of_its_grouping_alone() -> None:
    columns = wards()
    both = advised(columns, group=["sex", "ward"])
    assert both.reason.endswith("groups sex: f, sex: m, ward: f, ward: m")
    alone = [x for name in ("sex", "ward") for x in advised(columns, group=name).parts]
    assert [x.part.name for x in alone] == ["f", "m", "f", "m"]
    assert alone == list(advised(columns, group=["sex"]).parts + tuple(alone[2:]))
    for one, other in zip(both.parts, alone, strict=True):
        assert replace(one, part=other.part, together=other.together) == other
        # all four are told at once
        assert one.together[0] < other.together[0] < other.low
        assert one.together[1] > other.together[1] > other.high
    assert "all 4 groups at once (5 % together)" in said(summarise(both, "log.csv"))


def test_a_group_that_loses_in_any_grouping_stops_what_another_would_support() -> None:
    columns = wards(effect=(0.6, -0.4), shares=(0.7, 0.3))
    assert advised(columns, group="sex").supported
    found = advised(columns, group=["sex", "ward"])
    assert not found.supported
    assert "but the group ward: m gets WORSE: -" in found.reason
    # the combinations are smaller groups, and another question
    crossed = advised(columns, group="sex,ward")
    assert [x.part.name for x in crossed.parts] == ["f, f", "f, m", "m, f", "m, m"]


def test_the_command_takes_several_groupings_and_the_page_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = wards()
    log = logfiles.write(
        tmp_path / "log.csv", [*columns], [*zip(*columns.values(), strict=True)]
    )  # fmt: skip
    asked = ("improve", str(log), "--gamma", "0.8", "--out", str(tmp_path / "new"))
    both = ("--group", "sex", "--group", "ward")
    code, text, complaint = logfiles.run(monkeypatch, capsys, *asked, *both, "--explain")
    assert code == 0, complaint
    assert "group sex: f +" in logfiles.one_line(text)
    page = (tmp_path / "new" / "report.html").read_text(encoding="utf-8")
    assert all(x in page for x in ("sex: f", "sex: m", "ward: f", "ward: m"))
    document = json.loads((tmp_path / "new" / "summary.json").read_text(encoding="utf-8"))
    found = surefoot.advise(log, gamma=0.8, group=("sex", "ward"))
    assert document["groups"] == json.loads(json.dumps(found.document["groups"]))
    refused = logfiles.run(monkeypatch, capsys, *asked, "--group", "sex", "--group", "sex")
    assert refused[0] == 2
    assert "episodes are grouped by sex twice: say it once" in logfiles.one_line(refused[2])


def test_weighted_figures_say_how_many_episodes_they_are_as_good_as() -> None:
    columns = table(episodes=6000, steps=1, effect=(1.0, 1.0))
    found = advised(columns, "cost:lower", group="sex", group_tolerance=1.0)
    document, batch = summarise(found, "log.csv"), found.problem.log
    assert found.gain is not None and found.gain.held_out is not None and batch is not None
    unit, pi = units_of(found.log, batch, GAMMA).unit, found.gain.pi
    w = (pi / B)[batch.state, batch.action]
    mine = found.gain.held_out[unit]
    chosen = [mine, mine, *(mine & (batch.beside["group"] == x) for x in (0, 1))]
    rows = [document["worth"]["held_out"], *document["guards"], *document["groups"]]
    for row, use in zip(rows, chosen, strict=True):
        weights, x = row["weights"], w[use]
        assert weights["episodes"] == use.sum()
        assert weights["effective_episodes"] == pytest.approx(x.sum() ** 2 / (x**2).sum())
        assert weights["largest_weight"] == pytest.approx(x.max())
    told = said(document)
    for row in rows:
        few, n = row["weights"]["effective_episodes"], row["weights"]["episodes"]
        assert f"as good as {few:,.0f} of {n:,} episodes; the largest weight is" in told
    modelled = summarise(advised(table(), "cost:lower"), "log.csv")
    assert modelled["worth"]["held_out"]["weights"] is modelled["guards"][0]["weights"] is None
    assert "as good as" not in said(modelled)


def test_a_group_that_gains_less_has_less_room_for_a_hidden_cause(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rows = []
    for e in range(3000):
        group, new = "ab"[e % 2], int(rng.random() < 0.5)
        better = (0.4 if group == "a" else 0.2) * new
        rows.append((e, 0, "s", "new" if new else "old", int(rng.random() < 0.3 + better), group))
    header = ("episode", "time", "state", "action", "reward", "who")
    log = logfiles.write(tmp_path / "log.csv", header, rows)
    how: dict[str, Any] = {"gamma": 0.9, "episode_end": "terminal", "reward_range": (0, 1)}
    advice = surefoot.advise(log, group="who", **how)
    found = advice.sensitivity
    assert advice.supported and found is not None
    strength = {name: x.vanishes_at for name, x in found.groups.items()}
    # .7 and .5 against .3: the less they differ, the less a cause must do to make them equal
    assert strength["b"] < found.vanishes_at < strength["a"]
    alone = [row for row in rows if row[-1] == "a"]
    own = surefoot.advise(logfiles.write(tmp_path / "a.csv", header, alone), **how).sensitivity
    assert own is not None and own.groups == {}
    assert strength["a"] == pytest.approx(own.vanishes_at, rel=0.15)
    text = advice.said(advice.document, explain=True)
    assert f"b {found.groups['b'].shown_up_to:.2f}" in " ".join(text.split())
