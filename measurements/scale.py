"""One large problem: Garnets of up to 1,000,000 states against QuantEcon's modified policy
iteration and one bare C @ v.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
from scipy import sparse

import surefoot
from surefoot import Counts, Problem, Returns
from surefoot.problems import ReturnRange

GAMMA = 0.95
SOFT = {"epsilon": 1, "delta": 1}
# (algorithm, parameters, the most times QuantEcon's time, on a Garnet that mixes fast and on one
# that does not)
FITS: list[tuple[str, dict[str, object], float | None, float | None]] = [
    ("basic-rl", {}, 1.25, None),
    ("pi-b-spibb", {"n_wedge": 5}, 3, 4),
    ("pi-leq-b-spibb", {"n_wedge": 5}, 3, 4),
    ("exact-soft-spibb", SOFT, 10, None),
    ("lower-exact-soft-spibb", SOFT, 25, None),
    ("adv-exact-soft-spibb", SOFT, 25, None),
    ("priced-soft-spibb", {"epsilon": 1}, 6, None),
    ("approx-soft-spibb", SOFT, 25, None),
    ("lower-approx-soft-spibb", SOFT, 25, None),
    ("adv-approx-soft-spibb", SOFT, 25, None),
    ("one-step+exact-soft-spibb", SOFT, 25, None),
]


def garnet(
    n_states: int, *, local: bool, n_actions: int = 10, successors: int = 5
) -> tuple[sparse.csr_array, np.ndarray]:
    """(C [S * A, S], r [S, A]): random successors anywhere, or (local) within 10 states of s."""
    rng = np.random.default_rng(0)
    pairs = n_states * n_actions
    if local:
        near = rng.integers(-10, 11, (pairs, successors), dtype=np.int32)
        to = (np.arange(pairs, dtype=np.int32)[:, None] // n_actions + near) % n_states
    else:
        to = rng.integers(0, n_states, (pairs, successors), dtype=np.int32)
    p = rng.exponential(size=(pairs, successors))
    p /= p.sum(axis=1, keepdims=True)
    start = np.arange(0, pairs * successors + 1, successors, dtype=np.int32)
    matrix = sparse.csr_array((p.reshape(-1), to.reshape(-1), start), shape=(pairs, n_states))
    matrix.sum_duplicates()
    return matrix, rng.random((n_states, n_actions))


def problem(matrix: sparse.csr_array, r: np.ndarray, *, consume: bool = False) -> Problem:
    """Counts uniform on 0..50 with the transition frequencies C, a random softmax baseline;
    Monte-Carlo values drawn near r.
    """
    rng = np.random.default_rng(1)
    n_states, n_actions = r.shape
    n = rng.integers(0, 51, r.shape).astype(float)
    n_sas = matrix if consume else matrix.copy()
    n_sas.data *= np.repeat(n.reshape(-1), np.diff(n_sas.indptr))
    n_sas.eliminate_zeros()
    r_sas = sparse.csr_array(
        (n_sas.data * np.repeat(r.reshape(-1), np.diff(n_sas.indptr)), n_sas.indices, n_sas.indptr),
        shape=n_sas.shape,
    )
    pi_b = np.exp(rng.normal(size=r.shape))
    pi_b /= pi_b.sum(axis=1, keepdims=True)
    returns = Returns(n, np.where(n > 0, (r + rng.random(r.shape)) / (1 - GAMMA) / 2, np.nan), n)
    return Problem(
        counts=Counts(n_sas, r_sas, np.zeros((1, *r.shape)), n_states, n_actions),
        pi_b=pi_b,
        gamma=GAMMA,
        start=np.full(n_states, 1 / n_states),
        terminal=np.zeros(n_states, dtype=bool),
        allowed=np.ones(r.shape, dtype=bool),
        return_range=ReturnRange(0, 1 / (1 - GAMMA), True),
        reward_range=(0, 1),
        returns_given=returns,
    )


def timed(work: Callable[[], object], repeat: int) -> tuple[float, object]:
    """(the shortest time, the last result)."""
    times, result = [], None
    for _ in range(repeat):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return min(times), result


def peak() -> float:
    """The process's peak memory in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def compare(local: bool) -> None:
    """Every fit against QuantEcon's modified policy iteration on the same matrices (its later
    calls: compiled).
    """
    from quantecon.markov import DiscreteDP

    matrix, r = garnet(100_000, local=local)
    n_states, n_actions = r.shape
    states, actions = (
        np.repeat(np.arange(n_states), n_actions),
        np.tile(np.arange(n_actions), n_states),
    )
    peer = DiscreteDP(r.reshape(-1), sparse.csr_matrix(matrix), GAMMA, states, actions)
    peer.solve(method="mpi", epsilon=1e-8)
    print(
        f"{n_states:,} states x {n_actions} actions, 5 successors"
        f" {'within 10 states' if local else 'anywhere'}, gamma {GAMMA}"
    )
    print(
        f"{'fit':28}{'x QuantEcon':>12}{'at most':>9}{'s':>8}{'x C@v':>8}{'MB more':>9}"
        f"{'value error':>13}   status",
        flush=True,
    )
    for name, parameters, fast, slow in FITS:
        most = slow if local else fast
        if local and most is None:
            continue
        made = problem(matrix, r)
        made.blocks[0].model  # noqa: B018 - both sides start from the matrices
        base = peak()
        algorithm = surefoot.algorithm(name, **parameters)
        theirs, ours, solution = [], [], None
        for _ in range(3):
            theirs.append(timed(lambda: peer.solve(method="mpi", epsilon=1e-8), 1)[0])
            seconds, solution = timed(
                lambda made=made, algorithm=algorithm: surefoot.improve(made, algorithm), 1
            )
            ours.append(seconds)
        product = timed(lambda: matrix @ np.ones(n_states), 5)[0]
        error = float("nan")  # of values in the maximum-likelihood model, without fees
        if "one-step" not in name and "priced" not in name:
            error = residual_error(made, solution)
        print(
            f"{name:28}{min(ours) / min(theirs):12.2f}{most or '-':>9}{min(ours):8.2f}"
            f"{min(ours) / product:8.0f}{peak() - base:9.0f}{error:13.1e}   {solution.status}",
            flush=True,
        )


