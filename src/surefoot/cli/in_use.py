"""surefoot apply and export: the decisions of a policy, for a state, a file, or another program.
surefoot discretize: a state column for a log with continuous features.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.options import (
    COLUMNS,
    METHOD,
    OUTPUT,
    POLICY,
    AsJson,
    Edges,
    Source,
    listed,
    option,
    parsed_edges,
)
from surefoot.cli.terminal import reading_progress, show_document
from surefoot.core.errors import ParameterError

if TYPE_CHECKING:
    from surefoot.serving import Applied, Controller, Discretized


NAMED = 20  # states never seen that are named in JSON; 5 of them in the text
PolicyFile = Annotated[
    Path,
    typer.Argument(
        metavar="POLICY",
        help="A policy file, as surefoot improve writes it, or a controller of surefoot export.",
    ),
]
Decimal = Annotated[str, typer.Option(hidden=True)]  # as surefoot check has them
Delimiter = Annotated[str, typer.Option(hidden=True)]
Encoding = Annotated[str, typer.Option(hidden=True)]
Otherwise = Annotated[
    str | None,
    option(
        POLICY,
        "ACTION",
        "What to do in states that the policy does not know.",
        default="nothing: they are left open",
    ),
]


def apply(
    policy: PolicyFile,
    state: Annotated[
        str | None,
        option(
            METHOD, "STATE", "The label of the state; of several columns: joined by commas, as a,1."
        ),
    ] = None,
    reading: Annotated[
        list[str] | None,
        option(
            METHOD,
            "NAME=NUMBER",
            "A raw measurement, of a controller with an encoder, instead of --state; NAME= is"
            " missing. May be repeated.",
        ),
    ] = None,
    file: Annotated[
        str | None,
        option(METHOD, "FILE", "Decide every row of this file (CSV or Parquet) instead."),
    ] = None,
    out: Annotated[
        Path | None,
        option(OUTPUT, "FILE", "The rows with their decisions: .csv, .csv.gz or .parquet."),
    ] = None,
    otherwise: Otherwise = None,
    sample: Annotated[
        bool,
        option(
            METHOD,
            "",
            "Draw actions by their probabilities, instead of listing them or taking the likeliest.",
            "--sample",
        ),
    ] = False,
    seed: Annotated[
        int | None, option(METHOD, "NUMBER", "The seed of the draws.", default="a new one")
    ] = None,
    column: Annotated[str, option(OUTPUT, "NAME", "The name of the new column.")] = "decision",
    as_json: AsJson = False,
    state_column: Annotated[
        str | None, option(COLUMNS, "NAME,...", "The state, in FILE.", default=False)
    ] = None,
    action_column: Annotated[
        str | None,
        option(COLUMNS, "NAME,...", "What was done, in FILE; '-' if there is none.", default=False),
    ] = None,
    decimal: Decimal = ".",
    delimiter: Delimiter = "",
    encoding: Encoding = "utf-8",
) -> None:
    """Show what a policy does in a state, or would have done in every row of a file.

    With --file nothing is done but written down (shadow mode): the rows with the decision and its
    probability, how often it differs from the action in the file and from the baseline beside the
    policy, and which states the policy does not know. They stay open unless --otherwise names an
    action. Text is written as it was read; --decimal, --delimiter and --encoding are those of
    surefoot check.
    """
    if sum((state is not None, bool(reading), file is not None)) != 1:
        raise ParameterError(
            "give one of --state or --reading (one decision) and --file (one for every row)"
        )
    if file is None:
        if out is not None:
            raise ParameterError("--out is for the rows of --file")
        from surefoot.serving.controller import check_seed, controller_of

        check_seed(seed, sample)
        controller = controller_of(policy, otherwise)
        one = _one_row(controller, reading) if reading else _one_state(controller, str(state))
        found, lines = _decided(*one, sample, seed)
        show_document("apply", found, lambda: lines, as_json)
        return
    if out is None:
        raise ParameterError("name the file that the decisions go to with --out")
    from surefoot.serving import apply as decide

    with reading_progress() as shown:
        done = decide(
            policy, file, out, otherwise=otherwise, state_column=state_column,
            action_column=action_column, sample=sample, seed=seed, column=column,
            decimal=decimal, delimiter=delimiter, encoding=encoding, progress=shown,
        )  # fmt: skip
    document = _document(done, policy, file, out)
    show_document("apply", document, lambda: _lines(document), as_json)


def export(
    policy: PolicyFile,
    out: Annotated[
        Path,
        option(OUTPUT, "FILE", "What to write: .sql, .json or .st, by the ending of its name."),
    ],
    encoder: Annotated[
        Path | None,
        option(
            POLICY,
            "FILE",
            "The encoder of surefoot discretize, by which the states were made: decide from raw"
            " measurements.",
        ),
    ] = None,
    otherwise: Otherwise = None,
    fallback: Annotated[
        Path | None,
        option(
            POLICY,
            "FILE",
            "A policy for states that POLICY does not know, such as the rule; with an encoder"
            " also a table over columns of the row, or a controller (.json).",
        ),
    ] = None,
    dialect: Annotated[
        str,
        option(OUTPUT, "NAME", "Of SQL: duckdb, postgres, sqlite, bigquery, spark or tsql."),
    ] = "duckdb",
    key: Annotated[
        str,
        option(
            METHOD,
            "NAME,...",
            "In SQL: draw actions by a hash of these columns, which tell all decisions apart, such"
            " as stay_id,time.",
            default="the most probable action",
        ),
    ] = "",
    numbers: Annotated[
        str,
        option(METHOD, "NAME,...", "In SQL: state columns that hold numbers, not text."),
    ] = "",
    state_column: Annotated[
        str | None,
        option(COLUMNS, "NAME,...", "In SQL: the state.", default="that of the log"),
    ] = None,
    accept: Annotated[
        bool,
        option(
            METHOD,
            "",
            "Write even a candidate that the data do not support; the file says so first.",
            "--accept",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a policy for another program: SQL (CASE WHEN), JSON, or Structured Text (IEC 61131-3).

    The SQL is an expression for the action of a row: the most probable one, or with --key one drawn
    by its probability, the same for the same key. The JSON has all probabilities, and
    surefoot.load_controller reads it. With --encoder they go from raw measurements to an action;
    Structured Text always does, and takes policies that do not draw (improve --deterministic).
    """
    from surefoot.serving import export as write
    from surefoot.serving.exports import BLANK, export_notes

    if otherwise is not None and fallback is not None:
        raise ParameterError("give one of --otherwise (an action) and --fallback (a policy)")
    second = otherwise if fallback is None else fallback
    keys = listed(key)
    controller = write(
        policy, out, encoder=encoder, otherwise=second, dialect=dialect, key=keys,
        numbers=listed(numbers), state_column=state_column, accept=accept,
    )  # fmt: skip
    found: dict[str, Any] = {
        "out": str(out),
        "policy": str(policy),
        "format": out.suffix.lower()[1:],
        "states": len(controller.policy.labels.states),
        "otherwise": controller.fallback_words,
        "notes": export_notes(controller, keys, BLANK[out.suffix.lower()]),
    }
    show_document("export", found, lambda: _export_lines(found), as_json)


