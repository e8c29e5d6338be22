"""Single changes of a supported or unsupported policy: how often their held-out intervals miss the
truth, and how many of those that are shown by themselves are truly no better.

    python measurements/single_changes.py [--logs 500] [--only NAME,NAME] [--workers 2]
    [--taken-back FOLDS]

The truth of a change is the gain of the policy that makes it and no other. `recommender`: one-step
logs of 12 segments and 5 items whose differences are small, the best of many changes hardly better.
With `--taken-back` a change that loses in a cross-fitted look inside the learning half (learned on
all folds but one, judged on that one) is undone before the test; docs/supported.md has what that
does.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np

import surefoot.advice.gain as learning
from families import TRUE, seed_of
from hidden_worlds import Case
from hostile import bandit, case, normal
from promises import posed, rate


def recommender(rng: np.random.Generator, n: int = 20_000) -> Case:
    """Clicks around .03; of 12 segments half have an item that is better by .01, in the others all
    items are alike or a little worse than the usual one.
    """
    rates = np.full((12, 5), 0.03)
    rates[:6, 1] += 0.015
    rates[6:9, 1:] -= 0.002
    world = bandit(np.tile([0.6, 0.1, 0.1, 0.1, 0.1], (12, 1)), rates, normal(rates, 0.17))
    return case(world, rng, n, 1)


FAMILIES = {
    "recommender": recommender,
    **{
        x.name: x.make
        for x in TRUE
        if x.name
        in ("large-effect-300", "many-states-1000", "random-mdps-200", "random-mdps-1000",
            "wet-chicken-5000", "stay-better-100")
    },
}  # fmt: skip


LEARNED = learning._learned


def taken_back(problem, units, chosen, algorithm, most, *, folds: int):  # type: ignore[no-untyped-def]
    """As `_learned`, without the changes that lose on folds that their policy has not seen."""
    found, base = LEARNED(problem, units, chosen, algorithm, most), np.asarray(problem.pi_b)
    place = np.random.default_rng(3).permutation(np.flatnonzero(chosen))
    worth = np.zeros(len(base))
    for k in range(folds):
        judge = np.zeros_like(chosen)
        judge[place[k::folds]] = True
        pi = LEARNED(problem, units, chosen & ~judge, algorithm, most).pi
        model = learning.model_of_units(problem, units, judge)
        u, n, chain = model.units, model.n_sa, model.chain(model.mixture)
        y = u.r + problem.gamma * u.goes_on * chain.v[u.next_state]
        q = np.bincount(u.pair, weights=y, minlength=n.size).reshape(n.shape) / np.maximum(n, 1)
        worth += chain.d * ((pi - base) * np.where(n > 0, q - chain.v[:, None], 0)).sum(axis=1)
    return replace(found, pi=np.where(worth[:, None] < 0, base, found.pi))


def one(name: str, i: int, folds: int = 0) -> tuple[bool, float, list[tuple[bool, ...]]]:
    """(whether the whole is shown, its true gain; below the low end, above the high end, shown,
    truly better, truly worse of every change of a log).
    """
    from surefoot.advice import held_out_gain
    from surefoot.advice.made_of import made_of
    from surefoot.evidence import units_of_batch

    made = FAMILIES[name](np.random.default_rng([seed_of(name), i]))
    problem, algorithm = posed(made)
    units = units_of_batch(problem.log, problem.gamma)
    learning._learned = partial(taken_back, folds=folds) if folds else LEARNED
    gain = held_out_gain(problem, units, algorithm)
    pi_b = np.asarray(problem.pi_b)
    moved = 0.5 * np.abs(gain.pi - pi_b).sum(axis=1)
    shown, found = gain.evidence.positive, []
    for s, row in made_of(problem, units, gain, pi_b, moved, shown=shown).alone.items():
        only = made.world.pi_b.copy()
        only[s] = gain.pi[s]
        truth = made.world.gain(only)
        ends = truth < row.low, truth > row.high
        found.append((*ends, row.shown == "better", truth > 1e-12, truth < -1e-12))
    used = np.where(problem.terminal[:, None], made.world.pi_b, gain.pi)
    return shown, made.world.gain(used), found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--only", default="")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--taken-back", type=int, default=0, metavar="FOLDS")
    given = parser.parse_args()
    names = [x for x in given.only.split(",") if x] or list(FAMILIES)
    begin = time.perf_counter()
    with ProcessPoolExecutor(given.workers) as pool:
        for name in names:
            logs = list(
                pool.map(partial(one, name, folds=given.taken_back), range(given.logs), chunksize=5)
            )
            x = np.array([row for *_, log in logs for row in log], dtype=bool).reshape(-1, 5)
            low, high, shown, better, worse = x.T
            n = max(int(shown.sum()), 1)
            print(
                f"{name:18} {len(x):6,} changes in {len(logs)} logs, truly better"
                f" {better.mean():5.1%}, worse {worse.mean():5.1%}; truth below low"
                f" {low.mean():5.1%}, above high {high.mean():5.1%}; whole shown"
                f" {np.mean([y for y, *_ in logs]):5.1%}, gain of the policy"
                f" {np.mean([y for _, y, _ in logs]):.3g}; changes shown {shown.mean():5.1%}: not"
                f" better {rate(int((shown & ~better).sum()), n)}, worse"
                f" {rate(int((shown & worse).sum()), n)}",
                flush=True,
            )
    print(f"{time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
