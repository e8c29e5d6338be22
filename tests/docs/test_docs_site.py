"""The built site: no warning, every command and public name, no broken link, formulas without a
network, nothing against accessibility; and its notebooks run.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import surefoot
from support.documents import DOCS, PAGES, ROOT, public, text_of
from surefoot.cli import COMMANDS

pytestmark = pytest.mark.slow
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NOTEBOOKS = [x for x in PAGES if x.startswith("notebooks/") and not x.endswith("index.md")]
# How many formulas have no size, and what of their source is left in the text, on the page open.
FORMULAS = """() => [
    [...document.querySelectorAll("math")].filter(x => x.getBoundingClientRect().width < 2).length,
    document.querySelector("article").innerText.match(/\\$\\$|\\\\(frac|sum|pi)/g) || [],
]"""
# Colours are the theme's, the same on all pages, and slow to check: (page, part of it).
COLOURS = (("index.html", "body"), ("algorithms/hcpi.html", "body"), ("python.html", "#errors"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it."""
    for module in ("sphinx", "myst_parser", "furo", "math_core"):
        pytest.importorskip(module)
    out = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run([*build, str(DOCS), str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    driver = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with driver.sync_playwright() as found:
        made = found.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


def violations(page: Any, part: str | None = None, **rules: Any) -> list[str]:
    """What axe-core finds, in words."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    options = {"preload": False, "resultTypes": ["violations"], **rules}
    found = axe.Axe().run(page, context=part, options=options).response["violations"]
    return [f"{x['id']}: {x['nodes'][0]['html'][:150]}" for x in found]


def test_it_lists_every_command_and_public_name(site: Path) -> None:
    commands, names = ((site / f"{x}.html").read_text() for x in ("commands", "python"))
    for _, name, _, _ in COMMANDS:
        assert f'id="surefoot-{name}"' in commands, name
    assert "--missing-reward" in commands
    modules = {"certificates", "plot", "theory", "tuning"}
    listed = [x for x in surefoot.__all__ if x not in modules]
    for name in (*listed, *(f"plot.{x}" for x in public(surefoot.plot))):
        assert f'id="surefoot.{name}"' in names, name


def test_every_page_opens_from_disk_is_accessible_and_fits_a_phone(
    site: Path, browser: Any
) -> None:
    """But for colours, which come below."""
    page, asked, said = browser.new_page(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    found = []
    names = [x.relative_to(site).as_posix() for x in sorted(site.rglob("*.html"))]
    assert len(names) > len(PAGES) + 15  # the pages beside docs/, index and search
    for name in names:
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto((site / name).as_uri())
        wide = page.evaluate("document.documentElement.scrollWidth")
        found += [f"{name} is {wide} wide"] * (wide > 390)
        page.set_viewport_size({"width": 1280, "height": 900})
        without = {"color-contrast": {"enabled": False}}
        found += [f"{name}: {x}" for x in violations(page, rules=without)]
        flat, left = page.evaluate(FORMULAS)
        found += [f"{name}: {flat} formulas are not drawn"] * bool(flat)
        found += [f"{name} shows {x}" for x in left]
    assert found == []
    assert said == []
    assert [x for x in asked if not x.startswith("file:")] == []


def test_every_formula_of_a_page_is_one_on_the_site(site: Path) -> None:
    seen = 0
    for name in PAGES:
        prose = re.sub(r"^```.*?^```$", "", text_of(name), flags=re.M | re.S)
        displays = len(re.findall(r"^ *\$\$$", prose, re.M))
        page = (site / name).with_suffix(".html").read_text(encoding="utf-8")
        assert page.count('<math display="block">') == displays / 2, name
        seen += displays // 2
    assert seen > 40


def test_a_line_that_begins_with_a_per_cent_sign_is_shown(site: Path) -> None:
    """In Markdown with extensions it may be a comment."""
    seen = 0
    for name in PAGES:
        prose = re.sub(r"^```.*?^```$", "", text_of(name), flags=re.M | re.S)
        page = (site / name).with_suffix(".html").read_text(encoding="utf-8")
        for words in re.findall(r"^ *(%[^`$*\n[]+)", prose, re.M):
            assert words.strip() in page, name
            seen += 1
    assert seen >= 3


def test_no_link_within_the_site_is_broken(site: Path) -> None:
    """Those that leave it lead to files of the repository."""
    pages = {x.relative_to(site).as_posix(): x.read_text("utf-8") for x in site.rglob("*.html")}
    places = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in pages.items()}
    broken, seen = [], 0
    for name, text in pages.items():
        for target in set(re.findall(r'\b(?:href|src)="([^"]*)"', text)):
            path, _, anchor = target.partition("#")
            if re.match(r"\w+:", target):
                continue
            inside = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
            inside = inside.split("?")[0] if path else name
            up = inside.removeprefix("../../")
            there = site / inside if up == inside else ROOT / up
            ok = there.exists() and (not anchor or anchor in places.get(inside, {anchor}))
            broken += [f"{name}: {target}"] * (not ok)
            seen += 1
    assert broken == []
    assert seen > 3000


def _compiled(tree: ast.Module | ast.Expression, page: str) -> Any:
    kind = "exec" if isinstance(tree, ast.Module) else "eval"
    return compile(tree, page, kind, dont_inherit=True)


@pytest.mark.parametrize("page", NOTEBOOKS)
def test_a_notebook_runs(
    site: Path, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a tenth of its trials; what a cell ends with is shown, as Jupyter would."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    made = json.loads((site / page).with_suffix(".ipynb").read_text(encoding="utf-8"))
    cells = ["".join(x["source"]) for x in made["cells"] if x["cell_type"] == "code"]
    assert cells == re.findall(r"^```python\n(.*?)\n^```$", text_of(page), re.M | re.S)
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        few = re.sub(r"\btrials = (\d+)0\b", r"trials = \1", cell)
        *body, last = ast.parse(few).body
        shown = isinstance(last, ast.Expr)
        exec(_compiled(ast.Module(body if shown else [*body, last], []), page), names)
        if shown:
            value = eval(_compiled(ast.Expression(last.value), page), names)
            getattr(value, "_repr_html_", value.__repr__)()
    pyplot.close("all")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_contrast(site: Path, browser: Any, scheme: str) -> None:
    page = browser.new_page(color_scheme=scheme)
    for name, part in COLOURS:
        page.goto((site / name).as_uri())
        assert violations(page, part, runOnly=["color-contrast"]) == [], name
