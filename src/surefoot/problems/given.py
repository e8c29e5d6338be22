"""A counted log, and what is given with it (gamma, mask, baseline, rewards, start), checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from surefoot.core import END, Batch, Counts, Labels, Policy, Returns
from surefoot.core.array_checks import LARGEST, not_negative, number, number_array, plain_array
from surefoot.core.errors import (
    BaselineError,
    LogError,
    ParameterError,
    ProblemError,
    SurefootError,
)
from surefoot.core.labels import unknown

NEARLY = 1e-6  # how far the sum of what a function returns may be from 1; it is rescaled

DENSE_CELLS = 5_000_000  # S * A * S up to which counts are held densely (40 MB)
MOST_CELLS = 10**9  # S * A * S beyond which they cannot be (8 GB)
SUM_TO_ONE = 1e-9  # a row of probabilities may miss 1 by this much


@dataclass(frozen=True, kw_only=True, repr=False)
class Counted:
    """The counts of a log, its terminal states [S], its (lowest, highest) reward and its labels.

    has_end   whether the last state is the extra state "(end)"
    notes     what a user should know about the log itself
    batch     its rows, where they are carried along
    returns   its Monte-Carlo returns, where they are computed already
    blocks    its rows in blocks of whole episodes, to check returns; None where they are not read
    time_limit, n_unfollowed, n_dropped   see `Problem`
    """

    counts: Counts
    terminal: np.ndarray
    rewards: tuple[float, float]
    has_end: bool
    labels: Labels = field(default=Labels())
    notes: tuple[str, ...] = ()
    batch: Batch | None = None
    returns: Returns | None = None
    blocks: Iterable[Batch] | None = None
    time_limit: int = 0
    n_unfollowed: int = 0
    n_dropped: int = 0

    @property
    def n_states(self) -> int:
        """S, "(end)" included."""
        return self.counts.n_states

    @property
    def n_actions(self) -> int:
        """A."""
        return self.counts.n_actions

    @cached_property
    def n_sa(self) -> np.ndarray:
        """How often each pair was taken, [S, A]."""
        return np.asarray(self.counts.n_sa).reshape(self.n_states, self.n_actions)


@dataclass(frozen=True)
class Start:
    """A distribution over states: known, that of `episodes` first states, or that of all visits."""

    distribution: np.ndarray
    episodes: int | None = None
    is_visits: bool = False
    notes: tuple[str, ...] = ()


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


def joint_mask(allowed: Any, forbidden: Any) -> Any:
    """What is allowed and not forbidden; None where neither mask [S, A] is given."""
    if forbidden is None:
        return allowed
    taboo = plain_array("forbidden", forbidden, ProblemError)
    if taboo.dtype != bool:
        raise ProblemError(f"forbidden must be a boolean mask [S, A], got {taboo.dtype}")
    if allowed is None:
        return ~taboo
    mask = plain_array("allowed", allowed, ProblemError)
    if mask.shape != taboo.shape or mask.dtype != bool:
        raise ProblemError(
            "allowed and forbidden must be boolean masks of one shape [S, A], got"
            f" {mask.dtype} {list(mask.shape)} and {list(taboo.shape)}"
        )
    return mask & ~taboo


def allowed_mask(allowed: Any, data: Counted, masked_baseline: str) -> np.ndarray:
    """The mask of allowed actions over all states; terminal states allow everything."""
    if allowed is None:
        return np.ones((data.n_states, data.n_actions), dtype=bool)
    mask = plain_array("allowed", allowed, ProblemError)
    if mask.dtype != bool:
        raise ProblemError(f"allowed must be a boolean mask [S, A], got {mask.dtype}")
    mask = _over_all_states("allowed", mask, data, ProblemError)
    mask[data.terminal] = True
    empty = np.flatnonzero(~mask.any(axis=1))
    if len(empty):
        raise ProblemError(
            f"state {data.labels.state(empty[0])} has no allowed action ({len(empty)} such states)"
        )
    taken = np.argwhere((data.n_sa > 0) & ~mask)
    if len(taken) and masked_baseline == "error":
        s, a = taken[0]
        raise LogError(
            f"the log takes {len(taken)} pairs that are not allowed, first {data.labels.pair(s, a)}"
            f" ({int(data.n_sa[s, a])} times): correct the mask, or pass --renormalise"
            ' (masked_baseline="renormalise" in Python) to keep the rows as data and never choose'
            " these actions"
        )
    return mask


def _over_all_states(
    name: str, x: np.ndarray, data: Counted, error: type[SurefootError]
) -> np.ndarray:
    """x [S, A], with a row of zeros for the extra state "(end)" where it has none."""
    shape = (data.n_states, data.n_actions)
    if data.has_end and x.shape == (data.n_states - 1, data.n_actions):
        x = np.concatenate([x, np.zeros_like(x, shape=(1, data.n_actions))])
    if x.shape != shape:
        raise error(f"{name} must be [S, A] = {list(shape)}, got {list(x.shape)}")
    return x


def estimate_baseline(n_sa: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
    """n(s, a) / n(s); uniform over allowed actions in states never visited (Simao et al. 2020)."""
    n_sa = number_array("n_sa", n_sa, ProblemError)
    not_negative("n_sa", n_sa, ProblemError)
    allowed = np.ones(n_sa.shape, dtype=bool) if allowed is None else np.asarray(allowed)
    if not allowed.any(axis=-1).all():
        raise ProblemError(
            f"every state needs an allowed action, {int((~allowed.any(axis=-1)).sum())} have none"
        )
    n_sa = np.where(allowed, n_sa, 0.0)
    n_s = n_sa.sum(axis=-1, keepdims=True)
    uniform = allowed / allowed.sum(axis=-1, keepdims=True)
    pi_b: np.ndarray = np.where(n_s > 0, n_sa / np.where(n_s > 0, n_s, 1.0), uniform)
    return pi_b


def estimated_policy(
    n_sa: np.ndarray,
    labels: Labels,
    smoothing: float = 0.0,
    allowed: np.ndarray | None = None,
) -> Policy:
    """pi_b(a|s) = (n(s, a) + smoothing) / sum over allowed a, with a note that it is estimated."""
    is_number = isinstance(smoothing, (int, float)) and not isinstance(smoothing, bool)
    if not is_number or not 0 <= smoothing < np.inf:
        raise ParameterError(f"smoothing must be a number >= 0, got {smoothing!r}")
    added = f"with {smoothing:g} added to every count"
    note = (
        "the baseline is estimated from the log"
        f" ({added if smoothing else 'by frequencies, without smoothing'}); guarantees for a known"
        " baseline do not apply"
    )
    pi = estimate_baseline(n_sa + smoothing, allowed)
    return Policy(pi=pi, labels=labels, estimated=True, smoothing=float(smoothing), notes=(note,))


def baseline_array(pi_b: Any) -> np.ndarray:
    """A fresh array [S, A] of finite numbers: a policy's, or given as such."""
    if isinstance(pi_b, Policy):
        return np.array(pi_b.pi)
    found = number_array("pi_b", pi_b, BaselineError)
    if found.ndim != 2:
        raise BaselineError(f"pi_b must be [S, A], got shape {found.shape}")
    wrong = np.argwhere(~(np.abs(found) <= LARGEST))
    if len(wrong):
        s, a = wrong[0]
        raise BaselineError(
            f"pi_b must hold probabilities, action {a} of state {s} has {found[s, a]}"
            f" ({len(wrong)} such entries)"
        )
    return found


