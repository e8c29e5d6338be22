"""More logs that mislead: unequal units, confounding circumstances, masks, estimated baselines."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from hidden_worlds import Case, Columns, World, bandit, case, normal


def _one_after_the_other(parts: list[Columns]) -> Columns:
    """Several logs as one, with episodes of their own."""
    return {
        name: [
            f"{i:03d}-{x}" if name == "episode" else x
            for i, part in enumerate(parts)
            for x in part[name]
        ]
        for name in parts[0]
    }


def giant_episode(rng: np.random.Generator) -> Case:
    """Eleven episodes of 15 steps and one of 3,000; three actions that do the same."""
    world = bandit(np.tile([0.8, 0.1, 0.1], (4, 1)), np.zeros((4, 3)), normal(np.zeros((4, 3))))
    lengths = rng.permutation([15] * 11 + [3000])
    return Case(
        world=world, columns=_one_after_the_other([world.log(rng, 1, int(n)) for n in lengths])
    )


def win_stay(rng: np.random.Generator) -> Case:
    """The second action is taken after a good outcome; outcomes resemble the one before a little
    (.1); it costs .03.
    """
    n, steps, cost = 100, 20, 0.03
    world = bandit([[0.5, 0.5]], [[0.0, -cost]], normal([[0.0, -cost]]))
    found = world.log(rng, n, steps)
    noise, action = rng.standard_normal((n, steps)), rng.integers(0, 2, (n, steps))
    for t in range(1, steps):
        noise[:, t] = 0.1 * noise[:, t - 1] + np.sqrt(0.99) * noise[:, t]
        action[:, t] = rng.random(n) < np.where(noise[:, t - 1] > 0, 0.9, 0.1)
    found["action"] = [f"a{x:04d}" for x in action.reshape(-1)]
    found["reward"] = (noise - cost * action).reshape(-1).tolist()
    return Case(world=world, columns=found, given=False)


def quiet_habit(rng: np.random.Generator) -> Case:
    """20 states in which the usual action always gives 0, so that outcomes hardly scatter; the
    other gives .1, but -20 once in a hundred. The range is declared.
    """
    means = np.tile([0.0, 0.99 * 0.1 - 0.01 * 20], (20, 1))
    world = bandit(
        np.tile([0.95, 0.05], (20, 1)),
        means,
        lambda rng, h, a, to, passed: np.where(rng.random(len(h)) < 0.01, -20.0, 0.1) * a,
        ends=1,
    )
    return case(world, rng, 3000, 1, options={"reward_range": "-20,1"})


def later_steps(rng: np.random.Generator) -> Case:
    """Outcomes get better with the step of an episode, and the second action is taken later; it
    costs .05.
    """
    n, steps = 200, 10
    world = bandit([[0.5, 0.5]], [[0.0, -0.05]], normal([[0.0, -0.05]]))
    found = world.log(rng, n, steps)
    t = np.array(found["time"]) / (steps - 1)
    action = (rng.random(len(t)) < 0.2 + 0.6 * t).astype(int)
    found["action"] = [f"a{x:04d}" for x in action]
    found["reward"] = (0.4 * (t - 0.5) - 0.05 * action + rng.standard_normal(len(t))).tolist()
    return Case(world=world, columns=found, given=False)


def weak_drift(rng: np.random.Generator) -> Case:
    """Outcomes and the share of the second action rise a little over 1,000 decisions; it costs
    .03.
    """
    means = np.array([[0.0, -0.03]])
    world = bandit(
        [[0.6, 0.4]],
        means,
        lambda rng, h, a, to, passed: means[0, a] + 0.6 * passed + rng.standard_normal(len(h)),
        ends=1,
        acts=lambda h, passed: np.stack([0.8 - 0.4 * passed, 0.2 + 0.4 * passed], axis=1),
    )
    return case(world, rng, 1000, 1, given=False)


def near_copies(rng: np.random.Generator) -> Case:
    """60 null decisions, each five times, as systems with fewer digits wrote them, in any order."""
    world = bandit(np.tile([0.6, 0.4], (3, 1)), np.zeros((3, 2)), normal(np.zeros((3, 2))), ends=1)
    found = world.log(rng, 60, 1)
    order = rng.permutation(300)
    copied: Columns = {name: [x[i % 60] for i in order] for name, x in found.items()}
    copied["reward"] = [x * (1 + 1e-7 * rng.standard_normal()) for x in copied["reward"]]
    copied["episode"] = [f"e{i:04d}" for i in range(300)]
    return Case(world=world, columns=copied, given=False)


def estimated_rows(rng: np.random.Generator) -> Case:
    """500 rare states in which actions differ much, a common one with a tiny sure gain; the
    baseline is estimated.
    """
    m = 500
    means = np.vstack(
        [[0.0, 0.02], np.stack([np.zeros(m), 3 * rng.choice([-1.0, 1.0], m)], axis=1)]
    )
    world = bandit(
        np.full((m + 1, 2), 0.5),
        means,
        normal(means, 0.05),
        visits=np.append(0.5, np.full(m, 0.5 / m)),
        ends=1,
    )
    return case(world, rng, 4000, 1, given=False, algorithm="pi-b-spibb", settings={"n_wedge": 10})


def forced(rng: np.random.Generator, smoothing: bool = False) -> Case:
    """A common state with a sure gain; in 300 rare ones a mask, or smoothing, leads to actions
    that are hardly seen, and terrible.
    """
    m = 300
    means = np.vstack([[0.0, 0.3], np.tile([0.0, -5.0], (m, 1))])
    pi_b = np.vstack([[0.6, 0.4], np.tile([0.97, 0.03], (m, 1))])
    world = bandit(
        pi_b, means, normal(means, 0.3), visits=np.append(0.8, np.full(m, 0.2 / m)), ends=1
    )
    found = case(world, rng, 3000, 1, given=not smoothing)
    if smoothing:
        return replace(found, options={"smoothing": 1.0})
    file = Path(tempfile.gettempdir()) / f"allowed-{rng.integers(2**62)}.csv"
    rare = sorted(set(found.columns["state"]) - {"s0000"})
    file.write_text(
        "\n".join(["state,action", "s0000,a0000", "s0000,a0001", *(f"{s},a0001" for s in rare)])
        + "\n"
    )
    return replace(found, options={"allowed": str(file), "renormalise": None}, clean=(file,))


def patients(rng: np.random.Generator) -> Case:
    """Seven long episodes; a patient responds to each action in a way of his own, on average all
    but the first cost .05.
    """
    k, n, steps = 8, 7, 300
    world = bandit(
        np.append(0.44, np.full(k, 0.07))[None],
        np.append(0.0, np.full(k, -0.05))[None],
        normal(np.zeros((1, k + 1))),
    )
    found = world.log(rng, n, steps)
    own = np.column_stack([np.zeros(n), -0.05 + 0.35 * rng.standard_normal((n, k))])
    action = np.array([int(a[1:]) for a in found["action"]])
    found["reward"] = (
        own[np.repeat(np.arange(n), steps), action] + rng.standard_normal(n * steps)
    ).tolist()
    return Case(world=world, columns=found, given=False)


def debt_after_the_cut(rng: np.random.Generator) -> Case:
    """Episodes are cut after two steps.

    A loan pays now and leads to a debt that costs a little more, later.
    """
    # 0 free, 1 in debt: .1 a step for a hundred steps on average. A loan pays so much that it is
    # worth nothing in the end.
    p = np.zeros((2, 2, 2))
    p[0, 0], p[0, 1], p[1, :] = [1, 0], [0, 1], [0.01, 0.99]
    gamma = 0.99
    debt = 0.1 / (1 - 0.99 * gamma)
    r = np.array([[0.0, 0.95 * gamma * debt], [-0.1, -0.1]])
    world = World(
        p=p,
        r=r,
        draw=normal(r, 0.05),
        start=np.array([1.0, 0.0]),
        gamma=gamma,
        pi_b=np.tile([0.7, 0.3], (2, 1)),
    )
    return case(world, rng, 800, 2)
