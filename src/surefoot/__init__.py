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
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from surefoot import advice as advice
    from surefoot import algorithms as algorithms
    from surefoot import benchmarks as benchmarks
    from surefoot import certificates as certificates
    from surefoot import diagnosis as diagnosis
    from surefoot import encoding as encoding
    from surefoot import logs as logs
    from surefoot import ope as ope
    from surefoot import planning as planning
    from surefoot import plot as plot
    from surefoot import problems as problems
    from surefoot import rows as rows
    from surefoot import serving as serving
    from surefoot import simulate as simulate
    from surefoot import studies as studies
    from surefoot import theory as theory
    from surefoot import trust as trust
    from surefoot import tuning as tuning
    from surefoot.advice.advise import Advice as Advice
    from surefoot.advice.questions import advise as advise
    from surefoot.advice.questions import certify as certify
    from surefoot.advice.questions import check as check
    from surefoot.advice.questions import compare as compare
    from surefoot.advice.questions import evaluate_policy as evaluate_policy
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
    from surefoot.algorithms.duipi import DUIPI as DUIPI
    from surefoot.algorithms.duipi_centred import CentredDUIPI as CentredDUIPI
    from surefoot.algorithms.hcpi import HCPI as HCPI
    from surefoot.algorithms.one_step import OneStep as OneStep
    from surefoot.algorithms.planned_advantage import PlannedAdvantage as PlannedAdvantage
    from surefoot.algorithms.priced_soft_spibb import PricedSoftSPIBB as PricedSoftSPIBB
    from surefoot.algorithms.r_min import RMin as RMin
    from surefoot.algorithms.ramdp import RaMDP as RaMDP
    from surefoot.algorithms.screened_advantage import ScreenedAdvantage as ScreenedAdvantage
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
    from surefoot.certificates import CERTIFICATES as CERTIFICATES
    from surefoot.certificates import Certificate as Certificate
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
    from surefoot.diagnosis import check_log as check_log
    from surefoot.encoding import discretize as discretize
    from surefoot.errors import BaselineError as BaselineError
    from surefoot.errors import LogError as LogError
    from surefoot.errors import NotAvailableError as NotAvailableError
    from surefoot.errors import ParameterError as ParameterError
    from surefoot.errors import PolicyError as PolicyError
    from surefoot.errors import ProblemError as ProblemError
    from surefoot.errors import SurefootError as SurefootError
    from surefoot.errors import UnknownNameError as UnknownNameError
    from surefoot.improvement import improve as improve
    from surefoot.improvement import problem as problem
    from surefoot.logs import Log as Log
    from surefoot.logs import OfRows as OfRows
    from surefoot.logs import align_policy as align_policy
    from surefoot.logs import load_policy as load_policy
    from surefoot.logs import read_log as read_log
    from surefoot.logs import read_policy as read_policy
    from surefoot.planning import evaluate as evaluate
    from surefoot.planning import evaluate_at_start as evaluate_at_start
    from surefoot.planning import optimal as optimal
    from surefoot.problems import Problem as Problem
    from surefoot.problems import ReturnRange as ReturnRange
    from surefoot.problems import estimate_baseline as estimate_baseline
    from surefoot.problems import monte_carlo as monte_carlo
    from surefoot.problems import thinned_counts as thinned_counts
    from surefoot.serving import Controller as Controller
    from surefoot.serving import apply as apply
    from surefoot.serving import export as export
    from surefoot.serving import load_controller as load_controller
    from surefoot.trust import error_function as error_function
    from surefoot.tuning import tune as tune

_MODULES = ("certificates", "plot", "theory", "tuning")  # public as a whole
# parts for those who build something of their own: they load when they are first used
_PARTS = (
    "advice",
    "algorithms",
    "benchmarks",
    "diagnosis",
    "encoding",
    "logs",
    "ope",
    "planning",
    "problems",
    "rows",
    "serving",
    "simulate",
    "studies",
    "trust",
)
_HOMES = {
    "advice.advise": "Advice",
    "advice.questions": "advise certify check compare evaluate_policy",
    "advice.whole_episodes": "safety_test watch",
    "algorithms": "ALGORITHMS Algorithm Composed algorithm",
    "algorithms.basic_rl": "BasicRL",
    "algorithms.certified_advantage": "CertifiedAdvantage OneStepCertifiedAdvantage",
    "algorithms.duipi": "DUIPI",
    "algorithms.duipi_centred": "CentredDUIPI",
    "algorithms.hcpi": "HCPI",
    "algorithms.one_step": "OneStep",
    "algorithms.priced_soft_spibb": "PricedSoftSPIBB",
    "algorithms.r_min": "RMin",
    "algorithms.ramdp": "RaMDP",
    "algorithms.planned_advantage": "PlannedAdvantage",
    "algorithms.screened_advantage": "ScreenedAdvantage",
    "algorithms.shrunk": "Shrunk",
    "algorithms.soft_spibb": "AdvApproxSoftSPIBB AdvExactSoftSPIBB ApproxSoftSPIBB"
    " ExactSoftSPIBB LowerApproxSoftSPIBB LowerExactSoftSPIBB",
    "algorithms.spibb": "PiBSPIBB PiLeqBSPIBB",
    "algorithms.vi_lcb": "VILCB",
    "algorithms.worst_case": "MBIE RobustMDP",
    "certificates": "CERTIFICATES Certificate",
    "core": "Batch Counts DenseModel Labels Model Policy Returns Solution SparseModel Status"
    " known_model",
    "diagnosis": "check_log",
    "errors": "BaselineError LogError NotAvailableError ParameterError PolicyError ProblemError"
    " SurefootError UnknownNameError",
    "improvement": "improve problem",
    "logs": "Log OfRows align_policy load_policy read_log read_policy",
    "planning": "evaluate evaluate_at_start optimal",
    "problems": "Problem ReturnRange estimate_baseline monte_carlo thinned_counts",
    "encoding": "discretize",
    "serving": "Controller apply export load_controller",
    "trust": "error_function",
    "tuning": "tune",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = sorted((*_HOME, *_MODULES))


def __getattr__(name: str) -> Any:
    if name in _MODULES or name in _PARTS:
        return import_module(f"surefoot.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'surefoot' has no attribute {name!r}")
    found = getattr(import_module(f"surefoot.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted((*__all__, *_PARTS, "__all__", "__doc__", "__version__"))
