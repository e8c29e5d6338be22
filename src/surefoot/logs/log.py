"""Log: what was read, counted and labelled; from here to a Problem."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from surefoot.core import Batch, Counts, Labels, Policy, Returns
from surefoot.core.batch import MOST_PAIRS, number_array
from surefoot.core.labels import as_text, in_kind_of, match, places_of, unknown
from surefoot.errors import BaselineError, LogError, NotAvailableError, ParameterError, ProblemError
from surefoot.logs.accounting import Accounting
from surefoot.logs.database import Database, Workspace
from surefoot.logs.notes import notes_on
from surefoot.logs.query import Reading
from surefoot.logs.store import written_out
from surefoot.logs.tally import Tally, all_labels, merged
from surefoot.parameters import check_name
from surefoot.problems import Problem, estimate_baseline, given
from surefoot.problems.montecarlo import check_cut_returns
from surefoot.problems.problem import VISITS
from surefoot.problems.ranges import check_returns, pair_of_numbers

# rows up to which a Problem carries them, so that every kind of Monte-Carlo return can be computed
# from it
IN_MEMORY = 2_000_000


@dataclass(frozen=True, repr=False)
class Log:
    """A counted log with its labels.

    counts        n, sums and scatter of rewards for every (s, a, s'), dense or sparse
    labels        in their natural order; the state "(end)" last where terminal steps name no next
                  state (`has_end`)
    starts [S]    the number of episodes that start in each state; None where the order of the rows
                  was not looked at
    terminal [S]  states in which nobody acts, since an episode ends there
    rewards       (lowest, highest) reward of the rows used
    accounting    rows read = rows used + rows left out, by reason
    """

    counts: Counts
    labels: Labels
    starts: np.ndarray | None
    terminal: np.ndarray
    rewards: tuple[float, float]
    has_end: bool
    accounting: Accounting
    columns: str
    notes: tuple[str, ...]
    reading: Reading | None = field(default=None, compare=False)
    workspace: Workspace | None = field(default=None, compare=False)
    threads: int | None = field(default=None, compare=False)
    memory_limit: str | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return (
            f"Log({self.accounting.used:,} rows, {self.n_states} states x {self.n_actions} actions)"
        )

    @property
    def n_states(self) -> int:
        """S, "(end)" included."""
        return len(self.states)

    @property
    def n_actions(self) -> int:
        """A."""
        return len(self.actions)

    @property
    def states(self) -> tuple[Any, ...]:
        """The labels of the states."""
        return self.labels.states

    @property
    def actions(self) -> tuple[Any, ...]:
        """The labels of the actions."""
        return self.labels.actions

    @cached_property
    def n_sa(self) -> np.ndarray:
        """How often each pair was taken, [S, A]."""
        found: np.ndarray = np.asarray(self.counts.n_sa).reshape(self.n_states, self.n_actions)
        return found

    @cached_property
    def n_episodes(self) -> int | None:
        """The number of episodes; None where the order of rows was not looked at."""
        return None if self.starts is None else int(self.starts.sum())

    @cached_property
    def n_ended(self) -> int:
        """How many rows lead into a terminal state."""
        if not self.terminal.any():
            return 0
        arrivals = (
            self.counts.n_sas.sum(axis=0)
            if self.counts.is_sparse
            else self.counts.n_sas.sum(axis=(0, 1))
        )
        return int(np.asarray(arrivals).reshape(-1)[self.terminal].sum())

    @cached_property
    def fingerprint(self) -> str:
        """Told by what was read, not by where it lies: equal for copies of a log, and in
        practice for nothing else.
        """
        found = hashlib.sha256(repr((self.states, self.actions)).encode())
        for x in (self.counts.n_sas, self.counts.r_sas):
            values = x.data if self.counts.is_sparse else x
            found.update(
                np.ascontiguousarray(values, dtype=np.float32).tobytes()
            )  # sums may differ in the last bit
        if self.counts.is_sparse:
            for places in (self.counts.n_sas.indices, self.counts.n_sas.indptr):
                found.update(places.astype(np.int64).tobytes())
        return found.hexdigest()[:16]

    @cached_property
    def stored(self) -> Reading:
        """The rows, written out as Parquet where they are text that was counted as it was read."""
        if self.reading is None or self.workspace is None or self.starts is None:
            raise NotAvailableError(
                "this log holds counts alone: its rows were counted elsewhere, or read with"
                " check_order=False"
            )
        with Database(self.workspace, self.threads, self.memory_limit) as database:
            return replace(
                self.reading, store=written_out(self.reading.store, database, self.workspace)
            )

    def blocks(self, rows: int = 1_000_000) -> Iterator[Batch]:
        """The rows in order, coded, in batches of whole episodes of about this many rows; row
        numbers count from 0 over the log.
        """
        from surefoot.logs.log_returns import coded_blocks

        return coded_blocks(self, rows)

    def batch(self) -> Batch:
        """All rows in order, coded, in memory: 60 bytes a row."""
        from surefoot.logs.log_returns import joined

        return joined(list(self.blocks()))

    def returns(
        self, gamma: float, *, visits: str = "every", cut_returns: str | int = "as-end"
    ) -> Returns:
        """Monte-Carlo returns of every pair (see `surefoot.monte_carlo`), block by block of
        whole episodes.
        """
        from surefoot.logs.log_returns import returns_of

        return returns_of(self, gamma, visits, cut_returns)

    def estimated_baseline(
        self, smoothing: float = 0.0, allowed: np.ndarray | None = None
    ) -> Policy:
        """pi_b(a|s) = (n(s, a) + smoothing) / sum over allowed a; uniform in states never visited
        (Simao et al. 2020: smoothing 0).
        """
        is_number = isinstance(smoothing, (int, float)) and not isinstance(smoothing, bool)
        if not is_number or not 0 <= smoothing < np.inf:
            raise ParameterError(f"smoothing must be a number >= 0, got {smoothing!r}")
        how = (
            f"with {smoothing:g} added to every count"
            if smoothing
            else "by frequencies, without smoothing"
        )
        note = (
            f"the baseline is estimated from the log ({how}); guarantees for a known baseline do"
            " not apply"
        )
        pi = estimate_baseline(self.n_sa + smoothing, allowed)
        return Policy(
            pi=pi, labels=self.labels, estimated=True, smoothing=float(smoothing), notes=(note,)
        )

    def problem(
        self,
        gamma: float,
        pi_b: Policy | Any = None,
        *,
        start: Any = None,
        allowed: Any = None,
        reward_range: Any = None,
        return_range: Any = None,
        reward_table: Any = None,
        unseen_states: str = "baseline",
        ties: str = "baseline",
        masked_baseline: str = "error",
        cut_returns: str | int = "as-end",
        needs_returns: bool | None = None,
    ) -> Problem:
        """The Problem of this log, with the meaning of `surefoot.problem`; arrays are over codes.

        pi_b            a Policy (see `read_policy`), an array [S, A], or None: estimated from the
                        log without smoothing
        start           a state's label or a distribution over states, taken as known; or "visits":
                        as often as the log was there. Default: where the episodes started, an
                        estimate; for a log of one episode its visits, since its first row is an
                        accident
        needs_returns   whether Monte-Carlo returns will be asked for. The default carries the rows
                        along up to 2,000,000 of them; True computes every-visit returns now for a
                        larger log, False never reads the log again
        """
        check_name("masked_baseline", masked_baseline, ("error", "renormalise"))
        check_cut_returns(cut_returns)
        gamma = given.checked_gamma(gamma)
        mask = given.allowed_mask(allowed, self, self.terminal, self.n_sa, masked_baseline)
        table = given.declared_rewards(reward_table, self)
        notes = list(self.notes)
        policy, estimated = self._baseline(pi_b, mask, masked_baseline, notes)
        computed = log = None
        if needs_returns is not False and self._has_rows:
            if self.accounting.used <= IN_MEMORY:
                log = self.batch()
            elif needs_returns:
                computed = self.returns(gamma, cut_returns=cut_returns)
        elif needs_returns:
            raise NotAvailableError(
                "this log holds counts alone (its rows were counted elsewhere, or not in order): no"
                " returns"
            )
        blocks = (
            [log]
            if log is not None
            else self.blocks()
            if needs_returns is not False and self._has_rows
            else None
        )
        rewards, returns = self._ranges(gamma, table, reward_range, return_range, notes, blocks)
        where, visits = self._start(start, notes)
        return Problem(
            counts=self.counts,
            pi_b=policy,
            gamma=gamma,
            start=where,
            terminal=self.terminal,
            allowed=mask,
            return_range=returns,
            reward_range=rewards,
            reward_table=table,
            pi_b_estimated=estimated,
            unseen_states=unseen_states,
            ties=ties,
            cut_returns=cut_returns,
            log=log,
            returns_given=computed,
            n_bound_states=self.n_states - self.has_end,
            labels=self.labels,
            notes=tuple(notes),
            start_episodes=self.n_episodes if start is None and not visits else None,
            start_visits=visits,
        )

    def _baseline(
        self, pi_b: Any, mask: np.ndarray, masked_baseline: str, notes: list[str]
    ) -> tuple[np.ndarray, bool]:
        """(pi_b, whether it is estimated); what is to be known about it joins the notes."""
        if pi_b is None:
            pi_b = self.estimated_baseline(allowed=mask)
        if isinstance(pi_b, Policy):
            if (pi_b.labels.states, pi_b.labels.actions) != (self.states, self.actions):
                raise BaselineError(
                    "this baseline belongs to a log with other labels: read it again with this log"
                )
            rows, estimated = pi_b.pi, pi_b.estimated
            notes.extend(pi_b.notes)
        else:
            rows, estimated = number_array("pi_b", pi_b, BaselineError), False
        if rows.ndim != 2:
            raise BaselineError(f"pi_b must be [S, A], got shape {rows.shape}")
        policy = given.given_baseline(
            np.array(rows), self, self.terminal, mask, masked_baseline, notes
        )
        impossible = 0 if estimated else int(self.n_sa[(policy == 0) & mask].sum())
        if impossible:
            notes.append(f"{impossible} logged actions have probability 0 under the given baseline")
        return policy, estimated

    @property
    def _has_rows(self) -> bool:
        """Whether the rows can be read again, in order."""
        return self.reading is not None and self.starts is not None

    def _ranges(
        self,
        gamma: float,
        table: Any,
        reward_range: Any,
        return_range: Any,
        notes: list[str],
        blocks: Iterable[Batch] | None,
    ) -> Any:
        """(reward range, return range) as `surefoot.problem` finds them; every return of the
        blocks lies in a declared one.
        """
        if return_range is not None:
            declared = pair_of_numbers("return_range", return_range)
            if blocks is None:
                notes.append(self._check_last_rewards(*declared))
            else:
                notes.extend(
                    sorted(
                        {note for block in blocks for note in check_returns(block, gamma, declared)}
                    )
                )
        rewards, returns, said = given.found_ranges(
            self.rewards, gamma, table, reward_range, return_range, bool(self.terminal.any())
        )
        notes.extend(said)
        return rewards, returns

    def _check_last_rewards(self, lo: float, hi: float) -> str:
        """Raise unless the mean rewards of last steps, all that the counts say of returns, lie
        in the range; a note that says so.
        """
        last = self._last_rewards()
        if len(last) and (last.min() < lo or last.max() > hi):
            raise ProblemError(
                f"return_range ({lo:g}, {hi:g}) does not hold: the mean rewards of steps that end"
                f" an episode, which are their returns, go from {last.min():g} to {last.max():g}"
            )
        return (
            "the declared return range was checked against last steps only: the rows were not read"
            " again"
        )

    def _last_rewards(self) -> np.ndarray:
        """The mean rewards of the triples that end an episode."""
        n, r = self.counts.n_sas, self.counts.r_sas
        if self.counts.is_sparse:
            there = self.terminal[n.indices]
            return np.asarray(r.data[there] / n.data[there])
        there = (n > 0) & self.terminal
        return np.asarray(r[there] / n[there])

    def _start(self, start: Any, notes: list[str]) -> tuple[np.ndarray, bool]:
        """(a distribution over states, whether it is that of visits): given, a state's label, where
        episodes start, or all visits.

        A log that is one episode, or has none, has one first row by accident: there the start is
        where decisions are taken.
        """
        if start is None and self.starts is None:
            raise ProblemError(
                "this log was read with check_order=False, which does not find the first states:"
                " give start"
            )
        if (isinstance(start, str) and start == VISITS) or (start is None and self.n_episodes == 1):
            if start is None:
                notes.append(
                    "the log is one episode: values at the start are averages over all states as"
                    " often as they were visited"
                )
            visits = self.n_sa.sum(axis=1)
            return np.asarray(visits / visits.sum()), True
        if start is None:
            assert self.starts is not None
            return np.asarray(self.starts / self.starts.sum()), False
        if np.ndim(start) == 0 or isinstance(start, (str, tuple)):
            label = start.item() if isinstance(start, np.generic) else start
            return np.asarray(np.eye(1, self.n_states, self.labels.state_code(label))[0]), False
        return given.given_start(start, self), False


def make_log(
    tally: Tally,
    reading: Reading | None,
    workspace: Workspace | None,
    *,
    terminal_states: tuple[Any, ...] = (),
    allowed: tuple[Any, ...] | None = None,
    columns: str = "",
    label_columns: tuple[tuple[str, ...], tuple[str, ...]] = (("state",), ("action",)),
    sparse: bool | None = None,
    threads: int | None = None,
    memory_limit: str | None = None,
    missing_reward: float | None = None,
) -> Log:
    """The Log of a tally, checked."""
    if not tally.states:
        raise LogError(
            "no row has a successor: every episode is one step long and cut; give next_state, flag"
            " terminal steps, or say episode_end='terminal' if every episode ends with its last row"
        )
    if reading is not None:
        allowed, missing_reward = reading.allowed, reading.missing_reward
    places = places_of(tally.actions) if allowed else {}
    extra = [in_kind_of(x, tally.actions) for x in allowed or () if match(x, places) is None]
    tally = tally.over(tally.states, merged(tally.actions, tuple(extra))) if extra else tally
    states = all_labels(tally)
    if len(states) * len(tally.actions) > MOST_PAIRS:
        raise LogError(
            f"{len(states)} states x {len(tally.actions)} actions are more than {MOST_PAIRS:,}"
            " pairs: is the state column right?"
        )
    counts = tally.counts(as_sparse=given.held_sparse(sparse, len(states), len(tally.actions)))
    if reading is not None:
        label_columns = (reading.store.columns.state, reading.store.columns.action)
    labels = Labels(states, tally.actions, *label_columns)
    starts = None if tally.starts is None else np.append(tally.starts, np.zeros(int(tally.has_end)))
    terminal, notes = _terminal(tally, labels, terminal_states)
    made = Log(
        counts,
        labels,
        starts,
        terminal,
        (float(tally.lowest), float(tally.highest)),
        tally.has_end,
        tally.accounting,
        str(reading.store.columns) if reading is not None else columns,
        tuple(notes),
        reading,
        workspace,
        threads,
        memory_limit,
    )
    _check_acting(made)
    return replace(made, notes=(*notes_on(made, missing_reward), *notes))


def _terminal(tally: Tally, labels: Labels, named: tuple[Any, ...]) -> tuple[np.ndarray, list[str]]:
    """(the mask of terminal states, notes about those that never occur)."""
    terminal = np.zeros(len(labels.states), dtype=bool)
    terminal[list(tally.ended)] = True
    terminal[len(labels.states) - tally.has_end :] = True
    notes = []
    for label in named:
        place = labels.find_state(label)
        if place is None:
            notes.append(f"terminal {unknown('state', label, labels.states)}")
        else:
            terminal[place] = True
    return terminal, notes


def _check_acting(log: Log) -> None:
    """Nobody acts in a terminal state."""
    acting = np.flatnonzero(log.terminal & (log.n_sa.sum(axis=1) > 0))
    if len(acting):
        s = int(acting[0])
        raise LogError(
            f"{int(log.n_sa[s].sum())} rows act in state {as_text(log.states[s])!r}, which is"
            f" terminal ({len(acting)} such states): a terminal state has no actions. If a terminal"
            " step returns to an ordinary state, pass terminal_to_end=True: it then leads to an"
            " extra state (end)"
        )
