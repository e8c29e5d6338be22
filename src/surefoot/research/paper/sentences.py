"""The paper, sentence by sentence: what Sections 1, 5 and 6 state, and whether it holds.

What the figures decide is judged from studies, what claims C9 to C16 decide is theirs, and what is
a matter of proof or of definition has its argument here. Sentences are in our own words; a place is
section, paragraph, sentence, captions and displayed lists not counted as paragraphs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.core.text import Table
from surefoot.research.paper.claim import (
    ADV,
    APPROX,
    BASELINE,
    BASIC,
    DUIPI,
    EXCEPT,
    HOLDS,
    LOWER,
    PENALISING,
    PI_B,
    PI_LEQ_B,
    R_MIN,
    RAMDP,
    RANDOM_MDPS,
    RESTRICTING,
    SLIGHT,
    WET_CHICKEN,
    Above,
    Claim,
    ClaimVerdict,
    judge,
    on_average,
    studies_of,
)
from surefoot.research.paper.study_claims import (
    C1,
    C3,
    C6,
    C8,
    C14,
    ample,
    but,
    from_20,
    largest,
    scarce,
    smallest,
)
from surefoot.research.studies.results import Results
from surefoot.statistics.metrics import CVAR, MEAN, Intervals

FAMILY = (PI_B, PI_LEQ_B, APPROX, ADV)  # the SPIBB family without Lower-Approx
RANDOM, WET, BOTH = (RANDOM_MDPS,), (WET_CHICKEN,), (RANDOM_MDPS, WET_CHICKEN)
COLUMNS = ("place", "what it says", "verdict", "evidence")


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """One statement of the paper and what decides it: comparisons, a claim (`by`), or an argument
    (`verdict` and `evidence`). `evidence` is added to what is found.
    """

    place: str
    says: str
    on: Sequence[str] = ()
    needs: Sequence[Above] = ()
    hedged: bool = False
    some: bool = False
    by: str = ""
    verdict: str = ""
    evidence: str = ""


def _of_figures(place: str, says: str, on: Sequence[str], *needs: Above, **more: Any) -> Sentence:
    return Sentence(place=place, says=says, on=on, needs=needs, **more)


def _by(place: str, says: str, claim: str, evidence: str = "", verdict: str = "") -> Sentence:
    return Sentence(place=place, says=says, by=claim, evidence=evidence, verdict=verdict)


def _argued(place: str, says: str, verdict: str, evidence: str) -> Sentence:
    return Sentence(place=place, says=says, verdict=verdict, evidence=evidence)


LONGER = (
    "one route takes 10 steps, another 1 or 22 with even odds: 11.5 on average, but worth (1 +"
    " .95^21) / 2 = .67 against .95^9 = .63"
)
SENTENCES: tuple[Sentence, ...] = (
    _argued(
        "1.1, 2, 2",
        "HCPI restricts the set of policies, since it rejects what the intervals do not support.",
        HOLDS,
        "by definition: it returns the baseline or a candidate that passed",
    ),
    _argued(
        "1.1, 2, 3",
        "The restriction is clearer for Robust MDP.",
        EXCEPT,
        "a matter of view: it accepts a policy by its worst case, but plans by lowering values, so"
        " that in surefoot it is an estimate that composes with every restriction",
    ),
    _argued(
        "1.1, 3, 4",
        "The uncertainty of RaMDP is a function of the number of visits alone.",
        HOLDS,
        "by definition: kappa / sqrt(n)",
    ),
    _argued(
        "1.1, 3, 5",
        "DUIPI estimates the standard deviation of the action value.",
        EXCEPT,
        "the diagonal approximation leaves out the negative covariances within a row, so that the"
        " estimate changes when a constant is added to all rewards; `duipi-centred` has them",
    ),
    _argued(
        "1.1, 4, 2",
        "Pi_b-SPIBB is provably safe, Pi_<=b-SPIBB a heuristic.",
        HOLDS,
        "Laroche et al. 2019, Theorem 2; the certificate `spibb` in papers/certificates",
    ),
    _by("1.1, 4, 4", "The others strongly outperform HCPI and Robust MDP.", "C16"),
    _of_figures(
        "1.1, 4, 4",
        "The mean of RaMDP is very good ...",
        RANDOM,
        Above(MEAN, [RAMDP], (PI_B, PI_LEQ_B, BASELINE)),
    ),
    _of_figures(
        "1.1, 4, 4",
        "... while it is less safe than both SPIBB algorithms.",
        RANDOM,
        Above(CVAR, (PI_B, PI_LEQ_B), [RAMDP]),
    ),
    _by(
        "1.1, 4, 6",
        "The claim that Soft-SPIBB is provably safe is repeated elsewhere (and is wrong: 1.2).",
        "C10",
    ),
    _of_figures(
        "1.1, 4, 7",
        "The empirical advantage of the Soft-SPIBB algorithms over SPIBB becomes clear.",
        RANDOM,
        Above(MEAN, [APPROX], (PI_B, PI_LEQ_B)),
        Above(CVAR, [APPROX], (PI_B, PI_LEQ_B)),
        hedged=True,
    ),
    _by(
        "1.2, 1, 1",
        "The Soft-SPIBB algorithms are not provably safe.",
        "C10",
        "Theorem 3 is right, and Theorem 2 rests on what it refutes",
    ),
    _by(
        "1.2, 1, 2",
        "Adv-Approx-Soft-SPIBB is provably safe.",
        "C11",
        "as coded it is not always in the set that the proof is about (C11b), mended it is; the"
        " proof needs independent returns, and with delta = 1, as in Table 1, it promises nothing",
        EXCEPT,
    ),
    _of_figures(
        "1.2, 1, 5",
        "The two classes of the taxonomy behave differently.",
        BOTH,
        Above(CVAR, ["restricting"], ["penalising"], scarce),
    ),
    _by("5, 1, 2", "HCPI and Robust MDP are inferior, and so left out.", "C16"),
    _by("5, 3, 1", "Table 1 has the best hyper-parameters of a grid.", "C9"),
    _argued(
        "5.1, 1, 5",
        "With gamma = .95 a higher return is the same as a shorter route.",
        EXCEPT,
        f"where routes are random, a longer one can be worth more: {LONGER}",
    ),
    _of_figures(
        "Figure 3",
        "Penalising algorithms dominate the mean ...",
        RANDOM,
        Above(MEAN, PENALISING, RESTRICTING),
        hedged=True,
    ),
    _of_figures(
        "Figure 3",
        "... restricting ones win the CVaR for few data ...",
        RANDOM,
        Above(CVAR, RESTRICTING, PENALISING, scarce),
        hedged=True,
    ),
    _of_figures(
        "Figure 3",
        "... and lose only to DUIPI in the long run.",
        RANDOM,
        Above(CVAR, RESTRICTING, (RAMDP, R_MIN), ample),
        Above(CVAR, [DUIPI], RESTRICTING, ample),
        hedged=True,
    ),
    _of_figures(
        "Figure 3",
        "Lower-Approx-Soft-SPIBB is the best of the SPIBB class in both.",
        RANDOM,
        Above(MEAN, [LOWER], FAMILY),
        Above(CVAR, [LOWER], FAMILY),
    ),
    _of_figures(
        "5.1, 4, 2",
        "From 20 trajectories on RaMDP and DUIPI have the highest means.",
        RANDOM,
        *next(iter(C1.sentences.values())),
    ),
    _of_figures(
        "5.1, 4, 3",
        "Lower-Approx-Soft-SPIBB and Basic RL follow, just before the other Soft-SPIBB algorithms.",
        RANDOM,
        Above(MEAN, (LOWER, BASIC), (APPROX, ADV), from_20),
    ),
    _of_figures(
        "5.1, 4, 4",
        "Approx-Soft-SPIBB is slightly better than Adv-Approx-Soft-SPIBB.",
        RANDOM,
        Above(MEAN, [APPROX], [ADV]),
        Above(MEAN, [ADV], [APPROX], slight=1),
    ),
    _of_figures(
        "5.1, 4, 5",
        "Pi_b-SPIBB and Pi_<=b-SPIBB seem to be the worst.",
        RANDOM,
        Above(MEAN, but(R_MIN, PI_B, PI_LEQ_B), (PI_B, PI_LEQ_B)),
        evidence="R-MIN apart, of which the next sentence speaks",
    ),
    _of_figures(
        "5.1, 4, 6",
        "R-MIN has trouble with very few data, but catches up.",
        RANDOM,
        *(one for said in C3.sentences.values() for one in said),
    ),
    _of_figures(
        "5.1, 4, 7",
        "Basic RL is quite good in general (above the baseline), but some algorithms are better.",
        RANDOM,
        Above(MEAN, [BASIC], [BASELINE]),
        Above(MEAN, (RAMDP, DUIPI), [BASIC]),
    ),
    _of_figures(
        "5.1, 4, 8",
        "The reason may be that considering the uncertainty helps even the mean.",
        RANDOM,
        Above(MEAN, but(BASIC), [BASIC]),
        some=True,
        evidence="at every size some algorithm that considers it is above Basic RL",
    ),
    _of_figures(
        "5.1, 5, 2",
        "Basic RL has the worst CVaR overall.",
        RANDOM,
        Above(CVAR, but(BASIC), [BASIC]),
    ),
    _of_figures(
        "5.1, 5, 3",
        "R-MIN and RaMDP are very poor, above all for few trajectories.",
        RANDOM,
        Above(CVAR, RESTRICTING, (R_MIN, RAMDP), scarce),
    ),
    _of_figures(
        "5.1, 5, 4",
        "DUIPI is very poor below 100 trajectories ...",
        RANDOM,
        Above(CVAR, RESTRICTING, [DUIPI], scarce),
    ),
    _of_figures(
        "5.1, 5, 4",
        "... and better than every other for bigger data.",
        RANDOM,
        Above(CVAR, [DUIPI], but(DUIPI), ample),
    ),
    _of_figures(
        "5.1, 5, 5",
        "All SPIBB and Soft-SPIBB algorithms perform extremely well in the beginning: their CVaR"
        " lies above that of all others ...",
        RANDOM,
        Above(CVAR, RESTRICTING, (BASIC, *PENALISING), smallest),
    ),
    _of_figures(
        "5.1, 5, 5",
        "... as is to be expected, since they fall back on the baseline: their CVaR is short of it"
        " by less than .05.",
        RANDOM,
        Above(CVAR, RESTRICTING, [BASELINE], smallest, slight=1),
        evidence="it is so of the two SPIBB algorithms; the Soft-SPIBB ones leave the baseline even"
        " at 10 trajectories",
    ),
    _of_figures(
        "5.1, 5, 6",
        "As in the mean, Lower-Approx-Soft-SPIBB is first of the SPIBB family ...",
        RANDOM,
        Above(CVAR, [LOWER], FAMILY),
    ),
    _of_figures(
        "5.1, 5, 6",
        "... closely followed by Approx- and Adv-Approx-Soft-SPIBB.",
        RANDOM,
        Above(CVAR, [LOWER], (APPROX, ADV)),
        Above(CVAR, (APPROX, ADV), [LOWER], slight=1),
    ),
    _of_figures(
        "5.1, 5, 7",
        "Pi_<=b-SPIBB is a bit behind these ...",
        RANDOM,
        Above(CVAR, (APPROX, ADV), [PI_LEQ_B]),
    ),
    _of_figures(
        "5.1, 5, 7",
        "... but better than Pi_b-SPIBB.",
        RANDOM,
        Above(CVAR, [PI_LEQ_B], [PI_B]),
    ),
    _argued(
        "5.2, 6, 5",
        "A deterministic baseline shows at most one action of each state.",
        HOLDS,
        "by definition",
    ),
    _of_figures(
        "Figure 5",
        "RaMDP dominates the mean ...",
        WET,
        Above(MEAN, [RAMDP], but(RAMDP)),
    ),
    _of_figures(
        "Figure 5",
        "... and restricting algorithms win the CVaR.",
        WET,
        Above(CVAR, RESTRICTING, PENALISING),
        hedged=True,
    ),
    _of_figures(
        "Figure 5",
        "Lower-Approx-Soft-SPIBB is the best of the SPIBB class in the mean ...",
        WET,
        Above(MEAN, [LOWER], FAMILY),
        evidence="averaged over sizes it is",
    ),
    _of_figures(
        "Figure 5",
        "... and in the CVaR.",
        WET,
        Above(CVAR, [LOWER], FAMILY),
    ),
    _of_figures(
        "5.2, 7, 2",
        "Apart from DUIPI, the means are similar to those on Random MDPs (what 5.1 says of them is"
        " so here, too).",
        WET,
        Above(MEAN, [RAMDP], but(RAMDP, DUIPI)),
        Above(MEAN, [LOWER], FAMILY),
        Above(MEAN, [APPROX], [ADV]),
        Above(MEAN, (APPROX, ADV), (PI_B, PI_LEQ_B)),
        hedged=True,
    ),
    _of_figures(
        "5.2, 7, 3",
        "The mean of R-MIN is extremely bad for few data, but improves strongly.",
        WET,
        *C6.sentences[next(iter(C6.sentences))],
        Above(MEAN, [R_MIN], ["the average of the others"], largest, slight=1),
    ),
    _of_figures(
        "5.2, 7, 4",
        "Basic RL and DUIPI have the worst mean.",
        WET,
        Above(MEAN, (RAMDP, *RESTRICTING), (BASIC, DUIPI)),
        evidence="R-MIN apart, of which the sentence before speaks",
    ),
    _of_figures(
        "5.2, 7, 5",
        "The SPIBB family performs very well (above the baseline) ...",
        WET,
        Above(MEAN, RESTRICTING, [BASELINE]),
    ),
    _of_figures(
        "5.2, 7, 5",
        "... especially Lower-Approx-Soft-SPIBB (averaged over sizes) ...",
        WET,
        Above(MEAN, [LOWER], FAMILY, on_average),
        evidence="at single sizes: see Figure 5",
    ),
    _of_figures(
        "5.2, 7, 5",
        "... and only RaMDP beats it.",
        WET,
        Above(MEAN, [RAMDP], RESTRICTING),
        Above(MEAN, RESTRICTING, (BASIC, R_MIN, DUIPI)),
    ),
    _of_figures(
        "5.2, 8, 1",
        "The CVaR confirms many of the observations on Random MDPs (Basic RL worst; R-MIN and RaMDP"
        " poor for few data; Lower-Approx-Soft-SPIBB first of its family).",
        WET,
        Above(CVAR, but(BASIC), [BASIC]),
        Above(CVAR, RESTRICTING, (R_MIN, RAMDP), scarce),
        Above(CVAR, [LOWER], FAMILY),
        hedged=True,
    ),
    _of_figures(
        "5.2, 8, 2",
        "Basic RL is too low to be seen in the plot of the CVaR ...",
        WET,
        Above(CVAR, but(BASIC), [BASIC]),
    ),
    _of_figures(
        "5.2, 8, 2",
        "... and RaMDP and R-MIN have trouble competing with the SPIBB family, too.",
        WET,
        Above(CVAR, RESTRICTING, (RAMDP, R_MIN)),
    ),
    _of_figures(
        "5.2, 8, 3",
        "Overall (averaged over sizes) Lower-Approx-Soft-SPIBB is the best ...",
        WET,
        Above(CVAR, [LOWER], but(LOWER), on_average),
    ),
    _of_figures(
        "5.2, 8, 3",
        "... followed by Adv-Approx- and Approx-Soft-SPIBB.",
        WET,
        Above(CVAR, (ADV, APPROX), but(LOWER, ADV, APPROX), on_average),
    ),
    _of_figures(
        "5.2, 9, 1",
        "Restricting the policies can be very good for safety, above all with few observations.",
        BOTH,
        Above(CVAR, RESTRICTING, PENALISING, scarce),
        hedged=True,
        evidence='"Especially in complex environments" cannot be judged from two',
    ),
    _of_figures(
        "5.2, 9, 2",
        "For the mean alone, adjusting the action value is better.",
        BOTH,
        Above(MEAN, PENALISING, RESTRICTING),
        hedged=True,
        evidence="on Wet Chicken it is so of RaMDP, and of R-MIN on long logs",
    ),
    _by(
        "6, 1, 1",
        "The Soft-SPIBB algorithms are not provably safe ...",
        "C10",
    ),
    _by(
        "6, 1, 1",
        "... and a new version is.",
        "C11",
        "see 1.2",
        EXCEPT,
    ),
    _of_figures(
        "6, 1, 2",
        "Lower-Approx-Soft-SPIBB has the best mean of the SPIBB class on both benchmarks ...",
        BOTH,
        Above(MEAN, [LOWER], FAMILY),
        evidence="averaged over sizes it has",
    ),
    _of_figures(
        "6, 1, 2",
        "... and the best CVaR.",
        BOTH,
        Above(CVAR, [LOWER], FAMILY),
    ),
    _of_figures(
        "6, 1, 3",
        "Its mean is competitive with that of the other algorithms that consider the uncertainty"
        " (at most slightly lower) ...",
        BOTH,
        Above(MEAN, [LOWER], PENALISING, slight=1),
        hedged=True,
    ),
    _of_figures(
        "6, 1, 3",
        "... and its CVaR is above theirs.",
        BOTH,
        Above(CVAR, [LOWER], PENALISING),
        hedged=True,
        evidence="Section 5.1 says itself that DUIPI is above it on Random MDPs",
    ),
    _of_figures(
        "6, 1, 4",
        "Adv-Approx-Soft-SPIBB is almost as good as Approx-Soft-SPIBB, slightly behind in the"
        " mean.",
        BOTH,
        *(one for said in C14.sentences.values() for one in said),
    ),
    _of_figures(
        "6, 2, 1",
        "Penalising algorithms tend to have the higher mean ...",
        BOTH,
        Above(MEAN, PENALISING, RESTRICTING),
        hedged=True,
    ),
    _of_figures(
        "6, 2, 1",
        "... but lack in the CVaR ...",
        BOTH,
        Above(CVAR, RESTRICTING, PENALISING),
        hedged=True,
    ),
    _of_figures(
        "6, 2, 1",
        "... especially if data are scarce.",
        BOTH,
        *C8.sentences[list(C8.sentences)[1]],
    ),
)


def judge_sentences(
    results: Sequence[Results],
    verdicts: Mapping[str, ClaimVerdict],
    how: Intervals | None = None,
) -> Table:
    """Every sentence that these studies, one setting per algorithm, and verdicts decide."""
    parts = [one.where(benchmark=name) for one in results for name in SLIGHT]
    studies = studies_of([part for part in parts if part.cells])
    rows = []
    for one in SENTENCES:
        verdict, found = one.verdict, []
        if one.needs:
            if not set(one.on) <= set(studies):
                continue
            claim = Claim(
                name=one.place,
                statement=one.says,
                sentences={one.says: one.needs},
                on=one.on,
                some=one.some,
                pooled=one.hedged,
            )
            made = judge(claim, studies, how)
            verdict, found = made.verdict, [made.note, made.exceptions]
        elif one.by:
            if one.by not in verdicts:
                continue
            made = verdicts[one.by]
            verdict = verdict or made.verdict
            found = [f"{one.by}: {made.note}" if made.note else one.by, made.exceptions]
        evidence = "; ".join(x for x in (*found, one.evidence) if x)
        rows.append((one.place, one.says, f"**{verdict}**", evidence))
    return Table(COLUMNS, tuple(rows))


def render_sentences(table: Table) -> str:
    """sentences.md."""
    return f"# The paper, sentence by sentence\n\n{table.markdown()}\n"
