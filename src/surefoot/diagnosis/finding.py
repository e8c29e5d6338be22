"""Finding: one thing a check found, as a sentence for people and numbers for machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from surefoot.core.labels import as_text
from surefoot.errors import SurefootError
from surefoot.text import some

OK, NOTE, WARNING = "ok", "note", "warning"
# of every test: a log in which nothing is wrong gets a warning from it with at most this
# probability
LEVEL = 0.05
STRICT = (
    0.005  # of every test that vetoes; three tests together: nominally 1.5 % of logs without fault
)
DOUBTFUL = 1e-3  # a baseline less likely than this to have made the log did not make it
DRIFT, POLICY_DRIFT, MARKOV, BASELINE, COPIES, CONTRADICTIONS = KEYS = (
    "drift", "policy-drift", "markov", "baseline", "copies", "contradictions"
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """`level` is "ok", "note" (to be known) or "warning" (may make a policy learned from this log
    wrong).

    `key` names a kind of finding that can make a promise untrue; `vetoes` says that this one does,
    beyond the doubt that a warning allows: a log without fault is vetoed in at most about 3 % of
    cases, over all keys together.
    """

    name: str
    level: str
    sentence: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    vetoes: bool = False

    def __post_init__(self) -> None:
        if self.level not in (OK, NOTE, WARNING):
            raise SurefootError(f"a finding is ok, note or warning, got {self.level!r}")
        if self.key not in ("", *KEYS) or (self.vetoes and not self.key):
            raise SurefootError(
                f"the key of a finding that vetoes is one of {', '.join(KEYS)}, got {self.key!r}"
            )


def named(states: list[Any], most: int = 3) -> str:
    """Some labels in words: 'a', 'b', 'c' and 4 more."""
    return some([repr(as_text(label)[:60]) for label in states], most)
