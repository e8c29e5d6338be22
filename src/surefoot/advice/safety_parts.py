"""The safety test with guards and groups: better in the reward, and worse in none of its parts.

It passes if the gain is shown to be above 0 and every part to be worse by no more than its
tolerance, each at delta / 2. It fails if the policy is shown to be worse, or any part worse by more
than its tolerance: each of these has delta / 2 divided by their number. A wrong verdict has
probability at most delta (`surefoot.advice.verdict`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefoot.advice.gate_words import parts_summary
from surefoot.advice.gates import check_group_tolerance, check_several
from surefoot.advice.safety import Sample, Tested, safety_test
from surefoot.core.errors import ParameterError, SurefootError
from surefoot.core.evidence import GROUP, GUARD, LOWER, Evidence, Part
from surefoot.core.labels import as_text
from surefoot.evidence import Standard
from surefoot.evidence.units import take_episodes
from surefoot.problems.guards import Guard

ALIKE = "the baseline treats all groups alike, given the state"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a policy must not harm: guards; and groups by the labels of their codes."""

    guards: tuple[Guard, ...] = ()
    groups: tuple[Any, ...] = ()
    group_tolerance: float = 0.0

    def __post_init__(self) -> None:
        check_several(self.groups)
        check_group_tolerance(self.group_tolerance)


def guarded_safety_test(
    training: Sample | None,
    held_out: Sample,
    gamma: float,
    standard: Standard,
    asked: Asked,
    *,
    same_codes: bool = True,
    accept_observed: bool = False,
    seed: int = 0,
) -> Tested:
    """The test of the policy and of its parts; its verdict is that of all of them."""
    if asked.groups and training is not None and not same_codes:
        raise ParameterError(
            "groups are tested with bounds that need no other log: leave out --training, or take"
            " --bound betting"
        )
    statements = 1 + len(asked.guards) + len(asked.groups)
    given: dict[str, Any] = {
        "same_codes": same_codes, "accept_observed": accept_observed, "seed": seed,
        "statements": statements,
    }  # fmt: skip
    whole = safety_test(training, held_out, gamma, standard, **given)
    parts = []
    for guard in asked.guards:
        row = Evidence(part=guard.part, units=held_out.batch.n_episodes)
        first, second = (_of_column(x, guard) for x in (training, held_out))
        assert second is not None
        own = _standard(standard, guard, held_out)
        parts.append(_tested(row, first, second, gamma, own, given))
    seen = standard.having_seen(held_out.batch.reward)  # by all groups
    for code, label in enumerate(asked.groups):
        first, second = (_of_group(x, code) for x in (training, held_out))
        group = Part(kind=GROUP, name=as_text(label), tolerance=asked.group_tolerance)
        row = Evidence(part=group, units=0 if second is None else second.batch.n_episodes)
        parts.append(_tested(row, first, second, gamma, seen, given))
    return _with_parts(whole, tuple(parts), accept_observed)


def _tested(
    row: Evidence,
    training: Sample | None,
    held_out: Sample | None,
    gamma: float,
    standard: Standard,
    given: Mapping[str, Any],
) -> Evidence:
    """The row with its bounds; what cannot be tested says why."""
    if held_out is None or row.units < 2:
        return replace(row, trouble=f"{row.units} of the tested episodes tell about it")
    try:
        made = safety_test(training, held_out, gamma, standard, **given)
    except SurefootError as error:
        return replace(row, trouble=str(error))
    (found,), within = made.rows, None
    if row.part.kind == GUARD and found.within is not None:  # groups rest on what all do
        low, high = found.within
        within = (-high, -low) if row.part.direction == LOWER else (low, high)
    return replace(found, part=row.part, units=row.units, within=within)


def _of_column(sample: Sample | None, guard: Guard) -> Sample | None:
    """The sample in which the guarded column, turned so that more is better, is the reward."""
    if sample is None:
        return None
    column = guard.sign * sample.batch.beside[guard.place].astype(float)
    return replace(sample, batch=replace(sample.batch, reward=column))


def _standard(standard: Standard, guard: Guard, sample: Sample) -> Standard:
    """The standard for a guarded column: its own range, or that of the reward if it is the same."""
    batch = sample.batch
    column, declared, returns, sign = batch.beside[guard.place], guard.declared, None, guard.sign
    for same in (1.0, -1.0) if declared is None else ():  # the reward may be minus the column
        if np.array_equal(same * column, batch.reward):
            declared, returns, sign = standard.reward_range, standard.return_range, same * sign
            break
    if sign < 0:
        declared, returns = (None if x is None else (-x[1], -x[0]) for x in (declared, returns))
    return replace(standard, reward_range=declared, return_range=returns, seen=None)


def _of_group(sample: Sample | None, code: int) -> Sample | None:
    """The episodes of a group; None where there are none."""
    if sample is None:
        return None
    mine = sample.batch.beside["group"][sample.batch.first] == code
    return replace(sample, batch=take_episodes(sample.batch, mine)) if mine.any() else None


def _with_parts(whole: Tested, parts: tuple[Evidence, ...], accept_observed: bool) -> Tested:
    """The test with its parts; what nobody declared is its condition."""
    rests = {
        x.part: f"no {x.part.name} below {x.within[0]:g} or above {x.within[1]:g} exists"
        for x in parts
        if x.within is not None
    }
    observed = () if accept_observed else rests.values()
    conditions = (whole.document["condition"], *observed)
    assumed = tuple(
        f"{words}: these were observed, nobody declared them (--guard"
        f" {part.name}:{part.direction}:{part.tolerance:g}:LOW,HIGH)"
        for part, words in rests.items()
    )
    if any(x.part.kind == GROUP for x in parts):
        assumed += (ALIKE,)
    document = {
        **whole.document,
        "condition": "; ".join(dict.fromkeys(x for x in conditions if x)),
        "assumptions": [*whole.document["assumptions"], *assumed],
        **parts_summary(parts, safety=True),
    }
    return Tested(document, (*whole.rows, *parts))
