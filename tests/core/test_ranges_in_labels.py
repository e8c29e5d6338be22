"""Ranges in the labels of states: written by encoders, read by maps, trees and pages."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
import pytest

import surefoot
from surefoot.core.ranges import (
    AND,
    Range,
    from_the_lowest,
    range_text,
    ranges_in_words,
    ranges_of,
)
from surefoot.serving.encoders import QuantileEncoder


def test_what_an_encoder_writes_is_what_it_does() -> None:
    encoder = QuantileEncoder(
        ("heart rate", "x <= y"), ((-1e-7, 99.5, 1e9), ()), missing=("heart rate", "x <= y")
    )
    for code, label in enumerate(encoder.labels):
        found = ranges_of(label)
        assert found is not None and [x.name for x in found] == list(encoder.features)
        said = [None if x.missing else (x.low, x.high) for x in found]
        ends = [
            x
            and tuple(
                end if z is None else z for z, end in zip(x, (-math.inf, math.inf), strict=True)
            )
            for x in encoder.ranges(code)
        ]
        assert said == ends


@pytest.mark.parametrize(
    "label", ["low", "x=1 y=2", "3, 4", "2 <= x", "x < two", "x missing and y", ""]
)
def test_other_labels_are_no_ranges(label: str) -> None:
    assert ranges_of(label) is None and ranges_in_words(label) == label


def test_ranges_lie_in_order_and_what_is_missing_comes_last() -> None:
    edges = ["", "-2", "0", "1e3", ""]
    labels = [range_text("x", *x) for x in pairwise(edges)]
    mixed = np.random.default_rng(0).permutation([*labels, "x missing"])
    found = sorted(x for label in mixed for x in ranges_of(str(label)) or ())
    assert [x.mark for x in found] == [
        "below -2",
        "-2 to 0",
        "0 to 1000",
        "1000 or more",
        "missing",
    ]


def test_words_say_which_end_belongs_to_a_range() -> None:
    label = AND.join(["2 <= lactate < 4", "heart_rate >= 100", "ph missing", "bp given", "k < 1.5"])
    assert ranges_in_words(label) == (
        "lactate 2 to below 4, heart rate 100 or more, ph missing, bp given, k below 1.5"
    )
    assert Range("k", False, 1234567.5, math.inf).words == "k 1234567.5 or more"
    for low, high in product(("", "1"), ("", "2")):
        (one,) = ranges_of(range_text("k", low, high)) or ()
        assert (one.low, one.high) == (float(low or -math.inf), float(high or math.inf))


def test_doses_stand_from_the_lowest_on_and_other_labels_as_they_are() -> None:
    doses = ("10 <= dose < 20", "2.5 <= dose < 10", "dose < 2.5", "dose >= 20")
    assert from_the_lowest(doses) == (doses[2], doses[1], doses[0], doses[3])
    for others in (("b", "a"), (2, 1), ("dose < 2", "rate >= 1"), ("dose < 2", "wait"), ()):
        assert from_the_lowest(others) == others


def test_a_log_of_doses_has_them_in_that_order_unless_they_are_named_in_another() -> None:
    doses = ("10 <= dose < 20", "dose < 10", "dose >= 20")
    rows = {"state": ["s"] * 3, "action": list(doses), "reward": [0.0, 1.0, 2.0]}
    log = surefoot.read_log(rows, bandit=True)
    assert log.actions_as_given == (doses[1], doses[0], doses[2])
    named = surefoot.read_log(rows, bandit=True, actions=doses)
    assert named.actions_as_given == doses
