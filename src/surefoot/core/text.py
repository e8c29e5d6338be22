"""How numbers, lists and tables look, wherever a person reads them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.core.errors import ProblemError

OF_ROWS = (
    ("from the start of an episode on", "for a decision"),
    ("every episode is one step long", "every row is a decision by itself"),
    (r" in [\d,]+ episodes? \([\d,]+ reached an end\)", ""),
    (r"(visits of a pair) more than \d+ steps apart", r"\1"),
    (", or the episode ended", ""),
    (r"\ban episode\b", "a row"),
    (r"\b(episode|step)(s?)\b", r"row\2"),
)


def plural(n: int, word: str) -> str:
    """1 state, 2 states, 12,000 states."""
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}s"


def some(items: Sequence[str], most: int = 3) -> str:
    """a, b, c and 4 more."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more:,} more" if more > 0 else "")


def in_rows(words: str) -> str:
    """A sentence about a log whose every row is a decision by itself, without steps and episodes;
    labels (in quotes) stay.
    """
    parts = re.split("('[^']*')", words)
    for i in range(0, len(parts), 2):
        for said, instead in OF_ROWS:
            parts[i] = re.sub(said, instead, parts[i])
    return "".join(parts)


def signed(x: float | None, form: str = ".4g", missing: str = "-") -> str:
    """A difference, with its sign; None and NaN are missing."""
    return missing if x is None or math.isnan(x) else f"{x:+{form}}"


def impossible(value: float, low: float, high: float) -> str:
    """That a weighted estimate lies outside what is possible, [low, high]; "" where it does not."""
    slack = 1e-9 * max(abs(value), 1e-300)
    if not (value < low - slack or value > high + slack):
        return ""
    end = f"below the least possible, {low:.4g}"
    if value > high:
        end = f"above the largest possible, {high:.4g}"
    return f"{end}: its weights scatter"


def interval(low: float | None, high: float | None, form: str = ".4g", missing: str = "-") -> str:
    """[-0.1, +0.2]; missing if an end is."""
    ends = [signed(x, form, "") for x in (low, high)]
    return f"[{ends[0]}, {ends[1]}]" if all(ends) else missing


def with_interval(value: float, low: float, high: float, form: str = ".3f") -> str:
    """+0.05 [-0.1, +0.2], or that it is not reported."""
    return "not reported" if math.isnan(value) else f"{value:+{form}} {interval(low, high, form)}"


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """{"epsilon": 2.0, "delta": 1} as "delta=1 epsilon=2"."""
    return " ".join(
        f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in sorted(parameters.items())
    )


def aligned(lines: Sequence[Sequence[str]], align: str) -> list[str]:
    """The cells of each line in columns, two spaces apart, each "<" or ">" as `align` says.

    A line may be shorter: its last cell then runs on, however long.
    """
    fixed = [line if len(line) == len(align) else line[:-1] for line in lines]
    wide = [max(len(x[i]) for x in fixed if i < len(x)) for i in range(len(align))]
    found = []
    for line, cells in zip(lines, fixed, strict=True):
        padded = [f"{x:{a}{n}}" for x, a, n in zip(cells, align, wide, strict=False)]
        found.append("  ".join([*padded, *line[len(cells) :]]).rstrip())
    return found


@dataclass(frozen=True)
class Table:
    """A small table of texts: every row has one entry per column."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ProblemError(
                    f"a row of the table has {len(row)} entries for the {len(self.columns)} columns"
                    f" {self.columns}: {row}"
                )

    def markdown(self) -> str:
        """The table in Markdown."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        return "\n".join(
            "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |"
            for line in lines
        )
