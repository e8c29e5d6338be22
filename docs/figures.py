"""Make the figures of the documentation.

    python docs/figures.py        (writes docs/figures/*.svg; seconds)

Those of idea.md come from simulated logs whose truth is known: worth is the value in the true
river, at its start, gamma = 0.95. Those of plots.md are made by the code of that page.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import ConvexHull

import make_logs
import surefoot
from surefoot.algorithms import ALGORITHMS, Estimates, Restricts, parts
from surefoot.algorithms.defaults import PARAMETERS
from surefoot.planning import best_rows
from surefoot.report.style import SETTINGS
from surefoot.research.benchmarks import WetChicken
from surefoot.research.simulate import Sampler, first_key

OUT = Path(__file__).parent / "figures"
LOGS, STEPS = 2000, 1000
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#555555"  # told apart by the colour-blind and in grey
DEFAULT = surefoot.algorithm("priced-soft-spibb", **PARAMETERS["priced-soft-spibb"])


def save(figure: plt.Figure, name: str) -> None:
    """An SVG that is the same in every run."""
    figure.savefig(OUT / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def line() -> None:
    """From the log to the verdict."""
    figure, ax = plt.subplots(figsize=(7.6, 2.2))
    boxes = {
        "log": (0, 1, "the log of\nyour baseline"),
        "learn": (2.2, 1.55, "a random half\nmakes a policy"),
        "test": (2.2, 0.45, "the other half\ntests it, once"),
        "yes": (4.9, 1.55, "SUPPORTED\npolicy.csv: the new policy"),
        "no": (4.9, 0.45, "NOT SUPPORTED\npolicy.csv: the baseline"),
    }
    for key, (x, y, words) in boxes.items():
        colour = {"yes": BLUE, "no": ORANGE}.get(key, GREY)
        style = {"boxstyle": "round,pad=0.5", "fc": "white", "ec": colour, "lw": 1.5}
        ax.text(x, y, words, ha="center", va="center", bbox=style)
    for start, end in (("log", "learn"), ("log", "test"), ("test", "yes"), ("test", "no")):
        (x0, y0, _), (x1, y1, _) = boxes[start], boxes[end]
        ax.annotate(
            "",
            (x1 - (0.68 if end in ("learn", "test") else 1.15), y1),
            (x0 + 0.66, y0),
            arrowprops={"arrowstyle": "->", "color": GREY},
        )
    ax.annotate("", (2.2, 0.78), (2.2, 1.22), arrowprops={"arrowstyle": "->", "color": GREY})
    ax.set(xlim=(-0.8, 6.2), ylim=(0, 2))
    ax.axis("off")
    save(figure, "line")


def luck() -> None:
    """The true worth of policies learned from many logs of the same river."""
    river = WetChicken()
    keys = first_key(0, river.name, np.arange(LOGS))
    worlds = river.worlds(keys)
    ((counts, returns),) = Sampler(worlds).counts(
        keys, (river.episodes(STEPS),), with_returns=False
    )
    problem = worlds.problem(counts, returns)
    figure, axes = plt.subplots(2, 1, figsize=(7.2, 3.6), sharex=True, sharey=True)
    methods = {
        "believe every count (basic-rl)": (surefoot.BasicRL(), ORANGE),
        "leave the baseline at a price (priced-soft-spibb)": (DEFAULT, BLUE),
    }
    was, best = float(worlds.rho_b[0]), float(worlds.rho_star[0])
    for ax, (name, (algorithm, colour)) in zip(axes, methods.items(), strict=True):
        value = np.asarray(worlds.value(surefoot.improve(problem, algorithm).pi))
        ax.hist(value, bins=np.arange(12, 44.5, 0.5), color=colour)
        ax.axvline(was, color="black", ls="--")
        worse, tail = np.mean(value < was - 1e-9), np.sort(value)[: LOGS // 100].mean()
        said = (
            f"mean {value.mean():.1f}, worst 1 %: {tail:.1f}, worse than the baseline: {worse:.1%}"
        )
        ax.set_title(f"{name}\n{said}", loc="left", fontsize=10)
        ax.set_ylabel("logs")
        print(name, said)
    axes[0].text(was - 0.3, axes[0].get_ylim()[1], "baseline", va="top", ha="right")
    axes[1].set_xlabel(f"true worth of the policy learned from a log (best possible: {best:.1f})")
    figure.tight_layout()
    save(figure, "luck")


def row() -> None:
    """Two states of the shipped log: the baseline's row, the new one, values and counts."""
    data = Path(surefoot.__file__).parent / "data"
    problem = surefoot.problem(
        data / "wet_chicken.csv",
        gamma=0.95,
        pi_b=data / "wet_chicken_rule.csv",
        reward_range=(0, 4),
    )
    solution = surefoot.improve(problem, DEFAULT)
    figure, axes = plt.subplots(2, 1, figsize=(7.2, 4.6), sharey=True)
    for ax, state in zip(axes, ("x=2 y=2", "x=4 y=2"), strict=True):
        s = problem.labels.states.index(state)
        rows, place = (problem.pi_b[s], solution.pi[s]), np.arange(problem.n_actions)
        ax.bar(place - 0.2, rows[0], 0.38, label="baseline", color="#bbbbbb", edgecolor=GREY)
        ax.bar(place + 0.2, rows[1], 0.38, label="new policy", color=BLUE)
        seen = zip(problem.labels.actions, problem.n_sa[s], solution.q[s], strict=True)
        ax.set_xticks(place, [f"{a}\nvalue {q:.2f}\n{n:g} visits" for a, n, q in seen])
        ax.set_title(f"state {state}", loc="left", fontsize=10)
        ax.set(ylabel="probability", ylim=(0, 1.05))
    axes[0].legend(frameon=False)
    figure.tight_layout()
    save(figure, "row")


