"""Pictures of a report as SVG that follows the page's colours: gains with their intervals, what a
hidden cause leaves of one, and a map of states with two or three coordinates.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape
from scipy.special import ndtri

from surefoot.core.ranges import ranges_of
from surefoot.report.folder import StateRecord
from surefoot.report.page import Picture, percent, signed_number

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
WIDE = 440  # of a picture, in the units of its text
REACH = 3.2  # standard deviations of a curve that are shown
MOST_PLACES = 40  # along an axis of a map
MOST_PANELS = 12  # values of the third coordinate
MOST_BARS = 6  # actions that a place shows as bars
MOST_LETTERS = 22  # of a name in a forest plot
Show = Callable[[float], str]  # a number as people read it


def gain_picture(
    gain: float, low: float, high: float, delta: float, show: Show = signed_number
) -> Markup:
    """The gain with its one-sided bounds at delta, above 0 or not.

    The curve is half of a normal density on each side, as wide as that side of the interval.
    """
    left, right = (max(abs(gain - x) / float(ndtri(1 - delta)), 1e-12) for x in (low, high))
    first, last = gain - REACH * left, gain + REACH * right
    x = _scale([first, last, 0.0], WIDE)
    base = 142
    points = []
    for i in range(121):
        at = first + i / 120 * (last - first)
        tall = math.exp(-0.5 * ((at - gain) / (left if at < gain else right)) ** 2)
        points.append(f"{x(at)},{base - 110 * tall:.1f}")
    least, most = f"at least {show(low)}", f"at most {show(high)}"
    apart = x(high) - x(low) > _wide(least) / 2 + _wide(most) / 2 + 12
    rows = [base + 22, base + 22 if apart else base + 40, base + (44 if apart else 62)]
    parts = [
        f'<polygon class="curve" points="{x(first)},{base} {" ".join(points)} {x(last)},{base}"/>',
        f'<line class="axis" x1="12" x2="{WIDE - 12}" y1="{base}" y2="{base}"/>',
        f'<line class="zero" x1="{x(0)}" x2="{x(0)}" y1="24" y2="{rows[2] - 13}"/>',
        f'<line class="bar" x1="{x(low)}" x2="{x(high)}" y1="{base}" y2="{base}"/>',
        f'<circle class="dot" cx="{x(gain)}" cy="{base}" r="6"/>',
        _text(x(gain), 18, show(gain), "strong"),
        _text(x(low), rows[0], least),
        _text(x(high), rows[1], most),
        _text(x(0), rows[2], "0: as good as the baseline", "faint"),
    ]
    label = f"Gain {show(gain)}, at least {show(low)}, at most {show(high)}"
    return _svg(WIDE, rows[2] + 8, label, parts)


def gains_picture(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """The settings of a choice below each other: the mean gain of each, the interval of that, and
    the mean over its worst models.
    """
    ends = [row[k] for row in rows for k in ("mean", "mean_low", "mean_high", "cvar")]
    x = _scale([z for z in ends if math.isfinite(z)] + [0.0], WIDE)
    bottom = 20 + 46 * len(rows)
    parts = [f'<line class="zero" x1="{x(0)}" x2="{x(0)}" y1="6" y2="{bottom + 6}"/>']
    for i, row in enumerate(rows):
        y, name = 20 + 46 * i, row["setting"]
        name = name if len(name) <= 58 else f"{name[:57]}…"
        start = f'<text x="4" y="{y}" class="{"strong" if row["chosen"] else ""}">'
        parts.append(f"{start}{escape(name)}</text>")
        at, low, high, tail = y + 14, row["mean_low"], row["mean_high"], row["cvar"]
        if math.isfinite(low) and math.isfinite(high):
            parts.append(f'<line class="bar" x1="{x(low)}" x2="{x(high)}" y1="{at}" y2="{at}"/>')
        if math.isfinite(tail):
            parts.append(f'<path class="dot" d="M{x(tail) - 6} {at}l6 -6l6 6l-6 6z"/>')
        parts.append(f'<circle class="dot" cx="{x(row["mean"])}" cy="{at}" r="5"/>')
    parts += [
        f'<line class="axis" x1="12" x2="{WIDE - 12}" y1="{bottom}" y2="{bottom}"/>',
        _text(x(0), bottom + 20, "0: as good as the baseline", "faint"),
    ]
    best = max(rows, key=lambda row: row["mean"])
    label = (
        f"Gains of {len(rows)} settings; the highest mean is {signed_number(best['mean'])}, of"
        f" {best['setting']}; the table has the numbers"
    )
    return _svg(WIDE, bottom + 28, label, parts)


def hidden_picture(
    curve: Sequence[Mapping[str, float]],
    show: Show = signed_number,
    what: str = "gain left, at least",
) -> Markup:
    """What is left of a gain at growing strengths of a hidden cause: at least, and with sampling
    error (dashed); strengths are on a scale of ratios.
    """
    left, right, top, base = 72, WIDE - 20, 30, 204
    ends = [float(p[k]) for p in curve for k in ("gain_at_least", "with_sampling_error")]
    high, low = max(*ends, 0.0), min(*ends, 0.0)
    reach = math.log(max(float(p["strength"]) for p in curve)) or 1.0

    def x(strength: float) -> float:
        return round(left + (right - left) * math.log(strength) / reach, 1)

    def y(value: float) -> float:
        return round(top + (base - top) * (high - value) / (high - low or 1.0), 1)

    parts = []
    for value in ticks(low, high):
        parts.append(
            f'<line class="grid" x1="{left}" x2="{right}" y1="{y(value)}" y2="{y(value)}"/>'
        )
        words = "0" if value == 0 else show(value)
        parts.append(f'<text x="{left - 8}" y="{y(value) + 4}" text-anchor="end">{words}</text>')
    parts.append(f'<line class="axis" x1="{left}" x2="{right}" y1="{base}" y2="{base}"/>')
    last = -math.inf
    for strength in (1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100):
        if math.log(strength) <= reach + 1e-9 and x(strength) - last > 34:
            last = x(strength)
            parts.append(
                f'<line class="axis" x1="{last}" x2="{last}" y1="{base}" y2="{base + 5}"/>'
            )
            parts.append(_text(last, base + 19, f"{strength:g}"))
    parts.append(f'<line class="zero" x1="{left}" x2="{right}" y1="{y(0)}" y2="{y(0)}"/>')
    for name, kind in (("gain_at_least", "line"), ("with_sampling_error", "line dashed")):
        points = " ".join(f"{x(p['strength'])},{y(p[name])}" for p in curve)
        parts.append(f'<polyline class="{kind}" points="{points}"/>')
    parts += [
        f'<text class="faint" x="4" y="14">{escape(what)}</text>',
        _text(
            (left + right) / 2,
            base + 38,
            "strength of a hidden cause (factor of the odds)",
            "faint",
        ),
    ]
    label = (
        "What is left of the gain, at least, against the factor by which a hidden cause changes the"
        f" odds of actions: {show(curve[0]['gain_at_least'])} at 1,"
        f" {show(curve[-1]['gain_at_least'])} at {curve[-1]['strength']:.3g}"
    )
    return _svg(WIDE, base + 46, label, parts)


@dataclass(frozen=True)
class Change:
    """One line of a forest plot: an estimate with its ends, which may be none, and the most that is
    allowed to be lost, as the axis has it.
    """

    name: str
    estimate: float
    low: float | None
    high: float | None
    limit: float | None = None


@dataclass(frozen=True)
class Panel:
    """Lines in one unit, named in the title; where `falls`, less is better."""

    title: str
    rows: Sequence[Change]
    show: Show
    falls: bool = False


def forest_picture(panels: Sequence[Panel]) -> Markup:
    """Changes with their intervals below each other, a scale for each unit; what is better stands
    to the right.
    """
    left, parts, y = 150, [], 0.0
    for panel in panels:
        turn = -1.0 if panel.falls else 1.0
        ends = [
            z
            for r in panel.rows
            for z in (r.estimate, r.low, r.high, r.limit)
            if z is not None and _finite(z)
        ]
        low, high = min(turn * z for z in (*ends, 0.0)), max(turn * z for z in (*ends, 0.0))
        room = (high - low) or 1.0
        low, high = min(low - 0.05 * room, -0.25 * room), max(high + 0.05 * room, 0.25 * room)

        def x(z: float, low: float = low, high: float = high, turn: float = turn) -> float:
            return round(left + (WIDE - 12 - left) * (turn * z - low) / (high - low), 1)

        y += 16
        bottom = y + 24 + 24 * len(panel.rows)
        parts += [
            f'<text class="strong" x="4" y="{y}">{escape(panel.title)}</text>',
            f'<text class="small faint" x="{x(0) - 6}" y="{y + 16}" text-anchor="end">worse</text>',
            f'<text class="small faint" x="{x(0) + 6}" y="{y + 16}">better</text>',
            f'<line class="zero" x1="{x(0)}" x2="{x(0)}" y1="{y + 6}" y2="{bottom}"/>',
            f'<line class="axis" x1="{left}" x2="{WIDE - 12}" y1="{bottom}" y2="{bottom}"/>',
        ]
        for i, row in enumerate(panel.rows):
            parts += _line(row, x, y + 36 + 24 * i, left)
        for z in ticks(low, high):
            at, words = x(turn * z), "0" if z == 0 else panel.show(turn * z)
            parts += [
                f'<line class="axis" x1="{at}" x2="{at}" y1="{bottom}" y2="{bottom + 4}"/>',
                f'<text class="small" x="{at}" y="{bottom + 16}" text-anchor="middle">{words}'
                "</text>",
            ]
        y = bottom + 24
    names = "; ".join(f"{p.title}: {', '.join(r.name for r in p.rows)}" for p in panels)
    return _svg(WIDE, y, f"Changes with their intervals. {names}; the table has the numbers", parts)


def _line(row: Change, x: Callable[[float], float], y: float, left: float) -> list[str]:
    """One line of a forest plot; an end that is not known reaches as far as the picture."""
    name = row.name if len(row.name) <= MOST_LETTERS else f"{row.name[: MOST_LETTERS - 1]}…"
    edges = (left, WIDE - 12.0) if x(1.0) > x(0.0) else (WIDE - 12.0, left)
    known = zip((row.low, row.high), edges, strict=True)
    low, high = (x(z) if z is not None and _finite(z) else edge for z, edge in known)
    parts = [
        f'<text x="4" y="{y + 4}">{escape(name)}</text>',
        f'<line class="bar" x1="{low}" x2="{high}" y1="{y}" y2="{y}"/>',
    ]
    if row.limit is not None:
        at = x(row.limit)
        parts.append(f'<line class="limit" x1="{at}" x2="{at}" y1="{y - 9}" y2="{y + 9}"/>')
    return [*parts, f'<circle class="dot" cx="{x(row.estimate)}" cy="{y}" r="5"/>']


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two ends, 0 among them where it lies there."""
    rough = (high - low) / most
    if not rough > 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(k * power for k in (1, 2, 5, 10) if k * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def _finite(z: float | None) -> bool:
    return z is not None and math.isfinite(z)


def path_picture(path: Sequence[Mapping[str, Any]], show: Show = signed_number) -> Markup:
    """A difference over the episodes (dashed), between what it was known to be at least and at
    most.
    """
    left, right, top, base = 72, WIDE - 20, 16, 190
    last = path[-1]
    # early bounds are wide: the picture shows three times the last interval
    reach = 1.5 * (float(last["high"]) - float(last["low"])) or 1.0
    middle = (float(last["high"]) + float(last["low"])) / 2
    high, low = max(middle + reach, 0.0), min(middle - reach, 0.0)

    def x(episodes: float) -> float:
        return round(left + (right - left) * episodes / float(last["episodes"]), 1)

    def y(value: float) -> float:
        inside = min(max(value, low), high)
        return round(top + (base - top) * (high - inside) / (high - low), 1)

    lines = {
        name: [f"{x(p['episodes'])},{y(float(p[name]))}" for p in path]
        for name in ("low", "high", "estimate")
    }
    parts = [
        f'<polygon class="curve" points="{" ".join([*lines["low"], *lines["high"][::-1]])}"/>',
        f'<line class="axis" x1="{left}" x2="{right}" y1="{base}" y2="{base}"/>',
        *(f'<polyline class="line" points="{" ".join(lines[k])}"/>' for k in ("low", "high")),
        f'<polyline class="line dashed" points="{" ".join(lines["estimate"])}"/>',
        f'<line class="zero" x1="{left}" x2="{right}" y1="{y(0)}" y2="{y(0)}"/>',
    ]
    told = -math.inf
    for value in sorted({0.0, float(last["low"]), float(last["high"])}, reverse=True):
        if abs(y(value) - told) >= 13:
            told, words = y(value), "0" if value == 0 else show(value)
            parts.append(f'<text x="{left - 8}" y="{told + 4}" text-anchor="end">{words}</text>')
    for p in (path[len(path) // 2], last):
        parts.append(_text(x(p["episodes"]), base + 18, f"{p['episodes']:,}"))
        if p["began"]:
            parts.append(_text(x(p["episodes"]), base + 34, str(p["began"])[:10], "faint"))
    label = (
        f"The difference after {last['episodes']:,} episodes: {show(last['estimate'])},"
        f" at least {show(last['low'])}, at most {show(last['high'])}"
    )
    return _svg(WIDE, base + 46, label, parts)


def shares_picture(rows: Sequence[tuple[str, float, float]], label: str) -> Markup:
    """(name, the baseline's share, the candidate's), below each other."""
    left, tall = 192, 30
    room = WIDE - left - 46
    parts = []
    for i, (name, baseline, candidate) in enumerate(rows):
        y = 6 + tall * i
        parts.append(f'<text x="{left - 8}" y="{y + 16}" text-anchor="end">{escape(name)}</text>')
        for k, (kind, share) in enumerate((("was", baseline), ("new", candidate))):
            at, wide = y + 11 * k, max(room * share, 0.5)
            parts.append(
                f'<rect class="{kind}" x="{left}" y="{at}" width="{wide:.1f}" height="9"/>'
                f'<text class="small" x="{left + wide + 4:.1f}" y="{at + 9}">'
                f"{percent(share)}</text>"
            )
    return _svg(WIDE, 8 + tall * len(rows), label, parts)


def _scale(values: Sequence[float], width: float) -> Callable[[float], float]:
    """Where values stand on an axis that shows all of them."""
    lowest, highest = min(values), max(values)
    room = 0.05 * (highest - lowest) or 1.0
    lowest, highest = lowest - room, highest + room
    return lambda z: round(12 + (width - 24) * (z - lowest) / (highest - lowest), 1)


def _wide(words: str) -> float:
    """About how wide a text is."""
    return 7.2 * len(words)


def _text(x: float, y: float, words: str, name: str = "") -> str:
    """A text centred at x, moved where it would leave the picture."""
    half = min(_wide(words), WIDE) / 2
    at = min(max(x, half), WIDE - half)
    return f'<text class="{name}" x="{at:.1f}" y="{y}" text-anchor="middle">{escape(words)}</text>'


@dataclass(frozen=True)
class Places:
    """Where states lie: the names of two or three axes, the marks along each, and the place of each
    state, as indices of these.
    """

    names: Sequence[str]
    marks: Sequence[Sequence[str]]
    at: Sequence[tuple[int, ...]]


def places(states: Sequence[StateRecord], columns: Sequence[str] = ()) -> Places | None:
    """By the numbers in their labels, or by the ranges; None where there are no two or three of
    them, or too many places.
    """
    if len(states) < 4:
        return None
    found = _by_numbers(states, columns) or _by_ranges(states)
    if found is None or len(set(found.at)) < len(found.at):
        return None
    sizes = [len(x) for x in found.marks]
    small = all(2 <= n <= MOST_PLACES for n in sizes[:2]) and all(
        n <= MOST_PANELS for n in sizes[2:]
    )
    return found if small else None


def _by_numbers(states: Sequence[StateRecord], columns: Sequence[str]) -> Places | None:
    """Where all labels are made of the same words around the numbers."""
    if len({NUMBER.sub("#", state.label) for state in states}) != 1:
        return None
    found = [tuple(float(x) for x in NUMBER.findall(state.label)) for state in states]
    if not 2 <= len(found[0]) <= 3:
        return None
    names = list(columns) if len(columns) == len(found[0]) else axis_names(states[0])
    return _places(names, found, lambda x: f"{x:g}")


def _by_ranges(states: Sequence[StateRecord]) -> Places | None:
    """Where labels are ranges of measurements, as `discretize` names them."""
    read = [ranges_of(state.label) or () for state in states]
    names = {tuple(x.name for x in parts) for parts in read}
    if len(names) != 1 or not 2 <= len(read[0]) <= 3:
        return None
    return _places(list(next(iter(names))), read, lambda x: x.mark)


def _places(
    names: Sequence[str], found: Sequence[tuple[Any, ...]], mark: Callable[[Any], str]
) -> Places:
    ends = [sorted(set(axis)) for axis in zip(*found, strict=True)]
    at = [tuple(axis.index(x) for axis, x in zip(ends, values, strict=True)) for values in found]
    return Places(names, [[mark(x) for x in axis] for axis in ends], at)


def axis_names(state: StateRecord) -> list[str]:
    """What the coordinates are called: the word before each number, else its place."""
    words = [x.strip(" =:,;()[]_-") for x in NUMBER.split(state.label)]
    names = [word.split()[-1] if word.split() else "" for word in words[:-1]]
    return [name or f"coordinate {i + 1}" for i, name in enumerate(names)]


def maps(
    states: Sequence[StateRecord], columns: Sequence[str], actions: Sequence[str]
) -> list[Picture]:
    """The states at their places, with the actions in this order; a panel for each value of a third
    coordinate.
    """
    where = places(states, columns)
    if where is None:
        return []
    bars = len(actions) <= MOST_BARS
    panels = [("", list(range(len(states))))]
    if len(where.names) == 3:
        panels = [
            (f"{where.names[2]}: {mark}. ", [i for i, at in enumerate(where.at) if at[2] == k])
            for k, mark in enumerate(where.marks[2])
        ]
    found: list[Picture] = []
    for title, chosen in panels:
        picture = _panel(where, [(where.at[i], states[i]) for i in chosen], actions if bars else [])
        words = (
            f"Bars in each place: {', '.join(actions)}, from left to right; outlined under the"
            " baseline, filled under the candidate. "
            if bars and not found
            else ""
        )
        caption = f"{title}{words}The darker a place, the more of its decisions change."
        found.append(Picture(picture, caption))
    return found


def _panel(
    where: Places,
    states: Sequence[tuple[tuple[int, ...], StateRecord]],
    actions: Sequence[str],
) -> Markup:
    """One map: the first coordinate to the right, the second upwards."""
    (xs, ys), names = where.marks[:2], where.names
    widest = max(map(len, xs))
    side = 56 if actions and len(xs) <= 12 else 34 if actions else 18
    side = min(max(side, 7 * widest if len(xs) <= 12 else 0), max(12, 900 // len(xs)))
    left, top = 26 + max(30, 7 * max(map(len, ys))), 10
    width, height = left + side * len(xs) + 10, top + side * len(ys) + 44
    parts = []
    for at, state in states:
        x, y = left + side * at[0], top + side * (len(ys) - 1 - at[1])
        shade = 0.55 * state.moved
        parts.append(
            f"<g><title>{escape(state.label[:200])}: {percent(state.moved)} of decisions change,"
            f" {state.visits:,} visits</title>"
            f'<rect class="grid" x="{x}" y="{y}" width="{side}" height="{side}"'
            f' style="fill:rgba(var(--tint),{shade:.2f})"/>{_bars(state, actions, x, y, side)}</g>'
        )
    every = max(1, -(-max(28, 7 * widest) // side))
    for i, mark in enumerate(xs[::every]):
        parts.append(
            f'<text x="{left + side * (every * i + 0.5)}" y="{height - 26}"'
            f' text-anchor="middle">{escape(mark)}</text>'
        )
    for i, mark in enumerate(ys):
        parts.append(
            f'<text x="{left - 8}" y="{top + side * (len(ys) - i - 0.5) + 4}"'
            f' text-anchor="end">{escape(mark)}</text>'
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
    size = f' class="natural" width="{width}" height="{height}"' if natural else ' class="stretch"'
    return Markup(
        f'<svg viewBox="0 0 {width} {height}"{size} role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )
