"""How much of a repeated test CI runs: the first few cases; `make test-all` runs all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def few(cases: Iterable[Any], n: int) -> list[Any]:
    """The cases of a test, those after the first n marked as long."""
    return [
        case if i < n else pytest.param(case, marks=pytest.mark.long)
        for i, case in enumerate(cases)
    ]
