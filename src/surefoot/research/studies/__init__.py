"""Studies: read from TOML (spec), run in shards that are never lost, and summarised.

Running: runner, trials. Summaries: results.
"""

from surefoot.research.studies.results import Cell, Results, summary_rows, write_summary
from surefoot.research.studies.runner import run
from surefoot.research.studies.spec import Study, read_study, shipped_study
from surefoot.statistics.metrics import Intervals

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
