"""The page of an improvement: the verdict and what a committee needs on the first page; behind it
what changes, how sure that is, what the data cover, what stays, and how it was made.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from surefoot.core.atomic import file_hash, read_json, settle
from surefoot.core.errors import LogError
from surefoot.core.plain_values import schema_name
from surefoot.core.policy import CHANGED
from surefoot.core.text import plural
from surefoot.report.cell_pages import cell_sections
from surefoot.report.committee import MOST_SHOWN, alone_table, committee, glossary
from surefoot.report.folder import CANDIDATE, PAIRS, POLICY, SUMMARY, StateRecord, read_pairs
from surefoot.report.improvement_words import (
    given_parameters,
    held_out_gain,
    improvement_statements,
)
from surefoot.report.log_words import WHERE, in_unit
from surefoot.report.page import (
    MOST_BYTES,
    Item,
    PageTable,
    Picture,
    Section,
    embedded,
    number,
    percent,
    render,
    signed_number,
)
from surefoot.report.part_pages import part_section
from surefoot.report.part_words import KINDS, part_rules
from surefoot.report.pictures import gain_picture, hidden_picture, maps, shares_picture
from surefoot.report.policy_words import safety_statements
from surefoot.report.statements import Statement, known, of_kind, sentence

PARTS = tuple(many for _, many in KINDS)
ROOM = 300_000  # bytes of a page that are not its table of states
SEEN = ((0, 0), (1, 1), (2, 3), (4, 10), (11, 30), (31, 100), (101, None))
MOST_GAPS = 10  # pairs that are named
SECTIONS: Mapping[str, tuple[str, ...]] = {
    "The gain": ("worth",),
    "The test": ("sure",),
    "What the log cannot exclude": ("unseen",),
    "What a hidden cause could explain": ("hidden",),
    "What time could explain": ("time",),
    "What must be true for the verdict": ("assumes",),
}
METHODS = {
    "model": "by a model of it",
    "weighted episodes": "by weighted episodes, without a model",
}
SAFETY = "safety-test.json"
DATA = {"held-out half": "the half that tests", "all data": "all data: OPTIMISTIC"}


def page_of_folder(folder: Path) -> str:
    """The page of what `surefoot improve` wrote into a folder, with the safety test that lies
    there, if one does.
    """
    settle(folder)
    missing = [name for name in (SUMMARY, PAIRS) if not (folder / name).is_file()]
    if missing:
        raise LogError(
            f"{folder} has no {missing[0]}: give the folder that surefoot improve wrote (--out)"
        )
    try:
        summary = read_json(folder / SUMMARY)
    except ValueError as error:
        raise LogError(f"{folder / SUMMARY} is no JSON: run surefoot improve again") from error
    states, columns = read_pairs(folder / PAIRS)
    return improvement_page(summary, states, columns, read_safety(folder))


def improvement_page(
    summary: Mapping[str, Any],
    states: Sequence[StateRecord],
    columns: Sequence[str] = (),
    safety: Mapping[str, Any] | None = None,
) -> str:
    """The page of what an improvement found, as `summarise` says it, and of its states; `columns`
    are those of a state's label, `safety` is what `surefoot safety-test` found of the policy.
    """
    log, changes = summary["log"], summary["changes"]
    actions, states = in_order(states, log.get("action_labels", ()))
    said = improvement_statements(summary)
    verdict, read, baseline = (of_kind(said, x)[0] for x in ("verdict", "read", "baseline"))
    tested = "" if safety is None else safety_statements(safety)[0].words
    shown, left_out, alone = *_table(states), changes.get("alone", ())
    covered, table = coverage(states), estimates_table(summary)
    missing = gaps(states)
    return render(
        "improvement.html",
        title=f"{verdict.words} ({log['source']})",
        source=Path(log["source"]).name,
        baseline_is=_sentences(f"the baseline is {baseline.words}", *baseline.detail),
        good=summary["supported"] and not summary.get("waived"),
        word=verdict.words,
        glossary=glossary(summary),
        committee=committee(summary, states, said, columns),
        warnings=[sentence(x) for y in of_kind(said, "warning") for x in y.whole],
        reason=_sentences(*verdict.detail),
        safety_word=tested,
        figures=_figures(summary),
        holds=_sentences(*(x.words for x in of_kind(said, "holds"))),
        changes=". ".join(of_kind(said, "changes")[0].whole) if changes["states_changed"] else "",
        alone=[alone_table(alone, states, log, columns)] if len(alone) > MOST_SHOWN else [],
        maps=maps(states, columns, actions),
        state_name="state" if len(columns) < 2 else f"state ({', '.join(columns)})",
        left_out=left_out,
        gains=gain_pictures(summary),
        estimates=[] if table is None else [table],
        evidence=evidence(summary, said, safety),
        cover=_sentences(*read.whole),
        coverage=coverage_table(covered),
        coverage_picture=shares_picture(
            [
                (f"{x.seen} ({plural(x.pairs, 'pair')})", x.baseline, x.candidate)
                for x in covered
                if x.pairs
            ],
            "Share of the decisions of baseline and candidate by how often the action was seen; the"
            " table below has the numbers",
        ),
        gaps=[] if missing is None else [missing],
        findings=summary.get("findings", []),
        unchanged=_unchanged(states),
        command=summary.get("command", ""),
        made=_made(summary),
        notes=[sentence(x) for y in of_kind(said, "note") for x in y.whole],
        data=embedded(shown),
    )


def in_order(
    states: Sequence[StateRecord], labels: Sequence[str]
) -> tuple[list[str], list[StateRecord]]:
    """(the actions of the states in the order of these labels, the states with theirs so); others
    come last, in the order in which they are met.
    """
    place = {x: i for i, x in enumerate(labels)}
    for state in states:
        for pair in state.pairs:
            place.setdefault(pair.action, len(place))
    there = {pair.action for state in states for pair in state.pairs}
    found = [
        replace(x, pairs=tuple(sorted(x.pairs, key=lambda pair: place[pair.action])))
        for x in states
    ]
    return [x for x in place if x in there], found


def _sentences(*words: str) -> str:
    """Words as sentences of one paragraph."""
    return " ".join(map(sentence, words))


def _figures(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The four numbers that most people look for."""
    held_out, log = summary["worth"]["held_out"] or {}, summary["log"]
    found = []
    if held_out.get("gain") is not None and not math.isnan(held_out["gain"]):
        found = [
            (f"gain on held-out data{in_unit(log)}", signed_number(held_out["gain"], log)),
            ("at least (95 % sure)", signed_number(held_out["low"], log)),
        ]
    c = summary["certificate"] or {}
    if not held_out and summary["supported"] and "bound" in c:
        sure = f"{percent(1 - c['delta'])} sure" if not summary["despite"] else "see below"
        found = [(f"proved gain, at least ({sure})", signed_number(c["bound"], log))]
    changes = summary["changes"]
    return [
        *found,
        ("decisions that would change", percent(changes["mass_moved"])),
        ("rows of the log used", f"{log['rows_used']:,}"),
    ]


