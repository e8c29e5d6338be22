"""What has labels is put in order by them, or refused: no function reads it by position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot import Labels, Policy, Solution, Status, align_policy
from surefoot.evidence import importance_sampling
from surefoot.evidence.estimates import doubly_robust
from surefoot.evidence.value_on_log import evaluation
from surefoot.logs.given_policies import own_policy

STATES, ACTIONS = ("high", "low", "mid"), ("keep", "try")  # in the order of the log
PI = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]])
TURNED = Policy(pi=PI[::-1, ::-1], labels=Labels(STATES[::-1], ACTIONS[::-1]))
SHARES = {
    s: dict(zip(ACTIONS, row, strict=True)) for s, row in zip(STATES, PI.tolist(), strict=True)
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("labels")
    logfiles.good_log(path)
    logfiles.rule(path)
    return path


@pytest.fixture(scope="module")
def log(folder: Path) -> surefoot.Log:
    return surefoot.read_log(folder / "log.csv", episode_end="terminal")


@pytest.fixture(scope="module")
def problem(folder: Path, log: surefoot.Log) -> surefoot.Problem:
    return log.problem(0.9, folder / "rule.csv", reward_range=(-3, 5), return_range=(-9, 15))


@dataclass(frozen=True)
class Series:
    """What a pandas Series is to a reader of it: values with an index."""

    index: tuple[Any, ...]
    values: tuple[float, ...]

    def items(self) -> Any:
        return zip(self.index, self.values, strict=True)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.values)


def wide() -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(TURNED.pi, index=TURNED.labels.states, columns=TURNED.labels.actions)


def wide_polars() -> Any:
    polars = pytest.importorskip("polars")
    columns = {"state": list(TURNED.labels.states)}
    return polars.DataFrame(columns | {a: TURNED.pi[:, i] for i, a in enumerate(ACTIONS[::-1])})


def solution() -> Solution:
    return Solution(TURNED.pi, TURNED.pi, Status(np.array(True), np.array(1)), labelled=TURNED)


FORMS: dict[str, Callable[[], Any]] = {
    "policy": lambda: TURNED,
    "solution": solution,
    "dict": lambda: {s: SHARES[s] for s in reversed(STATES)},
    "long": lambda: (
        pytest.importorskip("pandas")
        .DataFrame(
            [(s, a, p) for s in STATES for a, p in SHARES[s].items()],
            columns=["state", "action", "probability"],
        )
        .iloc[[3, 0, 5, 1, 4, 2]]
    ),
    "columns": lambda: (
        {"state": list(STATES[::-1])}
        | {a: [SHARES[s][a] for s in STATES[::-1]] for a in ACTIONS[::-1]}
    ),
    "wide": wide,
    "wide polars": wide_polars,
    "function": lambda: lambda state: SHARES[state],
}


@pytest.fixture(params=[*FORMS, "path"])
def given(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "path":
        return TURNED.save(tmp_path / "pi.csv")
    return FORMS[request.param]()


def test_one_function_puts_them_all_in_order(
    given: Any, log: surefoot.Log, problem: surefoot.Problem
) -> None:
    end = 1 if log.has_end else 0
    assert end == 1
    for place in (log, problem, problem.log):
        found = align_policy(given, place)
        np.testing.assert_allclose(found[: len(STATES)], PI)
    np.testing.assert_allclose(align_policy(given, problem)[-1], problem.pi_b[-1])


def test_every_function_that_takes_a_policy_puts_it_in_order(
    given: Any, log: surefoot.Log, problem: surefoot.Problem
) -> None:
    array = align_policy(SHARES, problem)
    assert problem.log is not None
    takes: list[Callable[[Any], Any]] = [
        lambda x: surefoot.certify(problem, x, "robust").bound,
        lambda x: evaluation(log, problem, x)["values"]["policy"]["value"],
        lambda x: importance_sampling(problem.log, x, problem.pi_b, 0.9).estimate,
        lambda x: importance_sampling(problem.log, problem.pi_b, x, 0.9).estimate,
        lambda x: doubly_robust(problem.log, x, problem.pi_b, 0.9).estimate,
        lambda x: log.problem(0.9, x).pi_b,
        lambda x: [f.sentence for f in surefoot.check_log(log, baseline=x)],
    ]
    for take in takes:
        got, wanted = take(given), take(array)
        if isinstance(wanted, list):
            assert got == wanted
        else:
            np.testing.assert_allclose(got, wanted)


def test_a_policy_in_use_takes_what_has_labels(given: Any) -> None:
    if callable(given):
        with pytest.raises(surefoot.PolicyError, match="a policy with labels was expected"):
            surefoot.Controller(policy=given)
        return
    for controller in (
        surefoot.Controller(policy=given),
        surefoot.Controller(policy=Policy(pi=np.eye(2)), otherwise=given),
    ):
        assert controller.probabilities("mid") == pytest.approx(SHARES["mid"])


def test_an_action_stays_an_action_where_a_second_policy_could_stand() -> None:
    controller = surefoot.Controller(policy=TURNED, otherwise="keep")
    assert controller.decide("nowhere") == "keep"


@pytest.mark.parametrize("name", ["policy", "dict", "long", "columns", "wide", "wide polars"])
def test_what_knows_no_label_by_position_is_refused(name: str, problem: surefoot.Problem) -> None:
    given = FORMS[name]()
    with pytest.raises(surefoot.SurefootError, match="align_policy"):
        surefoot.evaluate(problem.model, given)
    with pytest.raises(surefoot.SurefootError):
        problem.policy_of(given)
    if name != "policy":
        with pytest.raises(surefoot.SurefootError):
            TURNED.over(given, problem.labels)


def test_a_solution_of_another_log_is_put_in_order_or_refused(
    tmp_path: Path, problem: surefoot.Problem
) -> None:
    right = surefoot.certify(problem, align_policy(TURNED, problem), "robust").bound
    assert surefoot.certify(problem, solution(), "robust").bound == right
    labels = Labels(("a", "b", "c"), ACTIONS)
    other = Policy(pi=PI, labels=labels)
    made = Solution(PI, PI, Status(np.array(True), np.array(1)), labelled=other)
    with pytest.raises(surefoot.PolicyError, match="says nothing about state 'high'"):
        surefoot.certify(problem, made, "robust")


def test_a_policy_over_the_labels_of_another_is_read_by_both_labels() -> None:
    base = Policy(pi=[[0.5, 0.5], [0.4, 0.6]], labels=Labels(("new", "mid"), ACTIONS))
    found = TURNED.over(base)
    np.testing.assert_allclose(found, [[0.5, 0.5], PI[2]])
    turned = TURNED.over(base, Labels(("mid", "new"), ACTIONS[::-1]))
    np.testing.assert_allclose(turned, [PI[2, ::-1], [0.5, 0.5]])
    with pytest.raises(surefoot.PolicyError, match="'high' is not in `otherwise`"):
        TURNED.over(base, Labels(("high", "mid"), ACTIONS))


@pytest.mark.parametrize(
    "start",
    [
        {"mid": 0.7, "low": 0.2, "high": 0.1},
        Series(("mid", "low", "high"), (0.7, 0.2, 0.1)),
    ],
)
def test_a_start_with_labels_is_put_in_order(start: Any, log: surefoot.Log) -> None:
    np.testing.assert_allclose(log.problem(0.9, start=start).start[:3], [0.1, 0.2, 0.7])
    with pytest.raises(surefoot.LogError, match="nowhere"):
        log.problem(0.9, start={"nowhere": 1})


def test_masks_may_be_tables_of_pairs(log: surefoot.Log) -> None:
    pandas = pytest.importorskip("pandas")
    taboo = pandas.DataFrame({"state": ["low"], "action": ["try"]})
    found = log.problem(0.9, forbidden=taboo, masked_baseline="renormalise").allowed
    assert np.argwhere(~found).tolist() == [[1, 1]]
    with pytest.raises(surefoot.LogError, match="no column 'state'"):
        log.problem(0.9, allowed=wide() > 0.5)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_come_back_in_the_library_that_they_came_from(library: str) -> None:
    module = pytest.importorskip(library)
    make = module.table if library == "pyarrow" else module.DataFrame
    rows = logfiles.steps(120)
    columns = {x: [row[i] for row in rows] for i, x in enumerate(logfiles.HEADER)}
    columns["reward"] = [float(x) for x in columns["reward"]]
    steps = make(columns)
    for history in (0, 1):
        found = surefoot.problem(steps, gamma=0.9, history=history)
        made = surefoot.improve(found, surefoot.PiBSPIBB(n_wedge=5))
        for frame in (made.to_frame(), surefoot.read_log(steps).estimated_baseline().to_frame()):
            assert type(frame).__module__.partition(".")[0] == library
    long = make({"state": ["a", "a"], "action": ["x", "y"], "probability": [0.5, 0.5]})
    again = own_policy(long).to_frame()
    assert type(again).__module__.partition(".")[0] == library
    assert align_policy(
        again,
        surefoot.problem(
            {
                "episode": [0, 0],
                "state": ["a", "a"],
                "action": ["y", "x"],
                "reward": [0.0, 1.0],
                "terminal": [0, 1],
            },
            gamma=0.5,
        ),
    ).tolist()[0] == [0.5, 0.5]
