"""surefoot certify: a lower bound on what a policy gains, with what it assumes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from surefoot.cli.log_options import LogOptions
from surefoot.cli.options import METHOD, POLICY, AsJson, Source, option
from surefoot.cli.posing import given_policy, pose
from surefoot.cli.terminal import NO_SUPPORT, show


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
    delta: Annotated[
        float, option(METHOD, "NUMBER", "The probability with which the bound may be wrong.")
    ] = 0.05,
    as_json: AsJson = False,
    *,
    options: LogOptions,
) -> None:
    """Prove what a policy gains at least, from the log it may have been made from.

    The bound holds with probability 1 - delta, if what it assumes is true; all of that is printed.
    It takes the baseline that made the log and the range of rewards. Exit code 0: the policy is
    proved to be no worse than the baseline; 3: it is not.
    """
    import surefoot
    from surefoot.advice.assurance import Assurance, assurance_lines, assurance_summary
    from surefoot.advice.summary import log_summary, read_lines

    posed = pose(log, options)
    pi = given_policy(policy, posed.log).pi
    made = surefoot.certify(posed.problem, pi, method or None, delta=delta)
    found: dict[str, Any] = {
        "log": log_summary(posed.log, log),
        "policy": str(policy),
        "gamma": options.gamma,
        **assurance_summary(Assurance(made)),
        "notes": posed.notes,
    }
    said = [f"assumes   {x}" for x in made.assumptions]
    said += [f"note: {x}" for x in (*made.notes, *posed.notes)]
    lines = [*read_lines(found["log"]), *assurance_lines(found), *said]
    show("certify", found, lambda: lines, as_json)
    if not made.useful:
        raise typer.Exit(NO_SUPPORT)
