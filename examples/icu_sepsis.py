"""ICU-Sepsis: improve the clinicians' policy from logs of simulated patients, and see in the true
model what it was worth.

    pip install 'surefoot[icu]' && python examples/icu_sepsis.py        (--quick: small logs,
    seconds)

Policies are learned from the log alone, at gamma = 0.99, the clinicians' policy being estimated
from it too; they are judged in the model that made the log, undiscounted: the probability of
survival (clinicians 0.7818; 0.7820 over admissible doses). Simulated.
"""

import sys
from pathlib import Path

import numpy as np

import surefoot
from surefoot.benchmarks import ICUSepsis
from surefoot.benchmarks.icu_sepsis import DEATH, SURVIVAL
from surefoot.logs import read_log
from surefoot.simulate import Sampler

sys.path[:] = [
    x for x in sys.path if Path(x).resolve() != Path(__file__).resolve().parent
]  # or this file hides its namesake's data
GAMMA = 0.99
ALGORITHMS = {
    "basic-rl": surefoot.algorithm("basic-rl"),
    "pi-b-spibb, n_wedge 5": surefoot.algorithm("pi-b-spibb", n_wedge=5),
    "pi-b-spibb, n_wedge 20": surefoot.algorithm("pi-b-spibb", n_wedge=20),
    "lower-approx-soft-spibb": surefoot.algorithm("lower-approx-soft-spibb", epsilon=0.5, delta=1),
    "ramdp + soft": surefoot.algorithm(
        "ramdp+lower-approx-soft-spibb", kappa=0.05, epsilon=0.5, delta=1
    ),
}


def learned(columns: dict[str, np.ndarray], truth: np.ndarray) -> np.ndarray:
    """The policy of each algorithm over the states and actions of the hospital; where the log
    says nothing, as before (`truth`).
    """
    log = read_log(columns, terminal_states=[DEATH, SURVIVAL])
    problem = log.problem(GAMMA, return_range=(0, 1), needs_returns=False)
    acted = log.n_sa.sum(axis=1) > 0
    policies = np.array([truth] * len(ALGORITHMS))
    policies[:, np.array(log.states)[acted]] = 0.0
    for pi, algorithm in zip(policies, ALGORITHMS.values(), strict=True):
        pi[np.ix_(np.array(log.states)[acted], log.actions)] = surefoot.improve(
            problem, algorithm
        ).pi[acted]
    return policies


def main(sizes: tuple[int, ...], logs: int) -> None:
    """One row an algorithm, one column a number of patients."""
    hospital = ICUSepsis(gamma=1.0).worlds(np.array([0]))
    sampler = Sampler(hospital)
    values = np.empty((len(ALGORITHMS), len(sizes), logs))
    for j, size in enumerate(sizes):
        for k in range(logs):
            values[:, j, k] = hospital.value(
                learned(sampler.log(k, ICUSepsis().episodes(size)), hospital.pi_b[0])
            )
    print(
        f"survival, undiscounted: clinicians {hospital.rho_b[0]:.4f}, best possible"
        f" {hospital.rho_star[0]:.4f}"
    )
    print(
        f"learned at gamma = {GAMMA} from the log alone; mean ± 1.96 standard errors over {logs}"
        " logs\n"
    )
    print(f"{'patients':26}" + "".join(f"{size:>18,}" for size in sizes))
    for name, row in zip(ALGORITHMS, values, strict=True):
        half = 1.96 * row.std(axis=1, ddof=1) / np.sqrt(logs)
        print(
            f"{name:26}"
            + "".join(f"{m:9.4f} ± {h:.4f}" for m, h in zip(row.mean(axis=1), half, strict=True))
        )


if __name__ == "__main__":
    main(*(((300, 1_000), 2) if "--quick" in sys.argv else ((1_000, 5_000, 20_000), 10)))
