"""The first page of an improvement: what a committee needs, and pictures that do not mislead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from report.test_improvement_page import Reader, improved, records
from report.test_statements import found
from surefoot.core.plain_values import plain
from surefoot.report.committee import MOST_SHOWN, NOT_ASKED, committee, glossary
from surefoot.report.folder import StateRecord
from surefoot.report.improvement_page import improvement_page
from surefoot.report.improvement_words import improvement_statements
from surefoot.report.page import Section, signed_number
from surefoot.report.pictures import Change, Panel, forest_picture, hidden_picture, ticks

TITLES = [
    "What would change",
    "What it is worth, and how sure that is",
    "Who could be harmed",
    "What was assumed",
    "What the log cannot show",
    "What to do next",
]


def first_page(case: str, states: list[StateRecord] | None = None) -> dict[str, Section]:
    document = plain(found(case))
    said = improvement_statements(document)
    return {x.title: x for x in committee(document, states or [], said)}


def words(section: Section) -> str:
    return " ".join([*section.sentences, *(x.words for x in section.items)])


def test_it_comes_before_the_technical_part_and_asks_every_question(tmp_path: Path) -> None:
    assert list(first_page("supported")) == TITLES
    summary, states = improved(tmp_path)
    page = improvement_page(summary, states)
    assert page.index("SUPPORTED") < page.index(TITLES[0]) < page.index("The technical part")
    assert page.index(TITLES[-1]) < page.index("The technical part") < page.index("What changes<")


def test_changes_stand_there_from_what_to_what_without_a_click() -> None:
    (table,) = first_page("supported")["What would change"].tables
    (change,) = found("supported")["changes"]["alone"]
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert (row["state"], row["less of"], row["more of"]) == ("0", "a", "b")
    assert row["visits"] == f"{change['visits']:,}"
    assert row["gain by itself"].startswith(f"{signed_number(change['gain'])} (")
    assert row["shown"] == ("yes" if change["shown"] else "no")


def test_changes_without_evidence_of_their_own_stand_there_too() -> None:
    document = plain(found("supported"))
    document["changes"] |= {"alone": [], "states_changed": 9}
    states = records(tuple("abcdefghi"))
    section = committee(document, states, improvement_statements(document))[0]
    assert section.tables[0].rows[0][:3] == ("a", "do a 90% → 60%", "wait 10% → 40%")
    assert len(section.tables[0].rows) == MOST_SHOWN
    assert "3 changes more: see the technical part." in section.sentences


def test_a_table_and_a_plot_say_who_could_be_harmed() -> None:
    section = first_page("guard")["Who could be harmed"]
    (table,), (picture,) = section.tables, section.pictures
    assert [row[0] for row in table.rows] == [
        "cost (lower is better)", "group f", "group m", "group x",
    ]  # fmt: skip
    assert table.rows[-1][-1] == "TOO SMALL to say anything, so NOT PASSED"
    for name in ("everybody", "group f", "group m", "cost"):
        assert f">{name}</text>" in picture.picture
    assert ">group x</text>" not in picture.picture  # nothing is known of it
    assert not section.items
    assert first_page("supported")["Who could be harmed"].sentences == [NOT_ASKED]


@pytest.mark.parametrize(
    ("case", "first"),
    [
        ("supported", "Ask those who made the decisions"),
        ("not supported", "Go on with the baseline"),
        ("vetoed", "First settle what speaks against a promise"),
        ("despite", "First settle what was passed over: drift, policy-drift"),
        ("accepted", "This policy is used although the data do not support it"),
        ("nothing", "Go on with the baseline"),
    ],
)
def test_what_to_do_next_follows_the_verdict(case: str, first: str) -> None:
    assert words(first_page(case)["What to do next"]).count(first) == 1


def test_nothing_changes_where_there_is_nothing_to_learn() -> None:
    page = first_page("nothing")
    assert words(page["What would change"]) == "Nothing: the new policy is the baseline."
    assert "What was assumed" not in page


def test_a_page_of_rows_speaks_of_no_episodes() -> None:
    document = plain(found("bandit"))
    said = " ".join(map(words, first_page("bandit").values()))
    assert not re.search(
        r"\b(episode|step)", f"{said} {glossary(document)}".replace("one step", "")
    )


def test_a_proof_that_cannot_be_had_is_one_line() -> None:
    certificate = found("proof")["certificate"] | {
        "useful": False, "vacuous": True, "bound": -9.0, "rows_needed": 1.3e6,
    }  # fmt: skip
    page = improvement_page(plain(found("supported") | {"certificate": certificate}), [])
    said = " ".join(" ".join(Reader(page).words).split())
    assert "No proof from this log; about 1.3 million rows would be needed." in said
    assert "it assumes" not in said.lower() and "at least −9" not in said


def centre(picture: str, i: int) -> float:
    return float(re.findall(r'<circle class="dot" cx="([-\d.]+)"', picture)[i])


def zero(picture: str, i: int) -> float:
    return float(re.findall(r'<line class="zero" x1="([-\d.]+)"', picture)[i])


def test_better_stands_to_the_right_whatever_the_direction() -> None:
    row = Change("cost", -30.0, -40.0, -20.0, 10.0)
    falls = str(forest_picture([Panel("cost", [row], signed_number, falls=True)]))
    rises = str(forest_picture([Panel("quality", [row], signed_number)]))
    assert centre(falls, 0) > zero(falls, 0) and centre(rises, 0) < zero(rises, 0)
    limit = re.findall(r'<line class="limit" x1="([-\d.]+)"', falls)
    assert float(limit[0]) < zero(falls, 0)  # a loss that is allowed is on the worse side


def test_an_end_that_is_not_known_reaches_the_edge() -> None:
    def bar(change: Change, falls: bool = False) -> list[float]:
        picture = str(forest_picture([Panel("p", [change], signed_number, falls=falls)]))
        found = re.findall(r'class="bar" x1="([-\d.]+)" x2="([-\d.]+)"', picture)
        return sorted(map(float, found[0]))

    whole = bar(Change("x", 1.0, 0.5, 1.5))
    assert bar(Change("x", 1.0, 0.5, None))[1] > whole[1] + 10
    assert bar(Change("x", 1.0, None, 1.5))[0] < whole[0] - 10
    assert bar(Change("x", 1.0, None, 1.5), falls=True)[1] > 420


def test_ticks_are_round_and_hold_zero() -> None:
    assert ticks(-0.021, 0.071) == pytest.approx([-0.02, 0.0, 0.02, 0.04, 0.06])
    assert ticks(3, 3) == [3]
    for low, high in ((-7, 1), (0, 1e9), (-3e-7, 0)):
        at = ticks(low, high)
        assert 0.0 in at and 3 <= len(at) <= 8
        assert all(low - 1e-9 <= z <= high + 1e-9 * abs(high) for z in at)


def test_the_picture_of_hidden_causes_has_ticks_on_both_axes() -> None:
    curve: list[dict[str, Any]] = [
        {"strength": s, "gain_at_least": 0.5 - 0.3 * (s - 1), "with_sampling_error": 0.4 - 0.3 * (s - 1)}
        for s in (1.0, 1.5, 2.0, 3.0)
    ]  # fmt: skip
    picture = str(hidden_picture(curve))
    told = re.findall(r">([^<>]+)</text>", picture)
    assert {"1", "1.5", "2", "3", "0", "+0.2", "+0.4"} <= set(told)
    assert "strength of a hidden cause (factor of the odds)" in told
    assert "gain left, at least" in told
