"""The pages of check, compare, tune and safety-test, through the commands that write them."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from support import logfiles
from surefoot.cli import app
from surefoot.report.log_pages import safety_page, tune_page
from surefoot.report.pictures import gains_picture

TUNED = ["tune", "--models", "10", "--alpha", "0.5", "--simulated", "2", "--gamma", "0.9"]


class Page(HTMLParser):
    """The words of a page, and how many cells the rows of its tables have."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.rows: list[int] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "tr":
            self.rows.append(0)
        elif tag in ("td", "th"):
            self.rows[-1] += 1

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def page_of(command: list[str], log: Path, tmp_path: Path) -> tuple[str, dict[str, Any]]:
    """(the words of the page that a command writes, what it says as JSON)."""
    file = tmp_path / "page.html"
    name, *options = command
    run = CliRunner().invoke(app, [name, str(log), *options, "--report", str(file), "--json"])
    assert run.exit_code in (0, 3), run.output
    found = json.loads(run.stdout)
    assert found["report"] == str(file)
    page = Page(file.read_text("utf-8"))
    assert len(set(page.rows)) <= 1, page.rows  # one table each, all rows as wide as its head
    return " ".join("".join(page.words).split()), found


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["check"], "Findings"),
        (["compare", "--gamma", "0.9", "--only", "basic-rl,pi-b-spibb"], "of 2 policies"),
        (TUNED, "This is a choice, not evidence"),
    ],
)
def test_a_command_writes_its_page(command: list[str], says: str, tmp_path: Path) -> None:
    log = logfiles.good_log(tmp_path).rename(tmp_path / "a & <b>.csv")
    words, _ = page_of(command, log, tmp_path)
    assert says in words
    assert "a & <b>.csv" in words
    assert f"surefoot {command[0]}" in words or "How it was made" in words


def test_the_page_of_a_choice_names_it_and_the_command_to_run_next(tmp_path: Path) -> None:
    words, found = page_of([*TUNED, "--try", "pi-b-spibb n_wedge=2,5"], logfiles.good_log(tmp_path), tmp_path)  # fmt: skip
    assert f"Chosen: {found['chosen']}" in words
    assert all(x["setting"] in words for x in found["settings"])
    assert (found["next"] is None) or (found["next"] in words)
    nothing = found | {"next": None}
    for x in nothing["settings"]:
        x["chosen"] = x["setting"] == "no change"
    text = tune_page(nothing)
    assert "Chosen: no change" in text
    assert "What to run next" not in text


def test_the_picture_of_settings_places_every_gain() -> None:
    rows = [
        {
            "setting": "<a>",
            "mean": 0.0,
            "mean_low": 0.0,
            "mean_high": 0.0,
            "cvar": 0.0,
            "chosen": False,
        },
        {
            "setting": "b",
            "mean": 2.0,
            "mean_low": 1.0,
            "mean_high": 3.0,
            "cvar": -1.0,
            "chosen": True,
        },
    ]
    picture = str(gains_picture(rows))
    assert "&lt;a&gt;" in picture
    assert picture.count("<circle") == 2
    assert "the highest mean is +2, of b" in picture
    centre = [float(x.split('"')[0]) for x in picture.split('cx="')[1:]]
    assert 0 < centre[0] < centre[1] < 440


@pytest.mark.parametrize(
    ("verdict", "word"),
    [
        ("passes", "PASSES: shown to be better"),
        ("fails", "FAILS: shown to be worse"),
        ("no evidence", "NO EVIDENCE EITHER WAY: the test did not show"),
        ("fails if", "NOT SHOWN. FAILS ONLY IF x: it is then shown to be worse than the baseline."),
    ],
)
def test_the_page_of_a_safety_test_says_its_verdict(verdict: str, word: str) -> None:
    page = safety_page(said_of(verdict))
    assert word in page
    assert "Episodes are independent." in page
    assert "between 0.02 and 0.3 more; wrong with probability 0.05" in page
    assert "None of the episodes was found" in page


def said_of(verdict: str) -> dict[str, Any]:
    """What a safety test says."""
    return {
        "log": {
            "source": "new.csv", "fingerprint": "abc", "warnings": [],
            "reward": {"sentence": "more reward is better; a row averages 0.5"},
        },
        "policy": "policy.csv", "gamma": 0.9,
        "verdict": verdict, "estimated_gain": 0.1, "gain_at_least": 0.02, "gain_at_most": 0.3,
        "delta": 0.05, "delta_of_each_test": 0.025, "episodes_tested": 4000,
        "effective_episodes": 498.8, "condition": "x", "bound": "betting", "estimator": "pdis",
        "largest_weight": 37.0, "share_never_tried": 0.0, "assumptions": ["episodes are independent"], "notes": [],
        "training_overlap": {"words": "none of the episodes was found"},
    }  # fmt: skip
