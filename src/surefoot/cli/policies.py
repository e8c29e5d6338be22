"""surefoot evaluate, apply, list and demo: what a policy file is worth and says, what there is
to run, and an example.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from surefoot.cli.improve import AsJson, Source
from surefoot.cli.log_options import LogOptions, given_policy, pose, reads_a_log
from surefoot.cli.terminal import print_json
from surefoot.errors import ParameterError, PolicyError

PolicyFile = Annotated[
    Path,
    typer.Argument(
        help="A policy file: state, action, probability, as `surefoot improve` writes it."
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    example = (
        "Example: `surefoot evaluate log.csv --gamma 0.95 --baseline rule.csv --policy"
        " improved/policy.csv`"
    )
    app.command("evaluate", epilog=example)(evaluate)
    app.command(
        "apply",
        epilog="Example: `surefoot apply improved/policy.csv --state 'x=2 y=1' --sample --seed 7`",
    )(apply)
    app.command("list", epilog="Example: `surefoot list --json`")(list_all)
    app.command("demo", epilog="Example: `surefoot demo --out demo`")(demo)


@reads_a_log
def evaluate(
    log: Source,
    policy: Annotated[
        Path, typer.Option(help="The policy to evaluate: a file with state, action, probability.")
    ],
    as_json: AsJson = False,
    *,
    options: LogOptions,
) -> None:
    """Estimate what a policy is worth from a log, with the baseline beside it.

    By the model counted from the log; the interval is a bootstrap over episodes or blocks. A policy
    that was learned from this very log looks better than it is: evaluate it on another one.
    """
    from surefoot.advice.summary import log_summary, read_lines
    from surefoot.advice.value_on_log import evaluation, evaluation_lines

    posed = pose(log, options)
    pi = given_policy(policy, posed.log, options)
    found: dict[str, Any] = {
        "log": log_summary(posed.log, log),
        "policy": str(policy),
        "gamma": options.gamma,
    }
    found |= evaluation(posed.log, posed.problem, pi, posed.made_by) | {"notes": posed.notes}
    if as_json:
        print_json("evaluate", found)
        return
    typer.echo(
        "\n".join(
            [
                *read_lines(found["log"]),
                *evaluation_lines(found),
                *(f"note: {note}" for note in found["notes"]),
            ]
        )
    )


def apply(
    policy: PolicyFile,
    state: Annotated[
        str,
        typer.Option(help="The state's label; several columns joined by commas, as in the log."),
    ],
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw one action instead of listing all.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the draw.", show_default="a new one")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the action probabilities of a policy in a state, or draw one action."""
    import numpy as np

    from surefoot.advice import read_policy
    from surefoot.core.labels import nearest

    if seed is not None and seed < 0:
        raise ParameterError(f"--seed must be a whole number >= 0, got {seed}")
    names, rows = read_policy(policy)
    key = (state,) if len(names) == 1 else tuple(part.strip() for part in state.split(","))
    if key not in rows:
        raise PolicyError(
            f"state {state!r} is not in {policy};"
            f" {nearest(state, (', '.join(label) for label in rows))}"
        )
    actions = rows[key]
    found: dict[str, Any] = {"state": dict(zip(names, key, strict=True)), "probabilities": actions}
    if sample:
        weights = np.array(list(actions.values()))
        found["action"] = list(actions)[
            int(np.random.default_rng(seed).choice(len(weights), p=weights / weights.sum()))
        ]
    if as_json:
        print_json("apply", found)
    elif sample:
        typer.echo(found["action"])
    else:
        for action, p in sorted(actions.items(), key=lambda pair: -pair[1]):
            typer.echo(f"{p:8.4f}  {action}")


def list_all(as_json: AsJson = False) -> None:
    """List the algorithms with their parameters, and the benchmarks of studies."""
    from surefoot.advice import DEFAULT
    from surefoot.advice.defaults import described
    from surefoot.benchmarks import BENCHMARKS

    rows = described()
    benchmarks = {
        name: (cls.__doc__ or "").strip().split("\n")[0] for name, cls in BENCHMARKS.items()
    }
    if as_json:
        keys = ("name", "class", "parameters", "description")
        found = {
            "default": DEFAULT,
            "algorithms": [dict(zip(keys, row, strict=True)) for row in rows],
            "benchmarks": benchmarks,
        }
        print_json("list", found)
        return
    wide = max(len(row[0]) for row in rows)
    typer.echo(
        f"Algorithms (the default is {DEFAULT}; join a penalising and a restricting one as in"
        " ramdp+pi-b-spibb):"
    )
    for name, kind, parameters, sentence in rows:
        typer.echo(f"  {name:{wide}}  {kind:10}  {', '.join(parameters) or '-'}")
        typer.echo(f"  {'':{wide}}  {sentence}")
    typer.echo("\nBenchmarks of `surefoot run`:")
    for name, sentence in benchmarks.items():
        typer.echo(f"  {name:{wide}}  {sentence}")


def demo(
    out: Annotated[
        Path | None, typer.Option(help="Folder for the files.", show_default="a new temporary one")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Improve a shipped log of a boat's controller: from the file to policy, changes and
    summary.
    """
    from surefoot import demo as demonstration

    if not as_json:
        demonstration.run(out)
        return
    summary, files = demonstration.improved(out)
    print_json("demo", summary | {"files": {name: str(path) for name, path in files.items()}})
