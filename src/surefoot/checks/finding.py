"""Finding: one thing a check found, as a sentence for people and numbers for machines; several
tests of one question as one verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from surefoot.core.errors import ParameterError, SurefootError
from surefoot.core.labels import as_text
from surefoot.core.text import plural, some
from surefoot.logs import Disagreement, Log
from surefoot.statistics.independence import Result, Tables, g_tests

OK, NOTE, WARNING = "ok", "note", "warning"
LEVEL = 0.05  # of every test: the probability of a warning about a log without fault
STRICT = 0.005  # of every test that vetoes; three together: nominally 1.5 % of logs without fault
DOUBTFUL = 1e-3  # a baseline less likely than this to have made the log did not make it
MUCH = 0.1  # a test of a smaller share of the steps than this says so
SLIGHT = 0.001  # a context that explains less than this share of the uncertainty hardly matters
FEWEST = 20  # a test on fewer rows than this counts as no test
NAMED = 5  # worst states to name
DRIFT, POLICY_DRIFT, MARKOV, BASELINE = "drift", "policy-drift", "markov", "baseline"
COPIES, CONTRADICTIONS, PROPENSITIES = "copies", "contradictions", "propensities"
CUTS, TIME, MISSING, LEAKAGE = "cuts", "time", "missing", "leakage"
KEYS = (
    DRIFT, POLICY_DRIFT, MARKOV, BASELINE, COPIES, CONTRADICTIONS, PROPENSITIES,
    CUTS, TIME, MISSING, LEAKAGE,
)  # fmt: skip
# what needs the rows of a log, in words
BY_ROWS = {
    MARKOV: "memory",
    DRIFT: "drift",
    POLICY_DRIFT: "drift of the baseline",
    COPIES: "copies",
    CONTRADICTIONS: "contradictions",
    TIME: "what time and the past explain of a gain",
    CUTS: "rows left out since nothing ends",
}
NO_ROWS = "its rows were counted elsewhere, or without their order"


@dataclass(frozen=True)
class Finding:
    """`level` is "ok", "note" (good to know) or "warning" (may make a learned policy wrong).

    `key` names a kind of finding that can make a promise untrue; `vetoes` says that this one does,
    beyond the doubt that a warning allows: a log without fault is vetoed in at most about 3 % of
    cases, over all keys together. Not `looked`: nobody could look, so nothing can be promised.
    """

    name: str
    level: str
    sentence: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    vetoes: bool = False
    looked: bool = True

    def __post_init__(self) -> None:
        if self.level not in (OK, NOTE, WARNING):
            raise SurefootError(f"a finding is ok, note or warning, got {self.level!r}")
        if self.key not in ("", *KEYS) or (self.vetoes and not self.key):
            raise SurefootError(
                f"the key of a finding that vetoes is one of {', '.join(KEYS)}, got {self.key!r}"
            )


def check_keys(despite: Sequence[str]) -> None:
    """Raise unless findings of these kinds may be passed over."""
    unknown = [key for key in despite if key not in KEYS]
    if unknown:
        raise ParameterError(f"despite takes {', '.join(KEYS)}, got {unknown[0]!r}")


def not_looked_at(key: str, why: str = NO_ROWS) -> Finding:
    """That nobody could look for what this key names."""
    sentence = f"not looked at: {BY_ROWS[key]} ({why})"
    return Finding(BY_ROWS[key], WARNING, sentence, {"why": why}, key, vetoes=True, looked=False)


def joint_words(found: Sequence[Finding]) -> str:
    """What several findings say; those that nobody could look for, by the reason."""
    words = [x.sentence for x in found if x.looked]
    unseen: dict[str, list[str]] = {}
    for x in found:
        if not x.looked:
            unseen.setdefault(x.numbers["why"], []).append(x.name)
    return "; ".join(
        words + [f"not looked at: {', '.join(names)} ({why})" for why, names in unseen.items()]
    )


@dataclass(frozen=True, kw_only=True)
class TestVerdict:
    """Several tests of one question as one p-value (Bonferroni), and the states that deviate most.

    source      the test with the smallest p-value, in words
    explained   the share that the context explains in that test, and `of` what it is a share
    worst       (state, p-value of the state corrected for the number of states and tests)
    pairs, rows that could be tested; rows = 0: not enough data for any test
    """

    p_value: float
    source: str
    explained: float
    of: str
    worst: tuple[tuple[object, float], ...]
    pairs: int
    rows: int


def verdict(
    log: Log,
    state: np.ndarray,
    found: Mapping[str, Tables],
    evidence: Sequence[Result],
    inflation: float = 1.0,
) -> TestVerdict:
    """G-tests of the tables get half of the level, the other evidence gets the other half. G is
    divided by `inflation`.

    The strata of the tables belong to `state` [strata]. A table has two p-values: all states
    together, and the worst state. Each p-value is multiplied by the number of those in its half.
    """
    each = {name: g_tests(table, len(state)) for name, table in found.items()}
    by_stratum = {name: replace(test, g=test.g / inflation) for name, test in each.items()}
    by_state = {name: test.by(state, log.n_states) for name, test in by_stratum.items()}
    times = 4 * len(found)
    tests = [
        *(
            Result(name, times * min(test.p_together, test.p_worst), test.explained, 0)
            for name, test in by_state.items()
        ),
        *(replace(x, p_value=x.p_value * len(evidence) * 2) for x in evidence),
    ]
    best = min(tests, key=lambda x: x.p_value)
    usable = np.any([test.degrees > 0 for test in by_stratum.values()], axis=0)
    in_tables = int(next(iter(by_stratum.values())).n[usable].sum())
    rows = max([in_tables, *(x.rows for x in evidence if x.rows >= FEWEST)])
    p = np.min(
        [
            np.minimum(1.0, test.p_values * max(1, int((test.degrees > 0).sum())) * times)
            for test in by_state.values()
        ],
        axis=0,
    )
    tested = np.any([test.degrees > 0 for test in by_state.values()], axis=0)
    worst = [int(s) for s in np.argsort(p, kind="stable") if tested[s]][:NAMED]
    return TestVerdict(
        p_value=min(1.0, best.p_value) if rows else 1.0,
        source=best.source,
        explained=best.explained,
        of=best.of,
        worst=tuple((log.states[s], float(p[s])) for s in worst),
        pairs=int(usable.sum()),
        rows=rows,
    )


def concluded(
    name: str,
    key: str,
    verdict: TestVerdict,
    numbers: Mapping[str, object],
    *,
    untested: str,
    fine: str,
    wrong: str,
    advice: str,
    how: str,
    steps: int = 0,
) -> Finding:
    """The finding of a test: `untested`, `fine`, or what is `wrong`, what to do (`advice`), and
    `how` that was found, with the worst states.

    A test that is fine but looked at a small share of `steps` says so.
    """
    numbers = {
        "p_value": verdict.p_value,
        "level": LEVEL,
        "test": verdict.source,
        "explained": verdict.explained,
        "pairs": verdict.pairs,
        "rows": verdict.rows,
        "worst": [[as_text(label), p] for label, p in verdict.worst],
    } | dict(numbers)
    if not verdict.rows:
        return Finding(name, NOTE, untested, numbers, key)
    fine = f"{fine} ({how})"
    if verdict.p_value >= LEVEL:
        if verdict.rows >= MUCH * steps:
            return Finding(name, OK, fine, numbers, key)
        sentence = (
            f"{fine}: only {verdict.rows / steps:.1%} of the steps could be tested, the others are"
            " of pairs visited too rarely"
        )
        return Finding(name, NOTE, sentence, numbers, key)
    out = [label for label, p in verdict.worst if p < LEVEL]
    explains = f"explains {verdict.explained:.1%} {verdict.of}; {how}"
    sentence = f"{wrong}. {advice}. Test: {explains}{f'; worst in {named(out)}' if out else ''}"
    matters = verdict.explained >= SLIGHT
    vetoes = matters and verdict.p_value < STRICT
    return Finding(name, WARNING if matters else NOTE, sentence, numbers, key, vetoes)


def tested(verdict: TestVerdict) -> str:
    """What a test looked at, in words."""
    pairs = f"{plural(verdict.pairs, 'pair')} with enough visits and " if verdict.pairs else ""
    return f"p = {verdict.p_value:.2g}, {pairs}{verdict.rows:,} steps tested"


def named(states: Sequence[object]) -> str:
    """Some labels in words: 'a', 'b', 'c' and 4 more."""
    return some([repr(as_text(label)[:60]) for label in states], 3)


def doubt(found: Disagreement | None) -> str:
    """That a given baseline cannot have made the log, in words; "" where it can."""
    if found is None or not (found.impossible or found.p_value < DOUBTFUL):
        return ""
    rows = f", {found.impossible:,} impossible rows" if found.impossible else ""
    return (
        f"the baseline cannot have made this log (p = {found.p_value:.2g}{rows}): give the policy"
        " that did"
    )
