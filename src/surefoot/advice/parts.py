"""Parts: what the held-out half shows about guarded columns and about groups of episodes, as rows
and as data for machines. A policy is supported only if none of them is worse:
`surefoot.advice.verdict` has the rule and its proof.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefoot.advice.gain import FEWEST_UNITS, Gain, explained_by, weighed_rows
from surefoot.core import Batch
from surefoot.core.errors import LogError, NotAvailableError, ParameterError, SurefootError
from surefoot.core.evidence import GROUP, GUARD, Evidence, Part
from surefoot.core.labels import as_text
from surefoot.evidence import Standard
from surefoot.evidence.circumstances import circumstances_of
from surefoot.evidence.confounding import Sensitivity, sensitivity
from surefoot.evidence.episode_values import GAIN, LOSS, episode_values
from surefoot.evidence.estimates import EpisodeValues
from surefoot.evidence.gain_test import bound_of
from surefoot.evidence.known_policies import known_policies
from surefoot.evidence.unit_estimate import DELTA
from surefoot.evidence.unit_model import model_of_units
from surefoot.evidence.units import ENTRY_COLUMNS, START_COLUMNS, Units, take_episodes, take_rows
from surefoot.logs import Log
from surefoot.problems import Problem
from surefoot.problems.guards import guard_problem, rows_with

HOLDS, TOO_SMALL, NOT_SHOWN, NOT_TESTED = "no worse", "too small", "not shown", "not tested"


def parts_of(
    log: Log,
    problem: Problem,
    units: Units,
    gain: Gain,
    pi_b: np.ndarray,
    group_tolerance: float = 0.0,
) -> tuple[Evidence, ...]:
    """What the held-out half shows about the guards of a log, then its groups; () where it has
    none.

    A test that needs the Markov property is not done where the gain has none either.
    """
    groups = _groups(log, problem, group_tolerance)
    if not (problem.guards or groups):
        return ()
    batch = rows_with(problem, "guards and groups")
    if len(units.unit) != len(batch):
        raise NotAvailableError("guards and groups need the rows of the log, not counts of parts")
    found = []
    for guard in problem.guards:
        other = guard_problem(problem, guard)
        assert other.log is not None
        low, high = other.reward_range
        seen = (low, high) if guard.sign > 0 else (-high + 0.0, -low + 0.0)
        within = seen if guard.declared is None else None
        row = Evidence(part=guard.part, unit=gain.evidence.unit, within=within)
        column = replace(units, r=other.log.reward)
        found.append(_tested(row, other, column, column, gain, pi_b, len(problem.guards)))
    for group in groups:
        row = Evidence(part=group.part, unit=gain.evidence.unit)
        part, own = group.alone(problem, units, batch)
        found.append(_tested(row, part, own, units, gain, pi_b, len(groups)))
    return tuple(found)


def hidden_causes_of_groups(
    log: Log, problem: Problem, units: Units, pi: np.ndarray, pi_b: np.ndarray, chosen: np.ndarray
) -> dict[str, Sensitivity]:
    """How strong a hidden cause would have to be to explain away what each group gains, of those
    with enough of the chosen units.
    """
    found = {}
    for group in _groups(log, problem, 0.0):
        part, own = group.alone(problem, units, rows_with(problem, "groups"))
        mine = chosen & (np.bincount(own.unit, minlength=own.number) > 0)
        if mine.sum() >= FEWEST_UNITS:
            found[group.part.name] = sensitivity(part, own, pi, chosen=mine, pi_b=pi_b)
    return found


def check_parts(log: Log, problem: Problem) -> None:
    """Raise where a log's guards and groups cannot be looked after."""
    _groups(log, problem, 0.0)
    held = () if problem.log is None else [x for x in problem.log.beside if x == "g0"]
    if len(held) and not problem.guards:
        raise ParameterError(
            "the log was read with guarded columns, and the problem has no guards: say which way is"
            ' better, with_guards(problem, ["cost:lower"])'
        )


