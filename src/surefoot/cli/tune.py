"""surefoot tune: hyper-parameters from a log alone."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.improve import AsJson, Source
from surefoot.cli.log_options import LogOptions, Posed, pose, reads_a_log
from surefoot.cli.terminal import NO_SUPPORT, bars, errors, json_text
from surefoot.text import aligned, interval, signed

if TYPE_CHECKING:
    from surefoot.tuning import Tuning, Wedge

COLUMNS = (
    "setting",
    "chosen",
    "mean",
    "mean_low",
    "mean_high",
    "cvar",
    "cvar_low",
    "cvar_high",
    "loses",
    "again_mean",
    "again_cvar",
)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(
        "tune",
        epilog="Example: `surefoot tune log.csv --gamma 0.95 --baseline rule.csv --out tuning.csv`",
    )(tune)


@reads_a_log
def tune(
    log: Source,
    tried: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            help=(
                "A setting: NAME key=value ...; values joined by commas make one each. Default: a"
                " dozen."
            ),
            metavar="TEXT",
        ),
    ] = None,
    rule: Annotated[
        str,
        typer.Option(
            help="cvar: the best CVaR of the gain; mean: the best mean whose CVaR is not negative."
        ),
    ] = "cvar",
    by: Annotated[
        str,
        typer.Option(
            help="here: the policies this log teaches; again: how settings do on logs made anew."
        ),
    ] = "here",
    models: Annotated[int, typer.Option(help="Models drawn from the posterior.")] = 200,
    again: Annotated[int, typer.Option(help="In how many of them the log is made anew.")] = 100,
    alpha: Annotated[
        float, typer.Option(help="The CVaR is the mean over this share of the models, the worst.")
    ] = 0.2,
    tolerance: Annotated[
        float,
        typer.Option(
            help="By how much a CVaR may be negative with --rule mean, in units of value."
        ),
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Of the draws.")] = 0,
    bound: Annotated[
        float | None,
        typer.Option(help="Instead: the n_wedge at which Pi_b-SPIBB loses at most this much."),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(help="Failure probability of --bound, 0.05 unless given; only with --bound."),
    ] = None,
    path: Annotated[
        Path | None,
        typer.Option(
            help="Also write the epsilon path: path.csv and breakpoints.csv in this folder."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Also write the table, to a .csv or .json file.")
    ] = None,
    as_json: AsJson = False,
    *,
    options: LogOptions,
) -> None:
    """Choose an algorithm and its hyper-parameters from a log alone, without an environment to try
    them in.

    Models are drawn from the posterior that the log leaves (its prior is fitted to the log, too),
    and every setting is valued in them. The best one must then also gain where it learns from one
    half of the log and is valued by the other. Exit code 0: a setting was chosen, and the line to
    run next is printed. Exit code 3: no change is the best choice. The choice is no evidence that
    it helps: `surefoot improve` judges that on held-out data.
    """
    from surefoot.errors import ParameterError
    from surefoot.tuning import n_wedge_for, parsed_settings
    from surefoot.tuning import tune as choose

    if delta is not None and bound is None:
        raise ParameterError(
            "--delta is the failure probability of --bound: give --bound, too, or leave --delta out"
        )
    posed = pose(log, options)
    problem = posed.problem
    if bound is not None:
        wedge = n_wedge_for(problem, bound, 0.05 if delta is None else delta)
        found, text, chosen = _wedge_found(wedge, posed, log, options), _wedge_text, wedge.free > 0
    else:
        with bars() as shown:

            def advance(done: int, total: int) -> None:
                if errors.is_terminal:
                    shown("models x settings", done, total)

            tuning = choose(
                problem,
                parsed_settings(problem, tried) if tried else None,
                models=models,
                again=again,
                rule=rule,
                by=by,
                alpha=alpha,
                tolerance=tolerance,
                seed=seed,
                progress=advance,
            )
        found, text, chosen = _found(tuning, posed, log, options), _text, tuning.changes
    if path is not None:
        _write_paths(path, posed)
    if out is not None:
        _write(out, found)
    typer.echo(_json(found) if as_json else text(found))
    if not chosen:
        raise typer.Exit(NO_SUPPORT)


def next_line(log: str, options: LogOptions, setting: list[str]) -> str:
    """The `surefoot improve` command that runs a setting on the same log."""
    words = ["surefoot", "improve", log]
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if value == field.default:
            continue
        flag = f"--{field.name.replace('_', '-')}"
        words += (
            [flag]
            if value is True
            else [flag, f"{value:g}" if isinstance(value, float) else str(value)]
        )
    return shlex.join(words + setting)


def _found(tuning: Tuning, posed: Posed, log: str, options: LogOptions) -> dict[str, Any]:
    """Everything about a choice, for --json and files."""
    simulation, prior = tuning.simulation, tuning.prior
    rows = []
    for row in tuning.rows:
        again = row.again
        rows.append(
            {"setting": row.setting.label, "chosen": row is tuning.chosen}
            | dataclasses.asdict(row.here)
            | {
                "loses": row.loses,
                "again_mean": again and again.mean,
                "again_cvar": again and again.cvar,
            }
        )
    return {
        "log": log,
        "gamma": options.gamma,
        "chosen": tuning.chosen.setting.label,
        "rule": tuning.rule,
        "by": tuning.by,
        "alpha": tuning.alpha,
        "models": simulation.here.shape[1],
        "again": simulation.again.shape[1],
        "next": next_line(log, options, tuning.chosen.setting.options) if tuning.changes else None,
        "settings": rows,
        "held_out": _held_out(tuning),
        "baseline": {
            "estimated": posed.problem.pi_b_estimated,
            "value": float(simulation.rho_b.mean()),
        },
        "check": {
            "reward_observed": simulation.observed,
            "reward_simulated": [float(x) for x in _range(simulation.reward)],
            "p_value": tuning.predictive_p,
        },
        "prior": {
            "successors": prior.mean_number,
            "alpha": prior.alpha,
            "guesses": [float(x) for x in prior.guess],
        },
        "notes": [*tuning.notes, *posed.notes],
    }


def _held_out(tuning: Tuning) -> dict[str, Any] | None:
    """What the best setting gains where it learns from one half of the log and is valued by the
    other.
    """
    found = tuning.held_out
    if found is None:
        return None
    about = {
        "setting": tuning.best.setting.label,
        "halves_of": found.units,
        "models": len(found.gains),
    }
    return about | {"mean": found.mean, "loses": found.loses}


def _range(x: Any) -> tuple[float, float]:
    """The middle 90 %."""
    import numpy as np

    return (
        (float(np.quantile(x, 0.05)), float(np.quantile(x, 0.95)))
        if len(x)
        else (float("nan"), float("nan"))
    )


def _text(found: dict[str, Any]) -> str:
    """The choice as a page."""
    anew, tail = found["again"] > 0, f"CVaR {found['alpha']:.0%}"
    table = [["", "mean gain", "95 % interval", tail, "95 % interval", "loses"]]
    table[0] += ["anew: mean", tail] if anew else []
    for row in found["settings"]:
        cells = [f"{'>' if row['chosen'] else ' '} {row['setting']}"]
        for name in ("mean", "cvar"):
            ends = (row[f"{name}_low"], row[f"{name}_high"])
            cells += [signed(row[name]), interval(*ends, ".3g")]
        cells += [f"{row['loses']:.0%}"]
        cells += [signed(row["again_mean"]), signed(row["again_cvar"])] if anew else []
        table.append(cells)
    lines = aligned(table, "<" + ">" * (len(table[0]) - 1))
    lines += [
        "",
        (
            f"gains over the baseline at the start, in {found['models']} models drawn from the"
            " posterior of this log"
        ),
    ]
    lines[-1] += f" ({found['prior']['successors']:.2g} successors a pair on average)"
    lines.append(
        "loses: the share of these models in which the policy is worse than the baseline; it is no"
        " probability of the real world"
    )
    lines += [_held_out_text(found["held_out"])] if found["held_out"] else []
    if anew:
        check, (low, high) = found["check"], found["check"]["reward_simulated"]
        lines.append(
            f"check     mean reward a step {check['reward_observed']:.4g}; of logs made anew"
            f" {low:.4g} to {high:.4g}"
        )
        lines[-1] += f" (p = {check['p_value']:.2g})"
    nothing = "nothing: no setting beats the baseline in the worst models"
    nothing = (
        "nothing: the best setting does not gain on held-out data" if found["held_out"] else nothing
    )
    lines += [f"chosen    {found['chosen']}", f"next      {found['next'] or nothing}"]
    return "\n".join([*lines, *(f"note: {note}" for note in found["notes"])])


def _held_out_text(held: dict[str, Any]) -> str:
    """The line about the held-out gain."""
    return (
        f"held out  {held['mean']:+.4g}: the mean gain of {held['setting'].split()[0]} learned from"
        f" half of the {held['halves_of']}, in {held['models']} models of the other half; worse in"
        f" {held['loses']:.0%} of them"
    )


def _wedge_found(wedge: Wedge, posed: Posed, log: str, options: LogOptions) -> dict[str, Any]:
    setting = ["--algorithm", "pi-b-spibb", "--set", f"n_wedge={wedge.n_wedge}"]
    width, notes = posed.problem.return_range.width, posed.notes
    if wedge.bound >= width:
        notes.append(
            f"VACUOUS: no policy can lose more than {width:.4g}, the width of the return range; ask"
            " for less"
        )
    after = {"next": next_line(log, options, setting) if wedge.free > 0 else None, "notes": notes}
    return {"log": log} | dataclasses.asdict(wedge) | after


def _wedge_text(found: dict[str, Any]) -> str:
    lines = [
        (
            f"n_wedge   {found['n_wedge']:,}: Pi_b-SPIBB then loses at most {found['bound']:.4g}"
            f" (asked: {found['loss']:.4g}) with probability {1 - found['delta']:g}"
        ),
        f"          {found['label']}: " + "; ".join(found["assumptions"]),
        (
            f"known     {found['known']} pairs were seen more often; {found['free']:.1%} of"
            " decisions may change"
        ),
    ]
    lines.append(
        f"next      {found['next']}"
        if found["next"]
        else "next      nothing: this log proves no such bound for any change"
    )
    return "\n".join([*lines, *(f"note: {note}" for note in found["notes"])])


def _json(found: dict[str, Any]) -> str:
    return json_text("tune" if "settings" in found else "tune-bound", found)


def _write(path: Path, found: dict[str, Any]) -> None:
    """The table as CSV, or everything as JSON; whole or not at all."""
    from surefoot.atomic import write_csv, write_whole
    from surefoot.errors import ParameterError

    if path.suffix == ".json":
        write_whole(path, _json(found) + "\n")
    elif path.suffix == ".csv":
        rows = found.get("settings") or [
            {k: v for k, v in found.items() if k not in ("assumptions", "notes")}
        ]
        columns = COLUMNS if "settings" in found else tuple(rows[0])
        write_csv(
            path, columns, [["" if row[k] is None else row[k] for k in columns] for row in rows]
        )
    else:
        raise ParameterError(f"--out takes a .csv or .json file, got {str(path)!r}")


def _write_paths(folder: Path, posed: Posed) -> None:
    """path.csv: the whole policy along epsilon; breakpoints.csv: every row's first step,
    exactly.
    """
    from surefoot.atomic import write_csv
    from surefoot.core.labels import as_text
    from surefoot.tuning import PathPoint, epsilon_path, row_paths

    columns = tuple(field.name for field in dataclasses.fields(PathPoint))
    write_csv(
        folder / "path.csv",
        columns,
        [dataclasses.astuple(point) for point in epsilon_path(posed.problem)],
    )
    rows = []
    for s, path in row_paths(posed.problem).items():
        for epsilon, gain, moved, price in zip(
            path.budget, path.gain, path.moved, path.price, strict=True
        ):
            rows.append(
                [
                    as_text(posed.log.states[s]),
                    float(epsilon),
                    float(gain),
                    float(moved),
                    float(price),
                ]
            )
    write_csv(folder / "breakpoints.csv", ("state", "epsilon", "gain", "moved", "price"), rows)
