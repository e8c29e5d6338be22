"""The delta method where outcomes are rare and visits few: how often its bound lies above the truth
of a policy that was fixed before the log.

    python measurements/rare_outcomes.py --logs 1000
    python measurements/rare_outcomes.py --logs 1000 --observed  # rewards by their range
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import surefoot
from surefoot.evidence import bound as certificate
from surefoot.evidence.certificates import certify
from surefoot.problems import ReturnRange
from surefoot.research.simulate import Episodes, Sampler, Worlds, first_key, trial_numbers
from surefoot.research.simulate.worlds import one_world

GAMMA = 0.9
certificate._data_needed = lambda bound, bound_at, rows: (float("nan"), "not asked for")


@dataclass(frozen=True)
class Case:
    """A world p [S, A, S] with rewards of arrival [S, S'], its baseline and another policy; logs of
    so many episodes of at most so many steps, from state 0.
    """

    name: str
    p: np.ndarray
    reward: np.ndarray
    pi_b: np.ndarray
    pi: np.ndarray
    episodes: int
    steps: int
    ends: tuple[int, ...]
    most: float  # of returns

    def worlds(self, keys: np.ndarray) -> Worlds:
        """The world, for the sampler."""
        return one_world(
            keys,
            self.p,
            reward_table=self.reward[:, None, :],
            pi_b=self.pi_b,
            start=np.eye(len(self.p))[0],
            terminal_states=self.ends,
            gamma=GAMMA,
            reward_range=(0.0, 1.0),
            return_range=ReturnRange(0.0, self.most, declared=True),
        )

    def problem(self, log: dict[str, np.ndarray], observed: bool) -> surefoot.Problem:
        """The problem of a log; its rewards are declared, or observed."""
        return surefoot.problem(
            **log,
            pi_b=self.pi_b,
            gamma=GAMMA,
            start=0,
            terminal_states=self.ends,
            n_states=len(self.p),
            n_actions=self.pi.shape[1],
            reward_table=None if observed else self.reward,
            reward_range=(0, 1),
            return_range=(0, self.most),
        )


def coins(p: float, episodes: int) -> Case:
    """Two equal coins, the second taken once in 20; the policy takes it always, and gains 0."""
    world = np.zeros((3, 2, 3))
    world[0], world[1, :, 1], world[2, :, 2] = [0, p, 1 - p], 1, 1
    reward = np.tile([0.0, 1.0, 0.0], (3, 1))
    pi_b = np.tile([0.95, 0.05], (3, 1))
    pi = np.array([[0.0, 1.0], *pi_b[1:]])
    name = f"coins of {p:g}, {episodes} episodes"
    return Case(name, world, reward, pi_b, pi, episodes, 1, (1, 2), 1.0)


def own_loss(episodes: int) -> Case:
    """The usual action pays 0.5, the other 0.55 and, once in ten, nothing: no other action ever
    shows that outcome.
    """
    world = np.zeros((4, 2, 4))
    world[0] = [[0, 1, 0, 0], [0, 0, 0.9, 0.1]]
    world[[1, 2, 3], :, [1, 2, 3]] = 1
    reward = np.tile([0.0, 0.5, 0.55, 0.0], (4, 1))
    pi_b = np.tile([0.95, 0.05], (4, 1))
    pi = np.array([[0.0, 1.0], *pi_b[1:]])
    name = f"a loss of one action alone, {episodes} episodes"
    return Case(name, world, reward, pi_b, pi, episodes, 1, (1, 2, 3), 1.0)


def pit(falls: float, episodes: int) -> Case:
    """The policy goes where the baseline seldom goes, and where a third action, taken once in 50,
    falls into a pit for good with probability `falls`.
    """
    world = np.zeros((4, 3, 4))
    world[0, [0, 2], 1] = world[0, 1, 2] = 1
    world[1, :, 0] = world[2, :2, 0] = world[3, :, 3] = 1
    world[2, 2] = [1 - falls, 0, 0, falls]
    reward = np.zeros((4, 4))
    reward[0, 1:3] = 0.5, 0.56
    reward[1:3, 0] = 0.5
    pi_b = np.array([[0.93, 0.05, 0.02], *[[0.49, 0.49, 0.02]] * 3])
    pi = np.array([[0.03, 0.95, 0.02], *pi_b[1:]])
    name = f"a pit, {falls:g} of a rare action, {episodes} episodes"
    return Case(name, world, reward, pi_b, pi, episodes, 10, (), 10.0)


def traps(visits: int) -> Case:
    """38 states in which the rare action, tried `visits` times on average, loses once in five; it
    gains as much otherwise.
    """
    n = 42
    world = np.zeros((n, 2, n))
    world[0, :, 1:39] = 1 / 38
    world[1:39, 0, 39], world[1:39, 1, 40], world[1:39, 1, 41] = 1, 0.8, 0.2
    world[[39, 40, 41], :, [39, 40, 41]] = 1
    reward = np.zeros((n, n))
    reward[1:39, 39:41] = 0.8, 1.0
    pi_b = np.tile([0.9, 0.1], (n, 1))
    pi = np.where((np.arange(n)[:, None] > 0) & (np.arange(n)[:, None] < 39), [0.0, 1.0], pi_b)
    name = f"38 states, a rare action tried {visits} times in each"
    return Case(name, world, reward, pi_b, pi, visits * 380, 2, (39, 40, 41), 1.0)


CASES = (
    *(coins(p, n) for p in (0.8, 0.95) for n in (60, 100, 200, 400, 1000)),
    *(own_loss(n) for n in (60, 200, 400, 1000)),
    *(pit(x, n) for x in (1.0, 0.5) for n in (100, 200, 500)),
    *(traps(n) for n in (2, 3, 5)),
)


def bounds(case: Case, logs: int, observed: bool) -> Iterator[tuple[float, float, float]]:
    """(truth, bound at 0.05, bound at 0.2) of every log."""
    keys = first_key(0, case.name, trial_numbers(0, logs, "cpu"))
    world = case.worlds(keys[:1])
    truth = float(np.asarray(world.value(case.pi[None]) - world.rho_b)[0])
    size = Episodes(case.episodes, case.episodes, case.steps)
    for log in Sampler(world).logs(keys, size):
        problem = case.problem(log, observed)
        low, high = (
            certify(problem, case.pi, "delta-method", data="fresh", delta=x).bound
            for x in (0.05, 0.2)
        )
        yield truth, low, high


def main() -> None:
    """Shares of logs with a bound above the truth."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--logs", type=int, default=300)
    parser.add_argument("--observed", action="store_true")
    options = parser.parse_args()
    for case in CASES:
        found = np.array(list(bounds(case, options.logs, options.observed)))
        above = (found[:, 1:] > found[:, :1] + 1e-9).mean(axis=0)
        print(f"{case.name:55} truth {found[0, 0]:8.4f}  above it {above[0]:6.1%} {above[1]:6.1%}")


if __name__ == "__main__":
    main()
