"""Actions made of a number, such as a dose: ranges of it, and the dose that stands for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.core.errors import LogError, ParameterError, option
from surefoot.serving.encoders import QuantileEncoder, fit_quantiles

FEWEST, MOST = 2, 50  # bins of actions


@dataclass(frozen=True)
class ActionBins:
    """The bins of a column of numbers: `labels`, and the median dose of the log in each.

    `encoder` makes the bins; None where the column has few values, each of which is an action.
    """

    column: str
    labels: tuple[str, ...]
    medians: tuple[float, ...]
    encoder: QuantileEncoder | None

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.medians) or not np.isfinite(self.medians).all():
            raise ParameterError("every bin of actions has a label, and a finite median dose")

    def label_of(self, dose: Any) -> str | None:
        """The bin that a dose falls into; None where it is no number."""
        try:
            x = float(dose)
        except (TypeError, ValueError):
            return None
        if self.encoder is not None and np.isfinite(x):
            return self.labels[int(self.encoder.encode(np.array([[x]]))[0])]
        return self.labels[self.medians.index(x)] if x in self.medians else None

    def to_dict(self) -> dict[str, Any]:
        """As the summary of an improvement holds it."""
        return {
            "column": self.column,
            "doses": dict(zip(self.labels, self.medians, strict=True)),
            "ranges": self.encoder is not None,
        }


def check_action_bins(bins: Any) -> None:
    """Raise unless it is a number of bins."""
    name = option("action_bins")
    if isinstance(bins, bool) or not isinstance(bins, int) or not FEWEST <= bins <= MOST:
        raise ParameterError(
            f"{name} is how many ranges of doses are told apart, a whole number in"
            f" {FEWEST}..{MOST}, got {bins!r}"
        )


def bins_of_actions(
    column: str, dose: np.ndarray, learning: np.ndarray, bins: int
) -> tuple[ActionBins, np.ndarray]:
    """(bins of about equal numbers of the `learning` rows, the bin of every row). A column with no
    more values than bins keeps these. The doses that stand for the bins are medians of all rows:
    of an even number of them the lower, so that each was given.
    """
    if not np.isfinite(dose).all():
        lost = np.flatnonzero(~np.isfinite(dose))
        raise LogError(
            f"{option('action_bins')} takes an action that is a number in every row: {column!r} is"
            f" empty or no finite number in row {lost[0] + 1} ({len(lost):,} such rows of"
            f" {len(dose):,}). Correct these rows, or leave {option('action_bins')} out"
        )
    values = np.unique(dose)
    if len(values) < 2:
        raise LogError(
            f"the action {column!r} is {values[0]:g} in every row: the log never tried another"
        )
    if len(values) <= bins:
        labels = tuple(str(int(x)) if x == int(x) else repr(float(x)) for x in values)
        medians = tuple(map(float, values))
        return ActionBins(column, labels, medians, None), np.searchsorted(values, dose)
    encoder = fit_quantiles((column,), dose[learning][:, None], bins)
    code = encoder.encode(dose[:, None])
    medians = tuple(
        float(np.quantile(dose[code == i], 0.5, method="lower")) for i in range(encoder.bins[0])
    )
    return ActionBins(column, encoder.labels, medians, encoder), code
