"""Logs: files and tables to labelled counts, with every row accounted for; a log becomes a
Problem here.
"""

from surefoot.logs.accounting import OTHER, REASONS, Accounting
from surefoot.logs.adapters import minari_columns, rollout_columns
from surefoot.logs.baseline import Baseline, estimated_baseline, read_allowed, read_baseline
from surefoot.logs.disagreement import Disagreement, disagreement
from surefoot.logs.log import Log, make_log
from surefoot.logs.on_dask import count_on_dask
from surefoot.logs.progress import progress_bar
from surefoot.logs.read import Options, count_part, read_log
from surefoot.logs.tally import Tally, add_up

__all__ = [
    "OTHER",
    "REASONS",
    "Accounting",
    "Baseline",
    "Disagreement",
    "Log",
    "Options",
    "Tally",
    "add_up",
    "count_on_dask",
    "count_part",
    "disagreement",
    "estimated_baseline",
    "make_log",
    "minari_columns",
    "progress_bar",
    "read_allowed",
    "read_baseline",
    "read_log",
    "rollout_columns",
]
