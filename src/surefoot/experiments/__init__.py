"""Experiments: studies as data, a runner that never loses a trial, and the judging of what they found."""

from surefoot.experiments.results import Cell, Results
from surefoot.experiments.runner import run
from surefoot.experiments.spec import Study, read_study, shipped_study
from surefoot.experiments.summary import summarise, write_summary

__all__ = ["Cell", "Results", "Study", "read_study", "run", "shipped_study", "summarise", "write_summary"]
