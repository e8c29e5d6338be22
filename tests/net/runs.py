"""Golden runs: commands on small logs in this process, and how what they print is kept and
compared.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from support.logfiles import validated
from support.net_logs import LOGS
from surefoot.core.errors import SurefootError

FOLDER = Path(__file__).parent / "golden"
CLOSE = 1e-9  # relative: another BLAS sums in another order
# what depends on the machine, the folder or the version
MACHINE = {"surefoot", "versions", "files", "path", "source", "fingerprint", "command", "file"}
MACHINE |= {
    "training",
    "training_fingerprints",
    "state_file",
    "policy_file",
    "seconds",
    "fingerprints",
}
LONGEST, SHOWN = 40, 3  # lists beyond the one, and every curve, keep so many entries
TABLES = ("policy.csv", "policy-all.csv", "candidate.csv", "changes.csv")


@cache
def _command() -> Any:
    """The command line, made once."""
    from typer.main import get_command

    from surefoot.cli import app

    return get_command(app)


def answer(arguments: list[str]) -> tuple[int, str]:
    """(exit code, the document that is printed) of a command line; it fits its model."""
    said = io.StringIO()
    with (
        redirect_stdout(said),
        redirect_stderr(io.StringIO()),
        patch.dict(os.environ, {"COLUMNS": "100"}),
        patch("sys.argv", ["surefoot", *arguments]),
    ):
        try:
            code = _command().main(arguments, standalone_mode=False)
        except SurefootError as refused:
            return 2, json.dumps({"refused": str(refused)})
    validated(said.getvalue())
    return int(code or 0), said.getvalue()


def runs(name: str, folder: Path) -> dict[str, Any]:
    """What each command says of a log, as it is kept."""
    log, found = LOGS[name], {}
    log.write(folder)
    with chdir(folder):
        for command, more in log.runs.items():
            shared = _accepted(command, log.shared)
            files = {"improve": ("--no-report", "--out", "out"), "tune": ("--out", "tune.json")}
            line = [command, log.log, *shared, *more, *files.get(command, ()), "--json"]
            code, text = answer(line)
            found[command] = {"exit": code} | kept(json.loads(text))
            if (folder / "out").exists() and command == "improve":
                found[command]["tables"] = _tables(folder / "out")
    return found


def _accepted(command: str, shared: tuple[str, ...]) -> tuple[str, ...]:
    """Without the discount for `check`, which has none."""
    taken = {x for p in _command().commands[command].params for x in p.opts}
    given = list(shared)
    for i in reversed(range(len(given))):
        if given[i].startswith("--") and given[i].split("=")[0] not in taken:
            del given[i : i + 2]
    return tuple(given)


def _tables(folder: Path) -> dict[str, list[list[Any]]]:
    """The rows of the policies and changes that were written; numbers as numbers."""
    found = {}
    for path in (folder / name for name in TABLES if (folder / name).exists()):
        with open(path, newline="", encoding="utf-8") as file:
            found[path.name] = _cut([[_number(x) for x in row] for row in csv.reader(file)], path)
    return found


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def kept(said: Any, key: str = "") -> Any:
    """Without what depends on the machine; long lists are cut."""
    if isinstance(said, dict):
        return {name: kept(x, name) for name, x in said.items() if name not in MACHINE}
    if isinstance(said, list):
        return _cut([kept(x) for x in said], key)
    if isinstance(said, str) and Path(said).is_absolute():
        return Path(said).name
    return said


def _cut(items: list[Any], key: object) -> list[Any]:
    most = SHOWN if "curve" in str(key) else LONGEST
    return items if len(items) <= most else [f"{len(items)} entries", *items[:SHOWN]]


def differences(old: Any, new: Any, field: str = "") -> Iterator[str]:
    """Fields that went or changed; fields that came are none."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, value in old.items():
            inner = f"{field}.{name}" if field else name
            if name not in new:
                yield f"{inner}: was {value!r}, is gone"
            else:
                yield from differences(value, new[name], inner)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (x, y) in enumerate(zip(old, new, strict=True)):
            yield from differences(x, y, f"{field}[{i}]")
    elif not _same(old, new):
        yield f"{field}: was {old!r}, is {new!r}"


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, float) and isinstance(new, int | float) and not isinstance(new, bool):
        return math.isclose(old, new, rel_tol=CLOSE, abs_tol=1e-12)
    return type(old) is type(new) and bool(old == new)
