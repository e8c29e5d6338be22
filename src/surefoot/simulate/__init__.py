"""Simulation: random draws that depend on nothing but their place, worlds to draw from, and sampled data sets."""

from surefoot.simulate.draws import first_key, trial_numbers
from surefoot.simulate.sampling import Episodes, Sampler
from surefoot.simulate.worlds import Worlds

__all__ = ["Episodes", "Sampler", "Worlds", "first_key", "trial_numbers"]
