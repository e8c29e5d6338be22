"""Databases that run SQL in tests: DuckDB, SQLite, and a PostgreSQL of our own."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

Columns = Mapping[str, tuple[str, Sequence[Any]]]  # {name: (text, number or whole, values)}
TYPES = {"text": "text", "number": "double precision", "whole": "bigint"}


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Database:
    """A table of rows, and what SQL says of each."""

    dialect = ""

    def asked(self, columns: Columns, *expressions: str) -> list[Any]:
        """The values of the expressions of each row, in order; of a single one bare."""
        n = len(next(iter(columns.values()))[1])
        whole = {**columns, "row n": ("whole", range(n))}
        names = ", ".join(f"{quoted(x)} {TYPES[kind]}" for x, (kind, _) in whole.items())
        rows = list(zip(*(x for _, x in whole.values()), strict=True))
        given = ", ".join(f"({x}) as e{i}" for i, x in enumerate(expressions))
        found = self.rows(
            f"create table t ({names})", rows, f"select {given} from t order by {quoted('row n')}"
        )
        return [x[0] if len(expressions) == 1 else tuple(x) for x in found]

    def rows(self, table: str, rows: list[Any], query: str) -> list[Any]:
        raise NotImplementedError


class DuckDB(Database):
    dialect = "duckdb"

    def rows(self, table: str, rows: list[Any], query: str) -> list[Any]:
        with tempfile.TemporaryDirectory() as folder, duckdb.connect() as con:
            con.execute(table)
            path = Path(folder) / "rows.csv"
            path.write_text(as_csv(rows))
            con.execute(f"copy t from '{path}' (header false, allow_quoted_nulls false)")
            return con.execute(query).fetchall()


class SQLite(Database):
    dialect = "sqlite"

    def rows(self, table: str, rows: list[Any], query: str) -> list[Any]:
        con = sqlite3.connect(":memory:")
        con.execute(table)
        con.executemany(f"insert into t values ({', '.join('?' * len(rows[0]))})", rows)
        found = con.execute(query).fetchall()
        con.close()
        return found


def as_csv(rows: list[Any]) -> str:
    """Rows in which NULL is an empty field, and all else is quoted."""
    lines = (",".join("" if x is None else quoted(str(x)) for x in row) for row in rows)
    return "\n".join(lines) + "\n"


class PostgreSQL(Database):
    """A cluster in a folder of its own, without a network, of a user who is not root."""

    dialect = "postgres"

    def __init__(self, folder: Path) -> None:
        self.folder, self.user = folder, "postgres" if os.getuid() == 0 else None
        if self.user:
            shutil.chown(folder, self.user)
        self.run(
            "initdb", "-D", f"{folder}/data", "-A", "trust", "-U", "tester", "-E", "UTF8", "-N"
        )
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        self.run(
            "pg_ctl", "start", "-w", "-D", f"{folder}/data", "-l", f"{folder}/log", "-o", options
        )

    def run(self, program: str, *words: str, given: str | None = None) -> str:
        done = subprocess.run(
            [str(binary(program)), *words],
            input=given, capture_output=True, text=True, user=self.user, cwd=self.folder,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    def rows(self, table: str, rows: list[Any], query: str) -> list[Any]:
        say = ("-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", str(self.folder), "-U",
               "tester", "-d", "postgres")  # fmt: skip
        self.run("psql", *say, given=f"drop table if exists t; {table};")
        self.run("psql", *say, "-c", "copy t from stdin (format csv)", given=as_csv(rows))
        found = self.run("psql", *say, given=f"select to_json(d) from ({query}) d;")
        return [list(json.loads(x).values()) for x in found.splitlines()]

    def stop(self) -> None:
        self.run("pg_ctl", "stop", "-D", f"{self.folder}/data", "-m", "immediate")


def binary(program: str) -> Path | None:
    """A program of PostgreSQL; Debian has most of them in a folder of their version."""
    places = [Path(x) for x in (shutil.which(program),) if x]
    places += sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    return places[-1] if places else None


def postgresql() -> Iterator[PostgreSQL]:
    """A cluster; SUREFOOT_POSTGRESQL=required makes a missing one a failure."""
    if not all(map(binary, ("initdb", "pg_ctl", "psql"))):
        required = os.environ.get("SUREFOOT_POSTGRESQL") == "required"
        (pytest.fail if required else pytest.skip)("needs PostgreSQL: apt-get install postgresql")
    with tempfile.TemporaryDirectory(prefix="surefoot") as folder:
        found = PostgreSQL(Path(folder))
        yield found
        found.stop()
