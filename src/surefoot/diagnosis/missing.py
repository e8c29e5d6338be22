"""Are episodes missing? Numbers of episodes that are not there, among those that are."""

from __future__ import annotations

from surefoot.diagnosis.finding import MISSING, NOTE, WARNING, Finding
from surefoot.logs import Log

FEWEST = 20  # numbers with the same letters before them that say how episodes are numbered
LONGEST = 20  # numbers in a row that may be missing episodes; a longer jump begins to count anew
DENSE = 0.5  # share of the numbers between the first and the last that is there where they count up
SOME = 0.01  # share of missing episodes that is a warning, and forbids proofs


def missing(log: Log) -> list[Finding]:
    """Where episodes are numbered one after the other, which numbers are not there?

    Episodes that are left out for how they went mislead every method, and no other trace of them is
    in a log. Numbers of which at most half are there are no count of episodes, and say nothing.
    `improve` asks of any that are missing whether they could undo the gain.
    """
    while log.view is not None:
        log = log.view.base
    if log.reading is None or log.bandit or (log.n_episodes or 0) < FEWEST:
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
                select count(*), coalesce(sum(gap) filter (gap <= {LONGEST}), 0) from steps
                group by letters order by letters""",
        )
    counted = [(int(n), int(gap)) for n, gap in found if n >= FEWEST]
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
    many = share >= SOME
    return [
        Finding("missing episodes", WARNING if many else NOTE, sentence, numbers, MISSING, many)
    ]
