"""Controller: from raw measurements to an action; encoder, policy and fallback in one object.

One JSON file holds all of it, for other programs too: no pickle, nothing that runs when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.core import FilePath, LabelledPolicy, Labels, Policy, Solution
from surefoot.core.array_checks import is_table
from surefoot.core.atomic import read_json, write_whole
from surefoot.core.errors import ParameterError, PolicyError, SurefootError, option
from surefoot.core.labels import as_text, unknown
from surefoot.core.policy import CHANGED
from surefoot.core.text import plural
from surefoot.logs.given_policies import own_policy
from surefoot.logs.policy_files import policy_of_rows
from surefoot.serving.encoders import (
    Encoder,
    codes,
    encoder_document,
    encoder_of,
    fingerprint,
    read_encoder,
)
from surefoot.serving.origin import NOT_SHOWN, Origin, origin_of

FORMAT = "surefoot controller 1"
TIE = 1e-12  # actions whose probabilities differ by less are equally probable
AS_BEFORE = (
    "nothing changes in this state: do as before. The baseline goes by more than the state, so ask"
    " it itself"
)


class NoStateError(PolicyError):
    """A row whose measurements make no state."""


@dataclass(frozen=True, kw_only=True)
class MostProbable:
    """The most probable action of each state: its code (-1 where nothing is chosen), its
    probability, and whether others are as probable; the first of them is taken, in the order of
    the actions.
    """

    action: np.ndarray
    probability: np.ndarray
    tied: np.ndarray

    @property
    def stochastic(self) -> np.ndarray:
        """Where other actions have a chance, too."""
        found: np.ndarray = (self.action >= 0) & (self.probability < 1 - 1e-9)
        return found


def most_probable(pi: np.ndarray) -> MostProbable:
    """The most probable action of each row of pi [S, A]."""
    top = pi.max(axis=1)
    best = pi >= top[:, None] - TIE
    action = np.where(top > 0, best.argmax(axis=1), -1)
    return MostProbable(action=action, probability=top, tied=(best.sum(axis=1) > 1) & (top > 0))


def untouched(policy: Policy) -> np.ndarray:
    """In which states [S] a policy is its baseline; in none without one."""
    if policy.baseline is None:
        return np.zeros(len(policy.pi), dtype=bool)
    found: np.ndarray = 0.5 * np.abs(policy.pi - policy.baseline).sum(axis=1) <= CHANGED
    return found


@dataclass(frozen=True, repr=False, kw_only=True)
class Controller:
    """What to do with a row.

    policy      probabilities of actions in states: a Policy, a Solution, the path of a policy file,
                a table, or {state: {action: probability}}
    encoder     makes the state from raw measurements (`surefoot discretize` saves it); None where
                rows have the state itself
    origin      where the policy comes from; read beside the path of a file of `improve`
    otherwise   what to do in a state that the policy does not know: None refuses (PolicyError), an
                action's label takes that action, a second policy (such as the baseline; a file of
                one as a Path) is asked instead. So it is where a measurement that the encoder needs
                is missing or not finite; but a second policy over the same states has none to go
                by, and it refuses. A second controller (or the Path of its .json), or a policy over
                columns of the row, is asked about the row itself
    """

    policy: Policy
    encoder: Encoder | None = None
    otherwise: Any = None
    origin: Origin | None = None

    def __post_init__(self) -> None:
        if self.origin is None and isinstance(self.policy, (str, Path)):
            object.__setattr__(self, "origin", origin_of(self.policy))
        object.__setattr__(self, "policy", _changed(_whole(own_policy(self.policy)), self.origin))
        object.__setattr__(self, "otherwise", _second(self.otherwise, self.encoder))
        labels = self.policy.labels
        if self.encoder is not None:
            _check_fit(self.policy, self.encoder, self.origin)
        if self.fixed and self.origin is not None and self.origin.as_before:
            raise PolicyError(
                f"{as_text(self.otherwise)!r} cannot stand in where the policy changes nothing: the"
                " baseline goes by more than the state there, and is to be called itself. Give it"
                " with --fallback (otherwise= in Python), or leave the fallback out"
            )
        if self.fixed and labels.find_action(self.otherwise) is None:
            raise PolicyError(
                f"the fallback {unknown('action', self.otherwise, labels.actions, 'the policy')}"
            )

    @property
    def fixed(self) -> bool:
        """Whether one action is taken in states that the policy does not know."""
        return self.otherwise is not None and not isinstance(self.otherwise, (Policy, Controller))

    def __repr__(self) -> str:
        how = "states as they are" if self.encoder is None else f"{self.encoder.method} states"
        return f"Controller({self.policy!r}, {how}, otherwise {self.fallback_words})"

    @property
    def fallback_words(self) -> str:
        """What it does in states it does not know, in words."""
        if self.otherwise is None:
            return "it refuses"
        if isinstance(self.otherwise, Policy):
            return "a second policy"
        if isinstance(self.otherwise, Controller):
            return "a second controller, which is asked about the row"
        return f"{as_text(self.otherwise)!r}"

    def state(self, row: Any) -> Any:
        """The label of the state of a row.

        With an encoder: a dict of measurements, or their values in the order of its features.
        Without: a dict with the columns of the state, or the label itself.
        """
        if self.encoder is not None:
            x = _measurements(row, self.encoder.features)
            code = int(codes(self.encoder, x[None, :])[0])
            if code < 0:
                raise NoStateError(f"this row has no state: {_lost(self.encoder, x)}")
            return self.encoder.labels[code]
        if isinstance(row, Mapping):
            labels = self.policy.labels
            named = all(x in row for x in labels.headers)
            found = tuple(_parts_of(row, labels.headers if named else labels.state_columns))
            return found if len(found) > 1 else found[0]
        return tuple(row) if isinstance(row, (list, np.ndarray)) else row

    def find_state(self, row: Any) -> Any:
        """The label of the state of a row; None where its measurements make none."""
        try:
            return self.state(row)
        except NoStateError:
            return None

    def knows(self, row: Any) -> bool:
        """Whether the policy itself says what to do with a row."""
        try:
            return self.policy.knows(self.state(row))
        except NoStateError:
            return False

    def probabilities(self, row: Any) -> dict[Any, float]:
        """{action: probability} for a row."""
        try:
            state = self.state(row)
            if self.otherwise is None or self.policy.knows(state):
                return self.policy.probabilities(state)
            if isinstance(self.otherwise, Policy):
                return self.otherwise.probabilities(state)
        except NoStateError:
            if self.otherwise is None or isinstance(self.otherwise, Policy):
                raise
        except PolicyError as error:
            if self.origin is None or not self.origin.as_before:
                raise
            raise PolicyError(f"{AS_BEFORE}. In full: {error}") from error
        if isinstance(self.otherwise, Controller):
            return self.otherwise.probabilities(row)
        code = self.policy.labels.find_action(self.otherwise)
        return {a: float(i == code) for i, a in enumerate(self.policy.labels.actions)}

    def act(self, row: Any, rng: np.random.Generator) -> Any:
        """Draw an action for a row: this is the policy that was tested."""
        found = self.probabilities(row)
        p = np.array(list(found.values()))
        return list(found)[int(rng.choice(len(p), p=p / p.sum()))]

    def decide(self, row: Any) -> Any:
        """The most probable action for a row, the first of equally probable ones.

        Always taking it is another policy than the one that was tested, where that draws.
        """
        found = self.probabilities(row)
        best = most_probable(np.array([list(found.values())]))
        return list(found)[int(best.action[0])]

    def save(self, path: str | Path) -> Path:
        """Write it as one JSON file, which `surefoot.load_controller` reads."""
        return write_whole(path, json.dumps(self.document, indent=1, allow_nan=False) + "\n")

    @cached_property
    def document(self) -> dict[str, Any]:
        """All of it as JSON."""
        fallback: dict[str, Any] = {"refuse": True}
        if isinstance(self.otherwise, Policy):
            fallback = {"policy": _policy_document(self.otherwise)}
        elif isinstance(self.otherwise, Controller):
            own = list(self.otherwise.policy.labels.state_columns)  # of the row it is asked about
            fallback = {"controller": self.otherwise.document | {"state_columns": own}}
        elif self.otherwise is not None:
            fallback = {"action": _json_label(self.otherwise)}
        origin = self.origin
        above = {"warning": NOT_SHOWN} if origin is not None and origin.unsupported else {}
        return (
            above
            | {
                "format": FORMAT,
                "origin": None if origin is None else origin.to_dict(),
                "encoder": None if self.encoder is None else encoder_document(self.encoder),
                "otherwise": fallback,
            }
            | _policy_document(self.policy)
        )


def controller_of(
    policy: Controller | LabelledPolicy,
    otherwise: Hashable | LabelledPolicy = None,
    encoder: Encoder | FilePath | None = None,
) -> Controller:
    """A Controller of whatever is given as a policy, or as the path of one; with this fallback, and
    with an encoder or the path of one.
    """
    if isinstance(policy, (str, Path)) and Path(policy).suffix.lower() == ".json":
        policy = load_controller(policy)
    given: Any = policy
    found = given if isinstance(given, Controller) else Controller(policy=given)
    if encoder is not None:
        if found.encoder is not None:
            raise PolicyError(f"the policy has an encoder already: leave {option('encoder')} out")
        found = replace(
            found,
            encoder=encoder if isinstance(encoder, Encoder) else read_encoder(Path(encoder)),
        )
    return found if otherwise is None else replace(found, otherwise=otherwise)


def check_seed(seed: int | None, sample: bool) -> None:
    """Raise unless a seed is one, and there is something to draw."""
    if seed is not None and seed < 0:
        raise ParameterError(f"--seed must be a whole number >= 0, got {seed}")
    if seed is not None and not sample:
        raise ParameterError("--seed is for draws: add --sample (sample=True in Python)")


def load_controller(path: str | Path) -> Controller:
    """The controller in a file that `Controller.save` or `surefoot export` wrote."""
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise PolicyError(f"{path} is no controller: {error}") from error
    return _controller_of(content, path)


def _controller_of(content: Any, path: str | Path) -> Controller:
    """The controller of what was read from a JSON file."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise PolicyError(
            f"{path} is no controller: a JSON file with format {FORMAT!r} was expected, as surefoot"
            " export writes it"
        )
    try:
        fallback = content["otherwise"]
        otherwise = _label(fallback.get("action"))
        if "policy" in fallback:
            otherwise = _policy_of(fallback["policy"])
        elif "controller" in fallback:
            otherwise = _controller_of(fallback["controller"], path)
        encoder, origin = content["encoder"], content.get("origin")
        return Controller(
            origin=None if origin is None else Origin(**origin),
            policy=_policy_of(content),
            encoder=None if encoder is None else encoder_of(encoder, path),
            otherwise=otherwise,
        )
    except SurefootError as error:
        raise PolicyError(f"{path} is a controller with a fault: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PolicyError(
            f"{path} is a controller with a fault: {type(error).__name__} {error}"
        ) from error


