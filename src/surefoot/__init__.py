"""surefoot: improve a decision policy from its own log, and do not make it worse.

The one question, as the command `surefoot improve` asks it: is there a better policy in this log,
and how sure is that?

    advice = surefoot.advise("log.csv", gamma=0.95, baseline="rule.csv", reward_range=(0, 1))
    print(advice)              # the verdict, and what it rests on
    advice.save("improved")    # policy.csv, report.html and the rest
    action = advice.policy.act(state, rng)

The straight line below it, without a test: a log becomes a `Problem`, an algorithm makes it a
`Solution`.

    problem = surefoot.problem("log.csv", gamma=0.95, pi_b="rule.csv", reward_range=(0, 1))
    solution = surefoot.improve(problem)

`surefoot.core` holds the glossary. Names are loaded when they are first used: `import surefoot`
takes milliseconds.
"""

from importlib import import_module
from sys import modules
from types import ModuleType
from typing import TYPE_CHECKING, Any
from warnings import warn

__version__ = "0.2.0"

if TYPE_CHECKING:
    from surefoot import advice as advice
    from surefoot import algorithms as algorithms
    from surefoot import checks as checks
    from surefoot import core as core
    from surefoot import evidence as evidence
    from surefoot import logs as logs
    from surefoot import planning as planning
    from surefoot import problems as problems
    from surefoot import report as report
    from surefoot import research as research
    from surefoot import serving as serving
    from surefoot import statistics as statistics
    from surefoot.advice import plot as plot
    from surefoot.advice import tuning as tuning
    from surefoot.advice.learn_and_test import Advice as Advice
    from surefoot.advice.next_log import plan as plan
    from surefoot.advice.questions import advise as advise
    from surefoot.advice.questions import certify as certify
    from surefoot.advice.questions import check as check
    from surefoot.advice.questions import compare as compare
    from surefoot.advice.questions import evaluate_policy as evaluate_policy
    from surefoot.advice.tuning import tune as tune
    from surefoot.advice.whole_episodes import safety_test as safety_test
    from surefoot.advice.whole_episodes import watch as watch
    from surefoot.algorithms import ALGORITHMS as ALGORITHMS
    from surefoot.algorithms import Algorithm as Algorithm
    from surefoot.algorithms import Composed as Composed
    from surefoot.algorithms import algorithm as algorithm
    from surefoot.algorithms.basic_rl import BasicRL as BasicRL
    from surefoot.algorithms.certified_advantage import CertifiedAdvantage as CertifiedAdvantage
    from surefoot.algorithms.certified_advantage import (
        OneStepCertifiedAdvantage as OneStepCertifiedAdvantage,
    )
    from surefoot.algorithms.certified_advantage import PlannedAdvantage as PlannedAdvantage
    from surefoot.algorithms.certified_advantage import ScreenedAdvantage as ScreenedAdvantage
    from surefoot.algorithms.duipi import DUIPI as DUIPI
    from surefoot.algorithms.duipi import CentredDUIPI as CentredDUIPI
    from surefoot.algorithms.factored import Factored as Factored
    from surefoot.algorithms.hcpi import HCPI as HCPI
    from surefoot.algorithms.improvement import improve as improve
    from surefoot.algorithms.improvement import problem as problem
    from surefoot.algorithms.one_step import OneStep as OneStep
    from surefoot.algorithms.priced_soft_spibb import PricedSoftSPIBB as PricedSoftSPIBB
    from surefoot.algorithms.r_min import RMin as RMin
    from surefoot.algorithms.ramdp import RaMDP as RaMDP
    from surefoot.algorithms.shrunk import Shrunk as Shrunk
    from surefoot.algorithms.soft_spibb import AdvApproxSoftSPIBB as AdvApproxSoftSPIBB
    from surefoot.algorithms.soft_spibb import AdvExactSoftSPIBB as AdvExactSoftSPIBB
    from surefoot.algorithms.soft_spibb import ApproxSoftSPIBB as ApproxSoftSPIBB
    from surefoot.algorithms.soft_spibb import ExactSoftSPIBB as ExactSoftSPIBB
    from surefoot.algorithms.soft_spibb import LowerApproxSoftSPIBB as LowerApproxSoftSPIBB
    from surefoot.algorithms.soft_spibb import LowerExactSoftSPIBB as LowerExactSoftSPIBB
    from surefoot.algorithms.spibb import PiBSPIBB as PiBSPIBB
    from surefoot.algorithms.spibb import PiLeqBSPIBB as PiLeqBSPIBB
    from surefoot.algorithms.vi_lcb import VILCB as VILCB
    from surefoot.algorithms.worst_case import MBIE as MBIE
    from surefoot.algorithms.worst_case import RobustMDP as RobustMDP
    from surefoot.checks import check_log as check_log
    from surefoot.core import Batch as Batch
    from surefoot.core import Counts as Counts
    from surefoot.core import DenseModel as DenseModel
    from surefoot.core import Labels as Labels
    from surefoot.core import Model as Model
    from surefoot.core import Policy as Policy
    from surefoot.core import Returns as Returns
    from surefoot.core import Solution as Solution
    from surefoot.core import SparseModel as SparseModel
    from surefoot.core import Status as Status
    from surefoot.core import known_model as known_model
    from surefoot.core.errors import BaselineError as BaselineError
    from surefoot.core.errors import LogError as LogError
    from surefoot.core.errors import NotAvailableError as NotAvailableError
    from surefoot.core.errors import ParameterError as ParameterError
    from surefoot.core.errors import PolicyError as PolicyError
    from surefoot.core.errors import ProblemError as ProblemError
    from surefoot.core.errors import SurefootError as SurefootError
    from surefoot.core.errors import UnknownNameError as UnknownNameError
    from surefoot.evidence import certificates as certificates
    from surefoot.evidence import theory as theory
    from surefoot.evidence.bound import Certificate as Certificate
    from surefoot.evidence.certificates import CERTIFICATES as CERTIFICATES
    from surefoot.logs import Log as Log
    from surefoot.logs import OfRows as OfRows
    from surefoot.logs import align_policy as align_policy
    from surefoot.logs import load_policy as load_policy
    from surefoot.logs import read_log as read_log
    from surefoot.logs import read_policy as read_policy
    from surefoot.planning import error_function as error_function
    from surefoot.planning import evaluate as evaluate
    from surefoot.planning import evaluate_at_start as evaluate_at_start
    from surefoot.planning import optimal as optimal
    from surefoot.problems import Problem as Problem
    from surefoot.problems import ReturnRange as ReturnRange
    from surefoot.problems import estimate_baseline as estimate_baseline
    from surefoot.problems import monte_carlo as monte_carlo
    from surefoot.problems import thinned_counts as thinned_counts
    from surefoot.research.score_table import benchmark as benchmark
    from surefoot.research.studies.runner import study as study
    from surefoot.serving import Controller as Controller
    from surefoot.serving import apply as apply
    from surefoot.serving import discretize as discretize
    from surefoot.serving import export as export
    from surefoot.serving import load_controller as load_controller

