"""The documentation names every algorithm, command, certificate, benchmark and public name."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

import surefoot
from support.documents import DOCS, PAGES, ROOT, blocks, public, text_of
from surefoot.algorithms import Restricts, parts
from surefoot.cli import COMMANDS
from surefoot.research.benchmarks import BENCHMARKS

PARTS = (
    "Idea",
    "Formula",
    "Pseudo-code",
    "Guarantee",
    "Parameters",
    "When it fails",
    "Evidence",
    "Try it",
    "Reference",
)
ALGORITHM_PAGES = [x for x in PAGES if x.startswith("algorithms/") and not x.endswith("index.md")]
OWN = surefoot.ALGORITHMS


def described(page: str) -> list[str]:
    """The algorithms that a page is about."""
    return re.findall(r"^```\{algorithm\} (.*)$", text_of(page), re.M)[0].split()


def test_every_algorithm_has_its_page() -> None:
    found = [name for page in ALGORITHM_PAGES for name in described(page)]
    assert sorted(found) == sorted(OWN)


@pytest.mark.parametrize("page", ALGORITHM_PAGES)
def test_a_page_of_an_algorithm_has_all_its_parts(page: str) -> None:
    text = text_of(page)
    assert tuple(re.findall(r"^## (.*)$", text, re.M)) == PARTS
    found = dict(zip(PARTS, re.split(r"^## .*$", text, flags=re.M)[1:], strict=True))
    assert "\n$$\n" in found["Formula"]
    assert "\n```text\n" in found["Pseudo-code"]
    shown = (
        r"^```\{(evidence|proved)\}|^`python measurements/\w+\.py"  # of papers/, or how to make it
    )
    assert re.search(shown, found["Evidence"], re.M)
    assert re.search(r"^```\{bibtex\} \w", found["Reference"], re.M)


@pytest.mark.parametrize("page", ALGORITHM_PAGES)
def test_a_page_of_an_algorithm_explains_every_parameter_and_runs_every_name(page: str) -> None:
    text = text_of(page).split("## Parameters")[1].split("## When it fails")[0]
    explained = set(re.findall(r"^(\w+): \S", text, re.M))
    assert explained == {x.name for name in described(page) for x in fields(OWN[name])}
    code = "".join(x.text for x in blocks(page) if x.language in ("python", "console"))
    for name in described(page):
        assert OWN[name].__name__ in code or f'"{name}' in code or f"{name}+" in code, name


def test_the_default_growth_is_the_one_that_is_shown() -> None:
    shown = [
        x for page in PAGES for x in re.findall(r"growth(?:=| = | )(0\.\d+)", text_of(page)) if x
    ]
    assert len(shown) >= 3
    assert set(shown) == {f"{surefoot.PricedSoftSPIBB().growth:g}"}


def test_the_taxonomy_names_every_algorithm() -> None:
    table = text_of("taxonomy.md").split("## The product")[1].split("## What uncertainty does")[0]
    assert [name for name in surefoot.ALGORITHMS if f"`{name}`" not in table] == []


def test_every_composed_name_of_the_taxonomy_exists() -> None:
    table = text_of("taxonomy.md").split("**Restrictions.**")[1].split("methods stand outside")[0]
    limits = re.findall(r"^\|[^|]*\|[^|`]*`([^`|]+)`[^|]*\|", table, re.M)[1:]  # but basic-rl
    composed = [x for x in re.findall(r"`([^`]+)`", table) if "+" in x]
    assert len(limits) == len([x for x in OWN.values() if issubclass(x, Restricts)])
    assert len(composed) >= 6
    for estimate in ("shrunk", "ramdp", "r-min", "duipi-centred", "mbie", "robust", "vi-lcb"):
        composed += [f"{estimate}+{name}" for name in limits]
    assert all(len(parts(name)) == 2 for name in composed)


def test_the_list_of_algorithms_links_every_page() -> None:
    listed = re.search(r"```\{toctree\}(.*?)```", text_of("algorithms/index.md"), re.S)
    assert listed is not None
    names = [x for x in listed[1].split() if not x.startswith(":") and not x.isdigit()]
    assert sorted(f"algorithms/{x}.md" for x in names) == sorted(ALGORITHM_PAGES)


def test_the_list_of_algorithms_names_every_one_with_its_parameters() -> None:
    text = text_of("algorithms/index.md")
    assert [name for name in surefoot.ALGORITHMS if f"`{name}`" not in text] == []
    shown: dict[str, list[str]] = {}
    for names, parameters in re.findall(r"^\| \[(`.*?)\]\(.*?\) \| (.*?) ?\|", text, re.M):
        if parameters != "the same":
            last = parameters.split(", ") if parameters.strip() else []
        for name in re.findall(r"`([^`]+)`", names):
            shown[name] = last
    assert sorted(shown) == sorted(OWN)
    for name, cls in OWN.items():
        own = [x.name for x in fields(cls)]
        assert sorted(own) == sorted(x for x in shown[name] if x in own), name
        assert set(shown[name]) - set(own) <= {"published"}, name  # the exact ones have it not


def test_every_page_is_in_the_tree() -> None:
    """That of index.md, or of the index of its folder."""
    trees = "\n".join(re.findall(r"```\{toctree\}(.*?)```", text_of("index.md"), re.S))
    listed = {x for x in trees.split("\n") if x and not x.startswith(":")}
    there = {x.removesuffix(".md") for x in PAGES if "/" not in x or x.endswith("/index.md")}
    papers = {f"papers/{x.parent.name}/README.md" for x in (ROOT / "papers").glob("*/README.md")}
    assert listed == there - {"index"} | papers | {"changelog"}


def test_every_command_is_shown_at_work() -> None:
    shown = "".join(x.text for page in PAGES for x in blocks(page) if x.language != "python")
    assert [name for _, name, _, _ in COMMANDS if f"surefoot {name}" not in shown] == []


def test_every_figure_of_the_plot_module_is_shown() -> None:
    text = text_of("plots.md")
    assert len(public(surefoot.plot)) >= 6
    assert [x for x in public(surefoot.plot) if f"surefoot.plot.{x}(" not in text] == []


def test_the_references_are_generated_from_the_program() -> None:
    """So that they list `COMMANDS`, `surefoot.__all__` and `DOCUMENTS` whole."""
    assert "```{commands}\n```" in text_of("commands.md")
    assert "```{public-names}\n```" in text_of("python.md")
    assert "```{documents}\n```" in text_of("json.md")


@pytest.mark.parametrize("names", [surefoot.CERTIFICATES, BENCHMARKS])
def test_certificates_and_benchmarks_are_named(names: dict[str, object]) -> None:
    text = "".join(map(text_of, PAGES))
    assert [name for name in names if name not in text] == []


def test_every_figure_is_there_and_names_its_command() -> None:
    found = 0
    for page in PAGES:
        for alternative, path in re.findall(r"!\[([^\]]*)\]\(([^)]*)\)", text_of(page)):
            assert len(alternative) > 30, f"{page}: {path} has no text for those who do not see it"
            assert ((DOCS / page).parent / path).exists()
            rest = text_of(page).split(path)[1]
            made = r"\)\s+\*Figure: `(python (docs|papers/\w+)/\w+.py|surefoot \w+[^`]*)`"
            assert re.match(made, rest), f"{page}: {path}"
            found += 1
    assert found >= 10


def test_links_of_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
            path = target.split("#")[0]
            if path and not target.startswith("http"):
                place = ((DOCS / page).parent / path).resolve()
                assert place.exists() and place.is_relative_to(ROOT), f"{page}: {target}"


def test_the_examples_are_all_listed() -> None:
    text = text_of("examples.md")
    names = [x.name for x in (ROOT / "examples").glob("*.py")]
    assert [name for name in names if f"examples/{name}" not in text] == []


@pytest.mark.parametrize("page", [x for x in PAGES if x != "your-log.md"])
def test_a_page_with_logs_says_where_they_come_from(page: str) -> None:
    read = "".join(x.text for x in blocks(page) if x.language in ("python", "console"))
    if re.search(r"\b(log|visits|later|export|readings)\.csv", read):
        assert "your-log.md#the-logs-of-these-pages" in text_of(page)
