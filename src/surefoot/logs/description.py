"""A log is described once: a TOML file that says how a log is read, and which problem it poses."""

from __future__ import annotations

import glob
import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from surefoot.core.atomic import write_whole
from surefoot.core.errors import LogError
from surefoot.core.labels import nearest
from surefoot.logs.column_roles import ALONG, SYNONYMS

if TYPE_CHECKING:
    from surefoot.logs.log import Log

ENDING = ".toml"
PATHS = ("baseline", "allowed", "forbidden")
EACH_TIME = ("group", "guard")  # what is asked of a command is no part of how a log is read

Label = str | bool | int | float | list[str | bool | int | float]


class Key(NamedTuple):
    """What a key of the file takes: its type, its default, and both in words."""

    type: Any
    words: str
    default: Any = None
    comment: str = ""


_COLUMN = Key(str | list[str], "the name of a column, or a list of names")
_LABELS, _PAIR = "a list of labels", "[lowest, highest]"
# section: {key: what it takes}; the keys are keywords of `read_log`, and those of a problem
KEYS: dict[str, dict[str, Key]] = {
    "columns": {role: _COLUMN for role in SYNONYMS if role not in EACH_TIME},
    "reading": {
        "bandit": Key(bool, "true or false", False, "every row is an episode of one step"),
        "terminal_states": Key(list[Label], _LABELS, (), "states that end an episode"),
        "episode_end": Key(str, '"cut" or "terminal"', "cut", "the last row of an episode"),
        "order": Key(str, '"auto", "time" or "file"', "auto"),
        "terminal_to_end": Key(bool, "true or false", False),
        "actions": Key(list[Label], _LABELS, None, "all actions there are"),
        "drop_bad_rows": Key(bool | str | list[str], "true, or a list of reasons", False),
        "missing_reward": Key(float, "a number", None, "of rows whose reward is empty"),
        "decimal": Key(str, "a sign", "."),
        "delimiter": Key(str, "a sign", ""),
        "encoding": Key(str, "a name", "utf-8"),
        "date_format": Key(str, "such as dd/mm/yyyy hh:mm", "", "how times are written"),
        "values": Key(list[str], 'such as ["survived=1", "died=0"]', (), "words of the reward"),
        "unit": Key(str, "a word or a few", "", "what people call the reward"),
        "history": Key(int, "a whole number", 0, "steps that a state remembers"),
        "discount_per": Key(str | float, "a number or a unit of time", None, "the unit of gamma"),
    },
    "problem": {
        "gamma": Key(float, "a number", None, "the discount factor"),
        "start": Key(Label, "a state, or visits"),
        "reward_range": Key(list[float], _PAIR, None, "possible rewards, as the column has them"),
        "return_range": Key(list[float], _PAIR, None, "possible returns from any state"),
        "baseline": Key(str, "a path", None, "the policy that made the log"),
        "baseline_policy": Key(str | bool | int | float, "a label"),
        "exploration": Key(float, "a number", 0.0, "how often the baseline acts at random"),
        "smoothing": Key(float, "a number", 0.0),
        "allowed": Key(str, "a path"),
        "forbidden": Key(str, "a path", None, "actions that must never be chosen"),
        "renormalise": Key(bool, "true or false", False),
    },
}
DEFAULTS = {key: x.default for keys in KEYS.values() for key, x in keys.items()}
POSING = tuple(KEYS["problem"])
OF_REWARD = {"reward_range", "return_range", "missing_reward", "values", "unit"}


