"""The built site: no warning, every command and public name, and nothing against accessibility."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import surefoot
from support.documents import DOCS, PAGES, public
from surefoot.cli import COMMANDS

pytestmark = pytest.mark.slow
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SITE = [x.replace(".md", ".html") for x in PAGES] + ["genindex.html", "search.html"]
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
    for name in SITE:
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto((site / name).as_uri())
        wide = page.evaluate("document.documentElement.scrollWidth")
        found += [f"{name} is {wide} wide"] * (wide > 390)
        page.set_viewport_size({"width": 1280, "height": 900})
        without = {"color-contrast": {"enabled": False}}
        found += [f"{name}: {x}" for x in violations(page, rules=without)]
    assert found == []
    assert said == []
    assert [x for x in asked if not x.startswith("file:")] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_contrast(site: Path, browser: Any, scheme: str) -> None:
    page = browser.new_page(color_scheme=scheme)
    for name, part in COLOURS:
        page.goto((site / name).as_uri())
        assert violations(page, part, runOnly=["color-contrast"]) == [], name
