"""Pictures in the house style, drawn into axes of your own or new ones.

    import surefoot
    ax = surefoot.plot.policy_difference(surefoot.load_policy("improved/policy.csv"))
    ax.figure.savefig("difference.svg")

Each function takes `ax=None` and returns the axes. Lines differ in dashes and markers, fillings in
lightness, so that nothing rests on colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.advice.learn_and_test import Advice
from surefoot.algorithms import algorithm as by_name
from surefoot.algorithms.improvement import improve
from surefoot.core.errors import PolicyError, ProblemError
from surefoot.core.labels import as_text
from surefoot.evidence import Sensitivity
from surefoot.evidence.bound import Certificate
from surefoot.logs import Log
from surefoot.logs.given_policies import own_policy
from surefoot.planning import evaluate_at_start
from surefoot.problems import Problem
from surefoot.report.style import FAINT, SPARE, in_style
from surefoot.research.figures import draw_metric
from surefoot.research.studies.results import SummaryRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OLD, NEW = "#9A9A9A", "#0060A8"
SEEN = ((0, 0), (1, 1), (2, 3), (4, 10), (11, 30), (31, 100), (101, None))


def curve(
    rows: Sequence[SummaryRow],
    metric: str = "mean",
    *,
    baseline: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The mean (or "cvar") of a study over the size of the data, a line a setting, with intervals;
    `rows` are those of `surefoot.research.studies.results.summary_rows` or of a summary.csv.
    """
    if metric not in ("mean", "cvar"):
        raise ProblemError(f'metric is "mean" or "cvar", got {metric!r}')
    with in_style(ax) as found:
        draw_metric(found, rows, metric, baseline=baseline)
        found.legend()
        return found


def ecdf(
    scores: Mapping[str, Sequence[float]], *, baseline: float | None = None, ax: Axes | None = None
) -> Axes:
    """The share of trials that score at most so much, a line for each name."""
    with in_style(ax) as found:
        for (name, x), (colour, dashes, _) in zip(scores.items(), cycle(SPARE), strict=False):
            found.ecdf(np.asarray(x, dtype=float), label=name, color=colour, linestyle=dashes)
        if baseline is not None:
            found.axvline(baseline, color=FAINT, linewidth=0.9, linestyle=(0, (4, 3)))
            found.annotate("baseline", (baseline, 1.01), ha="center", fontsize=8, color=FAINT)
        found.set(xlabel="performance", ylabel="share of trials at or below")
        found.legend()
        return found


def coverage(log: Log | Problem, *, ax: Axes | None = None) -> Axes:
    """How often the pairs of visited states and actions were seen: how many pairs, and how many of
    the log's rows they are.
    """
    n = np.asarray(log.n_sa, dtype=float)
    n = n[n.sum(axis=-1) > 0].reshape(-1)
    shares = []
    for low, high in SEEN:
        inside = n[(n >= low) & (n <= (np.inf if high is None else high))]
        shares.append((len(inside) / max(len(n), 1), inside.sum() / max(n.sum(), 1)))
    names = ["never", "1", "2–3", "4–10", "11–30", "31–100", "> 100"]
    place = np.arange(len(names))
    with in_style(ax) as found:
        for i, (name, colour) in enumerate((("pairs", OLD), ("rows of the log", NEW))):
            found.bar(place + 0.4 * i - 0.2, [x[i] for x in shares], 0.38, label=name, color=colour)
        found.set_xticks(place, names)
        found.set(xlabel="times seen", ylabel="share")
        found.legend()
        return found


def policy_difference(policy: Any, *, most: int = 12, ax: Axes | None = None) -> Axes:
    """The states that change most, with their probabilities under the baseline and the policy: a
    solution, a Policy or the file of one.
    """
    policy = own_policy(policy)
    if policy.baseline is None:
        raise PolicyError(
            "this policy has no baseline beside it: take a solution, or policy.csv of surefoot"
            " improve"
        )
    acts = policy.pi.any(axis=1)  # nobody does in a terminal state
    moved = np.where(acts, 0.5 * np.abs(policy.pi - policy.baseline).sum(axis=1), 0.0)
    order = [s for s in np.argsort(-moved, kind="stable")[:most] if moved[s] > 0]
    actions = [as_text(x) for x in policy.labels.actions] or list(
        map(str, range(policy.pi.shape[1]))
    )
    shades = np.linspace(0.2, 0.9, len(actions))
    with in_style(ax) as found:
        from matplotlib import colormaps

        for row, s in enumerate(order):
            for shift, pi in ((-0.2, policy.baseline[s]), (0.2, policy.pi[s])):
                left = np.concatenate([[0.0], np.cumsum(pi)[:-1]])
                for a, (x, wide) in enumerate(zip(left, pi, strict=True)):
                    colour = colormaps["cividis"](shades[a])
                    label = actions[a] if row == 0 and shift < 0 else None
                    found.barh(row + shift, wide, 0.36, left=x, color=colour, label=label)
        found.set_yticks(range(len(order)), [policy.labels.state(s).strip("'") for s in order])
        found.invert_yaxis()
        found.set(xlabel="probability: above the baseline, below the policy", xlim=(0, 1))
        found.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4)
        return found


