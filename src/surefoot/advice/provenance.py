"""Provenance: fingerprints of the episodes a policy was made from, which episodes of another log
are among them, and which log that was, as the files beside the policy say.

An episode has a label (its name and the time of its first row) and a content (states, actions and
rewards in order). Content that happens once in a log tells an episode apart, whatever it is called.
Content that happens often ("ward a, old, 0") tells nothing by itself: honest logs of few states
share it. So every finding is compared with what chance explains: how often the content of an
episode occurs in other episodes of the same log, and how often two episodes that start alike have
the same content.
"""

from __future__ import annotations

import hashlib
import io
import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.advice.posing import Posed
from surefoot.checks.completeness import mixed
from surefoot.core import Batch
from surefoot.core.atomic import read_json
from surefoot.core.errors import NotAvailableError, ParameterError, PolicyError
from surefoot.core.labels import as_text
from surefoot.logs import Log
from surefoot.report.folder import SUMMARY, TRAINING

NO_FILE = "the policy is no file, so that nothing lies beside it"
MOST_ROWS = 20_000_000  # of a larger log no fingerprints are kept
PIECE = 20  # rows: a longer episode is compared piece by piece
COINCIDENCE = 1e-5  # probability below which a coincidence of two logs is none
# share of episodes with the content of another up to which content alone tells which episodes are
# the same
DISTINCT = 0.01
FOLD = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2^64


@dataclass(frozen=True, repr=False)
class Fingerprints:
    """64-bit hashes of the n episodes of a log: label, content and first state of each; at most 24
    bytes a row in all.

    piece, of   of episodes longer than PIECE rows: all pieces of PIECE rows in a row, and the
                episode of each; a shorter episode is one piece, its content
    """

    label: np.ndarray
    content: np.ndarray
    head: np.ndarray
    piece: np.ndarray
    of: np.ndarray

    def __len__(self) -> int:
        return len(self.label)

    @cached_property
    def pieces(self) -> tuple[np.ndarray, np.ndarray]:
        """(all pieces, the episode of each)."""
        short = np.setdiff1d(np.arange(len(self)), self.of)
        return np.append(self.content[short], self.piece), np.append(short, self.of)

    @cached_property
    def repeated(self) -> float:
        """The share of episodes most of whose pieces occur in other episodes: as likely is it
        that a new episode has been seen.
        """
        hashes, of = self.pieces
        _, inverse = np.unique(hashes, return_inverse=True)
        order = np.lexsort((of, inverse))
        edge = np.flatnonzero(np.diff(inverse[order], prepend=-1))
        several = of[order][edge] < of[order][np.append(edge[1:], len(of)) - 1]
        return float(self._mostly(several[inverse]).mean())

    def seen_in(self, other: Fingerprints) -> np.ndarray:
        """Which episodes have most of their pieces in the other log."""
        return self._mostly(np.isin(self.pieces[0], other.pieces[0]))

    def _mostly(self, flags: np.ndarray) -> np.ndarray:
        """Which episodes have the flag on at least half of their pieces."""
        _, of = self.pieces
        return np.asarray(
            2 * np.bincount(of, weights=flags, minlength=len(self))
            >= np.bincount(of, minlength=len(self))
        )


@dataclass(frozen=True, repr=False)
class Shared:
    """Which tested episodes are to be left out, the share found to be in both logs, and why
    nothing can be tested ("" where it can).
    """

    left_out: np.ndarray
    share: float
    trouble: str = ""


def can_be_told(log: Log) -> bool:
    """Whether a log has fingerprints: its rows are there in order, and not too many to keep."""
    ordered = log.reading is not None and log.starts is not None
    return ordered and log.accounting.used <= MOST_ROWS


def fingerprints(log: Log, *batches: Batch) -> Fingerprints:
    """The fingerprints of episodes of a log, whose coded rows are in `batches`; without them, of
    all its episodes, block by block.
    """

    def hashed(labels: Sequence[Any]) -> np.ndarray:
        digests = (hashlib.blake2b(as_text(x).encode(), digest_size=8).digest() for x in labels)
        return np.array([int.from_bytes(x, "little") for x in digests], dtype=np.uint64)

    state, action = hashed(log.states), hashed(log.actions)
    parts, starts = [], []
    for batch in batches or log.blocks():
        start = np.flatnonzero(batch.first)
        rows = state[batch.state], action[batch.action], log.reward.sign * batch.reward
        parts.append(of_rows(start.astype(np.uint64), *rows, start))
        starts.append(batch.row[start])
    labels = _labels(log, np.concatenate(starts))
    cuts = np.cumsum([len(part) for part in parts])[:-1]
    parts = [replace(p, label=x) for p, x in zip(parts, np.split(labels, cuts), strict=True)]
    before = np.cumsum([0, *map(len, parts)])
    parts = [
        replace(part, of=part.of + np.int32(n)) for part, n in zip(parts, before, strict=False)
    ]
    names = [f.name for f in fields(Fingerprints)]
    return Fingerprints(*(np.concatenate([getattr(x, name) for x in parts]) for name in names))


