"""Checks of hyper-parameters, in words a user can act on."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from surefoot.errors import ParameterError

LARGEST = 1e100  # beyond this, products of parameters and values would overflow


def check_number(
    owner: Any,
    name: str,
    *,
    low: float,
    high: float = math.inf,
    open_low: bool = False,
    whole: bool = False,
    finite: bool = False,
) -> None:
    """Raise unless the parameter is a number in [low, high] (above low if open_low; whole if
    asked).
    """
    value = getattr(owner, name)
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    fits = is_number and low <= value <= high  # NaN is in no range
    fits = fits and not (open_low and value == low) and abs(value) <= LARGEST
    fits = fits or (is_number and value == math.inf and high == math.inf and not finite)
    fits = fits and not (whole and value != int(value))
    if not fits:
        left, right = ("(" if open_low else "["), (")" if math.isinf(high) and finite else "]")
        kind = "a whole number" if whole else "a number"
        raise ParameterError(
            f"{owner.name}: {name} must be {kind} in {left}{low:g}, {high:g}{right}, got {value!r}"
        )


def value_of(text: str) -> Any:
    """The value that a text such as "0.5", "true" or "mpeb" stands for."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def check_choice(owner: Any, name: str, known: tuple[str, ...]) -> None:
    """Raise unless the parameter is one of the known names."""
    value = getattr(owner, name)
    if not isinstance(value, str) or value not in known:
        raise ParameterError(
            f"{owner.name}: {name} must be one of {', '.join(map(repr, known))}, got {value!r}"
        )


def check_flag(owner: Any, name: str) -> None:
    """Raise unless the parameter is True or False."""
    value = getattr(owner, name)
    if not isinstance(value, bool):
        raise ParameterError(f"{owner.name}: {name} must be True or False, got {value!r}")
