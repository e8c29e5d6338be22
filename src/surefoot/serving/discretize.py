"""`discretize`: a log with continuous features gets a state column, and an encoder for new rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from surefoot.core import RowsLike
from surefoot.core.atomic import whole_files
from surefoot.core.errors import LogError, ParameterError
from surefoot.core.parameters import check_name
from surefoot.logs.column_roles import find_columns, named_as
from surefoot.logs.database import Database, Workspace, name_sql, text_sql
from surefoot.logs.features import Mixing, RawRows, open_rows
from surefoot.logs.store import encode
from surefoot.serving.encoders import Encoder, encoder_text, fit_kmeans, fit_quantiles

SAMPLE = 1_000_000  # rows an encoder is fitted to, drawn evenly from larger logs
ENDINGS = {".csv": "csv, header", ".csv.gz": "csv, header, compression gzip", ".parquet": "parquet"}
METHODS = ("quantile", "kmeans")
LAST = "last"
FILLED = ("bin", LAST)  # what may be done with rows without a number


@dataclass(frozen=True, kw_only=True)
class Discretized:
    """What was done: `counts[i]` rows got the label `labels[i]`.

    `mixing` says how much the states mix; None where reward or episode are not known.
    """

    rows: int
    encoder: Encoder
    labels: tuple[str, ...]
    counts: tuple[int, ...]
    mixing: Mixing | None
    notes: tuple[str, ...]


def discretize(
    source: RowsLike,
    out: str | Path,
    *,
    features: Sequence[str] = (),
    states: int = 200,
    method: str = "quantile",
    edges: Mapping[str, Sequence[float]] = MappingProxyType({}),
    missing: str = "error",
    encoder: Encoder | None = None,
    save: str | Path | None = None,
    column: str = "state",
    roles: Mapping[str, str | None] | None = None,
    decimal: str = ".",
    delimiter: str = "",
    encoding: str = "utf-8",
    date_format: str = "",
) -> Discretized:
    """Write the log `source` to `out` (.csv, .csv.gz or .parquet) with a column of states.

    Text is written as it was read, with the same delimiter, decimal sign and encoding.

    features, states, method   fit an encoder: "quantile" bins or "kmeans"
    edges                      {feature: edges of its bins}, instead of quantiles; or
    encoder                    use this one
    save                       where to save the encoder as JSON
    missing                    rows in which a feature is empty, NaN, NA, N/A, null or None are an
                               "error", or get a "bin", or the "last" value of their episode (and a
                               bin before the first); an encoder knows what may be missing
    roles                      columns as in `read_log` (episode, time, reward), which mixing and
                               the last value need
    decimal, delimiter, encoding, date_format  of text files, as in `read_log`
    """
    out, save = Path(out), None if save is None else Path(save)
    features = (*features, *(name for name in edges if name not in features))
    if (encoder is None) == (not features):
        raise ParameterError("give either features to fit an encoder, or an encoder to apply")
    check_bins(method, edges, missing)
    file_format(out)
    with closing(Workspace()) as workspace, Database(workspace) as database:
        names = features if encoder is None else encoder.features
        may_miss = (names if missing in FILLED else ()) if encoder is None else encoder.missing
        reading = {"decimal": decimal, "delimiter": delimiter, "encoding": encoding}
        rows, used, lost = measured_rows(
            source, names, may_miss, database, workspace, missing=missing, roles=roles or {},
            needed=encoder is None, date_format=date_format, **reading,
        )  # fmt: skip
        check_targets(out, save, column, rows)
        fitted = encoder or _fit(database, rows, states, method, edges, lost)
        counts = encode_rows(database, rows, fitted)
        mixing = rows.mixing(database, used) if used and "reward" in used else None
        write_coded(database, rows, fitted, out, column, save)
    return Discretized(
        rows=int(counts.sum()),
        encoder=fitted,
        labels=fitted.labels,
        counts=tuple(map(int, counts)),
        mixing=mixing,
        notes=tuple(_notes(fitted, counts, mixing, lost)),
    )


def measured_rows(
    source: RowsLike,
    features: tuple[str, ...],
    may_miss: Collection[str],
    database: Database,
    workspace: Workspace,
    *,
    missing: str,
    roles: Mapping[str, str | None],
    needed: bool = True,
    date_format: str = "",
    **reading: str,
) -> tuple[RawRows, dict[str, str] | None, dict[str, int]]:
    """(the rows of a log, with what is missing as asked for; their columns, None where they are not
    `needed` and not there; in how many rows each feature is still missing).
    """
    rows = open_rows(source, features, database, workspace, **reading)
    rows.missing(database, features if missing == LAST else may_miss)
    used = _roles(rows, roles, needed=needed, carried=missing == LAST)
    rows = rows if used is None else rows.timed(database, used, date_format)
    if missing == LAST:
        rows = rows.carry_forward(database, workspace, used or {})
    return rows, used, rows.missing(database, may_miss)


def check_bins(method: str, edges: Mapping[str, Sequence[float]], missing: str) -> None:
    """Raise unless these options go together."""
    check_name("method", method, METHODS)
    check_name("missing", missing, ("error", *FILLED))
    if method != "quantile" and (edges or missing in FILLED):
        raise ParameterError(
            f"method {method} has no bins: leave edges and missing out, or use method quantile"
        )


def _fit(
    database: Database,
    rows: RawRows,
    states: int,
    method: str,
    edges: Mapping[str, Sequence[float]],
    lost: Mapping[str, int],
) -> Encoder:
    """An encoder for these rows."""
    x = rows.sample(database, SAMPLE)
    if method == "kmeans":
        return fit_kmeans(rows.features, x, states)
    missing = tuple(name for name, n in lost.items() if n)
    return fit_quantiles(rows.features, x, states, edges=edges, missing=missing)


def encode_rows(database: Database, rows: RawRows, encoder: Encoder) -> np.ndarray:
    """Make the table `codes`, in the order of the rows; how often each state occurs."""
    counts = np.zeros(len(encoder.labels), dtype=np.int64)

    def coded() -> Iterator[np.ndarray]:
        for x in rows.blocks(database):
            code = encoder.encode(x)
            np.add(counts, np.bincount(code, minlength=len(counts)), out=counts)
            yield code

    keep_codes(database, coded())
    return counts


def keep_codes(database: Database, blocks: Iterable[np.ndarray]) -> None:
    """Make the table `codes` of a number for every row, in their order."""
    database.run("coding rows", "create or replace temp table codes (code integer)")
    for code in blocks:
        with database.table("coded", {"code": code.astype(np.int32)}):
            database.run("coding rows", "insert into codes select code from coded")


def write_coded(
    database: Database, rows: RawRows, encoder: Encoder, out: Path, column: str, save: Path | None
) -> None:
    """The log with the label of every row, in its order, and its encoder: both or none."""
    states = label_sql(encoder.labels, "code", column)
    targets = (out,) if save is None else (out, save)
    with whole_files(*targets) as (part, *beside):
        query = f"select {rows.all_columns}, {states} from {rows.sql} positional join codes"
        write_rows(database, rows, query, out, part)
        for file in beside:
            file.write_text(encoder_text(encoder), encoding="utf-8")


def label_sql(labels: Sequence[str], code: str, column: str) -> str:
    """A column of labels by their codes, in SQL."""
    return f"([{', '.join(map(text_sql, labels))}])[{code} + 1] as {name_sql(column)}"


def file_format(out: Path) -> str:
    """How DuckDB writes a file, by its ending."""
    for ending, kind in ENDINGS.items():
        if out.name.lower().endswith(ending):
            return kind
    raise ParameterError(f"{out} must end in {', '.join(ENDINGS)}")


def write_rows(database: Database, rows: RawRows, query: str, out: Path, part: Path) -> None:
    """Write a query over the rows of a log into `part`, which becomes `out`: text with the
    delimiter and in the encoding of theirs.
    """
    kind = file_format(out)
    sign = "" if kind == "parquet" else f", delim {text_sql(rows.delimiter)}"
    # straight into the file that is named, which is being written already
    how = f"format {kind}{sign}, use_tmp_file false"
    database.run(f"writing {out}", f"copy ({query}) to {text_sql(str(part))} ({how})")
    if kind != "parquet":
        encode(part, out, rows.encoding, database.folder)


def check_targets(out: Path | None, save: Path | None, column: str, rows: RawRows) -> None:
    """Raise unless these files can be written, and the new column joins those of the rows."""
    for path in (x for x in (out, save) if x is not None):
        if path.is_dir():
            raise ParameterError(f"{path} is a folder: name a file")
        if path.exists() and any(path.samefile(file) for file in rows.files):
            raise ParameterError(f"{path} is the log itself: write to another file")
    if save is not None and out is not None and save.absolute() == out.absolute():
        raise ParameterError(f"{out} cannot hold both the log and its encoder: name two files")
    if not column.strip():
        raise ParameterError("the new column needs a name: give one with --column")
    # DuckDB, which reads the result, does not tell upper from lower case
    if column.lower() in map(str.lower, rows.names):
        raise LogError(f"the log already has a column {column!r}: name the new one with --column")


def _roles(
    rows: RawRows, given: Mapping[str, str | None], *, needed: bool, carried: bool
) -> dict[str, str] | None:
    """The columns of episode, time and reward; None where they are not needed and not there. To
    carry values forward the first two do.
    """
    first = rows.features[0]
    unused = {"state": first, "action": first} | dict.fromkeys(
        ("next_state", "terminal", "truncated"), "-"
    )
    without = not (given.get("reward") or named_as("reward", rows.names))
    more = {"reward": first} if without else {}
    try:
        found = find_columns(rows.names, rows.name, **unused, **{**given, **more})
    except LogError:
        if needed or carried or any(given.values()):
            raise
        return None
    kept = ("time",) if without else ("time", "reward")
    used = {x: getattr(found, x)[0] for x in kept if getattr(found, x)}
    return used | {"episode": ",".join(found.episode)}


def _notes(
    encoder: Encoder, counts: np.ndarray, mixing: Mixing | None, lost: Mapping[str, int]
) -> list[str]:
    """What a user should know about the states."""
    notes = [
        f"{name} is missing in {n:,} of {int(counts.sum()):,} rows: their bin is '{name} missing'"
        for name, n in lost.items()
        if n
    ]
    if encoder.unused:
        notes.append(
            f"{', '.join(encoder.unused)} got one bin and do not matter: more states or fewer"
            " features would change that"
        )
    few = int(((counts > 0) & (counts < 10)).sum())
    if few:
        notes.append(f"{few} of {int((counts > 0).sum())} states have fewer than 10 rows")
    if mixing is None:
        notes.append(
            "how much the states mix is not known: these rows have no columns for episode and"
            " reward"
        )
    return notes