# What the log covers


@dataclass(frozen=True)
class CoverageRow:
    """Pairs seen so often, and the share of the decisions of both policies that rest on them."""

    seen: str
    pairs: int
    baseline: float
    candidate: float


def coverage(states: Sequence[StateRecord]) -> list[CoverageRow]:
    """How often pairs were seen, with the decisions that rest on them."""
    total = sum(state.visits for state in states) or 1
    found = []
    for low, high in SEEN:
        pairs, baseline, candidate = 0, 0.0, 0.0
        for state in states:
            for pair in state.pairs:
                if pair.count >= low and (high is None or pair.count <= high):
                    pairs += 1
                    baseline += state.visits * pair.baseline
                    candidate += state.visits * pair.candidate
        words = "never" if high == 0 else f"{low:,} times or more" if high is None else ""
        words = words or ("once" if high == 1 else f"{low} to {high} times")
        found.append(CoverageRow(words, pairs, baseline / total, candidate / total))
    return found


def coverage_table(rows: Sequence[CoverageRow]) -> PageTable:
    """The same in numbers."""
    return PageTable(
        "How often the pairs of a visited state and an action were seen, and how many of the"
        " decisions of both policies rest on them.",
        ("seen", "pairs", "baseline", "candidate"),
        [
            (row.seen, f"{row.pairs:,}", percent(row.baseline), percent(row.candidate))
            for row in rows
        ],
        frozenset({1, 2, 3}),
    )


