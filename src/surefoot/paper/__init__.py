"""The paper's claims judged from results: comparisons with intervals, a verdict on each claim,
claims.md and Table 1.
"""

from surefoot.paper.claim import FAILS, HOLDS, OPEN, Verdict, render_claims
from surefoot.paper.comparisons import Settings
from surefoot.paper.figure_claims import judge_figures
from surefoot.paper.table_1 import TABLE_1, judge_table_1, render_table_1, table_1

__all__ = [
    "FAILS",
    "HOLDS",
    "OPEN",
    "TABLE_1",
    "Settings",
    "Verdict",
    "judge_figures",
    "judge_table_1",
    "render_claims",
    "render_table_1",
    "table_1",
]
