"""States of several columns: what the factored model gains over the joint one, where the columns
have causes of their own and where they move together.

    python measurements/factored.py [--worlds 10] [--sizes 1000,2000,5000,20000] [--world NAME]

sparse     five columns of four values, 1,024 states, four actions: each next value hangs on the
           column itself and one other, and of columns 0 and 2 on the action; the reward is a number
           for column 0 and one for column 2
together   columns 0 and 1 are equal after action 0, and apart from it independent; being equal pays
           1, and no marginal of theirs hangs on the action: to a product, action 0 looks worthless

The log is one trajectory; rewards have noise of 0.5. The baseline takes any action with probability
0.3, else a rule of two columns (together: action 0). It is given. Gains are shares of the way from
the baseline to the optimum, exact.
"""

from __future__ import annotations

import argparse
import itertools
import time
from dataclasses import replace

import numpy as np

import surefoot
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.core import Labels

COLUMNS, VALUES, ACTIONS, GAMMA = 5, 4, 4, 0.95
EVERY = np.array(list(itertools.product(range(VALUES), repeat=COLUMNS)))
METHODS = {
    "priced-soft-spibb": {},
    "shrunk": {},
    "factored": {},
    "factored+priced-soft-spibb": {},
    "factored+lower-exact-soft-spibb": {},
    "factored+priced-soft-spibb, product alone": {"weight": np.inf},
}


def world(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(P [S, A, S], r [S, A], pi_b [S, A])."""
    rng, n = np.random.default_rng(seed), len(EVERY)
    together = name == "together"
    p = np.ones((n, ACTIONS, n))
    for i in range(2 if together else 0, COLUMNS):
        other = (i + 1 + rng.integers(COLUMNS - 1)) % COLUMNS
        table = rng.dirichlet(np.full(VALUES, 0.5), size=(VALUES, VALUES, ACTIONS))
        if i not in (0, 2) and (together or rng.random() < 0.6):
            table[:] = table[:, :, :1]
        p *= table[EVERY[:, i], EVERY[:, other]][:, :, EVERY[:, i]]
    rule = rng.integers(0, ACTIONS, size=(VALUES, VALUES))[EVERY[:, 0], EVERY[:, 3]]
    r = rng.random(VALUES)[EVERY[:, 0]] + rng.random(VALUES)[EVERY[:, 2]]
    if together:
        equal = EVERY[:, 0] == EVERY[:, 1]
        p[:, 0] *= equal / VALUES
        p[:, 1:] /= VALUES**2
        rule, r = np.zeros(n, dtype=int), equal + 0.5 * np.linspace(0, 1, VALUES)[EVERY[:, 2]]
    pi_b = 0.7 * np.eye(ACTIONS)[rule] + 0.3 / ACTIONS
    return p, np.broadcast_to(r[:, None], (n, ACTIONS)), pi_b


def problem_of(
    rng: np.random.Generator, p: np.ndarray, r: np.ndarray, pi_b: np.ndarray, n: int
) -> tuple[surefoot.Problem, np.ndarray]:
    """(the problem of a log of n rows, which states it has)."""
    ahead, acting = p.cumsum(axis=2), pi_b.cumsum(axis=1)
    state, action = np.zeros(n + 1, dtype=int), np.zeros(n, dtype=int)
    state[0] = rng.integers(len(p))
    for t, (u, w) in enumerate(rng.random((n, 2))):
        action[t] = min(np.searchsorted(acting[state[t]], u), ACTIONS - 1)
        state[t + 1] = min(np.searchsorted(ahead[state[t], action[t]], w), len(p) - 1)
    seen, code = np.unique(state, return_inverse=True)
    made = surefoot.problem(
        state=code[:-1], action=action, next_state=code[1:], episode=np.zeros(n), gamma=GAMMA,
        reward=r[state[:-1], action] + 0.5 * rng.standard_normal(n), n_states=len(seen),
        n_actions=ACTIONS, pi_b=pi_b[seen], reward_range=(-4, 6),
    )  # fmt: skip
    names = tuple(map(tuple, EVERY[seen].tolist()))
    return replace(made, labels=Labels(names, tuple(range(ACTIONS)), tuple("abcde"))), seen


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worlds", type=int, default=10)
    parser.add_argument("--sizes", default="1000,2000,5000,20000")
    parser.add_argument("--world", default="sparse,together")
    given = parser.parse_args()
    for name, size in itertools.product(given.world.split(","), given.sizes.split(",")):
        found: dict[str, list[tuple[float, float]]] = {x: [] for x in METHODS}
        for seed in range(given.worlds):
            p, r, pi_b = world(name, seed)
            truth = surefoot.known_model(p, np.broadcast_to(r[..., None], p.shape), GAMMA)
            low, high = (
                surefoot.evaluate(truth, x).mean() for x in (pi_b, surefoot.optimal(truth).pi)
            )
            rng = np.random.default_rng([seed, int(size)])
            problem, seen = problem_of(rng, p, r, pi_b, int(size))
            for method, settings in METHODS.items():
                start, pi = time.perf_counter(), pi_b.copy()
                chosen = chosen_algorithm(problem, method.partition(",")[0], settings)
                pi[seen] = surefoot.improve(problem, chosen).pi
                seconds = time.perf_counter() - start
                gain = (surefoot.evaluate(truth, pi).mean() - low) / (high - low)
                found[method].append((float(gain), seconds))
        for method, pairs in found.items():
            gains, seconds = np.array(pairs).T
            print(
                f"{name:9} {size:>6} rows  {method:42} mean {gains.mean():6.3f}  worst"
                f" {gains.min():6.3f}  {np.median(seconds):5.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
