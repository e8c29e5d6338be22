"""surefoot tune: an algorithm and its hyper-parameters from a log alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from surefoot.cli.log_options import LogOptions
from surefoot.cli.options import METHOD, OUTPUT, AsJson, ReportFile, Source, option
from surefoot.cli.progress import reading
from surefoot.cli.terminal import NO_SUPPORT, bars, show_with_page

Table = Annotated[
    Path | None, option(OUTPUT, "FILE", "Also write the table, to a .csv or .json file.")
]


BY_CVAR = (
    "the setting with the best CVaR in models of this log is chosen; choosing by the mean or by"
    " simulated logs had a tail far below the baseline"
)
BY_PROOF = (
    "learn with surefoot improve --algorithm pi-b-spibb --set n_wedge=N; surefoot certify --method"
    " spibb then proves what that policy loses at most"
)


@dataclass(frozen=True, kw_only=True)
class TuneOptions(LogOptions):
    """The options of the choice."""

    refused: ClassVar[Mapping[str, str]] = (
        dict.fromkeys(("rule", "by", "tolerance"), BY_CVAR)
        | dict.fromkeys(("bound", "delta"), BY_PROOF)
        | {
            "histories": "surefoot check names the shortest history at which the test for memory"
            " finds nothing; give that with --history"
        }
    )

    tried: Annotated[
        list[str] | None,
        option(
            METHOD,
            "SETTING",
            "A setting to try, such as --try 'pi-b-spibb n_wedge=5,20' (one for each value). May"
            " be repeated.",
            "--try",
            default="priced-soft-spibb at three budgets",
        ),
    ] = None
    models: Annotated[
        int, option(METHOD, "NUMBER", "How many models to draw from the posterior.")
    ] = 200
    simulated: Annotated[
        int,
        option(
            METHOD,
            "NUMBER",
            "In how many of them a log is simulated, to see whether they fit the log.",
        ),
    ] = 100
    alpha: Annotated[
        float, option(METHOD, "SHARE", "The CVaR is the mean over this share of worst models.")
    ] = 0.2
    seed: Annotated[int, option(METHOD, "NUMBER", "The seed of the draws.")] = 0

    def asking(self) -> dict[str, Any]:
        """What was given on the command line, as the keywords of the question."""
        found = super().asking()
        return found | ({"settings": found.pop("tried")} if "tried" in found else {})


def tune(
    log: Source,
    out: Table = None,
    report: ReportFile = None,
    as_json: AsJson = False,
    *,
    options: TuneOptions,
) -> None:
    """Choose an algorithm and its hyper-parameters from a log alone.

    Models are drawn from the posterior that the log leaves (the prior is fitted to the log, too),
    with actions that differ only as far as the whole log shows it. Every setting is valued in them,
    and the one with the best CVaR is chosen if it is above 0. The choice is no evidence that it
    helps: surefoot improve tests that.

    Exit code 0: a setting was chosen, and the command to run next is printed. Exit code 3: no
    change is the best choice.
    """
    from surefoot.advice.tuning import tune as choose

    with bars() as shown:
        given = {"shown": shown, "progress": reading(shown), **options.asking()}
        found = choose(log, **given)
    if out is not None:
        found.save(out)
    show_with_page(found, as_json, report)
    if found.next is None:
        raise typer.Exit(NO_SUPPORT)
