"""Trials of a study: against a plain loop over single problems, however they are cut, in NumPy
and in PyTorch.
"""

from __future__ import annotations

import itertools
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import surefoot
from support import small_study
from support.settings import fields
from surefoot.research.benchmarks import ICUSepsis, RandomMDPs, WetChicken
from surefoot.research.simulate import Sampler, first_key, trial_numbers
from surefoot.research.studies.spec import Study, parse_study, settings, variants
from surefoot.research.studies.trials import Trials, run_trials, score

PARAMETERS = {
    "kappa": 0.3,
    "n_wedge": 3,
    "xi": 0.5,
    "delta": 0.5,
    "epsilon": 1.0,
    "c_b": 0.02,
    "max_steps": 400,
}
HEAD = {
    "random-mdps": "sizes = [4, 25]\nn_states = 7\nn_actions = 3\nn_successors = 2\nhorizon = 15",
    "wet-chicken": "sizes = [40, 300]\nlength = 4\nwidth = 3\nepsilon = 0.2",
}
PUBLISHED = '[problem]\nunseen_states = "first-action"\nties = "lowest-index"\n'
EVERY_VISIT = '[[algorithms]]\nname = "certified-advantage"\ndelta = 0.9\nvisits = "every"\n'
MPEB = (
    EVERY_VISIT
    + '[[algorithms]]\nname = "approx-soft-spibb"\nerror = "mpeb"\nepsilon = 1\ndelta = 0.5\n'
)


def entry(name: str) -> str:
    """An algorithm in a study file."""
    lines = [
        f"{k} = {v}" for k, v in PARAMETERS.items() if k in fields(name)
    ]  # "visits" stays "independent", which reads the log
    return "\n".join(["[[algorithms]]", f'name = "{name}"', *lines, ""])


def able(benchmark: str) -> tuple[str, ...]:
    """The algorithms that can run: one long trajectory of Wet Chicken cannot be split into
    episodes; states of benchmarks have no columns.
    """
    lacking = {"factored"} | ({"hcpi"} if benchmark == "wet-chicken" else set())
    return tuple(name for name in surefoot.ALGORITHMS if name not in lacking)


def study_of(
    benchmark: str, *names: str, problem: str = "", extra: str = "", trials: int = 6
) -> Study:
    text = (
        f'name = "t"\nseed = 3\ntrials = {trials}\n{problem}[benchmark]\nname ='
        f' "{benchmark}"\n{HEAD[benchmark]}\n'
    )
    return parse_study(text + "".join(entry(name) for name in names) + extra, "t.toml")


def plain_loop(study: Study, trials: range) -> Trials:
    """One data set after the other through the front door: log, problem, improve, evaluate."""
    (variant,) = variants(study)
    sizes, chosen = study.benchmark.sizes, settings(study)
    rho = np.empty((len(sizes), len(chosen), len(trials)))
    converged = np.empty(rho.shape, dtype=bool)
    rho_b, rho_star = np.empty(len(trials)), np.empty(len(trials))
    for t, trial in enumerate(trials):
        keys = first_key(study.seed, variant.benchmark.name, trial_numbers(trial, trial + 1))
        world = variant.benchmark.worlds(keys)
        p, table, terminal = (
            world.p[0],
            world.reward_table[0, :, 0, :],
            np.flatnonzero(world.terminal[0]),
        )
        true = surefoot.known_model(p, np.einsum("sat,st->sa", p, table), world.gamma, terminal)
        rho_b[t] = surefoot.evaluate(true, world.pi_b[0])[0]
        rho_star[t] = surefoot.evaluate(true, surefoot.optimal(true).pi)[0]
        for i, size in enumerate(sizes):
            log = Sampler(world).log(int(keys[0]), variant.benchmark.episodes(size))
            problem = surefoot.problem(
                **log,
                pi_b=world.pi_b[0],
                gamma=world.gamma,
                start=0,
                terminal_states=terminal,
                reward_table=table,
                reward_range=world.reward_range,
                return_range=(world.return_range.lo, world.return_range.hi),
                **study.problem.model_dump(),
            )
            for j, setting in enumerate(chosen):
                solution = surefoot.improve(problem, setting.algorithm)
                rho[i, j, t] = surefoot.evaluate(true, solution.pi)[0]
                converged[i, j, t] = solution.status.ok
    return Trials(rho_b, rho_star, rho, converged, np.zeros(rho.shape[:2]))


