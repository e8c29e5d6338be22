"""An MDP of one's own as a benchmark: from its arrays, or from the table P of a Gymnasium
environment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from surefoot.core import Model, known_model
from surefoot.core.array_checks import check_rows, number_array
from surefoot.core.arrays import Array
from surefoot.core.counts import read_only
from surefoot.core.errors import NotAvailableError, ParameterError
from surefoot.planning import optimal
from surefoot.problems import return_range
from surefoot.research.benchmarks.benchmark import NORMALISED, check_whole
from surefoot.research.simulate.sampling import Episodes
from surefoot.research.simulate.worlds import Worlds, one_world


@dataclass(frozen=True, eq=False)
class KnownMDP:
    """One MDP that all trials share; `from_mdp` and `from_gymnasium` make it.

    p, r [S, A, S']; start [S]; pi_b and allowed [S, A]. Episodes are cut after `max_steps`.
    """

    name: ClassVar[str] = "known-mdp"
    score: ClassVar[str] = NORMALISED
    sparse: ClassVar[bool] = False
    p: np.ndarray
    r: np.ndarray
    gamma: float
    start: np.ndarray
    pi_b: np.ndarray
    allowed: np.ndarray
    terminal_states: tuple[int, ...]
    reward_range: tuple[float, float]
    max_steps: int

    def episodes(self, size: int) -> Episodes:
        """`size` episodes of at most `max_steps` steps."""
        return Episodes(size, size, self.max_steps)

    def worlds(self, keys: Array) -> Worlds:
        """The one MDP."""
        ends = bool(self.terminal_states)
        return one_world(
            keys,
            self.p,
            reward_table=self.r,
            pi_b=self.pi_b,
            start=self.start,
            terminal_states=self.terminal_states,
            gamma=self.gamma,
            reward_range=self.reward_range,
            return_range=return_range(
                self.reward_range, self.gamma, has_terminal=ends, declared=True
            ),
            allowed=self.allowed,
        )


def from_mdp(
    P: ArrayLike,
    R: ArrayLike,
    gamma: float,
    start: ArrayLike = 0,
    *,
    baseline: float | ArrayLike = 0.5,
    terminal_states: ArrayLike = (),
    reward_range: tuple[float, float] | None = None,
    allowed: ArrayLike | None = None,
    max_steps: int = 100,
) -> KnownMDP:
    """An MDP that is known, as a benchmark: P [S, A, S'], R [S, A], [S, S'] or [S, A, S'].

    start         a state, or the probability of each
    baseline      the policy [S, A] that makes the logs; or a share of random actions, the rest
                  being optimal
    reward_range  what an algorithm may know of rewards; the lowest and highest of R without it
    allowed       [S, A]: which actions there are; all without it
    """
    p = number_array("P", P, ParameterError)
    if p.ndim != 3 or p.shape[0] != p.shape[2]:
        raise ParameterError(f"P must be [S, A, S'], got shape {list(p.shape)}")
    if not gamma < 1:
        raise ParameterError(f"gamma must be below 1, got {gamma!r}")
    ends = tuple(sorted({int(s) for s in np.atleast_1d(np.asarray(terminal_states, dtype=int))}))
    r = number_array("R", R, ParameterError)
    model = known_model(p, r, gamma, ends)
    if r.ndim < 3:
        r = r[:, :, None] if r.shape == p.shape[:2] else r[:, None, :]
    r = np.array(np.broadcast_to(r, p.shape))
    can = np.ones(p.shape[:2], dtype=bool) if allowed is None else np.asarray(allowed) > 0
    if can.shape != p.shape[:2] or not can.any(axis=1).all():
        raise ParameterError("allowed must be [S, A] with at least one action in every state")
    made = KnownMDP(
        p=read_only(p),
        r=read_only(r),
        gamma=float(gamma),
        start=read_only(_start(start, len(p))),
        pi_b=read_only(_baseline(baseline, model, can)),
        allowed=read_only(can),
        terminal_states=ends,
        reward_range=reward_range or (float(r[p > 0].min()), float(r[p > 0].max())),
        max_steps=max_steps,
    )
    check_whole(made, "max_steps", low=1)
    return made


def _baseline(given: float | ArrayLike, model: Model, allowed: np.ndarray) -> np.ndarray:
    """pi_b [S, A], given or the best policy with a share of random actions."""
    if isinstance(given, (int, float)):
        if not 0 <= given <= 1:
            raise ParameterError(f"a baseline that is a share must lie in [0, 1], got {given!r}")
        best = np.asarray(optimal(model, allowed).pi)
        pi_b: np.ndarray = (1 - given) * best + given * allowed / allowed.sum(axis=1)[:, None]
        return pi_b
    pi_b = number_array("baseline", given, ParameterError)
    if pi_b.shape != allowed.shape:
        raise ParameterError(
            f"baseline must be [S, A] = {list(allowed.shape)}, got {list(pi_b.shape)}"
        )
    check_rows("baseline", pi_b, ParameterError)
    if (pi_b[~allowed] > 0).any():
        raise ParameterError("the baseline takes an action that is not allowed")
    return pi_b


def _start(given: ArrayLike, n_states: int) -> np.ndarray:
    """The probability [S] of each state to start in."""
    first = number_array("start", given, ParameterError)
    if first.ndim == 0:
        if not (first == int(first) and 0 <= first < n_states):
            raise ParameterError(f"start must be a state 0, ..., {n_states - 1}, got {given!r}")
        return np.asarray(np.eye(n_states)[int(first)])
    if first.shape != (n_states,):
        raise ParameterError(f"start must be a state or [S] = [{n_states}], got {first.shape}")
    check_rows("start", first[None], ParameterError)
    return first


def from_gymnasium(
    env: Any,
    *,
    gamma: float = 0.95,
    baseline: float | ArrayLike = 0.5,
    max_steps: int = 100,
    mask: bool = False,
) -> KnownMDP:
    """A Gymnasium environment with a start distribution and a table P, as a benchmark.

    `env.unwrapped.P[s][a] = [(probability, s', reward, terminated), ...]`; a name stands for
    `gymnasium.make(name)`. A state entered with `terminated` ends the episode; several rewards of
    one (s, a, s') are averaged. `mask=True` allows the actions of the environment's `action_mask`
    only. The baseline as in `from_mdp`.
    """
    found, named = _environment(env)
    p, reward, ends = _table(found.P, named)
    allowed = None
    if mask:
        if not hasattr(found, "action_mask"):
            raise NotAvailableError(f"{named} has no action_mask; use mask=False")
        allowed = np.array([found.action_mask(s) for s in range(len(p))]) > 0
    start = np.asarray(found.initial_state_distrib, dtype=float)
    return from_mdp(
        p,
        reward,
        gamma,
        start / start.sum(),
        baseline=baseline,
        terminal_states=ends,
        reward_range=(float(reward.min()), float(reward.max())),
        allowed=allowed,
        max_steps=max_steps,
    )


def _environment(env: Any) -> tuple[Any, str]:
    """What has the table, and how it is called."""
    named = env if isinstance(env, str) else type(env).__name__
    if isinstance(env, str):
        try:
            import gymnasium
        except ImportError as error:
            raise NotAvailableError(
                "an environment by name needs Gymnasium: pip install 'surefoot[gymnasium]'"
            ) from error
        try:
            env = gymnasium.make(env)
        except (gymnasium.error.Error, ImportError, ValueError) as error:
            raise NotAvailableError(str(error)) from error
    found = getattr(env, "unwrapped", env)
    if not hasattr(found, "P") or not hasattr(found, "initial_state_distrib"):
        raise NotAvailableError(f"{named} has no table P with a start distribution")
    return found, named


def _table(table: Any, named: str) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """p and mean rewards [S, A, S], and the terminal states, of a table P."""
    shape = (len(table), len(table[0]), len(table))
    p, reward = np.zeros(shape), np.zeros(shape)
    ends: set[int] = set()
    in_place: set[int] = set()
    for s, actions in table.items():
        for a, outcomes in actions.items():
            for probability, to, r, terminated in outcomes:
                p[s, a, to] += probability
                reward[s, a, to] += probability * r
                if terminated:
                    (in_place if to == s else ends).add(int(to))
    if in_place - ends:
        raise NotAvailableError(
            f"{named} can end in place in state {min(in_place - ends)}, which P cannot tell apart"
        )
    mean = np.divide(reward, p, out=np.zeros(shape), where=p > 0)
    return p, mean, tuple(sorted(ends))
