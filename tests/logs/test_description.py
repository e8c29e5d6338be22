"""A log is described once: what its file says, what counts before it, and what it refuses."""

from __future__ import annotations

import inspect
import tomllib
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot.cli.options import LogOptions
from surefoot.core.errors import LogError
from surefoot.logs.description import (
    DEFAULTS,
    EACH_TIME,
    KEYS,
    POSING,
    Description,
    described,
    description_of,
    read_description,
)

# not said by a file: how fast it is read, not what
ASIDE = {"source", "check_order", "sparse", "threads", "memory", "progress", *EACH_TIME}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    logfiles.good_log(tmp_path)
    logfiles.rule(tmp_path)
    return tmp_path


def saved(folder: Path, text: str) -> Path:
    path = folder / "log.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_says_all_keywords_of_read_log_with_their_defaults() -> None:
    own = {
        name: p.default
        for name, p in inspect.signature(surefoot.read_log).parameters.items()
        if name not in ASIDE
    }
    assert {k: x for k, x in DEFAULTS.items() if k not in POSING} == own


def test_a_file_says_all_that_the_command_line_takes() -> None:
    options = {"policy" if f.name == "policy_column" else f.name for f in fields(LogOptions)}
    assert options - ASIDE == set(DEFAULTS)


def test_what_is_saved_is_read_again(folder: Path) -> None:
    hard = ['say "hi"', "back\\slash", "tab\there", "über", "a,b", "\x7f"]
    made = Description(
        source=str(folder / "log.csv"),
        reading={"state": ["a,b", "c"], "terminal_states": hard, "missing_reward": 1e-7},
        posing={"gamma": 1, "reward_range": (-1e16, 0.1), "baseline": str(folder / "rule.csv")},
    )
    path = made.save(folder / "deep" / "log.toml")
    assert tomllib.loads(path.read_text(encoding="utf-8"))["log"] == "../log.csv"
    assert read_description(path) == made


def test_paths_are_relative_to_the_file_wherever_it_is_read_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(folder, 'log = "log.csv"\n[problem]\nbaseline = "rule.csv"\ngamma = 0.9\n')
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    source, _, posing = described("../log.toml", {}, {})
    assert (source, posing["baseline"]) == (str(folder / "log.csv"), str(folder / "rule.csv"))
    assert surefoot.read_log(path).accounting.rows == 600


def test_what_is_given_counts_before_what_the_file_says(folder: Path) -> None:
    path = saved(
        folder,
        'log = "log.csv"\n[columns]\nstate = "state"\n[reading]\nepisode_end = "terminal"\n'
        'history = 1\n[problem]\ngamma = 0.9\nbaseline = "gone.csv"\n',
    )
    given = {"state": "time", "history": 0, "episode_end": "cut"}
    asked = {"gamma": 0.5, "baseline": folder / "rule.csv"}
    _, reading, posing = described(path, given, asked, named={"history"})
    # a default counts as not given, unless it is named
    assert reading == {"state": "time", "history": 0, "episode_end": "terminal"}
    assert posing == asked


def test_of_two_ways_to_give_a_baseline_the_one_that_is_given_stays(folder: Path) -> None:
    path = saved(folder, 'log = "log.csv"\n[problem]\nbaseline = "rule.csv"\n')
    asked = {"baseline_policy": "a", "baseline": None}
    assert described(path, {}, asked)[2] == asked


def test_columns_of_episodes_make_room_for_bandit(folder: Path) -> None:
    path = saved(
        folder, 'log = "log.csv"\n[columns]\nepisode = "episode"\n[problem]\ngamma = 0.9\n'
    )
    log = surefoot.read_log(path, bandit=True)
    assert log.n_episodes == 600
    assert surefoot.problem(path, bandit=True).gamma == 0


def test_a_problem_is_posed_as_the_file_says(folder: Path) -> None:
    path = saved(
        folder,
        'log = "log.csv"\n[problem]\ngamma = 0.9\nreward_range = [-3, 4]\nbaseline = "rule.csv"\n'
        'start = "mid"\n',
    )
    ours = surefoot.problem(path)
    spelled = surefoot.problem(
        folder / "log.csv", gamma=0.9, pi_b=folder / "rule.csv", reward_range=(-3, 4), start="mid"
    )
    assert (ours.gamma, ours.notes) == (spelled.gamma, spelled.notes)
    for name in ("pi_b", "start", "n_sa", "reward_range"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(spelled, name))
    assert surefoot.problem(path, gamma=0.5).gamma == 0.5


