"""A roll-out that is watched: by lot, some episodes get the new policy and the others the old one;
do the finished ones show that the new one is better, or worse, or must one go on?

Which episodes count, and in which order, is as in every watch (`surefoot.advice.watching`). What
is kept of each: when it began, its arm, its odds of being of the new arm, and its returns. The
bounds are those of a confidence sequence (`surefoot.statistics.sequences`): right at all looks
together.

"better" takes a difference above 0 and every guard no worse than by its tolerance, each at delta /
2 (intersection-union); "worse" takes any of them worse, each at delta / 2 over their number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from surefoot.advice.answers import Paged
from surefoot.advice.parts import parts_summary
from surefoot.advice.provenance import Fingerprints
from surefoot.advice.safety import NONE_MISSING, of_column, standard_of
from surefoot.advice.verdict import FAILS, PASSES, by_two_sides
from surefoot.advice.watching import (
    Newcomers,
    Settled,
    date_of,
    kept_in,
    newcomers,
    packed,
    settled_of,
    unpacked,
)
from surefoot.core import Batch
from surefoot.core.errors import LogError, ParameterError
from surefoot.core.evidence import BETTER, FINITE_SAMPLE, WORSE, Evidence
from surefoot.core.labels import as_text, match, places_of
from surefoot.evidence.arms import Difference, centred, check_arms, directions, log_odds
from surefoot.evidence.episode_values import Standard, declared_returns
from surefoot.evidence.estimates import episode_returns
from surefoot.evidence.units import take_episodes
from surefoot.logs import Log
from surefoot.problems.guards import Guard
from surefoot.report.rollout_words import rollout_statements
from surefoot.report.statements import text
from surefoot.statistics.sequences import against_shares

SCHEMA = "surefoot/rollout-state/1"
CONTINUE = "continue"
BEGAN, NEW, ODDS, RETURNS = 0, 1, 2, 3  # what is kept of an episode; returns: the whole, guards
ARMS_LEVEL = 1e-3  # of the bet that the arms are not drawn as was said: so many honest logs stop
FEWEST = 20  # episodes below which nothing is foreseen
DRAWN = 60  # points of a curve
DAY = 86_400.0


@dataclass(frozen=True, kw_only=True, repr=False)
class Rollout(Settled):
    """What has been counted; `rows` [episodes, 4 + guards] in the order in which they are bet
    on.
    """

    rows: np.ndarray

    def save(self, path: str | Path) -> Path:
        """Write it as a JSON file."""
        columns = self.rows.shape[1]
        return self.write(path, SCHEMA, columns=columns, counted=packed(self.rows))


def load_rollout(path: str | Path, parameters: Mapping[str, Any], guards: int) -> Rollout:
    """The roll-out in a file, or a new one; raise if it was begun with other parameters."""
    found = kept_in(path, parameters, SCHEMA, _rollout_of)
    none = np.zeros((0, RETURNS + 1 + guards))
    return found or Rollout(parameters=parameters, rows=none)


def _rollout_of(content: Mapping[str, Any]) -> Rollout:
    rows = unpacked(content["counted"], np.dtype(float))
    return Rollout(rows=rows.reshape(-1, int(content["columns"])), **settled_of(content))


@dataclass(frozen=True, kw_only=True)
class Arms:
    """How episodes get their policy.

    new, old   the labels of the two arms
    share      the probability of the new one
    policies   (new, old) [S, A] where both are known
    """

    new: str = "new"
    old: str = "old"
    share: float = 0.5
    policies: tuple[np.ndarray, np.ndarray] | None = None

    def __post_init__(self) -> None:
        number = isinstance(self.share, (int, float)) and not isinstance(self.share, bool)
        if not (number and 0 < self.share < 1):
            raise ParameterError(
                "--share is the probability with which an episode gets the new policy, above 0 and"
                f" below 1; it is {self.share!r}"
            )
        if self.new == self.old:
            raise ParameterError(f"--new and --old name the same arm, {self.new!r}")

    def codes(self, log: Log) -> tuple[int, int]:
        """(new, old) as the rows of a log have them."""
        labels = log.beside["policy"]

        def code(name: str, flag: str) -> int:
            found = match(name, places_of(labels))
            if found is None:
                names = ", ".join(repr(as_text(x)) for x in labels[:8])
                raise LogError(
                    f"no episode is of the arm {name!r} (--{flag}): the column of arms has {names}."
                    " Name the arm with the new policy with --new, that with the old one with --old"
                )
            return found

        return code(self.new, "new"), code(self.old, "old")


@dataclass(frozen=True, repr=False)
class RolledOut(Paged):
    """What a roll-out has shown so far: "better", "worse" or "continue"."""

    command: ClassVar[str] = "watch"
    document: Mapping[str, Any]
    rows: tuple[Evidence, ...] = ()

    @property
    def verdict(self) -> str:
        """ "better", "worse" or "continue"."""
        return str(self.document["verdict"])

    def said(self, document: Mapping[str, Any], *, explain: bool = False) -> str:
        """The look for people."""
        return text(rollout_statements(document), explain=explain)

    def page(self) -> str:
        """The page, with the difference drawn over the episodes."""
        from surefoot.report.log_pages import rollout_page

        return rollout_page(self.document)


def look_at_arms(
    before: Rollout,
    log: Log,
    batch: Batch,
    arms: Arms,
    gamma: float,
    standard: Standard,
    guards: Sequence[Guard] = (),
    trained: Fingerprints | None = None,
) -> tuple[Rollout, tuple[Evidence, ...], dict[str, Any]]:
    """(the roll-out after the episodes that are new, the evidence, what is said of it)."""
    new, aside = _arms_of(log, batch, arms)
    ranges = [declared_returns(batch, gamma, standard, DECLARE)]
    returns = [episode_returns(batch, gamma)]
    for guard in guards:
        column = of_column(batch, guard)
        own, how = (
            standard_of(standard, guard, batch),
            DECLARE_GUARD.format(guard=f"{guard.column}:{guard.direction}:{guard.tolerance:g}"),
        )
        ranges.append(declared_returns(column, gamma, own, how))
        returns.append(episode_returns(column, gamma))
    after, came = newcomers(before, log, batch, standard.horizon, trained, aside)
    if len(came.counted):
        odds = log_odds(batch, arms.share, arms.policies)
        rows = np.column_stack([came.came.began, new, odds, *returns])[came.counted]
        after = replace(after, rows=np.concatenate([after.rows, rows]))
    against = _check_shares(after.rows, arms)
    differences = differences_of(after.rows, ranges, arms)
    found = evidence_of_arms(differences, guards, standard.delta)
    document = {
        **_summary(after, found, differences, arms, standard.delta, came),
        "capital_against_shares": against,
        "episodes_of_others": int(aside.sum()),
    }
    return after, found, document


DECLARE = "declare them with --reward-range, or those of a whole episode with --return-range"
DECLARE_GUARD = "declare the values of a row, as in --guard {guard}:LOW,HIGH"


def _arms_of(log: Log, batch: Batch, arms: Arms) -> tuple[np.ndarray, np.ndarray]:
    """(which episodes are of the new arm, which of neither); raise where one is of several."""
    code, (new, old) = batch.beside["policy"], arms.codes(log)
    mine = code[batch.first]
    mixed = np.flatnonzero(code != mine[batch.episode])
    if len(mixed):
        raise LogError(
            f"row {batch.row[mixed[0]]} is of another arm than the first row of its episode"
            f" ({len(mixed):,} such rows): an episode gets its arm by lot when it begins, and keeps"
            " it; where every row has an arm of its own, --bandit takes each as a decision by"
            " itself"
        )
    aside = (mine != new) & (mine != old)
    if arms.policies is not None:
        own = take_episodes(batch, ~aside)
        is_new = (mine == new)[~aside]
        check_arms(own, is_new, arms.policies, (arms.new, arms.old))
        _check_propensities(own, is_new, arms)
    return mine == new, aside


def _check_propensities(batch: Batch, new: np.ndarray, arms: Arms) -> None:
    """Raise where the log says that other policies acted than those given."""
    assert arms.policies is not None
    for pi, mine, name in zip(arms.policies, (new, ~new), (arms.new, arms.old), strict=True):
        if mine.any() and not take_episodes(batch, mine).made_by(pi):
            raise LogError(
                f"the propensities of {name!r} in the log are not the probabilities of the policy"
                " given for it: give the policy that acted, or neither (--policy, --baseline)"
            )


def _check_shares(rows: np.ndarray, arms: Arms) -> float:
    """The capital of a bet that arms are not drawn as was said; raise where it shows that."""
    new = rows[:, NEW] > 0
    log_capital = against_shares(new, rows[:, ODDS], arms.share)
    if log_capital < math.log(1 / ARMS_LEVEL):
        return math.exp(log_capital)
    n = len(new)
    counted = f"{int(new.sum()):,} of {n:,} episodes are of {arms.new!r}"
    if arms.policies is None:
        raise LogError(
            f"{counted} ({new.mean():.2%}), which --share {arms.share:g} does not explain: say the"
            " share that the lots were drawn with, or find out which episodes are missing; until"
            " then no comparison is fair"
        )
    raise LogError(
        f"{counted}, and which ones does not fit --share {arms.share:g} and the policies given"
        " (--policy, --baseline): one of them did not act so. Give neither, and the arms are"
        " compared as they are"
    )


def differences_of(
    rows: np.ndarray, ranges: Sequence[tuple[float, float]], arms: Arms
) -> tuple[Difference, ...]:
    """Of the whole and of every guard; `rows` as a `Rollout` keeps them."""
    odds = rows[:, ODDS]
    if arms.policies is None:
        odds = np.where(rows[:, NEW] > 0, np.inf, -np.inf)
    u = directions(odds, arms.share)
    return tuple(centred(u, rows[:, RETURNS + i], x, arms.share) for i, x in enumerate(ranges))


def evidence_of_arms(
    differences: Sequence[Difference], guards: Sequence[Guard], delta: float
) -> tuple[Evidence, ...]:
    """A row for the whole and for each guard."""
    blank = [Evidence(), *(Evidence(part=x.part) for x in guards)]
    each = delta / 2 / len(blank)  # of each statement of which any would do
    found = []
    for row, x in zip(blank, differences, strict=True):
        low, high = x.above.at_least(delta / 2), -x.below.at_least(each)
        found.append(
            replace(
                row, estimate=x.estimate, low=low, high=high, together=(math.nan, high),
                delta=delta / 2, units=len(x.x), size=x.width, validity=FINITE_SAMPLE,
            )
        )  # fmt: skip
    return tuple(found)


def verdict_of(rows: Sequence[Evidence]) -> str:
    """BETTER, WORSE or CONTINUE."""
    return {PASSES: BETTER, FAILS: WORSE}.get(by_two_sides(rows), CONTINUE)


def _summary(
    after: Rollout,
    rows: tuple[Evidence, ...],
    differences: tuple[Difference, ...],
    arms: Arms,
    delta: float,
    came: Newcomers,
) -> dict[str, Any]:
    """What a look found, as data for machines."""
    whole, kept, dated = rows[0], after.rows, came.came.dated
    new, returns = kept[:, NEW] > 0, kept[:, RETURNS]
    n, word = len(kept), verdict_of(rows)
    told = came.came.told or not n
    return {
        "verdict": word,
        "delta": delta,
        "delta_of_better": delta / 2,
        "delta_of_worse": delta / 2 / len(rows),
        "share": arms.share,
        "arms": [
            {
                "name": name,
                "episodes": int(mine.sum()),
                "mean_return": float(returns[mine].mean()) if mine.any() else math.nan,
            }
            for name, mine in ((arms.new, new), (arms.old, ~new))
        ],
        "estimated_difference": whole.estimate,
        "difference_at_least": whole.low,
        "difference_at_most": whole.high,
        **parts_summary(rows, safety=True),
        "counts_as": _counts_as(kept, differences[0], arms),
        "decision": None if word != CONTINUE else _decision(differences, rows, kept, delta, dated),
        "path": _path(differences[0], kept, delta / 2, delta / 2 / len(rows), dated),
        "episodes_counted": n,
        **came.found,
        "looks": after.looks,
        "ends_are_told": told,
        "assumptions": list(_assumptions(arms, told)),
        "notes": _notes(rows, differences[0], n),
    }


def _assumptions(arms: Arms, told: bool) -> tuple[str, ...]:
    lots = f"each episode got {arms.new!r} by lot with probability {arms.share:g} when it began"
    acts = "an arm bears on what happens by the actions of its policy alone, and these are known"
    over = "an episode is over where another one follows it in the file, since nothing else says so"
    return (
        lots,
        "no episode bears on another one, and the tested policies stay the same",
        NONE_MISSING,
        *([] if arms.policies is None else [acts]),
        *([] if told else [over]),
        f"the bounds are {FINITE_SAMPLE}, and hold at all looks together",
    )


def _notes(rows: Sequence[Evidence], whole: Difference, n: int) -> list[str]:
    found = []
    if n and not np.any(whole.x):
        found.append(
            "both arms do the same in every episode that was counted: there is nothing to show"
        )
    if rows[0].low > rows[0].high:
        found.append(
            "both were shown: better at one time, worse at another. The difference has changed, or"
            " episodes depend on each other"
        )
    return found


def _counts_as(kept: np.ndarray, whole: Difference, arms: Arms) -> float:
    """How many episodes of plain arms each episode tells as much as; inf: the arms do the same."""
    if arms.policies is None or len(kept) < FEWEST:
        return 1.0 if arms.policies is None else math.nan
    u = directions(np.where(kept[:, NEW] > 0, np.inf, -np.inf), arms.share)
    plain = u * (kept[:, RETURNS] - kept[:, RETURNS].mean())
    spread = float(whole.x.var())
    return float(plain.var()) / spread if spread else math.inf


def _decision(
    differences: Sequence[Difference],
    rows: Sequence[Evidence],
    kept: np.ndarray,
    delta: float,
    dated: bool,
) -> dict[str, Any] | None:
    """How long it will take if what comes is like what came; None: no decision is in sight."""
    if len(kept) < FEWEST:
        return None
    better, worse = 0.0, math.inf
    for x, row in zip(differences, rows, strict=True):
        better = max(better, x.above.more_needed(-row.part.tolerance, delta / 2))
        worse = min(worse, x.below.more_needed(-row.part.tolerance, delta / 2 / len(rows)))
    more = min(better, worse)
    if not math.isfinite(more):
        return None
    span = float(np.ptp(kept[:, BEGAN])) / DAY if dated else 0.0
    return {
        "toward": BETTER if better <= worse else WORSE,
        "episodes": math.ceil(more),
        "days": more / (len(kept) - 1) * span if span else None,
    }


def _path(
    whole: Difference, kept: np.ndarray, better: float, worse: float, dated: bool
) -> list[dict[str, Any]]:
    """The difference and its bounds after so many episodes: what would have been said then."""
    n = len(kept)
    if not n:
        return []
    at = np.unique(np.linspace(1, n, DRAWN).astype(int))
    low, high = whole.above.curve(better, at), -whole.below.curve(worse, at)
    mean = np.cumsum(whole.x)[at - 1] / at
    return [
        {
            "episodes": int(k),
            "estimate": float(x),
            "low": float(a),
            "high": float(b),
            "began": date_of(float(kept[k - 1, BEGAN])) if dated else None,
        }
        for k, x, a, b in zip(at, mean, low, high, strict=True)
    ]
