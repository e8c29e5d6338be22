"""surefoot watch: the safety test of a growing log, looked at as often as one likes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.options import METHOD, OUTPUT, AsJson, Source, option
from surefoot.cli.posing import given_policy
from surefoot.cli.safety_test import (
    EpisodeOptions,
    PolicyFile,
    own_log,
    posed_episodes,
    refuse_own_log,
)
from surefoot.cli.terminal import DONE, NO_SUPPORT, WORSE, show
from surefoot.errors import NotAvailableError, ParameterError, PolicyError

if TYPE_CHECKING:
    from surefoot.advice.provenance import Fingerprints
    from surefoot.advice.watching import Watch

FILES = ("baseline", "allowed", "forbidden")  # options that name files: their content counts
# What a watch knows how to keep: columns, reading, the problem. An option that other commands have
# learned since is refused, not passed over.
KEPT = (
    "episode", "time", "state", "action", "reward", "next_state", "terminal", "truncated",
    "terminal_states", "episode_end", "order", "terminal_to_end", "actions", "drop_bad_rows",
    "missing_reward", "decimal", "delimiter", "encoding", "gamma", "reward_range", "return_range",
    "horizon", "propensity", "delta", "estimator", *FILES,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class WatchOptions(EpisodeOptions):
    """The options of a watch."""

    estimator: Annotated[str, option(METHOD, "NAME", "Values of episodes: pdis or is.")] = "pdis"


def watch(
    log: Source,
    policy: PolicyFile,
    state_file: Annotated[
        Path,
        option(
            OUTPUT, "FILE", "Where the capital is kept from look to look, such as capital.json."
        ),
    ],
    as_json: AsJson = False,
    *,
    options: WatchOptions,
) -> None:
    """Watch a growing log for evidence that a policy is better or worse than the baseline.

    The safety test as an any-time test: run it after every batch of new episodes, as often as you
    like, and stop when you like; a wrong verdict has probability delta over all looks together.
    Each episode counts once, in the order in which they began. Those that are not finished wait for
    the next look. LOG is made by the baseline, and the policy must not be changed meanwhile.

    Exit code 0: shown to be better. Exit code 4: shown to be worse. Exit code 3: not yet. Exit code
    2: wrong input; also if policy, baseline or an option has changed since the watch was begun.
    """
    from surefoot.advice import watching
    from surefoot.advice.safety import rows_of
    from surefoot.advice.summary import log_summary
    from surefoot.advice.verdict import FAILS, PASSES
    from surefoot.advice.watching import load_watch, watch_summary
    from surefoot.ope import Standard

    _check_kept(options)
    if options.discount_per is not None:
        raise ParameterError(
            "--discount-per starts from the shortest step of a log, which may change as it grows:"
            " test with surefoot safety-test instead"
        )
    with watching.alone(state_file):
        before = load_watch(state_file, _parameters(policy, options))
        posed = posed_episodes(log, _knowing_actions(options, policy))
        refuse_own_log(posed.log, log, policy, own_log(policy))
        batch, pi = rows_of(posed.problem), given_policy(policy, posed.log).pi
        if batch.propensity is not None:
            raise NotAvailableError(
                "a watch weighs episodes by the baseline, and this log has propensities: if the"
                " baseline made all of it, read it without them (--propensity -); else do a"
                " safety-test"
            )
        trained, checked = _trained(policy)
        reward = posed.log.reward
        standard = Standard(
            delta=options.delta,
            estimator=options.estimator,
            reward_range=reward.range("reward_range", options.rewards),
            return_range=reward.range("return_range", options.returns),
            horizon=options.horizon,
        )
        after, found = watching.look(
            before, posed.log, batch, pi, posed.problem.pi_b, options.gamma, standard, trained
        )
        _save(after, before, state_file)
    document: dict[str, Any] = {
        "log": log_summary(posed.log, log),
        "policy": str(policy),
        "gamma": options.gamma,
        "state_file": str(state_file),
        **watch_summary(after, found, options.delta),
        "training_checked": checked,
    }
    document["notes"] = [*posed.log.notes, *document["notes"]]
    show("watch", document, lambda: _lines(document), as_json)
    codes = {PASSES: DONE, FAILS: WORSE}
    raise typer.Exit(codes.get(document["verdict"], NO_SUPPORT))


def _lines(found: dict[str, Any]) -> Iterator[str]:
    from surefoot.advice.summary import read_lines
    from surefoot.advice.watching import watch_lines

    yield from (*read_lines(found["log"]), *watch_lines(found))
    if not found["training_checked"]:
        yield (
            "training  NOT CHECKED whether the policy was made from these episodes: there is no"
            " training.npz beside the policy"
        )
    yield from (f"note: {x}" for x in found["notes"])
    yield f"state     {found['state_file']}"


def _parameters(policy: Path, options: WatchOptions) -> dict[str, Any]:
    """What must not change from look to look: files by their content, options that are not at
    their default.
    """
    from surefoot.advice.watching import file_digest

    found: dict[str, Any] = {"policy_file": file_digest(policy)}
    for field in fields(WatchOptions):
        value = getattr(options, field.name)
        if field.name in FILES and value is not None:
            found[f"{field.name}_file"] = file_digest(value)
        elif value != field.default:
            found[field.name] = str(value) if isinstance(value, Path) else value
    return found


def _check_kept(options: WatchOptions) -> None:
    """Raise if an option is used that a watch cannot keep from look to look."""
    for field in fields(WatchOptions):
        if field.name not in KEPT and getattr(options, field.name) != field.default:
            raise ParameterError(
                f"--{field.name.replace('_', '-')} does not go with watch: whole episodes are"
                " compared as they were logged, one after the other as they come"
            )


def _knowing_actions(options: WatchOptions, policy: Path) -> WatchOptions:
    """The options with the actions of policy and baseline, which a young log may not have yet."""
    from surefoot.core.labels import as_text
    from surefoot.logs import load_policy

    if options.actions or options.baseline is None:
        return options
    names: dict[str, None] = {}
    for path in (policy, options.baseline):
        with suppress(PolicyError):  # other names of columns: read with the log
            names |= {as_text(a): None for a in load_policy(path).labels.actions}
    if any("," in x for x in names):
        return options
    return replace(options, actions=",".join(names))


def _trained(policy: Path) -> tuple[Fingerprints | None, bool]:
    """(the fingerprints of the episodes that the policy was made from, whether there are any)."""
    from surefoot.advice.provenance import TRAINING, read_fingerprints

    try:
        return read_fingerprints(policy.parent / TRAINING), True
    except NotAvailableError:
        return None, False


def _save(after: Watch, before: Watch, path: Path) -> None:
    """Write the state, unless another watch has written it meanwhile."""
    from surefoot.advice.watching import load_watch

    if load_watch(path, before.parameters).looks != before.looks:
        raise ParameterError(
            f"{path} was written by another watch meanwhile: run one at a time; look again"
        )
    after.save(path)
