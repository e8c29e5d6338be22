"""Off-policy evaluation: the value of a policy from the log of another, lower bounds on it, and
tests that act on them.
"""

from surefoot.ope.bounds import (
    Forecast,
    bca,
    choose_cap,
    hoeffding,
    maurer_pontil,
    student_t,
    uncapped_betting,
)
from surefoot.ope.episode_values import (
    GAIN,
    LOSS,
    VALUE,
    Standard,
    episode_values,
)
from surefoot.ope.episodes import split_episodes, take_episodes
from surefoot.ope.estimates import (
    EpisodeValues,
    importance_sampling,
    per_decision,
    weighted_importance_sampling,
    weighted_per_decision,
)
from surefoot.ope.gain_test import (
    MIXTURE_ALPHAS,
    best_of,
    evidence_of,
    mixtures,
)
from surefoot.ope.models import doubly_robust, fitted_model, model_based
from surefoot.ope.weights import Overlap, overlap

__all__ = [
    "GAIN",
    "LOSS",
    "MIXTURE_ALPHAS",
    "VALUE",
    "EpisodeValues",
    "Forecast",
    "Overlap",
    "Standard",
    "bca",
    "best_of",
    "choose_cap",
    "doubly_robust",
    "episode_values",
    "evidence_of",
    "fitted_model",
    "hoeffding",
    "importance_sampling",
    "maurer_pontil",
    "mixtures",
    "model_based",
    "overlap",
    "per_decision",
    "split_episodes",
    "student_t",
    "take_episodes",
    "uncapped_betting",
    "weighted_importance_sampling",
    "weighted_per_decision",
]
