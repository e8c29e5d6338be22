"""Off-policy evaluation: the value of a policy from the log of another, lower bounds on it, and
tests that act on them.
"""

from surefoot.ope.bounds import (
    LowerBound,
    bca,
    hoeffding,
    maurer_pontil,
    student_t,
    uncapped_betting,
)
from surefoot.ope.caps import Forecast, choose_cap
from surefoot.ope.episodes import split_episodes, take_episodes
from surefoot.ope.estimates import (
    ValueEstimate,
    importance_sampling,
    per_decision,
    weighted_importance_sampling,
    weighted_per_decision,
)
from surefoot.ope.gain_test import (
    EpisodeValues,
    Evidence,
    Standard,
    episode_values,
    improvement_bound,
    value_bound,
    worsening_bound,
)
from surefoot.ope.models import doubly_robust, fitted_model, model_based
from surefoot.ope.split_test import ALPHAS, Verdict, hcpi, mixtures, safety_test
from surefoot.ope.weights import Overlap, overlap

__all__ = [
    "ALPHAS",
    "EpisodeValues",
    "Evidence",
    "Forecast",
    "LowerBound",
    "Overlap",
    "Standard",
    "ValueEstimate",
    "Verdict",
    "bca",
    "choose_cap",
    "doubly_robust",
    "episode_values",
    "fitted_model",
    "hcpi",
    "hoeffding",
    "importance_sampling",
    "improvement_bound",
    "maurer_pontil",
    "mixtures",
    "model_based",
    "overlap",
    "per_decision",
    "safety_test",
    "split_episodes",
    "student_t",
    "take_episodes",
    "uncapped_betting",
    "value_bound",
    "weighted_importance_sampling",
    "weighted_per_decision",
    "worsening_bound",
]
