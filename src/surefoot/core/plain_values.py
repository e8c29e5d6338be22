"""Values as JSON can hold them, and the documents made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

# Raised when a field of a document goes away or changes its meaning, not when one is added.
JSON_VERSION = 1


def schema_name(command: str) -> str:
    """How the documents of a command are called; surefoot.report.schema has their fields."""
    return f"surefoot/{command}/{JSON_VERSION}"


def as_document(command: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """What a command found, as its document."""
    return {"schema": schema_name(command)} | dict(plain(found))


def plain(x: Any) -> Any:
    """A value that JSON can hold: NaN and infinities become null, labels text."""
    if isinstance(x, Mapping):
        return {str(k): plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple, np.ndarray)):
        return [plain(v) for v in x]
    if isinstance(x, (bool, np.bool_)):
        return bool(x)
    if isinstance(x, (int, np.integer)):
        return int(x)
    if isinstance(x, (float, np.floating)):
        return float(x) if math.isfinite(x) else None
    return x if x is None else str(x)
