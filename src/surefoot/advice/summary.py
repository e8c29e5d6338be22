"""What an improvement found, as data for machines, and what must be true for its verdict to hold;
`surefoot.report` has the words for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import surefoot
from surefoot.advice.assurance import assurance_summary
from surefoot.advice.gain import Gain
from surefoot.advice.learn_and_test import Advice
from surefoot.advice.made_of import MODE
from surefoot.advice.measurements import Measured
from surefoot.advice.parts import parts_summary
from surefoot.advice.provenance import can_be_told
from surefoot.advice.safety import ALIKE, NONE_MISSING
from surefoot.algorithms import parameters_of
from surefoot.checks.finding import (
    BASELINE,
    CONTRADICTIONS,
    COPIES,
    CUTS,
    DRIFT,
    LEAKAGE,
    MARKOV,
    MISSING,
    POLICY_DRIFT,
    PROPENSITIES,
    TIME,
    Finding,
    doubt,
)
from surefoot.core.evidence import BETTER, GROUP
from surefoot.core.labels import as_text
from surefoot.core.policy import CHANGED
from surefoot.core.text import in_rows, signed
from surefoot.evidence.bound import Certificate, rows_left_out
from surefoot.evidence.confounding import confounding_summary
from surefoot.evidence.unit_estimate import DELTA, EVENTS
from surefoot.evidence.unit_model import Comparison
from surefoot.evidence.value_on_log import GIVEN_WEIGHTS
from surefoot.logs import Disagreement, Log, remembered
from surefoot.problems import Problem
from surefoot.report.folder import TRAINING
from surefoot.serving.encoders import encoder_beside, fingerprint

# fields of an improvement that hold labels, names or one of a few words
NO_SENTENCES = frozenset(
    (
        "log", "name", "state", "action", "policy", "algorithm", "parameters", "start", "by", "of",
        "data", "test", "training_fingerprints", "more_of", "less_of",
        "condition",
    )
)  # fmt: skip
ALWAYS = (
    "nothing outside the state drives both the choice of action and the outcome (no hidden cause)",
    "the world tomorrow is the world of this log",
    NONE_MISSING,
)
OTHERWISE = {
    DRIFT: "the world stayed the same while the log was made",
    POLICY_DRIFT: "the baseline stayed the same while the log was made",
    MARKOV: "the state says enough (Markov)",
    BASELINE: GIVEN_WEIGHTS,
    COPIES: "every episode is there once",
    CONTRADICTIONS: "each row leads to the next",
    PROPENSITIES: "the propensities are true",
    CUTS: "no row is left out for what it held",
    MISSING: NONE_MISSING,
    LEAKAGE: "every measurement was known before the action was chosen",
    TIME: "actions look no better for when, or after what, they were taken",
}


def log_summary(
    log: Log, source: str, problem: Problem, returns: tuple[float, float] | None = None
) -> dict[str, Any]:
    """What was read, row by row accounted for. `returns`: those possible of an episode, in the
    units of the column, where the problem has others.
    """
    account = log.accounting
    return {
        "source": source,
        "path": str(Path(source).resolve()),
        "fingerprint": log.fingerprint,
        "columns": log.columns,
        "rows_read": account.rows,
        "rows_used": account.used,
        "rows_left_out": dict(account.left_out),
        "states": log.n_states - log.has_end,
        "actions": log.n_actions,
        "episodes": log.n_episodes,
        "bandit": log.bandit,
        "propensities": log.has_propensities,
        "policies": len(log.beside["policy"]) if "policy" in log.beside else None,
        "pairs_seen": int((log.n_sa > 0).sum()),
        "reward_lowest": log.rewards[0],
        "reward_highest": log.rewards[1],
        "reward": log.reward_summary | {"share": _is_share(log, problem, returns)},
        "warnings": list(log.warnings),
        "history": remembered(log)[1],
        "discount_per": None if log.pace is None else log.pace.unit,
    } | _made_by(log)


def _made_by(log: Log) -> dict[str, str]:
    """The fingerprint of the encoder that `discretize` saved beside the log, if it made the states;
    {} if it did not, or if there is none.
    """
    files = [] if log.reading is None else list(log.reading.store.names.values())
    acted = np.flatnonzero(np.asarray(log.n_sa.sum(axis=1)) > 0)
    encoder = None
    if len(files) == 1:
        encoder = encoder_beside(files[0], [log.states[s] for s in acted])
    return {} if encoder is None else {"encoder": fingerprint(encoder)}


def _measured(advice: Advice) -> dict[str, Any]:
    """What was made on the way: the fingerprint of the encoder, and more in `cells`."""
    made = None if advice.posed is None else advice.posed.measured
    if made is None:
        return {}
    mark = {} if made.encoder is None else {"encoder": fingerprint(made.encoder)}
    return mark | {"cells": cells_summary(made)}


def cells_summary(made: Measured) -> dict[str, Any]:
    """How the states, and the bins of actions, of a log were made."""
    encoder, bins = made.encoder, made.actions
    return {
        "features": [] if encoder is None else list(encoder.features),
        "states": None if encoder is None else len(encoder.labels),
        "tried": [asdict(x) for x in made.tried],
        "actions": None if bins is None else bins.to_dict(),
        "baseline_by_row": made.by_row,
    }


def _is_share(log: Log, problem: Problem, returns: tuple[float, float] | None) -> bool:
    """Whether a mean return is a share: every reward is 0 or 1 in the column, no return can be
    below 0 or above 1, and none is discounted.
    """
    own = problem.return_range
    ends = returns or (log.reward.sign * x for x in (own.lo, own.hi))
    whole = (problem.gamma == 1 or log.bandit) and all(0 <= x <= 1 for x in ends)
    return whole and log.reward_is_binary


def gain_summary(gain: Gain | None, compared: Comparison | None) -> dict[str, Any]:
    """The held-out gain, and beside it the in-sample one, labelled."""
    found: dict[str, Any] = {"held_out": None, "in_sample_optimistic": None}
    if gain is not None:
        row = gain.evidence
        found["held_out"] = {
            "gain": row.estimate,
            "low": row.low,
            "high": row.high,
            "delta": DELTA,
            "test": row.validity,
            "units": gain.units,
            "units_tested": row.units,
            "unit": row.unit,
            "episodes": gain.episodes,
            "episodes_tested": row.episodes,
            "share_checked": row.checked,
            "informative_steps": gain.informative,
            "explained_by_time_and_past": row.explained,
            "weights": dict(row.weights) or None,
        }
    if compared is not None:
        found["in_sample_optimistic"] = {
            "gain": compared.gain.value,
            "policy": compared.policy.value,
            "baseline": compared.baseline.value,
        }
    return found


def _relative(rows: list[dict[str, Any]], gain: Gain | None, sign: float) -> float | None:
    """The held-out gain as a share of what the baseline is worth there, in the units of the
    column; None unless that is clearly above 0: its 90 % interval lies above half of it.
    """
    own = [x for x in rows if x["data"] == "held-out half" and x["of"] == "baseline"]
    if gain is None or not own:
        return None
    value, ends = sign * own[0]["value"], (sign * own[0]["low"], sign * own[0]["high"])
    clear = value > 0 and min(ends) > 0.5 * value
    return sign * gain.evidence.estimate / value if clear else None


def estimates(advice: Advice) -> list[dict[str, Any]]:
    """What the baseline, the candidate and the gain are worth, with 90 % intervals: on the half
    that tests, and on all data, where they are optimistic.
    """
    gain, rows = advice.gain, []
    if gain is not None and gain.values is not None:
        compared = "baseline" if gain.over is None else "rule"
        rows += _model_estimates(gain.values, "held-out half", compared, with_gain=gain.weighed)
        by, row = "weighted episodes" if gain.weighed else "model", gain.evidence
        rows.append(_estimate("held-out half", by, "gain", row.estimate, (row.low, row.high)))
    if advice.in_sample is not None:
        rows += _model_estimates(advice.in_sample, "all data", with_gain=True)
    return rows


def _model_estimates(
    found: Comparison, data: str, compared: str = "baseline", *, with_gain: bool
) -> list[dict[str, Any]]:
    named = {compared: found.baseline, "candidate": found.policy}
    named |= {"gain": found.gain} if with_gain else {}
    return [_estimate(data, "model", name, x.value, x.interval()) for name, x in named.items()]


def _estimate(
    data: str, by: str, of: str, value: float, ends: tuple[float, float]
) -> dict[str, Any]:
    found = {"data": data, "by": by, "of": of, "value": value, "low": ends[0], "high": ends[1]}
    return found | {"optimistic": data == "all data"}


def summarise(advice: Advice, source: str, compared: Disagreement | None = None) -> dict[str, Any]:
    """Everything about an improvement, for summary.json and --json."""
    problem, solution, worth = advice.problem, advice.solution, advice.over_renormalised
    gain, rows = advice.gain, estimates(advice)
    found: dict[str, Any] = {
        "surefoot": surefoot.__version__,
        "verdict": advice.verdict,
        "reason": advice.reason,
        "reason_in_short": advice.reason_in_short,
        "supported": advice.supported,
        "accepted_unsupported": advice.accepted,
        "policy_is": _policy_is(advice),
        "log": log_summary(advice.log, source, problem)
        | _measured(advice)
        | {"action_labels": list(map(as_text, advice.log.actions_as_given))},
        "against": [_finding(x, advice) for x in advice.against if x.looked],
        "not_looked_at": [_finding(x, advice) for x in advice.against if not x.looked],
        "slight": [_finding(x, advice) for x in advice.slight],
        "despite": list(advice.despite),
        "waived": list(advice.waived),
        "findings": [
            {"name": x.name, "level": x.level, "sentence": x.sentence} for x in advice.findings
        ],
        "assumptions": assumptions_of(advice),
        "cannot_exclude": _cannot_exclude(advice),
        "gamma": problem.gamma,
        "start": problem.start_from,
        "algorithm": {
            "name": advice.algorithm.name,
            "parameters": parameters_of(advice.algorithm),
        },
        "baseline": {
            "estimated": problem.pi_b_estimated,
            "made_the_log": not problem.off_policy,
            "policy": None
            if problem.pi_b_policy is None
            else as_text(advice.log.beside["policy"][problem.pi_b_policy]),
            **_disagreement(compared),
            "renormalised": worth is not None,
            **_against(advice),
        },
        "reward_range": {
            "declared": problem.return_range.declared,
            "low": problem.reward_range[0],
            "high": problem.reward_range[1],
        },
        "changes": {
            "states_changed": len(advice.changed),
            "states_visited": int((advice.log.n_sa.sum(axis=1) > 0).sum()),
            "mass_moved": advice.mass_moved,
            "largest": _largest(advice),
            "alone": _alone(advice),
            "most_changes": None if gain is None else gain.most,
            "states_left_out": 0
            if gain is None or gain.outside is None
            else int(gain.outside.sum()),
            **_rules(advice),
        },
        "worth": gain_summary(advice.gain, advice.in_sample)
        | {"over_renormalised": worth, "estimates": rows}
        | {"relative": _relative(rows, gain, advice.log.reward.sign)},
        "made_of": _made_of(advice),
        **parts_summary(advice.parts),
        "own_return": None if advice.own is None else asdict(advice.own),
        **assurance_summary(advice.assurance),
        "confounding": confounding_summary(advice.sensitivity),
        "converged": None if solution is None else bool(solution.status.ok),
        "notes": list(advice.notes),
        "training_fingerprints": (TRAINING if can_be_told(advice.log) else None),
    }
    return _in_rows(found) if advice.log.bandit else found


def _in_rows(found: Any) -> Any:
    """What was found in a bandit log: its sentences speak of rows."""
    if isinstance(found, Mapping):
        return {k: v if k in NO_SENTENCES else _in_rows(v) for k, v in found.items()}
    if isinstance(found, (list, tuple)):
        return [_in_rows(x) for x in found]
    return in_rows(found) if isinstance(found, str) else found


def _policy_is(advice: Advice) -> str:
    """What policy.csv holds."""
    if advice.accepted:
        return "the candidate, accepted although the data do not support it"
    if advice.supported and advice.refitted is not None:
        return (
            "the improved policy; policy-all.csv holds the tested method, learned from all rows:"
            " that policy itself was not tested"
        )
    if advice.supported:
        return "the improved policy"
    if not advice.masked and not advice.problem.pi_b_renormalised:
        return "the baseline, unchanged"
    words = "the baseline without its forbidden actions, which was not tested"
    if advice.over_renormalised is None or advice.in_sample is None:
        return words
    gain = advice.in_sample.gain.value - advice.over_renormalised
    return f"{words}: in sample {signed(gain)} against the policy that made the log"


def _largest(advice: Advice) -> dict[str, Any] | None:
    """The state whose change moves most decisions of the log, and what changes there most."""
    if not len(advice.changed):
        return None
    return _change(advice, int(np.argmax(advice.moved * advice.log.n_sa.sum(axis=1))))


def _rules(advice: Advice) -> dict[str, Any]:
    """The rules of a tree, with the share of past decisions in their states, and how many of these
    are in states that stay as before since the action of the rule was tried too rarely there.
    """
    tree = None if advice.gain is None else advice.gain.tree
    if tree is None:
        return {}
    visits = advice.log.n_sa.sum(axis=1)
    rules = []
    for rule in tree.rules:
        n, a = visits[rule.states], rule.action
        does = n > 0 if a is None else advice.candidate[rule.states, a] > 1 - CHANGED
        rules.append(
            {
                "condition": rule.words,
                "action": None if a is None else as_text(advice.log.actions[a]),
                "decisions": float(n.sum() / visits.sum()),
                "states": len(rule.states),
                "not_followed": float(n[~does].sum() / visits.sum()),
            }
        )
    gains = {"gain_learned": tree.gain, "gain_of_table": tree.of_table}
    return {"tree": {"depth": tree.depth, "rules": rules, **gains}}


def _against(advice: Advice) -> dict[str, Any]:
    """What the gain is over, where that is the baseline's rule."""
    if advice.over is None:
        return {}
    unlike = np.abs(advice.candidate - advice.over).max(axis=1) > CHANGED
    acts = (advice.log.n_sa.sum(axis=1) > 0) & ~np.asarray(advice.problem.terminal)
    return {
        "against": MODE, "tied_states": advice.tied, "states_unlike_rule": int(unlike[acts].sum())
    }  # fmt: skip


