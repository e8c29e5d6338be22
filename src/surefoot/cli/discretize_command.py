"""surefoot discretize: a state column for a log with continuous features."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from surefoot.cli.log_options import listed
from surefoot.cli.options import COLUMNS, METHOD, OUTPUT, AsJson, Source, option
from surefoot.cli.terminal import show_document
from surefoot.core.errors import ParameterError

if TYPE_CHECKING:
    from surefoot.serving import Discretized

Features = Annotated[
    str, option(METHOD, "NAME,...", "Columns of numbers that make the state, such as age,pulse.")
]
States = Annotated[int, option(METHOD, "NUMBER", "The largest number of states.")]
Method = Annotated[
    str, option(METHOD, "NAME", "quantile: bins of every feature; kmeans: needs scikit-learn.")
]
Edges = Annotated[
    list[str] | None,
    option(
        METHOD,
        "FEATURE=EDGES",
        "Bins of your own instead of quantiles, such as --edges pulse=60,80 for below 60, from 60"
        " and from 80 on. May be repeated.",
    ),
]
Missing = Annotated[
    str,
    option(
        METHOD,
        "WORD",
        "What to do with rows without a number (empty, NaN, NA, null): error, or bin for a bin of"
        " their own.",
    ),
]
Apply = Annotated[
    Path | None, option(METHOD, "FILE", "Apply this saved encoder instead of fitting one.")
]
Out = Annotated[
    Path, option(OUTPUT, "FILE", "The log with the state column: .csv, .csv.gz or .parquet.")
]
Encoder = Annotated[
    Path | None,
    option(OUTPUT, "FILE", "Where to save the encoder.", default="OUT.encoder.json"),
]
NewColumn = Annotated[str, option(OUTPUT, "NAME", "The name of the new column.")]
Column = Annotated[
    str | None,
    option(COLUMNS, "NAME", "To measure how much the states mix.", default=False),
]


def discretize(
    log: Source,
    out: Out,
    features: Features = "",
    states: States = 200,
    method: Method = "quantile",
    edges: Edges = None,
    missing: Missing = "error",
    apply: Apply = None,
    encoder: Encoder = None,
    column: NewColumn = "state",
    as_json: AsJson = False,
    episode: Column = None,
    time: Column = None,
    reward: Column = None,
) -> None:
    """Make a state column from continuous features.

    It saves the encoder for new rows, and says how much different situations mix in one state.
    """
    from surefoot import serving

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
    done = serving.discretize(
        log,
        out,
        features=listed(features),
        states=states,
        method=method,
        edges=_parsed(edges or []),
        missing=missing,
        encoder=None if apply is None else serving.read_encoder(apply),
        save=save,
        column=column,
        roles={"episode": episode, "time": time, "reward": reward},
    )
    show_document(
        "discretize", _document(done, out, save), lambda: _lines(done, out, save), as_json
    )


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


def _document(done: Discretized, out: Path, save: Path | None) -> dict[str, Any]:
    features = done.encoder.features
    mixed = done.mixing and {
        "reward": done.mixing.reward,
        "successor": dict(zip(features, done.mixing.successor, strict=True)),
    }
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


def _lines(done: Discretized, out: Path, save: Path | None) -> Iterator[str]:
    used, features = [n for n in done.counts if n], done.encoder.features
    yield f"{done.rows:,} rows read, {done.rows:,} written: {out}"
    yield (
        f"{len(used):,} states, of {min(used):,} to {max(used):,} rows, from {', '.join(features)}"
    )
    if done.mixing is not None:
        yield done.mixing.sentence(features)
    yield from (f"note: {note}" for note in done.notes)
    if save is not None:
        yield f"encoder: {save}  (for new rows: surefoot discretize NEW --apply {save} --out FILE)"
