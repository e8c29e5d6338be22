"""Simulated data: draws fixed by seed, trial, episode and step; true MDPs; logs sampled there."""

from surefoot.research.simulate.sampling import Episodes, Sampler, first_key, trial_numbers
from surefoot.research.simulate.worlds import Worlds

__all__ = ["Episodes", "Sampler", "Worlds", "first_key", "trial_numbers"]
