"""surefoot improve: from a log to a policy file and a verdict; report: its page again. surefoot
compare: every algorithm on one log, in one table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.log_options import GuardedOptions, LogOptions, listed, parsed_settings
from surefoot.cli.options import (
    METHOD,
    OUTPUT,
    READING,
    AsJson,
    Despite,
    Explain,
    ReportFile,
    Source,
    option,
)
from surefoot.cli.progress import reading, reading_progress
from surefoot.cli.terminal import DESPITE, NO_SUPPORT, bars, show, show_document, show_with_page

Algorithm = Annotated[str, option(METHOD, "NAME", "The algorithm; surefoot list shows all.")]
Settings = Annotated[
    list[str] | None,
    option(
        METHOD, "KEY=VALUE", "A parameter, such as --set epsilon=0.5. May be repeated.", "--set"
    ),
]
Accept = Annotated[
    bool, option(METHOD, "", "Use the policy even if the data do not support it.", "--accept")
]
MostChanges = Annotated[
    int | None,
    option(
        METHOD,
        "K",
        "Change at most K states: those whose change is worth most. The others stay the baseline,"
        " in the test too.",
        default=False,
    ),
]
Refit = Annotated[
    bool,
    option(
        METHOD,
        "",
        "If supported, also write policy-all.csv: the tested method, learned from all rows. That"
        " policy itself is not tested.",
        "--refit",
    ),
]
Folder = Annotated[
    Path, option(OUTPUT, "FOLDER", "Where policy.csv, report.html and the other files go.")
]
NoReport = Annotated[
    bool, option(OUTPUT, "", "Leave out report.html, the page for people.", "--no-report")
]
Dask = Annotated[
    str | None,
    option(
        READING,
        "ADDRESS",
        "Count on a Dask cluster: its scheduler, such as tcp://host:8786. What needs rows in order"
        " is then not looked at, and forbids the verdict unless --despite names it.",
    ),
]
Only = Annotated[
    str, option(METHOD, "NAME,...", "Compare only these, such as basic-rl,ramdp+pi-b-spibb.")
]


def improve(
    log: Source,
    algorithm: Algorithm = "priced-soft-spibb",
    settings: Settings = None,
    accept: Accept = False,
    despite: Despite = "",
    most_changes: MostChanges = None,
    refit: Refit = False,
    out: Folder = Path("improved"),
    no_report: NoReport = False,
    dask: Dask = None,
    explain: Explain = False,
    as_json: AsJson = False,
    *,
    options: GuardedOptions,
) -> None:
    """Improve the policy that made a log, if the data support it.

    A random half of the log makes the policy, the other half tests it. The default method leaves
    the baseline only where a move gains more than a price, which grows with the uncertainty of the
    action. Its parameters have no unit, so they need no tuning to the scale of the rewards.

    With --guard and --group it is supported only if the other half also shows that no guarded
    column and no group is worse.

    Exit code 0: supported, or accepted with --accept. Exit code 5: supported only despite what
    --despite names. Exit code 3: not supported; policy.csv then holds the baseline (without its
    forbidden actions, where --renormalise takes them out), and candidate.csv the policy that was
    not supported.
    """
    from surefoot.advice import advise
    from surefoot.report.page import made_by

    with reading_progress() as progress:
        advice = advise(
            log,
            algorithm=algorithm,
            settings=parsed_settings(settings),
            accept=accept,
            despite=listed(despite),
            most_changes=most_changes,
            refit=refit,
            dask=dask,
            progress=progress,
            **options.asking(),
        )
    written = advice.save(out, page=not no_report, beside=made_by())
    files = {name: str(path) for name, path in written.items()}
    show(advice, as_json, {**made_by(), "files": files}, explain=explain)
    if not (advice.supported or advice.accepted):
        raise typer.Exit(NO_SUPPORT)
    if advice.waived:
        raise typer.Exit(DESPITE)


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
    from surefoot.core.atomic import write_whole
    from surefoot.report.folder import REPORT
    from surefoot.report.improvement_page import page_of_folder

    path = str(write_whole(folder / REPORT if out is None else out, page_of_folder(folder)))
    show_document("report", {"report": path}, lambda: [], as_json)


def compare(
    log: Source,
    only: Only = "",
    report: ReportFile = None,
    as_json: AsJson = False,
    *,
    options: LogOptions,
) -> None:
    """Run all algorithms on one log, and print one table.

    They run with default parameters. The gain is measured on the half of the log that the policy
    was not learned from. Choosing the best row of this table is a choice too: test the winner on
    fresh data. The exit code is 0 whatever the verdicts.
    """
    from surefoot import advice

    with bars() as shown:
        given = {"shown": shown, "progress": reading(shown), **options.asking()}
        found = advice.compare(log, listed(only), **given)
    show_with_page(found, as_json, report)