def _groups(log: Log, problem: Problem, tolerance: float) -> list[Group]:
    """The groups of a log whose rows are in memory; [] where it has none."""
    if log.groups:
        rows_with(problem, "groups")
    return groups_of(log.groups, tolerance)


@dataclass(frozen=True)
class Group:
    """A group: what a Batch calls its grouping, its code there, and what a row of evidence says
    that it is about.
    """

    grouping: str
    code: int
    part: Part

    def rows(self, batch: Batch) -> np.ndarray:
        """Which rows are of this group."""
        return np.asarray(batch.beside[self.grouping] == self.code)

    def alone(self, problem: Problem, units: Units, batch: Batch) -> tuple[Problem, Units]:
        """The problem and the units of its rows alone."""
        mine = self.rows(batch)
        part = replace(problem, guards=(), log=take_rows(batch, mine))
        return part, rows_of_units(units, batch, mine)


def groups_of(groupings: Mapping[str, Sequence[Any]], tolerance: float = 0.0) -> list[Group]:
    """The groups of all groupings of a log (`Log.groups`); raise where a grouping has only one, or
    the loss that is allowed is none. Of several groupings a name says which: "sex: f".
    """
    found = []
    for grouping, labels in groupings.items():
        title = grouping.removeprefix(GROUP).removeprefix(": ")
        names = [f"{title}: {as_text(x)}" if title else as_text(x) for x in labels]
        if len(names) == 1:
            raise LogError(
                f"every episode belongs to the group {names[0]!r}: there are no groups to tell"
                " apart; leave --group out, or name another column"
            )
        for code, name in enumerate(names):
            found.append(Group(grouping, code, Part(kind=GROUP, name=name, tolerance=tolerance)))
    if not 0 <= tolerance <= math.inf:
        raise ParameterError(
            "the tolerance of groups is a loss that would not matter, a number >= 0 or inf; it is"
            f" {tolerance:g}"
        )
    return found


def rows_of_units(units: Units, batch: Batch, mine: np.ndarray) -> Units:
    """The units with these rows of a log alone; units keep their numbers."""
    entries = {name: getattr(units, name)[mine] for name in ENTRY_COLUMNS}
    first = mine[batch.first]
    entries |= {name: getattr(units, name)[first] for name in START_COLUMNS}
    return replace(units, **entries, turn=None if units.turn is None else units.turn[first])


def _tested(
    row: Evidence,
    problem: Problem,
    units: Units,
    known: Units,
    gain: Gain,
    pi_b: np.ndarray,
    number: int,
) -> Evidence:
    """The row with what the held-out units show, by the test that the gain had; `known` units say
    what may happen; `number` parts of this kind are told at once.
    """
    assert gain.held_out is not None
    held_out = gain.held_out & (np.bincount(units.unit, minlength=units.number) > 0)
    n = int(held_out.sum())
    few = f"{n:,} held-out {row.unit} tell about it, at least {FEWEST_UNITS} are needed"
    small = f"is too small to say anything: {few}" if n < FEWEST_UNITS else ""
    trouble, test = small or "could not be tested", gain.evidence.validity
    row = replace(row, units=n, episodes=units.episodes(held_out), trouble=trouble, validity=test)
    if not gain.evidence.tested:
        return row
    if gain.weighed:
        return _weighed(row, problem, units, held_out, gain, pi_b, number)
    if small:
        return row
    model = model_of_units(problem, units, held_out, pi_b, known)
    plain = model.compare(gain.pi, against=gain.over)
    strict = plain.strict
    visits = model.n_sa.sum(axis=1, keepdims=True)
    moved = np.abs(gain.pi - np.asarray(problem.pi_b)) * visits
    total = float(moved.sum())
    v = max(float(np.abs(plain.v).max()), float(np.abs(plain.v_policy).max()))
    return replace(
        row,
        trouble="",
        estimate=plain.gain.value,
        low=strict.gain.interval()[0],
        high=plain.gain.interval()[1],
        together=(
            strict.gain.interval(DELTA / number)[0],
            plain.gain.interval(DELTA / number)[1],
        ),
        unseen=strict.gain.loss.change + plain.gain.value - strict.gain.value,
        explained=explained_by(circumstances_of(problem, units, plain), held_out, plain),
        checked=float((moved * model.often).sum()) / total if total > 0 else 1.0,
        size=v,
    )


