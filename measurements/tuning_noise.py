"""What `tune` chooses where there is nothing to find, where the baseline's main action is the best
one, and where there is a gain.

    python measurements/tuning_noise.py [--logs 100] [--only TEXT]

One line a family: the share of logs on which a change is chosen, the share on which the chosen
policy is truly worse than the baseline, the mean true gain, that of the best setting of each log in
hindsight, and what was printed for the chosen settings: mean gain and "loses". In the
null families no policy differs in value from another. Gains are exact, in the true MDP.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import surefoot
from surefoot.advice.tuning import tune
from surefoot.research.benchmarks import RandomMDPs, WetChicken
from surefoot.research.simulate import Sampler, Worlds, first_key
from surefoot.research.simulate.worlds import one_world

Gain = Callable[[np.ndarray], float]
Made = tuple[surefoot.Problem, Gain]
GAMMA = 0.9


def effects(
    rng: np.random.Generator, kind: str, size: float, n_states: int, n_actions: int
) -> tuple[np.ndarray, np.ndarray]:
    """(what every action pays beyond its state, the baseline): "spread" at random; "worse" all
    but the first, which is the usual one.
    """
    if kind == "worse":
        first = np.arange(n_actions) == 0
        usual = np.where(first, 0.9, 0.1 / (n_actions - 1))
        return np.tile(np.where(first, 0.0, -size), (n_states, 1)), np.tile(usual, (n_states, 1))
    return size * rng.normal(size=(n_states, n_actions)), rng.dirichlet(
        np.full(n_actions, 2.0), n_states
    )


def table(
    seed: int,
    n_states: int,
    n_actions: int,
    steps: int,
    law: str,
    kind: str,
    size: float,
    *,
    walks: bool,
) -> Made:
    """One-step decisions, or one long walk on which actions do not decide where it goes; rewards
    are normal or 0 and 1.
    """
    rng = np.random.default_rng((seed, n_states, n_actions, steps))
    effect, pi_b = effects(rng, kind, size, n_states, n_actions)
    mean = (
        rng.normal(scale=0.5, size=n_states) if law == "normal" else rng.uniform(0.3, 0.7, n_states)
    )[:, None] + effect
    mean = mean if law == "normal" else np.clip(mean, 0.01, 0.99)
    start = np.full(n_states, 1 / n_states)
    p = rng.dirichlet(np.full(n_states, 4 / n_states), n_states)
    state = rng.integers(0, n_states, steps + 1)
    if walks:
        for t in range(steps):
            state[t + 1] = rng.choice(n_states, p=p[state[t]])
    action = np.minimum(
        (rng.random(steps)[:, None] > pi_b[state[:-1]].cumsum(axis=1)).sum(axis=1), n_actions - 1
    )
    paid = mean[state[:-1], action]
    reward = rng.normal(paid, 1.0) if law == "normal" else (rng.random(steps) < paid) * 1.0
    given = {
        "state": state[:-1],
        "action": action,
        "reward": reward,
        "pi_b": pi_b,
        "gamma": GAMMA,
        "n_states": n_states,
    }
    if walks:
        given |= {"next_state": state[1:], "episode": np.zeros(steps, dtype=int), "start": start}
    else:
        given |= {
            "next_state": np.full(steps, -1),
            "terminal": np.ones(steps, dtype=int),
            "episode": np.arange(steps),
        }
    visits = np.linalg.solve(np.eye(n_states) - GAMMA * p.T, start) if walks else start
    return surefoot.problem(**given), lambda pi: float(
        visits @ ((pi[:n_states] - pi_b) * mean).sum(axis=1)
    )


def lottery(seed: int, steps: int = 2000, n_states: int = 60, n_actions: int = 3) -> Made:
    """Actions decide where the walk goes, and every state pays the same noise."""
    rng = np.random.default_rng((9, seed))
    leads, action = (
        rng.integers(0, n_states, (n_states, n_actions)),
        rng.integers(0, n_actions, steps),
    )
    state = np.zeros(steps + 1, dtype=int)
    for t in range(steps):
        state[t + 1] = leads[state[t], action[t]] if rng.random() < 0.8 else rng.integers(n_states)
    problem = surefoot.problem(
        state=state[:-1],
        action=action,
        reward=rng.normal(size=steps),
        next_state=state[1:],
        episode=np.zeros(steps),
        gamma=GAMMA,
        pi_b=np.full((n_states, n_actions), 1 / n_actions),
        start=np.full(n_states, 1 / n_states),
    )
    return problem, lambda pi: 0.0


def null_world(name: str, key: int) -> Worlds:
    """The world of a benchmark with p(s'|s, a) replaced by its mean over actions: no policy
    differs in value from another.
    """
    worlds = (RandomMDPs() if name == "random-mdps" else WetChicken()).worlds(np.array([key]))
    p = np.broadcast_to(worlds.p[0].mean(axis=1, keepdims=True), worlds.p[0].shape)
    return one_world(
        np.array([key]),
        p,
        reward_table=worlds.reward_table[0],
        pi_b=worlds.pi_b[0],
        start=worlds.start[0],
        terminal_states=np.flatnonzero(worlds.terminal[0]).tolist(),
        gamma=worlds.gamma,
        reward_range=worlds.reward_range,
        return_range=worlds.return_range,
    )


def benchmark(seed: int, name: str, size: int, *, null: bool) -> Made:
    """A log of a benchmark, or of the same with the laws of all actions of a state replaced by
    their mean.
    """
    made = RandomMDPs() if name == "random-mdps" else WetChicken()
    keys = first_key(5, f"tuning {name}", np.array([seed]))
    worlds: Worlds = null_world(name, int(keys[0])) if null else made.worlds(keys)
    log = Sampler(worlds).log(int(keys[0]), made.episodes(size))
    problem = surefoot.problem(
        **log,
        terminal=worlds.terminal[0][log["next_state"]],
        pi_b=worlds.pi_b[0],
        gamma=worlds.gamma,
        start=worlds.start[0],
        n_states=worlds.n_states,
        n_actions=worlds.n_actions,
    )
    rho_b = float(worlds.rho_b[0])
    scale = float(worlds.rho_star[0]) - rho_b if name == "random-mdps" and not null else 1.0
    return problem, lambda pi: (float(worlds.value(pi[None])[0]) - rho_b) / scale


FAMILIES: dict[str, Callable[[int], Made]] = {
    "null: 60 x 2, normal, 1,200 decisions": lambda i: table(
        i, 60, 2, 1200, "normal", "spread", 0.0, walks=False
    ),
    "null: 60 x 3, 0 or 1, 3,000 decisions": lambda i: table(
        i, 60, 3, 3000, "binary", "spread", 0.0, walks=False
    ),
    "null: 60 x 4, normal, walk of 3,000": lambda i: table(
        i, 60, 4, 3000, "normal", "spread", 0.0, walks=True
    ),
    "null: 60 x 3, 0 or 1, walk of 1,500": lambda i: table(
        i, 60, 3, 1500, "binary", "spread", 0.0, walks=True
    ),
    "null: 1 x 20, normal, 400 decisions": lambda i: table(
        i, 1, 20, 400, "normal", "spread", 0.0, walks=False
    ),
    "null: 1 x 20, 0 or 1, 2,000 decisions": lambda i: table(
        i, 1, 20, 2000, "binary", "spread", 0.0, walks=False
    ),
    "null: lottery of 60 states, walk of 2,000": lottery,
    "null: random-mdps 50": lambda i: benchmark(i, "random-mdps", 50, null=True),
    "null: random-mdps 200": lambda i: benchmark(i, "random-mdps", 200, null=True),
    "null: wet-chicken 2,000": lambda i: benchmark(i, "wet-chicken", 2000, null=True),
    "worse: 60 x 3, normal, -0.5, 2,000 decisions": lambda i: table(
        i, 60, 3, 2000, "normal", "worse", 0.5, walks=False
    ),
    "worse: 60 x 2, normal, -0.3, 4,000 decisions": lambda i: table(
        i, 60, 2, 4000, "normal", "worse", 0.3, walks=False
    ),
    "worse: 60 x 4, 0 or 1, -0.15, walk of 3,000": lambda i: table(
        i, 60, 4, 3000, "binary", "worse", 0.15, walks=True
    ),
    "gain: 60 x 3, 0 or 1, 0.1, 3,000 decisions": lambda i: table(
        i, 60, 3, 3000, "binary", "spread", 0.1, walks=False
    ),
    "gain: 1 x 20, normal, 0.5, 1,000 decisions": lambda i: table(
        i, 1, 20, 1000, "normal", "spread", 0.5, walks=False
    ),
    "gain: random-mdps 50": lambda i: benchmark(i, "random-mdps", 50, null=False),
    "gain: random-mdps 200": lambda i: benchmark(i, "random-mdps", 200, null=False),
    "gain: wet-chicken 500": lambda i: benchmark(i, "wet-chicken", 500, null=False),
    "gain: wet-chicken 1,000": lambda i: benchmark(i, "wet-chicken", 1000, null=False),
    "gain: wet-chicken 5,000": lambda i: benchmark(i, "wet-chicken", 5000, null=False),
}


def one_log(make: Callable[[int], Made], trial: int) -> tuple[float, ...]:
    """(chooses a change, true gain, best true gain, printed mean, printed "loses", CPU
    seconds); NaN where not printed.
    """
    problem, gain = make(trial)
    begin = time.process_time()
    found = tune(problem, simulated=0, seed=trial)
    seconds = time.process_time() - begin
    true = [0.0, *(gain(pi) for pi in found.simulation.pi)]
    at = next(i for i, row in enumerate(found.rows) if row is found.chosen)
    here = (found.chosen.on_log.mean, found.chosen.loses) if found.changes else (np.nan, np.nan)
    return (found.changes, true[at], max(true), *here, seconds)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--only", default="", help="families whose name contains this text")
    given = parser.parse_args()
    names = ("changes", "worse", "gain", "best", "printed", "loses", "CPU s")
    print(f"{'':46}" + "".join(f"{x:>10}" for x in names))
    for name, make in FAMILIES.items():
        if given.only in name:
            x = np.array([one_log(make, trial) for trial in range(given.logs)], dtype=float)
            chosen = x[x[:, 0] > 0]
            printed = [float(chosen[:, i].mean()) if len(chosen) else np.nan for i in (3, 4)]
            shares = (float(x[:, 0].mean()), float((x[:, 1] < -1e-9).mean()))
            cells = [f"{y:>10.1%}" for y in shares] + [
                f"{float(y):>+10.4f}" for y in (*x[:, 1:3].mean(axis=0), *printed)
            ]
            print(f"{name:46}" + "".join(cells) + f"{float(np.median(x[:, 5])):>10.2f}", flush=True)


if __name__ == "__main__":
    main()
