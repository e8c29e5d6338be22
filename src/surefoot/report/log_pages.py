"""The pages of `surefoot check`, `compare` and `safety-test`, from what they say as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from surefoot.report.page import percent, signed_number
from surefoot.report.pictures import gain_picture
from surefoot.report.sections_page import (
    Item,
    PageTable,
    Picture,
    Section,
    notes_section,
    sections_page,
)
from surefoot.text import parameters_text, plural


def check_page(found: Mapping[str, Any]) -> str:
    """Every finding about a log; those that forbid a promise first."""
    findings, vetoes = found["findings"], found["vetoes"]
    warnings = found["warnings"]
    rows = found["rows"]
    word = "This log supports no promise as it is" if vetoes else "Nothing forbids learning"
    if not vetoes and warnings:
        word = f"{plural(warnings, 'warning')}; nothing forbids learning"
    sentences = [
        f"surefoot improve supports no policy learned from it, unless told to with --despite"
        f" {','.join(vetoes)}."
    ] * bool(vetoes)
    order = {"warning": 0, "note": 1, "ok": 2}
    items = [
        Item(f"{x['name']}: {x['sentence']}", x["level"])
        for x in sorted(findings, key=lambda x: (not x["vetoes"], order[x["level"]]))
    ]
    left_out = [(why, f"{n:,}") for why, n in rows["left_out"].items()]
    tables = [
        PageTable("Rows that were left out, and why.", ("why", "rows"), left_out, frozenset({1}))
    ] * bool(left_out)
    return sections_page(
        heading=f"Check of {found['log']}",
        word=word,
        good=not vetoes and not warnings,
        sentences=sentences,
        figures=[("rows", f"{rows['read']:,}"), ("used", f"{rows['used']:,}")],
        sections=[
            Section(title="Findings", items=items),
            Section(title="What was read", sentences=[f"{found['columns']}."], tables=tables),
        ],
        made={"data": found["log"]},
    )


def compare_page(found: Mapping[str, Any]) -> str:
    """Every algorithm on one log."""
    rows, supported = [], 0
    for x in found["algorithms"]:
        if "not_available" in x:
            rows.append((x["algorithm"], "", "", "", "", f"not available: {x['not_available']}"))
            continue
        inside, held = x["in_sample_optimistic"] or {}, x["held_out"] or {}
        yes = x["verdict"] == "supported"
        supported += yes
        interval = f"{signed_number(held.get('low'))} to {signed_number(held.get('high'))}"
        rows.append(
            (
                f"{x['algorithm']} {parameters_text(_set(x['parameters']))}".strip(),
                percent(x["mass_moved"]),
                signed_number(inside.get("gain")),
                signed_number(held.get("gain")),
                interval if held else "–",
                "yes" if yes else "no",
            )
        )
    columns = (
        "algorithm",
        "decisions changed",
        "in sample (optimistic)",
        "held out",
        "90 %",
        "supported",
    )
    table = PageTable(
        "Each algorithm by itself: in sample, and learned from one half of the log and tested on"
        " the other.",
        columns,
        rows,
        frozenset({1, 2, 3, 4}),
    )
    return sections_page(
        heading=f"Algorithms on {found['log']['source']}",
        word=f"{supported} of {len(rows)} algorithms are supported by the data",
        good=supported > 0,
        sentences=[
            "Choosing the best of many is a choice too: in a table of many rows one is lucky. Test"
            " the winner on fresh data."
        ],
        sections=[Section(title="Algorithms", tables=[table]), *notes_section(found["notes"])],
        made=_data(found),
    )


def safety_page(found: Mapping[str, Any], lines: list[str]) -> str:
    """The test of a policy on data it was not made from."""
    low, gain, high = (found[name] for name in ("gain_at_least", "estimated_gain", "gain_at_most"))
    verdict = str(found["verdict"])
    words = {"passes": "Passes: shown to be better", "fails": "Fails: shown to be worse"}
    pictures = []
    if all(isinstance(x, (int, float)) and math.isfinite(x) for x in (low, gain, high)):
        caption = (
            f"The gain over the baseline in the tested episodes. Each end of the bar is wrong with"
            f" probability {found['delta_of_each_test']:g}."
        )
        pictures = [Picture(gain_picture(gain, low, high), caption)]
    return sections_page(
        heading=f"Safety test of {found['policy']} on {found['log']['source']}",
        word=words.get(verdict, "No evidence: shown to be neither better nor worse"),
        good=verdict == "passes",
        sentences=[line.split(maxsplit=1)[-1] + "." for line in lines[:1]],
        figures=[
            ("estimated gain", signed_number(gain)),
            ("at least", signed_number(low if math.isfinite(low) else None)),
            ("episodes tested", f"{found['episodes_tested']:,}"),
            ("effective episodes", f"{found['effective_episodes']:.1f}"),
        ],
        sections=[
            Section(title="The test", pictures=pictures, items=[Item(_bare(x)) for x in lines[1:]]),
            Section(title="What must be true", items=[Item(x) for x in found["assumptions"]]),
            *notes_section(found["notes"]),
        ],
        made=_data(found) | {"training data": found["training_overlap"]["words"]},
    )


def _bare(line: str) -> str:
    """A line of the terminal without its first word."""
    return line.split(maxsplit=1)[-1]


def _set(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: x for name, x in parameters.items() if x is not None}


def _data(found: Mapping[str, Any]) -> dict[str, str]:
    log = found["log"]
    return {
        "data": f"{log['source']}, fingerprint {log['fingerprint']}",
        "discount factor": f"{found['gamma']:g}",
    }
