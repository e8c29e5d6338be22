"""surefoot safety-test: is a policy better, on episodes it was not made from?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.guard_options import GuardedOptions, with_its_guards
from surefoot.cli.log_options import LogOptions
from surefoot.cli.options import (
    BASELINE,
    METHOD,
    POLICY,
    PROBLEM,
    AsJson,
    ReportFile,
    Source,
    option,
)
from surefoot.cli.posing import Posed, given_policy, pose
from surefoot.cli.terminal import DONE, NO_SUPPORT, WORSE, show
from surefoot.core.array_checks import LARGEST
from surefoot.errors import BaselineError, LogError, ParameterError

if TYPE_CHECKING:
    from surefoot.advice.safety import Sample
    from surefoot.logs import Log
    from surefoot.ope import Standard

PolicyFile = Annotated[
    Path, option(POLICY, "FILE", "The policy to test: columns state, action, probability.")
]
Training = Annotated[
    str | None,
    option(
        POLICY,
        "LOG",
        "The log the policy was made from, or another one of the baseline: episodes that LOG"
        " shares with it are left out.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class EpisodeOptions(LogOptions):
    """The options of every test of whole episodes."""

    return_range: Annotated[
        str | None,
        option(
            PROBLEM,
            "LOW,HIGH",
            "The lowest and the highest possible discounted return of a whole episode, from its"
            " start on.",
        ),
    ] = None
    baseline: Annotated[
        Path | None,
        option(
            BASELINE,
            "FILE",
            "The policy that made the log, or (with propensities) any other: columns state, action,"
            " probability. Without it, and with propensities: what made the log, on average.",
            default=False,
        ),
    ] = None
    horizon: Annotated[
        int | None,
        option(PROBLEM, "STEPS", "No episode can have more steps than this: a known time limit."),
    ] = None
    delta: Annotated[
        float,
        option(
            METHOD, "NUMBER", "Probability of a wrong verdict: half for better, half for worse."
        ),
    ] = 0.05


@dataclass(frozen=True, kw_only=True)
class TestOptions(EpisodeOptions, GuardedOptions):
    """The options of a test of whole episodes that is done once."""

    bound: Annotated[
        str,
        option(
            METHOD,
            "NAME",
            "betting, maurer-pontil, hoeffding: valid for any number of episodes; student-t, bca:"
            " approximate.",
        ),
    ] = "betting"
    estimator: Annotated[
        str,
        option(METHOD, "NAME", "Values of episodes: pdis, is, or dr (with student-t and bca)."),
    ] = "pdis"
    share: Annotated[
        float,
        option(
            METHOD,
            "NUMBER",
            "The share of LOG on which maurer-pontil, hoeffding and dr are prepared; unused with"
            " --training.",
        ),
    ] = 0.2
    observed_range: Annotated[
        bool,
        option(
            METHOD,
            "",
            "Assume that no reward outside those of the log is possible, instead of declaring it.",
            "--observed-range",
        ),
    ] = False


def safety_test(
    log: Source,
    policy: PolicyFile,
    training: Training = None,
    report: ReportFile = None,
    as_json: AsJson = False,
    *,
    options: TestOptions,
) -> None:
    """Test a policy on data it was NOT made from, before it is used.

    Is it better than the baseline? LOG must hold episodes of the baseline that had no part in
    making or choosing the policy: on its own training data any policy looks good.

    With --guard and --group it passes only if no guarded column and no group is worse, and fails if
    one is shown to be.

    Exit code 0: passes, shown to be better. Exit code 4: fails, shown to be worse. Exit code 3: no
    evidence, shown to be neither; or shown only under a condition that is named, such as that no
    reward outside those observed exists (declare them with --reward-range). Exit code 2: wrong
    input, or data on which no test is valid (an estimated or contradicted baseline, a single
    episode, episodes the policy was made from).
    """
    from surefoot.advice.provenance import file_hash
    from surefoot.advice.safety_parts import Asked, guarded_safety_test, parts_summary
    from surefoot.advice.safety_words import safety_summary
    from surefoot.advice.summary import log_summary
    from surefoot.advice.verdict import FAILS, PASSES
    from surefoot.report.log_pages import safety_page

    if options.start is not None:
        raise ParameterError(
            "--start does not apply: whole episodes are compared, from where they start"
        )
    own = own_log(policy)
    posed = with_its_guards(posed_episodes(log, options), options)
    standard = _standard(options, posed, own, _largest_ratio(policy, posed, options))
    refuse_own_log(posed.log, log, policy, own)
    other = None if training is None else posed_episodes(training, options)
    if other is not None and other.problem.gamma != posed.problem.gamma:
        raise ParameterError(
            "the shortest steps of both logs take different time, and --discount-per starts from"
            " them: leave --training out"
        )
    first, held_out, overlap = _samples(posed, other, log, policy, options, standard)
    asked = Asked(
        guards=posed.problem.guards,
        groups=posed.log.beside.get("group", ()),
        group_tolerance=options.group_tolerance,
    )
    result = guarded_safety_test(
        first,
        held_out,
        posed.problem.gamma,
        standard,
        asked,
        same_codes=other is None,
        accept_observed=options.observed_range,
    )
    found: dict[str, Any] = {
        "log": log_summary(posed.log, log),
        "policy": str(policy),
        "policy_fingerprint": file_hash(policy),
        "gamma": options.gamma,
        "training": training,
    }
    found |= safety_summary(result) | parts_summary(result.parts) | {"training_overlap": overlap}
    found["notes"] = [*posed.log.notes, *found["notes"]]
    show(
        "safety-test",
        found,
        lambda: _lines(found),
        as_json,
        report,
        lambda: safety_page(found),
    )
    codes = {PASSES: DONE, FAILS: WORSE}
    raise typer.Exit(codes.get(found["verdict"], NO_SUPPORT))


def _lines(found: dict[str, Any]) -> Iterator[str]:
    """The test for people."""
    from surefoot.advice.safety_parts import part_lines
    from surefoot.advice.safety_words import safety_lines
    from surefoot.advice.summary import read_lines

    yield from (*read_lines(found["log"]), *safety_lines(found), *part_lines(found))
    yield f"training  {found['training_overlap']['words']}"
    yield from (f"assumes:  {x}" for x in found["assumptions"])
    yield from (f"note: {x}" for x in found["notes"])


def _largest_ratio(policy: Path, posed: Posed, options: TestOptions) -> float | None:
    """The largest pi / pi_b of both files, whatever the states of the log; None where it cannot be
    told from the files.
    """
    from surefoot.ope.centring import largest_ratio

    changed = options.allowed or options.forbidden or options.history
    if options.baseline is None or changed or posed.log.has_propensities:
        return None
    given, acting = given_policy(policy, posed.log), ~posed.log.terminal
    made = posed.problem.logging_policy
    found = largest_ratio(given.pi[acting], made[acting], given.elsewhere, posed.elsewhere)
    return max(found, 1.0) if found < math.inf else None


def _standard(
    options: TestOptions, posed: Posed, own: dict[str, Any], ratio: float | None
) -> Standard:
    """What the test asks for."""
    from surefoot.ope import Standard

    reward = posed.log.reward
    return Standard(
        delta=options.delta,
        estimator=options.estimator,
        bound=options.bound,
        reward_range=reward.range("reward_range", options.rewards),
        return_range=reward.range("return_range", options.returns),
        horizon=options.horizon,
        seen=own.get("rewards"),
        largest_ratio=ratio,
    )


def _samples(
    posed: Posed,
    other: Posed | None,
    log: str,
    policy: Path,
    options: TestOptions,
    standard: Standard,
) -> tuple[Sample | None, Sample, dict[str, Any]]:
    """(episodes to prepare the test on, episodes to test on, what is known of training data)."""
    from surefoot.advice import safety as tests
    from surefoot.advice.value_on_log import check_allowed

    pi, first = given_policy(policy, posed.log).pi, None
    check_allowed(posed.log, posed.problem, pi)
    held_out = tests.whole_sample(posed.problem, pi)
    if other is not None:
        first = tests.Sample(
            tests.rows_of(other.problem),
            given_policy(policy, other.log).pi,
            tests.compared_with(other.problem),
        )
    held_out, overlap = _without_training(held_out, posed.log, log, policy, other)
    if first is None and (standard.capped or standard.estimator == "dr"):
        first, held_out = held_out.split(options.share)
    return first, held_out, overlap


def own_log(policy: Path) -> dict[str, Any]:
    """What the summary beside a policy says of the log it was made from; {} if there is none."""
    from surefoot.advice.files import SUMMARY
    from surefoot.atomic import read_json

    try:
        own = read_json(policy.parent / SUMMARY)["log"]
        return {
            "place": own["path"], "rows": own["rows_read"], "fingerprint": own["fingerprint"],
            "rewards": (float(own["reward_lowest"]), float(own["reward_highest"])),
        }  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def refuse_own_log(log: Log, source: str, policy: Path, own: dict[str, Any]) -> None:
    """Raise if the policy was made from this very log.

    It was if the content is the same, wherever the file is, or if path and number of rows are the
    same, even if it was read in another way.
    """
    here = str(Path(source).resolve()), log.accounting.rows
    if own and (own["fingerprint"] == log.fingerprint or (own["place"], own["rows"]) == here):
        raise ParameterError(
            f"{policy} was made from {source} (the summary beside it says so): test it on data it"
            " was not made from"
        )


def _without_training(
    held_out: Sample, log: Log, source: str, policy: Path, other: Posed | None
) -> tuple[Sample, dict[str, Any]]:
    """(the episodes that are in no training log, what was found out about the others).

    Training logs are the one whose fingerprints lie beside the policy, and --training.
    """
    from surefoot.advice.provenance import TRAINING, fingerprints, read_fingerprints
    from surefoot.advice.safety import rows_of, without_training
    from surefoot.errors import NotAvailableError

    known, why = [], ""
    try:
        known.append(read_fingerprints(policy.parent / TRAINING))
    except NotAvailableError as error:
        why = str(error)
    if other is not None:
        known.append(fingerprints(other.log, rows_of(other.problem)))
    try:
        return without_training(held_out, fingerprints(log, held_out.batch), known, why)
    except LogError as error:
        raise LogError(f"{source}: {error}") from error


def posed_episodes(source: str, options: LogOptions) -> Posed:
    """The log with its baseline, which must be able to have made it.

    The problem's own return range, from every state, is not used: it is set as wide as possible.
    """
    from surefoot.advice.summary import doubt
    from surefoot.diagnosis.propensities import propensities

    posed = pose(source, replace(options, return_range=f"{-LARGEST},{LARGEST}"))
    if posed.log.has_propensities and (found := propensities(posed.log)).vetoes:
        raise LogError(f"{source}: {found.sentence}")
    if doubt(posed.disagreement):
        raise BaselineError(
            f"{source}: {doubt(posed.disagreement)}; weights by another mean nothing"
        )
    return posed
