"""Classes of the user's own by "module:Class": found, checked, and refused in words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import surefoot
from surefoot.algorithms import algorithm
from surefoot.core.errors import ParameterError, UnknownNameError
from surefoot.core.parameters import source_digest
from surefoot.research.benchmarks import benchmark

MODULE = """
from dataclasses import dataclass
from typing import ClassVar
from surefoot.algorithms import Algorithm, BasicRL, Estimates, Restricts
from surefoot.planning import ModelEstimate

class Bare(Estimates):
    name = "bare"
    def estimate(self, problem):
        return ModelEstimate(problem.model, problem.tolerance)

@dataclass(frozen=True)
class Good(Bare):
    name: ClassVar[str] = "ramdp"  # a name that surefoot has too
    kappa: float = 1.0

@dataclass(frozen=True)
class Nameless(Restricts):
    name = property(lambda self: "x")
    def trust(self, problem, n):
        return None

@dataclass(frozen=True)
class Half(Restricts):
    name: ClassVar[str] = "half"

@dataclass(frozen=True)
class Stranger:
    name: ClassVar[str] = "stranger"

@dataclass(frozen=True)
class Scored(Stranger):
    score, sparse = "points", False
    def worlds(self, keys): ...
    def episodes(self, size): ...

def function():
    pass
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the module, a file in the current folder."""
    name = f"mine_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    return name


def test_a_class_of_one_s_own_is_made_and_composed_by_name(module: str) -> None:
    made = algorithm(f"{module}:Good", kappa=3)
    assert (made.name, made.kappa) == ("ramdp", 3)  # type: ignore[attr-defined]
    both = algorithm(f"{module}:Good+lower-exact-soft-spibb", epsilon=0.5, delta=1)
    assert isinstance(both, surefoot.Composed)
    with pytest.raises(ParameterError, match="Good does not take 'xi'; it takes kappa"):
        algorithm(f"{module}:Good", xi=1)


def test_a_class_of_one_s_own_does_not_get_the_defaults_of_its_namesake(module: str) -> None:
    from surefoot.algorithms.defaults import default_parameters

    problem = surefoot.problem(
        state=[0, 1], action=[0, 1], reward=[0.0, 9.0], next_state=[1, 0], episode=[0, 0], gamma=0.5
    )
    assert default_parameters(f"{module}:Good", problem) == {}
    assert default_parameters("ramdp", problem) == {"kappa": 4.5}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("{}:Goood", "has no Goood; its classes are .*Good"),
        ("{}:function", "has a function, not a class, called function"),
        ("{}:Bare", r"is no dataclass: write @dataclass\(frozen=True\)"),
        ("{}:Nameless", "needs a name that results carry"),
        ("{}:Half", "lacks trust: define it in the class"),
        ("{}:Stranger", "is no algorithm: inherit surefoot.algorithms.Estimates"),
        ("{}:Algorithm", "lacks name"),
        ("no_such_module:X", "there is no module 'no_such_module'.*start surefoot in the folder"),
        ("surefoot.nothing:X", "there is no module 'surefoot.nothing'"),
        (":X", "names no class"),
        ("a b:X", "names no class"),
        ("{}:", "names no class"),
        ("{}:A:B", "names no class"),
    ],
)
def test_what_is_no_algorithm_is_refused_in_words(module: str, name: str, words: str) -> None:
    with pytest.raises(UnknownNameError, match=words):
        algorithm(name.format(module))


def test_a_module_that_fails_says_how(module: str, tmp_path: Path) -> None:
    for name, code, words in (
        ("broken", "1 / 0", "'broken', .*cannot be imported: ZeroDivisionError"),
        ("lacking", "import not_there", "'lacking', .*cannot be imported: ModuleNotFoundError"),
    ):
        (tmp_path / f"{name}.py").write_text(code)
        with pytest.raises(UnknownNameError, match=words):
            algorithm(f"{name}:X")


def test_a_benchmark_must_have_its_parts_and_a_score_that_exists(module: str) -> None:
    with pytest.raises(UnknownNameError, match="lacks score, sparse, worlds, episodes"):
        benchmark(f"{module}:Stranger")
    with pytest.raises(UnknownNameError, match="score must be 'normalised' or 'value'"):
        benchmark(f"{module}:Scored")


def test_the_digest_of_a_class_is_that_of_its_file(module: str, tmp_path: Path) -> None:
    before = source_digest(f"{module}:Good")
    assert before == source_digest(f"{module}:Half")
    (tmp_path / f"{module}.py").write_text(MODULE + "# changed\n")
    assert before != source_digest(f"{module}:Good") != ""
