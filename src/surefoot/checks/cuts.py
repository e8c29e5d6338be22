"""What is not in a log for how it went: rows left out only because they did not end, where those
that ended are kept; episodes whose numbers are not there.
"""

from __future__ import annotations

import numpy as np

from surefoot.checks.finding import CUTS, MISSING, NOTE, WARNING, Finding
from surefoot.logs import Log
from surefoot.logs.accounting import CUT
from surefoot.logs.database import path_sql
from surefoot.logs.query import USED
from surefoot.logs.tally import plain_label

SOME, MANY = 0.01, 0.05  # of the rows of pairs that ended: worth a warning; a veto
MISSED = 0.01  # share of missing episodes that is a warning, and forbids proofs
FEWEST_NUMBERS = 20  # with the same letters before them that say how episodes are numbered
# numbers in a row that may be missing episodes; a longer jump begins to count anew
LONGEST_GAP = 20
DENSE = 0.5  # share of the numbers between the first and the last that is there where they count up


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
