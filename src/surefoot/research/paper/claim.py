"""What the paper's claims speak of, how one is judged, and claims.md made from the verdicts.

A claim is made of sentences, and these of differences that must be above zero. All differences of
a claim are decided together, by paired bootstrap intervals.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import ascii_lowercase
from types import MappingProxyType

import numpy as np

from surefoot.core.errors import ProblemError
from surefoot.core.text import Table, with_interval
from surefoot.research.studies.results import Results
from surefoot.statistics.metrics import CVAR, ROUNDING, Contrast, Intervals, contrast, largest

COLUMNS = (
    "", "comparison", "benchmark, metric", "holds at", "fails at", "open at", "weakest difference",
    "averaged over sizes",
)  # fmt: skip
BASELINE = "baseline"  # stands for the baseline's own score among the algorithms

RANDOM_MDPS, WET_CHICKEN = "random-mdps", "wet-chicken"
BASIC, RAMDP, R_MIN, DUIPI = "basic-rl", "ramdp", "r-min", "duipi"
PI_B, PI_LEQ_B = "pi-b-spibb", "pi-leq-b-spibb"
APPROX, ADV, LOWER = "approx-soft-spibb", "adv-approx-soft-spibb", "lower-approx-soft-spibb"
PENALISING = (RAMDP, R_MIN, DUIPI)
RESTRICTING = (PI_B, PI_LEQ_B, APPROX, ADV, LOWER)
ALL = (BASIC, *PENALISING, *RESTRICTING)
SHORT: Mapping[str, str] = MappingProxyType(
    {
        BASIC: "Basic RL",
        RAMDP: "RaMDP",
        R_MIN: "R-MIN",
        DUIPI: "DUIPI",
        PI_B: "Pi_b",
        PI_LEQ_B: "Pi_<=b",
        APPROX: "Approx",
        ADV: "Adv-Approx",
        LOWER: "Lower-Approx",
        RANDOM_MDPS: "Random MDPs",
        WET_CHICKEN: "Wet Chicken",
    }
)
# names that stand for the average of several algorithms
GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "penalising": PENALISING,
        "restricting": RESTRICTING,
        "the average of the others": tuple(name for name in ALL if name != R_MIN),
    }
)
# "slightly", "almost", "catches up": within 5 % of the way from the baseline to the optimum (Wet
# Chicken: 29.75 to 43.08)
SLIGHT: Mapping[str, float] = MappingProxyType({RANDOM_MDPS: 0.05, WET_CHICKEN: 0.67})
# "few", "scarce": below 100 trajectories, where the paper draws the line for DUIPI, and the three
# smallest Wet Chicken logs
SCARCE: Mapping[str, int] = MappingProxyType({RANDOM_MDPS: 100, WET_CHICKEN: 1000})

MANY = 4  # exceptions of a benchmark and metric that are named one by one
HOLDS = "holds"
EXCEPT = "holds with named exceptions"
FAILS = "fails"
OPEN = "not decided at this many trials"
LEVELS = (HOLDS, EXCEPT, OPEN, FAILS)  # the worst last


@dataclass(frozen=True, kw_only=True)
class ClaimVerdict:
    """One claim judged: its id ("C4"), the paper's statement, how it is read, and the verdict.

    `note` is a few words for the overview, `exceptions` are those of a claim that does not just
    hold.
    """

    claim: str
    statement: str
    reading: str
    numbers: Table
    test: str
    verdict: str
    note: str = ""
    exceptions: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in LEVELS:
            raise ProblemError(
                f"verdict of {self.claim} must be one of {', '.join(map(repr, LEVELS))}, got"
                f" {self.verdict!r}"
            )


def conjunction(verdicts: Iterable[str]) -> str:
    """The worst of them."""
    return max(verdicts, key=LEVELS.index, default=OPEN)


def weighed(outcomes: Sequence[str], averaged: str = OPEN) -> str:
    """What comparisons at several sizes, or of several algorithms, say together.

    It fails where more fail than hold, or as many, unless the average over sizes holds; it is open
    where most are.
    """
    holds, fails = outcomes.count(HOLDS), outcomes.count(FAILS)
    if fails > holds or (fails and fails == holds and averaged != HOLDS):
        return FAILS
    if outcomes.count(OPEN) > holds + fails or not outcomes:
        return OPEN
    return HOLDS if holds == len(outcomes) else EXCEPT


def disjunction(verdicts: Iterable[str]) -> str:
    """One holds: holds; all fail: fails; else not decided."""
    found = set(verdicts)
    if HOLDS in found:
        return HOLDS
    return FAILS if found == {FAILS} else OPEN


def render_claims(verdicts: Sequence[ClaimVerdict]) -> str:
    """claims.md: an overview, then each claim, in the order of their ids."""
    ordered = sorted(verdicts, key=lambda verdict: _order(verdict.claim))
    seen = [verdict.claim for verdict in ordered]
    twice = sorted({claim for claim in seen if seen.count(claim) > 1})
    if twice:
        raise ProblemError(f"claims judged twice: {', '.join(twice)}; give each claim one verdict")
    overview = Table(
        ("claim", "statement", "verdict", ""),
        tuple((v.claim, v.statement, f"**{v.verdict}**", v.note) for v in ordered),
    )
    parts = ["# Claims of the paper, judged", overview.markdown(), *map(_section, ordered)]
    return "\n\n".join(parts) + "\n"


def _section(verdict: ClaimVerdict) -> str:
    parts = [
        f"## {verdict.claim}: {verdict.verdict}",
        f"> {verdict.statement}",
        f"**Read as.** {verdict.reading}".replace("**Read as.** - ", "**Read as.**\n\n- "),
        f"**Test.** {verdict.test}",
    ]
    return "\n\n".join([*parts, verdict.numbers.markdown()] if verdict.numbers.rows else parts)


def _order(claim: str) -> tuple[int, str]:
    """C2 before C10, C11 before C11b."""
    digits = "".join(c for c in claim if c.isdigit())
    return (int(digits) if digits else 0, claim)


@dataclass(frozen=True)
class StudyScores:
    """The scores of one benchmark, one setting per algorithm.

    `row` says where (algorithm, size) lies in score [rows, trials].
    """

    benchmark: str
    sizes: tuple[int, ...]
    score: np.ndarray
    row: Mapping[tuple[str, int], int]

    def contrast(self, comparison: Difference) -> Contrast:
        """Rows and weights of a comparison, averaged over its sizes."""
        places = [(name, n, w) for name, w in comparison.terms for n in comparison.sizes]
        for name, size, _ in places:
            if (name, size) not in self.row:
                raise ProblemError(
                    f"{comparison.text!r} needs {name} at size {size} of {self.benchmark}, which"
                    " these results lack: run it too"
                )
        return tuple((self.row[name, n], w / len(comparison.sizes)) for name, n, w in places)


@dataclass(frozen=True)
class Difference:
    """sum of weight x metric over `terms`, averaged over `sizes`, lies above -margin."""

    text: str
    benchmark: str
    metric: str
    sizes: tuple[int, ...]
    terms: tuple[tuple[str, float], ...]
    margin: float = 0.0


Spans = Sequence[tuple[int, ...]]  # sizes: each span is averaged over


def every(scores: StudyScores) -> Spans:
    """Each size by itself."""
    return [(n,) for n in scores.sizes]


def on_average(scores: StudyScores) -> Spans:
    """The average over all sizes."""
    return [scores.sizes]


@dataclass(frozen=True)
class Above:
    """Every winner above every loser, in a metric and at some sizes of each benchmark.

    `slight` 1: or short of it by less than "slightly"; -1: by more than "slightly".
    """

    metric: str
    winners: Sequence[str]
    losers: Sequence[str]
    at: Callable[[StudyScores], Spans] = every
    slight: int = 0

    def differences(self, scores: StudyScores) -> tuple[Difference, ...]:
        """What must lie above zero on one benchmark; a group stands for its average."""
        margin = self.slight * SLIGHT[scores.benchmark]
        much = f", short by less than {margin:g}" if margin > 0 else f" by more than {-margin:g}"

        def side(name: str, sign: float) -> tuple[tuple[str, float], ...]:
            members = GROUPS.get(name, (name,))
            return tuple((one, sign / len(members)) for one in members)

        return tuple(
            Difference(
                f"{a} above {b}{much if margin else ''}",
                scores.benchmark,
                self.metric,
                sizes,
                side(a, 1.0) + side(b, -1.0),
                margin,
            )
            for a in self.winners
            for b in self.losers
            for sizes in self.at(scores)
        )


Sentences = Mapping[str, Sequence[Above]]  # what is said: what must hold for it


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What the paper states, and how it is read: sentences that must all hold.

    A sentence fails if one of its comparisons of two algorithms does, each weighed over sizes;
    where most are open it is. One about classes of algorithms, or with a hedge such as "tend to"
    (`pooled`), is weighed over all comparisons at once; with `some`, over sizes, one comparison
    being enough at each. Sentences that are `shown` only take no part in the verdict. Benchmarks
    that are not among `on` are left out.
    """

    name: str
    statement: str
    sentences: Sentences
    reading: str = ""
    shown: Sentences = field(default_factory=dict)
    some: bool = False
    pooled: bool = False
    on: Sequence[str] = tuple(SLIGHT)