def _second(given: Any, encoder: Encoder | None) -> Any:
    """What is asked where the policy knows nothing: beside an encoder a policy over other states
    than it makes goes by columns of the row.
    """
    if isinstance(given, Path) and given.suffix.lower() == ".json":
        return load_controller(given)
    if isinstance(given, (Solution, Path, Mapping)) or is_table(given):
        given = own_policy(given)
    if encoder is None or not isinstance(given, Policy):
        return given
    elsewhere = set(given.labels.states).isdisjoint(encoder.labels)
    return Controller(policy=given) if elsewhere else given


def _check_fit(policy: Policy, encoder: Encoder, origin: Origin | None) -> None:
    """Raise unless the states of the policy are states of this encoder: they have their names, and
    where it is known which encoder made them, this is it.
    """
    made = set(encoder.labels)
    there = np.flatnonzero(policy.pi.any(axis=1))
    lost = [policy.labels.states[s] for s in there if policy.labels.states[s] not in made]
    if lost:
        raise PolicyError(
            f"policy and encoder do not belong together: the policy knows {as_text(lost[0])!r}"
            f" ({plural(len(lost), 'such state')}), the encoder makes {encoder.labels[0]!r} and the"
            " like. Give the encoder that surefoot discretize saved with the log of this policy"
        )
    mark = fingerprint(encoder)
    if origin is not None and origin.encoder and origin.encoder != mark:
        raise PolicyError(
            f"policy and encoder do not belong together: the states of {origin.log} were made by"
            f" the encoder with fingerprint {origin.encoder}, this one has {mark}"
        )


