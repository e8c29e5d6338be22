"""A watch of a growing log: every finished episode counts once, in the order of arrival."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot.advice.watching import Watch, arrivals

Run = Any
Row = tuple[Any, ...]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: logfiles.run(monkeypatch, capsys, *arguments)


def visits(n: int, better: float = 0.4, seed: int = 0) -> list[Row]:
    """Visits of one decision, the first of the same ones for every n."""
    rng = np.random.default_rng(seed)
    u = rng.random((n, 3))
    return [
        (
            f"v{i}",
            0,
            "ab"[int(a > 0.5)],
            "new" if b < 0.5 else "old",
            int(c < 0.3 + better * (b < 0.5)),
            1,
        )
        for i, (a, b, c) in enumerate(u)
    ]


def given(folder: Path, new: float = 0.9, **more: Any) -> tuple[Any, ...]:
    options = {"gamma": 0.9, "reward-range": "0,1", "horizon": 1} | more
    files = {
        "policy": logfiles.coin(folder / "pi.csv", new),
        "baseline": logfiles.coin(folder / "rule.csv", 0.5),
        "state-file": folder / "capital.json",
    }
    return tuple(x for k, v in (files | options).items() if v is not None for x in (f"--{k}", v))


def look(run: Run, folder: Path, rows: list[Row], *more: Any, **changes: Any) -> tuple[int, Any]:
    """(exit code, the document) of a look at a log of these rows."""
    log = logfiles.write(folder / "log.csv", logfiles.VISIT, rows)
    code, text, said = run("watch", log, *given(folder, **changes), *more, "--json")
    return code, json.loads(text) if text else said


def stamped(rows: list[Row]) -> list[Row]:
    """The same with times that say which visit came first."""
    return [(row[0], 1_700_000_000 + 60 * i, *row[2:]) for i, row in enumerate(rows)]


def test_a_log_that_grows_is_counted_as_if_it_had_come_at_once(tmp_path: Path, run: Run) -> None:
    rows, (one, many) = stamped(visits(160, 0.1)), (tmp_path / "one", tmp_path / "many")
    for folder in (one, many):
        folder.mkdir()
    for n in (1, 2, 30, 30, 100, 160):
        code, found = look(run, many, rows[:n])
        assert (code, found["verdict"], found["episodes_counted"]) == (3, "no evidence", n)
    assert (found["episodes_new"], found["looks"]) == (60, 6)
    _, whole = look(run, one, rows)
    for key in ("gain", "loss", "estimated_gain", "episodes_counted"):
        assert whole[key] == pytest.approx(found[key]), key


def test_the_order_of_a_file_says_nothing(tmp_path: Path, run: Run) -> None:
    """Nothing matters, and success is frequent. Sorted by action, a capital that bets in the order
    of the file would win on the first half of nearly every batch.
    """
    for k, times in enumerate((lambda rows: rows, stamped)):
        said = 0
        for seed in range(8):
            folder = tmp_path / f"{k}{seed}"
            folder.mkdir()
            rng, rows = np.random.default_rng(seed), []
            for look_number in range(3):
                some = [
                    (f"v{look_number}-{i}", 0, "a", a, int(rng.random() < 0.9), 1)
                    for i, a in enumerate(rng.choice(["new", "old"], 100))
                ]
                rows += sorted(times(some), key=lambda row: row[3])
                code, found = look(run, folder, rows, new=1.0)
            said += code != 3
            assert found["order"].startswith("in the order of their times") == (times is stamped)
        assert said <= 1


def test_better_is_0_worse_is_4_and_what_was_shown_stays(tmp_path: Path, run: Run) -> None:
    for new, code, side in ((0.9, 0, "gain"), (0.1, 4, "loss")):
        folder = tmp_path / side
        folder.mkdir()
        rows = visits(400)
        found_code, found = look(run, folder, rows, new=new)
        assert found_code == code
        at = found[side]["reached_at_episode"]
        assert 10 < at <= 400
        assert found[side]["highest"] >= found["capital_needed"] == 40
        against = ("old", "new")  # what succeeds now, whatever the log showed, and what does not
        poor = [(f"w{i}", 0, "a", against[i % 2], 1 - i % 2, 1) for i in range(100)]
        found_code, found = look(run, folder, [*rows, *poor], new=new)
        assert (found_code, found[side]["reached_at_episode"]) == (code, at)
        assert found[side]["capital"] < found[side]["highest"]


def test_a_world_that_turns_is_worse_and_says_so(tmp_path: Path, run: Run) -> None:
    rows = visits(400)
    worse = [
        (f"w{i}", 0, s, a, 1 - r, e) for i, (_, _, s, a, r, e) in enumerate(visits(3000, 0.6, 1))
    ]
    assert look(run, tmp_path, rows)[0] == 0
    code, found = look(run, tmp_path, rows + worse)
    assert (code, found["verdict"]) == (4, "fails")
    assert any("both were shown: better at episode" in x for x in found["notes"])


def test_an_unfinished_episode_and_those_after_it_wait(tmp_path: Path, run: Run) -> None:
    """b began before c and has not ended: c waits too, though it is over."""
    rows = [
        ("a", 0, "a", "new", 1, 0), ("b", 0, "a", "old", 0, 0), ("a", 1, "b", "new", 1, 1),
        ("c", 0, "a", "new", 1, 1),
    ]  # fmt: skip
    _, found = look(run, tmp_path, rows, horizon=3)
    assert (found["episodes_counted"], found["episodes_waiting"]) == (1, 2)  # b leads nowhere yet
    rows += [("b", 1, "b", "old", 1, 0)]
    _, found = look(run, tmp_path, rows, horizon=3)
    assert (found["episodes_counted"], found["episodes_waiting"]) == (1, 2)
    rows += [("b", 2, "b", "old", 1, 1)]
    _, found = look(run, tmp_path, rows, horizon=3)
    assert (found["episodes_counted"], found["episodes_new"], found["episodes_waiting"]) == (
        3,
        2,
        0,
    )


def test_one_episode_after_the_other_needs_no_flags_but_the_last_waits(
    tmp_path: Path, run: Run
) -> None:
    rows = [
        (f"e{i}", t, "a", ("new", "old")[(i + t) % 2], 1, 0) for i in range(4) for t in range(3)
    ]
    _, found = look(run, tmp_path, rows, "--episode-end", "terminal", horizon=9)
    assert (found["episodes_counted"], found["episodes_waiting"]) == (3, 1)
    more = [*rows, ("e3", 3, "a", "new", 0, 0), ("e4", 0, "a", "new", 1, 0)]
    _, found = look(run, tmp_path, more, "--episode-end", "terminal", horizon=9)
    assert (found["episodes_counted"], found["episodes_waiting"]) == (4, 1)


def test_episodes_side_by_side_without_an_end_are_refused(tmp_path: Path, run: Run) -> None:
    rows = [
        (f"e{i}", t, "a", ("new", "old")[(i + t) % 2], 1, 0) for t in range(3) for i in range(4)
    ]
    code, said = look(run, tmp_path, rows, horizon=9)
    assert (code, "nothing says which of them are finished" in str(said)) == (2, True)
    assert not (tmp_path / "capital.json").exists()
    whole = ("--episode-end", "terminal")
    code, found = look(run, tmp_path, rows, *whole, horizon=3)
    assert (code, found["episodes_counted"]) == (3, 4)  # three steps, then there are no more


def test_flags_finish_episodes_side_by_side_where_last_rows_count(tmp_path: Path, run: Run) -> None:
    rows = [
        (f"e{i}", t, "a", ("new", "old")[(i + t) % 2], 1, int(t == 2 and i < 3))
        for t in range(3)
        for i in range(4)
    ]
    _, found = look(run, tmp_path, rows, "--episode-end", "terminal", horizon=9)
    assert (found["episodes_counted"], found["episodes_waiting"]) == (3, 1)


def test_a_watch_does_without_last_rows_of_no_finished_episode(tmp_path: Path, run: Run) -> None:
    """Without next_state they would be left out, of some or, at a time limit, of all: which ones
    may change as the log grows.
    """
    ended = [(f"e{i}", t, "a", "new", 1, int(t == 1)) for i in range(5) for t in range(2)]
    cut = [(f"c{i}", t, "a", "old", 1, 0) for i in range(5) for t in range(3)]
    code, found = look(run, tmp_path, ended, horizon=9)
    assert (code, found["episodes_counted"]) == (3, 5)
    running = [*ended, ("r", 0, "a", "new", 1, 0), ("r", 1, "a", "new", 1, 0)]
    code, found = look(run, tmp_path, running, horizon=9)
    assert (code, found["episodes_counted"], found["episodes_waiting"]) == (3, 5, 1)
    code, said = look(run, tmp_path, [*ended, *cut, *running[-2:]], horizon=9)
    assert code == 2
    assert "the last rows of 5 finished episodes are left out" in str(said)
    (tmp_path / "capital.json").unlink()
    for rows in (ended, [*ended, *cut, *running[-2:]]):
        code, found = look(run, tmp_path, rows, "--episode-end", "terminal", horizon=9)
    assert (code, found["episodes_counted"], found["episodes_waiting"]) == (3, 10, 1)


def test_episodes_come_in_the_order_of_their_first_rows_whatever_they_are_called() -> None:
    names = ["z", "z", "m", "a", "m", "a", "q", "q"]
    log = surefoot.read_log(
        {"episode": names, "time": [0, 1, 0, 0, 1, 1, 0, 1], "state": ["s"] * 8,
         "action": ["x"] * 8, "reward": [0.0] * 8, "terminal": [0, 1, 0, 0, 0, 1, 0, 0]},
    )  # fmt: skip
    batch = log.batch()
    came = arrivals(log, batch)
    assert came.interleaved
    first = [names[int(r)] for r in np.array([0, 2, 3, 6])]
    assert first == ["z", "m", "a", "q"]
    rewards = {name: i for i, name in enumerate(sorted(set(names)))}
    assert [int(x) for x in came.order] == [rewards[x] for x in first]
    assert [bool(came.over[rewards[x]]) for x in first] == [True, False, True, False]


def test_a_counted_episode_that_changes_is_refused_and_the_state_stays(
    tmp_path: Path, run: Run
) -> None:
    rows = visits(50)
    look(run, tmp_path, rows)
    before = (tmp_path / "capital.json").read_text()
    rows[7] = (*rows[7][:4], 1 - rows[7][4], 1)
    code, said = look(run, tmp_path, rows)
    assert (code, "1 episodes that were counted have other rows now" in str(said)) == (2, True)
    assert (tmp_path / "capital.json").read_text() == before
    code, found = look(run, tmp_path, visits(60)[40:])  # the old rows may be gone
    assert (code, found["episodes_counted"]) == (3, 60)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gamma": 0.8}, "begun with another gamma (0.9, now 0.8)"),
        ({"delta": 0.1}, "begun with another delta"),
        ({"reward-range": "0,2"}, "begun with another reward range ('0,1', now '0,2')"),
        ({"new": 0.8}, "begun with another policy file"),
        ({"state": "state"}, "begun with another state"),
    ],
)
def test_a_watch_that_was_begun_otherwise_is_refused(
    tmp_path: Path, run: Run, changes: dict[str, Any], words: str
) -> None:
    rows = visits(20)
    assert look(run, tmp_path, rows)[0] == 3
    before = (tmp_path / "capital.json").read_text()
    code, said = look(run, tmp_path, rows, **changes)
    assert (code, words in str(said)) == (2, True), said
    assert "--state-file" in str(said)
    assert (tmp_path / "capital.json").read_text() == before


def test_a_baseline_file_that_changes_is_refused(tmp_path: Path, run: Run) -> None:
    look(run, tmp_path, visits(20))
    words = given(tmp_path)
    logfiles.write(tmp_path / "rule.csv", ("state", "action", "probability"), [("a", "new", 1.0)])
    code, _, said = run("watch", tmp_path / "log.csv", *words)
    assert (code, "another baseline file" in said) == (2, True)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": "surefoot/watch-state/9"}', None])
def test_a_damaged_state_is_refused_in_words(tmp_path: Path, run: Run, text: str | None) -> None:
    look(run, tmp_path, visits(20))
    path = tmp_path / "capital.json"
    path.write_text(path.read_text()[:-200] if text is None else text)
    before = path.read_text()
    code, said = look(run, tmp_path, visits(30))
    assert (code, "capital.json" in str(said), "--state-file" in str(said)) == (2, True, True)
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reward-range": None}, "declare all possible rewards (--reward-range)"),
        ({"reward-range": "0.5,1"}, "does not hold"),
        ({"start": "a"}, "surefoot watch has no --start: whole episodes"),
        ({"discount-per": "day"}, "surefoot watch has no --discount-per: it starts"),
        ({"baseline": None}, "none was given (--baseline)"),
        ({"policy": "nowhere.csv"}, "nowhere.csv cannot be read"),
        ({"delta": 0.9}, "failure probability"),
        ({"estimator": "dr"}, "doubly robust values have no floor"),
    ],
)
def test_what_no_watch_can_do_is_refused_and_no_state_is_begun(
    tmp_path: Path, run: Run, changes: dict[str, Any], words: str
) -> None:
    code, said = look(run, tmp_path, visits(20), **changes)
    assert (code, words in str(said)) == (2, True), said
    assert not (tmp_path / "capital.json").exists()


def test_episodes_that_the_policy_was_made_from_do_not_count(tmp_path: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    rows = [
        (f"e{i}", t, f"s{rng.integers(4)}", ("keep", "try")[rng.integers(2)], round(rng.random(), 6), int(t == 2))
        for i in range(120) for t in range(3)
    ]  # fmt: skip
    log = logfiles.write(tmp_path / "old.csv", logfiles.VISIT, rows[:180])
    coin = [(f"s{s}", a, 0.5) for s in range(4) for a in ("keep", "try")]
    rule = logfiles.write(tmp_path / "r.csv", ("state", "action", "probability"), coin)
    out = tmp_path / "out"
    run("improve", log, "--gamma", 0.9, "--baseline", rule, "--out", out, "--accept")
    both = logfiles.write(tmp_path / "both.csv", logfiles.VISIT, rows)
    words = ("--policy", out / "policy.csv", "--baseline", rule, "--gamma", 0.9, "--horizon", 3)
    words = (*words, "--reward-range", "0,1", "--state-file", tmp_path / "c.json", "--json")
    found = json.loads(run("watch", both, *words)[1])
    assert (found["episodes_counted"], found["episodes_left_out"]) == (60, 60)
    assert found["training_checked"]
    found = json.loads(run("watch", both, *words)[1])
    assert (found["episodes_counted"], found["episodes_left_out"]) == (60, 0)  # settled
    code, _, said = run("watch", log, *words[:-2], tmp_path / "d.json")
    assert (code, "was made from" in said) == (2, True), said


def test_a_log_with_propensities_is_refused_unless_they_are_left_out(
    tmp_path: Path, run: Run
) -> None:
    rows = [(*row, 0.5) for row in visits(60)]
    log = logfiles.write(tmp_path / "log.csv", (*logfiles.VISIT, "propensity"), rows)
    code, _, said = run("watch", log, *given(tmp_path))
    assert (code, "has propensities" in said, "--propensity -" in said) == (2, True, True), said
    assert not (tmp_path / "capital.json").exists()
    code, text, _ = run("watch", log, *given(tmp_path), "--propensity", "-", "--json")
    assert (code, json.loads(text)["episodes_counted"]) == (3, 60)


def test_two_watches_at_once_do_not_lose_a_look(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from surefoot.advice import whole_episodes

    look(run, tmp_path, visits(20))
    real = whole_episodes.look

    def slow(watch: Any, *rest: Any) -> Any:
        path = tmp_path / "capital.json"
        content = json.loads(path.read_text())
        path.write_text(json.dumps(content | {"looks": content["looks"] + 1}))
        return real(watch, *rest)

    monkeypatch.setattr(whole_episodes, "look", slow)
    code, said = look(run, tmp_path, visits(30))
    assert (code, "written by another watch meanwhile" in str(said)) == (2, True)


def test_a_watch_refuses_while_another_is_counting(tmp_path: Path, run: Run) -> None:
    """As two jobs of a clock that overlap: both would count, and the later save would win."""
    from surefoot.advice import watching

    look(run, tmp_path, visits(20))
    with watching.alone(tmp_path / "capital.json"):
        code, said = look(run, tmp_path, visits(30))
    assert (code, "another watch is counting" in str(said)) == (2, True)
    code, found = look(run, tmp_path, visits(30))
    assert (code, found["episodes_new"], found["looks"]) == (3, 10, 2)


def test_two_watches_that_save_in_the_same_moment_do_not_lose_a_look(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(run, tmp_path, visits(20))
    log = logfiles.write(tmp_path / "log.csv", logfiles.VISIT, visits(30))
    command = [sys.executable, "-m", "surefoot.cli", "watch", log, *given(tmp_path), "--json"]
    real = Watch.save

    def overtaken(watch: Watch, path: str | Path) -> Path:
        other = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
        codes.append(other.returncode)
        return real(watch, path)

    codes: list[int] = []
    monkeypatch.setattr(Watch, "save", overtaken)
    code, found = look(run, tmp_path, visits(30))
    assert codes == [2]
    assert (code, found["looks"]) == (3, 2)


def test_people_are_told_the_verdict_first(tmp_path: Path, run: Run) -> None:
    log = logfiles.write(tmp_path / "log.csv", logfiles.VISIT, visits(10))
    code, text, _ = run("watch", log, *given(tmp_path))
    assert code == 3
    assert text.startswith("verdict   NOT YET: neither better nor worse")
    assert f"state     {tmp_path / 'capital.json'}" in text
    text = logfiles.one_line(text)
    assert "40 is needed. Wrong with probability 0.05 over all looks together" in text
    assert "counted 10 new episodes, 10 in all, in 1 look; in an order drawn by lots" in text


def test_bad_rows_are_named_to_a_watch_as_to_other_commands(tmp_path: Path, run: Run) -> None:
    """It reads the log with the actions of the policy files: both are looked at together."""
    rows = visits(20)
    rows[3] = (*rows[3][:4], "", 1)
    code, said = look(run, tmp_path, rows)
    assert code == 2
    assert "1 rows whose reward is not a finite number" in str(said)
    code, found = look(run, tmp_path, rows, "--drop-bad-rows", "reward")
    assert (code, found["episodes_counted"]) == (3, 19)


def test_the_estimated_gain_is_that_of_the_safety_test_whatever_the_range(
    tmp_path: Path, run: Run
) -> None:
    """It was the mean of what the bet on a gain counts, which a floor and a range move: of a reward
    of which less is better its sign could be wrong.
    """
    log = logfiles.write(tmp_path / "log.csv", logfiles.VISIT, visits(200))
    found = []
    for i, limits in enumerate(((0, 1), (-5, 20))):
        asked: dict[str, Any] = {
            "gamma": 0.9, "baseline": tmp_path / "rule.csv", "reward_range": limits,
        }  # fmt: skip
        given(tmp_path)
        policy = tmp_path / "pi.csv"
        state = tmp_path / f"capital-{i}.json"
        found.append(surefoot.watch(log, policy, state, **asked).document["estimated_gain"])
        tested = surefoot.safety_test(log, policy, **asked).document["estimated_gain"]
        assert found[-1] == pytest.approx(tested, abs=1e-12)
    assert found[0] == pytest.approx(found[1], abs=1e-12)


def test_a_watch_without_a_baseline_says_what_to_do_instead(tmp_path: Path, run: Run) -> None:
    words = [x for x in given(tmp_path) if x not in ("--baseline", tmp_path / "rule.csv")]
    log = logfiles.write(tmp_path / "log.csv", logfiles.VISIT, visits(50, 0.3))
    code, _, said = run("watch", log, *words)
    assert code == 2 and not (tmp_path / "capital.json").exists()
    for way in ("--baseline", "--policy-column", "safety-test --estimated-baseline"):
        assert way in said
