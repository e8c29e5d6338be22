"""Evidence: is pi better than pi_b here, and how sure is that? Held-out units, weighted episodes,
proofs and hidden causes. Verdicts rest on rows of `surefoot.core.evidence.Evidence`; those of units
are made in `surefoot.advice`, by `gain` and `parts`.
"""

from surefoot.evidence.confounding import Sensitivity, sensitivity
from surefoot.evidence.episode_values import GAIN, LOSS, VALUE, Standard, episode_values
from surefoot.evidence.estimates import (
    EpisodeValues,
    doubly_robust,
    fitted_model,
    importance_sampling,
    model_based,
    per_decision,
    weighted_importance_sampling,
    weighted_per_decision,
)
from surefoot.evidence.gain_test import MIXTURE_ALPHAS, best_of, evidence_of, mixtures
from surefoot.evidence.return_evidence import ReturnEvidence, evidence, with_independent_returns
from surefoot.evidence.unit_model import Comparison, UnitModel, model_of_units
from surefoot.evidence.units import (
    Units,
    log_and_units_on_dask,
    split_episodes,
    take_episodes,
    units_of,
    units_of_batch,
    units_of_log,
    units_of_tallies,
)
from surefoot.evidence.weights import Overlap, overlap

__all__ = [
    "GAIN",
    "LOSS",
    "MIXTURE_ALPHAS",
    "VALUE",
    "Comparison",
    "EpisodeValues",
    "Overlap",
    "ReturnEvidence",
    "Sensitivity",
    "Standard",
    "UnitModel",
    "Units",
    "best_of",
    "doubly_robust",
    "episode_values",
    "evidence",
    "evidence_of",
    "fitted_model",
    "importance_sampling",
    "log_and_units_on_dask",
    "mixtures",
    "model_based",
    "model_of_units",
    "overlap",
    "per_decision",
    "sensitivity",
    "split_episodes",
    "take_episodes",
    "units_of",
    "units_of_batch",
    "units_of_log",
    "units_of_tallies",
    "weighted_importance_sampling",
    "weighted_per_decision",
    "with_independent_returns",
]
