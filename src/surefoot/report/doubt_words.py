"""What could undo a gain, and what is proved of it: outcomes that were never seen, a hidden cause,
time; the weakest of them first; the certificate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from surefoot.core.evidence import RIGOROUS
from surefoot.core.text import signed
from surefoot.report.statements import Statement, known

ABOUT = ((1e9, "billion"), (1e6, "million"))


def doubts(document: Mapping[str, Any]) -> list[Statement]:
    """What could undo the gain; the weakest point is the one that is nearest to it, on one scale:
    the factor by which it would have to be worse than what the log excludes.
    """
    found = [
        *_unseen(document["cannot_exclude"]),
        *_hidden_cause(document),
        *_time(document["worth"]["held_out"] or {}),
    ]
    if not found:
        return []
    weakest = min(range(len(found)), key=lambda i: found[i][0])
    rest = [x for i, (_, x) in enumerate(found) if i != weakest]
    return [replace(found[weakest][1], first=True), *rest]


def _unseen(found: Mapping[str, Any] | None) -> list[tuple[float, Statement]]:
    """The pair in which outcomes that the log has not shown would cost most."""
    if found is None:
        return []
    undo, possible = found["would_undo_one_in"], found["not_excluded_one_in"]
    kind = "badly" if found["more_often"] else "well"
    origin = "the declared rewards allow" if found["range_declared"] else "any reward of this log"
    outcome = f"as {kind} as {origin} ({found['outcome']:.4g} with all that follows)"
    where = f"{found['action']!r} in {found['state']!r}"
    n = f"{found['visits']:.0f}"
    if undo <= 1:
        words = (
            f"{where}, tested {n} times. Even if each of these went {outcome}, the gain would be"
            f" {signed((1 - undo) * found['gain'])}."
        )
        return [(math.inf, Statement("unseen", words, first=False))]
    rule = f"{n} tests rule out rates above {1 / possible:.0%} (at 95 %)"
    rule = rule if possible > 1 else f"{n} tests are too few to rule out any rate"
    words = (
        f"{where}, tested {n} times. If {1 / undo:.0%} of these went {outcome}, the gain would"
        f" vanish; {rule}."
    )
    return [(possible / undo, Statement("unseen", words, first=False))]


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
    """The odds by which a hidden cause would have to drive the choice of actions."""
    at, shown = (
        found[name] if known(found[name]) else math.inf for name in ("vanishes_at", "shown_up_to")
    )
    fresh = "" if found["one_step"] else ", anew at each step"
    lasting = "" if found["one_step"] else " (if it lasts, perhaps less)"
    data = "on held-out data" if found["held_out"] else "on the data that made the policy"
    most = f"{found['strongest']:g}"
    without = f"{at:.2f}" if at < math.inf else f"more than {most}"
    if shown == math.inf:
        words = (
            "nothing that decisions were based on, and the log does not hold, could explain this"
            f" gain away, unless it changes the odds of actions more than {most}-fold{fresh}"
            f"{lasting}, or leads to outcomes that were never seen"
        )
        counted = f"sampling error is counted ({data})"
    else:
        words = (
            "something that decisions were based on, and the log does not hold, could explain this"
            f" gain away, if it changed the odds of actions {shown:.2f}-fold{fresh}{lasting}"
        )
        counted = f"sampling error is counted ({data}); without it, {without}-fold"
    if shown <= 1:
        words = (
            "with sampling error the gain is not shown even without a hidden cause; one that"
            f" changes the odds of actions {without}-fold{fresh} would explain all of it"
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
    return shown, Statement("hidden", words, detail, first=False)


def _time(held_out: Mapping[str, Any]) -> list[tuple[float, Statement]]:
    """What of the gain is explained by when, or after what, actions were taken."""
    explained, low = held_out.get("explained_by_time_and_past"), held_out.get("low")
    if explained is None or low is None or not 0 < explained < low:
        return []  # where more of it is explained, the verdict says so
    words = (
        f"{explained:.4g} of the gain may come from when, or after what, actions were taken; only"
        f" {low:.4g} or more would undo the verdict"
    )
    return [(low / explained, Statement("time", words, first=False))]


def proof(c: Mapping[str, Any] | None) -> list[Statement]:
    """What is proved of the policy without a test; one calm clause where nothing is."""
    if c is None:
        return []
    if "not_given" in c:
        why = c["not_given"].removeprefix("certify: ")
        return [Statement("proof", f"No proof from this log: {why}", first=False)]
    detail: tuple[str, ...] = (bound_words(c),)
    if c["vacuous"]:
        detail += ("this bound says no more than the range of returns does",)
    detail += tuple(f"it assumes: {x}" for x in c["assumptions"])
    return [Statement("proof", proof_words(c), detail, first=False)]


def bound_words(c: Mapping[str, Any]) -> str:
    """The bound itself, and how sure it is."""
    if not known(c["bound"]):
        return (
            "the policy moves probability of pairs whose value no return in the log bounds"
            f" ({c['method']})"
        )
    what = c["bounded"].replace("v^pi - v^{pi_b}", "the gain")
    return (
        f"{what} is at least {signed(c['bound'])} with probability {1 - c['delta']:g}"
        f" ({c['method']}; {c['label']})"
    )


def proof_words(c: Mapping[str, Any]) -> str:
    """Whether the policy is proved to be no worse, and how many rows would be needed if not."""
    if c["useful"] and c["label"] == RIGOROUS:
        return "Proved: the policy is no worse than the baseline."
    if c["useful"]:
        return (
            f"The policy is no worse than the baseline if what the {c['label']} bound assumes is"
            " true."
        )
    if not c["states_changed"]:
        return "The policy is the baseline: there is nothing to prove."
    if known(c["rows_needed"]):
        return f"No proof from this log; about {about(c['rows_needed'])} rows would be needed."
    return "No proof from this log; no larger log of this kind would be enough."


def about(n: float) -> str:
    """A large number as one says it: "1.3 million", "24,000"."""
    digits = float(f"{n:.2g}")
    for size, name in ABOUT:
        if digits >= 1e12:
            return f"{digits:.2g}"
        if digits >= size:
            return f"{digits / size:.2g} {name}"
    return f"{digits:,.0f}"
