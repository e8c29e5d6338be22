"""The families of logs behind `promises.py`: where a promise would be false, and where true."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

import circumstances
import hostile
import stopping
from hidden_worlds import Case, World, bandit, case, coin, normal


@dataclass(frozen=True)
class Family:
    """`make` draws a log; `hidden`: no look at the log could tell that it misleads."""

    name: str
    words: str
    make: Callable[[np.random.Generator], Case]
    hidden: bool = False


def seed_of(name: str) -> int:
    """A number for each name."""
    return zlib.crc32(name.encode())


def small_effect(rng: np.random.Generator, n: int) -> Case:
    """Two actions, one better by 0.2 standard deviations, chosen in 30 % of decisions."""
    world = bandit([[0.7, 0.3]], [[0.0, 0.2]], normal([[0.0, 0.2]]), ends=True)
    return case(world, rng, n, 1)


def large_effect(rng: np.random.Generator, n: int) -> Case:
    """Five states, three actions, in each state one is better by a standard deviation."""
    means = np.zeros((5, 3))
    means[np.arange(5), np.arange(5) % 2 + 1] = 1.0
    return case(
        bandit(np.tile([0.6, 0.2, 0.2], (5, 1)), means, normal(means), ends=True), rng, n, 1
    )


def clicks(rng: np.random.Generator, n: int) -> Case:
    """Success .05, of an action taken in 20 % of decisions .10."""
    world = bandit([[0.8, 0.2]], [[0.05, 0.10]], coin([[0.05, 0.10]]), ends=True)
    return case(world, rng, n, 1)


def safer(rng: np.random.Generator, n: int) -> Case:
    """Failure .10, of an action taken in 20 % of decisions .02."""
    world = bandit([[0.8, 0.2]], [[0.90, 0.98]], coin([[0.90, 0.98]]), ends=True)
    return case(world, rng, n, 1)


def many_states(rng: np.random.Generator, n: int) -> Case:
    """100 states, two actions of equal share, one of them better by 0.7 standard deviations,
    which one differs.
    """
    means = 0.7 * np.eye(2)[np.arange(100) % 2]
    return case(bandit(np.full((100, 2), 0.5), means, normal(means), ends=True), rng, n, 1)


def estimated(rng: np.random.Generator, n: int) -> Case:
    """As large_effect, on one trajectory, with the baseline to be estimated."""
    means = np.zeros((5, 3))
    means[np.arange(5), np.arange(5) % 2 + 1] = 1.0
    return case(
        bandit(np.tile([0.6, 0.2, 0.2], (5, 1)), means, normal(means)), rng, 1, n, given=False
    )


def over_rule(
    rng: np.random.Generator,
    better: float,
    *,
    states: int = 12,
    episodes: int = 150,
    steps: int = 10,
    noise: float = 0.3,
    given: bool = True,
    clicks: bool = False,
) -> Case:
    """A rule with its noise, asked about with --against mode: the second action is better by
    `better` (standard deviations, or of a success of .1) in every state, the third much worse, so
    that exploring costs. `steps` of an episode, 1 being decisions by themselves; the next state
    leans to where the third action leads less often.
    """
    pi_b = np.tile([1 - noise, 0.6 * noise, 0.4 * noise], (states, 1))
    means = np.tile([0.0, better, -1.0], (states, 1))
    draw = normal(means)
    if clicks:
        means = np.tile([0.1, 0.1 + better, 0.02], (states, 1))
        draw = coin(means)
    world = bandit(pi_b, means, draw, ends=True)
    if steps > 1:
        p = np.full((states, 3, states), 0.7 / states)
        p[np.arange(states), :2, (np.arange(states) + 1) % states] += 0.3
        p[np.arange(states), 2, 0] += 0.3
        means = means + np.linspace(-0.5, 0.5, states)[:, None]
        start = np.full(states, 1 / states)
        world = World(p=p, r=means, draw=normal(means), start=start, gamma=0.9, pi_b=pi_b)
    rule = np.eye(3)[world.pi_b.argmax(axis=1)]
    more = {"reward_range": "0,1"} if clicks else {}
    options = {"against": "mode", "episode_end": "terminal", **more}
    return case(replace(world, behaviour=rule), rng, episodes, steps, given=given, options=options)


def in_grid(
    rng: np.random.Generator,
    worth: Callable[[np.ndarray, np.ndarray], np.ndarray],
    *,
    depth: int = 2,
    episodes: int = 200,
    steps: int = 10,
    corner: float = 0.0,
) -> Case:
    """States are cells (row, column) of a grid of 6 x 5, asked about with --tree: in each the
    second action is better by worth(row, column) and the third as good as the first. The next
    state is any cell; the last one comes with the share `corner`, if that is given.
    """
    row, column = np.divmod(np.arange(30), 5)
    means = np.stack([np.zeros(30), worth(row, column) * np.ones(30), np.zeros(30)], axis=1)
    visits = np.full(30, 1 / 30)
    if corner:
        visits = np.append(np.full(29, (1 - corner) / 29), corner)
    pi_b = np.tile([0.6, 0.2, 0.2], (30, 1))
    world = bandit(pi_b, means, normal(means), visits=visits)
    options = {"tree": depth, "columns": 5, "episode_end": "terminal"}
    return case(world, rng, episodes, steps, options=options)


def no_worth(row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """As good in every cell."""
    return np.zeros(len(row))


def chess_board(row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Better in the black cells, worse by more in the white ones."""
    return np.where((row + column) % 2 == 0, 0.5, -0.6)


