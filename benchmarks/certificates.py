"""Certificates against the truth: how often each bound is violated, how far below the truth it lies, and from which log on it helps."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

import surefoot
from surefoot.algorithms.certified_advantage import CertifiedAdvantage, OneStepCertifiedAdvantage
from surefoot.benchmarks import Episodes, RandomMDPs, Sampler, WetChicken, Worlds, first_key, trial_numbers
from surefoot.certificates import certify
from surefoot.problems import Problem
from surefoot.trust.evidence import with_independent_returns

Maker = Callable[[Problem, float], np.ndarray]


@dataclass(frozen=True)
class Case:
    """A certificate with the algorithm whose policies it is tried on; `fresh`: the certificate sees another log than the algorithm."""

    label: str
    method: str
    policy: Maker
    parameters: dict[str, object]
    fresh: bool = False


def _soft(epsilon: float, error: str) -> Maker:
    def make(problem: Problem, delta: float) -> np.ndarray:
        algorithm = surefoot.algorithm("one-step-exact-soft-spibb", epsilon=epsilon, delta=delta, error=error)
        return surefoot.improve(with_independent_returns(problem), algorithm).pi

    return make


def _by_name(name: str, **parameters: float | str) -> Maker:
    return lambda problem, delta: surefoot.improve(problem, surefoot.algorithm(name, **parameters)).pi


def _certified(one_step: bool, error: str) -> Maker:
    cls = OneStepCertifiedAdvantage if one_step else CertifiedAdvantage
    return lambda problem, delta: surefoot.improve(problem, cls(delta, error)).pi


CASES = (
    Case("certified-advantage hoeffding", "certified-advantage", _certified(True, "hoeffding"), {"error": "hoeffding"}),
    Case("certified-advantage mpeb", "certified-advantage", _certified(True, "mpeb"), {"error": "mpeb"}),
    Case("  the same, multi-step", "certified-advantage", _certified(False, "mpeb"), {"error": "mpeb"}),
    Case("advantage hoeffding, greedy", "advantage", _soft(100.0, "hoeffding"), {"error": "hoeffding"}),
    Case("theorem-1 hoeffding, eps 0.1", "theorem-1", _soft(0.1, "hoeffding"), {"error": "hoeffding"}),
    Case("theorem-1 mpeb, eps 0.001", "theorem-1", _soft(0.001, "mpeb"), {"error": "mpeb"}),
    Case("spibb weissman, n_wedge 10", "spibb", _by_name("pi-b-spibb", n_wedge=10), {"radius": "weissman"}),
    Case("spibb two-successor", "spibb", _by_name("pi-b-spibb", n_wedge=10), {"radius": "two-successor"}),
    Case("spibb clopper-pearson", "spibb", _by_name("pi-b-spibb", n_wedge=10), {"radius": "clopper-pearson"}),
    Case("spibb beta", "spibb", _by_name("pi-b-spibb", n_wedge=10), {"radius": "beta"}),
    Case("robust, basic rl", "robust", _by_name("basic-rl"), {}),
    Case("mbie, basic rl", "mbie", _by_name("basic-rl"), {}),
    Case("duipi, fresh log", "duipi", _by_name("duipi-centred", xi=0.5), {"data": "fresh"}, fresh=True),
    Case("duipi, its own log (misuse)", "duipi", _by_name("duipi-centred", xi=0.5), {"data": "fresh"}),
    Case("delta-method, fresh log", "delta-method", _by_name("basic-rl"), {"data": "fresh"}, fresh=True),
)
SLOW = {"robust, basic rl", "mbie, basic rl"}


@dataclass(frozen=True)
class Result:
    """What happened to one case: truth and bound of every data set, whether its policy changed; data sets that were refused are NaN."""

    truth: np.ndarray
    bound: np.ndarray
    changed: np.ndarray
    lowest: float

    def row(self, label: str) -> str:
        """One line of the table; shares are of the data sets in which the policy changed."""
        use = self.changed & np.isfinite(self.bound)
        n, refused = int(use.sum()), int(np.isnan(self.bound).sum())
        if n == 0:
            return f"{label:32}{0:8d}{refused:8d}{'no changed policy was certified':>34}"
        slack = (self.truth - self.bound)[use]
        violated = int((slack < -1e-9).sum())
        limit = 1.0 if violated == n else float(beta.ppf(0.99, violated + 1, n - violated))
        low, middle, high = np.quantile(slack, [0.05, 0.5, 0.95])
        useful, vacuous = (self.bound[use] >= 0).mean(), (self.bound[use] <= self.lowest).mean()
        quantiles = "".join(f"{x:11.4g}" for x in (slack.min(), low, middle, high))
        return f"{label:32}{n:8d}{refused:8d}{violated / n:10.4f}{limit:9.4f}{quantiles}{useful:9.3f}{vacuous:9.3f}"


WIDTHS = {
    "changed": 8, "refused": 8, "violated": 10, "99% <=": 9, "least": 11, "slack 5%": 11, "50%": 11, "95%": 11, "useful": 9, "vacuous": 9,
}  # fmt: skip
HEADER = f"{'certificate':32}" + "".join(f"{name:>{width}}" for name, width in WIDTHS.items())


def measured(name: str, size: int, delta: float, data_sets: int, seed: int, cases: tuple[Case, ...], steps: int | None) -> list[Result]:
    """Every case on so many simulated logs of this size."""
    benchmark = RandomMDPs() if name == "random-mdps" else WetChicken()
    keys = first_key(seed, benchmark.name, trial_numbers(0, 2 * data_sets, "cpu"))
    truth, bound = (np.full((len(cases), data_sets), np.nan) for _ in range(2))
    changed = np.zeros(truth.shape, dtype=bool)
    shared = benchmark.worlds(keys[:1]) if name == "wet-chicken" else None
    data = benchmark.episodes(size)
    if steps is not None:
        data = Episodes(size, data.number if name == "random-mdps" else max(1, size // steps), steps)
    for t in range(data_sets):
        worlds = benchmark.worlds(keys[t : t + 1]) if shared is None else shared
        problem = _problem(worlds, int(keys[t]), data)
        rho_b = float(np.asarray(worlds.rho_b)[0])
        other = None
        for i, case in enumerate(cases):
            pi = case.policy(problem, delta)
            changed[i, t] = bool((abs(pi - problem.pi_b) > 1e-12).any())
            truth[i, t] = float(np.asarray(worlds.value(pi[None]))[0]) - rho_b
            if case.fresh and other is None:
                other = _problem(worlds, int(keys[data_sets + t]), data)
            try:
                bound[i, t] = certify(other if case.fresh else problem, pi, case.method, delta=delta, **case.parameters).bound
            except (surefoot.PolicyError, surefoot.NotAvailableError):
                continue
    lowest = -problem.return_range.width
    return [Result(truth[i], bound[i], changed[i], lowest) for i in range(len(cases))]


def _problem(worlds: Worlds, key: int, data: Episodes) -> Problem:
    log = Sampler(worlds).log(key, data)
    lo, hi = worlds.return_range.lo, worlds.return_range.hi
    return surefoot.problem(
        **log, pi_b=worlds.pi_b[0], gamma=worlds.gamma, start=worlds.start[0], terminal_states=np.flatnonzero(worlds.terminal[0]),
        n_states=worlds.n_states, n_actions=worlds.n_actions, reward_table=worlds.reward_table[0, :, 0, :],
        reward_range=worlds.reward_range, return_range=(lo, hi),
    )  # fmt: skip


def tightness(name: str, sizes: list[int], delta: float, data_sets: int, seed: int, cases: tuple[Case, ...], steps: int | None) -> None:
    """The least size at which a case proves >= 0 for a changed and truly better policy in at least half of the logs."""
    found: dict[str, str] = {}
    for size in sizes:
        start = time.perf_counter()
        todo = tuple(c for c in cases if c.label not in found)
        for case, result in zip(todo, measured(name, size, delta, data_sets, seed, todo, steps), strict=True):
            proved = result.changed & (result.truth > 0) & (np.nan_to_num(result.bound, nan=-1.0) >= 0)
            if proved.mean() >= 0.5:
                found[case.label] = f"{size}"
        print(f"  size {size}: {time.perf_counter() - start:.0f} s", flush=True)
    for case in cases:
        print(f"{case.label:32}{found.get(case.label, f'never up to {sizes[-1]}'):>24}")


def main() -> None:
    """Validity by default; --tightness for the smallest log that helps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark", choices=["wet-chicken", "random-mdps"], nargs="*", default=["wet-chicken", "random-mdps"])
    parser.add_argument("--data-sets", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="*", help="steps (Wet Chicken), trajectories (Random MDPs)")
    parser.add_argument("--delta", type=float, nargs="*", default=[0.05, 0.2])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="cut episodes after so many steps (Wet Chicken: then restart)")
    parser.add_argument("--tightness", action="store_true")
    parser.add_argument("--quick", action="store_true", help="leave the two robust evaluations out, which take most of the time")
    parser.add_argument("--cases", nargs="*", help="only cases whose label contains one of these")
    options = parser.parse_args()
    cases = tuple(c for c in CASES if not (options.quick and c.label in SLOW))
    if options.cases:
        cases = tuple(c for c in cases if any(x in c.label for x in options.cases))
    for name in options.benchmark:
        if options.tightness:
            sizes = options.sizes or ([1000, 10_000, 100_000] if name == "wet-chicken" else [100, 1000, 10_000])
            for delta in options.delta:
                print(f"\n{name}: the least size that proves >= 0 in half of {options.data_sets} logs, delta {delta}")
                tightness(name, sizes, delta, options.data_sets, options.seed, cases, options.steps)
            continue
        for size in options.sizes or ([2000] if name == "wet-chicken" else [100]):
            for delta in options.delta:
                print(f"\n{name}, size {size}, delta {delta}, {options.data_sets} data sets; slack = truth - bound\n{HEADER}")
                results = measured(name, size, delta, options.data_sets, options.seed, cases, options.steps)
                for case, result in zip(cases, results, strict=True):
                    print(result.row(case.label), flush=True)


if __name__ == "__main__":
    main()
