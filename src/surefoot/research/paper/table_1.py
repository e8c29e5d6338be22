"""C9, Table 1 from the grids: the best settings by several criteria, next to the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from surefoot.core.errors import ProblemError
from surefoot.core.text import Table
from surefoot.research.paper.claim import (
    ADV,
    APPROX,
    DUIPI,
    FAILS,
    HOLDS,
    LOWER,
    OPEN,
    PI_B,
    PI_LEQ_B,
    R_MIN,
    RAMDP,
    RANDOM_MDPS,
    WET_CHICKEN,
    ClaimVerdict,
    conjunction,
    disjunction,
)
from surefoot.research.studies.results import Results
from surefoot.statistics.metrics import CVAR, MEAN, ROUNDING, Contrast, Intervals, contrast, largest

# What a setting must say to be the paper's; the rest of its parameters (published, max_steps, ...)
# is free.
TABLE_1: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        RANDOM_MDPS: {
            RAMDP: "kappa=0.05",
            R_MIN: "n_wedge=3",
            DUIPI: "xi=0.1 prior=bayesian",
            PI_B: "n_wedge=10",
            PI_LEQ_B: "n_wedge=10",
            APPROX: "delta=1 epsilon=2",
            ADV: "delta=1 epsilon=2",
            LOWER: "delta=1 epsilon=1",
        },
        WET_CHICKEN: {
            RAMDP: "kappa=2",
            R_MIN: "n_wedge=3",
            DUIPI: "xi=0.5 prior=bayesian",
            PI_B: "n_wedge=7",
            PI_LEQ_B: "n_wedge=7",
            APPROX: "delta=1 epsilon=1",
            ADV: "delta=1 epsilon=1",
            LOWER: "delta=1 epsilon=0.5",
        },
    }
)
# The baselines of the figures, among the variants of a grid: its labels read "random-mdps eta=0.9".
FIGURE_BASELINE: Mapping[str, str] = MappingProxyType(
    {RANDOM_MDPS: "eta=0.9", WET_CHICKEN: "epsilon=0.1"}
)

MEAN_OVERALL, CVAR_OVERALL, SUM_OVERALL = (
    "mean averaged over sizes",
    "CVaR averaged over sizes",
    "mean plus CVaR, averaged over sizes",
)


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The settings of one algorithm on one benchmark by one criterion: the paper's and its rivals.

    lead, low, high [rivals]: value of the paper's setting minus the rival's with corrected
    intervals; rivals in the grid's order.
    """

    benchmark: str
    algorithm: str
    criterion: str
    published: str
    rivals: tuple[str, ...]
    lead: np.ndarray
    low: np.ndarray
    high: np.ndarray
    rounding: float

    @property
    def rank(self) -> int:
        """1 if no rival is better."""
        return 1 + int(np.count_nonzero(self.lead < -self.rounding))

    @property
    def best(self) -> str:
        """The best setting; the paper's if none is better."""
        return self.published if self.rank == 1 else self.rivals[int(np.argmin(self.lead))]

    @property
    def outcome(self) -> str:
        """Best of its grid: holds if every lead is clearly positive, fails if one is negative."""
        if (self.high < -self.rounding).any():
            return FAILS
        return HOLDS if (self.low > self.rounding).all() else OPEN


def rankings_of(results: Sequence[Results], how: Intervals | None = None) -> tuple[Ranking, ...]:
    """Rankings of the algorithms of Table 1 on all variants of its benchmarks, by all criteria.

    The criteria: the mean and the CVaR at each size and averaged over sizes, and the sum of the two
    averages. An interval of a sum adds the intervals of its parts, which hold together.
    """
    grids = [
        (benchmark, algorithm, one.where(benchmark=benchmark, algorithm=algorithm))
        for one in results
        for benchmark in dict.fromkeys(cell.benchmark for cell in one.cells)
        if _base(benchmark) in TABLE_1
        for algorithm in TABLE_1[_base(benchmark)]
        if any((cell.benchmark, cell.algorithm) == (benchmark, algorithm) for cell in one.cells)
    ]
    if not grids:
        raise ProblemError(
            f"no cell belongs to Table 1, which covers {', '.join(TABLE_1)}: run the grids"
        )
    together = sum(
        (len({cell.parameters for cell in grid.cells}) - 1) * (2 * _n_sizes(grid) + 4)
        for _, _, grid in grids
    )
    how = how or Intervals()
    return tuple(x for grid in grids for x in _rankings(*grid, how, max(1, together)))


