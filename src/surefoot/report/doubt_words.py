"""What could undo a gain: outcomes that the log has not shown, a hidden cause, or timing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from surefoot.core.text import signed
from surefoot.report.statements import Statement, known


def doubts(document: Mapping[str, Any]) -> list[Statement]:
    """What could undo the gain, the weakest point first: a hidden cause that could explain it, then
    the nearest of those that more data would settle. Of these the factor is compared by which it
    would have to be worse than what the log excludes; a hidden cause has no such scale.
    """
    hidden = _hidden_cause(document)
    measured = sorted(
        [*_unseen(document["cannot_exclude"]), *_time(document)], key=lambda pair: pair[0]
    )
    some = [x for at, x in hidden if at < math.inf] + [x for at, x in measured[:1] if at < math.inf]
    found = [x for _, x in (*hidden, *measured)]
    if not found:
        return []
    first = some or found[:1]
    return [*(replace(x, first=True) for x in first), *(x for x in found if x not in first)]


def _unseen(found: Mapping[str, Any] | None) -> list[tuple[float, Statement]]:
    """The pair in which outcomes that the log has not shown would cost most."""
    if found is None:
        return []
    undo, possible = found["would_undo_one_in"], found["not_excluded_one_in"]
    kind = "badly" if found["more_often"] else "well"
    origin = "the declared rewards allow" if found["range_declared"] else "anything in this log"
    outcome = f"as {kind} as {origin}"
    where = f"{found['action']!r} in {found['state']!r}"
    n = f"{found['visits']:.0f}"
    detail = (f"such an outcome is worth {found['outcome']:.4g} with all that follows",)
    if undo <= 1:
        words = (
            f"{where}, tested {n} times. Even if each of these went {outcome}, the gain would be"
            f" {signed((1 - undo) * found['gain'])}."
        )
        return [(math.inf, Statement("unseen", words, detail, first=False))]
    rule = f"the interval allows for {percent(1 / possible)} more"
    rule = rule if possible > 1 else "the tests are too few to rule out any rate"
    words = (
        f"{where}, tested {n} times. If {percent(1 / undo)} more of these than seen went {outcome},"
        f" the gain would vanish; {rule}."
    )
    return [(possible / undo, Statement("unseen", words, detail, first=False))]


def percent(x: float) -> str:
    """A share, with a digit more where it is small."""
    return f"{x:.0%}" if x >= 0.1 else f"{x:.1%}"


def _hidden_cause(document: Mapping[str, Any]) -> list[tuple[float, Statement]]:
    """How strong a hidden cause would have to be, where there is a policy to be used."""
    used = document["supported"] or document["accepted_unsupported"]
    found = document.get("confounding")
    if found is None or not used:
        return []
    if "not_given" in found:
        words = f"not computed: how much a hidden cause could explain ({found['not_given']})"
        return [(math.inf, Statement("hidden", words, first=False))]
    return [_strength(found)]


def _strength(found: Mapping[str, Any]) -> tuple[float, Statement]:
    """The odds by which a hidden cause would have to drive the choice of actions; inf where it is
    not the weakest point.
    """
    at, shown = (
        found[name] if known(found[name]) else math.inf for name in ("vanishes_at", "shown_up_to")
    )
    fresh = "" if found["one_step"] else " at each step"
    lasting = "" if found["one_step"] else "; one that lasts may need less"
    data = "on held-out data" if found["held_out"] else "on the data that made the policy"
    most = f"{found['strongest']:g}"
    without = f"{at:.2f}" if at < math.inf else f"more than {most}"
    if shown == math.inf:
        words = (
            "a reason for decisions that is not in the log. The gain stays unless it makes some"
            f" actions more than {most} times as likely (odds){fresh}, or leads to outcomes that"
            f" were never seen{lasting}"
        )
        counted = f"sampling error is counted ({data})"
    else:
        words = (
            "a reason for decisions that is not in the log. If it made some actions"
            f" {shown:.2f} times as likely (odds){fresh}, the gain could vanish{lasting}. Ask those"
            " who decided"
        )
        counted = f"sampling error is counted ({data}); without it, {without} times"
    if shown <= 1:
        words = (
            "a reason for decisions that is not in the log. Here sampling error alone could explain"
            f" the gain; a reason that made some actions {without} times as likely (odds){fresh}"
            " would explain all of it"
        )
    detail: tuple[str, ...] = (
        counted,
        "A hidden cause is something that people acted on, that matters for the outcome, and that"
        " no column of the log holds. No log can show whether there is one: ask those who know how"
        " decisions were made.",
    )
    if not found["one_step"]:
        detail += (
            "It is taken to be new at each step. One that lasts, such as a person's constitution,"
            " can mislead more, and these numbers do not cover it.",
        )
    if groups := found.get("groups"):
        each = ", ".join(f"{x['name']} {_times(x['shown_up_to'], most)}" for x in groups)
        detail += (
            f"the gain of a group could vanish where it makes some actions so many times as likely"
            f" (odds; 1: sampling error alone could explain it): {each}",
        )
    return shown, Statement("hidden", words, detail, first=False)


def _times(x: float | None, most: str) -> str:
    """An odds ratio."""
    return f"{x:.2f}" if known(x) and x is not None and math.isfinite(x) else f"more than {most}"


def _time(document: Mapping[str, Any]) -> list[tuple[float, Statement]]:
    """What of the gain is explained by when, or after what, actions were taken."""
    held_out = document["worth"]["held_out"] or {}
    explained, low = held_out.get("explained_by_time_and_past"), held_out.get("low")
    if explained is None or low is None or not 0 < explained < low:
        return []  # where more of it is explained, the verdict says so
    made = bool((document["log"].get("cells") or {}).get("features"))
    reason = "timing, or the place of a row within its state," if made else "timing"
    words = f"{reason} may explain {explained:.4g} of this gain; it must stay below {low:.4g}"
    if document["supported"]:
        words = (
            f"{reason} may explain {explained:.4g} of this gain; {low:.4g} or more would undo the"
            " verdict"
        )
    what = "timing is when, or after what, actions were taken"
    return [(low / explained, Statement("time", words, (what,), first=False))]
