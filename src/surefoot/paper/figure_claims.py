"""The claims about Figure 3, Random MDPs (C1 to C5), Figure 5, Wet Chicken (C6, C7), and both (C8,
C14, C15).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from surefoot.errors import ProblemError
from surefoot.paper.claim import (
    ADV,
    ALL,
    APPROX,
    BASIC,
    DUIPI,
    LOWER,
    PENALISING,
    PI_B,
    PI_LEQ_B,
    R_MIN,
    RAMDP,
    RANDOM_MDPS,
    RESTRICTING,
    SCARCE,
    SLIGHT,
    WET_CHICKEN,
    ClaimVerdict,
)
from surefoot.paper.comparisons import (
    BASELINE,
    Claim,
    Difference,
    StudyScores,
    above,
    above_on_average,
    judge,
    margins,
    studies_of,
)
from surefoot.studies.metrics import CVAR, MEAN, Intervals
from surefoot.studies.results import Results

Studies = Mapping[str, StudyScores]


def judge_figures(
    results: Sequence[Results], how: Intervals | None = None
) -> tuple[ClaimVerdict, ...]:
    """C1 to C8, C14 and C15 from the figure studies, as far as their benchmarks are there; one
    setting per algorithm.
    """
    parts = [one.where(benchmark=name) for one in results for name in SLIGHT]
    studies = studies_of([part for part in parts if part.cells])
    if not studies:
        raise ProblemError(
            f"the claims need results of {RANDOM_MDPS} or {WET_CHICKEN}, at the hyper-parameters of"
            " the figures"
        )
    claims = [c1, c2, c3, c4, c5] if RANDOM_MDPS in studies else []
    claims += [c6, c7] if WET_CHICKEN in studies else []
    return tuple(judge(claim(studies), studies, how) for claim in (*claims, c8, c14, c15))


def c1(studies: Studies) -> Claim:
    """The penalising two lead the mean."""
    sizes = _from_20(studies)
    return Claim(
        name="C1",
        statement="Random MDPs, mean: RaMDP and DUIPI above every other algorithm from 20"
        " trajectories on.",
        sentences={
            (
                "the mean of RaMDP and of DUIPI lies above that of each of the other seven at every"
                " size from 20 trajectories on"
            ): above(RANDOM_MDPS, MEAN, (RAMDP, DUIPI), _but(RAMDP, DUIPI), sizes),
        },
    )


def c2(studies: Studies) -> Claim:
    """The order of the mean behind them."""
    sizes, slight = _from_20(studies), SLIGHT[RANDOM_MDPS]
    return Claim(
        name="C2",
        statement="Random MDPs, mean: next come Lower-Approx-Soft-SPIBB and Basic RL, then the"
        " other"
        " Soft-SPIBB; Approx slightly above Adv-Approx; Pi_b- and Pi_<=b-SPIBB last.",
        sentences={
            "Lower-Approx-Soft-SPIBB and Basic RL above Approx and Adv-Approx": above(
                RANDOM_MDPS, MEAN, (LOWER, BASIC), (APPROX, ADV), sizes
            ),
            "Approx above Adv-Approx": above(RANDOM_MDPS, MEAN, (APPROX,), (ADV,), sizes),
            f"but slightly: by less than {slight:g}": above(
                RANDOM_MDPS, MEAN, (ADV,), (APPROX,), sizes, margin=slight
            ),
            "every other algorithm but R-MIN above Pi_b- and Pi_<=b-SPIBB": above(
                RANDOM_MDPS, MEAN, _but(R_MIN, PI_B, PI_LEQ_B), (PI_B, PI_LEQ_B), sizes
            ),
        },
        reading="At every size from 20 trajectories on, as in C1, which it continues. R-MIN is left"
        " out: C3 speaks of it.",
    )


def c3(studies: Studies) -> Claim:
    """R-MIN's mean for small and for large data."""
    sizes, others, margin = studies[RANDOM_MDPS].sizes, _but(R_MIN), SLIGHT[RANDOM_MDPS]
    caught_up = Difference(
        f"{R_MIN} above the average of the others, short by less than {margin:g}",
        RANDOM_MDPS,
        MEAN,
        sizes[-1:],
        ((R_MIN, 1.0), *((name, -1.0 / len(others)) for name in others)),
        margin,
    )
    return Claim(
        name="C3",
        statement="Random MDPs, mean: R-MIN is bad for very small data and catches up.",
        sentences={
            "bad: below every other algorithm at the smallest size": above(
                RANDOM_MDPS, MEAN, others, (R_MIN,), sizes[:1]
            ),
            (
                f"catches up: at the largest size less than {margin:g} below the average of the"
                " others"
            ): (caught_up,),
        },
    )


