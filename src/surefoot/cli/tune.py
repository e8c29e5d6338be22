"""surefoot tune: an algorithm and its hyper-parameters from a log alone."""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.log_options import LogOptions
from surefoot.cli.options import METHOD, OUTPUT, AsJson, ReportFile, Source, option
from surefoot.cli.posing import Posed, pose
from surefoot.cli.terminal import NO_SUPPORT, bars, json_text, show
from surefoot.errors import ParameterError
from surefoot.text import aligned, interval, signed

if TYPE_CHECKING:
    from surefoot.tuning import Tuning, Wedge

Table = Annotated[
    Path | None, option(OUTPUT, "FILE", "Also write the table, to a .csv or .json file.")
]


@dataclass(frozen=True, kw_only=True)
class TuneOptions(LogOptions):
    """The options of the choice."""

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
    rule: Annotated[
        str,
        option(
            METHOD,
            "NAME",
            "cvar: the best CVaR of the gain; mean: the best mean whose CVaR is not negative.",
        ),
    ] = "cvar"
    by: Annotated[
        str,
        option(
            METHOD,
            "NAME",
            "log: value the policies learned from this log; simulated: value settings on simulated"
            " logs.",
        ),
    ] = "log"
    models: Annotated[
        int, option(METHOD, "NUMBER", "How many models to draw from the posterior.")
    ] = 200
    simulated: Annotated[
        int, option(METHOD, "NUMBER", "In how many of them a new log is simulated.")
    ] = 100
    alpha: Annotated[
        float, option(METHOD, "SHARE", "The CVaR is the mean over this share of worst models.")
    ] = 0.2
    tolerance: Annotated[
        float,
        option(METHOD, "NUMBER", "With --rule mean: how far below 0 a CVaR may be."),
    ] = 0.0
    seed: Annotated[int, option(METHOD, "NUMBER", "The seed of the draws.")] = 0
    histories: Annotated[
        str,
        option(
            METHOD,
            "K,...",
            "Choose first how many steps states remember, such as 0,1,2: the shortest that leaves"
            " no memory and gains nearly most.",
        ),
    ] = ""
    bound: Annotated[
        float | None,
        option(
            METHOD, "NUMBER", "Instead: find the n_wedge at which Pi_b-SPIBB loses at most this."
        ),
    ] = None
    delta: Annotated[
        float | None,
        option(METHOD, "NUMBER", "The failure probability of --bound.", default="0.05"),
    ] = None


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
    from surefoot.report.log_pages import bound_page, tune_page

    if options.delta is not None and options.bound is None:
        raise ParameterError(
            "--delta is the failure probability of --bound: give --bound, too, or leave --delta out"
        )
    options, posed, tried = _remembering(log, options)
    if options.bound is None:
        name, found = "tune", _document(_tuned(posed, options), posed, log, options)
        found |= {"histories": tried} if tried else {}
    else:
        name, found = "tune-bound", _bound_document(posed, log, options)
    if out is not None:
        _write(out, name, found)
    lines, page = (_lines, tune_page) if name == "tune" else (_bound_lines, bound_page)
    show(name, found, lambda: lines(found), as_json, report, lambda: page(found))
    if found["next"] is None:
        raise typer.Exit(NO_SUPPORT)


def _remembering(log: str, options: TuneOptions) -> tuple[TuneOptions, Posed, list[dict[str, Any]]]:
    """(the options with the history that was chosen, its problem, what was tried)."""
    from surefoot.advice import chosen_algorithm
    from surefoot.tuning import best_history, try_history

    if not options.histories:
        return options, pose(log, options), []
    if options.history:
        raise ParameterError("--histories chooses the history: leave --history out")
    words = [x.strip() for x in options.histories.split(",")]
    if not all(x.isdigit() for x in words):
        raise ParameterError(
            f"--histories takes numbers of steps, such as 0,1,2, got {options.histories!r}"
        )
    posed, tried = {}, []
    for k in sorted({int(x) for x in words}):
        posed[k] = found = pose(log, replace(options, history=k))
        algorithm = chosen_algorithm(found.problem, "priced-soft-spibb")
        tried.append(try_history(found.log, found.problem, algorithm, k))
    best = best_history(tried)
    rows = [dataclasses.asdict(x) | {"passes": x.passes, "chosen": x is best} for x in tried]
    return replace(options, history=best.history), posed[best.history], rows


