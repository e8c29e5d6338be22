"""What more of the reward means: its column, and which direction is better."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.core.array_checks import pair_of_numbers
from surefoot.core.evidence import HIGHER, LOWER

RANGES = ("reward_range", "return_range")
# words of a name that say harm: more of it is rarely better
HARM = frozenset(
    (
        "abandoned", "accident", "accidents", "adverse", "bounced", "churn", "churned",
        "complaint", "complaints", "complication", "complications", "cost", "costs", "crash",
        "crashes", "damage", "damages", "dead", "death", "deaths", "defaulted", "defect",
        "defects", "delay", "delays", "died", "dies", "downtime", "dropout", "error", "errors",
        "expense", "expenses", "fail", "failed", "fails", "failure", "failures", "fatal",
        "fatalities", "fatality", "fault", "faults", "fraud", "harm", "harmed", "harms",
        "incident", "incidents", "infected", "infection", "infections", "injured", "injuries",
        "injury", "loss", "losses", "lost", "mistake", "mistakes", "mortality", "outage",
        "outages", "penalties", "penalty", "readmission", "readmissions", "readmitted",
        "regret", "reject", "rejected", "relapse", "relapsed", "risk", "scrap", "sepsis",
        "waste",
    )
)  # fmt: skip
# beside these words it is no harm that a name speaks of
TURNED = frozenset(
    (
        "avoided", "free", "inverse", "inverted", "minus", "neg", "negated", "negative", "no",
        "non", "not", "prevented", "reduced", "reduction", "saved", "saving", "savings",
        "without",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Reward:
    """The column of the reward and its direction: "higher" or "lower" is better; "" where nobody
    said it, which is taken as "higher". Where lower is better, the reward is minus the column.
    """

    column: str
    direction: str = ""

    @property
    def sign(self) -> float:
        """1, or -1 where lower is better: times this, more is better."""
        return -1.0 if self.direction == LOWER else 1.0

    @property
    def names_harm(self) -> bool:
        """Whether the name of the column says harm, and nobody said which direction is better."""
        found = {x.lower() for x in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", self.column)}
        return not self.direction and bool(found & HARM) and not found & TURNED

    def range(self, name: str, declared: Any) -> tuple[float, float] | None:
        """A range that was declared of the column, as one of the reward."""
        if declared is None:
            return None
        low, high = pair_of_numbers(name, declared)
        return (low, high) if self.sign > 0 else (0.0 - high, 0.0 - low)

    def declared(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What was declared of the column, as what holds for the reward."""
        found = dict(given)
        if self.sign < 0:
            found |= {x: self.range(x, given[x]) for x in RANGES if x in given}
            if given.get("reward_table") is not None:
                found["reward_table"] = 0.0 - np.asarray(given["reward_table"], dtype=float)
        return found

    def summary(self, mean: float, episodes: int | None, rows: int) -> dict[str, Any]:
        """Its direction and its mean, in the units of the column, for machines; and the sentence
        for people.
        """
        mean = self.sign * mean
        each = mean * rows / episodes if episodes is not None and 1 < episodes < rows else None
        words = f"{'less' if self.sign < 0 else 'more'} {self.column} is better; its mean is"
        words += f" {mean:.4g}" + (f" a row, {each:.4g} an episode" if each is not None else "")
        words += f" (the reward below is minus {self.column})" * (self.sign < 0)
        return {
            "column": self.column,
            "direction": self.direction or HIGHER,
            "direction_given": bool(self.direction),
            "mean": mean,
            "mean_an_episode": each,
            "sentence": words,
        }
