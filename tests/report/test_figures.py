"""The figures: the same bytes each time, told apart in grey, nothing hidden without a note."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

import matplotlib
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from surefoot.core.errors import ProblemError
from surefoot.report.style import STYLES, save
from surefoot.research.figures import Share, assumption_1_figure, study_figure
from surefoot.research.studies.results import SummaryRow


def row(
    benchmark: str,
    size: int,
    algorithm: str,
    parameters: str,
    mean: float,
    cvar: float,
    reach: float,
) -> SummaryRow:
    return SummaryRow(
        benchmark=benchmark,
        size=size,
        algorithm=algorithm,
        parameters=parameters,
        trials=10_000,
        mean=mean,
        mean_low=mean - 0.02,
        mean_high=mean + 0.02,
        cvar=cvar,
        cvar_low=cvar - reach,
        cvar_high=cvar + reach,
        worse_than_baseline=0.0,
        not_converged=0,
    )


def rows(
    low: float = 0.0, benchmark: str = "random-mdps", names: tuple[str, ...] = tuple(STYLES)
) -> list[SummaryRow]:
    """Curves close together, Basic RL `low` below them at the smallest size."""
    made = []
    for i, size in enumerate((10, 100, 1000)):
        for j, name in enumerate(names):
            value = 0.2 * i + 0.01 * j - (low if name == "basic-rl" and i == 0 else 0.0)
            made.append(row(benchmark, size, name, "", value, value, 0.1))
    return made


def figures() -> list[Figure]:
    shares = [
        Share(gamma, size, 0.5, int(size > 10)) for gamma in (0.5, 0.9) for size in (10, 20, 50)
    ]
    return [
        study_figure(rows(5.0), baseline=0.0),
        assumption_1_figure(shares),
    ]


def words(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(matplotlib.text.Text))


def test_a_figure_drawn_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for one, two in zip(figures(), figures(), strict=True):
        for a, b in zip(save(one, tmp_path / "one"), save(two, tmp_path / "two"), strict=True):
            assert a.read_bytes() == b.read_bytes()


def test_svg_and_png_are_written_and_nothing_else(tmp_path: Path) -> None:
    save(study_figure(rows()), tmp_path / "figures" / "random-mdps")
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [
        "random-mdps.png",
        "random-mdps.svg",
    ]
    assert b"<dc:date>" not in (tmp_path / "figures" / "random-mdps.svg").read_bytes()


def test_the_user_s_own_settings_neither_matter_nor_change(tmp_path: Path) -> None:
    plain, _ = save(study_figure(rows()), tmp_path / "plain")
    with matplotlib.rc_context({"font.size": 30.0, "lines.linewidth": 9.0, "svg.hashsalt": "mine"}):
        other, _ = save(study_figure(rows()), tmp_path / "other")
        assert matplotlib.rcParams["font.size"] == 30.0
    assert plain.read_bytes() == other.read_bytes()


def test_curves_differ_in_marker_and_those_of_equal_dashes_in_lightness() -> None:
    def lightness(colour: str) -> float:
        return sum(
            weight * part
            for weight, part in zip((0.2126, 0.7152, 0.0722), to_rgb(colour), strict=True)
        )

    assert len({style.marker for style in STYLES.values()}) == len(STYLES)
    for a, b in combinations(STYLES.values(), 2):
        assert a.dashes != b.dashes or abs(lightness(a.colour) - lightness(b.colour)) > 0.04, (
            a.label,
            b.label,
        )


def test_a_curve_far_below_is_clipped_and_named() -> None:
    made = study_figure(rows(5.0))
    assert "below the axis: Basic RL at 10 (down to -5)" in words(made)
    assert made.axes[0].get_ylim()[0] > -1


def test_nothing_is_clipped_without_need() -> None:
    made = study_figure(rows(0.1))
    assert "below the axis" not in words(made)
    assert made.axes[0].get_ylim()[0] < -0.1


def test_the_baseline_is_always_in_view() -> None:
    made = study_figure(rows(), baseline=-3.0)
    assert made.axes[0].get_ylim()[0] < -3.0
    assert "Baseline" in words(made)


def test_a_cvar_that_no_cell_reports_has_no_panel_and_one_that_some_do_has() -> None:
    short = row("random-mdps", 10, "ramdp", "", 0.1, float("nan"), 0.1)
    (panel,) = study_figure([short]).axes
    assert panel.get_title(loc="left") == "Mean of the performance"
    assert len(study_figure([short, row("random-mdps", 20, "ramdp", "", 0.1, 0.0, 0.1)]).axes) == 2


def test_settings_of_one_algorithm_get_their_own_lines() -> None:
    made = [row("x", 10, "ramdp", f"kappa={k}", 0.1, 0.1, 0.1) for k in (1, 2)]
    assert "ramdp kappa=1" in words(study_figure(made))
    assert "ramdp kappa=2" in words(study_figure(made))


def test_a_figure_of_two_benchmarks_or_none_is_refused() -> None:
    with pytest.raises(ProblemError, match="one benchmark"):
        study_figure([*rows(), *rows(benchmark="wet-chicken")])
    with pytest.raises(ProblemError, match="no rows"):
        study_figure([])
    with pytest.raises(ProblemError, match="at least one"):
        assumption_1_figure([])


def test_a_field_without_a_decisive_data_set_carries_no_number() -> None:
    made = assumption_1_figure([Share(0.5, 10, 0.0, 0), Share(0.5, 20, 0.25, 4)])
    assert ".25" in words(made)
    assert "hatched" in words(made)
    assert "\n0\n" not in words(made)


def test_matplotlib_is_loaded_when_drawing_and_pyplot_never() -> None:
    code = (
        "import sys, surefoot.research.figures as f; assert 'matplotlib' not in"
        " sys.modules;f.assumption_1_figure([f.Share(0.5, 10, 0.5, 9)]); assert 'matplotlib.pyplot'"
        " not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
