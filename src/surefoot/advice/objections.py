"""Objections: what in a log forbids a promise, and what of it hardly matters for the gain that was
shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from surefoot.advice.gain import Gain
from surefoot.checks import Finding
from surefoot.checks.finding import BASELINE, DRIFT, MARKOV, MISSING, NOTE, TIME, not_looked_at
from surefoot.problems import Problem

MARGIN = 3.0  # circumstances that are not seen may matter so much more than those that are
MOST_MOVES = 0.8  # share of the moves that must be seen in the circumstances in which they are made


@dataclass(frozen=True)
class Objections:
    """Findings that veto, and those that nobody could look for.

    despite     keys that the user does not believe: they are overruled
    slight      findings that would veto if they changed this gain enough: they are told
    needless    keys that the test which was done does not need
    """

    raised: tuple[Finding, ...]
    despite: tuple[str, ...] = ()
    slight: tuple[Finding, ...] = ()
    needless: tuple[str, ...] = ()

    @property
    def against(self) -> tuple[Finding, ...]:
        """Those that matter, overruled or not."""
        slight = {x.key for x in self.slight}
        return tuple(x for x in self.raised if x.key not in slight)

    @property
    def stands(self) -> tuple[Finding, ...]:
        """Those that forbid the promise."""
        passed = {*self.despite, *self.needless}
        return tuple(x for x in self.against if x.key not in passed)

    @property
    def overruled(self) -> tuple[Finding, ...]:
        """Those without which the promise would not hold, as asked."""
        some = (x for x in self.raised if x.key not in self.needless)
        return tuple(x for x in some if x.key in self.despite)

    @property
    def markov(self) -> bool:
        """Whether the states say enough, as far as anybody looked."""
        passed = {*self.despite, *(x.key for x in self.slight)}
        return not any(x.key == MARKOV and x.looked for x in self.raised if x.key not in passed)


def objections_of(
    findings: Sequence[Finding], despite: Sequence[str], *, blind: bool
) -> Objections:
    """What the findings forbid; `blind`: nobody could look for what time and the past explain. Of
    missing episodes any number may matter (`slight_of`).
    """
    raised = [replace(x, vetoes=True) for x in findings if x.vetoes or x.key == MISSING]
    if blind and all(x.key != TIME for x in raised):
        raised.append(not_looked_at(TIME))
    return Objections(tuple(raised), tuple(despite))


def to_weights(found: Objections, findings: Sequence[Finding]) -> Objections:
    """Weights need the baseline itself, not nearly."""
    rough = [replace(x, vetoes=True) for x in findings if (x.key, x.level) == (BASELINE, NOTE)]
    return replace(found, raised=(*found.raised, *rough))


def hardly_matter(
    problem: Problem, gain: Gain, pi_b: np.ndarray, stands: Sequence[Finding]
) -> tuple[Finding, ...]:
    """Those findings of memory and drift that hardly change the gain: in the model whose states
    know the circumstances it is shown too, most moves can be checked there, and MARGIN times what
    it differs by stays below the bound. They say so, and veto nothing. Of single decisions the past
    says too little: what drives them is not seen.
    """
    some = [x for x in stands if x.key in (MARKOV, DRIFT) and x.looked]
    found, row = gain.circumstances, gain.evidence
    if not some or gain.weighed or not row.positive or found is None:
        return ()
    if found.log.n_episodes == len(found.log):
        return ()
    assert gain.held_out is not None
    inside, checked = found.gain(problem, gain.held_out, gain.pi, pi_b)
    low, differs = inside.interval()[0], abs(row.estimate - inside.value)
    if not (low > 0 and MARGIN * differs < row.low and checked > MOST_MOVES):
        return ()
    words = (
        ". It hardly matters for this gain: where the state knows the circumstances too, it is"
        f" {inside.value:.4g}, at least {low:.4g}"
    )
    return tuple(_slight(x, words) for x in some)


def too_few_missing(problem: Problem, gain: Gain, stands: Sequence[Finding]) -> tuple[Finding, ...]:
    """The finding that episodes are missing, where the gain would be shown if every one of them had
    been as bad as it can be for the policy: unseen events at the most that each could take away, or
    values at the floor. It says so, and vetoes nothing.
    """
    some, row = [x for x in stands if x.key == MISSING], gain.evidence
    if not some or not row.positive:
        return ()
    gone = float(some[0].numbers["missing"])
    if gain.weighed:
        left = (row.units * row.low - gone * problem.return_range.width) / (row.units + gone)
    elif gain.unseen is not None and problem.log is not None:
        left = row.low - gone * (int(problem.log.time.max()) + 1) * gain.unseen.each
    else:
        return ()
    if not left > max(row.explained, 0.0):
        return ()
    words = f". Had all of them been as bad as can be, the gain would still be at least {left:.4g}"
    return tuple(_slight(x, words) for x in some)


def _slight(x: Finding, words: str) -> Finding:
    return replace(x, sentence=x.sentence.rstrip(".") + words, vetoes=False)
