"""Guards in planning: what no guarded column may lose, and who can keep them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot import NotAvailableError, ParameterError, Problem, ProblemError, improve, read_log
from surefoot.algorithms.guarded import baseline_values
from surefoot.core import known_model
from surefoot.planning import evaluate
from surefoot.problems.guards import Guard, guard_problem, guards_of, with_guards

KEEP = {
    "priced-soft-spibb": {},
    "exact-soft-spibb": {"epsilon": 1.0, "delta": 1.0},
    "lower-exact-soft-spibb": {"epsilon": 1.0, "delta": 1.0},
    "adv-exact-soft-spibb": {"epsilon": 1.0, "delta": 1.0},
    "pi-b-spibb": {"n_wedge": 3},
    "pi-leq-b-spibb": {"n_wedge": 3},
    "ramdp+exact-soft-spibb": {"kappa": 0.1, "epsilon": 1.0, "delta": 1.0},
}


def table(seed: int = 0, rows: int = 4000) -> dict[str, Any]:
    """Three actions in four states: what is good for the reward is bad for the cost."""
    rng = np.random.default_rng(seed)
    n = rows // 10 * 10
    state, action = rng.integers(0, 4, n), rng.choice(3, n, p=[0.6, 0.2, 0.2])
    reward = action * 0.3 + 0.2 * state + rng.normal(size=n)
    cost = action * (1.0 + state) * 0.2 + rng.normal(size=n)
    return {
        "episode": np.repeat(np.arange(n // 10), 10),
        "t": np.tile(np.arange(10), n // 10),
        "state": state,
        "action": action,
        "reward": reward,
        "cost": cost,
        "quality": 0.5 * (action == 1) + rng.normal(size=n),
    }


def problem(*guards: str, seed: int = 0, **columns: Any) -> Problem:
    made = guards_of(guards)
    log = read_log(table(seed) | columns, guard=[x.column for x in made] or None)
    pi_b = np.tile([0.6, 0.2, 0.2], (log.n_states, 1))
    return with_guards(log.problem(0.8, pi_b), guards)


def advantages(given: Problem, pi: np.ndarray) -> list[np.ndarray]:
    """sum_a (pi - pi_b) q_k of every guard in every state, q_k written out."""
    found = []
    n = np.asarray(given.counts.n_sas)
    p = n / np.maximum(n.sum(axis=-1, keepdims=True), 1)
    for guard in given.guards:
        r = np.asarray(guard_problem(given, guard).r)
        model = known_model(p, r, given.gamma)
        v = evaluate(model, np.asarray(given.pi_b))
        q = r + given.gamma * p @ v
        found.append(((pi - given.pi_b) * q).sum(axis=-1))
    return found


@pytest.mark.parametrize("name", KEEP)
def test_no_guarded_column_loses_in_any_state_of_the_model(name: str) -> None:
    given = problem("cost:lower", "quality:higher")
    algorithm = surefoot.algorithm(name, **KEEP[name])
    solution = improve(given, algorithm)
    assert solution.status.ok
    free = improve(problem(), algorithm)
    assert min(x.min() for x in advantages(given, np.asarray(free.pi))) < -0.01
    for x in advantages(given, np.asarray(solution.pi)):
        assert x.min() >= -1e-9
    # the policy improvement theorem
    n = np.asarray(given.counts.n_sas)
    p = n / np.maximum(n.sum(axis=-1, keepdims=True), 1)
    for guard in given.guards:
        model = known_model(p, np.asarray(guard_problem(given, guard).r), given.gamma)
        new, old = (evaluate(model, np.asarray(x)) for x in (solution.pi, given.pi_b))
        assert (new - old).min() >= -1e-9


def test_the_guarded_policy_still_gains() -> None:
    algorithm = surefoot.algorithm("exact-soft-spibb", epsilon=1.0, delta=1.0)
    given = problem("quality:higher")
    pi = np.asarray(improve(given, algorithm).pi)
    gain = surefoot.evaluate_at_start(given.model, pi, given.start)
    assert gain > surefoot.evaluate_at_start(given.model, given.pi_b, given.start) + 0.05


def test_the_price_of_a_move_is_also_one_in_the_guarded_column() -> None:
    plain = surefoot.PricedSoftSPIBB(growth=0)
    priced = surefoot.PricedSoftSPIBB(z=0.5, growth=0)
    given = problem("quality:higher")
    (low,) = advantages(given, np.asarray(improve(given, plain).pi))
    (margin,) = advantages(given, np.asarray(improve(given, priced).pi))
    assert low.min() <= 1e-9
    assert margin.min() > 1e-6


def test_the_reward_may_be_guarded_too() -> None:
    given = problem("reward:higher")
    pi = np.asarray(improve(given, surefoot.PricedSoftSPIBB(epsilon=1.0)).pi)
    free = np.asarray(improve(problem(), surefoot.PricedSoftSPIBB(epsilon=1.0)).pi)
    assert np.abs(pi - free).max() < 0.2
    assert np.abs(pi - given.pi_b).max() > 0.2


def test_lower_is_the_mirror_of_higher() -> None:
    columns = table()
    algorithm = surefoot.PricedSoftSPIBB(epsilon=1.0)
    lower = improve(problem("cost:lower"), algorithm)
    higher = improve(problem("cost:higher", cost=-columns["cost"]), algorithm)
    assert np.allclose(lower.pi, higher.pi, atol=1e-12)


def test_what_was_never_tried_counts_as_the_baseline_does() -> None:
    columns = table()
    columns["action"] = np.where(
        (columns["state"] == 1) & (columns["action"] == 2), 0, columns["action"]
    )
    guards = guards_of(["cost:lower"])
    log = read_log(columns, guard=["cost"])
    given = with_guards(log.problem(0.8, np.tile([0.6, 0.2, 0.2], (4, 1))), guards)
    (block,) = guard_problem(given, guards[0]).blocks
    q = baseline_values(block)[0]
    assert block.n_sa[0, 1, 2] == 0
    mean = (q[1, :2] * [0.75, 0.25]).sum()
    assert q[1, 2] == pytest.approx(mean, abs=1e-9)


@pytest.mark.parametrize("name", ["basic-rl", "ramdp", "approx-soft-spibb", "certified-advantage"])
def test_who_cannot_keep_guards_says_so(name: str) -> None:
    given = problem("cost:lower", seed=1)
    settings = {"ramdp": {"kappa": 0.1}, "approx-soft-spibb": {"epsilon": 1.0, "delta": 1.0}}
    extra = settings.get(name, {"delta": 0.05} if "certified" in name else {})
    with pytest.raises(NotAvailableError, match=f"{name} cannot keep guards: .*priced-soft-spibb"):
        improve(given, surefoot.algorithm(name, **extra))


@pytest.mark.parametrize(
    ("text", "column", "direction", "tolerance", "declared"),
    [
        ("cost:lower", "cost", "lower", 0.0, None),
        ("a:b:higher:0.5", "a:b", "higher", 0.5, None),
        ("readmitted:lower:0.01:0,1", "readmitted", "lower", 0.01, (0.0, 1.0)),
    ],
)
def test_guards_as_text(
    text: str, column: str, direction: str, tolerance: float, declared: tuple[float, float] | None
) -> None:
    (found,) = guards_of([text])
    assert found == Guard(
        column=column, direction=direction, tolerance=tolerance, declared=declared
    )
    assert guards_of([str(found)]) == (found,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cost", r"--guard takes COLUMN:lower or COLUMN:higher.* got 'cost'"),
        ("cost:down", r"'down' is neither"),
        (":lower", r"got ':lower'"),
        ("cost:lower:-1", r"tolerance .* number >= 0; that of 'cost' is -1"),
        ("cost:lower:nan", r"tolerance .* number >= 0"),
        ("cost:lower:much", r"got 'cost:lower:much'"),
        ("cost:lower:1:0", r"got 'cost:lower:1:0'"),
        ("cost:lower:1:3,2", r"range of the guard 'cost' must be LOW,HIGH"),
    ],
)
def test_a_wrong_guard_gets_a_sentence(text: str, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        guards_of([text])


def test_a_column_is_guarded_once() -> None:
    with pytest.raises(ParameterError, match="'cost' is guarded twice"):
        guards_of(["cost:lower", "cost:higher"])


def test_a_range_that_does_not_hold_names_the_row() -> None:
    with pytest.raises(ProblemError, match=r"range \(0\.0, 1\.0\) of the guard 'cost' does not"):
        problem("cost:lower:0:0,1")


def test_rows_that_are_not_in_memory_are_refused() -> None:
    log = read_log(table(), guard="cost")
    large = log.problem(0.8, np.tile([0.6, 0.2, 0.2], (4, 1)), needs_returns=False)
    with pytest.raises(NotAvailableError, match="guards need the rows of the log in memory"):
        with_guards(large, ["cost:lower"])
