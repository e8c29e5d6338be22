"""The nouns of surefoot, and the glossary: every letter means the same in every file.

s, a, s'      state, action, next state; S and A their numbers; ids start at 0
pi[..., s, a] a policy: probability rows
pi_b          the baseline, the policy that made the log; b is one of its rows
p, r, gamma   transition probabilities [..., S, A, S], mean rewards [..., S, A], discount factor
q, v          action values [..., S, A] and state values [..., S]; v(s) = sum_a pi(a|s) q(s, a)
n_sa, n_sas   counts of pairs and triples; a pair is *seen* if n_sa > 0, *known* if n_sa > n_wedge
e             an error function [..., S, A]: how uncertain a pair is; inf where nothing was seen
epsilon       the budget of a soft constraint: sum_a e |pi - pi_b| <= epsilon in every state
delta         a failure probability; 1 where e is a plain scale without a guarantee (Table 1)
lo, hi        the return range: no return lies outside; lo is the value of a pair never seen
V_max         max(|lo|, |hi|)
g_max         half the width of the return range: the scale of e for returns
up, down      cost of raising / lowering a probability, in [0, inf] (the row problem)
w             values of the baseline that a policy must not lower: sum_a w (pi - pi_b) >= 0
rho           the value of a policy where episodes start
kappa, xi     how much a penalty counts (RaMDP, DUIPI)
part          what evidence is about: the whole, a guard (a further column), a group of episodes

The row problem, for one state:  max q . pi  over probability rows pi  with
sum_a up (pi - b)^+ + down (b - pi)^+ <= budget.  In SQL s2 stands for s'. Parameters of benchmarks
carry the letters of their papers: eta and epsilon say how good a baseline is.

Leading dimensions `...` are a batch of problems. Boxes: Batch -> Counts -> Problem -> Solution.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surefoot.core.batch import END as END
    from surefoot.core.batch import Batch as Batch
    from surefoot.core.batch import make_batch as make_batch
    from surefoot.core.counts import Counts as Counts
    from surefoot.core.counts import Returns as Returns
    from surefoot.core.counts import count as count
    from surefoot.core.counts import count_batch as count_batch
    from surefoot.core.counts import count_triples as count_triples
    from surefoot.core.labels import Labels as Labels
    from surefoot.core.model import DenseModel as DenseModel
    from surefoot.core.model import Model as Model
    from surefoot.core.model import SparseModel as SparseModel
    from surefoot.core.model import known_model as known_model
    from surefoot.core.policy import FilePath as FilePath
    from surefoot.core.policy import Frame as Frame
    from surefoot.core.policy import LabelledPolicy as LabelledPolicy
    from surefoot.core.policy import Policy as Policy
    from surefoot.core.policy import PolicyLike as PolicyLike
    from surefoot.core.policy import RowsLike as RowsLike
    from surefoot.core.policy import Settings as Settings
    from surefoot.core.policy import Solution as Solution
    from surefoot.core.policy import Status as Status
    from surefoot.core.support import DenseSupport as DenseSupport
    from surefoot.core.support import Operator as Operator
    from surefoot.core.support import SparseSupport as SparseSupport
    from surefoot.core.support import Support as Support
    from surefoot.core.support import operator as operator

# names load when they are first used: an error message needs no NumPy
_HOMES = {
    "batch": "Batch END make_batch",
    "counts": "Counts Returns count count_batch count_triples",
    "labels": "Labels",
    "model": "DenseModel Model SparseModel known_model",
    "policy": "FilePath Frame LabelledPolicy Policy PolicyLike RowsLike Settings Solution Status",
    "support": "DenseSupport Operator SparseSupport Support operator",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'surefoot.core' has no attribute {name!r}")
    found = getattr(import_module(f"surefoot.core.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__]