def gaps(states: Sequence[StateRecord]) -> PageTable | None:
    """Actions of the baseline that the log never shows in a visited state; None without any."""
    total = sum(state.visits for state in states) or 1
    found = [
        (state.visits * pair.baseline / total, state, pair)
        for state in states
        for pair in state.pairs
        if pair.count == 0 and pair.baseline > 0
    ]
    if not found:
        return None
    found.sort(key=lambda x: -x[0])
    whole = sum(x[0] for x in found)
    named = "all of them" if len(found) <= MOST_GAPS else f"the {MOST_GAPS} largest"
    return PageTable(
        f"{plural(len(found), 'pair')} with {percent(whole)} of the baseline's decisions; {named}."
        " Nothing can be learned about them, and the candidate leaves them as they are.",
        ("state", "action", "baseline", "visits of the state", "share of all decisions"),
        [
            (state.label, pair.action, percent(pair.baseline), f"{state.visits:,}", percent(share))
            for share, state, pair in found[:MOST_GAPS]
        ],
        frozenset({2, 3, 4}),
    )


# What stays, and how it was made


def _unchanged(states: Sequence[StateRecord]) -> PageTable:
    """Why states stay, the reason of most decisions first."""
    total = sum(state.visits for state in states) or 1
    groups: dict[str, list[int]] = {}
    for state in states:
        if state.moved <= CHANGED:
            groups.setdefault(sentence(state.why), []).append(state.visits)
    rows = sorted(groups.items(), key=lambda group: -sum(group[1]))
    return PageTable(
        "Visited states that stay as they are.",
        ("why", "states", "share of all decisions"),
        [(why, f"{len(x):,}", percent(sum(x) / total)) for why, x in rows],
        frozenset({1, 2}),
    )