def of_rows(
    label: np.ndarray, state: np.ndarray, action: np.ndarray, reward: np.ndarray, start: np.ndarray
) -> Fingerprints:
    """The fingerprints of episodes that begin at the rows `start` and follow each other; states
    and actions are hashes [rows].

    The hash of the rows from i to j is sum_{i <= t < j} row_t FOLD^(t - i) modulo 2^64, mixed with
    their number: whatever their place in the log, and from running sums for all pieces at once.
    """
    row = mixed(mixed(mixed(state) + action) + (reward + 0.0).view(np.uint64))  # -0.0 is 0.0
    power, inverse = (
        np.multiply.accumulate(np.append(np.uint64(1), np.full(len(row), x, dtype=np.uint64)))
        for x in (FOLD, pow(FOLD, -1, 2**64))
    )
    total = np.append(np.uint64(0), np.cumsum(row * power[:-1], dtype=np.uint64))

    def between(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return mixed((total[j] - total[i]) * inverse[i] + (j - i).astype(np.uint64))

    stop = np.append(start[1:], len(row))
    episode = np.repeat(np.arange(len(start)), stop - start)
    begin = np.flatnonzero(
        (np.arange(len(row)) + PIECE <= stop[episode]) & (stop - start > PIECE)[episode]
    )
    return Fingerprints(
        label=label,
        content=between(start, stop),
        head=state[start],
        piece=between(begin, begin + PIECE),
        of=episode[begin].astype(np.int32),
    )


def shared_episodes(tested: Fingerprints, trained: Fingerprints) -> Shared:
    """Find the episodes of `trained` in `tested`.

    1. Content that tells episodes apart: those with the pieces of a training episode are left out,
       whatever they are called.
    2. Else labels: if more episodes than chance explains have both the label and the content of a
       training episode, all whose label is known from there are left out: to choose by content
       would favour some outcomes.
    3. If what is left still resembles the training log more than chance explains, nothing can be
       tested.
    """
    none = np.zeros(len(tested), dtype=bool)
    seen = tested.seen_in(trained)
    chance = max(tested.repeated, trained.repeated, 1 / (len(trained) + 1))
    surprising = _at_least(int(seen.sum()), len(tested), chance) < COINCIDENCE
    if surprising and chance <= max(DISTINCT, 1 / (len(trained) + 1)):
        return Shared(seen, float(seen.mean()))
    known, excess = _same_names(tested, trained)
    rest = ~known
    left = int(rest.sum())
    if left and surprising and _at_least(int(seen[rest].sum()), left, chance) < COINCIDENCE:
        excess = float((seen.mean() - chance) / (1 - chance))
        return Shared(
            none,
            excess,
            "their contents are those of training episodes, more often than chance explains",
        )
    if not known.any() and _too_alike(tested.content, trained.content):
        return Shared(
            none,
            1.0,
            "each kind of episode is there as often as in the training log, more exactly than"
            " chance explains",
        )
    return Shared(known, excess)


def _same_names(tested: Fingerprints, trained: Fingerprints) -> tuple[np.ndarray, float]:
    """(the tested episodes whose label is known from training, if too many of them have the same
    content too; the share that has).

    Names may tell where an episode starts (a patient's ward), so only pairs of one name and one
    first state are compared: by chance they have the same content as often as two training episodes
    with that first state.
    """
    none = np.zeros(len(tested), dtype=bool)
    order = np.argsort(trained.label, kind="stable")
    twin = order[np.minimum(np.searchsorted(trained.label[order], tested.label), len(trained) - 1)]
    known = trained.label[twin] == tested.label
    pair = known & (trained.head[twin] == tested.head)
    if not pair.any():
        return none, 0.0
    same = trained.content[twin] == tested.content
    others, alike = _often(trained.head) - 1, _often(trained.content) - 1
    overall = (alike.sum() + 1) / (others.sum() + 2)
    here = float((alike[twin[pair]] / np.maximum(others[twin[pair]], 1)).mean())
    chance = min(max(here, float(overall)), 1 - 1 / (len(trained) + 1))
    if _at_least(int((same & pair).sum()), int(pair.sum()), chance) >= COINCIDENCE:
        return none, 0.0
    return known, float((same & pair).mean())


def _too_alike(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether two samples of few kinds agree in their counts better than independent ones do.

    By the lower tail of chi-square for large differences, and by the probability of (nearly) equal
    counts for small ones.
    """
    from scipy.special import chdtr

    kinds, inverse = np.unique(np.concatenate([x, y]), return_inverse=True)
    counts = np.stack(
        [np.bincount(part, minlength=len(kinds)) for part in np.split(inverse, [len(x)])]
    )
    often = counts.sum(axis=0) >= 10
    counts = np.concatenate(
        [counts[:, often], counts[:, ~often].sum(axis=1, keepdims=True)], axis=1
    )
    counts = counts[:, counts.sum(axis=0) > 0]
    k = counts.shape[1]
    if k < 2:
        return False
    share = counts.sum(axis=0) / counts.sum()
    n = counts.sum(axis=1, keepdims=True)
    distance = ((counts - n * share) ** 2 / (n * share)).sum()
    spread = float(n[0, 0] * (1 + n[0, 0] / n[1, 0]))
    equal = k**2 * math.exp(
        -0.5 * ((k - 1) * math.log(2 * math.pi * spread) + float(np.log(share).sum()))
    )
    return bool(chdtr(k - 1, distance) + equal < COINCIDENCE)


def _at_least(k: int, n: int, chance: float) -> float:
    """A bound on the probability of k or more of n independent events of this mean chance: exp(
    -n KL(k/n, chance) ) (Hoeffding 1963).
    """
    share = k / n if n else 0.0
    if share <= chance:
        return 1.0
    kl = share * math.log(share / chance) + (
        (1 - share) * math.log((1 - share) / (1 - chance)) if share < 1 else 0.0
    )
    return math.exp(-n * kl)


def _often(x: np.ndarray) -> np.ndarray:
    """How often each value occurs."""
    _, inverse, n = np.unique(x, return_inverse=True, return_counts=True)
    found: np.ndarray = n[inverse]
    return found


def _labels(log: Log, rows: np.ndarray) -> np.ndarray:
    """The hash of episode and time of these rows, by their numbers in `Log.blocks`."""
    reading, first = log.stored, 0
    time = ", cast(t as varchar)" if reading.time_kind else ""
    found = np.zeros(len(rows), dtype=np.uint64)
    label = f"md5_number_lower(concat_ws('|', cast(episode as varchar){time}))"
    with log.database() as database:
        for file in reading.store.files:
            part = replace(reading, store=replace(reading.store, files=(file,)))
            what, store = "reading episodes", part.store.sql
            n = int(database.rows(what, f"select count(*) from {store}")[0][0])
            mine = np.flatnonzero((first <= rows) & (rows < first + n))
            with database.table("wanted", {"i": rows[mine] - first}):
                few = "file_row_number in (select i from wanted)"
                sql = f"select x.at, {label} as label from {part.steps(where=few)} x"
                read = database.arrays(what, sql)
            order = np.argsort(read["at"], kind="stable")
            place = np.searchsorted(read["at"][order], rows[mine] - first)
            found[mine] = np.asarray(read["label"], dtype=np.uint64)[order][place]
            first += n
    return found


def as_bytes(found: Fingerprints) -> bytes:
    """The fingerprints as a file."""
    file = io.BytesIO()
    np.savez_compressed(file, **{f.name: getattr(found, f.name) for f in fields(Fingerprints)})
    return file.getvalue()


def read_fingerprints(path: Path) -> Fingerprints:
    """The fingerprints beside a policy."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as found:
            columns: dict[str, Any] = {f.name: found[f.name] for f in fields(Fingerprints)}
    except FileNotFoundError as error:
        raise NotAvailableError(f"there is no {path.name} beside the policy") from error
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise PolicyError(f"{path} cannot be read as the fingerprints of a log: {error}") from error
    return Fingerprints(**columns)


def own_log(policy: Any) -> dict[str, Any]:
    """What the summary beside a policy says of the log it was made from; {} if there is none."""
    if not isinstance(policy, (str, Path)):
        return {}
    try:
        own = read_json(Path(policy).parent / SUMMARY)["log"]
        return {
            "place": own["path"], "rows": own["rows_read"], "fingerprint": own["fingerprint"],
            "rewards": (float(own["reward_lowest"]), float(own["reward_highest"])),
        }  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def refuse_own_log(posed: Posed, policy: Any, own: dict[str, Any]) -> None:
    """Raise if the policy was made from this very log.

    It was if the content is the same, wherever the file is, or if path and number of rows are the
    same, even if it was read in another way.
    """
    here = str(Path(posed.source).resolve()), posed.log.accounting.rows
    same = own and own["fingerprint"] == posed.log.fingerprint
    if same or (own and (own["place"], own["rows"]) == here):
        raise ParameterError(
            f"{policy} was made from {posed.source} (the summary beside it says so): test it on"
            " data it was not made from"
        )


def trained_on(policy: Any) -> Fingerprints:
    """The fingerprints of the episodes that a policy file was made from; raise where there are
    none.
    """
    if not isinstance(policy, (str, Path)):
        raise NotAvailableError(NO_FILE)
    return read_fingerprints(Path(policy).parent / TRAINING)
