"""ICU-Sepsis: improve the clinicians' policy from logs of simulated patients.

    pip install 'surefoot[icu]' && python examples/icu_sepsis.py        (--quick: small, seconds)

Policies are learned from the log alone, at gamma = 0.99, the clinicians' policy being estimated
from it too; they are judged in the model that made the log, undiscounted: the probability of
survival (clinicians 0.7818; 0.7820 over admissible doses). Simulated.
"""

import sys
from pathlib import Path

import numpy as np

import surefoot
from surefoot.research.benchmarks import ICUSepsis
from surefoot.research.benchmarks.icu_sepsis import DEATH, SURVIVAL
from surefoot.research.simulate import Sampler

here = Path(__file__).resolve().parent  # or this file hides its namesake's data
sys.path[:] = [x for x in sys.path if Path(x).resolve() != here]
SOFT = {"epsilon": 0.5, "delta": 1}
ALGORITHMS = {
    "basic-rl": surefoot.BasicRL(),
    "pi-b-spibb, n_wedge 5": surefoot.PiBSPIBB(n_wedge=5),
    "pi-b-spibb, n_wedge 20": surefoot.PiBSPIBB(n_wedge=20),
    "lower-approx-soft-spibb": surefoot.LowerApproxSoftSPIBB(**SOFT),
    "priced-soft-spibb": surefoot.PricedSoftSPIBB(epsilon=1),
    "ramdp + soft": surefoot.algorithm("ramdp+lower-approx-soft-spibb", kappa=0.05, **SOFT),
}
GIVEN = {"gamma": 0.99, "return_range": (0, 1), "needs_returns": False}


def main(sizes: tuple[int, ...], logs: int) -> None:
    """One row an algorithm, one column a number of patients."""
    hospital = ICUSepsis(gamma=1.0).worlds(np.array([0]))
    sampler, clinicians = Sampler(hospital), hospital.pi_b[0]
    values = np.empty((len(ALGORITHMS), len(sizes), logs))
    for j, size in enumerate(sizes):
        for k in range(logs):
            steps = sampler.log(k, ICUSepsis().episodes(size))
            problem = surefoot.problem(steps, terminal_states=[DEATH, SURVIVAL], **GIVEN)
            for i, algorithm in enumerate(ALGORITHMS.values()):
                learned = surefoot.improve(problem, algorithm).policy
                values[i, j, k] = hospital.value(learned.over(clinicians)[None])[0]
    best = hospital.rho_star[0]
    print(f"survival, undiscounted: clinicians {hospital.rho_b[0]:.4f}, best possible {best:.4f}")
    said = f"mean ± 1.96 standard errors over {logs} logs"
    print(f"learned at gamma = 0.99 from the log alone; {said}\n")
    print(f"{'patients':26}" + "".join(f"{size:>18,}" for size in sizes))
    for name, row in zip(ALGORITHMS, values, strict=True):
        half = 1.96 * row.std(axis=1, ddof=1) / np.sqrt(logs)
        cells = (f"{m:9.4f} ± {h:.4f}" for m, h in zip(row.mean(axis=1), half, strict=True))
        print(f"{name:26}" + "".join(cells))


if __name__ == "__main__":
    main(*(((300, 1_000), 2) if "--quick" in sys.argv else ((1_000, 5_000, 20_000), 10)))
