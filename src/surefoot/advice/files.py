"""The files of an improvement: policy.csv, changes.csv, summary.json, candidate.csv and
training.npz, all of them or none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.advice.advise import Advice
from surefoot.advice.provenance import TRAINING, as_bytes, fingerprints
from surefoot.atomic import write_together
from surefoot.core.labels import as_text
from surefoot.core.policy import Row, quoted_csv

POLICY, CANDIDATE, CHANGES, SUMMARY = "policy.csv", "candidate.csv", "changes.csv", "summary.json"
SCHEMA = "surefoot/improve/1"  # of summary.json, as of `surefoot improve --json`
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


def write_advice(
    folder: str | Path,
    advice: Advice,
    summary: Mapping[str, Any],
    elsewhere: Sequence[Row] = (),
) -> dict[str, Path]:
    """Write the files of an improvement into a folder, and say where.

    `elsewhere` are the baseline's rows about states that the log never visits: they join the policy
    as they are.

    All are written beside their place first. Then policy.csv of an earlier run goes, then its other
    files, then the new ones come, policy.csv last: wherever the process is killed, a folder with a
    policy.csv holds the complete result of one run.
    """
    texts: dict[str, Iterable[str] | bytes] = {
        CHANGES: quoted_csv((*advice.log.labels.headers, *CHANGE_COLUMNS), _changes(advice))
    }
    if not advice.supported and not advice.accepted and advice.solution is not None:
        texts[CANDIDATE] = _policy(advice, advice.candidate, elsewhere)
    if summary.get("training_fingerprints") and advice.problem.log is not None:
        texts[TRAINING] = as_bytes(fingerprints(advice.log, advice.problem.log))
    texts[SUMMARY] = [
        json.dumps(
            {"schema": SCHEMA} | plain(summary), indent=2, ensure_ascii=False, allow_nan=False
        ),
        "\n",
    ]
    texts[POLICY] = _policy(advice, advice.policy, elsewhere)
    return write_together(
        folder, texts, last=POLICY, known=(CHANGES, CANDIDATE, SUMMARY, TRAINING, POLICY)
    )


def _policy(advice: Advice, pi: np.ndarray, elsewhere: Sequence[Row]) -> Iterator[str]:
    """A policy beside the one that made the log; none for terminal states."""
    made = advice.problem.policy_of(pi)
    pi_b = np.where(made.pi.any(axis=1, keepdims=True), advice.pi_b, 0.0)
    return replace(made, baseline=pi_b, elsewhere=tuple(elsewhere)).as_csv()


def _changes(advice: Advice) -> Iterator[tuple[Any, ...]]:
    """One row for every visited state in which something changes, most mass first."""
    if advice.in_sample is None:
        return
    n, step = advice.log.n_sa, advice.candidate - advice.pi_b
    advantage = advice.in_sample.advantage
    order = advice.changed[np.argsort(-advice.moved[advice.changed], kind="stable")]
    for s in order:
        more, less = int(np.argmax(step[s])), int(np.argmin(step[s]))
        label = advice.log.states[s]
        yield (
            *map(str, label if isinstance(label, tuple) else (label,)),
            _short(advice.moved[s]),
            _short(advantage[s]),
            int(n[s].sum()),
            as_text(advice.log.actions[more]),
            int(n[s, more]),
            _short(step[s, more]),
            as_text(advice.log.actions[less]),
            int(n[s, less]),
            _short(-step[s, less]),
        )


def _short(x: Any) -> float:
    return float(f"{float(x):.6g}")


def plain(x: Any) -> Any:
    """A value that JSON can hold: NaN and infinities become null, labels text."""
    if isinstance(x, Mapping):
        return {str(k): plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple, np.ndarray)):
        return [plain(v) for v in x]
    if isinstance(x, (bool, np.bool_)):
        return bool(x)
    if isinstance(x, (int, np.integer)):
        return int(x)
    if isinstance(x, (float, np.floating)):
        return float(x) if math.isfinite(x) else None
    return x if x is None else str(x)
