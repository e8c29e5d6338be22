"""`surefoot.problem`: from plain arrays of one log to a checked Problem."""

from __future__ import annotations

from typing import Any

import numpy as np

from surefoot.core import END, Batch, count, make_batch
from surefoot.core.batch import LARGEST, number_array, plain_array
from surefoot.errors import BaselineError, LogError, ProblemError
from surefoot.problems.montecarlo import check_cut_returns
from surefoot.problems.problem import SUM_TO_ONE, Problem, check_name
from surefoot.problems.ranges import ReturnRange, number, pair_of_numbers, return_range

DENSE_CELLS = 5_000_000  # S * A * S up to which counts are held densely (40 MB)
MOST_CELLS = 10**9  # S * A * S beyond which they cannot be (8 GB)


def problem(
    *,
    state: Any,
    action: Any,
    reward: Any,
    next_state: Any = None,
    episode: Any,
    time: Any = None,
    terminal: Any = None,
    truncated: Any = None,
    pi_b: Any = None,
    gamma: float,
    start: Any = None,
    n_states: int | None = None,
    n_actions: int | None = None,
    terminal_states: Any = (),
    allowed: Any = None,
    reward_range: Any = None,
    return_range: Any = None,
    reward_table: Any = None,
    unseen_states: str = "baseline",
    ties: str = "baseline",
    masked_baseline: str = "error",
    cut_returns: str | int = "as-end",
    sparse: bool | None = None,
) -> Problem:
    """Build a Problem from one log: arrays with one entry a step.

    state, action, next_state   ids 0, 1, 2, ...; next_state -1 (or left out altogether) on a row flagged `terminal` leads to an
                                extra state "(end)"; left out, it is the state of the episode's next row
    reward, episode, time       numbers; any ids; the order within an episode (default: as the rows come)
    terminal, truncated         flags; an episode that ends neither way is cut
    pi_b [S, A]                 the baseline; None estimates it from the log and marks the problem as such
    gamma                       the discount factor in [0, 1]; 1 needs a return_range
    start                       a state, or a distribution over states (default: where the episodes started)
    terminal_states, allowed    states without actions; mask [S, A] of the actions that may be used
    reward_range, return_range  (low, high) you vouch for; else observed, and noted as an assumption
    reward_table                [S, S'] or [S, A, S'], where known
    unseen_states, ties         "first-action", "lowest-index": as the published code; the defaults keep the baseline
    masked_baseline             "renormalise" takes forbidden actions out of the baseline; the default is an error
    cut_returns                 how Monte-Carlo returns treat cut episodes, see `surefoot.monte_carlo`
    sparse                      hold the counts in CSR (default: where S * A * S > 5,000,000)

    >>> import numpy as np, surefoot
    >>> problem = surefoot.problem(state=[0, 1, 0], action=[0, 1, 1], reward=[0., 1., 0.], next_state=[1, 0, 0],
    ...                            episode=[0, 0, 0], gamma=0.9, reward_range=(0, 1))
    >>> surefoot.improve(problem, "basic-rl").pi.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    check_name("masked_baseline", masked_baseline, ("error", "renormalise"))
    check_cut_returns(cut_returns)
    gamma = _gamma(gamma)
    if pi_b is not None:
        pi_b = number_array("pi_b", pi_b, BaselineError)
        if pi_b.ndim != 2:
            raise BaselineError(f"pi_b must be [S, A], got shape {pi_b.shape}")
        wrong = np.argwhere(~(np.abs(pi_b) <= LARGEST))
        if len(wrong):
            s, a = wrong[0]
            raise BaselineError(f"pi_b must hold probabilities, action {a} of state {s} has {pi_b[s, a]} ({len(wrong)} such entries)")
        n_states = pi_b.shape[0] if n_states is None else n_states
        n_actions = pi_b.shape[1] if n_actions is None else n_actions
    n_states, n_actions = _size("n_states", n_states), _size("n_actions", n_actions)
    log = make_batch(
        state=state, action=action, reward=reward, next_state=next_state, episode=episode, time=time, terminal=terminal,
        truncated=truncated, n_states=n_states, n_actions=n_actions, terminal_states=terminal_states,
    )  # fmt: skip
    is_sparse = _is_sparse(sparse, log)
    counts = count(log.state, log.action, log.reward, log.next_state, log.n_states, log.n_actions, as_sparse=is_sparse)
    n_sa = counts.n_sa.reshape(log.n_states, log.n_actions)
    ended = np.zeros(log.n_states, dtype=bool)
    ended[list(log.terminal_states)] = True
    mask = _mask(allowed, log, ended, n_sa, masked_baseline)
    notes = _log_notes(log)
    estimated = pi_b is None
    if pi_b is None:
        pi_b = estimate_baseline(n_sa, mask)
        notes.append("the baseline is estimated from the log; guarantees for a known baseline do not apply")
    else:
        pi_b = _baseline(pi_b, log, ended, mask, masked_baseline, notes)
        impossible = int(n_sa[(pi_b == 0) & mask].sum())
        if impossible:
            notes.append(f"{impossible} logged actions have probability 0 under the given baseline")
    table = _table(reward_table, log)
    rewards, returns, declared_note = _ranges(log, gamma, table, reward_range, return_range, ended)
    notes += declared_note
    return Problem(
        counts=counts, pi_b=pi_b, gamma=gamma, start=_start(start, log), terminal=ended, allowed=mask,
        return_range=returns, reward_range=rewards, reward_table=table,
        pi_b_estimated=estimated, unseen_states=unseen_states, ties=ties, cut_returns=cut_returns, log=log,
        n_bound_states=log.n_states - log.has_end, notes=tuple(notes),
    )  # fmt: skip


def estimate_baseline(n_sa: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
    """pi_b(a|s) = n(s, a) / n(s); uniform over the allowed actions where the state was never visited (Simao et al. 2020)."""
    allowed = np.ones(np.shape(n_sa), dtype=bool) if allowed is None else np.asarray(allowed)
    if not allowed.any(axis=-1).all():
        raise ProblemError(f"every state needs an allowed action, {int((~allowed.any(axis=-1)).sum())} have none")
    n_sa = np.where(allowed, n_sa, 0.0)
    n_s = n_sa.sum(axis=-1, keepdims=True)
    uniform = allowed / allowed.sum(axis=-1, keepdims=True)
    pi_b: np.ndarray = np.where(n_s > 0, n_sa / np.where(n_s > 0, n_s, 1.0), uniform)
    return pi_b


def _gamma(gamma: Any) -> float:
    value = number("gamma", gamma, "a number in [0, 1]")
    if not 0 <= value <= 1:
        raise ProblemError(f"gamma must lie in [0, 1], got {gamma!r}")
    return value


def _size(name: str, n: Any) -> int | None:
    """A number of states or actions; None where it is left to the log."""
    if n is None:
        return None
    value = number(name, n, "a whole number >= 1")
    if not (value >= 1 and value.is_integer()):
        raise ProblemError(f"{name} must be a whole number >= 1, got {n!r}")
    return int(value)


def _is_sparse(sparse: Any, log: Batch) -> bool:
    """Whether to hold the counts in CSR: as asked, or where the dense array would be large."""
    if sparse is not None and not isinstance(sparse, (bool, np.bool_)):
        raise ProblemError(f"sparse must be True, False or None, got {sparse!r}")
    cells = log.n_states**2 * log.n_actions
    if sparse is not None and not sparse and cells > MOST_CELLS:
        raise ProblemError(f"dense counts of {log.n_states} states and {log.n_actions} actions do not fit: leave out sparse=False")
    return cells > DENSE_CELLS if sparse is None else bool(sparse)


def _mask(allowed: Any, log: Batch, ended: np.ndarray, n_sa: np.ndarray, masked_baseline: str) -> np.ndarray:
    """The mask of allowed actions over all states; terminal states, in which nothing is chosen, allow everything."""
    shape = (log.n_states, log.n_actions)
    if allowed is None:
        return np.ones(shape, dtype=bool)
    mask = plain_array("allowed", allowed, ProblemError)
    if mask.dtype != bool:
        raise ProblemError(f"allowed must be a boolean mask [S, A], got {mask.dtype}")
    if mask.shape == (log.n_states - log.has_end, log.n_actions) and log.has_end:
        mask = np.concatenate([mask, np.ones((1, log.n_actions), dtype=bool)])
    if mask.shape != shape:
        raise ProblemError(f"allowed must be [S, A] = {list(shape)}, got {list(mask.shape)}")
    mask[ended] = True
    empty = np.flatnonzero(~mask.any(axis=1))
    if len(empty):
        raise ProblemError(f"state {empty[0]} has no allowed action ({len(empty)} such states)")
    taken = np.argwhere((n_sa > 0) & ~mask)
    if len(taken) and masked_baseline == "error":
        s, a = taken[0]
        raise LogError(
            f"the log takes {len(taken)} pairs that are not allowed, first action {a} in state {s} ({int(n_sa[s, a])} times): correct "
            'the mask, or pass masked_baseline="renormalise" to keep the rows as data and never choose these actions'
        )
    return mask


def _baseline(pi_b: np.ndarray, log: Batch, ended: np.ndarray, mask: np.ndarray, masked_baseline: str, notes: list[str]) -> np.ndarray:
    """The given baseline over all states; rows of terminal states may be zero, and are filled uniformly: nothing is chosen there."""
    if pi_b.shape == (log.n_states - log.has_end, log.n_actions) and log.has_end:
        pi_b = np.concatenate([pi_b, np.zeros((1, log.n_actions))])
    if pi_b.shape != (log.n_states, log.n_actions):
        raise BaselineError(f"pi_b must be [S, A] = [{log.n_states}, {log.n_actions}], got {list(pi_b.shape)}")
    blank = ended & (pi_b == 0).all(axis=1)
    pi_b[blank] = 1.0 / log.n_actions
    if masked_baseline == "renormalise" and not mask.all():
        dropped = np.where(mask, 0.0, pi_b).sum(axis=1)
        kept = np.where(mask, pi_b, 0.0)
        # A row that is no probability row is not mended here: Problem refuses it.
        uses = (dropped > 0) & (pi_b >= 0).all(axis=1) & (abs(pi_b.sum(axis=1) - 1) <= SUM_TO_ONE)
        lost = np.flatnonzero(uses & (kept.sum(axis=1) <= 0))
        if len(lost):
            raise BaselineError(
                f"state {lost[0]}: the baseline uses forbidden actions only ({len(lost)} such states); nothing is left to "
                "renormalise: correct pi_b or the mask"
            )
        if uses.any():
            notes.append(
                f"the baseline used forbidden actions in {int(uses.sum())} states (up to {dropped[uses].max():.1%} of a row); "
                "renormalised over the allowed ones"
            )
            pi_b[uses] = kept[uses] / kept[uses].sum(axis=1, keepdims=True)
    return pi_b


def _table(reward_table: Any, log: Batch) -> np.ndarray | None:
    """The declared rewards as [S, 1 or A, S']; arriving at "(end)" is worth what the log says, so a table needs all states."""
    if reward_table is None:
        return None
    table = number_array("reward_table", reward_table, ProblemError)
    s, a = log.n_states, log.n_actions
    if log.has_end:
        raise ProblemError(f'a reward_table cannot say what arriving at the extra state "{END}" pays: give next_state on terminal rows')
    if table.shape not in ((s, s), (s, a, s)):
        raise ProblemError(f"reward_table must be [S, S'] = {[s, s]} or [S, A, S'] = {[s, a, s]}, got {list(table.shape)}")
    wrong = np.argwhere(~(np.abs(table) <= LARGEST))
    if len(wrong):
        raise ProblemError(
            f"reward_table must be finite (at most {LARGEST:g} in size), entry {wrong[0].tolist()} is {table[tuple(wrong[0])]} "
            f"({len(wrong)} such entries)"
        )
    table.flags.writeable = False
    return table[:, None, :] if table.ndim == 2 else table


def _ranges(
    log: Batch, gamma: float, table: np.ndarray | None, reward_range: Any, returns: Any, ended: np.ndarray
) -> tuple[tuple[float, float], ReturnRange, list[str]]:
    """(reward range, return range, notes): declared, or observed and said so."""
    low, high = float(log.reward.min()), float(log.reward.max())
    notes = []
    if reward_range is not None:
        rewards = pair_of_numbers("reward_range", reward_range)
        if low < rewards[0] or high > rewards[1]:
            outside = np.flatnonzero((log.reward < rewards[0]) | (log.reward > rewards[1]))
            raise ProblemError(
                f"reward_range {rewards} does not hold: row {log.row[outside[0]]} has reward {log.reward[outside[0]]} "
                f"({len(outside)} such rows)"
            )
        if table is not None and (table.min() < rewards[0] or table.max() > rewards[1]):
            raise ProblemError(f"reward_range {rewards} does not hold: reward_table goes from {table.min():g} to {table.max():g}")
    elif table is not None:
        rewards = (min(low, float(table.min())), max(high, float(table.max())))
    else:
        rewards = (low, high)
        if returns is None:
            notes.append(f"the reward range [{low:g}, {high:g}] is observed, not declared: values of unseen pairs rest on it")
    if returns is not None:
        lo, hi = pair_of_numbers("return_range", returns)
        outside = np.flatnonzero(log.ends & ((log.reward < lo) | (log.reward > hi)))
        if len(outside):  # the return of an episode's last step is its reward
            raise ProblemError(
                f"return_range ({lo:g}, {hi:g}) does not hold: the episode that ends in row {log.row[outside[0]]} has the return "
                f"{log.reward[outside[0]]} there ({len(outside)} such rows)"
            )
        return rewards, ReturnRange(lo, hi, declared=True), notes
    declared = reward_range is not None or table is not None
    found = return_range(rewards, gamma, has_terminal=bool(ended.any()), declared=declared)
    return rewards, found, notes


def _start(start: Any, log: Batch) -> np.ndarray:
    """A distribution over states: given, a single state, or where the episodes of the log started."""
    if start is None:
        first = log.state[np.append(True, log.last[:-1])]
        found: np.ndarray = np.bincount(first, minlength=log.n_states) / len(first)
        return found
    given = number_array("start", start, ProblemError)
    if given.ndim == 0:
        if not (0 <= given < log.n_states and given == np.floor(given)):
            raise ProblemError(f"start must be a state in 0..{log.n_states - 1} or a distribution over states, got {start!r}")
        state, given = int(given), np.zeros(log.n_states)
        given[state] = 1.0
    if log.has_end and given.shape == (log.n_states - 1,):
        given = np.append(given, 0.0)
    if given.shape != (log.n_states,):
        raise ProblemError(f"start must be a distribution over {log.n_states} states, got shape {given.shape}")
    wrong = np.flatnonzero(~(given >= 0))
    if len(wrong):
        raise ProblemError(f"start must hold probabilities, state {wrong[0]} has {given[wrong[0]]} ({len(wrong)} such states)")
    if not abs(given.sum() - 1) <= SUM_TO_ONE:
        raise ProblemError(f"start must hold probabilities that sum to 1, got the sum {given.sum():.12g}")
    return given


def _log_notes(log: Batch) -> list[str]:
    """What a user should know about the log itself."""
    notes = []
    if log.left_out:
        notes.append(f"the last rows of {log.left_out} cut episodes are left out: without next_state they lead nowhere")
    cut = int(log.cuts.sum())
    if cut:
        notes.append(f"{cut} of {log.n_episodes} episodes are cut, not ended: Monte-Carlo returns that run into a cut are short")
    contradiction = log.contradictions()
    if contradiction:
        notes.append(contradiction)
    return notes
