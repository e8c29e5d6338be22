"""The safety test with guards and groups: better in the reward, and worse in none of its parts.

It passes if the gain is shown to be above 0 and every part to be worse by no more than its
tolerance: an intersection-union test, each of its tests at delta / 2 (`surefoot.advice.gates` has
the proof). It fails if the policy is shown to be worse, or any part worse by more than its
tolerance: one of several statements, so each has delta / 2 divided by their number (Bonferroni). A
wrong verdict has probability at most delta.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefoot.advice.gates import GROUP, GUARD, check_group_tolerance, check_several
from surefoot.advice.safety import FAILS, NO_EVIDENCE, PASSES, SafetyTest, Sample, safety_test
from surefoot.core.labels import as_text
from surefoot.errors import ParameterError, SurefootError
from surefoot.ope import Standard
from surefoot.ope.episodes import take_episodes
from surefoot.problems.guards import Guard

ALIKE = "the baseline treats all groups alike, given the state"


@dataclass(frozen=True, repr=False, kw_only=True)
class SafetyPart:
    """What the tested episodes show about one guarded column, or one group, turned so that more is
    better: `low` at delta / 2, `high` at delta / 2 over the number of statements; NaN where
    nothing could be tested, and `trouble` says why.
    """

    kind: str
    name: str
    tolerance: float
    episodes: int
    direction: str = "higher"
    estimate: float = math.nan
    low: float = math.nan
    high: float = math.nan
    condition: str = ""
    trouble: str = ""

    @property
    def holds(self) -> bool:
        """Whether it is shown to be no worse than by the tolerance."""
        return self.tolerance == math.inf or self.low >= -self.tolerance

    @property
    def worse(self) -> bool:
        """Whether it is shown to be worse by more than the tolerance."""
        return self.high < -self.tolerance


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
) -> tuple[SafetyTest, tuple[SafetyPart, ...]]:
    """(the test of the policy, that of its parts); its verdict is that of all of them."""
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
        part = SafetyPart(
            kind=GUARD, name=guard.column, tolerance=guard.tolerance, direction=guard.direction,
            episodes=held_out.batch.n_episodes,
        )  # fmt: skip
        first, second = (_of_column(x, guard) for x in (training, held_out))
        assert second is not None
        own = _standard(standard, guard, held_out)
        parts.append(_tested(part, first, second, gamma, own, given))
    seen = standard.having_seen(held_out.batch.reward)  # by all groups
    for code, label in enumerate(asked.groups):
        first, second = (_of_group(x, code) for x in (training, held_out))
        part = SafetyPart(
            kind=GROUP, name=as_text(label), tolerance=asked.group_tolerance,
            episodes=0 if second is None else second.batch.n_episodes,
        )  # fmt: skip
        parts.append(_tested(part, first, second, gamma, seen, given))
    return _judged(whole, parts, accept_observed), tuple(parts)


def _tested(
    part: SafetyPart,
    training: Sample | None,
    held_out: Sample | None,
    gamma: float,
    standard: Standard,
    given: Mapping[str, Any],
) -> SafetyPart:
    """The part with its bounds; what cannot be tested says why."""
    if held_out is None or part.episodes < 2:
        return replace(part, trouble=f"{part.episodes} of the tested episodes tell about it")
    try:
        found = safety_test(training, held_out, gamma, standard, **given)
    except SurefootError as error:
        return replace(part, trouble=str(error))
    return replace(
        part,
        estimate=found.estimate,
        low=found.gain.bound.value,
        high=-found.loss.bound.value,
        condition="" if found.gain.values.declared else _observed(part, found, held_out, standard),
    )


def _observed(part: SafetyPart, found: SafetyTest, sample: Sample, standard: Standard) -> str:
    """What a bound assumes that nobody declared; groups assume what the whole does."""
    if part.kind == GROUP:
        return ""
    low, high = standard.observed(sample.batch.reward)
    low, high = (-high, -low) if part.direction == "lower" else (low, high)
    return f"no {part.name} below {low:g} or above {high:g} exists"


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


def _judged(whole: SafetyTest, parts: Sequence[SafetyPart], accept_observed: bool) -> SafetyTest:
    """The test with the verdict of all statements."""
    verdict = whole.verdict
    if verdict == PASSES and not all(part.holds for part in parts):
        verdict = NO_EVIDENCE
    if any(part.worse for part in parts):
        verdict = FAILS
    observed = [] if accept_observed else [part.condition for part in parts]
    condition = "; ".join(dict.fromkeys(x for x in (whole.condition, *observed) if x))
    assumed = tuple(
        f"{part.condition}: these were observed, nobody declared them (--guard"
        f" {part.name}:{part.direction}:{part.tolerance:g}:LOW,HIGH)"
        for part in parts
        if part.condition
    )
    if any(part.kind == GROUP for part in parts):
        assumed += (ALIKE,)
    return replace(
        whole, verdict=verdict, condition=condition, assumptions=(*whole.assumptions, *assumed)
    )


def part_summary(part: SafetyPart) -> dict[str, Any]:
    """A part as data for machines, in the unit of its column."""
    turned = part.direction == "lower"
    low, high = (-part.high, -part.low) if turned else (part.low, part.high)
    words = "worse" if part.worse else "no worse" if part.holds else "not shown"
    return {
        "name": part.name,
        "better": part.direction,
        "tolerance": part.tolerance if part.tolerance < math.inf else None,
        "verdict": "not tested" if part.trouble else words,
        "holds": part.holds,
        "change": -part.estimate if turned else part.estimate,
        "low": low,
        "high": high,
        "episodes_tested": part.episodes,
        "trouble": part.trouble or None,
    }


def parts_summary(parts: Sequence[SafetyPart]) -> dict[str, Any]:
    """`guards` and `groups` of the test."""
    return {
        f"{kind}s": [part_summary(part) for part in parts if part.kind == kind]
        for kind in (GUARD, GROUP)
    }