def test_smoothing_and_masks_of_the_file_hold_in_python(folder: Path) -> None:
    logfiles.write(folder / "no.csv", ("state", "action"), [("low", "try")])
    path = saved(
        folder,
        'log = "log.csv"\n[problem]\ngamma = 0.9\nsmoothing = 5\nforbidden = "no.csv"\n'
        "renormalise = true\n",
    )
    log = surefoot.read_log(path)
    found = surefoot.problem(path)
    low, other = log.labels.state_code("low"), log.labels.action_code("try")
    assert found.pi_b[low, other] == 0
    mid = log.labels.state_code("mid")
    n = log.n_sa[mid, other] + 5
    assert found.pi_b[mid, other] == pytest.approx(n / (log.n_sa[mid].sum() + 10))


def test_a_problem_needs_a_discount_factor(folder: Path) -> None:
    with pytest.raises(surefoot.ProblemError, match="gamma must be given"):
        surefoot.problem(saved(folder, 'log = "log.csv"\n'))


def test_the_columns_are_written_as_found(folder: Path) -> None:
    logfiles.write(
        folder / "odd.csv",
        ("run", "t", "a,b", "act", "died"),
        [("x", i, "s", "go", i % 2) for i in range(4)],
    )
    source = str(folder / "odd.csv")
    given = {"state": ["a,b"], "reward": "died:lower", "next_state": "-"}
    log = surefoot.read_log(source, **given)
    made = description_of(log, source, given, {})
    assert made.reading == {
        "episode": "run",
        "time": "t",
        "state": ["a,b"],
        "action": "act",
        "reward": "died:lower",
        "next_state": "-",
    }
    again = surefoot.read_log(made.save(folder / "odd.toml"))
    assert (again.columns, again.reward) == (log.columns, log.reward)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[columns\n", "is not a TOML file"),
        ("", 'begin it with log = "log.csv"'),
        ("log = 3\n", "log must be a path or a pattern, got 3"),
        ('log = "lgo.csv"\n', "log: there is no file"),
        ('log = "log.toml"\n', "describes a log, and is none"),
        ('log = "log.csv"\ncolums = 1\n', "there is no key 'colums'; the nearest are 'columns'"),
        (
            'log = "log.csv"\n[columns]\nepsiode = "e"\n',
            "there is no key 'columns.epsiode'; the nearest are 'episode'",
        ),
        ('log = "log.csv"\n[columns]\ngamma = 0.9\n', "gamma belongs below [problem]"),
        ('log = "log.csv"\ngamma = 0.9\n', "gamma belongs below [problem]"),
        (
            'log = "log.csv"\n[columns]\nguard = "cost"\n',
            "guard is asked of a command (--guard), and no part of how a log is read",
        ),
        (
            'log = "log.csv"\n[columns]\nstate = 3\n',
            "columns.state must be the name of a column, or a list of names, got 3",
        ),
        (
            'log = "log.csv"\n[problem]\ngamma = "high"\n',
            "problem.gamma must be a number, got 'high'",
        ),
        ('log = "log.csv"\n[problem]\ngamma = true\n', "problem.gamma must be a number, got True"),
        ('log = "log.csv"\nproblem = 3\n', "problem must be a table, got 3"),
        (
            'log = "log.csv"\n[problem]\nreward_range = [0, 1, 2]\n',
            "problem.reward_range must be [lowest, highest], got [0, 1, 2]",
        ),
        ('log = "log.csv"\n[reading]\nbandit = 1\n', "reading.bandit must be true or false, got 1"),
    ],
)
def test_a_wrong_file_is_answered_with_a_sentence(folder: Path, text: str, words: str) -> None:
    path = saved(folder, text)
    with pytest.raises(LogError) as refused:
        surefoot.read_log(path)
    assert str(path) in str(refused.value) and words in str(refused.value)


def test_a_file_that_is_not_there_says_what_writes_it(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"surefoot check LOG --save .*log\.toml writes it"):
        surefoot.read_log(tmp_path / "log.toml")


def test_a_path_in_the_file_must_be_there_where_it_is_used(folder: Path) -> None:
    path = saved(folder, 'log = "log.csv"\n[problem]\ngamma = 0.9\nbaseline = "gone.csv"\n')
    assert surefoot.read_log(path).accounting.rows == 600  # it asks for no baseline
    with pytest.raises(LogError, match=r"log.toml: baseline: there is no file .*gone\.csv"):
        surefoot.problem(path)
    assert surefoot.problem(path, pi_b=folder / "rule.csv").gamma == 0.9


def test_no_file_is_overwritten_that_describes_no_log(folder: Path) -> None:
    made = Description(source=str(folder / "log.csv"))
    other = folder / "pyproject.toml"
    other.write_text("[project]\nname = 'x'\n", encoding="utf-8")
    with pytest.raises(LogError, match="describes no log, so it is kept"):
        made.save(other)
    with pytest.raises(LogError, match=r"ends in \.toml"):
        made.save(folder / "log.csv")
    made.save(folder / "log.toml")
    made.save(folder / "log.toml")


def test_a_key_of_every_section_has_words() -> None:
    assert all(x.words for keys in KEYS.values() for x in keys.values())
