"""Diagnosis: what a log can and cannot teach, before anything is learned from it."""

from surefoot.diagnosis.check import check_log
from surefoot.diagnosis.finding import LEVEL, NOTE, OK, WARNING, Finding
from surefoot.diagnosis.gtest import Tables, Tests, g_tests, tables
from surefoot.diagnosis.memory import Verdict

__all__ = ["LEVEL", "NOTE", "OK", "WARNING", "Finding", "Tables", "Tests", "Verdict", "check_log", "g_tests", "tables"]
