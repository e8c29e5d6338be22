"""`problem`: from plain arrays to a checked Problem; `build`: from any counted log to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from surefoot.core import Batch, Policy, count, make_batch
from surefoot.core.array_checks import number
from surefoot.core.errors import BaselineError, ProblemError
from surefoot.core.parameters import check_name
from surefoot.problems.given import (
    Counted,
    Start,
    allowed_mask,
    baseline_array,
    checked_gamma,
    declared_rewards,
    estimate_baseline,
    estimated_policy,
    given_baseline,
    given_start,
    held_sparse,
    impossible_rows,
    joint_mask,
    renormalise,
    tabulated,
)
from surefoot.problems.montecarlo import check_cut_returns
from surefoot.problems.problem import Problem
from surefoot.problems.ranges import checked_ranges


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
    propensity: Any = None,
    pi_b: Any = None,
    gamma: float,
    start: Any = None,
    n_states: int | None = None,
    n_actions: int | None = None,
    terminal_states: Any = (),
    sparse: bool | None = None,
    **declared: Any,
) -> Problem:
    """Build a Problem from one log: arrays with one entry a step; `declared` as in
    `surefoot.problem`.

    state, action, next_state   ids 0, 1, 2, ...; next_state -1 (or left out altogether) on a row
                                flagged `terminal` leads to an extra state "(end)"; left out, it is
                                the state of the episode's next row
    reward, episode, time       numbers; any ids; the order within an episode (default: as the rows
                                come)
    terminal, truncated         flags; an episode that ends neither way is cut
    propensity                  the probability with which each action was chosen, in (0, 1]
    terminal_states             states without actions
    start                       a state, or a distribution over states, taken as known (default:
                                where the episodes of the log started, an estimate that certificates
                                pay for)
    sparse                      hold the counts in CSR (default: where S * A * S > 5,000,000)

    >>> import surefoot
    >>> problem = surefoot.problem(
    ...     state=[0, 1, 0], action=[0, 1, 1], reward=[0., 1., 0.], next_state=[1, 0, 0],
    ...     episode=[0, 0, 0], gamma=0.9, reward_range=(0, 1))
    >>> surefoot.improve(problem, "basic-rl").pi.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if pi_b is not None and not callable(pi_b):
        pi_b = baseline_array(_by_id(pi_b))
        n_states = pi_b.shape[0] if n_states is None else n_states
        n_actions = pi_b.shape[1] if n_actions is None else n_actions
    batch = make_batch(
        state=state,
        action=action,
        reward=reward,
        next_state=next_state,
        episode=episode,
        time=time,
        terminal=terminal,
        truncated=truncated,
        propensity=propensity,
        n_states=_size("n_states", n_states),
        n_actions=_size("n_actions", n_actions),
        terminal_states=terminal_states,
    )
    data = _counted(batch, sparse)
    if callable(pi_b):
        pi_b = tabulated(pi_b, data.labels, data.n_states, data.n_actions, data.terminal)
    begin = _first_states(batch) if start is None else Start(given_start(start, data))
    return build(data, gamma, pi_b, begin, **declared)


def build(
    data: Counted,
    gamma: float,
    pi_b: Any,
    start: Start,
    *,
    allowed: Any = None,
    forbidden: Any = None,
    reward_range: Any = None,
    return_range: Any = None,
    reward_table: Any = None,
    unseen_states: str = "baseline",
    ties: str = "baseline",
    masked_baseline: str = "error",
    cut_returns: str | int = "as-end",
    made_log: np.ndarray | None = None,
) -> Problem:
    """The Problem of a counted log (of arrays or files) and of what is declared with it.

    made_log: the policy that made the log, where that cannot be told from pi_b or the counts.
    """
    check_name("masked_baseline", masked_baseline, ("error", "renormalise"))
    check_cut_returns(cut_returns)
    gamma = checked_gamma(gamma)
    mask = allowed_mask(joint_mask(allowed, forbidden), data, masked_baseline)
    notes = list(data.notes)
    if pi_b is None:
        pi_b = estimated_policy(data.n_sa, data.labels, allowed=mask)
    policy = given_baseline(pi_b, data, notes)
    estimated = isinstance(pi_b, Policy) and pi_b.estimated
    if made_log is None:
        made_log = estimate_baseline(data.n_sa) if estimated else policy.copy()
    renormalised = masked_baseline == "renormalise" and renormalise(policy, data, mask, notes)
    made_log = np.where(data.terminal[:, None], policy, made_log)  # nothing is chosen there
    if not estimated:
        notes += impossible_rows(policy, data, mask)
    table = declared_rewards(reward_table, data)
    rewards, returns = checked_ranges(data, gamma, table, reward_range, return_range, notes)
    notes += start.notes
    return Problem(
        counts=data.counts,
        pi_b=policy,
        gamma=gamma,
        start=start.distribution,
        terminal=data.terminal,
        allowed=mask,
        return_range=returns,
        reward_range=rewards,
        rewards_declared=reward_range is not None,
        reward_table=table,
        pi_b_estimated=estimated,
        pi_b_policy=pi_b.of_policy if isinstance(pi_b, Policy) else None,
        pi_b_renormalised=renormalised,
        made_log=None if np.array_equal(made_log, policy) else made_log,
        unseen_states=unseen_states,
        ties=ties,
        cut_returns=cut_returns,
        log=data.batch,
        returns_given=data.returns,
        n_bound_states=data.n_states - data.has_end,
        labels=data.labels,
        notes=tuple(notes),
        start_episodes=start.episodes,
        start_visits=start.is_visits,
        time_limit=data.time_limit,
        n_unfollowed=data.n_unfollowed,
        n_dropped=data.n_dropped,
    )


