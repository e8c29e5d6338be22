"""CliffWalking: play, learn from the log, and play again with `policy.act` in the loop.

    pip install 'surefoot[gymnasium]' && python examples/cliff_walking.py   (--quick: seconds)

A walker who moves at random half of the time falls off the cliff now and then. The improved policy
is learned from its log alone; here it walks again.
"""

import sys

import gymnasium
import numpy as np

import surefoot
from surefoot.logs import rollout_columns
from surefoot.research.benchmarks import ToyText

NAME, GAMMA, STEPS = "CliffWalking-v1", 0.95, 200


def walk(policy: surefoot.Policy, episodes: int, rng: np.random.Generator) -> float:
    """The mean return of a policy, played in the environment."""
    environment, returns = gymnasium.make(NAME), []
    for _ in range(episodes):
        state, _ = environment.reset(seed=int(rng.integers(2**31)))
        total, discount = 0.0, 1.0
        for _ in range(STEPS):
            action = policy.act(int(state), rng)
            state, reward, terminated, truncated, _ = environment.step(action)
            total, discount = total + discount * float(reward), discount * GAMMA
            if terminated or truncated:
                break
        returns.append(total)
    return float(np.mean(returns))


def main(episodes: int) -> None:
    """Play, learn, play."""
    rng = np.random.default_rng(0)
    world = ToyText(NAME, epsilon=0.5, gamma=GAMMA).worlds(np.array([0]))
    played = surefoot.Policy(pi=world.pi_b[0])
    steps = rollout_columns(
        gymnasium.make(NAME), played.act, rng, episodes=episodes, max_steps=STEPS
    )
    problem = surefoot.problem(steps, gamma=GAMMA, pi_b=played, reward_range=(-100, -1))
    learned = surefoot.improve(problem, surefoot.PricedSoftSPIBB())
    better = surefoot.Policy(pi=learned.policy.over(played.pi))  # the old one where never visited
    for name, policy in (("played", played), ("improved", better)):
        print(f"{name:9} mean return {walk(policy, episodes, rng):8.2f} over {episodes} episodes")


if __name__ == "__main__":
    main(100 if "--quick" in sys.argv else 1000)
