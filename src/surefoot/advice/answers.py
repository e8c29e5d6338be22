"""Answers: what a question found, as data for machines (the document that --json prints) and in
words for people.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from surefoot.core.atomic import write_whole
from surefoot.core.plain_values import Shown, as_document


class Answer(Shown, ABC):
    """What a question found; it prints as the command does, and shows itself in a notebook."""

    command: ClassVar[str]

    if TYPE_CHECKING:  # a field, or computed when it is asked for

        @property
        def document(self) -> Mapping[str, Any]:
            """Everything that was found; docs/json.md has the fields."""

    @abstractmethod
    def said(self, document: Mapping[str, Any], *, explain: bool = False) -> str:
        """What is said of its document, with what a command has beside it, for people; `explain`:
        all of it.
        """

    def to_dict(self) -> dict[str, Any]:
        """What the command prints with --json; NaN and infinities are None."""
        return as_document(self.command, self.document)

    def to_json(self) -> str:
        """The same as text, in ASCII."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def explain(self) -> str:
        """All that is said of it, as with --explain."""
        return self.said(self.document, explain=True)

    def __str__(self) -> str:
        return self.said(self.document)

    def _facts(self) -> dict[str, Any]:
        return {"command": self.command}

    def _words(self) -> tuple[str, str]:
        return str(self), self.explain()


class Paged(Answer):
    """An answer with a page for people."""

    @abstractmethod
    def page(self) -> str:
        """The page, one HTML file."""

    def report(self, path: str | Path) -> Path:
        """Write the page, whole or not at all."""
        return write_whole(path, self.page())
