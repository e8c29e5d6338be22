"""What a given policy is worth on a log: its value with an interval, the baseline's beside it, and how much of it was never tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from surefoot.advice.gain import LEVEL, interval
from surefoot.advice.model import UnitModel
from surefoot.advice.units import units
from surefoot.errors import PolicyError
from surefoot.logs import Log
from surefoot.problems import Problem


def check_allowed(log: Log, problem: Problem, pi: np.ndarray) -> None:
    """Raise if the policy uses an action that is not allowed."""
    forbidden = np.argwhere((pi > 0) & ~np.asarray(problem.allowed) & ~np.asarray(problem.terminal)[:, None])
    if len(forbidden):
        s, a = forbidden[0]
        raise PolicyError(f"the policy uses action {log.actions[a]!r} in state {log.states[s]!r}, which is not allowed")


def evaluation(log: Log, problem: Problem, pi: np.ndarray, *, seed: int = 0) -> dict[str, Any]:
    """Values at the start by the model counted from the log, with intervals, and the share of the policy that was never seen."""
    check_allowed(log, problem, pi)
    parts = units(log, problem.log, problem.gamma)
    found = UnitModel(parts, parts, problem).compare(pi)
    rng = np.random.default_rng(seed)
    several = parts.number > 1
    quantiles = {
        name: interval(estimate, scores, rng, extra) if several else (np.nan, np.nan)
        for name, estimate, scores, extra in (
            ("policy", found.value, found.value_scores, 0.0),
            ("baseline", found.baseline, found.baseline_scores, 0.0),
            ("gain", found.gain, found.scores, found.extra),
        )
    }
    estimates = {"policy": found.value, "baseline": found.baseline, "gain": found.gain}
    n_s = log.n_sa.sum(axis=1, keepdims=True)
    unseen = float((pi * (log.n_sa == 0) * n_s).sum() / n_s.sum())
    values = {name: {"value": x, "low": quantiles[name][0], "high": quantiles[name][1]} for name, x in estimates.items()}
    return {
        "values": values, "quantiles": [LEVEL, 1 - LEVEL], "units": parts.number, "unit": parts.kind, "share_never_seen": unseen,
        "baseline_estimated": problem.pi_b_estimated,
    }  # fmt: skip


def evaluation_lines(found: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    lines = []
    for name, x in found["values"].items():
        lines.append(f"{name:9} {x['value']:+.5g} at the start, 90 % interval [{x['low']:+.5g}, {x['high']:+.5g}]")
    estimated = ", ESTIMATED from the log" if found["baseline_estimated"] else ""
    lines.append(f"          by the model of this log; bootstrap over {found['units']} {found['unit']}; baseline{estimated or ' given'}")
    lines.append(
        f"coverage  {found['share_never_seen']:.1%} of the policy's decisions are actions never seen in their state: they count as"
    )
    lines.append("          the baseline does there. A policy learned from this very log looks better here than it is")
    return lines
