"""Operators on rows: one state's action values and probabilities in, the best row within reach out;
no problem, no model.

Everything here works on arrays `[..., A]` of any array-API namespace (NumPy, PyTorch,
array-api-strict), all rows at once. Inside, actions come first (`[A, rows]`): each operation then
runs over one long contiguous axis.
"""

from surefoot.rows.advantage import (
    AdvantageRows,
    RowGuard,
    advantage_gap,
    best_guarded_rows,
)
from surefoot.rows.arrays import namespace
from surefoot.rows.free import FreeRows, free_rows, free_step
from surefoot.rows.sweep import BestRows, best_rows, duality_gap, keep_or_best_rows
from surefoot.rows.trade import trade_rows

__all__ = [
    "AdvantageRows",
    "BestRows",
    "FreeRows",
    "RowGuard",
    "advantage_gap",
    "best_guarded_rows",
    "best_rows",
    "duality_gap",
    "free_rows",
    "free_step",
    "keep_or_best_rows",
    "namespace",
    "trade_rows",
]
