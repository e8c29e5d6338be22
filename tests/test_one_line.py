"""What the command line can do, Python can do in one line, with the same words and defaults."""

from __future__ import annotations

import csv
import html
import inspect
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot.advice import whole_episodes
from surefoot.advice.posing import Question
from surefoot.advice.questions import certify_policy
from surefoot.advice.tuning.choice import next_line, tune_log
from surefoot.algorithms import ALGORITHMS
from surefoot.cli import COMMANDS, app
from surefoot.cli.shipped_example import improved
from surefoot.core.plain_values import in_short
from surefoot.evidence import Standard
from surefoot.report.improvement_page import page_of_folder
from surefoot.research.paper.reproduction import RunOptions, reproduce, run_study
from surefoot.research.studies.results import Cell, Results

Run = Callable[..., tuple[int, str, str]]
# what a command alone has: where its output goes, and how much of it is shown
OUTPUT = {"json", "as_json", "report", "out", "explain", "no_report"}
# the question behind each command on a log, with the options that have another name in Python
QUESTIONS: dict[str, tuple[Callable[..., Any], dict[str, str]]] = {
    "check": (surefoot.check, {}),
    "improve": (surefoot.advise, {}),
    "compare": (surefoot.compare, {}),
    "tune": (tune_log, {"tried": "settings"}),
    "evaluate": (surefoot.evaluate_policy, {}),
    "certify": (certify_policy, {}),
    "plan": (surefoot.plan, {}),
    "safety-test": (surefoot.safety_test, {}),
    "watch": (surefoot.watch, {}),
}
ROLES = ("episode", "time", "reward")  # of discretize
# the others take files and folders, and nothing of a log
OTHERS: dict[str, Any] = {
    "demo": improved,
    "report": page_of_folder,
    "apply": surefoot.apply,
    "export": surefoot.export,
    "discretize": surefoot.discretize,
    "run": run_study,
    "reproduce": reproduce,
    "benchmark": surefoot.benchmark,
    "list": ALGORITHMS,
}


def options_of(command: str) -> dict[str, Any]:
    """{option: default} of a command, its refused ones left out."""
    from typer.main import get_command

    given = get_command(app).commands[command].params  # type: ignore[attr-defined]
    return {
        x.name: x.default
        for x in given
        if x.name not in OUTPUT | {"help", "log", "source"} and not _refused(command, x.name)
    }


def _refused(command: str, name: str) -> bool:
    from surefoot.cli.options import LogOptions

    (found,) = (x for _, key, x, _ in COMMANDS if key == command)
    hints = get_type_hints(found)
    kinds = [x for x in hints.values() if isinstance(x, type) and issubclass(x, LogOptions)]
    return any(name in kind.refused for kind in kinds)


def keywords_of(question: Callable[..., Any]) -> dict[str, Any]:
    """{keyword: default} of a question, those of a log among them."""
    found = {}
    for name, x in inspect.signature(question).parameters.items():
        if x.kind is x.VAR_KEYWORD:
            found |= dict.fromkeys(get_type_hints(Question), None)
        elif name != "source":
            found[name] = None if x.default is x.empty else x.default
    return found


def test_every_command_has_its_line_in_python() -> None:
    assert {name for _, name, _, _ in COMMANDS} == QUESTIONS.keys() | OTHERS.keys()
    assert all(x is not None for x in OTHERS.values())


@pytest.mark.parametrize("command", QUESTIONS)
def test_every_option_is_a_keyword_with_the_same_default(command: str) -> None:
    question, renamed = QUESTIONS[command]
    options, keywords = options_of(command), keywords_of(question)
    empty = (None, "", (), [], False, 0)
    for name, default in options.items():
        keyword = renamed.get(name, name)
        assert keyword in keywords, f"surefoot {command} --{name} has no keyword"
        expected = keywords[keyword]
        if default in empty or default != default:
            assert expected in empty, (command, name, default, expected)
        elif expected is not None:  # of those of a log, `read_log` has the defaults
            assert expected == default, (command, name, default, expected)


@pytest.mark.parametrize("command", QUESTIONS)
def test_every_keyword_is_an_option(command: str) -> None:
    question, renamed = QUESTIONS[command]
    options = {renamed.get(x, x) for x in options_of(command)}
    python_alone = {"progress", "shown", "problem", "policy", "state_file"}
    of_others = {"guard", "group", "dask", "group_tolerance"}  # of improve, or of safety-test
    for name in keywords_of(question):
        known = name in options or name in python_alone or name in of_others
        assert known or _refused(command, name), (command, name)


