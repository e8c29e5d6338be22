"""More logs that mislead: outcomes decide who goes on, the policy learns while the log is made,
circumstances follow the hour or lie three steps back. The actions do the same, or the change costs.
"""

from __future__ import annotations

import numpy as np

from hidden_worlds import Case, Columns, World, bandit, case, coin, normal


def stay_while_you_win(
    rng: np.random.Generator,
    states: int = 200,
    each: int = 12,
    ends: float = 0.2,
    gamma: float = 0.95,
    *,
    cured: bool = False,
    declared: bool = True,
    given: bool = True,
    better: float = 0.0,
) -> Case:
    """An episode stays in its state; each step pays 1 and goes on, or pays 0 and ends; with `cured`
    it is the end that pays. Two actions that do the same, so many episodes for each state on
    average; with `better` the second one ends so much less often.
    """
    p, r = np.zeros((states + 1, 2, states + 1)), np.zeros((states + 1, 2))
    for a, chance in enumerate((ends, ends - better)):
        p[:, a] = (1 - chance) * np.eye(states + 1)
        p[:states, a, states], p[states, a, states] = chance, 1.0
        r[:states, a] = chance if cured else 1 - chance
    world = World(
        p=p,
        r=r,
        draw=lambda rng, h, a, to, passed: ((to == states) == cured).astype(float),
        start=np.append(np.full(states, 1 / states), 0.0),
        gamma=gamma,
        pi_b=np.full((states + 1, 2), 0.5),
        ends=1,
    )
    options = {"reward_range": "0,1"} if declared else {}
    return case(world, rng, states * each, 400, given=given, options=options)


def learning_log(
    rng: np.random.Generator,
    contexts: int = 100,
    n: int = 4000,
    *,
    thompson: bool = False,
    in_turn: bool = False,
    better: float = 0.0,
) -> Case:
    """One-step rows of a policy that learns as it goes, its true propensities recorded: by default
    the arm that looks better with .9, the other with .1. Two equal arms; with `better` the second
    one pays so much more.
    """
    context = np.sort(rng.integers(0, contexts, n)) if in_turn else rng.integers(0, contexts, n)
    total, tries = np.zeros((contexts, 2)), np.zeros((contexts, 2))
    action, reward, p = np.zeros(n, dtype=int), np.zeros(n), np.zeros(n)
    for i, s in enumerate(context):
        if thompson:
            draws = rng.beta(1 + total[s], 1 + tries[s] - total[s], size=(200, 2))
            second = 0.1 * 0.5 + 0.9 * float((draws[:, 1] > draws[:, 0]).mean())
        else:
            means = total[s] / np.maximum(tries[s], 1)
            second = 0.5 if means[0] == means[1] else (0.9 if means[1] > means[0] else 0.1)
        action[i] = rng.random() < second
        p[i] = second if action[i] else 1 - second
        reward[i] = rng.random() < 0.5 + better * action[i]
        total[s, action[i]] += reward[i]
        tries[s, action[i]] += 1
    means = np.tile([0.5, 0.5 + better], (contexts, 1))
    world = bandit(np.full((contexts, 2), 0.5), means, coin(means), ends=True)
    columns = _one_step(context, action, reward, contexts) | {"propensity": p.tolist()}
    return Case(world=world, columns=columns)


def _one_step(state: np.ndarray, action: np.ndarray, reward: np.ndarray, end: int) -> Columns:
    """A log whose episodes are one row each."""
    n = len(state)
    return {
        "episode": [f"e{i:06d}" for i in range(n)],
        "time": list(range(n)),
        "state": [f"s{s:04d}" for s in state],
        "action": [f"a{a:04d}" for a in action],
        "reward": reward.tolist(),
        "next_state": [f"s{end:04d}"] * n,
        "terminal": [1.0] * n,
    }


def time_of_day(rng: np.random.Generator, cycles: int = 60, *, stamps: str = "number") -> Case:
    """One-step rows, 24 to a cycle: level and habit both follow the hour; the second action costs
    .1. Times are numbers, epoch seconds, or dates.
    """
    n = 24 * cycles
    hour = np.arange(n) % 24
    wave = np.cos(2 * np.pi * hour / 24)
    action = (rng.random(n) < 0.5 + 0.4 * wave).astype(int)
    means = np.array([[0.0, -0.1]])
    reward = means[0, action] + wave + rng.standard_normal(n)
    columns = _one_step(np.zeros(n, dtype=int), action, reward, 1)
    seconds = 1_700_006_400 + 3600 * np.arange(n)
    if stamps == "epoch":
        columns["time"] = seconds.tolist()
    elif stamps == "dates":
        columns["time"] = seconds.astype("datetime64[s]").astype(str).tolist()
    return Case(
        world=bandit([[0.5, 0.5]], means, normal(means), ends=True), columns=columns, given=False
    )


