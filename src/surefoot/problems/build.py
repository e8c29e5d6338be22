"""`surefoot.problem`: from plain arrays of one log to a checked Problem."""

from __future__ import annotations

from typing import Any

import numpy as np

from surefoot.core import Batch, count, make_batch
from surefoot.core.batch import LARGEST, number_array
from surefoot.errors import BaselineError, ProblemError
from surefoot.parameters import check_name
from surefoot.problems.given import (
    allowed_mask,
    checked_gamma,
    declared_rewards,
    found_ranges,
    given_baseline,
    given_start,
    held_sparse,
)
from surefoot.problems.montecarlo import check_cut_returns
from surefoot.problems.problem import Problem
from surefoot.problems.ranges import check_returns, number, pair_of_numbers


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

    state, action, next_state   ids 0, 1, 2, ...; next_state -1 (or left out altogether) on a row
                                flagged `terminal` leads to an extra state "(end)"; left out, it is
                                the state of the episode's next row
    reward, episode, time       numbers; any ids; the order within an episode (default: as the rows
                                come)
    terminal, truncated         flags; an episode that ends neither way is cut
    pi_b [S, A]                 the baseline; None estimates it from the log and marks the problem
                                as such
    gamma                       the discount factor in [0, 1]; 1 needs a return_range
    start                       a state, or a distribution over states, taken as known (default:
                                where the episodes of the log started, an estimate that certificates
                                pay for)
    terminal_states, allowed    states without actions; mask [S, A] of the actions that may be used
    reward_range, return_range  (low, high) you vouch for, of returns from any state on; else
                                observed, and noted as an assumption
    reward_table                [S, S'] or [S, A, S'], where known
    unseen_states, ties         "first-action", "lowest-index": as the published code; the defaults
                                keep the baseline
    masked_baseline             "renormalise" takes forbidden actions out of the baseline; the
                                default is an error
    cut_returns                 how Monte-Carlo returns treat cut episodes, see
                                `surefoot.monte_carlo`
    sparse                      hold the counts in CSR (default: where S * A * S > 5,000,000)

    >>> import numpy as np, surefoot
    >>> problem = surefoot.problem(
    ...     state=[0, 1, 0], action=[0, 1, 1], reward=[0., 1., 0.], next_state=[1, 0, 0],
    ...     episode=[0, 0, 0], gamma=0.9, reward_range=(0, 1))
    >>> surefoot.improve(problem, "basic-rl").pi.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    check_name("masked_baseline", masked_baseline, ("error", "renormalise"))
    check_cut_returns(cut_returns)
    gamma = checked_gamma(gamma)
    if pi_b is not None:
        pi_b = number_array("pi_b", pi_b, BaselineError)
        if pi_b.ndim != 2:
            raise BaselineError(f"pi_b must be [S, A], got shape {pi_b.shape}")
        wrong = np.argwhere(~(np.abs(pi_b) <= LARGEST))
        if len(wrong):
            s, a = wrong[0]
            raise BaselineError(
                f"pi_b must hold probabilities, action {a} of state {s} has {pi_b[s, a]}"
                f" ({len(wrong)} such entries)"
            )
        n_states = pi_b.shape[0] if n_states is None else n_states
        n_actions = pi_b.shape[1] if n_actions is None else n_actions
    n_states, n_actions = _size("n_states", n_states), _size("n_actions", n_actions)
    log = make_batch(
        state=state,
        action=action,
        reward=reward,
        next_state=next_state,
        episode=episode,
        time=time,
        terminal=terminal,
        truncated=truncated,
        n_states=n_states,
        n_actions=n_actions,
        terminal_states=terminal_states,
    )
    is_sparse = held_sparse(sparse, log.n_states, log.n_actions)
    counts = count(
        log.state,
        log.action,
        log.reward,
        log.next_state,
        log.n_states,
        log.n_actions,
        as_sparse=is_sparse,
    )
    n_sa = counts.n_sa.reshape(log.n_states, log.n_actions)
    ended = np.zeros(log.n_states, dtype=bool)
    ended[list(log.terminal_states)] = True
    mask = allowed_mask(allowed, log, ended, n_sa, masked_baseline)
    notes = _log_notes(log)
    estimated = pi_b is None
    if pi_b is None:
        pi_b = estimate_baseline(n_sa, mask)
        notes.append(
            "the baseline is estimated from the log; guarantees for a known baseline do not apply"
        )
    else:
        pi_b = given_baseline(pi_b, log, ended, mask, masked_baseline, notes)
        impossible = int(n_sa[(pi_b == 0) & mask].sum())
        if impossible:
            notes.append(f"{impossible} logged actions have probability 0 under the given baseline")
    table = declared_rewards(reward_table, log)
    notes += _check_rows(log, gamma, reward_range, return_range)
    seen = float(log.reward.min()), float(log.reward.max())
    rewards, returns, declared_note = found_ranges(
        seen, gamma, table, reward_range, return_range, bool(ended.any())
    )
    notes += declared_note
    first = _first_states(log) if start is None else given_start(start, log)
    return Problem(
        counts=counts,
        pi_b=pi_b,
        gamma=gamma,
        start=first,
        terminal=ended,
        allowed=mask,
        return_range=returns,
        reward_range=rewards,
        reward_table=table,
        pi_b_estimated=estimated,
        unseen_states=unseen_states,
        ties=ties,
        cut_returns=cut_returns,
        log=log,
        n_bound_states=log.n_states - log.has_end,
        notes=tuple(notes),
        start_episodes=log.n_episodes if start is None else None,
    )


