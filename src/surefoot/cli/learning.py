"""surefoot check: what a log can and cannot teach. surefoot improve: from a log to a policy file
and a verdict; report: its page again. surefoot compare: every algorithm on one log, in one table.
surefoot tune: an algorithm and its hyper-parameters from a log alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from rich.text import Text

from surefoot.cli.options import (
    METHOD,
    NOT_GIVEN,
    OUTPUT,
    PROBLEM,
    READING,
    AsJson,
    Despite,
    Explain,
    GuardedOptions,
    LogOptions,
    ReportFile,
    Source,
    listed,
    option,
    parsed_edges,
    parsed_settings,
)
from surefoot.cli.terminal import (
    DESPITE,
    NO_SUPPORT,
    bars,
    reading,
    reading_progress,
    show,
    show_document,
    show_with_page,
)

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
        "Change at most K states: those whose change is worth most. All other states keep the"
        " baseline, also in the test.",
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
Deterministic = Annotated[
    str | None,
    option(
        METHOD,
        "mixture|mode",
        "One action in every state that changes: a rule, no lottery. Where nothing changes:"
        " mixture, what the baseline does; or mode, its most frequent action.",
        default=False,
    ),
]
Tree = Annotated[
    int | None,
    option(
        METHOD,
        "DEPTH",
        "A few rules in place of a table: a decision tree of this depth over the columns of the"
        " state, such as 2. It imitates the learned policy; it is what is tested and written.",
        default=False,
    ),
]
Against = Annotated[
    str,
    option(
        METHOD,
        "baseline|mode",
        "What the gain is over: the baseline as it made the log; or mode, its rule without"
        " exploration: its most frequent action in every state.",
    ),
]
Features = Annotated[
    str,
    option(
        METHOD,
        "NAME,...",
        "Columns with measurements, instead of a state: the half that learns makes states of them."
        " --states, --edges and --missing are those of surefoot discretize.",
        default=False,
    ),
]
# as surefoot improve has them
OwnFeatures = Annotated[str, typer.Option("--features", hidden=True)]
OwnBins = Annotated[int | None, typer.Option("--action-bins", hidden=True)]
# as surefoot discretize has them
States = Annotated[int | None, typer.Option(hidden=True)]
OwnEdges = Annotated[list[str] | None, typer.Option("--edges", hidden=True)]
Missing = Annotated[str, typer.Option(hidden=True)]
ActionBins = Annotated[
    int | None,
    option(
        METHOD,
        "NUMBER",
        "The action is a number, such as a dose: tell so many ranges of it apart, cut by the half"
        " that learns. A controller writes the median dose of the log in a range.",
        default=False,
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
        "Count on a Dask cluster: its scheduler, such as tcp://host:8786. Checks that need"
        " row order are skipped, and no policy is supported unless --despite names them.",
    ),
]
Only = Annotated[
    str, option(METHOD, "NAME,...", "Compare only these, such as basic-rl,ramdp+pi-b-spibb.")
]
COLOURS = {"ok": "green", "note": "yellow", "warning": "bold red"}
GAMMA = 0.95  # the weight of future rewards where nobody said it
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


def improve(
    log: Source,
    algorithm: Algorithm = "priced-soft-spibb",
    settings: Settings = None,
    accept: Accept = False,
    despite: Despite = "",
    most_changes: MostChanges = None,
    refit: Refit = False,
    deterministic: Deterministic = None,
    tree: Tree = None,
    against: Against = "baseline",
    features: Features = "",
    states: States = None,
    edges: OwnEdges = None,
    missing: Missing = "error",
    action_bins: ActionBins = None,
    out: Folder = Path("improved"),
    no_report: NoReport = False,
    dask: Dask = None,
    explain: Explain = False,
    as_json: AsJson = False,
    *,
    options: GuardedOptions,
) -> None:
    """Improve the policy that made a log, if the data support it.

    A random half of the log makes the policy, the other half tests it. The default method departs
    from the baseline only where the expected gain outweighs its uncertainty. Its parameters are
    scale-free, so they need no tuning to the scale of the rewards.

    With --features the states are made of measurements, by the half that learns. With --guard and
    --group it is supported only if the other half also shows that no guarded
    column and no group is worse.

    Exit code 0: supported, or accepted with --accept. Exit code 5: supported, ignoring the findings
    in --despite. Exit code 3: not supported; policy.csv then holds the baseline (without its
    forbidden actions, where --renormalise removes them), and candidate.csv the policy that was not
    supported.
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
            deterministic=deterministic,
            tree=tree,
            against=against,
            features=listed(features),
            states=states,
            edges=parsed_edges(edges),
            missing=missing,
            action_bins=action_bins,
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


@dataclass(frozen=True, kw_only=True)
class CheckOptions(LogOptions):
    """The options of a check."""

    gamma: Annotated[
        float,
        option(
            PROBLEM,
            "NUMBER",
            "The discount factor: the weight of future rewards. Saved only if given.",
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
            "Save how LOG is read and the problem settings, such as log.toml: every command takes"
            " that file as LOG.",
        ),
    ] = None,
    features: OwnFeatures = "",
    states: States = None,
    edges: OwnEdges = None,
    missing: Missing = "error",
    action_bins: OwnBins = None,
    report: ReportFile = None,
    as_json: AsJson = False,
    *,
    options: CheckOptions,
) -> None:
    """Check a log before learning from it.

    It looks at size, coverage, rare pairs, dead ends, independent returns and time gaps. It tests
    whether the log is Markov (and if not, which --history helps), whether the environment or the
    baseline changed, whether episodes are copies, and whether rows contradict each other. Every
    finding is ok, a note or a warning. The exit code is 0 for every log that can be read.

    With --features (--states, --edges, --missing, --action-bins) it makes states as surefoot
    improve does, checks the log with these, and says in a table what finer or coarser ones would
    give.

    With --save the columns as found, the options given here and the paths of baseline and masks are
    written to a file that stands for all of them from then on.
    """
    from surefoot import advice

    with reading_progress() as progress:
        found = advice.check(
            log, save=save, features=listed(features), states=states, edges=parsed_edges(edges),
            missing=missing, action_bins=action_bins, progress=progress, **options.asking(),
        )  # fmt: skip
    show_with_page(found, as_json, report, styled=coloured)


def coloured(line: str) -> Text:
    """A line of the command in the colour of its level."""
    level = line.split(maxsplit=1)[0] if line.startswith(" ") else ""
    return (
        Text(line) if level not in COLOURS else Text.assemble((line[:7], COLOURS[level]), line[7:])
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
