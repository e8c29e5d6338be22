"""What an improvement writes into its folder: the names of the files, and the content of pairs.csv,
what happens in every state, from which the page is made again.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from surefoot.core.errors import LogError
from surefoot.core.labels import from_cell
from surefoot.core.policy import quoted_csv
from surefoot.serving.origin import CANDIDATE as CANDIDATE
from surefoot.serving.origin import POLICY as POLICY
from surefoot.serving.origin import REFITTED as REFITTED
from surefoot.serving.origin import SUMMARY as SUMMARY

CHANGES = "changes.csv"
REPORT = "report.html"
PAIRS = "pairs.csv"
TRAINING = "training.npz"
ENCODER = "encoder.json"
DOSES = "actions.json"  # from a dose to the range that it falls into
PAIR_COLUMNS = (
    "action", "count", "baseline", "candidate", "action_value", "standard_error", "allowed", "why"
)  # fmt: skip


@dataclass(frozen=True)
class PairRecord:
    """One action in one state: how often it was seen, its probabilities, and what it is worth
    where the candidate is followed afterwards; NaN where nothing is known.
    """

    action: str
    count: int
    baseline: float
    candidate: float
    value: float
    error: float


@dataclass(frozen=True)
class StateRecord:
    """One visited state: the fields of its label, why it changes no further, its pairs, and why
    its change was allowed ("" where there is none).
    """

    fields: tuple[str, ...]
    why: str
    pairs: tuple[PairRecord, ...]
    allowed: str = ""

    @property
    def label(self) -> str:
        """The state in one text."""
        return ", ".join(self.fields)

    @property
    def visits(self) -> int:
        """How often the log acted here."""
        return sum(pair.count for pair in self.pairs)

    @property
    def moved(self) -> float:
        """The share of decisions that would change here."""
        return 0.5 * sum(abs(pair.candidate - pair.baseline) for pair in self.pairs)

    @property
    def gain(self) -> float:
        """sum_a (pi - pi_b) q_pi: what the change here is worth in sample, which is optimistic.

        The gain of the policy is the sum of these over the discounted visits of the baseline
        (Kakade and Langford 2002).
        """
        moves = ((p.candidate - p.baseline, p.value) for p in self.pairs)
        return sum(d * q for d, q in moves if d and not math.isnan(q))


def pair_lines(headers: Sequence[str], records: Sequence[StateRecord]) -> Iterator[str]:
    """pairs.csv, piece by piece."""
    rows = (
        (
            *state.fields,
            p.action,
            p.count,
            p.baseline,
            p.candidate,
            *("" if math.isnan(x) else x for x in (p.value, p.error)),
            state.allowed,
            state.why,
        )
        for state in records
        for p in state.pairs
    )
    return quoted_csv((*headers, *PAIR_COLUMNS), rows)


def read_pairs(path: Path) -> tuple[list[StateRecord], list[str]]:
    """(the states of a pairs.csv, in its order; the columns of their labels)."""
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        header = next(reader, [])
        wide = len(header) - len(PAIR_COLUMNS)
        if wide < 1 or tuple(header[wide:]) != PAIR_COLUMNS:
            raise LogError(
                f"{path} is not the pairs.csv of surefoot improve: its columns must end in"
                f" {', '.join(PAIR_COLUMNS)}"
            )
        states: dict[tuple[str, ...], tuple[str, str, list[PairRecord]]] = {}
        for row in reader:
            action, count, *numbers, allowed, why = row[wide:]
            pair = PairRecord(
                from_cell(action), int(count), *(float(x) if x else math.nan for x in numbers)
            )
            key = from_cell(tuple(row[:wide]))
            states.setdefault(key, (allowed, why, []))[2].append(pair)
    found = [StateRecord(k, why, tuple(x), allowed) for k, (allowed, why, x) in states.items()]
    return found, header[:wide]