def c9(results: Sequence[Results], how: Intervals | None = None) -> ClaimVerdict:
    """Is there a criterion by which Table 1's settings are the best of their grids?"""
    how = how or Intervals()
    rankings = rankings_of(results, how)
    decisive = [r for r in rankings if _decisive(r.benchmark)]
    overall = {
        c: conjunction(r.outcome for r in decisive if r.criterion == c)
        for c in (MEAN_OVERALL, CVAR_OVERALL, SUM_OVERALL)
    }
    reading = (
        "A setting is the best of its grid by a criterion if its lead over every rival is above 0."
        " The claim holds if one criterion, the same for all algorithms and both benchmarks, makes"
        " every setting of Table 1 the best, and fails if by each criterion some rival is"
        " decidedly better. By criterion: "
        + "; ".join(f"{criterion}: {outcome}" for criterion, outcome in overall.items())
        + f". Decisive are the baselines of the figures ({', '.join(FIGURE_BASELINE.values())});"
        " others are shown."
    )
    trials = ", ".join(sorted({f"{one.n_trials:,}" for one in results}))
    test = (
        f"Paired bootstrap-t intervals of the lead over each rival ({how.resamples:,}"
        f" resamples, {trials} trials; CVaR at {how.alpha:g}), Bonferroni over all rivals and"
        f" criteria at {how.level:.0%} together. Ranks are those of the estimates; in"
        " brackets, how many rivals are decidedly better."
    )
    return ClaimVerdict(
        claim="C9",
        statement="Table 1's hyper-parameters are the best of their grids.",
        reading=reading,
        numbers=_rank_table(rankings),
        test=test,
        verdict=disjunction(overall.values()),
    )


def render_table_1(results: Sequence[Results], how: Intervals | None = None) -> str:
    """Table 1 in Markdown: the setting of each grid with the best mean next to the paper's."""
    rows = []
    for r in rankings_of(results, how):
        if r.criterion != MEAN_OVERALL:
            continue
        i = int(np.argmin(r.lead))
        short = f"{-r.lead[i]:.4f} [{-r.high[i]:.4f}, {-r.low[i]:.4f}]" if r.rank > 1 else ""
        rank = f"{r.rank} of {len(r.rivals) + 1}"
        rows.append((r.benchmark, r.algorithm, r.published, r.best, rank, short))
    columns = (
        "benchmark", "algorithm", "paper's setting", "best setting here", "rank of the paper's",
        "the paper's falls short by",
    )  # fmt: skip
    return f"Best by {MEAN_OVERALL}.\n\n{Table(columns, tuple(rows)).markdown()}\n"