def estimate_baseline(n_sa: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
    """pi_b(a|s) = n(s, a) / n(s); uniform over the allowed actions where the state was never
    visited (Simao et al. 2020).
    """
    allowed = np.ones(np.shape(n_sa), dtype=bool) if allowed is None else np.asarray(allowed)
    if not allowed.any(axis=-1).all():
        raise ProblemError(
            f"every state needs an allowed action, {int((~allowed.any(axis=-1)).sum())} have none"
        )
    n_sa = np.where(allowed, n_sa, 0.0)
    n_s = n_sa.sum(axis=-1, keepdims=True)
    uniform = allowed / allowed.sum(axis=-1, keepdims=True)
    pi_b: np.ndarray = np.where(n_s > 0, n_sa / np.where(n_s > 0, n_s, 1.0), uniform)
    return pi_b


def _size(name: str, n: Any) -> int | None:
    """A number of states or actions; None where it is left to the log."""
    if n is None:
        return None
    value = number(name, n, "a whole number >= 1")
    if not (value >= 1 and value.is_integer()):
        raise ProblemError(f"{name} must be a whole number >= 1, got {n!r}")
    return int(value)


def _check_rows(log: Batch, gamma: float, reward_range: Any, returns: Any) -> list[str]:
    """Declared ranges hold in every row; the first row that breaks one is named.

    Notes on what could not be checked.
    """
    if reward_range is not None:
        low, high = pair_of_numbers("reward_range", reward_range)
        outside = np.flatnonzero((log.reward < low) | (log.reward > high))
        if len(outside):
            raise ProblemError(
                f"reward_range {(low, high)} does not hold: row {log.row[outside[0]]} has reward"
                f" {log.reward[outside[0]]} ({len(outside)} such rows)"
            )
    return (
        []
        if returns is None
        else check_returns(log, gamma, pair_of_numbers("return_range", returns))
    )


def _first_states(log: Batch) -> np.ndarray:
    """Where the episodes of the log started, as a distribution over states."""
    first = log.state[np.append(True, log.last[:-1])]
    found: np.ndarray = np.bincount(first, minlength=log.n_states) / len(first)
    return found


def _log_notes(log: Batch) -> list[str]:
    """What a user should know about the log itself."""
    notes = []
    if log.left_out:
        notes.append(
            f"the last rows of {log.left_out} cut episodes are left out: without next_state they"
            " lead nowhere"
        )
    cut = int(log.cuts.sum())
    if cut:
        notes.append(
            f"{cut} of {log.n_episodes} episodes are cut, not ended: Monte-Carlo returns that run"
            " into a cut are short"
        )
    contradiction = log.contradictions()
    if contradiction:
        notes.append(contradiction)
    return notes
