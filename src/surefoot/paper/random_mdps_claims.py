"""The claims about Figure 3, Random MDPs: C1 to C5."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.paper.claim import Verdict
from surefoot.paper.comparisons import (
    Comparison,
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
    RANDOM_MDPS,
    RESTRICTING,
    SCARCE,
    SLIGHT,
    but,
    scarce_sizes,
    sizes_from,
)
from surefoot.studies.metrics import CVAR, MEAN


def c1(studies: Mapping[str, Scores], settings: Settings) -> Verdict:
    """The penalising two lead the mean."""
    sizes = sizes_from(studies[RANDOM_MDPS], 20)
    sentence = Sentence(
        "the mean of RaMDP and of DUIPI lies above that of each of the other seven at every size"
        " from 20 trajectories on",
        above(RANDOM_MDPS, MEAN, (RAMDP, DUIPI), but(RAMDP, DUIPI), sizes),
    )
    return judge(
        "C1",
        "Random MDPs, mean: RaMDP and DUIPI above every other algorithm from 20 trajectories on.",
        "",
        [sentence],
        studies,
        settings,
    )


def c2(studies: Mapping[str, Scores], settings: Settings) -> Verdict:
    """The order of the mean behind them."""
    sizes = sizes_from(studies[RANDOM_MDPS], 20)
    slight = SLIGHT[RANDOM_MDPS]
    sentences = [
        Sentence(
            "Lower-Approx-Soft-SPIBB and Basic RL above Approx and Adv-Approx",
            above(RANDOM_MDPS, MEAN, (LOWER, BASIC), (APPROX, ADV), sizes),
        ),
        Sentence("Approx above Adv-Approx", above(RANDOM_MDPS, MEAN, (APPROX,), (ADV,), sizes)),
        Sentence(
            f"but slightly: by less than {slight:g}",
            above(RANDOM_MDPS, MEAN, (ADV,), (APPROX,), sizes, margin=slight),
        ),
        Sentence(
            "every other algorithm but R-MIN above Pi_b- and Pi_<=b-SPIBB",
            above(RANDOM_MDPS, MEAN, but(R_MIN, PI_B, PI_LEQ_B), (PI_B, PI_LEQ_B), sizes),
        ),
    ]
    return judge(
        "C2",
        "Random MDPs, mean: next come Lower-Approx-Soft-SPIBB and Basic RL, then the other"
        " Soft-SPIBB; Approx slightly above Adv-Approx; Pi_b- and Pi_<=b-SPIBB last.",
        "At every size from 20 trajectories on, as in C1, which it continues. R-MIN is left out: C3"
        " speaks of it.",
        sentences,
        studies,
        settings,
    )


def c3(studies: Mapping[str, Scores], settings: Settings) -> Verdict:
    """R-MIN's mean for small and for large data."""
    sizes = studies[RANDOM_MDPS].sizes
    sentences = [
        Sentence(
            "bad: below every other algorithm at the smallest size",
            above(RANDOM_MDPS, MEAN, but(R_MIN), (R_MIN,), sizes[:1]),
        ),
        _catches_up(RANDOM_MDPS, sizes[-1]),
    ]
    return judge(
        "C3",
        "Random MDPs, mean: R-MIN is bad for very small data and catches up.",
        "",
        sentences,
        studies,
        settings,
    )


def c4(studies: Mapping[str, Scores], settings: Settings) -> Verdict:
    """Who is poor in CVaR, and where."""
    sizes = studies[RANDOM_MDPS].sizes
    scarce, ample = (
        scarce_sizes(studies[RANDOM_MDPS]),
        [n for n in sizes if n > SCARCE[RANDOM_MDPS]],
    )
    sentences = [
        Sentence(
            "Basic RL worst overall: its CVaR averaged over sizes below every other",
            above_on_average(RANDOM_MDPS, CVAR, but(BASIC), (BASIC,), sizes),
        ),
        Sentence(
            "R-MIN and RaMDP very poor for few: below every SPIBB algorithm at each size below 100",
            above(RANDOM_MDPS, CVAR, RESTRICTING, (R_MIN, RAMDP), scarce),
        ),
        Sentence(
            "DUIPI poor below 100: below every SPIBB algorithm",
            above(RANDOM_MDPS, CVAR, RESTRICTING, (DUIPI,), scarce),
        ),
        Sentence(
            "DUIPI best above 100: above every other algorithm",
            above(RANDOM_MDPS, CVAR, (DUIPI,), but(DUIPI), ample),
        ),
    ]
    return judge(
        "C4",
        "Random MDPs, CVaR: Basic RL worst overall; R-MIN and RaMDP very poor for few trajectories;"
        " DUIPI poor below 100 and best above.",
        "100 trajectories itself is neither below nor above.",
        sentences,
        studies,
        settings,
    )


def c5(studies: Mapping[str, Scores], settings: Settings) -> Verdict:
    """The order of the SPIBB family in CVaR."""
    sizes = studies[RANDOM_MDPS].sizes
    sentences = [
        Sentence(
            "Lower-Approx above Approx and Adv-Approx at every size",
            above(RANDOM_MDPS, CVAR, (LOWER,), (APPROX, ADV), sizes),
        ),
        Sentence(
            "Approx and Adv-Approx above Pi_<=b-SPIBB at every size",
            above(RANDOM_MDPS, CVAR, (APPROX, ADV), (PI_LEQ_B,), sizes),
        ),
        Sentence(
            "Pi_<=b-SPIBB above Pi_b-SPIBB at every size",
            above(RANDOM_MDPS, CVAR, (PI_LEQ_B,), (PI_B,), sizes),
        ),
    ]
    return judge(
        "C5",
        "Random MDPs, CVaR: among the SPIBB family Lower-Approx-Soft-SPIBB first, then Approx and"
        " Adv-Approx, then Pi_<=b, then Pi_b.",
        "",
        sentences,
        studies,
        settings,
    )


def _catches_up(benchmark: str, size: int) -> Sentence:
    others = but(R_MIN)
    margin = SLIGHT[benchmark]
    terms = ((R_MIN, 1.0), *((name, -1.0 / len(others)) for name in others))
    comparison = Comparison(
        f"{R_MIN} above the average of the others, short by less than {margin:g}",
        benchmark,
        MEAN,
        (size,),
        terms,
        margin,
    )
    return Sentence(
        f"catches up: at the largest size less than {margin:g} below the average of the others",
        (comparison,),
    )
