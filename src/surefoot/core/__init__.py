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

The row problem, for one state:  max q . pi  over probability rows pi  with
sum_a up (pi - b)^+ + down (b - pi)^+ <= budget.  In SQL s2 stands for s'. Parameters of benchmarks
carry the letters of their papers: eta and epsilon say how good a baseline is.

Leading dimensions `...` are a batch of problems. Boxes: Batch -> Counts -> Problem -> Solution.
"""

from surefoot.core.batch import END, Batch, make_batch
from surefoot.core.counts import Counts, count, count_batch, count_triples
from surefoot.core.labels import Labels
from surefoot.core.model import DenseModel, Model, SparseModel, known_model
from surefoot.core.policy import Policy
from surefoot.core.returns import Returns
from surefoot.core.solution import (
    FilePath,
    Frame,
    LabelledPolicy,
    PolicyLike,
    RowsLike,
    Settings,
    Solution,
    Status,
)
from surefoot.core.support import DenseSupport, Operator, SparseSupport, Support, operator

__all__ = [
    "END",
    "Batch",
    "Counts",
    "DenseModel",
    "DenseSupport",
    "FilePath",
    "Frame",
    "LabelledPolicy",
    "Labels",
    "Model",
    "Operator",
    "Policy",
    "PolicyLike",
    "Returns",
    "RowsLike",
    "Settings",
    "Solution",
    "SparseModel",
    "SparseSupport",
    "Status",
    "Support",
    "count",
    "count_batch",
    "count_triples",
    "known_model",
    "make_batch",
    "operator",
]
