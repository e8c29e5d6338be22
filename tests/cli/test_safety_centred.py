"""surefoot safety-test: whether values are centred, by what the files of both policies say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import logfiles

Tested = Callable[..., dict[str, Any]]
DECLARED = ("--reward-range", "0,1")


@pytest.fixture
def tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Tested:
    """A policy against the rule that made a log, in files that a test may change."""
    log = logfiles.visits(tmp_path / "log.csv", better=0.4)
    rule, pi = (
        logfiles.coin(tmp_path / name, p) for name, p in (("rule.csv", 0.5), ("pi.csv", 0.9))
    )

    def found(*more: Any) -> dict[str, Any]:
        code, text, said = logfiles.run(
            monkeypatch, capsys, "safety-test", log, "--policy", pi, "--baseline", rule,
            "--gamma", 0.9, "--horizon", 1, "--json", *more,
        )  # fmt: skip
        assert code in (0, 3), said
        return dict(json.loads(text))

    return found


def test_values_are_centred_by_the_largest_ratio_of_both_files_whatever_the_log_visits(
    tmp_path: Path, tested: Tested
) -> None:
    found = tested(*DECLARED)
    for name, p in (("rule.csv", (0.1, 0.9)), ("pi.csv", (0.9, 0.1))):
        file = tmp_path / name
        head, *rows = file.read_text().splitlines()
        state = rows[0].split(",")[0]
        more = [x.replace(state, "far", 1) for x in rows if x.startswith(f"{state},")]
        more = [f"{x.rsplit(',', 1)[0]},{y}" for x, y in zip(more, p, strict=True)]
        file.write_text("\n".join([head, *rows, *more]) + "\n")
    wider = tested(*DECLARED)
    assert found["centred"] and wider["centred"]
    low = [x["gain_at_least"] for x in (found, wider)]
    assert abs(low[0] - low[1]) > 0.01 and max(low) < found["estimated_gain"]
    assert found["estimated_gain"] == wider["estimated_gain"]
    (tmp_path / "rule.csv").write_text((tmp_path / "rule.csv").read_text().replace("far", "off"))
    alone, observed = tested(*DECLARED), tested()
    assert (alone["centred"], observed["centred"]) == (False, False)


def test_nothing_is_centred_where_allowed_actions_may_change_the_baseline(
    tmp_path: Path, tested: Tested
) -> None:
    assert tested(*DECLARED)["centred"]
    pairs = [x.rsplit(",", 1)[0] for x in (tmp_path / "rule.csv").read_text().splitlines()]
    allowed = [x for x in pairs if x.split(",")[0] in ("state", "a", "b")]  # the log has no "c"
    (tmp_path / "allowed.csv").write_text("\n".join(allowed) + "\n")
    assert not tested(*DECLARED, "--allowed", tmp_path / "allowed.csv")["centred"]
