"""The files of an improvement: policy.csv, changes.csv, pairs.csv, summary.json, candidate.csv,
policy-all.csv, training.npz and report.html, all of them or none; what it does in every state, pair
by pair, and why it went no further there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.advice.learn_and_test import Advice
from surefoot.advice.provenance import TRAINING, as_bytes, fingerprints
from surefoot.algorithms.algorithm import Restricts
from surefoot.core.arrays import row_sum
from surefoot.core.atomic import write_together
from surefoot.core.evidence import BETTER, Evidence
from surefoot.core.labels import as_text
from surefoot.core.plain_values import as_document
from surefoot.core.policy import CHANGED, quoted_csv
from surefoot.planning import Trust, evaluate
from surefoot.planning.trusts import FreeTrust, SoftTrust, TradeTrust
from surefoot.problems import Problem
from surefoot.report.folder import (
    CANDIDATE,
    CHANGES,
    PAIRS,
    POLICY,
    REFITTED,
    REPORT,
    SUMMARY,
    PairRecord,
    StateRecord,
    pair_lines,
)
from surefoot.report.improvement_page import improvement_page

CHANGE_COLUMNS = (
    "mass_moved", "estimated_gain_optimistic", "visits", "more_of", "more_of_count",
    "more_of_moved", "less_of", "less_of_count", "less_of_moved", "held_out_gain",
    "held_out_low", "held_out_high", "shown_by_itself",
)  # fmt: skip
ONE_ACTION = "the log tried one action only"
NOT_LEARNED = "the half that the policy is learned from never came here"
NOTHING_BETTER = "no action that the log has tried looks better than what the baseline does"
TOO_RARE = "what looks better was tried too rarely"
TOO_DEAR = "what looks better does not pay the price of its uncertainty"
SPENT = "the budget of this state is spent"
NEXT_TOO_DEAR = "the next move would gain less than the price of its uncertainty"
ALL_MOVED = "all of the probability that may move has moved to the best action"
NO_FURTHER = "a further move would gain nothing"
OUTSIDE = "outside the changes that are worth most (--most-changes {})"
LOOKED_BETTER = "what gets more probability was tried here and looked better"
ALLOWED_PRICED = f"{LOOKED_BETTER}, by more than the price of its uncertainty"
ALLOWED_SOFT = f"{LOOKED_BETTER}, and the budget for uncertain moves covers it"
ALLOWED_FREE = f"{LOOKED_BETTER}, and all that changes was tried often enough"
CHECKED = "; the half that tests has seen it, too"
GUARDED = "a further move would cost too much in a guarded column"
TAKEN_BACK = "the half that tests saw too little of the other moves: they were taken back"
ALL_TAKEN_BACK = "the half that tests saw too little of what looked better: it was taken back"


def write_advice(
    folder: str | Path, advice: Advice, summary: Mapping[str, Any], *, page: bool = False
) -> dict[str, Path]:
    """Write the files of an improvement into a folder, and say where; with `page`, its page too.

    All are written beside their place first. Then policy.csv of an earlier run goes, then its other
    files, then the new ones come, policy.csv last: wherever the process is killed, a folder with a
    policy.csv holds the complete result of one run. A process killed while files took their names
    has all of them there: the next command that reads or writes there ends its work.
    """
    headers = advice.log.labels.headers
    states = state_records(advice)
    texts: dict[str, Iterable[str] | bytes] = {
        CHANGES: quoted_csv((*headers, *CHANGE_COLUMNS), _changes(advice, states)),
        PAIRS: pair_lines(headers, states),
    }
    if page:
        texts[REPORT] = [improvement_page(summary, states, headers)]
    if not advice.supported and not advice.accepted and advice.solution is not None:
        texts[CANDIDATE] = advice.labelled(advice.candidate).as_csv()
    if advice.refitted is not None:
        texts[REFITTED] = advice.labelled(advice.refitted).as_csv()
    if summary.get("training_fingerprints"):
        held = [] if advice.problem.log is None else [advice.problem.log]
        texts[TRAINING] = as_bytes(fingerprints(advice.log, *held))
    document = as_document(advice.command, summary)
    texts[SUMMARY] = [json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False), "\n"]
    texts[POLICY] = advice.labelled(advice.pi).as_csv()
    return write_together(
        folder,
        texts,
        last=POLICY,
        known=(CHANGES, PAIRS, CANDIDATE, REFITTED, SUMMARY, TRAINING, REPORT, POLICY),
    )


def changes_of(advice: Advice) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """(the columns of changes.csv, its rows)."""
    header = (*advice.log.labels.headers, *CHANGE_COLUMNS)
    return header, list(_changes(advice, state_records(advice)))


def _changes(advice: Advice, states: Sequence[StateRecord]) -> Iterator[tuple[Any, ...]]:
    """One row for every visited state in which something changes, most mass first; what held-out
    data show of it by itself is empty where that was not looked at.
    """
    made = {} if advice.made_of is None else advice.made_of.alone
    alone = {_fields(advice.log.states[s]): x for s, x in made.items()}
    for state in states:
        if state.moved <= CHANGED:
            continue
        more = max(state.pairs, key=lambda pair: pair.candidate - pair.baseline)
        less = min(state.pairs, key=lambda pair: pair.candidate - pair.baseline)
        yield (
            *state.fields,
            _six_digits(state.moved),
            _six_digits(state.gain),
            state.visits,
            more.action,
            more.count,
            _six_digits(more.candidate - more.baseline),
            less.action,
            less.count,
            _six_digits(less.baseline - less.candidate),
            *_by_itself(alone.get(state.fields)),
        )


def _by_itself(row: Evidence | None) -> tuple[Any, ...]:
    """A change by itself, as the last columns of changes.csv."""
    if row is None:
        return "", "", "", ""
    ends = (_six_digits(x) if math.isfinite(x) else "" for x in (row.estimate, row.low, row.high))
    return *ends, "yes" if row.shown == BETTER else "no"


def _fields(label: Any) -> tuple[str, ...]:
    """The columns of a state's label."""
    return tuple(map(str, label if isinstance(label, tuple) else (label,)))


