"""How sure an improvement is, in statements, pictures and a table: the part of its page that
somebody who doubts reads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from surefoot.core.atomic import file_hash, read_json
from surefoot.core.errors import LogError
from surefoot.core.plain_values import schema_name
from surefoot.report.episode_words import safety_statements
from surefoot.report.folder import CANDIDATE, POLICY
from surefoot.report.improvement_words import held_out_gain
from surefoot.report.log_words import WHERE
from surefoot.report.page import Item, PageTable, Picture, Section, number, signed_number
from surefoot.report.pictures import gain_picture, hidden_picture
from surefoot.report.statements import Statement, known, of_kind, sentence

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "The gain": ("worth",),
    "The test": ("sure",),
    "Guards and groups": ("parts",),
    "What the log cannot exclude": ("unseen",),
    "What a hidden cause could explain": ("hidden",),
    "What time could explain": ("time",),
    "What is proved": ("proof",),
    "What must be true for the verdict": ("assumes",),
}
METHODS = {
    "model": "by a model of it",
    "weighted episodes": "by weighted episodes, without a model",
}
SAFETY = "safety-test.json"
DATA = {"held-out half": "the half that tests", "all data": "all data: OPTIMISTIC"}


def gain_pictures(summary: Mapping[str, Any]) -> list[Picture]:
    """The held-out gain; nothing where there is none."""
    found = held_out_gain(summary)
    if found is None or not (known(found[1]) and known(found[2])):
        return []
    gain, low, high = (float(x) for x in found if x is not None)
    delta = float(summary["worth"]["held_out"]["delta"])
    caption = (
        f"The gain {WHERE[summary['start']]}, measured on the half of the log that the policy was"
        " not learned from: rewards count less by the discount factor"
        f" {summary['gamma']:g} with every step. The bar reaches from what the gain is at least to"
        " what it is at most, each wrong for 5 % of logs. The curve shows how likely other values"
        " are."
    )
    return [Picture(gain_picture(gain, low, high, delta), caption)]


def estimates_table(summary: Mapping[str, Any]) -> PageTable | None:
    """Off-policy estimates of both policies with their intervals; None where there are none."""
    rows: dict[str, dict[str, str]] = {}
    for x in summary["worth"].get("estimates", []):
        by = f", {METHODS[x['by']]}" if x["data"] == "held-out half" else ""
        show = signed_number if x["of"] == "gain" else number
        cell = f"{show(x['value'])}\n{show(x['low'])} to {show(x['high'])}"
        rows.setdefault(DATA[x["data"]] + by, {})[x["of"]] = cell
    if not rows:
        return None
    columns = ("baseline", "candidate", "gain")
    return PageTable(
        f"What both policies are worth {WHERE[summary['start']]}, with 90 % intervals. The"
        " candidate was made from a part of all data, so it looks better there than it is.",
        ("measured on", *columns),
        [[name, *(cells.get(k, "–") for k in columns)] for name, cells in rows.items()],
        frozenset({1, 2, 3}),
    )


def evidence(
    summary: Mapping[str, Any],
    said: Sequence[Statement],
    safety: Mapping[str, Any] | None = None,
) -> list[Section]:
    """What was said of how sure it is, each statement under its heading, with pictures."""
    found = []
    for title, kinds in SECTIONS.items():
        for x in of_kind(said, *kinds):
            found.append(
                Section(
                    title=title,
                    sentences=[] if x.in_full else [sentence(x.words)],
                    pictures=_of_hidden_cause(summary) if x.kind == "hidden" else [],
                    items=[Item(sentence(y)) for y in x.detail],
                )
            )
        if safety is not None and "parts" in kinds:
            found.append(_safety(safety))
    return found


def _of_hidden_cause(summary: Mapping[str, Any]) -> list[Picture]:
    """What a hidden cause leaves of the gain; nothing without its curve."""
    curve = (summary["confounding"] or {}).get("curve", [])
    if len(curve) < 2:
        return []
    caption = (
        "What is left of the gain, at least, if a hidden cause multiplied or divided the odds of"
        " actions by up to so much (1: there is none). The dashed line also counts sampling error:"
        " it is wrong for about 5 % of logs."
    )
    return [Picture(hidden_picture(curve), caption)]


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


def _safety(found: Mapping[str, Any]) -> Section:
    """The test on data that had no part in the policy."""
    verdict, *rest = safety_statements(found)
    tested = f"{Path(str(found['policy'])).name} on {found['log']['source']}"
    return Section(
        title="Safety test on other data",
        sentences=[f"{tested}: {verdict.words}"],
        items=[Item(sentence(y)) for x in rest for y in x.whole],
    )
