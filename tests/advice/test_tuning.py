"""Tuning: the fitted prior, drawn models, simulated logs, and the choice between settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gammaln

import surefoot
from support import worlds
from surefoot.advice.tuning import (
    Posterior,
    Shrinkage,
    default_settings,
    parsed_settings,
    setting,
    simulate,
    tune,
)
from surefoot.advice.tuning.posterior import (
    PairCounts,
    fit_prior,
    guess_new,
    guess_seen,
    log_number,
)
from surefoot.advice.tuning.simulation import log_shape, mean_rewards, parts
from surefoot.algorithms.defaults import default_parameters
from surefoot.research.benchmarks import WetChicken
from surefoot.research.simulate import Episodes, Sampler, first_key, sampling

KEYS = first_key(3, "test", np.arange(4000, dtype=np.int64))


def river_problem(steps: int = 600, trial: int = 0, **changes: object) -> surefoot.Problem:
    keys = first_key(1, "river", np.array([trial]))
    river = WetChicken().worlds(keys)
    log = Sampler(river).log(int(keys[0]), WetChicken().episodes(steps))
    return surefoot.problem(
        **(
            {"pi_b": river.pi_b[0], "n_states": 25, "n_actions": 5}
            | log
            | {"gamma": 0.95}
            | changes
        )
    )


def small_problem(**changes: object) -> surefoot.Problem:
    """Three states and two actions; (0, 0) led 30 times to 1 and 10 times to 2, (1, 1) and all
    of state 2 were never seen.
    """
    state = [0] * 40 + [1] * 40
    to = [1] * 30 + [2] * 10 + [0] * 40
    given = {
        "state": state,
        "action": [0] * 80,
        "reward": np.array(to, dtype=float),
        "next_state": to,
        "episode": np.arange(80),
        "gamma": 0.9,
        "pi_b": [[0.5, 0.5]] * 4,
        "n_states": 4,
        "terminal_states": [2],
    }
    return surefoot.problem(**(given | changes))


@pytest.mark.parametrize(("successors", "near"), [(1, 0.05), (3, 0.4)])
def test_the_prior_finds_how_many_successors_a_pair_has(successors: int, near: float) -> None:
    rng = np.random.default_rng(0)
    n = np.zeros((80, 20))
    for row in n:
        where = rng.choice(20, successors, replace=False)
        np.add.at(
            row,
            rng.choice(where, size=rng.integers(1, 40), p=rng.dirichlet(np.full(successors, 5.0))),
            1,
        )
    assert fit_prior(PairCounts(n, 2, n.sum(axis=0) > 0)).mean_number == pytest.approx(
        successors, abs=near
    )


def test_the_likelihood_of_a_number_of_successors_adds_up_to_one() -> None:
    """Of three draws all may go to one successor (one way), two of them (three ways), or each to
    its own.
    """
    n = np.array([[3.0, 0, 0], [2, 1, 0], [1, 1, 1]])
    rows, m = PairCounts(n, 1, np.ones(3, dtype=bool)), np.arange(1.0, 6)
    for alpha in (0.4, 2.0):
        log = log_number(rows, np.broadcast_to(m, (3, 5)), alpha)
        own = [(gammaln(row[row > 0] + alpha) - gammaln(alpha)).sum() for row in n]
        assert np.allclose(np.exp(log + np.array(own)[:, None]).T @ [1, 3, 1], 1)


def test_the_prior_learns_which_states_come_together() -> None:
    """Pairs lead to both of two neighbours: a pair seen to lead to one is guessed to lead to the
    other too.
    """
    n = np.zeros((40, 20))
    for i in range(40):
        n[i, [2 * (i % 10), 2 * (i % 10) + 1]] = 3
    n[7, 15] = 0  # pair 7 was seen to lead to 14 alone
    rows = PairCounts(n, 2, n.sum(axis=0) > 0)
    prior = fit_prior(rows)
    assert prior.guess.argmax() == 2
    assert prior.guess @ guess_new(rows)[:, 7, 15] > 0.8


def test_a_guess_of_a_seen_successor_does_not_look_at_it() -> None:
    """Leaving a triple out of the log by hand gives the guess that is made for it."""
    rng = np.random.default_rng(1)
    n = rng.poisson(0.5, size=(12, 6)).astype(float)
    n[:, 0] += 1  # every pair keeps a successor
    rows = PairCounts(n, 3, np.ones(6, dtype=bool))
    seen = guess_seen(rows)
    for i, (pair, to) in enumerate(zip(*rows.seen, strict=True)):
        without = n.copy()
        without[pair, to] = 0
        assert seen[:, i] == pytest.approx(
            guess_new(PairCounts(without, 3, rows.known))[:, pair, to], abs=1e-12
        )


def test_a_drawn_row_follows_the_dirichlet_posterior() -> None:
    posterior = Posterior(small_problem())
    prior = posterior.prior
    p = posterior.worlds(KEYS).p
    own = np.array([0.0, 30, 10, 0]) + prior.alpha * prior.pull * np.array([0, 1, 1, 0])
    only = p[:, 0, 0, 0] == 0  # no new successor: a plain Dirichlet row over the two seen
    share = p[only, 0, 0, 1]
    mean, total = own[1] / own.sum(), own.sum()
    assert only.mean() > 0.3
    assert share.mean() == pytest.approx(mean, abs=4 * share.std() / np.sqrt(len(share)))
    assert share.std() == pytest.approx(np.sqrt(mean * (1 - mean) / (total + 1)), rel=0.05)


def test_drawn_models_keep_to_the_states_of_the_log() -> None:
    problem = small_problem(pi_b=[[0.5, 0.5]] * 4)
    drawn = Posterior(problem).worlds(KEYS[:200])
    assert np.allclose(drawn.p.sum(axis=-1), 1)
    assert (drawn.p[..., 3] == 0).all()  # state 3 was never seen
    assert (
        drawn.p[:, 1, 1].std(axis=0)[:3].min() > 0.05
    )  # a pair never seen is drawn from the prior
    assert (drawn.model.weight[:, 2] == 0).all()  # terminal stays terminal
    assert np.array_equal(
        Posterior(problem).worlds(KEYS[5:7]).p, drawn.p[5:7]
    )  # a model depends on its key alone


def test_rewards_are_the_means_seen_and_scatter_where_they_do() -> None:
    drawn = Posterior(small_problem()).worlds(KEYS[:3])
    assert drawn.reward_table.shape[0] == 1
    assert drawn.reward_table[0, 0, 0].tolist()[1:3] == [1, 2]
    assert (
        drawn.reward_table[0, 1, 0, 1] == 1
    )  # never seen: by arrival, which explains all rewards here
    noisy = small_problem(reward=np.arange(80) % 2 * 1.0)
    mean = Posterior(noisy).worlds(KEYS).reward_table[:, 0, 0, 1]
    assert mean.mean() == pytest.approx(0.5, abs=0.01)
    assert mean.std() == pytest.approx(np.sqrt(0.25 / 30), rel=0.1)
    to = [1] * 30 + [2] * 10 + [0] * 20 + [1] * 20
    by_pair = small_problem(reward=np.repeat([5.0, 7.0], 40), next_state=to, reward_range=(0, 10))
    table = Posterior(by_pair).worlds(KEYS[:2]).reward_table[0]
    assert table[0, 0, 0] == 5  # 0 was only reached with reward 7
    assert (table[0, 1] == 5).all()  # a pair never seen pays what its state does, not the least
    assert (table[3] == 6).all()  # a state never acted in pays what the log does


def test_a_simulated_log_has_the_episodes_of_the_log() -> None:
    problem = river_problem(300)
    assert log_shape(problem) == (Episodes(1, 1, 300),)
    mixed = surefoot.problem(
        state=[0, 0, 0, 0, 0, 0],
        action=[0] * 6,
        reward=[0.0] * 6,
        next_state=[0, 0, 1, 0, 1, 0],
        episode=[0, 0, 0, 1, 1, 2],
        gamma=0.9,
        terminal=[0, 0, 1, 0, 1, 0],
    )
    assert log_shape(mixed) == (
        Episodes(1, 1, 1),
        Episodes(2, 2, 3),
    )  # the one cut after a step, and two that ended


def test_walking_all_worlds_at_once_gives_the_same_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Posterior(river_problem(200)).worlds(KEYS[:3])
    found = []
    for few in (0, 20):
        monkeypatch.setattr(sampling, "FEW", few)
        counts, returns = next(
            iter(Sampler(drawn).counts(KEYS[:3], (Episodes(1, 2, 50),), with_returns=True))
        )
        found.append((counts.n_sas, returns.mean))
    assert np.array_equal(found[0][0], found[1][0])
    assert np.allclose(found[0][1], found[1][1], equal_nan=True)


def test_a_simulation_does_not_depend_on_how_models_are_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = river_problem()
    algorithms = [
        surefoot.algorithm("lower-exact-soft-spibb", epsilon=0.5, delta=1),
        surefoot.algorithm("one-step+exact-soft-spibb", epsilon=0.5, delta=1),
    ]
    whole = simulate(Posterior(problem), algorithms, 7, 4, seed=2)
    monkeypatch.setattr("surefoot.advice.tuning.simulation.CELLS", 2 * 25 * 25 * 5)
    cut = simulate(Posterior(problem), algorithms, 7, 4, seed=2)
    for name in ("on_log", "rho_b", "reward"):
        assert np.allclose(getattr(whole, name), getattr(cut, name)), name
    assert not np.allclose(
        simulate(Posterior(problem), algorithms, 7, 4, seed=3).on_log, whole.on_log
    )
    assert parts(7, 4, 3) == [(0, 3), (3, 4), (4, 7)]


def test_gains_are_those_of_the_policies_in_the_drawn_models() -> None:
    problem = river_problem()
    algorithm = surefoot.algorithm("lower-exact-soft-spibb", epsilon=0.5, delta=1)
    found = simulate(Posterior(problem), [algorithm], 3, 3, seed=0)
    keys = first_key(0, "tuning", np.arange(3, dtype=np.int64))
    posterior = Posterior(problem)
    drawn = Shrinkage(posterior).worlds(keys)
    pi = surefoot.improve(problem, algorithm).pi
    for k in range(3):
        model = surefoot.known_model(
            drawn.p[k], (drawn.p[k] * drawn.reward_table[k]).sum(axis=-1), 0.95
        )
        value = [
            float(surefoot.evaluate_at_start(model, x, problem.start)) for x in (problem.pi_b, pi)
        ]
        assert found.on_log[0, k] == pytest.approx(value[1] - value[0])
        assert found.rho_b[k] == pytest.approx(value[0])


def test_a_clear_improvement_is_chosen_and_an_empty_one_is_not() -> None:
    """Action 1 pays 1 and action 0 nothing, seen 100 times each; or both pay the same, noisily."""
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, 400)
    base = {
        "state": np.zeros(400, dtype=int),
        "action": action,
        "next_state": np.zeros(400, dtype=int),
        "episode": np.zeros(400),
    }
    base |= {"pi_b": [[0.5, 0.5]], "gamma": 0.5, "reward_range": (0, 1)}
    clear = tune(surefoot.problem(**base, reward=action * 1.0), simulated=0)
    assert clear.changes
    assert clear.chosen.on_log.cvar > 0.3
    empty = tune(surefoot.problem(**base, reward=rng.integers(0, 2, 400) * 1.0), simulated=0)
    assert not empty.changes
    assert empty.chosen is empty.rows[0]


def test_the_setting_with_the_best_tail_is_chosen_whatever_its_mean() -> None:
    problem = river_problem()
    tried = parsed_settings(problem, ["basic-rl", "pi-b-spibb n_wedge=5", "priced-soft-spibb"])
    found = tune(problem, tried, models=60, simulated=0)
    assert found.chosen.on_log.cvar == max(row.on_log.cvar for row in found.rows)
    assert found.chosen.on_log.cvar > found.rows[1].on_log.cvar  # of basic-rl


def test_rewards_of_simulated_logs_are_those_of_the_baseline_in_their_models() -> None:
    """In a long log the mean reward a step is that of the stationary law, give or take its error."""
    posterior = Posterior(river_problem(300))
    drawn = posterior.worlds(KEYS[:3])
    found = mean_rewards(posterior, drawn, KEYS[:3], (Episodes(1, 50, 1000),))
    step = (drawn.p * drawn.pi_b[..., None]).sum(axis=2)
    pays = (drawn.p * drawn.reward_table * drawn.pi_b[..., None]).sum(axis=(2, 3))
    at, mean = drawn.start, np.zeros(3)
    for _ in range(1000):
        mean, at = mean + (at * pays).sum(axis=1) / 1000, np.einsum("ks,kst->kt", at, step)
    assert found == pytest.approx(mean, rel=0.03)


def test_the_check_tells_whether_models_look_like_the_log() -> None:
    found = tune(
        river_problem(), [setting(river_problem(), "pi-b-spibb")], models=100, simulated=20
    )
    assert found.predictive_p > 0.05
    strange = replace(
        found, simulation=replace(found.simulation, observed=found.simulation.reward.max() + 1)
    )
    assert strange.predictive_p == pytest.approx(2 / 21)
    assert any(
        "miss the log" in x
        for x in replace(
            strange, simulation=replace(strange.simulation, reward=np.zeros(300))
        ).notes
    )


def test_settings_are_read_as_a_grid_and_follow_the_rewards() -> None:
    problem = river_problem()
    found = parsed_settings(
        problem, ["lower-exact-soft-spibb epsilon=0.1,0.5", "pi-b-spibb n_wedge=5"]
    )
    assert [x.label for x in found] == [
        "lower-exact-soft-spibb epsilon=0.1 delta=1",
        "lower-exact-soft-spibb epsilon=0.5 delta=1",
        "pi-b-spibb n_wedge=5",
    ]
    assert found[0].options == [
        "--algorithm",
        "lower-exact-soft-spibb",
        "--set",
        "epsilon=0.1",
        "--set",
        "delta=1",
    ]
    (penalised,) = parsed_settings(problem, ["ramdp"])
    assert penalised.parameters == (("kappa", 2.0),)  # half of the width: rewards from 0 to 4
    for tried in default_settings(problem):  # the default of everything but epsilon
        assert tried.name == "priced-soft-spibb"
        assert dict(tried.parameters) | {"epsilon": 1.0} == default_parameters(tried.name, problem)
    for wrong in ("", "pi-b-spibb n_wedge", "pi-b-spibb =3"):
        with pytest.raises(surefoot.ParameterError):
            parsed_settings(problem, [wrong])


@pytest.mark.parametrize(
    "wrong",
    [
        {"alpha": 0.0},
        {"models": 20},
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(surefoot.ParameterError):
        tune(small_problem(), **wrong)


def test_batches_and_problems_without_rows_are_refused() -> None:
    world = worlds.garnet(np.random.default_rng(0), 6, 3)
    problem = worlds.problem(world, worlds.sample(world, np.random.default_rng(1), 5, 20))
    with pytest.raises(surefoot.NotAvailableError, match="carries no rows"):
        tune(replace(problem, log=None), models=100)
    assert not len(tune(replace(problem, log=None), models=100, simulated=0).simulation.reward)
    with pytest.raises(surefoot.NotAvailableError, match="merge states"):
        Posterior(replace(problem, n_bound_states=6)._map(lambda x: np.stack([x, x])))


def risky(declared: tuple[float, float] | None) -> surefoot.Problem:
    """One state; 20 visits of each action, of which the second paid 1 each time and the first 0."""
    action = np.tile([0, 1], 20)
    return surefoot.problem(
        state=np.zeros(40, dtype=int), action=action, reward=action.astype(float),
        next_state=np.ones(40, dtype=int), terminal=np.ones(40, dtype=bool),
        episode=np.arange(40), gamma=0.5, n_states=2, n_actions=2,
        pi_b=np.array([[0.7, 0.3], [0.5, 0.5]]), reward_range=declared,
    )  # fmt: skip


def test_an_outcome_of_the_declared_range_that_no_visit_has_shown_counts() -> None:
    """It has the probability p with the tail exp(-20 p), mean 1 / 20: a pair that paid 1 loses
    61 / 20 on average, and one that paid 0 loses 60 / 20 and gains 1 / 20.
    """
    found = Shrinkage(Posterior(risky((-60, 1))))._unseen(KEYS)
    assert np.asarray(found)[:, 0].mean(axis=0) == pytest.approx([-59 / 20, -61 / 20], abs=0.2)
    assert Shrinkage(Posterior(risky(None)))._unseen(KEYS) == 0


def test_tune_chooses_no_change_that_one_unseen_loss_would_undo() -> None:
    assert tune(risky((0, 1)), models=60, simulated=0).changes
    assert not tune(risky((-60, 1)), models=60, simulated=0).changes
