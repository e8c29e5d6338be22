"""Make every kind of report, and pictures of it: wide and narrow, light and dark, and on paper.

    python docs/screenshots.py build/screenshots

It needs Playwright and a Chromium (pip install 'surefoot[slow]'; apt-get install chromium). Look at
the pictures after a change of the pages. With --docs the pictures of the documentation are made
again: docs/figures/report-*.png and docs/figures/walk-*.png.
"""

from __future__ import annotations

import csv
import shlex
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAPER = 673  # A4 less its margins, in pixels of 1/96 inch
BOAT = ["--gamma", "0.95", "--baseline", "rule.csv", "--reward-range", "0,4"]
VISITS = [
    "--gamma", "0.9", "--baseline", "visits-rule.csv", "--reward-range", "0,1",
    "--return-range", "0,1",
]  # fmt: skip
STUDY = """
name = "screenshots"
seed = 1
trials = 40
alpha = 0.1
[benchmark]
name = "wet-chicken"
sizes = [200, 1000, 5000]
[[algorithms]]
name = "basic-rl"
[[algorithms]]
name = "pi-b-spibb"
n_wedge = [5, 20]
[[algorithms]]
name = "priced-soft-spibb"
epsilon = 1
"""
COMMANDS: dict[str, list[str]] = {
    "improvement": ["improve", "log.csv", *BOAT, "--out", "improvement"],
    "not-supported": ["improve", "short.csv", *BOAT, "--out", "not-supported"],
    "accepted": ["improve", "short.csv", *BOAT, "--accept", "--out", "accepted"],
    "three-coordinates": [
        "improve", "tides.csv", "--gamma", "0.95", "--state", "x,y,tide",
        "--out", "three-coordinates",
    ],
    "visits": ["improve", "visits.csv", *VISITS, "--out", "visits"],
    "check": ["check", "log.csv", "--baseline", "rule.csv", "--report", "check.html"],
    "compare": ["compare", "log.csv", *BOAT, "--report", "compare.html"],
    "tune": ["tune", "log.csv", *BOAT, "--models", "100", "--simulated", "20",
             "--report", "tune.html"],
    "safety-test": ["safety-test", "later.csv", "--policy", "visits/policy.csv", *VISITS,
                    "--horizon", "3", "--report", "safety-test.html", "--json"],
    "with-safety-test": ["report", "visits", "--out", "with-safety-test.html"],
    "careless": ["safety-test", "later.csv", "--policy", "careless.csv", *VISITS,
                 "--horizon", "3", "--report", "careless.html"],
    "study": ["run", "study.toml", "--out", "study"],
}  # fmt: skip


def make_pages(folder: Path) -> dict[str, Path]:
    """Run every command in the folder, and say where its page is."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, str(HERE / "make_logs.py")], cwd=folder, check=True)
    with open(folder / "log.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    _write(folder / "short.csv", rows[:600])
    tides = [
        {k: v for k, v in row.items() if k not in ("state", "next_state")}
        | dict(part.split("=") for part in row["state"].split())
        | {"tide": str(i // 40 % 3)}
        for i, row in enumerate(rows)
    ]
    _write(folder / "tides.csv", tides)
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    pages = {}
    for name, command in COMMANDS.items():
        done = subprocess.run(
            [sys.executable, "-m", "surefoot.cli", *command],
            cwd=folder, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode not in (0, 3, 4):
            raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        if name == "safety-test":
            (folder / "visits" / "safety-test.json").write_text(done.stdout, encoding="utf-8")
        single = folder / f"{name}.html"
        pages[name] = single if single.exists() else folder / name / "report.html"
    return pages


def walk(folder: Path) -> dict[str, Path]:
    """Go the walks of walks.md, command by command, and say where their pages are."""
    folder.mkdir(parents=True, exist_ok=True)
    text = (HERE / "walks.md").read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if not line.startswith("$ "):
            continue
        program, *words = shlex.split(line[2:])
        first = (
            ["-m", "surefoot.cli"] if program == "surefoot" else [str(HERE.parent / words.pop(0))]
        )
        subprocess.run(
            [sys.executable, *first, *words], cwd=folder, check=True, capture_output=True
        )
    return {
        "walk-ward": folder / "ward" / "report.html",
        "walk-roll-out": folder / "ward-roll-out.html",
        "walk-shop": folder / "shop" / "report.html",
    }


def _write(path: Path, rows: list[dict[str, str]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        made = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        made.writeheader()
        made.writerows(rows)


def photograph(browser: Any, name: str, page: Path, folder: Path) -> None:
    """The whole page in all sizes and colours, and as it is printed."""
    for width in (1280, 390):
        for scheme in ("light", "dark"):
            size = {"width": width, "height": 900}
            tab = browser.new_page(viewport=size, color_scheme=scheme)
            tab.goto(page.resolve().as_uri())
            if tab.locator("#states tbody button").count():
                tab.click("#states tbody button >> nth=0")
            tab.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
            tab.close()
    tab = browser.new_page(viewport={"width": PAPER, "height": 950})
    tab.goto(page.resolve().as_uri())
    tab.pdf(path=folder / f"{name}.pdf", format="A4", prefer_css_page_size=True)
    tab.emulate_media(media="print")
    tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    tab.screenshot(path=folder / f"{name}-paper.png", full_page=True)
    tab.close()


def picture_for_docs(browser: Any, page: Path, target: Path, height: int = 900) -> None:
    """The top of a page."""
    tab = browser.new_page(viewport={"width": 1280, "height": height}, color_scheme="light")
    tab.goto(page.resolve().as_uri())
    tab.screenshot(path=target)
    tab.close()


def main() -> None:
    """Make pages and pictures."""
    from playwright.sync_api import sync_playwright

    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where pages and pictures go")
    parser.add_argument("--docs", action="store_true", help="also docs/figures/report-*.png")
    parser.add_argument("--only", default="", help="pictures of these pages alone: a,b")
    given = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("needs Chromium: apt-get install chromium")
    pages = make_pages(given.folder)
    with sync_playwright() as found:
        browser = found.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, page in pages.items():
            if not given.only or name in given.only.split(","):
                photograph(browser, name, page, given.folder)
        if given.docs:
            for name, height in (("improvement", 900), ("safety-test", 720), ("study", 900)):
                target = HERE / "figures" / f"report-{name}.png"
                picture_for_docs(browser, pages[name], target, height)
            for name, page in walk(given.folder / "walks").items():
                picture_for_docs(browser, page, HERE / "figures" / f"{name}.png", 1100)
        browser.close()
    print(f"pictures in {given.folder}")


if __name__ == "__main__":
    main()
