"""The rules of a verdict, over rows made by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from surefoot.advice.verdict import (
    FAILS,
    NO_EVIDENCE,
    NOT_SUPPORTED,
    PASSES,
    SUPPORTED,
    Verdict,
    by_proof,
    by_two_sides,
    judge,
    objections_of,
)
from surefoot.checks import Finding
from surefoot.checks.finding import DRIFT, MARKOV, MISSING, NOTE, TIME, WARNING
from surefoot.core.evidence import GUARD, Evidence, Part

GOOD = Verdict(SUPPORTED, "above 0")
COST = Part(kind=GUARD, name="cost")
KEPT = Evidence(part=COST, low=0.0, high=1.0, together=(-0.1, 1.1))
LOST = replace(KEPT, low=-2.0, high=-1.0, together=(-2.1, -0.9))
MOVED = Finding("drift", WARNING, "the world changed", key=DRIFT, vetoes=True)
WHOLE = Evidence(low=0.1, high=0.9, together=(math.nan, 0.9))


def test_all_parts_must_hold() -> None:
    assert judge(GOOD, [KEPT], (), ()).reason == "above 0; cost no worse"
    lost = judge(GOOD, [KEPT, LOST], (), ())
    assert not lost.supported and "cost gets WORSE: " in lost.reason


def test_what_stands_forbids_and_what_is_overruled_is_named() -> None:
    forbidden = judge(GOOD, (), [MOVED], ())
    assert forbidden.word == NOT_SUPPORTED
    assert forbidden.reason.endswith("(Otherwise: above 0. To accept this: --despite drift)")
    passed = judge(GOOD, (), (), [MOVED])
    assert (str(passed), passed.supported) == ("supported despite drift", True)
    bad = Verdict(NOT_SUPPORTED, "not above 0")
    assert judge(bad, [LOST], (), [MOVED]) == bad


def test_held_out_data_may_contradict_a_proof() -> None:
    assert by_proof(GOOD, WHOLE) == GOOD
    assert not by_proof(GOOD, replace(WHOLE, low=-2.0, high=-1.0, together=(-2.0, -1.0))).supported


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ([WHOLE], PASSES),
        ([WHOLE, KEPT], PASSES),
        ([WHOLE, replace(KEPT, low=-0.1)], NO_EVIDENCE),
        ([WHOLE, LOST], FAILS),
        ([replace(WHOLE, low=0.0)], NO_EVIDENCE),
        ([replace(WHOLE, low=-1.0, together=(math.nan, -0.1))], FAILS),
        ([WHOLE, Evidence(part=COST)], NO_EVIDENCE),
    ],
)
def test_a_safety_test_passes_if_all_rows_let_it_and_fails_if_one_is_worse(
    rows: list[Evidence], word: str
) -> None:
    assert by_two_sides(rows) == word


def test_objections_are_those_that_veto_and_missing_episodes_and_what_nobody_looked_for() -> None:
    gone = Finding("missing", NOTE, "3 are missing", {"missing": 3}, MISSING)
    found = objections_of(
        [MOVED, gone, Finding("x", NOTE, "fine", key=MARKOV)], [DRIFT], blind=True
    )
    assert [x.key for x in found.stands] == [MISSING, TIME]
    assert [x.key for x in found.overruled] == [DRIFT]
    assert found.markov
    less = replace(found, slight=(gone,))
    assert [x.key for x in less.against] == [DRIFT, TIME]
