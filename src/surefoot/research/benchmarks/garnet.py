"""Garnets: a random MDP every trial in which every state pays, and no episode ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefoot.core import DenseModel
from surefoot.core.arrays import Array, count_up, namespace, row_sum
from surefoot.core.parameters import check_number
from surefoot.planning import optimal
from surefoot.problems import ReturnRange
from surefoot.research.benchmarks.benchmark import NORMALISED, check_whole
from surefoot.research.benchmarks.random_mdps import random_pairs, worsened
from surefoot.research.simulate.sampling import Episodes, fold, uniforms
from surefoot.research.simulate.worlds import Worlds, dense_rows

REWARDS = -5  # what the draws of a trial are for; those of Random MDPs are -1, ..., -4


@dataclass(frozen=True)
class Garnet:
    """Random MDPs in which each pair has `branching` successors, and each state pays on arrival.

    Garnet(S, A, branching) of Archibald, McKinnon and Thomas 1995. The successors of a pair are
    distinct, their probabilities the gaps between sorted uniform numbers, as in `RandomMDPs`.
    Papers differ in the rewards; here arriving in s' pays r(s'), drawn once a trial from U(0, 1).
    Episodes start in state 0, never end, and are cut after `horizon` steps. The baseline is made as
    that of `RandomMDPs`: a softmax of q*, worsened in random states, with the performance V_u + eta
    (V* - V_u) in state 0, V_u that of the uniform policy. A small eta is not always reached, since
    only the best action of a state loses mass: of 60 worlds at the default size, none missed 0.2
    and 17 missed 0.1, by at most 0.06.
    """

    name: ClassVar[str] = "garnet"
    score: ClassVar[str] = NORMALISED
    sparse: ClassVar[bool] = False
    n_states: int = 100
    n_actions: int = 5
    branching: int = 3
    eta: float = 0.5
    gamma: float = 0.95
    horizon: int = 50

    def __post_init__(self) -> None:
        check_whole(self, "n_states", low=2)
        check_whole(self, "n_actions", low=2)
        check_whole(self, "branching", low=1, high=self.n_states)
        check_number(self, "eta", low=0, high=1)
        check_number(self, "gamma", low=0, high=1, open_high=True)
        check_whole(self, "horizon", low=1)

    def episodes(self, size: int) -> Episodes:
        """`size` trajectories of `horizon` steps."""
        return Episodes(size, size, self.horizon)

    def worlds(self, keys: Array) -> Worlds:
        """One MDP with its baseline for every key [B]."""
        xp = namespace(keys)
        successor, probability = random_pairs(keys, self.n_states, self.n_actions, self.branching)
        p = dense_rows(successor, probability, self.n_states)
        state = count_up(self.n_states, keys)[None, :]
        pays = uniforms(fold(keys, keys * 0 + REWARDS)[:, None], state)
        r = row_sum(p * pays[:, None, None, :])
        model = DenseModel(p, xp.ones_like(r), r, self.gamma)
        pi_b = worsened(keys, model, optimal(model).q, self.eta)
        return Worlds(
            successor=successor,
            probability=probability,
            reward_table=pays[:, None, None, :],
            pi_b=pi_b,
            start=xp.astype(state == keys[:, None] * 0, xp.float64),
            terminal=pays < 0,
            allowed=pi_b == pi_b,
            gamma=self.gamma,
            reward_range=(0.0, 1.0),
            return_range=ReturnRange(0.0, 1.0 / (1.0 - self.gamma), declared=True),
        )
