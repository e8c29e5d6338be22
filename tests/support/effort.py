"""How much of a repeated test CI runs: the first few cases; `make test-all` runs all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def few(cases: Iterable[Any], n: int) -> list[Any]:
    """The cases of a test, those after the first n marked as long."""
    parts = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [
        pytest.param(*part, marks=() if i < n else pytest.mark.long) for i, part in enumerate(parts)
    ]