@dataclass(frozen=True)
class Decision:
    """A comparison with its difference, corrected interval and outcome."""

    comparison: Difference
    value: float
    low: float
    high: float
    outcome: str


def studies_of(results: Sequence[Results]) -> dict[str, StudyScores]:
    """The studies by benchmark, each with the baseline as one more algorithm.

    An algorithm with two settings is an error.
    """
    studies: dict[str, StudyScores] = {}
    for one in results:
        for benchmark in dict.fromkeys(cell.benchmark for cell in one.cells):
            if benchmark in studies:
                raise ProblemError(
                    f"two results hold {benchmark}: join them, or judge one at a time"
                )
            studies[benchmark] = _study(benchmark, one.where(benchmark=benchmark))
    return studies


def margins(studies: Mapping[str, StudyScores]) -> str:
    """The margins of "slightly" on these benchmarks, in words."""
    return " and ".join(f"{SLIGHT[name]:g} on {name}" for name in studies)


def judge(
    claim: Claim, studies: Mapping[str, StudyScores], how: Intervals | None = None
) -> ClaimVerdict:
    """Decide all comparisons with intervals that hold together, then sentences, then the claim."""
    how = how or Intervals()
    studies = {name: scores for name, scores in studies.items() if name in claim.on}
    everything = [
        (text, [x for scores in studies.values() for one in said for x in one.differences(scores)])
        for text, said in (*claim.sentences.items(), *claim.shown.items())
    ]
    averages = [_averages(comparisons) for _, comparisons in everything]
    together = sum(map(len, averages)) + sum(len(comparisons) for _, comparisons in everything)
    listed: list[str] = []
    rows: list[tuple[str, ...]] = []
    outcomes: list[str] = []
    exceptions: list[str] = []
    tally: Counter[str] = Counter()
    for i, (text, comparisons) in enumerate(everything):
        decided = decide(comparisons, studies, how, together)
        average = decide(averages[i], studies, how, together)
        counts, letter = i < len(claim.sentences), ascii_lowercase[i]
        outcome = _outcome_of_all(claim if counts else None, decided, average)
        if counts:
            outcomes.append(outcome)
            tally.update(d.outcome for d in decided)
            exceptions += [] if claim.some or outcome == HOLDS else _exceptions(decided)
        shown = "" if counts else " (shown only, no part of the verdict)"
        listed.append(f"- ({letter}) {text}: *{outcome}*{shown}")
        rows += _rows(letter, decided, average)
    used = {c.benchmark for _, comparisons in everything for c in comparisons}
    return ClaimVerdict(
        claim=claim.name,
        statement=claim.statement,
        reading="\n".join([*((claim.reading, "") if claim.reading else ()), *listed]),
        numbers=Table(COLUMNS, tuple(rows)),
        test=_test([scores for name, scores in studies.items() if name in used], how, together),
        verdict=conjunction(outcomes),
        note=f"{tally[HOLDS]} comparisons hold, {tally[FAILS]} fail, {tally[OPEN]} open",
        exceptions="; ".join(exceptions),
    )