def three_back(rng: np.random.Generator, n: int = 600) -> Case:
    """Episodes of four steps: the first state decides habit and level of the last step; the second
    action costs .1.
    """
    means = np.tile([0.0, -0.1], (4, 1))
    world = bandit(np.full((4, 2), 0.5), means, normal(means))
    found = world.log(rng, n, 4)
    state = np.array([int(s[1:]) for s in found["state"]]).reshape(n, 4)
    high = np.where(state[:, 0] >= 2, 1.0, -1.0)
    action = np.array([int(a[1:]) for a in found["action"]]).reshape(n, 4)
    action[:, 3] = rng.random(n) < 0.5 + 0.4 * high
    reward = -0.1 * action + rng.standard_normal((n, 4))
    reward[:, 3] += high
    found["action"] = [f"a{a:04d}" for a in action.reshape(-1)]
    found["reward"] = reward.reshape(-1).tolist()
    return Case(world=world, columns=found, given=False)


def few_each(rng: np.random.Generator, states: int, n: int, effect: float = 0.5) -> Case:
    """States with two actions of equal share, one of them better, which one differs."""
    means = effect * np.eye(2)[np.arange(states) % 2]
    world = bandit(np.full((states, 2), 0.5), means, normal(means), ends=True)
    return case(world, rng, n, 1)


def turbine(rng: np.random.Generator, rows: int = 26_000) -> Case:
    """Load (5) x ambient (3) x fouling (4); fouling comes at 1 % a step, whatever is done, and a
    washing crew resets it. What is asked for depends on all three, the rule goes by the load alone;
    10 % of its decisions are exploration. One trajectory.
    """
    load, ambient, fouling = (x.reshape(-1) for x in np.indices((5, 3, 4)))
    best = load / 2 + 0.25 * ambient + 0.35 * fouling
    drawn = np.array([0.05, 0.15, 0.6, 0.15, 0.05])
    chain = np.zeros((60, 60))
    rise = np.where(fouling == 3, 0.0, 0.01)
    for to in range(60):
        there = 0.8 * (load[to] == load) + 0.2 * drawn[load[to]]
        weather = 0.9 * (ambient[to] == ambient) + 0.1 / 3
        worn = (1 - rise) * (fouling[to] == fouling) + rise * (fouling[to] == fouling + 1)
        chain[:, to] = there * weather * (0.996 * worn + 0.004 * (fouling[to] == 0))
    r = 7.0 - 1.4 * (np.arange(4) - best[:, None]) ** 2 - 0.5 * fouling[:, None]
    pi_b = 0.9 * np.eye(4)[np.round(load / 2).astype(int)] + 0.025
    usual = np.linalg.matrix_power(chain, 10_000)[0]
    p = np.repeat(chain[:, None], 4, axis=1)

    def draw(
        rng: np.random.Generator, h: np.ndarray, a: np.ndarray, to: np.ndarray, passed: np.ndarray
    ) -> np.ndarray:
        return np.clip(r[h, a] + rng.standard_normal(len(h)), -15, 12)

    world = World(p=p, r=r, draw=draw, start=usual, gamma=0.98, pi_b=pi_b)
    return case(world, rng, 1, rows, options={"reward_range": "-15,12"})


def hours_of_one(rng: np.random.Generator, days: int = 120) -> Case:
    """One trajectory of hours in which level and habit both follow the hour; the second action
    costs .1; times are dates.
    """
    n = 24 * days
    world = bandit(np.full((3, 2), 0.5), np.tile([0.0, -0.1], (3, 1)), normal(np.zeros((3, 2))))
    found = world.log(rng, 1, n)
    wave = np.cos(2 * np.pi * (np.arange(n) % 24) / 24)
    action = (rng.random(n) < 0.5 + 0.4 * wave).astype(int)
    found["action"] = [f"a{a:04d}" for a in action]
    found["reward"] = (wave - 0.1 * action + rng.standard_normal(n)).tolist()
    seconds = 1_700_006_400 + 3600 * np.arange(n)
    found["time"] = seconds.astype("datetime64[s]").astype(str).tolist()
    return Case(world=world, columns=found, given=False)


def weekly(
    rng: np.random.Generator, how: str = "one-step", weeks: int = 300, swing: float = 0.3
) -> Case:
    """Two days of every seven have another level and another habit; the second action costs .05.
    Times are plain numbers. `how`: one-step decisions, one trajectory of them, or an episode of two
    steps a day.
    """
    n, states, steps = 7 * weeks, 3, 2 if how == "episodes" else 1
    free = np.tile(np.arange(n) % 7 >= 5, (steps, 1)).T.reshape(-1)
    state = rng.integers(0, states, n * steps)
    action = (rng.random(n * steps) < np.where(free, 0.9, 0.2)).astype(int)
    reward = swing * free - 0.05 * action + 0.5 * rng.standard_normal(n * steps)
    share = np.tile([0.6, 0.4], (states, 1))
    costs = np.tile([0.0, -0.05], (states, 1))
    world = bandit(share, costs, normal(costs, 0.5), ends=how != "one")
    day, step = np.divmod(np.arange(n * steps), steps)
    columns = {
        "episode": ["e"] * n if how == "one" else [f"e{i:06d}" for i in day],
        "time": (np.arange(n) if steps == 1 else step).tolist(),
        "state": [f"s{x:04d}" for x in state],
        "action": [f"a{x:04d}" for x in action],
        "reward": reward.tolist(),
    }
    if how != "one":
        columns["terminal"] = (step == steps - 1).astype(int).tolist()
    return Case(world=world, columns=columns, given=False)