def _by_id(pi_b: Any) -> Any:
    """A baseline without labels, or one whose labels are the ids in their order."""
    if isinstance(pi_b, Policy) and not pi_b.labels.same(Policy(pi=pi_b.pi).labels):
        raise BaselineError(
            "this baseline has labels of its own, and arrays have ids 0, 1, 2, ...: give pi_b as an"
            " array [S, A] in the order of the ids"
        )
    return pi_b


def _size(name: str, n: Any) -> int | None:
    """A number of states or actions; None where it is left to the log."""
    if n is None:
        return None
    value = number(name, n, "a whole number >= 1")
    if not (value >= 1 and value.is_integer()):
        raise ProblemError(f"{name} must be a whole number >= 1, got {n!r}")
    return int(value)


def _counted(batch: Batch, sparse: bool | None) -> Counted:
    """The rows of arrays, counted."""
    s, a = batch.n_states, batch.n_actions
    rows = (batch.state, batch.action, batch.reward, batch.next_state)
    return Counted(
        counts=count(*rows, s, a, as_sparse=held_sparse(sparse, s, a)),
        terminal=batch.terminal,
        rewards=(float(batch.reward.min()), float(batch.reward.max())),
        has_end=batch.has_end,
        notes=tuple(_log_notes(batch)),
        batch=batch,
        blocks=(batch,),
        n_unfollowed=_unfollowed(batch),
    )


def _unfollowed(batch: Batch) -> int:
    """Rows left out because they did not end, where rows that ended were kept. Where rows lead
    into terminal states that were named, last rows are in these, but for those of cut episodes.
    """
    if not batch.terminal.any():
        return uneven(batch, batch.left_out)
    cut = int(batch.cuts.sum())
    return batch.left_out if batch.has_end else min(batch.left_out, cut)


def uneven(batch: Batch | None, left_out: int) -> int:
    """Where nothing ever ends: the last rows of all episodes, which are left out, unless all have
    one length (or there is one episode), so that their place is known before they are. Else a cut
    may have to do with what its row held. Without the rows (None) nobody knows.
    """
    if left_out <= 1:
        return 0
    if batch is None:
        return left_out
    lengths = np.bincount(batch.episode)
    even = len(lengths) == left_out and bool((lengths == lengths[0]).all())
    return 0 if even else left_out


def _first_states(batch: Batch) -> Start:
    """Where the episodes of the log started, as a distribution over states."""
    first = batch.state[batch.first]
    found: np.ndarray = np.bincount(first, minlength=batch.n_states) / len(first)
    return Start(found, episodes=batch.n_episodes)


def cut_notes(left_out: int, cut: int, episodes: int | None, more: str = "") -> Iterator[str]:
    """That so many episodes are cut, and so many last rows of them left out."""
    if left_out:
        yield (
            f"the last rows of {left_out} cut episodes are left out: without next_state they lead"
            f" nowhere{more}"
        )
    if cut > 0:
        yield (
            f"{cut} of {episodes} episodes are cut, not ended: Monte-Carlo returns that run into a"
            " cut are short"
        )


def _log_notes(log: Batch) -> list[str]:
    """What a user should know about the log itself."""
    notes = [*cut_notes(log.left_out, int(log.cuts.sum()), log.n_episodes)]
    contradiction = log.contradictions()
    if contradiction:
        notes.append(contradiction)
    if log.propensity is not None:
        notes.append(
            "the log gives propensities: importance weights use them row by row, and it may come"
            " from several policies"
        )
    return notes