def differences(
    study: Study, ours: Trials, theirs: Trials, tolerance: float = 1e-9
) -> list[tuple[int, str, int]]:
    """(size, setting, trial) of every value that differs, but for an iteration that did not
    converge in either.
    """
    assert np.allclose(ours.rho_b, theirs.rho_b, rtol=tolerance) and np.allclose(
        ours.rho_star, theirs.rho_star, rtol=tolerance
    )
    scale = np.abs(theirs.rho_star)
    differs = (np.abs(ours.rho - theirs.rho) > tolerance * scale) & (
        ours.converged | theirs.converged
    )
    differs |= ours.converged != theirs.converged
    labels = [s.label for s in settings(study)]
    return [(study.benchmark.sizes[i], labels[j], int(t)) for i, j, t in np.argwhere(differs)]


@pytest.mark.parametrize(
    "problem", ["", PUBLISHED], ids=["our conventions", "published conventions"]
)
@pytest.mark.parametrize("benchmark", sorted(HEAD))
def test_every_algorithm_scores_what_a_plain_loop_over_single_problems_does(
    benchmark: str, problem: str
) -> None:
    study = study_of(benchmark, *able(benchmark), problem=problem, extra=MPEB)
    ours = run_trials(study, variants(study)[0], 2, 6)
    assert differences(study, ours, plain_loop(study, range(2, 6))) == []
    assert ours.converged.mean() > 0.9


@pytest.mark.parametrize("cut", [(0, 1, 2, 3, 4, 5), (0, 3, 5)], ids=["one by one", "in two"])
def test_trials_are_the_same_however_the_range_is_cut(cut: tuple[int, ...]) -> None:
    study = small_study.small()
    for variant in variants(study):
        whole = run_trials(study, variant, 0, 5)
        parts = [run_trials(study, variant, a, b) for a, b in itertools.pairwise(cut)]
        joined = Trials(
            *(
                np.concatenate([getattr(x, name) for x in parts], axis=-1)
                for name in ("rho_b", "rho_star", "rho", "converged")
            ),
            whole.seconds,
        )
        assert differences(study, joined, whole) == []


def test_wet_chicken_trials_are_the_same_however_the_range_is_cut() -> None:
    study = study_of(
        "wet-chicken",
        "basic-rl",
        "duipi",
        "lower-approx-soft-spibb",
        "adv-exact-soft-spibb",
        trials=8,
    )
    (variant,) = variants(study)
    whole = run_trials(study, variant, 0, 8)
    part = run_trials(study, variant, 3, 5)
    inside = Trials(
        *(getattr(whole, name)[..., 3:5] for name in ("rho_b", "rho_star", "rho", "converged")),
        whole.seconds,
    )
    assert differences(study, part, inside) == []


def test_what_reads_the_log_is_the_same_however_the_range_is_cut_and_whatever_runs_beside_it() -> (
    None
):
    study = study_of("random-mdps", "pi-b-spibb", "hcpi", "certified-advantage")
    (variant,) = variants(study)
    whole = run_trials(study, variant, 0, 5)
    parts = [run_trials(study, variant, a, b) for a, b in ((0, 1), (1, 5))]
    assert np.array_equal(np.concatenate([x.rho[:, 1:] for x in parts], axis=-1), whole.rho[:, 1:])
    alone = study.model_copy(
        update={
            "benchmark": study.benchmark.model_copy(update={"sizes": [25]}),
            "algorithms": study.algorithms[1:],
        }
    )
    assert np.array_equal(run_trials(alone, variant, 2, 5).rho[0], whole.rho[1, 1:, 2:])
    assert (whole.rho[1, 1] != whole.rho_b).any()


def test_trials_do_not_depend_on_the_other_sizes_or_the_other_algorithms() -> None:
    study = study_of("random-mdps", "basic-rl", "pi-b-spibb", "approx-soft-spibb")
    less = study.model_copy(
        update={
            "benchmark": study.benchmark.model_copy(update={"sizes": [25]}),
            "algorithms": [study.algorithms[1]],
        }
    )
    (variant,) = variants(study)
    assert np.allclose(
        run_trials(less, variant, 0, 6).rho[0, 0],
        run_trials(study, variant, 0, 6).rho[1, 1],
        rtol=1e-12,
    )


