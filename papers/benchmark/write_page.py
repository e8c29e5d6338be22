"""The tables of docs/benchmark.md, from scores.csv beside this file; and that file from a folder of
`surefoot benchmark`, as far as it has come.

    surefoot benchmark --out results/benchmark
    python papers/benchmark/write_page.py results/benchmark
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

from surefoot.core.atomic import write_whole
from surefoot.core.errors import StudyError
from surefoot.research.score_table import (
    ALL,
    HEADER,
    REFERENCE,
    ScoreRow,
    ScoreTable,
    definition,
    score_rows,
    shown,
    world_study,
)
from surefoot.research.studies.shards import Folder

FEWER = 500  # trials of an algorithm that has not been run to the end; 1%-CVaR needs as many
HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "benchmark.md"
BEGIN = "<!-- scores: made by papers/benchmark/write_page.py -->\n"
END = "<!-- end of scores -->\n"


def read_scores(path: Path = HERE / "scores.csv") -> list[ScoreRow]:
    """The rows of the table."""
    kinds = get_type_hints(ScoreRow)
    with open(path, newline="", encoding="utf-8") as file:
        return [
            ScoreRow(
                **{
                    k: kinds[k](x if x != "" else "nan") if kinds[k] is not str else x
                    for k, x in row.items()
                }
            )
            for row in csv.DictReader(file)
        ]


def collected(results: Path) -> Iterator[ScoreRow]:
    """What a folder holds: each algorithm with all trials of its world, or with fewer."""
    for world in definition()["worlds"]:
        name = world.get("title", world["name"])
        for one in definition()["algorithms"]:
            for trials in (world["trials"], FEWER):
                only = (REFERENCE, one["name"])
                folder = Folder(results / name, world_study(name, None, trials, only), 1)
                try:
                    rows = score_rows(folder.results(), name)
                except StudyError:  # not finished
                    continue
                yield from (row for row in rows if row.algorithm == one["name"])
                break


def tables(rows: list[ScoreRow]) -> Iterator[str]:
    """A table a world, best mean first; algorithms that have fewer trials say so."""
    for world in dict.fromkeys(row.world for row in rows):
        here = [row for row in rows if (row.world, row.size) == (world, ALL)]
        most = max(row.trials for row in here)
        yield f"### {world}, {most:,} trials\n\n"
        yield f"| {' | '.join(HEADER)} |\n{'|---' + '|---:' * (len(HEADER) - 1)}|\n"
        for row in sorted(here, key=lambda row: -row.mean):
            label, *cells = shown(row)
            fewer = f" ({row.trials:,} trials)" * (row.trials < most)
            yield f"| {label}{fewer} | {' | '.join(cells)} |\n"
        yield "\n"


def page(text: str, rows: list[ScoreRow]) -> str:
    """The page with these tables."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + "\n" + "".join(tables(rows)) + END + rest.partition(END)[2]


def main() -> None:
    """Write scores.csv, where a folder is given, and the page."""
    for results in sys.argv[1:2]:
        ScoreTable(tuple(collected(Path(results)))).save(HERE / "scores.csv")
    write_whole(PAGE, page(PAGE.read_text(encoding="utf-8"), read_scores()))


if __name__ == "__main__":
    main()
