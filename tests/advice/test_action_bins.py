"""Actions that are a number: ranges cut by the half that learns, and the dose written for each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot.advice.measurements import Making, posed_with_states
from surefoot.core.errors import SurefootError
from surefoot.serving.encoders import read_encoder

HOW: dict[str, Any] = {"bandit": True, "action": "dose", "reward_range": (0, 1)}
COLUMNS = ("pain", "ward", "dose", "reward")


def raw(folder: Path, n: int = 1200, **changes: Any) -> Path:
    """Single decisions: much pain takes more than 4, little pain less."""
    rng = np.random.default_rng(1)
    rows = []
    for i in range(n):
        pain, dose = round(float(rng.uniform(0, 10)), 2), round(float(rng.gamma(2, 2)), 2)
        dose = changes["dose"](dose) if "dose" in changes else dose
        good = 0.2 + 0.6 * ((pain > 5) == (float(dose or 0) > 4))
        rows.append((pain, f"ward {i % 3}", dose, int(rng.random() < good)))
    return logfiles.write(folder / "raw.csv", COLUMNS, rows)


def posed(log: Path, bins: int = 4, **how: Any) -> Any:
    own = {"states": 4} if "state" not in how else {}
    features = () if "state" in how else ("pain",)
    return posed_with_states(log, HOW | how, Making(features=features, action_bins=bins, **own))


def test_only_the_half_that_learns_cuts_doses(tmp_path: Path) -> None:
    found = posed(raw(tmp_path))
    made, batch = found.measured, found.problem.log
    assert made.actions.encoder is not None
    assert set(found.log.actions) == set(made.actions.labels)
    learns = made.learning[made.units.unit]
    shares = np.bincount(batch.action[learns]) / learns.sum()
    assert np.abs(shares - 0.25).max() < 0.02
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with open(tmp_path / "raw.csv") as file:
        lines = file.read().splitlines()
    tested = set(batch.row[~learns].tolist())
    moved = [
        ",".join([*x.split(",")[:2], "0.5", x.split(",")[3]]) if i in tested else x
        for i, x in enumerate(lines[1:])
    ]
    (elsewhere / "raw.csv").write_text("\n".join([lines[0], *moved]) + "\n")
    assert posed(elsewhere / "raw.csv").measured.actions.encoder == made.actions.encoder


def test_the_dose_of_a_range_is_its_median_in_the_log(tmp_path: Path) -> None:
    log = raw(tmp_path)
    actions = posed(log).measured.actions
    doses = np.array([float(x.split(",")[2]) for x in log.read_text().splitlines()[1:]])
    codes = actions.encoder.encode(doses[:, None])
    for i, median in enumerate(actions.medians):
        here = doses[codes == i]
        assert median in here
        assert (here < median).mean() <= 0.5 <= (here <= median).mean()


def test_few_values_are_actions_themselves(tmp_path: Path) -> None:
    found = posed(raw(tmp_path, dose=lambda x: round(x / 4) * 2.5), bins=8)
    actions = found.measured.actions
    assert actions.encoder is None
    assert actions.labels[:3] == ("0", "2.5", "5")
    assert set(found.log.actions) == set(actions.labels)


def test_a_log_with_states_has_ranges_of_doses_too(tmp_path: Path) -> None:
    found = posed(raw(tmp_path), state="ward")
    assert found.log.n_actions == 4
    assert set(found.log.states) >= {"ward 0", "ward 1", "ward 2"}
    assert found.measured.encoder is None and not found.measured.by_row


def test_a_controller_writes_doses_and_says_which(tmp_path: Path) -> None:
    import duckdb

    how = {"features": ["pain"], "states": 4, "deterministic": "mixture", "action_bins": 4}
    advice = surefoot.advise(raw(tmp_path), **HOW, **how)
    assert advice.supported
    files = advice.save(tmp_path / "out")
    again = read_encoder(files["actions.json"])
    assert again == advice.posed.measured.actions.encoder
    doses = json.loads(files["summary.json"].read_text())["log"]["cells"]["actions"]["doses"]
    encoder = files["encoder.json"]
    made = surefoot.export(files["policy.csv"], tmp_path / "c.json", encoder=encoder)
    assert made.policy.labels.actions == tuple(sorted(doses.values()))
    controller = surefoot.load_controller(tmp_path / "c.json")
    assert controller.decide({"pain": 9.0}) > 4 > controller.decide({"pain": 1.0})
    surefoot.export(files["policy.csv"], tmp_path / "c.sql", encoder=encoder)
    text = (tmp_path / "c.sql").read_text()
    assert "a dose is the median of the log in its range" in text
    rows = duckdb.sql(f"select pain, {text} from (values (9.0), (1.0)) rows(pain)").fetchall()
    assert {float(x): float(dose) for x, dose in rows} == {
        x: controller.decide({"pain": x}) for x in (9.0, 1.0)
    }
    surefoot.export(files["policy.csv"], tmp_path / "c.st", encoder=encoder)
    assert f"1: {min(doses.values()):g};" in (tmp_path / "c.st").read_text()
    assert "writes the median dose" in advice.explain()


def test_a_probability_goes_with_its_dose(tmp_path: Path) -> None:
    advice = surefoot.advise(raw(tmp_path), **HOW, features=["pain"], states=4, action_bins=4)
    files = advice.save(tmp_path / "out")
    made = surefoot.export(files["policy.csv"], tmp_path / "c.json", encoder=files["encoder.json"])
    doses = advice.document["log"]["cells"]["actions"]["doses"]
    for state in made.policy.labels.states:
        said = made.policy.probabilities(state)
        own = advice.policy.probabilities(state)
        assert said == {doses[a]: pytest.approx(p, abs=1e-6) for a, p in own.items()}


@pytest.mark.parametrize(
    ("how", "changes", "said"),
    [
        ({"action_bins": 1}, {}, "whole number in 2..50"),
        ({"action_bins": True}, {}, "whole number in 2..50"),
        ({}, {"dose": lambda x: "low" if x > 4 else x}, "no finite number in row"),
        ({}, {"dose": lambda x: "" if x > 12 else x}, "is empty or no finite number"),
        ({}, {"dose": lambda x: 3}, "the log never tried another"),
        ({"action": "dose,ward"}, {}, "one column of numbers"),
        ({"dask": "tcp://here"}, {}, "leave out --dask"),
    ],
)
def test_what_cannot_be_cut_is_refused(
    how: dict[str, Any], changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    log = raw(tmp_path) if not changes else _written(tmp_path, changes["dose"])
    with pytest.raises(SurefootError, match=said):
        surefoot.advise(log, state="ward", **{**HOW, "action_bins": 4, **how})


def _written(folder: Path, change: Any) -> Path:
    lines = raw(folder).read_text().splitlines()
    rows = [x.split(",") for x in lines[1:]]
    return logfiles.write(
        folder / "raw.csv", COLUMNS, [(p, w, change(float(d)), r) for p, w, d, r in rows]
    )
