"""Names: what states and actions are called in sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, repr=False)
class Names:
    """Labels in the order of the codes, as a log has them; without labels the codes themselves
    are the names.
    """

    states: tuple[Any, ...] = ()
    actions: tuple[Any, ...] = ()

    def state(self, s: Any) -> str:
        """A state in a sentence: 'x=2 y=1', or its code."""
        return _named(self.states, int(s))

    def action(self, a: Any) -> str:
        """An action in a sentence."""
        return _named(self.actions, int(a))

    def pair(self, s: Any, a: Any) -> str:
        """An action in a state, in a sentence."""
        return f"action {self.action(a)} in state {self.state(s)}"


def as_text(label: Any) -> str:
    """A label as a file holds it; several columns joined by commas."""
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _named(labels: tuple[Any, ...], code: int) -> str:
    return repr(as_text(labels[code])) if labels else str(code)
