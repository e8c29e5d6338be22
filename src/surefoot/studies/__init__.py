"""Experiments: studies as data, a runner that never loses a trial, and the judging of what they
found.
"""

from surefoot.studies.results import Cell, Results
from surefoot.studies.runner import run
from surefoot.studies.spec import Study, read_study, shipped_study
from surefoot.studies.summaries import summarise, write_summary

__all__ = [
    "Cell",
    "Results",
    "Study",
    "read_study",
    "run",
    "shipped_study",
    "summarise",
    "write_summary",
]
