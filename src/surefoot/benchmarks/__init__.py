"""Benchmarks: known MDPs with a baseline, one file each, to measure algorithms against the truth."""

from surefoot.benchmarks.wet_chicken import WetChicken

__all__ = ["WetChicken"]