# the rooms of the house, and four files that are public as a whole
_ROOMS = (
    "advice",
    "algorithms",
    "checks",
    "core",
    "evidence",
    "logs",
    "planning",
    "problems",
    "report",
    "research",
    "serving",
    "statistics",
)
_MODULES = {
    "certificates": "evidence.certificates",
    "plot": "advice.plot",
    "theory": "evidence.theory",
    "tuning": "advice.tuning",
}
_HOMES = {
    "advice.learn_and_test": "Advice",
    "advice.next_log": "plan",
    "advice.questions": "advise certify check compare evaluate_policy",
    "advice.whole_episodes": "safety_test watch",
    "algorithms": "ALGORITHMS Algorithm Composed algorithm",
    "algorithms.certified_advantage": "CertifiedAdvantage OneStepCertifiedAdvantage"
    " PlannedAdvantage ScreenedAdvantage",
    "algorithms.duipi": "CentredDUIPI DUIPI",
    "algorithms.factored": "Factored",
    "algorithms.hcpi": "HCPI",
    "algorithms.basic_rl": "BasicRL",
    "algorithms.one_step": "OneStep",
    "algorithms.r_min": "RMin",
    "algorithms.ramdp": "RaMDP",
    "algorithms.priced_soft_spibb": "PricedSoftSPIBB",
    "algorithms.shrunk": "Shrunk",
    "algorithms.soft_spibb": "AdvApproxSoftSPIBB AdvExactSoftSPIBB ApproxSoftSPIBB"
    " ExactSoftSPIBB LowerApproxSoftSPIBB LowerExactSoftSPIBB",
    "algorithms.spibb": "PiBSPIBB PiLeqBSPIBB",
    "algorithms.vi_lcb": "VILCB",
    "algorithms.worst_case": "MBIE RobustMDP",
    "evidence.bound": "Certificate",
    "evidence.certificates": "CERTIFICATES",
    "core": "Batch Counts DenseModel Labels Model Policy Returns Solution SparseModel Status"
    " known_model",
    "checks": "check_log",
    "core.errors": "BaselineError LogError NotAvailableError ParameterError PolicyError"
    " ProblemError SurefootError UnknownNameError",
    "algorithms.improvement": "improve problem",
    "logs": "Log OfRows align_policy load_policy read_log read_policy",
    "planning": "error_function evaluate evaluate_at_start optimal",
    "problems": "Problem ReturnRange estimate_baseline monte_carlo thinned_counts",
    "research.score_table": "benchmark",
    "research.studies.runner": "study",
    "serving": "Controller apply discretize export load_controller",
    "advice.tuning": "tune",
}
# packages of 0.1: their names lead to where things are now, for one release
_FORMER = {
    "benchmarks": "research.benchmarks",
    "diagnosis": "checks",
    "encoding": "serving",
    "errors": "core.errors",
    "improvement": "algorithms.improvement",
    "ope": "evidence statistics",
    "paper": "research.paper",
    "returns": "evidence",
    "rows": "planning core.arrays",
    "simulate": "research.simulate",
    "studies": "research.studies statistics.metrics",
    "trust": "planning statistics.radii",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = sorted((*_HOME, *_MODULES))


class _Former(ModuleType):
    """A package that has moved: its names, where they are now."""

    def __getattr__(self, name: str) -> Any:
        for module in self.__dict__["_now"]:
            if not name.startswith("__") and hasattr(found := import_module(module), name):
                said = f"{self.__name__}.{name} is {module}.{name} now"
                warn(said, DeprecationWarning, stacklevel=2)
                return getattr(found, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


for _name, _now in {**_FORMER, **_MODULES}.items():
    _former = modules.setdefault(f"surefoot.{_name}", _Former(f"surefoot.{_name}"))
    _former.__dict__["_now"] = [f"surefoot.{x}" for x in _now.split()]


def __getattr__(name: str) -> Any:
    if name in _FORMER:
        return modules[f"surefoot.{name}"]
    if name in _ROOMS or name in _MODULES:
        return import_module(f"surefoot.{_MODULES.get(name, name)}")
    if name not in _HOME:
        raise AttributeError(f"module 'surefoot' has no attribute {name!r}")
    found = getattr(import_module(f"surefoot.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted((*__all__, *_ROOMS, "__all__", "__doc__", "__version__"))
