"""One setting for every algorithm, composed ones included: what the conformance suite runs."""

from __future__ import annotations

import dataclasses
from typing import Any

import surefoot
from surefoot.algorithms import parts

PARAMETERS = {
    "kappa": 0.3,
    "n_wedge": 3,
    "xi": 0.5,
    "delta": 0.5,
    "epsilon": 1.0,
    "c_b": 0.02,
    "weight": 10.0,
    "max_steps": 600,
    "visits": "every",
}
PENALISING = (
    "ramdp", "r-min", "duipi-centred", "mbie", "robust", "vi-lcb", "shrunk", "factored", "one-step",
)  # fmt: skip
RESTRICTING = (
    "pi-b-spibb",
    "pi-leq-b-spibb",
    "approx-soft-spibb",
    "lower-approx-soft-spibb",
    "adv-approx-soft-spibb",
    "exact-soft-spibb",
    "lower-exact-soft-spibb",
    "adv-exact-soft-spibb",
    "priced-soft-spibb",
    "certified-advantage",
)
COMPOSED = tuple(f"{p}+{r}" for p in PENALISING for r in RESTRICTING)
EVERY = (*surefoot.ALGORITHMS, *COMPOSED)
SOFT = tuple(name for name in EVERY if "soft" in name)
BY_COUNT = tuple(name for name in EVERY if "spibb" in name and "soft" not in name)
USES_RETURNS = tuple(
    name for name in EVERY if any(part in name for part in ("adv-", "one-step", "certified"))
)

READS_THE_LOG = (
    "hcpi",
    "planned-advantage",
    "screened-advantage",
)  # one problem at a time, built from its log
FROM_COUNTS = tuple(name for name in EVERY if name not in READS_THE_LOG)


def fields(name: str) -> set[str]:
    """The hyper-parameters of an algorithm."""
    return {f.name for part in parts(name) for f in dataclasses.fields(part)}


def make(name: str, **changes: Any) -> Any:
    """The algorithm with its conformance setting, changed where asked (unknown changes are
    passed over).
    """
    values = {k: v for k, v in {**PARAMETERS, **changes}.items() if k in fields(name)}
    return surefoot.algorithm(name, **values)
