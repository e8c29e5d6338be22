"""C10: on how many data sets of Random MDPs does Assumption 1 hold, over gamma, eta and size?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.core import Counts
from surefoot.core.arrays import namespace, row_sum, times, to_numpy
from surefoot.core.text import Table
from surefoot.evidence.theory import assumption_1, counterexample
from surefoot.planning.error_functions import e_q
from surefoot.research.benchmarks.random_mdps import RandomMDPs
from surefoot.research.paper.claim import FAILS, HOLDS, OPEN, ClaimVerdict
from surefoot.research.simulate.draws import first_key, trial_numbers
from surefoot.research.simulate.sampling import Sampler
from surefoot.research.simulate.worlds import Worlds

GAMMAS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
ETAS = (0.1, 0.5, 0.9)
SIZES = (100, 1_000, 10_000, 100_000)
BLOCK = 25  # instances at once


@dataclass(frozen=True, kw_only=True)
class AssumptionRow:
    """Of `data_sets` at (gamma, eta, size), `decisive` ones visit every pair.

    On `holds` of those kappa < 1 / gamma at all pairs. kappa_low: the smallest kappa that would do
    on any decisive data set; violated: the mean share of pairs that violate it there.
    """

    gamma: float
    eta: float
    size: int
    data_sets: int
    decisive: int
    holds: int
    kappa_low: float
    violated: float


def assumption_1_study(
    instances: int = 100,
    *,
    gammas: Sequence[float] = GAMMAS,
    etas: Sequence[float] = ETAS,
    sizes: Sequence[int] = SIZES,
    seed: int = 20220128,
    device: str = "cpu",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[AssumptionRow, ...]:
    """`instances` Random MDPs for every gamma and eta, with one data set of each size."""
    rows = []
    total = len(gammas) * len(etas)
    for i, (gamma, eta) in enumerate((g, e) for g in gammas for e in etas):
        progress(i, total)
        benchmark = RandomMDPs(gamma=gamma, eta=eta)
        found: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {size: [] for size in sizes}
        for start in range(0, instances, BLOCK):
            keys = first_key(
                seed, benchmark.name, trial_numbers(start, min(start + BLOCK, instances), device)
            )
            worlds = benchmark.worlds(keys)
            data = tuple(benchmark.episodes(size) for size in sizes)
            sampled = Sampler(worlds).counts(keys, data, with_returns=False)
            for size, (counts, _) in zip(sizes, sampled, strict=True):
                found[size].append(needed_kappa(worlds, counts))
        rows += [
            _row(gamma, eta, size, *(np.concatenate(x) for x in zip(*found[size], strict=True)))
            for size in sizes
        ]
    progress(total, total)
    return tuple(rows)


def needed_kappa(worlds: Worlds, counts: Counts) -> tuple[np.ndarray, np.ndarray]:
    """The kappa that every data set [B] needs, and the share of pairs that need 1 / gamma or more.

    It is the smallest with  sum_{s', a'} e(s', a') pi_b(a'|s') P(s'|s, a) <= kappa e(s, a)  for
    all pairs; NaN where a pair was never visited, so that nothing is decided. A terminal state has
    one pseudo-action, whose count is the number of arrivals, as in the proof of Theorem 3.
    """
    xp = namespace(counts.n_sas)
    n, terminal = counts.n_sa, worlds.terminal
    s, a = n.shape[-2:]
    e = e_q(n, s, a, 1.0)
    ends = e_q(xp.sum(counts.n_sas, axis=(1, 2)), s, a, 1.0)
    # of e in s', by the baseline's action
    expected = xp.where(terminal, ends, row_sum(times(e, worlds.pi_b)))
    following = xp.matmul(worlds.p, xp.where(expected < xp.inf, expected, 0.0)[:, None, :, None])[
        ..., 0
    ]
    acting = ~terminal[..., None] & (n == n)
    decisive = xp.all(xp.reshape((n > 0) | ~acting, (n.shape[0], -1)), axis=-1) & xp.all(
        expected < xp.inf, axis=-1
    )
    ratio = xp.where(acting, following / xp.where(n > 0, e, 1.0), -xp.inf)
    broken = xp.astype(acting & (ratio >= 1 / worlds.gamma), xp.float64)
    kappa = xp.where(decisive, xp.max(xp.reshape(ratio, (n.shape[0], -1)), axis=-1), xp.nan)
    share = xp.sum(broken, axis=(1, 2)) / xp.sum(xp.astype(acting, xp.float64), axis=(1, 2))
    return to_numpy(kappa), to_numpy(xp.where(decisive, share, xp.nan))


def c10(
    rows: Sequence[AssumptionRow], gammas: Sequence[float] = GAMMAS, seed: int = 0
) -> ClaimVerdict:
    """The counterexample breaks it; on Random MDPs it holds nowhere with gamma above 0.6."""
    broken = all(_counterexample_breaks(gamma, seed) for gamma in gammas)
    high = [row for row in rows if row.gamma > 0.6]
    decisive, holding = sum(row.decisive for row in high), sum(row.holds for row in high)
    table = []
    for gamma in sorted({row.gamma for row in rows}):
        at = [row for row in rows if row.gamma == gamma]
        sums = np.sum([(row.data_sets, row.decisive, row.holds) for row in at], axis=0)
        kappas = [row.kappa_low for row in at if row.decisive]
        least = f"{min(kappas):.2f}" if kappas else "-"
        table.append((f"{gamma:g}", f"{1 / gamma:.2f}", *map(str, sums), least))
    verdict = FAILS if holding or not broken else HOLDS if decisive else OPEN
    etas = ", ".join(f"{eta:g}" for eta in sorted({row.eta for row in rows}))
    columns = (
        "gamma", "limit 1 / gamma", "data sets", "decisive", "holds on", "smallest kappa needed"
    )  # fmt: skip
    return ClaimVerdict(
        claim="C10",
        statement="For every gamma there is an MDP on which Assumption 1 fails (the counterexample"
        " of Theorem 3); on Random MDPs with gamma above 0.6 no data set is found for which it"
        " holds at all pairs.",
        reading=f"Counterexample: 100 random count vectors for each of {len(gammas)} discount"
        f" factors. Random MDPs: baselines with eta {etas}; decisive are data sets that visit every"
        " pair and every terminal state.",
        numbers=Table(columns, tuple(table)),
        test="Counting; no test is needed where nothing holds.",
        verdict=verdict,
        note="counterexample"
        f" {'breaks it for every gamma' if broken else 'does not always break it'}; above gamma 0.6"
        f" it holds on {holding} of {decisive} decisive data sets",
    )


def _counterexample_breaks(gamma: float, seed: int) -> bool:
    """Whether Assumption 1 fails on it for 100 random logs that visit every state."""
    model = counterexample(gamma)
    rng = np.random.default_rng(seed)
    pi_b = np.ones((model.n_states, 1))
    for _ in range(100):
        arrivals = rng.integers(1, 50, size=model.n_states - 1)
        n = np.concatenate([[arrivals.sum()], arrivals]).astype(float)[:, None]
        if assumption_1(model, pi_b, e_q(n, model.n_states, 1, 1.0)).holds:
            return False
    return True


def _row(
    gamma: float, eta: float, size: int, kappa: np.ndarray, violated: np.ndarray
) -> AssumptionRow:
    decided = ~np.isnan(kappa)
    some = decided.any()
    return AssumptionRow(
        gamma=gamma,
        eta=eta,
        size=size,
        data_sets=len(kappa),
        decisive=int(decided.sum()),
        holds=int((kappa[decided] < 1 / gamma).sum()),
        kappa_low=float(np.min(kappa[decided])) if some else float("nan"),
        violated=float(np.mean(violated[decided])) if some else float("nan"),
    )
