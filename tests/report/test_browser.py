"""Reports in a real browser: no error, no request, search, sort and details work, labels do no
harm, and axe-core finds nothing against accessibility.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from report.test_improvement_page import HOSTILE, improved, records
from report.test_log_pages import TUNED, said_of
from report.test_statements import found
from support import logfiles
from surefoot.cli import app
from surefoot.core.plain_values import plain
from surefoot.report.folder import PairRecord, StateRecord
from surefoot.report.improvement_page import improvement_page
from surefoot.report.log_pages import safety_page

pytestmark = pytest.mark.slow
STUDY = """
name = "small"
seed = 1
trials = 2
[benchmark]
name = "wet-chicken"
sizes = [50, 100]
[[algorithms]]
name = "basic-rl"
[[algorithms]]
name = "pi-b-spibb"
n_wedge = 5
"""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium; SUREFOOT_BROWSER=required makes a missing one a failure."""
    required = os.environ.get("SUREFOOT_BROWSER") == "required"
    try:
        import playwright.sync_api as driver
    except ImportError:
        if required:
            raise
        pytest.skip("needs Playwright: pip install 'surefoot[slow]'")
    if CHROMIUM is None:
        (pytest.fail if required else pytest.skip)("needs Chromium: apt-get install chromium")
    with driver.sync_playwright() as found:
        made = found.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


class Opened:
    """A page opened from disk, and what the browser complained about or asked for."""

    def __init__(self, browser: Any, file: Path, **options: Any) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page = browser.new_page(**{"viewport": {"width": 1280, "height": 900}} | options)
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())
        self.file = file

    def rows(self) -> list[str]:
        return [
            str(x) for x in self.page.locator("#states tbody td.label > span").all_inner_texts()
        ]

    def check(self) -> None:
        assert self.said == []
        assert self.asked == [self.file.as_uri()]


def page_of(tmp_path: Path, states: list[StateRecord] | None = None) -> Path:
    summary, own = improved(tmp_path)
    file = tmp_path / "report.html"
    file.write_text(improvement_page(summary, own if states is None else states), encoding="utf-8")
    return file


def violations(opened: Opened) -> list[str]:
    """What axe-core finds, in words."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(opened.page).response["violations"]
    return [f"{x['id']}: {[node['html'][:120] for node in x['nodes'][:3]]}" for x in found]


def test_search_sort_and_details(browser: Any, tmp_path: Path) -> None:
    states = [
        StateRecord(
            (f"ward {i}",),
            "why not",
            (PairRecord("go", 10 * i + 1, 0.5, 0.5 - i / 200, 1.0, 0.1), PairRecord("stay", 3, 0.5, 0.5 + i / 200, 2.0, 0.1)),
        )
        for i in range(60)
    ]  # fmt: skip
    opened = Opened(browser, page_of(tmp_path, states))
    page = opened.page
    assert opened.rows() == [f"ward {i}" for i in range(25)]
    page.fill("#search", "ward 5")
    assert opened.rows() == ["ward 5", *(f"ward {i}" for i in range(50, 60))]
    page.click("th[data-key=visits] button")
    assert opened.rows()[0] == "ward 59"
    assert page.get_attribute("th[data-key=visits]", "aria-sort") == "descending"
    page.click("th[data-key=visits] button")
    assert opened.rows()[0] == "ward 5"
    page.fill("#search", "")
    page.click("#after")
    assert page.inner_text("#said") == "26 to 50 of 60 states"
    page.select_option("#only", "same")
    assert opened.rows() == ["ward 0"]
    page.keyboard.press("Tab")
    page.focus("#states tbody button")
    page.keyboard.press("Enter")
    assert "Why it stays: Why not." in page.inner_text(".detail")
    assert page.locator(".detail tbody tr").count() == 2
    page.keyboard.press("Enter")  # the focus stayed on the button
    assert page.locator(".detail").count() == 0
    opened.check()


def test_labels_do_no_harm(browser: Any, tmp_path: Path) -> None:
    opened = Opened(browser, page_of(tmp_path, records(HOSTILE)))
    page = opened.page
    shown = page.locator("#states tbody td.label > span").all_text_contents()
    assert shown == list(HOSTILE)
    for i in range(len(HOSTILE)):
        page.locator("#states tbody button").nth(i).click()
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 1280  # a long name breaks the lines, not the page
    opened.check()


def test_a_narrow_screen_shows_the_whole_table(browser: Any, tmp_path: Path) -> None:
    river = records(tuple(f"x={x} y={y}" for x in range(3) for y in range(4)))
    opened = Opened(browser, page_of(tmp_path, river), viewport={"width": 390, "height": 900})
    opened.page.click("#states tbody button >> nth=0")
    cut = opened.page.evaluate(
        "[...document.querySelectorAll('.scroll')].filter(x => x.scrollWidth > x.clientWidth + 1)"
        ".map(x => x.getAttribute('aria-label') || x.firstElementChild.id)"
    )
    assert cut == []
    opened.check()


def test_ten_thousand_states(browser: Any, tmp_path: Path) -> None:
    pairs = records()[0].pairs
    states = [StateRecord((f"{i} of many",), "why", pairs) for i in range(10_000)]
    opened = Opened(browser, page_of(tmp_path, states))
    assert opened.page.inner_text("#said") == "1 to 25 of 10,000 states"
    opened.page.fill("#search", "9999 of")
    assert opened.rows() == ["9999 of many"]
    opened.check()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_is_accessible(browser: Any, tmp_path: Path, scheme: str, width: int) -> None:
    river = records(tuple(f"x={x} y={y}" for x in range(3) for y in range(4)))
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 900}}
    opened = Opened(browser, page_of(tmp_path, river), bypass_csp=True, **options)
    opened.page.click("#states tbody button >> nth=0")
    assert violations(opened) == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.fixture(scope="module")
def other_pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages of check, compare, tune, safety-test and a study."""
    folder = tmp_path_factory.mktemp("pages")
    log, study = str(logfiles.good_log(folder)), folder / "study.toml"
    study.write_text(STUDY, encoding="utf-8")
    commands = {
        "check": ["check", log],
        "compare": ["compare", log, "--gamma", "0.9", "--only", "basic-rl,pi-b-spibb"],
        "tune": ["tune", log, *TUNED[1:]],
    }
    pages = {}
    for name, command in commands.items():
        pages[name] = folder / f"{name}.html"
        run = CliRunner().invoke(app, [*command, "--report", str(pages[name])])
        assert run.exit_code in (0, 3), run.output
    pages["safety"] = folder / "safety.html"
    pages["safety"].write_text(safety_page(said_of("passes")), encoding="utf-8")
    run = CliRunner().invoke(app, ["run", str(study), "--out", str(folder / "study")])
    assert run.exit_code == 0, run.output
    return pages | {"study": folder / "study" / "report.html"}


