"""Draws of studies: SplitMix64 against plain integers, keys that tell everything apart, and the
laws of alias tables.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from surefoot.research.simulate.sampling import (
    alias_tables,
    below,
    bits,
    first_key,
    fold,
    mix,
    trial_numbers,
    uniforms,
)

WORD = 2**64
GAMMA, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
INT64 = st.integers(-(2**63), 2**63 - 1)
quietly = settings(deadline=None, max_examples=60)


def plain_mix(z: int) -> int:
    """SplitMix64's finaliser (Steele, Lea & Flood 2014, Figure 16) on Python's integers."""
    z = ((z ^ (z >> 30)) * FIRST) % WORD
    z = ((z ^ (z >> 27)) * SECOND) % WORD
    return z ^ (z >> 31)


def plain_fold(key: int, part: int) -> int:
    return plain_mix(key ^ plain_mix((part * GAMMA + FIRST) % WORD))


def unsigned(x: np.ndarray) -> list[int]:
    return [int(v) % WORD for v in x.reshape(-1)]


def array(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@quietly
@given(st.lists(INT64, min_size=1, max_size=8))
def test_mixing_is_that_of_splitmix64_on_plain_integers(values: list[int]) -> None:
    assert unsigned(mix(array(*values))) == [plain_mix(v % WORD) for v in values]


def test_the_bits_of_a_key_are_the_stream_of_a_splitmix64_generator() -> None:
    # The first numbers of the reference generator with the seed 1234567 (Vigna, splitmix64.c).
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert unsigned(bits(array(1234567), np.arange(5, dtype=np.int64))) == published


@quietly
@given(INT64, INT64)
def test_a_folded_key_is_the_reference_on_plain_integers(key: int, part: int) -> None:
    assert unsigned(fold(array(key), array(part))) == [plain_fold(key % WORD, part % WORD)]


def test_the_key_of_a_trial_folds_seed_benchmark_and_trial_one_after_the_other() -> None:
    name = int.from_bytes(hashlib.sha256(b"wet-chicken").digest()[:8], "big")
    wanted = [plain_fold(plain_fold(plain_fold(0, 20220128), name), trial) for trial in range(3, 6)]
    assert unsigned(first_key(20220128, "wet-chicken", trial_numbers(3, 6))) == wanted


def test_mixing_leaves_its_argument_and_its_shape_alone() -> None:
    z = np.arange(6, dtype=np.int64).reshape(2, 3)
    found = mix(z)
    assert found.shape == (2, 3) and found.dtype == np.int64
    assert z.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_uniforms_are_the_upper_53_bits() -> None:
    key, counter = array(5, -7), np.arange(4, dtype=np.int64)[:, None]
    found = uniforms(key, counter)
    wanted = [(z >> 11) / 2**53 for z in unsigned(bits(key, counter))]
    assert found.reshape(-1).tolist() == wanted


def draw(
    seed: int = 1,
    benchmark: str = "random-mdps",
    trial: int = 2,
    size: int = 10,
    episode: int = 3,
    step: int = 4,
) -> float:
    """One uniform number from all parts of its key."""
    key = fold(fold(first_key(seed, benchmark, array(trial)), array(size)), array(episode))
    return float(uniforms(key, array(step))[0])


def test_every_part_of_a_key_changes_the_draw_and_no_two_parts_are_exchanged() -> None:
    found = [
        draw(),
        draw(seed=5),
        draw(benchmark="wet-chicken"),
        draw(trial=5),
        draw(size=5),
        draw(episode=5),
        draw(step=5),
        draw(seed=2, trial=1),
        draw(trial=10, size=2),
        draw(size=3, episode=10),
        draw(episode=4, step=3),
        draw(seed=2**40 + 1),
    ]
    assert len(set(found)) == len(found)
    assert draw() == draw()


def test_neighbouring_keys_do_not_meet() -> None:
    keys = fold(
        first_key(0, "random-mdps", trial_numbers(0, 100))[:, None],
        np.arange(1, 101, dtype=np.int64)[None, :],
    )
    drawn = bits(keys.reshape(-1)[:, None], np.arange(10, dtype=np.int64)[None, :])
    assert (
        len(np.unique(drawn)) == drawn.size
    )  # 100,000 of 2^64: a meeting has the probability 3e-10


def test_a_trials_draws_do_not_depend_on_its_batch() -> None:
    together = uniforms(
        first_key(9, "x", trial_numbers(0, 50))[:, None], np.arange(7, dtype=np.int64)[None, :]
    )
    for cut in (slice(0, 1), slice(17, 30), slice(49, 50)):
        part = uniforms(
            first_key(9, "x", trial_numbers(cut.start, cut.stop))[:, None],
            np.arange(7, dtype=np.int64)[None, :],
        )
        assert np.array_equal(part, together[cut])


def chi_square(observed: np.ndarray, expected: np.ndarray) -> float:
    """The p-value of Pearson's test, over cells that can occur."""
    can = expected > 0
    assert not observed[~can].any()
    return float(
        stats.chisquare(observed[can], expected[can] * (observed.sum() / expected.sum())).pvalue
    )