def _rankings(
    benchmark: str, algorithm: str, grid: Results, how: Intervals, together: int
) -> list[Ranking]:
    published, rivals = _split(benchmark, algorithm, grid)
    if not rivals:
        return []
    sizes = tuple(sorted({cell.size for cell in grid.cells}))
    row = {(cell.parameters, cell.size): i for i, cell in enumerate(grid.cells)}
    spans = [(size,) for size in sizes] + [sizes]
    contrasts: list[Contrast] = [
        tuple(
            (row[one, n], weight / len(span))
            for n in span
            for one, weight in ((published, 1.0), (rival, -1.0))
        )
        for span in spans
        for rival in rivals
    ]
    found: dict[str, np.ndarray] = {}  # lead, low and high, [3, rivals]
    for metric, name, overall in ((MEAN, "mean", MEAN_OVERALL), (CVAR, "CVaR", CVAR_OVERALL)):
        estimates = contrast(grid.score, contrasts, metric, how)
        ends = np.stack([estimates.value, *estimates.interval(together)])
        labels = [*(f"{name} at {size}" for size in sizes), overall]
        parts = ends.reshape(3, len(spans), len(rivals)).swapaxes(0, 1)
        found |= dict(zip(labels, parts, strict=True))
    found[SUM_OVERALL] = found[MEAN_OVERALL] + found[CVAR_OVERALL]
    return [
        Ranking(
            benchmark=benchmark,
            algorithm=algorithm,
            criterion=label,
            published=published,
            rivals=rivals,
            lead=lead,
            low=low,
            high=high,
            rounding=ROUNDING * largest(grid.score),
        )
        for label, (lead, low, high) in found.items()
    ]


def _split(benchmark: str, algorithm: str, grid: Results) -> tuple[str, tuple[str, ...]]:
    """The paper's setting and its rivals; each must have run at every size."""
    wanted = TABLE_1[_base(benchmark)][algorithm]
    settings = tuple(dict.fromkeys(cell.parameters for cell in grid.cells))
    matching = [one for one in settings if set(wanted.split()) <= _parameters(one)]
    if len(matching) != 1:
        raise ProblemError(
            f"{len(matching)} settings of {algorithm} on {benchmark} are Table 1's ({wanted}) among"
            f" {', '.join(settings)}: one is needed"
        )
    if len(grid.cells) != len(settings) * _n_sizes(grid):
        raise ProblemError(
            f"{algorithm} on {benchmark}: not every setting ran once at every size; run the whole"
            " grid"
        )
    return matching[0], tuple(one for one in settings if one != matching[0])


def _rank_table(rankings: Sequence[Ranking]) -> Table:
    """One row per algorithm and benchmark: its rank by each criterion, those by size gathered."""
    rows = []
    for benchmark, algorithm in dict.fromkeys((r.benchmark, r.algorithm) for r in rankings):
        mine = {
            r.criterion: r for r in rankings if (r.benchmark, r.algorithm) == (benchmark, algorithm)
        }
        one = next(iter(mine.values()))
        overall = [_rank_words(mine[c]) for c in (MEAN_OVERALL, CVAR_OVERALL, SUM_OVERALL)]
        gathered = [
            ", ".join(str(r.rank) for c, r in mine.items() if c.startswith(f"{name} at "))
            for name in ("mean", "CVaR")
        ]
        about = (benchmark, algorithm, one.published, str(len(one.rivals) + 1))
        rows.append((*about, *overall, *gathered, mine[MEAN_OVERALL].best))
    columns = (
        "benchmark", "algorithm", "Table 1", "settings", "rank: mean", "rank: CVaR", "rank: sum",
        "rank: mean by size", "rank: CVaR by size", "best by mean",
    )  # fmt: skip
    return Table(columns, tuple(rows))


def _rank_words(ranking: Ranking) -> str:
    if np.isnan(ranking.lead).any():
        return "not reported"
    better = int(np.count_nonzero(ranking.high < -ranking.rounding))
    return f"{ranking.rank} ({better})"


def _base(benchmark: str) -> str:
    return benchmark.split(" ")[0]


def _decisive(benchmark: str) -> bool:
    base, _, variant = benchmark.partition(" ")
    return not variant or variant == FIGURE_BASELINE[base]


def _n_sizes(grid: Results) -> int:
    return len({cell.size for cell in grid.cells})


def _parameters(setting: str) -> set[str]:
    """What a setting says; a prior that it does not name is Bayesian."""
    return set(setting.split()) | (set() if "prior=" in setting else {"prior=bayesian"})
