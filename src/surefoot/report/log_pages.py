"""The pages of `surefoot check`, `compare`, `tune`, `safety-test` and of a roll-out, from their
documents.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from surefoot.core.text import plural
from surefoot.report.cell_pages import cell_sections
from surefoot.report.improvement_words import given_parameters
from surefoot.report.log_words import (
    NO_UNIT,
    against_a_promise,
    in_unit,
    reward_statements,
    value,
)
from surefoot.report.page import (
    Item,
    PageTable,
    Picture,
    Section,
    notes_section,
    number,
    percent,
    sections_page,
    signed_number,
)
from surefoot.report.part_pages import part_section
from surefoot.report.pictures import gain_picture, gains_picture, path_picture
from surefoot.report.policy_words import LOSES, LUCKY, safety_statements
from surefoot.report.rollout_words import policies_of, rollout_statements
from surefoot.report.statements import Statement, known, of_kind, sentence


def check_page(found: Mapping[str, Any]) -> str:
    """Every finding about a log; those that forbid a promise first."""
    findings, vetoes = found["findings"], found["vetoes"]
    warnings = found["warnings"]
    rows = found["rows"]
    word = (
        "Something in this log speaks against a promise" if vetoes else "Nothing forbids learning"
    )
    if not vetoes and warnings:
        word = f"{plural(warnings, 'warning')}; nothing forbids learning"
    sentences = [sentence(against_a_promise(vetoes))] * bool(vetoes) + said_of_reward(found)
    order = {"warning": 0, "note": 1, "ok": 2}
    items = [
        Item(f"{x['name']}: {x['sentence'].rstrip('.')}.", x["level"])
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
            *cell_sections(found.get("cells")),
            Section(title="What was read", sentences=[f"{found['columns']}."], tables=tables),
        ],
        made={"data": found["log"]},
    )


def compare_page(found: Mapping[str, Any]) -> str:
    """Every algorithm on one log."""
    rows, supported, log = [], 0, found["log"]
    for x in found["algorithms"]:
        if "not_available" in x:
            rows.append((x["algorithm"], "–", "–", "–", f"not available: {x['not_available']}"))
            continue
        inside, held = x["in_sample_optimistic"] or {}, x["held_out"] or {}
        yes = x["verdict"] == "supported"
        supported += yes
        rows.append(
            (
                f"{x['algorithm']} {given_parameters(x)}".strip(),
                percent(x["mass_moved"]),
                signed_number(inside.get("gain"), log),
                f"{signed_number(held.get('gain'), log)}\n"
                f"{_interval(held.get('low'), held.get('high'), log)}"
                if held
                else "–",
                "yes" if yes else "no",
            )
        )
    columns = (
        "algorithm",
        "decisions changed",
        "in sample (optimistic)",
        "held out, 90 % interval",
        "supported",
    )
    table = PageTable(
        "Each algorithm by itself: in sample, and learned from one half of the log and tested on"
        f" the other{in_unit(log)}.",
        columns,
        rows,
        frozenset({1, 2, 3}),
    )
    return sections_page(
        heading=f"Algorithms on {found['log']['source']}",
        word=f"{supported} of {len(rows)} policies are supported, each judged by itself",
        good=False,  # no promise: the best of many is lucky
        sentences=[
            sentence(LUCKY),
            *said_of_reward(found["log"]),
        ],
        sections=[Section(title="Algorithms", tables=[table]), *notes_section(found["notes"])],
        made=_data(found),
    )


def safety_page(found: Mapping[str, Any]) -> str:
    """The test of a policy on data it was not made from."""
    low, gain, high = (found[name] for name in ("gain_at_least", "estimated_gain", "gain_at_most"))
    log, pictures = found["log"], []
    if all(isinstance(x, (int, float)) and math.isfinite(x) for x in (low, gain, high)):
        caption = (
            f"The gain over the baseline in the tested episodes{in_unit(log)}. Each end of the bar"
            f" is wrong with probability {found['delta_of_each_test']:g}."
        )
        show = partial(signed_number, log=log)
        picture = gain_picture(gain, low, high, found["delta_of_each_test"], show)
        pictures = [Picture(picture, caption)]
    said = safety_statements(found)
    kinds = ("verdict", "worth", "assumes", "warning", "note")
    shown = {kind: of_kind(said, kind) for kind in kinds}
    tested = of_kind(said, "worth", "tested", "weights", "training")
    parts = [
        part_section("Guards and groups", found, x, (gain, low, high))
        for x in of_kind(said, "guards", "groups")
    ]
    return sections_page(
        heading=f"Safety test of {found['policy']} on {found['log']['source']}",
        word=shown["verdict"][0].words,
        good=found["verdict"] == "passes",
        sentences=[sentence(x) for x in (*shown["worth"][0].whole[:1], *_words(shown["warning"]))],
        figures=[
            (f"estimated gain{in_unit(log)}", signed_number(gain, log)),
            ("at least", signed_number(low if math.isfinite(low) else None, log)),
            ("at most", signed_number(high if math.isfinite(high) else None, log)),
            ("episodes tested", f"{found['episodes_tested']:,}"),
            *(
                [("effective episodes", f"{found['effective_episodes']:.1f}")]
                if known(found["effective_episodes"])
                else []
            ),
        ],
        sections=[
            Section(title="The test", pictures=pictures, items=_items(tested)),
            *parts,
            Section(title="What must be true", items=_items(shown["assumes"])),
            *notes_section(_words(shown["note"])),
        ],
        made=_data(found),
    )


DIFFERENCE = ("estimated_difference", "difference_at_least", "difference_at_most")


def rollout_page(found: Mapping[str, Any]) -> str:
    """A look at a roll-out, with the difference over the episodes."""
    said, path, log = rollout_statements(found), found["path"], found["log"]
    shown = {kind: of_kind(said, kind) for kind in ("verdict", "worth", "assumes", "note", "next")}
    pictures = []
    if len(path) > 1:
        caption = (
            f"The difference over the episodes in the order in which they began{in_unit(log)}, and"
            " what it was known to be at least and at most at that time. With probability"
            f" {1 - found['delta']:g} the truth lies between these lines everywhere. Early ones are"
            " cut off where they leave the picture."
        )
        pictures = [Picture(path_picture(path, partial(signed_number, log=log)), caption)]
    named = zip(found["arms"], (found["policy"], found["baseline"]), strict=True)
    names = [f"{x['name']!r}{f' ({file})' if file else ''}" for x, file in named]
    whole = tuple(found[x] for x in DIFFERENCE)
    harm = Section(title="Who could be harmed")
    for x in of_kind(said, "guards"):
        harm = part_section(harm.title, found, x, whole)
    (unasked,) = of_kind(said, "unasked")
    (arms,), rest = of_kind(said, "arms"), of_kind(said, "waiting", "counted", "training")
    looked_at = (*shown["worth"][0].detail, *arms.detail[len(found["arms"]) :], *_words(rest))
    return sections_page(
        heading=f"Roll-out of {' beside '.join(names)} in {found['log']['source']}",
        word=shown["verdict"][0].words,
        good=found["verdict"] == "better",
        sentences=[
            sentence(x)
            for x in (
                shown["worth"][0].words,
                *_words(shown["next"]),
                *_words(of_kind(said, "warning")),
            )
        ],
        figures=[
            (
                f"estimated difference{in_unit(log)}",
                signed_number(found["estimated_difference"], log),
            ),
            ("at least", signed_number(found["difference_at_least"], log)),
            ("at most", signed_number(found["difference_at_most"], log)),
            ("episodes counted", f"{found['episodes_counted']:,}"),
        ],
        sections=[
            Section(
                title="The roll-out",
                pictures=pictures,
                tables=[_arms_table(found)],
                items=[Item(sentence(x)) for x in looked_at],
            ),
            replace(harm, sentences=[*harm.sentences, sentence(unasked.words)]),
            Section(title="What must be true", items=_items(shown["assumes"])),
            *notes_section(_words(shown["note"])),
        ],
        made=_data(found),
    )


def _arms_table(found: Mapping[str, Any]) -> PageTable:
    """What each arm is, and what it did by itself."""
    log = found["log"]
    rows = [
        (
            name,
            file,
            f"{x['episodes']:,}",
            value(x["mean_return"], log) if known(x["mean_return"]) else "–",
        )
        for x, (name, file) in zip(found["arms"], policies_of(found), strict=True)
    ]
    return PageTable(
        f"Each {'row' if log['bandit'] else 'episode'} got one of two policies by lot. The average"
        " is that of what happened in the arm, without any weights.",
        ("arm", "policy", "rows" if log["bandit"] else "episodes", "average"),
        rows,
        frozenset({2, 3}),
    )


def tune_page(found: Mapping[str, Any]) -> str:
    """The choice of an algorithm and its parameters."""
    chosen = next(x for x in found["settings"] if x["chosen"])
    yes = found["next"] is not None
    tail = f"worst {percent(found['alpha'])}"
    shared = _shared([x["setting"] for x in found["settings"]])
    picture = gains_picture(
        [
            {**x, "setting": " ".join(y for y in x["setting"].split() if y not in shared)}
            for x in found["settings"]
        ]
    )
    common = f" All have {' '.join(shared)}." if shared else ""
    caption = (
        f"Dot: mean gain over all models, with its 95 % interval. Diamond: mean over the {tail} of"
        f" the models. The choice stands in bold.{common}"
    )
    return sections_page(
        heading=f"Choice of an algorithm for {found['log']}",
        word=f"Chosen: {chosen['setting']}" if yes else "Chosen: no change",
        good=yes,
        sentences=[
            f"It gains most in the {tail} of {plural(found['models'], 'model')} that fit the log."
            if yes
            else f"No setting beats the baseline in the {tail} of"
            f" {plural(found['models'], 'model')} that fit the log.",
            "This is a choice, not evidence: surefoot improve tests the policy on data that it was"
            " not learned from.",
            *said_of_reward(found),
        ],
        figures=[
            ("mean gain in the models", signed_number(chosen["mean"])),
            (f"mean gain in the {tail}", signed_number(chosen["cvar"])),
            ("models in which it loses", percent(chosen["loses"])),
        ]
        * yes,
        sections=[
            Section(
                title="What was tried",
                pictures=[Picture(picture, caption)],
                tables=[_settings(found, tail)],
            ),
            *([Section(title="What to run next", command=found["next"])] if yes else []),
            Section(title="Do the models fit the log?", sentences=_fit(found)),
            *notes_section(found["notes"]),
        ],
        made={"data": found["log"], "discount factor": f"{found['gamma']:g}"}
        | {"baseline": "estimated from the log" if found["baseline"]["estimated"] else "given"},
    )


def _settings(found: Mapping[str, Any], tail: str) -> PageTable:
    """Every setting with its gains."""
    rows = [
        [
            f"{x['setting']} (chosen)" if x["chosen"] else x["setting"],
            *(
                f"{signed_number(x[k])}\n{_interval(x[f'{k}_low'], x[f'{k}_high'])}"
                for k in ("mean", "cvar")
            ),
            percent(x["loses"]),
        ]
        for x in found["settings"]
    ]
    return PageTable(
        f"Gains over the baseline at the start, with 95 % intervals: the mean over all models, and"
        f" over the {tail} of them. {sentence(LOSES)}",
        ("setting", "mean gain", tail, "loses"),
        rows,
        frozenset(range(1, 4)),
    )


def _shared(settings: list[str]) -> list[str]:
    """The parameters that all settings but "no change" have in common."""
    sets = [x.split() for x in settings if "=" in x]
    if len(sets) < 2:
        return []
    return [word for word in sets[0] if "=" in word and all(word in x for x in sets)]


def _fit(found: Mapping[str, Any]) -> list[str]:
    """Whether logs simulated in the models look like the log."""
    prior = f"The models have {number(found['prior']['successors'])} successors a pair on average."
    if not found["simulated"]:
        return [f"This was not looked at (--simulated 0). {prior}"]
    check, (low, high) = found["check"], found["check"]["reward_simulated"]
    fits = check["p_value"] >= 0.05
    words = "as in" if fits else "UNLIKE"
    return [
        f"The mean reward a step is {number(check['reward_observed'])}, {words} logs simulated in"
        f" the models, where it is {number(low)} to {number(high)} in nine of ten"
        f" (p = {check['p_value']:.2g}). {prior}"
    ]


def said_of_reward(log: Mapping[str, Any]) -> list[str]:
    """What more of the reward means, and what puts the log in doubt."""
    return [sentence(x) for y in reward_statements(log) for x in y.whole]


def _words(said: Sequence[Statement]) -> list[str]:
    return [x for y in said for x in y.whole]


def _items(said: Sequence[Statement]) -> list[Item]:
    """Statements as a list."""
    return [Item(sentence(x)) for x in _words(said)]


def _interval(low: float | None, high: float | None, log: Mapping[str, Any] = NO_UNIT) -> str:
    return f"{signed_number(low, log)} to {signed_number(high, log)}"


def _data(found: Mapping[str, Any]) -> dict[str, str]:
    log = found["log"]
    return {
        "data": f"{log['source']}, fingerprint {log['fingerprint']}",
        "discount factor": f"{found['gamma']:g}",
    }
