"""A roll-out that is watched: two arms, their difference, and what is said of it at every look."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot.advice.rollout import Arms, differences_of
from surefoot.core.errors import LogError
from surefoot.evidence.arms import centred, directions
from surefoot.statistics.bounds import SHARES
from surefoot.statistics.sequences import Values, against_shares

Run = Any
HEADER = ("episode", "time", "state", "action", "reward", "terminal", "arm")
BEGIN = 1_767_250_800  # 1 January 2026


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: logfiles.run(monkeypatch, capsys, *arguments)


def visits(n: int, better: float = 0.3, seed: int = 0, share: float = 0.5) -> list[Any]:
    """Visits of one decision, an hour apart; "new" mostly tries, "old" mostly keeps, and to try
    succeeds more often.
    """
    rng, rows = np.random.default_rng(seed), []
    for i in range(n):
        new = rng.random() < share
        tries = rng.random() < (0.9 if new else 0.2)
        won = int(rng.random() < 0.3 + better * tries)
        when, arm = BEGIN + 3600 * i, "new" if new else "old"
        rows.append((f"v{i}", when, "a", "try" if tries else "keep", won, 1, arm))
    return rows


WORDS = ("--gamma", 0.9, "--reward-range", "0,1", "--horizon", 1, "--policy-column", "arm")


def look(run: Run, folder: Path, rows: Any, *more: Any, state: str = "r.json") -> tuple[int, Any]:
    """(exit code, the document) of a look at a log of these rows."""
    log = logfiles.write(folder / "log.csv", HEADER, rows)
    code, text, said = run("watch", log, *WORDS, "--state-file", folder / state, *more, "--json")
    if text:
        logfiles.validated(text)
    return code, json.loads(text) if text else said


def policies(folder: Path) -> tuple[Any, ...]:
    found = []
    for flag, p in (("--policy", 0.9), ("--baseline", 0.2)):
        rows = [("a", "try", p), ("a", "keep", 1 - p)]
        path = logfiles.write(folder / f"{flag[2:]}.csv", ("state", "action", "probability"), rows)
        found += [flag, path]
    return tuple(found)


# values


def every_episode(share: float, new: float, old: float) -> Any:
    """(probability, arm, log-odds, action) of all that can happen in two decisions."""
    for arm, actions in itertools.product((True, False), itertools.product((0, 1), repeat=2)):
        p, odds = share if arm else 1 - share, math.log(share / (1 - share))
        for a in actions:
            p *= (new if arm else old) if a else 1 - (new if arm else old)
            odds += math.log(new / old if a else (1 - new) / (1 - old))
        yield p, arm, odds, actions


@pytest.mark.parametrize("share", [0.5, 0.2])
@pytest.mark.parametrize("c", [0.0, 0.3, 1.0])
def test_values_of_both_kinds_have_the_difference_as_their_mean(share: float, c: float) -> None:
    worth = {a: 0.1 + 0.2 * a[0] + 0.5 * a[1] for a in itertools.product((0, 1), repeat=2)}
    cases = list(every_episode(share, 0.7, 0.4))
    truth = sum((p / share if arm else -p / (1 - share)) * worth[a] for p, arm, _, a in cases)
    assert truth == pytest.approx(0.3 * 0.7)
    plain, known = (
        directions(np.array([x(arm, odds) for _, arm, odds, _ in cases]), share)
        for x in (lambda arm, _: math.inf if arm else -math.inf, lambda _, odds: odds)
    )
    p, g = np.array([x[0] for x in cases]), np.array([worth[x[3]] for x in cases])
    for u in (plain, known):
        assert p @ (u * (g - c)) == pytest.approx(truth)
        assert (u >= -1 / (1 - share) - 1e-12).all() and (u <= 1 / share + 1e-12).all()
    assert p @ (known * (g - c)) ** 2 < 0.5 * (p @ (plain * (g - c)) ** 2)


def test_arms_that_do_the_same_differ_by_nothing_at_all() -> None:
    rng = np.random.default_rng(0)
    n = 50
    rows = np.column_stack([np.arange(n), rng.random(n) < 0.5, np.zeros(n), rng.random(n)])
    some = np.zeros((1, 1))
    (found,) = differences_of(rows, [(0.0, 1.0)], Arms(policies=(some, some)))
    assert not found.x.any()


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_no_value_leaves_the_bounds_that_were_known_before_it(share: float) -> None:
    rng = np.random.default_rng(1)
    g = rng.choice([-2.0, 3.0], 400, p=[0.9, 0.1])
    u = directions(np.where(rng.random(400) < share, np.inf, -np.inf), share)
    found = centred(u, g, (-2.0, 3.0), share)
    assert (found.x >= found.floor - 1e-9).all() and (found.x <= found.ceiling + 1e-9).all()
    assert (found.x <= found.floor + 1e-9).any()  # no floor is deeper than it must be
    again = centred(u, np.append(g[:-1], -g[-1] + 1.0), (-2.0, 3.0), share)
    assert (again.floor == found.floor).all() and (again.x[:-1] == found.x[:-1]).all()


# the sequence


def test_a_bound_is_the_last_mean_that_the_naive_capital_refutes() -> None:
    rng = np.random.default_rng(2)
    x, floor = rng.choice([-1.0, 1.0], 300, p=[0.3, 0.7]), rng.uniform(-3, -1, 300)
    values = Values(x, floor, -1.0)

    def highest(m: float) -> float:
        has, most = np.ones(len(SHARES)), 0.0
        for value, lowest in zip(x, floor, strict=True):
            has = has * (1 + SHARES * (value - m) / (m - lowest))
            most = max(most, has.mean())
        return most

    low = values.at_least(0.025)
    assert 0 < low < 0.4
    assert highest(low - 1e-6) >= 40 > highest(low + 1e-6)
    curve = values.curve(0.025, np.array([10, 150, 300]))
    assert (np.diff(curve) >= 0).all() and curve[-1] == low
    half = Values(x[:150], floor[:150], -1.0).at_least(0.025)
    assert half - 0.05 * (half + 1) <= curve[1] <= half


def test_what_is_foreseen_comes_about_if_all_stays_as_it_was() -> None:
    x = np.tile([1.0, -1.0, 1.0, -1.0, 1.0], 20)
    more = Values(x, np.full(100, -2.0), -1.0).more_needed(0.0, 0.025)
    long = np.tile(x, 20)
    at = (
        int(
            np.flatnonzero(
                Values(long, np.full(2000, -2.0), -1.0).log_capital(0.0) >= math.log(40)
            )[0]
        )
        + 1
    )
    assert 0 < more == pytest.approx(at - 100, rel=0.1)
    assert Values(-x, np.full(100, -2.0), -1.0).more_needed(0.0, 0.025) == math.inf
    assert Values(long, np.full(2000, -2.0), -1.0).more_needed(0.0, 0.025) == 0


def test_nothing_is_said_too_often_where_there_is_nothing() -> None:
    """At delta .2 in 300 logs; a season common to both arms is no difference."""
    rng, wrong = np.random.default_rng(3), 0
    for _ in range(300):
        new = rng.random(400) < 0.3
        g = (rng.random(400) < np.where(np.arange(400) < 200, 0.2, 0.8)).astype(float)
        rows = np.column_stack([np.arange(400), new, np.zeros(400), g])
        (x,) = differences_of(rows, [(0.0, 1.0)], Arms(share=0.3))
        wrong += any(side.log_capital(0.0).max() >= math.log(10) for side in (x.above, x.below))
    assert 3 <= wrong <= 60  # it bets, too


def test_arms_that_are_not_drawn_as_said_are_found_and_others_are_not() -> None:
    rng = np.random.default_rng(4)
    n, none = 4000, np.zeros(4000)
    assert against_shares(rng.random(n) < 0.56, none, 0.5) > math.log(1e3)
    assert against_shares(rng.random(n) < 0.5, none, 0.5) < math.log(1e3)
    odds = np.where(rng.random(n) < 0.5, 1.0, -1.0)  # of policies that act as they should
    chance = 1 / (1 + np.exp(-odds))
    assert against_shares(rng.random(n) < chance, odds, 0.5) < math.log(1e3)
    assert against_shares(rng.random(n) < 1 - chance, odds, 0.5) > math.log(1e3)  # swapped
    assert against_shares(rng.random(n) < 0.5, odds, 0.5) > math.log(1e3)  # never put to use
    often = np.mean(
        [against_shares(rng.random(300) < 0.5, none[:300], 0.5) > math.log(10) for _ in range(500)]
    )
    assert often <= 0.13


# the command


def test_a_log_that_grows_is_counted_as_if_it_had_come_at_once(tmp_path: Path, run: Run) -> None:
    rows = visits(300, 0.1)
    for n in (20, 100, 100, 300):
        code, found = look(run, tmp_path, rows[:n])
    _, whole = look(run, tmp_path, rows, state="other.json")
    assert (found["looks"], found["episodes_new"], whole["looks"]) == (4, 200, 1)
    for key in ("difference_at_least", "difference_at_most", "estimated_difference", "path"):
        assert found[key] == whole[key], key
    kept = np.array([(BEGIN, x[-1] == "new", 0, x[4]) for x in rows], dtype=float)
    (x,) = differences_of(kept, [(0.0, 1.0)], Arms())
    assert found["difference_at_least"] == pytest.approx(x.above.at_least(0.025))
    assert found["difference_at_most"] == pytest.approx(-x.below.at_least(0.025))
    assert (code, found["verdict"]) == (3, "continue")
    assert found["decision"]["toward"] == "better"
    assert found["decision"]["days"] == pytest.approx(found["decision"]["episodes"] / 24, rel=0.02)
    assert found["path"][-1]["began"] == "2026-01-13 18:00"


def test_better_is_0_worse_is_4_and_known_policies_decide_sooner(tmp_path: Path, run: Run) -> None:
    rows = visits(900, 0.4)
    code, found = look(run, tmp_path, rows)
    assert (code, found["verdict"], found["counts_as"]) == (0, "better", 1.0)
    assert found["difference_at_least"] < 0.4 * 0.7 < found["difference_at_most"]
    code, known = look(run, tmp_path, rows, *policies(tmp_path), state="known.json")
    assert (code, known["verdict"]) == (0, "better") and known["counts_as"] > 1.2
    wide, narrow = (x["difference_at_most"] - x["difference_at_least"] for x in (found, known))
    assert narrow < 0.9 * wide
    turned = ("--new", "old", "--old", "new")
    code, found = look(run, tmp_path, rows, *turned, state="turned.json")
    assert (code, found["verdict"]) == (4, "worse") and found["difference_at_most"] < 0


def test_a_guard_must_be_kept_and_a_broken_one_is_worse(tmp_path: Path, run: Run) -> None:
    header = (*HEADER, "cost")
    rng = np.random.default_rng(5)
    rows = [(*x, int(rng.random() < (0.9 if x[3] == "try" else 0.1))) for x in visits(900, 0.4)]
    log = logfiles.write(tmp_path / "log.csv", header, rows)

    def answer(guard: str, state: str) -> tuple[int, Any]:
        words = (*WORDS, "--state-file", tmp_path / state, "--guard", guard, "--json")
        code, text, said = run("watch", log, *words)
        return code, json.loads(text) if text else said

    code, found = answer("cost:lower:0.9:0,1", "a.json")
    assert (code, found["verdict"], found["guards"][0]["verdict"]) == (0, "better", "no worse")
    code, found = answer("cost:lower:0:0,1", "b.json")
    assert (code, found["verdict"], found["guards"][0]["verdict"]) == (4, "worse", "worse")
    assert found["guards"][0]["low"] < 0.8 * 0.7 < found["guards"][0]["high"]
    assert found["delta_of_worse"] == pytest.approx(0.0125)
    kept = np.array([(0, x[6] == "new", 0, x[4]) for x in rows], dtype=float)
    (x,) = differences_of(kept, [(0.0, 1.0)], Arms())
    assert found["difference_at_least"] == pytest.approx(x.above.at_least(0.025))
    assert found["difference_at_most"] == pytest.approx(-x.below.at_least(0.0125))
    code, found = answer("cost:lower:0.55:0,1", "c.json")
    assert (code, found["verdict"], found["guards"][0]["verdict"]) == (3, "continue", "not shown")
    assert found["difference_at_least"] > 0
    code, said = answer("cost:lower:0.1", "d.json")
    assert code == 2 and "--guard cost:lower:0.1:LOW,HIGH" in str(said)


def test_an_episode_of_another_arm_may_go_on(tmp_path: Path, run: Run) -> None:
    """It was never counted, so it may have more rows at the next look."""
    rows = [(*x[:5], 0, "held out") if x[0] == "v39" else x for x in visits(40)]
    _, first = look(run, tmp_path, rows)
    more = [*rows, (rows[-1][0], rows[-1][1] + 3600, *rows[-1][2:])]
    code, second = look(run, tmp_path, [*more, *visits(60)[40:]])
    assert code == 3, second
    assert (first["episodes_counted"], second["episodes_counted"]) == (39, 59)


def test_a_share_that_is_slightly_off_says_little_of_returns_that_rise() -> None:
    """Both arms do the same, returns rise by .8 over the log, and .53 of it is of the new arm: 12 %
    of such logs were decided where the mean of all earlier returns was taken off.
    """
    decided = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        new = rng.random(1000) < 0.53
        g = np.clip(0.1 + 0.8 * np.arange(1000) / 1000 + rng.normal(0, 0.05, 1000), 0, 1)
        rows = np.column_stack([np.zeros(1000), new, np.zeros(1000), g])
        (x,) = differences_of(rows, [(0.0, 1.0)], Arms())
        decided += x.above.at_least(0.025) > 0 or x.below.at_least(0.025) > 0
    assert decided <= 2


def test_an_episode_that_never_ends_holds_up_the_others_and_is_told(
    tmp_path: Path, run: Run
) -> None:
    rows = visits(80)
    rows[10] = (*rows[10][:5], 0, rows[10][6])
    log = logfiles.write(
        tmp_path / "log.csv", HEADER, [*rows, ("v10", BEGIN + 9e5, "a", "keep", 0, 0, rows[10][6])]
    )
    words = ("--gamma", 0.9, "--return-range", "0,1", "--policy-column", "arm")
    words = ("watch", log, *words, "--state-file", tmp_path / "s.json")
    code, text, said = run(*words)
    text = " ".join(text.split())
    assert code == 3, said
    assert "10 new episodes, 10 in all" in text
    assert "70 episodes for the next run" in text and "since 2026-01-01 17:00" in text
    assert "69 of them are finished" in text and "(--truncated)" in text
    code, text, said = run(*words, "--horizon", 2)  # another question
    assert code == 2 and "another horizon" in said


def test_rows_of_other_arms_neither_count_nor_hold_up(tmp_path: Path, run: Run) -> None:
    rows = visits(60)
    last = BEGIN + 3600 * 100
    third = [("w", BEGIN + 10, "a", "keep", 1, 0, "third"), *rows]
    third.append(("w", last, "a", "keep", 1, 0, "third"))
    log = logfiles.write(tmp_path / "log.csv", HEADER, third)
    words = ("--gamma", 0.9, "--return-range", "0,2", "--policy-column", "arm", "--json")
    code, text, said = run("watch", log, *words, "--state-file", tmp_path / "s.json")
    assert code == 3, said
    found = json.loads(text)
    assert (found["episodes_counted"], found["episodes_of_others"]) == (60, 1)
    assert found["episodes_waiting"] == 0


def test_rows_that_are_decisions_by_themselves_are_compared_too(tmp_path: Path, run: Run) -> None:
    rows = [(x[1], *x[2:5], x[6]) for x in visits(200)]
    log = logfiles.write(tmp_path / "log.csv", ("time", "state", "action", "reward", "arm"), rows)
    words = ("--bandit", "--reward-range", "0,1", "--policy-column", "arm", "--json")
    code, text, said = run("watch", log, *words, "--state-file", tmp_path / "s.json")
    assert code == 3, said
    found = json.loads(text)
    assert (found["episodes_counted"], found["episodes_waiting"]) == (200, 0)
    kept = np.array([(0, x[-1] == "new", 0, x[3]) for x in rows], dtype=float)
    (x,) = differences_of(kept, [(0.0, 1.0)], Arms())
    assert found["difference_at_least"] == pytest.approx(x.above.at_least(0.025))


def test_the_page_draws_the_difference(tmp_path: Path, run: Run) -> None:
    code, found = look(run, tmp_path, visits(900, 0.4), "--report", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert code == 0 and found["report"] == str(tmp_path / "page.html")
    assert "BETTER" in page and "<polyline" in page and "The difference after 900 episodes" in page
    assert "2026-02-07" in page and page.count("not named (--policy, --baseline)") == 2
    assert "Not looked at: whether a group of people, or another outcome" in page


def test_a_page_names_the_policies_of_the_arms(run: Run, tmp_path: Path) -> None:
    page, files = tmp_path / "page.html", policies(tmp_path)
    look(run, tmp_path, visits(300), *files, "--report", page)
    text = page.read_text(encoding="utf-8")
    for flag, arm in (("policy", "new"), ("baseline", "old")):
        assert f"&#39;{arm}&#39; ({tmp_path / flag}.csv)" in text and "not named" not in text


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--new", "nwe"), "no episode is of the arm 'nwe' (--new): the column of arms has 'new',"),
        (("--new", "old"), "--new and --old name the same arm"),
        (("--share", "1"), "above 0 and below 1; it is 1.0"),
        (("--share", "0.3"), "--share 0.3 does not explain"),
        (("--policy", "nowhere.csv"), "give the policies of both arms"),
        (("--estimator", "is"), "--estimator is for a log of one policy"),
        (("--group", "state"), "surefoot watch has no --group"),
        (("--allowed", "x.csv"), "--allowed does not go with watch"),
    ],
)
def test_what_no_roll_out_can_be_is_refused_in_words_and_nothing_is_begun(
    tmp_path: Path, run: Run, more: tuple[str, ...], words: str
) -> None:
    code, said = look(run, tmp_path, visits(400), *more)
    assert (code, words in str(said)) == (2, True), said
    assert not (tmp_path / "r.json").exists()


def test_a_range_that_does_not_hold_is_refused(tmp_path: Path, run: Run) -> None:
    log = logfiles.write(tmp_path / "log.csv", HEADER, visits(50))
    words = ("--gamma", 0.9, "--policy-column", "arm", "--state-file", tmp_path / "s.json")
    code, _, said = run("watch", log, *words, "--reward-range", "0.2,1")
    assert code == 2 and "does not hold" in said
    assert not (tmp_path / "s.json").exists()


def test_a_range_that_nobody_declared_is_refused(tmp_path: Path, run: Run) -> None:
    log = logfiles.write(tmp_path / "log.csv", HEADER, visits(50))
    words = ("--gamma", 0.9, "--policy-column", "arm", "--state-file", tmp_path / "s.json")
    code, _, said = run("watch", log, *words)
    assert code == 2 and "--reward-range, or those of a whole episode with --return-range" in said


def test_options_of_arms_and_a_page_are_for_roll_outs_alone(tmp_path: Path, run: Run) -> None:
    log = logfiles.write(tmp_path / "log.csv", HEADER, visits(50))
    words = ("watch", log, "--gamma", 0.9, "--state-file", tmp_path / "s.json")
    code, _, said = run(*words)
    assert code == 2 and "--policy is missing" in said and "--policy-column" in said
    code, _, said = run(*words, "--share", 0.3)
    assert code == 2 and "are about the arms of a roll-out" in said


def test_policies_that_did_not_act_so_are_refused(tmp_path: Path, run: Run) -> None:
    rows, files = visits(900), policies(tmp_path)
    turned = (files[0], files[3], files[2], files[1])
    code, said = look(run, tmp_path, rows, *turned)
    assert code == 2 and "one of them did not act so" in str(said)
    never = logfiles.write(
        tmp_path / "n.csv", ("state", "action", "probability"), [("a", "try", 1.0)]
    )
    code, said = look(run, tmp_path, rows, "--policy", never, *files[2:])
    assert code == 2 and "which the policy given for it never does" in str(said)


def test_an_episode_of_two_arms_is_refused(tmp_path: Path, run: Run) -> None:
    rows = visits(50)
    rows.append(("v49", BEGIN + 10**6, "a", "keep", 0, 1, "old" if rows[49][6] == "new" else "new"))
    rows[49] = (*rows[49][:5], 0, rows[49][6])
    log = logfiles.write(tmp_path / "log.csv", HEADER, rows)
    words = ("--gamma", 0.9, "--return-range", "0,2", "--policy-column", "arm")
    code, _, said = run("watch", log, *words, "--state-file", tmp_path / "s.json")
    assert code == 2 and "another arm than the first row of its episode" in said


def test_python_has_the_same_words(tmp_path: Path, run: Run) -> None:
    rows = visits(100)
    _, found = look(run, tmp_path, rows)
    answer = surefoot.watch(
        tmp_path / "log.csv", None, tmp_path / "p.json", gamma=0.9, reward_range=(0, 1), horizon=1,
        policy_column="arm",
    )  # fmt: skip
    assert answer.verdict == "continue" and "CONTINUE" in str(answer)
    assert answer.to_dict()["difference_at_least"] == found["difference_at_least"]
    with pytest.raises(LogError, match="no episode is of the arm 'x'"):
        surefoot.watch(
            tmp_path / "log.csv", None, tmp_path / "q.json", gamma=0.9, reward_range=(0, 1),
            policy_column="arm", new="x",
        )  # fmt: skip
