"""Advice: what a log says about improving its baseline, whether the data support it, and the
files that hold it.
"""

from surefoot.advice.advise import Advice, learn_and_test
from surefoot.advice.assurance import assure
from surefoot.advice.files import write_advice
from surefoot.advice.gain import Gain, held_out_gain
from surefoot.advice.questions import advise, certify, check, compare, evaluate_policy
from surefoot.advice.safety import Tested
from surefoot.advice.summary import summarise
from surefoot.advice.verdict import NOT_SUPPORTED, NOTHING_TO_LEARN, SUPPORTED, Verdict
from surefoot.advice.whole_episodes import safety_test, watch
from surefoot.algorithms.defaults import DEFAULT, chosen_algorithm, default_parameters
from surefoot.core.plain_values import plain
from surefoot.evidence.confounding import Sensitivity, sensitivity
from surefoot.evidence.unit_model import Comparison, UnitModel, model_of_units
from surefoot.evidence.units import (
    Units,
    log_and_units_on_dask,
    units_of,
    units_of_batch,
    units_of_log,
    units_of_tallies,
)

__all__ = [
    "DEFAULT",
    "NOTHING_TO_LEARN",
    "NOT_SUPPORTED",
    "SUPPORTED",
    "Advice",
    "Comparison",
    "Gain",
    "Sensitivity",
    "Tested",
    "UnitModel",
    "Units",
    "Verdict",
    "advise",
    "assure",
    "certify",
    "check",
    "chosen_algorithm",
    "compare",
    "default_parameters",
    "evaluate_policy",
    "held_out_gain",
    "learn_and_test",
    "log_and_units_on_dask",
    "model_of_units",
    "plain",
    "safety_test",
    "sensitivity",
    "summarise",
    "units_of",
    "units_of_batch",
    "units_of_log",
    "units_of_tallies",
    "watch",
    "write_advice",
]
