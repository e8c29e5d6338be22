"""FrozenLake: improve a half-random policy from logs of episodes played in Gymnasium.

    pip install 'surefoot[gymnasium]' && python examples/frozen_lake.py   (--quick: small, seconds)

Ice is slippery: two steps in three go sideways. Policies are learned from the log alone, the policy
that played being estimated from it too, and judged in the environment's own table P; both at gamma
= 0.95. In states that the log never visits they do as the policy that played.
"""

import sys

import gymnasium
import numpy as np

import surefoot
from surefoot.logs import rollout_columns
from surefoot.research.benchmarks import ToyText

GAMMA = 0.95
ALGORITHMS = {
    "basic-rl": surefoot.BasicRL(),
    "pi-b-spibb, n_wedge 10": surefoot.PiBSPIBB(n_wedge=10),
    "lower-approx-soft-spibb": surefoot.LowerApproxSoftSPIBB(epsilon=1, delta=1),
    "priced-soft-spibb": surefoot.PricedSoftSPIBB(epsilon=1),
    "duipi-centred": surefoot.CentredDUIPI(xi=1),
}


def main(sizes: tuple[int, ...], logs: int) -> None:
    """One row an algorithm, one column a number of episodes."""
    truth = ToyText("FrozenLake-v1", epsilon=0.5, gamma=GAMMA).worlds(np.array([0]))
    played = surefoot.Policy(pi=truth.pi_b[0])
    values = np.empty((len(ALGORITHMS), len(sizes), logs))
    environment = gymnasium.make("FrozenLake-v1")
    for j, size in enumerate(sizes):
        for k in range(logs):
            rng = np.random.default_rng((size, k))
            steps = rollout_columns(environment, played.act, rng, episodes=size)
            problem = surefoot.problem(steps, gamma=GAMMA, reward_range=(0, 1))
            for i, algorithm in enumerate(ALGORITHMS.values()):
                learned = surefoot.improve(problem, algorithm).policy
                values[i, j, k] = truth.value(learned.over(played.pi)[None])[0]
    was, best = truth.rho_b[0], truth.rho_star[0]
    print(f"value, gamma = {GAMMA}: policy that played {was:.3f}, best possible {best:.3f}")
    print(f"learned from the log alone; mean ± 1.96 standard errors over {logs} logs\n")
    print(f"{'episodes':26}" + "".join(f"{size:>18,}" for size in sizes))
    for name, row in zip(ALGORITHMS, values, strict=True):
        half = 1.96 * row.std(axis=1, ddof=1) / np.sqrt(logs)
        cells = (f"{m:10.3f} ± {h:.3f}" for m, h in zip(row.mean(axis=1), half, strict=True))
        print(f"{name:26}" + "".join(cells))


if __name__ == "__main__":
    main(*(((50, 200), 2) if "--quick" in sys.argv else ((100, 500, 2_000), 10)))
