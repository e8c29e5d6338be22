"""What the counts alone say of a log: size, how well the baseline is covered, rare pairs, dead
ends, states with one action, independent returns, and whether a given baseline made the log.
"""

from __future__ import annotations

import numpy as np

from surefoot.checks.finding import BASELINE, DOUBTFUL, LEVEL, NOTE, OK, WARNING, Finding, named
from surefoot.core import Policy
from surefoot.core.labels import as_text
from surefoot.core.text import plural
from surefoot.logs import Log, disagreement
from surefoot.problems.montecarlo import separation

FEW = (1, 3, 10)  # the baseline's decisions are counted on pairs seen fewer times
REACHED = (3, 10, 30, 100)  # pairs seen at least so often are counted
# A larger share of the baseline's mass on rarely seen pairs, or of the rows in states without
# alternative, is worth a note.
THIN = 0.1


def size(log: Log) -> Finding:
    """Rows, episodes, states, actions, triples."""
    cells = log.counts.n_sas
    numbers = {
        "rows": log.accounting.rows,
        "used": log.accounting.used,
        "left_out": dict(log.accounting.left_out),
        "episodes": log.n_episodes,
        "ended": log.n_ended,
        "states": log.n_states,
        "actions": log.n_actions,
        "pairs": int((log.n_sa > 0).sum()),
        "triples": int(cells.nnz if log.counts.is_sparse else np.count_nonzero(cells)),
        "rewards": list(log.rewards),
    }
    episodes = (
        ""
        if log.n_episodes is None
        else f" in {plural(log.n_episodes, 'episode')} ({log.n_ended:,} reached an end)"
    )
    sentence = (
        f"{plural(log.accounting.used, 'step')}{episodes}, {plural(log.n_states, 'state')} x"
        f" {plural(log.n_actions, 'action')}, {numbers['pairs']:,} pairs seen; rewards from"
        f" {log.rewards[0]:g} to {log.rewards[1]:g}"
    )
    return Finding("size", OK, sentence, numbers)


def coverage(log: Log, baseline: Policy) -> Finding:
    """The baseline's mass on pairs seen fewer than 1, 3, 10 times.

    sum_s n(s)/n sum_a pi_b(a|s) [n(s, a) < k].
    """
    n_sa = log.n_sa
    visits = n_sa.sum(axis=1, keepdims=True)
    weight = visits / visits.sum() * baseline.pi
    mass = {k: float(weight[n_sa < k].sum()) for k in FEW}
    never, *rest = (f"{mass[k]:.1%}" for k in FEW)
    rarely = ", ".join(f"{x} fewer than {k} times" for x, k in zip(rest, FEW[1:], strict=True))
    shares = f"{never} of the baseline's decisions were never seen in the log, {rarely}"
    how = (
        " (it is estimated from this log, so it never does what was never seen)"
        if baseline.estimated and not baseline.smoothing
        else ""
    )
    level = WARNING if mass[1] > THIN else NOTE if mass[10] > THIN else OK
    numbers = {
        "mass_below": {str(k): x for k, x in mass.items()},
        "estimated": baseline.estimated,
        "smoothing": baseline.smoothing,
    }
    return Finding("coverage", level, f"{shares}{how}", numbers)


def rare(log: Log) -> Finding:
    """How many pairs reach 3, 10, 30, 100 visits, and the share of rows in pairs seen once or
    twice.
    """
    n = log.n_sa[log.n_sa > 0]
    reached = {k: int((n >= k).sum()) for k in REACHED}
    few = int((n < 3).sum())
    share = float(n[n < 3].sum() / n.sum())
    parts = ", ".join(f"{count:,} at least {k}" for k, count in reached.items())
    sentence = (
        f"of {len(n):,} pairs seen, {parts} times; {few:,} once or twice ({share:.1%} of the steps)"
    )
    numbers = {
        "pairs": len(n),
        "reached": {str(k): x for k, x in reached.items()},
        "once_or_twice": few,
        "share_of_steps": share,
    }
    return Finding("rare pairs", NOTE if few > len(n) / 2 else OK, sentence, numbers)


