"""Classes of the user's own, named as "package.module:Class" where a name is asked for."""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from dataclasses import is_dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from surefoot.core.errors import UnknownNameError

MARK = ":"  # between module and class; no name of surefoot has it


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
