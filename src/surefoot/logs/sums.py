"""Sums of rewards that no order of rows, files or threads can change: whole numbers are added up,
never rounded ones.

Three ways, the first that holds for the rewards of a log of n < 2^B rows, of which M is the largest
in size:

steps    all are whole multiples of 1 / D (D = 1, 10, ..., 10,000) and n (M D)^2 < 2^53: sums of x =
         r D and x^2 are exact as DOUBLE.
parts    r is h 2^L + l units of M 2^-(H + L), whole numbers with |h| <= 2^H and |l| <= 2^(L - 1).
         One 128-bit integer holds sum(h) and sum(l) apart, as sum(h 2^(L + B) + l), another holds
         sum(h^2). A sum is then right to n M 2^-(H + L) and rounded once (H + L is 72 for 100
         million rows, 102 for a thousand), and rewards that differ by less than M 2^-H do not
         scatter (H is 49 to 52).
sorted   where that is too coarse, since some reward is less than 2^(32 - H - L) of the largest:
         each group is sorted before it is added up, which is slower.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp

DIVISORS = (1, 10, 100, 1_000, 10_000)
KEPT = 32  # bits that the smallest reward keeps at least in `parts`


def divisor_sql() -> str:
    """The least D of which all r are whole multiples of 1 / D, as near as a DOUBLE can be; larger
    than all DIVISORS if there is none.
    """
    cases = " ".join(f"when round(r * {d}::double) / {d}::double = r then {d}" for d in DIVISORS)
    return f"max(case {cases} else {DIVISORS[-1] + 1} end)"


@dataclass(frozen=True)
class RewardSums:
    """SQL for the sum r and the scatter m2 = sum((r - mean)^2) of the rewards r of a group of k
    rows.
    """

    rows: int
    largest: float
    smallest: float  # of the |r| > 0
    divisor: int = 0  # D, where all r are whole multiples of 1 / D

    @property
    def bits(self) -> tuple[int, int, int]:
        """(H, L, B)."""
        count = max(self.rows, 1).bit_length()
        high = min(52, (126 - count) // 2)
        return high, min(50, 126 - high - 2 * count), count

    @property
    def way(self) -> str:
        """How these rewards are added up."""
        stepped = self.divisor in DIVISORS
        if stepped and max(self.rows, 1) * (self.largest * self.divisor + 1) ** 2 < 2.0**53:
            return "steps"
        high, low, _ = self.bits
        return "parts" if self.smallest >= self.largest * 2.0 ** (KEPT - high - low) else "sorted"

    def groups(self, keys: str, rows: str) -> str:
        """SQL: the groups of rows with k, r and m2.

        With X = sum(h) and any whole number m near the mean: sum((h - X / k)^2) = sum(h^2) - m (2 X
        - k m) - (X - k m)^2 / k, in which nothing large is rounded.
        """
        if self.way == "sorted":
            return f"""
                select {keys}, count(*) as k, sum(r order by r) as r,
                       var_pop(r order by r) * count(*) as m2
                from {rows} group by {keys}"""
        scatter = "greatest(0, (q - m * (2 * x - k * m))::double - ((x - k * m)::double) ** 2 / k)"
        if self.way == "steps":
            d = f"{self.divisor}::double"
            return f"""
                select {keys}, k, x / {d} as r, {scatter} / {self.divisor**2}::double as m2 from (
                    select *, round(x / k) as m from (
                        select {keys}, count(*) as k, sum(h) as x, sum(h * h) as q
                        from (select *, round(r * {d}) as h from {rows}) group by {keys}))"""
        high, low, count = self.bits
        shift = high - frexp(self.largest)[1]  # 2^shift makes the rewards at most 2^H in size
        both = low + count
        packed = f"cast(h * {_power(both)} as hugeint) + cast((y - h) * {_power(low)} as bigint)"
        total = f"(x * {1 << low}::hugeint + (p - x * {1 << both}::hugeint))::double"
        return f"""
            select {keys}, k, {total} * {_power(-shift - low)} as r,
                   {scatter} * {_power(-2 * shift)} as m2 from (
                select *, round(x::double / k)::hugeint as m from (
                    select *, (p + {1 << (both - 1)}::hugeint) >> {both} as x from (
                        select {keys}, count(*) as k, sum({packed}) as p,
                               sum(cast(h as bigint)::hugeint * cast(h as bigint)) as q
                        from (select *, round(y) as h from
                                 (select *, r * {_power(shift)} as y from {rows}))
                        group by {keys})))"""


def _power(exponent: int) -> str:
    """2^exponent as an SQL number."""
    return f"{2.0**exponent!r}::double"