def residual_error(made: Problem, solution: surefoot.Solution) -> float:
    """A bound on the error of the returned policy's values, from one more backup: max |q - T_pi
    q| / (1 - gamma).
    """
    again = made.model.backup((solution.pi * solution.q).sum(axis=-1)[None])[0]
    return float(np.abs(again - solution.q).max() / (1 - GAMMA))


def growth() -> None:
    """Time divided by one bare C @ v at three sizes, and the peak memory at a million states."""
    print(f"{'states':>10}{'fit':>26}{'s':>8}{'x C@v':>8}{'peak MB':>10}", flush=True)
    for n_states in (10_000, 100_000, 1_000_000):
        matrix, r = garnet(n_states, local=False)
        product = timed(lambda matrix=matrix, n=n_states: matrix @ np.ones(n), 5)[0]
        made = problem(
            matrix, r, consume=True
        )  # the memory measured is the problem's and the fit's
        for name, parameters in (
            ("basic-rl", {}),
            ("pi-b-spibb", {"n_wedge": 5}),
            ("exact-soft-spibb", SOFT),
        ):
            seconds, _ = timed(
                lambda m=made, n=name, p=parameters: surefoot.improve(
                    m, surefoot.algorithm(n, **p)
                ),
                2,
            )
            print(
                f"{n_states:10,}{name:>26}{seconds:8.2f}{seconds / product:8.0f}{peak():10.0f}",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["compare", "growth"])
    parser.add_argument(
        "--local", action="store_true", help="successors within 10 states: slow mixing"
    )
    arguments = parser.parse_args()
    compare(arguments.local) if arguments.what == "compare" else growth()
