"""surefoot improve: from a log to a policy file and a verdict. surefoot compare: every algorithm on
one log, in one table.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.guard_options import GuardedOptions, pose_guarded
from surefoot.cli.log_options import LogOptions, listed, parsed_settings
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
from surefoot.cli.posing import Posed, pose
from surefoot.cli.terminal import DESPITE, NO_SUPPORT, bars, show
from surefoot.text import aligned, interval, signed

if TYPE_CHECKING:
    from surefoot.advice import Advice

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
    from surefoot.advice import advise, chosen_algorithm, summarise
    from surefoot.advice.few_changes import check_most
    from surefoot.report.improvement_page import write_improvement
    from surefoot.report.improvement_words import improvement_statements, with_statements
    from surefoot.report.page import made_by
    from surefoot.report.statements import text

    check_most(most_changes)
    posed = pose_guarded(log, options, dask)
    advice = advise(
        posed.log,
        posed.problem,
        chosen_algorithm(posed.problem, algorithm, parsed_settings(settings)),
        units=posed.units,
        accept=accept,
        assured=True,
        despite=listed(despite),
        most_changes=most_changes,
        group_tolerance=options.group_tolerance,
        refit=refit,
    )
    summary = summarise(advice, log, posed.disagreement) | made_by() | {"gamma": options.gamma}
    summary = with_statements(summary)
    written = write_improvement(out, advice, summary, posed.elsewhere, page=not no_report)
    files = {name: str(path) for name, path in written.items()}
    found = summary | {"files": files}
    said = improvement_statements(found)
    show("improve", found, lambda: [text(said, explain=explain)], as_json)
    if not (advice.supported or advice.accepted):
        raise typer.Exit(NO_SUPPORT)
    if advice.waived:
        raise typer.Exit(DESPITE)


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
    from surefoot.advice.summary import log_summary
    from surefoot.algorithms import ALGORITHMS
    from surefoot.report.log_pages import compare_page

    posed = pose(log, options)
    found = {
        "log": log_summary(posed.log, log),
        "gamma": options.gamma,
        "algorithms": _compared(posed, listed(only) or list(ALGORITHMS)),
        "notes": posed.notes,
    }
    show("compare", found, lambda: _lines(found), as_json, report, lambda: compare_page(found))


def _compared(posed: Posed, names: list[str]) -> list[dict[str, Any]]:
    """One row of the table for each algorithm; one that cannot run on this log says why."""
    from surefoot.advice import advise, chosen_algorithm, units_of
    from surefoot.advice.advise import findings_about
    from surefoot.errors import BaselineError, NotAvailableError, ParameterError

    log, problem = posed.log, posed.problem
    units = units_of(log, problem.log, problem.gamma)
    findings = findings_about(log, problem)
    rows = []
    with bars() as shown:
        for i, name in enumerate(names):
            try:
                algorithm = chosen_algorithm(problem, name)
                advice = advise(log, problem, algorithm, units=units, against=findings)
                rows.append(_row(advice))
            except (BaselineError, NotAvailableError, ParameterError) as error:
                rows.append({"algorithm": name, "not_available": str(error)})
            shown("comparing algorithms", i + 1, len(names))
    return rows


def _row(advice: Advice) -> dict[str, Any]:
    from surefoot.advice.summary import gain_summary
    from surefoot.algorithms import parameters_of

    return {
        "algorithm": advice.algorithm.name,
        "parameters": parameters_of(advice.algorithm),
        "states_changed": len(advice.changed),
        "mass_moved": advice.mass_moved,
        "verdict": advice.verdict,
        "reason": advice.reason,
        "converged": None if advice.solution is None else bool(advice.solution.status.ok),
    } | gain_summary(advice.gain, advice.in_sample)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    """The table for people."""
    from surefoot.report.log_words import read_text

    header = ("", "states", "mass", "optimistic", "gain", "90 % interval", "supported")
    yield from (read_text(found["log"]), "")
    yield from aligned([header, *map(_cells, found["algorithms"])], "<>>>>><")
    yield (
        "\noptimistic: gain in sample, on the data the policy was learned from. gain: learned"
        " from one half of the log,\ntested on the other, with its 90 % interval. Each row is"
        " judged by itself; in a table of many rows one is lucky:\ntest the winner on fresh data."
    )
    yield from (f"note: {note}" for note in found["notes"])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    if "not_available" in row:
        return row["algorithm"], f"not available: {row['not_available']}"
    inside, cross = row["in_sample_optimistic"] or {}, row["held_out"] or {}
    lost = "" if row["converged"] in (True, None) else "  NOT CONVERGED"
    return (
        row["algorithm"],
        f"{row['states_changed']:d}",
        f"{row['mass_moved']:.1%}",
        signed(inside.get("gain")),
        signed(cross.get("gain")),
        interval(cross.get("low"), cross.get("high")),
        ("yes" if row["verdict"] == "supported" else "no") + lost,
    )