def trust() -> None:
    """What four restrictions allow in one state with three actions, and the best of it."""
    b, q, n = np.array([0.5, 0.3, 0.2]), np.array([1.0, 1.7, 1.5]), np.array([30.0, 5.0, 20.0])
    e, free = np.sqrt(2 / n * np.log(6)), np.where(n > 10, 0.0, np.inf)
    panels = {
        "pi-b-spibb": (free, free, 0.0),
        "pi-leq-b-spibb": (free, 0 * e, 0.0),
        "exact-soft-spibb": (e, e, 0.25),
        "lower-exact-soft-spibb": (e, 0 * e, 0.25),
    }
    corners = np.array([[0.0, 0.0], [0.5, 0.87], [1.0, 0.0]])
    grid = np.array([(i, j, 200 - i - j) for i in range(201) for j in range(201 - i)]) / 200
    figure, axes = plt.subplots(1, 4, figsize=(9.6, 2.7), layout="constrained")
    for ax, (name, (up, down, budget)) in zip(axes, panels.items(), strict=True):
        move = grid - b
        raised, lowered = np.maximum(move, 0), np.maximum(-move, 0)
        cost = raised @ np.minimum(up, 1e12) + lowered @ np.minimum(down, 1e12)
        allowed = grid[cost <= budget + 1e-3] @ corners
        ax.fill(*corners.T, fc="none", ec=GREY, lw=1)
        ends = allowed[[0, -1]] if name == "pi-b-spibb" else allowed[ConvexHull(allowed).vertices]
        ax.fill(*ends.T, fc="#9ecae1", ec=BLUE, lw=1.5)
        best = best_rows(q, b, up, down, budget).pi
        ax.annotate(
            "",
            best @ corners,
            b @ corners,
            arrowprops={"arrowstyle": "->", "color": ORANGE, "lw": 2},
        )
        ax.plot(*(b @ corners), "o", color="black", ms=5)
        for (x, y), words in zip(corners, ("1", "2", "3"), strict=True):
            ax.text(x, y + (0.06 if y else -0.06), words, ha="center", va="center")
        ax.set_title(name, fontsize=10)
        ax.set(xlim=(-0.08, 1.08), ylim=(-0.12, 1.0), aspect="equal")
        ax.axis("off")
    save(figure, "trust")


