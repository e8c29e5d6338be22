"""Assumption 1 over many data sets at once: the same kappa as one at a time, and the verdict on
claim C10.
"""

from __future__ import annotations

import dataclasses

import numpy as np

import surefoot
from surefoot import theory
from surefoot.planning.error_functions import e_q
from surefoot.research.benchmarks import RandomMDPs
from surefoot.research.paper import FAILS, HOLDS, OPEN
from surefoot.research.paper.guarantees import AssumptionRow, assumption_1_study, c10, needed_kappa
from surefoot.research.simulate import Sampler, first_key, trial_numbers


def test_kappa_of_a_batch_is_that_of_each_data_set_alone() -> None:
    benchmark = RandomMDPs(n_states=8, n_actions=3, n_successors=3, eta=0.5, gamma=0.8)
    keys = first_key(1, benchmark.name, trial_numbers(0, 12))
    worlds = benchmark.worlds(keys)
    ((counts, _),) = Sampler(worlds).counts(keys, (benchmark.episodes(3000),), with_returns=False)
    kappa, violated = needed_kappa(worlds, counts)
    decided = 0
    for i in range(12):
        terminal = worlds.terminal[i]
        unseen = (counts.n_sa[i][~terminal] == 0).any() or (
            counts.n_sas[i].sum(axis=(0, 1))[terminal] == 0
        ).any()
        assert np.isnan(kappa[i]) == unseen
        if unseen:
            continue
        decided += 1
        e = np.array(e_q(counts.n_sa[i], 8, 3, 0.3))
        e[terminal] = e_q(counts.n_sas[i].sum(axis=(0, 1)), 8, 3, 0.3)[terminal][:, None]
        model = surefoot.known_model(worlds.p[i], np.zeros((8, 3)), 0.8, np.flatnonzero(terminal))
        alone = theory.assumption_1(model, worlds.pi_b[i], e)
        np.testing.assert_allclose(
            [kappa[i], violated[i]], [alone.kappa, alone.share_violated], rtol=1e-12
        )
    assert decided >= 5


def test_the_study_has_a_row_for_every_gamma_eta_and_size_and_holds_only_where_decisive() -> None:
    rows = assumption_1_study(4, gammas=(0.3, 0.95), etas=(0.1,), sizes=(50, 2000))
    assert [(row.gamma, row.size) for row in rows] == [
        (0.3, 50),
        (0.3, 2000),
        (0.95, 50),
        (0.95, 2000),
    ]
    assert all(0 <= row.holds <= row.decisive <= row.data_sets == 4 for row in rows)
    assert rows[-1].decisive > 0
    assert rows[-1].holds == 0


def test_the_claim_holds_fails_or_stays_open_by_the_data_sets_above_six_tenths() -> None:
    row = AssumptionRow(
        gamma=0.9,
        eta=0.5,
        size=1000,
        data_sets=10,
        decisive=8,
        holds=0,
        kappa_low=1.5,
        violated=0.2,
    )
    low = dataclasses.replace(row, gamma=0.5, holds=8)
    assert c10([row, low]).verdict == HOLDS
    assert c10([dataclasses.replace(row, holds=1), low]).verdict == FAILS
    assert c10([dataclasses.replace(row, decisive=0), low]).verdict == OPEN
