"""What a safety test found, as data for machines and in words for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from surefoot.advice.safety import SafetyTest
from surefoot.advice.verdict import FAILS, NO_EVIDENCE, PASSES
from surefoot.ope.bounds import APPROXIMATE_BOUNDS
from surefoot.text import impossible

IF = " if"  # follows a verdict that holds under a condition only


def safety_summary(found: SafetyTest) -> dict[str, Any]:
    """The test as data for machines."""
    values, standard = found.gain.values, found.gain.standard
    odd = impossible(found.estimate, values.lo, -found.loss.values.lo)
    conditional = bool(found.condition) and found.verdict != NO_EVIDENCE
    return {
        "verdict": found.verdict + IF * conditional,
        "condition": found.condition,
        "remedy": found.remedy,
        "delta": found.delta,
        "delta_of_each_test": found.delta / 2,
        "delta_of_loss": found.loss.bound.delta,
        "estimated_gain": found.estimate,
        "gain_at_least": found.gain.bound.value,
        "gain_at_most": -found.loss.bound.value,
        "estimator": standard.estimator,
        "bound": standard.bound,
        "centred": any(x.values.control is not None for x in (found.gain, found.loss)),
        "compared_with": values.compared,
        "episodes_tested": found.gain.bound.n,
        "episodes_cap_chosen_on": found.chosen_on,
        "effective_episodes": values.effective_size,
        "largest_weight": values.largest_weight,
        "share_never_tried": values.overlap.unseen,
        "assumptions": list(found.assumptions),
        "notes": [*([f"the estimated gain is {odd}"] if odd else []), *found.notes],
    }


def safety_lines(found: Mapping[str, Any]) -> list[str]:
    """The test in words."""
    low, high = found["gain_at_least"], found["gain_at_most"]
    between = f"at least {low:+.4g}" if np.isfinite(low) else "no lower bound"
    between += f", at most {high:+.4g}" if np.isfinite(high) else ", no upper bound"
    others = found["episodes_cap_chosen_on"]
    prepared = f", prepared on {others:,} others" if others else ""
    return [
        f"verdict   {_verdict_words(found)}",
        f"tested    {found['episodes_tested']:,} episodes; {found['estimator']} values,"
        f" {found['bound']} bound{prepared}",
        f"          against {found['compared_with']}",
        f"gain      {found['estimated_gain']:+.4g} estimated; {between} (wrong with probability"
        f" {found['delta']:g}: {_sides(found)})",
        f"weights   effectively {found['effective_episodes']:.1f} episodes, largest weight"
        f" {found['largest_weight']:.3g}; {found['share_never_tried']:.1%} of the policy on"
        " actions never tried there",
    ]


def _sides(found: Mapping[str, Any]) -> str:
    """How the failure probability is shared."""
    each, loss = (
        found["delta_of_each_test"],
        found.get("delta_of_loss", found["delta_of_each_test"]),
    )
    return f"{each:g} for each side" if loss == each else f"{each:g} below, {loss:.2g} above"


def _verdict_words(found: Mapping[str, Any]) -> str:
    """The conclusion; where it holds under a condition only, with that before it."""
    outcome = found["verdict"].removesuffix(IF)
    word = conclusion(found)
    if outcome == NO_EVIDENCE:
        return f"NO EVIDENCE: shown to be {word} than the baseline"
    how = "approximately " if found["bound"] in APPROXIMATE_BOUNDS else ""
    if found["condition"]:
        return (
            f"NOT SHOWN. {outcome.upper()} ONLY IF {found['condition']}: it is {how}shown to be"
            f" {word} than the baseline then. {found['remedy']}"
        )
    return f"{outcome.upper()}: {how}shown to be {word} than the baseline"


def conclusion(found: Mapping[str, Any]) -> str:
    """What a test shows a policy to be, compared with the baseline, in words."""
    outcome, none_worse = found["verdict"].removesuffix(IF), _no_worse(found)
    if outcome == PASSES:
        return f"better{none_worse}"
    if outcome == FAILS:
        high, where = found["gain_at_most"], _where_worse(found)
        whole = not where or (high is not None and high < 0)
        return "worse" if whole else f"worse {where}"
    return f"neither better{none_worse}, nor worse" if none_worse else "neither better nor worse"


def _no_worse(found: Mapping[str, Any]) -> str:
    """What else a test that passes shows."""
    places = (("guards", "in any guarded column"), ("groups", "for any group"))
    asked = [
        words
        for kind, words in places
        if any(x["tolerance"] is not None for x in found.get(kind, ()))
    ]
    return f", and no worse {' or '.join(asked)}" if asked else ""


def _where_worse(found: Mapping[str, Any]) -> str:
    """In which parts a policy is worse that is not shown to be worse as a whole."""
    places = (("guards", "in"), ("groups", "for the group"))
    return ", ".join(
        f"{preposition} {x['name']}"
        for kind, preposition in places
        for x in found.get(kind, ())
        if x["verdict"] == "worse"
    )
