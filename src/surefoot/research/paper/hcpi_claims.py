"""C16: are HCPI and Robust MDP strongly outperformed, once their formulas are right?"""

from __future__ import annotations

import math
from dataclasses import replace

from surefoot.core.text import Table
from surefoot.research.paper.claim import (
    ADV,
    LOWER,
    PI_B,
    PI_LEQ_B,
    RAMDP,
    RANDOM_MDPS,
    SLIGHT,
    ClaimVerdict,
)
from surefoot.research.paper.comparisons import (
    BASELINE,
    Above,
    Claim,
    judge,
    on_average,
    studies_of,
)
from surefoot.research.studies.results import Results, summary_rows
from surefoot.statistics.metrics import CVAR, MEAN, Intervals

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
