"""What the LP costs: one improvement step of Exact-Soft-SPIBB by HiGHS, state by state, against
the exact sweep (claim C13).
"""

from __future__ import annotations

import time

import numpy as np
from scipy.optimize import linprog

from surefoot.planning import best_rows


def by_lp(q: np.ndarray, b: np.ndarray, e: np.ndarray, budget: float) -> np.ndarray:
    """max q . pi over (pi, t): sum pi = 1, -t <= pi - b <= t, e . t <= budget; rows with an
    infinite e stay at b.
    """
    n = len(q)
    finite = np.where(np.isinf(e), 0.0, e)
    eye = np.eye(n)
    above = np.block([[eye, -eye], [-eye, -eye], [np.zeros((1, n)), finite[None]]])
    limit = np.concatenate([b, -b, [budget]])
    bounds = [(x, x) if np.isinf(k) else (0, 1) for x, k in zip(b, e, strict=True)] + [
        (0, None)
    ] * n
    equal = np.concatenate([np.ones(n), np.zeros(n)])[None]
    found = linprog(
        np.concatenate([-q, np.zeros(n)]),
        A_ub=above,
        b_ub=limit,
        A_eq=equal,
        b_eq=[1.0],
        bounds=bounds,
    )
    return found.x[:n] if found.success else np.full(n, np.nan)


def main() -> None:
    """Random rows with infinite errors among them; the least of three for the sweep."""
    rng = np.random.default_rng(0)
    print(
        f"{'rows x actions':>16}{'LP ms':>10}{'sweep ms':>10}{'ratio':>9}{'LP failed':>11}"
        f"{'largest gap':>13}"
    )
    for rows, actions in ((200, 4), (200, 10), (100, 25)):
        q, b = rng.random((rows, actions)), rng.dirichlet(np.ones(actions), rows)
        e = np.where(
            rng.random((rows, actions)) < 0.2,
            np.inf,
            1 / np.sqrt(rng.integers(1, 200, (rows, actions))),
        )
        start = time.perf_counter()
        lp = np.array([by_lp(*row, 0.2) for row in zip(q, b, e, strict=True)])
        slow = time.perf_counter() - start
        times = []
        for _ in range(3):
            start = time.perf_counter()
            ours = best_rows(q, b, e, e, 0.2).pi
            times.append(time.perf_counter() - start)
        failed = int(np.isnan(lp).any(axis=1).sum())
        gap = np.nanmax(np.abs((q * (ours - lp)).sum(axis=1)))
        print(
            f"{f'{rows} x {actions}':>16}{1e3 * slow:10.0f}{1e3 * min(times):10.2f}"
            f"{slow / min(times):9.0f}{failed:11}{gap:13.1e}"
        )


if __name__ == "__main__":
    main()
