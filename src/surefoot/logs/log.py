"""Log: what was read, counted and labelled; from here to a Problem."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from surefoot.core import Batch, Counts, Labels, Policy, Returns, count_batch
from surefoot.core.errors import LogError, NotAvailableError, ProblemError
from surefoot.core.labels import as_text
from surefoot.core.plain_values import Shown
from surefoot.logs.accounting import CUT, NO_SUCCESSOR, REASONS, Accounting
from surefoot.logs.database import Database, Workspace
from surefoot.logs.given_policies import baseline_of, labelled
from surefoot.logs.policy_files import permitted
from surefoot.logs.query import Reading
from surefoot.logs.reward import Reward
from surefoot.logs.row_blocks import BLOCK, coded_blocks, joined, returns_of
from surefoot.problems import Problem
from surefoot.problems.build import build, uneven
from surefoot.problems.given import Counted, Start, checked_gamma, estimated_policy, given_start
from surefoot.problems.problem import VISITS

# rows up to which a Problem carries them, so that every kind of Monte-Carlo return can be computed
# from it
IN_MEMORY = 2_000_000


class View(Protocol):
    """How the rows of one log become those of another."""

    @property
    def base(self) -> Log:
        """The log that the rows come from."""

    def batch(self, block: Batch) -> Batch:
        """Some whole episodes of it, as the other log has them."""


class Timed(Protocol):
    """How long steps take, and what that makes of a discount for each unit of time."""

    @property
    def unit(self) -> str:
        """The unit of time, in words."""

    def step_discount(self, gamma: float) -> float:
        """The discount of the shortest step."""

    def weighed(self, batch: Batch, gamma: float) -> Batch:
        """The rows with what counts after longer steps beside them."""

    def note(self, gamma: float) -> str:
        """What a user should know."""


@dataclass(frozen=True, repr=False, kw_only=True)
class Log(Shown):
    """A counted log with its labels.

    counts        n, sums and scatter of rewards for every (s, a, s'), dense or sparse
    labels        in their natural order; the state "(end)" last where terminal steps name no next
                  state (`has_end`)
    starts [S]    the number of episodes that start in each state; None where the order of the rows
                  was not looked at
    terminal [S]  states in which nobody acts, since an episode ends there
    rewards       (lowest, highest) reward of the rows used
    reward        the column of the reward, and which direction is better; where lower is, rewards
                  are minus the column, and what is declared of the column is turned (`problem`)
    accounting    rows read = rows used + rows left out, by reason
    notes         what a user should know; first the `warnings`, which put the result in doubt
    beside        the labels of "policy" and "group" where the log has such columns
    view          how rows are to be read where this log was made from another: with histories, or
                  with the length of steps
    pace          how long steps take, where a discount counts time
    """

    counts: Counts
    labels: Labels
    starts: np.ndarray | None
    terminal: np.ndarray
    rewards: tuple[float, float]
    has_end: bool
    accounting: Accounting
    reward: Reward
    columns: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    beside: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    reading: Reading | None = field(default=None, compare=False)
    workspace: Workspace | None = field(default=None, compare=False)
    view: View | None = field(default=None, compare=False)
    pace: Timed | None = field(default=None, compare=False)

    def _facts(self) -> dict[str, Any]:
        episodes = {} if self.n_episodes is None else {"episodes": self.n_episodes}
        return {
            "rows": self.accounting.used,
            "left_out": self.accounting.n_left_out,
            **episodes,
            "states": self.n_states,
            "actions": self.n_actions,
            "rewards": self.rewards,
            "columns": self.columns,
            "notes": (*self.warnings, *self.notes),
        }

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

    @property
    def has_propensities(self) -> bool:
        """Whether the rows say with which probability their action was chosen."""
        return self.reading is not None and "p" in self.reading.beside

    @property
    def bandit(self) -> bool:
        """Whether every row is an episode of one step, as the user says."""
        return self.reading is not None and self.reading.options.bandit

    @cached_property
    def n_ended(self) -> int:
        """How many rows lead into a terminal state."""
        if not self.terminal.any():
            return 0
        arrivals = self.counts.n_sas.sum(axis=0 if self.counts.is_sparse else (0, 1))
        return int(np.asarray(arrivals).reshape(-1)[self.terminal].sum())

    @property
    def reward_summary(self) -> dict[str, Any]:
        """What more of the reward means, and its mean over the rows used."""
        used = self.accounting.used
        mean = float(self.counts.r_sas.sum()) / float(self.counts.n_sas.sum())
        return self.reward.summary(mean, self.n_episodes, used)

    @property
    def time_limit(self) -> int:
        """Without next_state: the number of rows after which all episodes are cut; 0: none."""
        return self.reading.limit if self.reading is not None else 0

    @property
    def n_unfollowed(self) -> int:
        """How many rows were left out because they did not end and nothing is known to follow
        them, while a row that ended there would have been kept.
        """
        if not self.terminal.any():
            return 0
        cut = 0 if self.time_limit else self.accounting.left_out_as(CUT)
        if not self.has_end:  # last rows are in terminal states, but for those of cut episodes
            cut = min(cut, max((self.n_episodes or 0) - self.n_ended, 0))
        left_out = (self.accounting.left_out_as(x) for x in (NO_SUCCESSOR, "next-state"))
        return cut + sum(left_out)

    @property
    def _never_ending(self) -> int:
        """Last rows left out of a log in which nothing ever ends."""
        return 0 if self.terminal.any() else self.accounting.left_out_as(CUT)

    @cached_property
    def fingerprint(self) -> str:
        """Told by what was read, not by where it lies: equal for copies of a log, and in
        practice for nothing else.
        """
        found = hashlib.sha256(repr((self.states, self.actions)).encode())
        for x, sign in ((self.counts.n_sas, 1.0), (self.counts.r_sas, self.reward.sign)):
            values = sign * (x.data if self.counts.is_sparse else x) + 0.0  # as the column has it
            found.update(
                np.ascontiguousarray(values, dtype=np.float32).tobytes()
            )  # sums may differ in the last bit
        if self.counts.is_sparse:
            for places in (self.counts.n_sas.indices, self.counts.n_sas.indptr):
                found.update(places.astype(np.int64).tobytes())
        return found.hexdigest()[:16]

    @property
    def stored(self) -> Reading:
        """The rows, in order; an error where there are none."""
        if self.reading is None or self.workspace is None or self.starts is None:
            raise NotAvailableError(
                "this log holds counts alone: its rows were counted elsewhere, or read with"
                " check_order=False"
            )
        return self.reading

    def database(self, threads: int | None = 1) -> Database:
        """A connection to read the stored rows with; one thread keeps their order."""
        limit = self.stored.options.memory_limit
        assert self.workspace is not None  # what is stored lies there
        return Database(self.workspace, threads, limit, shared=True)

    def blocks(self, rows: int = BLOCK) -> Iterator[Batch]:
        """The rows in order, coded, in batches of whole episodes of about this many rows; row
        numbers count from 0 over the log. Those of a log of one such batch are decoded once and
        kept.
        """
        if rows != BLOCK or self.accounting.used > BLOCK:
            return coded_blocks(self, rows)
        return iter(self._kept)

    @cached_property
    def _kept(self) -> tuple[Batch, ...]:
        return tuple(coded_blocks(self, BLOCK))

    def batch(self) -> Batch:
        """All rows in order, coded, in memory: 60 bytes a row."""
        return joined(list(self.blocks()))

    def returns(
        self, gamma: float, *, visits: str = "every", cut_returns: str | int = "as-end"
    ) -> Returns:
        """Monte-Carlo returns of every pair (see `surefoot.monte_carlo`), block by block of
        whole episodes.
        """
        return returns_of(self, gamma, visits, cut_returns)

    def step_discount(self, gamma: float) -> float:
        """The discount of one step: gamma, or where time counts that of the shortest step."""
        return gamma if self.pace is None else self.pace.step_discount(gamma)

    def weighed(self, batch: Batch, gamma: float) -> Batch:
        """Rows of this log with what counts after longer steps, where time counts."""
        return batch if self.pace is None else self.pace.weighed(batch, gamma)

    def estimated_baseline(
        self, smoothing: float = 0.0, allowed: np.ndarray | None = None
    ) -> Policy:
        """pi_b(a|s) = (n(s, a) + smoothing) / sum over allowed a; uniform in states never visited
        (Simao et al. 2020: smoothing 0).
        """
        return estimated_policy(self.n_sa, self.labels, smoothing, allowed)

    def problem(
        self,
        gamma: float,
        pi_b: Policy | Any = None,
        *,
        start: Any = None,
        allowed: Any = None,
        forbidden: Any = None,
        cut_returns: str | int = "as-end",
        needs_returns: bool | None = None,
        baseline_policy: Any = None,
        **declared: Any,
    ) -> Problem:
        """The Problem of this log; `declared` as in `surefoot.problem`, arrays are over codes.
        Ranges and tables of rewards are declared in the units of the column, whatever is better.

        pi_b            a Policy, the path of a policy file, a table with one row a pair (state,
                        action, probability) or one column an action, {state: {action:
                        probability}}, a function that returns {action: probability} for the label
                        of a state; all by labels. An array [S, A], by codes. None: estimated from
                        the log without smoothing
        baseline_policy the label of the policy (see `read_log`) whose rows show the baseline
        allowed         a mask [S, A], or the path of a file with the allowed (state, action)
        forbidden       the same of what must never be chosen; with both, what is allowed and not
                        forbidden may be
        start           a state's label or a distribution over states ({label: share}, or an array
                        by codes), taken as known; or "visits":
                        as often as the log was there. Default: where the episodes started, an
                        estimate; for a log of one episode its visits, since its first row is an
                        accident
        needs_returns   whether Monte-Carlo returns will be asked for. The default carries the rows
                        along up to 2,000,000 of them; True computes every-visit returns now for a
                        larger log, False never reads the log again
        """
        gamma = checked_gamma(gamma)
        batch = returns = None
        blocks: Iterable[Batch] | None = None
        if needs_returns is not False and self.reading is not None and self.starts is not None:
            if self.accounting.used <= IN_MEMORY or self.pace is not None:
                batch = self.weighed(self.batch(), gamma)
            elif needs_returns:
                returns = self.returns(gamma, cut_returns=cut_returns)
            blocks = self.blocks() if batch is None else (batch,)
        elif needs_returns:
            raise NotAvailableError(
                "this log holds counts alone (its rows were counted elsewhere, or not in order): no"
                " returns"
            )
        counts, notes = self.counts, self.notes
        if self.pace is not None:
            if batch is None:
                raise NotAvailableError(
                    "discount_per needs the rows: leave needs_returns=False out"
                )
            counts = count_batch(
                batch, self.n_states, self.n_actions, as_sparse=self.counts.is_sparse
            )
            notes = (*notes, self.pace.note(gamma))
            gamma = self.pace.step_discount(gamma)
        if baseline_policy is not None:
            if pi_b is not None:
                raise ProblemError("give pi_b, or baseline_policy, not both")
            pi_b = baseline_of(self, baseline_policy)
        else:
            pi_b = labelled(pi_b, self)
        made_log = None
        if isinstance(pi_b, Policy) and pi_b.of_policy is not None:
            made_log = baseline_of(self, self.beside["policy"][pi_b.of_policy]).pi
        data = Counted(
            counts=counts,
            terminal=self.terminal,
            rewards=self.rewards,
            has_end=self.has_end,
            labels=self.labels,
            notes=notes,
            batch=batch,
            returns=returns,
            blocks=blocks,
            time_limit=self.time_limit,
            n_unfollowed=self.n_unfollowed or uneven(batch, self._never_ending),
            n_dropped=sum(self.accounting.left_out_as(x) for x in REASONS),
        )
        try:
            found = build(
                data,
                gamma,
                pi_b,
                self._start(start, data),
                allowed=permitted(self, allowed, forbidden),
                cut_returns=cut_returns,
                made_log=made_log,
                **self.reward.declared(declared),
            )
        except ProblemError as error:
            if self.reward.sign > 0:
                raise
            turned = f"in these words the reward is minus {self.reward.column}"
            raise ProblemError(f"{error} ({turned})") from error
        if batch is None and self.has_propensities and not found.pi_b_estimated:
            own = blocks is not None and all(x.made_by(found.pi_b) for x in self.blocks())
            return replace(found, others_made_log=not own)
        return found

    def _start(self, start: Any, data: Counted) -> Start:
        """Given, a state's label, where episodes start, or all visits.

        A log that is one episode, or has none, has one first row by accident: there the start is
        where decisions are taken.
        """
        if start is None and self.starts is None:
            raise ProblemError(
                "this log was read with check_order=False, which does not find the first states:"
                " give start"
            )
        if start is None and self.n_episodes == 1:
            note = (
                "the log is one episode: values at the start are averages over all states as often"
                " as they were visited"
            )
            return replace(self._start(VISITS, data), notes=(note,))
        if isinstance(start, str) and start == VISITS:
            visits = self.n_sa.sum(axis=1)
            return Start(visits / visits.sum(), is_visits=True)
        if start is None:
            assert self.starts is not None
            return Start(self.starts / self.starts.sum(), episodes=self.n_episodes)
        if isinstance(start, Mapping) or (hasattr(start, "index") and hasattr(start, "items")):
            shares = np.zeros(self.n_states)
            for label, share in start.items():  # of a dict, or a Series of pandas
                shares[self._start_code(label)] += share
            return Start(given_start(shares, data))
        if np.ndim(start) == 0 or isinstance(start, (str, tuple)):
            label = start.item() if isinstance(start, np.generic) else start
            return Start(np.eye(1, self.n_states, self._start_code(label))[0])
        return Start(given_start(start, data))

    def _start_code(self, label: Any) -> int:
        """The state of a label; where states are histories, an observation before which nothing
        happened will do.
        """
        found = self.labels.find_state(label)
        if found is None and self.labels.now:
            present, of = self.labels.observed
            starts = np.zeros(self.n_states) if self.starts is None else self.starts
            begun = (of == present.state_code(label)) & (starts > 0)
            if not begun.any():
                raise LogError(f"no episode starts with {as_text(label)!r}: name a whole history")
            return int(np.flatnonzero(begun)[0])
        return self.labels.state_code(label)
