"""What an improvement says: as data for machines, and as a page of text for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from textwrap import wrap
from typing import Any

import surefoot
from surefoot.advice.advise import Advice
from surefoot.advice.assumptions import assumptions_of
from surefoot.advice.assurance import assurance_lines, assurance_summary
from surefoot.advice.confounding import confounding_lines, confounding_summary
from surefoot.advice.defaults import DEFAULT
from surefoot.advice.estimate import DELTA, EVENTS
from surefoot.advice.few_changes import limit_lines, limit_summary
from surefoot.advice.gain import Gain
from surefoot.advice.gate_words import gate_lines, gates_summary
from surefoot.advice.provenance import TRAINING, can_be_told
from surefoot.advice.unit_model import Comparison
from surefoot.advice.value_on_log import WHERE, own_lines
from surefoot.advice.verdict import NOTHING_TO_LEARN
from surefoot.algorithms import parameters_of
from surefoot.core.evidence import FINITE_SAMPLE
from surefoot.core.labels import as_text
from surefoot.diagnosis.finding import DOUBTFUL, Finding
from surefoot.logs import Disagreement, Log, remembered
from surefoot.logs.accounting import OTHER, REASONS
from surefoot.text import in_rows, plural, signed

# fields of an improvement that hold labels, names or one of a few words
NO_SENTENCES = frozenset(
    (
        "log", "name", "state", "action", "policy", "algorithm", "parameters", "start", "by", "of",
        "data", "test", "training_fingerprints",
    )
)  # fmt: skip


def log_summary(log: Log, source: str) -> dict[str, Any]:
    """What was read, row by row accounted for."""
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
        "reward": log.reward_summary,
        "warnings": list(log.warnings),
        "history": remembered(log)[1],
        "discount_per": None if log.pace is None else log.pace.unit,
    }


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
            "share_checked": row.checked,
            "informative_steps": gain.informative,
            "explained_by_time_and_past": row.explained,
        }
    if compared is not None:
        found["in_sample_optimistic"] = {
            "gain": compared.gain.value,
            "policy": compared.policy.value,
            "baseline": compared.baseline.value,
        }
    return found


def estimates(advice: Advice) -> list[dict[str, Any]]:
    """What the baseline, the candidate and the gain are worth, with 90 % intervals: on the half
    that tests, and on all data, where they are optimistic.
    """
    gain, rows = advice.gain, []
    if gain is not None and gain.values is not None:
        rows += _model_estimates(gain.values, "held-out half", with_gain=gain.weighed)
        by, row = "weighted episodes" if gain.weighed else "model", gain.evidence
        rows.append(_estimate("held-out half", by, "gain", row.estimate, (row.low, row.high)))
    if advice.in_sample is not None:
        rows += _model_estimates(advice.in_sample, "all data", with_gain=True)
    return rows


def _model_estimates(found: Comparison, data: str, *, with_gain: bool) -> list[dict[str, Any]]:
    named = {"baseline": found.baseline, "candidate": found.policy}
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
    gain = advice.gain
    found: dict[str, Any] = {
        "surefoot": surefoot.__version__,
        "verdict": advice.verdict,
        "reason": advice.reason,
        "supported": advice.supported,
        "accepted_unsupported": advice.accepted,
        "policy_is": _policy_is(advice),
        "log": log_summary(advice.log, source),
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
            **limit_summary(*((None, None) if gain is None else (gain.most, gain.outside))),
        },
        "worth": gain_summary(advice.gain, advice.in_sample)
        | {"over_renormalised": worth, "estimates": estimates(advice)},
        **gates_summary(advice.gates),
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


def doubt(found: Disagreement | None) -> str:
    """That a given baseline cannot have made the log, in words; "" where it can."""
    if found is None or not (found.impossible or found.p_value < DOUBTFUL):
        return ""
    rows = f", {found.impossible:,} impossible rows" if found.impossible else ""
    return (
        f"the baseline cannot have made this log (p = {found.p_value:.2g}{rows}): give the policy"
        " that did"
    )


def text(summary: Mapping[str, Any]) -> str:
    """The summary as a page for people: the conclusion, how sure it is, what it rests on; then
    how it was found.
    """
    word = verdict_word(summary)
    nothing = summary["verdict"] == NOTHING_TO_LEARN
    changes = summary["changes"]
    lines = [
        summary["reason"] if nothing else f"verdict   {word}: {summary['reason']}",
        f"          policy.csv holds {summary['policy_is']}",
        *reward_lines(summary["log"]),
        *_worth_lines(summary),
        *gate_lines(summary),
        *(
            f"{'' if i else 'unseen':9} {x}"
            for i, x in enumerate(wrap(unseen_sentence(summary["cannot_exclude"]), 110))
        ),
        *confounding_lines(summary),
        f"changes   {changes['states_changed']:,} of {changes['states_visited']:,} visited states;"
        f" {changes['mass_moved']:.1%} of decisions would change",
        *limit_lines(changes),
        *assurance_lines(summary),
    ]
    lines += [f"{'' if i else 'assumes':9} {x}" for i, x in enumerate(summary["assumptions"])]
    lines += ["", *_row_lines(summary["log"]), *_baseline_lines(summary), *_method_lines(summary)]
    said = summary["log"]["warnings"]
    return "\n".join(lines + [f"note: {note}" for note in summary["notes"] if note not in said])


def verdict_word(summary: Mapping[str, Any]) -> str:
    """The verdict in capitals; what was waived stands in it."""
    if not summary["supported"]:
        return "NOT SUPPORTED by the data"
    despite = ", ".join(summary.get("waived", ()))
    return f"SUPPORTED despite {despite}" if despite else "SUPPORTED"


def _worth_lines(summary: Mapping[str, Any]) -> list[str]:
    """What it is worth, and how sure that is."""
    lines = []
    out, inside = summary["worth"]["held_out"], summary["worth"]["in_sample_optimistic"]
    if out is not None and out["gain"] is not None and not math.isnan(out["gain"]):
        checked = (
            "whole episodes were weighted, so all moves were tested together"
            if out["test"] == FINITE_SAMPLE
            else f"{out['share_checked']:.0%} of the moves could be checked, the others were taken"
            " back"
        )
        lines += [
            f"worth     {signed(out['gain'])} {WHERE[summary['start']]}, on held-out data; at least"
            f" {signed(out['low'])}, at most {signed(out['high'])} (5 % each)",
            f"          learned from {out['units'] - out['units_tested']:,} {out['unit']}, tested"
            f" on {out['units_tested']:,} others; {out['informative_steps']:,} of their steps took"
            " an action",
            f"          that gains probability; {checked}",
        ]
    if inside is not None:
        values = f"baseline {inside['baseline']:.4g}, candidate {inside['policy']:.4g}"
        first = "         " if lines else "worth    "
        lines.append(f"{first} in sample, OPTIMISTIC: {signed(inside['gain'])} ({values})")
        lines += own_lines(summary["own_return"], inside["baseline"])
    return list(map(in_rows, lines)) if summary["log"]["bandit"] else lines


def unseen_sentence(found: Mapping[str, Any] | None) -> str:
    """What this log cannot exclude; "" where nothing could undo the gain."""
    if found is None:
        return ""
    kind = "worst" if found["more_often"] else "best"
    origin = "declared" if found["range_declared"] else "this log suggests, none is declared"
    worth = f"{found['outcome']:.4g} with all that follows"
    outcome = f"an outcome worth {worth} (the {kind} {origin})"
    where = f"{found['action']!r} in state {found['state']!r}"
    undo, possible = found["would_undo_one_in"], found["not_excluded_one_in"]
    if undo <= 1:
        return (
            f"no outcome within the range would undo this gain by itself; {outcome} in every"
            f" decision for {where} would take {signed(-undo * found['gain'])}"
        )
    return (
        f"{outcome} in one of {undo:.3g} decisions for {where} would undo this gain;"
        f" {found['visits']:.0f} visits cannot exclude one in {possible:.3g}"
    )


def reward_lines(log: Mapping[str, Any]) -> list[str]:
    """What more of the reward means, and what puts the log in doubt."""
    return [f"reward    {log['reward']['sentence']}", *(f"          {x}" for x in log["warnings"])]


def read_lines(log: Mapping[str, Any]) -> list[str]:
    """What was read, and what more of the reward means."""
    return [*_row_lines(log), *reward_lines(log)]


def _row_lines(log: Mapping[str, Any]) -> list[str]:
    """The rows that were read."""
    left_out = log["rows_left_out"]
    told = log["episodes"] is not None and not log["bandit"]
    episodes = f", {plural(log['episodes'], 'episode')}" if told else ""
    return [
        f"read      {log['source']}: {log['rows_read']:,} rows = {log['rows_used']:,} used +"
        f" {sum(left_out.values()):,} left out",
        *(f"          left out: {n:,} {(REASONS | OTHER)[why]}" for why, n in left_out.items()),
        f"          {log['states']:,} states, {log['actions']:,} actions{episodes};"
        f" {log['pairs_seen']:,} pairs of state and action ever tried",
    ]


def several_policies(log: Mapping[str, Any]) -> str:
    """That several policies made, or may have made, a log; "" where nothing speaks for it."""
    n = log.get("policies") or 0
    words = "its propensities may be those of several policies" if log.get("propensities") else ""
    return f"{n:,} policies made the log" if n > 1 else words


def _baseline_lines(summary: Mapping[str, Any]) -> list[str]:
    baseline = summary["baseline"]
    first = "baseline  given"
    if not baseline["made_the_log"]:
        first += "; other policies made the log, as its propensities say: both are estimates"
    if baseline["estimated"]:
        first = "baseline  ESTIMATED from the log itself: give --baseline if it is known"
    if baseline["policy"] is not None:
        first = f"baseline  ESTIMATED from the rows of policy {baseline['policy']!r}"
    if baseline.get("disagrees"):
        rows = baseline["impossible_rows"]
        first += f", but DISAGREES with the log (p = {baseline['p_value']:.2g}"
        first += f", {rows:,} impossible rows)" if rows else ")"
    lines, over = [first], summary["worth"]["over_renormalised"]
    several = several_policies(summary["log"])
    if several and baseline["estimated"] and baseline["policy"] is None:
        lines.append(f"          it is what the log shows on average: {several}")
    if baseline["renormalised"]:
        lines += [
            "          forbidden actions were taken out of it; gains are against the policy that"
            " made the log, which used them",
            f"          (over what is left of it: {signed(over)} in sample)",
        ]
    if baseline.get("disagrees"):
        lines += [
            f"          worst in state {x['state']}: p = {x['p_value']:.2g}"
            for x in baseline["worst_states"][:3]
        ]
    return lines


def _method_lines(summary: Mapping[str, Any]) -> list[str]:
    name, values = summary["algorithm"]["name"], summary["algorithm"]["parameters"]
    words = ", ".join(
        f"{k} = {v:g}" if isinstance(v, (int, float)) and not isinstance(v, bool) else f"{k} = {v}"
        for k, v in values.items()
        if v is not None
    )
    lines = [f"method    {name} ({words or 'no parameters'}), gamma = {summary['gamma']:g}"]
    if name == DEFAULT:
        lines += [
            "          the default: a move must gain more than its price, some standard errors",
            "          of the value, whatever the unit of rewards; never an untried action",
        ]
    if summary["converged"] is False:
        lines.append("          NOT CONVERGED: the candidate is the last iterate")
    return lines
