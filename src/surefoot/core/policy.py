"""Policy: probabilities with their labels, as a policy file holds them, to act by and to save; and
Solution: the policy that an algorithm returns, its values, and whether it converged.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from surefoot.core.array_checks import check_rows, not_negative, number_array
from surefoot.core.arrays import Array, to_numpy
from surefoot.core.atomic import write_whole
from surefoot.core.counts import read_only
from surefoot.core.errors import PolicyError
from surefoot.core.labels import POLICY_COLUMNS, Labels, as_cell, as_text, unknown
from surefoot.core.plain_values import SHOWN_ROWS, Shown
from surefoot.core.text import some

CHANGED = 1e-9  # mass moved in a state beyond rounding
LIKELIEST = 4  # actions of a state that a notebook names
Row = tuple[Any, Any, float]  # state, action, probability


@dataclass(frozen=True, repr=False, kw_only=True)
class Policy(Shown):
    """pi [S, A] over labels; a row of zeros is a state in which nothing is chosen, since it ends
    an episode.

    estimated        whether it was estimated from a log, with `smoothing` added to every count:
                     guarantees for a known baseline do not apply then
    notes            what every output should say about it
    elsewhere        rows about states that `labels` do not have, as the file has them
    of_policy        the code of the policy whose rows alone it was estimated from; None: all rows
    baseline, count  [S, A] or None: the policy it improves, and how often the log took each pair
    """

    pi: np.ndarray
    labels: Labels = field(default=Labels())
    estimated: bool = False
    smoothing: float = 0.0
    notes: tuple[str, ...] = ()
    elsewhere: tuple[Row, ...] = ()
    baseline: np.ndarray | None = None
    count: np.ndarray | None = None
    of_policy: int | None = None

    def __post_init__(self) -> None:
        for name in ("pi", "baseline"):
            given = getattr(self, name)
            if given is not None:
                rows = number_array(name, given, PolicyError)
                if rows.ndim != 2:
                    raise PolicyError(f"{name} must be [S, A], got shape {list(rows.shape)}")
                check_rows(name, rows, PolicyError)
                object.__setattr__(self, name, read_only(np.maximum(rows, 0.0)))
        if self.count is not None:
            not_negative("count", np.asarray(self.count), PolicyError)
        if not self.labels.states:  # arrays: the codes are the labels
            states, actions = (tuple(range(n)) for n in self.pi.shape)
            object.__setattr__(self, "labels", Labels(states, actions))
        shape = (len(self.labels.states), len(self.labels.actions))
        if self.pi.shape != shape:
            raise PolicyError(f"pi must be [S, A] = {list(shape)}, got {list(self.pi.shape)}")

    def _facts(self) -> dict[str, Any]:
        return {
            "states": self.pi.shape[0],
            "actions": self.pi.shape[1],
            "made": "estimated" if self.estimated else "given",
            "notes": self.notes,
        }

    def _table(self) -> tuple[Sequence[str], Sequence[Sequence[Any]], int]:
        """A row a state, those that differ most from the baseline first."""
        acting = np.flatnonzero(self.pi.any(axis=1))
        header = [*self.labels.state_columns, "policy"]
        if self.baseline is not None:
            moved = 0.5 * np.abs(self.pi - self.baseline).sum(axis=1)[acting]
            acting = acting[np.argsort(-np.where(moved > CHANGED, moved, 0.0), kind="stable")]
            header.append("baseline")
        header += ["count"] * (self.count is not None)
        rows = []
        for s in acting[:SHOWN_ROWS].tolist():
            rows.append(
                [*map(as_text, _fields(self.labels.states[s])), self._likeliest(self.pi[s])]
            )
            if self.baseline is not None:
                rows[-1].append(self._likeliest(self.baseline[s]))
            if self.count is not None:
                rows[-1].append(f"{self.count[s].sum():,.0f}")
        return header, rows, len(acting) - len(rows)

    def _likeliest(self, row: np.ndarray) -> str:
        """The most probable actions of a state in words."""
        best = [a for a in np.argsort(-row, kind="stable").tolist() if row[a] > 0]
        return some([f"{as_text(self.labels.actions[a])} {row[a]:.3g}" for a in best], LIKELIEST)

    def to_dict(self) -> dict[Any, dict[Any, float]]:
        """{state: {action: probability}} by labels, which stands for a policy everywhere."""
        found: dict[Any, dict[Any, float]] = {}
        for s, a in np.argwhere(self.pi > 0).tolist():
            row = found.setdefault(self.labels.states[s], {})
            row[self.labels.actions[a]] = float(self.pi[s, a])
        for state, action, p in self.elsewhere:
            found.setdefault(state, {})[action] = p
        return found

    def act(self, state: Any, rng: np.random.Generator) -> Any:
        """Draw an action, by label, in a state given by its label."""
        row = self.probabilities(state)
        p = np.array(list(row.values()))
        return list(row)[int(rng.choice(len(p), p=p / p.sum()))]

    def probabilities(self, state: Any) -> dict[Any, float]:
        """{action: probability} in a state given by its label."""
        label = tuple(state) if isinstance(state, (list, np.ndarray)) else state
        s = self.labels.find_state(label)
        if s is not None and self.pi[s].any():
            return dict(zip(self.labels.actions, self.pi[s].tolist(), strict=True))
        row = {a: p for x, a, p in self.elsewhere if as_text(x) == as_text(label)}
        if s is None and row:
            return row
        if s is not None:
            raise PolicyError(f"state {self.labels.state(s)} ends an episode: no action there")
        raise PolicyError(unknown("state", label, self.labels.states, "the policy"))

    def knows(self, state: Any) -> bool:
        """Whether it says something about a state given by its label."""
        label = tuple(state) if isinstance(state, (list, np.ndarray)) else state
        if self.labels.find_state(label) is not None:
            return True
        return any(as_text(x) == as_text(label) for x, _, _ in self.elsewhere)

    def over(self, otherwise: np.ndarray | Policy, labels: Labels | None = None) -> np.ndarray:
        """pi [S, A] in the order of other labels (without them: those of `otherwise`, of an array
        0, 1, 2, ...); rows of `otherwise` in states that it does not know, or that its log never
        visited. An array is in the order of these labels.
        """
        if isinstance(otherwise, Policy):
            labels = otherwise.labels if labels is None else labels
            rows = [labels.find_state(x) for x in otherwise.labels.states]
            known = [s for s in rows if s is not None]
            if len(known) < len(labels.states):
                lost = next(x for s, x in enumerate(labels.states) if s not in known)
                raise PolicyError(unknown("state", lost, otherwise.labels.states, "`otherwise`"))
            theirs = np.zeros((len(labels.states), len(labels.actions)))
            columns = [labels.action_code(a) for a in otherwise.labels.actions]
            here = [i for i, s in enumerate(rows) if s is not None]
            theirs[np.ix_(known, columns)] = otherwise.pi[here]
            otherwise = theirs
        otherwise = number_array("otherwise", otherwise, PolicyError)
        labels = Policy(pi=otherwise).labels if labels is None else labels
        places = [labels.action_code(a) for a in self.labels.actions]
        known = np.any((self.pi if self.count is None else self.count) > 0, axis=-1)
        pi = otherwise
        for s, label in enumerate(labels.states):
            mine = self.labels.find_state(label)
            if mine is not None and known[mine]:
                pi[s] = 0.0
                pi[s, places] = self.pi[mine]
        return pi

    def in_frames_of(self, library: str) -> Policy:
        """The same policy, whose `to_frame` is of this library."""
        return replace(self, labels=replace(self.labels, library=library)) if library else self

    def to_frame(self) -> Any:
        """One row a pair: a table of the library that the log came from as a frame (polars in,
        polars out), else a pandas frame, a polars frame, an Arrow table, or a dict of columns, by
        what is installed.
        """
        rows = [(*state, action, *numbers) for state, action, numbers in self._rows()]
        return framed(self.header, rows, self.labels.library)

    def save(self, path: str | Path) -> Path:
        """Write it as a policy file, which `surefoot.load_policy` and `--baseline` read."""
        return write_whole(path, "".join(self.as_csv()))

    def as_csv(self) -> Iterator[str]:
        """The text of its file, piece by piece; labels as text."""
        return quoted_csv(
            self.header, ((*map(str, x), as_text(a), *rest) for x, a, rest in self._rows())
        )

    @property
    def header(self) -> tuple[str, ...]:
        """The columns of its file: those of the state, the action, and numbers."""
        given = (self.labels, self.pi, self.baseline, self.count)
        there = (x for x, y in zip(POLICY_COLUMNS, given, strict=True) if y is not None)
        return (*self.labels.headers, *there)

    def _rows(self) -> Iterator[tuple[tuple[Any, ...], Any, tuple[float, ...]]]:
        """(the fields of the state, the action, the numbers) of every pair that is likely under
        the policy or the baseline, or was seen.
        """
        given = [x for x in (self.pi, self.baseline, self.count) if x is not None]
        for s, a in np.argwhere(np.any([x > 0 for x in given], axis=0)):
            numbers = [float(x[s, a]) for x in given]
            if self.count is not None:
                numbers[-1] = int(numbers[-1])
            yield _fields(self.labels.states[s]), self.labels.actions[a], tuple(numbers)
        for label, action, p in self.elsewhere:
            more = (p,) if self.baseline is not None else ()
            yield _fields(label), action, (p, *more, *((0,) if self.count is not None else ()))


def framed(header: Sequence[str], rows: Sequence[Sequence[Any]], library: str = "") -> Any:
    """A table of this library, else a pandas or polars frame, or an Arrow table, whichever is
    installed; else columns by name.
    """
    found = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    tables = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}
    for name in dict.fromkeys((library, *tables)):
        if name not in tables:
            continue
        try:
            return getattr(import_module(name), tables[name])(found)
        except ImportError:
            continue
    return found


def quoted_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """A CSV file piece by piece; every text is quoted and made safe for spreadsheets (`as_cell`),
    so that a label is always data.
    """
    text = io.StringIO()
    names = (
        name if name.replace("_", "").isalnum() else '"' + name.replace('"', '""') + '"'
        for name in header
    )
    text.write(",".join(names) + "\n")
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    for i, row in enumerate(rows):
        writer.writerow([as_cell(x) if isinstance(x, str) else x for x in row])
        if i % 10_000 == 9_999:
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()


def _fields(label: Any) -> tuple[Any, ...]:
    return label if isinstance(label, tuple) else (label,)


class Frame(Protocol):
    """A frame or table of any library that gives its columns through the Arrow interface, such as
    polars, pandas and pyarrow.
    """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A stream of its rows."""


