"""The README and CONTRIBUTING tell the truth: their code and commands run, their lists are complete."""

from __future__ import annotations

import re
import shlex
import string
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import surefoot
from support import logfiles, worlds
from support.documents import PAGES
from surefoot.research.benchmarks import WetChicken

ROOT = Path(__file__).parents[2]


def blocks(file: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / file).read_text(), flags=re.DOTALL)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder from which the files of the checkout are seen, as the current one."""
    (tmp_path / "src").symlink_to(ROOT / "src")
    monkeypatch.chdir(tmp_path)


def test_the_readmes_python_runs(checkout: None) -> None:
    (code,) = blocks("README.md", "python")
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec", dont_inherit=True), names)
    advice = names["advice"]
    assert isinstance(advice, surefoot.Advice) and advice.supported
    assert advice.policy.probabilities("x=2 y=2")["hold"] > 0.5


def test_the_readmes_commands_run(
    checkout: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, printed = "".join(blocks("README.md", "sh")), {}
    given = dict(re.findall(r"^([A-Z]+)=(\S+)$", text, re.M))
    for line in text.splitlines():
        words = shlex.split(string.Template(line).substitute(given), comments=True)
        if words and words[0] == "surefoot":
            code, printed[words[1]], _ = logfiles.run(monkeypatch, capsys, *words[1:])
            assert code == 0, line
        else:
            assert not words or words[0] in ("make", ".") or "=" in words[0], line
    assert list(printed) == ["check", "improve", "apply", "compare"]
    assert printed["improve"].startswith("verdict   SUPPORTED")
    assert Path("improved/report.html").exists()


def test_the_readme_is_a_screen_and_a_half() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 90


def test_the_readmes_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", (ROOT / "README.md").read_text())
    assert len(targets) > 15
    assert [x for x in targets if not (ROOT / x).exists()] == []


def test_the_recipe_for_a_new_algorithm_works() -> None:
    (code,) = blocks("CONTRIBUTING.md", "python")
    names: dict[str, type] = {"__name__": "recipe"}
    exec(compile(code, "CONTRIBUTING.md", "exec", dont_inherit=True), names)
    world = worlds.garnet(np.random.default_rng(0), 6, 3)
    problem = worlds.problem(world, worlds.sample(world, np.random.default_rng(1), 5, 50))
    solution = surefoot.improve(problem, names["OnlyOften"]())
    rare = problem.n_sa <= 0.1 * problem.n_sa.sum(axis=-1, keepdims=True)
    assert rare.any()
    assert np.array_equal(solution.pi[rare], problem.pi_b[rare])
    assert not np.array_equal(solution.pi, problem.pi_b)


def test_docstring_examples_run() -> None:
    import doctest

    import surefoot.algorithms
    import surefoot.algorithms.improvement
    import surefoot.problems.build

    for module in (surefoot.algorithms, surefoot.algorithms.improvement, surefoot.problems.build):
        result = doctest.testmod(module)
        assert result.attempted > 0
        assert result.failed == 0


def test_the_river_is_the_papers() -> None:
    river, twin = WetChicken(), worlds.wet_chicken()
    assert np.allclose(river.p, twin.p, atol=1e-15)
    assert np.array_equal(river.pi_b, twin.pi_b)
    start = np.eye(25)[0]
    best = surefoot.optimal(river.model).pi
    values = [
        float(surefoot.evaluate_at_start(river.model, pi, start))
        for pi in (best, river.pi_b, np.full((25, 5), 0.2))
    ]
    assert values == pytest.approx([43.080, 29.750, 20.660], abs=1e-3)


@pytest.mark.parametrize(
    "changes", [{"length": 3, "width": 7}, {"length": 8, "width": 2, "turbulence": 5.0}]
)
def test_a_rectangular_river_is_a_river(changes: dict[str, float]) -> None:
    river = WetChicken(**changes)
    assert river.p.shape == (river.n_states, 5, river.n_states)
    assert np.allclose(river.p.sum(axis=-1), 1)
    assert (river.p >= 0).all()
    assert np.allclose(river.pi_b.sum(axis=-1), 1)


@pytest.mark.parametrize("changes", [{"length": 0}, {"turbulence": 1.0}, {"epsilon": 1.5}])
def test_a_river_that_cannot_be_is_refused(changes: dict[str, float]) -> None:
    with pytest.raises(surefoot.ParameterError):
        WetChicken(**changes)


def test_import_is_quick_and_light() -> None:
    """No timing: but nothing heavy may be imported before it is needed."""
    code = (
        "import sys, surefoot; print([m for m in ('torch', 'scipy.signal', 'scipy.optimize',"
        " 'pandas', 'numba') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_the_map_names_every_package() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text().split("Thirteen rooms, from high to low")[1]
    named = [name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in row.split(", ")]
    there = {x.stem for x in (ROOT / "src" / "surefoot").glob("[a-z]*")} - {"data", "py"}
    assert sorted(x.strip("`") for x in named if "." not in x) == sorted(there)


DOCUMENTS = ("README.md", "CONTRIBUTING.md", *(f"docs/{x}" for x in PAGES))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_files_that_a_document_names_are_there(document: str) -> None:
    text = (ROOT / document).read_text().replace("algorithms/my_method.py", "algorithms")
    named = re.findall(r"\b(?:src|tests|measurements|examples|docs|papers)/[\w/.-]*\w", text)
    assert [path for path in named if not (ROOT / path).exists()] == []
