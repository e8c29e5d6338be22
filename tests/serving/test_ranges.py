"""Labels of states made of measurements: each is a true statement about the rows it names."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surefoot
from surefoot.logs import read_log
from surefoot.serving import (
    Controller,
    KMeansEncoder,
    QuantileEncoder,
    discretize,
    load_controller,
    read_encoder,
    write_encoder,
)

NUMBERS = st.one_of(
    st.floats(-1e300, 1e300),
    st.integers(-50, 50).map(float),
    st.sampled_from([0.1, 0.1 + 1e-17, 1 / 3, 1e-7, 123456.0, 1234567.0, 98.60000000000001]),
)


@st.composite
def encoders(draw: st.DrawFn) -> QuantileEncoder:
    names = ("a", "b", "c")[: draw(st.integers(1, 3))]
    edges = tuple(tuple(sorted(draw(st.lists(NUMBERS, max_size=4, unique=True)))) for _ in names)
    missing = tuple(name for name in names if draw(st.booleans()))
    return QuantileEncoder(names, edges, missing)


def holds(label: str, row: dict[str, float]) -> bool:
    """Whether the statement is true, as Python reads it."""
    said = re.sub(r"\b([abc]) missing", r"isnan(\1)", label)
    said = re.sub(r"\b([abc]) given", r"not isnan(\1)", said)
    return bool(eval(said, {"isnan": math.isnan, "any": True} | row))


@given(encoders(), st.data())
def test_a_label_is_true_of_the_rows_of_its_state_and_of_no_others(
    encoder: QuantileEncoder, data: st.DataObject
) -> None:
    row = {}
    for name, edges in zip(encoder.features, encoder.edges, strict=True):
        near = [y for x in edges for y in (x, np.nextafter(x, -np.inf), np.nextafter(x, np.inf))]
        lost = [math.nan] if name in encoder.missing else []
        row[name] = float(data.draw(st.one_of(NUMBERS, st.sampled_from([0.0, *near, *lost]))))
    (code,) = encoder.encode(np.array([list(row.values())]))
    assert [holds(label, row) for label in encoder.labels] == [
        i == code for i in range(len(encoder.labels))
    ]


@given(encoders())
def test_labels_are_unique_and_as_many_as_there_are_states(encoder: QuantileEncoder) -> None:
    for x in (encoder, QuantileEncoder(*list(vars(encoder).values())[:3], coded=True)):
        assert len(set(x.labels)) == len(x.labels) == math.prod(x.bins)


def test_labels_are_read_by_people() -> None:
    encoder = QuantileEncoder(
        ("lactate", "pulse", "sex", "culture"),
        ((4.0,), (60.0, 100.0), (), ()),
        missing=("pulse", "culture"),
    )
    assert len(encoder.labels) == 16
    assert encoder.labels[0] == "lactate < 4 and pulse < 60 and culture given"
    assert encoder.labels[-1] == "lactate >= 4 and pulse missing and culture missing"
    assert "lactate >= 4 and 60 <= pulse < 100 and culture missing" in encoder.labels
    assert QuantileEncoder(("sex",), ((),)).labels == ("any",)
    exact = QuantileEncoder(("x",), ((0.1, 0.1 + 1e-15),)).labels
    assert exact[1] == "0.1 <= x < 0.100000000000001"
    assert QuantileEncoder(("x",), (tuple(np.array([1 / 3])),)).labels[0] == f"x < {1 / 3!r}"


@pytest.mark.parametrize("missing", [None, ["b"]])
def test_an_old_file_keeps_its_bin_numbers_wherever_it_goes(
    tmp_path: Path, missing: list[str] | None
) -> None:
    old: dict[str, Any] = {
        "format": "surefoot encoder 1",
        "method": "quantile",
        "features": ["a", "b"],
        "edges": [[1.0], [2.0]],
    } | ({} if missing is None else {"missing": missing})
    (tmp_path / "old.json").write_text(json.dumps(old))
    encoder = read_encoder(tmp_path / "old.json")
    last = ("a:1 b:0", "a:1 b:1") if missing is None else ("a:1 b:1", "a:1 b:missing")
    assert encoder.labels[-2:] == last
    write_encoder(encoder, tmp_path / "again.json")
    assert read_encoder(tmp_path / "again.json") == encoder
    assert json.loads((tmp_path / "again.json").read_text())["format"] == "surefoot encoder 1"
    policy = surefoot.Policy(pi=np.eye(2), labels=surefoot.Labels(last, ("x", "y")))
    Controller(policy=policy, encoder=encoder).save(tmp_path / "controller.json")
    found = load_controller(tmp_path / "controller.json")
    assert found.state({"a": 3, "b": 9}) == "a:1 b:1"


@pytest.mark.parametrize(
    "encoder",
    [
        QuantileEncoder(("a",), ((1.0, 2.5),), ("a",)),
        KMeansEncoder(("a",), (0.0,), (1.0,), ((0.0,), (2.0,))),
    ],
)
def test_a_new_file_says_so(tmp_path: Path, encoder: Any) -> None:
    write_encoder(encoder, tmp_path / "new.json")
    content = json.loads((tmp_path / "new.json").read_text())
    assert (content["format"], "coded" in content) == ("surefoot encoder 2", False)
    assert read_encoder(tmp_path / "new.json") == encoder


def test_labels_survive_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    log = tmp_path / "log.csv"
    lines = [
        f"e{i // 10},{i % 10},{rng.integers(90)},{rng.integers(2)},{i % 2}" for i in range(400)
    ]
    log.write_text("\n".join(["episode,time,a & b,action,reward", *lines]) + "\n")
    done = discretize(log, tmp_path / "out.csv", edges={"a & b": [30, 60]})
    found = read_log(tmp_path / "out.csv")
    assert found.states == tuple(sorted(done.labels))


def test_terminal_states_may_be_named_by_such_a_label(tmp_path: Path) -> None:
    table = {
        "episode": [0, 0], "state": ["a < 1", "1 <= a < 2"], "action": [0, 0], "reward": [0, 1],
        "next_state": ["1 <= a < 2", "a >= 2"],
    }  # fmt: skip
    log = read_log(table, terminal_states=["a >= 2"])
    assert log.terminal[log.states.index("a >= 2")]