def _measurements(row: Any, features: Sequence[str]) -> np.ndarray:
    """The numbers of a row, NaN where one is missing."""
    if isinstance(row, Mapping):
        values = _parts_of(row, features)
    elif isinstance(row, (list, tuple, np.ndarray)):
        values = list(row)
    else:
        raise PolicyError(
            f"a row is a dict of measurements, or their values in the order"
            f" {', '.join(features)}; got {type(row).__name__}"
        )
    if len(values) != len(features):
        raise PolicyError(
            f"a row has {len(features)} measurements ({', '.join(features)}), got {len(values)}"
        )
    return np.array([_number(x, name) for x, name in zip(values, features, strict=True)])


def _parts_of(row: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """What makes the state of a row, by these names."""
    for name in names:
        if name not in row:
            raise PolicyError(
                f"this row has no {name!r}, of which the state is made; it has"
                f" {', '.join(map(repr, list(row)[:8])) or 'nothing'}"
            )
    return [row[x] for x in names]


def _number(x: Any, name: str) -> float:
    try:
        found = float("nan") if x is None or x == "" else float(x)
    except (TypeError, ValueError) as error:
        raise PolicyError(f"measurement {name!r} must be a number, got {x!r}") from error
    return found


def _lost(encoder: Encoder, x: np.ndarray) -> str:
    """Why measurements make no state."""
    for name, value in zip(encoder.features, x.tolist(), strict=True):
        if np.isinf(value):
            return f"measurement {name!r} must be a finite number, got {value!r}"
        if np.isnan(value) and name not in encoder.missing:
            return f"measurement {name!r} is missing, and has no bin for missing values"
    raise AssertionError("these measurements make a state")


def _whole(policy: Policy) -> Policy:
    """The policy with the states of `elsewhere` among its own."""
    if not policy.elsewhere:
        return policy
    labels, extra = policy.labels, tuple(dict.fromkeys(x for x, _, _ in policy.elsewhere))
    more = np.zeros((len(extra), len(labels.actions)))
    for x, a, p in policy.elsewhere:
        more[extra.index(x), labels.action_code(a)] = p
    return Policy(
        pi=np.concatenate([policy.pi, more]),
        labels=Labels((*labels.states, *extra), labels.actions, labels.headers),
        baseline=None if policy.baseline is None else np.concatenate([policy.baseline, more]),
        notes=policy.notes,
    )


def _changed(policy: Policy, origin: Origin | None) -> Policy:
    """The policy without the states in which it is a baseline that goes by more than the state: its
    mean there is not what that does, and it is to be called itself.
    """
    same = untouched(policy)
    if origin is None or not origin.as_before or policy.baseline is None or not same.any():
        return policy
    labels, keep = policy.labels, np.flatnonzero(~same)
    states = tuple(labels.states[s] for s in keep)
    own = Labels(states, labels.actions, labels.state_columns)
    return replace(policy, pi=policy.pi[keep], labels=own, baseline=policy.baseline[keep])


def _policy_document(policy: Policy) -> dict[str, Any]:
    """A policy as JSON: states with their most probable action and all probabilities, which are
    keyed by the text of the action.
    """
    labels, best = policy.labels, most_probable(policy.pi)
    names = [as_text(a) for a in labels.actions]
    twice = next((x for x in names if names.count(x) > 1), None)
    if twice is not None:
        raise PolicyError(f"two actions read as {twice!r}: rename one of them")

    def row(p: np.ndarray) -> dict[str, float]:
        return {name: float(x) for name, x in zip(names, p, strict=True) if x > 0}

    states = []
    for s in np.flatnonzero(best.action >= 0):
        found: dict[str, Any] = {
            "state": _json_label(labels.states[s]),
            "action": _json_label(labels.actions[best.action[s]]),
            "probability": float(best.probability[s]),
            "tied": bool(best.tied[s]),
            "probabilities": row(policy.pi[s]),
        }
        if policy.baseline is not None:
            found["baseline"] = row(policy.baseline[s])
        states.append(found)
    return {
        "state_columns": list(labels.headers),
        "actions": [_json_label(a) for a in labels.actions],
        "states": states,
    }


def _policy_of(content: Mapping[str, Any]) -> Policy:
    """The policy of what was read, checked as that of a policy file is."""
    states = tuple(_label(x["state"]) for x in content["states"])
    actions = tuple(_label(a) for a in content["actions"])
    labels = Labels(states, actions, tuple(map(str, content["state_columns"])))
    if len(set(states)) < len(states) or len(set(actions)) < len(actions):
        raise PolicyError("a state or an action is there twice")

    def rows(key: str) -> list[tuple[Any, ...]]:
        return [
            (s, a, p)
            for s, x in zip(states, content["states"], strict=True)
            for a, p in x[key].items()
        ]

    baseline = None
    if states and all("baseline" in x for x in content["states"]):
        baseline = policy_of_rows(rows("baseline"), labels, "baseline").pi
    found = policy_of_rows(rows("probabilities"), labels, "policy")
    return Policy(pi=found.pi, labels=labels, baseline=baseline, notes=found.notes)


def _json_label(label: Any) -> Any:
    """A label as JSON holds it; dates and other kinds as text."""
    if isinstance(label, tuple):
        return [_json_label(x) for x in label]
    if isinstance(label, np.generic):
        return label.item()
    return str(label) if isinstance(label, (date, Decimal)) else label


def _label(x: Any) -> Any:
    """A label of a JSON file: several columns are a tuple."""
    parts = x if isinstance(x, list) else [x]
    if any(isinstance(part, (list, dict)) for part in parts):
        raise PolicyError("a label is a text, a number, or a list of them: one of these is nested")
    return tuple(parts) if isinstance(x, list) else x
