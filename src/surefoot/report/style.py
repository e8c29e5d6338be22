"""How figures look: styles that can be told apart in grey, files with the same bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from surefoot.core.atomic import write_whole
from surefoot.core.errors import NotAvailableError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Style:
    """Label, colour, dashes and marker of one line."""

    label: str
    colour: str
    dashes: Any
    marker: str

    @property
    def line(self) -> dict[str, Any]:
        """As keywords of Axes.plot."""
        from matplotlib import rcParams

        size = rcParams["lines.markersize"] * (4 / 3 if self.marker == "*" else 5 / 6)
        return {
            "color": self.colour,
            "linestyle": self.dashes,
            "marker": self.marker,
            "markersize": size,
        }


# Dashed and warm: the action value is penalised. Solid and cool: the policies are restricted.
# Dotted and black: neither. Within a class the colours differ in lightness; Okabe and Ito's
# palette, darkened or lightened, is safe for the colour-blind.
STYLES: Mapping[str, Style] = MappingProxyType(
    {
        "basic-rl": Style("Basic RL", "#000000", (0, (1, 1.6)), "X"),
        "ramdp": Style("RaMDP", "#D55E00", (0, (6, 2)), "^"),
        "r-min": Style("R-MIN", "#E69F00", (0, (3, 1.5)), "v"),
        "duipi": Style("DUIPI", "#8C1C4B", (0, (6, 1.5, 1.5, 1.5)), "P"),
        "pi-b-spibb": Style("$\\Pi_b$-SPIBB", "#8A8A8A", "-", "o"),
        "pi-leq-b-spibb": Style("$\\Pi_{\\leq b}$-SPIBB", "#56B4E9", "-", "s"),
        "approx-soft-spibb": Style("Approx-Soft-SPIBB", "#009E73", "-", "D"),
        "adv-approx-soft-spibb": Style("Adv-Approx-Soft-SPIBB", "#00507D", "-", "<"),
        "lower-approx-soft-spibb": Style("Lower-Approx-Soft-SPIBB", "#3A0CA3", "-", "*"),
    }
)
SPARE = (
    ("#4D4D4D", (0, (4, 1, 1, 1)), "h"),
    ("#0072B2", (0, (2, 1)), "p"),
    ("#CC79A7", (0, (5, 1)), "d"),
    ("#6B8E23", "-.", ">"),
    ("#B8860B", ":", "H"),
)
FAINT = "#666666"
MISSING = "figures need matplotlib: pip install matplotlib"
SETTINGS: Mapping[str, Any] = MappingProxyType(
    {
        "font.family": ["DejaVu Sans"],
        "font.size": 9.0,
        "axes.titlesize": 10.0,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.8,
        "axes.unicode_minus": True,
        "legend.frameon": False,
        "svg.hashsalt": "surefoot",
        "svg.fonttype": "none",
        "path.simplify": True,
    }
)


def style_of(name: str, known: Mapping[str, Style], spare: int) -> Style:
    """The style of a name; the spare-th of the spare styles if it has none."""
    colour, dashes, marker = SPARE[spare % len(SPARE)]
    return known.get(name, Style(name, colour, dashes, marker))


@contextmanager
def figure(
    width: float, height: float, rows: int, columns: int, **keywords: Any
) -> Iterator[tuple[Figure, Sequence[Axes]]]:
    """An empty figure with its panels in reading order, in the settings above."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NotAvailableError(MISSING) from error
    with _settings():
        made = Figure(figsize=(width, height), layout="constrained")
        yield made, list(made.subplots(rows, columns, squeeze=False, **keywords).flat)


@contextmanager
def in_style(ax: Axes | None) -> Iterator[Axes]:
    """These axes, or new ones, with the settings above."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise NotAvailableError(MISSING) from error
    with _settings():
        yield pyplot.subplots(layout="constrained")[1] if ax is None else ax


def save(made: Figure, stem: str | Path) -> tuple[Path, Path]:
    """Write stem.svg and stem.png, without a date: equal figures give equal bytes."""
    paths = []
    with _settings():
        for ending, metadata in (
            (".svg", {"Date": None, "Creator": "surefoot"}),
            (".png", {"Software": "surefoot"}),
        ):
            content = io.BytesIO()
            made.savefig(content, format=ending[1:], dpi=160, metadata=metadata)
            paths.append(write_whole(f"{stem}{ending}", content.getvalue()))
    return paths[0], paths[1]


@contextmanager
def _settings() -> Iterator[None]:
    """Matplotlib's defaults with the settings above, whatever the user's own are."""
    import matplotlib

    chosen: dict[Any, Any] = {**matplotlib.rcParamsDefault, **SETTINGS}
    chosen.pop("backend")  # not a matter of looks; setting it would load one
    with matplotlib.rc_context(chosen):
        yield