def epsilon_path(
    problem: Problem,
    name: str = "priced-soft-spibb",
    epsilons: Iterable[float] = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.4, 2.0, 3.0),
    *,
    ax: Axes | None = None,
    **parameters: Any,
) -> Axes:
    """What a larger budget buys in the model of the log, and how many decisions it changes.

    The gain is in sample: the policies were made from these data. Pairs never seen count as the
    worst there.
    """
    visits = np.asarray(problem.n_sa).sum(axis=1)
    base = float(evaluate_at_start(problem.model, problem.pi_b, problem.start))
    points: list[tuple[float, float, float]] = []
    for epsilon in epsilons:
        pi = np.asarray(improve(problem, by_name(name, epsilon=epsilon, **parameters)).pi)
        moved = 0.5 * np.abs(pi - problem.pi_b).sum(axis=1)
        worth = float(evaluate_at_start(problem.model, pi, problem.start)) - base
        points.append((epsilon, worth, float(moved @ visits / visits.sum())))
    x, gain, share = zip(*points, strict=True)
    with in_style(ax) as found:
        found.plot(x, gain, color=NEW, marker="o", label="gain in sample")
        found.set(xlabel="epsilon", ylabel="gain at the start", xscale="log")
        beside = found.twinx()
        beside.plot(x, share, color=OLD, marker="s", linestyle="--", label="decisions changed")
        beside.set(ylabel="share of decisions", ylim=(0, 1))
        lines = [*found.get_lines(), *beside.get_lines()]
        found.legend(lines, [str(line.get_label()) for line in lines])
        return found


def certificates(
    found: Mapping[int, Certificate], *, gain: float | None = None, ax: Axes | None = None
) -> Axes:
    """Certified bounds against the size of the log; above 0 a bound proves an improvement."""
    sizes = sorted(found)
    with in_style(ax) as axes:
        axes.plot(sizes, [found[n].bound for n in sizes], color=NEW, marker="o", label="bound")
        axes.axhline(0, color=FAINT, linewidth=0.9, linestyle=(0, (4, 3)), label="as the baseline")
        if gain is not None:
            axes.axhline(gain, color=OLD, linewidth=1.2, linestyle=":", label="true gain")
        axes.set(xlabel="rows of the log", ylabel="gain, at least", xscale="log")
        axes.legend()
        return axes


def sensitivity(found: Sensitivity | Advice, *, ax: Axes | None = None) -> Axes:
    """What is left of a gain, at least, if a hidden cause multiplies or divides the odds of actions
    by up to so much; `found` is the `sensitivity` of an advice, or the advice.
    """
    known = found.sensitivity if isinstance(found, Advice) else found
    if known is None or not known.curve:
        why = "there is no gain to explain away" if known is None else known.not_given
        raise ProblemError(f"no sensitivity to a hidden cause: {why}")
    x, bound, low = zip(
        *((g, row.estimate, row.low) for g, row in known.curve.items()), strict=True
    )
    with in_style(ax) as axes:
        axes.plot(x, bound, color=NEW, marker="o", label="gain, at least")
        axes.plot(x, low, color=NEW, linestyle="--", label="with sampling error (5 %)")
        axes.axhline(0, color=FAINT, linewidth=0.9, linestyle=(0, (4, 3)))
        axes.set(xlabel="odds of actions changed by up to", ylabel="gain at the start")
        axes.set_xscale("log")
        ticks = [t for t in (1, 1.5, 2, 3, 5, 10, 20, 50, 100) if t <= max(*x, 1.5)]
        axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
        axes.minorticks_off()
        axes.legend()
        return axes
