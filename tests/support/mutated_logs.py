"""Mutations of a good log file: each makes it wrong, odd, or only different; the same seed makes
the same file.
"""

from __future__ import annotations

import random
from collections.abc import Callable

Table = list[list[str]]
HEADER = ["episode", "time", "state", "action", "reward", "next_state", "terminal"]
ODD = [
    "",
    " ",
    "0",
    "-0",
    "01",
    "1",
    "1e308",
    "-1e308",
    "1e400",
    "nan",
    "NaN",
    "inf",
    "-Infinity",
    "abc",
    "1,5",
    "1_000",
    "0x10",
    "null",
    "NULL",
    "None",
    "true",
    "FALSE",
    "2",
    "=1+1",
    "@SUM(A1)",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "<script>alert(1)</script>",
    "<b>",
    "'; drop table x; --",
    '"',
    "é",
    "日本語",
    "\u202e",
    "\u0000",
    "e\u0301",
    "🙂",
    "x" * 3000,
    "9" * 40,
    "2024-01-01",
    "2024-01-01T00:00:00Z",
    "1.5",
    "(end)",
    "99999999999999999999",
    "9007199254740993",
    "a\nb",
    "a\r\nb",
    "\t",
    "$1",
    "{}",
    "[1]",
    "\\",
    "\ufeff",
]


def good(rng: random.Random) -> Table:
    """Some episodes with text labels; about half of them end."""
    rows = []
    for episode in range(rng.randint(1, 4)):
        n = rng.randint(1, 6)
        path = [rng.choice(["ward A", "ward B", "icu", "home, sweet", "7"]) for _ in range(n)] + [
            "out"
        ]
        ended = rng.random() < 0.5
        for t in range(n):
            last = t == n - 1
            follow = path[t + 1] if not last or ended else path[0]
            reward = str(rng.choice([0, 1, -1.5, 0.25, 1e-3]))
            rows.append(
                [
                    f"ep{episode}",
                    str(t),
                    path[t],
                    rng.choice(["wait", "treat", "0"]),
                    reward,
                    follow,
                    str(int(last and ended)),
                ]
            )
    return [list(HEADER), *rows]


def text(table: Table) -> bytes:
    """The table as CSV."""

    def cell(x: str) -> str:
        return '"' + x.replace('"', '""') + '"' if any(c in x for c in ',"\n\r') else x

    return "".join(",".join(map(cell, row)) + "\n" for row in table).encode(
        "utf-8", "surrogatepass"
    )


def odd_cell(table: Table, rng: random.Random) -> bytes:
    row = rng.randrange(0 if rng.random() < 0.1 else 1, len(table))
    table[row][rng.randrange(len(table[row]))] = rng.choice(ODD)
    return text(table)


def odd_column(table: Table, rng: random.Random) -> bytes:
    at, value = rng.randrange(len(HEADER)), rng.choice(ODD)
    for row in table[1:]:
        row[at] = value if rng.random() < 0.7 else row[at]
    return text(table)


def renamed_label(table: Table, rng: random.Random) -> bytes:
    """Every occurrence of a label becomes an odd one: the log stays good."""
    old, new = (
        rng.choice(["ward A", "icu", "wait", "ep0"]),
        rng.choice([x for x in ODD if x.strip("\0 ")]),
    )
    return text([table[0], *([new if x == old else x for x in row] for row in table[1:])])


def dropped_column(table: Table, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(table[0]))
        table = [row[:at] + row[at + 1 :] for row in table]
    return text(table)


def optional_dropped(table: Table, rng: random.Random) -> bytes:
    gone = rng.choice([["next_state"], ["terminal"], ["time"], ["next_state", "time"]])
    keep = [i for i, name in enumerate(table[0]) if name not in gone]
    return text([[row[i] for i in keep] for row in table])


def wide(table: Table, rng: random.Random) -> bytes:
    extra = 9_993 if rng.random() < 0.2 else rng.randint(1, 50)
    return text(
        [
            row + [f"column {i}" if n == 0 else str(i) for i in range(extra)]
            for n, row in enumerate(table)
        ]
    )


def ragged(table: Table, rng: random.Random) -> bytes:
    row = rng.randrange(1, len(table))
    table[row] = (
        table[row][: rng.randrange(1, len(HEADER))]
        if rng.random() < 0.5
        else [*table[row], "extra"]
    )
    return text(table)


def flipped(table: Table, rng: random.Random) -> bytes:
    raw = bytearray(text(table))
    for _ in range(rng.choice([1, 1, 2, 8, 40])):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    return bytes(raw)


def cut_short(table: Table, rng: random.Random) -> bytes:
    raw = text(table)
    return raw[: rng.randrange(len(raw))]


def shuffled(table: Table, rng: random.Random) -> bytes:
    rows = table[1:]
    rng.shuffle(rows)
    return text([table[0], *rows])


def repeated(table: Table, rng: random.Random) -> bytes:
    row = rng.choice(table[1:])
    table.insert(rng.randrange(1, len(table) + 1), list(row))
    return text(table)


def lost_row(table: Table, rng: random.Random) -> bytes:
    del table[rng.randrange(1, len(table))]
    return text(table)


def line_ends(table: Table, rng: random.Random) -> bytes:
    raw = text(table)
    return rng.choice(
        [
            raw.replace(b"\n", b"\r\n"),
            raw.replace(b"\n", b"\r"),
            raw.replace(b"\n", b"\r\n", 2),
            b"\xef\xbb\xbf" + raw,
            raw + b"\n\n",
            raw[:-1],
        ]
    )


def encoded(table: Table, rng: random.Random) -> bytes:
    table[rng.randrange(1, len(table))][2] = "Zürich"
    return (
        text(table).decode().encode(rng.choice(["latin-1", "utf-16", "utf-8", "cp1252"]), "replace")
    )


MUTATIONS: list[Callable[[Table, random.Random], bytes]] = [
    odd_cell,
    odd_column,
    renamed_label,
    dropped_column,
    optional_dropped,
    wide,
    ragged,
    flipped,
    cut_short,
    shuffled,
    repeated,
    lost_row,
    line_ends,
    encoded,
]


def mutated(seed: int) -> bytes:
    """One hostile file; now and then with two mutations' worth of odd cells."""
    rng = random.Random(seed)
    table = good(rng)
    if rng.random() < 0.2:
        odd_cell(table, rng)
    return MUTATIONS[seed % len(MUTATIONS)](table, rng)
