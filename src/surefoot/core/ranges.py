"""Ranges: what the label of a state made from measurements says of each of them, such as
"lactate >= 4 and 60 <= pulse < 100"; written and read here alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

AND, MISSING, GIVEN = " and ", "missing", "given"
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_RANGE = re.compile(
    rf"(?:(?P<low>{NUMBER}) <= )?(?P<name>.+?)"
    rf"(?: < (?P<high>{NUMBER})| >= (?P<start>{NUMBER})| (?P<word>{MISSING}|{GIVEN}))"
)


@dataclass(frozen=True, order=True)
class Range:
    """low <= name < high, or that it is missing, which comes last."""

    name: str
    missing: bool
    low: float
    high: float

    @property
    def mark(self) -> str:
        """It without its name, in short: "2 to 4"."""
        if self.missing:
            return MISSING
        low, high = f"{self.low:.10g}", f"{self.high:.10g}"
        if self.low == -math.inf:
            return GIVEN if self.high == math.inf else f"below {high}"
        return f"{low} or more" if self.high == math.inf else f"{low} to {high}"

    @property
    def words(self) -> str:
        """It in words: "heart rate 60 to below 100"."""
        return f"{self.name.replace('_', ' ')} {self.mark.replace(' to ', ' to below ')}"


def range_text(name: str, low: str = "", high: str = "") -> str:
    """low <= name < high as a label has it; "" is no end."""
    if low and high:
        return f"{low} <= {name} < {high}"
    if low or high:
        return f"{name} >= {low}" if low else f"{name} < {high}"
    return f"{name} {GIVEN}"


def ranges_of(label: str) -> tuple[Range, ...] | None:
    """What a label says, measurement by measurement; None where it is no such label."""
    found = [_RANGE.fullmatch(x) for x in label.split(AND)]
    if any(x is None or (x["low"] and not x["high"]) for x in found):
        return None
    return tuple(
        Range(
            x["name"],
            x["word"] == MISSING,
            float(x["low"] or x["start"] or -math.inf),
            float(x["high"] or math.inf),
        )
        for x in found
        if x is not None
    )


def from_the_lowest(labels: Sequence[Any]) -> tuple[Any, ...]:
    """Labels that are ranges of one number, such as doses, from the lowest on; others as they
    are.
    """
    found = [ranges_of(x) if isinstance(x, str) else None for x in labels]
    read = {x: y[0] for x, y in zip(labels, found, strict=True) if y is not None and len(y) == 1}
    if len(read) < len(labels) or len({x.name for x in read.values()}) != 1:
        return tuple(labels)
    return tuple(sorted(labels, key=read.__getitem__))


def ranges_in_words(label: str) -> str:
    """A label that is ranges in words; another one as it is."""
    found = ranges_of(label)
    return label if found is None else ", ".join(x.words for x in found)
