"""What an improvement says: as data for machines, and as a page of text for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import surefoot
from surefoot.advice.advise import Advice
from surefoot.advice.assurance import assurance_lines, assurance_summary
from surefoot.advice.defaults import DEFAULT, parameters_of
from surefoot.advice.gain import LEVEL, Gain
from surefoot.advice.model import Comparison
from surefoot.logs import Disagreement, Log
from surefoot.logs.accounting import OTHER, REASONS
from surefoot.logs.labels import as_text

DOUBTFUL = 1e-3  # p-value below which a given baseline is said to disagree with the log


def log_summary(log: Log, source: str) -> dict[str, Any]:
    """What was read, row by row accounted for."""
    account = log.accounting
    return {
        "source": source, "path": str(Path(source).resolve()), "fingerprint": log.fingerprint, "columns": log.columns,
        "rows_read": account.rows, "rows_used": account.used,
        "rows_left_out": dict(account.left_out), "states": log.n_states - log.has_end, "actions": log.n_actions,
        "episodes": log.n_episodes, "pairs_seen": int((log.n_sa > 0).sum()), "reward_lowest": log.rewards[0],
        "reward_highest": log.rewards[1],
    }  # fmt: skip


def gain_summary(gain: Gain | None, compared: Comparison | None) -> dict[str, Any]:
    """The cross-fitted gain, and beside it the in-sample one, labelled."""
    found: dict[str, Any] = {"cross_fitted": None, "in_sample_optimistic": None}
    if gain is not None:
        found["cross_fitted"] = {
            "gain": gain.estimate, "low": gain.low, "high": gain.high, "quantiles": [LEVEL, 1 - LEVEL], "units": gain.units,
            "unit": gain.kind, "halvings": gain.splits, "share_checked": gain.checked,
        }  # fmt: skip
    if compared is not None:
        found["in_sample_optimistic"] = {"gain": compared.gain, "policy": compared.value, "baseline": compared.baseline}
    return found


def summarise(advice: Advice, source: str, compared: Disagreement | None = None) -> dict[str, Any]:
    """Everything about an improvement, for summary.json and --json."""
    problem, solution = advice.problem, advice.solution
    acting = advice.log.n_sa.sum(axis=1) > 0
    return {
        "surefoot": surefoot.__version__, "verdict": advice.verdict, "reason": advice.reason, "supported": advice.supported,
        "accepted_unsupported": advice.accepted, "policy_is": policy_words(advice), "log": log_summary(advice.log, source),
        "gamma": problem.gamma, "algorithm": algorithm_summary(advice.algorithm),
        "baseline": {"estimated": problem.pi_b_estimated} | disagreement_summary(compared),
        "reward_range": {"declared": problem.return_range.declared, "low": problem.reward_range[0], "high": problem.reward_range[1]},
        "changes": {
            "states_changed": len(advice.changed), "states_visited": int(acting.sum()), "mass_moved": advice.mass_moved,
        },
        "worth": gain_summary(advice.gain, advice.in_sample), **assurance_summary(advice.assurance),
        "converged": None if solution is None else bool(solution.status.ok), "notes": list(advice.notes),
    }  # fmt: skip


def algorithm_summary(algorithm: Any) -> dict[str, Any]:
    """Name and parameters."""
    return {"name": algorithm.name, "parameters": parameters_of(algorithm)}


def disagreement_summary(found: Disagreement | None) -> dict[str, Any]:
    """Whether a given baseline can have made the log."""
    if found is None:
        return {}
    worst = [{"state": as_text(s), "distance": d, "p_value": p, "impossible_rows": k} for s, d, p, k in found.worst()]
    disagrees = bool(doubt(found))
    return {
        "disagrees": disagrees, "impossible_rows": found.impossible, "p_value": found.p_value, "worst_states": worst if disagrees else [],
    }  # fmt: skip


def doubt(found: Disagreement | None) -> str:
    """That a given baseline cannot have made the log, in words; "" where it can."""
    if found is None or not (found.impossible or found.p_value < DOUBTFUL):
        return ""
    return (
        f"the baseline cannot have made this log (p = {found.p_value:.2g}, {found.impossible} impossible rows): give the policy that did"
    )


def policy_words(advice: Advice) -> str:
    """What policy.csv holds."""
    if advice.accepted:
        return "the candidate, accepted although the data do not support it"
    return "the improved policy" if advice.supported else "the baseline, unchanged"


def text(summary: Mapping[str, Any]) -> str:
    """The summary as a page for people."""
    lines = [*read_lines(summary["log"]), *_baseline_lines(summary), *_algorithm_lines(summary), ""]
    lines += [*_change_lines(summary), *worth_lines(summary["worth"]), *assurance_lines(summary), "", *_verdict_lines(summary)]
    return "\n".join(lines + [f"note: {note}" for note in summary["notes"]])


def read_lines(log: Mapping[str, Any]) -> list[str]:
    """What was read."""
    left_out = log["rows_left_out"]
    size = f"{log['states']:,} states, {log['actions']:,} actions"
    episodes = "" if log["episodes"] is None else f", {log['episodes']:,} episode{'s' if log['episodes'] != 1 else ''}"
    return [
        f"read      {log['source']}: {log['rows_read']:,} rows = {log['rows_used']:,} used + {sum(left_out.values()):,} left out",
        *(f"          left out: {n:,} {(REASONS | OTHER)[reason]}" for reason, n in left_out.items()),
        f"          {size}{episodes}; {log['pairs_seen']:,} pairs of state and action ever tried",
    ]


def _baseline_lines(summary: Mapping[str, Any]) -> list[str]:
    baseline = summary["baseline"]
    lines = ["baseline  ESTIMATED from the log itself: give --baseline if it is known" if baseline["estimated"] else "baseline  given"]
    if baseline.get("disagrees"):
        lines[0] += f", but DISAGREES with the log (p = {baseline['p_value']:.2g}, {baseline['impossible_rows']} impossible rows)"
        lines += [f"          worst in state {x['state']}: p = {x['p_value']:.2g}" for x in baseline["worst_states"][:3]]
    return lines


def _algorithm_lines(summary: Mapping[str, Any]) -> list[str]:
    algorithm = summary["algorithm"]
    values = ", ".join(f"{k} = {_value(v)}" for k, v in algorithm["parameters"].items() if v is not None)
    lines = [f"method    {algorithm['name']} ({values or 'no parameters'}), gamma = {summary['gamma']:g}"]
    if algorithm["name"] == DEFAULT:
        lines.append("          the default: cautious where counts are small, free of units, never an action the log has not tried")
    if summary["converged"] is False:
        lines.append("          NOT CONVERGED: the candidate is the last iterate")
    return lines


def _change_lines(summary: Mapping[str, Any]) -> list[str]:
    changes = summary["changes"]
    return [
        f"changes   {changes['states_changed']:,} of {changes['states_visited']:,} visited states; {changes['mass_moved']:.1%} of "
        "decisions would be others"
    ]


def worth_lines(worth: Mapping[str, Any]) -> list[str]:
    """What it is worth, and how sure that is."""
    lines = []
    cross, inside = worth["cross_fitted"], worth["in_sample_optimistic"]
    if cross is not None and cross["gain"] is not None and not np.isnan(cross["gain"]):
        lines.append(
            f"worth     {_signed(cross['gain'])} at the start on data the policy was not learned from, 90 % interval "
            f"[{_signed(cross['low'])}, {_signed(cross['high'])}]"
        )
        times = "once" if cross["halvings"] == 1 else f"{cross['halvings']} times"
        share = f"{cross['share_checked']:.0%} of the moved mass could be checked"
        lines.append(f"          cross-fitted: {cross['units']} {cross['unit']}, halved {times}; {share}")
    if inside is not None:
        values = f"baseline {inside['baseline']:.4g}, candidate {inside['policy']:.4g}"
        lines.append(f"          in sample, OPTIMISTIC: {_signed(inside['gain'])} ({values})")
    return lines


def _verdict_lines(summary: Mapping[str, Any]) -> list[str]:
    word = "SUPPORTED" if summary["supported"] else "NOT SUPPORTED by the data"
    if summary["verdict"] == "nothing to learn":
        return [summary["reason"], f"          policy.csv holds {summary['policy_is']}"]
    return [f"verdict   {word}: {summary['reason']}", f"          policy.csv holds {summary['policy_is']}"]


def _signed(x: float) -> str:
    return f"{x:+.4g}"


def _value(x: Any) -> str:
    return f"{x:g}" if isinstance(x, (int, float)) and not isinstance(x, bool) else str(x)
