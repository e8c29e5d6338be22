"""Pages: one self-contained HTML file each, from the templates beside this file; what those of
`check`, `compare`, `tune`, `safety-test` and studies are made of.

Every value that goes into a page is escaped by Jinja2; what scripts read is JSON in which no tag
can end. The page's own policy forbids the browser every request.
"""

from __future__ import annotations

import json
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from importlib.metadata import version
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import surefoot
from surefoot.report.log_words import NO_UNIT, figure
from surefoot.report.statements import sentence

MOST_BYTES = 5_000_000  # of a page


def render(template: str, **content: Any) -> str:
    """The page of a template."""
    return _environment().get_template(template).render(version=surefoot.__version__, **content)


def made_by() -> dict[str, Any]:
    """The command line of this process and the versions it runs, for `summary.json` and a page."""
    names = ("numpy", "scipy", "duckdb")
    versions = {"surefoot": surefoot.__version__, "Python": platform.python_version()}
    return {
        "command": shlex.join(["surefoot", *sys.argv[1:]]),
        "versions": versions | {name: version(name) for name in names},
    }


def embedded(data: Mapping[str, Any]) -> Markup:
    """Data for a page's script: JSON in which "<" cannot begin a tag."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028"))


@dataclass(frozen=True)
class Item:
    """A line of a list; `mark` is "ok", "note", "warning" or nothing."""

    words: str
    mark: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture and what it shows; `drawn` ones have a white ground of their own."""

    picture: Markup
    caption: str
    drawn: bool = False


@dataclass(frozen=True)
class PageTable:
    """A table whose first column names the row; `numeric` columns stand to the right."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading with sentences, a command, pictures, a list and tables, in this order."""

    title: str
    sentences: Sequence[str] = ()
    command: str = ""
    pictures: Sequence[Picture] = ()
    items: Sequence[Item] = ()
    tables: Sequence[PageTable] = field(default_factory=tuple)


def sections_page(
    *,
    heading: str,
    word: str,
    good: bool,
    sentences: Sequence[str] = (),
    figures: Sequence[tuple[str, str]] = (),
    sections: Sequence[Section],
    made: Mapping[str, str],
) -> str:
    """A page: the conclusion as a headline, a few numbers, the sections, how it was made."""
    how: dict[str, Any] = made_by()
    versions = ", ".join(f"{name} {version}" for name, version in how["versions"].items())
    return render(
        "sections.html",
        title=word,
        heading=heading,
        word=word,
        good=good,
        sentences=sentences,
        figures=figures,
        sections=sections,
        command=how["command"],
        made=[*made.items(), ("made with", versions)],
    )


def notes_section(notes: Sequence[str]) -> list[Section]:
    """The notes of a command, where there are any."""
    return [Section(title="Notes", items=[Item(sentence(note)) for note in notes])] if notes else []


def number(x: float | None, log: Mapping[str, Any] = NO_UNIT, sign: str = "") -> str:
    """Four digits, or as the unit of the log's reward has it; a dash where it is not known."""
    return "–" if x is None or x != x else figure(x, log, sign).replace("-", "\u2212")


def signed_number(x: float | None, log: Mapping[str, Any] = NO_UNIT) -> str:
    """A difference with its sign."""
    return number(x, log, "+")


def percent(x: float | None) -> str:
    """A share; small ones keep a digit."""
    if x is None or x != x:
        return "–"
    if 0 < x < 0.0005:
        return "< 0.1%"
    return f"{x:.1%}" if 0 < x < 0.1 else f"{x:.0%}"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("surefoot.report", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    folder = resources.files("surefoot.report") / "pages"
    for name in ("style.css", "script.js"):
        made.globals[name.replace(".", "_")] = Markup((folder / name).read_text("utf-8"))
    return made