def _change(advice: Advice, s: int, base: np.ndarray | None = None) -> dict[str, Any]:
    """What changes most in a state."""
    moved = advice.candidate[s] - (advice.pi_b if base is None else base)[s]
    names = [as_text(a) for a in advice.log.actions]
    return {
        "state": as_text(advice.log.states[s]),
        "more_of": names[int(np.argmax(moved))],
        "less_of": names[int(np.argmin(moved))],
        "moved": float(0.5 * np.abs(moved).sum()),
        "tried": int(advice.log.n_sa[s, int(np.argmax(moved))]),
    }


def _alone(advice: Advice) -> list[dict[str, Any]]:
    """What held-out data show of each change by itself, those that move most decisions."""
    made = advice.made_of
    visits = advice.log.n_sa.sum(axis=1)
    return [
        _change(advice, s, advice.over)
        | {"visits": int(visits[s]), "shown": x.shown == BETTER}
        | {"gain": x.estimate, "low": x.low, "high": x.high}
        for s, x in ({} if made is None else made.alone).items()
    ]


def _made_of(advice: Advice) -> dict[str, Any] | None:
    """What of the gain is that of always doing what the baseline does most, and what is beyond."""
    made = advice.made_of
    if made is None:
        return None
    parts = {"mode": made.mode, "beyond": made.beyond}
    found = {
        name: None if x is None else {"gain": x.estimate, "low": x.low, "high": x.high}
        for name, x in parts.items()
    }
    return {"preferred_actions_changed": made.preferred, **found}


