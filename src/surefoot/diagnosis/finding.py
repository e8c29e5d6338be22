"""Finding: one thing a check found, as a sentence for people and numbers for machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from surefoot.errors import SurefootError
from surefoot.logs.labels import as_text

OK, NOTE, WARNING = "ok", "note", "warning"
LEVEL = 0.05  # of every test: a log in which nothing is wrong gets a warning from it with at most this probability


@dataclass(frozen=True)
class Finding:
    """`level` is "ok", "note" (to be known) or "warning" (may make a policy learned from this log wrong)."""

    name: str
    level: str
    sentence: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.level not in (OK, NOTE, WARNING):
            raise SurefootError(f"a finding is ok, note or warning, got {self.level!r}")


def named(states: list[Any], most: int = 3) -> str:
    """Some labels in words: 'a', 'b', 'c' and 4 more."""
    shown = ", ".join(repr(as_text(label)[:60]) for label in states[:most])
    return shown + (f" and {len(states) - most:,} more" if len(states) > most else "")


def plural(n: int, word: str) -> str:
    """1 state, 2 states."""
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}s"
