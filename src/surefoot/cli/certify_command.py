"""surefoot certify: a lower bound on what a policy gains, with what it assumes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from surefoot.cli.log_options import LogOptions, listed
from surefoot.cli.options import METHOD, POLICY, AsJson, Despite, Explain, Source, option
from surefoot.cli.posing import given_policy, pose
from surefoot.cli.safety_test import own_log, refuse_own_log
from surefoot.cli.terminal import DESPITE, NO_SUPPORT, show
from surefoot.errors import ParameterError

MOST = 0.5  # a bound that is wrong more often than right is none


def certify(
    log: Source,
    policy: Annotated[
        Path,
        option(POLICY, "FILE", "The policy to certify: columns state, action, probability."),
    ],
    method: Annotated[
        str,
        option(
            METHOD,
            "NAME",
            "The certificate, such as advantage or robust.",
            default="the strongest that holds for any policy",
        ),
    ] = "",
    fresh: Annotated[
        bool,
        option(
            METHOD,
            "",
            "LOG had no part in making or choosing the policy: what delta-method needs.",
            "--fresh",
        ),
    ] = False,
    delta: Annotated[
        float, option(METHOD, "NUMBER", "The probability with which the bound may be wrong.")
    ] = 0.05,
    despite: Despite = "",
    explain: Explain = False,
    as_json: AsJson = False,
    *,
    options: LogOptions,
) -> None:
    """Prove what a policy gains at least, from the log it may have been made from.

    The bound holds with probability 1 - delta, if what it assumes is true; all of that is printed.
    It takes the baseline that made the log and the range of rewards. What a log can say against
    these assumptions is looked at, as by surefoot check, and forbids a bound. Exit code 0: the
    policy is proved to be no worse than the baseline; 5: only despite what --despite names; 3: it
    is not.
    """
    import surefoot
    from surefoot.advice.assurance import assurance_summary, weighed
    from surefoot.advice.summary import log_summary
    from surefoot.core import Policy
    from surefoot.diagnosis import vetoes
    from surefoot.diagnosis.finding import check_keys
    from surefoot.report.statements import text
    from surefoot.report.value_words import certificate_statements

    check_keys(listed(despite))
    if not 0 < delta <= MOST:
        raise ParameterError(f"--delta must lie in (0, {MOST:g}], got {delta!r}")
    if fresh and not method:
        raise ParameterError("--fresh goes with --method delta-method: no other bound needs it")
    posed = pose(log, options)
    pi = given_policy(policy, posed.log).pi
    more = {}
    if fresh:
        refuse_own_log(posed.log, log, policy, own_log(policy))
        more = {"data": "fresh"}
    made = surefoot.certify(posed.problem, pi, method or None, delta=delta, **more)
    against = vetoes(posed.log, Policy(pi=posed.problem.logging_policy, labels=posed.log.labels))
    assurance = weighed(made, against, listed(despite))
    found: dict[str, Any] = {
        "log": log_summary(posed.log, log),
        "policy": str(policy),
        "gamma": options.gamma,
        **assurance_summary(assurance),
        "notes": posed.notes,
    }
    certificate = assurance.certificate
    said = certificate_statements(found)
    show("certify", found, lambda: [text(said, explain=explain)], as_json)
    if certificate is None or not certificate.useful:
        raise typer.Exit(NO_SUPPORT)
    if assurance.waived:
        raise typer.Exit(DESPITE)
