"""The page of an improvement: the verdict, what changes, how sure that is, what the data cover,
what stays, and how it was made.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.advice.advise import CHANGED, NOTHING_TO_LEARN, Advice
from surefoot.advice.assurance import assurance_worth
from surefoot.advice.files import SUMMARY, write_advice
from surefoot.advice.gain import FINITE_SAMPLE
from surefoot.advice.pairs import PAIRS, StateRecord, read_pairs, state_records
from surefoot.advice.summary import unseen_sentence
from surefoot.advice.value_on_log import WHERE, own_lines
from surefoot.core.policy import Row
from surefoot.errors import LogError
from surefoot.report.page import MOST_BYTES, embedded, number, percent, render, signed_number
from surefoot.report.pictures import gain_picture, maps
from surefoot.text import parameters_text, plural

SEEN = ((0, 0), (1, 1), (2, 3), (4, 10), (11, 30), (31, 100), (101, None))
ROOM = 300_000  # bytes of a page that are not its table of states


@dataclass(frozen=True)
class CoverageRow:
    """Pairs seen so often, and the share of the decisions of both policies that rest on them."""

    seen: str
    pairs: int
    baseline: float
    candidate: float


@dataclass(frozen=True)
class Unchanged:
    """Visited states that stay, for one reason."""

    why: str
    states: int
    share: float


def read_folder(folder: Path) -> tuple[dict[str, Any], list[StateRecord], list[str]]:
    """(summary, states, columns of their labels) that `surefoot improve` wrote into a folder."""
    missing = [name for name in (SUMMARY, PAIRS) if not (folder / name).is_file()]
    if missing:
        raise LogError(
            f"{folder} has no {missing[0]}: give the folder that surefoot improve wrote (--out)"
        )
    try:
        summary = json.loads((folder / SUMMARY).read_text("utf-8"))
    except ValueError as error:
        raise LogError(f"{folder / SUMMARY} is no JSON: run surefoot improve again") from error
    return summary, *read_pairs(folder / PAIRS)


def write_improvement(
    out: str | Path,
    advice: Advice,
    summary: Mapping[str, Any],
    elsewhere: Sequence[Row] = (),
    *,
    page: bool = True,
) -> dict[str, Path]:
    """Write the files of an improvement with, unless told otherwise, its page; and say where."""
    states = state_records(advice)
    text = improvement_page(summary, states, advice.log.labels.headers) if page else ""
    return write_advice(out, advice, summary, elsewhere, states=states, report=text)


def improvement_page(
    summary: Mapping[str, Any], states: Sequence[StateRecord], columns: Sequence[str] = ()
) -> str:
    """The page of what an improvement found, as `summarise` says it, and of its states; `columns`
    are those of a state's label.
    """
    log, changes, worth = summary["log"], summary["changes"], summary["worth"]
    held_out = worth["held_out"] or {}
    shown, left_out = _table(states)
    picture, caption = _gain(summary)
    return render(
        "improvement.html",
        title=f"{_word(summary)} ({log['source']})",
        source=log["source"],
        supported=summary["supported"],
        word=_word(summary),
        reason=_sentence(summary["reason"]),
        policy_is=summary["policy_is"],
        figures=_figures(summary),
        changed=changes["states_changed"],
        visited=changes["states_visited"],
        moved=changes["mass_moved"],
        candidate_only=(
            ""
            if summary["supported"] or summary["accepted_unsupported"]
            else " It is not used: candidate.csv has it."
        ),
        maps=maps(states, columns),
        left_out=left_out,
        gain_picture=picture,
        gain_caption=caption,
        sureness=_sureness(summary, held_out),
        cover=_cover(log),
        coverage=_coverage(states),
        findings=summary.get("findings", []),
        unchanged=_unchanged(states),
        command=summary.get("command", ""),
        made=_made(summary),
        notes=summary["notes"],
        data=embedded(shown),
    )


def _word(summary: Mapping[str, Any]) -> str:
    """The verdict as a headline."""
    if summary["verdict"] == NOTHING_TO_LEARN:
        return "Nothing to learn from this log"
    if summary["supported"]:
        return "Supported: the data show that the new policy is better"
    if summary["accepted_unsupported"]:
        return "Accepted by the user; the data do not support it"
    return "Not supported: the data do not show that a change is better"


def _sentence(words: str) -> str:
    """With a capital letter, without its full stop."""
    words = words.rstrip(".")
    return words[:1].upper() + words[1:]


def _figures(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The four numbers that most people look for."""
    held_out = summary["worth"]["held_out"] or {}
    found = []
    if held_out.get("gain") is not None and not math.isnan(held_out["gain"]):
        found = [
            ("gain on held-out data", signed_number(held_out["gain"])),
            ("at least (95 % sure)", signed_number(held_out["low"])),
        ]
    changes = summary["changes"]
    return [
        *found,
        ("decisions that would change", percent(changes["mass_moved"])),
        ("rows of the log used", f"{summary['log']['rows_used']:,}"),
    ]


def _gain(summary: Mapping[str, Any]) -> tuple[Any, str]:
    """(picture, caption) of the held-out gain; ("", "") where there is none."""
    held_out = summary["worth"]["held_out"] or {}
    values = [held_out.get(name) for name in ("gain", "low", "high")]
    if any(x is None or not math.isfinite(x) for x in values):
        return "", ""
    gain, low, high = (float(x) for x in values if x is not None)
    caption = (
        f"The gain {WHERE[summary['start']]}, measured on the half of the log that the policy was"
        f" not learned from. The bar reaches from what it is at least to what it is at most, each"
        f" wrong in 5 % of logs; the curve shows how likely other values are."
    )
    return gain_picture(gain, low, high), caption