def decide(
    comparisons: Sequence[Difference],
    studies: Mapping[str, StudyScores],
    how: Intervals,
    together: int,
) -> tuple[Decision, ...]:
    """Each difference with its interval, corrected for `together` of them, and its outcome."""
    found: dict[Difference, Decision] = {}
    for benchmark, metric in dict.fromkeys((c.benchmark, c.metric) for c in comparisons):
        group = [c for c in comparisons if (c.benchmark, c.metric) == (benchmark, metric)]
        scores = studies[benchmark]
        estimates = contrast(scores.score, [scores.contrast(c) for c in group], metric, how)
        low, high = estimates.interval(together)
        rounding = ROUNDING * largest(scores.score)
        for i, comparison in enumerate(group):
            outcome = _outcome(low[i] + comparison.margin, high[i] + comparison.margin, rounding)
            found[comparison] = Decision(
                comparison, float(estimates.value[i]), float(low[i]), float(high[i]), outcome
            )
    return tuple(found[comparison] for comparison in comparisons)


def _study(benchmark: str, results: Results) -> StudyScores:
    row: dict[tuple[str, int], int] = {}
    for i, cell in enumerate(results.cells):
        if (cell.algorithm, cell.size) in row:
            other = results.cells[row[cell.algorithm, cell.size]].label
            raise ProblemError(
                f"{benchmark}, size {cell.size} holds two settings, {other} and {cell.label}:"
                " claims are judged with one setting per algorithm, so keep the cells of the figure"
            )
        row[cell.algorithm, cell.size] = i
    sizes = tuple(sorted({cell.size for cell in results.cells}))
    first = [next(i for i, cell in enumerate(results.cells) if cell.size == size) for size in sizes]
    row.update({(BASELINE, size): len(results.cells) + i for i, size in enumerate(sizes)})
    return StudyScores(
        benchmark, sizes, np.concatenate([results.score, results.baseline[first]]), row
    )


