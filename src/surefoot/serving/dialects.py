"""What SQL dialects write differently: names, text, casts, missing numbers, a hash to draw by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from surefoot.core.errors import ParameterError

SALT = "surefoot:"  # before the key, so that lots drawn for something else by the same key differ
ESCAPES = str.maketrans({"\\": r"\\", "'": r"\'", "\n": r"\n", "\r": r"\r"})


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One way to write SQL.

    quotes     around a name; the closing one is doubled inside
    escapes    whether \\ begins an escape in text
    as_text    a column as text, {} its name
    draw       a whole number in 0..`lots` - 1 of a text {}, evenly spread
    join       between texts
    no_number  whether a column {}, which is not NULL, holds no number at all; "" where it always
               does
    """

    name: str
    as_text: str
    draw: str
    no_number: str = ""
    quotes: str = '""'
    escapes: bool = False
    lots: int = 2**32
    join: str = " || "
    text_prefix: str = ""

    def column(self, name: str) -> str:
        """A column name."""
        left, right = self.quotes[0], self.quotes[1]
        if self.name == "bigquery" and set(name) & set("`\\"):
            raise ParameterError(f"a column of BigQuery cannot have ` or \\ in its name: {name!r}")
        return left + name.replace(right, 2 * right) + right

    def text(self, text: str) -> str:
        """A text."""
        if self.escapes:
            return f"'{text.translate(ESCAPES)}'"
        if self.text_prefix and ("\\\n" in text or "\\\r" in text or text != text.rstrip(" ")):
            raise ParameterError(
                f"{text!r} is not the same text in T-SQL, which joins a line that ends in \\ to the"
                " next, and does not heed spaces at the end: rename it"
            )
        return f"{self.text_prefix}'" + text.replace("'", "''") + "'"

    def truth(self, x: bool) -> str:
        """A truth value."""
        return ("0", "1")[x] if self.name == "tsql" else ("FALSE", "TRUE")[x]

    def label(self, name: str) -> str:
        """A column as text that is equal to a label if it is the same, letter by letter."""
        binary = " COLLATE Latin1_General_BIN2" * bool(self.text_prefix)
        return self.as_text.format(self.column(name)) + binary

    def lot(self, key: Sequence[str]) -> str:
        """The lot of a row, drawn by its key."""
        parts = f"{self.join}':'{self.join}".join(
            self.as_text.format(self.column(x)).replace("NVARCHAR(4000)", "VARCHAR(4000)")
            for x in key
        )
        return self.draw.format(f"'{SALT}'{self.join}{parts}")

    def missing(self, name: str) -> str:
        """Whether a column of numbers is NULL or NaN."""
        column = self.column(name)
        nan = f" OR LOWER({self.as_text.format(column)}) = 'nan'"
        return f"{column} IS NULL" + nan * (self.name not in ("sqlite", "tsql"))

    def no_reading(self, name: str) -> str:
        """Whether a column holds something that is no finite number; not so of NULL."""
        column = self.column(name)
        return self.no_number.format(column) + f"NOT ABS({column}) < 1e308"


def _sqlite_draw() -> str:
    """A hash in whole numbers below 2^63, for SQLite has none: letter by letter
    x <- 48271 x^5 + letter modulo p = 2^31 - 1, and x^5 at the end, after a last letter that all
    keys have. x^5 is one to one there, since 5 does not divide p - 1.
    """
    p = 2**31 - 1
    fifth = f"x * x % {p} * (x * x % {p}) % {p} * x % {p}"
    return (
        "(WITH RECURSIVE letters(i, x, k) AS (SELECT 1, 1, {} || '.' UNION ALL SELECT i + 1,"
        f" ({fifth} * 48271 + UNICODE(SUBSTR(k, i, 1))) % {p}, k FROM letters"
        f" WHERE i <= LENGTH(k)) SELECT {fifth} FROM letters WHERE i > LENGTH(k))"
    )


DIALECTS = MappingProxyType(
    {
        x.name: x
        for x in (
            Dialect(
                name="duckdb",
                as_text="CAST({} AS VARCHAR)",
                draw="CAST('0x' || SUBSTR(MD5({}), 1, 8) AS BIGINT)",
            ),
            Dialect(
                name="postgres",
                as_text="CAST({} AS TEXT)",
                draw="CAST(CAST('x' || SUBSTR(MD5({}), 1, 8) AS BIT(32)) AS BIGINT)",
            ),
            Dialect(
                name="sqlite",
                as_text="CAST({} AS TEXT)",
                draw=_sqlite_draw(),
                lots=2**31 - 1,
                no_number="TYPEOF({}) IN ('text', 'blob') OR ",
            ),
            Dialect(
                name="bigquery",
                as_text="CAST({} AS STRING)",
                draw="CAST('0x' || SUBSTR(TO_HEX(MD5({})), 1, 8) AS INT64)",
                quotes="``",
                escapes=True,
            ),
            Dialect(
                name="spark",
                as_text="CAST({} AS STRING)",
                draw="CAST(CONV(SUBSTR(MD5({}), 1, 8), 16, 10) AS BIGINT)",
                quotes="``",
                escapes=True,
            ),
            Dialect(
                name="tsql",
                as_text="CAST({} AS NVARCHAR(4000))",
                draw="CAST(SUBSTRING(HASHBYTES('MD5', {}), 1, 4) AS BIGINT)",
                quotes="[]",
                join=" + ",
                text_prefix="N",
            ),
        )
    }
)