def _six_digits(x: Any) -> float:
    return float(f"{float(x):.6g}")


def state_records(advice: Advice) -> list[StateRecord]:
    """Every visited state in which somebody acts, the most changed first, then the most visited."""
    log, pi = advice.log, advice.candidate
    q, error = action_values(advice.problem, _values(advice))
    trust = _trust(advice)
    why, allowed = _reasons(advice, trust), _allowed(advice, trust)
    n = log.n_sa
    acting = (n.sum(axis=1) > 0) & ~np.asarray(advice.problem.terminal)
    order = np.lexsort((-n.sum(axis=1), -np.round(advice.moved, 9)))
    found = []
    for s in order[acting[order]]:
        shown = np.flatnonzero((n[s] > 0) | (pi[s] > 0) | (advice.pi_b[s] > 0))
        found.append(
            StateRecord(
                fields=_fields(log.states[s]),
                why=why[s],
                allowed=allowed if advice.moved[s] > CHANGED else "",
                pairs=tuple(
                    PairRecord(
                        action=as_text(log.actions[a]),
                        count=int(n[s, a]),
                        baseline=_share(advice.pi_b[s, a]),
                        candidate=_share(pi[s, a]),
                        value=_short(q[s, a]),
                        error=_short(error[s, a]),
                    )
                    for a in shown
                ),
            )
        )
    return found


def _values(advice: Advice) -> np.ndarray:
    """The candidate's values [S] in the model of all data by which its gain is measured: what was
    never tried is worth what the baseline does there.
    """
    if advice.in_sample is not None:
        return advice.in_sample.v_policy
    return np.asarray(evaluate(advice.problem.model, advice.candidate))


