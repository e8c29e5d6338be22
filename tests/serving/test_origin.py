"""Policy and encoder are one thing, and what was not shown does not leave without a word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot.core.errors import PolicyError
from surefoot.serving import (
    Controller,
    KMeansEncoder,
    QuantileEncoder,
    discretize,
    load_controller,
    write_encoder,
)
from surefoot.serving.encoders import fingerprint
from surefoot.serving.exports import export_notes
from surefoot.serving.origin import origin_of


def raw(path: Path, n: int = 600) -> Path:
    """Pushing pays where x is above 1, and costs below."""
    rng = np.random.default_rng(0)
    x, push = rng.uniform(0, 3, n).round(2), rng.integers(0, 2, n)
    reward = push * np.where(x >= 1, 1.0, -0.5) + rng.normal(0, 0.3, n)
    rows = zip(range(n), [0] * n, x, np.where(push, "push", "drift"), reward.round(3), [1] * n, strict=True)  # fmt: skip
    return logfiles.write(
        path, ("episode", "time", "x", "action", "reward", "terminal"), list(rows)
    )


@pytest.fixture(scope="module")
def improved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log of cut measurements and its improvement."""
    folder = tmp_path_factory.mktemp("origin")
    discretize(
        raw(folder / "raw.csv"),
        folder / "log.csv",
        edges={"x": [1, 2]},
        column="depth class",
        save=folder / "log.csv.encoder.json",
    )
    log = folder / "log.csv"
    surefoot.check(log, save=folder / "log.toml", gamma=0.9, state="depth class")
    advice = surefoot.advise(folder / "log.toml", reward_range=(-3, 3))
    assert advice.supported
    advice.save(folder / "better")
    worse = surefoot.advise(folder / "log.toml", reward_range=(-3, 3), reward="time")
    assert not worse.supported
    worse.save(folder / "worse")
    return folder


def test_an_improvement_knows_the_encoder_beside_its_log(improved: Path) -> None:
    encoder = surefoot.serving.read_encoder(improved / "log.csv.encoder.json")
    found = origin_of(improved / "better" / "policy.csv")
    assert found is not None and found.encoder == fingerprint(encoder)
    assert (found.verdict, found.unsupported, found.state) == ("supported", False, "depth class")
    assert found.log in ("log.toml", "log.csv") and found.surefoot == surefoot.__version__
    summary = json.loads((improved / "better" / "summary.json").read_text())
    assert found.fingerprint == summary["log"]["fingerprint"]


def test_another_log_beside_which_an_encoder_lies_is_not_said_to_be_made_by_it(
    tmp_path: Path,
) -> None:
    log = logfiles.visits(tmp_path / "log.csv", n=200)
    write_encoder(QuantileEncoder(("x",), ((1.0,),)), f"{log}.encoder.json")
    advice = surefoot.advise(log, gamma=0.9, reward_range=(0, 1))
    assert "encoder" not in advice.to_dict()["log"]


def test_an_encoder_that_makes_other_states_is_refused(improved: Path, tmp_path: Path) -> None:
    """At 3.5 an encoder with other cut points would say 'middle' where the policy's says 'high'."""
    policy = improved / "better" / "policy.csv"
    other = QuantileEncoder(("x",), ((1.0, 3.0),))
    for out in ("d.sql", "d.json"):
        with pytest.raises(PolicyError, match=r"knows '1 <= x < 2' \(2 such states\), the encoder"):
            surefoot.export(policy, tmp_path / out, encoder=other)
    assert list(tmp_path.iterdir()) == []


def test_an_encoder_whose_labels_are_numbers_is_told_by_its_fingerprint(tmp_path: Path) -> None:
    ours, theirs = (
        KMeansEncoder(("x",), (0.0,), (1.0,), tuple((c,) for c in x)) for x in ((0, 1), (0, 9))
    )
    labels = surefoot.Labels(ours.labels, ("a", "b"))
    policy = surefoot.Policy(pi=np.eye(2), labels=labels)
    unknown = Controller(policy=policy, encoder=theirs)
    assert any("make sure that it was this one" in x for x in export_notes(unknown))
    found = origin_of_kmeans(tmp_path, fingerprint(ours))
    known = Controller(policy=policy, encoder=ours, origin=found)
    assert not any("make sure" in x for x in export_notes(known))
    with pytest.raises(PolicyError, match=f"fingerprint {fingerprint(ours)}, this one has"):
        Controller(policy=policy, encoder=theirs, origin=found)


