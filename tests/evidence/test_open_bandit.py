"""The Open Bandit data, 60,000 real rows with propensities that ship with the package obp (0.4.1;
Saito, Aihara, Matsutani & Narita 2021): our estimates are those of its own estimators.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from surefoot import read_log
from surefoot.checks import vetoes
from surefoot.core import Batch
from surefoot.evidence import doubly_robust, fitted_model, per_decision, weighted_per_decision
from surefoot.evidence.estimates import action_values
from surefoot.logs import Log

pytestmark = pytest.mark.slow
estimators = pytest.importorskip("obp.ope.estimators", reason="pip install obp==0.4.1")
CASES = [(policy, page) for policy in ("random", "bts") for page in ("all", "men", "women")]


def path(policy: str, page: str) -> Path:
    return Path(estimators.__file__).parents[1] / "dataset" / "obd" / policy / page / f"{page}.csv"


@cache
def log_of(policy: str, page: str) -> Log:
    return read_log(
        path(policy, page), bandit=True, state="position", action="item_id", reward="click",
        time="timestamp",
    )  # fmt: skip


@cache
def rows_of(policy: str, page: str) -> dict[str, np.ndarray]:
    with path(policy, page).open() as file:
        rows = list(csv.DictReader(file))
    return {
        "action": np.array([int(x["item_id"]) for x in rows]),
        "position": np.array([int(x["position"]) - 1 for x in rows]),
        "reward": np.array([float(x["click"]) for x in rows]),
        "pscore": np.array([float(x["propensity_score"]) for x in rows]),
    }


def policies(log: Log) -> dict[str, np.ndarray]:
    """[S, A] by name; the extra state "(end)" has a row too."""
    shape = log.n_states, log.n_actions
    sharp = np.random.default_rng(0).normal(size=shape)
    return {
        "uniform": np.full(shape, 1 / shape[1]),
        "some other": np.exp(sharp) / np.exp(sharp).sum(axis=1, keepdims=True),
    }


def as_theirs(log: Log, table: np.ndarray, rows: dict[str, np.ndarray]) -> np.ndarray:
    """A table [S, A] of ours for every row of theirs: [rows, actions, positions]."""
    states = [log.states.index(str(k)) for k in (1, 2, 3)]
    actions = [log.actions.index(str(a)) for a in range(log.n_actions)]
    found: np.ndarray = table[np.ix_(states, actions)].T  # [actions, positions]
    return np.broadcast_to(found, (len(rows["action"]), *found.shape))


@pytest.mark.parametrize(("policy", "page"), CASES)
@pytest.mark.parametrize("name", ["uniform", "some other"])
def test_ips_snips_and_dr_are_those_of_obp(policy: str, page: str, name: str) -> None:
    log, rows = log_of(policy, page), rows_of(policy, page)
    batch: Batch = log.batch()
    assert len(batch) == 10_000
    pi = policies(log)[name]
    model = fitted_model(batch, 0.0)
    given: dict[str, Any] = {**rows, "action_dist": as_theirs(log, pi, rows)}
    ipw = estimators.InverseProbabilityWeighting().estimate_policy_value(**given)
    snipw = estimators.SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**given)
    q = as_theirs(log, action_values(model, pi)[1], rows)
    dr = estimators.DoublyRobust().estimate_policy_value(
        **given, estimated_rewards_by_reg_model=np.array(q)
    )
    assert per_decision(batch, pi, None, 0.0).estimate == pytest.approx(ipw, abs=1e-9)
    assert weighted_per_decision(batch, pi, None, 0.0).estimate == pytest.approx(snipw, abs=1e-9)
    found = doubly_robust(batch, pi, None, 0.0, model=model)
    assert found.estimate == pytest.approx(dr, abs=1e-9)


@pytest.mark.parametrize(("policy", "page"), CASES)
def test_the_propensities_of_the_real_log_can_be_true(policy: str, page: str) -> None:
    assert [x for x in vetoes(log_of(policy, page)) if x.key == "propensities"] == []
