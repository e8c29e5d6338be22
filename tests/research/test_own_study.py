"""`surefoot.study`: from names and objects, in a folder that grows, and what results can do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import matplotlib
import numpy as np
import pytest

import surefoot
from surefoot.algorithms import Whole
from surefoot.core import Solution, Status
from surefoot.core.errors import ProblemError, StudyError
from surefoot.research.benchmarks import WetChicken, from_mdp
from surefoot.research.studies import Results, define_study, run, runner
from surefoot.research.studies.identity import digest
from surefoot.research.studies.spec import parse_study, settings, variants

matplotlib.use("Agg")
IN_PROCESSES = runner._in_processes
TEXT = """
name = "study"
seed = 5
trials = 12
alpha = 0.5
[benchmark]
name = "wet-chicken"
sizes = [20, 50]
epsilon = 0.2
[[algorithms]]
name = "basic-rl"
[[algorithms]]
name = "ramdp"
kappa = [1, 2]
"""


@dataclass(frozen=True)
class Stays(Whole):
    """The baseline itself."""

    name: ClassVar[str] = "stays"
    what: Any = field(default=0)

    def solve(self, problem: Any) -> Solution:
        n = problem.pi_b.shape[0]
        status = Status(np.ones(n, dtype=bool), np.ones(n, dtype=int))
        return Solution(problem.pi_b, 0.0 * problem.pi_b, status)


@pytest.fixture(scope="module", autouse=True)
def in_this_process() -> Iterator[None]:
    """Studies of this file are too small for processes of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            runner, "_in_processes", lambda x, missing, _: runner._here(x, missing, "cpu")
        )
        yield


@pytest.fixture(scope="module")
def found(in_this_process: None) -> Results:
    algorithms = [surefoot.BasicRL(), {"name": "ramdp", "kappa": [1, 2]}]
    study = define_study("wet-chicken epsilon=0.2", algorithms, [20, 50], 12, 5, alpha=0.5)
    return run(study, device="cpu", workers=1)


def test_objects_names_and_a_file_are_one_study(found: Results) -> None:
    read = run(parse_study(TEXT, "study.toml"), workers=1)
    assert read.cells == found.cells and (read.score == found.score).all()
    made = [surefoot.BasicRL(), "ramdp kappa=1", surefoot.RaMDP(kappa=2)]
    study = define_study(WetChicken(epsilon=0.2), made, np.array([20, 50]), 12, 5, alpha=0.5)
    assert [x.label for x in found.cells] == [x.label for x in run(study, workers=1).cells]
    assert (run(study, workers=1).score == found.score).all()


def test_a_folder_grows_by_trials_sizes_and_algorithms(tmp_path: Path, found: Results) -> None:
    def asked(algorithms: list[Any], sizes: list[int], trials: int) -> tuple[Results, set[Path]]:
        here = set((tmp_path / "out" / "shards").glob("*"))
        study = define_study("wet-chicken epsilon=0.2", algorithms, sizes, trials, 5)
        results = run(study, tmp_path / "out", workers=1)
        return results, set((tmp_path / "out" / "shards").glob("*")) - here

    first = ["ramdp kappa=1", surefoot.BasicRL()]
    assert len(asked(first, [50], 5)[1]) == 1
    assert len(asked(first, [50], 5)[1]) == 0
    results, new = asked([*first, surefoot.RaMDP(kappa=2)], [20, 50], 12)
    assert len(new) == 3  # the new size and the new algorithm at 5 trials, all at 7 more
    by_label = {
        (cell.label, cell.size): row for cell, row in zip(results.cells, results.score, strict=True)
    }
    for cell, row in zip(found.cells, found.score, strict=True):
        assert by_label[cell.label, cell.size] == pytest.approx(row, abs=1e-9)
    assert (
        asked([{"name": "ramdp", "kappa": [2, 1]}], [50], 9)[1] == set()
    )  # a part of what is there


def test_a_dict_gives_the_names_that_results_show() -> None:
    study = define_study("wet-chicken", {"mine": Stays(), "theirs": "ramdp kappa=2"}, 10, 3)
    results = run(study, workers=1)
    assert [cell.label for cell in results.cells] == ["mine", "theirs"]
    assert results.score[0] == pytest.approx(results.baseline[0])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere this process does the work")
