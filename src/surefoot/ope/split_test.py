"""High-confidence policy improvement: choose a candidate on one part of the log, test that one on
the other, else keep the baseline.

Thomas, Theocharous & Ghavamzadeh, "High Confidence Policy Improvement", ICML 2015; the mixtures
with the baseline as in Satija et al. 2021 (H-OPT). The test is on paired differences, so the value
of the baseline need not be known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from surefoot.core import Batch, Model
from surefoot.errors import NotAvailableError, ParameterError
from surefoot.ope.caps import Forecast, choose_cap, forecast
from surefoot.ope.episodes import SHARE, split_episodes
from surefoot.ope.gain_test import Evidence, Standard, episode_values, improvement_bound
from surefoot.ope.models import fitted_model
from surefoot.ope.weights import checked_policy

ALPHAS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
ROUNDING = 1e-12  # policies closer than this are one


@dataclass(frozen=True, repr=False)
class Verdict:
    """The policy to use: the chosen candidate where the held-out episodes show that it is better,
    else the baseline.

    chosen      which candidate was tested; its mixture is alphas[chosen] where the candidates are
                mixtures
    forecasts   the bound that the training part promised for each candidate
    evidence    the one test on the held-out part; None where every candidate is the baseline
    """

    accepted: bool
    pi: np.ndarray
    chosen: int
    forecasts: tuple[float, ...]
    evidence: Evidence | None
    n_training: int
    n_held_out: int
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        self.pi.flags.writeable = False

    def __repr__(self) -> str:
        word = f"candidate {self.chosen} accepted" if self.accepted else "baseline kept"
        return f"Verdict({word}, {self.n_training} + {self.n_held_out} episodes; {self.evidence!r})"


def hcpi(
    batch: Batch,
    propose: Callable[[Batch], Any],
    pi_b: Any,
    gamma: float,
    standard: Standard | None = None,
    *,
    rng: np.random.Generator,
    share: float = SHARE,
    alphas: Sequence[float] = ALPHAS,
) -> Verdict:
    """Split the episodes, let `propose` make a policy of the training part, test the best mixture
    with pi_b on the held-out part.

    P( a policy worse than pi_b is returned ) <= delta, in the sense of the standard's bound, for
    i.i.d. episodes made by pi_b: whatever happens on the training part, there is one test, on
    episodes that it has not seen.
    """
    training, held_out = split_episodes(batch, rng, share)
    pi_b = checked_policy("pi_b", pi_b, batch)
    pi = checked_policy("the proposed pi", propose(training), batch)
    return safety_test(
        training, held_out, mixtures(pi, pi_b, alphas), pi_b, gamma, standard, rng=rng
    )


def mixtures(
    pi: np.ndarray, pi_b: np.ndarray, alphas: Sequence[float] = ALPHAS
) -> tuple[np.ndarray, ...]:
    """(1 - alpha) pi + alpha pi_b for every alpha."""
    wrong = [alpha for alpha in alphas if not 0 <= alpha <= 1]
    if wrong or not len(alphas):
        raise ParameterError(f"alphas must be one or more shares in [0, 1], got {list(alphas)!r}")
    return tuple((1 - alpha) * pi + alpha * pi_b for alpha in alphas)


def safety_test(
    training: Batch,
    held_out: Batch,
    candidates: Sequence[np.ndarray],
    pi_b: Any,
    gamma: float,
    standard: Standard | None = None,
    *,
    rng: np.random.Generator | None = None,
) -> Verdict:
    """Choose the candidate (and the cap) that promises most on `training`; accept it if `held_out`
    shows V^pi - V^{pi_b} > 0.

    The two parts share no episode, and the candidates do not depend on `held_out`. Of equal
    promises the first is taken.
    """
    standard = Standard() if standard is None else standard
    pi_b = checked_policy("pi_b", pi_b, held_out)
    pis = [checked_policy(f"candidate {i}", pi, held_out) for i, pi in enumerate(candidates)]
    sizes = training.n_episodes, held_out.n_episodes
    changed = [i for i, pi in enumerate(pis) if np.abs(pi - pi_b).max() > ROUNDING]
    if not changed:
        return Verdict(
            False,
            pi_b.copy(),
            0,
            (),
            None,
            *sizes,
            ("every candidate is the baseline: there is nothing to test",),
        )
    model = _model(training, gamma, standard)
    promises, troubles = _promises(
        training, pis, changed, pi_b, gamma, standard, held_out.n_episodes, model
    )
    chosen = max(changed, key=lambda i: promises[i])
    if len(troubles) == len(changed):
        raise troubles[0]
    evidence = improvement_bound(
        held_out, pis[chosen], pi_b, gamma, standard, training=training, model=model, rng=rng
    )
    accepted = evidence.is_positive
    notes = evidence.values.notes
    if troubles:
        notes += (f"{len(troubles)} of {len(pis)} candidates could not be judged: {troubles[0]}",)
    return Verdict(
        accepted,
        (pis[chosen] if accepted else pi_b).copy(),
        chosen,
        tuple(promises),
        evidence,
        *sizes,
        notes,
    )


def promised(
    training: Batch,
    pi: np.ndarray,
    pi_b: np.ndarray,
    gamma: float,
    standard: Standard,
    n: int,
    model: Model | None = None,
) -> Forecast:
    """The bound that n held-out episodes would give if they were like the training part.

    A policy made from the training part looks better there than elsewhere, so promises are
    optimistic; the test is not.
    """
    found = episode_values(training, pi, pi_b, gamma, standard, model=model)
    if standard.floored:
        return choose_cap(found.x, found.lo, n, standard.delta, standard.bound)
    if (
        found.effective_size * n / len(found.x) < standard.fewest_effective
    ):  # what the held-out part will have, about
        raise NotAvailableError(
            f"effectively {found.effective_size:.1f} of {len(found.x)} training episodes are"
            " possible under pi: too few"
        )
    return forecast(found.x, n, standard.delta)


def _promises(
    training: Batch,
    pis: list[np.ndarray],
    changed: list[int],
    pi_b: np.ndarray,
    gamma: float,
    standard: Standard,
    n: int,
    model: Model | None,
) -> tuple[list[float], list[NotAvailableError]]:
    """(the promise of every candidate, -inf where it cannot be judged; why not)."""
    promises, troubles = [-math.inf] * len(pis), []
    for i in changed:
        try:
            promises[i] = promised(training, pis[i], pi_b, gamma, standard, n, model).bound
        except NotAvailableError as trouble:
            troubles.append(trouble)
    return promises, troubles


def _model(training: Batch, gamma: float, standard: Standard) -> Model | None:
    """The model behind doubly robust values; None for the others."""
    if standard.estimator != "dr":
        return None
    return fitted_model(
        training, gamma, reward_range=standard.reward_range, return_range=standard.return_range
    )