def _made(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where it comes from: versions, data, parameters."""
    log, chosen = summary["log"], summary["algorithm"]
    declared = "declared" if summary["reward_range"]["declared"] else "as seen in the log"
    low, high = summary["reward_range"]["low"], summary["reward_range"]["high"]
    return [
        ("data", f"{log['source']}, fingerprint {log['fingerprint']}"),
        ("algorithm", f"{chosen['name']} {given_parameters(chosen)}".strip()),
        ("discount factor", f"{summary['gamma']:g}"),
        ("baseline", "estimated from the log" if summary["baseline"]["estimated"] else "given"),
        ("reward range", f"[{number(low)}, {number(high)}], {declared}"),
        ("made with", ", ".join(f"{k} {v}" for k, v in summary.get("versions", {}).items())),
    ]


def _table(states: Sequence[StateRecord]) -> tuple[dict[str, Any], str]:
    """(the states for the page's script, what was left out so that the page stays small)."""
    actions: dict[str, int] = {}
    reasons: dict[str, int] = {}
    rows, size = [], 0
    for state in states:
        pairs = [
            [
                actions.setdefault(p.action, len(actions)),
                *map(_digits, (p.baseline, p.candidate)),
                p.count,
                *map(_digits, (p.value, p.error)),
            ]
            for p in state.pairs
        ]
        why, allowed = (
            reasons.setdefault(sentence(x), len(reasons)) if x else -1
            for x in (state.why, state.allowed)
        )
        moved = state.moved if state.moved > CHANGED else 0.0
        row = [state.label, state.visits, _digits(moved), _digits(state.gain), why, pairs, allowed]
        size += len(json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode())
        if size > MOST_BYTES - ROOM:
            break
        rows.append(row)
    lost = len(states) - len(rows)
    words = (
        f"{plural(lost, 'state')} more, which change least, {'is' if lost == 1 else 'are'} in"
        " pairs.csv only: the page stays small."
        if lost
        else ""
    )
    return {"actions": list(actions), "reasons": list(reasons), "states": rows}, words


def _digits(x: float) -> float | None:
    """Four digits for the page; None where it is not known."""
    return None if math.isnan(x) else float(f"{x:.4g}")


def gain_pictures(summary: Mapping[str, Any]) -> list[Picture]:
    """The held-out gain; nothing where there is none."""
    found = held_out_gain(summary)
    if found is None or not (known(found[1]) and known(found[2])):
        return []
    gain, low, high = (float(x) for x in found if x is not None)
    delta = float(summary["worth"]["held_out"]["delta"])
    caption = (
        f"The gain {WHERE[summary['start']]}, measured on the half of the log that the policy was"
        f" not learned from{in_unit(summary['log'])}. The bar reaches from what the gain is"
        " at least to what it is at most, each wrong for 5 % of logs. The curve shows how likely"
        " other values are."
    )
    show = partial(signed_number, log=summary["log"])
    return [Picture(gain_picture(gain, low, high, delta, show), caption)]


def estimates_table(summary: Mapping[str, Any]) -> PageTable | None:
    """Off-policy estimates of both policies with their intervals; None where there are none."""
    rows: dict[str, dict[str, str]] = {}
    for x in summary["worth"].get("estimates", []):
        by = f", {METHODS[x['by']]}" if x["data"] == "held-out half" else ""
        sign = "+" if x["of"] == "gain" else ""
        value, low, high = (number(x[k], summary["log"], sign) for k in ("value", "low", "high"))
        cell = f"{value}\n{low} to {high}"
        rows.setdefault(DATA[x["data"]] + by, {})[x["of"]] = cell
    if not rows:
        return None
    columns = ("baseline", *["rule"] * any("rule" in x for x in rows.values()), "candidate", "gain")
    units = in_unit(summary["log"])
    return PageTable(
        f"What both policies are worth {WHERE[summary['start']]}, with 90 % intervals{units}. The"
        " candidate was made from a part of all data, so it looks better there than it is.",
        ("measured on", *columns),
        [[name, *(cells.get(k, "–") for k in columns)] for name, cells in rows.items()],
        frozenset(range(1, len(columns) + 1)),
    )


def evidence(
    summary: Mapping[str, Any],
    said: Sequence[Statement],
    safety: Mapping[str, Any] | None = None,
) -> list[Section]:
    """What was said of how sure it is, each statement under its heading, with pictures; a proof
    that cannot be had is one line.
    """
    found = []
    for title, kinds in SECTIONS.items():
        for x in of_kind(said, *kinds):
            found.append(
                Section(
                    title=title,
                    sentences=[] if x.in_full else [sentence(x.words)],
                    pictures=_of_hidden_cause(summary) if x.kind == "hidden" else [],
                    items=_items(x.detail),
                )
            )
    if of_kind(said, *PARTS):
        rules = [sentence(x) for x in part_rules(summary)]
        found.append(Section(title="Guards and groups", sentences=rules))
    found += cell_sections(summary["log"].get("cells"))
    for x in of_kind(said, "proof"):
        detail = x.detail if (summary["certificate"] or {}).get("useful") else ()
        found.append(Section(title="Proof", sentences=[sentence(x.words)], items=_items(detail)))
    return found if safety is None else [*found, *_safety(safety)]


def _items(words: Sequence[str]) -> list[Item]:
    return [Item(sentence(x)) for x in words]


def _of_hidden_cause(summary: Mapping[str, Any]) -> list[Picture]:
    """What a hidden cause leaves of the gain; nothing without its curve."""
    curve = (summary["confounding"] or {}).get("curve", [])
    if len(curve) < 2:
        return []
    log = summary["log"]
    caption = (
        "How to read it: above the factor by which you think that a hidden cause could have"
        " multiplied or divided the odds of actions (1: there is none), the line shows what is left"
        " of the gain at least; where it is below 0, such a cause could explain all of it. The"
        " dashed line also counts sampling error: it is wrong for about 5 % of logs."
    )
    show = partial(signed_number, log=log)
    return [Picture(hidden_picture(curve, show, f"gain left, at least{in_unit(log)}"), caption)]


def read_safety(folder: Path) -> dict[str, Any] | None:
    """What `surefoot safety-test --json` said of a policy of the folder, if safety-test.json
    there has it; refused where it is about another policy.
    """
    path = folder / SAFETY
    if not path.is_file():
        return None
    again = f"run surefoot safety-test --json again, or remove {path}"
    try:
        found: dict[str, Any] = read_json(path)
    except ValueError as error:
        raise LogError(f"{path} is no JSON: {again}") from error
    if not isinstance(found, dict) or found.get("schema") != schema_name("safety-test"):
        raise LogError(f"{path} does not come from surefoot safety-test: {again}")
    for name in (POLICY, CANDIDATE):
        file = folder / name
        if file.is_file() and file_hash(file) == found.get("policy_fingerprint"):
            ends = ("estimated_gain", "gain_at_least", "gain_at_most")
            return found | {k: math.nan if found[k] is None else found[k] for k in ends}
    raise LogError(f"{path} is about another policy than those in {folder}: {again}")


def _safety(found: Mapping[str, Any]) -> list[Section]:
    """The test on data that had no part in the policy."""
    verdict, *rest = safety_statements(found)
    ends = tuple(found[k] for k in ("estimated_gain", "gain_at_least", "gain_at_most"))
    parts = [
        part_section("Guards and groups on other data", found, x, ends)
        for x in of_kind(rest, *PARTS)
    ]
    tested = f"{Path(str(found['policy'])).name} on {found['log']['source']}"
    told = [y for x in rest if x.kind not in PARTS for y in x.whole]
    first = Section(
        title="Safety test on other data",
        sentences=[f"{tested}: {verdict.words}"],
        items=_items(told),
    )
    return [first, *parts]
