"""Parts of the pages of algorithms that are generated: from the classes, and from the results.

{algorithm} NAME ...    what the code says of these algorithms
{product}               every algorithm, and what uncertainty does in it
{parameters} NAME ...   their parameters and defaults; below it a line each, how to set it
{evidence}              below it a line each: a study in papers/, an algorithm, its parameters
{proved} CERTIFICATE    how often a certificate's bound was broken, of papers/certificates
{bibtex} KEY ...        these entries of references.bib; without a key all papers
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

from from_the_program import generated
from surefoot.algorithms import ALGORITHMS, Algorithm, Estimates, Restricts
from surefoot.algorithms.defaults import DEFAULT, KAPPA, PARAMETERS

PAPERS = Path(__file__).parents[2] / "papers"
REFERENCES = Path(__file__).parents[1] / "references.bib"
log = logging.getLogger(__name__)


# The classes


def facts(names: list[str], _: list[str]) -> Iterator[str]:
    """Class, kind and the certificate tried."""
    for name in names:
        cls = ALGORITHMS[name]
        yield from (f"**`{name}`**, in Python {{py:class}}`surefoot.{cls.__name__}`", "")
        yield from (f"- {kind_of_method(cls)}", f"- certificate of `improve`: {fit(cls)}", "")


def kind_of_method(cls: type[Algorithm]) -> str:
    """What it is, as the code declares it."""
    lends, limits = issubclass(cls, Estimates), issubclass(cls, Restricts)
    said = {
        (True, True): "has an estimate and a restriction of its own",
        (True, False): "an estimate: it can stand before the + of a composed name",
        (False, True): "a restriction: it can stand behind the + of a composed name",
        (False, False): "whole: it combines with no other",
    }
    is_default = " **The default of `surefoot improve`.**" if cls.name == DEFAULT else ""
    return said[lends, limits] + "." + is_default


def fit(cls: type[Algorithm]) -> str:
    """The certificate of an algorithm."""
    given = {f.name: f.default for f in fields(cls) if f.default is not MISSING}
    needed = {f.name: 0.5 for f in fields(cls) if f.default is MISSING}
    found = cls(**given, **needed).proof
    return "the strongest that holds for any policy" if found is None else f"its own, `{found[0]}`"


def parameters(names: list[str], content: list[str]) -> Iterator[str]:
    """One row a parameter: its defaults from the classes, and the words of the page."""
    words = explained(content)
    own = {f.name: f for name in names for f in fields(ALGORITHMS[name])}
    if set(words) != set(own):
        log.warning("%s: explained are %s, there are %s", names, sorted(words), sorted(own))
    yield from ("| parameter | of the class | of `improve` | how to set it |", "|---|---|---|---|")
    for parameter, said in words.items():
        if parameter not in own:
            continue
        having = [x for x in names if parameter in {f.name for f in fields(ALGORITHMS[x])}]
        only = "" if having == names else f"({', '.join(having)} alone) "
        default = own[parameter].default
        shown = "required" if default is MISSING else f"`{default}`"
        yield f"| `{parameter}` | {shown} | {of_improve(having, parameter)} | {only}{said} |"
    yield ""


def of_improve(names: list[str], parameter: str) -> str:
    """What `surefoot improve` takes."""
    if parameter == "kappa":
        return f"{KAPPA:g} times the width of the reward range"
    found = {PARAMETERS.get(name, {}).get(parameter) for name in names}
    if found == {None}:
        return "the same"
    return ", ".join(f"`{x:g}`" for x in sorted(found))


def explained(content: list[str]) -> dict[str, str]:
    """{parameter: words} of lines "parameter: words", which go on where a line is indented."""
    found: dict[str, str] = {}
    for line in filter(None, content):
        name, _, words = line.partition(": ")
        if line.startswith(" ") and found:
            found[list(found)[-1]] += f" {line.strip()}"
        else:
            found[name] = words
    return {name: words.replace("|", "\\|") for name, words in found.items()}


def product(_: list[str], __: list[str]) -> Iterator[str]:
    """A table: every algorithm, its class in Python, and what uncertainty does."""
    yield from ("| algorithm | in Python | uncertainty |", "|---|---|---|")
    for name, cls in ALGORITHMS.items():
        link = f"[`{name}`](algorithms/{PAGES.get(name, name)}.md)"
        yield f"| {link} | {{py:class}}`surefoot.{cls.__name__}` | {WORDS[cls.taxonomy]} |"
    yield ""


WORDS = {
    "penalises": "penalises the value",
    "restricts": "restricts the policies",
    "neither": "neither",
}
PAGES = {
    "mbie": "robust",
    "approx-soft-spibb": "soft-spibb",
    "exact-soft-spibb": "soft-spibb",
    "lower-approx-soft-spibb": "lower-soft-spibb",
    "lower-exact-soft-spibb": "lower-soft-spibb",
    "adv-approx-soft-spibb": "adv-soft-spibb",
    "adv-exact-soft-spibb": "adv-soft-spibb",
    "one-step-certified-advantage": "certified-advantage",
}


# The results

BENCHMARKS = {
    "random-mdps": (
        "Random MDPs, trajectories",
        (10, 100, 500, 2000),
        "on Random MDPs the baseline is 0, the optimum 1",
    ),
    "wet-chicken": (
        "Wet Chicken, steps",
        (100, 1000, 5000, 50000),
        "on Wet Chicken the baseline is worth 29.75, the optimum 43.08",
    ),
}


@cache
def rows_of(path: Path) -> list[dict[str, str]]:
    """A table of results."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def evidence(_: list[str], content: list[str]) -> Iterator[str]:
    """A table a benchmark: mean, worst 1 %, share of trials worse than the baseline, by size."""
    found = [rows for rows in map(setting, filter(None, content)) if rows]
    scales = []
    for benchmark, settings in groupby(found, key=lambda x: x[0]["benchmark"]):
        words, sizes, scale = BENCHMARKS[benchmark]
        scales.append(scale)
        yield "| " + " | ".join([words, "", *(f"{n:,}" for n in sizes)]) + " |"
        yield "|---" * (2 + len(sizes)) + "|"
        for rows in settings:
            at = {int(x["size"]): x for x in rows}
            name = f"`{rows[0]['algorithm']}` {rows[0]['parameters']}".replace(
                "max_steps=", "steps="
            )
            for label, key, form in SHOWN:
                cells = [format(float(at[n][key]), form) for n in sizes]
                yield "| " + " | ".join([name, label, *cells]) + " |"
                name = ""
        yield ""
    trials = " and ".join(f"{n:,}" for n in sorted({int(x[0]["trials"]) for x in found}))
    folders = sorted({line.split()[0].split("/")[0] for line in filter(None, content)})
    links = " and ".join(f"[papers/{x}](../papers/{x}/README.md)" for x in folders)
    yield f"*{trials} trials; {', and '.join(dict.fromkeys(scales))}. From {links}.*"
    yield ""


