"""Watching: the safety test as an any-time test over a growing log, its capital kept in a file.

Each look takes the finished episodes that are new, in the order in which they began, up to the
first that is not finished: to take those that happen to be over would favour short ones. Those that
it takes are bet on in the order of time, where there is one; those of which neither came first, in
an order drawn by lots: a file may be sorted by what was done or by what came of it, and a capital
that bets on all good ones first would win. The capital (`surefoot.statistics.bounds`) may be
looked at after every episode, so after every look.
"""

from __future__ import annotations

import base64
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from surefoot.advice.provenance import Fingerprints, fingerprints, shared_episodes
from surefoot.advice.safety import MOSTLY
from surefoot.advice.verdict import FAILS, NO_EVIDENCE, PASSES
from surefoot.checks.time_order import BY_TIME, like_dates, row_stamps
from surefoot.core import Batch
from surefoot.core.atomic import file_hash, read_json, settle, take, write_whole
from surefoot.core.errors import LogError, ParameterError, ProblemError
from surefoot.core.text import plural
from surefoot.evidence.episode_values import LOSS, Standard, episode_values
from surefoot.evidence.estimates import EpisodeValues
from surefoot.evidence.units import take_episodes
from surefoot.logs import Log
from surefoot.statistics.bounds import Capital, capital_of

SCHEMA = "surefoot/watch-state/1"
LOTS = 1  # where lots are drawn from
BY_CLOCK = "in the order of their times"
BY_LOTS = "in an order drawn by lots: their times do not say which came first"
FILE = 1 << 40  # rows of a file that a place leaves room for