def test_a_class_that_no_other_process_could_load_goes_to_forks_of_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "_in_processes", IN_PROCESSES)
    here = os.getpid()

    @dataclass(frozen=True)
    class Away(Stays):
        name: ClassVar[str] = "away"

        def solve(self, problem: Any) -> Solution:
            assert os.getpid() != here
            return super().solve(problem)

    results = surefoot.study("wet-chicken", Away(), [10, 20], trials=3, workers=2)
    assert results.score == pytest.approx(results.baseline)


SCRIPT = """
from dataclasses import dataclass
from typing import ClassVar
import surefoot
from surefoot.algorithms import Restricts
from surefoot.planning import by_count

@dataclass(frozen=True)
class Often(Restricts):
    name: ClassVar[str] = "often"
    share: float = 0.1
    def trust(self, problem, n):
        return by_count(problem, n > self.share * n.sum(axis=-1, keepdims=True), free_fall=False)

algorithms = [Often(), Often(share=0.2), "basic-rl"][:{how_many}]
print(surefoot.study("wet-chicken", algorithms[{first}:], [30], 6, workers=2).score.sum())
"""


@pytest.mark.slow
@pytest.mark.parametrize(("first", "how_many"), [(0, 3), (2, 3)], ids=["own classes", "names"])
def test_a_script_without_a_main_guard_runs_a_study(
    tmp_path: Path, first: int, how_many: int
) -> None:
    text = SCRIPT.replace("{first}", str(first)).replace("{how_many}", str(how_many))
    (tmp_path / "script.py").write_text(text)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 1 and float(done.stdout) > 0  # it ran once


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"benchmark": "wet-chickn"}, "benchmark: no benchmark is called 'wet-chickn'"),
        ({"benchmark": WetChicken}, r"expected a name or an object of one benchmark.*WetChicken\("),
        ({"benchmark": 3}, "benchmark: expected a name or an object of one benchmark, got int"),
        ({"algorithms": [surefoot.BasicRL]}, r"algorithms\[0\]: expected .*make one: BasicRL\("),
        ({"algorithms": WetChicken()}, r"algorithms\[0\]: expected .*algorithm, got WetChicken"),
        ({"algorithms": None}, "algorithms: must be given"),
        ({"algorithms": []}, "algorithms: "),
        ({"algorithms": ["basic-rl", surefoot.BasicRL()]}, "'basic-rl' is asked for twice"),
        ({"algorithms": {"a": "basic-rl", "b": "basic-rl"}}, "'a' and 'b' are one and the same"),
        ({"algorithms": [Stays(what=object())]}, r"algorithms\[0\]: what is a object"),
        ({"sizes": None}, r"benchmark\.sizes: must be given|sizes: must be given"),
        ({"sizes": [0]}, "sizes"),
        ({"sizes": [10, 10]}, "a size is given twice"),
        ({"trials": None}, "trials: must be given"),
        ({"trials": 0}, "trials: .*0"),
        ({"seed": -1}, "seed: .*-1"),
        ({"alpha": 2}, "alpha: .*2"),
        ({"conventions": "scholl"}, "conventions: .*'scholl'"),
    ],
)
def test_what_is_wrong_with_a_study_is_named(changes: dict[str, Any], words: str) -> None:
    plain = {"benchmark": "wet-chicken", "algorithms": "basic-rl", "sizes": 10, "trials": 2}
    with pytest.raises(StudyError, match=words):
        surefoot.study(**(plain | changes))


