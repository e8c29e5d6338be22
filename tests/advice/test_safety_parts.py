"""The safety test with guards and groups: what passes, what fails, and at which level."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import logfiles
from surefoot import LogError, ParameterError, read_log
from surefoot.advice.parts import groups_of
from surefoot.advice.safety import Sample, guarded_safety_test, sample_test, whole_sample
from surefoot.advice.verdict import FAILS, NO_EVIDENCE, PASSES
from surefoot.core.evidence import Evidence
from surefoot.evidence import Standard
from surefoot.evidence.units import take_episodes
from surefoot.problems.guards import guards_of

B, PI = np.array([0.7, 0.3]), np.array([0.2, 0.8])
STANDARD = Standard(reward_range=(0.0, 1.0), horizon=1)
GROUPS = groups_of({"group": ("f", "m")})


def table(
    cost: float = -0.1, other: float = 0.3, n: int = 3000, seed: int = 0, few: float = 0.4
) -> dict[str, Any]:
    """One step: action b heals more often, in group m by `other`, and costs `cost` more."""
    rng = np.random.default_rng(seed)
    m, b = rng.random(n) < few, rng.random(n) < 0.3
    return {
        "episode": np.arange(n),
        "t": np.zeros(n, dtype=int),
        "state": rng.integers(0, 2, n),
        "action": np.where(b, "b", "a").tolist(),
        "reward": (rng.random(n) < 0.3 + b * np.where(m, other, 0.3)) * 1.0,
        "cost": (rng.random(n) < 0.2 + cost * b) * 1.0,
        "sex": np.where(m, "m", "f").tolist(),
        "terminal": np.ones(n, dtype=bool),
    }


def sample(columns: dict[str, Any]) -> Sample:
    log = read_log(columns, guard="cost", group="sex", terminal_to_end=True)
    rows = (log.n_states, 1)
    return whole_sample(log.problem(0.9, np.tile(B, rows)), np.tile(PI, rows))


def judged(
    columns: dict[str, Any], *guards: str, groups: tuple[str, ...] = (), tolerance: float = 0.0
) -> tuple[str, tuple[Evidence, ...]]:
    named = groups_of({"group": groups} if groups else {}, tolerance)
    found = guarded_safety_test(None, sample(columns), 0.9, STANDARD, guards_of(guards), named)
    return found.verdict, found.rows[1:]


def test_what_is_better_and_harms_nothing_passes() -> None:
    verdict, parts = judged(table(cost=-0.15), "cost:lower:0:0,1", groups=("f", "m"))
    assert verdict == PASSES
    assert [row.part.name for row in parts] == ["cost", "f", "m"]
    assert all(row.holds for row in parts)


def test_a_guard_that_is_harmed_fails() -> None:
    verdict, (part,) = judged(table(cost=0.2), "cost:lower:0:0,1")
    assert verdict == FAILS
    assert part.worse
    assert judged(table(cost=0.2))[0] == PASSES


def test_a_harm_within_the_tolerance_passes() -> None:
    assert judged(table(cost=0.02), "cost:lower:0.1:0,1")[0] == PASSES
    assert judged(table(cost=0.02), "cost:lower:0:0,1")[0] == NO_EVIDENCE


def test_a_group_that_is_harmed_fails_though_the_mean_gains() -> None:
    harmed = table(other=-0.2)
    assert judged(harmed)[0] == PASSES
    verdict, parts = judged(harmed, groups=("f", "m"))
    assert verdict == FAILS
    assert [row.worse for row in parts] == [False, True]
    assert judged(harmed, groups=("f", "m"), tolerance=np.inf)[0] == PASSES


def test_a_small_group_is_no_evidence() -> None:
    verdict, parts = judged(table(few=0.003), groups=("f", "m"))
    assert verdict == NO_EVIDENCE
    assert not parts[1].holds
    assert not parts[1].worse
    assert parts[1].units < 20


def test_the_bounds_of_a_part_are_those_of_a_test_of_it_alone() -> None:
    whole = sample(table())
    guards = guards_of(["cost:lower:0:0,1"])
    found = guarded_safety_test(None, whole, 0.9, STANDARD, guards, GROUPS)
    parts, batch = found.rows[1:], whole.batch
    turned = replace(whole, batch=replace(batch, reward=-batch.beside["g0"]))
    men = replace(whole, batch=take_episodes(batch, batch.beside["group"] == 1))
    alone = [
        sample_test(None, turned, 0.9, replace(STANDARD, reward_range=(-1.0, 0.0)), statements=4),
        sample_test(None, men, 0.9, STANDARD, statements=4),
    ]
    for part, own in zip((parts[0], parts[2]), alone, strict=True):
        assert part.low == own.rows[0].low
        assert part.high == own.rows[0].high
    # a gain must be shown by all, each at delta / 2; a loss by one of four, together at delta / 2
    assert found.rows[0].delta == STANDARD.delta / 2
    assert found.document["delta_of_loss"] == STANDARD.delta / 8


def test_a_range_that_nobody_declared_is_a_condition() -> None:
    found = guarded_safety_test(None, sample(table()), 0.9, STANDARD, guards_of(["cost:lower"]))
    assert found.document["condition"] == "no cost below 0 or above 1 exists"
    accepted = guarded_safety_test(
        None, sample(table()), 0.9, STANDARD, guards_of(["cost:lower"]),
        accept_observed=True,
    )  # fmt: skip
    assert accepted.document["condition"] == ""


def test_a_guarded_reward_has_the_range_of_the_reward() -> None:
    columns = table()
    log = read_log(columns, guard="reward", terminal_to_end=True)
    rows = (log.n_states, 1)
    whole = whole_sample(log.problem(0.9, np.tile(B, rows)), np.tile(PI, rows))
    found = guarded_safety_test(None, whole, 0.9, STANDARD, guards_of(["reward:higher"]))
    whole_row, part = found.rows
    assert found.document["condition"] == ""
    assert part.low == whole_row.low


def test_wrong_questions_get_a_sentence() -> None:
    with pytest.raises(LogError, match="every episode belongs to the group 'f'"):
        groups_of({"group": ("f",)})
    with pytest.raises(LogError, match="every episode belongs to the group 'ward: 7'"):
        groups_of({"group: sex": ("f", "m"), "group: ward": (7,)})
    with pytest.raises(ParameterError, match="tolerance of groups"):
        groups_of({"group": ("f", "m")}, -1)


def write(path: Path, columns: dict[str, Any]) -> str:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return str(path)


@pytest.mark.parametrize(
    ("columns", "code", "words"),
    [
        (table(), 0, "PASSES: shown to be better than the baseline, and cost does not get worse"),
        (table(cost=0.2), 4, "FAILS: shown to be worse in cost than the baseline"),
        (table(other=-0.2), 4, "FAILS: shown to be worse for the group m than the baseline"),
        (
            table(few=0.003),
            3,
            "NO EVIDENCE EITHER WAY: the test did not show that the policy is better than the",
        ),
    ],
)
def test_the_command_says_it(
    columns: dict[str, Any],
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = write(tmp_path / "log.csv", columns)
    for name, rows in (("rule", B), ("policy", PI)):
        lines = [f"{s},{a},{p}\n" for s in (0, 1) for a, p in zip("ab", rows, strict=True)]
        text = "state,action,probability\n" + "".join(lines)
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    command = [
        "safety-test", log, "--policy", str(tmp_path / "policy.csv"), "--gamma", "0.9",
        "--baseline", str(tmp_path / "rule.csv"), "--reward-range", "0,1", "--horizon", "1",
        "--guard", "cost:lower:0.02:0,1", "--group", "sex",
    ]  # fmt: skip
    page = tmp_path / "page.html"
    found, said, complaint = logfiles.run(
        monkeypatch, capsys, *command, "--explain", "--report", str(page)
    )
    said = logfiles.one_line(said)
    assert found == code, complaint
    assert words in said
    assert "group m " in said
    assert words.split(": ")[1][:30] in page.read_text(encoding="utf-8")
    found, said, _ = logfiles.run(monkeypatch, capsys, *command, "--json")
    assert found == code
    document = json.loads(said)
    assert [x["name"] for x in document["guards"]] == ["cost"]
    assert [x["name"] for x in document["groups"]] == ["f", "m"]


def test_groups_of_several_groupings_share_the_level_of_a_loss() -> None:
    columns = table()
    ward = np.where(np.random.default_rng(2).random(3000) < 0.5, "a", "b").tolist()
    log = read_log(columns | {"ward": ward}, group=["sex", "ward"], terminal_to_end=True)
    rows = (log.n_states, 1)
    whole = whole_sample(log.problem(0.9, np.tile(B, rows)), np.tile(PI, rows))
    found = guarded_safety_test(None, whole, 0.9, STANDARD, (), groups_of(log.groups))
    assert [x.part.name for x in found.rows[1:]] == ["sex: f", "sex: m", "ward: a", "ward: b"]
    assert found.document["delta_of_loss"] == STANDARD.delta / 2 / 5
    one = guarded_safety_test(None, sample(columns), 0.9, STANDARD, (), GROUPS)
    assert [x.low for x in found.rows[:3]] == [x.low for x in one.rows]  # a gain is shown by all
