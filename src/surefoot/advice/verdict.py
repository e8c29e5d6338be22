"""The verdict: short rules over rows of evidence, and over what in a log forbids a promise.

A policy is supported if the gain is shown to be above 0 and every guard and group to be no worse
than by its tolerance. Each part has one test at the whole level: where that statement is false, one
of its parts is false, and the test of this part alone passes with probability at most delta, so
nothing is split between the tests (intersection-union, Berger 1982). What is said if any one of
several tests shows it, such as "worse" of a safety test, or "better" and "worse" of single guards
and groups beside a verdict, must hold for all of them at once: each has delta / their number
(union bound, Bonferroni).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from surefoot.advice.gain import Gain
from surefoot.checks import Finding
from surefoot.checks.finding import (
    BASELINE,
    DRIFT,
    MARKOV,
    MISSING,
    NOTE,
    TIME,
    joint_words,
    not_looked_at,
)
from surefoot.core.evidence import GROUP, GUARD, HIGHER, Evidence
from surefoot.core.policy import CHANGED
from surefoot.core.text import impossible, signed
from surefoot.evidence.circumstances import MEASURED
from surefoot.evidence.unit_estimate import DELTA, Unseen
from surefoot.problems import Problem

SUPPORTED, NOT_SUPPORTED, NOTHING_TO_LEARN = "supported", "not supported", "nothing to learn"
PASSES, FAILS, NO_EVIDENCE = "passes", "fails", "no evidence"
SOME = 1e-9  # share of the moves beyond rounding
BEYOND_SEEN = 3.0  # circumstances that are not seen may matter so much more than those that are
MOST_MOVES = 0.8  # share of the moves that must be seen in the circumstances in which they are made


@dataclass(frozen=True)
class Verdict:
    """What the evidence shows, in a word, and why.

    waived     the keys of what speaks against it and was passed over, as asked
    in_short   the reason in a sentence or two; "": it is short
    """

    word: str
    reason: str
    waived: tuple[str, ...] = ()
    in_short: str = ""

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
        short = f"{_in_short(stands)}. Override: --despite {keys}"
        return Verdict(NOT_SUPPORTED, why, in_short=short)
    if not (found.supported and overruled):
        return found
    why = f"{found.reason}. Passed over, as asked: {joint_words(overruled)}"
    return Verdict(SUPPORTED, why, tuple(x.key for x in overruled), _in_short(overruled, 1))


def _in_short(found: Sequence[Finding], most: int = 2) -> str:
    """The first sentence of each finding; of a single one so many: what to do follows."""
    n = most if len(found) == 1 else 1
    return joint_words(
        [replace(x, sentence=". ".join(x.sentence.split(". ")[:n]).rstrip(".")) for x in found]
    )


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
        return Verdict(NOT_SUPPORTED, why)
    if row.trouble:
        return Verdict(NOT_SUPPORTED, row.trouble)
    if row.positive:
        low, high = problem.reward_range
        given = "" if declared else f", if no reward lies outside [{low:g}, {high:g}]"
        return Verdict(SUPPORTED, f"{words}, above 0{given}")
    made = problem.log is not None and any(x.startswith(MEASURED) for x in problem.log.beside)
    return _no_gain(row, words, ", or where within its state a row lies" * made)


def over_rule(found: Verdict, pi: np.ndarray, over: np.ndarray, problem: Problem) -> Verdict:
    """A verdict whose gain is that over the baseline's rule: it says so."""
    acts = ~np.asarray(problem.terminal)
    if np.abs(pi - over)[acts].max(initial=0.0) <= CHANGED:
        why = "the policy learned from one half of the log is the baseline's rule itself"
        return Verdict(NOT_SUPPORTED, why)
    words = ": the comparison is with the baseline's rule, its most frequent action in every state"
    return replace(found, reason=f"{found.reason}{words}", in_short=f"{_short_of(found)}{words}")


def _short_of(found: Verdict) -> str:
    return found.in_short or found.reason