def _export_lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{found['states']:,} states: {found['out']}"
    yield f"in states that the policy does not know: {found['otherwise']}"
    yield from (f"note: {note}" for note in found["notes"])


def _one_state(controller: Controller, state: str) -> tuple[Controller, Any, dict[str, Any]]:
    """What decides, of what, and what is known of it: of a state."""
    names = controller.policy.labels.headers
    if controller.encoder is not None:
        names = ("state",)
        controller = type(controller)(policy=controller.policy, otherwise=controller.otherwise)
    key = (state,) if len(names) == 1 else tuple(part.strip() for part in state.split(","))
    label = state if len(names) == 1 else key
    return controller, label, {"state": dict(zip(names, key, strict=False))}


def _one_row(controller: Controller, given: list[str]) -> tuple[Controller, Any, dict[str, Any]]:
    """The same of raw measurements; without a state the fallback decides."""
    from surefoot.core.labels import nearest

    if controller.encoder is None:
        raise ParameterError(
            "--reading needs a policy that knows how states are made of measurements: the file of"
            " surefoot export --encoder FILE --out CONTROLLER.json. Or give the --state itself"
        )
    row: dict[str, str] = {}
    for text in given:
        name, sign, value = (x.strip() for x in text.rpartition("="))
        if not sign or name in row:
            raise ParameterError(
                f"--reading takes NAME=NUMBER, once for each measurement, got {text!r}"
            )
        known = controller.encoder.features
        if name not in known:
            raise ParameterError(f"the policy has no measurement {name!r}; {nearest(name, known)}")
        row[name] = value
    state = controller.find_state(row)
    return controller, row, {"state": {} if state is None else {"state": state}, "readings": row}


