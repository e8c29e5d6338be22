"""`vetoes`: which findings make a promise untrue, under which key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.faulty_logs import Log, chain, decisions, repeated, season
from surefoot import SurefootError
from surefoot.checks import KEYS, Finding, check_log, vetoes
from surefoot.logs import read_log, read_policy


def keys(log: Log, baseline: Path | None = None, **options: Any) -> list[str]:
    read = read_log(log, threads=1, **options)
    return [x.key for x in vetoes(read, None if baseline is None else read_policy(baseline, read))]


def rule(folder: Path, share: float) -> Path:
    path = folder / "rule.csv"
    path.write_text(
        "state,action,probability\n"
        + "".join(f"{s},{a},{p}\n" for s in range(3) for a, p in ((0, 1 - share), (1, share)))
    )
    return path


def test_each_fault_has_its_key(tmp_path: Path) -> None:
    assert keys(chain(1, 30, 60, after=0.8)) == ["markov"]
    assert keys(decisions(1, 1_000, rewards=season(1_000, 4))) == ["drift"]
    assert keys(decisions(1, 1_000, actions=0.5 * season(1_000, 4))) == ["policy-drift"]
    assert "copies" in keys(repeated(chain(1, 20, 5), 10))
    assert keys(decisions(1, 600), rule(tmp_path, 0.5)) == ["baseline"]
    assert keys(decisions(1, 600), rule(tmp_path, 0.0)) == ["baseline"]


def test_a_log_without_fault_and_its_true_baseline_are_not_vetoed(tmp_path: Path) -> None:
    assert keys(decisions(2, 600), rule(tmp_path, 0.2)) == []
    assert keys(chain(2, 20, 50)) == []


@pytest.mark.parametrize(
    ("share", "level", "vetoes"),
    [(0.275, "ok", False), (0.28, "note", False), (0.3, "note", False), (0.305, "warning", True)],
)
def test_a_baseline_is_doubted_below_one_in_twenty_and_vetoes_below_one_in_a_thousand(
    tmp_path: Path, share: float, level: str, vetoes: bool
) -> None:
    """p is 0.064, 0.035, 0.0022 and 0.0008."""
    log = read_log(decisions(2, 600), threads=1)
    found = check_log(log, baseline=read_policy(rule(tmp_path, share), log))
    (it,) = (x for x in found if x.key == "baseline")
    assert (it.level, it.vetoes) == (level, vetoes)
    assert ("only roughly" in it.sentence) == (level == "note")


def test_rows_that_contradict_others_veto_even_where_they_were_left_out() -> None:
    log = chain(3, 20, 10)
    follow = np.append(log["state"][1:], 0)
    log["next_state"] = np.where(np.arange(200) == 57, (follow + 1) % 4, follow)
    read = read_log(log, threads=1, drop_bad_rows="contradiction")
    found = vetoes(read)
    assert [x.key for x in found] == ["contradictions"]
    assert "1 rows whose next_state is not the state of the following row" in found[0].sentence


def test_the_vetoes_are_the_findings_of_the_check_that_veto() -> None:
    log = read_log(repeated(chain(4, 20, 5, after=1.0), 10), threads=1)
    whole = [x for x in check_log(log) if x.vetoes]
    assert whole == list(vetoes(log))
    assert {x.key for x in check_log(log) if x.key} == set(KEYS) - {
        "baseline",
        "propensities",
        "cuts",
        "time",
        "missing",
        "leakage",
    }


def test_where_the_order_of_rows_is_unknown_what_needs_it_vetoes_unseen(tmp_path: Path) -> None:
    log = decisions(5, 600, rewards=season(600, 4))
    columns = {name: x for name, x in log.items() if name != "terminal"} | {
        "next_state": np.zeros(600, dtype=int)
    }
    unseen = ["markov", "drift", "policy-drift", "copies", "contradictions", "time"]
    assert keys(columns, check_order=False) == unseen
    assert keys(columns, rule(tmp_path, 0.6), check_order=False) == ["baseline", *unseen]


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 20, 40])
def test_a_tiny_log_gets_no_veto_and_no_ok_for_what_was_not_tested(rows: int) -> None:
    log = decisions(6, rows)
    assert keys(log) == []
    found = {x.name: x for x in check_log(read_log(log, threads=1))}
    if rows < 20:
        assert {found[name].level for name in ("drift", "policy drift")} == {"note"}
    assert (
        found["Markov"].sentence
        == "every episode is one step long: there is no past that could matter"
    )


def test_rewards_and_states_that_never_vary_are_no_trouble() -> None:
    n = 60
    constant = {
        "episode": np.zeros(n, dtype=int),
        "state": np.zeros(n, dtype=int),
        "action": np.zeros(n, dtype=int),
        "reward": np.ones(n),
    }
    assert keys(constant) == []
    assert keys(constant | {"action": np.arange(n) % 2}) == []


def test_a_finding_that_vetoes_needs_a_key() -> None:
    with pytest.raises(SurefootError, match="policy-drift"):
        Finding("x", "warning", "y", vetoes=True)
