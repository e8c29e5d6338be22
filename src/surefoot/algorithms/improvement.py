"""`problem`: from a log or arrays to a Problem; `improve`: from there to a better policy."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from surefoot.algorithms import algorithm as by_name
from surefoot.algorithms.algorithm import Algorithm, solve
from surefoot.algorithms.conventions import conventions_of
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.core import FilePath, Policy, PolicyLike, RowsLike, Solution, Status
from surefoot.core.arrays import Array, namespace, row_sum
from surefoot.core.errors import ParameterError, PolicyError, ProblemError
from surefoot.problems import Problem
from surefoot.problems import problem as of_arrays

if TYPE_CHECKING:
    from surefoot.logs import Log, OfRows

RANGES = ("reward_range", "return_range")
SLACK = 1e-9  # what rounding may do to a probability


def problem(
    source: Log | RowsLike | None = None,
    *,
    gamma: float | None = None,
    pi_b: PolicyLike | OfRows | None = None,
    start: Hashable | ArrayLike | Mapping[Any, float] = None,
    allowed: FilePath | ArrayLike | None = None,
    forbidden: FilePath | ArrayLike | None = None,
    reward_range: Sequence[float] | None = None,
    return_range: Sequence[float] | None = None,
    reward_table: ArrayLike | None = None,
    unseen_states: str | None = None,
    ties: str | None = None,
    conventions: str | None = None,
    masked_baseline: str = "error",
    cut_returns: str | int = "as-end",
    needs_returns: bool | None = None,
    baseline_policy: Hashable = None,
    exploration: float = 0.0,
    **log: Any,
) -> Problem:
    """The Problem of a log: a file, a folder, a table, a Log; or, without `source`, of arrays.

    source                CSV or Parquet files, a folder, a pandas, polars or Arrow table, columns
                          by name, or what `read_log` returned; `log` are the options of `read_log`,
                          such as state="ward,bed" or episode_end="terminal"
    without source        `log` are arrays with one entry a step: state, action, reward, next_state,
                          episode, time, terminal, truncated, and n_states, n_actions,
                          terminal_states, sparse (see `surefoot.problems.problem`)
    gamma                 the discount factor in [0, 1]; 1 needs a return_range. Needed, unless the
                          file says it, or bandit=True (then it is 0)
    pi_b                  the baseline: the path of a policy file, a Policy, a table with one row a
                          pair (state, action, probability) or one column an action, {state:
                          {action: probability}}, a function from a state's label (its id) to
                          {action: probability}: by labels; an array [S, A]; or `OfRows`: one of raw
                          rows; None estimates it from the log and marks the problem as such
    start                 a state's label (of arrays: its id), or a distribution over states, taken
                          as known (default: where the episodes started, an estimate)
    allowed, forbidden    masks [S, A], or paths of files, of the actions that may, and must not,
                          be used
    reward_range, return_range  (low, high), declared, of returns from any state on; else
                          observed, and noted as an assumption
    reward_table          [S'], [S, S'] or [S, A, S'], where known
    unseen_states, ties   "first-action", "lowest-index": as the published code; "baseline", the
                          default, keeps it
    conventions           "scholl2022" sets both as the published code has them
    masked_baseline       "renormalise" takes forbidden actions out of the baseline
    cut_returns           how Monte-Carlo returns treat cut episodes, see `surefoot.monte_carlo`
    needs_returns         of a log: see `Log.problem`
    baseline_policy       of a log of several policies (`policy` names their column): the label of
                          the one to improve on, in place of pi_b
    exploration           of a log, where pi_b is a rule: the probability with which it takes any
                          allowed action instead, at random

    >>> import surefoot
    >>> steps = {"episode": [0, 0, 0], "state": ["low", "high", "high"],
    ...          "action": ["up", "stay", "up"], "reward": [0.0, 1.0, 0.0],
    ...          "next_state": ["high", "high", "low"]}
    >>> surefoot.problem(steps, gamma=0.9, reward_range=(0, 1)).labels.states
    ('high', 'low')
    """
    declared: dict[str, Any] = {
        "start": start,
        "allowed": allowed,
        "forbidden": forbidden,
        "reward_range": reward_range,
        "return_range": return_range,
        "reward_table": reward_table,
        **conventions_of(conventions).problem,
        **{k: v for k, v in (("unseen_states", unseen_states), ("ties", ties)) if v is not None},
        "masked_baseline": masked_baseline,
        "cut_returns": cut_returns,
    }
    if source is None:
        if baseline_policy is not None:
            raise ProblemError("baseline_policy names a policy of a log: give the log as source")
        return of_arrays(gamma=_needed(gamma), pi_b=pi_b, **declared, **log)
    from surefoot.logs import Log, OfRows, averaged, permitted, read_log
    from surefoot.logs.description import described
    from surefoot.logs.given_policies import policy_for, with_exploration

    asked = {x: declared.pop(x) for x in ("start", "allowed", "forbidden", *RANGES)} | {
        "gamma": gamma,
        "baseline": pi_b,
        "baseline_policy": baseline_policy,
        "renormalise": masked_baseline == "renormalise",
        "exploration": exploration,
        "smoothing": 0.0,
    }
    source, log, asked = described(source, log, asked)
    if asked.pop("renormalise"):
        declared["masked_baseline"] = "renormalise"
    if isinstance(source, Log) and isinstance(pi_b, OfRows):
        raise ProblemError("a Log has no raw rows any more: give the file or table to OfRows")
    if isinstance(source, Log) and log:
        raise ProblemError(f"a Log is read already: {', '.join(log)} belong to read_log")
    actions = log.pop("actions", None)
    read = source if isinstance(source, Log) else read_log(source, actions=actions, **log)
    if isinstance(pi_b, OfRows):
        asked["baseline"] = averaged(pi_b, source, read)
    given, of = (asked.pop(x) for x in ("baseline", "baseline_policy"))
    smoothing, noise = (asked.pop(x) for x in ("smoothing", "exploration"))
    if noise:
        mask = permitted(read, asked["allowed"], asked["forbidden"])
        given = None if given is None else policy_for(given, read)
        given = with_exploration(given, noise, read, mask)
    if smoothing and given is None:
        given, of = _smoothed(read, of, smoothing, asked["allowed"], asked["forbidden"]), None
    gamma = _needed(asked.pop("gamma"), read.bandit)
    return read.problem(
        gamma, given, **asked, **declared, needs_returns=needs_returns, baseline_policy=of
    )


def _needed(gamma: float | None, bandit: bool = False) -> float:
    """The discount factor; 0 in a log of one step an episode."""
    if gamma is None and not bandit:
        raise ProblemError("gamma must be given: the discount factor, such as gamma=0.95")
    return 0.0 if gamma is None else gamma


def _smoothed(log: Log, policy: Any, smoothing: float, allowed: Any, forbidden: Any) -> Policy:
    """The baseline that is estimated from a log, or from the rows of one of its policies, with
    something added to every count.
    """
    from surefoot.logs import permitted
    from surefoot.logs.given_policies import baseline_of

    mask = permitted(log, allowed, forbidden)
    if policy is not None:
        return baseline_of(log, policy, smoothing, mask)
    return log.estimated_baseline(smoothing, mask)


def improve(problem: Problem, algorithm: Algorithm | str | None = None) -> Solution:
    """Improve the baseline of a problem, or of a batch of them, with an algorithm or its name;
    without one, with the default of `surefoot improve`.

    What comes back was checked: rows are probabilities, no forbidden action is used, no pair never
    seen has become more likely than under the baseline (but for unseen_states="first-action"). Look
    at `.status` and `.notes` before you use `.pi`.
    """
    if not isinstance(problem, Problem):
        raise ProblemError(
            f"improve needs a Problem (see surefoot.problem), got {type(problem).__name__}"
        )
    if algorithm is None:
        algorithm = chosen_algorithm(problem)
    if isinstance(algorithm, str):
        algorithm = by_name(algorithm)
    if not isinstance(algorithm, Algorithm):
        raise ParameterError(
            f"improve needs an algorithm or its name (see surefoot.algorithm), got {algorithm!r}"
        )
    parts = [_checked(block, algorithm, solve(block, algorithm)) for block in problem.blocks]
    xp = namespace(problem.pi_b)
    shape, batch = problem.pi_b.shape, problem.batch_shape

    def joined(arrays: list[Array], to: tuple[int, ...]) -> Array:
        return xp.reshape(arrays[0] if len(arrays) == 1 else xp.concat(arrays, axis=0), to)

    converged = joined([p.status.converged for p in parts], batch)
    status = Status(converged, joined([p.status.steps for p in parts], batch))
    notes = problem.notes + tuple(dict.fromkeys(note for p in parts for note in p.notes))
    if not status.ok:
        notes += (
            "the iteration did not converge: the policy is its last iterate, not its fixed point",
        )
    # Copies: nobody else's memory. What rounding left below 0, a policy file could not hold.
    pi = xp.maximum(joined([p.pi for p in parts], shape), xp.zeros_like(problem.pi_b))
    q = xp.asarray(joined([p.q for p in parts], shape), copy=True)
    labelled = None if batch else problem.policy_of(pi)
    return Solution(pi, q, status, algorithm=algorithm, notes=notes, labelled=labelled)


def _checked(problem: Problem, algorithm: Algorithm, solution: Solution) -> Solution:
    """The solution; raise unless it is a policy that keeps the promises every algorithm makes."""
    pi, q = solution.pi, solution.q
    xp = namespace(pi)
    for what, x in (("a policy", pi), ("values", q)):
        if tuple(x.shape) != tuple(problem.pi_b.shape):
            raise PolicyError(
                f"{algorithm.name} returned {what} of shape {tuple(x.shape)}, expected"
                f" {tuple(problem.pi_b.shape)}"
            )
    sound = xp.abs(pi) <= 2.0
    off = xp.abs(row_sum(xp.where(sound, pi, 0.0)) - 1)[..., None]
    acting = ~problem.terminal[..., None]
    wrong = {
        "is not a probability row": ~(sound & (pi >= -SLACK) & (off <= SLACK)),
        "has a value that is not a number": ~(xp.abs(q) < xp.inf),
        "uses a forbidden action": (pi > 0) & ~problem.allowed & acting,
    }
    if problem.unseen_states == "baseline":
        wrong["makes an action more likely that was never seen"] = (
            (pi > problem.pi_b + SLACK) & ~problem.seen & acting
        )
    for what, where in wrong.items():
        if bool(xp.any(where)):
            rows = xp.any(where, axis=-1)
            count = int(xp.sum(xp.astype(rows, xp.int64)))
            first = int(xp.argmax(xp.astype(xp.reshape(rows, (-1,)), xp.int8)))
            place = f"state {problem.labels.state(first % problem.n_states)}" + (
                f" of problem {first // problem.n_states}" if rows.shape[0] > 1 else ""
            )
            raise PolicyError(
                f"{algorithm.name} returned a row that {what}, first in {place} ({count} such"
                " rows): this is a fault of the algorithm, or of extreme parameters"
            )
    return solution
