"""Evidence: what some data say about v^pi - v^{pi_b} of one part, as the row on which verdicts
rest; and when such a row shows the part to be better, no worse, or worse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from surefoot.core.plain_values import Shown

WHOLE, GUARD, GROUP = "whole", "guard", "group"
HIGHER, LOWER = "higher", "lower"
BETTER, WORSE = "better", "worse"
RIGOROUS = "rigorous"  # proved, for these data, under the assumptions listed
# a step of the proof does not hold exactly for these data: the assumptions say which
APPROXIMATE = "approximate"
FINITE_SAMPLE = "finite-sample"  # for any number of independent units
ASYMPTOTIC = "asymptotic"  # right in the limit of ample data
ROUNDING = 1e-9  # share of the largest value by which rounding may miss 0


@dataclass(frozen=True, kw_only=True)
class Part:
    """What a row is about: the gain as a whole, a guarded column, or a group of episodes.

    tolerance   the loss that counts as none; inf: the part is told, and not asked for
    """

    kind: str = WHOLE
    name: str = ""
    direction: str = HIGHER
    tolerance: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Evidence(Shown):
    """What some data say about v^pi - v^{pi_b} of one part, turned so that more is better; in
    `surefoot.evidence` also about v^pi alone, or a mean of any values.

    low, high   one-sided bounds, this part by itself: P( truth < low ) <= delta, and high likewise,
                as far as `validity` goes, inf where there is none from above; NaN where nothing
                could be tested, and `trouble` says why
    together    (low, high) for all parts of its kind, or for all statements of a test, at once
    seen        the low bound if nothing can happen that has not been seen
    units, unit how many independent pieces tell about it, and what a piece is
    episodes    how many episodes these pieces are; None: they are pieces of one
    unseen      what outcomes that have not been seen could take away; the low bound counts it
    explained   what time and the past explain of the estimate: it must be shown without that too
    checked     the share of the moves that the units can check
    size        of the largest value, for rounding
    weights     of weighted episodes: how much evidence the weights leave (`EpisodeValues.weighing`)
    within      the range that was seen where nobody declared one: a value beyond it may be rare,
                and as bad as it likes; None: declared. Of a guard, in the unit of its column
    """

    part: Part = Part()
    estimate: float = math.nan
    low: float = math.nan
    high: float = math.nan
    together: tuple[float, float] = (math.nan, math.nan)
    seen: float = math.nan
    delta: float = 0.05
    validity: str = ASYMPTOTIC
    units: int = 0
    unit: str = "episodes"
    episodes: int | None = None
    unseen: float = 0.0
    explained: float = 0.0
    checked: float = 1.0
    size: float = 0.0
    weights: tuple[tuple[str, float], ...] = ()
    within: tuple[float, float] | None = None
    trouble: str = ""
    assumes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def _facts(self) -> dict[str, Any]:
        """Of a bound that does not exist, why."""
        known = {"estimate": self.estimate, "low": self.low, "high": self.high}
        return {
            "part": " ".join(filter(None, (self.part.kind, self.part.name))),
            **{name: x for name, x in known.items() if not math.isnan(x)},
            "delta": self.delta,
            "validity": self.validity,
            self.unit: self.units,
            **({"trouble": self.trouble} if self.trouble else {}),
            **({"assumes": self.assumes} if self.assumes else {}),
            "notes": self.notes,
        }

    @property
    def told_by(self) -> str:
        """How many episodes, or other pieces, tell about it."""
        n, unit = (self.units, self.unit) if self.episodes is None else (self.episodes, "episodes")
        return f"{n:,} {unit}"

    @property
    def tested(self) -> bool:
        """Whether there is a bound."""
        return not math.isnan(self.low)

    @property
    def positive(self) -> bool:
        """Whether it is shown to be above 0, also without what time explains."""
        return self.low > max(self.explained, 0.0)

    @property
    def holds(self) -> bool:
        """Whether it is shown to be no worse than by the tolerance, also without what time
        explains, whatever may happen within the range that was declared.
        """
        return self.part.tolerance == math.inf or (self.within is None and self.holds_within)

    @property
    def holds_within(self) -> bool:
        """The same, if no value lies outside the range that was seen."""
        allowed = self.part.tolerance + ROUNDING * self.size
        return allowed == math.inf or self.low - max(self.explained, 0.0) >= -allowed

    @property
    def worse(self) -> bool:
        """Whether it is shown to be worse by more than the tolerance, for all statements at
        once.
        """
        return self.together[1] < -self.part.tolerance

    @property
    def shown(self) -> str:
        """BETTER or WORSE where a change is shown for all parts of its kind at once, else ""."""
        margin = ROUNDING * self.size
        if self.together[0] > max(self.explained, 0.0) + margin:
            return BETTER
        return WORSE if self.together[1] < min(self.explained, 0.0) - margin else ""

    @property
    def in_unit_of_column(self) -> Evidence:
        """The change and its bounds as the column of a guard has them: less may be better there."""
        if self.part.direction == HIGHER:
            return self
        (low, high), (first, last) = (self.low, self.high), self.together
        return replace(
            self, estimate=-self.estimate, low=-high, high=-low, together=(-last, -first)
        )