def origin_of_kmeans(folder: Path, mark: str) -> Any:
    log = {"source": "log.csv", "fingerprint": "f", "columns": "state = s, action = a", "encoder": mark}  # fmt: skip
    summary = {
        "schema": "surefoot/improve/1", "surefoot": "1", "verdict": "supported", "waived": ["drift"],
        "supported": True, "accepted_unsupported": False, "policy_is": "new", "log": log,
    }  # fmt: skip
    (folder / "summary.json").write_text(json.dumps(summary))
    found = origin_of(folder / "policy.csv")
    assert found is not None and found.verdict == "supported despite drift"
    return found


def test_exports_carry_verdict_version_and_the_fingerprint_of_the_log(
    improved: Path, tmp_path: Path
) -> None:
    policy = improved / "better" / "policy.csv"
    found = origin_of(policy)
    assert found is not None
    surefoot.export(policy, tmp_path / "d.sql")
    sql = (tmp_path / "d.sql").read_text()
    assert sql.startswith("-- verdict SUPPORTED: this is the improved policy\n")
    assert f"learned by surefoot {surefoot.__version__} from {found.log}" in sql
    assert found.fingerprint in sql and '"depth class"' in sql and str(improved) not in sql
    surefoot.export(policy, tmp_path / "d.json", encoder=improved / "log.csv.encoder.json")
    again = load_controller(tmp_path / "d.json")
    assert again.origin == found and "warning" not in again.document
    surefoot.export(tmp_path / "d.json", tmp_path / "raw.sql", dialect="postgres")
    assert (tmp_path / "raw.sql").read_text().startswith("-- verdict SUPPORTED")


def test_a_candidate_that_was_not_supported_is_refused_or_says_so_first(
    improved: Path, tmp_path: Path
) -> None:
    candidate = improved / "worse" / "candidate.csv"
    for out in ("d.sql", "d.json"):
        with pytest.raises(PolicyError, match=r"NOT SUPPORTED: .*safety-test.* --accept"):
            surefoot.export(candidate, tmp_path / out)
        surefoot.export(candidate, tmp_path / out, accept=True)
    assert (tmp_path / "d.sql").read_text().startswith("-- NOT SUPPORTED: this policy was not")
    assert (tmp_path / "d.json").read_text().startswith('{\n "warning": "NOT SUPPORTED: this')
    with pytest.raises(PolicyError, match="NOT SUPPORTED"):  # what was JSON is still a candidate
        surefoot.export(tmp_path / "d.json", tmp_path / "again.sql")
    surefoot.export(improved / "worse" / "policy.csv", tmp_path / "rule.sql")  # the baseline
    assert (
        "verdict NOT SUPPORTED: this is the baseline, unchanged"
        in (tmp_path / "rule.sql").read_text()
    )


def test_a_policy_that_was_accepted_unsupported_stays_so(improved: Path, tmp_path: Path) -> None:
    surefoot.advise(
        improved / "log.toml", reward_range=(-3, 3), reward="time", accept=True
    ).save(tmp_path / "accepted")  # fmt: skip
    with pytest.raises(PolicyError, match="NOT SUPPORTED"):
        surefoot.export(tmp_path / "accepted" / "policy.csv", tmp_path / "d.sql")


def test_a_policy_beside_which_nothing_lies_has_no_origin(improved: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.csv"
    policy.write_bytes((improved / "better" / "policy.csv").read_bytes())
    assert origin_of(policy) is None
    for text in ("{", "[]", '{"schema": "surefoot/check/1"}', '{"schema": "surefoot/improve/1"}'):
        (tmp_path / "summary.json").write_text(text)
        assert origin_of(policy) is None
