"""The verdict: short rules over rows of evidence.

A policy is supported if the gain is shown to be above 0 and every guard and group to be no worse
than by its tolerance. Each part has one test at the whole level: where that statement is false, one
of its parts is false, and the test of this part alone passes with probability at most delta, so
nothing is split between the tests (intersection-union, Berger 1982). What is said if any one of
several tests shows it, such as "worse" of a safety test, or "better" and "worse" of single guards
and groups beside a verdict, must hold for all of them at once: each has delta / their number
(union bound, Bonferroni).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from surefoot.checks import Finding
from surefoot.checks.finding import joint_words
from surefoot.core.evidence import GROUP, GUARD, Evidence
from surefoot.core.text import impossible, signed
from surefoot.evidence.unit_model import DELTA
from surefoot.problems import Problem

SUPPORTED, NOT_SUPPORTED, NOTHING_TO_LEARN = "supported", "not supported", "nothing to learn"
PASSES, FAILS, NO_EVIDENCE = "passes", "fails", "no evidence"
SOME = 1e-9  # share of the moves beyond rounding


@dataclass(frozen=True)
class Verdict:
    """What the evidence shows, in a word; why; and the keys of what speaks against it and was
    passed over, as asked.
    """

    word: str
    reason: str
    waived: tuple[str, ...] = ()

    @property
    def supported(self) -> bool:
        """Whether the evidence is enough, but for what was waived."""
        return self.word == SUPPORTED

    def __str__(self) -> str:
        return f"{self.word} despite {', '.join(self.waived)}" if self.waived else self.word


def judge(
    whole: Verdict,
    parts: Sequence[Evidence],
    stands: Sequence[Finding],
    overruled: Sequence[Finding],
) -> Verdict:
    """The verdict on the whole, unless a part may be worse, or what `stands` against it forbids
    it; with what was `overruled`, since it would not hold without that.
    """
    found = unless_worse(whole, parts)
    if stands:
        keys = ",".join(x.key for x in stands)
        why = (
            f"{joint_words(stands)}. (Otherwise: {found.reason}. To accept this: --despite {keys})"
        )
        return Verdict(NOT_SUPPORTED, why)
    if not (found.supported and overruled):
        return found
    why = f"{found.reason}. Passed over, as asked: {joint_words(overruled)}"
    return Verdict(SUPPORTED, why, tuple(x.key for x in overruled))


def by_test(row: Evidence, problem: Problem, *, changed: bool) -> Verdict:
    """Of what held-out units show of the whole; `changed`: the policy is not the baseline."""
    width, declared = problem.return_range.width, problem.return_range.declared
    odd = impossible(row.estimate, -width, width)
    words = (
        f"{row.validity} test at {DELTA:.0%}: the gain on held-out data is {row.estimate:.4g}"
        f"{f' ({odd})' if odd else ''}, at least {row.low:.4g}"
    )
    if not changed:
        why = "the policy learned from one half of the log changes nothing"
        why += "" if row.checked > SOME else ": the other half cannot check any of its moves"
    elif row.trouble:
        why = row.trouble
    elif row.worse:
        why = (
            f"held-out data show that it is WORSE: the gain is {row.estimate:.4g}, at most"
            f" {row.high:.4g}"
        )
    elif row.low <= 0 < row.seen:
        why = (
            f"{words}, not above 0: it would be at least {row.seen:.4g} if nothing worse can happen"
            " than what was seen"
        )
    elif 0 < row.low <= row.explained:
        why = (
            f"{words}, but {row.explained:.4g} of it is explained by when, or after what, the"
            " actions were taken"
        )
    elif not row.positive:
        why = f"{words}, not above 0"
    else:
        low, high = problem.reward_range
        given = "" if declared else f", if no reward lies outside [{low:g}, {high:g}]"
        return Verdict(SUPPORTED, f"{words}, above 0{given}")
    return Verdict(NOT_SUPPORTED, why)


def by_proof(proved: Verdict, held_out: Evidence) -> Verdict:
    """Of a proof from all data, unless held-out data contradict it."""
    if not (proved.supported and held_out.worse):
        return proved
    why = (
        "held-out data show that what this method learns from the other half is WORSE: the gain is"
        f" at most {held_out.high:.4g}. Something that the proof assumes cannot be true."
        f" (Otherwise: {proved.reason})"
    )
    return Verdict(NOT_SUPPORTED, why)


def by_two_sides(rows: Sequence[Evidence]) -> str:
    """Of a safety test with two sides: one row worse is enough to fail; the whole better and all
    others no worse, within what was seen, to pass.
    """
    whole, *parts = rows
    if any(row.worse for row in rows):
        return FAILS
    return PASSES if whole.positive and all(x.holds_within for x in parts) else NO_EVIDENCE


def unless_worse(whole: Verdict, parts: Sequence[Evidence]) -> Verdict:
    """A verdict that supports, with what the parts show; it does not if one may be worse."""
    if not whole.supported:
        return whole
    failed = [row for row in parts if not row.holds]
    if failed:
        return Verdict(NOT_SUPPORTED, f"{whole.reason}; but {'; '.join(map(_failure, failed))}")
    asked = [row.part for row in parts if row.part.tolerance < float("inf")]
    found = [whole.reason]
    for kind, words in ((GUARD, "{} no worse"), (GROUP, "no worse for any of the groups {}")):
        names = [part.name + beyond(part.tolerance) for part in asked if part.kind == kind]
        found += [words.format(", ".join(names))] * bool(names)
    return replace(whole, reason="; ".join(found))


def _failure(row: Evidence) -> str:
    """Why a part does not hold."""
    part, turned = row.part, row.in_unit_of_column
    what = part.name if part.kind == GUARD else f"the group {part.name}"
    if not row.tested:
        return f"{what} {row.trouble}"
    change = f"{signed(turned.estimate)}, at least {signed(turned.low)}, at most"
    change += f" {signed(turned.high)}"
    if row.worse:
        return f"{what} gets WORSE: {change}"
    more = f"worse by more than {part.tolerance:g}" if part.tolerance else "worse"
    if row.within is not None and row.holds_within:
        seen = {"name": part.name, "better": part.direction, "tolerance": part.tolerance}
        rests = unless_outside(seen | {"range_seen": row.within})
        return f"{what} is not shown to be no {more}, {rests}"
    return f"{what} is not shown to be no {more}: {change}"


def beyond(tolerance: float) -> str:
    """The loss that counts as none, in brackets."""
    return f" (beyond {tolerance:g})" if tolerance else ""


def unless_outside(x: Mapping[str, Any]) -> str:
    """What a guard without a declared range rests on."""
    low, high = x["range_seen"]
    return (
        f"unless no value of {x['name']} lies outside [{low:g}, {high:g}], which nobody declared"
        f" (--guard {x['name']}:{x['better']}:{x['tolerance']:g}:LOW,HIGH)"
    )
