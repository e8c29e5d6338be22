"""Log: what was read, counted and labelled, its rows in order, coded; from here to a Problem."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.core import Batch, Counts, Labels, Policy, Returns, count_batch
from surefoot.core.errors import LogError, NotAvailableError, ProblemError
from surefoot.core.evidence import GROUP
from surefoot.core.labels import as_text, match, places_of
from surefoot.core.plain_values import Shown
from surefoot.core.ranges import from_the_lowest
from surefoot.logs.accounting import CUT, NO_SUCCESSOR, REASONS, Accounting
from surefoot.logs.column_roles import Reward
from surefoot.logs.database import Database, Workspace, path_sql
from surefoot.logs.given_policies import baseline_of, labelled
from surefoot.logs.policy_files import permitted
from surefoot.logs.query import Reading
from surefoot.logs.tally import TO_END, plain_label
from surefoot.problems import Problem, monte_carlo
from surefoot.problems.build import build, uneven
from surefoot.problems.given import Counted, Start, checked_gamma, estimated_policy, given_start
from surefoot.problems.montecarlo import step_limit
from surefoot.problems.problem import VISITS

if TYPE_CHECKING:
    from surefoot.logs.histories import History
    from surefoot.logs.pace import Pace

Columns = dict[str, np.ndarray]
BLOCK = 1_000_000  # rows of a block, unless another number is asked for
# rows up to which a Problem carries them, so that every kind of Monte-Carlo return can be computed
# from it
IN_MEMORY = 2_000_000


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
    beside        the labels of "policy" and "group" where the log has such columns; of several
                  groupings "group: sex" and so on
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
    view: History | Pace | None = field(default=None, compare=False)
    pace: Pace | None = field(default=None, compare=False)

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

    @property
    def actions_as_given(self) -> tuple[Any, ...]:
        """The same in the order in which `actions` of `read_log` named them, else doses from the
        lowest on, else in their own.
        """
        asked = () if self.reading is None else self.reading.options.actions or ()
        named = dict.fromkeys(self.labels.action_code(x) for x in asked)
        return tuple(self.actions[a] for a in named) or from_the_lowest(self.actions)

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
    def groups(self) -> dict[str, tuple[Any, ...]]:
        """{what a grouping is called beside the steps: the labels of its groups}."""
        return {name: x for name, x in self.beside.items() if name.startswith(GROUP)}

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
    def reward_is_binary(self) -> bool:
        """Whether every reward is 0 or 1 in the column: between them, only these are their own
        squares.
        """
        low, high = sorted(self.reward.sign * x for x in self.rewards)
        if low < 0 or high > 1:
            return False
        n, r = self.counts.n_sas, self.counts.r_sas
        if self.counts.is_sparse:
            rows, columns = r.nonzero()
            n, r = n[rows, columns], r[rows, columns]
        n, r = np.asarray(n, dtype=float), np.asarray(r, dtype=float)
        squares = float(self.counts.r_rest.sum()) + float((r**2 / np.maximum(n, 1.0)).sum())
        return bool(np.isclose(squares, abs(r).sum(), rtol=1e-9, atol=0.0))

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
        limit = self.stored.options.memory
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

        def blocks() -> Iterator[Batch]:
            return (self.weighed(block, gamma) for block in coded_blocks(self, 2_000_000))

        step = self.step_discount(gamma)
        # for returns of k steps the cuts of all blocks count
        limit = None if isinstance(cut_returns, str) else min(map(step_limit, blocks()))
        parts = (
            monte_carlo(block, step, visits=visits, cut_returns=cut_returns, limit=limit)
            for block in blocks()
        )
        return reduce(lambda x, y: x + y, parts)

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
        # last rows left out of a log in which nothing ever ends
        last = 0 if self.terminal.any() else self.accounting.left_out_as(CUT)
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
            n_unfollowed=self.n_unfollowed or uneven(batch, last),
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


def coded_blocks(log: Log, rows: int) -> Iterator[Batch]:
    """Batches of whole episodes, of about `rows` rows each; a longer episode makes a longer
    batch.
    """
    if log.view is not None:
        yield from map(log.view.batch, coded_blocks(log.view.base, rows))
        return
    reading, first_row = log.stored, 0
    rest: Columns = {}
    with log.database() as database:
        for chunk in _chunks(database, log, reading, rows):
            joined_up = {n: np.concatenate((rest[n], x)) if rest else x for n, x in chunk.items()}
            new = np.flatnonzero(joined_up["h"][1:] != joined_up["h"][:-1]) + 1
            whole = int(new[-1]) if len(new) else 0
            rest = {name: x[whole:] for name, x in joined_up.items()}
            if whole:
                part = {name: x[:whole] for name, x in joined_up.items()}
                yield from _batch(log, reading, part, first_row)
                first_row += whole
    yield from _batch(log, reading, rest, first_row)


def _chunks(database: Database, log: Log, reading: Reading, rows: int) -> Iterator[Columns]:
    """The coded columns h (episode), s, a, r, s2, ends, cut and those beside them, `rows` rows of
    one file at a time.
    """
    database.run("reading rows", "set disabled_optimizers = 'join_order,build_side_probe_side'")
    coded = reading.beside_labels
    for name in ("states", "actions", *coded):
        file = path_sql(str(database.folder / name))
        database.run("reading labels", f"create temp table {name} as from read_parquet({file})")
    taken = database.rows("reading labels", "select x from actions order by code")
    places = places_of(log.actions)
    to_action = np.array([match(plain_label(x), places) for (x,) in taken], dtype=np.int64)
    further = "".join(
        f", {x}.code as {x}" if x in coded else f", x.{x} as {x}" for x in reading.beside
    )
    joins = " ".join(f"left join {x} on x.{x} = {x}.x" for x in coded)
    for file in reading.store.files:
        part = replace(reading, store=replace(reading.store, files=(file,)))
        (n,) = database.rows("counting rows", f"select count(*) from {part.store.sql}")[0]
        for start in range(0, int(n), rows):
            where = f"file_row_number >= {start} and file_row_number < {start + rows}"
            # A state seen only in rows that are left out has no code.
            found = database.arrays(
                "reading rows",
                f"""select hash(episode) as h, coalesce(s.code, -1)::bigint as s, a.code as a, r,
                           coalesce(s2.code, {TO_END})::bigint as s2, ends, cut, x.at{further}
                    from {part.steps(where=where)} x left join states s on x.s = s.x
                         left join actions a on x.a = a.x left join states s2 on x.s2 = s2.x
                         {joins}""",
            )
            at = found.pop("at")
            chunk = {name: np.ma.filled(x, -1) for name, x in found.items()}
            if (at[1:] < at[:-1]).any():  # joins hand out small chunks late
                order = np.argsort(at, kind="stable")
                chunk = {name: x[order] for name, x in chunk.items()}
            yield chunk | {"a": to_action[chunk["a"]]}


def _batch(log: Log, reading: Reading, rows: Columns, first_row: int) -> Iterator[Batch]:
    """The batch of some whole episodes, unless all their rows are left out."""
    if not rows:
        return
    new = np.append(True, rows["h"][1:] != rows["h"][:-1])
    last = np.append(new[1:], True)
    end, ends = log.n_states - 1, rows["ends"].astype(bool)
    if reading.given:
        follow = np.where(rows["s2"] == TO_END, end, rows["s2"])
        keep = np.ones(len(new), dtype=bool)
    else:
        ends = ends | last if reading.options.episode_end == "terminal" else ends
        if reading.limit:  # no episode is longer
            ends = ends & (np.bincount(np.cumsum(new) - 1)[np.cumsum(new) - 1] < reading.limit)
        follow, keep = np.where(last, end, np.append(rows["s"][1:], end)), ~last | ends
    if not keep.any():
        return
    called = {"p": "propensity", **reading.beside_labels}
    number = np.cumsum(new)[keep]
    episode = np.cumsum(np.append(False, number[1:] != number[:-1]))
    follow = follow[keep].astype(np.int64)
    yield Batch(
        state=rows["s"][keep],
        action=rows["a"][keep],
        reward=rows["r"][keep],
        next_state=follow,
        episode=episode,
        ends=log.terminal[follow],
        truncated=rows["cut"][keep].astype(bool),
        row=first_row + np.flatnonzero(keep),
        n_states=log.n_states,
        n_actions=log.n_actions,
        terminal_states=tuple(np.flatnonzero(log.terminal).tolist()),
        has_end=log.has_end,
        left_out=int((~keep).sum()),
        labels=log.labels,
        beside={called.get(x, x): rows[x][keep] for x in reading.beside},
    )


def joined(parts: list[Batch]) -> Batch:
    """Batches of different episodes as one."""
    if not parts:
        raise LogError("no row of the log has a successor")
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0, *(part.n_episodes for part in parts)])
    names = ("state", "action", "reward", "next_state", "ends", "truncated", "row")
    columns: Any = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    columns["episode"] = np.concatenate(
        [part.episode + n for part, n in zip(parts, before, strict=False)]
    )
    columns["beside"] = {
        name: np.concatenate([part.beside[name] for part in parts]) for name in parts[0].beside
    }
    return replace(parts[0], **columns, left_out=sum(part.left_out for part in parts))
