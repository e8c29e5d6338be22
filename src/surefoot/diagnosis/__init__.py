"""Diagnosis: what a log can and cannot teach, before anything is learned from it."""

from surefoot.diagnosis.check_log import check_log, vetoes
from surefoot.diagnosis.combined import Verdict
from surefoot.diagnosis.copies import Copies, copies
from surefoot.diagnosis.finding import KEYS, LEVEL, NOTE, OK, WARNING, Finding
from surefoot.diagnosis.gtest import Tables, Tests, g_tests, tables

__all__ = [
    "KEYS",
    "LEVEL",
    "NOTE",
    "OK",
    "WARNING",
    "Copies",
    "Finding",
    "Tables",
    "Tests",
    "Verdict",
    "check_log",
    "copies",
    "g_tests",
    "tables",
    "vetoes",
]