def product() -> None:
    """Estimate x restriction: what has a name of its own, and what a + makes."""
    own = ALGORITHMS
    limits = [x for x in own if issubclass(own[x], Restricts) and not x.startswith("one-step")]
    values = [x for x in own if issubclass(own[x], Estimates) and not issubclass(own[x], Restricts)]
    named = {("basic-rl", x) for x in limits} | {(x, "") for x in ("basic-rl", *values)}
    named = named - {("basic-rl", "priced-soft-spibb")} | {("shrunk", "priced-soft-spibb")}
    figure, ax = plt.subplots(figsize=(8.4, 4.6), layout="constrained")
    for row, value in enumerate(("basic-rl", *values)):
        for column, limit in enumerate(("", *limits)):
            if (value, limit) in named:
                ax.plot(column, row, "o", ms=9, color=BLUE)
            elif value != "basic-rl" and len(parts(f"{value}+{limit}")) == 2:
                ax.plot(column, row, "o", ms=9, mfc="white", mec=GREY)
    ax.set_xticks(range(1 + len(limits)), ["no restriction", *limits], rotation=40, ha="left")
    words = [
        "maximum likelihood",
        *(f"{x}, mean returns" if x == "one-step" else x for x in values),
    ]
    ax.set_yticks(range(len(words)), words)
    ax.xaxis.tick_top()
    ax.invert_yaxis()
    ax.set_ylabel("what is an action worth?")
    ax.set_xlabel("how far may each probability move?")
    ax.plot([], [], "o", ms=9, color=BLUE, label="has a name of its own")
    ax.plot([], [], "o", ms=9, mfc="white", mec=GREY, label="join the two names by +")
    figure.legend(loc="outside lower right", ncols=2)
    save(figure, "product")


TREE: dict[str, Any] = {
    "safe policy improvement\nby uncertainty": {
        "it lowers the value\nof uncertain actions": {
            "RaMDP": {},
            "DUIPI": {},
            "R-MIN (of R-MAX)": {},
        },
        "it restricts the policies\nthat can be learned": {
            "HCPI": {},
            "Robust MDP": {},
            "SPIBB": {"$\\Pi_b$-SPIBB": {}, "$\\Pi_{\\leq b}$-SPIBB": {}},
            "Soft-SPIBB": {
                "Exact-Soft-SPIBB": {},
                "Approx-Soft-SPIBB": {},
                "Adv-Approx-Soft-SPIBB (the paper's)": {},
                "Lower-Approx-Soft-SPIBB (the paper's)": {},
            },
        },
    }
}


def tree() -> None:
    """Figure 1 of Scholl et al. 2022: every algorithm of its related work in its place."""
    figure, ax = plt.subplots(figsize=(8.4, 4.2))
    places = iter(range(100))

    def put(branch: dict[str, Any], depth: int, colour: str) -> list[float]:
        """Draw the entries of a branch, from their leaves; where they stand."""
        heights = []
        for i, (words, below) in enumerate(branch.items()):
            ours = (ORANGE, BLUE)[i] if depth == 1 else colour
            children = put(below, depth + 1, ours)
            y = float(np.mean(children)) if children else float(next(places))
            at = (0.0, 2.0, 4.3, 5.6)[depth]
            end = (0.0, 2.0, 4.3, 5.6, 0.0)[depth + 1]
            for child in children:
                ax.plot([at, end - 0.5, end], [y, child, child], color=ours, lw=1.2, zorder=0)
            style = {"boxstyle": "round,pad=0.3", "fc": "white", "ec": ours}
            ax.text(at, y, words, ha="left", va="center", bbox=style)
            heights.append(y)
        return heights

    put(TREE, 0, GREY)
    ax.set(xlim=(-0.1, 8.4), ylim=(10.7, -0.7))
    ax.axis("off")
    save(figure, "tree")


