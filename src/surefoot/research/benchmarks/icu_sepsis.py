"""ICU-Sepsis: sepsis in intensive care, from hospital records; clinicians are the baseline."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import numpy as np

from surefoot.core.arrays import Array
from surefoot.core.errors import NotAvailableError
from surefoot.core.parameters import check_choice, check_number
from surefoot.problems import ReturnRange
from surefoot.research.benchmarks.benchmark import NORMALISED, check_whole
from surefoot.research.simulate.sampling import Episodes
from surefoot.research.simulate.worlds import Worlds, one_world

# The last three states of the package; the episode ends on entering one of the first two.
DEATH, SURVIVAL, ABSORBING = 713, 714, 715


@dataclass(frozen=True)
class ICUSepsis:
    """715 states, reward 1 on survival, 0 on death; from the package icu-sepsis 2 (Choudhary et al.
    2024), MIMIC-III behind it.

    Of the 25 doses only those given often enough to the patients of a state are admissible there
    (3.1 on average, 13 at most); the others carry no information. `actions="admissible"` numbers
    the admissible ones of each state 0, 1, ... (`labels` names the dose), which keeps everything
    small; `actions="all"` keeps 25 with a mask. The baseline is the clinicians' policy,
    renormalised over admissible doses, since 15.6 % of its mass lies elsewhere. Undiscounted
    values: clinicians 0.782, optimum 0.875. Simulated: no clinical conclusions.
    """

    name: ClassVar[str] = "icu-sepsis"
    score: ClassVar[str] = NORMALISED
    sparse: ClassVar[bool] = True
    actions: str = "admissible"
    gamma: float = 0.99
    max_steps: int = 500

    def __post_init__(self) -> None:
        check_number(self, "gamma", low=0, high=1)
        check_whole(self, "max_steps", low=1)
        check_choice(self, "actions", ("admissible", "all"))

    def episodes(self, size: int) -> Episodes:
        """`size` patients."""
        return Episodes(size, size, self.max_steps)

    @cached_property
    def labels(self) -> np.ndarray:
        """The dose (0, ..., 24) of every action [S, A]; -1 where there is none."""
        mask = _assets()[3]
        if self.actions == "all":
            return np.where(mask, np.arange(mask.shape[1]), -1)
        slots = int(mask[:DEATH].sum(axis=1).max())
        order = np.argsort(~mask, axis=1, kind="stable")[:, :slots]
        return np.where(np.take_along_axis(mask, order, axis=1), order, -1)

    def worlds(self, keys: Array) -> Worlds:
        """The one hospital that all trials share."""
        p, start, expert, _ = _assets()
        labels = self.labels
        allowed = labels >= 0
        allowed[DEATH:] = [True] + [False] * (labels.shape[1] - 1)
        rows = np.arange(len(labels))[:, None]
        pi_b = np.where(allowed, expert[rows, np.maximum(labels, 0)], 0.0)
        pi_b[DEATH:] = allowed[DEATH:]
        pi_b /= pi_b.sum(axis=1, keepdims=True)
        lead = np.where(allowed[..., None], p[rows, np.maximum(labels, 0)], 0.0)
        lead[~allowed, DEATH] = 1.0  # never taken
        reward = np.zeros((len(labels), 1, len(labels)))
        reward[:, :, SURVIVAL] = 1.0
        return one_world(
            keys,
            lead,
            reward_table=reward,
            pi_b=pi_b,
            start=start,
            terminal_states=(DEATH, SURVIVAL),
            gamma=self.gamma,
            reward_range=(0.0, 1.0),
            return_range=ReturnRange(0.0, 1.0, declared=True),
            allowed=allowed,
        )


@lru_cache(maxsize=1)
def _assets() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """p, start, the clinicians' policy and the mask of admissible doses.

    Without the absorbing state behind both ends. Read from the package's files: importing it would
    import the retired `gym`.
    """
    spec = find_spec("icu_sepsis")
    if spec is None or spec.origin is None:
        raise NotAvailableError("icu-sepsis needs its data: pip install 'surefoot[icu]'")
    folder = Path(spec.origin).parent / "envs" / "assets"
    with np.load(folder / "dynamics.npz") as data:
        p, start, expert = (
            np.array(data[name], dtype=float) for name in ("tx_mat", "d_0", "expert_policy")
        )
    _, *lines = (folder / "admissible_actions.txt").read_text().splitlines()
    mask = np.zeros(expert.shape, dtype=bool)
    for s, line in enumerate(lines[: len(mask)]):
        mask[s, [int(a) for a in line.split()]] = True
    return p[:ABSORBING, :, :ABSORBING], start[:ABSORBING], expert[:ABSORBING], mask[:ABSORBING]