def _tuned(posed: Posed, options: TuneOptions) -> Tuning:
    """Try the settings."""
    from surefoot.tuning import parsed_settings
    from surefoot.tuning import tune as choose

    with bars() as shown:
        return choose(
            posed.problem,
            parsed_settings(posed.problem, options.tried) if options.tried else None,
            models=options.models,
            simulated=options.simulated,
            rule=options.rule,
            by=options.by,
            alpha=options.alpha,
            tolerance=options.tolerance,
            seed=options.seed,
            progress=lambda done, total: shown("models x settings", done, total),
        )


def next_line(log: str, options: LogOptions, setting: list[str]) -> str:
    """The `surefoot improve` command that runs a setting on the same log."""
    words = ["surefoot", "improve", log]
    for field in dataclasses.fields(LogOptions):
        value = getattr(options, field.name)
        if value != field.default:
            words.append(f"--{field.name.replace('_', '-')}")
            words += [f"{value:g}" if isinstance(value, float) else str(value)] * (
                value is not True
            )
    return shlex.join(words + setting)


def _document(tuning: Tuning, posed: Posed, log: str, options: LogOptions) -> dict[str, Any]:
    """Everything about a choice, for --json and files."""
    import numpy as np

    simulation, chosen, prior = tuning.simulation, tuning.chosen.setting, tuning.prior
    reward = simulation.reward if len(simulation.reward) else [math.nan]
    return {
        "log": log,
        "reward": posed.log.reward_summary,
        "warnings": list(posed.log.warnings),
        "gamma": options.gamma,
        "chosen": chosen.label,
        "rule": tuning.rule,
        "by": tuning.by,
        "alpha": tuning.alpha,
        "models": simulation.on_log.shape[1],
        "simulated": simulation.on_simulated.shape[1],
        "next": next_line(log, options, chosen.options) if tuning.changes else None,
        "settings": [
            {"setting": row.setting.label, "chosen": row is tuning.chosen}
            | dataclasses.asdict(row.on_log)
            | {
                "loses": row.loses,
                "simulated_mean": row.on_simulated and row.on_simulated.mean,
                "simulated_cvar": row.on_simulated and row.on_simulated.cvar,
            }
            for row in tuning.rows
        ],
        "baseline": {
            "estimated": posed.problem.pi_b_estimated,
            "value": float(simulation.rho_b.mean()),
        },
        "check": {
            "reward_observed": simulation.observed,
            "reward_simulated": [float(np.quantile(reward, p)) for p in (0.05, 0.95)],
            "p_value": tuning.predictive_p,
        },
        "prior": {
            "successors": prior.mean_number,
            "alpha": prior.alpha,
            "guesses": [float(x) for x in prior.guess],
        },
        "notes": [*tuning.notes, *posed.notes],
    }


def _lines(found: dict[str, Any]) -> Iterator[str]:
    """The choice for people."""
    from surefoot.report.log_words import reward_text

    simulated = found["simulated"] > 0
    yield reward_text(found)
    yield from _history_lines(found.get("histories", []))
    yield from _table(found["settings"], f"CVaR {found['alpha']:.0%}", simulated)
    yield (
        f"\ngains over the baseline at the start, in {found['models']} models drawn from the"
        f" posterior of this log ({found['prior']['successors']:.2g} successors a pair on average)"
    )
    yield (
        "loses: the share of these models in which the policy is worse than the baseline; it is no"
        " probability of the real world"
    )
    nothing = "nothing: no setting beats the baseline in the worst models"
    if simulated:
        check, (low, high) = found["check"], found["check"]["reward_simulated"]
        yield (
            f"check     mean reward a step {check['reward_observed']:.4g}; of simulated logs"
            f" {low:.4g} to {high:.4g} (p = {check['p_value']:.2g})"
        )
    yield f"chosen    {found['chosen']}"
    yield f"next      {found['next'] or nothing}"
    yield from (f"note: {note}" for note in found["notes"])


