"""Numbers, lists and tables as people read them."""

from __future__ import annotations

from surefoot.core.text import aligned, interval, plural, signed, some


def test_columns_are_as_wide_as_their_widest_cell_and_a_short_line_runs_on() -> None:
    lines = [("", "gain", "why"), ("soft", "+1.25", "yes"), ("b", "not available: too few rows")]
    assert aligned(lines, "<><") == [
        "       gain  why",
        "soft  +1.25  yes",
        "b     not available: too few rows",
    ]


def test_what_is_not_known_is_a_dash() -> None:
    assert (signed(None), signed(float("nan")), signed(0.5)) == ("-", "-", "+0.5")
    assert (interval(float("nan"), 1.0), interval(-0.25, 1.0)) == ("-", "[-0.25, +1]")


def test_one_thing_is_singular_and_long_lists_are_cut() -> None:
    assert (plural(1, "state"), plural(0, "state"), plural(1200, "state")) == (
        "1 state",
        "0 states",
        "1,200 states",
    )
    assert (some(["a", "b"], 2), some(["a", "b", "c"], 2)) == ("a, b", "a, b and 1 more")
