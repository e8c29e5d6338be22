"""The page of an improvement: its content, labels as data, its size, and the folder it can be made
from again.
"""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import logfiles
from surefoot import LogError, load_policy, read_log
from surefoot.advice import learn_and_test, summarise
from surefoot.advice.files import action_values, state_records
from surefoot.advice.why_no_further import ALLOWED_PRICED, CHECKED, ONE_ACTION
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.cli import app
from surefoot.cli import shipped_example as demonstration
from surefoot.core.atomic import file_hash
from surefoot.report.folder import PairRecord, StateRecord, read_pairs
from surefoot.report.improvement_page import (
    coverage,
    estimates_table,
    gaps,
    improvement_page,
    page_of_folder,
)
from surefoot.report.page import MOST_BYTES, embedded, number, signed_number
from surefoot.report.pictures import gain_picture, maps, places

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\"quoted\" & 'single'",
    "مرحبا بالعالم",
    '=HYPERLINK("http://x")',
    "'=already marked",
    "x" * 5000,
    "{{ 7 * 7 }}",
)


class Reader(HTMLParser):
    """The tags and the words of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def records(labels: tuple[str, ...] = ("low", "high")) -> list[StateRecord]:
    return [
        StateRecord(
            fields=(label,),
            why="the budget of this state is spent",
            pairs=(
                PairRecord(f"do {label}", 40, 0.9, 0.6, 1.5, 0.1),
                PairRecord("wait", 4, 0.1, 0.4, 2.5, float("nan")),
            ),
        )
        for label in labels
    ]


def improved(tmp_path: Path) -> tuple[dict[str, Any], list[StateRecord]]:
    log = read_log(logfiles.good_log(tmp_path))
    problem = log.problem(0.9)
    advice = learn_and_test(log, problem, chosen_algorithm(problem))
    return summarise(advice, "log.csv"), state_records(advice)


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    return dict(json.loads(found.group(1)))


def test_the_page_says_the_verdict_first_and_then_everything_in_order(tmp_path: Path) -> None:
    summary, states = improved(tmp_path)
    page = improvement_page(summary, states)
    headings = re.findall(r"<h2[^>]*>(.*?)</h2>", page)
    assert headings == [
        "What would change",
        "What it is worth, and how sure that is",
        "Who could be harmed",
        "What was assumed",
        "What the log cannot show",
        "What to do next",
        "The technical part",
        "What changes",
        "How sure this is",
        "What the data cover",
        "What does not change, and why",
        "How it was made",
    ]
    assert page.index("SUPPORTED") < page.index("<h2>")
    words = " ".join(Reader(page).words)
    assert summary["log"]["fingerprint"] in words
    assert "Nothing outside the state drives" in words
    assert {row[0] for row in data_of(page)["states"]} == {state.label for state in states}


def test_labels_are_data(tmp_path: Path) -> None:
    summary, _ = improved(tmp_path)
    plain = improvement_page(summary, records())
    summary["log"]["source"] = HOSTILE[0]
    summary["notes"] = list(HOSTILE)
    page = improvement_page(summary, records(HOSTILE))
    assert Reader(page).tags.count("script") == Reader(plain).tags.count("script")
    assert "img" not in Reader(page).tags
    assert [row[0] for row in data_of(page)["states"]] == list(HOSTILE)
    assert "49" not in "".join(re.findall(r"<li>(.*?)</li>", page)[-1:])


def test_data_for_the_script_cannot_end_it() -> None:
    text = str(embedded({"a": "</script><!--", "b": "\u2028"}))
    assert "<" not in text
    assert json.loads(text) == {"a": "</script><!--", "b": "\u2028"}


def test_a_page_of_many_states_stays_small(tmp_path: Path) -> None:
    summary, _ = improved(tmp_path)
    pairs = tuple(PairRecord(f"a{k}", 7, 0.04, 0.04, 1 / 3, 0.1234567) for k in range(25))
    many = [StateRecord((f"state {i} " + "x" * 400,), "why", pairs) for i in range(10_000)]
    page = improvement_page(summary, many)
    assert len(page.encode()) < MOST_BYTES
    shown = len(data_of(page)["states"])
    assert 1000 < shown < 10_000
    assert f"{10_000 - shown:,} states more" in page
    ten_thousand = [StateRecord((f"s{i}",), "why", pairs[:5]) for i in range(10_000)]
    assert len(data_of(improvement_page(summary, ten_thousand))["states"]) == 10_000


def test_the_folder_of_an_improvement_makes_the_same_page(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    out = tmp_path / "out"
    log = logfiles.good_log(tmp_path)
    run = CliRunner()
    first = run.invoke(app, ["improve", str(log), "--gamma", "0.9", "--out", str(out)])
    assert first.exit_code in (0, 3), first.output
    page = (out / "report.html").read_text("utf-8")
    again = run.invoke(app, ["report", str(out), "--out", str(tmp_path / "again.html")])
    assert again.exit_code == 0, again.output
    assert data_of((tmp_path / "again.html").read_text("utf-8")) == data_of(page)
    assert (tmp_path / "again.html").read_text("utf-8") == page
    assert run.invoke(
        app, ["improve", str(log), "--gamma", "0.9", "--out", str(out), "--no-report"]
    )
    assert not (out / "report.html").exists()  # nothing of an earlier run stays


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"has no summary\.json: give the folder"):
        page_of_folder(tmp_path)
    (tmp_path / "summary.json").write_text("{", encoding="utf-8")
    (tmp_path / "pairs.csv").write_text("a,b\n", encoding="utf-8")
    with pytest.raises(LogError, match="is no JSON"):
        page_of_folder(tmp_path)
    with pytest.raises(LogError, match="its columns must end in"):
        read_pairs(tmp_path / "pairs.csv")


def test_action_values_are_means_over_visits_with_their_standard_error(tmp_path: Path) -> None:
    log = read_log(logfiles.good_log(tmp_path))
    problem = log.problem(0.9)
    v = np.linspace(-1, 2, log.n_states)
    q, error = action_values(problem, v)
    batch = problem.log
    assert batch is not None
    y = batch.reward + 0.9 * v[batch.next_state]
    for s, a in np.argwhere(log.n_sa > 1):
        here = y[(batch.state == s) & (batch.action == a)]
        assert q[s, a] == pytest.approx(here.mean())
        assert error[s, a] == pytest.approx(here.std(ddof=1) / len(here) ** 0.5)
    assert np.isnan(q[log.n_sa == 0]).all()


def test_the_gains_of_the_states_add_up_to_the_gain(tmp_path: Path) -> None:
    summary, files = demonstration.improved(tmp_path)
    states, _ = read_pairs(files["pairs.csv"])
    visits = sum(state.visits for state in states)
    total = sum(state.visits * state.gain for state in states) / visits / (1 - summary["gamma"])
    assert total == pytest.approx(summary["worth"]["in_sample_optimistic"]["gain"], rel=0.02)
    assert all(pair.candidate == 0 or pair.candidate > 1e-9 for x in states for pair in x.pairs)


def test_every_visited_state_says_why_it_goes_no_further(tmp_path: Path) -> None:
    _, states = improved(tmp_path)
    assert all(state.why for state in states)
    single = [s for s in states if sum(pair.count > 0 for pair in s.pairs) == 1]
    assert all(state.why == ONE_ACTION for state in single)
    assert [s.moved for s in states] == sorted((s.moved for s in states), reverse=True)


def test_labels_that_a_spreadsheet_would_compute_are_marked_and_read_back(tmp_path: Path) -> None:
    rows = [
        f"{e},{t},{s},{a},{(t + e) % 3}"
        for e in range(30)
        for t, (s, a) in enumerate([("=1+1", "go"), ("@x", "'=y"), ("-5", "go")])
    ]
    file = tmp_path / "log.csv"
    text = "\n".join(["episode,time,state,action,reward", *rows]) + "\n"
    file.write_text(text, encoding="utf-8")
    log = read_log(file)
    saved = log.estimated_baseline().save(tmp_path / "policy.csv")
    lines = saved.read_text("utf-8").splitlines()
    assert any(line.startswith('"\'=1+1"') for line in lines)
    assert any("\"''=y\"" in line for line in lines)
    assert any(line.startswith(('"-5"', "-5")) for line in lines)  # a number is no formula
    assert set(map(str, load_policy(saved).labels.states)) == {"=1+1", "@x", "-5"}
    problem = log.problem(0.9, saved)
    assert np.allclose(problem.pi_b, log.problem(0.9).pi_b, atol=1e-3)


def test_the_page_has_the_safety_test_of_its_policy_and_of_no_other(tmp_path: Path) -> None:
    _, files = demonstration.improved(tmp_path / "out")
    assert "Safety test" not in page_of_folder(tmp_path / "out")
    found = {
        "schema": "surefoot/safety-test/1", "policy": "out/policy.csv", "verdict": "passes",
        "policy_fingerprint": file_hash(files["policy.csv"]), "condition": "", "delta": 0.05,
        "log": {"source": "<new>.csv"}, "estimated_gain": 0.5, "gain_at_least": 0.25,
        "gain_at_most": None, "estimator": "pdis", "bound": "betting", "episodes_tested": 900,
        "effective_episodes": 88.0, "largest_weight": 3.0, "share_never_tried": 0.0,
        "assumptions": ["the same world"],
    }  # fmt: skip
    file = tmp_path / "out" / "safety-test.json"
    file.write_text(json.dumps(found), encoding="utf-8")
    page = page_of_folder(tmp_path / "out")
    assert page.index("PASSES: shown to be better than the baseline") < page.index("<h2>")
    assert "policy.csv on &lt;new&gt;.csv: PASSES" in page
    assert "0.5 more reward than the baseline in an episode, at least 0.25 more; wrong" in page
    assert "The same world." in page
    for other, words in (
        (found | {"policy_fingerprint": "another"}, "is about another policy"),
        ({"schema": "surefoot/check/1"}, "does not come from surefoot safety-test"),
    ):
        file.write_text(json.dumps(other), encoding="utf-8")
        with pytest.raises(LogError, match=words):
            page_of_folder(tmp_path / "out")


def test_what_the_log_never_shows_is_named() -> None:
    pairs = (
        PairRecord("go", 9, 0.8, 0.8, 1, 0.1),
        PairRecord("fly", 0, 0.2, 0.2, math.nan, math.nan),
    )
    states = [*records(), StateRecord(("cliff",), "why", pairs)]
    table = gaps(states)
    assert table is not None
    assert table.rows == [("cliff", "fly", "20%", "9", "1.9%")]  # 9 of 97 visits
    assert "1 pair with 1.9%" in table.caption
    assert gaps(records()) is None
    shares = coverage(states)
    assert sum(row.baseline for row in shares) == pytest.approx(1)
    assert shares[0].baseline == pytest.approx(0.2 * 9 / 97)


def test_the_estimates_stand_beside_each_other(tmp_path: Path) -> None:
    summary, _ = demonstration.improved(tmp_path)
    table = estimates_table(summary)
    assert table is not None
    tested, whole = table.rows
    held_out, inside = (summary["worth"][k] for k in ("held_out", "in_sample_optimistic"))
    assert tested[0] == "the half that tests, by a model of it"
    assert tested[3].startswith(signed_number(held_out["gain"]) + "\n")
    assert signed_number(held_out["low"]) in tested[3]
    assert "OPTIMISTIC" in whole[0]
    assert whole[2].startswith(number(inside["policy"]) + "\n")
    for x in summary["worth"]["estimates"]:
        assert x["low"] < x["value"] < x["high"]


def test_every_change_says_why_it_was_allowed(tmp_path: Path) -> None:
    _, files = demonstration.improved(tmp_path)
    states, _ = read_pairs(files["pairs.csv"])
    for state in states:
        assert state.allowed == ((ALLOWED_PRICED + CHECKED) if state.moved > 0 else "")


def test_states_with_coordinates_get_a_map() -> None:
    river = records(tuple(f"x={x} y={y}" for x in range(3) for y in range(4)))
    found = places(river)
    assert found is not None and found.at == [(x, y) for x in range(3) for y in range(4)]
    (one,) = maps(river, ("state",), ["a", "b"])
    assert str(one.picture).count("<g>") == 12
    assert ">x</text>" in one.picture
    assert (
        len(maps(records(tuple(f"{x},{y},{z}" for x in "01" for y in "01" for z in "012")), (), []))
        == 3
    )
    for labels in (("low", "high", "a", "b"), ("1", "2", "3", "4"), ("1 1", "1 2", "2 1", "a 2")):
        assert maps(records(labels), (), []) == []


def test_actions_stand_in_the_order_in_which_they_were_given() -> None:
    table = {
        "episode": [0, 0, 0, 1], "state": ["x", "x", "y", "y"], "action": [10, 9, 10, 2],
        "reward": [0, 0, 0, 0], "terminal": [0, 0, 1, 1],
    }  # fmt: skip
    assert read_log(table).actions_as_given == (2, 9, 10)
    log = read_log(table, actions=["10", 7, 2, 9])
    assert log.actions_as_given == (10, 7, 2, 9) and log.actions == (2, 7, 9, 10)


@pytest.mark.parametrize("order", [["9", "10", "2"], ["10", "2", "9", "never"]])
def test_maps_and_tables_of_a_page_have_them_so(tmp_path: Path, order: list[str]) -> None:
    some = [PairRecord(a, 9, 0.5, 0.5, 1.0, 0.1) for a in ("2", "9", "10")]
    states = [
        StateRecord((f"x={x} y={y}",), "", tuple(some[: 1 + x + y])) for x in (1, 0) for y in (0, 1)
    ]
    summary, _ = improved(tmp_path)
    page = improvement_page({**summary, "log": summary["log"] | {"action_labels": order}}, states)
    told = [x for x in order if x != "never"]
    assert f"Bars in each place: {', '.join(told)}, from left to right" in page
    data = json.loads(re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page)[0])
    for *_, pairs, _ in data["states"]:
        names = [data["actions"][pair[0]] for pair in pairs]
        assert names == [x for x in order if x in names]


def test_states_that_are_ranges_get_a_map_with_the_cut_points() -> None:
    ward = records(
        tuple(
            f"{lactate} and {pulse}"
            for lactate in ("2 <= lactate < 4", "lactate >= 4", "lactate < 2", "lactate missing")
            for pulse in ("heart_rate < 99.5", "heart_rate >= 99.5")
        )
    )
    found = places(ward)
    assert found is not None and found.names == ["lactate", "heart_rate"]
    assert found.marks == [
        ["below 2", "2 to 4", "4 or more", "missing"],
        ["below 99.5", "99.5 or more"],
    ]
    assert found.at[:4] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    (one,) = maps(ward, ("state",), [])
    assert ">2 to 4</text>" in one.picture and "below 99.5</text>" in one.picture
    for labels in (
        ("a < 1", "a >= 1", "b < 1", "b >= 1"),
        ("a < 1 and b < 1", "a < 1 and b >= 1", "a >= 1 and b < 1", "b >= 1 and a >= 1"),
    ):
        assert places(records(labels)) is None


def test_the_picture_of_a_gain_says_it_in_words_too() -> None:
    picture = str(gain_picture(1.5, -0.25, 3.0, 0.05))
    assert 'role="img"' in picture
    assert "at least −0.25" in picture
