"""Disagreement: whether a policy can have taken the actions of a log, and in which states it can
not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.core.labels import as_text
from surefoot.logs.given_policies import policy_for

if TYPE_CHECKING:
    from surefoot.logs.log import Log

# the policies bet on: Dirichlet rows around the policy, of these concentrations; the policy with
# these shares of uniformly random actions; and to these powers, sharper or flatter
CONCENTRATIONS = 10.0 ** np.arange(7)
SHARES = 10.0 ** -np.arange(1, 9)
POWERS = (0.5, 0.8, 1.25, 2.0)


@dataclass(frozen=True, repr=False)
class Disagreement:
    """Whether a policy can have taken the actions of a log: n [S, A] counts those that it takes,
    with probabilities `policy`; `impossible_in` [S] rows have others, which it never takes.

    p = 1 / K, K the mean over other policies of the likelihood of the actions under them, over that
    under the policy: half of K bets on one other policy in all states, half on one in a single
    state, whichever it is. Row by row each ratio is multiplied by one of mean 1, given the past, if
    the policy acts: so E[K] = 1 and P(p <= x) <= x (Markov's inequality), however visits depend on
    earlier actions and whenever the log was stopped. A distance such as Pearson's takes visits for
    fixed; where an action leaves its state it finds fault with the right policy.
    """

    n: np.ndarray
    policy: np.ndarray
    impossible_in: np.ndarray
    states: tuple[Any, ...] = ()

    @cached_property
    def _logs(self) -> np.ndarray:
        """The logarithm of what each bet makes of 1 in each state, [bets, S]."""
        return _log_capital(self.n, self.policy)

    @cached_property
    def p_values(self) -> np.ndarray:
        """Of each state as a log of its own; 0 where something impossible has happened."""
        return np.where(self.impossible_in > 0, 0.0, _p(_log_mean(self._logs)))

    @cached_property
    def p_value(self) -> float:
        """Of all states together."""
        if (self.impossible_in > 0).any():
            return 0.0
        everywhere, somewhere = _log_mean(self._logs.sum(axis=1)), _log_mean(self._logs.reshape(-1))
        return float(_p(_log_mean(np.array([everywhere, somewhere]))))

    @property
    def impossible(self) -> int:
        """Rows whose action has probability 0 under the policy."""
        return int(self.impossible_in.sum())

    def worst(self, n: int = 5) -> list[tuple[Any, float, int]]:
        """(label, p-value, impossible rows) of the states that disagree most."""
        order = np.lexsort((self.p_values, -self.impossible_in))
        odd = (self.impossible_in > 0) | (self.p_values < 0.5)
        chosen = [int(i) for i in order if odd[i]][:n]
        return [
            (self.states[i], float(self.p_values[i]), int(self.impossible_in[i])) for i in chosen
        ]

    def __str__(self) -> str:
        total = f"p = {self.p_value:.3g}"
        lines = [f"{self.impossible} rows take an action of probability 0; {total}"]
        lines += [f"  {as_text(s)}: p = {p:.3g}, {k} impossible rows" for s, p, k in self.worst()]
        return "\n".join(lines)


def disagreement(log: Log, pi_b: Any) -> Disagreement:
    """Compare the actions of a log with a baseline (see `policy_for`)."""
    return action_distance(log.n_sa, policy_for(pi_b, log).pi, log.states)


def action_distance(
    n_sa: np.ndarray, policy: np.ndarray, states: tuple[Any, ...] = ()
) -> Disagreement:
    """The actions that a log took, n_sa [S, A], against the probabilities [S, A] of a policy."""
    possible = policy > 0
    impossible = np.where(possible, 0.0, n_sa).sum(axis=1)
    return Disagreement(np.where(possible, n_sa, 0.0), policy, impossible, states)


def _log_mean(logs: np.ndarray) -> np.ndarray:
    """ln of the mean of exp(logs) over the first axis."""
    return np.asarray(np.logaddexp.reduce(logs, axis=0) - np.log(len(logs)))


def _p(log_capital: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(-np.maximum(log_capital, 0.0)))


def _log_capital(n_sa: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """The logarithm of what each bet makes of 1 in the rows of each state, [bets, S].

    With b a row of the policy and k its actions, c the concentration, h the share, x the power:
    log Gamma(c) / Gamma(c + n(s)) + sum_a log Gamma(c b + n) / Gamma(c b) - n log b,
    sum_a n log( (1 - h + h / (k b)) ),   sum_a n log( b^(x - 1) / sum_a b^x ).
    """
    from scipy.special import gammaln

    s, a = np.nonzero(n_sa)
    n, b, total = n_sa[s, a], policy[s, a], n_sa.sum(axis=1)
    possible = policy > 0
    even = 1 / (b * possible.sum(axis=1)[s])

    def by_state(x: np.ndarray) -> np.ndarray:
        return np.bincount(s, x, len(total))

    under = n * np.log(b)
    scattered = [
        by_state(gammaln(c * b + n) - gammaln(c * b) - under) + gammaln(c) - gammaln(c + total)
        for c in CONCENTRATIONS
    ]
    mixed = [by_state(n * np.log1p(h * (even - 1))) for h in SHARES]
    bent = []
    for x in POWERS:
        sums = np.where(possible, policy, 0.0) ** x
        bent.append(by_state((x - 1) * under) - total * np.log(sums.sum(axis=1)))
    return np.array(scattered + mixed + bent)
