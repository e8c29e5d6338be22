"""The baseline of a log: from a file, checked; estimated, flagged; and whether it can have made
the log.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import surefoot
from surefoot import BaselineError, LogError, ParameterError, PolicyError, ProblemError
from surefoot.advice.posing import pose
from surefoot.logs import (
    Log,
    disagreement,
    load_policy,
    permitted,
    read_allowed,
    read_forbidden,
    read_log,
    read_policy,
)
from surefoot.logs.disagreement import _log_capital, action_distance

pytest.importorskip("duckdb")
ROWS = [("a", "x", 0.25), ("a", "y", 0.75), ("b", "x", 1), ("c", "y", 0.5), ("c", "x", 0.5)]


def log(n: int = 200, seed: int = 0) -> Log:
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 3, n)
    action = np.where(s == 1, "x", rng.choice(["x", "y"], n))
    labels = np.array(["a", "b", "c"])
    return read_log(
        {
            "episode": np.zeros(n),
            "time": np.arange(n),
            "state": labels[s],
            "action": action,
            "reward": rng.normal(size=n),
        }
    )


def write(
    path: Path, rows: list[tuple[Any, ...]], header: str = "state,action,probability"
) -> Path:
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def test_a_baseline_file_is_read_by_label(tmp_path: Path) -> None:
    baseline = read_policy(write(tmp_path / "pi.csv", ROWS[::-1]), log())
    assert baseline.pi.tolist() == [[0.25, 0.75], [1, 0], [0.5, 0.5]]
    assert not log().problem(0.9, baseline).pi_b_estimated


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (ROWS[:2], r"nothing about state 'b' \(2 such states"),
        ([("a", "x", 0.5), *ROWS[1:]], "state 'a' sum to 1.25"),
        ([("A", "x", 0.25), *ROWS[1:]], "row 1 .*state 'A' is not in the log"),
        ([("a", "xx", 0.25), *ROWS[1:]], "action 'xx' is not in the log; the nearest are 'x'"),
        ([("a", "x", -0.1), *ROWS[1:]], "must hold a probability, got -0.1"),
        ([("a", "x", "much"), *ROWS[1:]], "must hold a probability, got 'much'"),
        ([*ROWS, ROWS[0]], "row 6 of the baseline repeats"),
    ],
)
def test_a_wrong_baseline_file_is_refused_in_words(
    tmp_path: Path, rows: list[tuple[Any, ...]], words: str
) -> None:
    with pytest.raises(BaselineError, match=words):
        read_policy(write(tmp_path / "pi.csv", rows), log())


def test_states_the_log_does_not_have_can_be_ignored_and_that_is_noted(tmp_path: Path) -> None:
    path = write(tmp_path / "pi.csv", [*ROWS, ("z", "x", 1)])
    with pytest.raises(BaselineError, match="'z' is not in the log"):
        read_policy(path, log())
    assert "1 rows" in read_policy(path, log(), unknown_states="ignore").notes[0]


def test_rounded_probabilities_are_rescaled_and_that_is_noted(tmp_path: Path) -> None:
    baseline = read_policy(
        write(tmp_path / "pi.csv", [("a", "x", 0.3333), ("a", "y", 0.6666), *ROWS[2:]]), log()
    )
    assert np.abs(baseline.pi.sum(axis=1) - 1).max() < 1e-12
    assert "rescaled" in baseline.notes[0]


def test_a_file_without_the_columns_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"no column 'probability'.*'probabilty'"):
        read_policy(write(tmp_path / "pi.csv", ROWS, "state,action,probabilty"), log())


def test_states_of_several_columns_are_found(tmp_path: Path) -> None:
    table = {
        "episode": np.zeros(3),
        "ward": np.array(["i", "j", "i"]),
        "bed": np.array([1, 2, 1]),
        "action": np.array(["x", "y", "x"]),
        "reward": np.ones(3),
    }
    made = read_log(table, state="ward,bed")
    rows = [("i", 1, "x", 1), ("j", 2, "y", 1)]
    assert read_policy(
        write(tmp_path / "pi.csv", rows, "ward,bed,action,probability"), made
    ).pi.tolist() == [[1, 0], [0, 1]]


def test_an_estimated_baseline_is_the_frequencies_and_smoothing_is_added_to_every_count() -> None:
    made = log()
    n = made.n_sa
    assert np.allclose(made.estimated_baseline().pi, n / n.sum(axis=1, keepdims=True))
    smooth = made.estimated_baseline(smoothing=2)
    assert np.allclose(smooth.pi, (n + 2) / (n + 2).sum(axis=1, keepdims=True))
    assert "2 added" in smooth.notes[0]
    assert made.problem(0.9, smooth).pi_b_estimated
    assert any("2 added" in note for note in made.problem(0.9, smooth).notes)


@pytest.mark.parametrize("smoothing", [-1, np.nan, np.inf, "1", True])
def test_a_wrong_smoothing_is_refused(smoothing: Any) -> None:
    with pytest.raises(ParameterError, match="smoothing"):
        log().estimated_baseline(smoothing)


def test_a_baseline_of_another_log_is_refused() -> None:
    other = read_log(
        {
            "episode": np.zeros(2),
            "state": np.array(["q", "r"]),
            "action": np.array(["x", "x"]),
            "reward": np.ones(2),
        }
    )
    with pytest.raises(BaselineError, match="other labels"):
        log().problem(0.9, other.estimated_baseline())


def test_actions_of_probability_zero_are_counted_and_their_states_named() -> None:
    made = log()
    found = disagreement(made, np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]]))
    assert found.impossible == made.n_sa[0, 1]
    assert found.worst(1)[0][0] == "a"
    assert "probability 0" in str(found)


def test_what_a_baseline_never_does_has_probability_zero() -> None:
    found = disagreement(log(), np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]]))
    assert found.p_value == 0
    assert found.worst(1)[0][1] == 0


def test_the_state_that_disagrees_most_is_named_first() -> None:
    made = log(30_000)
    found = disagreement(made, np.array([[0.5, 0.5], [1.0, 0.0], [0.48, 0.52]]))
    assert found.worst()[0][0] == "c"
    assert found.worst()[0][1] == pytest.approx(found.p_values.min())
    assert found.p_values[1] == pytest.approx(1)  # one action


def test_the_right_baseline_is_rarely_called_wrong_even_with_few_visits() -> None:
    rng = np.random.default_rng(0)
    pi_b = rng.dirichlet(np.full(5, 3.0), size=300)
    p_values = []
    for _ in range(200):
        n_sa = np.stack([rng.multinomial(rng.integers(1, 6), row) for row in pi_b]).astype(float)
        labels = surefoot.Labels(tuple(range(300)), tuple(range(5)))
        made: Any = type("Counted", (), {"n_sa": n_sa, "states": labels.states, "labels": labels})
        p_values.append(disagreement(made, pi_b).p_value)
    assert np.mean(np.array(p_values) < 0.05) <= 0.05


@pytest.mark.parametrize(("states", "sojourns", "leave"), [(100, 3, 0.1), (1000, 1, 0.2)])
def test_the_right_baseline_is_believed_where_an_action_leaves_its_state(
    states: int, sojourns: int, leave: float
) -> None:
    """The last visit of every sojourn took that action: by Pearson's distance, which takes visits
    for fixed, 11 and 98 % of these logs had p < 0.001.
    """
    rng, p_values = np.random.default_rng(1), []
    pi_b = np.tile([1 - leave, leave], (states, 1))
    for _ in range(200):
        stays = rng.geometric(leave, (states, sojourns)).sum(axis=1) - sojourns
        n_sa = np.stack([stays, np.full(states, sojourns)], axis=1).astype(float)
        p_values.append(action_distance(n_sa, pi_b).p_value)
    assert np.mean(np.array(p_values) < 0.05) <= 0.05
    assert min(p_values) > 1e-3


def test_an_unlikely_action_taken_once_is_as_unlikely_as_it_says() -> None:
    rare, n = 6e-8, 1_000
    found = action_distance(np.array([[n - 1.0, 1.0]]), np.array([[1 - rare, rare]]))
    assert n * rare < found.p_value < 0.01
    assert found.p_values.tolist() == [found.p_value]
    assert action_distance(np.array([[n - 3.0, 3.0]]), np.array([[1 - rare, rare]])).p_value < 1e-9


@pytest.mark.parametrize("epsilon", [1e-8, 1e-6, 1e-4, 1e-3, 1e-2])
def test_a_log_of_a_nearly_deterministic_baseline_is_believed(epsilon: float) -> None:
    pi_b = np.full((25, 5), epsilon / 5)
    pi_b[:, 2] += 1 - epsilon
    rng = np.random.default_rng(5)
    n_sa = [np.stack([rng.multinomial(40, row) for row in pi_b]) for _ in range(200)]
    p_values = np.array([action_distance(n, pi_b).p_value for n in n_sa])
    assert np.mean(p_values < 0.01) <= 0.01
    other = np.roll(pi_b, 1, axis=1)
    assert max(action_distance(n, other).p_value for n in n_sa) < 1e-6


def test_baselines_with_tiny_probabilities_made_their_logs_and_no_others() -> None:
    rng = np.random.default_rng(6)
    right, wrong = [], []
    for _ in range(200):
        pi_b = rng.dirichlet(np.full(4, 0.1), size=50) + 1e-12
        pi_b /= pi_b.sum(axis=1, keepdims=True)
        sharper = pi_b**1.5 / (pi_b**1.5).sum(axis=1, keepdims=True)
        n_sa = np.stack([rng.multinomial(rng.integers(1, 400), row) for row in pi_b])
        right.append(action_distance(n_sa, pi_b).p_value)
        wrong.append(action_distance(n_sa, sharper).p_value)
    assert np.mean(np.array(right) < 0.05) <= 0.06
    assert min(right) > 1e-4
    assert np.mean(np.array(wrong) < 1e-6) >= 0.95


def test_every_bet_against_the_right_baseline_has_a_mean_of_one() -> None:
    n, row = 5, np.array([0.0, 1e-3, 0.3, 0.699])
    outcomes = np.array(
        [(0, i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)], dtype=float
    )
    chance = stats.multinomial.pmf(outcomes, n, row)
    capital = np.exp(_log_capital(outcomes, np.broadcast_to(row, outcomes.shape)))
    assert capital @ chance == pytest.approx(np.ones(len(capital)))
    assert capital.max() > 100


def test_half_of_the_capital_bets_on_all_states_and_half_on_a_single_one() -> None:
    pi_b = np.array([[0.5, 0.5], [0.2, 0.8], [0.3, 0.7]])
    n_sa = np.array([[50.0, 50.0], [20.0, 80.0], [60.0, 40.0]])
    bets = np.exp(_log_capital(n_sa, pi_b))  # [bets, states]
    capital = 0.5 * bets.prod(axis=1).mean() + 0.5 * bets.mean()
    found = action_distance(n_sa, pi_b)
    assert found.p_value == pytest.approx(1 / capital)
    assert found.p_value < 1e-5 < action_distance(n_sa[:2], pi_b[:2]).p_value
    assert found.p_values == pytest.approx(np.minimum(1, 1 / bets.mean(axis=0)))


@pytest.mark.parametrize(
    ("power", "visits", "least"), [(1.3, 20, 0.5), (1.3, 200, 0.95), (0.7, 200, 0.95)]
)
def test_a_baseline_at_another_temperature_is_found_out(
    power: float, visits: int, least: float
) -> None:
    rng, found = np.random.default_rng(2), 0
    for _ in range(100):
        pi_b = rng.dirichlet(np.ones(4), size=50) + 1e-6
        pi_b /= pi_b.sum(axis=1, keepdims=True)
        other = pi_b**power / (pi_b**power).sum(axis=1, keepdims=True)
        n_sa = np.stack([rng.multinomial(visits, row) for row in other]).astype(float)
        found += action_distance(n_sa, pi_b).p_value < 1e-3
    assert found >= least * 100


def test_a_file_of_allowed_actions_makes_a_mask(tmp_path: Path) -> None:
    path = write(tmp_path / "allowed.csv", [("a", "x"), ("a", "y"), ("b", "x")], "state,action")
    assert read_allowed(path, log()).tolist() == [[True, True], [True, False], [True, True]]
    with pytest.raises(LogError, match="'d' is not in the log"):
        read_allowed(write(tmp_path / "allowed.csv", [("d", "x")], "state,action"), log())


def test_a_file_of_forbidden_actions_makes_a_mask_and_must_name_what_the_log_has(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "forbidden.csv", [("a", "x"), ("c", "y")], "state,action")
    taboo = read_forbidden(path, log())
    assert taboo.tolist() == [[True, False], [False, False], [False, True]]
    for pair, word in ((("d", "x"), "state 'd' is not in the log"), (("a", "z"), "action 'z'")):
        write(path, [("a", "x"), pair], "state,action")
        with pytest.raises(LogError, match=f"row 2 of .*forbidden.csv forbids nothing: {word}"):
            read_forbidden(path, log())


def test_what_is_both_allowed_and_forbidden_is_forbidden(tmp_path: Path) -> None:
    allowed = write(tmp_path / "allowed.csv", [("a", "x"), ("a", "y")], "state,action")
    forbidden = write(tmp_path / "forbidden.csv", [("a", "x"), ("b", "y")], "state,action")
    assert permitted(log()) is None
    found = permitted(log(), allowed, forbidden)
    assert found is not None
    assert found.tolist() == [[False, True], [True, False], [True, True]]
    problem = log().problem(
        0.9, allowed=allowed, forbidden=forbidden, masked_baseline="renormalise"
    )
    assert (np.asarray(problem.pi_b)[0] == [0.0, 1.0]).all()
    write(forbidden, [("a", "x"), ("a", "y")], "state,action")
    with pytest.raises(ProblemError, match="state 'a' has no allowed action"):
        permitted(log(), None, forbidden)


@pytest.mark.parametrize("rows", ["", "\n"])
def test_a_policy_file_without_rows_is_refused_in_words(tmp_path: Path, rows: str) -> None:
    file = tmp_path / "policy.csv"
    file.write_text(f"state,action,probability\n{rows}")
    with pytest.raises(PolicyError, match="has no rows"):
        load_policy(file)


def test_rounding_below_zero_in_an_older_policy_file_is_zero(tmp_path: Path) -> None:
    file = tmp_path / "policy.csv"
    file.write_text("state,action,probability\na,x,-1e-17\na,y,1\n")
    assert load_policy(file).pi.tolist() == [[0.0, 1.0]]
    file.write_text("state,action,probability\na,x,-0.01\na,y,1.01\n")
    with pytest.raises(PolicyError, match="must hold a probability"):
        load_policy(file)


WIDE = {"state": ["c", "b", "a"], "y": [0.5, 0.0, 0.75], "x": [0.5, 1.0, 0.25]}
LONG = {name: [row[i] for row in ROWS[::-1]] for i, name in enumerate(("state", "action", "p"))}


def frames(columns: dict[str, list[Any]]) -> list[Any]:
    pandas, polars, arrow = map(pytest.importorskip, ("pandas", "polars", "pyarrow"))
    return [columns, pandas.DataFrame(columns), polars.DataFrame(columns), arrow.table(columns)]


@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize("columns", [WIDE, LONG], ids=["wide", "long"])
def test_a_table_is_a_baseline_by_its_labels_and_never_by_position(
    columns: dict[str, list[Any]], kind: int
) -> None:
    found = log().problem(0.9, frames(columns)[kind]).pi_b
    assert found.tolist() == [[0.25, 0.75], [1, 0], [0.5, 0.5]]


def test_the_states_of_a_wide_frame_may_be_its_index() -> None:
    frame = frames(WIDE)[1].set_index("state")
    assert log().problem(0.9, frame).pi_b.tolist() == [[0.25, 0.75], [1, 0], [0.5, 0.5]]
    with pytest.raises(BaselineError, match="says nothing about state 'a'"):
        log().problem(0.9, frame.reset_index(drop=True))
    with pytest.raises(BaselineError, match="a column for each action"):
        log().problem(0.9, {"y": [0.5, 0.0, 0.75], "x": [0.5, 1.0, 0.25]})


def test_a_dict_of_states_is_a_baseline() -> None:
    said = {"b": {"x": 1}, "c": {"y": 0.5, "x": 0.5}, "a": {"y": 0.75, "x": 0.25}}
    assert log().problem(0.9, said).pi_b.tolist() == [[0.25, 0.75], [1, 0], [0.5, 0.5]]


def test_where_states_have_no_labels_a_table_is_refused_as_a_baseline_and_as_a_mask() -> None:
    arrays = {"state": [0, 1], "action": [0, 1], "reward": [0.0, 1.0], "next_state": [1, 0]}
    frame = frames({"0": [0.5, 0.5], "1": [0.5, 0.5]})[1]
    given = {**arrays, "episode": [0, 0], "gamma": 0.9}
    with pytest.raises(BaselineError, match="pi_b is a table"):
        surefoot.problem(**given, pi_b=frame)
    with pytest.raises(ProblemError, match="allowed is a table"):
        surefoot.problem(**given, allowed=frame > 0)
    turned = surefoot.Policy(pi=np.eye(2), labels=surefoot.Labels((1, 0), (0, 1)))
    with pytest.raises(BaselineError, match="labels"):
        surefoot.problem(**given, pi_b=turned)


@pytest.mark.parametrize("turned", [False, True])
def test_a_policy_is_checked_against_a_log_by_its_labels(turned: bool) -> None:
    found = log()
    actions = ("y", "x") if turned else ("x", "y")
    right = np.array([[0.5, 0.5], [1, 0], [0.5, 0.5]])
    labels = surefoot.Labels(("a", "b", "c"), actions)
    for pi, level in ((right, "ok"), (right[:, ::-1], "warning")):
        given = surefoot.Policy(pi=pi[:, ::-1] if turned else pi, labels=labels)
        said = {x.name: x.level for x in surefoot.check_log(found, baseline=given)}
        assert said["baseline"] == level
    with pytest.raises(BaselineError, match="not in the log"):
        other = surefoot.Labels(("a", "b", "c"), ("x", "z"))
        surefoot.check_log(found, baseline=surefoot.Policy(pi=right, labels=other))


RULE = [("a", "y"), ("b", "x"), ("c", "x")]
NOISY = [[0.1, 0.9], [0.9, 0.1], [0.9, 0.1]]


def asked(path: Path, **how: Any) -> surefoot.Problem:
    return pose(log(), gamma=0.9, baseline=path, **how).problem


def test_a_file_of_states_and_actions_is_a_rule(tmp_path: Path) -> None:
    path = write(tmp_path / "rule.csv", RULE, "state,action")
    assert read_policy(path, log()).pi.tolist() == [[0, 1], [1, 0], [1, 0]]
    assert load_policy(path).pi.tolist() == [[1, 0], [0, 1], [0, 1]]  # in the order of the file
    with pytest.raises(BaselineError, match="state 'a' sum to 2, not 1"):
        read_policy(write(path, [("a", "x"), *RULE], "state,action"), log())


def test_a_rule_is_taken_with_its_noise(tmp_path: Path) -> None:
    path = write(tmp_path / "rule.csv", RULE, "state,action")
    found = asked(path, exploration=0.2)
    np.testing.assert_allclose(found.pi_b, NOISY)
    assert not found.pi_b_estimated and any("its noise" in x for x in found.notes)
    np.testing.assert_allclose(asked(path, exploration=0).pi_b, [[0, 1], [1, 0], [1, 0]])
    by_hand = surefoot.problem(log(), gamma=0.9, pi_b=path, exploration=0.2)
    np.testing.assert_allclose(by_hand.pi_b, NOISY)


def test_noise_is_among_the_allowed_actions(tmp_path: Path) -> None:
    path = write(tmp_path / "rule.csv", RULE, "state,action")
    mask = np.array([[True, True], [True, False], [True, True]])
    found = asked(path, exploration=0.2, allowed=mask)
    np.testing.assert_allclose(found.pi_b, [NOISY[0], [1, 0], NOISY[2]])


def test_states_that_the_log_never_visits_have_the_noise_too(tmp_path: Path) -> None:
    path = write(tmp_path / "rule.csv", [*RULE, ("d", "y")], "state,action")
    posed = pose(log(), gamma=0.9, baseline=path, exploration=0.2)
    assert {a: round(p, 9) for _, a, p in posed.elsewhere} == {"x": 0.1, "y": 0.9}
    with pytest.raises(BaselineError, match="first in state d"):
        lots = [*RULE, ("d", "x", 0.5), ("d", "y", 0.5)]
        rows = [(*x, 1)[:3] if len(x) == 2 else x for x in lots]
        asked(write(path, rows), exploration=0.2)


def test_a_saved_log_keeps_the_noise_and_another_baseline_leaves_it(tmp_path: Path) -> None:
    write(tmp_path / "rule.csv", RULE, "state,action")
    rows = [(0, t, "abc"[t % 3], "x", 0.5) for t in range(30)]
    made = write(tmp_path / "log.csv", rows, "episode,time,state,action,reward")
    how: dict[str, Any] = {
        "baseline": tmp_path / "rule.csv",
        "exploration": 0.2,
        "actions": ["x", "y"],
    }
    surefoot.check(made, save=tmp_path / "log.toml", gamma=0.9, **how)
    np.testing.assert_allclose(surefoot.problem(tmp_path / "log.toml").pi_b, NOISY)
    np.testing.assert_allclose(pose(tmp_path / "log.toml").problem.pi_b, NOISY)
    other = write(tmp_path / "other.csv", ROWS)
    assert pose(tmp_path / "log.toml", baseline=other).problem.pi_b[0, 0] == 0.25


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"exploration": 1.0}, r"in \[0, 1\): got 1.0"),
        ({"exploration": -0.1}, r"in \[0, 1\): got -0.1"),
        ({"exploration": float("nan")}, r"in \[0, 1\): got nan"),
        ({"exploration": "much"}, r"must be a number in \[0, 1\)"),
        ({"exploration": 0.1, "baseline": None}, "with --baseline"),
        ({"exploration": 0.1, "baseline": "lots"}, "between 0 and 1 already, first in state 'a'"),
    ],
)
def test_noise_goes_with_a_rule_that_is_given(
    how: dict[str, Any], words: str, tmp_path: Path
) -> None:
    rule = write(tmp_path / "rule.csv", RULE, "state,action")
    lots = write(tmp_path / "lots.csv", ROWS)
    given = {"baseline": rule, **how}
    if given["baseline"] == "lots":
        given["baseline"] = lots
    with pytest.raises(surefoot.SurefootError, match=words):
        pose(log(), gamma=0.9, **given)
