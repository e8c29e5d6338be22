"""Studies: read from TOML (spec), run in shards that are never lost, and summarised.

Running: runner, shards, trials. Summaries: results, metrics.
"""

from surefoot.studies.metrics import Intervals
from surefoot.studies.results import Cell, Results, summary_rows, write_summary
from surefoot.studies.runner import run
from surefoot.studies.spec import Study, read_study, shipped_study

__all__ = [
    "Cell",
    "Intervals",
    "Results",
    "Study",
    "read_study",
    "run",
    "shipped_study",
    "summary_rows",
    "write_summary",
]