def _history_lines(tried: list[dict[str, Any]]) -> Iterator[str]:
    """The histories that were tried."""
    if not tried:
        return
    rows = [
        (
            f"{'>' if x['chosen'] else ' '} {x['history']}", f"{x['states']:,}", signed(x["gain"]),
            f"{x['p_value']:.2g}" if x["passes"] else f"{x['p_value']:.2g}: memory is left",
        )
        for x in tried
    ]  # fmt: skip
    yield from aligned([("  history", "states", "gain", "p of the test for memory"), *rows], "<>><")
    yield (
        "gain: of a policy learned from one quarter of the log, in the model of another; the half"
        " that improve tests on was not used for it\n"
    )


def _table(rows: list[dict[str, Any]], tail: str, simulated: bool) -> list[str]:
    """Each setting on a line, its numbers on the next."""
    lines = [["", "mean gain", "95 % interval", tail, "95 % interval", "loses"]]
    lines[0] += ["simulated: mean", tail] if simulated else []
    for row in rows:
        cells = [""]
        for name in ("mean", "cvar"):
            cells += [signed(row[name]), interval(row[f"{name}_low"], row[f"{name}_high"], ".3g")]
        cells += [f"{row['loses']:.0%}"]
        cells += [signed(row[f"simulated_{name}"]) for name in ("mean", "cvar") if simulated]
        lines += [[f"{'>' if row['chosen'] else ' '} {row['setting']}"], cells]
    return aligned(lines, "<" + ">" * (len(lines[0]) - 1))


def _bound_document(posed: Posed, log: str, options: TuneOptions) -> dict[str, Any]:
    """The n_wedge with which Pi_b-SPIBB provably loses at most --bound."""
    from surefoot.tuning import n_wedge_for

    assert options.bound is not None
    wedge: Wedge = n_wedge_for(
        posed.problem, options.bound, 0.05 if options.delta is None else options.delta
    )
    setting = ["--algorithm", "pi-b-spibb", "--set", f"n_wedge={wedge.n_wedge}"]
    width, notes = posed.problem.return_range.width, posed.notes
    if wedge.bound >= width:
        notes.append(
            f"VACUOUS: no policy can lose more than {width:.4g}, the width of the return range; ask"
            " for less"
        )
    after = {"next": next_line(log, options, setting) if wedge.free > 0 else None, "notes": notes}
    said = {"reward": posed.log.reward_summary, "warnings": list(posed.log.warnings)}
    return {"log": log} | said | dataclasses.asdict(wedge) | after


def _bound_lines(found: dict[str, Any]) -> Iterator[str]:
    from surefoot.report.log_words import reward_text

    yield reward_text(found)
    yield (
        f"n_wedge   {found['n_wedge']:,}: Pi_b-SPIBB then loses at most {found['bound']:.4g}"
        f" (asked: {found['loss']:.4g}) with probability {1 - found['delta']:g}"
    )
    yield f"          {found['label']}: {'; '.join(found['assumptions'])}"
    yield (
        f"known     {found['known']} pairs were seen more often; {found['free']:.1%} of decisions"
        " may change"
    )
    nothing = "nothing: this log proves no such bound for any change"
    yield f"next      {found['next'] or nothing}"
    yield from (f"note: {note}" for note in found["notes"])


def _write(path: Path, name: str, found: dict[str, Any]) -> None:
    """The table as CSV, or everything as JSON; whole or not at all."""
    from surefoot.atomic import write_csv, write_whole

    if path.suffix == ".json":
        write_whole(path, json_text(name, found) + "\n")
    elif path.suffix == ".csv":
        rows = found.get("settings", [found])
        columns = tuple(k for k in rows[0] if not isinstance(rows[0][k], (dict, list, tuple)))
        cells = [["" if row[k] is None else row[k] for k in columns] for row in rows]
        write_csv(path, columns, cells)
    else:
        raise ParameterError(f"--out takes a .csv or .json file, got {str(path)!r}")
