"""surefoot run, benchmark and reproduce, as a user calls them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from support import small_study
from surefoot.cli import app
from surefoot.core.errors import StudyError
from surefoot.research.studies import runner

STUDY = """
name = "small"
seed = 3
trials = 12

[benchmark]
name = "wet-chicken"
sizes = [50, 200]
length = 4
width = 3

[[algorithms]]
name = "basic-rl"

[[algorithms]]
name = "pi-b-spibb"
n_wedge = [3, 7]
"""


def call(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "surefoot.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(STUDY, encoding="utf-8")
    return path


def test_a_study_becomes_a_summary_and_a_figure_and_again_in_no_time(
    study: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = call("run", study, "--out", out, "--workers", 1)
    assert done.returncode == 0, done.stderr
    lines = (out / "summary.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 3
    assert {x.name for x in out.iterdir()} >= {
        "summary.csv",
        "figure.svg",
        "figure.png",
        "manifest.json",
        "study.json",
        "shards",
    }
    before = {x: x.stat().st_mtime_ns for x in (out / "shards").iterdir()}
    assert call("run", study, "--out", out, "--workers", 2).returncode == 0
    assert {x: x.stat().st_mtime_ns for x in (out / "shards").iterdir()} == before


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (("basic-rl", "basic-rll"), "basic-rl"),
        (("trials = 12", "trials = -1"), "trials"),
        (("[50, 200]", "[0, 200]"), "sizes"),
        (("n_wedge", "n_wege"), "n_wege"),
    ],
)
def test_a_wrong_study_ends_with_code_2_and_names_the_key(
    study: Path, tmp_path: Path, change: tuple[str, str], word: str
) -> None:
    study.write_text(STUDY.replace(*change), encoding="utf-8")
    done = call("run", study, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_study_that_fails_at_once_leaves_its_folder_to_the_corrected_one(tmp_path: Path) -> None:
    """Cycles are those of one trajectory, and this study has episodes: that is found in the
    first shard.
    """
    study, out = tmp_path / "study.toml", tmp_path / "results" / "study"
    wrong = '[[algorithms]]\nname = "certified-advantage"\ndelta = 0.1\nvisits = "cycles"\n'
    study.write_text(small_study.TEXT + wrong, encoding="utf-8")
    done = call("run", study, "--out", out, "--trials", 2, "--workers", 1)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "cycles" in done.stderr
    assert not (tmp_path / "results").exists()
    study.write_text(small_study.TEXT, encoding="utf-8")
    done = call("run", study, "--out", out, "--trials", 2, "--workers", 1)
    assert done.returncode == 0, done.stderr
    assert (out / "summary.csv").exists()


@pytest.mark.parametrize(
    "option", [("--trials", -3), ("--trials", 0), ("--workers", 0), ("--device", "abacus")]
)
@pytest.mark.parametrize("target", ["wet-chicken", "assumption-1"])
def test_a_wrong_option_of_reproduce_leaves_no_folder(
    tmp_path: Path, target: str, option: tuple[str, object]
) -> None:
    out = tmp_path / "results"
    done = CliRunner().invoke(app, ["reproduce", target, *map(str, option), "--out", str(out)])
    assert isinstance(done.exception, StudyError)
    assert option[0].strip("-") in str(done.exception)
    assert not out.exists()


def test_results_cannot_go_into_a_file(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("do not lose me")
    done = CliRunner().invoke(
        app, ["reproduce", "assumption-1", "--out", str(tmp_path / "results")]
    )
    assert isinstance(done.exception, StudyError)
    assert "is a file" in str(done.exception)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    here = runner._here
    monkeypatch.setattr(runner, "_in_processes", lambda x, missing, _: here(x, missing, "cpu"))


def test_a_folder_grows_and_that_of_another_study_is_refused(
    study: Path, tmp_path: Path, in_this_process: None
) -> None:
    out = tmp_path / "out"

    def asked(*options: object) -> Result:
        return CliRunner().invoke(app, ["run", str(study), "--out", str(out), *map(str, options)])

    assert asked("--trials", 5).exit_code == 0
    first = {x: x.read_bytes() for x in (out / "shards").iterdir()}
    done = asked()
    assert done.exit_code == 0 and "12 trials of 6 cells" in done.stdout
    assert {x: x.read_bytes() for x in first} == first
    assert len(list((out / "shards").iterdir())) == 2
    study.write_text(STUDY.replace("seed = 3", "seed = 4"), encoding="utf-8")
    found = asked().exception
    assert isinstance(found, StudyError) and "holds another study" in str(found)


def test_an_entry_of_the_benchmark_is_printed_beside_the_reference_and_written(
    tmp_path: Path, in_this_process: None
) -> None:
    entry, out = tmp_path / "ramdp_entry.py", tmp_path / "out"
    entry.write_text('ENTRY = "ramdp kappa=1"', encoding="utf-8")
    words = ["benchmark", str(entry), "--worlds", "gridworld,wet-chicken", "--trials", "3"]
    done = CliRunner().invoke(app, [*words, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "gridworld, 3 trials" in done.stdout and "wet-chicken, 3 trials" in done.stdout
    assert done.stdout.count("ramdp kappa=1 ") == done.stdout.count("lower-approx-soft-spibb") == 2
    assert len((out / "scores.csv").read_text().splitlines()) == 1 + 3 * (4 + 5)
    found = CliRunner().invoke(app, ["benchmark", str(tmp_path / "none.py")]).exception
    assert isinstance(found, StudyError) and "is no file" in str(found)


def test_an_interrupted_run_says_how_to_resume(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "surefoot.cli",
        "run",
        str(study),
        "--out",
        str(out),
        "--trials",
        "5000",
        "--workers",
        "1",
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=small_study.heed_ctrl_c,
    )
    while not (out / "manifest.json").exists() and process.poll() is None:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "run the same command to resume" in errors


def test_a_target_that_does_not_exist_is_named_with_those_that_do(tmp_path: Path) -> None:
    done = call("reproduce", "figure-9", "--out", tmp_path)
    assert done.returncode == 2
    assert "assumption-1" in done.stderr


@pytest.mark.parametrize(
    ("target", "script"),
    [
        ("priced", "papers/priced/priced_study.py"),
        ("product", "papers/scholl2022/product_study.py"),
    ],
)
def test_a_study_beyond_the_paper_is_told_to_be_a_script(
    target: str, script: str, tmp_path: Path
) -> None:
    done = CliRunner().invoke(app, ["reproduce", target, "--out", str(tmp_path)])
    assert isinstance(done.exception, StudyError) and script in str(done.exception)


@pytest.mark.slow
def test_reproducing_a_figure_writes_summary_figure_and_verdicts(tmp_path: Path) -> None:
    done = call("reproduce", "wet-chicken", "--trials", 20, "--out", tmp_path, "--workers", 2)
    assert done.returncode == 0, done.stderr
    assert "C6" in (tmp_path / "claims-wet-chicken.md").read_text()
    assert len((tmp_path / "wet-chicken" / "summary.csv").read_text().splitlines()) == 1 + 9 * 9
