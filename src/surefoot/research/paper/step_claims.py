"""C13, exact against approximate steps; and whether mending the step moves the figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surefoot.core.text import Table, with_interval
from surefoot.research.paper.claim import ADV, APPROX, ClaimVerdict
from surefoot.research.paper.comparisons import Above, Claim, judge, margins, studies_of
from surefoot.research.studies.results import Results
from surefoot.statistics.metrics import CVAR, MEAN, Intervals, contrast

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