def given_baseline(given: Any, data: Counted, notes: list[str]) -> np.ndarray:
    """The given baseline over all states; what is to be known about it joins the notes.

    Rows of terminal states may be zero, and are filled uniformly: nothing is chosen there.
    """
    if isinstance(given, Policy):
        if data.labels.states and not data.labels.same(given.labels):
            raise BaselineError(
                "this baseline belongs to a log with other labels: read it again with this log"
            )
        notes += given.notes
    pi_b = _over_all_states("pi_b", baseline_array(given), data, BaselineError)
    blank = data.terminal & (pi_b == 0).all(axis=1)
    pi_b[blank] = 1.0 / data.n_actions
    return pi_b


def renormalise(pi_b: np.ndarray, data: Counted, mask: np.ndarray, notes: list[str]) -> bool:
    """Take forbidden actions out of a baseline, in place; whether it used any."""
    dropped = np.where(mask, 0.0, pi_b).sum(axis=1)
    kept = np.where(mask, pi_b, 0.0)
    # A row that is no probability row is not mended here: Problem refuses it.
    uses = (dropped > 0) & (pi_b >= 0).all(axis=1) & (abs(pi_b.sum(axis=1) - 1) <= SUM_TO_ONE)
    lost = np.flatnonzero(uses & (kept.sum(axis=1) <= 0))
    if len(lost):
        raise BaselineError(
            f"state {data.labels.state(lost[0])}: the baseline uses forbidden actions only"
            f" ({len(lost)} such states); nothing is left to renormalise: correct pi_b or the mask"
        )
    if not uses.any():
        return False
    notes.append(
        f"the baseline used forbidden actions in {int(uses.sum())} states (up to"
        f" {dropped[uses].max():.1%} of a row); renormalised over the allowed ones"
    )
    pi_b[uses] = kept[uses] / kept[uses].sum(axis=1, keepdims=True)
    return True


def impossible_rows(pi_b: np.ndarray, data: Counted, mask: np.ndarray) -> list[str]:
    """A note on logged actions that a given baseline never takes."""
    rows = int(data.n_sa[(pi_b == 0) & mask].sum())
    return [f"{rows} logged actions have probability 0 under the given baseline"] if rows else []


