"""The claims about Figure 5, Wet Chicken: C6 and C7."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.paper.claim import Verdict
from surefoot.paper.comparisons import (
    BASELINE,
    Scores,
    Sentence,
    Settings,
    above,
    above_on_average,
    judge,
)
from surefoot.paper.vocabulary import (
    ADV,
    APPROX,
    BASIC,
    DUIPI,
    LOWER,
    PI_B,
    PI_LEQ_B,
    R_MIN,
    RAMDP,
    RESTRICTING,
    WET_CHICKEN,
    but,
)
from surefoot.studies.metrics import CVAR, MEAN


def c6(studies: Mapping[str, Scores], settings: Settings) -> Verdict:
    """The order of the mean."""
    sizes = studies[WET_CHICKEN].sizes
    good = (RAMDP, *RESTRICTING)
    sentences = [
        Sentence(
            "R-MIN extremely bad for few: below every other algorithm and the baseline at the"
            " smallest size",
            above(WET_CHICKEN, MEAN, (*but(R_MIN), BASELINE), (R_MIN,), sizes[:1]),
        ),
        Sentence(
            "Basic RL and DUIPI worst: below RaMDP and every SPIBB algorithm at every size",
            above(WET_CHICKEN, MEAN, good, (BASIC, DUIPI), sizes),
        ),
        Sentence(
            "SPIBB family very good: above the baseline at every size",
            above(WET_CHICKEN, MEAN, RESTRICTING, (BASELINE,), sizes),
        ),
        Sentence(
            "Lower-Approx above the others of the family at every size",
            above(WET_CHICKEN, MEAN, (LOWER,), (PI_B, PI_LEQ_B, APPROX, ADV), sizes),
        ),
        Sentence(
            "RaMDP above Lower-Approx at every size",
            above(WET_CHICKEN, MEAN, (RAMDP,), (LOWER,), sizes),
        ),
        Sentence(
            "no other algorithm is: Lower-Approx above R-MIN at every size (Basic RL and DUIPI:"
            " see b)",
            above(WET_CHICKEN, MEAN, (LOWER,), (R_MIN,), sizes),
        ),
    ]
    return judge(
        "C6",
        "Wet Chicken, mean: R-MIN extremely bad for few data; Basic RL and DUIPI worst; SPIBB"
        " family very good, Lower-Approx above the others, only RaMDP above it.",
        'R-MIN, bad for few data, does not count against "worst".',
        sentences,
        studies,
        settings,
    )


def c7(studies: Mapping[str, Scores], settings: Settings) -> Verdict:
    """The order of the CVaR."""
    sizes = studies[WET_CHICKEN].sizes
    rest = but(LOWER, ADV, APPROX)
    sentences = [
        Sentence(
            "Basic RL off the chart: its CVaR averaged over sizes below every other",
            above_on_average(WET_CHICKEN, CVAR, but(BASIC), (BASIC,), sizes),
        ),
        Sentence(
            "RaMDP and R-MIN below every SPIBB algorithm at every size",
            above(WET_CHICKEN, CVAR, RESTRICTING, (RAMDP, R_MIN), sizes),
        ),
        Sentence(
            "Lower-Approx first, averaged over sizes",
            above_on_average(WET_CHICKEN, CVAR, (LOWER,), but(LOWER), sizes),
        ),
        Sentence(
            "then Adv-Approx and Approx, averaged over sizes",
            above_on_average(WET_CHICKEN, CVAR, (ADV, APPROX), rest, sizes),
        ),
    ]
    return judge(
        "C7",
        "Wet Chicken, CVaR: Basic RL off the chart; RaMDP and R-MIN behind the SPIBB family;"
        " Lower-Approx first, then Adv-Approx and Approx.",
        'The order of the first three is said to hold "overall": averaged over sizes.',
        sentences,
        studies,
        settings,
    )