SHOWN = (
    ("mean", "mean", ".2f"),
    ("worst 1 %", "cvar", ".2f"),
    ("worse than the baseline", "worse_than_baseline", ".1%"),
)


def setting(line: str) -> list[dict[str, str]]:
    """The rows, one a size, of one line: a study, an algorithm, parameters that tell it apart."""
    study, algorithm, *given = line.split()
    wanted = set(given)
    rows = [
        x
        for x in rows_of(PAPERS / study / "summary.csv")
        if x["algorithm"] == algorithm and wanted <= set(x["parameters"].split(" "))
    ]
    if len({x["parameters"] for x in rows}) != 1:
        log.warning("evidence %r: %d settings fit", line, len({x["parameters"] for x in rows}))
        return []
    return rows


def proved(names: list[str], _: list[str]) -> Iterator[str]:
    """A table: fresh data sets, of them changed, and bounds above the truth; delta 0.05."""
    heads = ("benchmark", "size", "logs", "changed", "bound above the truth", "below it, median")
    yield from ("| " + " | ".join(heads) + " |", "|---" * len(heads) + "|")
    for x in rows_of(PAPERS / "certificates" / "validity.csv"):
        if x["certificate"] == " ".join(names) and x["delta"] == "0.05":
            size, logs, changed, broken = (
                f"{int(float(x[k])):,}" for k in ("size", "data_sets", "changed", "violated")
            )
            below = "" if changed == "0" else f"{float(x['slack_50']):.3g}"
            name = BENCHMARKS[x["benchmark"]][0].split(",")[0]
            yield f"| {name} | {size} | {logs} | {changed} | {broken} | {below} |"
    yield from ("", "*delta 0.05; [papers/certificates](../papers/certificates/README.md).*", "")


# References


def entries() -> dict[str, str]:
    """{key: entry} of references.bib."""
    text = REFERENCES.read_text(encoding="utf-8")
    return {x[1]: x[0].rstrip() for x in re.finditer(r"^@\w+\{(\w+),.*?^\}", text, re.M | re.S)}


def bibtex(keys: list[str], _: list[str]) -> Iterator[str]:
    """These entries, to be copied."""
    known = entries()
    if missing := [key for key in keys if key not in known]:
        log.warning("references.bib has no %s", missing)
    chosen = [known[key] for key in keys or sorted({*known} - {"surefoot"}) if key in known]
    yield from ("```bibtex", *"\n\n".join(chosen).split("\n"), "```", "")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    directives = {
        "algorithm": facts,
        "product": product,
        "parameters": parameters,
        "evidence": evidence,
        "proved": proved,
        "bibtex": bibtex,
    }
    for name, write in directives.items():
        app.add_directive(name, generated(write))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