def _outcome(low: float, high: float, rounding: float) -> str:
    """NaN, a CVaR that is not reported, is above nothing and below nothing."""
    if low > rounding:
        return HOLDS
    return FAILS if high < -rounding else OPEN


def _outcome_of_all(
    claim: Claim | None, decided: Sequence[Decision], average: Sequence[Decision]
) -> str:
    """As the claim says; what is shown only is the worst of its comparisons of two algorithms."""
    if claim is not None and claim.some:
        return _some(decided)
    if claim is not None and claim.pooled:
        return weighed([d.outcome for d in decided])
    over = {replace(d.comparison, sizes=()): d.outcome for d in average}
    lines = [
        weighed([d.outcome for d in found], over.get(key, OPEN))
        for key, found in _lines(decided).items()
    ]
    if FAILS in lines or 2 * lines.count(OPEN) > len(lines):
        return conjunction(lines)
    return HOLDS if set(lines) == {HOLDS} else EXCEPT


def _some(decided: Sequence[Decision]) -> str:
    """One comparison is enough at each size."""
    groups: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for d in decided:
        groups.setdefault((d.comparison.benchmark, d.comparison.sizes), []).append(d.outcome)
    return weighed([disjunction(found) for found in groups.values()])


def _lines(decided: Sequence[Decision]) -> dict[Difference, list[Decision]]:
    """The decisions on each comparison, its sizes left out."""
    groups: dict[Difference, list[Decision]] = {}
    for d in decided:
        groups.setdefault(replace(d.comparison, sizes=()), []).append(d)
    return groups


def _exceptions(decided: Sequence[Decision]) -> list[str]:
    """Where comparisons are the other way round and by how much; if none is, what is open.

    Many are put together by the side that has fewer names.
    """
    outcome = FAILS if any(d.outcome == FAILS for d in decided) else OPEN
    verb = "open against" if outcome == OPEN else "below"
    found: dict[tuple[str, str], list[_Exception]] = {}
    for key, line in _lines(decided).items():
        against = [d for d in line if d.outcome == outcome]
        if against:
            winner, loser = (SHORT.get(x, x) for x in key.text.split(",")[0].split(" above "))
            sizes = [d.comparison.sizes for d in line]
            at = {d.comparison.sizes for d in against}
            most = max(-d.value for d in against) if outcome == FAILS else 0.0
            metric = "CVaR" if key.metric == CVAR else key.metric
            found.setdefault((key.benchmark, metric), []).append((winner, loser, sizes, at, most))
    one = len({(d.comparison.benchmark, d.comparison.metric) for d in decided}) == 1
    said = []
    for (name, metric), entries in found.items():
        words = []
        for below, above, sizes, at, most in _together(entries):
            by = f" by up to {most:.2f}" if most else ""
            words.append(f"{below} {verb} {above}{by}{_runs(sizes, at)}")
        where = "" if one else f"{SHORT.get(name, name)}, {metric}: "
        said.append(where + "; ".join(words))
    return said