def action_values(problem: Problem, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(q, its standard error) [S, A] of every pair, if states are worth v [S] afterwards.

    q is the mean of y = r + gamma v(s') over the visits of the pair, the error the standard
    deviation of y over sqrt(n); NaN without a visit, or for the error of fewer than two.
    """
    (block,) = problem.blocks
    support, n = block.support, block.n_sa
    y = support.reward + problem.gamma * support.at(v[None])
    some = np.where(n > 0, n, 1.0)
    q = support.total(support.n * y) / some
    square = support.total(support.n * (y - support.spread(q)) ** 2)
    if block.counts.r_rest is not None and block.reward_table is None:
        square = square + block.counts.r_rest
    error = np.sqrt(square / np.where(n > 1, n - 1, 1.0) / some)
    return np.where(n > 0, q, np.nan)[0], np.where(n > 1, error, np.nan)[0]


def reasons(advice: Advice) -> list[str]:
    """Why the candidate moves no further in each state, from the half that it was learned from."""
    return _reasons(advice, _trust(advice))


def _trust(advice: Advice) -> Trust | None:
    """How far each probability might move in the half that the candidate was learned from; None
    where the algorithm has no such limits.
    """
    if advice.gain is None or not isinstance(advice.algorithm, Restricts):
        return None
    (block,) = advice.gain.learned.blocks
    return advice.algorithm.trust(block, block.n_sa)


def _reasons(advice: Advice, trust: Trust | None) -> list[str]:
    gain, solution = advice.gain, advice.solution
    if gain is None or solution is None:
        return [ONE_ACTION] * advice.problem.n_states
    learned, pi = gain.learned, np.asarray(solution.pi)
    base, n, q = np.asarray(learned.pi_b), np.asarray(learned.n_sa), np.asarray(solution.q)
    tolerance = learned.tolerance
    changed = 0.5 * np.abs(pi - base).sum(axis=1) > CHANGED
    limits = _limits(trust, pi)
    price = trust is not None and trust.price is not None
    best = np.where(n > 0, q, -np.inf).max(axis=1)
    better = best > (base * np.where(n > 0, q, 0.0)).sum(axis=1) + tolerance
    back = 0.5 * np.abs(pi - advice.candidate).sum(axis=1) > CHANGED
    outside = np.zeros(len(pi), dtype=bool) if gain.outside is None else gain.outside
    held = _held_by_guards(learned, trust, pi, q)
    n_log = advice.log.n_sa
    found = []
    for s in range(len(pi)):
        if int((n_log[s] > 0).sum()) <= 1:
            words = ONE_ACTION
        elif not n[s].any():
            words = NOT_LEARNED
        elif outside[s]:
            words = OUTSIDE.format(gain.most)
        elif changed[s]:
            partly = TAKEN_BACK if advice.moved[s] > CHANGED else ALL_TAKEN_BACK
            words = partly if back[s] else GUARDED if held[s] else limits[s]
        elif held[s]:
            words = GUARDED
        elif better[s]:
            words = TOO_DEAR if price else TOO_RARE
        else:
            words = NOTHING_BETTER
        found.append(words)
    return found


def _held_by_guards(
    problem: Problem, trust: Trust | None, pi: np.ndarray, q: np.ndarray
) -> np.ndarray:
    """The states [S] in which the algorithm would go further without the guards."""
    if not problem.guards or trust is None:
        return np.zeros(len(pi), dtype=bool)
    (block,) = problem.blocks
    free = trust.step(q[None], block.pi_b)[0]
    return np.asarray(0.5 * np.abs(np.asarray(free) - pi).sum(axis=1) > CHANGED)


def _allowed(advice: Advice, trust: Trust | None) -> str:
    """Why the algorithm may make a move."""
    gain = advice.gain
    if gain is None:
        return ""
    words = LOOKED_BETTER
    if trust is not None:
        priced = ALLOWED_SOFT if trust.price is None else ALLOWED_PRICED
        words = ALLOWED_FREE if isinstance(trust, FreeTrust) else priced
    tested = advice.candidate is gain.pi and not gain.weighed
    return words + CHECKED * tested


def _limits(trust: Trust | None, pi: np.ndarray) -> list[str]:
    """What ended the moves of each state that changes."""
    if isinstance(trust, FreeTrust):
        return [ALL_MOVED] * len(pi)
    if not isinstance(trust, (SoftTrust, TradeTrust)):
        return [NO_FURTHER] * len(pi)
    rise, fall = np.maximum(pi - trust.b, 0.0), np.maximum(trust.b - pi, 0.0)
    if isinstance(trust, SoftTrust):
        up, down = trust.up, trust.down
    else:
        up, down = trust.e, np.zeros_like(trust.e) if trust.lower else trust.e
    up, down = (np.where(np.isfinite(x), x, 0.0) for x in (up, down))
    spent = np.asarray(row_sum(up * rise + down * fall)[0]) >= trust.budget * (1 - 1e-6)
    single = np.any(pi > 1 - CHANGED, axis=1)
    further = NO_FURTHER if trust.price is None else NEXT_TOO_DEAR
    return [SPENT if spent[s] else ALL_MOVED if single[s] else further for s in range(len(pi))]


def _share(p: float) -> float:
    """A probability without what rounding leaves of 0 and 1."""
    return _short(round(float(p), 12))


def _short(x: float) -> float:
    """Nine digits: a page made from the file is the one made from the numbers."""
    return float(f"{float(x):.9g}")