def _weighed(
    row: Evidence,
    problem: Problem,
    units: Units,
    held_out: np.ndarray,
    gain: Gain,
    pi_b: np.ndarray,
    number: int,
) -> Evidence:
    """The row by weighted episodes; a bound that there is not stays NaN."""
    log, base = weighed_rows(problem.log, pi_b, gain.over)
    assert log is not None and gain.held_out is not None
    mine = held_out[units.unit[log.first]]
    part = take_episodes(log, mine)
    turn = None if units.turn is None else units.turn[mine]
    known = known_policies(take_episodes(log, ~gain.held_out[units.unit[log.first]]))
    standard = Standard(
        delta=DELTA, reward_range=problem.reward_range, horizon=gain.longest, known=known
    )

    def bound(found: EpisodeValues, delta: float) -> float:
        return bound_of(found, replace(standard, delta=delta), turn=turn).low

    try:
        values, lost = (
            episode_values(part, gain.pi, base, problem.gamma, standard, quantity=x)
            for x in (GAIN, LOSS)
        )
        model = model_of_units(problem, units, held_out, pi_b)
        compared = model.compare(gain.pi, against=gain.over)
        around = circumstances_of(problem, units, compared)
        low, loss = bound(values, DELTA), bound(lost, DELTA)
        low_of_all, loss_of_all = bound(values, DELTA / number), bound(lost, DELTA / number)
    except SurefootError:  # weights or ranges that this test cannot use
        return row
    return replace(
        row, trouble="", units=part.n_episodes, episodes=part.n_episodes,
        estimate=values.estimate, low=low, high=-loss,
        together=(low_of_all, -loss_of_all), size=float(np.abs(values.x).max()),
        explained=explained_by(around, held_out, compared),
        weights=(("episodes", part.n_episodes), *values.weighing.items()),
    )  # fmt: skip


def parts_summary(rows: Sequence[Evidence], *, safety: bool = False) -> dict[str, Any]:
    """`guards` and `groups`; those of a safety test may be worse, and hold within what was seen."""
    return {
        f"{kind}s": [_summary(x, safety) for x in rows if x.part.kind == kind]
        for kind in (GUARD, GROUP)
    }


def _summary(row: Evidence, safety: bool) -> dict[str, Any]:
    """A row in the unit of its column: `low` <= `change` <= `high`."""
    part, turned = row.part, row.in_unit_of_column
    holds = row.holds_within if safety else row.holds
    word = HOLDS if holds else NOT_SHOWN
    if not row.tested:
        word = TOO_SMALL if not safety and row.units < FEWEST_UNITS else NOT_TESTED
    elif safety and row.worse:
        word = "worse"
    found = {
        "name": part.name,
        "better": part.direction,
        "tolerance": part.tolerance if part.tolerance < math.inf else None,
        "verdict": word,
        "holds": holds,
        "change": turned.estimate,
        "low": turned.low,
        "high": turned.high,
    }
    if safety:
        return found | {"episodes_tested": row.units, "trouble": row.trouble or None}
    return found | {
        "range_seen": None if row.within is None else list(row.within),
        "shown": row.shown or None,
        "low_of_all": turned.together[0],
        "high_of_all": turned.together[1],
        "delta": row.delta,
        "unseen_could_cost": row.unseen,
        "explained_by_time_and_past": row.explained,
        "units_tested": row.units,
        "unit": row.unit,
        "episodes_tested": row.episodes,
        "share_checked": row.checked,
        "weights": dict(row.weights) or None,
    }
