"""Tuning: hyper-parameters from the log alone.

asked          `tune`: of a log, in one line
choice         `choose`: the setting that gains most in models drawn from the posterior of the log
settings       what is tried
prior, posterior, shrinkage   the models: their prior, what the log says of them, noise taken out
simulation     gains in the models, of policies from the log and from simulated logs
"""

from surefoot.advice.tuning.asked import Tuned, tune
from surefoot.advice.tuning.choice import Row, Tuning, Worth, choose
from surefoot.advice.tuning.posterior import Posterior
from surefoot.advice.tuning.settings import (
    NO_CHANGE,
    Setting,
    default_settings,
    parsed_settings,
    setting,
)
from surefoot.advice.tuning.shrinkage import Shrinkage
from surefoot.advice.tuning.simulation import Simulation, simulate

__all__ = [
    "NO_CHANGE",
    "Posterior",
    "Row",
    "Setting",
    "Shrinkage",
    "Simulation",
    "Tuned",
    "Tuning",
    "Worth",
    "choose",
    "default_settings",
    "parsed_settings",
    "setting",
    "simulate",
    "tune",
]
