"""Parity with the published research code on the golden data sets: the value of the policy in
the true MDP.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.planning import best_rows

GOLDEN = Path(__file__).parents[1] / "golden"
INDEX = json.loads((GOLDEN / "index.json").read_text())["cases"]
CELLS = [(case["file"], name) for case in INDEX for name in case["algorithms"]]
HYPER = {(case["file"], name): cell for case in INDEX for name, cell in case["algorithms"].items()}

# Cells that rest on rounding or on an unstable sort in the published code; nobody can match them
# but by accident.
ROUNDING = {
    (
        "wet_chicken_1000_seed13.npz",
        "MBIE",
    ): "in state 16 all worst cases are 0; the published code left 7e-17 on action 2",
    (
        "wet_chicken_20000_seed16.npz",
        "Approx-Soft-SPIBB_mpeb",
    ): "in state 23 actions 0, 3 and 4 have equal q; the published "
    "argsort, which is not stable, let action 4 give before action 0",
}


def algorithm(name: str, hyper: dict[str, Any]) -> Any:
    """Our algorithm for a published name and its hyper-parameters."""
    plain = {
        "Basic_rl": "basic-rl",
        "RaMDP": "ramdp",
        "R_min": "r-min",
        "SPIBB": "pi-b-spibb",
        "Lower-SPIBB": "pi-leq-b-spibb",
    }
    rename = {"N_wedge": "n_wedge", "kappa": "kappa", "delta": "delta"}
    if name in plain or name == "MBIE":
        return surefoot.algorithm(
            plain.get(name, "mbie"), **{rename[k]: v for k, v in hyper.items()}
        )
    if name.startswith("DUIPI"):
        return surefoot.algorithm(
            "duipi",
            conventions="scholl2022",
            xi=hyper["xi"],
            prior="bayesian" if hyper["bayesian"] else "frequentist",
        )
    ours = name.split("_")[0].lower().replace("1-step-", "one-step+")
    return surefoot.algorithm(
        ours,
        epsilon=hyper["epsilon"],
        delta=hyper["delta"],
        error=hyper["error_kind"],
        g_max=hyper["g_max"],
        conventions="scholl2022",
    )


@cache
def case(file: str, sparse: bool = False) -> tuple[Any, surefoot.Problem, surefoot.Model]:
    """(arrays, problem under the published settings, true model)."""
    with np.load(GOLDEN / file) as arrays:
        z = dict(arrays)
    problem = surefoot.problem(
        state=z["s"],
        action=z["a"],
        reward=z["r"],
        next_state=z["s_next"],
        episode=z["episode"],
        time=z["t"],
        pi_b=z["pi_b"],
        gamma=float(z["gamma"]),
        start=int(z["initial_state"]),
        terminal_states=z["terminal_states"],
        reward_table=z["R_true_ss"],
        conventions="scholl2022",
        sparse=sparse,
    )
    true = surefoot.known_model(
        z["P_true"], z["R_true_sa"], float(z["gamma"]), z["terminal_states"]
    )
    return z, problem, true


@pytest.mark.parametrize(("file", "name"), CELLS)
def test_the_policy_is_worth_what_the_published_one_is(file: str, name: str) -> None:
    _, problem, true = case(file)
    cell = HYPER[file, name]
    solution = surefoot.improve(problem, algorithm(name, cell["hyper"]))
    value = float(surefoot.evaluate_at_start(true, solution.pi, problem.start))
    close = abs(value - cell["perf"]) <= (1e-6 if name.startswith("Exact") else 1e-9) * abs(
        cell["perf"]
    )
    if (file, name) in ROUNDING:
        assert not close, (
            "this cell is listed as one that cannot match, but it does: take it off the list"
        )
        assert abs(value - cell["perf"]) <= 0.01 * abs(cell["perf"])
    else:
        assert close
        assert solution.status.ok == (not cell["hit_max_it"])


@pytest.mark.parametrize("file", [c["file"] for c in INDEX])
def test_counts_model_and_monte_carlo_values_are_the_published_ones(file: str) -> None:
    z, problem, true = case(file)
    assert np.array_equal(problem.n_sa, z["count_sa"])
    assert np.array_equal(problem.counts.n_sas, z["count_sas"])
    assert np.allclose(problem.model.p, z["P_mle"], atol=1e-15)
    acting = problem.seen
    assert np.allclose(problem.r[acting], z["R_mle_sa"][acting], atol=1e-12)
    assert np.allclose(problem.returns.mean, z["q_pi_b_est"], atol=1e-10, equal_nan=True)
    assert float(surefoot.evaluate_at_start(true, z["pi_b"], problem.start)) == pytest.approx(
        float(z["perf_pi_b"]), rel=1e-12
    )
    best = surefoot.optimal(true)
    assert float(surefoot.evaluate_at_start(true, best.pi, problem.start)) == pytest.approx(
        float(z["perf_pi_star"]), rel=1e-12
    )


@pytest.mark.parametrize(("file", "name"), [c for c in CELLS if "SPIBB_" in c[1]])
def test_error_functions_are_the_published_ones(file: str, name: str) -> None:
    z, problem, _ = case(file)
    hyper = HYPER[file, name]["hyper"]
    e = surefoot.error_function(problem, hyper["error_kind"], hyper["delta"], hyper["g_max"])
    assert np.allclose(e, z[f"{name}/errors"], rtol=1e-12)


@pytest.mark.parametrize("file", [c["file"] for c in INDEX])
def test_the_exact_row_is_never_worth_less_than_the_published_linear_programs_row(
    file: str,
) -> None:
    z, problem, _ = case(file)
    name = "Exact-Soft-SPIBB_hoeffding"
    q, theirs, e = z[f"{name}/q"], z[f"{name}/pi"], z[f"{name}/errors"]
    epsilon = HYPER[file, name]["hyper"]["epsilon"]
    with np.errstate(invalid="ignore"):
        moved = np.abs(theirs - problem.pi_b)
        theirs_cost = np.where(moved > 0, np.where(np.isinf(e), 0.0, e) * moved, 0.0).sum(axis=-1)
    # The published program is met to about 1e-7 only: give ours the budget that theirs spent.
    ours = best_rows(q, problem.pi_b, e, e, np.maximum(theirs_cost, epsilon)).pi
    slack = 1e-7 * np.abs(q).max()  # mass the program moved although its cost is infinite
    assert ((q * ours).sum(axis=-1) >= (q * theirs).sum(axis=-1) - slack).all()


@pytest.mark.parametrize(
    ("file", "name"), [c for c in CELLS if c not in ROUNDING and not HYPER[c]["hit_max_it"]]
)
def test_the_sparse_path_agrees_too(file: str, name: str) -> None:
    _, problem, true = case(file, sparse=True)
    cell = HYPER[file, name]
    solution = surefoot.improve(problem, algorithm(name, cell["hyper"]))
    assert float(surefoot.evaluate_at_start(true, solution.pi, problem.start)) == pytest.approx(
        cell["perf"], rel=1e-8
    )