def _finding(x: Finding, advice: Advice) -> dict[str, Any]:
    return {"key": x.key, "sentence": x.sentence, "waived": x.key in advice.despite}


def _cannot_exclude(advice: Advice) -> dict[str, Any] | None:
    """The pair in which an outcome that has not been seen would cost most."""
    gain = advice.gain
    if gain is None or gain.unseen is None:
        return None
    u, estimate = gain.unseen, gain.evidence.estimate
    if not (u.change > 0 and estimate > 0):
        return None
    s, a = divmod(u.pair, advice.problem.n_actions)
    return {
        "state": as_text(advice.log.states[s]),
        "action": as_text(advice.log.actions[a]),
        "visits": u.n,
        "more_often": u.shift > 0,
        "outcome": u.worst,
        "not_excluded_one_in": max(u.n / EVENTS, 1.0),
        "would_undo_one_in": abs(u.shift) * u.distance / estimate,
        "could_take": u.change,
        "gain": estimate,
        "range_declared": advice.problem.return_range.declared,
    }


def _disagreement(found: Disagreement | None) -> dict[str, Any]:
    """Whether a given baseline can have made the log."""
    if found is None:
        return {}
    disagrees = bool(doubt(found))
    return {
        "disagrees": disagrees,
        "impossible_rows": found.impossible,
        "p_value": found.p_value,
        "worst_states": [
            {"state": as_text(s), "p_value": p, "impossible_rows": k}
            for s, p, k in (found.worst() if disagrees else [])
        ],
    }