@dataclass(frozen=True, kw_only=True)
class Description:
    """How a log is read, and the problem it poses.

    source   the log: a path, a folder or a pattern
    reading  keywords of `read_log` that differ from their defaults
    posing   the same of the problem: gamma, start, reward_range, return_range, baseline,
             baseline_policy, exploration, smoothing, allowed, forbidden, renormalise
    """

    source: str
    reading: Mapping[str, Any] = field(default_factory=dict)
    posing: Mapping[str, Any] = field(default_factory=dict)

    def save(self, path: str | Path) -> Path:
        """Write it as TOML, paths relative to the file; whole or not at all."""
        path = Path(path)
        if path.suffix.lower() != ENDING:
            raise LogError(f"a log is described in a file that ends in {ENDING}, got {str(path)!r}")
        if path.exists():
            try:
                read_description(path)
            except LogError as error:
                raise LogError(
                    f"{path} is there and describes no log, so it is kept ({error}): take another"
                    " name, or remove it"
                ) from error
        return write_whole(path, "\n".join(self._lines(path.resolve().parent)) + "\n")

    def _lines(self, folder: Path) -> Iterator[str]:
        """The file, line by line."""
        yield "# How this log is read, and the problem it poses. Commands of surefoot, and read_log"
        yield "# and problem in Python, take this file in place of the log; what is given to them"
        yield "# counts before what stands here. Paths are relative to this file."
        yield f"\nlog = {_toml(_relative(self.source, folder))}"
        given = {**self.reading, **self.posing}
        for section, keys in KEYS.items():
            found = {k: given[k] for k in keys if k in given and differs(given[k], DEFAULTS[k])}
            if found:
                yield f"\n[{section}]"
            for key, value in found.items():
                value = _relative(value, folder) if key in PATHS else value
                comment = f"  # {keys[key].comment}" if keys[key].comment else ""
                yield f"{key} = {_toml(value)}{comment}"

    def over(self, given: Mapping[str, Any], named: Iterable[str] = ()) -> dict[str, Any]:
        """Keywords of reading and posing, with what the file says where nothing is given: one
        counts as given if it differs from its default, or is `named`.
        """
        kept = {k for k, value in given.items() if k in named or differs(value, DEFAULTS.get(k))}
        if kept & {"baseline", "baseline_policy"}:
            kept |= {"baseline", "baseline_policy", "exploration"}
        if "bandit" in kept and given["bandit"]:
            kept |= {*ALONG, "episode_end", "gamma"}
        said = {**self.reading, **self.posing}
        if "reward" in kept and "reward" in said:
            column, _, direction = str(given["reward"]).partition(":")
            if column != str(said["reward"]).partition(":")[0]:
                kept |= OF_REWARD  # what the file says of another column
            elif not direction:
                kept -= {"reward"}
        return {**given, **{k: value for k, value in said.items() if k not in kept}}


def is_description(source: Any) -> bool:
    """Whether a source is a file that describes a log."""
    return isinstance(source, (str, os.PathLike)) and str(source).lower().endswith(ENDING)


