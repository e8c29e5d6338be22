"""Tuning: hyper-parameters from the log alone.

asked          `tune`: of a log, in one line
choice         `choose`: the setting that gains most in models drawn from the posterior of the log
settings       what is tried
prior, posterior, shrinkage   the models: their prior, what the log says of them, noise taken out
simulation     gains in the models, of policies from the log and from simulated logs
wedge          n_wedge from a wanted bound
history_choice how many steps a state should remember
"""

from surefoot.tuning.asked import Bounded, Tuned, tune
from surefoot.tuning.choice import Row, Tuning, Worth, choose
from surefoot.tuning.history_choice import TriedHistory, best_history, try_history
from surefoot.tuning.posterior import Posterior
from surefoot.tuning.settings import NO_CHANGE, Setting, default_settings, parsed_settings, setting
from surefoot.tuning.shrinkage import Shrinkage
from surefoot.tuning.simulation import Simulation, simulate
from surefoot.tuning.wedge import Wedge, n_wedge_for

__all__ = [
    "NO_CHANGE",
    "Bounded",
    "Posterior",
    "Row",
    "Setting",
    "Shrinkage",
    "Simulation",
    "TriedHistory",
    "Tuned",
    "Tuning",
    "Wedge",
    "Worth",
    "best_history",
    "choose",
    "default_settings",
    "n_wedge_for",
    "parsed_settings",
    "setting",
    "simulate",
    "try_history",
    "tune",
]