def _decided(
    controller: Controller, row: Any, found: dict[str, Any], sample: bool, seed: int | None
) -> tuple[dict[str, Any], list[str]]:
    """The probabilities, or one draw."""
    import numpy as np

    from surefoot.core.labels import as_text

    actions = {as_text(a): p for a, p in controller.probabilities(row).items()}
    lines = [f"{p:8.4f}  {a}" for a, p in sorted(actions.items(), key=lambda pair: -pair[1])]
    if "readings" in found:
        state = found["state"].get("state")
        where = "no state" if state is None else f"in {state!r}"
        lines.insert(0, where + ": the fallback decides" * (not controller.knows(row)))
    found |= {"probabilities": actions}
    if sample:
        found["action"] = as_text(controller.act(row, np.random.default_rng(seed)))
        lines = [found["action"]]
    return found, lines


def _document(done: Applied, policy: Path, file: str, out: Path) -> dict[str, Any]:
    """What was decided, for machines."""
    from surefoot.core.labels import as_text

    compared = None
    if done.compared is not None:
        compared = {
            "rows": done.compared,
            "differ": done.differs,
            "probability_of_logged": done.agreement if done.compared else None,
            "unknown_actions": dict(list(done.unknown_actions.items())[:NAMED]),
            "rows_with_unknown_actions": sum(done.unknown_actions.values()),
        }
    baseline = None
    if done.moved is not None:
        baseline = {"decisions_changed": done.moved, "preferred_action_changed": done.preferred}
    return {
        "policy": str(policy),
        "file": file,
        "out": str(out),
        "rows": done.rows,
        "decided": done.decided,
        "sampled": done.sampled,
        "actions": done.actions,
        "stochastic_rows": done.stochastic,
        "tied_rows": done.tied,
        "against_log": compared,
        "against_baseline": baseline,
        "rows_in_unseen_states": sum(n for _, n in done.unseen),
        "unseen_states": len(done.unseen),
        "most_frequent_unseen": [{"state": as_text(x), "rows": n} for x, n in done.unseen[:NAMED]],
        "rows_without_state": done.without_state,
        "rows_by_fallback": done.fallback,
    }


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    """What was decided, for people."""
    n, how = found["rows"], "drawn" if found["sampled"] else "the most probable action"
    yield f"decided   {found['decided']:,} of {n:,} rows ({how}): {found['out']}"
    yield from _unseen_lines(found)
    log = found["against_log"]
    if log is None:
        yield "log       the file has no logged action to compare with (--action-column names it)"
    elif log["rows"]:
        yield (
            f"log       {log['differ']:,} of {log['rows']:,} decisions"
            f" ({log['differ'] / log['rows']:.1%}) differ from the logged action; the policy takes"
            f" the logged action with probability {log['probability_of_logged']:.3f} on average"
        )
        if log["rows_with_unknown_actions"]:
            some = ", ".join(map(repr, list(log["unknown_actions"])[:5]))
            yield (
                f"          {log['rows_with_unknown_actions']:,} rows have actions that the policy"
                f" does not know, such as {some}: they count as different"
            )
    base = found["against_baseline"]
    if base is not None:
        yield (
            f"baseline  {base['decisions_changed']:.1%} of decisions change; in"
            f" {base['preferred_action_changed']:.1%} of rows the most probable action does"
        )
    counts = sorted(found["actions"].items(), key=lambda x: -x[1])
    yield (
        "actions   " + ", ".join(f"{k:,} {a}" for a, k in counts[:8]) + ", ..." * (len(counts) > 8)
    )
    if found["stochastic_rows"] and not found["sampled"]:
        yield (
            f"note: in {found['stochastic_rows']:,} rows the policy draws its action; always taking"
            " the most probable one is ANOTHER POLICY than the one that was tested (--sample draws)"
        )
    if found["tied_rows"] and not found["sampled"]:
        yield (
            f"note: in {found['tied_rows']:,} rows several actions are equally probable: the first"
            " of them is taken, in the order of the policy file"
        )