@pytest.mark.parametrize("name", ["check", "compare", "tune", "safety", "study"])
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_other_pages_open_and_are_accessible(
    browser: Any, other_pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 900}}
    opened = Opened(browser, other_pages[name], bypass_csp=True, **options)
    opened.check()
    assert violations(opened) == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


def test_labels_of_a_log_do_no_harm_through_the_whole_command(browser: Any, tmp_path: Path) -> None:
    log, out = tmp_path / "<b>log.csv", tmp_path / "out"
    rng = np.random.default_rng(0)
    with open(log, "w", newline="", encoding="utf-8") as file:
        made = csv.writer(file)
        made.writerow(("episode", "time", "state", "action", "reward"))
        for episode in range(60):
            for step, state in enumerate((*HOSTILE, "end")):
                action = HOSTILE[int(rng.random() < 0.3)]
                made.writerow((episode, step, state, action, int(rng.random() < 0.5)))
    run = CliRunner().invoke(app, ["improve", str(log), "--gamma", "0.9", "--out", str(out)])
    assert run.exit_code in (0, 3), run.output
    opened = Opened(browser, out / "report.html")
    shown = opened.page.locator("#states tbody td.label > span").all_text_contents()
    assert sorted(shown) == sorted(HOSTILE)
    for i in range(len(HOSTILE)):
        opened.page.locator("#states td.open > button").nth(i).click()
    assert opened.page.locator("img").count() == 0
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 1280
    opened.check()
    for name in ("policy.csv", "pairs.csv", "changes.csv"):
        with open(out / name, newline="", encoding="utf-8") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if cell[:1] in ("=", "@", "+")]


def test_the_page_prints(browser: Any, tmp_path: Path) -> None:
    opened = Opened(browser, page_of(tmp_path))
    opened.page.emulate_media(media="print")
    assert not opened.page.is_visible("#search")
    printed = opened.page.pdf(prefer_css_page_size=True)
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b(?!s)", printed)) <= 8
    assert b"/MediaBox [0 0 594.9" in printed  # A4


@pytest.mark.parametrize("case", ["supported", "guard", "not supported", "nothing", "bandit"])
def test_the_first_page_is_one_sheet_of_paper(browser: Any, tmp_path: Path, case: str) -> None:
    file = tmp_path / "report.html"
    file.write_text(improvement_page(plain(found(case)), records()), encoding="utf-8")
    sheet = {"width": 680, "height": 1047}  # A4 without its margins
    opened = Opened(browser, file, viewport=sheet)
    opened.page.emulate_media(media="print")
    box = opened.page.locator(".committee").bounding_box()
    assert box["y"] + box["height"] <= sheet["height"]
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= sheet["width"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_guards_and_groups_are_accessible_and_not_cut(
    browser: Any, tmp_path: Path, scheme: str, width: int
) -> None:
    file = tmp_path / "report.html"
    file.write_text(improvement_page(plain(found("guard")), records()), encoding="utf-8")
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 900}}
    opened = Opened(browser, file, bypass_csp=True, **options)
    assert violations(opened) == []
    cut = opened.page.evaluate(
        "[...document.querySelectorAll('.committee .scroll')]"
        ".filter(x => x.scrollWidth > x.clientWidth + 1).length"
    )
    assert cut == 0


def test_paper_has_the_states_that_change_opened(browser: Any, tmp_path: Path) -> None:
    stay = StateRecord(("stays",), "why", (PairRecord("go", 5, 1.0, 1.0, 1.0, 0.1),))
    many = records(tuple(f"ward {i}" for i in range(45)))
    opened = Opened(browser, page_of(tmp_path, [*many, stay]))
    opened.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert opened.page.locator(".detail").count() == 40
    assert opened.page.inner_text("#said").startswith("40 of 45 states that change, of 46 visited")
    opened.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert opened.page.locator(".detail").count() == 0
    assert opened.page.inner_text("#said") == "1 to 25 of 46 states"
    opened.check()
