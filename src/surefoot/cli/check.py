"""surefoot check: what a log can and cannot teach."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text

from surefoot.cli.log_options import ReadOptions
from surefoot.cli.options import BASELINE, PROBLEM, AsJson, ReportFile, Source, option
from surefoot.cli.posing import read
from surefoot.cli.terminal import show
from surefoot.text import plural

if TYPE_CHECKING:
    from surefoot.diagnosis import Finding
    from surefoot.logs import Log

COLOURS = {"ok": "green", "note": "yellow", "warning": "bold red"}


def check(
    log: Source,
    gamma: Annotated[
        float, option(PROBLEM, "NUMBER", "The discount factor: how far ahead returns look.")
    ] = 0.95,
    baseline: Annotated[
        Path | None,
        option(
            BASELINE, "FILE", "The policy that made the log: columns state, action, probability."
        ),
    ] = None,
    report: ReportFile = None,
    as_json: AsJson = False,
    *,
    options: ReadOptions,
) -> None:
    """Check a log before learning from it.

    It looks at size, coverage, rare pairs, dead ends, independent returns and time gaps. It tests
    whether the log is Markov (and if not, which --history helps), whether world and baseline stay
    the same, whether episodes are copies, and whether rows contradict each other. Every finding is
    ok, a note or a warning. The exit code is 0 for every log that can be read.
    """
    from surefoot.diagnosis import check_log
    from surefoot.diagnosis.enough_history import enough_history
    from surefoot.diagnosis.finding import MARKOV
    from surefoot.logs import read_policy

    found, _ = read(log, options)
    given = None if baseline is None else read_policy(baseline, found, unknown_states="ignore")
    discount = 0.0 if options.bandit else found.step_discount(gamma)
    findings = check_log(found, gamma=discount, baseline=given)
    markov = next((x for x in findings if x.key == MARKOV), None)
    history = None if markov is None else enough_history(found, markov)
    findings += () if history is None else (history,)
    account = found.accounting
    document = {
        "log": log,
        "columns": found.columns,
        "reward": found.reward_summary,
        "rows": {"read": account.rows, "used": account.used, "left_out": dict(account.left_out)},
        "warnings": sum(finding.level == "warning" for finding in findings),
        "vetoes": [finding.key for finding in findings if finding.vetoes],
        "findings": [asdict(finding) for finding in findings],
    }
    from surefoot.report.log_pages import check_page

    page = functools.partial(check_page, document)
    show("check", document, lambda: _lines(found, findings), as_json, report, page)


def _lines(log: Log, findings: tuple[Finding, ...]) -> Iterator[str | Text]:
    """Row accounting, then one finding a line."""
    yield str(log.accounting)
    yield Text(log.columns, style="dim")
    yield Text(log.reward_summary["sentence"])
    yield from (Text(x, style=COLOURS["warning"]) for x in log.warnings)
    for x in findings:
        level = (f"{x.level:>7}", COLOURS[x.level])
        yield Text.assemble(level, "  ", (f"{x.name}:", "bold"), f" {x.sentence}")
    warnings = sum(x.level == "warning" for x in findings)
    last = plural(warnings, "warning") if warnings else "no warnings"
    yield f"{plural(len(findings), 'finding')}, {last}"
    keys = ",".join(x.key for x in findings if x.vetoes)
    if keys:
        yield (
            "improve supports no policy learned from this log, unless told to with --despite"
            f" {keys}"
        )
