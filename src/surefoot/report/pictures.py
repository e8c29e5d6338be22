"""Pictures of a report as SVG that follows the page's colours: a gain with its interval, and a map
of states with two or three coordinates.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape
from scipy.special import ndtri

from surefoot.advice.estimate import DELTA
from surefoot.advice.pairs import StateRecord
from surefoot.report.page import percent, signed_number

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
MOST_PLACES = 40  # along an axis of a map
MOST_PANELS = 12  # values of the third coordinate
MOST_BARS = 6  # actions that a place shows as bars


@dataclass(frozen=True)
class StateMap:
    """A picture of the states at one value of the third coordinate, if there is one."""

    picture: Markup
    caption: str


def gain_picture(gain: float, low: float, high: float) -> Markup:
    """The gain with its one-sided bounds at DELTA, above 0 or not.

    The curve is half of a normal density on each side, as wide as that side of the interval.
    """
    left, right = (max(abs(gain - x) / float(ndtri(1 - DELTA)), 1e-12) for x in (low, high))
    ends = [gain - 3.2 * left, gain + 3.2 * right, 0.0]
    lowest, highest = min(ends), max(ends)
    room = 0.05 * (highest - lowest)
    lowest, highest = lowest - room, highest + room
    width, height, base = 640, 190, 140

    def x(value: float) -> float:
        return round(20 + (width - 40) * (value - lowest) / (highest - lowest), 1)

    points = []
    for i in range(121):
        at = gain - 3.2 * left + i / 120 * 3.2 * (left + right)
        scale = left if at < gain else right
        tall = math.exp(-0.5 * ((at - gain) / scale) ** 2)
        points.append(f"{x(at)},{base - 110 * tall:.1f}")
    label = (
        f"Gain {signed_number(gain)} on held-out data, at least {signed_number(low)}, at most"
        f" {signed_number(high)}"
    )
    parts = [
        f'<polygon class="curve" points="{x(gain - 3.2 * left)},{base} {" ".join(points)}'
        f' {x(gain + 3.2 * right)},{base}"/>',
        f'<line class="axis" x1="20" x2="{width - 20}" y1="{base}" y2="{base}"/>',
        f'<line class="zero" x1="{x(0)}" x2="{x(0)}" y1="14" y2="{base + 8}"/>',
        f'<text x="{min(max(x(0), 90), width - 90)}" y="{base + 22}" text-anchor="middle">0: as'
        " good as the baseline</text>",
        f'<line class="bar" x1="{x(low)}" x2="{x(high)}" y1="{base}" y2="{base}"/>',
        f'<circle class="dot" cx="{x(gain)}" cy="{base}" r="6"/>',
        f'<text x="{x(gain)}" y="{base + 42}" text-anchor="middle">{signed_number(gain)}</text>',
    ]
    if abs(x(low) - x(gain)) > 60:
        parts.append(
            f'<text class="faint" x="{x(low)}" y="{base + 42}" text-anchor="middle">at least'
            f" {signed_number(low)}</text>"
        )
    if abs(x(high) - x(gain)) > 60:
        parts.append(
            f'<text class="faint" x="{x(high)}" y="{base + 42}" text-anchor="middle">at most'
            f" {signed_number(high)}</text>"
        )
    return _svg(width, height, label, parts)


def coordinates(states: Sequence[StateRecord]) -> list[tuple[float, ...]] | None:
    """Two or three numbers of every state, where all labels are made of the same words around
    them; else None.
    """
    shapes, found = set(), []
    for state in states:
        numbers = NUMBER.findall(state.label)
        shapes.add(NUMBER.sub("#", state.label))
        found.append(tuple(float(x) for x in numbers))
        if len(shapes) > 1 or not 2 <= len(numbers) <= 3:
            return None
    if len(found) < 4:
        return None
    ends = [sorted(set(axis)) for axis in zip(*found, strict=True)]
    small = all(len(axis) <= MOST_PLACES for axis in ends[:2])
    if not small or (len(ends) == 3 and len(ends[2]) > MOST_PANELS):
        return None
    if any(len(axis) < 2 for axis in ends[:2]) or len(set(found)) < len(found):
        return None
    return found


def axis_names(state: StateRecord) -> list[str]:
    """What the coordinates are called: the word before each number, else its place."""
    words = [x.strip(" =:,;()[]_-") for x in NUMBER.split(state.label)]
    names = [word.split()[-1] if word.split() else "" for word in words[:-1]]
    return [name or f"coordinate {i + 1}" for i, name in enumerate(names)]


def maps(states: Sequence[StateRecord], columns: Sequence[str]) -> list[StateMap]:
    """The states at their places; a panel for each value of a third coordinate."""
    where = coordinates(states)
    if where is None:
        return []
    names = list(columns) if len(columns) == len(where[0]) else axis_names(states[0])
    actions = sorted({pair.action for state in states for pair in state.pairs})
    bars = len(actions) <= MOST_BARS
    ends = [sorted(set(axis)) for axis in zip(*where, strict=True)]
    if len(ends) == 3:
        panels = [
            (f"{names[2]} = {z:g}. ", [i for i, at in enumerate(where) if at[2] == z])
            for z in ends[2]
        ]
    else:
        panels = [("", list(range(len(where))))]
    found = []
    for title, chosen in panels:
        here = [(where[i], states[i]) for i in chosen]
        picture = _panel(here, ends[0], ends[1], names, actions if bars else [])
        words = (
            f"Bars in each place: {', '.join(actions)}, from left to right; outlined under the"
            " baseline, filled under the candidate. "
            if bars
            else ""
        )
        caption = f"{title}{words}The darker a place, the more of its decisions change."
        found.append(StateMap(picture, caption))
    return found


def _panel(
    states: Sequence[tuple[tuple[float, ...], StateRecord]],
    xs: Sequence[float],
    ys: Sequence[float],
    names: Sequence[str],
    actions: Sequence[str],
) -> Markup:
    """One map: the first coordinate to the right, the second upwards."""
    side = 56 if actions and len(xs) <= 12 else 34 if actions else 18
    side = min(side, max(12, 900 // len(xs)))
    left, top = 56, 10
    width, height = left + side * len(xs) + 10, top + side * len(ys) + 44
    parts = []
    for at, state in states:
        x, y = left + side * xs.index(at[0]), top + side * (len(ys) - 1 - ys.index(at[1]))
        shade = 0.55 * state.moved
        parts.append(
            f"<g><title>{escape(state.label[:200])}: {percent(state.moved)} of decisions change,"
            f" {state.visits:,} visits</title>"
            f'<rect class="grid" x="{x}" y="{y}" width="{side}" height="{side}"'
            f' style="fill:rgba(var(--tint),{shade:.2f})"/>{_bars(state, actions, x, y, side)}</g>'
        )
    every = max(1, -(-len(xs) * 28 // (side * len(xs))))
    for i, value in enumerate(xs[::every]):
        parts.append(
            f'<text x="{left + side * (every * i + 0.5)}" y="{height - 26}"'
            f' text-anchor="middle">{value:g}</text>'
        )
    for i, value in enumerate(ys):
        parts.append(
            f'<text x="{left - 8}" y="{top + side * (len(ys) - i - 0.5) + 4}"'
            f' text-anchor="end">{value:g}</text>'
        )
    middle = top + side * len(ys) / 2
    parts += [
        f'<text class="faint" x="{left + side * len(xs) / 2}" y="{height - 8}"'
        f' text-anchor="middle">{escape(names[0])}</text>',
        f'<text class="faint" x="14" y="{middle}" text-anchor="middle"'
        f' transform="rotate(-90 14 {middle})">{escape(names[1])}</text>',
    ]
    label = f"Map of {len(states)} states by {names[0]} and {names[1]}; the table has the numbers"
    return _svg(width, height, label, parts, natural=True)


def _bars(state: StateRecord, actions: Sequence[str], x: float, y: float, side: int) -> str:
    """The probabilities of the actions in one place."""
    if not actions or side < 24:
        return ""
    by = {pair.action: pair for pair in state.pairs}
    room, wide = side - 10, (side - 10) / len(actions)
    parts = []
    for i, action in enumerate(actions):
        pair = by.get(action)
        if pair is None:
            continue
        at, base = x + 5 + i * wide, y + side - 5
        for name, p in (("new", pair.candidate), ("old", pair.baseline)):
            if p > 0.004:
                tall = room * p
                parts.append(
                    f'<rect class="{name}" x="{at + 0.5:.1f}" y="{base - tall:.1f}"'
                    f' width="{wide - 1:.1f}" height="{tall:.1f}"/>'
                )
    return "".join(parts)


def _svg(
    width: float, height: float, label: str, parts: Sequence[str], *, natural: bool = False
) -> Markup:
    """The parts in a picture that says what it shows."""
    size = f' width="{width}" height="{height}"' if natural else f' width="{width}"'
    return Markup(
        f'<svg viewBox="0 0 {width} {height}"{size} role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )
