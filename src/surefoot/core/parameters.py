"""Names and parameters: what is asked for by name, and checks in words a user can act on."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

from surefoot.core.errors import ParameterError, UnknownNameError

LARGEST = 1e100  # beyond this, products of parameters and values would overflow

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    D = TypeVar("D", bound=DataclassInstance)

T = TypeVar("T")


def look_up(kind: str, name: str, known: Mapping[str, T], listed: str = "") -> T:
    """What `name` stands for; an unknown one is answered with the names nearest to it."""
    if not isinstance(name, str):
        raise UnknownNameError(f"the {kind} must be given by name, got {name!r}")
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        listed = listed or f"there are {', '.join(known)}"
        raise UnknownNameError(f"no {kind} is called {name!r}: {hint}{listed}")
    return known[name]


def make(name: str, cls: type[D], parameters: Mapping[str, Any]) -> D:
    """The dataclass that goes by this name; a parameter it does not take, or needs, is named."""
    check_known(name, parameters, names_of(cls))
    missing = [
        f.name
        for f in fields(cls)
        if f.default is MISSING and f.default_factory is MISSING and f.name not in parameters
    ]
    if missing:
        raise ParameterError(f"{name} needs {', '.join(missing)}")
    return cls(**parameters)


def names_of(cls: type[D]) -> list[str]:
    """The names of the parameters of a dataclass."""
    return [f.name for f in fields(cls)]


def check_known(owner: str, parameters: Iterable[str], known: Iterable[str]) -> None:
    """Raise unless every parameter is known."""
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        takes = ", ".join(known) or "no parameters"
        raise ParameterError(
            f"{owner} does not take {', '.join(map(repr, unknown))}; it takes {takes}"
        )


def check_name(option: str, value: str, known: Iterable[str]) -> None:
    """Raise unless the value of an option is one of the known names."""
    if not isinstance(value, str) or value not in known:
        raise UnknownNameError(
            f"{option} must be one of {', '.join(map(repr, known))}, got {value!r}"
        )


def check_choice(owner: Any, name: str, known: Iterable[str]) -> None:
    """Raise unless the parameter is one of the known names."""
    try:
        check_name(f"{owner.name}: {name}", getattr(owner, name), known)
    except UnknownNameError as error:
        raise ParameterError(str(error)) from None


def check_flag(owner: Any, name: str) -> None:
    """Raise unless the parameter is True or False."""
    value = getattr(owner, name)
    if not isinstance(value, bool):
        raise ParameterError(f"{owner.name}: {name} must be True or False, got {value!r}")


def check_number(
    owner: Any,
    name: str,
    *,
    low: float,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
    whole: bool = False,
    finite: bool = False,
) -> None:
    """Raise unless the parameter is a number in [low, high]; open_low, open_high: not that end."""
    value = getattr(owner, name)
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    fits = is_number and low <= value <= high  # NaN is in no range
    fits = fits and not (open_low and value == low) and not (open_high and value == high)
    fits = fits and abs(value) <= LARGEST
    fits = fits or (is_number and value == math.inf and high == math.inf and not finite)
    fits = fits and not (whole and value != int(value))
    if not fits:
        left = "(" if open_low else "["
        right = ")" if open_high or (math.isinf(high) and finite) else "]"
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
