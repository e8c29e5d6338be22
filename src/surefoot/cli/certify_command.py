"""surefoot certify: a lower bound on what a policy gains, with what it assumes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from surefoot.cli.log_options import LogOptions, listed
from surefoot.cli.options import BASELINE, METHOD, POLICY, AsJson, Despite, Explain, Source, option
from surefoot.cli.progress import reading_progress
from surefoot.cli.terminal import DESPITE, NO_SUPPORT, show


@dataclass(frozen=True, kw_only=True)
class CertifyOptions(LogOptions):
    """The options of a proof."""

    refused: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("smoothing", "baseline_policy"),
        "it estimates the baseline, and every proof compares with the one that made the log: give"
        " that with --baseline",
    )

    baseline: Annotated[
        Path | None,
        option(
            BASELINE,
            "FILE",
            "The policy that made the log: columns state, action, probability.",
            default=False,
        ),
    ] = None


def certify(
    log: Source,
    policy: Annotated[
        Path,
        option(POLICY, "FILE", "The policy to certify: columns state, action, probability."),
    ],
    method: Annotated[
        str,
        option(
            METHOD,
            "NAME",
            "The certificate, such as advantage or robust.",
            default="the strongest that holds for any policy",
        ),
    ] = "",
    fresh: Annotated[
        bool,
        option(
            METHOD,
            "",
            "LOG had no part in making or choosing the policy: what delta-method needs.",
            "--fresh",
        ),
    ] = False,
    delta: Annotated[
        float, option(METHOD, "NUMBER", "The probability with which the bound may be wrong.")
    ] = 0.05,
    despite: Despite = "",
    explain: Explain = False,
    as_json: AsJson = False,
    *,
    options: CertifyOptions,
) -> None:
    """Prove what a policy gains at least, from the log it may have been made from.

    The bound holds with probability 1 - delta, if what it assumes is true; all of that is printed.
    It takes the baseline that made the log and the range of rewards. What a log can say against
    these assumptions is looked at, as by surefoot check, and forbids a bound. Exit code 0: the
    policy is proved to be no worse than the baseline; 5: only despite what --despite names; 3: it
    is not.
    """
    from surefoot.advice.questions import certify_policy

    with reading_progress() as progress:
        found = certify_policy(
            log,
            policy,
            method,
            fresh=fresh,
            delta=delta,
            despite=listed(despite),
            progress=progress,
            **options.asking(),
        )
    show(found, as_json, explain=explain)
    if not found.proved:
        raise typer.Exit(NO_SUPPORT)
    if found.waived:
        raise typer.Exit(DESPITE)
