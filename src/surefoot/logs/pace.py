"""Pace: how long the steps of a log take, so that a reward t units of time later counts gamma^t.

Steps of unequal length make a semi-Markov decision process, whose values are those of an MDP: one
step discounts by g = gamma^(the shortest gap), and a step that takes dt goes on with the share
gamma^dt / g and ends with the rest, worth 0. docs/unequal-steps.md has the proof. That share stands
beside the rows of a Batch as `survives`; the ends go to the state "(end)".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from surefoot.core import END, Batch, Counts
from surefoot.core.errors import LogError, NotAvailableError, ProblemError, option
from surefoot.logs.accounting import AT_LIMIT, CUT
from surefoot.logs.log import Log
from surefoot.logs.query import WHOLE, Reading

SECONDS = {"s": 1.0, "min": 60.0, "hour": 3600.0, "day": 86_400.0, "week": 604_800.0}
EQUAL = 1e-9  # gaps that differ by less than this share are equal
STEPS = 2.0**32  # shares are whole multiples of 1 / STEPS, so that visits add up to whole numbers


@dataclass(frozen=True, repr=False)
class Pace:
    """How long the steps of a log take.

    base       the log without it
    unit       in words: "day", "24 units of time"
    elapsed    of every row as numbered in `Log.blocks`, in units: until the next row of its
               episode; NaN where there is none
    shortest   of these; `unequal`: they differ
    labels     with "(end)" where steps are unequal
    """

    base: Log
    unit: str
    elapsed: np.ndarray
    shortest: float
    unequal: bool
    n_states: int

    def batch(self, block: Batch) -> Batch:
        """Some whole episodes with `elapsed` beside them, and room for "(end)"."""
        beside = dict(block.beside) | {"elapsed": self.elapsed[block.row]}
        if not self.unequal:
            return replace(block, beside=beside)
        end = self.n_states - 1
        return replace(
            block,
            beside=beside,
            n_states=self.n_states,
            terminal_states=tuple(dict.fromkeys((*block.terminal_states, end))),
            has_end=True,
            labels=with_end(self.base).labels,
        )

    def step_discount(self, gamma: float) -> float:
        """g, the discount of the shortest step."""
        return float(gamma**self.shortest)

    def weighed(self, batch: Batch, gamma: float) -> Batch:
        """The rows with the share that goes on beside them: gamma^(elapsed - shortest).

        Of a row whose gap is unknown (it ends, or its episode is cut after it) it is the mean of
        its pair, or of all.
        """
        if not self.unequal or gamma in (0.0, 1.0):
            return batch
        longer = batch.beside["elapsed"] - self.shortest
        known = np.isfinite(longer)
        share = np.where(known, np.exp(np.where(known, longer, 0.0) * math.log(gamma)), 1.0)
        size = batch.n_states * batch.n_actions
        n = np.bincount(batch.pair[known], minlength=size)
        total = np.bincount(batch.pair[known], share[known], size)
        usual = float(share[known].mean()) if known.any() else 1.0
        mean = np.where(n > 0, total / np.maximum(n, 1), usual)
        share = np.where(known, share, mean[batch.pair])
        share[batch.ends] = 1.0  # nothing follows
        share = np.round(np.clip(share, 0.0, 1.0) * STEPS) / STEPS
        return replace(batch, beside=dict(batch.beside) | {"survives": share})

    def note(self, gamma: float) -> str:
        """What this means for a discount, in words."""
        counts = f"time counts: a reward t later counts gamma^t, gamma = {gamma:g} for {self.unit}."
        g = f"{self.step_discount(gamma):.6g}"
        if not self.unequal:
            return f"{counts} All steps take {self.shortest:.4g} of it: each discounts by {g}"
        gaps = self.elapsed[np.isfinite(self.elapsed)]
        middle, most = np.quantile(gaps, (0.5, 0.9))
        return (
            f"{counts} Steps take {self.shortest:.4g} to {gaps.max():.4g} of it (median"
            f" {middle:.4g}, 90 % at most {most:.4g}); the shortest discounts by {g}, and what"
            " follows a longer one counts less"
        )


def with_pace(log: Log, discount_per: Any) -> Log:
    """The log with the length of its steps in units of `discount_per`: a number of time units, or
    for dates "s", "min", "hour", "day" or "week".
    """
    if discount_per is None:
        return log
    if log.reading is None or log.starts is None:
        raise NotAvailableError(
            "discount_per needs the rows in order: this log was counted elsewhere, or read with"
            " check_order=False"
        )
    lost = [x for x, n in log.accounting.left_out if n and x not in (CUT, AT_LIMIT)]
    if lost:
        raise LogError(
            f"rows were left out inside episodes ({', '.join(lost)}), so that the gaps between"
            " those that stay are not the lengths of steps: mend them, or leave out their episodes,"
            f" before you give {option('discount_per')}"
        )
    unit, words = _unit(log.stored, discount_per)
    elapsed = _gaps(log) / unit
    known = elapsed[np.isfinite(elapsed)]
    if not len(known):
        raise LogError(
            "no episode has two rows, so that no step has a length:"
            f" leave {option('discount_per')} out"
        )
    if known.min() < 0:
        raise LogError(
            f"{int((known < 0).sum())} rows come before the row before them, by up to"
            f" {-known.min():g} {words}: put the rows in order, or correct their times"
        )
    shortest = float(known.min())
    unequal = bool(known.max() > shortest * (1 + EQUAL) + EQUAL * abs(shortest))
    made = with_end(log) if unequal else log
    pace = Pace(log, words, elapsed, shortest, unequal, made.n_states)
    return replace(made, view=pace, pace=pace)


def with_end(log: Log) -> Log:
    """The same log with the state "(end)"."""
    if log.has_end:
        return log
    if END in log.states:
        raise LogError(f"the log has a state labelled {END!r}: rename it")
    labels = replace(log.labels, states=(*log.states, END))
    return replace(
        log,
        counts=_padded(log.counts),
        labels=labels,
        starts=None if log.starts is None else np.append(log.starts, 0.0),
        terminal=np.append(log.terminal, True),
        has_end=True,
    )


def _padded(counts: Counts) -> Counts:
    """Counts with one more state, never visited."""
    s, a = counts.n_states, counts.n_actions
    if counts.is_sparse:
        shape = ((s + 1) * a, s + 1)

        def wider(x: Any) -> Any:
            ends = np.append(x.indptr, np.full(a, x.indptr[-1], dtype=x.indptr.dtype))
            return sparse.csr_array((x.data, x.indices, ends), shape=shape)

        rest = np.pad(np.asarray(counts.r_rest), ((0, 0), (0, 1), (0, 0)))
        return Counts(wider(counts.n_sas), wider(counts.r_sas), rest, s + 1, a)
    n_sas, r_sas = (
        np.pad(np.asarray(x), ((0, 1), (0, 0), (0, 1))) for x in (counts.n_sas, counts.r_sas)
    )
    return Counts(n_sas, r_sas, np.pad(np.asarray(counts.r_rest), ((0, 1), (0, 0))), s + 1, a)


def _unit(reading: Reading, given: Any) -> tuple[float, str]:
    """(its length in the numbers of `time_sql`, in words)."""
    if not reading.time_kind:
        raise LogError(
            f"{option('discount_per')} needs a time column: name it with {option('time')}"
        )
    text = str(given).strip()
    if reading.dated:
        if text not in SECONDS:
            raise LogError(
                f"the times of this log are dates: {option('discount_per')} takes"
                f" {', '.join(SECONDS)}, got {text!r}"
            )
        return SECONDS[text], f"a {text}" if text not in ("s", "hour") else f"one {text}"
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if isinstance(given, bool) or not 0 < number < math.inf:
        raise LogError(
            f"the times of this log are numbers: {option('discount_per')} takes how many of them"
            f" make one unit, such as 1 or 24, got {text!r}"
        )
    return number, "one unit of time" if number == 1 else f"{number:g} units of time"


def _gaps(log: Log) -> np.ndarray:
    """The time from every row to the next of its episode, rows in the order of `Log.blocks`; NaN
    where there is none.
    """
    reading, times, episodes = log.stored, [], []
    with log.database() as database:
        for file in reading.store.files:
            part = replace(reading, store=replace(reading.store, files=(file,)))
            found = database.arrays(
                "reading times",
                f"select ({time_sql(part)})::double as x, hash(episode) as h, y.at from"
                f" {part.steps()} y",
            )
            order = np.argsort(found["at"], kind="stable")
            times.append(np.asarray(found["x"])[order])
            episodes.append(np.asarray(found["h"])[order])
    time, episode = np.concatenate(times), np.concatenate(episodes)
    gap = np.append(np.diff(time), np.nan)
    gap[:-1][episode[1:] != episode[:-1]] = np.nan
    return gap


def time_sql(reading: Reading) -> str:
    """The time of a step as a number, in seconds where it is a date."""
    time, scale = number_sql(reading)
    return f"({time})::double / {scale}"


def number_sql(reading: Reading) -> tuple[str, str]:
    """(the time as a number with exact differences where that is possible, how many make one)."""
    if reading.dated:
        moment = "t::timestamp" if reading.wall_clock or reading.time_kind == "DATE" else "t"
        return f"epoch_us({moment})::hugeint", "1e6"
    return "t::hugeint" if exact_times(reading) else "t::double", "1e0"


def exact_times(reading: Reading) -> bool:
    """Whether differences of times are exact."""
    return reading.dated or reading.time_type == "bigint" or reading.time_kind in WHOLE


def checked_per(discount_per: Any) -> None:
    """Raise early where it can be no unit."""
    if discount_per is not None and not isinstance(discount_per, (str, int, float)):
        raise ProblemError(
            f"discount_per must be a number of time units, or one of {', '.join(SECONDS)}, got"
            f" {discount_per!r}"
        )
