"""The claims about both figures together: C8, C14 and C15."""

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
    LOWER,
    PENALISING,
    RAMDP,
    RESTRICTING,
    SLIGHT,
    but,
    scarce_sizes,
)
from surefoot.studies.metrics import CVAR, MEAN


def c8(studies: Mapping[str, Scores], settings: Settings) -> Verdict:
    """The two classes against each other."""
    mean: list[Comparison] = []
    tail: list[Comparison] = []
    best_mean: list[Comparison] = []
    best_tail: list[Comparison] = []
    for name, scores in studies.items():
        scarce = scarce_sizes(scores)
        mean.append(
            Comparison("penalising above restricting", name, MEAN, scores.sizes, _classes(1.0))
        )
        tail += [
            Comparison("restricting above penalising", name, CVAR, (n,), _classes(-1.0))
            for n in scarce
        ]
        best_mean += above_on_average(name, MEAN, (RAMDP,), RESTRICTING, scores.sizes)
        best_tail += above(name, CVAR, (LOWER,), PENALISING, scarce)
    sentences = [
        Sentence(
            "the mean, averaged over the algorithms of each class and over sizes, is higher for"
            " RaMDP, R-MIN and DUIPI than for the SPIBB family",
            tuple(mean),
        ),
        Sentence(
            "the CVaR, averaged over the algorithms of each class, is higher for the SPIBB family"
            " at each scarce size",
            tuple(tail),
        ),
        Sentence(
            "one algorithm for its class: RaMDP's mean, averaged over sizes, above every SPIBB"
            " algorithm's",
            tuple(best_mean),
            counts=False,
        ),
        Sentence(
            "one algorithm for its class: Lower-Approx-Soft-SPIBB's CVaR above every penalising"
            " algorithm's at each scarce size",
            tuple(best_tail),
            counts=False,
        ),
    ]
    return judge(
        "C8",
        "Penalising algorithms have the higher mean, restricting ones the higher CVaR when data are"
        " scarce.",
        _scarce_words(studies),
        sentences,
        studies,
        settings,
    )


def c14(studies: Mapping[str, Scores], settings: Settings) -> Verdict:
    """Adv-Approx against Approx."""
    behind: list[Comparison] = []
    mean: list[Comparison] = []
    tail: list[Comparison] = []
    for name, scores in studies.items():
        behind += above_on_average(name, MEAN, (APPROX,), (ADV,), scores.sizes)
        mean += above(name, MEAN, (ADV,), (APPROX,), scores.sizes, margin=SLIGHT[name])
        tail += above(name, CVAR, (ADV,), (APPROX,), scores.sizes, margin=SLIGHT[name])
    sentences = [
        Sentence("behind: Approx's mean above Adv-Approx's, averaged over sizes", tuple(behind)),
        Sentence(
            "slightly: Adv-Approx's mean short of Approx's by less than the margin at every size",
            tuple(mean),
        ),
        Sentence(
            "almost as well: Adv-Approx's CVaR short of Approx's by less than the margin at every"
            " size",
            tuple(tail),
        ),
    ]
    margins = " and ".join(f"{SLIGHT[name]:g} on {name}" for name in studies)
    return judge(
        "C14",
        "Adv-Approx performs almost as well as Approx, only slightly behind in the mean.",
        f"The margin is 5 % of the way from the baseline to the optimum: {margins}.",
        sentences,
        studies,
        settings,
    )


def c15(studies: Mapping[str, Scores], settings: Settings) -> Verdict:
    """Every algorithm against Basic RL."""
    at_sizes: list[Comparison] = []
    overall: list[Comparison] = []
    for name, scores in studies.items():
        at_sizes += above(name, MEAN, but(BASIC), (BASIC,), scores.sizes)
        overall += above_on_average(name, MEAN, but(BASIC), (BASIC,), scores.sizes)
    sentences = [
        Sentence(
            "at every size some algorithm that considers the uncertainty has a higher mean than"
            " Basic RL",
            tuple(at_sizes),
            some=True,
        ),
        Sentence("every one of them has, averaged over sizes", tuple(overall), counts=False),
    ]
    return judge(
        "C15",
        "Considering the uncertainty raises even the mean (against Basic RL).",
        "",
        sentences,
        studies,
        settings,
    )


def _classes(sign: float) -> tuple[tuple[str, float], ...]:
    """sign times (average of the penalising minus average of the restricting algorithms)."""
    penalising = tuple((name, sign / len(PENALISING)) for name in PENALISING)
    return (*penalising, *((name, -sign / len(RESTRICTING)) for name in RESTRICTING))


def _scarce_words(studies: Mapping[str, Scores]) -> str:
    return (
        "Data are scarce at "
        + " and ".join(
            f"sizes {', '.join(map(str, scarce_sizes(scores)))} of {name}"
            for name, scores in studies.items()
        )
        + "."
    )
