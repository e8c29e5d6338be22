"""Which log a policy file was made from, as the files beside it say, and which episodes of another
log are among those.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surefoot.advice.posing import Posed
from surefoot.advice.provenance import TRAINING, Fingerprints, fingerprints, read_fingerprints
from surefoot.advice.safety import Sample, rows_of, without_training
from surefoot.core.atomic import read_json
from surefoot.core.errors import LogError, NotAvailableError, ParameterError
from surefoot.report.folder import SUMMARY

NO_FILE = "the policy is no file, so that nothing lies beside it"


def own_log(policy: Any) -> dict[str, Any]:
    """What the summary beside a policy says of the log it was made from; {} if there is none."""
    if not isinstance(policy, (str, Path)):
        return {}
    try:
        own = read_json(Path(policy).parent / SUMMARY)["log"]
        return {
            "place": own["path"], "rows": own["rows_read"], "fingerprint": own["fingerprint"],
            "rewards": (float(own["reward_lowest"]), float(own["reward_highest"])),
        }  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def refuse_own_log(posed: Posed, policy: Any, own: dict[str, Any]) -> None:
    """Raise if the policy was made from this very log.

    It was if the content is the same, wherever the file is, or if path and number of rows are the
    same, even if it was read in another way.
    """
    here = str(Path(posed.source).resolve()), posed.log.accounting.rows
    same = own and own["fingerprint"] == posed.log.fingerprint
    if same or (own and (own["place"], own["rows"]) == here):
        raise ParameterError(
            f"{policy} was made from {posed.source} (the summary beside it says so): test it on"
            " data it was not made from"
        )


def trained_on(policy: Any) -> Fingerprints:
    """The fingerprints of the episodes that a policy file was made from; raise where there are
    none.
    """
    if not isinstance(policy, (str, Path)):
        raise NotAvailableError(NO_FILE)
    return read_fingerprints(Path(policy).parent / TRAINING)


def without_own_episodes(
    held_out: Sample, posed: Posed, policy: Any, other: Posed | None
) -> tuple[Sample, dict[str, Any]]:
    """(the episodes that are in no training log, what was found out about the others).

    Training logs are the one whose fingerprints lie beside the policy, and another that was named.
    """
    known, why = [], ""
    try:
        known.append(trained_on(policy))
    except NotAvailableError as error:
        why = str(error)
    if other is not None:
        known.append(fingerprints(other.log, rows_of(other.problem)))
    try:
        return without_training(held_out, fingerprints(posed.log, held_out.batch), known, why)
    except LogError as error:
        raise LogError(f"{posed.source}: {error}") from error
