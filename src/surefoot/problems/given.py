"""What is given with a log (gamma, mask, baseline, rewards, start), checked against its size;
for arrays and for log files alike.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from surefoot.core import END, Labels
from surefoot.core.batch import LARGEST, number_array, plain_array
from surefoot.errors import BaselineError, LogError, ProblemError
from surefoot.problems.problem import SUM_TO_ONE
from surefoot.problems.ranges import ReturnRange, number, pair_of_numbers, return_range

DENSE_CELLS = 5_000_000  # S * A * S up to which counts are held densely (40 MB)
MOST_CELLS = 10**9  # S * A * S beyond which they cannot be (8 GB)
RENORMALISED = (  # in the note of a baseline that is not the one the log was collected with
    "renormalised"
)


class Size(Protocol):
    """S and A of a log, and whether the last state is the extra state "(end)"."""

    @property
    def n_states(self) -> int:
        """S, "(end)" included."""

    @property
    def n_actions(self) -> int:
        """A."""

    @property
    def has_end(self) -> bool:
        """Whether there is the extra state."""

    @property
    def labels(self) -> Labels:
        """What states and actions are called."""


def checked_gamma(gamma: Any) -> float:
    """A discount factor in [0, 1]."""
    value = number("gamma", gamma, "a number in [0, 1]")
    if not 0 <= value <= 1:
        raise ProblemError(f"gamma must lie in [0, 1], got {gamma!r}")
    return value


def held_sparse(sparse: Any, n_states: int, n_actions: int) -> bool:
    """Whether to hold the counts in CSR: as asked, or where the dense array would be large."""
    if sparse is not None and not isinstance(sparse, (bool, np.bool_)):
        raise ProblemError(f"sparse must be True, False or None, got {sparse!r}")
    cells = n_states**2 * n_actions
    if sparse is not None and not sparse and cells > MOST_CELLS:
        raise ProblemError(
            f"dense counts of {n_states} states and {n_actions} actions do not fit: leave out"
            " sparse=False"
        )
    return cells > DENSE_CELLS if sparse is None else bool(sparse)


def allowed_mask(
    allowed: Any, size: Size, ended: np.ndarray, n_sa: np.ndarray, masked_baseline: str
) -> np.ndarray:
    """The mask of allowed actions over all states; terminal states, in which nothing is chosen,
    allow everything.
    """
    shape = (size.n_states, size.n_actions)
    if allowed is None:
        return np.ones(shape, dtype=bool)
    mask = plain_array("allowed", allowed, ProblemError)
    if mask.dtype != bool:
        raise ProblemError(f"allowed must be a boolean mask [S, A], got {mask.dtype}")
    if mask.shape == (size.n_states - size.has_end, size.n_actions) and size.has_end:
        mask = np.concatenate([mask, np.ones((1, size.n_actions), dtype=bool)])
    if mask.shape != shape:
        raise ProblemError(f"allowed must be [S, A] = {list(shape)}, got {list(mask.shape)}")
    mask[ended] = True
    empty = np.flatnonzero(~mask.any(axis=1))
    if len(empty):
        raise ProblemError(
            f"state {size.labels.state(empty[0])} has no allowed action ({len(empty)} such states)"
        )
    taken = np.argwhere((n_sa > 0) & ~mask)
    if len(taken) and masked_baseline == "error":
        s, a = taken[0]
        raise LogError(
            f"the log takes {len(taken)} pairs that are not allowed, first {size.labels.pair(s, a)}"
            f' ({int(n_sa[s, a])} times): correct the mask, or pass masked_baseline="renormalise"'
            " to keep the rows as data and never choose these actions"
        )
    return mask


def given_baseline(
    pi_b: np.ndarray,
    size: Size,
    ended: np.ndarray,
    mask: np.ndarray,
    masked_baseline: str,
    notes: list[str],
) -> np.ndarray:
    """The given baseline over all states; rows of terminal states may be zero, and are filled
    uniformly: nothing is chosen there.
    """
    if pi_b.shape == (size.n_states - size.has_end, size.n_actions) and size.has_end:
        pi_b = np.concatenate([pi_b, np.zeros((1, size.n_actions))])
    if pi_b.shape != (size.n_states, size.n_actions):
        raise BaselineError(
            f"pi_b must be [S, A] = [{size.n_states}, {size.n_actions}], got {list(pi_b.shape)}"
        )
    blank = ended & (pi_b == 0).all(axis=1)
    pi_b[blank] = 1.0 / size.n_actions
    if masked_baseline == "renormalise" and not mask.all():
        dropped = np.where(mask, 0.0, pi_b).sum(axis=1)
        kept = np.where(mask, pi_b, 0.0)
        # A row that is no probability row is not mended here: Problem refuses it.
        uses = (dropped > 0) & (pi_b >= 0).all(axis=1) & (abs(pi_b.sum(axis=1) - 1) <= SUM_TO_ONE)
        lost = np.flatnonzero(uses & (kept.sum(axis=1) <= 0))
        if len(lost):
            raise BaselineError(
                f"state {size.labels.state(lost[0])}: the baseline uses forbidden actions only"
                f" ({len(lost)} such states); nothing is left to renormalise: correct pi_b or the"
                " mask"
            )
        if uses.any():
            notes.append(
                f"the baseline used forbidden actions in {int(uses.sum())} states (up to"
                f" {dropped[uses].max():.1%} of a row); {RENORMALISED} over the allowed ones"
            )
            pi_b[uses] = kept[uses] / kept[uses].sum(axis=1, keepdims=True)
    return pi_b


def declared_rewards(reward_table: Any, size: Size) -> np.ndarray | None:
    """The declared rewards as [S, 1 or A, S']; arriving at "(end)" is worth what the log says,
    so a table needs all states.
    """
    if reward_table is None:
        return None
    table = number_array("reward_table", reward_table, ProblemError)
    s, a = size.n_states, size.n_actions
    if size.has_end:
        raise ProblemError(
            f'a reward_table cannot say what arriving at the extra state "{END}" pays: give'
            " next_state on terminal rows"
        )
    if table.shape not in ((s, s), (s, a, s)):
        raise ProblemError(
            f"reward_table must be [S, S'] = {[s, s]} or [S, A, S'] = {[s, a, s]}, got"
            f" {list(table.shape)}"
        )
    wrong = np.argwhere(~(np.abs(table) <= LARGEST))
    if len(wrong):
        raise ProblemError(
            f"reward_table must be finite (at most {LARGEST:g} in size), entry {wrong[0].tolist()}"
            f" is {table[tuple(wrong[0])]} ({len(wrong)} such entries)"
        )
    table.flags.writeable = False
    return table[:, None, :] if table.ndim == 2 else table


def given_start(start: Any, size: Size) -> np.ndarray:
    """A distribution over states: given as such, or as a single state."""
    given = number_array("start", start, ProblemError)
    if given.ndim == 0:
        if not (0 <= given < size.n_states and given == np.floor(given)):
            raise ProblemError(
                f"start must be a state in 0..{size.n_states - 1} or a distribution over states,"
                f" got {start!r}"
            )
        state, given = int(given), np.zeros(size.n_states)
        given[state] = 1.0
    if size.has_end and given.shape == (size.n_states - 1,):
        given = np.append(given, 0.0)
    if given.shape != (size.n_states,):
        raise ProblemError(
            f"start must be a distribution over {size.n_states} states, got shape {given.shape}"
        )
    wrong = np.flatnonzero(~(given >= 0))
    if len(wrong):
        name = size.labels.state(wrong[0])
        raise ProblemError(
            f"start must hold probabilities, state {name} has {given[wrong[0]]} ({len(wrong)} such"
            " states)"
        )
    if not abs(given.sum() - 1) <= SUM_TO_ONE:
        raise ProblemError(
            f"start must hold probabilities that sum to 1, got the sum {given.sum():.12g}"
        )
    return given


def found_ranges(
    seen: tuple[float, float],
    gamma: float,
    table: np.ndarray | None,
    reward_range: Any,
    returns: Any,
    has_terminal: bool,
) -> tuple[tuple[float, float], ReturnRange, list[str]]:
    """(reward range, return range, notes): declared, or observed and said so; `seen` are the
    least and the largest reward.
    """
    low, high = seen
    notes = []
    if reward_range is not None:
        rewards = pair_of_numbers("reward_range", reward_range)
        spans = [("rewards go", low, high)] + (
            [] if table is None else [("reward_table goes", float(table.min()), float(table.max()))]
        )
        for what, least, most in spans:
            if least < rewards[0] or most > rewards[1]:
                raise ProblemError(
                    f"reward_range {rewards} does not hold: {what} from {least:g} to {most:g}"
                )
    elif table is not None:
        rewards = (min(low, float(table.min())), max(high, float(table.max())))
    else:
        rewards = (low, high)
        if returns is None:
            notes.append(
                f"the reward range [{low:g}, {high:g}] is observed, not declared: values of unseen"
                " pairs rest on it"
            )
    if returns is not None:
        return rewards, ReturnRange(*pair_of_numbers("return_range", returns), declared=True), notes
    declared = reward_range is not None or table is not None
    return (
        rewards,
        return_range(rewards, gamma, has_terminal=has_terminal, declared=declared),
        notes,
    )
