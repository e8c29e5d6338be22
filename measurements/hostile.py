"""Logs on which a promise of improvement would be false."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hidden_worlds import Case, World, bandit, case, coin, gamble, normal
from surefoot.research.benchmarks import ICUSepsis, RandomMDPs, WetChicken
from surefoot.research.simulate import first_key


def equal_actions(rng: np.random.Generator) -> Case:
    """One state, 2 to 20 actions that do the same, normal rewards."""
    a = int(rng.integers(2, 21))
    pi_b = rng.dirichlet(np.ones(a))[None]
    world = bandit(pi_b, np.zeros((1, a)), normal(np.zeros((1, a))), ends=bool(rng.integers(2)))
    return case(world, rng, *((400, 1) if world.ends else (1, 400)))


def slow_chain(rng: np.random.Generator) -> Case:
    """Thirty states on a ring, slow to cross, actions that do the same."""
    n = 30
    p = np.zeros((n, 3, n))
    for s in range(n):
        p[s, :, s], p[s, :, (s + 1) % n], p[s, :, s - 1] = 0.8, 0.12, 0.08
    r = np.tile(rng.normal(size=(n, 1)), (1, 3))
    return case(
        World(
            p=p,
            r=r,
            draw=normal(r, 0.5),
            start=np.eye(n)[0],
            gamma=0.95,
            pi_b=np.tile([0.7, 0.2, 0.1], (n, 1)),
        ),
        rng,
        1,
        3000,
    )


def few_decisions(rng: np.random.Generator) -> Case:
    """8 to 60 one-step episodes, two actions that do the same."""
    world = bandit([[0.6, 0.4]], np.zeros((1, 2)), normal(np.zeros((1, 2))), ends=1)
    return case(world, rng, int(rng.integers(8, 61)), 1)


def tiny_counts(rng: np.random.Generator) -> Case:
    """200 states with about five visits each, four actions that do the same."""
    world = bandit(np.full((200, 4), 0.25), np.zeros((200, 4)), normal(np.zeros((200, 4))), ends=1)
    return case(world, rng, 1000, 1)


def rare_failure(rng: np.random.Generator) -> Case:
    """Failure with probability .05 whatever is done, baseline .95/.05, 600 steps."""
    ends = bool(rng.integers(2))
    world = bandit([[0.95, 0.05]], [[0.95, 0.95]], coin([[0.95, 0.95]]), ends=ends)
    return case(world, rng, *((600, 1) if ends else (1, 600)))


def rarer_is_worse(rng: np.random.Generator, given: bool = True) -> Case:
    """Failure .02, of the rarer action .025, baseline .97/.03, 2,000 decisions."""
    ends = bool(rng.integers(2))
    world = bandit([[0.97, 0.03]], [[0.98, 0.975]], coin([[0.98, 0.975]]), ends=ends)
    return case(world, rng, *((2000, 1) if ends else (1, 2000)), given=given)


def rare_success(rng: np.random.Generator) -> Case:
    """Success .01 whatever is done, baseline .99/.01, 10,000 decisions."""
    ends = bool(rng.integers(2))
    world = bandit([[0.99, 0.01]], [[0.01, 0.01]], coin([[0.01, 0.01]]), ends=ends)
    return case(world, rng, *((10_000, 1) if ends else (1, 10_000)))


def catastrophe(rng: np.random.Generator, declared: bool = True) -> Case:
    """The rarer action pays +1, but -1000 once in 500; the other pays 0. The range is declared."""
    means = [[0.0, 1 - 1001 / 500]]
    draw = coin([[0.0, 1 / 500]], 1.0, -1000.0)
    pays = lambda rng, h, a, to, passed: np.where(a == 0, 0.0, draw(rng, h, a, to, passed))  # noqa: E731
    world = bandit([[0.9, 0.1]], means, pays, ends=1)
    options = {"reward_range": "-1000,1"} if declared else {}
    return case(world, rng, int(rng.choice([300, 1000, 2000])), 1, options=options)


def common_catastrophe(rng: np.random.Generator) -> Case:
    """Both actions pay +1, but -1000 once in 500; the rarer one once in 400.

    The range is only observed.
    """
    draw = coin([[1 / 500, 1 / 400]], 1.0, -1000.0)
    world = bandit([[0.9, 0.1]], [[1 - 1001 / 500, 1 - 1001 / 400]], draw, ends=1)
    return case(world, rng, 2000, 1)


def rare_traps(rng: np.random.Generator, exact: bool = False) -> Case:
    """400 rare states with two visits each, in which the other action mostly pays more, and
    sometimes costs a lot; one common state has a small sure gain.
    """
    n, chance = 400, np.append(0.0, np.full(399, 0.25))
    means = np.stack([np.zeros(n), 0.5 - 8.5 * chance], axis=1)
    means[0, 1] = 0.02
    pays = gamble(chance, -8.0, np.append(0.02, np.full(399, 0.5)), 0.02)
    world = bandit(
        np.full((n, 2), 0.5),
        means,
        pays,
        visits=np.append(0.5, np.full(n - 1, 0.5 / (n - 1))),
        ends=1,
    )
    found = case(world, rng, 4 * n, 1)
    if not exact:
        return found
    state = np.append(np.repeat(np.arange(1, n), 2), np.zeros(2 * n + 2, dtype=int))
    rng.shuffle(state)
    action = rng.integers(0, 2, 4 * n)
    columns = found.columns | {
        "state": [f"s{s:04d}" for s in state], "action": [f"a{a:04d}" for a in action],
        "reward": pays(rng, state, action, state, state / n).tolist(),
    }  # fmt: skip
    return replace(found, columns=columns)


def wedge(rng: np.random.Generator) -> Case:
    """Pi_b-SPIBB: a common state with a small sure gain, and 100 traps whose counts lie just
    above n_wedge = 10 in the whole log.
    """
    n, chance = 101, np.append(0.0, np.full(100, 0.03))
    means = np.stack([np.zeros(n), 0.1 - 30.1 * chance], axis=1)
    pays = gamble(chance, -30.0, np.full(n, 0.1), 0.05)
    world = bandit(
        np.full((n, 2), 0.5), means, pays, visits=np.append(0.6, np.full(100, 0.004)), ends=1
    )
    return case(world, rng, 6000, 1, algorithm="pi-b-spibb")


def hidden_level(rng: np.random.Generator, episodes: int = 0) -> Case:
    """20 to 29 episodes of 100 steps; each has a hidden level that its rewards share; actions do
    the same.
    """
    levels = 7
    h = np.arange(3 * levels)
    p = np.zeros((len(h), 3, len(h)))
    for level in range(levels):
        p[3 * level : 3 * level + 3, :, 3 * level : 3 * level + 3] = 1 / 3
    r = np.tile(np.repeat(np.linspace(-2, 2, levels), 3)[:, None], (1, 3))
    world = World(
        p=p,
        r=r,
        draw=normal(r, 0.3),
        start=np.full(len(h), 1 / len(h)),
        gamma=0.9,
        pi_b=np.tile([0.8, 0.1, 0.1], (3, 1)),
        shown=h % 3,
    )
    return case(world, rng, episodes or int(rng.integers(20, 30)), 100)


def sticky_level(rng: np.random.Generator) -> Case:
    """As before, and the behaviour keeps to one action within an episode: few episodes hold all
    there is to know.
    """
    world = hidden_level(rng).world
    found = world.log(rng, 24, 60)
    habit = rng.choice(3, size=24, p=[0.6, 0.2, 0.2])
    keep = rng.random(len(found["action"])) < 0.8
    number = [int(e[1:]) for e in found["episode"]]
    found["action"] = [
        f"a{habit[e]:04d}" if k else a
        for e, k, a in zip(number, keep, found["action"], strict=True)
    ]
    return Case(
        world=replace(world, pi_b=np.tile([0.62, 0.19, 0.19], (3, 1))), columns=found, given=False
    )


def wandering_level(rng: np.random.Generator) -> Case:
    """One trajectory of 4,000 steps whose rewards share a hidden level that moves slowly;
    actions do the same.
    """
    world = bandit(np.tile([0.7, 0.3], (4, 1)), np.zeros((4, 2)), normal(np.zeros((4, 2)), 0.5))
    found = world.log(rng, 1, 4000)
    level = np.zeros(4000)
    for t in range(1, 4000):
        level[t] = 0.995 * level[t - 1] + 0.1 * rng.standard_normal()
    found["reward"] = (np.array(found["reward"]) + level).tolist()
    return Case(world=world, columns=found)


def copies(rng: np.random.Generator) -> Case:
    """Every episode in the log ten times, under other names; actions do the same."""
    world = bandit(np.tile([0.6, 0.4], (3, 1)), np.zeros((3, 2)), normal(np.zeros((3, 2))))
    found = world.log(rng, 30, 5)
    times = {name: x * 10 for name, x in found.items()}
    times["episode"] = [f"{e}-{i}" for i in range(10) for e in found["episode"]]
    return Case(world=world, columns=times)


def drifting(
    rng: np.random.Generator, periods: float = 0.5, given: bool = False, one: bool = False
) -> Case:
    """World and behaviour change together, over the log or with seasons; at every moment the
    action that looks better is worse.
    """
    wave = lambda passed: 0.5 - 0.5 * np.cos(2 * np.pi * periods * passed)  # noqa: E731
    means = np.array([[0.0, -0.2]])

    def acts(h: np.ndarray, passed: np.ndarray) -> np.ndarray:
        share = 0.1 + 0.6 * wave(passed)
        return np.stack([1 - share, share], axis=1)

    def draw(
        rng: np.random.Generator, h: np.ndarray, a: np.ndarray, to: np.ndarray, passed: np.ndarray
    ) -> np.ndarray:
        return means[0, a] + 2 * wave(passed) + rng.standard_normal(len(h))

    world = bandit([[0.6, 0.4]], means, draw, ends=not one)
    world = replace(world, acts=acts)
    return case(world, rng, *((1, 2000) if one else (2000, 1)), given=given)


def aliased(rng: np.random.Generator) -> Case:
    """Two hidden states look alike; what is good in the one is bad in the other, and the
    behaviour leads there first.
    """
    # h: 0 fresh, 1 tired, both shown as 0; 2 the end. Work (1) pays 1 when fresh and makes tired;
    # when tired it costs 1.5. Rest pays 0.
    p = np.zeros((3, 2, 3))
    p[0, 1, 1], p[0, 0, 0], p[1, 1, 1], p[1, 0, 0] = 1, 1, 1, 1
    p = 0.9 * p
    p[:, :, 2] = 0.1
    p[2] = np.eye(3)[2]
    r = np.array([[0.0, 1.0], [0.0, -1.2], [0.0, 0.0]])
    world = World(
        p=p,
        r=r,
        draw=normal(r, 0.2),
        start=np.array([1.0, 0, 0]),
        gamma=0.95,
        pi_b=np.array([[0.7, 0.3], [0.5, 0.5]]),
        shown=np.array([0, 0, 1]),
        ends=1,
    )
    return case(world, rng, 400, 30)


def confounded(rng: np.random.Generator) -> Case:
    """A hidden severity drives both the action and the outcome: the strong treatment looks
    harmful, and helps.
    """
    means = np.array(
        [[1.0, 1.1], [-1.0, -0.5]]
    )  # mild, severe; the strong treatment (1) helps both
    world = bandit(np.array([[0.5, 0.5]] * 2), means, normal(means, 0.5), ends=1)
    behaviour = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    world = replace(
        world,
        shown=np.array([0, 0, 1]),
        pi_b=np.array([[0.55, 0.45], [0.5, 0.5]]),
        behaviour=behaviour,
        acts=lambda h, passed: behaviour[h],
    )
    return case(world, rng, 2000, 1)


def heavy_losses(rng: np.random.Generator) -> Case:
    """Losses with a Pareto tail of index 1.7 whatever is done, baseline .9/.1, 1,000 decisions."""
    tail = lambda rng, h, a, to, passed: 1 - rng.pareto(1.7, len(h))  # noqa: E731
    world = bandit([[0.9, 0.1]], np.full((1, 2), 1 - 1 / 0.7), tail, ends=1)
    return case(world, rng, 1000, 1)


def skewed_costs(rng: np.random.Generator) -> Case:
    """Log-normal costs in twenty states, three actions that do the same."""
    cost = lambda rng, h, a, to, passed: -rng.lognormal(0.0, 1.5, len(h))  # noqa: E731
    world = bandit(
        np.tile([0.8, 0.1, 0.1], (20, 1)), np.full((20, 3), -np.exp(1.125)), cost, ends=1
    )
    return case(world, rng, 1500, 1)


def rare_fall(rng: np.random.Generator) -> Case:
    """A walk in which every step may fall into a pit that costs 10; the rarer action pays more
    and falls a little more often.
    """
    # 0 the path, 1 the pit (ten steps on average).
    p = np.zeros((2, 2, 2))
    p[0, 0], p[0, 1], p[1, :] = [0.99, 0.01], [0.985, 0.015], [0.1, 0.9]
    r = np.array([[0.0, 0.0], [-1.0, -1.0]])
    world = World(
        p=p,
        r=r,
        draw=normal(r, 0.05),
        start=np.eye(2)[0],
        gamma=0.95,
        pi_b=np.tile([0.95, 0.05], (2, 1)),
    )
    return case(world, rng, 1, 3000)


def sparse_reward(rng: np.random.Generator) -> Case:
    """100 episodes of up to 20 steps, a reward of 1 at a rare end, actions that do the same."""
    n = 8
    p = np.zeros((n + 1, 3, n + 1))
    for s in range(n):
        p[s, :, min(s + 1, n - 1)] += 0.5
        p[s, :, max(s - 1, 0)] += 0.4
        p[s, :, n] += 0.1
    p[n] = np.eye(n + 1)[n]
    r = np.zeros((n + 1, 3))
    r[n - 1] = 0.1
    world = World(
        p=p,
        r=r,
        draw=lambda rng, h, a, to, passed: ((h == n - 1) & (to == n)) * 1.0,
        start=np.eye(n + 1)[0],
        gamma=0.95,
        pi_b=np.tile([0.7, 0.2, 0.1], (n + 1, 1)),
        ends=1,
    )
    return case(world, rng, 100, 20)


def rare_subgroup(rng: np.random.Generator) -> Case:
    """A change that is a little good, but very bad in one case of a hundred that the state does
    not show. The range is declared.
    """
    means = np.array([[0.0, 0.02], [0.0, -5.0]])
    world = bandit(
        np.tile([0.7, 0.3], (2, 1)),
        means,
        normal(means, 0.05),
        visits=[0.99, 0.01],
        ends=1,
        shown=np.array([0, 0, 1]),
    )
    world = replace(world, pi_b=np.array([[0.7, 0.3], [0.5, 0.5]]))
    return case(world, rng, 300, 1, options={"reward_range": "-6,1"})


def best_already(rng: np.random.Generator) -> Case:
    """Ten states in which the baseline mostly takes the best action; every change is worse, by
    little.
    """
    means = np.tile([0.0, -0.1, -0.1, -0.1], (10, 1))
    world = bandit(
        np.tile([0.85, 0.05, 0.05, 0.05], (10, 1)), means, normal(means), ends=bool(rng.integers(2))
    )
    return case(world, rng, *((1500, 1) if world.ends else (1, 1500)), given=bool(rng.integers(2)))


def null_benchmark(rng: np.random.Generator, name: str, size: int) -> Case:
    """A benchmark of the paper in which every action of a state has the same law."""
    return benchmark(rng, name, size, null=True)


def benchmark(
    rng: np.random.Generator, name: str, size: int, null: bool = False, **more: Any
) -> Case:
    """A log of a benchmark: `size` trajectories (Random MDPs), patients (ICU-Sepsis) or steps
    (Wet Chicken).
    """
    made = {"random-mdps": RandomMDPs, "wet-chicken": WetChicken, "icu-sepsis": ICUSepsis}[name]()
    worlds = made.worlds(
        np.array([int(first_key(7, name, np.array([int(rng.integers(2**31))]))[0])])
    )
    p, table = worlds.p[0], worlds.reward_table[0]
    p = np.broadcast_to(p.mean(axis=1, keepdims=True), p.shape) if null else p
    end = np.flatnonzero(worlds.terminal[0])
    order = np.append(np.delete(np.arange(len(p)), end), end)  # a terminal state comes last
    p = p[np.ix_(order, np.arange(p.shape[1]), order)]
    table = np.broadcast_to(table, worlds.p[0].shape)[np.ix_(order, np.arange(p.shape[1]), order)]
    world = World(
        p=p,
        r=(p * table).sum(axis=2),
        draw=lambda rng, h, a, to, passed: table[h, a, to],
        start=worlds.start[0][order],
        gamma=worlds.gamma,
        pi_b=worlds.pi_b[0][order],
        ends=len(end),
    )
    return case(
        world, rng, *((size, 20 if name == "icu-sepsis" else 50) if len(end) else (1, size)), **more
    )


def trap_elsewhere(rng: np.random.Generator) -> Case:
    """Ten states; the rarer action pays 1 more, but costs 60 in one of 50 cases, in all states
    alike: most states never show it.
    """
    pay = coin(np.tile([0.0, 0.02], (10, 1)), 1.0, -60.0)
    draw = lambda rng, h, a, to, passed: np.where(a == 0, 0.0, pay(rng, h, a, to, passed))  # noqa: E731
    world = bandit(
        np.tile([0.85, 0.15], (10, 1)),
        np.tile([0.0, 1 - 0.02 * 61], (10, 1)),
        draw,
        ends=bool(rng.integers(2)),
    )
    return case(world, rng, *((1500, 1) if world.ends else (1, 1500)))


def dead_end(rng: np.random.Generator) -> Case:
    """Every step alive pays 1.

    The rarer action pays a little more, and ends in death more often, where the log just stops.
    """
    p = np.zeros((4, 2, 4))
    p[:3, 0, :3], p[:3, 1, :3] = 0.97 / 3, 0.90 / 3
    p[:3, 0, 3], p[:3, 1, 3] = 0.03, 0.10
    p[3] = np.eye(4)[3]
    r = np.array([[1.0, 1.1]] * 3 + [[0.0, 0.0]])
    world = World(
        p=p,
        r=r,
        draw=normal(r, 0.1),
        start=np.array([1, 1, 1, 0]) / 3,
        gamma=0.95,
        pi_b=np.tile([0.8, 0.2], (4, 1)),
        ends=1,
    )
    found = case(world, rng, 300, 30)
    columns = {name: x for name, x in found.columns.items() if name != "terminal"}
    return replace(found, columns=columns)


def clusters(rng: np.random.Generator) -> Case:
    """400 one-step episodes of 20 wards in turn; a ward has its level of outcomes and its
    habits; the actions do the same.
    """
    level, share = rng.normal(size=20), rng.beta(2, 4, size=20)
    ward = lambda passed: np.minimum((passed * 20).astype(int), 19)  # noqa: E731
    world = bandit(
        [[1 - share.mean(), share.mean()]],
        np.zeros((1, 2)),
        lambda rng, h, a, to, passed: level[ward(passed)] + 0.3 * rng.standard_normal(len(h)),
        ends=1,
        acts=lambda h, passed: np.stack([1 - share[ward(passed)], share[ward(passed)]], axis=1),
    )
    return case(world, rng, 400, 1, given=False)
