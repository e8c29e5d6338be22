"""Tuning: hyper-parameters from the log alone: by posterior simulation, from a wanted bound,
along the epsilon path.
"""

from surefoot.tuning.choice import Row, Tuning, Worth, tune
from surefoot.tuning.epsilon_path import PathPoint, epsilon_path, row_paths
from surefoot.tuning.heldout import HeldOut, held_out
from surefoot.tuning.posterior import Posterior
from surefoot.tuning.settings import NO_CHANGE, Setting, default_settings, parsed_settings, setting
from surefoot.tuning.shrinkage import Shrinkage
from surefoot.tuning.simulation import Simulation, simulate
from surefoot.tuning.wedge import Wedge, n_wedge_for

__all__ = [
    "NO_CHANGE",
    "HeldOut",
    "PathPoint",
    "Posterior",
    "Row",
    "Setting",
    "Shrinkage",
    "Simulation",
    "Tuning",
    "Wedge",
    "Worth",
    "default_settings",
    "epsilon_path",
    "held_out",
    "n_wedge_for",
    "parsed_settings",
    "row_paths",
    "setting",
    "simulate",
    "tune",
]