@dataclass(frozen=True, kw_only=True, repr=False)
class Settled(ABC):
    """What every kind of watch keeps from look to look.

    parameters        what must not change: policy, baseline, gamma, ranges, ...
    labels, contents  64 and 32 bit hashes of the episodes that are settled: counted, or left out
    """

    parameters: Mapping[str, Any]
    labels: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    contents: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.uint32))
    looks: int = 0

    @abstractmethod
    def save(self, path: str | Path) -> Path:
        """Write it as a JSON file, whole or not at all."""

    def write(self, path: str | Path, schema: str, **own: Any) -> Path:
        """Write it with what a kind of watch has of its `own`."""
        content = {
            "schema": schema,
            "parameters": dict(self.parameters),
            "looks": self.looks,
            "episodes": {"labels": packed(self.labels), "contents": packed(self.contents)},
            **own,
        }
        return write_whole(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


Kept = TypeVar("Kept", bound=Settled)


@dataclass(frozen=True, kw_only=True, repr=False)
class Watch(Settled):
    """What has been counted.

    gain, loss        the capital of the two tests, each at delta / 2
    moments           what the estimated gain is made from (`_moments`), of the episodes counted;
                      None where there are none, or a file of an earlier version does not have it
    """

    gain: Capital = field(default_factory=Capital)
    loss: Capital = field(default_factory=Capital)
    moments: np.ndarray | None = None

    @property
    def verdict(self) -> str:
        """PASSES, FAILS or NO_EVIDENCE; what was shown once stays shown, and a loss outweighs."""
        if self.loss.reached_at is not None:
            return FAILS
        return PASSES if self.gain.reached_at is not None else NO_EVIDENCE

    def save(self, path: str | Path) -> Path:
        """Write it as a JSON file."""
        moments = None if self.moments is None else self.moments.tolist()
        capital = {"gain": self.gain.document(), "loss": self.loss.document()}
        return self.write(path, SCHEMA, moments=moments, **capital)


def load_watch(path: str | Path, parameters: Mapping[str, Any]) -> Watch:
    """The watch in a file, or a new one where there is none; raise if it was begun with other
    parameters.
    """
    return kept_in(path, parameters, SCHEMA, _watch_of) or Watch(parameters=parameters)


def _watch_of(content: Mapping[str, Any]) -> Watch:
    return Watch(
        gain=capital_of(content["gain"]),
        loss=capital_of(content["loss"]),
        moments=_matrix(content.get("moments")),
        **settled_of(content),
    )


def settled_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """What every kind of watch keeps, of what was read from JSON."""
    found = {
        "parameters": content["parameters"],
        "labels": unpacked(content["episodes"]["labels"], np.dtype(np.uint64)),
        "contents": unpacked(content["episodes"]["contents"], np.dtype(np.uint32)),
        "looks": int(content["looks"]),
    }
    if len(found["labels"]) != len(found["contents"]):
        raise ProblemError("there are not as many labels as contents")
    return found


def kept_in(
    path: str | Path,
    parameters: Mapping[str, Any],
    schema: str,
    made_of: Callable[[Mapping[str, Any]], Kept],
) -> Kept | None:
    """What a state file has, None where there is none; raise if it was begun with other
    parameters.
    """
    path = Path(path)
    if not path.exists():
        return None
    try:
        content = read_json(path)
        if content["schema"] != schema:
            raise ParameterError(
                f"{path} has the schema {content['schema']!r}, this version of surefoot reads"
                f" {schema} here: begin anew with another --state-file"
            )
        begun = content["parameters"]
        found = made_of(content)
    except (OSError, ValueError, KeyError, TypeError, ProblemError) as error:
        raise ParameterError(
            f"{path} cannot be read as the state of a watch ({type(error).__name__}: {error}):"
            " restore it, or begin anew with another --state-file"
        ) from error
    now = json.loads(json.dumps(dict(parameters)))
    differs = [x for x in {**begun, **now} if not _alike(begun.get(x), now.get(x))]
    if differs:
        key = differs[0]
        raise ParameterError(
            f"{path} was begun with another {key.replace('_', ' ')} ({_told(begun, key)}, now"
            f" {_told(now, key)}): what was counted does not speak about it. Begin anew with"
            " another --state-file"
        )
    return found


def kept_looks(path: Path) -> int:
    """How many looks a state file has counted; 0 where there is none."""
    return int(read_json(path)["looks"]) if path.exists() else 0


def _told(parameters: Mapping[str, Any], key: str) -> str:
    """What was said, or that nothing was."""
    return repr(parameters[key]) if key in parameters else "as it is unless said"


def _alike(one: Any, other: Any) -> bool:
    """Whether two options say the same: "0.0,1.0" is "0,1", and "x, y" is "x,y"."""
    if not (isinstance(one, str) and isinstance(other, str)):
        return bool(one == other)
    pair = [[x.strip() for x in words.split(",")] for words in (one, other)]
    with suppress(ValueError):
        return [float(x) for x in pair[0]] == [float(x) for x in pair[1]]
    return pair[0] == pair[1]


@contextmanager
def alone(path: str | Path) -> Iterator[None]:
    """While this lasts, no other watch counts with the same file: two at once would lose a look."""
    path = Path(path)
    lock = path.with_name(f".{path.name}.lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        held = take(lock, make=True)
    except OSError:  # no locks here, or no place to write: saving says so
        yield
        return
    if held is None:
        raise ParameterError(
            f"another watch is counting with {path} at this moment: look again when it is done"
        )
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(held)


def file_digest(path: str | Path) -> str:
    """What a policy file is known by."""
    if not Path(path).exists():
        settle(Path(path).parent)
    try:
        return file_hash(Path(path))[:16]
    except OSError as error:
        raise ParameterError(f"{path} cannot be read: {error.strerror or error}") from error


def look(
    watch: Watch,
    log: Log,
    batch: Batch,
    pi: np.ndarray,
    pi_b: np.ndarray,
    gamma: float,
    standard: Standard,
    trained: Fingerprints | None = None,
) -> tuple[Watch, dict[str, Any]]:
    """(the watch after the episodes of the log that are new, what is said of these): how many were
    counted; left out, since the policy was made from them; wait, since they, or one that began
    before them, are not finished; and in which order they were bet on.
    """
    after, new = newcomers(watch, log, batch, standard.horizon, trained)
    if not len(new.counted):
        return after, new.found
    return _bet(after, batch, new.counted, pi, pi_b, gamma, standard), new.found


@dataclass(frozen=True, repr=False)
class Newcomers:
    """The episodes that a look adds.

    counted  those that count, in the order in which they are bet on
    came     all episodes of the log
    found    what is said of them
    """

    counted: np.ndarray
    came: Arrivals
    found: dict[str, Any]


def newcomers(
    watch: Kept,
    log: Log,
    batch: Batch,
    horizon: int | None,
    trained: Fingerprints | None,
    aside: np.ndarray | None = None,
) -> tuple[Kept, Newcomers]:
    """(the watch that has settled them, the episodes of a log that it had not settled, up to the
    first that is not finished); those put `aside` neither count nor hold up others.
    """
    came = arrivals(log, batch, horizon)
    aside = np.zeros(batch.n_episodes, dtype=bool) if aside is None else aside
    _check_ends(came)
    _check_whole(log, batch, replace(came, over=came.over & ~aside))
    came = replace(came, over=came.over | aside)
    prints = fingerprints(log, batch)
    content = (prints.content & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    new = _new(watch, prints.label, content)
    waits = np.flatnonzero(new[came.order] & ~came.over[came.order])
    reached = came.order[: waits[0]] if len(waits) else came.order
    taken = reached[new[reached]]
    later = new & ~aside
    later[taken] = False
    left_out = _left_out(log, batch, came, trained) & ~aside
    taken = taken[~aside[taken]]  # the others may go on, and are never settled
    counted = _in_turn(taken[~left_out[taken]], came, watch.looks)
    first = min(came.began[later].astype(float).min(initial=np.inf), came.until)
    after = replace(
        watch,
        labels=np.append(watch.labels, prints.label[taken]),
        contents=np.append(watch.contents, content[taken]),
        looks=watch.looks + 1,
    )
    return after, Newcomers(
        counted=counted,
        came=came,
        found={
            "episodes_new": len(counted),
            "order": BY_CLOCK if came.timed else BY_LOTS,
            "episodes_waiting": int(later.sum()) + came.stepless,
            "episodes_held_up": int((later & came.finished).sum()),
            "waits_since": date_of(float(first)) if came.dated else None,
            "episodes_left_out": int(left_out[taken].sum()),
        },
    )


def date_of(stamp: float) -> str | None:
    """Seconds since 1970 as a date."""
    if not math.isfinite(stamp):
        return None
    return datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%d %H:%M")


def _in_turn(episodes: np.ndarray, came: Arrivals, look: int) -> np.ndarray:
    """The episodes in the order in which they are bet on, the same for the same log and look."""
    lots = np.random.default_rng([LOTS, look]).permutation(len(episodes))
    at = came.began[episodes] if came.timed else np.zeros(len(episodes))
    return episodes[np.lexsort((lots, at))]


def _bet(
    watch: Watch,
    batch: Batch,
    counted: np.ndarray,
    pi: np.ndarray,
    pi_b: np.ndarray,
    gamma: float,
    standard: Standard,
) -> Watch:
    """The watch after these episodes, in this order."""
    mask = np.zeros(batch.n_episodes, dtype=bool)
    mask[counted] = True
    part = take_episodes(batch, mask)
    rank = np.searchsorted(np.flatnonzero(mask), counted)  # their places in the part
    gain = episode_values(part, pi, pi_b, gamma, standard)
    loss = episode_values(part, pi, pi_b, gamma, standard, quantity=LOSS)
    if not (gain.declared and loss.declared):
        raise ParameterError(
            "a watch needs to know how bad an episode can be before it begins: declare all possible"
            " rewards (--reward-range)"
        )
    alpha, known = standard.delta / 2, watch.moments
    new = _moments(gain)
    adds_up = known is not None and known.shape == new.shape
    return replace(
        watch,
        moments=known + new if known is not None and adds_up else None if watch.gain.n else new,
        gain=watch.gain.after(gain.x[rank], gain.lo, alpha),
        loss=watch.loss.after(loss.x[rank], loss.lo, alpha),
    )


def _moments(values: EpisodeValues) -> np.ndarray:
    """Z' Z, Z = [1, value, shifts] of every episode: those of two looks add up."""
    shifts = values.shifts
    if shifts is None or not np.isfinite(shifts).all():
        shifts = np.zeros((len(values.x), 0))
    z = np.column_stack([np.ones(len(values.x)), values.x, shifts])
    return np.asarray(z.T @ z)


def _estimate(moments: np.ndarray) -> float:
    """The estimated gain, as `EpisodeValues.estimate` has it, from what adds up from look to look;
    that keeps half of the digits, so the other one regresses on the values themselves.
    """
    mean = moments[0] / moments[0, 0]
    spread = moments / moments[0, 0] - np.outer(mean, mean)
    scale = np.sqrt(np.maximum(np.diag(spread), 0.0))
    some = np.flatnonzero(scale[2:] > 1e-9 * np.abs(mean[2:])) + 2
    inside = spread[np.ix_(some, some)] / np.outer(scale[some], scale[some])
    slope = np.linalg.lstsq(inside, spread[some, 1] / scale[some], rcond=1e-9)[0]
    return float(mean[1] - (mean[some] / scale[some]) @ slope)


def _matrix(rows: Any) -> np.ndarray | None:
    return None if rows is None else np.array(rows, dtype=float)


def _check_ends(came: Arrivals) -> None:
    """Raise where it cannot be told which episodes are finished."""
    if came.interleaved and not came.over.any():
        raise LogError(
            "the episodes of this log run side by side, and nothing says which of them are"
            " finished: give a column of flags (--terminal, --truncated), terminal states, or a"
            " --horizon; or write one episode after the other"
        )


def _check_whole(log: Log, batch: Batch, came: Arrivals) -> None:
    """Raise where the last row of a finished episode is left out: where it was cut may have to do
    with that row, and whether it is left out with episodes to come.
    """
    reading = log.stored
    if reading.given or reading.options.episode_end == "terminal":
        return
    lost = int((came.over & ~batch.ends[batch.last]).sum())
    if lost:
        raise LogError(
            f"the last rows of {plural(lost, 'finished episode')} are left out, as without"
            " next_state nothing is known to follow them. Whole episodes are compared, so nobody"
            " needs to know: watch with --episode-end terminal (and, if this watch was begun"
            " without, another --state-file)"
        )


def _new(watch: Settled, labels: np.ndarray, contents: np.ndarray) -> np.ndarray:
    """Which episodes are not settled; raise if a settled one has changed since."""
    order = np.argsort(watch.labels, kind="stable")
    if not len(order):
        return np.ones(len(labels), dtype=bool)
    place = order[np.minimum(np.searchsorted(watch.labels[order], labels), len(order) - 1)]
    settled: np.ndarray = watch.labels[place] == labels
    changed = settled & (watch.contents[place] != contents)
    if changed.any():
        raise LogError(
            f"{int(changed.sum()):,} episodes that were counted have other rows now: they were not"
            " over yet (say which are with --terminal, --truncated or --horizon), or the log was"
            " changed, or its episodes are named anew (names, with the time of the first row, must"
            " be unique for ever). Begin anew with another --state-file"
        )
    return ~settled


def _left_out(log: Log, batch: Batch, came: Arrivals, trained: Fingerprints | None) -> np.ndarray:
    """Which episodes the policy was made from; raise if it cannot be told, or if nearly all are."""
    found = np.zeros(batch.n_episodes, dtype=bool)
    if trained is None or not came.over.any():
        return found
    shared = shared_episodes(fingerprints(log, take_episodes(batch, came.over)), trained)
    if shared.trouble or shared.left_out.mean() >= MOSTLY:
        why = shared.trouble or "they are those, or have the names of those"
        raise LogError(
            f"about {max(shared.share, float(shared.left_out.mean())):.0%} of the episodes were"
            f" used for the policy ({why}): watch it on data it was not made from"
        )
    found[np.flatnonzero(came.over)[shared.left_out]] = True
    return found


def watch_summary(watch: Watch, found: Mapping[str, Any], delta: float) -> dict[str, Any]:
    """A watch, and what a look `found`, as data for machines."""
    mean = None if watch.moments is None else _estimate(watch.moments)
    sides = {
        name: {
            "capital": math.exp(min(side.now, 700.0)),
            "highest": math.exp(min(side.highest, 700.0)),
            "reached_at_episode": side.reached_at,
        }
        for name, side in (("gain", watch.gain), ("loss", watch.loss))
    }
    notes = []
    if watch.gain.reached_at is not None and watch.loss.reached_at is not None:
        notes.append(
            f"both were shown: better at episode {watch.gain.reached_at:,}, worse at episode"
            f" {watch.loss.reached_at:,}. In a world that stays the same this hardly happens: it"
            " has changed, or episodes depend on each other"
        )
    return {
        "verdict": watch.verdict,
        "delta": delta,
        "delta_of_each_test": delta / 2,
        "capital_needed": 2 / delta,
        **sides,
        "estimated_gain": mean,
        "episodes_counted": watch.gain.n,
        **found,
        "looks": watch.looks,
        "notes": notes,
    }


def packed(x: np.ndarray) -> str:
    """Numbers as text."""
    return base64.b64encode(x.astype(x.dtype.newbyteorder("<")).tobytes()).decode()


def unpacked(text: str, kind: np.dtype[Any]) -> np.ndarray:
    """Text as numbers."""
    found = np.frombuffer(base64.b64decode(text, validate=True), dtype=kind.newbyteorder("<"))
    return found.astype(kind)


@dataclass(frozen=True, repr=False)
class Arrivals:
    """The episodes of a log in the order in which they began (`order`); whether each, by its number
    in the log, is over: finished, with none before it of which no step is known yet.

    timed         whether that is the order of their times; else it is that of their first rows in
                  the files, which may be sorted by what happened
    began         when each of them began: equal where neither came first
    interleaved   whether rows of different episodes are mixed in the files
    stepless      how many unfinished episodes have no step yet: one row, which leads nowhere
    finished      whether each episode is finished, whatever began before it
    until         when the first episode without a step began; inf: all have one
    dated         whether these times are dates, as seconds since 1970
    told          whether a row, a state or a horizon says that an episode is over: not only that
                  another one follows it in the file
    """

    order: np.ndarray
    over: np.ndarray
    timed: bool
    began: np.ndarray
    interleaved: bool
    stepless: int
    finished: np.ndarray
    until: float
    dated: bool
    told: bool


def arrivals(log: Log, batch: Batch, horizon: int | None = None) -> Arrivals:
    """The order in which episodes began: by their times, where these tell which of two came first
    (`row_stamps`), else in the files, whatever their rows were sorted by.

    An episode is finished if its last row is flagged terminal or truncated, leads into a terminal
    state, or is the last possible one (`horizon`). If the files have one episode after the other,
    so is every episode after which another one began. With episode_end="terminal" the end is what
    a file happens to end with: it finishes nothing, but for flags.
    """
    place, episode, over = _rows(log)
    first = np.flatnonzero(np.diff(episode, prepend=-1))
    began = np.minimum.reduceat(place, first)
    walk = episode[np.argsort(place, kind="stable")]
    interleaved = int((np.diff(walk) != 0).sum()) + 1 > len(first)
    mine = episode[batch.row[batch.first]]
    finished = np.logical_or.reduceat(over, first)
    if log.stored.options.episode_end == "cut":
        finished[mine] |= batch.ends[batch.last]
    if horizon is not None:
        finished[mine] |= batch.time[batch.last] + 1 >= horizon
    finished |= log.bandit
    told = bool(finished.any())
    if not interleaved:
        finished[np.arange(len(first)) != began.argmax()] = True
    stepless = ~finished
    stepless[mine] = False
    words, stamps, _ = row_stamps(log)
    timed = words == BY_TIME and stamps is not None
    if timed:
        assert stamps is not None
        began = np.minimum.reduceat(stamps, first)
    until = began[stepless].min() if stepless.any() else np.inf
    return Arrivals(
        order=np.argsort(began[mine], kind="stable"),
        over=finished[mine] & (began[mine] < until),
        timed=timed,
        began=began[mine],
        interleaved=interleaved,
        stepless=int(stepless.sum()),
        finished=finished[mine],
        until=float(until),
        dated=timed and (log.stored.dated or like_dates(began)),
        told=told,
    )


def _rows(log: Log) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of every row of the log, in the order of its row numbers: where it lies in the files it came
    from, its episode (episodes are numbered as they lie), and whether it is flagged truncated, or
    terminal.
    """
    reading, parts = log.stored, []
    number = {file: i for i, file in enumerate(reading.store.names)}
    with log.database() as database:
        for file in reading.store.files:
            part = replace(reading, store=replace(reading.store, files=(file,)))
            flags = f"{part.flagged('terminal')} or {part.flagged('truncated')}"
            sql = f"""select x.at, x.file, x.row, hash(x.episode) as h, {flags} as over
                      from {part.steps(all_columns=True)} x"""
            rows = database.arrays("reading the order of rows", sql)
            order = np.argsort(rows["at"], kind="stable")
            files, which = np.unique(rows["file"].astype(str), return_inverse=True)
            base = np.array([number[x] * FILE for x in files], dtype=np.int64)
            place = base[which] + np.asarray(rows["row"], dtype=np.int64)
            parts.append([x[order] for x in (place, rows["h"], np.ma.filled(rows["over"], False))])
    place, h, over = (np.concatenate(x) for x in zip(*parts, strict=True))
    return place, np.cumsum(np.append(True, h[1:] != h[:-1])) - 1, np.asarray(over, dtype=bool)
