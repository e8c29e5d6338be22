"""Pages made of sections: what `check`, `compare`, `tune`, `safety-test` and studies say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from surefoot.report.page import made_by, render
from surefoot.report.statements import sentence


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
