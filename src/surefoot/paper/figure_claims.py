"""Every claim that the two figure studies decide: C1 to C8, C14 and C15."""

from __future__ import annotations

from collections.abc import Sequence

from surefoot.errors import ProblemError
from surefoot.paper.claim import Verdict
from surefoot.paper.comparisons import Settings, studies_of
from surefoot.paper.on_both import c8, c14, c15
from surefoot.paper.random_mdps_claims import c1, c2, c3, c4, c5
from surefoot.paper.vocabulary import RANDOM_MDPS, SLIGHT, WET_CHICKEN
from surefoot.paper.wet_chicken_claims import c6, c7
from surefoot.studies.results import Results


def judge_figures(
    results: Sequence[Results], settings: Settings | None = None
) -> tuple[Verdict, ...]:
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
    settings = settings or Settings()
    verdicts = []
    if RANDOM_MDPS in studies:
        verdicts += [claim(studies, settings) for claim in (c1, c2, c3, c4, c5)]
    if WET_CHICKEN in studies:
        verdicts += [claim(studies, settings) for claim in (c6, c7)]
    return (*verdicts, *(claim(studies, settings) for claim in (c8, c14, c15)))