def river() -> None:
    """Figure 4 of Scholl et al. 2022: stream, turbulence and waterfall of Wet Chicken."""
    world = WetChicken()
    figure, ax = plt.subplots(figsize=(7.2, 4.2))
    ax.add_patch(plt.Rectangle((4.5, -0.5), 0.8, 5, fc="#d6eaf5", ec=BLUE, hatch="|||", lw=0))
    ax.text(5.42, 2, "waterfall: back to the start", rotation=270, va="center", color=BLUE)
    for s in range(world.n_states):
        x, y = divmod(s, world.width)
        ax.add_patch(plt.Rectangle((x - 0.5, y - 0.5), 1, 1, fc="none", ec="#cccccc", lw=0.6))
    for y in range(world.width):
        stream = world.max_velocity * y / world.width
        rough = world.turbulence - stream
        ax.annotate(
            "",
            (-1.0, y),
            (-1.0 - stream, y),
            arrowprops={"arrowstyle": "->", "lw": 2, "color": BLUE},
        )
        ax.plot([-6.6, -6.6 + rough], [y, y], color=ORANGE, lw=5, alpha=0.75, solid_capstyle="butt")
        ax.text(-1.15 - stream, y, f"{stream:.1f}", ha="right", va="center", color=BLUE)
        ax.text(-6.5 + rough, y, f"{rough:.1f}", va="center", color=ORANGE)
    ax.text(-2.2, -0.95, "stream v", ha="center", color=BLUE)
    ax.text(-5.6, -0.95, "turbulence b", ha="center", color=ORANGE)
    ax.plot(0, 0, "s", ms=13, mfc="white", mec="black")
    ax.text(0, 0, "start", ha="center", va="center", fontsize=6)
    ax.plot(2, 2, "*", ms=13, color="black")
    ax.text(2, 1.6, "the baseline steers here", ha="center", va="center", fontsize=7)
    ax.set_xticks(range(5), [f"x = {x}" for x in range(5)])
    ax.set_yticks(range(5), [f"y = {y}" for y in range(5)])
    ax.tick_params(length=0)
    ax.set(xlim=(-7.4, 5.8), ylim=(4.6, -1.3))
    for side in ax.spines.values():
        side.set_visible(False)
    save(figure, "river")


def counterexample() -> None:
    """Figure 2 of Scholl et al. 2022: the MDP of Theorem 3, with n ends."""
    figure, ax = plt.subplots(figsize=(5.2, 2.6))
    circle = {"boxstyle": "circle,pad=0.5", "fc": "white", "ec": GREY, "lw": 1.4}
    end = circle | {"ec": BLUE}
    ax.text(0, 1, "0", ha="center", va="center", bbox=circle)
    for y, words in ((2, "1"), (1.33, "2"), (0, "n")):
        ax.annotate("", (2.75, y), (0.2, 1), arrowprops={"arrowstyle": "->", "color": GREY})
        ax.text(1.75, 1 + (y - 1) * 0.62 + 0.12, "1/n", ha="center", color=GREY)
        ax.text(3, y, words, ha="center", va="center", bbox=end)
    ax.text(3, 0.66, "...", ha="center", va="center", rotation=90)
    ax.text(
        3.35, 1, "n ends: on average each has\none n-th of the visits to 0", va="center", color=BLUE
    )
    ax.set(xlim=(-0.4, 5.6), ylim=(-0.4, 2.4))
    ax.axis("off")
    save(figure, "counterexample")


def results() -> None:
    """Figures 3 and 5 of Scholl et al. 2022, made again: 10,000 trials each."""
    folder = Path(__file__).parents[1] / "papers" / "scholl2022"
    for number, name in ((3, "random-mdps"), (5, "wet-chicken")):
        shutil.copy(folder / name / "figure.svg", OUT / f"paper-{number}.svg")


def plots() -> None:
    """Run the code of plots.md, and keep the figures that it saves, without their date."""
    page = (Path(__file__).parent / "plots.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        make_logs.main()
        for language, code in re.findall(r"^```(toml|python)\n(.*?)^```$", page, re.M | re.S):
            if language == "toml":
                Path(code.split("\n")[0].removeprefix("# ")).write_text(code, encoding="utf-8")
            else:
                exec(compile(code, "plots.md", "exec", dont_inherit=True), names)
        for path in Path().glob("*.svg"):
            dated = path.read_text(encoding="utf-8")
            path.write_text(re.sub(r" *<dc:date>.*?</dc:date>\n", "", dated), encoding="utf-8")
            shutil.copy(path, OUT)


def main() -> None:
    """All of them."""
    OUT.mkdir(exist_ok=True)
    with mpl.rc_context(dict(SETTINGS)):
        line()
        row()
        luck()
        trust()
        product()
        tree()
        river()
        counterexample()
        results()
        plots()


if __name__ == "__main__":
    main()