def test_a_study_file_says_all_but_trials_and_conventions(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(TEXT)
    with pytest.raises(StudyError, match="says sizes itself"):
        surefoot.study(tmp_path / "study.toml", sizes=[3])
    with pytest.raises(StudyError, match=r"trials: .*-1"):
        surefoot.study(str(tmp_path / "study.toml"), trials=-1)


def test_conventions_set_what_names_leave_open_and_objects_keep_theirs() -> None:
    made = surefoot.ApproxSoftSPIBB(epsilon=1, delta=1)
    entries = ["adv-approx-soft-spibb epsilon=1 delta=1", made]
    study = define_study("wet-chicken", entries, 10, 2, conventions="scholl2022")
    named, kept = (x.algorithm for x in settings(study))
    assert named.published and not kept.published  # type: ignore[attr-defined]
    assert study.problem.ties == "lowest-index"
    assert not variants(study)[0].benchmark.resets  # type: ignore[attr-defined]


def test_numbers_of_a_cell_are_known_by_all_that_decides_them() -> None:
    p, r = np.zeros((2, 2, 2)), np.ones((2, 2))
    p[:, 0, 0] = p[:, 1, 1] = 1
    assert digest(surefoot.RaMDP(kappa=2)) == digest(surefoot.RaMDP(kappa=2.0))
    assert digest(surefoot.RaMDP(kappa=2)) != digest(surefoot.RaMDP(kappa=3))
    assert digest(surefoot.RaMDP(kappa=2)) != digest(surefoot.PiBSPIBB(n_wedge=2))
    assert digest(from_mdp(p, r, 0.9)) == digest(from_mdp(p, r, 0.9))
    assert digest(from_mdp(p, r, 0.9)) != digest(from_mdp(p, r, 0.9, start=1))
    assert digest(from_mdp(p, r, 0.9)) != digest(from_mdp(p[:, ::-1], r, 0.9))
    inner = surefoot.Composed(surefoot.RaMDP(kappa=1), surefoot.PiBSPIBB(n_wedge=2))
    assert digest(inner) == digest(surefoot.algorithm("ramdp+pi-b-spibb", kappa=1, n_wedge=2))


def test_differences_are_paired_and_told_from_the_reference(found: Results) -> None:
    rows = list(found.differences("basic-rl", alpha=0.5))
    assert [(x.size, x.parameters) for x in rows] == [
        (20, "kappa=1"),
        (20, "kappa=2"),
        (50, "kappa=1"),
        (50, "kappa=2"),
    ]
    gap = found.score[4] - found.score[3]
    assert rows[2].mean == pytest.approx(gap.mean()) and rows[2].reference == "basic-rl"
    assert rows[2].mean_low < rows[2].mean < rows[2].mean_high
    worst = np.sort(found.score, axis=1)[:, :6].mean(axis=1)
    assert rows[2].cvar == pytest.approx(worst[4] - worst[3])
    assert np.isnan([x.cvar for x in found.differences("basic-rl", alpha=0.1)]).all()
    with pytest.raises(StudyError, match=r"'ramdp' is the name of several settings.*ramdp kappa=2"):
        found.differences("ramdp")
    with pytest.raises(StudyError, match="'none' is not among the settings"):
        found.differences("none")


def test_results_are_a_frame_with_a_row_a_trial_and_tables_a_row_a_cell(found: Results) -> None:
    pandas = pytest.importorskip("pandas", reason="an extra; make test-all installs it")
    frame = found.to_frame()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 6 * 12
    chosen = frame[(frame["size"] == 50) & (frame["parameters"] == "kappa=2")]
    assert np.array_equal(chosen["score"], found.score[5])
    assert found.summary().to_frame()["mean"].to_numpy() == pytest.approx(found.score.mean(axis=1))
    assert found.summary().rows[0].cvar == pytest.approx(np.sort(found.score[0])[:6].mean())
    text = str(found.summary(alpha=0.01))
    assert "not reported" in text and "1%-CVaR" in text and text.count("\n") == 6
    assert "ramdp" in found.differences("basic-rl")._repr_html_()


def test_a_plot_keeps_to_the_settings_of_matplotlib_and_to_order_and_labels(
    found: Results,
) -> None:
    with matplotlib.rc_context({"lines.linewidth": 7.0, "axes.spines.top": True}):
        panels = found.plot(order=["ramdp kappa=2", "basic-rl"], labels={"basic-rl": "greedy"})
    shown = [x.get_text() for x in panels[0].get_legend().get_texts()]
    assert shown == ["RaMDP", "greedy", "Baseline"]
    assert [x.get_title() for x in panels] == ["Mean", "50%-CVaR"]
    assert panels[0].get_lines()[0].get_linewidth() == 7.0
    assert panels[0].spines["top"].get_visible()
    assert [x.get_title() for x in found.plot(alpha=0.1)] == ["Mean"]  # 1.2 trials in the tail
    assert found.plot("cvar", ax=panels[0])[0] is panels[0]
    with pytest.raises(ProblemError, match="'ramdp' names several settings"):
        found.plot(order=["ramdp"])
    with pytest.raises(ProblemError, match="2 axes are needed"):
        found.plot(ax=panels[0])
    with pytest.raises(ProblemError, match="metric is"):
        found.plot("median")


def test_saved_results_are_what_the_command_writes(found: Results, tmp_path: Path) -> None:
    made = found.save(tmp_path)
    assert [x.name for x in made] == ["figure.svg", "figure.png", "report.html"]
    assert (tmp_path / "summary.csv").read_text().count("\n") == 1 + 6
    assert "Paired differences" in made[2].read_text()
    with pytest.raises(ProblemError, match="not made by a study"):
        Results(found.cells, found.score, found.baseline, found.converged).save(tmp_path)
