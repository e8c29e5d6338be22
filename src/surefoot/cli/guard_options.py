"""What `improve` and `safety-test` share: guarded columns and groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from surefoot.cli.log_options import LogOptions
from surefoot.cli.options import METHOD, option


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
