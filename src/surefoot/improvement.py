"""`improve`: the one door from a problem to a better policy; it checks what comes back."""

from __future__ import annotations

from surefoot.algorithms import Algorithm, solve
from surefoot.algorithms import algorithm as by_name
from surefoot.core import Solution, Status
from surefoot.errors import ParameterError, PolicyError, ProblemError
from surefoot.problems import Problem
from surefoot.rows.arrays import Array, namespace, row_sum

SLACK = 1e-9  # what rounding may do to a probability


def improve(problem: Problem, algorithm: Algorithm | str) -> Solution:
    """Improve the baseline of a problem (or of a whole batch of problems) with an algorithm, given
    as such or by name.

    What comes back was checked: rows are probabilities, no forbidden action is used, no pair never
    seen has become more likely than under the baseline (but for unseen_states="first-action"). Look
    at `.status` and `.notes` before you use `.pi`.
    """
    if not isinstance(problem, Problem):
        raise ProblemError(
            f"improve needs a Problem (see surefoot.problem), got {type(problem).__name__}"
        )
    if isinstance(algorithm, str):
        algorithm = by_name(algorithm)
    if not isinstance(algorithm, Algorithm):
        raise ParameterError(
            f"improve needs an algorithm or its name (see surefoot.algorithm), got {algorithm!r}"
        )
    parts = []
    for block in problem.blocks:
        solution = solve(block, algorithm)
        _check(block, algorithm, solution)
        parts.append(solution)
    xp = namespace(problem.pi_b)
    shape, batch = problem.pi_b.shape, problem.batch_shape

    def joined(arrays: list[Array], to: tuple[int, ...]) -> Array:
        return xp.reshape(arrays[0] if len(arrays) == 1 else xp.concat(arrays, axis=0), to)

    status = Status(
        joined([p.status.converged for p in parts], batch),
        joined([p.status.steps for p in parts], batch),
    )
    notes = problem.notes + tuple(dict.fromkeys(note for p in parts for note in p.notes))
    if not status.ok:
        notes += (
            "the iteration did not converge: the policy is its last iterate, not its fixed point",
        )
    pi, q = (
        xp.asarray(joined(x, shape), copy=True)
        for x in ([p.pi for p in parts], [p.q for p in parts])
    )  # nobody else's memory
    policy = None if batch else problem.policy_of(pi)
    return Solution(pi, q, status, algorithm=algorithm, notes=notes, policy=policy)


def _check(problem: Problem, algorithm: Algorithm, solution: Solution) -> None:
    """Raise unless the solution is a policy that keeps the promises every algorithm makes."""
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