@pytest.mark.parametrize("axis", ["trials", "sizes", "episodes", "steps"])
def test_draws_are_uniform_and_neighbours_independent_along_every_part_of_a_key(axis: str) -> None:
    n = 200_000
    run = np.arange(1, n + 1, dtype=np.int64)
    if axis == "trials":
        x = uniforms(first_key(3, "random-mdps", run), run * 0)
    elif axis == "sizes":
        x = uniforms(fold(first_key(3, "random-mdps", array(0)), run), run * 0)
    elif axis == "episodes":
        x = uniforms(fold(fold(first_key(3, "random-mdps", array(0)), array(10)), run), run * 0)
    else:
        x = uniforms(fold(fold(first_key(3, "random-mdps", array(0)), array(10)), array(0)), run)
    assert x.min() >= 0 and x.max() < 1
    assert chi_square(np.bincount((x * 64).astype(int), minlength=64), np.ones(64)) > 1e-4
    pairs = (x[:-1] * 16).astype(int) * 16 + (x[1:] * 16).astype(int)
    assert chi_square(np.bincount(pairs, minlength=256), np.ones(256)) > 1e-4
    low = (x * 2**53).astype(
        np.int64
    ) % 64  # the lowest bits too: positions within a cell are made of them
    assert chi_square(np.bincount(low, minlength=64), np.ones(64)) > 1e-4


@quietly
@given(st.integers(1, 60), INT64)
def test_whole_numbers_below_n_are_below_n(n: int, key: int) -> None:
    found = below(array(key), np.arange(500, dtype=np.int64), n)
    assert found.dtype == np.int64 and found.min() >= 0 and found.max() < n
    assert np.array_equal(found, np.floor(uniforms(array(key), np.arange(500, dtype=np.int64)) * n))


def test_every_whole_number_below_n_is_as_likely() -> None:
    found = below(first_key(1, "x", trial_numbers(0, 1)), np.arange(70_000, dtype=np.int64), 7)
    assert chi_square(np.bincount(found, minlength=7), np.ones(7)) > 1e-4


@pytest.mark.slow
def test_pytorch_draws_the_same_bits() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an extra; make test-all installs it")
    trials = trial_numbers(0, 40, "torch")
    assert isinstance(trials, torch.Tensor) and trials.dtype == torch.int64
    ours, theirs = (
        first_key(2**61 + 5, "wet-chicken", trial_numbers(0, 40)),
        first_key(2**61 + 5, "wet-chicken", trials),
    )
    assert np.array_equal(ours, theirs.numpy())
    counter = np.arange(1000, dtype=np.int64)[None, :]
    for f in (bits, uniforms, lambda k, c: below(k, c, 50), lambda k, c: fold(k, -c)):
        assert np.array_equal(
            f(ours[:, None], counter), f(theirs[:, None], torch.asarray(counter)).numpy()
        )
    edges = np.array([0, 1, -1, 2**63 - 1, -(2**63)], dtype=np.int64)
    assert np.array_equal(mix(edges), mix(torch.asarray(edges)).numpy())


def law(keep: np.ndarray, alias: np.ndarray) -> np.ndarray:
    """The probability of every outcome of alias tables [rows, K]: an even cell, kept with
    `keep`, else its alias.
    """
    rows, k = keep.shape
    kept = np.minimum(keep, 1.0)
    found = kept / k
    for row in range(rows):
        np.add.at(found[row], alias[row], (1 - kept[row]) / k)
    return found


WEIGHT = st.one_of(
    st.just(0.0),
    st.floats(1e-12, 1.0),
    st.integers(1, 5).map(float),
    st.floats(-12, 12).map(lambda x: 10.0**x),
)


@st.composite
def weights(draw: st.DrawFn) -> np.ndarray:
    rows, k = draw(st.integers(1, 4)), draw(st.integers(1, 9))
    found = np.array(
        draw(st.lists(st.lists(WEIGHT, min_size=k, max_size=k), min_size=rows, max_size=rows))
    )
    found[np.arange(rows), draw(st.integers(0, k - 1))] += (
        0.5  # a row of nothing but zeros is no law
    )
    return found


@settings(deadline=None, max_examples=300)
@given(weights())
def test_alias_tables_draw_every_outcome_with_its_weight(w: np.ndarray) -> None:
    keep, alias = alias_tables(w.copy())
    wanted = w / w.sum(axis=-1, keepdims=True)
    found = law(keep, alias)
    assert np.abs(found - wanted).max() <= 1e-14
    assert (found[w == 0] == 0).all()


@pytest.mark.parametrize(
    "w",
    [
        [[1.0]],
        [[0.0, 1.0, 0.0]],
        [[1e-18, 1.0]],
        [[1.0] * 7],
        [[1 / 3, 1 / 3, 1 / 3, 0, 0, 0]],
        [[0.7, 0.1, 0.1, 0.1], [0, 0, 0.5, 0.5]],
    ],
)
def test_alias_tables_take_single_cells_zeros_even_and_skewed_laws(w: list[list[float]]) -> None:
    rows = np.array(w, dtype=float)
    keep, alias = alias_tables(rows)
    assert np.abs(law(keep, alias) - rows / rows.sum(axis=-1, keepdims=True)).max() <= 1e-15
    assert np.array_equal(rows, w)  # the argument is left alone


def test_alias_tables_of_long_rows_are_exact_too() -> None:
    rng = np.random.default_rng(0)
    w = rng.dirichlet(np.full(2000, 0.05), 3) * (rng.random((3, 2000)) < 0.7)
    assert np.abs(law(*alias_tables(w)) - w / w.sum(axis=-1, keepdims=True)).max() <= 1e-13


@pytest.mark.slow
def test_pytorch_makes_the_same_alias_tables() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an extra; make test-all installs it")
    w = np.random.default_rng(1).dirichlet(np.full(16, 0.2), 50)
    w[:10, ::3] = 0
    (keep, alias), theirs = alias_tables(w), alias_tables(torch.asarray(w))
    assert np.array_equal(alias, theirs[1].numpy())
    assert np.abs(keep - theirs[0].numpy()).max() <= 1e-14  # sums are rounded in another order