def c4(studies: Studies) -> Claim:
    """Which algorithms are poor in CVaR, and at which sizes."""
    sizes, scarce = studies[RANDOM_MDPS].sizes, _scarce(studies[RANDOM_MDPS])
    ample = [n for n in sizes if n > SCARCE[RANDOM_MDPS]]
    return Claim(
        name="C4",
        statement="Random MDPs, CVaR: Basic RL worst overall; R-MIN and RaMDP very poor for few"
        " trajectories;"
        " DUIPI poor below 100 and best above.",
        sentences={
            (
                "Basic RL worst overall: its CVaR averaged over sizes below every other"
            ): above_on_average(RANDOM_MDPS, CVAR, _but(BASIC), (BASIC,), sizes),
            (
                "R-MIN and RaMDP very poor for few: below every SPIBB algorithm at each size below"
                " 100"
            ): above(RANDOM_MDPS, CVAR, RESTRICTING, (R_MIN, RAMDP), scarce),
            "DUIPI poor below 100: below every SPIBB algorithm": above(
                RANDOM_MDPS, CVAR, RESTRICTING, (DUIPI,), scarce
            ),
            "DUIPI best above 100: above every other algorithm": above(
                RANDOM_MDPS, CVAR, (DUIPI,), _but(DUIPI), ample
            ),
        },
        reading="100 trajectories itself is neither below nor above.",
    )


def c5(studies: Studies) -> Claim:
    """The order of the SPIBB family in CVaR."""
    sizes = studies[RANDOM_MDPS].sizes
    return Claim(
        name="C5",
        statement="Random MDPs, CVaR: among the SPIBB family Lower-Approx-Soft-SPIBB first,"
        " then Approx and"
        " Adv-Approx, then Pi_<=b, then Pi_b.",
        sentences={
            "Lower-Approx above Approx and Adv-Approx at every size": above(
                RANDOM_MDPS, CVAR, (LOWER,), (APPROX, ADV), sizes
            ),
            "Approx and Adv-Approx above Pi_<=b-SPIBB at every size": above(
                RANDOM_MDPS, CVAR, (APPROX, ADV), (PI_LEQ_B,), sizes
            ),
            "Pi_<=b-SPIBB above Pi_b-SPIBB at every size": above(
                RANDOM_MDPS, CVAR, (PI_LEQ_B,), (PI_B,), sizes
            ),
        },
    )


def c6(studies: Studies) -> Claim:
    """The order of the mean on Wet Chicken."""
    sizes = studies[WET_CHICKEN].sizes
    good = (RAMDP, *RESTRICTING)
    return Claim(
        name="C6",
        statement="Wet Chicken, mean: R-MIN extremely bad for few data; Basic RL and DUIPI"
        " worst; SPIBB"
        " family very good, Lower-Approx above the others, only RaMDP above it.",
        sentences={
            (
                "R-MIN extremely bad for few: below every other algorithm and the baseline at the"
                " smallest size"
            ): above(WET_CHICKEN, MEAN, (*_but(R_MIN), BASELINE), (R_MIN,), sizes[:1]),
            "Basic RL and DUIPI worst: below RaMDP and every SPIBB algorithm at every size": above(
                WET_CHICKEN, MEAN, good, (BASIC, DUIPI), sizes
            ),
            "SPIBB family very good: above the baseline at every size": above(
                WET_CHICKEN, MEAN, RESTRICTING, (BASELINE,), sizes
            ),
            "Lower-Approx above the others of the family at every size": above(
                WET_CHICKEN, MEAN, (LOWER,), (PI_B, PI_LEQ_B, APPROX, ADV), sizes
            ),
            "RaMDP above Lower-Approx at every size": above(
                WET_CHICKEN, MEAN, (RAMDP,), (LOWER,), sizes
            ),
            (
                "no other algorithm is: Lower-Approx above R-MIN at every size (Basic RL and DUIPI:"
                " see b)"
            ): above(WET_CHICKEN, MEAN, (LOWER,), (R_MIN,), sizes),
        },
        reading='R-MIN, bad for few data, does not count against "worst".',
    )


def c7(studies: Studies) -> Claim:
    """The order of the CVaR on Wet Chicken."""
    sizes = studies[WET_CHICKEN].sizes
    return Claim(
        name="C7",
        statement="Wet Chicken, CVaR: Basic RL off the chart; RaMDP and R-MIN behind the SPIBB"
        " family;"
        " Lower-Approx first, then Adv-Approx and Approx.",
        sentences={
            (
                "Basic RL off the chart: its CVaR averaged over sizes below every other"
            ): above_on_average(WET_CHICKEN, CVAR, _but(BASIC), (BASIC,), sizes),
            "RaMDP and R-MIN below every SPIBB algorithm at every size": above(
                WET_CHICKEN, CVAR, RESTRICTING, (RAMDP, R_MIN), sizes
            ),
            "Lower-Approx first, averaged over sizes": above_on_average(
                WET_CHICKEN, CVAR, (LOWER,), _but(LOWER), sizes
            ),
            "then Adv-Approx and Approx, averaged over sizes": above_on_average(
                WET_CHICKEN, CVAR, (ADV, APPROX), _but(LOWER, ADV, APPROX), sizes
            ),
        },
        reading='The order of the first three is said to hold "overall": averaged over sizes.',
    )


