"""Small tables beside a log, such as a baseline or a list of allowed actions: their columns by
role, in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from surefoot.core.labels import nearest
from surefoot.errors import LogError
from surefoot.logs.database import Database, Workspace, name_sql, path_sql
from surefoot.logs.sources import find_source
from surefoot.logs.store import header_of, read_text, text_trouble


def read_table(source: Any, roles: Mapping[str, Sequence[str]]) -> list[tuple[Any, ...]]:
    """The rows of a file or table: one value for each role, a tuple where a role has several
    columns.

    Each role comes with the names its columns may have: one of them is looked for; several columns
    are one name joined by commas.
    """
    found = find_source(source)
    workspace = Workspace()
    try:
        with Database(workspace) as database:
            if found.kind == "table":
                database.connection.register("given_table", found.table)
                where, names = "given_table", _described(database, "given_table")
                physical = {name: name_sql(name) for name in names}
            elif found.kind == "csv":
                delimiter, names = header_of(found.files[0])
                where = read_text(found.files[:1], delimiter, len(names))
                physical = {name: f"c{i}" for i, name in enumerate(names)}
            else:
                where = f"read_parquet({path_sql(found.files[0])})"
                names = _described(database, where)
                physical = {name: name_sql(name) for name in names}
            if len(found.files) > 1:
                raise LogError(f"one file was expected, got {len(found.files)}")
            columns = [_columns(role, wanted, names, found.name) for role, wanted in roles.items()]
            chosen = ", ".join(physical[name] for group in columns for name in group)
            try:
                rows = database.rows(f"reading {found.name}", f"select {chosen} from {where}")
            except LogError as error:
                raise LogError(text_trouble(found.name, str(error))) from error
    finally:
        workspace.close()
    return [tuple(_grouped(row, [len(group) for group in columns])) for row in rows]


def _described(database: Database, where: str) -> list[str]:
    return [
        str(row[0]) for row in database.rows("reading the table", f"describe select * from {where}")
    ]


def _columns(role: str, wanted: Sequence[str], names: Sequence[str], where: str) -> list[str]:
    """The columns of a role: the first of the wanted names (or lists of names) that the table
    has.
    """
    for choice in wanted:
        parts = [choice] if choice in names else [part.strip() for part in choice.split(",")]
        if all(part in names for part in parts):
            return parts
    raise LogError(
        f"{where} has no column {wanted[0]!r} for the {role}; {nearest(wanted[0], names)}"
    )


def _grouped(row: tuple[Any, ...], sizes: Iterable[int]) -> Iterable[Any]:
    start = 0
    for size in sizes:
        yield row[start] if size == 1 else row[start : start + size]
        start += size