@pytest.fixture
def log(tmp_path: Path) -> tuple[Path, Path]:
    """A log of 300 episodes, and the rule that made it."""
    wards = ("ward-3", "ward-4")
    path = logfiles.visits(tmp_path / "log.csv", n=300, wards=wards)
    return Path(path), Path(logfiles.coin(tmp_path / "rule.csv", 0.5, wards=wards))


def asked(log: tuple[Path, Path]) -> tuple[list[str], dict[str, Any]]:
    """What is asked of it, in the words of both doors."""
    words = ["--gamma", "0.9", "--baseline", str(log[1]), "--reward-range", "0,1"]
    return words, {"gamma": 0.9, "baseline": log[1], "reward_range": (0, 1)}


def same(one: Any, other: Any) -> bool:
    """Whether two documents are the same, but for what the command has beside it."""
    beside = ("command", "versions", "files", "statements")
    one, other = ({k: x[k] for k in x if k not in beside} for x in (one, other))
    return bool(json.loads(json.dumps(one)) == json.loads(json.dumps(other)))


def test_python_answers_as_the_commands_do(
    log: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words, keywords = asked(log)

    def command(name: str, *more: str) -> Any:
        _, text, complaint = logfiles.run(
            monkeypatch, capsys, name, str(log[0]), *words, *more, "--json"
        )
        assert text, complaint
        return json.loads(text)

    out = tmp_path / "out"
    advice = surefoot.advise(str(log[0]), **keywords)
    assert same(advice.to_dict(), command("improve", "--out", str(out)))
    assert str(advice).startswith("verdict")
    written = advice.save(tmp_path / "python")
    again = surefoot.load_policy(written["policy.csv"])
    assert np.allclose(again.over(advice.policy.pi, advice.log.labels), advice.policy.pi)
    assert (out / "policy.csv").read_bytes() == written["policy.csv"].read_bytes()
    policy = str(log[1])
    for name, found in (
        ("check", surefoot.check(str(log[0]), **keywords)),
        ("compare", surefoot.compare(str(log[0]), ["basic-rl", "ramdp"], **keywords)),
        ("evaluate", surefoot.evaluate_policy(str(log[0]), policy, **keywords)),
        ("certify", surefoot.certify(str(log[0]), policy, **keywords)),
        ("safety-test", surefoot.safety_test(str(log[0]), policy, **keywords)),
        ("tune", surefoot.tune(str(log[0]), models=30, simulated=0, **keywords)),
    ):
        more = ["--policy", policy] if name in ("evaluate", "certify", "safety-test") else []
        more += ["--only", "basic-rl,ramdp"] if name == "compare" else []
        more += ["--models", "30", "--simulated", "0"] if name == "tune" else []
        assert same(found.to_dict(), command(name, *more)), name


def test_a_policy_may_be_an_object_wherever_a_file_may(log: tuple[Path, Path]) -> None:
    _, keywords = asked(log)
    read = surefoot.read_log(log[0])
    rule = surefoot.read_policy(log[1], read, unknown_states="ignore")
    by_file = surefoot.advise(log[0], **keywords)
    by_object = surefoot.advise(read, **{**keywords, "baseline": rule})
    assert by_object.gain is not None and by_file.gain is not None
    assert by_object.gain.evidence.low == by_file.gain.evidence.low
    values = surefoot.evaluate_policy(read, by_file.policy, **keywords).values
    assert (
        values["gain"]
        == surefoot.evaluate_policy(log[0], by_file.policy, **keywords).values["gain"]
    )


def test_an_answer_shows_itself_in_a_notebook(log: tuple[Path, Path]) -> None:
    _, keywords = asked(log)
    advice = surefoot.advise(log[0], **keywords)
    page = advice._repr_html_()
    assert page.startswith("<pre") and html.escape(str(advice)) in page
    assert f"{html.escape(advice.explain())}</pre></details>" in page
    assert len(advice.explain()) > len(str(advice))
    checked = surefoot.check(log[0])._repr_html_()
    assert checked.startswith("<pre") and "<details>" not in checked  # it has nothing more to say


@pytest.mark.parametrize("command", ["apply", "export"])
def test_the_options_of_a_policy_in_use_are_keywords_with_the_same_default(command: str) -> None:
    # `source`; Policy.probabilities, Controller.probabilities; `otherwise`
    alone = {"policy", "file", "state", "reading", "fallback"}
    keywords = inspect.signature(OTHERS[command]).parameters
    for name, default in options_of(command).items():
        if name not in alone:
            assert name in keywords, f"surefoot {command} --{name} has no keyword"
            assert keywords[name].default == default or not default
    of_command = options_of(command).keys() | {"policy", "source", "out", "progress"}
    assert keywords.keys() <= of_command


STUDIES = {"run": surefoot.study, "benchmark": surefoot.benchmark, "reproduce": RunOptions}


@pytest.mark.parametrize("command", [*STUDIES, "discretize"])
def test_the_options_of_studies_and_of_discretize_are_keywords_with_the_same_default(
    command: str,
) -> None:
    keywords = inspect.signature(STUDIES.get(command) or OTHERS[command]).parameters
    renamed = {"apply": "encoder", "encoder": "save", **dict.fromkeys(ROLES, "roles")}
    for name, default in options_of(command).items():
        if name in ("file", "target"):
            continue  # the study itself
        keyword = name if command in STUDIES else renamed.get(name, name)
        assert keyword in keywords, f"surefoot {command} --{name} has no keyword"
        assert keywords[keyword].default == default or not default


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow", ""])
def test_a_frame_is_decided_as_the_command_decides_its_file(
    library: str,
    log: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = log[0].parent / "decided.csv"
    words = ("apply", str(log[1]), "--file", str(log[0]), "--out", str(out), "--sample", "--seed")
    code, _, complaint = logfiles.run(monkeypatch, capsys, *words, "3")
    assert code == 0, complaint
    with open(out, newline="") as file:
        lines = list(csv.DictReader(file))
    with open(log[0], newline="") as file:
        given: Any = list(csv.DictReader(file))
    given = {name: [x[name] for x in given] for name in given[0]}
    if library:
        module = pytest.importorskip(library)
        given = (module.table if library == "pyarrow" else module.DataFrame)(given)
    done = surefoot.apply(log[1], given, sample=True, seed=3)
    assert type(done.table) is type(given) and done.decided == len(lines)
    decided = done.table["decision"]
    decided = decided.to_pylist() if library == "pyarrow" else list(decided)
    assert decided == [x["decision"] for x in lines]
    by_file = surefoot.apply(log[1], log[0], sample=True, seed=3)
    assert by_file == done and list(by_file.table["decision"]) == decided


def test_what_is_exported_is_what_the_command_exports(
    log: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for kind in ("sql", "json"):
        ours, theirs = (log[0].parent / f"{x}.{kind}" for x in ("ours", "theirs"))
        surefoot.export(log[1], ours, otherwise="new")
        words = ("export", str(log[1]), "--out", str(theirs), "--otherwise", "new")
        code, _, complaint = logfiles.run(monkeypatch, capsys, *words)
        assert code == 0, complaint
        assert ours.read_bytes() == theirs.read_bytes()
    assert surefoot.load_controller(ours).decide("lost") == "new"
    with pytest.raises(surefoot.ParameterError, match="must end in"):
        surefoot.export(log[1], "policy.xml")


HOSTILE = "<script>alert('x')</script>"


@pytest.fixture
def hostile() -> surefoot.Log:
    """A log whose labels would be HTML."""
    n = 200
    rng = np.random.default_rng(0)
    return surefoot.read_log(
        {
            "state": np.where(np.arange(n) % 2, HOSTILE, "b&b"),
            "action": np.where(rng.integers(0, 2, n), "<b>go</b>", "stay"),
            "reward": rng.normal(size=n),
        },
        bandit=True,
    )


def test_what_shows_itself_in_a_notebook_escapes_labels_and_needs_nothing_from_elsewhere(
    hostile: surefoot.Log,
) -> None:
    advice = surefoot.advise(hostile, reward_range=(-9, 9))
    problem = advice.problem
    solution = surefoot.improve(problem)
    cell = Cell(HOSTILE, 1, "<i>", "x=1")
    results = Results((cell,), *(np.ones((1, 3)),) * 3)
    for x in (hostile, problem, problem.counts, solution, solution.policy, advice, results):
        page = x._repr_html_()
        for wrong in ("<script", "<b>go", "<i>", "b&b", "http", "color", "src="):
            assert wrong not in page, (type(x).__name__, wrong)
        assert page.count("<td") == page.count("</td>")
    for x in (solution, solution.policy, results):
        assert html.escape(HOSTILE) in x._repr_html_()
    noted = replace(problem, notes=(HOSTILE,))
    assert HOSTILE in repr(noted) and f"<li>{html.escape(HOSTILE)}</li>" in noted._repr_html_()


def test_text_page_and_dict_of_a_thing_say_the_same_facts(hostile: surefoot.Log) -> None:
    problem = hostile.problem(0.0, reward_range=(-9, 9))
    found = problem.to_dict()
    assert (found["states"], found["actions"], found["gamma"]) == (3, 2, 0.0)
    assert found["return_range"] == [-9.0, 9.0] and found["baseline"] == "estimated"
    for x in (hostile, problem, problem.counts, surefoot.improve(problem)):
        facts = x._facts()
        for name, value in facts.items():
            if name != "notes":
                said = f"{name.replace('_', ' ')} {in_short(value)}"
                assert said in repr(x), said
                assert f"{html.escape(in_short(value))}</td>" in x._repr_html_()
        assert all(f"note: {note}" in repr(x) for note in facts.get("notes", ()))
        assert x.to_dict().keys() == facts.keys()
    row = surefoot.advise(hostile, reward_range=(-9, 9)).evidence[0]
    assert f"{row.low:.4g}</td>" in row._repr_html_() and row.to_dict()["delta"] == row.delta
    assert "low" not in replace(row, low=math.nan, trouble="none").to_dict()


def test_a_policy_shows_what_differs_from_the_baseline_first_and_says_what_it_leaves_out() -> None:
    baseline = np.full((50, 2), 0.5)
    pi = baseline.copy()
    pi[[40, 45]] = (0.6, 0.4), (0.9, 0.1)
    labels = surefoot.Labels(tuple(f"s{i}" for i in range(50)), ("a", "b"))
    policy = surefoot.Policy(pi=pi, labels=labels, baseline=baseline)
    page = policy._repr_html_()
    places = [page.index(f">{x}<") for x in ("s45", "s40", "s0", "s17")]
    assert places == sorted(places) and ">s18<" not in page
    assert "<p>30 more rows</p>" in page and "a 0.9, b 0.1" in page
    assert policy.to_dict()["s45"] == {"a": 0.9, "b": 0.1}
    again = surefoot.Controller(policy=policy.to_dict()).policy
    assert np.array_equal(again.over(policy), pi)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({}, "--gamma"),
        ({"gamma": 0.9, "bandit": True}, "--bandit"),
        ({"gamma": 0.9, "baseline_policy": "a"}, "--policy-column"),
        ({"gamma": 0.9, "algorithm": surefoot.BasicRL(), "settings": {"x": 1}}, "settings"),
        ({"gamma": 0.9, "basline": "x"}, "no keyword 'basline'.*baseline"),
        ({"gamma": 0.9, "guard": {"cost": "lower"}}, "a list is expected"),
    ],
)
def test_wrong_questions_are_refused_in_words(
    wrong: dict[str, Any], words: str, log: tuple[Path, Path]
) -> None:
    with pytest.raises(surefoot.SurefootError, match=words):
        surefoot.advise(log[0], **wrong)


def test_a_log_that_is_read_already_is_not_read_in_another_way(log: tuple[Path, Path]) -> None:
    read = surefoot.read_log(log[0])
    with pytest.raises(surefoot.ParameterError, match="a Log is read already"):
        surefoot.advise(read, gamma=0.9, decimal=",")
    with pytest.raises(surefoot.ParameterError, match="the problem is posed already"):
        surefoot.advise(read, read.problem(0.9), gamma=0.9)


def test_what_a_function_does_not_say_is_not_taken_for_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest weight must be known before the episodes are: not from a policy that says nothing
    of the states that this log never visited.
    """
    log = logfiles.visits(tmp_path / "log.csv", n=400, wards=("ward-3",))
    rule = {"ward-3": {"a": 0.5, "b": 0.5}}
    read = surefoot.read_log(log)
    rule = {s: {a: 1 / len(read.actions) for a in read.actions} for s in read.states}
    new = {s: dict(zip(read.actions, (0.9, 0.1), strict=True)) for s in read.states}
    how: dict[str, Any] = {"gamma": 0.9, "reward_range": (0, 1)}

    asked_for: list[Standard] = []
    test = whole_episodes.guarded_safety_test

    def noted(*given: Any, **more: Any) -> Any:
        asked_for.append(given[3])
        return test(*given, **more)

    monkeypatch.setattr(whole_episodes, "guarded_safety_test", noted)

    def ratio(policy: Any, baseline: Any) -> float | None:
        surefoot.safety_test(log, policy, baseline=baseline, **how)
        return asked_for[-1].largest_ratio

    assert ratio(new, rule) == pytest.approx(1.8, rel=0.01)
    assert ratio(new.get, rule.get) is None
    assert ratio(new, rule.get) is None and ratio(new.get, rule) is None


def test_what_a_question_does_not_heed_is_refused(log: tuple[Path, Path]) -> None:
    _, keywords = asked(log)
    read = surefoot.read_log(log[0])
    policy = str(log[1])
    for question in (
        lambda **how: surefoot.evaluate_policy(log[0], policy, **how),
        lambda **how: surefoot.certify(log[0], policy, **how),
        lambda **how: surefoot.compare(log[0], **how),
        lambda **how: surefoot.tune(log[0], **how),
    ):
        for more in ({"guard": ["reward:higher"]}, {"group": "state"}, {"dask": "tcp://x:1"}):
            with pytest.raises(surefoot.ParameterError, match="is not heeded here"):
                question(**keywords, **more)
    with pytest.raises(surefoot.ParameterError, match="a Log is read already"):
        surefoot.advise(read, dask="tcp://x:1", **keywords)
    other = surefoot.read_log(logfiles.visits(log[0].parent / "other.csv", n=50, seed=3))
    with pytest.raises(surefoot.ParameterError, match="not posed by this log"):
        surefoot.advise(read, other.problem(0.9))
    with pytest.raises(surefoot.LogError, match="nofile"):
        surefoot.check(log[0], allowed="nofile.csv", gamma=0.9)


def test_the_next_command_says_all_that_was_asked_to_the_last_digit() -> None:
    """A default may stand against what the file says that describes the log."""
    asked = {"gamma": 0.9999999, "history": 0, "episode_end": "cut", "reward_range": (0, 1234564.0)}
    line = next_line("log.toml", asked, ["--algorithm", "basic-rl"])
    assert line == (
        "surefoot improve log.toml --episode-end cut --history 0 --gamma 0.9999999"
        " --reward-range 0,1234564.0 --algorithm basic-rl"
    )
    assert "--history" not in next_line("log.csv", asked, [])


def test_what_is_described_of_one_reward_is_not_said_of_another(tmp_path: Path) -> None:
    rows = [(f"e{i}", "s", "ab"[i % 2], i % 2, 10 * (i % 2), 1) for i in range(60)]
    header = ("episode", "state", "action", "cost", "profit", "terminal")
    log = logfiles.write(tmp_path / "log.csv", header, rows)
    path = tmp_path / "log.toml"
    surefoot.check(log, save=path, reward="cost:lower", reward_range=(0, 1), gamma=0.5)
    same_column = surefoot.advise(path, reward="cost")
    assert same_column.log.reward.direction == "lower"
    assert same_column.problem.return_range.declared
    other = surefoot.advise(path, reward="profit")
    assert not other.problem.return_range.declared


def test_one_string_is_a_list_of_one(log: tuple[Path, Path]) -> None:
    _, keywords = asked(log)
    (row,) = surefoot.compare(log[0], "basic-rl", **keywords).rows
    assert row["algorithm"] == "basic-rl"
    assert surefoot.advise(log[0], despite="drift", **keywords).despite == ("drift",)


def test_a_frame_stands_before_the_file_that_a_description_names(
    log: tuple[Path, Path], tmp_path: Path
) -> None:
    pandas = pytest.importorskip("pandas")
    _, keywords = asked(log)
    path = tmp_path / "log.toml"
    surefoot.check(log[0], save=path, **keywords)
    by_file, by_frame = (
        surefoot.advise(path, **more) for more in ({}, {"baseline": pandas.read_csv(log[1])})
    )
    assert by_frame.reason == by_file.reason
