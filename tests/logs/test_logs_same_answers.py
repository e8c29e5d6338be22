"""Logs in files give what the same log gives in arrays: counts, returns and policies, whatever
the labels, the order and the format.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.logs import read_log

GOLDEN = Path(__file__).parents[1] / "golden"
FILES = [case["file"] for case in json.loads((GOLDEN / "index.json").read_text())["cases"]]
PARAMETERS: dict[str, dict[str, Any]] = {
    "basic-rl": {},
    "pi-b-spibb": {"n_wedge": 5},
    "lower-exact-soft-spibb": {"epsilon": 0.5, "delta": 1},
    "one-step+exact-soft-spibb": {"epsilon": 0.5, "delta": 1},
    "duipi": {"xi": 0.5},
}


def golden(file: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN / file) as arrays:
        return dict(arrays)


def label(state: int) -> str:
    return f"Zustand «{chr(97 + state % 26)}», {state}"


def write(path: Path, z: dict[str, np.ndarray], *, with_next: bool, seed: int = 0) -> None:
    """The golden log as text: labels, string episode ids, rows shuffled."""
    rows = [
        [
            f"ep/{z['episode'][i]}",
            str(z["t"][i]),
            label(z["s"][i]),
            f"action {z['a'][i]}",
            repr(float(z["r"][i])),
            label(z["s_next"][i]),
        ]
        for i in np.random.default_rng(seed).permutation(len(z["s"]))
    ]
    with open(path, "w", newline="") as out:
        writer = csv.writer(out)
        names = ["episode_id", "t", "state", "action", "reward", "next_state"]
        writer.writerow(names if with_next else names[:-1])
        writer.writerows(rows if with_next else [row[:-1] for row in rows])


def recoded(log: surefoot.logs.Log, z: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(golden id of every state code, of every action code)."""
    ids = {label(s): s for s in range(len(z["pi_b"]))}
    return np.array([ids[x] for x in log.states]), np.array(
        [int(x.split()[1]) for x in log.actions]
    )


@pytest.mark.parametrize(
    "name", [*sorted(PARAMETERS.keys() - {"duipi"}), pytest.param("duipi", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("file", FILES)
def test_a_golden_log_with_text_labels_and_shuffled_rows_is_worth_what_its_arrays_are(
    tmp_path: Path, file: str, name: str
) -> None:
    z = golden(file)
    write(tmp_path / "log.csv", z, with_next=True)
    ends = [label(s) for s in z["terminal_states"]]
    log = read_log(tmp_path / "log.csv", terminal_states=ends)
    state, action = recoded(log, z)
    # Only states of the log have a code: the array interface gets the same ones.
    code = {int(s): i for i, s in enumerate(state)}
    arrays = surefoot.problem(
        state=[code[int(s)] for s in z["s"]],
        action=[int(np.flatnonzero(action == a)[0]) for a in z["a"]],
        reward=z["r"],
        next_state=[code[int(s)] for s in z["s_next"]],
        episode=z["episode"],
        time=z["t"],
        pi_b=z["pi_b"][np.ix_(state, action)],
        gamma=float(z["gamma"]),
        start=code[int(z["initial_state"])],
        n_states=len(state),
        n_actions=len(action),
        terminal_states=[code[int(s)] for s in z["terminal_states"] if int(s) in code],
    )
    problem = log.problem(
        float(z["gamma"]), z["pi_b"][np.ix_(state, action)], start=label(int(z["initial_state"]))
    )
    algorithm = surefoot.algorithm(name, **PARAMETERS[name])
    ours, theirs = (surefoot.improve(p, algorithm) for p in (problem, arrays))
    true = surefoot.known_model(
        z["P_true"], z["R_true_sa"], float(z["gamma"]), z["terminal_states"]
    )

    def value(pi: np.ndarray) -> float:
        full = z["pi_b"].astype(float).copy()
        full[np.ix_(state, action)] = pi
        start = np.eye(len(full))[int(z["initial_state"])]
        return float(surefoot.evaluate_at_start(true, full, start))

    assert value(ours.pi) == pytest.approx(value(theirs.pi), rel=1e-12, abs=1e-12)
    assert problem.return_range == arrays.return_range
    assert problem.notes == arrays.notes
