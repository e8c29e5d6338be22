"""What the claims speak of: benchmarks, algorithms, their classes, and the numbers behind
\"slightly\" and \"scarce\".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from surefoot.paper.comparisons import Scores

RANDOM_MDPS, WET_CHICKEN = "random-mdps", "wet-chicken"
BASIC, RAMDP, R_MIN, DUIPI = "basic-rl", "ramdp", "r-min", "duipi"
PI_B, PI_LEQ_B = "pi-b-spibb", "pi-leq-b-spibb"
APPROX, ADV, LOWER = "approx-soft-spibb", "adv-approx-soft-spibb", "lower-approx-soft-spibb"
PENALISING = (RAMDP, R_MIN, DUIPI)
RESTRICTING = (PI_B, PI_LEQ_B, APPROX, ADV, LOWER)
ALL = (BASIC, *PENALISING, *RESTRICTING)

# "slightly", "almost", "catches up": within 5 % of the way from the baseline to the optimum (Wet
# Chicken: 29.75 to 43.08)
SLIGHT: Mapping[str, float] = MappingProxyType({RANDOM_MDPS: 0.05, WET_CHICKEN: 0.67})
# "few", "scarce": below 100 trajectories, where the paper draws the line for DUIPI, and the three
# smallest Wet Chicken logs
SCARCE: Mapping[str, int] = MappingProxyType({RANDOM_MDPS: 100, WET_CHICKEN: 1000})


def but(*left_out: str) -> tuple[str, ...]:
    """Every algorithm of the figures but these."""
    return tuple(name for name in ALL if name not in left_out)


def sizes_from(scores: Scores, smallest: int) -> tuple[int, ...]:
    """The sizes of a study from the smallest asked for on."""
    return tuple(n for n in scores.sizes if n >= smallest)


def scarce_sizes(scores: Scores) -> tuple[int, ...]:
    """The sizes at which data are scarce."""
    return tuple(n for n in scores.sizes if n < SCARCE[scores.benchmark])