def bad_corner(row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """A little better everywhere, but much worse in the last cell."""
    return np.where((row == 5) & (column == 4), -8.0, 0.1)


def one_cut(row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Better in the upper rows, worse below."""
    return np.where(row >= 3, 0.4, -0.4)


def slope(row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Better with both, more and more: no two cuts say it all."""
    return 0.15 * (row + column - 4.5)


RANDOM_NULL = partial(hostile.benchmark, name="random-mdps", size=100, null=True)
RIVER_NULL = partial(hostile.benchmark, name="wet-chicken", size=2000, null=True)
STAY = stopping.stay_while_you_win
STAY_BETTER = partial(STAY, states=100, each=40, better=0.05)
UNDECLARED = partial(hostile.catastrophe, declared=False)

FALSE = (
    Family(
        "equal-actions", "2 to 20 actions that do the same, normal rewards", hostile.equal_actions
    ),
    Family("slow-chain", "30 states on a slow ring, actions that do the same", hostile.slow_chain),
    Family("few-decisions", "8 to 60 one-step episodes", hostile.few_decisions),
    Family("tiny-counts", "200 states with five visits each", hostile.tiny_counts),
    Family(
        "rare-failure", "failure .05 whatever is done, .95/.05, 600 steps", hostile.rare_failure
    ),
    Family(
        "rarer-is-worse", "failure .02, rarer action .025, .97/.03, 2,000", hostile.rarer_is_worse
    ),
    Family(
        "rarer-is-worse-est",
        "the same, baseline estimated",
        partial(hostile.rarer_is_worse, given=False),
    ),
    Family("rare-success", "success .01 whatever is done, .99/.01, 10,000", hostile.rare_success),
    Family("catastrophe", "+1, but -1000 once in 500, range declared", hostile.catastrophe),
    Family(
        "common-catastrophe",
        "both actions -1000 once in 500 or 400, range observed",
        hostile.common_catastrophe,
    ),
    Family(
        "rare-subgroup", "good by .02, but -5 in 1 of 100, range declared", hostile.rare_subgroup
    ),
    Family(
        "rare-traps", "400 states with about two visits, some of them traps", hostile.rare_traps
    ),
    Family(
        "rare-traps-exact",
        "400 states with exactly two visits, some of them traps",
        partial(hostile.rare_traps, exact=True),
    ),
    Family("wedge", "pi-b-spibb, 100 states with counts just above n_wedge", hostile.wedge),
    Family(
        "hidden-level", "20 to 29 episodes of 100 steps with a hidden level", hostile.hidden_level
    ),
    Family("hidden-level-10", "10 such episodes", partial(hostile.hidden_level, episodes=10)),
    Family("hidden-level-4", "4 such episodes", partial(hostile.hidden_level, episodes=4)),
    Family(
        "sticky-level",
        "hidden levels, and actions that stick within an episode",
        hostile.sticky_level,
    ),
    Family(
        "wandering-level",
        "one trajectory whose rewards share a slow hidden level",
        hostile.wandering_level,
    ),
    Family("copies", "every null episode ten times", hostile.copies),
    Family("drift", "world and behaviour drift together, all changes worse", hostile.drifting),
    Family(
        "drift-given", "the same, an average baseline given", partial(hostile.drifting, given=True)
    ),
    Family(
        "seasons", "world and behaviour change with 4 seasons", partial(hostile.drifting, periods=4)
    ),
    Family(
        "seasons-one",
        "the same, 12 seasons in one trajectory",
        partial(hostile.drifting, periods=12, one=True),
    ),
    Family("aliased", "two hidden states look alike, 400 episodes", hostile.aliased),
    Family("heavy-losses", "Pareto losses of index 1.7", hostile.heavy_losses),
    Family("skewed-costs", "log-normal costs in 20 states", hostile.skewed_costs),
    Family(
        "rare-fall",
        "a rare fall into a pit, a little more often after the rarer action",
        hostile.rare_fall,
    ),
    Family("sparse-reward", "a rare reward at the end of 100 episodes", hostile.sparse_reward),
    Family("best-already", "every change is a little worse", hostile.best_already),
    Family(
        "null-random-mdps",
        "Random MDPs in which actions do the same, 100 trajectories",
        RANDOM_NULL,
    ),
    Family("null-wet-chicken", "Wet Chicken in which actions do the same, 2,000 steps", RIVER_NULL),
    Family(
        "trap-elsewhere",
        "a rare large loss that most states have not shown yet",
        hostile.trap_elsewhere,
    ),
    Family(
        "dead-end", "the change dies more often, and the log just stops there", hostile.dead_end
    ),
    Family(
        "clusters",
        "20 wards with levels and habits of their own, one after the other",
        hostile.clusters,
    ),
    Family(
        "giant-episode",
        "one episode of 3,000 steps among eleven of 15",
        circumstances.giant_episode,
    ),
    Family(
        "win-stay",
        "the second action follows good outcomes, which come in runs",
        circumstances.win_stay,
    ),
    Family(
        "quiet-habit",
        "always 0, but the other action .1 or, once in 100, -20, range declared",
        circumstances.quiet_habit,
    ),
    Family(
        "later-steps",
        "outcomes and the second action come later in an episode",
        circumstances.later_steps,
    ),
    Family("weak-drift", "a weak drift of world and behaviour together", circumstances.weak_drift),
    Family(
        "near-copies",
        "every null decision five times, with fewer digits",
        circumstances.near_copies,
    ),
    Family(
        "estimated-rows",
        "500 rare states, a tiny sure gain, baseline estimated",
        circumstances.estimated_rows,
    ),
    Family(
        "forced-mask", "a mask forces terrible actions in 300 rare states", circumstances.forced
    ),
    Family(
        "forced-smoothing",
        "smoothing plays terrible actions in 300 rare states",
        partial(circumstances.forced, smoothing=True),
    ),
    Family("patients", "seven long episodes, each responds in its own way", circumstances.patients),
    Family(
        "debt-after-the-cut",
        "what is gained now is paid for after the cut",
        circumstances.debt_after_the_cut,
    ),
    Family("stay-200", "U1: outcomes decide who goes on, 200 states, 12 episodes each", STAY),
    Family("stay-200-undeclared", "U1, the range not declared", partial(STAY, declared=False)),
    Family("stay-200-estimated", "U1, the baseline estimated", partial(STAY, given=False)),
    Family("stay-400", "400 states, 12 episodes each", partial(STAY, states=400)),
    Family("stay-100", "U2: 100 states, 16 episodes each", partial(STAY, states=100, each=16)),
    Family(
        "stay-short",
        "U3: 200 states, 6 episodes each, ends .3, gamma .9",
        partial(STAY, each=6, ends=0.3, gamma=0.9),
    ),
    Family("stay-30", "30 states, 40 episodes each", partial(STAY, states=30, each=40)),
    Family("cured", "the same as U1 with success that ends the episode", partial(STAY, cured=True)),
    Family("epsilon-greedy", "B1: the log learns, propensities true", stopping.learning_log),
    Family(
        "epsilon-greedy-in-turn",
        "B2: the same, contexts one after the other",
        partial(stopping.learning_log, in_turn=True),
    ),
    Family(
        "thompson",
        "B4: Thompson sampling and .1 uniform, 50 contexts",
        partial(stopping.learning_log, contexts=50, thompson=True),
    ),
    Family("time-of-day", "level and habit follow the hour, time a number", stopping.time_of_day),
    Family(
        "time-of-day-epoch",
        "the same, epoch seconds",
        partial(stopping.time_of_day, stamps="epoch"),
    ),
    Family("time-of-day-dates", "the same, dates", partial(stopping.time_of_day, stamps="dates")),
    Family("weekly", "level and habit follow the weekday, time 0, 1, 2, ...", stopping.weekly),
    Family("weekly-of-one", "the same in one trajectory", partial(stopping.weekly, how="one")),
    Family("weekly-episodes", "an episode a day", partial(stopping.weekly, how="episodes")),
    Family("weekly-strong", "the swing is 1", partial(stopping.weekly, weeks=120, swing=1.0)),
    Family("hours-of-one", "the same in one trajectory", stopping.hours_of_one),
    Family(
        "three-back", "the first state decides habit and level three steps on", stopping.three_back
    ),
    Family(
        "unseen-catastrophe",
        "as catastrophe, the range not declared, the loss seldom seen",
        UNDECLARED,
        hidden=True,
    ),
    Family(
        "confounded",
        "a hidden severity drives both action and outcome",
        hostile.confounded,
        hidden=True,
    ),
)

TRUE = (
    *(
        Family(f"{name}-{n}", words, partial(make, **{key: n}))
        for name, words, make, sizes, key in (
            ("small-effect", "one state, better by 0.2 sd", small_effect, (300, 1000, 3000), "n"),
            ("large-effect", "5 states, better by 1 sd", large_effect, (100, 300, 1000), "n"),
            ("clicks", "success .05 against .10", clicks, (500, 2000, 8000), "n"),
            ("safer", "failure .10 against .02", safer, (300, 1000, 3000), "n"),
            ("many-states", "100 states, better by 0.7 sd", many_states, (500, 1000, 3000), "n"),
            (
                "estimated",
                "5 states, one trajectory, baseline estimated",
                estimated,
                (100, 300, 1000),
                "n",
            ),
            (
                "random-mdps",
                "Random MDPs, trajectories",
                partial(hostile.benchmark, name="random-mdps"),
                (50, 200, 1000),
                "size",
            ),
            (
                "wet-chicken",
                "Wet Chicken, steps",
                partial(hostile.benchmark, name="wet-chicken"),
                (1000, 5000, 20000),
                "size",
            ),
        )
        for n in sizes
    ),
    Family(
        "few-each-5",
        "5 states, 20 visits each, better by .75 sd",
        partial(stopping.few_each, states=5, n=100, effect=0.75),
    ),
    Family(
        "few-each-50",
        "50 states, about 3 held-out visits a pair, better by .55 sd",
        partial(stopping.few_each, states=50, n=600, effect=0.55),
    ),
    Family(
        "stay-better-100",
        "as U1, 100 states, 40 episodes each, one action ends .05 less",
        STAY_BETTER,
    ),
    Family("stay-better-400", "the same with 400 states", partial(STAY_BETTER, states=400)),
    Family(
        "epsilon-greedy-better",
        "as B1, the second arm better by .2",
        partial(stopping.learning_log, contexts=10, better=0.2),
    ),
    Family("turbine-26000", "a turbine, 26,000 rows, 10 % exploration", stopping.turbine),
    Family("turbine-100000", "the same, 100,000 rows", partial(stopping.turbine, rows=100_000)),
)
# Asked for by name or kind: gains over the baseline's rule, which is worth more than the baseline.
RULES_FALSE = (
    Family(
        "rule-equal", "the second action is as good as the rule's", partial(over_rule, better=0)
    ),
    Family("rule-worse", "it is worse by .1", partial(over_rule, better=-0.1)),
    Family(
        "rule-many",
        "100 states with ten visits each, worse by .05, noise .5",
        partial(over_rule, better=-0.05, states=100, episodes=1000, steps=1, noise=0.5),
    ),
    Family(
        "rule-clicks",
        "success .1, as good, single decisions: weights may judge",
        partial(over_rule, better=0, states=4, episodes=2000, steps=1, clicks=True),
    ),
    Family(
        "rule-estimated",
        "as good, the rule taken from the log itself",
        partial(over_rule, better=0, noise=0.5, given=False),
    ),
)
RULES_TRUE = (
    Family("rule-better", "the second action is better by .5", partial(over_rule, better=0.5)),
    Family(
        "rule-clicks-better",
        "success .1 against .2",
        partial(over_rule, better=0.1, states=4, episodes=2000, steps=1, clicks=True),
    ),
)
RULES = (*RULES_FALSE, *RULES_TRUE)
# Asked for by kind, with --direct: policies that are trees.
TREES = (
    Family("tree-equal", "null: actions that do the same", partial(in_grid, worth=no_worth)),
    Family(
        "tree-chess-board",
        "null of a tree: better and worse cell by cell, depth 1",
        partial(in_grid, worth=chess_board, depth=1),
    ),
    Family(
        "tree-bad-corner",
        "a trap: better by .1, worse by 8 in a cell of 2 %, depth 1",
        partial(in_grid, worth=bad_corner, depth=1, corner=0.02),
    ),
    Family(
        "tree-one-cut", "true: one cut says it all", partial(in_grid, worth=one_cut, episodes=600)
    ),
    Family(
        "tree-slope", "true: better with both columns", partial(in_grid, worth=slope, episodes=600)
    ),
)
# The benchmarks at the sizes of the studies; ICU-Sepsis takes seconds a log, so it is asked for by
# name.
STUDIES = tuple(
    Family(
        f"{name}-{n}",
        f"{name} at the sizes of the studies",
        partial(hostile.benchmark, name=name, size=n),
    )
    for name, sizes in (("wet-chicken", (200, 500, 2000, 10000)), ("icu-sepsis", (300, 3000)))
    for n in sizes
)
