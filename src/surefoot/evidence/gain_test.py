"""The gain test: what episodes of the baseline show about V^pi - V^{pi_b}; HCPI, which chooses a
policy on one part of a log and tests it on the other; and the gain over one of several policies.

Every test of a policy on whole episodes takes its bounds from here: `surefoot safety-test` (for a
gain and for a loss), `surefoot improve`, the algorithm "hcpi"; but for `surefoot watch`, which bets
on and on. The test is on paired differences, so the value of the baseline need not be known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from surefoot.core import Batch, Model
from surefoot.core.errors import LogError, NotAvailableError, ParameterError
from surefoot.core.evidence import Evidence
from surefoot.core.text import plural
from surefoot.evidence.centring import centred
from surefoot.evidence.episode_values import GAIN, VALUE, Standard, episode_values, negated
from surefoot.evidence.estimates import EpisodeValues, episode_returns, fitted_model
from surefoot.evidence.units import FEWEST_IN_PART, take_episodes
from surefoot.evidence.weights import checked_policy
from surefoot.statistics import bounds
from surefoot.statistics.bounds import Forecast, choose_cap, forecast, uncapped_betting

MIXTURE_ALPHAS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
ORDER = 0  # the seed of the order in which episodes are bet on
OBSERVED = "; the range behind lo is observed in the log, not declared: an assumption"
NOTHING = "every candidate is the baseline: there is nothing to test"
SAME = 1e-12  # policies closer than this are one
OWN_EPISODES = "the episodes of that policy itself: two bounds, each at half of the level"


def evidence_of(
    quantity: str,
    batch: Batch,
    pi: Any,
    pi_b: Any,
    gamma: float,
    standard: Standard | None = None,
    *,
    training: Batch | None = None,
    cap: float | None = None,
    model: Model | None = None,
    rng: np.random.Generator | None = None,
    turn: np.ndarray | None = None,
) -> Evidence:
    """A lower bound on a quantity from episodes of pi_b: one test at level delta, as a row whose
    `low` is the bound.

    quantity    GAIN: V^pi - V^{pi_b}, from the paired differences of each episode
                LOSS: V^{pi_b} - V^pi: the same test with every reward negated
                VALUE: V^pi alone; to compare it with V^{pi_b}, which is unknown, would take a
                second bound and delta / 2 for each

    pi, the cap and the model must not depend on `batch`. The cap of "maurer-pontil" and "hoeffding"
    is `cap`, or is chosen on `training` (other episodes); "betting" needs none. `model` is what
    doubly robust values need, `rng` what the bootstrap needs. Without propensities pi_b must be the
    policy that made the log: weights from a baseline estimated on the same log void the guarantee.
    With propensities pi_b may be any policy, or None: whatever made the log. Where that learned on
    the way, `turn` is the place of every episode in time: they are then bet on in that order.
    """
    standard = Standard() if standard is None else standard
    if training is not None:
        standard = standard.having_seen(training.reward)
    found = episode_values(batch, pi, pi_b, gamma, standard, model=model, quantity=quantity)
    if standard.capped and training is not None and cap is None:
        other = episode_values(training, pi, pi_b, gamma, standard, quantity=quantity)
        cap = choose_cap(other.x, found.lo, len(found.x), standard.delta, standard.bound).cap
    row = bound_of(found, standard, cap=cap, rng=rng, turn=turn)
    return replace(row, notes=(*row.notes, *found.notes))


def promised(
    training: Batch,
    pi: np.ndarray,
    pi_b: np.ndarray | None,
    gamma: float,
    standard: Standard,
    n: int,
    *,
    model: Model | None = None,
    quantity: str = GAIN,
) -> Forecast:
    """The bound that n held-out episodes would give if they were like the training part.

    A policy made from the training part looks better there than elsewhere, so promises are
    optimistic; the test is not.
    """
    found = episode_values(training, pi, pi_b, gamma, standard, model=model, quantity=quantity)
    if standard.floored:
        return choose_cap(found.x, found.lo, n, standard.delta, standard.bound)
    if found.effective_size * n / len(found.x) < standard.fewest_effective:
        # about what the held-out part will have
        raise NotAvailableError(
            f"effectively {found.effective_size:.1f} of {len(found.x)} training episodes are"
            " possible under pi: too few"
        )
    return forecast(found.x, n, standard.delta)


def mixtures(
    pi: np.ndarray, pi_b: np.ndarray, alphas: Sequence[float] = MIXTURE_ALPHAS
) -> tuple[np.ndarray, ...]:
    """(1 - alpha) pi + alpha pi_b for every alpha (H-OPT of Satija et al. 2021)."""
    wrong = [alpha for alpha in alphas if not 0 <= alpha <= 1]
    if wrong or not len(alphas):
        raise ParameterError(f"alphas must be one or more shares in [0, 1], got {list(alphas)!r}")
    return tuple((1 - alpha) * pi + alpha * pi_b for alpha in alphas)


def best_of(
    training: Batch,
    held_out: Batch,
    candidates: Sequence[np.ndarray],
    pi_b: Any,
    gamma: float,
    standard: Standard | None = None,
    *,
    rng: np.random.Generator | None = None,
) -> tuple[np.ndarray, Evidence, tuple[float, ...]]:
    """(the policy to use, the one test on `held_out`, what `training` promises of each candidate):
    the candidate that promises most, if the test shows V^pi - V^{pi_b} > 0, else pi_b.

    Thomas, Theocharous & Ghavamzadeh, "High Confidence Policy Improvement", ICML 2015. P( a policy
    worse than pi_b is returned ) <= delta, in the sense of the standard's bound, for i.i.d.
    episodes made by pi_b: the two parts share no episode, the candidates do not depend on
    `held_out`, and there is one test on it. Of equal promises the first is taken; a candidate that
    is the baseline, or cannot be judged, promises -inf. The cap is chosen on `training` too.
    """
    standard = Standard() if standard is None else standard
    pi_b = checked_policy("pi_b", pi_b, held_out)
    pis = [checked_policy(f"candidate {i}", pi, held_out) for i, pi in enumerate(candidates)]
    promises, troubles = [-math.inf] * len(pis), []
    changed = [i for i, pi in enumerate(pis) if np.abs(pi - pi_b).max() > SAME]
    if not changed:
        return pi_b, Evidence(trouble=NOTHING), tuple(promises)
    model = model_for(standard, training, gamma)
    for i in changed:
        try:
            promises[i] = promised(
                training, pis[i], pi_b, gamma, standard, held_out.n_episodes, model=model
            ).bound
        except NotAvailableError as trouble:
            troubles.append(trouble)
    if len(troubles) == len(changed):
        raise troubles[0]
    chosen = pis[max(changed, key=lambda i: promises[i])]
    row = evidence_of(
        GAIN, held_out, chosen, pi_b, gamma, standard, training=training, model=model, rng=rng
    )
    if troubles:
        words = f"{len(troubles)} of {len(pis)} candidates could not be judged: {troubles[0]}"
        row = replace(row, notes=(*row.notes, words))
    return chosen if row.positive else pi_b, row, tuple(promises)


def model_for(standard: Standard, training: Batch, gamma: float) -> Model | None:
    """The model behind doubly robust values, which hold with any: no declared range is needed to
    make it, but for gamma = 1. None for other values.
    """
    if standard.estimator != "dr":
        return None
    returns = standard.return_range if gamma == 1 else None
    return fitted_model(training, gamma, return_range=returns)


def bound_of(
    found: EpisodeValues,
    standard: Standard,
    *,
    cap: float | None = None,
    rng: np.random.Generator | None = None,
    turn: np.ndarray | None = None,
) -> Evidence:
    """The row of the bound on the mean. "betting" takes the episodes in turn, or in an order drawn
    once and for all, as logs may be sorted, and centres them in that order.
    """
    x, delta = found.x, standard.delta
    if standard.bound == "bca":
        if rng is None:
            raise ParameterError('the bound "bca" resamples: give rng=, a numpy.random.Generator')
        row = bounds.bca(x, delta, rng)
    elif standard.bound == "student-t":
        row = bounds.student_t(x, delta)
    elif standard.bound == "betting":
        if cap is not None:
            raise ParameterError(f'the bound "{standard.bound}" takes no cap: leave cap= out')
        order = np.random.default_rng(ORDER).permutation(len(x))
        order = order if turn is None else np.argsort(turn)
        z, lo = x[order], np.asarray(found.lo)
        if found.control is not None:
            z, lo = centred(x, found.control, order)
        row = bounds.uncapped_betting(z, delta, lo=lo)
    elif cap is None:
        raise ParameterError(
            f'the bound "{standard.bound}" needs a cap: give training=, episodes to choose it on,'
            " or cap="
        )
    else:
        method = bounds.hoeffding if standard.bound == "hoeffding" else bounds.maurer_pontil
        row = method(x, delta, lo=found.lo, cap=cap)
    row = replace(row, estimate=found.estimate, unit="episodes")
    if standard.floored:
        return row if found.declared else replace(row, validity=row.validity + OBSERVED)
    if found.effective_size >= standard.fewest_effective:
        return row
    note = (
        f"effectively {found.effective_size:.1f} episodes, at least {standard.fewest_effective:g}"
        " are needed: where hardly an episode is possible under pi, the scatter of the values hides"
        " what they lack, and no bound is given"
    )
    return without_bound(row, note)


def without_bound(row: Evidence, note: str) -> Evidence:
    """The row where nothing can be promised, for the reason in the note."""
    return replace(row, low=-math.inf, notes=(*row.notes, note))


def evidence_of_two(
    quantity: str, batch: Batch, pi: np.ndarray, policy: int, gamma: float, standard: Standard
) -> tuple[Evidence, EpisodeValues]:
    """V^pi - V^b >= L(V^pi) + L(-V^b), or for a loss V^b - V^pi >= L(V^b) + L(-V^pi): the row, and
    the values of pi behind it.

    V^pi is bounded at delta / 2 by all episodes, weighted by their propensities; V^b at delta / 2
    by the returns of the episodes of the policy with this code, which need no weights and no
    knowledge of its probabilities. One of both fails with probability delta at most, however the
    two samples overlap (they do). L is the betting bound, L(-V) that of the negated rewards.
    """
    if standard.bound != "betting":
        raise ParameterError(
            'against the episodes of one policy the bound is "betting", got'
            f' "{standard.bound}": leave it out'
        )
    part = take_episodes(batch, _own_episodes(batch, policy))
    each = replace(standard, delta=standard.delta / 2).having_seen(batch.reward)
    of_pi, first, of_own, second = batch, each, negated(part), each.mirrored()
    if quantity != GAIN:
        of_pi, first, of_own, second = negated(batch), each.mirrored(), part, each
    values = episode_values(of_pi, pi, None, gamma, first, quantity=VALUE)
    # the floor of plain returns is that of whole-episode values with any weights
    plain = replace(second, estimator="is")
    floor = episode_values(of_own, pi, None, gamma, plain, quantity=VALUE).lo
    g = episode_returns(of_own, gamma)
    row, other = _bounded(values.x, values.lo, each), _bounded(g, floor, each)
    words = f"the value of the baseline is the mean of {plural(len(g), 'episode')} of its own"
    values = replace(
        values, x=values.x + g.mean(), lo=-math.inf, compared=OWN_EPISODES,
        notes=(*values.notes, words),
    )  # fmt: skip
    row = replace(
        row,
        estimate=values.estimate,
        low=row.low + other.low,
        delta=standard.delta,
        unit="episodes",
        validity=row.validity if values.declared else row.validity + OBSERVED,
    )
    return row, values


def _own_episodes(batch: Batch, policy: int) -> np.ndarray:
    """Which episodes are of this policy; each episode must be of one."""
    codes = batch.beside["policy"]
    first = codes[batch.first][batch.episode]
    mixed = np.flatnonzero(codes != first)
    if len(mixed):
        raise LogError(
            f"row {batch.row[mixed[0]]} was chosen by another policy than the first of its episode"
            f" ({len(mixed)} such rows): the returns of one policy are those of whole episodes;"
            " give the baseline as a file (--baseline)"
        )
    own: np.ndarray = codes[batch.first] == policy
    if own.sum() < FEWEST_IN_PART:
        raise LogError(
            f"the policy to compare with has {plural(int(own.sum()), 'episode')} in the tested log:"
            f" at least {FEWEST_IN_PART} are needed"
        )
    return own


def _bounded(x: np.ndarray, lo: float, standard: Standard) -> Evidence:
    """The betting bound on the mean, in an order drawn once and for all."""
    order = np.random.default_rng(ORDER).permutation(len(x))
    return uncapped_betting(x[order], standard.delta, lo=lo)
