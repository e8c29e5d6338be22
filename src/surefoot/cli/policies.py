"""surefoot evaluate and certify: what a policy is worth, and what it gains at least. surefoot list
and demo: what there is to run, and a first example.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from surefoot.cli.log_options import LogOptions, listed
from surefoot.cli.options import (
    BASELINE,
    METHOD,
    OUTPUT,
    POLICY,
    AsJson,
    Despite,
    Explain,
    Source,
    option,
)
from surefoot.cli.progress import reading_progress
from surefoot.cli.terminal import DESPITE, NO_SUPPORT, show, show_document
from surefoot.core.text import aligned


def evaluate(
    log: Source,
    policy: Annotated[
        Path,
        option(POLICY, "FILE", "The policy to evaluate: columns state, action, probability."),
    ],
    explain: Explain = False,
    as_json: AsJson = False,
    *,
    options: LogOptions,
) -> None:
    """Estimate what a policy is worth from a log.

    The value of the baseline stands beside it. These values are those of the model counted from the
    log; the intervals allow for the scatter of episodes or blocks. Where the log has propensities,
    or the baseline that made it is given, IPS, SNIPS and DR follow, each with what it assumes. A
    policy that was learned from this very log looks better than it is: evaluate it on another one.
    """
    from surefoot.advice import evaluate_policy

    with reading_progress() as progress:
        found = evaluate_policy(log, policy, progress=progress, **options.asking())
    show(found, as_json, explain=explain)


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


def list_all(
    as_json: AsJson = False,
    schema: Annotated[
        str,
        option(
            OUTPUT,
            "COMMAND",
            "Instead: the JSON Schema of what COMMAND prints with --json, such as improve.",
        ),
    ] = "",
) -> None:
    """List the algorithms, their parameters, and the benchmarks."""
    if schema:
        from surefoot.report.schema import json_schema

        typer.echo(json.dumps(json_schema(schema), indent=2))
        return
    from surefoot.algorithms.defaults import DEFAULT, described
    from surefoot.research.benchmarks import BENCHMARKS

    keys = ("name", "class", "parameters", "description")
    found: dict[str, Any] = {
        "default": DEFAULT,
        "algorithms": [dict(zip(keys, row, strict=True)) for row in described()],
        "benchmarks": {
            name: (cls.__doc__ or "").strip().split("\n")[0] for name, cls in BENCHMARKS.items()
        },
    }
    show_document("list", found, lambda: _list_lines(found), as_json)


def _list_lines(found: dict[str, Any]) -> Iterator[str]:
    yield (
        f"Algorithms (the default is {found['default']}; join a penalising and a restricting one as"
        " in ramdp+pi-b-spibb):"
    )
    lines = []
    for row in found["algorithms"]:
        lines += [
            ["", row["name"], row["class"], ", ".join(row["parameters"]) or "-"],
            ["", "", row["description"]],
        ]
    yield from aligned(lines, "<<<<")
    yield "\nBenchmarks of surefoot run:"
    yield from aligned([["", *pair] for pair in found["benchmarks"].items()], "<<<")


def demo(
    out: Annotated[
        Path | None,
        option(OUTPUT, "FOLDER", "Where the files go.", default="a new temporary folder"),
    ] = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """See it work on a log that ships with surefoot.

    It improves the controller of a boat, and compares the result with the truth.
    """
    from surefoot.cli import shipped_example as demonstration

    summary, files = demonstration.improved(out)
    found = summary | {"files": {name: str(path) for name, path in files.items()}}
    show_document(
        "demo", found, lambda: demonstration.lines(found, files, explain=explain), as_json
    )
