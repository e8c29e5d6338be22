"""surefoot safety-test: a gate that lets a policy pass only if episodes it was not made from show that it is better."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.improve import AsJson, Source
from surefoot.cli.reading import LogOptions, Posed, given_policy, pose, reads_a_log
from surefoot.cli.terminal import NO_SUPPORT, WORSE
from surefoot.errors import BaselineError, ParameterError

if TYPE_CHECKING:
    from surefoot.logs import Log


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    example = "Example: `surefoot safety-test new.csv --policy improved/policy.csv --gamma 0.95 --baseline rule.csv --delta 0.05`"
    app.command("safety-test", epilog=example)(safety_test)


@reads_a_log
def safety_test(
    log: Source,
    policy: Annotated[Path, typer.Option(help="The policy to test: a file with state, action, probability.")],
    delta: Annotated[float, typer.Option(help="Probability of a wrong verdict; half of it for each of the two one-sided tests.")] = 0.05,
    training: Annotated[
        str | None,
        typer.Option(help="Another log of the baseline, such as the one the policy was made from: the bound is prepared on it."),
    ] = None,
    share: Annotated[float, typer.Option(help="Without --training: the share of LOG's episodes the bound is prepared on.")] = 0.2,
    estimator: Annotated[str, typer.Option(help="Values of episodes: pdis, is, or dr (for student-t and bca).")] = "pdis",
    bound: Annotated[
        str, typer.Option(help="betting, maurer-pontil, hoeffding: valid for any number of episodes; student-t, bca: approximate.")
    ] = "betting",
    horizon: Annotated[int | None, typer.Option(help="No episode has more steps than this: a time limit you vouch for.")] = None,
    as_json: AsJson = False,
    *,
    options: LogOptions,
) -> None:
    """Test whether a policy is better than the baseline on data it was NOT made from.

    LOG must hold episodes of the baseline that had no part in making or choosing the policy: a policy passes on its own training data
    for nothing. Exit code 0: passes, it is shown to be better. Exit code 4: fails, it is shown to be worse. Exit code 3: no evidence, it
    is shown to be neither. Exit code 2: wrong input, or data on which no test is valid (an estimated or contradicted baseline, a
    single episode).
    """
    from surefoot.advice import plain
    from surefoot.advice import safety as tests
    from surefoot.advice.evaluation import check_allowed
    from surefoot.advice.summary import log_summary, read_lines
    from surefoot.ope import Standard

    if options.start is not None:
        raise ParameterError("--start does not apply: whole episodes are compared, from where they start")
    standard = Standard(delta, estimator, bound, options.rewards, options.returns, horizon)
    posed = _posed(log, options)
    _refuse_own_log(posed.log, log, policy)
    pi = given_policy(policy, posed.log, options)
    check_allowed(posed.log, posed.problem, pi)
    if training is None:
        first, held_out = tests.split_sample(posed.problem, pi, share)
    else:
        other = _posed(training, options)
        if other.log.fingerprint == posed.log.fingerprint:
            raise ParameterError(f"--training {training} is the log that is tested, {log}: the bound must be prepared on another one")
        first = tests.Sample(tests.rows_of(other.problem), given_policy(policy, other.log, options), other.problem.pi_b)
        held_out = tests.Sample(tests.rows_of(posed.problem), pi, posed.problem.pi_b)
    result = tests.safety_test(first, held_out, options.gamma, standard, same_codes=training is None)
    found: dict[str, Any] = {"log": log_summary(posed.log, log), "policy": str(policy), "gamma": options.gamma, "training": training}
    found |= tests.safety_summary(result)
    if as_json:
        typer.echo(json.dumps(plain(found), indent=2, allow_nan=False))
    else:
        typer.echo("\n".join([*read_lines(found["log"]), *tests.safety_lines(found), *(f"note: {note}" for note in found["notes"])]))
    if result.verdict != tests.PASSES:
        raise typer.Exit(WORSE if result.verdict == tests.FAILS else NO_SUPPORT)


def _refuse_own_log(log: Log, source: str, policy: Path) -> None:
    """Raise if the summary beside the policy says that it was made from this very log: from a copy of it wherever it lies, or from
    the same place and as many rows, if they were read in another way.
    """
    from surefoot.advice.files import SUMMARY

    try:
        own = json.loads((policy.parent / SUMMARY).read_text(encoding="utf-8"))["log"]
        place, rows, fingerprint = own["path"], own["rows_read"], own["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if fingerprint == log.fingerprint or (place == str(Path(source).resolve()) and rows == log.accounting.rows):
        raise ParameterError(f"{policy} was made from {source} ({policy.parent / SUMMARY} says so): test it on data it was not made from")


def _posed(source: str, options: LogOptions) -> Posed:
    """The log with its baseline, which must be able to have made it."""
    from surefoot.advice.summary import doubt

    posed = pose(source, options)
    if doubt(posed.disagreement):
        raise BaselineError(f"{source}: {doubt(posed.disagreement)}; weights by another mean nothing")
    return posed
