"""The picture of what a hidden cause could explain: its lines are the curve, and its words say so."""

from __future__ import annotations

import re
from typing import Any

import pytest

from surefoot.report.improvement_page import evidence
from surefoot.report.improvement_words import doubts
from surefoot.report.page import Section
from surefoot.report.pictures import hidden_picture

CURVE = [
    {"strength": 1.0, "gain_at_least": 2.0, "with_sampling_error": 1.0},
    {"strength": 2.0, "gain_at_least": 0.0, "with_sampling_error": -1.0},
    {"strength": 4.0, "gain_at_least": -2.0, "with_sampling_error": -3.0},
]
FOUND = {
    "vanishes_at": 2.0, "shown_up_to": 1.4, "strongest": 100.0, "delta": 0.05, "rows": 500,
    "held_out": True, "one_step": False, "curve": CURVE,
}  # fmt: skip


def points(picture: str, kind: str) -> list[list[float]]:
    (found,) = re.findall(f'<polyline class="{kind}" points="([^"]*)"', picture)
    return [[float(x) for x in pair.split(",")] for pair in found.split()]


def test_the_lines_are_the_curve_on_a_scale_of_ratios() -> None:
    picture = str(hidden_picture(CURVE))
    plain, sure = points(picture, "line"), points(picture, "line dashed")
    assert plain[1][0] == pytest.approx((plain[0][0] + plain[2][0]) / 2, abs=0.1)
    zero = float(re.findall(r'class="zero".*?y1="([\d.]+)"', picture)[0])
    assert plain[1][1] == pytest.approx(zero)
    step = plain[1][1] - plain[0][1]
    assert sure[0][1] - plain[0][1] == pytest.approx(step / 2, abs=0.1)
    assert "+2 at 1" in picture


def summary(**changes: Any) -> dict[str, Any]:
    nothing = {"held_out": None, "in_sample_optimistic": None}
    return {
        "supported": True, "accepted_unsupported": False, "worth": nothing, "own_return": None,
        "cannot_exclude": None, "certificate": None, "assumptions": [], "confounding": FOUND, "log": {},
    } | changes  # fmt: skip


def shown(**changes: Any) -> list[Section]:
    """What the page says of how sure it is, from the statements about doubts alone."""
    found = summary(**changes)
    return evidence(found, doubts(found))


def test_the_page_has_it_where_there_is_a_policy_to_be_used() -> None:
    (found,) = shown()
    assert "1.40 times as likely (odds) at each step" in found.sentences[0]
    assert "without it, 2.00 times" in found.items[0].words
    assert "polyline" in found.pictures[0].picture
    assert shown(supported=False) == []
    assert shown(confounding=None) == []
    (bare,) = shown(confounding={"not_given": "there are many states"})
    assert "there are many states" in bare.sentences[0]
    assert not bare.pictures