def assumptions_of(advice: Advice) -> list[str]:
    """Of the test; of the proof, where that is what decided."""
    gain, problem = advice.gain, advice.problem
    wrong = _waived(advice)
    if gain is None:
        proof = advice.assurance
        return [*ALWAYS, *proof.assumptions] if isinstance(proof, Certificate) else []
    unit = "episodes" if gain.episodes else gain.evidence.unit
    apart = f"the {unit} are independent"
    if gain.blocks:
        apart = f"{unit} depend little on each other"
    elif gain.varies:
        apart = f"what came before changes the {unit} through the choice of actions alone"
    found = [*ALWAYS, apart]
    if not problem.return_range.declared:
        low, high = problem.reward_range
        found.append(
            f"no reward lies outside [{low:g}, {high:g}], the range that was seen; declare it with"
            " --reward-range"
        )
    found += rows_left_out(problem)
    if problem.off_policy and gain.weighed:
        found.append("the actions were chosen with the propensities of the log")
    if gain.weighed and advice.log.bandit:
        pass  # every episode is one step
    elif gain.weighed:
        found.append(f"no episode has more than {gain.longest} steps, as in this log")
    else:
        enough = "the state says enough: given state and action, the past does not matter (Markov)"
        if any(x.key == MARKOV for x in advice.slight):
            enough = "the past matters no more for the gain than this log shows: it is not Markov"
        found += [enough, "many units: the test is asymptotic"]
    if gain.weighed and _by_row(advice):
        found.append("the actions were chosen with the probabilities of the baseline, row by row")
    elif _by_row(advice) and not advice.log.has_propensities:
        found.append("what the baseline looks at within a state does not bear on outcomes there")
    elif problem.pi_b_policy is not None:
        name = as_text(advice.log.beside["policy"][problem.pi_b_policy])
        found.append(f"the baseline is what the rows of policy {name!r} show: it was estimated")
    elif problem.pi_b_estimated:
        found.append("the baseline is what the log shows on average: it was estimated")
    if problem.guards:
        columns = ", ".join(guard.column for guard in problem.guards)
        found.append(
            f"the same of {columns}; surefoot check LOG --reward COLUMN looks at drift and memory"
            " there"
        )
    if any(x.part.kind == GROUP for x in advice.parts) and not problem.pi_b_estimated:
        found.append(ALIKE)
    return [*wrong, *found]


def _by_row(advice: Advice) -> bool:
    """Whether the baseline is known row by row."""
    made = None if advice.posed is None else advice.posed.measured
    return made is not None and made.by_row


def _waived(advice: Advice) -> list[str]:
    """What must be true though the log says otherwise, or nobody could look."""
    found = []
    for x in advice.against:
        if x.key in advice.waived:
            known = "FOUND TO BE FALSE" if x.looked else "NOT LOOKED AT"
            found.append(f"{OTHERWISE[x.key]}: {known} ({x.sentence})")
    return found
