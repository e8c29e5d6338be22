"""What decides a number of a study: digests of benchmarks and algorithms, and of the code of
classes of one's own, so that a folder never mixes the numbers of two.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from surefoot.core.errors import StudyError
from surefoot.core.parameters import MARK, source_digest

PLAIN = (bool, int, float, str, bytes, type(None))
MAIN = "__main__"  # a notebook, a session or a script: what it defines has no file to be known by


def digest(*parts: Any) -> str:
    """Sixteen letters that two things share if they give the same numbers."""
    text = json.dumps([_content(x, "it") for x in parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _content(x: Any, name: str) -> Any:
    """All that a value consists of, as JSON can hold it; 2 and 2.0 are one."""
    if isinstance(x, np.generic):
        x = x.item()
    if isinstance(x, (int, float)) and not isinstance(x, bool):
        return float(x)
    if isinstance(x, PLAIN):
        return repr(x) if isinstance(x, bytes) else x
    if isinstance(x, np.ndarray) and x.dtype != object:
        bits = hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()
        return [str(x.dtype), list(x.shape), bits]
    if isinstance(x, Mapping):
        return {str(k): _content(v, f"{name}[{k!r}]") for k, v in x.items()}
    if isinstance(x, (Sequence, Set)):
        items = [_content(v, name) for v in x]
        return items if isinstance(x, Sequence) else sorted(items, key=repr)
    if isinstance(x, type):
        return _of_class(x)
    if isinstance(x, FunctionType):
        return [_of_module(x.__module__), *_of_function(x, set())]
    if is_dataclass(x):
        inside = {f.name: _content(getattr(x, f.name), f.name) for f in fields(x)}
        return [_of_class(type(x)), inside]
    raise StudyError(
        f"{name} is a {type(x).__name__}: a study cannot tell two of them apart, so that its folder"
        " could mix their results; give a number, a text, an array, a function or a dataclass"
    )


def _of_class(cls: type) -> list[Any]:
    """The name of a class, and what it was written as; a class of surefoot is known by name."""
    known = {"surefoot", *sys.stdlib_module_names} - {MAIN}
    own = [x for x in cls.__mro__ if x.__module__.split(".")[0] not in known]
    return [cls.__module__, cls.__qualname__, [_of_module(x.__module__) or _code(x) for x in own]]


def _of_module(module: str) -> str:
    """A digest of its file; "" where there is none that holds still, as of a notebook."""
    return "" if module == MAIN or module not in sys.modules else source_digest(f"{module}{MARK}")


def _code(cls: type) -> list[Any]:
    """What a class without a file does: its methods and plain values."""
    known: set[int] = set()
    found: list[Any] = []
    for name, x in sorted(vars(cls).items()):
        inner = getattr(x, "fget", None) or getattr(x, "func", None) or inspect.unwrap(x)
        inner = getattr(inner, "__func__", inner)
        if isinstance(inner, FunctionType):
            found.append([name, *_of_function(inner, known)])
        elif isinstance(x, PLAIN) and not name.startswith("__"):
            found.append([name, repr(x)])
    return found


def _of_function(function: FunctionType, known: set[int]) -> Iterator[str]:
    """Its code and defaults, and what it uses of its own module and of the functions around it:
    functions, classes, values.
    """
    if id(function) in known:
        return
    known.add(id(function))
    yield repr((function.__defaults__, function.__kwdefaults__))
    used: set[str] = set()
    yield from _of_code(function.__code__, used)
    around = inspect.getclosurevars(function).nonlocals
    there = {k: function.__globals__[k] for k in used & function.__globals__.keys()} | {**around}
    for name, x in sorted(there.items()):
        if isinstance(x, FunctionType) and x.__module__ == function.__module__:
            yield from _of_function(x, known)
        elif isinstance(x, type) and x.__module__ == function.__module__ and id(x) not in known:
            known.add(id(x))
            for method in filter(lambda y: isinstance(y, FunctionType), vars(x).values()):
                yield from _of_function(method, known)
        elif isinstance(x, (*PLAIN, list, tuple, dict, np.ndarray)):
            yield f"{name}={json.dumps(_content(x, name), sort_keys=True)}"


def _of_code(code: CodeType, used: set[str]) -> Iterator[str]:
    """Its instructions, and those of what is defined inside it."""
    used.update(code.co_names)
    yield code.co_code.hex()
    yield repr(code.co_names)
    for x in code.co_consts:
        if isinstance(x, CodeType):
            yield from _of_code(x, used)
        else:
            yield repr(sorted(map(repr, x)) if isinstance(x, frozenset) else x)
