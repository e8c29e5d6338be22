"""A second reader of CSV logs, in plain Python and as slow as it likes: what `surefoot.logs`
must agree with.
"""

from __future__ import annotations

import csv
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

YES, NO = {"true", "t", "yes", "y", "1", "1.0"}, {"false", "f", "no", "n", "0", "0.0", ""}
END = "(end)"


@dataclass
class NaiveLog:
    """Triples with the rewards seen there, first states, rows of the file, rows that were cut
    off, and rows that ended where all other episodes are cut.
    """

    triples: dict[tuple[Any, Any, Any], list[float]] = field(
        default_factory=lambda: defaultdict(list)
    )
    starts: Counter[Any] = field(default_factory=Counter)
    rows: int = 0
    cut: int = 0
    at_limit: int = 0


class UnreadableError(Exception):
    """The file has a fault; this reader does not say which."""


def records(path: Path) -> list[list[str]]:
    """The rows of a CSV file, blank lines left out; the header is the first."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as text:
            return [row for row in csv.reader(text, strict=True) if row]
    except (csv.Error, UnicodeDecodeError) as error:
        raise UnreadableError from error


def read(path: Path, *, episode_end: str = "cut") -> NaiveLog:
    """Columns episode, time, state, action, reward and perhaps next_state, terminal;
    UnreadableError if any rule is broken.
    """
    header, *rows = records(path) or [[]]
    at = {name.strip().casefold(): i for i, name in enumerate(header)}
    if (
        any(len(row) != len(header) for row in rows)
        or not rows
        or not {"episode", "state", "action", "reward"} <= set(at)
    ):
        raise UnreadableError
    episodes: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        step: dict[str, Any] = {name: row[i] for name, i in at.items()}
        if not (step["episode"] and step["state"] and step["action"]):
            raise UnreadableError
        step["reward"] = _number(step["reward"])
        flag = step.get("terminal", "").strip().lower()
        if flag not in YES | NO:
            raise UnreadableError
        step["ends"] = flag in YES
        episodes[step["episode"]].append(step)
    log = NaiveLog(rows=len(rows))
    if "next_state" not in at and episode_end == "cut":
        _leave_out_at_limit(log, list(episodes.values()), len(rows))
    for steps in episodes.values():
        _add_episode(log, steps, "time" in at, "next_state" in at, episode_end)
    log.cut -= log.at_limit
    return log


def _leave_out_at_limit(log: NaiveLog, episodes: list[list[dict[str, Any]]], rows: int) -> None:
    """Where all episodes that do not end have one length, and none is longer: few that end there
    are taken for cut.
    """
    cut = {len(x) for x in episodes if not any(step["ends"] for step in x)}
    longest = max(map(len, episodes))
    late = [x for x in episodes if any(step["ends"] for step in x) and len(x) == longest]
    n_cut = sum(len(x) == longest for x in episodes) - len(late)
    if cut == {longest} and longest >= 2 and len(late) <= min(n_cut, 0.05 * rows):
        log.at_limit = len(late)
        for steps in late:
            for step in steps:
                step["ends"] = False


def _add_episode(
    log: NaiveLog, steps: list[dict[str, Any]], has_time: bool, given: bool, episode_end: str
) -> None:
    if has_time:
        steps = sorted(steps, key=lambda step: _moment(step["time"]))
        times = [_moment(step["time"]) for step in steps]
        if len(set(times)) < len(times):
            raise UnreadableError
    if any(step["ends"] for step in steps[:-1]):
        raise UnreadableError
    used = 0
    for i, step in enumerate(steps):
        last = i == len(steps) - 1
        follow = step.get("next_state") if given else None if last else steps[i + 1]["state"]
        ends = step["ends"] or (episode_end == "terminal" and (not follow if given else last))
        if given and not last and follow and follow != steps[i + 1]["state"]:
            raise UnreadableError
        if not follow and not ends:
            if given:
                raise UnreadableError
            log.cut += 1
            continue
        if given and not follow and not last:
            raise UnreadableError
        log.triples[step["state"], step["action"], follow or END].append(step["reward"])
        log.starts[step["state"]] += i == 0
        used += 1


def _moment(text: str) -> float:
    """A time: any finite number, or a date."""
    try:
        found = float(text)
    except ValueError:
        try:
            return datetime.fromisoformat(text.strip()).replace(tzinfo=UTC).timestamp()
        except ValueError as error:
            raise UnreadableError from error
    if not math.isfinite(found):
        raise UnreadableError
    return found


def _number(text: str) -> float:
    try:
        found = float(text)
    except ValueError as error:
        raise UnreadableError from error
    if not math.isfinite(found) or abs(found) > 1e60:
        raise UnreadableError
    return found