@dataclass(frozen=True)
class Status:
    """For each problem: whether its iteration `converged`, and after how many `steps`."""

    converged: Array
    steps: Array

    @property
    def ok(self) -> bool:
        """Whether every problem of the batch converged."""
        return bool(to_numpy(self.converged).all())

    def __repr__(self) -> str:
        converged, steps = to_numpy(self.converged), to_numpy(self.steps)
        if converged.size == 1:
            word = "converged" if converged.all() else "NOT CONVERGED"
            return f"<{word} after {int(steps.max())} steps>"
        failed = int((~converged).sum())
        word = f"NOT CONVERGED: {failed} of {converged.size} problems"
        least, most = (steps.min(), steps.max()) if steps.size else (0, 0)
        return f"<{word if failed else 'all converged'}; {least} to {most} steps>"


@dataclass(frozen=True, repr=False)
class Solution(Shown):
    """A policy pi [..., S, A], the action values q [..., S, A] it was chosen by, the status, and
    what a user must know (`notes`); `policy` has the labels too.

    q are the values the algorithm worked with: of pi in the estimated model, penalised where the
    algorithm penalises. They are not a promise about the true MDP.
    """

    pi: Array
    q: Array
    status: Status
    algorithm: Any = field(default=None, kw_only=True)
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    labelled: Policy | None = field(default=None, kw_only=True, repr=False)

    def _facts(self) -> dict[str, Any]:
        return {
            "algorithm": self.algorithm,
            "pi": f"of shape {tuple(self.pi.shape)}",
            "status": self.status,
            "notes": self.notes,
        }

    def _table(self) -> tuple[Sequence[str], Sequence[Sequence[Any]], int] | None:
        return None if self.labelled is None else self.labelled._table()

    @property
    def labels(self) -> Labels:
        """What the codes of pi stand for; of arrays the codes themselves, none of a batch."""
        return Labels() if self.labelled is None else self.labelled.labels

    @property
    def policy(self) -> Policy:
        """pi with its labels, the baseline and the counts; not of a batch."""
        if self.labelled is None:
            raise PolicyError(
                "a batch of problems has no one policy: solve the problem alone with"
                " surefoot.improve, or use pi"
            )
        return self.labelled

    def to_frame(self) -> Any:
        """The policy as a table; see `Policy.to_frame`."""
        return self.policy.to_frame()

    def save(self, path: str | Path) -> Path:
        """Write the policy to a file; see `Policy.save`."""
        return self.policy.save(path)


FilePath = str | PathLike[str]
# rows of a log: files, a folder, a pattern; a frame; columns by name
RowsLike = FilePath | Sequence[FilePath] | Mapping[str, ArrayLike] | Frame
# what has labels: itself, a file, a frame, {state: {action: probability}}
LabelledPolicy = Policy | Solution | FilePath | Mapping[Any, Mapping[Any, float]] | Frame
# and {action: probability} of the label of a state; an array [S, A] by position
PolicyLike = LabelledPolicy | Callable[[Any], Mapping[Any, float] | ArrayLike] | ArrayLike
# what an algorithm is told by name
Settings = Mapping[str, float | str | None]