def _no_gain(row: Evidence, words: str, more: str = "") -> Verdict:
    """Why a gain is not shown; `words` are the test with its numbers, `more` what else may explain
    a gain.
    """
    short = (
        f"no gain is shown on held-out data (estimate {row.estimate:.4g}, lower bound {row.low:.4g}"
    )
    if row.worse:
        why = (
            f"held-out data show that it is WORSE: the gain is {row.estimate:.4g}, at most"
            f" {row.high:.4g}"
        )
        return Verdict(NOT_SUPPORTED, why)
    if row.low <= 0 < row.seen:
        seen = f"{row.seen:.4g} if nothing worse can happen than what was seen"
        why = f"{words}, not above 0: it would be at least {seen}"
        return Verdict(NOT_SUPPORTED, why, in_short=f"{short}; {seen})")
    if 0 < row.low <= row.explained:
        taken = f"explained by when, or after what, the actions were taken{more}"
        why = f"{words}, but {row.explained:.4g} of it is {taken}"
        short = f"{row.explained:.4g} of the gain may be {taken}; without that no gain is shown"
        return Verdict(NOT_SUPPORTED, why, in_short=short)
    return Verdict(NOT_SUPPORTED, f"{words}, not above 0", in_short=f"{short})")


def by_proof(proved: Verdict, held_out: Evidence) -> Verdict:
    """Of a proof from all data, unless held-out data contradict it."""
    if not (proved.supported and held_out.worse):
        return proved
    why = (
        "held-out data show that what this method learns from the other half is WORSE: the gain is"
        f" at most {held_out.high:.4g}. Something that the proof assumes cannot be true."
        f" (Otherwise: {proved.reason})"
    )
    return Verdict(NOT_SUPPORTED, why, in_short=why.partition(". ")[0])


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
        why = f"{whole.reason}; but {'; '.join(map(_failure, failed))}"
        short = f"overall a gain is shown, but {'; '.join(map(_failure_in_short, failed))}"
        return Verdict(NOT_SUPPORTED, why, in_short=short)
    asked = [row.part for row in parts if row.part.tolerance < float("inf")]
    found = [whole.reason]
    for kind, words in ((GUARD, "{} no worse"), (GROUP, "no worse for any of the groups {}")):
        names = [
            x.name + (f" (beyond {x.tolerance:g})" if x.tolerance else "")
            for x in asked
            if x.kind == kind
        ]
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
        low, high = row.within
        return (
            f"{what} is not shown to be no {more}, unless no value of {part.name} lies outside"
            f" [{low:g}, {high:g}], which nobody declared"
            f" (--guard {part.name}:{part.direction}:{part.tolerance:g}:LOW,HIGH)"
        )
    return f"{what} is not shown to be no {more}: {change}"


def _failure_in_short(row: Evidence) -> str:
    """The same where a bound is too low: what may be lost, and how much of that is allowed."""
    part, harm = row.part, max(row.explained, 0.0) - row.low
    if not row.tested or row.worse or row.holds_within:
        return _failure(row)
    much = f"{harm:.4g}" if harm < float("inf") else "any amount"
    allowed = f"{part.tolerance:g} is allowed" if part.tolerance else "no loss is allowed"
    if part.kind == GROUP:
        who = f"for group {part.name} ({row.told_by})"
        return f"not {who}: it may lose {much} there; {allowed}"
    way = "fall" if part.direction == HIGHER else "rise"
    return f"{part.name} may {way} by {much}; {allowed}"


@dataclass(frozen=True)
class Objections:
    """Findings that veto, and those that nobody could look for.

    despite     keys that the user does not believe: they are overruled
    slight      findings that would veto if they changed this gain enough: they are told
    needless    keys that the test which was done does not need
    """

    raised: tuple[Finding, ...]
    despite: tuple[str, ...] = ()
    slight: tuple[Finding, ...] = ()
    needless: tuple[str, ...] = ()

    @property
    def against(self) -> tuple[Finding, ...]:
        """Those that matter, overruled or not."""
        slight = {x.key for x in self.slight}
        return tuple(x for x in self.raised if x.key not in slight)

    @property
    def stands(self) -> tuple[Finding, ...]:
        """Those that forbid the promise."""
        passed = {*self.despite, *self.needless}
        return tuple(x for x in self.against if x.key not in passed)

    @property
    def overruled(self) -> tuple[Finding, ...]:
        """Those without which the promise would not hold, as asked."""
        some = (x for x in self.raised if x.key not in self.needless)
        return tuple(x for x in some if x.key in self.despite)

    @property
    def markov(self) -> bool:
        """Whether the states say enough, as far as anybody looked."""
        passed = {*self.despite, *(x.key for x in self.slight)}
        return not any(x.key == MARKOV and x.looked for x in self.raised if x.key not in passed)


