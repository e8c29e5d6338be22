"""Diagnosis: what a log can and cannot teach, before anything is learned from it.

check_log      the list of questions; `vetoes` those that make a promise untrue
coverage       what the counts say
memory, drift, copies, time_order, cuts   one question each: is it Markov (and which history would
               do), does it change, is every episode there once, do the rows follow each other, is
               anything left out for how it went
walk           one walk over the rows collects what these need
independence   the statistical tests
finding        an answer, of several tests where need be
"""

from surefoot.checks.check_log import check_log, vetoes, wrong_weights
from surefoot.checks.copies import Copies, copies
from surefoot.checks.finding import KEYS, NOTE, OK, WARNING, Finding

__all__ = [
    "KEYS",
    "NOTE",
    "OK",
    "WARNING",
    "Copies",
    "Finding",
    "check_log",
    "copies",
    "vetoes",
    "wrong_weights",
]
