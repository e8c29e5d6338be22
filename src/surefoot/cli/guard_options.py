"""What `improve` and `safety-test` share: guarded columns and groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

from surefoot.cli.log_options import LogOptions
from surefoot.cli.options import METHOD, option
from surefoot.cli.posing import Posed, pose
from surefoot.errors import NotAvailableError, ParameterError


@dataclass(frozen=True, kw_only=True)
class GuardedOptions(LogOptions):
    """The options of a command on a log that looks after more than the reward."""

    guard: Annotated[
        list[str] | None,
        option(
            METHOD,
            "COLUMN:DIRECTION",
            "A further column that must not get worse, such as cost:lower or quality:higher. With a"
            " tolerance: readmitted:lower:0.01 (a loss of 0.01 in its discounted sum counts as"
            " none; then :0,1 declares its range). May be repeated.",
        ),
    ] = None
    group: Annotated[
        str | None,
        option(
            METHOD,
            "NAME,...",
            "A column with the group of an episode: the policy must be no worse for any group.",
        ),
    ] = None
    group_tolerance: Annotated[
        float,
        option(
            METHOD,
            "NUMBER",
            "The loss of a group that counts as none, in units of the gain; inf: tell, do not ask.",
        ),
    ] = 0.0

    def for_reading(self) -> dict[str, Any]:
        """The arguments of `read_log`."""
        from surefoot.problems.guards import guards_of

        columns = [guard.column for guard in guards_of(self.guard or ())]
        return super().for_reading() | {"group": self.group, "guard": columns or None}


def pose_guarded(source: str, options: GuardedOptions, dask: str | None = None) -> Posed:
    """Read a log and its baseline, and build their problem, with its guards."""
    if dask is not None and (options.guard or options.group):
        raise NotAvailableError(
            "guards and groups need the rows of the log in memory: leave out --dask, and take a"
            " part of its episodes where the log is too large"
        )
    return with_its_guards(pose(source, options, dask), options)


def with_its_guards(posed: Posed, options: GuardedOptions) -> Posed:
    """The problem of a log that was read with these options, with its guards."""
    from surefoot.problems.guards import with_guards

    if options.group_tolerance and not options.group:
        raise ParameterError("--group-tolerance is about groups: name their column with --group")
    return replace(posed, problem=with_guards(posed.problem, options.guard or ()))
