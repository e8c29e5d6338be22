"""What the paper's claims speak of, verdicts on them, and claims.md made from these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from surefoot.core.errors import ProblemError
from surefoot.core.text import Table

RANDOM_MDPS, WET_CHICKEN = "random-mdps", "wet-chicken"
BASIC, RAMDP, R_MIN, DUIPI = "basic-rl", "ramdp", "r-min", "duipi"
PI_B, PI_LEQ_B = "pi-b-spibb", "pi-leq-b-spibb"
APPROX, ADV, LOWER = "approx-soft-spibb", "adv-approx-soft-spibb", "lower-approx-soft-spibb"
PENALISING = (RAMDP, R_MIN, DUIPI)
RESTRICTING = (PI_B, PI_LEQ_B, APPROX, ADV, LOWER)
ALL = (BASIC, *PENALISING, *RESTRICTING)
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

HOLDS = "holds"
FAILS = "does not hold"
OPEN = "not decided at this many trials"


@dataclass(frozen=True, kw_only=True)
class ClaimVerdict:
    """One claim judged: its id ("C4"), the paper's statement, how it is read, and the verdict.

    `note` is a few words for the overview.
    """

    claim: str
    statement: str
    reading: str
    numbers: Table
    test: str
    verdict: str
    note: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in (HOLDS, FAILS, OPEN):
            raise ProblemError(
                f"verdict of {self.claim} must be {HOLDS!r}, {FAILS!r} or {OPEN!r}, got"
                f" {self.verdict!r}"
            )


def conjunction(verdicts: Iterable[str]) -> str:
    """All hold: holds; one fails: does not hold; else not decided."""
    found = set(verdicts)
    if FAILS in found:
        return FAILS
    return HOLDS if found == {HOLDS} else OPEN


def disjunction(verdicts: Iterable[str]) -> str:
    """One holds: holds; all fail: does not hold; else not decided."""
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
