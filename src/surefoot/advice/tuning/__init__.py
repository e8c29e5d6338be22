"""Tuning: hyper-parameters from the log alone.

choice       `tune`, of a log, in one line; `choose`: the setting that gains most in models drawn
             from the posterior of the log
posterior    the models: their prior, and what the log says of them
shrinkage    noise taken out of them
simulation   gains in the models, of policies from the log and from simulated logs
"""

from surefoot.advice.tuning.choice import (
    NO_CHANGE,
    Row,
    Setting,
    Tuned,
    Tuning,
    Worth,
    choose,
    default_settings,
    parsed_settings,
    setting,
    tune,
)
from surefoot.advice.tuning.posterior import Posterior
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
