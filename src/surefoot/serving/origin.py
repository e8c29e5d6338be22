"""Where a policy comes from: what the summary.json beside its file says of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from surefoot.core.atomic import read_json

# the files of an improvement that hold policies, and the one that says what they are
POLICY, CANDIDATE, REFITTED, SUMMARY = (
    "policy.csv",
    "candidate.csv",
    "policy-all.csv",
    "summary.json",
)
NOT_SHOWN = "NOT SUPPORTED: this policy was not shown to be better than its baseline"


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What improve said of a policy.

    surefoot         the version that made it
    verdict          of the improvement
    policy_is        what this policy is
    unsupported      whether it is a candidate that was not shown to be better than its baseline
    log, fingerprint the log that it was learned from
    encoder          the fingerprint of the encoder by which the states of that log were made; "" if
                     that is not known
    state            the column of the state in that log; "" if there are several
    doses            for each action that is a range of doses, the one to give: its median in the
                     log
    as_before        whether the baseline goes by more than the state: where the policy changes
                     nothing, it is to be called itself
    """

    surefoot: str
    verdict: str
    policy_is: str
    unsupported: bool
    log: str
    fingerprint: str
    encoder: str = ""
    state: str = ""
    doses: Mapping[str, float] = field(default_factory=dict)
    as_before: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """What stands above an export: first what must not be overlooked."""
        warning = (NOT_SHOWN,) * self.unsupported
        return (
            *warning,
            f"verdict {self.verdict.upper()}: this is {self.policy_is}",
            f"learned by surefoot {self.surefoot} from {self.log} (fingerprint {self.fingerprint})",
        )

    def to_dict(self) -> dict[str, Any]:
        """As a controller holds it."""
        return asdict(self)


def origin_of(path: str | Path) -> Origin | None:
    """Where the policy in a file comes from; None where no improvement says so."""
    path = Path(path)
    if path.name not in (POLICY, CANDIDATE, REFITTED):
        return None
    try:
        return _of_summary(read_json(path.with_name(SUMMARY)), path.name)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _of_summary(found: Mapping[str, Any], name: str) -> Origin | None:
    """What a summary says of one of the policies beside it."""
    if not str(found["schema"]).startswith("surefoot/improve/"):
        return None
    log, waived = found["log"], found["waived"]
    given = bool(found["accepted_unsupported"]) or name != POLICY
    other = {
        CANDIDATE: "the candidate",
        REFITTED: "learned again from all rows; what was tested is policy.csv",
    }
    state = re.search(r"(?:^|, )state = (.*?)(?:, action = |$)", str(log["columns"]))
    column = state[1] if state else ""
    cells = log.get("cells") or {}
    return Origin(
        surefoot=str(found["surefoot"]),
        verdict=str(found["verdict"]) + f" despite {', '.join(waived)}" * bool(waived),
        policy_is=other.get(name, str(found["policy_is"])),
        unsupported=given and not found["supported"],
        log=Path(str(log["source"])).name,
        fingerprint=str(log["fingerprint"]),
        encoder=str(log.get("encoder", "")),
        state="" if " + " in column else column,
        doses=dict((cells.get("actions") or {}).get("doses", {})),
        as_before=bool(cells.get("baseline_by_row")),
    )
