"""surefoot report: the page of an improvement, made again from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.options import OUTPUT, AsJson, option
from surefoot.cli.terminal import show_document


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="What surefoot improve wrote (its --out).")
    ],
    out: Annotated[
        Path | None,
        option(OUTPUT, "FILE", "Where the page goes; report.html in the folder if not given."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the page of an improvement: verdict, changes, evidence, in one HTML file.

    surefoot improve writes it too, unless told --no-report. The page needs no network and no
    program but a browser; it can be printed. If surefoot safety-test --json tested the policy of
    the folder, put its output into safety-test.json there: the page then has the test, too.
    """
    from surefoot.atomic import write_whole
    from surefoot.report.folder import REPORT
    from surefoot.report.improvement_page import page_of_folder

    path = str(write_whole(folder / REPORT if out is None else out, page_of_folder(folder)))
    show_document("report", {"report": path}, lambda: [], as_json)
