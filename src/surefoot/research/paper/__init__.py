"""The claims of Scholl et al. 2022, judged from studies, and what `surefoot reproduce` writes.

Where each claim is stated (C1 ... as data, the others as functions c9 ...):

C1 ... C8, C14, C15  study_claims  the curves of Figures 3 and 5
C9                   table_1       the best hyper-parameters
C10                  guarantees    Assumption 1 of the Soft-SPIBB papers
C11, C11b, C12       guarantees    Theorem 1, overspent budgets, the exact step
C13                  study_claims  exact against approximate
C16                  study_claims  HCPI and Robust MDP

`claim` has the words, the test and the verdicts, `sentences` the paper's own sentences, each with
its verdict, `reproduction` the targets.
"""

from surefoot.research.paper.claim import EXCEPT, FAILS, HOLDS, OPEN, ClaimVerdict, render_claims
from surefoot.research.paper.study_claims import judge_figures

__all__ = ["EXCEPT", "FAILS", "HOLDS", "OPEN", "ClaimVerdict", "judge_figures", "render_claims"]
