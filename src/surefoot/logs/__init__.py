"""Logs: files and tables to labelled counts, with every row accounted for; a log becomes a
Problem here.
"""

from surefoot.logs.accounting import OTHER, REASONS, Accounting
from surefoot.logs.database import progress_bar
from surefoot.logs.disagreement import Disagreement, disagreement
from surefoot.logs.given_policies import OfRows, align_policy, averaged
from surefoot.logs.histories import remembered
from surefoot.logs.log import Log
from surefoot.logs.policy_files import (
    load_policy,
    permitted,
    read_allowed,
    read_forbidden,
    read_policy,
)
from surefoot.logs.query import Options
from surefoot.logs.read import count_part, make_log, read_log
from surefoot.logs.rollouts import rollout_columns
from surefoot.logs.tally import Tally, add_up

__all__ = [
    "OTHER",
    "REASONS",
    "Accounting",
    "Disagreement",
    "Log",
    "OfRows",
    "Options",
    "Tally",
    "add_up",
    "align_policy",
    "averaged",
    "count_part",
    "disagreement",
    "load_policy",
    "make_log",
    "permitted",
    "progress_bar",
    "read_allowed",
    "read_forbidden",
    "read_log",
    "read_policy",
    "remembered",
    "rollout_columns",
]
