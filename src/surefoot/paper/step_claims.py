"""What the step is worth: C13, exact against approximate, and whether mending the published step
moves the figures (C11b's question).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surefoot.paper.claim import Verdict
from surefoot.paper.comparisons import (
    Comparison,
    Sentence,
    Settings,
    above,
    estimate,
    judge,
    studies_of,
)
from surefoot.paper.vocabulary import ADV, APPROX, SLIGHT
from surefoot.studies.metrics import CVAR, MEAN
from surefoot.studies.results import Results
from surefoot.text import Table

EXACT, ADV_EXACT = "exact-soft-spibb", "adv-exact-soft-spibb"


def judge_steps(results: Sequence[Results], settings: Settings | None = None) -> Verdict:
    """C13: Exact- and Approx-Soft-SPIBB within the margin of each other at every size; the time
    is measured by `make bench`.
    """
    settings = settings or Settings()
    studies = studies_of([_published(one) for one in results])
    means: list[Comparison] = []
    tails: list[Comparison] = []
    for name, scores in studies.items():
        for first, second in ((EXACT, APPROX), (ADV_EXACT, ADV)):
            for winner, loser in ((first, second), (second, first)):
                means += above(name, MEAN, (winner,), (loser,), scores.sizes, margin=SLIGHT[name])
                tails += above(name, CVAR, (winner,), (loser,), scores.sizes, margin=SLIGHT[name])
    sentences = [
        Sentence(
            "alike in the mean: neither is short of the other by the margin, at any size",
            tuple(means),
        ),
        Sentence("alike in the CVaR", tuple(tails)),
    ]
    margins = " and ".join(f"{SLIGHT[name]:g} on {name}" for name in studies)
    reading = (
        "Both with the same epsilon, Table 1's. The margin is 5 % of the way from the baseline to"
        f" the optimum: {margins}. What the LP costs in time is measured by `make bench`: hundreds"
        " of times the sweep."
    )
    return judge(
        "C13",
        "Exact- and Approx-Soft-SPIBB perform alike; the LP costs far more time.",
        reading,
        sentences,
        studies,
        settings,
    )


def mending(results: Sequence[Results], settings: Settings | None = None) -> Table:
    """Mended minus published step, in mean and CVaR, with paired intervals, averaged over sizes
    and where it is largest.
    """
    settings = settings or Settings()
    rows = []
    for one in results:
        for name in (APPROX, ADV):
            cells = [i for i, cell in enumerate(one.cells) if cell.algorithm == name]
            mended, published = (
                [i for i in cells if _is(one, i, word)] for word in ("False", "True")
            )
            pairs = [
                (i, j) for i in mended for j in published if one.cells[i].size == one.cells[j].size
            ]
            each = [((i, 1.0), (j, -1.0)) for i, j in pairs]
            overall = tuple((k, w / len(pairs)) for pair in each for k, w in pair)
            for metric in (MEAN, CVAR):
                found = estimate(one.score, [*each, overall], metric, settings)
                low, high = found.interval()
                worst = int(np.argmax(np.abs(found.value[:-1])))
                rows.append(
                    (
                        one.cells[0].benchmark,
                        name,
                        metric,
                        f"{found.value[-1]:+.4f} [{low[-1]:+.4f}, {high[-1]:+.4f}]",
                        (
                            f"{found.value[worst]:+.4f} [{low[worst]:+.4f}, {high[worst]:+.4f}] at"
                            f" {one.cells[pairs[worst][0]].size}"
                        ),
                    )
                )
    return Table(
        ("benchmark", "algorithm", "metric", "mended minus published, over sizes", "largest"),
        tuple(rows),
    )


def _is(results: Results, i: int, published: str) -> bool:
    return f"published={published}" in results.cells[i].parameters


def _published(results: Results) -> Results:
    """Without the mended steps: one setting per algorithm."""
    keep = [i for i in range(len(results.cells)) if not _is(results, i, "False")]
    return Results(
        tuple(results.cells[i] for i in keep),
        results.score[keep],
        results.baseline[keep],
        results.converged[keep],
    )
