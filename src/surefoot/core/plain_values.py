"""Values as JSON can hold them, the documents made of them, and how a thing shows itself: as text,
and in a notebook.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# Raised when a field of a document goes away or changes its meaning, not when one is added.
JSON_VERSION = 1
SHOWN_ROWS = 20  # of a table in a notebook
NOTES = "notes"  # the fact whose items stand in lines of their own
# without colours: they are those of the notebook, light or dark
TABLE = ' style="border-collapse:collapse;margin:.3em 0"'
CELL = ' style="text-align:left;vertical-align:top;padding:.1em .8em .1em 0"'
TEXT = ' style="white-space:pre-wrap"'


def schema_name(command: str) -> str:
    """How the documents of a command are called; surefoot.report.schema has their fields."""
    return f"surefoot/{command}/{JSON_VERSION}"


def as_document(command: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """What a command found, as its document."""
    return {"schema": schema_name(command)} | dict(plain(found))


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


def in_short(x: Any) -> str:
    """A value for people: 12,000, 0.1235, 'a, b'."""
    if isinstance(x, (tuple, list)):
        return ", ".join(map(in_short, x))
    if isinstance(x, (int, np.integer)) and not isinstance(x, bool):
        return f"{x:,}"
    return f"{x:.4g}" if isinstance(x, (float, np.floating)) else str(x)


class Shown:
    """What declares its facts once, and so has a text, a view in a notebook, and a dict."""

    def _facts(self) -> Mapping[str, Any]:
        """What is shown of it, by name; its `notes` stand in lines of their own."""
        return {}

    def _table(self) -> tuple[Sequence[str], Sequence[Sequence[Any]], int] | None:
        """(header, rows, how many rows are left out) of what a notebook shows below the facts."""
        return None

    def _words(self) -> tuple[str, str] | None:
        """What is said of it in place of facts: in short, and all of it."""
        return None

    def to_dict(self) -> dict[Any, Any]:
        """What is shown of it, as JSON can hold it."""
        found: dict[Any, Any] = plain(self._facts())
        return found

    def __repr__(self) -> str:
        facts = dict(self._facts())
        notes = "".join(f"\n  note: {x}" for x in facts.pop(NOTES, ()))
        said = ", ".join(f"{k.replace('_', ' ')} {in_short(x)}" for k, x in facts.items())
        return f"{type(self).__name__}({said}){notes}"

    def _repr_html_(self) -> str:
        """A small page without colours, scripts and anything from elsewhere."""
        words = self._words()
        if words is not None:
            short, everything = map(html.escape, words)
            more = f"<details><summary>all of it</summary><pre{TEXT}>{everything}</pre></details>"
            return f"<pre{TEXT}>{short}</pre>" + more * (short != everything)
        facts, table = dict(self._facts()), self._table()
        notes = facts.pop(NOTES, ())
        found = [f"<div><b>{type(self).__name__}</b>"]
        found.append(_table_html((), [(k.replace("_", " "), x) for k, x in facts.items()]))
        if notes:
            found.append(f"<ul>{''.join(f'<li>{html.escape(str(x))}</li>' for x in notes)}</ul>")
        if table is not None:
            header, rows, left_out = table
            found.append(_table_html(header, rows))
            if left_out:
                found.append(f"<p>{left_out:,} more {'row' if left_out == 1 else 'rows'}</p>")
        return "\n".join([*found, "</div>"])


def _table_html(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [("th", header)] * bool(header) + [("td", row) for row in rows]
    found = [f"<table{TABLE}>"]
    for tag, cells in lines:
        texts = (html.escape(in_short(x)) for x in cells)
        found.append(f"<tr>{''.join(f'<{tag}{CELL}>{x}</{tag}>' for x in texts)}</tr>")
    return "\n".join([*found, "</table>"])
