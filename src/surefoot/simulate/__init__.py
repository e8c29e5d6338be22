"""Simulated data: draws fixed by seed, trial, episode and step; true MDPs; logs sampled there."""

from surefoot.simulate.draws import first_key, trial_numbers
from surefoot.simulate.sampling import Episodes, Sampler
from surefoot.simulate.worlds import Worlds

__all__ = ["Episodes", "Sampler", "Worlds", "first_key", "trial_numbers"]
