"""The first page of an improvement, for those who decide and were not there: what would change,
what it is worth, how sure that is, who could be harmed, what was assumed, what to do next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.core.policy import CHANGED
from surefoot.core.ranges import ranges_in_words
from surefoot.core.text import in_rows, plural
from surefoot.report.folder import StateRecord
from surefoot.report.improvement_words import held_out_gain, judged
from surefoot.report.log_words import in_unit, lower, points, reward_words
from surefoot.report.page import Item, PageTable, Section, number, percent, signed_number
from surefoot.report.part_pages import part_section
from surefoot.report.statements import DOUBTS, Statement, of_kind, sentence

MOST_SHOWN = 6  # changes on the first page
MOST_KEPT = 3  # states that stay and are named there
NOT_ASKED = (
    "Not looked at: whether a group of people, or another outcome such as cost, gets worse. A gain"
    " on average can hide that (surefoot improve --group, --guard)."
)
ALONE = (
    "The changes that move most decisions. Gain by itself: what held-out data say of it if it were"
    " the only change{}, with its 90 % interval. Shown: that gain is above 0 by more than chance."
    " Of those shown, about 5 % at most are no better, on average over logs like this; the others"
    " are supported only together."
)
LARGEST = "The changes that move most decisions."
COLUMNS = ("state", "less of", "more of", "visits")


def committee(
    summary: Mapping[str, Any],
    states: Sequence[StateRecord],
    said: Sequence[Statement],
    columns: Sequence[str] = (),
) -> list[Section]:
    """The sections of the first page; `columns`: those of a state's label."""
    shown, more = judged(summary)
    rest = f"{more} more are in the technical part." if more else ""
    found = [
        _changes(summary, states, said, columns),
        Section(title="What it is worth, and how sure that is", sentences=_worth(summary, said)),
        _harm(summary, said),
        Section(
            title="What was assumed",
            sentences=[f"No data can show that these hold; you must judge them. {rest}"],
            items=_items(shown),
        ),
        Section(
            title="What the log cannot show",
            items=_items([_in_words(x.words, summary) for x in of_kind(said, *DOUBTS) if x.first]),
        ),
        Section(
            title="What to do next",
            items=_items([y for x in of_kind(said, "next") for y in x.whole]),
        ),
    ]
    return [x for x in found if x.items or x.tables or (x.sentences and "assumed" not in x.title)]


def glossary(summary: Mapping[str, Any]) -> str:
    """What the words of the page mean."""
    made = "what was done when the log was made"
    if not summary["baseline"].get("made_the_log", True):
        made = "the policy that was given to compare with"
    episode = (
        " An episode is a series of decisions that belong together, such as one stay or one run."
    )
    return (
        f"The baseline is {made}; the new policy was learned from a part of the log, and tested on"
        " the rest, the held-out data. A state is a situation as the log describes it, an action"
        f" what was done in it.{'' if summary['log']['bandit'] else episode} Nobody has acted by"
        " the new policy yet: what it is worth is worked out from what the log shows."
    )


def alone_table(
    found: Sequence[Mapping[str, Any]],
    states: Sequence[StateRecord],
    log: Mapping[str, Any],
    columns: Sequence[str],
) -> PageTable:
    """Changes, each with its own evidence."""
    by = {x.label: x for x in states}
    rows = [
        (
            *_change(
                by.get(x["state"], StateRecord((x["state"],), "", ())),
                columns,
                x["less_of"],
                x["more_of"],
            ),
            f"{x['visits']:,}",
            f"{signed_number(x['gain'], log)} ({number(x['low'], log)} to"
            f" {number(x['high'], log)})",
            "yes" if x["shown"] else "no",
        )
        for x in found
    ]
    names = (*COLUMNS, "gain by itself", "shown")
    return PageTable(ALONE.format(in_unit(log)), names, rows, frozenset({3, 4}))