def dead_ends(log: Log) -> Finding:
    """States that were entered, are not terminal, and in which nobody ever acted."""
    cells = log.counts.n_sas
    total = cells.sum(axis=0) if log.counts.is_sparse else cells.sum(axis=(0, 1))
    arrivals = np.asarray(total).reshape(-1)
    dead = np.flatnonzero((log.n_sa.sum(axis=1) == 0) & (arrivals > 0) & ~log.terminal)
    dead = dead[np.argsort(-arrivals[dead], kind="stable")]
    steps = int(arrivals[dead].sum())
    numbers = {
        "states": len(dead),
        "steps": steps,
        "worst": [[as_text(log.states[s]), int(arrivals[s])] for s in dead[:5]],
    }
    if not len(dead):
        words = "in every state that was entered somebody acted, or the episode ended"
        return Finding("dead ends", OK, words, numbers)
    sentence = (
        f"{plural(len(dead), 'state')} entered ({plural(steps, 'step')}) but never acted in:"
        f" {named([log.states[s] for s in dead])}; a policy learns nothing there. If episodes end"
        " there, flag the steps as terminal or name the states with --terminal-states"
    )
    return Finding("dead ends", WARNING, sentence, numbers)


def alternatives(log: Log) -> Finding:
    """States in which the log shows one action only."""
    tried = (log.n_sa > 0).sum(axis=1)
    single, visited = int((tried == 1).sum()), int((tried > 0).sum())
    share = float(log.n_sa[tried == 1].sum() / log.n_sa.sum())
    numbers = {"states": visited, "one_action": single, "share_of_steps": share}
    if single == visited:
        words = "nothing to learn from: the log never tried an alternative"
        return Finding("alternatives", WARNING, words, numbers)
    sentence = (
        f"{single:,} of {plural(visited, 'visited state')} show one action only ({share:.1%} of the"
        " steps)"
    )
    return Finding("alternatives", NOTE if share > THIN else OK, sentence, numbers)


def independent(log: Log, thinned: np.ndarray, gamma: float) -> Finding:
    """How many returns are left when those of a pair that overlap are dropped."""
    kept, seen = int(thinned.sum()), int(log.n_sa.sum())
    apart = separation(gamma) if gamma < 1 else None
    reached = {k: int((thinned >= k).sum()) for k in REACHED}
    how = (
        "the first visits of each pair in an episode"
        if apart is None
        else f"visits of a pair more than {apart} steps apart"
    )
    parts = ", ".join(f"{count:,} pairs have at least {k}" for k, count in reached.items())
    sentence = (
        f"{kept:,} returns are nearly independent at gamma = {gamma:g} ({how}; {kept / seen:.1%} of"
        f" the steps): {parts}"
    )
    numbers = {
        "independent": kept,
        "steps": seen,
        "gamma": gamma,
        "separation": apart,
        "reached": {str(k): x for k, x in reached.items()},
    }
    return Finding("independent returns", NOTE if kept < seen / 2 else OK, sentence, numbers)


def tried(log: Log, baseline: Policy) -> Finding:
    """Does a log that others may have made try what a given baseline does?"""
    visits = log.n_sa.sum(axis=1, keepdims=True)
    share = float((visits / visits.sum() * baseline.pi)[log.n_sa == 0].sum())
    numbers = {"mass_never_tried": share}
    words = f"{share:.1%} of its decisions are actions that the log never shows in their state"
    if share <= THIN:
        sentence = f"the propensities say who made the log, not the baseline; {words}"
        return Finding("baseline", OK, sentence, numbers, BASELINE)
    sentence = (
        f"the value of the baseline cannot be told from this log: {words}. Give a log that tries"
        " what the baseline does, or compare with what made the log (leave out --baseline)"
    )
    return Finding("baseline", WARNING, sentence, numbers, BASELINE, True)


def agreement(log: Log, baseline: Policy) -> Finding:
    """Can a given baseline have made the log?"""
    found = disagreement(log, baseline)
    worst = [[as_text(s), p, k] for s, p, k in found.worst()]
    numbers = {"impossible": found.impossible, "p_value": found.p_value, "worst": worst}
    if not found.impossible and found.p_value >= LEVEL:
        words = f"the actions of the log agree with the baseline (p = {found.p_value:.2g})"
        return Finding("baseline", OK, words, numbers, BASELINE)
    if not found.impossible and found.p_value >= DOUBTFUL:
        words = (
            f"the actions of the log agree with the baseline only roughly (p = {found.p_value:.2g}:"
            f" at most one in {1 / found.p_value:.0f} logs that it makes looks like this, or worse)"
            f"; worst in {named([x[0] for x in worst])}"
        )
        return Finding("baseline", NOTE, words, numbers, BASELINE)
    steps = plural(found.impossible, "step")
    impossible = f"{steps} took an action of probability 0, " if found.impossible else ""
    sentence = (
        f"the baseline did not make this log: {impossible}p = {found.p_value:.2g}; worst in"
        f" {named([x[0] for x in worst])}. Give the policy that did"
    )
    return Finding("baseline", WARNING, sentence, numbers, BASELINE, True)
