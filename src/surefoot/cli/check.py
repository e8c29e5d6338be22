"""surefoot check: what a log can and cannot teach."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from rich.text import Text

from surefoot.cli.log_options import NOT_GIVEN, LogOptions
from surefoot.cli.options import OUTPUT, PROBLEM, AsJson, ReportFile, Source, option
from surefoot.cli.posing import read
from surefoot.cli.terminal import show
from surefoot.text import plural

if TYPE_CHECKING:
    from surefoot.diagnosis import Finding
    from surefoot.logs import Log

COLOURS = {"ok": "green", "note": "yellow", "warning": "bold red"}


GAMMA = 0.95  # how far ahead returns look where nobody said it


@dataclass(frozen=True, kw_only=True)
class CheckOptions(LogOptions):
    """The options of a check."""

    needs_gamma: ClassVar[bool] = False

    gamma: Annotated[
        float,
        option(
            PROBLEM,
            "NUMBER",
            "The discount factor: how far ahead returns look. Saved only if given.",
            default=f"{GAMMA}",
        ),
    ] = NOT_GIVEN


def check(
    log: Source,
    save: Annotated[
        Path | None,
        option(
            OUTPUT,
            "FILE",
            "Write down how LOG is read and what is asked of it, such as log.toml: every command"
            " takes that file as LOG.",
        ),
    ] = None,
    report: ReportFile = None,
    as_json: AsJson = False,
    *,
    options: CheckOptions,
) -> None:
    """Check a log before learning from it.

    It looks at size, coverage, rare pairs, dead ends, independent returns and time gaps. It tests
    whether the log is Markov (and if not, which --history helps), whether world and baseline stay
    the same, whether episodes are copies, and whether rows contradict each other. Every finding is
    ok, a note or a warning. The exit code is 0 for every log that can be read.

    With --save the columns as found, the options given here and the paths of baseline and masks are
    written to a file that stands for all of them from then on.
    """
    from surefoot.diagnosis import check_log
    from surefoot.diagnosis.enough_history import enough_history
    from surefoot.diagnosis.finding import MARKOV
    from surefoot.logs import read_policy

    found, _ = read(log, options)
    path = options.baseline
    given = None if path is None else read_policy(path, found, unknown_states="ignore")
    discount = found.step_discount(GAMMA if math.isnan(options.gamma) else options.gamma)
    saved = None if save is None else _saved(found, log, given, options, save)
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
    if saved is not None:
        document["saved"] = str(saved)
    from surefoot.report.log_pages import check_page

    page = functools.partial(check_page, document)
    show("check", document, lambda: _lines(found, findings, saved), as_json, report, page)


def _saved(log: Log, source: str, baseline: Any, options: CheckOptions, path: Path) -> Path:
    """Write the description of a log down, once its problem can be posed."""
    from surefoot.logs import permitted
    from surefoot.logs.description import description_of
    from surefoot.logs.policy_rows import baseline_of

    mask = permitted(log, options.allowed, options.forbidden)
    if options.baseline_policy is not None:
        baseline = baseline_of(log, options.baseline_policy, options.smoothing, mask)
    log.problem(
        GAMMA if math.isnan(options.gamma) else options.gamma,
        log.estimated_baseline(options.smoothing, mask) if baseline is None else baseline,
        start=options.start,
        allowed=mask,
        reward_range=options.rewards,
        return_range=options.returns,
        masked_baseline="renormalise" if options.renormalise else "error",
        needs_returns=None if log.pace is not None else False,
    )
    made = description_of(log, source, options.for_reading(), options.for_posing())
    return made.save(path)


def _lines(log: Log, findings: tuple[Finding, ...], saved: Path | None) -> Iterator[str | Text]:
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
    if saved is not None:
        yield f"saved     {saved}: surefoot improve {saved} and every other command take it as LOG"
