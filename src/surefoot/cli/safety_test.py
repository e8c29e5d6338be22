"""surefoot safety-test: a gate that lets a policy pass only if episodes it was not made from
show that it is better.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.improve import AsJson, Source
from surefoot.cli.log_options import LogOptions, Posed, given_policy, pose, reads_a_log
from surefoot.cli.terminal import DONE, NO_SUPPORT, WORSE, print_json
from surefoot.core.batch import LARGEST
from surefoot.errors import BaselineError, LogError, ParameterError

if TYPE_CHECKING:
    from surefoot.advice.gate import Sample
    from surefoot.logs import Log


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    example = (
        "Example: `surefoot safety-test new.csv --policy improved/policy.csv --gamma 0.95"
        " --baseline rule.csv --reward-range 0,1`"
    )
    app.command("safety-test", epilog=example)(safety_test)


@dataclass(frozen=True, kw_only=True)
class EpisodeOptions(LogOptions):
    """The options of a test of whole episodes: the range of returns is that of a whole episode,
    not of returns from every state.
    """

    return_range: Annotated[
        str | None,
        typer.Option(
            help=(
                "Lowest and highest possible discounted return of a whole episode, from its start"
                " on: LOW,HIGH."
            )
        ),
    ] = None


@reads_a_log
def safety_test(
    log: Source,
    policy: Annotated[
        Path, typer.Option(help="The policy to test: a file with state, action, probability.")
    ],
    delta: Annotated[
        float,
        typer.Option(
            help="Probability of a wrong verdict; half of it for each of the two one-sided tests."
        ),
    ] = 0.05,
    training: Annotated[
        str | None,
        typer.Option(
            help=(
                "The log the policy was made from, or another of the baseline: what LOG shares with"
                " it is left out."
            )
        ),
    ] = None,
    share: Annotated[
        float,
        typer.Option(
            help=(
                "For maurer-pontil, hoeffding and dr, without --training: the share of LOG they are"
                " prepared on."
            )
        ),
    ] = 0.2,
    estimator: Annotated[
        str, typer.Option(help="Values of episodes: pdis, is, or dr (for student-t and bca).")
    ] = "pdis",
    bound: Annotated[
        str,
        typer.Option(
            help=(
                "betting, maurer-pontil, hoeffding: valid for any number of episodes; student-t,"
                " bca: approximate."
            )
        ),
    ] = "betting",
    horizon: Annotated[
        int | None,
        typer.Option(help="No episode has more steps than this: a time limit you vouch for."),
    ] = None,
    observed_range: Annotated[
        bool,
        typer.Option(
            "--observed-range",
            help=(
                "Accept that no reward is possible outside those of the log, instead of"
                " declaring it."
            ),
        ),
    ] = False,
    as_json: AsJson = False,
    *,
    options: EpisodeOptions,
) -> None:
    """Test whether a policy is better than the baseline on data it was NOT made from.

    LOG must hold episodes of the baseline that had no part in making or choosing the policy: a
    policy passes on its own training data for nothing. Exit code 0: passes, it is shown to be
    better. Exit code 4: fails, it is shown to be worse. Exit code 3: no evidence, it is shown to be
    neither; or it would pass or fail only if no reward outside those observed exists (declare them
    by --reward-range). Exit code 2: wrong input, or data on which no test is valid (an estimated or
    contradicted baseline, a single episode, the episodes that the policy was made from).
    """
    from surefoot.advice import gate as tests
    from surefoot.advice.summary import log_summary, read_lines
    from surefoot.advice.value_on_log import check_allowed
    from surefoot.ope import Standard

    if options.start is not None:
        raise ParameterError(
            "--start does not apply: whole episodes are compared, from where they start"
        )
    own = _own_log(policy)
    standard = Standard(
        delta=delta,
        estimator=estimator,
        bound=bound,
        reward_range=options.rewards,
        return_range=options.returns,
        horizon=horizon,
        seen=own.get("rewards"),
    )
    posed = _posed(log, options)
    _refuse_own_log(posed.log, log, policy, own)
    pi = given_policy(policy, posed.log, options)
    check_allowed(posed.log, posed.problem, pi)
    held_out, first, other = tests.whole_sample(posed.problem, pi), None, None
    if training is not None:
        other = _posed(training, options)
        first = tests.Sample(
            tests.rows_of(other.problem),
            given_policy(policy, other.log, options),
            other.problem.pi_b,
        )
    held_out, overlap = _without_training(held_out, posed.log, log, policy, other)
    if first is None and (standard.capped or estimator == "dr"):
        first, held_out = held_out.split(share)
    result = tests.safety_test(
        first,
        held_out,
        options.gamma,
        standard,
        same_codes=other is None,
        accept_observed=observed_range,
    )
    found: dict[str, Any] = {
        "log": log_summary(posed.log, log),
        "policy": str(policy),
        "gamma": options.gamma,
        "training": training,
    }
    found |= tests.safety_summary(result) | {"training_overlap": overlap}
    found["notes"] = [*posed.log.notes, *found["notes"]]
    if as_json:
        print_json("safety-test", found)
    else:
        lines = [
            *read_lines(found["log"]),
            *tests.safety_lines(found),
            f"training  {overlap['words']}",
        ]
        typer.echo(
            "\n".join(
                [
                    *lines,
                    *(f"assumes:  {x}" for x in found["assumptions"]),
                    *(f"note: {x}" for x in found["notes"]),
                ]
            )
        )
    codes = {tests.PASSES: DONE, tests.FAILS: WORSE}
    raise typer.Exit(codes.get(found["verdict"], NO_SUPPORT))


def _own_log(policy: Path) -> dict[str, Any]:
    """What the summary beside a policy says of the log it was made from; nothing where there is
    none.
    """
    from surefoot.advice.folder import SUMMARY

    try:
        own = json.loads((policy.parent / SUMMARY).read_text(encoding="utf-8"))["log"]
        return {
            "place": own["path"], "rows": own["rows_read"], "fingerprint": own["fingerprint"],
            "rewards": (float(own["reward_lowest"]), float(own["reward_highest"])),
        }  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _refuse_own_log(log: Log, source: str, policy: Path, own: dict[str, Any]) -> None:
    """Raise if the policy was made from this very log: from a copy of it wherever it lies, or from
    the same place and as many rows, if they were read in another way.
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
    """(the episodes that are in no training log, what was found out about the others): those
    beside the policy, and --training.
    """
    from surefoot.advice.gate import rows_of, without_training
    from surefoot.advice.provenance import TRAINING, fingerprints, read_fingerprints
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


def _posed(source: str, options: LogOptions) -> Posed:
    """The log with its baseline, which must be able to have made it; the problem's own range of
    returns, from every state, is unused.
    """
    from surefoot.advice.summary import doubt

    posed = pose(source, replace(options, return_range=f"{-LARGEST},{LARGEST}"))
    if doubt(posed.disagreement):
        raise BaselineError(
            f"{source}: {doubt(posed.disagreement)}; weights by another mean nothing"
        )
    return posed