def objections_of(
    findings: Sequence[Finding], despite: Sequence[str], *, blind: bool
) -> Objections:
    """What the findings forbid; `blind`: nobody could look for what time and the past explain. Of
    missing episodes any number may matter (`too_few_missing`).
    """
    raised = [replace(x, vetoes=True) for x in findings if x.vetoes or x.key == MISSING]
    if blind and all(x.key != TIME for x in raised):
        raised.append(not_looked_at(TIME))
    return Objections(tuple(raised), tuple(despite))


def to_weights(found: Objections, findings: Sequence[Finding]) -> Objections:
    """Weights need the baseline itself, not nearly."""
    rough = [replace(x, vetoes=True) for x in findings if (x.key, x.level) == (BASELINE, NOTE)]
    return replace(found, raised=(*found.raised, *rough))


def hardly_matter(
    problem: Problem, gain: Gain, pi_b: np.ndarray, stands: Sequence[Finding]
) -> tuple[Finding, ...]:
    """Those findings of memory and drift that hardly change the gain: in the model whose states
    know the circumstances it is shown too, most moves can be checked there, and BEYOND_SEEN times
    what it differs by stays below the bound. They say so, and veto nothing. Of single decisions the
    past says too little: what drives them is not seen.
    """
    some = [x for x in stands if x.key in (MARKOV, DRIFT) and x.looked]
    found, row = gain.circumstances, gain.evidence
    if not some or gain.weighed or not row.positive or found is None:
        return ()
    if found.log.n_episodes == len(found.log):
        return ()
    assert gain.held_out is not None
    inside, checked = found.gain(problem, gain.held_out, gain.pi, pi_b, gain.over)
    low, differs = inside.interval()[0], abs(row.estimate - inside.value)
    if not (low > 0 and BEYOND_SEEN * differs < row.low and checked > MOST_MOVES):
        return ()
    words = (
        ". It hardly matters for this gain: where the state knows the circumstances too, it is"
        f" {inside.value:.4g}, at least {low:.4g}"
    )
    return tuple(_slight(x, words) for x in some)


def too_few_missing(problem: Problem, gain: Gain, stands: Sequence[Finding]) -> tuple[Finding, ...]:
    """The finding that episodes are missing, where the gain would be shown if every one of them had
    been as bad as it can be for the policy: unseen events at the most that each could take away, or
    values at the floor. It says so, and vetoes nothing.
    """
    some, row = [x for x in stands if x.key == MISSING], gain.evidence
    if not some or not row.positive:
        return ()
    gone = float(some[0].numbers["missing"])
    if gain.weighed:
        left = (row.units * row.low - gone * problem.return_range.width) / (row.units + gone)
    elif gain.unseen is not None and problem.log is not None:
        left = row.low - of_missing(problem, some[0], gain.unseen)
    else:
        return ()
    if not left > max(row.explained, 0.0):
        return ()
    words = f". Had all of them been as bad as can be, the gain would still be at least {left:.4g}"
    return tuple(_slight(x, words) for x in some)


def of_missing(problem: Problem, found: Finding, one: Unseen) -> float:
    """What the episodes that are missing could change at most, each step like one unseen event."""
    assert problem.log is not None
    return float(found.numbers["missing"]) * (int(problem.log.time.max()) + 1) * one.each


def _slight(x: Finding, words: str) -> Finding:
    return replace(x, sentence=x.sentence.rstrip(".") + words, vetoes=False)
