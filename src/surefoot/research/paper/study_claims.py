"""The claims judged from studies, as data: Figures 3 and 5, exact steps (C13), HCPI (C16).

C1 to C5 are about Random MDPs, C6 and C7 about Wet Chicken, C8, C14 and C15 about both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from surefoot.core.errors import ProblemError
from surefoot.core.text import Table, with_interval
from surefoot.research.paper.claim import (
    ADV,
    ALL,
    APPROX,
    BASELINE,
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
    Above,
    Claim,
    ClaimVerdict,
    Spans,
    StudyScores,
    every,
    judge,
    margins,
    on_average,
    studies_of,
)
from surefoot.research.studies.results import Results, summary_rows
from surefoot.statistics.metrics import CVAR, MEAN, Intervals, contrast


def judge_figures(
    results: Sequence[Results], how: Intervals | None = None
) -> tuple[ClaimVerdict, ...]:
    """C1 to C8, C14 and C15, as far as their benchmarks are there; one setting per algorithm."""
    parts = [one.where(benchmark=name) for one in results for name in SLIGHT]
    studies = studies_of([part for part in parts if part.cells])
    if not studies:
        raise ProblemError(
            f"the claims need results of {RANDOM_MDPS} or {WET_CHICKEN}, at the hyper-parameters of"
            " the figures"
        )
    where = " and ".join(
        f"sizes {', '.join(str(n) for (n,) in scarce(one))} of {name}"
        for name, one in studies.items()
    )
    words = {"scarce": where, "margins": margins(studies)}
    return tuple(
        judge(replace(claim, reading=claim.reading.format(**words)), studies, how)
        for claim in CLAIMS
        if set(claim.on) & set(studies)
    )


def but(*left_out: str) -> tuple[str, ...]:
    """Every algorithm of the figures but these."""
    return tuple(name for name in ALL if name not in left_out)


def from_20(scores: StudyScores) -> Spans:
    """The sizes from 20 on."""
    return [(n,) for n in scores.sizes if n >= 20]


def smallest(scores: StudyScores) -> Spans:
    """The smallest size."""
    return [scores.sizes[:1]]


def largest(scores: StudyScores) -> Spans:
    """The largest size."""
    return [scores.sizes[-1:]]


def scarce(scores: StudyScores) -> Spans:
    """The sizes at which data are scarce."""
    return [(n,) for n in scores.sizes if n < SCARCE[scores.benchmark]]


def ample(scores: StudyScores) -> Spans:
    """The sizes above the scarce ones and the limit itself."""
    return [(n,) for n in scores.sizes if n > SCARCE[scores.benchmark]]


SLIGHTLY = f"{SLIGHT[RANDOM_MDPS]:g}"

C1 = Claim(
    name="C1",
    on=(RANDOM_MDPS,),
    statement="Random MDPs, mean: RaMDP and DUIPI above every other algorithm from 20"
    " trajectories on.",
    sentences={
        "the mean of RaMDP and of DUIPI lies above that of each of the other seven at every size"
        " from 20 trajectories on": [Above(MEAN, (RAMDP, DUIPI), but(RAMDP, DUIPI), from_20)],
    },
)
C2 = Claim(
    name="C2",
    on=(RANDOM_MDPS,),
    statement="Random MDPs, mean: next come Lower-Approx-Soft-SPIBB and Basic RL, then the other"
    " Soft-SPIBB; Approx slightly above Adv-Approx; Pi_b- and Pi_<=b-SPIBB last.",
    sentences={
        "Lower-Approx-Soft-SPIBB and Basic RL above Approx and Adv-Approx": [
            Above(MEAN, (LOWER, BASIC), (APPROX, ADV), from_20)
        ],
        "Approx above Adv-Approx": [Above(MEAN, [APPROX], [ADV], from_20)],
        f"but slightly: by less than {SLIGHTLY}": [Above(MEAN, [ADV], [APPROX], from_20, slight=1)],
        "every other algorithm but R-MIN above Pi_b- and Pi_<=b-SPIBB": [
            Above(MEAN, but(R_MIN, PI_B, PI_LEQ_B), (PI_B, PI_LEQ_B), from_20)
        ],
    },
    reading="At every size from 20 trajectories on, as in C1, which it continues. R-MIN is left"
    " out: C3 speaks of it.",
)
C3 = Claim(
    name="C3",
    on=(RANDOM_MDPS,),
    statement="Random MDPs, mean: R-MIN is bad for very small data and catches up.",
    sentences={
        "bad: below every other algorithm at the smallest size": [
            Above(MEAN, but(R_MIN), [R_MIN], smallest)
        ],
        f"catches up: at the largest size less than {SLIGHTLY} below the average of the others": [
            Above(MEAN, [R_MIN], ["the average of the others"], largest, slight=1)
        ],
    },
)
C4 = Claim(
    name="C4",
    on=(RANDOM_MDPS,),
    statement="Random MDPs, CVaR: Basic RL worst overall; R-MIN and RaMDP very poor for few"
    " trajectories; DUIPI poor below 100 and best above.",
    sentences={
        "Basic RL worst overall: its CVaR averaged over sizes below every other": [
            Above(CVAR, but(BASIC), [BASIC], on_average)
        ],
        "R-MIN and RaMDP very poor for few: below every SPIBB algorithm at each size below 100": [
            Above(CVAR, RESTRICTING, (R_MIN, RAMDP), scarce)
        ],
        "DUIPI poor below 100: below every SPIBB algorithm": [
            Above(CVAR, RESTRICTING, [DUIPI], scarce)
        ],
        "DUIPI best above 100: above every other algorithm": [
            Above(CVAR, [DUIPI], but(DUIPI), ample)
        ],
    },
    reading="100 trajectories itself is neither below nor above.",
)
C5 = Claim(
    name="C5",
    on=(RANDOM_MDPS,),
    statement="Random MDPs, CVaR: among the SPIBB family Lower-Approx-Soft-SPIBB first, then"
    " Approx and Adv-Approx, then Pi_<=b, then Pi_b.",
    sentences={
        "Lower-Approx above Approx and Adv-Approx at every size": [
            Above(CVAR, [LOWER], (APPROX, ADV))
        ],
        "Approx and Adv-Approx above Pi_<=b-SPIBB at every size": [
            Above(CVAR, (APPROX, ADV), [PI_LEQ_B])
        ],
        "Pi_<=b-SPIBB above Pi_b-SPIBB at every size": [Above(CVAR, [PI_LEQ_B], [PI_B])],
    },
)
C6 = Claim(
    name="C6",
    on=(WET_CHICKEN,),
    statement="Wet Chicken, mean: R-MIN extremely bad for few data; Basic RL and DUIPI worst; SPIBB"
    " family very good, Lower-Approx above the others, only RaMDP above it.",
    sentences={
        "R-MIN extremely bad for few: below every other algorithm and the baseline at the smallest"
        " size": [Above(MEAN, (*but(R_MIN), BASELINE), [R_MIN], smallest)],
        "Basic RL and DUIPI worst: below RaMDP and every SPIBB algorithm at every size": [
            Above(MEAN, (RAMDP, *RESTRICTING), (BASIC, DUIPI))
        ],
        "SPIBB family very good: above the baseline at every size": [
            Above(MEAN, RESTRICTING, [BASELINE])
        ],
        "Lower-Approx above the others of the family at every size": [
            Above(MEAN, [LOWER], (PI_B, PI_LEQ_B, APPROX, ADV))
        ],
        "RaMDP above Lower-Approx at every size": [Above(MEAN, [RAMDP], [LOWER])],
        "no other algorithm is: Lower-Approx above R-MIN at every size (Basic RL and DUIPI: see b)"
        "": [Above(MEAN, [LOWER], [R_MIN])],
    },
    reading='R-MIN, bad for few data, does not count against "worst".',
)
C7 = Claim(
    name="C7",
    on=(WET_CHICKEN,),
    statement="Wet Chicken, CVaR: Basic RL off the chart; RaMDP and R-MIN behind the SPIBB family;"
    " Lower-Approx first, then Adv-Approx and Approx.",
    sentences={
        "Basic RL off the chart: its CVaR averaged over sizes below every other": [
            Above(CVAR, but(BASIC), [BASIC], on_average)
        ],
        "RaMDP and R-MIN below every SPIBB algorithm at every size": [
            Above(CVAR, RESTRICTING, (RAMDP, R_MIN))
        ],
        "Lower-Approx first, averaged over sizes": [Above(CVAR, [LOWER], but(LOWER), on_average)],
        "then Adv-Approx and Approx, averaged over sizes": [
            Above(CVAR, (ADV, APPROX), but(LOWER, ADV, APPROX), on_average)
        ],
    },
    reading='The order of the first three is said to hold "overall": averaged over sizes.',
)
C8 = Claim(
    name="C8",
    statement="Penalising algorithms have the higher mean, restricting ones the higher CVaR when"
    " data are scarce.",
    sentences={
        "the mean, averaged over the algorithms of each class and over sizes, is higher for RaMDP,"
        " R-MIN and DUIPI than for the SPIBB family": [
            Above(MEAN, ["penalising"], ["restricting"], on_average)
        ],
        "the CVaR, averaged over the algorithms of each class, is higher for the SPIBB family at"
        " each scarce size": [Above(CVAR, ["restricting"], ["penalising"], scarce)],
    },
    reading="Data are scarce at {scarce}.",
    shown={
        "one algorithm for its class: RaMDP's mean, averaged over sizes, above every SPIBB"
        " algorithm's": [Above(MEAN, [RAMDP], RESTRICTING, on_average)],
        "one algorithm for its class: Lower-Approx-Soft-SPIBB's CVaR above every penalising"
        " algorithm's at each scarce size": [Above(CVAR, [LOWER], PENALISING, scarce)],
    },
)
C14 = Claim(
    name="C14",
    statement="Adv-Approx performs almost as well as Approx, only slightly behind in the mean.",
    sentences={
        "behind: Approx's mean above Adv-Approx's, averaged over sizes": [
            Above(MEAN, [APPROX], [ADV], on_average)
        ],
        "slightly: Adv-Approx's mean short of Approx's by less than the margin at every size": [
            Above(MEAN, [ADV], [APPROX], slight=1)
        ],
        "almost as well: Adv-Approx's CVaR short of Approx's by less than the margin at every size"
        "": [Above(CVAR, [ADV], [APPROX], slight=1)],
    },
    reading="The margin is 5 % of the way from the baseline to the optimum: {margins}.",
)
C15 = Claim(
    name="C15",
    statement="Considering the uncertainty raises even the mean (against Basic RL).",
    sentences={
        "at every size some algorithm that considers the uncertainty has a higher mean than Basic"
        " RL": [Above(MEAN, but(BASIC), [BASIC], every)],
    },
    shown={
        "every one of them has, averaged over sizes": [
            Above(MEAN, but(BASIC), [BASIC], on_average)
        ],
    },
    some=True,
)
CLAIMS = (C1, C2, C3, C4, C5, C6, C7, C8, C14, C15)


EXACT, ADV_EXACT = "exact-soft-spibb", "adv-exact-soft-spibb"


def c13(results: Sequence[Results], how: Intervals | None = None) -> ClaimVerdict:
    """Exact- and Approx-Soft-SPIBB within the margin of each other at every size."""
    studies = studies_of(
        [one.only(lambda cell: "published=False" not in cell.parameters) for one in results]
    )
    pairs = ((EXACT, APPROX), (APPROX, EXACT), (ADV_EXACT, ADV), (ADV, ADV_EXACT))
    means, tails = (
        [Above(metric, [winner], [loser], slight=1) for winner, loser in pairs]
        for metric in (MEAN, CVAR)
    )
    claim = Claim(
        name="C13",
        statement="Exact- and Approx-Soft-SPIBB perform alike; the LP costs far more time.",
        sentences={
            "alike in the mean: neither is short of the other by the margin, at any size": means,
            "alike in the CVaR": tails,
        },
        reading="Both with the same epsilon, Table 1's. The margin is 5 % of the way from the"
        f" baseline to the optimum: {margins(studies)}. What the LP costs in time is measured by"
        " `make bench`: hundreds of times the sweep.",
    )
    return judge(claim, studies, how)


def mending(results: Sequence[Results], how: Intervals | None = None) -> Table:
    """Mended minus published step, in mean and CVaR: averaged over sizes, and the largest."""
    rows = []
    for one in results:
        for name in (APPROX, ADV):
            mended, published = (
                {
                    cell.size: i
                    for i, cell in enumerate(one.cells)
                    if cell.algorithm == name and f"published={word}" in cell.parameters
                }
                for word in ("False", "True")
            )
            sizes = [size for size in mended if size in published]
            each = [((mended[n], 1.0), (published[n], -1.0)) for n in sizes]
            overall = tuple((i, w / len(sizes)) for pair in each for i, w in pair)
            for metric in (MEAN, CVAR):
                found = contrast(one.score, [*each, overall], metric, how)
                ends = zip(found.value, *found.interval(), strict=True)
                shown = [with_interval(*x, ".4f") for x in ends]
                worst = int(np.argmax(np.abs(found.value[:-1])))
                largest = f"{shown[worst]} at {sizes[worst]}"
                rows.append((one.cells[0].benchmark, name, metric, shown[-1], largest))
    return Table(
        ("benchmark", "algorithm", "metric", "mended minus published, over sizes", "largest"),
        tuple(rows),
    )


HCPI, ROBUST, MBIE, CERTIFIED = "hcpi", "robust", "mbie", "certified-advantage"
READING = (
    "Laroche et al. 2019 compare Pi_b-SPIBB, Pi_<=b-SPIBB and RaMDP with HCPI and Robust MDP; their"
    " HCPI code has wrong formulas, so these are right ones: every version of HCPI named in the"
    " table, each with its estimator, bound and delta; fewest_effective=0 is without the rule that"
    " ten effective episodes are needed. Strongly: by more than"
    f" {SLIGHT[RANDOM_MDPS]:g} of the way from the"
    ' baseline to the optimum, the bound of "slightly" elsewhere, in the mean averaged over all'
    " sizes."
)


def c16(results: Results, how: Intervals | None = None) -> ClaimVerdict:
    """The mean decides; the CVaR and the wider family are shown."""
    studies = studies_of([by_setting(results)])
    names = tuple(dict.fromkeys(name for name, _ in studies[RANDOM_MDPS].row))
    tested, robust = (tuple(n for n in names if n.split()[0] == kind) for kind in (HCPI, ROBUST))
    beside = tuple(n for n in names if n.split()[0] in (MBIE, CERTIFIED))
    spibb, everyone = (PI_B, PI_LEQ_B), (*tested, *robust, *beside)

    def strongly(winners: tuple[str, ...], losers: tuple[str, ...]) -> list[Above]:
        return [Above(MEAN, winners, losers, on_average, slight=-1)]

    claim = Claim(
        name="C16",
        on=(RANDOM_MDPS,),
        statement="(Section 2, of Laroche et al. 2019) HCPI and Robust MDP are strongly"
        " outperformed by the others.",
        sentences={
            "every version of HCPI strongly outperformed by Pi_b- and Pi_<=b-SPIBB": strongly(
                spibb, tested
            ),
            "every version of HCPI strongly outperformed by RaMDP": strongly((RAMDP,), tested),
            "Robust MDP strongly outperformed by Pi_b- and Pi_<=b-SPIBB": strongly(spibb, robust),
            "Robust MDP strongly outperformed by RaMDP": strongly((RAMDP,), robust),
        },
        reading=READING,
        shown={
            "the same of the later SPIBB family, with MBIE and certified-advantage beside Robust"
            " MDP": strongly((ADV, LOWER), everyone),
            "the CVaR of HCPI, Robust MDP, MBIE and certified-advantage, averaged over sizes, above"
            " that of Pi_b- and Pi_<=b-SPIBB": [Above(CVAR, everyone, spibb, on_average)],
            "their mean, averaged over sizes, above the baseline's": [
                Above(MEAN, everyone, [BASELINE], on_average)
            ],
        },
    )
    return judge(claim, studies, how)


def by_setting(results: Results) -> Results:
    """Every setting as an algorithm of its own, where an algorithm has several."""
    several = {
        c.algorithm
        for c in results.cells
        if len({o.parameters for o in results.cells if o.algorithm == c.algorithm}) > 1
    }
    cells = tuple(
        replace(c, algorithm=c.label, parameters="") if c.algorithm in several else c
        for c in results.cells
    )
    return replace(results, cells=cells)


def hcpi_table(results: Results, how: Intervals | None = None) -> Table:
    """Mean, CVaR and the share of trials worse than the baseline, of every setting and size."""
    shown: dict[str, dict[int, str]] = {}
    for row in summary_rows(by_setting(results), how):
        tail = f"{row.cvar:.2f}" if math.isfinite(row.cvar) else "not reported"
        entry = f"{row.mean:.3f}, {tail}, {row.worse_than_baseline:.1%}"
        shown.setdefault(row.algorithm, {})[row.size] = entry
    sizes = sorted({cell.size for cell in results.cells})
    return Table(
        ("mean, CVaR, share of trials worse than the baseline", *map(str, sizes)),
        tuple((name, *(here[n] for n in sizes)) for name, here in shown.items()),
    )