def test_other_seeds_and_other_trials_are_other_data() -> None:
    study = study_of("random-mdps", "basic-rl")
    (variant,) = variants(study)
    found = [
        run_trials(s, variant, a, a + 3).rho_b
        for s in (study, study.model_copy(update={"seed": 4}))
        for a in (0, 3)
    ]
    assert len(np.unique(np.concatenate(found))) == 12


def test_a_normalised_score_is_0_at_the_baseline_and_1_at_the_optimum() -> None:
    rho_b, rho_star = np.array([0.2, 0.5]), np.array([0.8, 0.9])
    made = RandomMDPs()
    assert score(made, rho_b, rho_b, rho_star).tolist() == [0, 0]
    assert score(made, rho_star, rho_b, rho_star).tolist() == [1, 1]
    assert score(made, np.array([[0.5, 0.3]]), rho_b, rho_star) == pytest.approx(
        np.array([[0.5, -0.5]])
    )
    assert score(WetChicken(), rho_star, rho_b, rho_star).tolist() == [0.8, 0.9]


def test_who_never_leaves_the_baseline_scores_0_and_who_has_ample_data_nearly_1() -> None:
    text = (
        small_study.TEXT.split("[[algorithms]]")[0]
        .replace("[5, 30]", "[5, 6000]")
        .replace("eta = [0.9, 0.5]", "eta = 0.5")
    )
    study = parse_study(text + '[[algorithms]]\nname = "pi-b-spibb"\nn_wedge = [0, inf]\n', "t")
    (variant,) = variants(study)
    found = run_trials(study, variant, 0, 10)
    scores = score(variant.benchmark, found.rho, found.rho_b, found.rho_star)
    assert scores.shape == (2, 2, 10)
    assert np.abs(scores[:, 1]).max() < 1e-9
    assert scores[1, 0].mean() > 0.97 and scores.max() <= 1 + 1e-9


def test_the_sparse_path_of_large_benchmarks_agrees_with_the_dense_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = (
        "basic-rl",
        "ramdp",
        "pi-b-spibb",
        "lower-approx-soft-spibb",
        "adv-approx-soft-spibb",
        "one-step+approx-soft-spibb",
    )
    study = study_of("wet-chicken", *names)
    (variant,) = variants(study)
    dense = run_trials(study, variant, 1, 4)
    monkeypatch.setattr(WetChicken, "sparse", True)
    assert differences(study, run_trials(study, variant, 1, 4), dense, tolerance=1e-7) == []


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("icu_sepsis") is None, reason="ICU-Sepsis is an extra: pip install 'surefoot[icu]'"
)
def test_icu_sepsis_runs_and_its_baseline_scores_0() -> None:
    text = 'name = "t"\nseed = 3\ntrials = 2\n[benchmark]\nname = "icu-sepsis"\nsizes = [30, 200]\n'
    study = parse_study(text + '[[algorithms]]\nname = "pi-b-spibb"\nn_wedge = [4, inf]\n', "t")
    (variant,) = variants(study)
    assert variant.benchmark == ICUSepsis()
    found = run_trials(study, variant, 0, 2)
    scores = score(variant.benchmark, found.rho, found.rho_b, found.rho_star)
    assert np.abs(scores[:, 1]).max() < 1e-6
    assert (np.abs(scores[:, 0]) < 1).all() and found.converged.all()
    assert np.allclose(found.rho_b, 0.7224, atol=1e-4) and np.allclose(
        found.rho_star, 0.8013, atol=1e-4
    )


def test_trials_that_do_not_converge_are_marked() -> None:
    text = small_study.TEXT.replace("max_steps = 300", "max_steps = 2")
    study = parse_study(text, "t")
    found = run_trials(study, variants(study)[0], 0, 5)
    labels = [s.name for s in settings(study)]
    assert not found.converged[:, labels.index("duipi")].all()
    assert found.converged[:, labels.index("basic-rl")].all()
    assert np.isfinite(found.rho).all()


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", sorted(HEAD))
def test_pytorch_trials_are_those_of_numpy(benchmark: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is an extra; make test-all installs it")
    names = able(benchmark)
    for problem in ("", PUBLISHED):
        study: Any = study_of(benchmark, *names, problem=problem, extra=MPEB)
        (variant,) = variants(study)
        assert (
            differences(
                study, run_trials(study, variant, 0, 4, "torch"), run_trials(study, variant, 0, 4)
            )
            == []
        )
