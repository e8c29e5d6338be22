"""Statistics: arrays in, numbers out; radii, bets, contingency tests, intervals. Nothing here knows
a log or a policy.
"""

from surefoot.statistics.bounds import (
    Forecast,
    bca,
    choose_cap,
    hoeffding,
    maurer_pontil,
    student_t,
    uncapped_betting,
)
from surefoot.statistics.metrics import Intervals

__all__ = [
    "Forecast",
    "Intervals",
    "bca",
    "choose_cap",
    "hoeffding",
    "maurer_pontil",
    "student_t",
    "uncapped_betting",
]
