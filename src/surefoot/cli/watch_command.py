"""surefoot watch: the safety test of a growing log, looked at as often as one likes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from surefoot.cli.options import METHOD, OUTPUT, AsJson, Explain, Source, option
from surefoot.cli.progress import reading_progress
from surefoot.cli.safety_test import EpisodeOptions, PolicyFile
from surefoot.cli.terminal import DONE, NO_SUPPORT, WORSE, show

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
