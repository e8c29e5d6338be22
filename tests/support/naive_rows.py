"""The row problems one row at a time, as they are told on paper: the sweep and the greedy
trade.

`best_rows` and `trade_rows` do the same in all rows at once, and are tested against these. Rows
are sequences of numbers of any kind: with fractions the answers are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

Row = Sequence[Any]


class Event(NamedTuple):
    """Mass goes from one action to another: all that has moved (a step), or that of a donor (a
    gift). gain and cost are those of a unit of mass.
    """

    gain: Any
    cost: Any
    mass: Any
    giver: int
    taker: int
    step: bool


def sweep_events(q: Row, b: Row, up: Row, down: Row) -> Iterator[Event]:
    """The events of the sweep in order of gain / cost, each to be performed in full.

    All mass moved so far sits in one receiver k, at first the cheapest. Next comes the step of all
    of it from k to a better receiver, or the gift of a worse donor to k, whichever gains more for
    its cost (what costs nothing comes first).
    """
    receivers = [c for c in range(len(q)) if up[c] < math.inf]
    donors = [a for a in range(len(q)) if down[a] < math.inf and b[a] > 0]
    if not receivers:
        return
    k, moved = min(receivers, key=lambda c: (up[c], -q[c])), 0 * b[0]

    def slope(event: Event) -> tuple[Any, Any]:
        other = event.taker if event.step else event.giver
        return event.gain / event.cost if event.cost else math.inf, q[other]

    while True:
        steps = [
            Event(q[c] - q[k], up[c] - up[k], moved, k, c, True)
            for c in receivers
            if q[c] - q[k] > 0
        ]
        gifts = [
            Event(q[k] - q[a], down[a] + up[k], b[a], a, k, False)
            for a in donors
            if q[k] - q[a] > 0
        ]
        if not steps and not gifts:
            return
        event = max(steps + gifts, key=slope)
        yield event
        if event.step:
            k = event.taker
        else:
            donors.remove(event.giver)
            moved += event.mass


def sweep_one_row(q: Row, b: Row, up: Row, down: Row, budget: Any) -> tuple[list[Any], Any]:
    """(pi, price) of `best_rows`: perform the events until the budget is spent."""
    pi, left = list(b), budget
    for gain, cost, mass, giver, taker, _ in sweep_events(q, b, up, down):
        part = 1 if cost * mass <= left else left / (cost * mass)
        pi[giver], pi[taker] = pi[giver] - part * mass, pi[taker] + part * mass
        left -= part * cost * mass
        if part < 1:
            return pi, gain / cost
    return pi, 0


def trade_one_row(
    q: Row,
    b: Row,
    e: Row,
    epsilon: float,
    *,
    lower: bool = False,
    w: Row | None = None,
    may_rise: Sequence[bool] | None = None,
    published: bool = False,
    lowest_index: bool = False,
) -> list[float]:
    """The row of `trade_rows`: donors in increasing q, to receivers in decreasing gain / e."""
    actions, pi, left, account = range(len(q)), list(b), epsilon, 0.0
    for donor in sorted(actions, key=lambda a: q[a]):
        offer = pi[donor] if lower else min(pi[donor], _share(left, 2 * e[donor]))
        gain = [x - q[donor] for x in q]
        # The most gain a unit of error first; where there is no error, by the gain.
        rank = [
            (-g / x, 0.0) if x > 0 else (-g * math.inf if g else 0.0, -g)
            for g, x in zip(gain, e, strict=True)
        ]
        order = sorted(actions, key=rank.__getitem__)
        for r in order[: order.index(donor)]:
            if (may_rise is not None and not may_rise[r]) or not (lowest_index or gain[r] > 0):
                continue
            m = min(offer, _share(left, e[r] if lower else 2 * e[r]))
            more = 0.0 if w is None else w[r] - w[donor]
            if more < 0:  # the advantage account is not overdrawn
                m = min(m, account / -more)
            if m <= 0:
                continue
            account = max(account + more * m, 0.0)
            pi[donor], pi[r] = pi[donor] - m, pi[r] + m
            left = max(left - m * (e[r] + (0 if lower else e[donor])), 0.0)
            offer -= m
            if not (published or lower):
                offer = min(offer, _share(left, 2 * e[donor]))
    return pi


def _share(budget: float, e: float) -> float:
    """How much mass the budget pays for; without a budget none, even if it costs nothing."""
    return 0.0 if budget == 0 else (budget / e if e > 0 else math.inf)
