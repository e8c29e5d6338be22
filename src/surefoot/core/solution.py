"""What an algorithm returns: a policy, its values, and whether it converged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import ArrayLike

from surefoot.core.arrays import Array, to_numpy
from surefoot.core.errors import PolicyError
from surefoot.core.labels import Labels
from surefoot.core.plain_values import Shown
from surefoot.core.policy import Policy


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
