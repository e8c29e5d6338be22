"""Structured Text of IEC 61131-3: read by a parser of it, but compiled and run by nothing here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.core.errors import ParameterError
from surefoot.serving import Controller, KMeansEncoder, QuantileEncoder, function_block

ENCODER = QuantileEncoder(("lactate", "heart rate"), ((4.0,), (-0.5, 1e-7)), ("heart rate",))


def policy(pi: Any, baseline: Any = None, actions: tuple[str, ...] = ("fluids", "hold")) -> Any:
    labels = surefoot.Labels(ENCODER.labels[: len(pi)], actions)
    return surefoot.Policy(pi=np.array(pi), labels=labels, baseline=baseline)


def branches(text: str) -> list[tuple[str, str]]:
    return re.findall(r"(?:IF|ELSIF) (.*) THEN\n  decision := (\d+);", text)


def test_each_state_is_a_branch_with_its_cut_points() -> None:
    pi = np.eye(2)[[0, 1, 0, 1, 0, 1, 1]]
    text = function_block(Controller(policy=policy(pi), encoder=ENCODER, otherwise="hold"))
    assert branches(text) == [
        (
            "NOT has_lactate OR NOT (ABS(in_lactate) < LREAL#1.0E308)"
            " OR (has_heart_rate AND NOT (ABS(in_heart_rate) < LREAL#1.0E308))",
            "2",
        ),
        ("in_lactate < LREAL#4.0 AND has_heart_rate AND in_heart_rate < LREAL#-0.5", "1"),
        (
            "in_lactate < LREAL#4.0 AND has_heart_rate AND in_heart_rate >= LREAL#-0.5"
            " AND in_heart_rate < LREAL#1.0E-7",
            "2",
        ),
        ("in_lactate < LREAL#4.0 AND has_heart_rate AND in_heart_rate >= LREAL#1.0E-7", "1"),
        ("in_lactate < LREAL#4.0 AND NOT has_heart_rate", "2"),
        ("in_lactate >= LREAL#4.0 AND has_heart_rate AND in_heart_rate < LREAL#-0.5", "1"),
        (
            "in_lactate >= LREAL#4.0 AND has_heart_rate AND in_heart_rate >= LREAL#-0.5"
            " AND in_heart_rate < LREAL#1.0E-7",
            "2",
        ),
        ("in_lactate >= LREAL#4.0 AND has_heart_rate AND in_heart_rate >= LREAL#1.0E-7", "2"),
    ]
    assert text.endswith("ELSE\n  decision := 2;\nEND_IF;\nEND_FUNCTION_BLOCK\n")
    assert "decision : INT; (* 0: as before; 1: fluids; 2: hold *)" in text


def test_a_state_that_stays_a_lottery_is_as_before_and_a_new_lottery_is_refused() -> None:
    mixed = [[0.5, 0.5], [1.0, 0.0]]
    same = policy(mixed, baseline=np.array([[0.5, 0.5], [0.0, 1.0]]))
    text = function_block(Controller(policy=same, encoder=ENCODER))
    assert [code for _, code in branches(text)] == ["0", "0", "1"]
    for baseline in (None, np.array([[0.4, 0.6], [0.0, 1.0]])):
        with pytest.raises(ParameterError, match=r"no lots, and in 1 of 2 states.*--deterministic"):
            function_block(Controller(policy=policy(mixed, baseline), encoder=ENCODER))


def test_a_second_policy_decides_where_the_first_knows_nothing() -> None:
    labels = surefoot.Labels(ENCODER.labels, ("call",))
    second = surefoot.Policy(pi=np.ones((len(ENCODER.labels), 1)), labels=labels)
    text = function_block(Controller(policy=policy(np.eye(2)), encoder=ENCODER, otherwise=second))
    assert [code for _, code in branches(text)] == ["0", "1", "2"] + ["3"] * len(ENCODER.labels)


def test_what_it_cannot_say_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="decides from raw readings: give the encoder"):
        function_block(Controller(policy=policy(np.eye(2))))
    centres = KMeansEncoder(("p",), (0.0,), (1.0,), ((0.0,), (1.0,)))
    labels = surefoot.Labels(centres.labels, ("x", "y"))
    clusters = surefoot.Policy(pi=np.eye(2), labels=labels)
    with pytest.raises(ParameterError, match="Structured Text has no kmeans encoder"):
        function_block(Controller(policy=clusters, encoder=centres))
    controller = Controller(policy=policy(np.eye(2)), encoder=ENCODER)
    with pytest.raises(ParameterError, match="--key is for SQL"):
        surefoot.export(controller, tmp_path / "d.st", key=["stay"])


@pytest.mark.slow
def test_a_parser_reads_it_whatever_the_names_are(tmp_path: Path) -> None:
    parse = pytest.importorskip("blark.parse").parse_source_code
    names = ("if", "Ünits (*per*) day", "a__b", "A b", "_", "7", "action")
    encoder = QuantileEncoder(names, ((1e300,), (-2.5e-9, 3.0), (), (), (), (), (0.0,)), ("if",))
    labels = surefoot.Labels(encoder.labels[:-1], ("*) END_IF", "ü", "(* x"))
    pi = np.eye(3)[np.arange(len(encoder.labels) - 1) % 3]
    controller = Controller(policy=surefoot.Policy(pi=pi, labels=labels), encoder=encoder)
    surefoot.export(controller, tmp_path / "d.st", otherwise="ü")
    text = (tmp_path / "d.st").read_text()
    found = parse(text)
    assert found.exception is None, found.exception
    (block,) = found.transform().items
    assert block.name == "surefoot_decision"
    inputs = re.findall(r"^  (\w+) : (?:LREAL|BOOL)", text, re.M)
    assert len({x.lower() for x in inputs}) == 2 * len(names)
    assert parse(text.replace("END_IF;\nEND_F", "END_F")).exception is not None