def c8(studies: Studies) -> Claim:
    """The two classes against each other."""
    where = " and ".join(
        f"sizes {', '.join(map(str, _scarce(one)))} of {name}" for name, one in studies.items()
    )
    return Claim(
        name="C8",
        statement="Penalising algorithms have the higher mean, restricting ones the higher CVaR"
        " when data are"
        " scarce.",
        sentences={
            (
                "the mean, averaged over the algorithms of each class and over sizes, is higher for"
                " RaMDP, R-MIN and DUIPI than for the SPIBB family"
            ): tuple(
                Difference("penalising above restricting", name, MEAN, one.sizes, _classes(1.0))
                for name, one in studies.items()
            ),
            (
                "the CVaR, averaged over the algorithms of each class, is higher for the SPIBB"
                " family"
                " at each scarce size"
            ): tuple(
                Difference("restricting above penalising", name, CVAR, (n,), _classes(-1.0))
                for name, one in studies.items()
                for n in _scarce(one)
            ),
        },
        reading=f"Data are scarce at {where}.",
        shown={
            (
                "one algorithm for its class: RaMDP's mean, averaged over sizes, above every SPIBB"
                " algorithm's"
            ): _on_each(
                studies,
                lambda x, sizes: above_on_average(x, MEAN, (RAMDP,), RESTRICTING, sizes),
            ),
            (
                "one algorithm for its class: Lower-Approx-Soft-SPIBB's CVaR above every penalising"
                " algorithm's at each scarce size"
            ): _on_each(
                studies,
                lambda x, _: above(x, CVAR, (LOWER,), PENALISING, _scarce(studies[x])),
            ),
        },
    )


def c14(studies: Studies) -> Claim:
    """Adv-Approx against Approx."""

    def almost(metric: str) -> tuple[Difference, ...]:
        return _on_each(
            studies, lambda x, sizes: above(x, metric, (ADV,), (APPROX,), sizes, margin=SLIGHT[x])
        )

    return Claim(
        name="C14",
        statement="Adv-Approx performs almost as well as Approx, only slightly behind in the mean.",
        sentences={
            "behind: Approx's mean above Adv-Approx's, averaged over sizes": _on_each(
                studies, lambda x, sizes: above_on_average(x, MEAN, (APPROX,), (ADV,), sizes)
            ),
            (
                "slightly: Adv-Approx's mean short of Approx's by less than the margin at every"
                " size"
            ): almost(MEAN),
            (
                "almost as well: Adv-Approx's CVaR short of Approx's by less than the margin at"
                " every"
                " size"
            ): almost(CVAR),
        },
        reading="The margin is 5 % of the way from the baseline to the optimum:"
        f" {margins(studies)}.",
    )


def c15(studies: Studies) -> Claim:
    """Every algorithm against Basic RL."""
    careful = _but(BASIC)
    return Claim(
        name="C15",
        statement="Considering the uncertainty raises even the mean (against Basic RL).",
        sentences={
            (
                "at every size some algorithm that considers the uncertainty has a higher mean than"
                " Basic RL"
            ): _on_each(studies, lambda x, sizes: above(x, MEAN, careful, (BASIC,), sizes)),
        },
        shown={
            "every one of them has, averaged over sizes": _on_each(
                studies, lambda x, sizes: above_on_average(x, MEAN, careful, (BASIC,), sizes)
            ),
        },
        some=True,
    )


def _on_each(
    studies: Studies, made: Callable[[str, tuple[int, ...]], tuple[Difference, ...]]
) -> tuple[Difference, ...]:
    """What is made of each benchmark and its sizes."""
    return tuple(x for name, one in studies.items() for x in made(name, one.sizes))


def _but(*left_out: str) -> tuple[str, ...]:
    """Every algorithm of the figures but these."""
    return tuple(name for name in ALL if name not in left_out)


def _from_20(studies: Studies) -> tuple[int, ...]:
    """The sizes of Random MDPs from 20 trajectories on."""
    return tuple(n for n in studies[RANDOM_MDPS].sizes if n >= 20)


def _scarce(scores: StudyScores) -> tuple[int, ...]:
    """The sizes at which data are scarce."""
    return tuple(n for n in scores.sizes if n < SCARCE[scores.benchmark])


def _classes(sign: float) -> tuple[tuple[str, float], ...]:
    """sign times (average of the penalising minus average of the restricting algorithms)."""
    penalising = tuple((name, sign / len(PENALISING)) for name in PENALISING)
    return (*penalising, *((name, -sign / len(RESTRICTING)) for name in RESTRICTING))
