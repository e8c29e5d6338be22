"""Which columns of a file a policy is applied to: those of the state, and of the logged action."""

from __future__ import annotations

from collections.abc import Sequence

from surefoot.core.labels import nearest
from surefoot.encoding.features import RawRows
from surefoot.errors import LogError
from surefoot.logs.column_roles import NONE, named_as
from surefoot.serving.controller import Controller


def state_columns(controller: Controller, rows: RawRows, given: str | None) -> tuple[str, ...]:
    """The columns of the state: as named, as in the policy, or the one whose name says so."""
    wanted = controller.policy.labels.headers
    if given is not None:
        names = _named(given, rows, "state")
        if len(names) != len(wanted):
            raise LogError(
                f"a state of the policy has {len(wanted)} columns ({', '.join(wanted)}), but"
                f" {len(names)} are given ({', '.join(names)})"
            )
        return names
    if all(x in rows.names for x in wanted):
        return tuple(wanted)
    found = named_as("state", rows.names) if len(wanted) == 1 else []
    if len(found) != 1:
        lost = next(x for x in wanted if x not in rows.names)
        raise LogError(
            f"{rows.name} has no column {lost!r} for the state; {nearest(lost, rows.names)}. Name"
            " it with --state-column"
        )
    return tuple(found)


def action_columns(rows: RawRows, given: str | None) -> tuple[str, ...]:
    """The columns of the logged action; () where there are none."""
    if given == NONE:
        return ()
    if given is not None:
        return _named(given, rows, "action")
    found = named_as("action", rows.names)
    if len(found) > 1:
        raise LogError(
            f"{rows.name} has {len(found)} columns that could be the action:"
            f" {', '.join(map(repr, found[:4]))}. Name the right one with --action-column, or none"
            " with --action-column -"
        )
    return tuple(found)


def _named(given: str, rows: RawRows, role: str) -> tuple[str, ...]:
    names: Sequence[str] = [given] if given in rows.names else [x.strip() for x in given.split(",")]
    for name in names:
        if name not in rows.names:
            raise LogError(
                f"{rows.name} has no column {name!r} (given as the {role});"
                f" {nearest(name, rows.names)}"
            )
    return tuple(names)
