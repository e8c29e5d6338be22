"""FrozenLake: improve a half-random policy from logs of episodes played in Gymnasium, and see in
the true table what it was worth.

    pip install 'surefoot[gymnasium]' && python examples/frozen_lake.py        (--quick: small logs,
    seconds)

Ice is slippery: two steps in three go sideways. Policies are learned from the log alone, the policy
that played being estimated from it, and judged in the environment's own table P; both at gamma =
0.95.
"""

import sys

import gymnasium
import numpy as np

import surefoot
from surefoot.benchmarks import ToyText
from surefoot.logs import read_log, rollout_columns

GAMMA = 0.95
ALGORITHMS = {
    "basic-rl": surefoot.algorithm("basic-rl"),
    "pi-b-spibb, n_wedge 10": surefoot.algorithm("pi-b-spibb", n_wedge=10),
    "lower-approx-soft-spibb": surefoot.algorithm("lower-approx-soft-spibb", epsilon=1, delta=1),
    "duipi-centred": surefoot.algorithm("duipi-centred", xi=1),
}


def learned(columns: dict[str, np.ndarray], played: np.ndarray) -> np.ndarray:
    """The policy of each algorithm over all states and actions; where the log says nothing, the
    policy as it was played.
    """
    log = read_log(columns)
    problem = log.problem(GAMMA, reward_range=(0, 1))
    acted = log.n_sa.sum(axis=1) > 0
    policies = np.array([played] * len(ALGORITHMS))
    policies[:, np.array(log.states)[acted]] = 0.0
    for pi, algorithm in zip(policies, ALGORITHMS.values(), strict=True):
        pi[np.ix_(np.array(log.states)[acted], log.actions)] = surefoot.improve(
            problem, algorithm
        ).pi[acted]
    return policies


def main(sizes: tuple[int, ...], logs: int) -> None:
    """One row an algorithm, one column a number of episodes."""
    truth = ToyText("FrozenLake-v1", epsilon=0.5, gamma=GAMMA).worlds(np.array([0]))
    played = truth.pi_b[0]
    values = np.empty((len(ALGORITHMS), len(sizes), logs))
    environment = gymnasium.make("FrozenLake-v1")
    for j, size in enumerate(sizes):
        for k in range(logs):
            rng = np.random.default_rng((size, k))
            columns = rollout_columns(
                environment,
                lambda s, rng: int(rng.choice(len(played[s]), p=played[s])),
                rng,
                episodes=size,
            )
            values[:, j, k] = truth.value(learned(columns, played))
    print(
        f"value at the start, gamma = {GAMMA}: policy that played {truth.rho_b[0]:.3f}, best"
        f" possible {truth.rho_star[0]:.3f}"
    )
    print(f"learned from the log alone; mean ± 1.96 standard errors over {logs} logs\n")
    print(f"{'episodes':26}" + "".join(f"{size:>18,}" for size in sizes))
    for name, row in zip(ALGORITHMS, values, strict=True):
        half = 1.96 * row.std(axis=1, ddof=1) / np.sqrt(logs)
        print(
            f"{name:26}"
            + "".join(f"{m:10.3f} ± {h:.3f}" for m, h in zip(row.mean(axis=1), half, strict=True))
        )


if __name__ == "__main__":
    main(*(((50, 200), 2) if "--quick" in sys.argv else ((100, 500, 2_000), 10)))
