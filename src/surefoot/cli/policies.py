"""surefoot evaluate and certify: what a policy is worth, and what it gains at least. surefoot
safety-test: is it better, on episodes it was not made from? surefoot watch: the same of a growing
log, looked at as often as one likes. surefoot list and demo: what there is to run, and a first
example.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from surefoot.cli.options import (
    BASELINE,
    METHOD,
    OUTPUT,
    POLICY,
    PROBLEM,
    AsJson,
    Despite,
    Explain,
    GuardedOptions,
    LogOptions,
    ReportFile,
    Source,
    listed,
    option,
)
from surefoot.cli.terminal import (
    DESPITE,
    DONE,
    NO_SUPPORT,
    WORSE,
    reading_progress,
    show,
    show_document,
    show_with_page,
)
from surefoot.core.text import aligned

PolicyFile = Annotated[
    Path, option(POLICY, "FILE", "The policy to test: columns state, action, probability.")
]
Training = Annotated[
    str | None,
    option(
        POLICY,
        "LOG",
        "The log the policy was made from, or another log made by the baseline: episodes that LOG"
        " shares with it are left out.",
    ),
]
OTHERS = "surefoot.safety_test in Python has the others (surefoot.evidence.Standard)"
AS_LOGGED = (
    "whole episodes are compared as they were logged, one after the other as they come: test with"
    " surefoot safety-test instead"
)


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


def plan(
    log: Source,
    loss: Annotated[
        float | None,
        option(
            METHOD,
            "NUMBER",
            "What trying rare actions more often may cost at most, in units of the gain.",
            default="0.2 % of the width of the returns",
        ),
    ] = None,
    explain: Explain = False,
    as_json: AsJson = False,
    *,
    options: LogOptions,
) -> None:
    """Plan the next log: what it needs to decide.

    How many rows the held-out test of surefoot improve would need, how many episodes an A/B test,
    and which actions are worth trying more often: rare ones that could still turn out to be much
    better, at a cost that you state. The exit code is 0 whatever the plan.
    """
    from surefoot.advice import plan

    with reading_progress() as progress:
        found = plan(log, loss=loss, progress=progress, **options.asking())
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
    policy is proved to be no worse than the baseline. Exit code 5: proved, ignoring the findings in
    --despite. Exit code 3: not proved.
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


@dataclass(frozen=True, kw_only=True)
class EpisodeOptions(LogOptions):
    """The options of every test of whole episodes."""

    return_range: Annotated[
        str | None,
        option(
            PROBLEM,
            "LOW,HIGH",
            "The lowest and the highest possible discounted return of a whole episode, from its"
            " start on.",
        ),
    ] = None
    baseline: Annotated[
        Path | None,
        option(
            BASELINE,
            "FILE",
            "The policy that made the log, or, with propensities, any other: columns state, action,"
            " probability. Without it, and with propensities: what made the log, on average.",
            default=False,
        ),
    ] = None
    horizon: Annotated[
        int | None,
        option(PROBLEM, "STEPS", "No episode can have more steps than this: a known time limit."),
    ] = None
    delta: Annotated[
        float,
        option(
            METHOD,
            "NUMBER",
            "Probability of a wrong verdict, split equally between 'better' and 'worse'.",
        ),
    ] = 0.05
    estimator: Annotated[
        str,
        option(
            METHOD,
            "NAME",
            "Importance-sampling estimator: pdis (per decision) or is (whole episode).",
        ),
    ] = "pdis"


@dataclass(frozen=True, kw_only=True)
class TestOptions(EpisodeOptions, GuardedOptions):
    """The options of a test of whole episodes that is done once."""

    refused: ClassVar[Mapping[str, str]] = {
        "start": "whole episodes are compared, from where they start",
        "bound": f"the betting bound holds for any number of episodes; {OTHERS}",
        "share": f"nothing is prepared on a part of the log; {OTHERS}",
    }

    observed_range: Annotated[
        bool,
        option(
            METHOD,
            "",
            "Assume that rewards never leave the range seen in the log, instead of declaring it.",
            "--observed-range",
        ),
    ] = False
    estimated_baseline: Annotated[
        bool,
        option(
            BASELINE,
            "",
            "Nobody knows the baseline: compare with what made the log, as it shows that itself."
            " The verdict is then approximate, and needs states that say enough.",
            "--estimated-baseline",
        ),
    ] = False


def safety_test(
    log: Source,
    policy: PolicyFile,
    training: Training = None,
    report: ReportFile = None,
    explain: Explain = False,
    as_json: AsJson = False,
    *,
    options: TestOptions,
) -> None:
    """Test a policy on data it was NOT made from, before it is used.

    Is it better than the baseline? LOG must hold episodes run by the baseline and not used to
    make or choose the policy: on its own training data any policy looks good.

    With --guard and --group it passes only if no guarded column and no group is worse, and fails if
    one is shown to be.

    Exit code 0: passes, shown to be better. Exit code 4: fails, shown to be worse. Exit code 3: no
    evidence, neither was shown; or shown only under a condition that is named, such as that no
    reward outside those observed exists (declare them with --reward-range). Exit code 2: wrong
    input, or data on which no test is valid (a contradicted baseline, none without
    --estimated-baseline, a single episode, episodes the policy was made from).
    """
    from surefoot import advice
    from surefoot.advice.verdict import FAILS, PASSES

    with reading_progress() as progress:
        found = advice.safety_test(
            log, policy, training=training, progress=progress, **options.asking()
        )
    show_with_page(found, as_json, report, explain=explain)
    raise typer.Exit({PASSES: DONE, FAILS: WORSE}.get(found.verdict, NO_SUPPORT))


@dataclass(frozen=True, kw_only=True)
class WatchOptions(EpisodeOptions, GuardedOptions):
    """The options of a watch."""

    refused: ClassVar[Mapping[str, str]] = {
        "start": "whole episodes are compared, from where they start",
        "discount_per": "it starts from the shortest step of a log, which may change as it grows:"
        " test with surefoot safety-test instead",
        "smoothing": "it is about a baseline that is estimated, and a watch needs the one that made"
        " the log",
        "baseline_policy": "it estimates a baseline, and a watch needs the one that made the log",
    } | dict.fromkeys(("history", "renormalise", "group", "group_tolerance"), AS_LOGGED)

    new: Annotated[
        str,
        option(POLICY, "LABEL", "Of a roll-out: the arm of --policy-column with the new policy."),
    ] = "new"
    old: Annotated[str, option(POLICY, "LABEL", "Of a roll-out: the arm with the old policy.")] = (
        "old"
    )
    share: Annotated[
        float,
        option(
            POLICY,
            "NUMBER",
            "Of a roll-out: the probability with which an episode gets the new policy.",
        ),
    ] = 0.5


def watch(
    log: Source,
    *,
    policy: Annotated[
        Path | None,
        option(
            POLICY,
            "FILE",
            "The policy to test: columns state, action, probability. Of a roll-out: that of the new"
            " arm, beside that of the old one in --baseline; or neither.",
            default=False,
        ),
    ] = None,
    state_file: Annotated[
        Path,
        option(OUTPUT, "FILE", "File that stores progress between runs, such as capital.json."),
    ],
    report: ReportFile = None,
    explain: Explain = False,
    as_json: AsJson = False,
    options: WatchOptions,
) -> None:
    """Watch a growing log for evidence that a policy is better or worse than the baseline.

    The safety test may be repeated after every batch of new episodes; all runs together err with
    probability at most delta. Each episode counts once, in the order in which they began. Those
    that are not finished wait for the next run. The baseline must have made LOG, and the policy
    must not be changed meanwhile.

    With --policy-column LOG is that of a roll-out: each episode got the new or the old policy by
    lot, and what is watched is the difference between these arms. A page (--report) draws it.

    Exit code 0: shown to be better. Exit code 4: shown to be worse. Exit code 3: not yet. Exit code
    2: wrong input; also if policy, baseline or an option has changed since the watch started.
    """
    from surefoot import advice
    from surefoot.advice.answers import Paged
    from surefoot.advice.verdict import FAILS, PASSES
    from surefoot.core.errors import ParameterError
    from surefoot.core.evidence import BETTER
    from surefoot.core.evidence import WORSE as WORSE_ARM

    with reading_progress() as progress:
        found = advice.watch(log, policy, state_file, progress=progress, **options.asking())
    if isinstance(found, Paged):
        show_with_page(found, as_json, report, explain=explain)
    elif report is not None:
        raise ParameterError("--report draws a roll-out: name its arms with --policy-column")
    else:
        show(found, as_json, explain=explain)
    exits = {PASSES: DONE, BETTER: DONE, FAILS: WORSE, WORSE_ARM: WORSE}
    raise typer.Exit(exits.get(found.verdict, NO_SUPPORT))