# the winner and the loser of a comparison, all its sizes, those of the exception, and its most
_Exception = tuple[str, str, list[tuple[int, ...]], set[tuple[int, ...]], float]


def _together(entries: list[_Exception]) -> list[_Exception]:
    """Up to MANY as they are; more are joined by the winner or by the loser."""
    if len(entries) <= MANY:
        return entries
    side = 0 if len({x[0] for x in entries}) <= len({x[1] for x in entries}) else 1
    groups: dict[str, list[_Exception]] = {}
    for entry in entries:
        groups.setdefault(str(entry[side]), []).append(entry)
    joined = []
    for name, found in groups.items():
        others = ", ".join(str(x[1 - side]) for x in found)
        names = (name, others) if side == 0 else (others, name)
        at = set().union(*(x[3] for x in found))
        joined.append((*names, found[0][2], at, max(x[4] for x in found)))
    return joined


def _runs(every: Sequence[tuple[int, ...]], some: set[tuple[int, ...]]) -> str:
    """Some of the sizes in words: " at 10, 50 to 200"; "" for all."""
    if len(some) == len(every):
        return ""
    runs: list[list[int]] = []
    for i, sizes in enumerate(every):
        if sizes in some:
            if runs and runs[-1][1] == i - 1:
                runs[-1][1] = i
            else:
                runs.append([i, i])
    words = (f"{every[i][0]:,}" + (f" to {every[j][0]:,}" if j > i else "") for i, j in runs)
    return f" at {', '.join(words)}"


def _averages(comparisons: Sequence[Difference]) -> tuple[Difference, ...]:
    """Each comparison averaged over the sizes at which a sentence makes it: a softer reading."""
    spans: dict[Difference, list[int]] = {}
    for c in comparisons:
        if len(c.sizes) == 1:
            spans.setdefault(replace(c, sizes=()), []).extend(c.sizes)
    return tuple(replace(c, sizes=tuple(sizes)) for c, sizes in spans.items() if len(sizes) > 1)


def _rows(
    letter: str, decided: Sequence[Decision], averages: Sequence[Decision]
) -> list[tuple[str, ...]]:
    """One row per comparison: where it holds, fails and is open, and the weakest difference."""
    average = {replace(d.comparison, sizes=()): d for d in averages}
    rows = []
    for key, found in _lines(decided).items():
        where = [
            _places([d for d in found if d.outcome == outcome], len(found))
            for outcome in (HOLDS, FAILS, OPEN)
        ]
        weakest = min(found, key=lambda d: d.low if math.isfinite(d.low) else -math.inf)
        over_sizes = average.get(key, found[0] if len(found[0].comparison.sizes) > 1 else None)
        metric = "CVaR" if key.metric == CVAR else key.metric
        alone = len(weakest.comparison.sizes) == 1
        shown = f"{_number(weakest)} at {_places([weakest], 0)}" if alone else ""
        about = (letter, key.text, f"{key.benchmark}, {metric}")
        rows.append((*about, *where, shown, _number(over_sizes) if over_sizes else ""))
    return rows


def _number(decision: Decision) -> str:
    return with_interval(decision.value, decision.low, decision.high)


def _places(decided: Sequence[Decision], all_of: int) -> str:
    """The sizes in words: "20, 50", or "all"."""
    if not decided or len(decided) == all_of:
        return "all" if decided else "–"
    spans = [d.comparison.sizes for d in decided]
    return ", ".join(str(span[0]) if len(span) == 1 else "the average" for span in spans)


def _test(studies: Sequence[StudyScores], how: Intervals, together: int) -> str:
    trials = ", ".join(f"{scores.benchmark} {scores.score.shape[1]:,} trials" for scores in studies)
    return (
        f"Paired bootstrap-t intervals over trials ({how.resamples:,} resamples, {trials};"
        f" CVaR at {how.alpha:g}), Bonferroni over the {together} differences shown, at"
        f" {how.level:.0%} together: a comparison holds if its interval lies above 0 (above"
        " minus its margin), fails if it lies below, and is open otherwise."
    )
