"""A policy as a few rules: a small decision tree over the columns of the state, each leaf one
action or what was done before.

It imitates a learned policy pi, the table, where that matters. In the model of the units that pi is
learned from, with its discounted visits d and action values q, doing a in s is credited with

    G(s, a) = min( d(s) (q(s, a) - sum_b stay(b|s) q(s, b)),  w(s) ),
    w(s)    = d(s) sum_b (pi - stay)(b|s) q(s, b),

and staying with 0: no state counts for more than what the table gains there, so that what the table
did not dare is no reason for a rule. What was never tried in s, or is forbidden, costs the share
of the table's gain that s has of the visits: a rule is not to speak of states that cannot follow
it. A leaf does what has the largest sum of G over its states. The
questions of a tree of depth 2 are the best there are; deeper ones are asked one after the other,
each the best of those with one more below. Of the depths asked for the least is taken that loses
next to nothing, and leaves that lose next to nothing are joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from surefoot.advice.posing import typed
from surefoot.core.errors import NotAvailableError, ParameterError
from surefoot.core.labels import Labels, as_text, number_said
from surefoot.core.policy import CHANGED
from surefoot.core.ranges import AND, MISSING, NUMBER, range_text, ranges_of
from surefoot.evidence.unit_model import UnitModel

DEEPEST = 6
MOST_QUESTIONS = 96  # more cut points are thinned out
JOINED = 0.01  # leaves are joined where that loses at most this share of what the table gains
EQUALS = re.compile(rf"([^ =]+)=({NUMBER})")
NEEDED = (
    "--tree asks about the columns of the state, and a state such as {} has none: give several"
    " columns (--state age,pulse), or bins of measurements as surefoot discretize names them"
)


@dataclass(frozen=True)
class Question:
    """Whether a column is at least a number (`cut`), is a `word`, or is missing.

    yes    [S] where it is
    empty  whether the column is missing in some states, which are then on the side of no
    """

    column: str
    yes: np.ndarray
    cut: float | None = None
    word: str | None = None
    empty: bool = False


@dataclass(frozen=True)
class Rule:
    """If `words` hold ("": otherwise), the action of this code; None: as before. `states`: the
    codes of those it is about.
    """

    words: str
    action: int | None
    states: np.ndarray


@dataclass(frozen=True, repr=False)
class Tree:
    """The rules of a tree, and what it gains and the table gains in the half that both are learned
    from, without a test.
    """

    depth: int
    rules: tuple[Rule, ...]
    gain: float
    of_table: float


@dataclass(frozen=True)
class _Node:
    """States [S] with what is best in them (0: stay, k: action k - 1), or a question about them."""

    states: np.ndarray
    best: int
    worth: float
    question: Question | None = None
    below: tuple[_Node, ...] = field(default=())


def check_depth(depth: int | None) -> None:
    """Raise unless it is None or a depth that people can read."""
    whole = isinstance(depth, (int, np.integer)) and not isinstance(depth, bool)
    if depth is not None and not (whole and 1 <= depth <= DEEPEST):
        raise ParameterError(
            "tree (--tree) is the depth of a decision tree, a whole number from 1 to"
            f" {DEEPEST}: 2 makes at most four rules; got {depth!r}"
        )


def questions_of(labels: Labels, acting: np.ndarray) -> list[Question]:
    """What a tree may ask about the states in which somebody acts."""
    states = [labels.states[s] if labels.states else int(s) for s in np.flatnonzero(acting)]
    found: list[Question] = []
    for name, values in _columns(labels, states).items():
        numbers = [x for x in values if isinstance(x, float)]
        empty = any(x is None for x in values)
        if len(numbers) + values.count(None) == len(values):
            level = np.full(len(acting), np.nan)
            level[acting] = [np.nan if x is None else x for x in values]
            for cut in sorted(set(numbers))[1:]:
                found.append(Question(name, level >= cut, cut=cut, empty=empty))
            if empty and numbers:
                found.append(Question(name, acting & np.isnan(level), empty=True))
            continue
        for word in sorted({as_text(x) for x in values}):
            yes = np.zeros(len(acting), dtype=bool)
            yes[acting] = [as_text(x) == word for x in values]
            found.append(Question(name, yes, word=word))
    if not found:
        raise NotAvailableError(NEEDED.format(repr(as_text(states[0])) if states else "none"))
    return found[:: -(-len(found) // MOST_QUESTIONS)]


def _columns(labels: Labels, states: Sequence[Any]) -> dict[str, list[Any]]:
    """{column: its value in every state}: numbers, words, or None where it is missing; of bins the
    lowest number in them.
    """
    if states and isinstance(states[0], tuple):
        columns = dict(zip(labels.headers, map(list, zip(*states, strict=True)), strict=True))
        return {name: _numbers(values) for name, values in columns.items()}
    parts = [_parts(as_text(x)) for x in states]
    if not parts or not parts[0] or any(x is None or list(x) != list(parts[0]) for x in parts):
        raise NotAvailableError(NEEDED.format(repr(as_text(states[0])) if states else "none"))
    return {name: [x[name] for x in parts if x] for name in parts[0] or ()}


def _numbers(values: list[Any]) -> list[Any]:
    """Numbers as such, if all are, or read as such; None where nothing stands."""
    empty = [x is None or x != x or x == "" for x in values]
    said: list[Any] = [number_said(x) if isinstance(x, str) else x for x in values]
    kept = [x for x, no in zip(said, empty, strict=True) if not no]
    if all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in kept):
        return [None if no else float(x) for x, no in zip(said, empty, strict=True)]
    return values


def _parts(label: str) -> dict[str, float | None] | None:
    """{column: lowest number, None: missing} of "2 <= lactate < 4 and pulse missing" or "x=2 y=1";
    None where a label is no such text.
    """
    equal = [EQUALS.fullmatch(x) for x in label.split(" ")]
    if all(equal):
        return {x[1]: float(x[2]) for x in equal if x}
    ranges = ranges_of(label)
    return None if ranges is None else {x.name: None if x.missing else x.low for x in ranges}


def tree_of(
    model: UnitModel, pi: np.ndarray, stay: np.ndarray, labels: Labels, depth: int
) -> tuple[np.ndarray, Tree]:
    """(the policy [S, A] of the tree that imitates pi, its rules), judged by the units of the model
    alone. An action that they never saw in a state, or that is forbidden there, is not done there:
    `stay` is what is done instead, and what leaves without an action do.
    """
    problem = model.problem
    acting = ~np.asarray(problem.terminal) & (model.n_sa.sum(axis=1) > 0)
    possible = ((model.n_sa > 0) & np.asarray(problem.allowed)) | (stay > 1 - CHANGED)
    credit = _credit(model, pi, stay, possible)
    asked = questions_of(labels, acting)
    table = float((credit.max(axis=1) * acting).sum())
    root = _fewest(acting, asked, np.where(acting[:, None], credit, 0.0), depth, JOINED * table)
    found = np.array(stay)
    leaves = list(_leaves(root, ()))
    for node, _ in leaves:
        if node.best:
            use = node.states & possible[:, node.best - 1]
            found[use] = np.eye(pi.shape[1])[node.best - 1]
    base = model.baseline.at_start
    gains = [model.chain(model.rows(x)).at_start - base for x in (found, pi)]
    return found, Tree(depth, _rules(leaves, model), *gains)


def _credit(model: UnitModel, pi: np.ndarray, stay: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """G above [S, 1 + A], what staying is credited with first: 0."""
    d, q = model.visits_and_values(pi)
    share = np.where(model.n_sa > 0, stay, 0.0)
    kept = (share * q).sum(axis=1) / np.maximum(share.sum(axis=1), 1e-300)
    beyond = np.where(model.n_sa > 0, q - kept[:, None], 0.0)
    changes = np.abs(pi - stay).max(axis=1, keepdims=True) > CHANGED
    of_table = changes * np.maximum((pi * beyond).sum(axis=1, keepdims=True), 0.0)
    credit = d[:, None] * np.where(possible, np.minimum(beyond, of_table), 0.0)
    table = float(credit.max(axis=1, initial=0.0).sum())
    credit -= np.where(possible, 0.0, table * d[:, None] / d.sum())
    return np.concatenate([np.zeros((len(d), 1)), credit], axis=1)


def _leaf(states: np.ndarray, credit: np.ndarray) -> _Node:
    total = credit[states].sum(axis=0)
    best = int(np.argmax(total))
    return _Node(states, best, float(total[best]))


def _after_one(states: np.ndarray, yes: np.ndarray, credit: np.ndarray) -> np.ndarray:
    """What the states are worth after each question [Q]."""
    of = credit[states]
    on = yes[:, states] @ of
    return np.asarray(on.max(axis=1) + (of.sum(axis=0) - on).max(axis=1))


def _grown(states: np.ndarray, asked: Sequence[Question], credit: np.ndarray, depth: int) -> _Node:
    """The tree below these states."""
    leaf = _leaf(states, credit)
    if not depth or not states.any():
        return leaf
    yes = np.array([x.yes for x in asked])
    worth = _after_one(states, yes.astype(float), credit)
    if depth > 1:
        number = yes.astype(float)
        worth = np.array(
            [
                sum(_after_one(x, number, credit).max() for x in (states & y, states & ~y))
                for y in yes
            ]
        )
    best = int(np.argmax(worth))
    if worth[best] <= leaf.worth + 1e-12 * max(abs(leaf.worth), 1e-300):
        return leaf
    question = asked[best]
    sides = states & question.yes, states & ~question.yes
    below = tuple(_grown(x, asked, credit, depth - 1) for x in sides)
    return _Node(states, leaf.best, leaf.worth, question, below)


def _fewest(
    states: np.ndarray, asked: Sequence[Question], credit: np.ndarray, depth: int, spare: float
) -> _Node:
    """The least deep tree that loses no more than is spare, with its leaves joined."""
    grown = [_grown(states, asked, credit, d) for d in range(depth + 1)]
    worth = [_worth(x) for x in grown]
    first = next(i for i, x in enumerate(worth) if x >= max(worth) - spare)
    return _joined(grown[first], spare - (max(worth) - worth[first]))


def _worth(node: _Node) -> float:
    return sum(map(_worth, node.below)) if node.below else node.worth


def _joined(node: _Node, spare: float) -> _Node:
    """With leaves joined from below: those that do the same, and those whose difference is worth
    no more than is spare, in all; what one join loses the next cannot.
    """
    if not node.below:
        return node
    first = _joined(node.below[0], spare)
    left = spare - (_worth(node.below[0]) - _worth(first))
    second = _joined(node.below[1], left)
    left -= _worth(node.below[1]) - _worth(second)
    same = not (first.below or second.below) and first.best == second.best
    if same or _worth(first) + _worth(second) - node.worth <= left:
        return _Node(node.states, node.best, node.worth)
    return _Node(node.states, node.best, node.worth, node.question, (first, second))


Path = tuple[tuple[Question, bool], ...]


def _leaves(node: _Node, path: Path) -> Iterator[tuple[_Node, Path]]:
    if node.question is None:
        yield node, path
        return
    for below, answer in zip(node.below, (True, False), strict=True):
        yield from _leaves(below, (*path, (node.question, answer)))


def _rules(leaves: Sequence[tuple[_Node, Path]], model: UnitModel) -> tuple[Rule, ...]:
    """The rules, that of most visits first; what stays, or else the action with most visits, is
    what is done otherwise.
    """
    visits = model.n_sa.sum(axis=1)
    some = [(node, path) for node, path in leaves if node.states.any()]
    some.sort(key=lambda x: -float(visits[x[0].states].sum()))
    rest = 0 if any(not node.best for node, _ in some) else some[0][0].best
    others = np.any([node.states for node, _ in some if node.best == rest], axis=0)
    found = [
        Rule(_if(path), node.best - 1, np.flatnonzero(node.states))
        for node, path in some
        if node.best != rest
    ]
    return (*found, Rule("", rest - 1 if rest else None, np.flatnonzero(others)))


def _if(path: Path) -> str:
    """What a path asks, column by column."""
    columns: dict[str, list[tuple[Question, bool]]] = {}
    for question, answer in path:
        columns.setdefault(question.column, []).append((question, answer))
    return AND.join(filter(None, (_of_column(name, x) for name, x in columns.items())))


def _of_column(name: str, asked: Sequence[tuple[Question, bool]]) -> str:
    words = [(x.word, answer) for x, answer in asked if x.word is not None]
    if words:
        yes = [f"{name} is {word}" for word, answer in words if answer]
        return " and ".join(yes or [f"{name} is not {word}" for word, _ in words])
    missing = [answer for x, answer in asked if x.cut is None]
    cuts = [(x.cut, answer) for x, answer in asked if x.cut is not None]
    low = max((x for x, answer in cuts if answer), default=None)
    high = min((x for x, answer in cuts if not answer), default=None)
    if any(missing):
        return f"{name} {MISSING}"
    if low is None and high is None:
        return f"{name} not {MISSING}"
    said = range_text(name, *("" if x is None else typed(x) for x in (low, high)))
    may_miss = low is None and asked[0][0].empty and not missing
    return f"({said} or {name} {MISSING})" if may_miss else said
