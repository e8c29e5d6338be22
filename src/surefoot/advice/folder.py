"""The files of an improvement: policy.csv, changes.csv, summary.json, candidate.csv and
training.npz, all of them or none.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.advice.advise import Advice
from surefoot.advice.elsewhere import Row
from surefoot.advice.provenance import TRAINING, as_bytes, fingerprints
from surefoot.atomic import write_together
from surefoot.core.labels import as_text
from surefoot.errors import PolicyError

POLICY, CANDIDATE, CHANGES, SUMMARY = "policy.csv", "candidate.csv", "changes.csv", "summary.json"
SCHEMA = "surefoot/improve/1"  # of summary.json, as of `surefoot improve --json`
NUMBERS = ("probability", "baseline", "count")
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
    states: Sequence[str] = ("state",),
    elsewhere: Sequence[Row] = (),
) -> dict[str, Path]:
    """Write the files of an improvement into a folder, and say where; `states` are the names of the
    state columns.

    `elsewhere` are the baseline's rows about states that the log never visits: they join the policy
    as they are.

    All are written beside their place first. Then policy.csv of an earlier run goes, then its other
    files, then the new ones come, policy.csv last: wherever the process is killed, a folder with a
    policy.csv holds the complete result of one run.
    """
    texts: dict[str, Iterable[str] | bytes] = {
        CHANGES: _table((*states, *CHANGE_COLUMNS), _changes(advice))
    }
    header = (*states, "action", *NUMBERS)
    if not advice.supported and not advice.accepted and advice.solution is not None:
        texts[CANDIDATE] = _table(header, _policy(advice, advice.candidate, elsewhere))
    if summary.get("training_fingerprints") and advice.problem.log is not None:
        texts[TRAINING] = as_bytes(fingerprints(advice.log, advice.problem.log))
    texts[SUMMARY] = [
        json.dumps(
            {"schema": SCHEMA} | plain(summary), indent=2, ensure_ascii=False, allow_nan=False
        ),
        "\n",
    ]
    texts[POLICY] = _table(header, _policy(advice, advice.policy, elsewhere))
    return write_together(
        folder, texts, last=POLICY, known=(CHANGES, CANDIDATE, SUMMARY, TRAINING, POLICY)
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """A CSV file piece by piece; every text is quoted, so that a label is data whatever it looks
    like.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    text.write(
        ",".join(
            f'"{name.replace(chr(34), chr(34) * 2)}"' if _odd(name) else name for name in header
        )
        + "\n"
    )
    for i, row in enumerate(rows):
        writer.writerow(row)
        if i % 10_000 == 9_999:
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()


def _odd(name: str) -> bool:
    return not name.replace("_", "").isalnum()


def _policy(advice: Advice, pi: np.ndarray, elsewhere: Sequence[Row]) -> Iterator[tuple[Any, ...]]:
    """One row for every pair that is likely under the policy or the baseline, or was seen; none
    for terminal states.
    """
    pi_b, n = advice.pi_b, advice.log.n_sa
    shown = ((pi > 0) | (pi_b > 0) | (n > 0)) & ~np.asarray(advice.problem.terminal)[:, None]
    for s, a in np.argwhere(shown):
        label = advice.log.states[s]
        yield (
            *_texts(label),
            as_text(advice.log.actions[a]),
            float(pi[s, a]),
            float(pi_b[s, a]),
            int(n[s, a]),
        )
    for label, action, p in elsewhere:
        yield *_texts(label), action, p, p, 0


def _changes(advice: Advice) -> Iterator[tuple[Any, ...]]:
    """One row for every visited state in which something changes, most mass first."""
    n, step = advice.log.n_sa, advice.candidate - advice.pi_b
    order = advice.changed[np.argsort(-advice.moved[advice.changed], kind="stable")]
    for s in order:
        more, less = int(np.argmax(step[s])), int(np.argmin(step[s]))
        yield (
            *_texts(advice.log.states[s]),
            _short(advice.moved[s]),
            _short(advice.advantage[s]),
            int(n[s].sum()),
            as_text(advice.log.actions[more]),
            int(n[s, more]),
            _short(step[s, more]),
            as_text(advice.log.actions[less]),
            int(n[s, less]),
            _short(-step[s, less]),
        )


def _texts(label: Any) -> tuple[str, ...]:
    """A label as the fields of its columns."""
    return tuple(str(x) for x in label) if isinstance(label, tuple) else (str(label),)


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


def read_policy(
    path: str | Path,
) -> tuple[tuple[str, ...], dict[tuple[str, ...], dict[str, float]]]:
    """(names of the state columns, {state: {action: probability}}) of a policy.csv."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            lines = list(csv.reader(file, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PolicyError(f"{path} cannot be read as a policy: {error}") from error
    if not lines or "action" not in lines[0] or "probability" not in lines[0]:
        raise PolicyError(
            f"{path} is no policy: its first line must name the columns state, action and"
            " probability"
        )
    header = lines[0]
    action, probability = header.index("action"), header.index("probability")
    if action == 0:
        raise PolicyError(
            f"{path} is no policy: the columns of the state come before the column action"
        )
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for number, row in enumerate(lines[1:], start=2):
        try:
            p = float(row[probability])
            if len(row) != len(header) or not 0 <= p <= 1 + 1e-9:
                raise ValueError(f"{row[probability]!r} is no probability")
            actions = found.setdefault(tuple(row[:action]), {})
            if row[action] in actions:
                raise ValueError(f"action {row[action]!r} is there twice")
            actions[row[action]] = p
        except (ValueError, IndexError) as error:
            raise PolicyError(f"{path}, line {number}: not a row of a policy ({error})") from error
    for state, actions in found.items():
        if abs(sum(actions.values()) - 1) > 1e-3:
            raise PolicyError(
                f"{path}: the probabilities of state {', '.join(state)!r} sum to"
                f" {sum(actions.values()):.6g}, not 1"
            )
    return tuple(header[:action]), found
