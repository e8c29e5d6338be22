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


def in_steps(divisor: int) -> str:
    """SQL: whether r is a whole multiple of 1 / divisor, as near as a DOUBLE can be."""
    return f"(round(r * {divisor}::double) / {divisor}::double = r)"


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
        if self.divisor and max(self.rows, 1) * (self.largest * self.divisor + 1) ** 2 < 2.0**53:
            return "steps"
        high, low, _ = self.bits
        return "parts" if self.smallest >= self.largest * 2.0 ** (KEPT - high - low) else "sorted"

    @property
    def _shift(self) -> int:
        """The power of 2 that makes the rewards at most 2^H in size."""
        return self.bits[0] - frexp(self.largest)[1]

    def extremes(self, condition: str = "") -> tuple[str, str]:
        """(the lowest, the highest) of the rewards of prepared rows, in `steps` NaN if one is
        missing or no whole multiple of 1 / D.
        """
        if self.way == "steps":
            return (
                f"min(h){condition} / {self.divisor}::double",
                f"max(h){condition} / {self.divisor}::double",
            )
        return f"min(r){condition}", f"max(r){condition}"

    def size(self, condition: str = "") -> str:
        """The sum of |r| of prepared rows, in whole numbers where it can be: DuckDB adds one up
        in 3 ns, a DOUBLE in 50.
        """
        if self.way == "sorted":
            return f"coalesce(sum(abs(r)){condition}, 0)"
        x, unit = (
            ("h", f"{1 / self.divisor!r}::double")
            if self.way == "steps"
            else ("y", _power(-self._shift))
        )
        return f"coalesce(sum(try_cast(abs({x}) as bigint)){condition}, 0)::double * {unit}"

    def prepared(self, rows: str) -> str:
        """Rows with the whole numbers of their rewards."""
        if self.way == "steps":
            whole = f"round(r * {self.divisor}::double)"
            return (
                f"(select *, case when {in_steps(self.divisor)} then {whole} else 'nan'::double end"
                f" as h from {rows})"
            )
        if self.way == "parts":
            return (
                f"(select *, round(y) as h from (select *, r * {_power(self._shift)} as y from"
                f" {rows}))"
            )
        return rows

    @property
    def aggregates(self) -> str:
        """What is summed over each group of prepared rows."""
        if self.way == "steps":
            return "sum(h) as p, sum(h * h) as q"
        if self.way == "sorted":
            return "sum(r order by r) as p, var_pop(r order by r) as q"
        _, low, count = self.bits
        packed = (
            f"cast(h * {_power(low + count)} as hugeint) + cast((y - h) * {_power(low)} as bigint)"
        )
        return f"sum({packed}) as p, sum(cast(h as bigint)::hugeint * cast(h as bigint)) as q"

    def finished(self, groups: str) -> str:
        """Groups with k and the aggregates, as groups with r and m2.

        With X = sum(h) and any whole number m near the mean: sum((h - X / k)^2) = sum(h^2) - m (2 X
        - k m) - (X - k m)^2 / k, in which nothing large is rounded.
        """
        if self.way == "sorted":
            return f"(select *, p as r, q * k as m2 from {groups})"
        scatter = "greatest(0, (q - m * (2 * x - k * m))::double - ((x - k * m)::double) ** 2 / k)"
        if self.way == "steps":
            centred = f"(select *, p as x, round(p / k) as m from {groups})"
            return (
                f"(select *, p / {self.divisor}::double as r, {scatter} / {self.divisor**2}::double"
                f" as m2 from {centred})"
            )
        _, low, count = self.bits
        both = low + count
        apart = f"(select *, (p + {1 << (both - 1)}::hugeint) >> {both} as x from {groups})"
        centred = f"(select *, round(x::double / k)::hugeint as m from {apart})"
        total = (
            f"(x * {1 << low}::hugeint + (p - x * {1 << both}::hugeint))::double *"
            f" {_power(-self._shift - low)}"
        )
        return (
            f"(select *, {total} as r, {scatter} * {_power(-2 * self._shift)} as m2 from {centred})"
        )


def _power(exponent: int) -> str:
    """2^exponent as an SQL number."""
    return f"{2.0**exponent!r}::double"