def described(
    source: Any, reading: Mapping[str, Any], posing: Mapping[str, Any], named: Iterable[str] = ()
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """(the log, keywords of `read_log`, those of the problem): as given, or if the source
    describes a log, what it says where nothing is given (see `Description.over`).
    """
    if not is_description(source):
        return source, dict(reading), dict(posing)
    found = read_description(source)
    merged = found.over({**reading, **posing}, named)
    asked = {k: merged.pop(k) for k in (*POSING, *posing) if k in merged}
    for key in PATHS:
        path = asked.get(key)
        if isinstance(path, str) and path == found.posing.get(key) and not os.path.isfile(path):
            raise LogError(f"{source}: {key}: there is no file {path}")
    return found.source, merged, asked


def description_of(
    log: Log, source: str, reading: Mapping[str, Any], posing: Mapping[str, Any]
) -> Description:
    """The description of a log that was read with these keywords, with the columns as found."""
    columns = log.stored.store.columns
    given = {k: v for k, v in reading.items() if differs(v, DEFAULTS.get(k))}
    for role in KEYS["columns"]:
        names = list(getattr(columns, role))
        if role == "reward" and columns.direction:
            names = [f"{names[0]}:{columns.direction}"]
        if names:
            given[role] = names if len(names) > 1 or "," in names[0] else names[0]
    asked = {k: v for k, v in posing.items() if differs(v, DEFAULTS.get(k))}
    if log.bandit:
        asked.pop("gamma", None)
    return Description(source=source, reading=given, posing=asked)


def read_description(path: str | Path) -> Description:
    """The description in a TOML file, checked down to every key; its paths are made absolute."""
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise LogError(
            f"there is no file {path}: surefoot check LOG --save {path} writes it"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise LogError(f"{path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise LogError(f"{path} is not a TOML file: {error}") from error
    _check(content, str(path))
    folder = path.resolve().parent
    source = _absolute(content["log"], folder)
    if not (os.path.exists(source) or glob.has_magic(source)):
        raise LogError(f"{path}: log: there is no file {source}")
    if is_description(source):
        raise LogError(f"{path}: log: {source} describes a log, and is none")
    posing = {k: _tuple(v) for k, v in content.get("problem", {}).items()}
    return Description(
        source=source,
        reading={**content.get("columns", {}), **content.get("reading", {})},
        posing=posing | {k: _absolute(posing[k], folder) for k in PATHS if k in posing},
    )


def differs(value: Any, default: Any) -> bool:
    """Whether a keyword was given: whether it differs from its default."""
    if value is None or isinstance(value, (str, bool, int, float, tuple, list)):
        same: bool = (tuple(value) if isinstance(value, list) else value) == default
        return not same and not (default is None and value == [])
    return True


def _check(content: dict[str, Any], where: str) -> None:
    """Raise unless a file has known keys alone, each with what it takes."""
    from pydantic import ValidationError

    try:
        _model()(**content)
    except ValidationError as error:
        # an unknown key first: where it is misspelt, the right one is missing elsewhere
        first = min(error.errors(), key=lambda x: x["type"] != "extra_forbidden")
        section, *rest = [str(x) for x in first["loc"]]
        place = ".".join([section, *rest[:1]])
        if first["type"] == "extra_forbidden":
            raise LogError(f"{where}: {_unknown(section, rest)}") from error
        if first["type"] == "missing":
            raise LogError(
                f'{where} does not say where the log is: begin it with log = "log.csv"'
            ) from error
        words = "a path or a pattern" if section == "log" else "a table"
        if rest and section in KEYS:
            words = KEYS[section][rest[0]].words
        raise LogError(f"{where}: {place} must be {words}, got {first['input']!r}") from error
    for key in ("reward_range", "return_range"):
        pair = content.get("problem", {}).get(key, [0, 0])
        if len(pair) != 2:
            raise LogError(f"{where}: problem.{key} must be {_PAIR}, got {pair}")


def _unknown(section: str, rest: list[str]) -> str:
    """That there is no such key, with the right place or the nearest names."""
    key = rest[0] if rest else section
    if key in EACH_TIME:
        return f"{key} is asked of a command (--{key}), and no part of how a log is read"
    right = next((name for name, keys in KEYS.items() if key in keys), None)
    if right is not None:
        return f"{key} belongs below [{right}]"
    known = KEYS[section] if rest else ("log", *KEYS)
    return f"there is no key {'.'.join([section, *rest])!r}; {nearest(key, known)}"


@cache
def _model() -> Any:
    """The file as pydantic checks it."""
    from pydantic import ConfigDict, create_model

    config = ConfigDict(extra="forbid", strict=True)
    sections: dict[str, Any] = {
        name: (create_model(name, __config__=config, **_optional(keys)), {})
        for name, keys in KEYS.items()
    }
    return create_model("file", __config__=config, log=(str, ...), **sections)


def _optional(keys: dict[str, Key]) -> dict[str, Any]:
    return {key: (x.type, None) for key, x in keys.items()}


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _absolute(path: str, folder: Path) -> str:
    return os.path.normpath(folder / path)


def _relative(path: str | Path, folder: Path) -> str:
    return Path(os.path.relpath(Path(path).absolute(), folder)).as_posix()


def _toml(value: Any) -> str:
    """A value as TOML has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        return _toml([f"{word}={x}" for word, x in value.items()])
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