def _sureness(
    summary: Mapping[str, Any], held_out: Mapping[str, Any]
) -> list[tuple[str, list[str]]]:
    """Titles with sentences: the test, what it cannot exclude, the certificate, assumptions."""
    found = []
    if held_out:
        checked = (
            "Whole episodes were weighted, so all moves were tested together."
            if held_out["test"] == FINITE_SAMPLE
            else f"{percent(held_out['share_checked'])} of the moves could be checked; the others"
            " were taken back."
        )
        found.append(
            (
                "The test",
                [
                    f"One half of the log made the policy"
                    f" ({held_out['units'] - held_out['units_tested']:,} {held_out['unit']}), the"
                    f" other half tested it once ({held_out['units_tested']:,} {held_out['unit']},"
                    f" {held_out['informative_steps']:,} steps that took an action which gains"
                    f" probability). The test is {held_out['test']}. {checked}"
                ],
            )
        )
    inside = summary["worth"]["in_sample_optimistic"]
    if inside is not None:
        words = [
            f"In the model of all data the baseline is worth {number(inside['baseline'])} and the"
            f" candidate {number(inside['policy'])}. This difference of"
            f" {signed_number(inside['gain'])} is optimistic: the candidate was made from these"
            " data."
        ]
        own = " ".join(x.strip() for x in own_lines(summary["own_return"], inside["baseline"]))
        found.append(("Other estimates", [*words, *([_sentence(own) + "."] if own else [])]))
    unseen = unseen_sentence(summary["cannot_exclude"])
    if unseen:
        found.append(("What the log cannot exclude", [_sentence(unseen) + "."]))
    if summary["certificate"] is not None:
        found.append(("Certificate", _certificate(summary["certificate"])))
    if summary["assumptions"]:
        found.append(
            (
                "What must be true for the verdict",
                [_sentence(x) + "." for x in summary["assumptions"]],
            )
        )
    return found


def _certificate(c: Mapping[str, Any]) -> list[str]:
    """What is proved, and under which assumptions."""
    if "not_given" in c:
        return [f"None: {c['not_given']}."]
    if c["bound"] is None or not math.isfinite(c["bound"]):
        return [
            f"Nothing is proved ({c['method']}): the candidate moves probability of pairs whose"
            " value no return in the log bounds."
        ]
    proved = (
        f"With probability {percent(1 - c['delta'])} the gain is at least"
        f" {signed_number(c['bound'])} ({c['method']}, {c['label']}; it bounds {c['bounded']})."
    )
    return [
        proved,
        _sentence(assurance_worth(c)) + ".",
        *(_sentence(x) + "." for x in c["assumptions"]),
    ]


def _cover(log: Mapping[str, Any]) -> str:
    """What the log is, in a sentence."""
    episodes = "" if log["episodes"] is None else f" in {plural(log['episodes'], 'episode')}"
    left_out = sum(log["rows_left_out"].values())
    lost = f"; {plural(left_out, 'row')} left out" if left_out else ""
    return (
        f"{plural(log['rows_used'], 'row')}{episodes}{lost}:"
        f" {plural(log['states'], 'state')}, {plural(log['actions'], 'action')},"
        f" {plural(log['pairs_seen'], 'pair')} of them ever tried, rewards from"
        f" {number(log['reward_lowest'])} to {number(log['reward_highest'])}."
    )


def _coverage(states: Sequence[StateRecord]) -> list[CoverageRow]:
    """How often pairs were seen, with the decisions that rest on them."""
    total = sum(state.visits for state in states)
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
        found.append(CoverageRow(words, pairs, baseline / (total or 1), candidate / (total or 1)))
    return found


def _unchanged(states: Sequence[StateRecord]) -> list[Unchanged]:
    """Why states stay, the reason of most decisions first."""
    total = sum(state.visits for state in states) or 1
    groups: dict[str, list[int]] = {}
    for state in states:
        if state.moved <= CHANGED:
            groups.setdefault(state.why, []).append(state.visits)
    rows = [Unchanged(why, len(x), sum(x) / total) for why, x in groups.items()]
    return sorted(rows, key=lambda row: -row.share)


def _made(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where it comes from: versions, data, parameters."""
    log, chosen = summary["log"], summary["algorithm"]
    declared = "declared" if summary["reward_range"]["declared"] else "as seen in the log"
    low, high = summary["reward_range"]["low"], summary["reward_range"]["high"]
    return [
        ("data", f"{log['source']}, fingerprint {log['fingerprint']}"),
        ("algorithm", f"{chosen['name']} {_parameters(chosen['parameters'])}".strip()),
        ("discount factor", f"{summary['gamma']:g}"),
        ("baseline", "estimated from the log" if summary["baseline"]["estimated"] else "given"),
        ("reward range", f"[{number(low)}, {number(high)}], {declared}"),
        ("made with", ", ".join(f"{k} {v}" for k, v in summary.get("versions", {}).items())),
    ]


def _parameters(given: Mapping[str, Any]) -> str:
    return parameters_text({k: v for k, v in given.items() if v is not None})


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
        why = reasons.setdefault(_sentence(state.why), len(reasons))
        moved = state.moved if state.moved > CHANGED else 0.0
        row = [state.label, state.visits, _digits(moved), _digits(state.gain), why, pairs]
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