def declared_rewards(reward_table: Any, data: Counted) -> np.ndarray | None:
    """The declared rewards as [S, 1 or A, S'] ([S'] is not copied S times); arriving at "(end)"
    is worth what the log says, so a table needs all states.
    """
    if reward_table is None:
        return None
    table = number_array("reward_table", reward_table, ProblemError)
    s, a = data.n_states, data.n_actions
    if data.has_end:
        raise ProblemError(
            f'a reward_table cannot say what arriving at the extra state "{END}" pays: give'
            " next_state on terminal rows"
        )
    if table.shape not in ((s,), (s, s), (s, a, s)):
        raise ProblemError(
            f"reward_table must be [S'] = {[s]}, [S, S'] = {[s, s]} or [S, A, S'] = {[s, a, s]},"
            f" got {list(table.shape)}"
        )
    wrong = np.argwhere(~(np.abs(table) <= LARGEST))
    if len(wrong):
        raise ProblemError(
            f"reward_table must be finite (at most {LARGEST:g} in size), entry {wrong[0].tolist()}"
            f" is {table[tuple(wrong[0])]} ({len(wrong)} such entries)"
        )
    table.flags.writeable = False
    if table.ndim == 1:
        return np.broadcast_to(table, (s, 1, s))
    return table[:, None, :] if table.ndim == 2 else table


def given_start(start: Any, data: Counted) -> np.ndarray:
    """A distribution over states: given as such, or as a single state."""
    given = number_array("start", start, ProblemError)
    if given.ndim == 0:
        if not (0 <= given < data.n_states and given == np.floor(given)):
            raise ProblemError(
                f"start must be a state in 0..{data.n_states - 1} or a distribution over states,"
                f" got {start!r}"
            )
        state, given = int(given), np.zeros(data.n_states)
        given[state] = 1.0
    if data.has_end and given.shape == (data.n_states - 1,):
        given = np.append(given, 0.0)
    if given.shape != (data.n_states,):
        raise ProblemError(
            f"start must be a distribution over {data.n_states} states, got shape {given.shape}"
        )
    wrong = np.flatnonzero(~(given >= 0))
    if len(wrong):
        name = data.labels.state(wrong[0])
        raise ProblemError(
            f"start must hold probabilities, state {name} has {given[wrong[0]]} ({len(wrong)} such"
            " states)"
        )
    if not abs(given.sum() - 1) <= SUM_TO_ONE:
        raise ProblemError(
            f"start must hold probabilities that sum to 1, got the sum {given.sum():.12g}"
        )
    return given


def tabulated(
    function: Callable[[Any], Any], labels: Labels, n_states: int, n_actions: int, terminal: Any
) -> np.ndarray:
    """pi_b [S, A] of a function that is called once for each state in which somebody can act.

    It gets the label of the state (a tuple where it has several columns; its id where there are no
    labels), and returns {action: probability}, actions that it leaves out having 0, or the
    probabilities of all actions in their order.
    """
    states = labels.states or tuple(range(n_states))
    if not labels.actions:
        labels = Labels(states, tuple(range(n_actions)))
    pi = np.zeros((n_states, n_actions))
    for s, label in enumerate(states):
        if terminal[s]:
            continue
        try:
            said = function(label)
        except Exception as error:  # a function of the user may raise anything
            raise BaselineError(
                f"the baseline function fails in state {labels.state(s)}:"
                f" {type(error).__name__}: {error}"
            ) from error
        pi[s] = checked_row(said, labels, f"the baseline function, in state {labels.state(s)},")
    return pi


def checked_row(said: Any, labels: Labels, where: str) -> np.ndarray:
    """Probabilities of all actions, checked."""
    n = len(labels.actions)
    if isinstance(said, Mapping):
        row = np.zeros(n)
        for action, p in said.items():
            a = labels.find_action(action)
            if a is None and p != 0:
                raise BaselineError(
                    f"{where} returned a probability of an action that the log does not have:"
                    f" {unknown('action', action, labels.actions)}; if it exists, name all actions"
                    " when reading the log (actions=[...])"
                )
            if a is not None:
                row[a] = _probability(p, where)
    elif isinstance(said, (list, tuple, np.ndarray)):
        if np.shape(said) != (n,):
            raise BaselineError(
                f"{where} must return {n} probabilities, in the order of the actions, or a dict of"
                f" them; it returned the shape {list(np.shape(said))}"
            )
        row = np.array([_probability(p, where) for p in said])
    else:
        raise BaselineError(
            f"{where} must return {{action: probability}} or an array of probabilities, got"
            f" {said!r}; one that always takes an action returns {{action: 1}}"
        )
    total = float(row.sum())
    if abs(total - 1) > NEARLY:
        raise BaselineError(f"{where} returned probabilities that sum to {total:.6g}, not 1")
    return row / total


def _probability(p: Any, where: str) -> float:
    try:
        found = float(p)
    except (TypeError, ValueError) as error:
        raise BaselineError(f"{where} must return probabilities, got {p!r}") from error
    if not 0 <= found <= 1 + NEARLY:
        raise BaselineError(f"{where} must return probabilities, got {found:g}")
    return found
