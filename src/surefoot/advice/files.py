"""The files of an improvement: policy.csv, changes.csv, pairs.csv, summary.json, candidate.csv,
policy-all.csv, training.npz and report.html, all of them or none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.advice.advise import Advice
from surefoot.advice.pairs import state_records
from surefoot.advice.provenance import TRAINING, as_bytes, fingerprints
from surefoot.core.atomic import write_together
from surefoot.core.plain_values import as_document
from surefoot.core.policy import CHANGED, Row, quoted_csv
from surefoot.report.folder import (
    CANDIDATE,
    CHANGES,
    PAIRS,
    POLICY,
    REFITTED,
    REPORT,
    SUMMARY,
    StateRecord,
    pair_lines,
)
from surefoot.report.improvement_page import improvement_page

CHANGE_COLUMNS = (
    "mass_moved",
    "estimated_gain_optimistic",
    "visits",
    "more_of",
    "more_of_count",
    "more_of_moved",
    "less_of",
    "less_of_count",
    "less_of_moved",
)


def page_of(advice: Advice, summary: Mapping[str, Any]) -> str:
    """The page of an improvement that is still in memory."""
    return improvement_page(summary, state_records(advice), advice.log.labels.headers)


def write_advice(
    folder: str | Path,
    advice: Advice,
    summary: Mapping[str, Any],
    elsewhere: Sequence[Row] = (),
    *,
    page: bool = False,
) -> dict[str, Path]:
    """Write the files of an improvement into a folder, and say where; with `page`, its page too.

    `elsewhere` are the baseline's rows about states that the log never visits: they join the policy
    as they are.

    All are written beside their place first. Then policy.csv of an earlier run goes, then its other
    files, then the new ones come, policy.csv last: wherever the process is killed, a folder with a
    policy.csv holds the complete result of one run. A process killed while files took their names
    has all of them there: the next command that reads or writes there ends its work.
    """
    headers = advice.log.labels.headers
    states = state_records(advice)
    texts: dict[str, Iterable[str] | bytes] = {
        CHANGES: quoted_csv((*headers, *CHANGE_COLUMNS), _changes(states)),
        PAIRS: pair_lines(headers, states),
    }
    if page:
        texts[REPORT] = [improvement_page(summary, states, headers)]
    if not advice.supported and not advice.accepted and advice.solution is not None:
        texts[CANDIDATE] = _policy(advice, advice.candidate, elsewhere)
    if advice.refitted is not None:
        texts[REFITTED] = _policy(advice, advice.refitted, elsewhere)
    if summary.get("training_fingerprints"):
        held = [] if advice.problem.log is None else [advice.problem.log]
        texts[TRAINING] = as_bytes(fingerprints(advice.log, *held))
    document = as_document(advice.command, summary)
    texts[SUMMARY] = [json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False), "\n"]
    texts[POLICY] = _policy(advice, advice.pi, elsewhere)
    return write_together(
        folder,
        texts,
        last=POLICY,
        known=(CHANGES, PAIRS, CANDIDATE, REFITTED, SUMMARY, TRAINING, REPORT, POLICY),
    )


def _policy(advice: Advice, pi: np.ndarray, elsewhere: Sequence[Row]) -> Iterator[str]:
    """A policy beside the one that made the log; none for terminal states."""
    made = advice.problem.policy_of(pi)
    pi_b = np.where(made.pi.any(axis=1, keepdims=True), advice.pi_b, 0.0)
    return replace(made, baseline=pi_b, elsewhere=tuple(elsewhere)).as_csv()


def changes_of(advice: Advice) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """(the columns of changes.csv, its rows)."""
    header = (*advice.log.labels.headers, *CHANGE_COLUMNS)
    return header, list(_changes(state_records(advice)))


def _changes(states: Sequence[StateRecord]) -> Iterator[tuple[Any, ...]]:
    """One row for every visited state in which something changes, most mass first."""
    for state in states:
        if state.moved <= CHANGED:
            continue
        more = max(state.pairs, key=lambda pair: pair.candidate - pair.baseline)
        less = min(state.pairs, key=lambda pair: pair.candidate - pair.baseline)
        yield (
            *state.fields,
            _short(state.moved),
            _short(state.gain),
            state.visits,
            more.action,
            more.count,
            _short(more.candidate - more.baseline),
            less.action,
            less.count,
            _short(less.baseline - less.candidate),
        )


def _short(x: Any) -> float:
    return float(f"{float(x):.6g}")
