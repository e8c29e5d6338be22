"""The held-out gain: a policy is learned from one half of a log and tested on the other half, once;
what is tested is what is used.

Two tests. Per-episode importance-weighted differences with a betting bound: valid for any number of
episodes and without the Markov property, but it needs the true baseline and short episodes.
Otherwise the difference of both policies in the model of the held-out half, with a standard error
from its independent units: valid for many units, and for states that say enough. Which one is
decided on the half that the policy is learned from, and by whether every episode of the log is
whole and can be weighed; held-out rewards are not looked at. So there is one test at level DELTA.
docs/supported.md has the proofs and what was measured.

An action may look better because of when, or after what, it was taken: if outcomes drift and the
behaviour drifts with them, or if both follow the past, it gets credit for its circumstances. Tests
of drift and of memory see that where it is strong; `circumstances` takes it off the gain, however
weak.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from surefoot.advice.few_changes import check_most, few_changes
from surefoot.advice.tree import Tree, check_depth, tree_of
from surefoot.algorithms import Algorithm
from surefoot.algorithms.improvement import improve
from surefoot.algorithms.one_action import MODE, OneAction
from surefoot.core import Batch, Solution
from surefoot.core.errors import SurefootError
from surefoot.core.evidence import FINITE_SAMPLE, Evidence
from surefoot.core.policy import CHANGED
from surefoot.evidence import EpisodeValues, Standard
from surefoot.evidence.circumstances import MEASURED, Circumstances, circumstances_of
from surefoot.evidence.episode_values import LOSS, episode_values
from surefoot.evidence.gain_test import bound_of, evidence_of
from surefoot.evidence.known_policies import known_policies
from surefoot.evidence.unit_estimate import DELTA, Unseen
from surefoot.evidence.unit_model import Comparison, UnitModel, model_of_units
from surefoot.evidence.units import Units, random_part, take_episodes, take_rows
from surefoot.problems import Problem
from surefoot.problems.problem import EPISODES

FEWEST_UNITS = 8
FEWEST_EPISODES = 20  # held out, for the finite-sample test
# the finite-sample test is taken where its bound promises this share of the mean on the learning
# half
CLEAR_SHARE = 0.5
# beside the rows of a log whose states were made: the probability with which a baseline that goes
# by more than the state chose the action of each row
CHOSEN = "chosen"
NO_WEIGHTS = (
    "no valid test: the policy that made the log varies, so that only its propensities may judge,"
    " and these cannot here: that takes a baseline that is given (--baseline), and whole episodes"
    " from their start to their end"
)
OTHER_BASELINE = (
    "the given baseline did not make this log: {}. Give the policy that did, with its probabilities"
)


@dataclass(frozen=True, repr=False, kw_only=True)
class Gain:
    """What one half of a log teaches, and what the other half shows the policy `pi` to be worth
    beyond the policy that made the log, at the start.

    evidence        what the held-out units show, each bound at DELTA; of the moved mass, the share
                    whose pairs two or more of them saw was `checked`, the rest was taken back
    units           the independent pieces of the whole log, and how many episodes they are
    blocks          these are pieces of one episode
    unseen          what an outcome that the held-out half has not shown could take away at most
    informative     how many held-out steps took an action that gains probability
    varies          the policy that made the log varies: only weights may judge
    longest         the steps of the longest episode, where episodes were weighed
    held_out        the units [number] that the policy was not learned from
    learned         the problem of the half that the policy is learned from
    most, outside   the most states that were to change, and those [S] that are the baseline again
                    since their change is worth less than that of the others; None where there is no
                    such limit
    values          both policies in the model of the held-out half
    tree            the rules that the policy is made of, where a tree was asked for
    over            the policy [S, A] that the gain is over; None: the one that made the log
    """

    pi: np.ndarray
    solution: Solution
    learned: Problem
    units: int
    episodes: int | None
    blocks: bool
    evidence: Evidence
    unseen: Unseen | None = None
    informative: int = 0
    circumstances: Circumstances | None = None
    varies: bool = False
    longest: int = 0
    held_out: np.ndarray | None = None
    most: int | None = None
    outside: np.ndarray | None = None
    values: Comparison | None = None
    tree: Tree | None = None
    over: np.ndarray | None = None

    @property
    def weighed(self) -> bool:
        """Whether whole episodes were weighed, by the finite-sample test."""
        return self.evidence.validity == FINITE_SAMPLE


def held_out_gain(
    problem: Problem,
    units: Units,
    algorithm: Algorithm,
    *,
    pi_b: np.ndarray | None = None,
    markov: bool = True,
    most_changes: int | None = None,
    tree: int | None = None,
    over: np.ndarray | None = None,
    seed: int = 0,
) -> Gain:
    """Learn a policy from a random half of the units, and test it on the others.

    Where the policy that made the log varies (`Batch.policy_varies`), the earlier half makes the
    policy, and the later one tests it by its propensities, episode by episode in the order of time:
    each value has the gain as its mean given all that came before.
    `pi_b` made the log (default: the baseline). With markov=False the finite-sample test, which
    does not need it, is used wherever it is possible. At most `most_changes` states change, chosen
    by the half that the policy is learned from. The gain is that over the policy `over` [S, A]
    (default: pi_b); what stays as it was in a rule does what that does. `tree`: the policy is a
    decision tree of this depth, which imitates the learned one on the same half.
    """
    check_most(most_changes)
    check_depth(tree)
    pi_b = np.asarray(problem.pi_b if pi_b is None else pi_b)
    learning = learning_half(units, seed)
    rows = problem.log if units.sample is None else units.sample[0]
    varies = rows is not None and rows.policy_varies
    asked = _Asked(algorithm, most_changes, tree, over)
    found = _learned(problem, units, learning, asked)
    few = f"the log has {units.number} {units.kind}, at least {FEWEST_UNITS} are needed"
    row = replace(found.evidence, units=int((~learning).sum()), episodes=units.episodes(~learning))
    if units.number < FEWEST_UNITS:
        row = replace(row, trouble=f"too few independent pieces: {few}")
    elif varies:
        row = replace(row, trouble=NO_WEIGHTS)
    found = replace(found, evidence=row, held_out=~learning, varies=varies)
    if units.number >= FEWEST_UNITS:
        rng = np.random.default_rng(seed)
        weighed = _finite_sample(
            found, problem, units, learning, pi_b, asked, rng, forced=varies or not markov
        )
        if weighed is not None:
            found = weighed
        elif not varies:
            found = _asymptotic(found, problem, units, ~learning, pi_b, asked)
    gains = (found.pi > np.asarray(problem.pi_b) + 1e-9).reshape(-1)
    informative = units.k[~learning[units.unit] & gains[units.pair]].sum()
    return replace(found, informative=int(informative))


def learning_half(units: Units, seed: int = 0) -> np.ndarray:
    """The units [number] that a policy is learned from: a random half, or where the policy that
    made the log varies the earlier one.
    """
    if units.turn is not None:
        return np.arange(units.number) < units.number // 2
    return random_part(units.number, units.number // 2, np.random.default_rng(seed))


@dataclass(frozen=True)
class _Asked:
    """What is to be learned: by which algorithm, with at most so many changes, as a tree of which
    depth; and what its gain is over.
    """

    algorithm: Algorithm
    most: int | None
    depth: int | None
    over: np.ndarray | None

    def stay(self, problem: Problem) -> np.ndarray:
        """The rows [S, A] of states in which nothing changes."""
        if not isinstance(self.algorithm, OneAction):
            return np.asarray(problem.pi_b)
        if self.over is not None and self.algorithm.otherwise == MODE:
            return self.over
        return np.asarray(self.algorithm.untouched(problem))


def _learned(problem: Problem, units: Units, chosen: np.ndarray, asked: _Asked) -> Gain:
    """What the chosen units teach; nothing is tested yet."""
    learned = part_problem(problem, units, chosen)
    solution = improve(learned, asked.algorithm)
    pi, outside, tree = np.asarray(solution.pi), None, None
    if isinstance(asked.algorithm, OneAction):
        stays = np.abs(pi - np.asarray(asked.algorithm.untouched(learned))).max(axis=1) <= CHANGED
        pi = np.where(stays[:, None] & (asked.over is not None), asked.stay(learned), pi)
    if asked.most is not None:
        pi, outside = few_changes(problem, units, chosen, pi, asked.most)
    if asked.depth is not None:
        known = replace(problem, pi_b_estimated=False)  # what stays is this baseline
        model = model_of_units(known, units.some(chosen), chosen)
        pi, tree = tree_of(model, pi, asked.stay(learned), problem.labels, asked.depth)
    return Gain(
        pi=pi, solution=solution, learned=learned, units=units.number, blocks=units.blocks,
        episodes=units.episodes(np.ones(units.number, dtype=bool)),
        most=asked.most, outside=outside, tree=tree, over=asked.over,
        evidence=Evidence(delta=DELTA, unit=units.kind),
    )  # fmt: skip


def part_problem(problem: Problem, units: Units, chosen: np.ndarray) -> Problem:
    """The problem that the chosen units alone pose, with the same baseline, start and ranges."""
    counts = units.some(chosen).counts(as_sparse=problem.counts.is_sparse)
    log = problem.log
    if log is not None:
        log = take_rows(log, chosen[units.unit], units.unit)
    return replace(problem, counts=counts, log=log, returns_given=None, notes=())


def _asymptotic(
    found: Gain,
    problem: Problem,
    units: Units,
    held_out: np.ndarray,
    pi_b: np.ndarray,
    asked: _Asked,
) -> Gain:
    """Both policies in the model of the held-out units; moves that these cannot check are taken
    back.
    """
    model = model_of_units(problem, units, held_out, pi_b)
    tested = model.checkable(found.pi)
    if isinstance(asked.algorithm, OneAction) or found.tree is not None:
        tested = _whole_rows(model, found.pi, asked.stay(problem))
    visits = model.n_sa.sum(axis=1, keepdims=True)
    moved, kept = (float((np.abs(x - problem.pi_b) * visits).sum()) for x in (found.pi, tested))
    compared = model.compare(tested, against=found.over).strict
    low, high = compared.gain.interval()
    around = circumstances_of(problem, units, compared)
    row = replace(
        found.evidence,
        estimate=compared.gain.value,
        low=low,
        high=high,
        together=(low, high),
        seen=compared.gain.interval(unseen=False)[0],
        unseen=compared.gain.loss.change,
        checked=kept / moved if moved > 0 else 1.0,
        explained=explained_by(around, held_out, compared),
    )
    return replace(
        found, pi=tested, evidence=row, unseen=compared.gain.loss, values=compared,
        circumstances=around,
    )  # fmt: skip


def _whole_rows(model: UnitModel, pi: np.ndarray, stay: np.ndarray) -> np.ndarray:
    """A rule with the states as they were whose action fewer than two of these units saw; what it
    leaves that they cannot check counts against it.
    """
    unseen = np.where(model.often, 0.0, np.maximum(pi - stay, 0.0)).sum(axis=1) > 0
    return np.where(unseen[:, None], stay, pi)


def _finite_sample(
    found: Gain,
    problem: Problem,
    units: Units,
    learning: np.ndarray,
    pi_b: np.ndarray,
    asked: _Asked,
    rng: np.random.Generator,
    *,
    forced: bool,
) -> Gain | None:
    """The test on weighted episodes; None where it is not possible, or not `forced` and the
    learning half lets it expect no clear answer.
    """
    log, base = weighed_rows(problem.log, pi_b, found.over)
    by_row = found.over is None and log is not None and CHOSEN in log.beside
    if log is None or units.blocks or problem.start_from != EPISODES:
        return None  # possible are whole episodes of the given baseline, from start to end
    if problem.pi_b_estimated and not by_row:
        return None
    unit = units.unit[log.first]  # of every episode
    n, longest = int((~learning[unit]).sum()), int(log.time.max()) + 1
    if log.cuts.any() or log.contradictions() or n < FEWEST_EPISODES:
        return None
    known = None if by_row else known_policies(take_episodes(log, learning[unit]))
    standard = Standard(
        delta=DELTA, reward_range=problem.reward_range, horizon=longest, known=known
    )

    def values(chosen: np.ndarray, pi: np.ndarray) -> EpisodeValues:
        rows, over = whose(take_episodes(log, chosen[unit]), pi)
        return episode_values(rows, pi, over, problem.gamma, standard)

    def whose(rows: Batch, pi: np.ndarray) -> tuple[Batch, np.ndarray | None]:
        """(rows with the probabilities of their actions, the baseline): None, what made them,
        where that goes by rows.
        """
        return (called_by_rows(rows, pi, problem), None) if by_row else (rows, base)

    try:
        if not forced:
            # half of the learning half makes a policy, the rest stands for what is held out
            first = learning & (rng.random(units.number) < 0.5)
            pi = _learned(problem, units, first, asked).pi
            if not _clear(values(learning & ~first, pi), n):
                return None
        tested = values(~learning, found.pi)
        turn = None if units.turn is None else units.turn[~learning[unit]]
        part, over = whose(take_episodes(log, ~learning[unit]), found.pi)
        loss = evidence_of(LOSS, part, found.pi, over, problem.gamma, standard, turn=turn)
    except SurefootError:  # weights or ranges that this test cannot use
        return None
    order = rng.permutation(n) if turn is None else np.argsort(turn)
    # propensities, and probabilities row by row, have a bet of their own, on all rows
    told = by_row or (problem.log is not None and problem.log.propensity is not None)
    mistrust = "" if told else tested.too_heavy(order)
    row = replace(found.evidence, validity=FINITE_SAMPLE, trouble="")
    if mistrust:
        return replace(found, evidence=replace(row, trouble=OTHER_BASELINE.format(mistrust)))
    model = model_of_units(problem, units, ~learning, pi_b)
    compared = model.compare(found.pi, against=found.over)
    low, high = bound_of(tested, standard, turn=np.argsort(order)).low, -loss.low
    around = circumstances_of(without_measurements(problem), units, compared)
    row = replace(
        row, estimate=tested.estimate, low=low, high=high, together=(low, high),
        weights=(("episodes", n), *tested.weighing.items()),
        explained=explained_by(around, ~learning, compared),
    )  # fmt: skip
    return replace(found, evidence=row, longest=longest, values=compared, circumstances=around)


def weighed_rows(
    log: Batch | None, pi_b: np.ndarray, over: np.ndarray | None
) -> tuple[Batch | None, np.ndarray]:
    """(the rows whose episodes are weighed, the policy that the gain is over): one that did not
    make the log is weighed, too, by the probabilities with which pi_b chose.
    """
    if log is None or over is None:
        return log, pi_b
    p = pi_b[log.state, log.action] if log.propensity is None else log.propensity
    return replace(log, beside={**log.beside, "propensity": p}), over


def called_by_rows(rows: Batch, pi: np.ndarray, problem: Problem) -> Batch:
    """Rows whose propensities are those of a baseline that goes by rows. In a state in which pi
    [S, A] changes nothing that baseline is called itself: weights are 1 there.
    """
    same = 0.5 * np.abs(pi - np.asarray(problem.pi_b)).sum(axis=1) <= CHANGED
    p = np.where(same[rows.state], pi[rows.state, rows.action], rows.beside[CHOSEN])
    return replace(rows, beside={**rows.beside, "propensity": p})


def without_measurements(problem: Problem) -> Problem:
    """The problem without the measurements beside its rows: weights do not care where in its state
    a row lies.
    """
    if problem.log is None:
        return problem
    beside = {x: y for x, y in problem.log.beside.items() if not x.startswith(MEASURED)}
    return replace(problem, log=replace(problem.log, beside=beside))


def _clear(sketch: EpisodeValues, n: int) -> bool:
    """Whether n values like these would have a betting bound >= CLEAR_SHARE times their mean.

    The bound is foretold by Bernstein's width, sqrt( 2 variance ln(1/delta) / n ) and the distance
    to the floor times ln(1/delta) / n (as in `forecast_width`, with the mean near 0).
    """
    mean, spare = sketch.x.mean(), math.log(1 / DELTA) / n
    promised = mean - math.sqrt(2 * sketch.x.var() * spare) + sketch.lo * spare
    return bool(promised > CLEAR_SHARE * mean)


def explained_by(around: Circumstances | None, held_out: np.ndarray, compared: Comparison) -> float:
    """What the circumstances explain of a gain."""
    return 0.0 if around is None else around.explained(held_out, compared.weight)
