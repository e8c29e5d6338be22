"""Verdicts on claims: what was claimed, how it was read, the numbers, the test, the outcome; and
claims.md made from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from surefoot.errors import ProblemError
from surefoot.text import Table

HOLDS = "holds"
FAILS = "does not hold"
OPEN = "not decided at this many trials"


@dataclass(frozen=True)
class Verdict:
    """One claim judged: its id ("C4"), the paper's statement, how it was made testable, numbers,
    test and verdict.

    `note` is a few words for the overview.
    """

    claim: str
    statement: str
    formalisation: str
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


def render_claims(verdicts: Sequence[Verdict], title: str = "Claims of the paper, judged") -> str:
    """claims.md: an overview, then each claim with its reading, test, numbers and verdict, in
    the order of their ids.
    """
    ordered = sorted(verdicts, key=lambda verdict: _order(verdict.claim))
    seen = [verdict.claim for verdict in ordered]
    twice = sorted({claim for claim in seen if seen.count(claim) > 1})
    if twice:
        raise ProblemError(f"claims judged twice: {', '.join(twice)}; give each claim one verdict")
    overview = Table(
        ("claim", "statement", "verdict", ""),
        tuple((v.claim, v.statement, f"**{v.verdict}**", v.note) for v in ordered),
    )
    return (
        "\n\n".join(
            [f"# {title}", overview.markdown(), *(_section(verdict) for verdict in ordered)]
        )
        + "\n"
    )


def _section(verdict: Verdict) -> str:
    parts = [
        f"## {verdict.claim}: {verdict.verdict}",
        f"> {verdict.statement}",
        f"**Read as.** {verdict.formalisation}".replace("**Read as.** - ", "**Read as.**\n\n- "),
        f"**Test.** {verdict.test}",
    ]
    return "\n\n".join([*parts, verdict.numbers.markdown()] if verdict.numbers.rows else parts)


def _order(claim: str) -> tuple[int, str]:
    """C2 before C10, C11 before C11b."""
    digits = "".join(c for c in claim if c.isdigit())
    return (int(digits) if digits else 0, claim)
