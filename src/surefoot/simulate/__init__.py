"""Simulated data: draws that depend on their place alone, true MDPs, and logs sampled there."""

from surefoot.simulate.draws import first_key, trial_numbers
from surefoot.simulate.sampling import Episodes, Sampler
from surefoot.simulate.worlds import Worlds

__all__ = ["Episodes", "Sampler", "Worlds", "first_key", "trial_numbers"]