def _change(state: StateRecord, columns: Sequence[str], *actions: str) -> tuple[str, ...]:
    """A state, and what is done less and more there, from how often to how often."""
    by = {x.action: f" {percent(x.baseline)} → {percent(x.candidate)}" for x in state.pairs}
    return (_named(state, columns), *(f"{x}{by.get(x, '')}" for x in actions))


def _named(state: StateRecord, columns: Sequence[str]) -> str:
    """A state in words, as far as its label has any."""
    if len(columns) == len(state.fields) > 1:
        return ", ".join(f"{k} {x}" for k, x in zip(columns, state.fields, strict=True))
    return ranges_in_words(state.label)


def _in_words(words: str, summary: Mapping[str, Any]) -> str:
    """What is said of the weakest pair, with its state in words."""
    state = (summary["cannot_exclude"] or {}).get("state", "")
    said = ranges_in_words(state)
    return words if said == state else words.replace(f"in {state!r}", f"where {said}")


def _changes(
    summary: Mapping[str, Any],
    states: Sequence[StateRecord],
    said: Sequence[Statement],
    columns: Sequence[str],
) -> Section:
    """What changes for whom, from what to what."""
    changes, log = summary["changes"], summary["log"]
    title = "What would change"
    if not changes["states_changed"]:
        return Section(title=title, sentences=["Nothing: the new policy is the baseline."])
    words = of_kind(said, "changes")[0].words.partition(". Most: ")[0]
    alone = changes.get("alone", ())
    table = _largest(states, columns)
    if alone:
        table = alone_table(alone[:MOST_SHOWN], states, log, columns)
    left = changes["states_changed"] - len(table.rows)
    more = [f"{plural(left, 'change')} more: see the technical part."] if left > 0 else []
    same = [_named(x, columns) for x in states if x.moved <= CHANGED]
    if 0 < len(same) <= MOST_KEPT:
        more.append(f"Where nothing changes: {'; '.join(same)}.")
    elif same:
        more.append(f"In {len(same):,} other states nothing changes.")
    return Section(title=title, sentences=[f"The new policy {words}.", *more], tables=[table])


def _largest(states: Sequence[StateRecord], columns: Sequence[str]) -> PageTable:
    """The changes that move most decisions, where none has evidence of its own."""
    changed = [x for x in states if x.moved > CHANGED]
    rows = []
    for state in sorted(changed, key=lambda x: -x.moved * x.visits)[:MOST_SHOWN]:
        by = sorted(state.pairs, key=lambda p: p.candidate - p.baseline)
        change = _change(state, columns, by[0].action, by[-1].action)
        rows.append((*change, f"{state.visits:,}"))
    return PageTable(LARGEST, COLUMNS, rows, frozenset({3}))


def _worth(summary: Mapping[str, Any], said: Sequence[Statement]) -> list[str]:
    """The gain in the reader's unit, what more of it means, and how it was tested."""
    log = summary["log"]
    mean = f"; {reward_words(log)}"
    mean = in_rows(mean) if log["bandit"] else mean
    better = mean.removeprefix("; ").partition(";")[0]
    found = []
    for x in of_kind(said, "worth"):
        words = x.words.removesuffix(mean)
        told = words != x.words and not (points(log) and not lower(log))  # its unit says it
        found.append(f"Gain: {words}{f'; {better}' if told else ''}.")
    return [*found, *(sentence(x.words) for x in of_kind(said, "reward", "sure"))]


def _harm(summary: Mapping[str, Any], said: Sequence[Statement]) -> Section:
    """Guards and groups, or that nobody asked."""
    title = "Who could be harmed"
    for x in of_kind(said, "guards", "groups"):
        return part_section(title, summary, x, held_out_gain(summary))
    return Section(title=title, sentences=[NOT_ASKED])


def _items(words: Sequence[str]) -> list[Item]:
    return [Item(sentence(x)) for x in words]