def _unseen_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """What the policy does not know."""
    rows, states = found["rows_in_unseen_states"], found["unseen_states"]
    fallback = found["rows_by_fallback"]
    open_rows = rows + found["rows_without_state"] - fallback
    if rows:
        named = [f"{x['state']!r} ({x['rows']:,})" for x in found["most_frequent_unseen"][:5]]
        more = f" and {states - 5:,} more" if states > 5 else ""
        yield (
            f"unseen    {rows:,} rows in {states:,} states that the policy does not know:"
            f" {', '.join(named)}{more}"
        )
    if found["rows_without_state"]:
        missing = found["rows_without_state"]
        yield f"unseen    {missing:,} rows have no state: a part of it is missing"
    if fallback:
        yield f"fallback  decided {fallback:,} of these rows"
    if open_rows:
        yield f"open      {open_rows:,} rows got NO decision: their field is empty"


Features = Annotated[
    str, option(METHOD, "NAME,...", "Columns of numbers that make the state, such as age,pulse.")
]
States = Annotated[int, option(METHOD, "NUMBER", "The largest number of states.")]
Method = Annotated[
    str, option(METHOD, "NAME", "quantile: bins of every feature; kmeans: needs scikit-learn.")
]
DateFormat = Annotated[str, typer.Option(hidden=True)]
Missing = Annotated[
    str,
    option(
        METHOD,
        "WORD",
        "What to do with rows without a number (empty, NaN, NA, null): error; bin: a bin of their"
        " own; last: the last value of the episode (and a bin before the first).",
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
    decimal: Decimal = ".",
    delimiter: Delimiter = "",
    encoding: Encoding = "utf-8",
    date_format: DateFormat = "",
) -> None:
    """Make a state column from continuous features.

    It saves the encoder for new rows, and says how much different situations mix in one state.
    --decimal, --delimiter, --encoding and --date-format are those of surefoot check. Text is
    written as it was read, so the next command takes the same options.
    """
    from surefoot import serving

    if apply is not None and (features or edges or missing == "bin" or encoder is not None):
        raise ParameterError(
            "--apply uses a saved encoder: leave --features, --edges, --missing bin and --encoder"
            " out"
        )
    if apply is None and not features and not edges:
        raise ParameterError(
            "name the columns that make the state with --features a,b,c, or a saved encoder with"
            " --apply"
        )
    from surefoot.serving.encoders import ENDING

    save = None if apply is not None else encoder or out.with_name(out.name + ENDING)
    done = serving.discretize(
        log,
        out,
        features=listed(features),
        states=states,
        method=method,
        edges=parsed_edges(edges),
        missing=missing,
        encoder=None if apply is None else serving.read_encoder(apply),
        save=save,
        column=column,
        roles={"episode": episode, "time": time, "reward": reward},
        decimal=decimal,
        delimiter=delimiter,
        encoding=encoding,
        date_format=date_format,
    )
    show_document(
        "discretize",
        _discretized(done, out, save),
        lambda: _discretized_lines(done, out, save),
        as_json,
    )


def _discretized(done: Discretized, out: Path, save: Path | None) -> dict[str, Any]:
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


def _discretized_lines(done: Discretized, out: Path, save: Path | None) -> Iterator[str]:
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
