"""Factored: plan in a model in which every column of the state has causes of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.special import xlogy

from surefoot.algorithms.algorithm import NEITHER, Estimates
from surefoot.core import DenseModel, Labels, Model, SparseModel
from surefoot.core.arrays import like, to_numpy
from surefoot.core.errors import NotAvailableError, ParameterError
from surefoot.core.parameters import check_number
from surefoot.planning import ModelEstimate
from surefoot.problems import Problem

MOST_ENTRIES = 30_000_000  # of transition rows, which are held whole
ROUNDING = 1e-12  # of the scatter of rewards: less is none


@dataclass(frozen=True)
class Factored(Estimates):
    """max_pi  v(pi; M~)   with   P~(.|s, a) = (n P^(.|s, a) + m P_F(.|s, a)) / (n + m),

        P_F(s'|s, a) = prod_i P^_i(x'_i | parents_i(s, s'), a)   over the columns x_i of the state,

    n = n(s, a), m = weight. The parents of a column are those columns of s, and those before it of
    s', that predict it best by the Bayesian information criterion, added one or two at a time; so
    columns that move together are seen to. All rows that agree in the parents teach about a pair.
    The reward has parents, too, and is treated likewise. With m infinite the model is the product
    alone (Simao & Spaan 2019); with m finite enough rows of a pair overrule it. What leads out of
    the states of the log is left out, and how an episode ends is one more column.

    What restricts counts a pair as often as its estimate is worth: with k = m / (n + m), and n_F
    the fewest rows that agree in the parents of a column or of the reward,

        1 / n~ = (1 - (1 - k)^2) / n_F + (1 - k)^2 / n

    is the variance of a mean of n_F rows, n of them the pair's own, with these weights. A pair
    never seen stays never seen (n~ = 0), but has a value where its parents were seen.
    """

    name: ClassVar[str] = "factored"
    taxonomy: ClassVar[str] = NEITHER
    weight: float = 10.0

    def __post_init__(self) -> None:
        check_number(self, "weight", low=0)

    def estimate(self, problem: Problem) -> ModelEstimate:
        """The factored model of each problem of a block, one after the other."""
        shape, ends = problem.pi_b.shape, to_numpy(problem.terminal).reshape(-1, problem.n_states)
        columns = columns_of(problem.labels, problem.n_states, np.all(ends, axis=0))
        parts = [_Factors(problem, b, columns, ends[b]) for b in range(len(ends))]
        found = [x.mixed(self.weight) for x in parts]
        r, n, known = (
            like(problem.pi_b, np.reshape([x[i] for x in found], shape)) for i in (1, 2, 3)
        )
        model: Model
        if problem.counts.is_sparse:
            model = SparseModel(parts[0].as_sparse(found[0][0]), known, r, problem.gamma)
        else:
            p = [x.by_pair(y[0]) for x, y in zip(parts, found, strict=True)]
            p = like(problem.pi_b, np.reshape(p, (*shape, shape[-2])))
            model = DenseModel(p, known, r, problem.gamma)
        return ModelEstimate(model, problem.tolerance, n)


def columns_of(labels: Labels, n_states: int, terminal: np.ndarray) -> np.ndarray:
    """The codes [S, C] of the values of every column of a state; -1: no columns, it is an end."""
    there = np.array([isinstance(x, tuple) for x in labels.states], dtype=bool)
    products = [x for x in labels.states if isinstance(x, tuple)]
    if len(there) != n_states or not products or len({len(x) for x in products}) != 1:
        raise ParameterError(
            "factored needs states that are products of two or more columns, and these are not:"
            " name the columns (--state ward,bed; state=['ward', 'bed'] in Python), or take another"
            " algorithm, such as shrunk"
        )
    if not (terminal | there).all():
        odd = labels.state(np.flatnonzero(~(terminal | there))[0])
        raise ParameterError(
            f"factored: state {odd} is no combination of {', '.join(labels.headers)}"
        )
    codes = np.full((n_states, len(products[0])), -1)
    for i, values in enumerate(zip(*products, strict=True)):
        places = {value: code for code, value in enumerate(dict.fromkeys(values))}
        codes[there, i] = [places[value] for value in values]
    return codes


class _Factors:
    """What one problem of a block says of each column, and of the reward, given its parents.

    pairs [N]: those of the states with columns that do not end an episode; (row, to, k): how often
    the log went from such a pair to a state; n [N]: its rows; fewest [N]: of all groups of pairs
    that its estimate rests on, the rows of the smallest.
    """

    def __init__(self, problem: Problem, b: int, columns: np.ndarray, ends: np.ndarray) -> None:
        self.shape = n_states, n_actions = problem.n_states, problem.n_actions
        self.columns, self.on = columns, columns[:, 0] >= 0
        acting = self.on & ~ends
        self.pairs = np.flatnonzero(np.repeat(acting, n_actions))
        if len(self.pairs) * n_states > MOST_ENTRIES:
            raise NotAvailableError(
                f"factored holds {n_states:,} probabilities for each of {len(self.pairs):,} pairs,"
                f" more than {MOST_ENTRIES:,}: merge values of the columns, or take another"
                " algorithm, such as shrunk"
            )
        counts, self.problem, self.b = problem.counts, problem, b
        n_sas = counts.n_sas if counts.is_sparse else self._of(counts.n_sas, n_states)
        found = sparse.coo_array(n_sas)
        place = np.full(n_states * n_actions, -1)
        place[self.pairs] = np.arange(len(self.pairs))
        keep = (found.data > 0) & (place[found.row] >= 0)
        self.row, self.to, self.k = place[found.row[keep]], found.col[keep], found.data[keep]
        self.n = self._of(problem.n_sa)[self.pairs]
        self.fewest = np.full(len(self.pairs), np.inf)

    def _of(self, x: Any, *last: int) -> np.ndarray:
        """An array of the block for this problem, by pair."""
        n_states, n_actions = self.shape
        found: np.ndarray = to_numpy(x).reshape(-1, n_states * n_actions, *last)[self.b]
        return found

    def by_pair(self, x: np.ndarray) -> np.ndarray:
        """x [pairs, ...] among all pairs [S A, ...], 0 elsewhere."""
        found = np.zeros((self.shape[0] * self.shape[1], *x.shape[1:]))
        found[self.pairs] = x
        return found

    def as_sparse(self, p: np.ndarray) -> sparse.csr_array:
        """The same of rows [pairs, S], in CSR form."""
        x = sparse.coo_array(p)
        shape = self.shape[0] * self.shape[1], self.shape[0]
        return sparse.csr_array((x.data, (self.pairs[x.row], x.col)), shape=shape)

    def mixed(self, m: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(P~ [pairs, S], then by pair r~, n~ and whether anything is known)."""
        n, product, reward = self.n, self.product(), self.reward()
        seen, some = n > 0, np.maximum(n, 1.0)
        k = np.ones(len(n)) if np.isinf(m) else m / np.where(n + m > 0, n + m, 1.0)
        known = seen | ((k > 0) & (self.fewest > 0) & (product.sum(axis=1) > 0))
        own = sparse.coo_array((self.k, (self.row, self.to)), shape=product.shape).toarray()
        p = (k * known)[:, None] * product + ((1 - k) * seen / some)[:, None] * own
        r = self._of(self.problem.r).copy()
        if self.problem.reward_table is not None:
            reward = (p * self.declared(self.problem.reward_table)).sum(axis=1)
        else:
            reward = np.where(seen, k * reward + (1 - k) * r[self.pairs], reward)
        r[self.pairs[known]] = reward[known]
        variance = (1 - (1 - k) ** 2) / np.maximum(self.fewest, 1.0) + (1 - k) ** 2 / some
        return p, r, self.by_pair(seen / variance), self.by_pair(known)

    def product(self) -> np.ndarray:
        """P_F [pairs, S] among the states of the log; 0 where nothing is known of a column."""
        ends = np.where(self.on, 0, np.cumsum(~self.on))  # which end a state is; 0: none
        p = self.factor(ends, np.ones(len(self.k), dtype=bool), [])
        going = np.ones_like(p) * self.on
        use = self.on[self.to]
        for i, value in enumerate(self.columns.T) if use.any() else ():
            going *= self.factor(np.maximum(value, 0), use, list(self.columns.T[:i]))
        total = going.sum(axis=1)
        p[:, self.on] *= going[:, self.on] / np.where(total > 0, total, 1.0)[:, None]
        p /= np.where(p.sum(axis=1) > 0, p.sum(axis=1), 1.0)[:, None]
        return p

    def factor(self, value: np.ndarray, use: np.ndarray, before: list[np.ndarray]) -> np.ndarray:
        """P^_i(x'_i | parents_i) [pairs, S], by the entries in `use`; 0 where none agrees. `value`
        [S] has the column i of s', `before` those that may be parents, too.
        """
        row, to, k = self.row[use], self.to[use], self.k[use]

        def score(groups: np.ndarray, beside: np.ndarray) -> float:
            given = groups[row] * (beside.max() + 1) + beside[to]
            whole = given * (value.max() + 1) + value[to]
            n, rows = (np.bincount(np.unique(x, return_inverse=True)[1], k) for x in (whole, given))
            fit = xlogy(n, n).sum() - xlogy(rows, rows).sum()
            return float(fit - 0.5 * np.log(k.sum()) * len(rows) * value.max())

        groups, beside = self.best_groups(score, before)
        both = _joined(beside, value)

        def rows_of(x: np.ndarray) -> np.ndarray:
            size = int(groups.max()) + 1, int(x.max()) + 1
            n = np.bincount(groups[row] * size[1] + x[to], k, size[0] * size[1]).reshape(size)
            found: np.ndarray = n[groups][:, x]
            return found

        given = rows_of(beside)
        found: np.ndarray = rows_of(both) / np.where(given > 0, given, 1.0)
        return found

    def reward(self) -> np.ndarray:
        """The mean reward [pairs] of all rows that agree in the parents of the reward."""
        n, rows = self.n, self.n.sum()
        if self.problem.reward_table is not None:
            return np.zeros(len(n))
        r = np.where(n > 0, self._of(self.problem.r)[self.pairs], 0.0)
        within = self.scatter(r)
        total = (within + n * (r - (n * r).sum() / rows) ** 2).sum()

        def means(groups: np.ndarray) -> np.ndarray:
            size = np.bincount(groups, n)
            found: np.ndarray = (np.bincount(groups, n * r) / np.where(size > 0, size, 1.0))[groups]
            return found

        def score(groups: np.ndarray, _: np.ndarray) -> float:
            rest = (within + n * (r - means(groups)) ** 2).sum()
            used = (np.bincount(groups, n) > 0).sum()
            share = max(rest / total, ROUNDING) if total > 0 else 1.0
            return float(-0.5 * rows * np.log(share) - 0.5 * np.log(rows) * used)

        return means(self.best_groups(score, [])[0])

    def scatter(self, r: np.ndarray) -> np.ndarray:
        """The sum of squared deviations of the rewards of each pair from their mean r."""
        counts, n_states = self.problem.counts, self.shape[0]
        r_sas: Any = counts.r_sas if counts.is_sparse else self._of(counts.r_sas, n_states)
        mean = np.asarray(r_sas[self.pairs[self.row], self.to]).ravel() / self.k
        found: np.ndarray = np.bincount(
            self.row, self.k * (mean - r[self.row]) ** 2, minlength=len(self.pairs)
        )
        return found if counts.r_rest is None else found + self._of(counts.r_rest)[self.pairs]

    def declared(self, table: Any) -> np.ndarray:
        """The declared rewards [pairs, S]."""
        n_states, n_actions = self.shape
        tables = to_numpy(table).reshape(-1, *table.shape[-3:])
        one = tables[self.b if len(tables) > 1 else 0]
        s, a = np.divmod(self.pairs, n_actions)
        found: np.ndarray = np.broadcast_to(one, (n_states, n_actions, n_states))[s, a]
        return found

    def best_groups(
        self, score: Callable[[np.ndarray, np.ndarray], float], before: list[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """(which pairs agree in the action and the parents, a number each [pairs]; which next
        states agree in those of `before` that are parents [S]).

        Parents are added one at a time while that raises the score; where none does, two at once.
        """
        groups = np.unique(self.pairs % self.shape[1], return_inverse=True)[1]
        beside = np.zeros(self.shape[0], dtype=np.int64)
        now = self.columns[self.pairs // self.shape[1]].T
        left = [(x, True) for x in now] + [(np.maximum(x, 0), False) for x in before]
        best, at_once = score(groups, beside), 1
        while at_once <= min(2, len(left)):
            tried = []
            for new in combinations(range(len(left)), at_once):
                found = groups, beside
                for x, of_pair in (left[i] for i in new):
                    g, u = found
                    found = (_joined(g, x), u) if of_pair else (g, _joined(u, x))
                tried.append((score(*found), new, found))
            top, chosen, found = max(tried, key=itemgetter(0))
            if top > best:
                best, (groups, beside), at_once = top, found, 1
                left = [x for i, x in enumerate(left) if i not in chosen]
            else:
                at_once += 1
        self.fewest = np.minimum(self.fewest, np.bincount(groups, self.n)[groups])
        return groups, beside


def _joined(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Numbers for the combinations of two codes."""
    found: np.ndarray = np.unique(x * (int(y.max()) + 1) + y, return_inverse=True)[1]
    return found
