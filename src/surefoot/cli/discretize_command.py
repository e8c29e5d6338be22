"""surefoot discretize: a state column for a log with continuous features, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from surefoot.cli.terminal import console, print_json
from surefoot.errors import ParameterError

if TYPE_CHECKING:
    from surefoot.encoding import Discretized

Column = Annotated[
    str | None,
    typer.Option(
        help="Its column, for how much states mix; episode may be -.", show_default="found by name"
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    example = (
        "Example: `surefoot discretize log.csv --features age,pulse,lactate --states 200 --out"
        " states.parquet`"
    )
    app.command("discretize", epilog=example)(discretize)


def discretize(
    log: Annotated[
        str, typer.Argument(help="The log: a CSV or Parquet file, a folder or a pattern.")
    ],
    out: Annotated[
        Path, typer.Option(help="The log with the state column: .csv, .csv.gz or .parquet.")
    ],
    features: Annotated[
        str, typer.Option(help="Columns of numbers that make the state, joined by commas.")
    ] = "",
    states: Annotated[int, typer.Option(help="The largest number of states.")] = 200,
    method: Annotated[
        str, typer.Option(help="quantile bins of every feature, or kmeans (needs scikit-learn).")
    ] = "quantile",
    edges: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                "FEATURE=1,2,5: bins below 1, from 1, from 2 and from 5 on, instead of quantiles;"
                " may be repeated."
            )
        ),
    ] = None,
    missing: Annotated[
        str,
        typer.Option(
            help=(
                "Rows without a number (empty, NaN, NA, null): error, or bin for a bin of their"
                " own."
            )
        ),
    ] = "error",
    encoder: Annotated[
        Path | None,
        typer.Option(help="Where to save the encoder.", show_default="OUT.encoder.json"),
    ] = None,
    apply: Annotated[
        Path | None, typer.Option(help="Apply this saved encoder instead of fitting one.")
    ] = None,
    column: Annotated[str, typer.Option(help="The name of the new column.")] = "state",
    episode: Column = None,
    time: Column = None,
    reward: Column = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Make a state column from continuous features, save the encoder for new rows, and say how
    much the states mix.
    """
    from surefoot import encoding

    if apply is not None and (features or edges or missing != "error" or encoder is not None):
        raise ParameterError(
            "--apply uses a saved encoder: leave --features, --edges, --missing and --encoder out"
        )
    if apply is None and not features and not edges:
        raise ParameterError(
            "name the columns that make the state with --features a,b,c, or a saved encoder with"
            " --apply"
        )
    save = None if apply is not None else encoder or out.with_name(out.name + ".encoder.json")
    names = [name.strip() for name in features.split(",")] if features else []
    done = encoding.discretize(
        log,
        out,
        features=names,
        states=states,
        method=method,
        edges=_parsed(edges or []),
        missing=missing,
        encoder=None if apply is None else encoding.read_encoder(apply),
        save=save,
        column=column,
        roles={"episode": episode, "time": time, "reward": reward},
    )
    if as_json:
        print_json("discretize", _for_machines(done, out, save))
    else:
        _print(done, out, save)


def _parsed(texts: list[str]) -> dict[str, list[float]]:
    """{feature: edges} of --edges FEATURE=1,2,5."""
    found: dict[str, list[float]] = {}
    for text in texts:
        name, sign, numbers = text.rpartition("=")
        try:
            values = [float(x) for x in numbers.split(",")]
        except ValueError:
            values = []
        if not sign or not name.strip() or not values:
            raise ParameterError(
                f"--edges takes FEATURE=NUMBER,NUMBER,..., such as pulse=60,80,100, got {text!r}"
            )
        if name.strip() in found:
            raise ParameterError(f"--edges has two lists for {name.strip()!r}: give one")
        found[name.strip()] = values
    return found


def _for_machines(done: Discretized, out: Path, save: Path | None) -> dict[str, Any]:
    features = done.encoder.features
    mixed = (
        None
        if done.mixing is None
        else {
            "reward": done.mixing.reward,
            "successor": dict(zip(features, done.mixing.successor, strict=True)),
        }
    )
    states = {label: n for label, n in zip(done.labels, done.counts, strict=True) if n}
    return {
        "out": str(out),
        "encoder": None if save is None else str(save),
        "rows": done.rows,
        "method": done.encoder.method,
        "features": list(features),
        "within_state_variance": mixed,
        "states": states,
        "notes": list(done.notes),
    }


def _print(done: Discretized, out: Path, save: Path | None) -> None:
    from surefoot.encoding import in_words

    used = [n for n in done.counts if n]
    lines = [f"{done.rows:,} rows read, {done.rows:,} written: {out}"]
    lines.append(
        f"{len(used):,} states, of {min(used):,} to {max(used):,} rows, from"
        f" {', '.join(done.encoder.features)}"
    )
    lines += [in_words(done.mixing, done.encoder.features)] if done.mixing is not None else []
    lines += [f"note: {note}" for note in done.notes]
    lines += (
        [f"encoder: {save}  (for new rows: surefoot discretize NEW --apply {save} --out FILE)"]
        if save is not None
        else []
    )
    for line in lines:
        console.print(escape(line), highlight=False, soft_wrap=True)
