"""Tests of whole episodes that a policy was not made from: `safety_test`, done once, and `watch`,
which may be repeated as a log grows. The commands call these, with the same words and defaults.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Unpack

import numpy as np

from surefoot.advice.answers import Answer
from surefoot.advice.estimated_test import estimated_test
from surefoot.advice.parts import groups_of
from surefoot.advice.posing import (
    Posed,
    Question,
    as_said,
    check_tolerance,
    in_words,
    not_default,
    policy_over,
    pose,
    several,
    typed,
)
from surefoot.advice.provenance import fingerprints, own_log, refuse_own_log, trained_on
from surefoot.advice.rollout import Arms, RolledOut, Rollout, load_rollout, look_at_arms
from surefoot.advice.safety import (
    Sample,
    Tested,
    compared_with,
    guarded_safety_test,
    rows_of,
    weighs_both,
    whole_sample,
    without_training,
)
from surefoot.advice.summary import log_summary
from surefoot.advice.watching import (
    Watch,
    alone,
    file_digest,
    kept_looks,
    load_watch,
    look,
    watch_summary,
)
from surefoot.checks.finding import doubt
from surefoot.checks.propensities import propensities
from surefoot.core import Policy
from surefoot.core.array_checks import LARGEST, is_table
from surefoot.core.atomic import file_hash
from surefoot.core.errors import (
    BaselineError,
    LogError,
    NotAvailableError,
    ParameterError,
    PolicyError,
    option,
)
from surefoot.core.labels import as_text
from surefoot.evidence import Standard
from surefoot.evidence.centring import largest_ratio
from surefoot.evidence.value_on_log import check_allowed
from surefoot.logs import Log, load_policy
from surefoot.logs.database import Progress
from surefoot.problems.guards import guards_of, rows_with
from surefoot.report.policy_words import watch_statements
from surefoot.report.statements import text
from surefoot.statistics.bounds import check_delta

KNOWN_SHARE = 0.1  # of the single decisions of several policies, that show what these are
ANY_RETURN = (-LARGEST, LARGEST)
NEW, OLD, HALF = "new", "old", 0.5  # what the arms of a roll-out are called, unless it is said
TEST_DEFAULTS = {"delta": 0.05, "estimator": "pdis", "new": NEW, "old": OLD, "share": HALF}
FILES = ("baseline", "allowed", "forbidden")  # keywords that name files: their content counts
FOR_PEOPLE = ("unit",)  # words of a watch that may change from look to look
# What a watch keeps from look to look. What other questions have learned since is refused, not
# passed over.
KEPT = frozenset(
    (
        "episode", "time", "state", "action", "reward", "next_state", "terminal", "truncated",
        "terminal_states", "episode_end", "order", "terminal_to_end", "actions", "drop_bad_rows",
        "missing_reward", "decimal", "delimiter", "encoding", "date_format", "values", "unit",
        "gamma", "reward_range", "return_range", "horizon", "propensity", "delta", "estimator",
        "exploration", *FILES,
    )
)  # fmt: skip
WATCH_NEEDS = (
    "a watch weighs episodes by the policy that made them, and none was given (--baseline). One"
    " that is estimated from the log is another one at every look, so nothing would hold at all of"
    " them together. Do one of three: give the policy that makes the log; let some episodes get the"
    " new policy by lot and watch both arms, which takes no baseline (--policy-column); or test"
    " once, when the log is complete (surefoot safety-test --estimated-baseline)"
)
OF_ARMS = frozenset(("policy_column", "bandit", "guard"))  # of a roll-out besides
OF_WEIGHTS = frozenset(("allowed", "forbidden"))  # and what it does not ask


def pose_episodes(source: Any, **how: Unpack[Question]) -> Posed:
    """The log with its baseline, which must be able to have made it.

    `return_range` is about whole episodes here; the problem's own, from every state on, is set as
    wide as possible.
    """
    how["return_range"] = ANY_RETURN
    posed = pose(source, **how)
    if posed.log.has_propensities and (found := propensities(posed.log)).vetoes:
        raise LogError(f"{posed.source}: {found.sentence}")
    if doubt(posed.disagreement):
        raise BaselineError(
            f"{posed.source}: {doubt(posed.disagreement)}; weights by another mean nothing"
        )
    return posed


def _standard(posed: Posed, how: Mapping[str, Any], **given: Any) -> Standard:
    """What a test asks for; ranges are declared in the units of the column."""
    ranges: dict[str, Any] = {
        name: posed.log.reward.range(name, how.get(name))
        for name in ("reward_range", "return_range")
    }
    return Standard(**ranges, **given)


def safety_test(
    source: Any,
    policy: Any,
    *,
    training: Any = None,
    horizon: int | None = None,
    delta: float = 0.05,
    bound: str = "betting",
    estimator: str = "pdis",
    share: float = 0.2,
    observed_range: bool = False,
    estimated_baseline: bool = False,
    group_tolerance: float = 0.0,
    **how: Unpack[Question],
) -> Tested:
    """Is a policy better than the baseline, on episodes that it was not made from?
    `surefoot safety-test`.

    `training`: another log of the baseline, whose episodes are left out. `return_range` is that of
    whole episodes. `observed_range` assumes that no reward outside those of the log is possible.
    `estimated_baseline` compares with what made the log, whatever that was: approximately.
    """
    if how.get("start") is not None:
        raise ParameterError(
            f"{option('start')} does not apply: whole episodes are compared, from where they start"
        )
    source, asked = as_said(source, how)
    asked.pop("start", None)  # of the file that describes the log
    if estimated_baseline:
        for name, value, default in (
            ("horizon", horizon, None), ("estimator", estimator, TEST_DEFAULTS["estimator"]),
            ("bound", bound, "betting"),
        ):  # fmt: skip
            if value != default:
                raise ParameterError(
                    f"{option(name)} does not go with --estimated-baseline: whole episodes are not"
                    " weighed there, both values are those of a model"
                )
        return _by_model(source, policy, asked, training, delta, accept_observed=observed_range)
    own, posed = own_log(policy), pose_episodes(source, **asked)
    check_tolerance(posed, group_tolerance)
    pi = policy_over(policy, posed.log)
    standard = _standard(
        posed, asked, delta=delta, bound=bound, estimator=estimator, horizon=horizon,
        seen=own.get("rewards"), largest_ratio=_largest_ratio(policy, pi, posed, asked),
    )  # fmt: skip
    refuse_own_log(posed, policy, own)
    other = None
    if training is not None:
        other = pose_episodes(training, **asked)
        if other.problem.gamma != posed.problem.gamma:
            raise ParameterError(
                "the shortest steps of both logs take different time, and --discount-per starts"
                " from them: leave --training out"
            )
    check_allowed(posed.log, posed.problem, pi.pi)
    first, held_out = None, whole_sample(posed.problem, pi.pi)
    if other is not None:
        theirs = policy_over(policy, other.log).pi
        first = Sample(rows_of(other.problem), theirs, compared_with(other.problem))
    held_out, overlap = _without_own_episodes(held_out, posed, policy, other)
    same = other is None
    if weighs_both(held_out, standard):
        standard = standard if first is None else standard.having_seen(first.batch.reward)
        (first, held_out), same = held_out.split(KNOWN_SHARE), True
    elif first is None and (standard.capped or standard.estimator == "dr"):
        first, held_out = held_out.split(share)
    found = guarded_safety_test(
        first, held_out, posed.problem.gamma, standard, posed.problem.guards,
        groups_of(posed.log.groups, group_tolerance),
        same_codes=same, accept_observed=observed_range,
    )  # fmt: skip
    return _told(found, posed, policy, training, overlap, asked.get("return_range"))


def _told(
    found: Tested,
    posed: Posed,
    policy: Any,
    training: Any,
    overlap: Mapping[str, Any],
    returns: tuple[float, float] | None,
) -> Tested:
    """The test with what it was of."""
    document: dict[str, Any] = {
        "log": log_summary(posed.log, posed.source, posed.problem, returns),
        "policy": in_words(policy),
        "policy_fingerprint": file_hash(Path(policy)) if isinstance(policy, (str, Path)) else None,
        "gamma": posed.gamma,
        "training": None if training is None else in_words(training),
        "verdict": found.verdict,
    }
    document |= {**found.document, "training_overlap": overlap}
    document["notes"] = [*posed.log.notes, *document["notes"]]
    return replace(found, document=document)


def _by_model(
    source: Any,
    policy: Any,
    asked: dict[str, Any],
    training: Any,
    delta: float,
    *,
    accept_observed: bool,
) -> Tested:
    """The test against what made the log, where nobody knows its policy."""
    posed = pose(source, **asked)
    refuse_own_log(posed, policy, own_log(policy))
    other = None if training is None else pose(training, **asked)
    pi, log = policy_over(policy, posed.log).pi, rows_with(posed.problem, "a safety test")
    check_allowed(posed.log, posed.problem, pi)
    check_delta(delta)
    # every episode has its number as its code here, so that those that are kept can be told
    marked = replace(log, beside={**log.beside, "number": log.episode.copy()})
    rest, overlap = _without_own_episodes(Sample(marked, pi, None), posed, policy, other)
    kept = np.isin(np.arange(log.n_episodes), rest.batch.beside["number"])
    found = estimated_test(posed, pi, kept, delta, accept_observed=accept_observed)
    return _told(found, posed, policy, training, overlap, asked.get("return_range"))


def _without_own_episodes(
    held_out: Sample, posed: Posed, policy: Any, other: Posed | None
) -> tuple[Sample, dict[str, Any]]:
    """(the episodes that are in no training log, what was found out about the others).

    Training logs are the one whose fingerprints lie beside the policy, and another that was named.
    """
    known, why = [], ""
    try:
        known.append(trained_on(policy))
    except NotAvailableError as error:
        why = str(error)
    if other is not None:
        known.append(fingerprints(other.log, rows_with(other.problem, "a safety test")))
    try:
        return without_training(held_out, fingerprints(posed.log, held_out.batch), known, why)
    except LogError as error:
        raise LogError(f"{posed.source}: {error}") from error


def _largest_ratio(given: Any, pi: Policy, posed: Posed, how: Mapping[str, Any]) -> float | None:
    """The largest pi / pi_b of both policies, whatever the states of the log; None where it cannot
    be told from them.
    """
    changed = any(how.get(x) is not None for x in ("allowed", "forbidden")) or posed.log.labels.now
    own = all(map(_whole, (given, how.get("baseline"))))
    if not own or changed or posed.log.has_propensities:
        return None
    acting = ~posed.log.terminal
    made = posed.problem.logging_policy
    found = largest_ratio(pi.pi[acting], made[acting], pi.elsewhere, posed.elsewhere)
    return max(found, 1.0) if found < math.inf else None


def _whole(policy: Any) -> bool:
    """Whether a policy says by itself in which states it acts: a function and an array say nothing
    of states that the log never visits.
    """
    return isinstance(policy, (str, Path, Policy, Mapping)) or is_table(policy)


@dataclass(frozen=True, repr=False)
class Watched(Answer):
    """What a watch has found so far."""

    command: ClassVar[str] = "watch"
    document: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        """ "passes": shown to be better; "fails": worse; or "no evidence", so far."""
        return str(self.document["verdict"])

    def said(self, document: Mapping[str, Any], *, explain: bool = False) -> str:
        """The look for people."""
        return text(watch_statements(document), explain=explain)


def watch(
    source: Any,
    policy: Any,
    state_file: str | Path,
    *,
    horizon: int | None = None,
    delta: float = 0.05,
    estimator: str = "pdis",
    new: str = NEW,
    old: str = OLD,
    share: float = HALF,
    **how: Unpack[Question],
) -> Watched | RolledOut:
    """A look at a growing log: has it shown that a policy is better, or worse? `surefoot watch`.

    What was counted is kept in `state_file` from look to look; nothing that was asked may change
    meanwhile. With `policy_column` the log is that of a roll-out: an episode got the arm `new` by
    lot with probability `share`, else `old`; `policy` and `baseline` are then the policies of these
    arms, or None.
    """
    progress = how.pop("progress", None)
    if isinstance(source, Log):
        raise ParameterError(
            "a watch reads the log anew at every look, and keeps how: give the file or the table"
        )
    given = source
    source, asked = as_said(given, how)
    why = "" if source is given else f"{given} says so; "
    _check_kept(how, rolled_out=asked.get("policy_column") is not None)
    for name in ("start", "smoothing"):  # of the file that describes the log
        asked.pop(name, None)
    state_file = Path(state_file)
    if asked.get("policy_column") is not None:
        _check_kept(asked, why, rolled_out=True)
        arms = Arms(new=new, old=old, share=share)
        return _roll_out(
            source, policy, state_file, arms, horizon, delta, estimator, progress, asked
        )
    _check_kept(asked, why)
    if (new, old, share) != (NEW, OLD, HALF):
        raise ParameterError(
            "--new, --old and --share are about the arms of a roll-out: say with --policy-column"
            " which column has them"
        )
    if policy is None:
        raise ParameterError(
            "--policy is missing: the policy to watch; or, of a roll-out, --policy-column, the"
            " column that says which arm an episode is of"
        )
    kept = {**asked, "horizon": horizon, "delta": delta, "estimator": estimator}
    with alone(state_file):
        before = load_watch(state_file, _parameters(policy, kept))
        posed = pose_episodes(source, progress=progress, **_knowing_actions(asked, policy))
        refuse_own_log(posed, policy, own_log(policy))
        if posed.problem.pi_b_estimated and not posed.log.has_propensities:
            raise NotAvailableError(WATCH_NEEDS)
        batch, pi = rows_of(posed.problem), policy_over(policy, posed.log).pi
        if batch.propensity is not None:
            raise NotAvailableError(
                "a watch weighs episodes by the baseline, and this log has propensities: if the"
                " baseline made all of it, read it without them (--propensity -); else do a"
                " safety-test"
            )
        trained = None
        with suppress(NotAvailableError):
            trained = trained_on(policy)
        standard = _standard(posed, asked, delta=delta, estimator=estimator, horizon=horizon)
        after, found = look(
            before, posed.log, batch, pi, posed.problem.pi_b, posed.gamma, standard, trained
        )
        _save(after, before, state_file)
    told = watch_summary(after, found, delta)
    return Watched(_looked(posed, policy, asked, told, state_file, checked=trained is not None))


def _looked(
    posed: Posed,
    policy: Any,
    asked: Mapping[str, Any],
    found: Mapping[str, Any],
    state_file: Path,
    *,
    checked: bool,
) -> dict[str, Any]:
    """What a look `found`, with what it was of."""
    return {
        "log": log_summary(posed.log, posed.source, posed.problem, asked.get("return_range")),
        "policy": None if policy is None else in_words(policy),
        "gamma": posed.gamma,
        "state_file": str(state_file),
        **found,
        "training_checked": checked,
        "notes": [*posed.log.notes, *found["notes"]],
    }


def _roll_out(
    source: Any,
    policy: Any,
    state_file: Path,
    arms: Arms,
    horizon: int | None,
    delta: float,
    estimator: str,
    progress: Progress | None,
    asked: dict[str, Any],
) -> RolledOut:
    """A look at the log of a roll-out."""
    baseline = asked.get("baseline")
    if (policy is None) != (baseline is None):
        raise ParameterError(
            "give the policies of both arms (--policy, --baseline), and the episodes of each count"
            " for both; or neither, and the arms are compared as they are"
        )
    if estimator != TEST_DEFAULTS["estimator"]:
        raise ParameterError("--estimator is for a log of one policy: two arms need none")
    said = {"new": arms.new, "old": arms.old, "share": arms.share}
    kept = {**asked, "horizon": horizon, "delta": delta, **said}
    guards = guards_of(several(asked.get("guard")))
    with alone(state_file):
        before = load_rollout(state_file, _parameters(policy, kept), len(guards))
        how = {x: y for x, y in _knowing_actions(asked, policy).items() if x != "baseline"}
        posed = pose_episodes(source, progress=progress, **how)
        batch = rows_with(posed.problem, "a roll-out")
        trained = None
        if policy is not None:
            pair = tuple(policy_over(x, posed.log).pi for x in (policy, baseline))
            arms = replace(arms, policies=(pair[0], pair[1]))
            with suppress(NotAvailableError):
                trained = trained_on(policy)
        standard = _standard(posed, asked, delta=delta, estimator="is", horizon=horizon)
        after, rows, found = look_at_arms(
            before, posed.log, batch, arms, posed.gamma, standard, guards, trained
        )
        _save(after, before, state_file)
    told = {"baseline": None if baseline is None else in_words(baseline), **found}
    document = _looked(posed, policy, asked, told, state_file, checked=trained is not None)
    return RolledOut(document, rows)


def _check_kept(how: Mapping[str, Any], why: str = "", *, rolled_out: bool = False) -> None:
    """Raise if something is said that a watch cannot keep from look to look."""
    kept = (KEPT | OF_ARMS) - OF_WEIGHTS if rolled_out else KEPT
    for name in not_default(how):
        if name not in kept:
            raise ParameterError(
                f"--{name.replace('_', '-')} does not go with watch: {why}whole episodes are"
                " compared as they were logged, one after the other as they come"
            )


def _parameters(policy: Any, kept: Mapping[str, Any]) -> dict[str, Any]:
    """What must not change from look to look: files by their content, the rest where something is
    said, in the words of the command line.
    """
    if not isinstance(policy, (str, Path, NoneType)):
        raise ParameterError("a watch knows its policy by its file: save it, and give the path")
    found: dict[str, Any] = {} if policy is None else {"policy_file": file_digest(policy)}
    for name, value in not_default({x: kept[x] for x in kept if x not in FOR_PEOPLE}).items():
        if name in FILES and not isinstance(value, (str, Path)):
            raise ParameterError(
                f"{option(name)}: a watch knows it by its file: save it, and give the path"
            )
        if value != TEST_DEFAULTS.get(name):
            found |= {f"{name}_file": file_digest(value)} if name in FILES else {name: _word(value)}
    return found


def _word(value: Any) -> Any:
    """A value as the command line has it."""
    if value is True:
        return "all"  # --drop-bad-rows; no other flag is kept
    return typed(value) if isinstance(value, (list, tuple)) else value


def _knowing_actions(how: dict[str, Any], policy: Any) -> dict[str, Any]:
    """With the actions of policy and baseline, which a young log may not have yet."""
    if how.get("actions") or how.get("baseline") is None:
        return how
    names: dict[str, None] = {}
    for path in (policy, how["baseline"]):
        with suppress(PolicyError):  # other names of columns: read with the log
            names |= {as_text(a): None for a in load_policy(path).labels.actions}
    return {**how, "actions": list(names)}


def _save(after: Watch | Rollout, before: Watch | Rollout, path: Path) -> None:
    """Write the state, unless another watch has written it meanwhile."""
    if kept_looks(path) != before.looks:
        raise ParameterError(
            f"{path} was written by another watch meanwhile: run one at a time; look again"
        )
    after.save(path)
