"""Make the figures of the documentation.

    python docs/figures.py        (writes docs/figures/*.svg; seconds)

Those of index.md come from simulated logs whose truth is known: worth is the value in the true
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

import make_logs
import surefoot
from surefoot.algorithms import ALGORITHMS, Estimates, Restricts, parts
from surefoot.algorithms.defaults import PARAMETERS
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
        product()
        plots()


if __name__ == "__main__":
    main()
