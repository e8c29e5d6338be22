"""A policy as a function block in Structured Text of IEC 61131-3: from raw readings to a decision,
for a controller of machines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.core import Policy
from surefoot.core.errors import ParameterError
from surefoot.core.labels import as_text
from surefoot.core.text import plural
from surefoot.serving.controller import Controller, most_probable, untouched
from surefoot.serving.encoders import QuantileEncoder, bins_of

AS_BEFORE = 0


@dataclass(frozen=True)
class Reading:
    """A feature: the inputs that hold its number, and whether there is one."""

    feature: str
    number: str
    there: str


def function_block(controller: Controller, comments: Sequence[str] = ()) -> str:
    """The text of a function block. Its output `decision` is the number of an action, in the order
    of the policy, or 0 for 'as before': where the policy leaves a baseline as it is that draws, and
    where it knows nothing and has no fallback.
    """
    if controller.encoder is None:
        raise ParameterError(
            "Structured Text decides from raw readings: give the encoder of the states with"
            " --encoder (encoder=... in Python)"
        )
    encoder = bins_of(controller.encoder, "Structured Text")
    second = controller.otherwise
    if isinstance(second, Controller):
        raise ParameterError(
            "Structured Text holds one encoder, and the fallback goes by readings of its own: leave"
            " it out, and do as before where the decision is 0"
        )
    actions = list(controller.policy.labels.actions)
    if isinstance(second, Policy):
        actions += [a for a in second.labels.actions if a not in actions]
    fixed = second is not None and not isinstance(second, Policy)
    found = controller.policy.labels.find_action(second) if fixed else None
    otherwise = AS_BEFORE if found is None else found + 1
    readings = _named(encoder.features)
    branches = [(_no_reading(encoder, readings), otherwise)]
    for policy in (controller.policy, second):
        if isinstance(policy, Policy):
            branches += _branches(policy, encoder, readings, actions)
    lines = [f"(* {_safe(x)} *)" for x in comments]
    lines += ["FUNCTION_BLOCK surefoot_decision", "VAR_INPUT"]
    for x in readings:
        lines.append(f"  {x.number} : LREAL; (* {_safe(x.feature)} *)")
        lines.append(f"  {x.there} : BOOL; (* FALSE while there is no such reading *)")
    lines += ["END_VAR", "VAR_OUTPUT"]
    codes = (f"{i}: {_safe(as_text(a))}" for i, a in enumerate(actions, start=1))
    lines += [
        f"  decision : INT; (* {'; '.join([f'{AS_BEFORE}: as before', *codes])} *)",
        "END_VAR",
    ]
    for i, (test, code) in enumerate(branches):
        lines += [f"{'ELSIF' if i else 'IF'} {test} THEN", f"  decision := {code};"]
    lines += ["ELSE", f"  decision := {otherwise};", "END_IF;", "END_FUNCTION_BLOCK"]
    return "\n".join(lines) + "\n"


def _branches(
    policy: Policy, encoder: QuantileEncoder, readings: Sequence[Reading], actions: list[object]
) -> list[tuple[str, int]]:
    """(condition, number of the action) of the states of a policy; it may draw only where its
    baseline does the same.
    """
    best, same = most_probable(policy.pi), untouched(policy)
    drawn = best.stochastic & ~same
    if drawn.any():
        raise ParameterError(
            f"Structured Text draws no lots, and in {int(drawn.sum()):,} of"
            f" {plural(len(drawn), 'state')} the policy draws its action, as in"
            f" {as_text(policy.labels.states[int(drawn.argmax())])!r}. Learn one that has one"
            " action a state: surefoot improve --deterministic mixture (or mode)"
        )
    places = {label: code for code, label in enumerate(encoder.labels)}
    found = []
    for s in np.flatnonzero(best.action >= 0).tolist():
        label = policy.labels.states[s]
        if label in places:
            action = policy.labels.actions[best.action[s]]
            code = AS_BEFORE if best.stochastic[s] else actions.index(action) + 1
            found.append((" AND ".join(_ranges(encoder, readings, places[label])) or "TRUE", code))
    return found


def _no_reading(encoder: QuantileEncoder, readings: Sequence[Reading]) -> str:
    """Whether a reading is missing that has no bin for that, or is no finite number; NaN is never
    below a number.
    """
    parts = []
    for x in readings:
        wrong = f"NOT (ABS({x.number}) < LREAL#1.0E308)"
        may_miss = x.feature in encoder.missing
        parts.append(f"({x.there} AND {wrong})" if may_miss else f"NOT {x.there} OR {wrong}")
    return " OR ".join(parts)


def _ranges(encoder: QuantileEncoder, readings: Sequence[Reading], code: int) -> Iterator[str]:
    """The conditions of a state."""
    for x, found in zip(readings, encoder.ranges(code), strict=True):
        if found is None:
            yield f"NOT {x.there}"
            continue
        if x.feature in encoder.missing:
            yield x.there
        low, high = found
        if low is not None:
            yield f"{x.number} >= {_real(low)}"
        if high is not None:
            yield f"{x.number} < {_real(high)}"


def _named(features: Sequence[str]) -> list[Reading]:
    """The inputs of each feature: names of letters, digits and single underscores, which differ
    in more than case.
    """
    found: list[Reading] = []
    taken: set[str] = set()
    for i, feature in enumerate(features, start=1):
        name = re.sub(r"[^A-Za-z0-9]+", "_", feature).strip("_") or str(i)
        if name.lower() in taken:
            name = f"{name}_{i}"
        taken.add(name.lower())
        found.append(Reading(feature, f"in_{name}", f"has_{name}"))
    return found


def _real(x: float) -> str:
    """A number in double precision."""
    mantissa, _, exponent = repr(float(x)).partition("e")
    whole = mantissa if "." in mantissa else f"{mantissa}.0"
    return f"LREAL#{whole}" + (f"E{int(exponent)}" if exponent else "")


def _safe(text: str) -> str:
    """A text that cannot end a comment, nor begin one."""
    return " ".join(text.replace("*)", "* )").replace("(*", "( *").split())
