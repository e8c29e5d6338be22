"""Names and parameters: what is asked for by name, a class of the user's own included, and checks
in words a user can act on.
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import math
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from numbers import Real
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from surefoot.core.errors import ParameterError, UnknownNameError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    D = TypeVar("D", bound=DataclassInstance)

MARK = ":"  # between module and class; no name of surefoot has it

LARGEST = 1e100  # beyond this, products of parameters and values would overflow


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


def is_own(name: Any) -> bool:
    """Whether a name is one of "package.module:Class"."""
    return isinstance(name, str) and MARK in name


def own_class(kind: str, name: str) -> type[Any]:
    """The class that a name stands for: a dataclass with a `name`; `kind` says what it should be.

    The module is one that Python finds, or a file in the current folder.
    """
    module, _, attribute = name.partition(MARK)
    if not all(x.isidentifier() for x in (*module.split("."), attribute)):
        raise UnknownNameError(
            f"{name!r} names no class: your own {kind} is named as 'package.module:Class'"
        )
    found = getattr(_imported(kind, module), attribute, None)
    if not inspect.isclass(found):
        there = [x for x, y in vars(_imported(kind, module)).items() if inspect.isclass(y)]
        what = "has no" if found is None else f"has a {type(found).__name__}, not a class, called"
        raise UnknownNameError(
            f"{name!r}: the module {module} {what} {attribute}; its classes are"
            f" {', '.join(there) or 'none'}"
        )
    missing = sorted(getattr(found, "__abstractmethods__", ()))
    if missing:
        raise UnknownNameError(f"{name!r} lacks {', '.join(missing)}: define it in the class")
    if not is_dataclass(found) or "__dataclass_fields__" not in vars(found):
        raise UnknownNameError(
            f"{name!r} is no dataclass: write @dataclass(frozen=True) above the class; its fields"
            " are its parameters"
        )
    if not isinstance(getattr(found, "name", None), str):
        raise UnknownNameError(
            f"{name!r} needs a name that results carry: write"
            ' name: ClassVar[str] = "my-name" in the class'
        )
    return found


def source_digest(name: str) -> str:
    """A digest of the file that defines a class of one's own; "" where there is no file."""
    module, _, _ = name.partition(MARK)
    file = getattr(_imported("class", module), "__file__", None)
    if not file or not os.path.isfile(file):
        return ""
    with open(file, "rb") as source:
        return hashlib.sha256(source.read()).hexdigest()


def _imported(kind: str, module: str) -> ModuleType:
    """The module, looked for in the current folder as well; what goes wrong in words."""
    here = os.getcwd()
    added = here not in sys.path
    if added:
        sys.path.append(here)  # last, so that it hides nothing; it stays, for worker processes
    try:
        return import_module(module)
    except Exception as error:  # a module of the user may raise anything
        if added:
            sys.path.remove(here)
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise UnknownNameError(
                f"there is no module {error.name!r}, where the {kind} should be: install its"
                f" package, or start surefoot in the folder that holds it ({here} does not)"
            ) from error
        raise UnknownNameError(
            f"the module {module!r}, where the {kind} should be, cannot be imported:"
            f" {type(error).__name__}: {error}"
        ) from error
