"""Outcomes in words: the numbers that the words of the reward stand for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_logs_clock import FORMS, Made
from test_logs_read import triples

import surefoot
from support import logfiles
from surefoot import LogError
from surefoot.advice.whole_episodes import KEPT
from surefoot.logs import read_log

OUTCOMES = {"survived": 1.0, "died": -2.5}
WORDS = ["survived", " died ", "survived"]


def rows(words: list[Any]) -> list[list[Any]]:
    return [["e", i, f"s{i}", "x", word] for i, word in enumerate([*words, "survived"])]


def rewards(log: Any) -> list[float]:
    found = triples(log)
    return [found[f"s{i}", "x", f"s{i + 1}"][1] for i in range(len(found))]


@FORMS
@pytest.mark.parametrize(
    "values", [OUTCOMES, ["survived=1", "died=-2.5"], "survived=1, died = -2.5", OUTCOMES.items()]
)
def test_words_stand_for_their_numbers(tmp_path: Path, made: Made, values: Any) -> None:
    if not isinstance(values, (dict, list, str)):
        values = tuple(f"{x}={y}" for x, y in values)
    assert rewards(read_log(made(tmp_path, rows(WORDS)), values=values)) == [1, -2.5, 1]


def test_a_word_may_hold_signs_of_every_kind(tmp_path: Path) -> None:
    words = ["it's", "a=b", 'said "no"', "a, b"]
    roles = ("episode", "time", "state", "action", "reward")
    columns = {role: [row[i] for row in rows(words)] for i, role in enumerate(roles)}
    columns["reward"][-1] = "it's"
    log = read_log(columns, values={x: float(i) for i, x in enumerate(words)})
    assert rewards(log) == [0, 1, 2, 3]
    assert read_log(columns | {"reward": ["a=b"] * 5}, values=["a=b=4"]).rewards == (4, 4)


@FORMS
def test_a_word_that_is_not_named_is_a_bad_row(tmp_path: Path, made: Made) -> None:
    source = made(tmp_path, rows(["survived", "moved", "1"]))
    with pytest.raises(LogError, match=r"2 rows whose reward.*'moved'") as error:
        read_log(source, values=OUTCOMES)
    assert "names 'survived', 'died': add the others" in str(error.value)


def test_words_without_numbers_get_the_hint(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="--values survived=1,died=0"):
        read_log(logfiles.write(tmp_path / "log.csv", logfiles.HEADER, rows(WORDS)))


def test_numbers_that_are_not_readable_get_no_hint_of_words(tmp_path: Path) -> None:
    log = logfiles.write(tmp_path / "log.csv", logfiles.HEADER, rows(["1,5", "2", "-"])[:-1])
    with pytest.raises(LogError, match="2 rows whose reward") as error:
        read_log(log)
    assert "--values" not in str(error.value)


def test_empty_rewards_are_filled_beside_words(tmp_path: Path) -> None:
    log = logfiles.write(tmp_path / "log.csv", logfiles.HEADER, rows(["", "died", "NA"]))
    assert rewards(read_log(log, values=OUTCOMES, missing_reward=7)) == [7, -2.5, 7]
    with pytest.raises(LogError, match="--missing-reward"):
        read_log(log, values=OUTCOMES)


def test_less_may_be_better(tmp_path: Path) -> None:
    log = logfiles.write(tmp_path / "log.csv", logfiles.HEADER, rows(WORDS))
    assert rewards(read_log(log, values=OUTCOMES, reward="reward:lower")) == [-1, 2.5, -1]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("survived", "such as survived=1,died=0; got '=survived'"),
        ("died=", "got 'died='"),
        (["=1"], "got '=1'"),
        ({"died": "bad"}, "got 'died=bad'"),
        ({"died": float("inf")}, "got 'died=inf'"),
        ("died=nan", "got 'died=nan'"),
        ("died=0,survived=1,died=2", "'died' two numbers"),
        (7, "such as survived=1,died=0"),
    ],
)
def test_values_that_are_none_are_refused(tmp_path: Path, values: Any, words: str) -> None:
    log = logfiles.write(tmp_path / "log.csv", logfiles.HEADER, rows(WORDS))
    with pytest.raises(LogError, match=words):
        read_log(log, values=values)


def test_a_description_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = logfiles.write(tmp_path / "log.csv", logfiles.HEADER, rows(WORDS))
    given = ("--values", "survived=1,died=-2.5", "--save", tmp_path / "log.toml")
    assert logfiles.run(monkeypatch, capsys, "check", log, *given)[0] != 2
    assert 'values = ["survived=1", "died=-2.5"]' in (tmp_path / "log.toml").read_text()
    assert rewards(read_log(tmp_path / "log.toml")) == [1, -2.5, 1]
    other = read_log(tmp_path / "log.toml", values={"survived": 3, "died": 4})
    assert rewards(other) == [3, 4, 3]
    second = read_log(tmp_path / "log.toml", reward="time")  # of another column: no words
    assert rewards(second) == [0, 1, 2]


def test_a_mapping_is_saved_as_text(tmp_path: Path) -> None:
    from surefoot.logs.description import Description, read_description

    log = logfiles.write(tmp_path / "log.csv", logfiles.HEADER, rows(WORDS))
    saved = Description(source=str(log), reading={"values": OUTCOMES}).save(tmp_path / "a.toml")
    assert read_description(saved).reading == {"values": ["survived=1.0", "died=-2.5"]}


def test_a_watch_keeps_how_dates_and_words_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {"values", "date_format"} <= KEPT
    visit = [(f"v{i}", f"0{1 + i % 9}/01/2024", "a", ("old", "new")[i % 2], "died" if i % 3 else "lived", 1)
             for i in range(30)]  # fmt: skip
    log = logfiles.write(tmp_path / "log.csv", logfiles.VISIT, visit)
    given: dict[str, Any] = {
        "policy": logfiles.coin(tmp_path / "pi.csv", 0.9),
        "baseline": logfiles.coin(tmp_path / "rule.csv", 0.5),
        "state-file": tmp_path / "capital.json",
        "gamma": 0.9, "reward-range": "0,1", "horizon": 1, "date-format": "dd/mm/yyyy",
    }  # fmt: skip
    flags = [x for k, v in given.items() for x in (f"--{k}", v)]

    def watch(values: str) -> tuple[int, str, str]:
        words = (*flags, "--values", values, "--json")
        return logfiles.run(monkeypatch, capsys, "watch", log, *words)

    code, text, said = watch("died=0,lived=1")
    assert (code, json.loads(text)["episodes_counted"]) == (3, 30), said
    code, _, said = watch("died=1,lived=0")
    assert (code, "values" in said) == (2, True)


def test_words_and_their_numbers_are_the_same_log(tmp_path: Path) -> None:
    log = logfiles.write(
        tmp_path / "log.csv",
        logfiles.HEADER,
        [(*x[:4], "good" if float(x[4]) > 0.6 else "bad") for x in logfiles.steps()],
    )
    same = logfiles.write(
        tmp_path / "same.csv",
        logfiles.HEADER,
        [(*x[:4], int(float(x[4]) > 0.6)) for x in logfiles.steps()],
    )
    found = surefoot.check(log, values="good=1,bad=0")
    assert found.to_dict()["findings"] == surefoot.check(same).to_dict()["findings"]
