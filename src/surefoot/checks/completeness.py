"""Is every episode there, and there once? Rows left out only because they did not end, where those
that ended are kept; episodes whose numbers are not there; episodes or stretches of rows that repeat
others exactly, more often than by chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, gammainccinv, gammaincinv, pdtr

from surefoot.checks.finding import COPIES, CUTS, MISSING, NOTE, OK, WARNING, Finding
from surefoot.core import Batch
from surefoot.core.text import plural
from surefoot.logs import Log
from surefoot.logs.accounting import CUT
from surefoot.logs.database import path_sql
from surefoot.logs.query import USED
from surefoot.logs.tally import plain_label
from surefoot.statistics.independence import combinations

SOME, MANY = 0.01, 0.05  # of the rows of pairs that ended: worth a warning; a veto
MISSED = 0.01  # share of missing episodes that is a warning, and forbids proofs
FEWEST_NUMBERS = 20  # with the same letters before them that say how episodes are numbered
# numbers in a row that may be missing episodes; a longer jump begins to count anew
LONGEST_GAP = 20
DENSE = 0.5  # share of the numbers between the first and the last that is there where they count up
MOST_ROWS = 2_000_000  # rows looked at for copies and memory; drift looks at all
BY_CHANCE = 1e-4  # copies are no coincidence where one is less likely than this
# A model of the log judges episodes of which it expects fewer than RARE, and it counts MISFIT times
# the chances it gives them, since it may be wrong about an episode.
RARE, MISFIT = 1e-2, 10.0
WINDOW = 32  # rows in a row that are the same as others before them
ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio


def cuts(log: Log) -> list[Finding]:
    """Without next_state the last row of a cut episode is left out, and that of an ended one is
    not. With p the chance to end and f the share of rows left out of those that did not end, ends
    are p / (p + (1 - p) (1 - f)) of the rows that stay.
    """
    if not log.n_unfollowed:
        return _never_ending(log)
    share = _share(log)
    numbers = {"rows": log.n_unfollowed, "share": share}
    sentence = (
        f"{log.n_unfollowed:,} rows are left out because they did not end and nothing is known to"
        f" follow them, {share:.2%} of the rows of pairs that ended at times; rows that ended are"
        " kept. Such steps look more likely to end than they are. Give next_state"
    )
    level = WARNING if share >= SOME else NOTE
    return [Finding("cuts", level, sentence, numbers, CUTS, share >= MANY)]


def _never_ending(log: Log) -> list[Finding]:
    """Where nothing ever ends the last row of every episode is left out. Of the longest episodes
    its place is known before it is; a shorter one may have stopped for what that row held.
    """
    log = _as_read(log)
    lost = log.accounting.left_out_as(CUT)
    if log.terminal.any() or lost <= 1 or log.reading is None:
        return []
    with log.database() as database:
        shorter = int(
            database.rows(
                "looking at the lengths of episodes",
                f"""with lengths as (select count(*) as n
                                     from {log.reading.steps()} group by episode)
                    select count(*) from lengths where n < (select max(n) from lengths)""",
            )[0][0]
        )
    if not shorter:
        return []
    share = shorter / (lost + log.accounting.used)
    sentence = (
        f"nothing ends in this log, {shorter:,} episodes are shorter than the longest, and the last"
        f" row of each, {share:.2%} of all rows, is left out, as nothing is known to follow it. If"
        " episodes stop for what their last rows hold, the rows that are left mislead. Give"
        " next_state, or say --episode-end terminal if every episode ends with its last row"
    )
    numbers = {"rows": shorter, "share": share}
    level = WARNING if share >= SOME else NOTE
    return [Finding("cuts", level, sentence, numbers, CUTS, share >= MANY)]


def _share(log: Log) -> float:
    """The share of the rows left out for it, in pairs of which a row ended: as if all of them were
    there, where the rows are not there to look at.
    """
    log = _as_read(log)
    if log.reading is None or log.reading.given or log.starts is None:
        return float(log.n_unfollowed / (log.n_unfollowed + log.n_sa[_ending(log)].sum()))
    with log.database() as database:
        for name in ("states", "actions"):
            file = path_sql(str(database.folder / name))
            database.run("reading labels", f"create temp table {name} as from read_parquet({file})")
        found = database.rows(
            "looking at rows left out",
            f"""select s.code, a.x, count(*)
                from {log.reading.transitions()} x join states s on x.s = s.x
                     join actions a on x.a = a.x
                where not {USED} group by all""",
        )
    ending = _ending(log)
    lost = sum(n for s, a, n in found if ending[s, log.labels.action_code(plain_label(a))])
    kept = float(log.n_sa[ending].sum())
    return float(lost / (lost + kept))


def _ending(log: Log) -> np.ndarray:
    """Pairs of which a row ended, [S, A]."""
    shape, n_sas = (log.n_states, log.n_actions), log.counts.n_sas
    if log.counts.is_sparse:
        return np.asarray(n_sas[:, log.terminal].sum(axis=1) > 0).reshape(shape)
    return np.asarray(n_sas.reshape(*shape, -1)[..., log.terminal].sum(axis=-1) > 0)


def _as_read(log: Log) -> Log:
    """The log without what a view made of it."""
    while log.view is not None:
        log = log.view.base
    return log


def missing(log: Log) -> list[Finding]:
    """Where episodes are numbered one after the other, which numbers are not there?

    Episodes that are left out for how they went mislead every method, and no other trace of them is
    in a log. Numbers of which at most half are there are no count of episodes, and say nothing.
    `improve` asks of any that are missing whether they could undo the gain.
    """
    log = _as_read(log)
    if log.reading is None or log.bandit or (log.n_episodes or 0) < FEWEST_NUMBERS:
        return []
    with log.database(log.reading.options.threads) as database:
        found = database.rows(
            "looking at the numbers of episodes",
            f"""with labels as (select distinct episode::varchar as x
                                from (select distinct episode from {log.reading.steps()})),
                     ends as (select x, regexp_extract(x, '[0-9]+$') as digits from labels),
                     numbers as (select try_cast(digits as bigint) as i,
                                        left(x, length(x) - length(digits)) as letters
                                 from ends where length(digits) between 1 and 15),
                     steps as (select distinct letters, i,
                                      i - lag(i) over (partition by letters order by i) - 1 as gap
                               from (select distinct letters, i from numbers where i is not null))
                select count(*), coalesce(sum(gap) filter (gap <= {LONGEST_GAP}), 0) from steps
                group by letters order by letters""",
        )
    counted = [(int(n), int(gap)) for n, gap in found if n >= FEWEST_NUMBERS]
    dense = [(n, n + gap) for n, gap in counted if n > DENSE * (n + gap)]
    gone = sum(span - n for n, span in dense)
    if not gone:
        return []
    share = gone / sum(span for _, span in dense)
    sentence = (
        f"episodes are missing: {gone:,} of the numbers between the first and the last are not"
        f" there ({share:.2%}). If they were left out because of how they went, what is left"
        " misleads; nothing else in a log can show that"
    )
    numbers = {"missing": gone, "share": share}
    many = share >= MISSED
    return [
        Finding("missing episodes", WARNING if many else NOTE, sentence, numbers, MISSING, many)
    ]


@dataclass(frozen=True, repr=False)
class Contents:
    """Of every row: `row` a hash of (s, a, r, s'), its state and action, its episode 0, 1, ..."""

    row: np.ndarray
    state: np.ndarray
    action: np.ndarray
    episode: np.ndarray


@dataclass(frozen=True, repr=False)
class Copies:
    """What repeats itself in a log.

    group [episodes]     the number of each episode's content: equal for equal states, actions,
                         rewards and successors, in order
    is_copy [episodes]   whether it counts as a copy of an earlier one; nowhere, where repetitions
                         may be chance
    repeated [rows]      whether a row lies in a stretch of 32 rows or more that was there before,
                         where that is no chance
    p_value              of the repetitions, by chance
    """

    group: np.ndarray
    is_copy: np.ndarray
    repeated: np.ndarray
    p_value: float


def with_look_back(blocks: Iterable[Batch], rows: int) -> Iterator[tuple[bool, Batch]]:
    """(whether to look for copies and memory there, block): in all of them up to MOST_ROWS rows,
    else in evenly spaced ones of about so many in all.
    """
    every = -(-rows // MOST_ROWS)
    for i, block in enumerate(blocks):
        yield i % max(every, 1) == 0, block


def looked_back(looked_at: int, rows: int) -> str:
    """How many rows were looked at, in words; "" where all were."""
    return f" ({looked_at:,} of {rows:,} rows, in evenly spaced blocks)" * (looked_at < rows)


def copied(found: Copies, rows: int) -> Finding:
    """Is every episode there once? `rows` are those of the log."""
    where = looked_back(len(found.repeated), rows)
    episodes = len(found.is_copy)
    n_copies, rows = int(found.is_copy.sum()), int(found.repeated.sum())
    equal = episodes - int(found.group.max(initial=-1)) - 1
    numbers = {
        "episodes": episodes,
        "equal_to_others": equal,
        "copies": n_copies,
        "repeated_rows": rows,
        "p_value": found.p_value,
    }
    if found.p_value >= BY_CHANCE:
        by_chance = f"{plural(equal, 'episode')} of {episodes:,} repeat others, as by chance"
        words = by_chance if equal else "no episode repeats another"
        return Finding("copies", OK, words + where, numbers, COPIES)
    words = (
        f"{n_copies:,} of {plural(episodes, 'episode')} are copies of others: the same states,"
        " actions and rewards to the last step"
        if n_copies
        else f"{rows:,} of {len(found.repeated):,} rows repeat earlier rows in the same order, to"
        " the last reward"
    )
    p = f"p = {found.p_value:.1g}" if found.p_value > 1e-12 else "p < 1e-12"
    sentence = (
        f"{words} (by chance {p}){where}. Copies make every result look surer than it is: leave"
        " them out"
    )
    return Finding("copies", WARNING, sentence, numbers, COPIES, vetoes=True)


def copies(log: Log) -> Copies:
    """The copies in a log (of more than 2,000,000 rows: in evenly spaced blocks), episodes in the
    order of `Log.blocks`.
    """
    blocks = with_look_back(log.blocks(), log.accounting.used)
    return copies_in(tuple(contents(block) for look, block in blocks if look))


def contents(block: Batch) -> Contents:
    """The contents of a block of whole episodes; different rows share a hash with chance 2^-64.

    Rewards are rounded to five digits: another system may have written a copy with fewer digits
    than the original has.
    """
    r = block.reward
    size = np.where(r == 0, 1.0, 10.0 ** np.floor(np.log10(np.where(r == 0, 1.0, np.abs(r)))))
    reward = np.round(r / size, 4) * size + 0.0  # -0.0 becomes 0.0
    found = np.zeros(len(block), dtype=np.uint64)
    for x in (block.state, block.action, block.next_state):
        found = mixed(found + x.astype(np.uint64) + ODD)
    found = mixed(found + reward.view(np.uint64) + ODD)
    return Contents(found, block.state, block.action, block.episode)


def mixed(x: np.ndarray) -> np.ndarray:
    """Numbers whose bits all depend on all bits of x: SplitMix64 (Steele, Lea and Flood 2014)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(x ^ (x >> np.uint64(31)))


def copies_in(parts: tuple[Contents, ...]) -> Copies:
    """The copies in blocks of rows.

    Four signs, each sharp where others are blunt. Episodes: (1) all contents are there a multiple
    of g times; (2) some number of times is far more common than any law of episodes allows; (3)
    more unlikely episodes repeat others than a model of the log expects. Rows: (4) more stretches
    of 32 rows do. With (1), one in g of equal episodes is an original; else the first one is.
    """
    before = np.cumsum([0, *(int(part.episode[-1]) + 1 for part in parts)])
    rows = Contents(
        np.concatenate([x.row for x in parts]),
        np.concatenate([x.state for x in parts]),
        np.concatenate([x.action for x in parts]),
        np.concatenate([x.episode + n for x, n in zip(parts, before[:-1], strict=True)]),
    )
    first = np.flatnonzero(np.append(True, np.diff(rows.episode) != 0))
    length = np.diff(np.append(first, len(rows.row)))
    within = (np.arange(len(rows.row)) - np.repeat(first, length)).astype(np.uint64)
    content = np.add.reduceat(mixed(rows.row ^ mixed(within + ODD)), first)  # of each episode
    _, group, times = np.unique(content, return_inverse=True, return_counts=True)
    order = np.argsort(group, kind="stable")
    nth = np.empty(len(group), dtype=np.int64)  # how many of its group came before an episode
    nth[order] = np.arange(len(group)) - np.repeat(np.cumsum(times) - times, times)
    chance = _log_chances(rows, first)
    fold = int(np.gcd.reduce(times))
    # A Poisson number > 0 is a multiple of g with a chance below 1 / g + 0.04, whatever its rate.
    by_fold = (1 / fold + 0.05) ** len(times) if fold > 1 else 1.0
    others = min(_by_number_of_times(times), _by_model(group, np.add.reduceat(chance, first)))
    stretch, by_stretch = _stretches(rows, chance)
    by_episode = 3 * min(by_fold, others)
    repeated = stretch & (by_stretch < BY_CHANCE)
    kept = times[group] // fold if by_fold < BY_CHANCE / 3 else 1
    is_copy = (nth >= kept) & ((by_episode < BY_CHANCE) | np.logical_and.reduceat(repeated, first))
    return Copies(group, is_copy, repeated, min(1.0, by_episode, by_stretch))


def _log_chances(rows: Contents, first: np.ndarray) -> np.ndarray:
    """ln of the chance of every row, estimated from the log, and that of the start.

    p(r, s' | s, a) pi(a | s, the previous pair): people who take turns repeat themselves without
    copying.
    """

    def times(x: np.ndarray) -> np.ndarray:
        """How often each entry's number 0, 1, ... is there."""
        return np.asarray(np.bincount(x)[x])

    _, pair = combinations(rows.state, rows.action)
    before = np.append(0, pair[:-1] + 1)
    before[first] = 0
    _, there = combinations(before, rows.state)
    _, done = combinations(there, rows.action)
    content = np.unique(rows.row, return_inverse=True)[1]
    found: np.ndarray = np.log(times(content) / times(pair) * times(done) / times(there))
    found[first] += np.log(times(rows.state[first]) / len(first))
    return found


def _by_number_of_times(times: np.ndarray) -> float:
    """The p-value of f_k, the number of contents that are there k times, under any law of episodes.

    Contents come as Poisson variables whose rates have any law. So k! E f_k are the moments of a
    measure, and by Cauchy-Schwarz (E f_k)^2 <= (k + 1) / k E f_{k-1} E f_{k+1}. Broken (a) where
    f_k is large and both neighbours are small: given their sum f_k is binomial, with a share of at
    most c / (2 + c), c^2 = (k + 1) / k; (b) where f_{k+1} is smaller than f_k and f_{k-1} allow.
    """
    f = np.bincount(times, minlength=3)
    if len(f) > 10_000:
        return 1.0  # contents that come so often are few
    f = np.append(f, 0)
    k = np.flatnonzero(f[:-1] > 1)
    k = k[k >= 2]
    if not len(k):
        return 1.0
    c = np.sqrt((k + 1) / k)
    peak = betainc(f[k], f[k - 1] + f[k + 1] + 1, c / (2 + c))  # P(binomial >= f[k])
    slack = BY_CHANCE / 100
    least, most = gammaincinv(f[k], slack), gammainccinv(f[k - 1] + 1, slack)
    fall = pdtr(f[k + 1], least**2 / most / c**2) + 2 * slack
    return min(1.0, 2 * len(k) * float(min(peak.min(), fall.min())))


def _by_model(group: np.ndarray, log_chance: np.ndarray) -> float:
    """The p-value of the number of repeated episodes, among contents too unlikely to repeat.

    The model may be wrong about an episode, about its length for instance (a time limit is not
    Markov): see RARE and MISFIT.
    """
    _, first, times = np.unique(group, return_index=True, return_counts=True)
    n, chance = len(group), np.exp(log_chance[first])
    rare = n * chance < RARE
    expected = MISFIT * float((chance * (n - 1 - first))[rare].sum())
    return _more_than(int((times - 1)[rare].sum()), expected)


def _stretches(rows: Contents, chance: np.ndarray) -> tuple[np.ndarray, float]:
    """(rows in stretches that were there before, p-value of how often such a stretch begins)."""
    n = len(rows.row) - WINDOW + 1
    if n < 2:
        return np.zeros(len(rows.row), dtype=bool), 1.0
    number, width = rows.row, 1
    while width < WINDOW:
        number, width = mixed(number[:-width] + number[width:] * ODD), 2 * width
    again = np.zeros(n, dtype=bool)
    in_order = np.sort(number)
    several = np.unique(in_order[1:][in_order[1:] == in_order[:-1]])
    if len(several):  # looked for only where there are any: most logs have none
        at = np.flatnonzero(np.isin(number, several))
        _, earliest, place = np.unique(number[at], return_index=True, return_inverse=True)
        again[at] = earliest[place] < np.arange(len(at))
    first = np.flatnonzero(~again)
    total = np.append(0.0, np.cumsum(chance))
    expected = float((np.exp(total[first + WINDOW] - total[first]) * (n - 1 - first)).sum())
    begins = int((again & ~np.append(False, again[:-1])).sum())
    repeated = np.zeros(len(rows.row), dtype=bool)
    for k in range(WINDOW):
        repeated[k : k + n] |= again
    return repeated, _more_than(begins, expected)


def _more_than(seen: int, expected: float) -> float:
    """Chernoff's bound exp(k - m - k ln(k / m)) on P(at least k = `seen` events).

    m = `expected` is the sum of the conditional probabilities of the events, which may depend on
    each other (Freedman, Ann. Probab. 3, 1975).
    """
    if seen <= expected or seen == 0:
        return 1.0
    if expected <= 0:
        return 0.0
    return float(np.exp(seen - expected - seen * np.log(seen / expected)))
