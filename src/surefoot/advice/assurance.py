"""Assurance: the certificate that fits an algorithm, and a safety test of what it makes of half the episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.advice.safety import FAILS, NO_EVIDENCE, PASSES, SafetyTest, rows_of, safety_summary, safety_test, split_sample
from surefoot.algorithms.hcpi import standard_of
from surefoot.certificates import RIGOROUS, Certificate, certify
from surefoot.core import Solution
from surefoot.errors import NotAvailableError, SurefootError
from surefoot.improvement import improve
from surefoot.ope.episodes import split_episodes
from surefoot.problems import Problem

DELTA = 0.05  # of a certificate whose algorithm has no failure probability of its own, and of the safety test
ENOUGH_EPISODES = 100  # from so many on half of them make a policy and the other half test it
TESTED = "a policy made in the same way from a random half of the episodes, tested on the other half; not the one in policy.csv"
WORST_CASE_STATES = 100  # the worst case over more states takes long: not unasked
LARGE = "the problem is large (its counts are sparse): ask surefoot.certify and surefoot safety-test for it"


@dataclass(frozen=True)
class Assurance:
    """A certificate of the candidate and a safety test, or why there is none; `refused` are bounds that came first and did not apply."""

    certificate: Certificate | None
    no_certificate: str
    refused: tuple[str, ...]
    test: SafetyTest | None
    no_test: str


def fitting(algorithm: Any) -> tuple[tuple[str, dict[str, Any]], ...]:
    """(certificate, its parameters) that an algorithm's policy may meet, to be tried in turn; of a composed one, by its trust.

    What restricts by returns has a bound on returns, what plans with the worst case its worst case. The Soft-SPIBB bound on the model
    (Theorem 2 of Nadjahi et al. 2019) is wrong, and DUIPI's holds for fresh data only: "advantage" bounds any policy whatever.
    """
    part = getattr(algorithm, "restrict", algorithm)
    name, anything = part.name, ("advantage", {"delta": DELTA, "error": "mpeb"})
    if "certified-advantage" in name:
        return (("certified-advantage", {"delta": part.delta, "error": part.error, "visits": part.visits}),)
    if name in ("robust", "mbie"):
        return ((name, {"delta": DELTA}),)
    if name == "pi-b-spibb":
        return (("spibb", {"delta": DELTA}),)
    if name.startswith(("adv-", "one-step-")):
        return (("theorem-1", {"delta": DELTA, "error": "mpeb"}), anything)
    return (anything,)


def assure(problem: Problem, solution: Solution, algorithm: Any, *, doubt: str = "", seed: int = 0) -> Assurance:
    """The certificate of a solution, and the safety test of its algorithm; neither where there is doubt that pi_b made the log."""
    if problem.counts.is_sparse or doubt:
        return Assurance(None, doubt or LARGE, (), None, doubt or LARGE)
    certificate, refused = None, []
    for method, parameters in fitting(algorithm):
        try:
            if method in ("robust", "mbie") and problem.n_states > WORST_CASE_STATES:
                raise NotAvailableError(
                    f"{method}: the worst case over {problem.n_states} states takes long: ask surefoot.certify for it"
                )
            certificate = certify(problem, solution, method, **parameters)
            break
        except SurefootError as error:
            refused.append(str(error))
    try:
        test, why = half_test(problem, algorithm, seed=seed), ""
    except SurefootError as error:
        test, why = None, str(error)
    return Assurance(certificate, "" if certificate else refused.pop(), tuple(refused), test, why)


def half_test(problem: Problem, algorithm: Any, *, seed: int = 0) -> SafetyTest:
    """Make a policy of a random half of the episodes, and test it on the other half; the tested policy has seen nothing of it."""
    log = rows_of(problem)
    if log.n_episodes < ENOUGH_EPISODES:
        raise NotAvailableError(
            f"the log has {log.n_episodes:,} episode{'s' if log.n_episodes != 1 else ''}; from {ENOUGH_EPISODES} on half of them test "
            "what the other half makes"
        )
    training, _ = split_episodes(log, np.random.default_rng(seed), 0.5)
    pi = np.asarray(improve(problem.with_log(training), algorithm).pi)
    return safety_test(*split_sample(problem, pi, 0.5, seed), problem.gamma, standard_of(problem, DELTA, "pdis", "betting"))


def assurance_summary(found: Assurance | None) -> dict[str, Any]:
    """Certificate and safety test as data for machines."""
    if found is None:
        return {"certificate": None, "safety_test": None}
    c = found.certificate
    certificate: dict[str, Any] = {"not_given": found.no_certificate}
    if c is not None:
        certificate = {
            "method": c.method, "bounded": c.bounded, "bound": c.bound, "delta": c.delta, "label": c.label, "useful": c.useful,
            "vacuous": c.vacuous, "states_changed": c.changed, "samples_smallest": c.n_smallest, "samples_typical": c.n_typical,
            "rows_needed": c.data_needed, "rows_needed_why": c.data_needed_why, "assumptions": list(c.assumptions),
            "notes": list(c.notes),
        }  # fmt: skip
    test = {"not_given": found.no_test} if found.test is None else {"of": TESTED} | safety_summary(found.test)
    return {"certificate": certificate | {"refused_before": list(found.refused)}, "safety_test": test}


def assurance_lines(summary: Mapping[str, Any]) -> list[str]:
    """The same in words."""
    c, t = summary["certificate"], summary["safety_test"]
    if c is None:
        return []
    if "not_given" in c:
        lines = [f"certified nothing: {c['not_given']}"]
    elif c["bound"] is None or np.isinf(c["bound"]):
        lines = [f"certified nothing ({c['method']}: VACUOUS): it moves probability of pairs whose value no return in the log bounds"]
    else:
        words = f"{c['bounded']} >= {c['bound']:.4g} with probability {1 - c['delta']:g} ({c['method']}; {c['label']})"
        lines = [f"certified {words}:", f"          {_worth(c)}"]
    if "not_given" in t:
        return [*lines, f"tested    nothing: {t['not_given']}"]
    word = {PASSES: "PASSES, it is better", FAILS: "FAILS, it is WORSE", NO_EVIDENCE: "no evidence, better or worse"}[t["verdict"]]
    low = f"{t['gain_at_least']:+.4g}" if t["gain_at_least"] is not None and np.isfinite(t["gain_at_least"]) else "(no bound)"
    return [
        *lines,
        f"tested    {word}: gain at least {low} on {t['episodes_tested']:,} episodes (effectively {t['effective_episodes']:.0f}), delta "
        f"{t['delta']:g}",
        f"          {t['of']}",
    ]


def _worth(c: Mapping[str, Any]) -> str:
    """What a bound is worth, plainly."""
    if c["useful"]:
        return "USEFUL, it is proved to be no worse" if c["label"] == RIGOROUS else "USEFUL if its assumptions hold: it is no worse then"
    if not c["states_changed"]:
        return "the policy is the baseline"
    needed = c["rows_needed"]
    more = "no growth of this log would do" if needed is None or np.isinf(needed) else f"about {needed:.2g} rows would do"
    return f"VACUOUS, it says no more than the range of returns; {more}" if c["vacuous"] else f"not useful, it may be worse; {more}"
