"""The budget path: the best rows for every budget at once, as the events of the sweep with what
each costs and gains.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surefoot.rows.sweep import TINY


@dataclass(frozen=True)
class BudgetPath:
    """The best value of one row as a function of its budget: concave, piecewise linear, with these
    breakpoints.

    budget, gain, moved [events + 1]: the budget at which an event is over, the value gained over b
    by then and the mass moved; the first entry is what costs nothing. price [events + 1]: the slope
    behind a breakpoint, the shadow price of the budget; 0 after the last.
    """

    budget: np.ndarray
    gain: np.ndarray
    moved: np.ndarray
    price: np.ndarray

    def at(self, budget: np.ndarray | float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(gain, moved, price) at these budgets; at a breakpoint, the price of what comes next."""
        place = np.searchsorted(self.budget, budget, side="right") - 1
        gain, moved = (np.interp(budget, self.budget, x) for x in (self.gain, self.moved))
        return gain, moved, self.price[place]


def budget_path(
    q: np.ndarray, b: np.ndarray, up: np.ndarray, down: np.ndarray, *, tolerance: float = 0.0
) -> BudgetPath:
    """The path of one row [A] of the row problem of `best_rows`: all its events in order of their
    slope, each paid in full.

    The sweep stops where its budget is spent; here it goes on. While mass passes from one receiver
    to the next nothing more is moved.
    """
    open_, donor = up < np.inf, (down < np.inf) & (b > 0)
    points = [(0.0, 0.0, 0.0)]
    prices: list[float] = []
    if open_.any():
        cheapest = up == up.min()
        receiver = int(np.argmax(np.where(cheapest, q, -np.inf)))
        moved = 0.0
        while True:
            rise = q - q[receiver]
            with np.errstate(invalid="ignore"):
                step = np.where(
                    open_ & (rise > tolerance), rise / np.maximum(up - up[receiver], TINY), 0.0
                )
                gift = np.where(
                    donor & (rise < -tolerance), -rise / np.maximum(down + up[receiver], TINY), 0.0
                )
            event = int(np.argmax(step + gift))
            slope = float(step[event] + gift[event])
            if slope <= 0:
                break
            mass, cost = (
                (moved, up[event] - up[receiver])
                if step[event]
                else (float(b[event]), down[event] + up[receiver])
            )
            spent, gain, _ = points[-1]
            if step[event]:
                receiver = event
            else:
                donor[event] = False
                moved += mass
            if mass * cost > 0:
                prices.append(slope)
                points.append((spent + mass * cost, gain + mass * abs(float(rise[event])), moved))
            else:
                points[-1] = (spent, gain + mass * abs(float(rise[event])), moved)
    budget, gained, shifted = (np.array(x) for x in zip(*points, strict=True))
    return BudgetPath(budget, gained, shifted, np.array([*prices, 0.0]))
