"""surefoot safety-test: is a policy better, on episodes it was not made from? surefoot watch: the
same of a growing log, looked at as often as one likes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from surefoot.cli.log_options import GuardedOptions, LogOptions
from surefoot.cli.options import (
    BASELINE,
    METHOD,
    OUTPUT,
    POLICY,
    PROBLEM,
    AsJson,
    Explain,
    ReportFile,
    Source,
    option,
)
from surefoot.cli.progress import reading_progress
from surefoot.cli.terminal import DONE, NO_SUPPORT, WORSE, show, show_with_page

PolicyFile = Annotated[
    Path, option(POLICY, "FILE", "The policy to test: columns state, action, probability.")
]
Training = Annotated[
    str | None,
    option(
        POLICY,
        "LOG",
        "The log the policy was made from, or another one of the baseline: episodes that LOG"
        " shares with it are left out.",
    ),
]


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
            "The policy that made the log, or (with propensities) any other: columns state, action,"
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
            METHOD, "NUMBER", "Probability of a wrong verdict: half for better, half for worse."
        ),
    ] = 0.05


OTHERS = "surefoot.safety_test in Python has the others (surefoot.evidence.Standard)"


@dataclass(frozen=True, kw_only=True)
class TestOptions(EpisodeOptions, GuardedOptions):
    """The options of a test of whole episodes that is done once."""

    refused: ClassVar[Mapping[str, str]] = {
        "start": "whole episodes are compared, from where they start",
        "bound": f"the betting bound holds for any number of episodes; {OTHERS}",
        "share": f"nothing is prepared on a part of the log; {OTHERS}",
    }

    estimator: Annotated[str, option(METHOD, "NAME", "Values of episodes: pdis or is.")] = "pdis"
    observed_range: Annotated[
        bool,
        option(
            METHOD,
            "",
            "Assume that no reward outside those of the log is possible, instead of declaring it.",
            "--observed-range",
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

    Is it better than the baseline? LOG must hold episodes of the baseline that had no part in
    making or choosing the policy: on its own training data any policy looks good.

    With --guard and --group it passes only if no guarded column and no group is worse, and fails if
    one is shown to be.

    Exit code 0: passes, shown to be better. Exit code 4: fails, shown to be worse. Exit code 3: no
    evidence, shown to be neither; or shown only under a condition that is named, such as that no
    reward outside those observed exists (declare them with --reward-range). Exit code 2: wrong
    input, or data on which no test is valid (an estimated or contradicted baseline, a single
    episode, episodes the policy was made from).
    """
    from surefoot import advice
    from surefoot.advice.verdict import FAILS, PASSES

    with reading_progress() as progress:
        found = advice.safety_test(
            log, policy, training=training, progress=progress, **options.asking()
        )
    show_with_page(found, as_json, report, explain=explain)
    raise typer.Exit({PASSES: DONE, FAILS: WORSE}.get(found.verdict, NO_SUPPORT))


AS_LOGGED = (
    "whole episodes are compared as they were logged, one after the other as they come: test with"
    " surefoot safety-test instead"
)


@dataclass(frozen=True, kw_only=True)
class WatchOptions(EpisodeOptions):
    """The options of a watch."""

    refused: ClassVar[Mapping[str, str]] = {
        "start": "whole episodes are compared, from where they start",
        "discount_per": "it starts from the shortest step of a log, which may change as it grows:"
        " test with surefoot safety-test instead",
        "smoothing": "it is about a baseline that is estimated, and a watch needs the one that made"
        " the log",
        "baseline_policy": "it estimates a baseline, and a watch needs the one that made the log",
    } | dict.fromkeys(("policy_column", "bandit", "history", "renormalise"), AS_LOGGED)

    estimator: Annotated[str, option(METHOD, "NAME", "Values of episodes: pdis or is.")] = "pdis"


def watch(
    log: Source,
    policy: PolicyFile,
    state_file: Annotated[
        Path,
        option(
            OUTPUT, "FILE", "Where the capital is kept from look to look, such as capital.json."
        ),
    ],
    explain: Explain = False,
    as_json: AsJson = False,
    *,
    options: WatchOptions,
) -> None:
    """Watch a growing log for evidence that a policy is better or worse than the baseline.

    The safety test as an any-time test: run it after every batch of new episodes, as often as you
    like, and stop when you like; a wrong verdict has probability delta over all looks together.
    Each episode counts once, in the order in which they began. Those that are not finished wait for
    the next look. LOG is made by the baseline, and the policy must not be changed meanwhile.

    Exit code 0: shown to be better. Exit code 4: shown to be worse. Exit code 3: not yet. Exit code
    2: wrong input; also if policy, baseline or an option has changed since the watch was begun.
    """
    from surefoot import advice
    from surefoot.advice.verdict import FAILS, PASSES

    with reading_progress() as progress:
        found = advice.watch(log, policy, state_file, progress=progress, **options.asking())
    show(found, as_json, explain=explain)
    raise typer.Exit({PASSES: DONE, FAILS: WORSE}.get(found.verdict, NO_SUPPORT))
