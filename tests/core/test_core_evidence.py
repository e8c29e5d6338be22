"""Rows of evidence: what they show, and how they are turned."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from surefoot.core.evidence import BETTER, GROUP, GUARD, LOWER, WORSE, Evidence, Part

ROW = Evidence(estimate=0.5, low=0.1, high=0.9, together=(0.05, 0.95), units=100)


def test_a_row_without_a_test_shows_nothing() -> None:
    empty = Evidence(part=Part(kind=GROUP, name="f", tolerance=0.1))
    shown = (empty.tested, empty.positive, empty.holds, empty.holds_within, empty.worse)
    assert not any(shown)
    assert empty.shown == ""


def test_what_is_told_and_not_asked_for_holds() -> None:
    told = replace(ROW, part=Part(kind=GROUP, tolerance=math.inf), low=-5.0, within=(0, 1))
    assert told.holds and told.holds_within and not told.worse


@pytest.mark.parametrize(
    ("together", "explained", "shown"),
    [
        ((0.05, 0.95), 0.0, BETTER),
        ((0.05, 0.95), 0.06, ""),
        ((-0.9, -0.1), 0.0, WORSE),
        ((-0.9, -0.1), -0.2, ""),
        ((-0.1, 0.1), 0.0, ""),
    ],
)
def test_a_change_is_shown_beyond_what_time_explains(
    together: tuple[float, float], explained: float, shown: str
) -> None:
    assert replace(ROW, together=together, explained=explained).shown == shown


def test_worse_is_beyond_the_tolerance_and_for_all_statements_at_once() -> None:
    part = Part(kind=GUARD, name="cost", tolerance=0.2)
    lost = replace(ROW, part=part, low=-0.9, high=-0.3, together=(math.nan, -0.1))
    assert not lost.worse  # -0.3 is for this part by itself
    assert replace(lost, together=(math.nan, -0.25)).worse


def test_a_guard_of_which_less_is_better_is_told_in_its_unit() -> None:
    part = Part(kind=GUARD, name="cost", direction=LOWER)
    told = replace(ROW, part=part).in_unit_of_column
    assert (told.estimate, told.low, told.high, told.together) == (-0.5, -0.9, -0.1, (-0.95, -0.05))
    assert ROW.in_unit_of_column == ROW
