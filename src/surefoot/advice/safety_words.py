"""What a safety test found, as data for machines."""

from __future__ import annotations

from typing import Any

from surefoot.advice.safety import SafetyTest
from surefoot.advice.verdict import NO_EVIDENCE
from surefoot.report.episode_words import IF
from surefoot.text import impossible


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
