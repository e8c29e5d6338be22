"""Studies: defined by objects or read from TOML (spec), run in shards that are never lost, and
summarised.

Running: runner, shards, trials; what two runs share: identity. Summaries: results.
"""

from surefoot.research.studies.results import Cell, Results, summary_rows, write_summary
from surefoot.research.studies.runner import run
from surefoot.research.studies.spec import Study, define_study, read_study, shipped_study
from surefoot.statistics.metrics import Intervals

__all__ = [
    "Cell",
    "Intervals",
    "Results",
    "Study",
    "define_study",
    "read_study",
    "run",
    "shipped_study",
    "summary_rows",
    "write_summary",
]
