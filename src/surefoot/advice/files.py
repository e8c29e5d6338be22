"""The files of an improvement: policy.csv, changes.csv, pairs.csv, summary.json, candidate.csv,
policy-all.csv, training.npz, encoder.json, actions.json and report.html, all of them or none; and
what it does in every state, pair by pair.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.advice.learn_and_test import Advice
from surefoot.advice.provenance import as_bytes, fingerprints
from surefoot.advice.why_no_further import trust_of, why_allowed, why_no_further
from surefoot.core.atomic import write_together
from surefoot.core.evidence import BETTER, Evidence
from surefoot.core.labels import as_text
from surefoot.core.plain_values import as_document
from surefoot.core.policy import CHANGED, quoted_csv
from surefoot.planning import evaluate
from surefoot.problems import Problem
from surefoot.report.folder import (
    CANDIDATE,
    CHANGES,
    DOSES,
    ENCODER,
    PAIRS,
    POLICY,
    REFITTED,
    REPORT,
    SUMMARY,
    TRAINING,
    PairRecord,
    StateRecord,
    pair_lines,
)
from surefoot.report.improvement_page import improvement_page
from surefoot.serving.encoders import encoder_text

CHANGE_COLUMNS = (
    "mass_moved", "estimated_gain_optimistic", "visits", "more_of", "more_of_count",
    "more_of_moved", "less_of", "less_of_count", "less_of_moved", "held_out_gain",
    "held_out_low", "held_out_high", "shown_by_itself",
)  # fmt: skip


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
    measured = None if advice.posed is None else advice.posed.measured
    if measured is not None and measured.encoder is not None:
        texts[ENCODER] = [encoder_text(measured.encoder)]
    if measured is not None and measured.actions is not None and measured.actions.encoder:
        texts[DOSES] = [encoder_text(measured.actions.encoder)]
    document = as_document(advice.command, summary)
    texts[SUMMARY] = [json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False), "\n"]
    texts[POLICY] = advice.labelled(advice.pi).as_csv()
    return write_together(
        folder,
        texts,
        last=POLICY,
        known=(
            CHANGES,
            PAIRS,
            CANDIDATE,
            REFITTED,
            SUMMARY,
            TRAINING,
            ENCODER,
            DOSES,
            REPORT,
            POLICY,
        ),
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
    trust = trust_of(advice)
    why, allowed = why_no_further(advice, trust), why_allowed(advice, trust)
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


def _share(p: float) -> float:
    """A probability without what rounding leaves of 0 and 1."""
    return _short(round(float(p), 12))


def _short(x: float) -> float:
    """Nine digits: a page made from the file is the one made from the numbers."""
    return float(f"{float(x):.9g}")
