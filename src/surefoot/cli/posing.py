"""From the options of a command to a log, and the problem it poses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.cli.log_options import LogOptions, ReadOptions
from surefoot.cli.terminal import ProgressLines, errors, tell
from surefoot.errors import ParameterError

if TYPE_CHECKING:
    from surefoot.advice import Units
    from surefoot.core import Policy
    from surefoot.logs import Disagreement, Log
    from surefoot.logs.database import Progress
    from surefoot.problems import Problem


@dataclass(frozen=True)
class Posed:
    """A log, and the problem it poses.

    `disagreement` says whether a given baseline can have made the log, `units` are what a Dask
    cluster counted beside the log. `elsewhere` are the rows of the baseline file about states that
    the log never visits.
    """

    log: Log
    problem: Problem
    disagreement: Disagreement | None
    units: Units | None = None
    elsewhere: tuple[Any, ...] = ()

    @property
    def notes(self) -> list[str]:
        """What a user should know, also if the baseline cannot have made the log."""
        from surefoot.advice.summary import doubt

        return [*self.problem.notes, *filter(None, [doubt(self.disagreement)])]


def read(source: str, options: ReadOptions, dask: str | None = None) -> tuple[Log, Units | None]:
    """(the log; its units, where a Dask cluster counted them)."""
    from surefoot.advice import log_and_units_on_dask
    from surefoot.logs import read_log

    units = None
    if dask is None:
        with reading_progress() as shown:
            log = read_log(source, progress=shown, **options.for_reading())
    else:
        for name in ("history", "discount_per"):
            if getattr(options, name):
                words = name.replace("_", "-")
                raise ParameterError(f"--{words} is counted on this machine: leave --dask out")
        if options.propensity not in (None, "-") or options.policy_column or options.bandit:
            raise ParameterError(
                "--dask counts alone, and weighs nothing: --propensity, --policy-column and"
                " --bandit need the rows; leave --dask out"
            )
        own = ("history", "discount_per")
        given = {x: y for x, y in options.for_reading().items() if x not in own}
        given["propensity"] = "-"
        log, units = log_and_units_on_dask(dask, source, **given)
    return log, units


@contextmanager
def reading_progress() -> Iterator[Progress]:
    """How far the reading of a file is, on stderr: a bar, or a line now and then where that is no
    terminal.
    """
    from surefoot.logs import progress_bar

    if errors.is_terminal:
        with progress_bar(errors) as shown:
            yield shown
        return
    lines = ProgressLines(tell)
    yield lambda what, share: lines(what, share, 1.0)


def pose(source: str, options: LogOptions, dask: str | None = None) -> Posed:
    """Read a log and its baseline, and build their problem."""
    from surefoot.logs import disagreement, permitted, read_policy
    from surefoot.logs.policy_rows import baseline_of

    log, units = read(source, options, dask)
    mask = permitted(log, options.allowed, options.forbidden)
    if options.baseline_policy is not None:
        given = baseline_of(log, options.baseline_policy, options.smoothing, mask)
    elif options.baseline is None:
        given = log.estimated_baseline(options.smoothing, mask)
    else:
        given = read_policy(options.baseline, log, unknown_states="ignore")
    problem = log.problem(
        options.gamma,
        given,
        start=options.start,
        allowed=mask,
        reward_range=options.rewards,
        return_range=options.returns,
        masked_baseline="renormalise" if options.renormalise else "error",
        needs_returns=None if dask is None else False,
    )
    return Posed(
        log,
        problem,
        None if given.estimated or log.has_propensities else disagreement(log, given),
        units,
        given.elsewhere,
    )


def given_policy(path: Path, log: Log) -> Policy:
    """The policy in a file as `surefoot improve` writes it, over the states of a log."""
    from surefoot.logs import read_policy

    given = {"probability": "probability", "unknown_states": "ignore"}
    return read_policy(path, log, what="policy", **given)
