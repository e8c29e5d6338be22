"""What can be asked of a log, each question in one line: `check`, `advise`, `compare`,
`evaluate_policy`, `certify`. The commands call these, with the same words and defaults; tests of
whole episodes have a file of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Unpack

from surefoot.advice.answers import Answer, Paged
from surefoot.advice.assurance import assurance_summary, unless_contradicted
from surefoot.advice.few_changes import check_most
from surefoot.advice.learn_and_test import MADE_IT, Advice, findings_about, learn_and_test
from surefoot.advice.measurements import Making, Measured, posed_with_states
from surefoot.advice.posing import (
    GAMMA,
    Posed,
    Posing,
    Question,
    as_said,
    check_keywords,
    check_posing,
    check_tolerance,
    in_words,
    not_default,
    of_the_whole,
    policy_over,
    pose,
    posed_by_hand,
    read,
    save_description,
    several,
)
from surefoot.advice.provenance import own_log, refuse_own_log
from surefoot.advice.summary import cells_summary, gain_summary, log_summary
from surefoot.algorithms import ALGORITHMS, Algorithm, parameters_of
from surefoot.algorithms.defaults import DEFAULT, chosen_algorithm
from surefoot.algorithms.one_action import with_one_action
from surefoot.checks import Finding, check_log, vetoes
from surefoot.checks.finding import MARKOV, check_keys
from surefoot.checks.markov import enough_history
from surefoot.core import Policy
from surefoot.core.errors import BaselineError, NotAvailableError, ParameterError, option
from surefoot.core.text import aligned, plural
from surefoot.evidence.bound import Certificate
from surefoot.evidence.certificates import certify as certificate_of
from surefoot.evidence.units import units_of
from surefoot.evidence.value_on_log import evaluation
from surefoot.logs import Log, permitted
from surefoot.logs.database import Progress
from surefoot.logs.description import POSING
from surefoot.logs.given_policies import policy_for, with_exploration
from surefoot.problems import Problem
from surefoot.report.cell_words import cells_lines
from surefoot.report.log_words import against_a_promise, figure, in_unit, read_text
from surefoot.report.policy_words import LUCKY, certificate_statements, evaluation_statements
from surefoot.report.statements import text

MOST = 0.5  # a bound that is wrong more often than right is none
Told = Callable[[str, float, float], None]  # (what is being done, done, in all)


def silent(what: str, done: float, total: float) -> None:
    """No progress is shown."""


@dataclass(frozen=True, repr=False)
class Checked(Paged):
    """What a log can teach, and what in it speaks against a promise."""

    command: ClassVar[str] = "check"
    document: Mapping[str, Any]
    log: Log
    findings: tuple[Finding, ...]

    @property
    def vetoes(self) -> tuple[str, ...]:
        """The keys of the findings that forbid SUPPORTED."""
        return tuple(x.key for x in self.findings if x.vetoes)

    def said(self, document: Mapping[str, Any], *, explain: bool = False) -> str:
        """What was read, then one finding a line."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        log = self.log
        yield str(log.accounting)
        yield from (log.columns, log.reward_summary["sentence"], *log.warnings)
        for x in self.findings:
            yield f"{x.level:>7}  {x.name}: {x.sentence}"
        warnings = self.document["warnings"]
        last = plural(warnings, "warning") if warnings else "no warnings"
        yield f"{plural(len(self.findings), 'finding')}, {last}"
        if self.vetoes:
            yield against_a_promise(self.vetoes)
        if self.document.get("cells"):
            yield from cells_lines(self.document["cells"])
        if "saved" in self.document:
            path = self.document["saved"]
            yield f"saved     {path}: surefoot improve and every other command take it as LOG"

    def page(self) -> str:
        """The page of the log."""
        from surefoot.report.log_pages import check_page

        return check_page(self.document)


def check(
    source: Any,
    *,
    save: str | Path | None = None,
    features: Sequence[str] = (),
    states: int | None = None,
    edges: Mapping[str, Sequence[float]] | None = None,
    missing: str = "error",
    action_bins: int | None = None,
    progress: Progress | None = None,
    **how: Unpack[Posing],
) -> Checked:
    """What a log can and cannot teach: `surefoot check`. `baseline`: the policy that made it.

    `save`: write down how the log is read and what is asked of it, such as "log.toml"; that file
    stands for the log from then on, in every question and command. `features`, `states`, `edges`,
    `missing`, `action_bins`: as in `advise`; it then also says what finer or coarser states give.
    """
    check_keywords(how)
    making = Making(
        features=tuple(features), states=states, edges=edges or {}, missing=missing,
        action_bins=action_bins, table=True,
    )  # fmt: skip
    if making.asked:
        return _checked_with_states(source, how, making, save)
    source, asked = as_said(source, how)
    log, _ = read(source, progress=progress, **{x: asked[x] for x in asked if x not in POSING})
    given, gamma = asked.get("baseline"), asked.get("gamma")
    given = None if given is None else policy_for(given, log)
    if noise := asked.get("exploration"):
        mask = permitted(log, asked.get("allowed"), asked.get("forbidden"))
        given = with_exploration(given, noise, log, mask)
    discount = 0.0 if log.bandit else log.step_discount(GAMMA if gamma is None else gamma)
    if save is not None or asked.keys() & (set(POSING) - {"gamma", "baseline"}):
        check_posing(log, asked, given)
    saved = None if save is None else save_description(save, log, source, asked)
    return _checked(source, log, check_log(log, gamma=discount, baseline=given), saved=saved)


def _checked_with_states(
    source: Any, how: Mapping[str, Any], making: Making, save: str | Path | None
) -> Checked:
    """The same of a log whose states, or actions, are made by the half that would learn."""
    if save is not None:
        raise ParameterError(
            f"{option('save')} describes a log that has its states: leave it out, or make them"
            " first, with surefoot discretize"
        )
    gamma = how.get("gamma")
    how = {**how, "gamma": GAMMA if gamma is None and not how.get("bandit") else gamma}
    posed = posed_with_states(source, how, making)
    assert posed.measured is not None
    findings = (*findings_about(posed.log, posed.problem), *posed.measured.findings)
    return _checked(source, posed.log, findings, posed.measured)


def _checked(
    source: Any,
    log: Log,
    findings: tuple[Finding, ...],
    measured: Measured | None = None,
    saved: Path | None = None,
) -> Checked:
    """What was found, as a document."""
    markov = next((x for x in findings if x.key == MARKOV), None)
    history = None if markov is None else enough_history(log, markov)
    findings += () if history is None else (history,)
    account = log.accounting
    document = {
        "log": in_words(source),
        "columns": log.columns,
        "reward": log.reward_summary,
        "rows": {"read": account.rows, "used": account.used, "left_out": dict(account.left_out)},
        "warnings": sum(finding.level == "warning" for finding in findings),
        "vetoes": [finding.key for finding in findings if finding.vetoes],
        "findings": [asdict(finding) for finding in findings],
        **({} if saved is None else {"saved": str(saved)}),
        **({} if measured is None else {"cells": cells_summary(measured)}),
    }
    return Checked(document, log, findings)


def advise(
    source: Any,
    problem: Problem | None = None,
    algorithm: str | Algorithm = DEFAULT,
    *,
    settings: Mapping[str, Any] | None = None,
    accept: bool = False,
    despite: Sequence[str] = (),
    most_changes: int | None = None,
    refit: bool = False,
    deterministic: str | None = None,
    tree: int | None = None,
    against: str = MADE_IT,
    group_tolerance: float = 0.0,
    features: Sequence[str] = (),
    states: int | None = None,
    edges: Mapping[str, Sequence[float]] | None = None,
    missing: str = "error",
    action_bins: int | None = None,
    **how: Unpack[Question],
) -> Advice:
    """Improve the policy that made a log, if the data support it: `surefoot improve`.

    A random half of the log makes the policy, the other half tests it, once.

        advice = surefoot.advise("log.csv", gamma=0.95, baseline="rule.csv", reward_range=(0, 4))
        print(advice)                  # what the command prints
        advice.policy.save("new.csv")  # the baseline, where the data do not support a change

    source       what `read_log` takes, or a Log
    problem      the problem of a Log that was posed by hand (`Log.problem`), instead of the
                 keywords of `Posing`
    algorithm    its name, with `settings` as its parameters, or an object
    accept       use the policy even if the data do not support it
    despite      keys of findings to pass over; the verdict then names them
    most_changes, refit, deterministic, tree, against, guard, group, group_tolerance  as the
                 options of the command
    features     columns with measurements, of which states are made by the half of the log that
                 the policy is learned from: about `states` of them (default: by its rows), with
                 given `edges`; `missing` ones are an "error", get a "bin", or are the "last" of
                 their episode
    action_bins  of an action that is a number, such as a dose: how many ranges of it that half
                 makes; the dose that is written for each is the median of the log there
    """
    check_most(most_changes)
    making = Making(
        features=tuple(features), states=states, edges=edges or {}, missing=missing,
        action_bins=action_bins,
    )  # fmt: skip
    if problem is not None:
        posed = posed_by_hand(_log_of(source, {**how, **making.given}), problem)
    elif making.asked:
        posed = posed_with_states(source, how, making)
    else:
        posed = pose(source, **how)
    check_tolerance(posed, group_tolerance)
    if isinstance(algorithm, str):
        algorithm = chosen_algorithm(posed.problem, algorithm, dict(settings or {}))
    elif settings:
        raise ParameterError("settings are for an algorithm by name: an object has its own")
    algorithm = with_one_action(algorithm, deterministic)
    advice = learn_and_test(
        posed.log, posed.problem, algorithm, units=posed.units, accept=accept, assured=True,
        despite=several(despite), most_changes=most_changes, group_tolerance=group_tolerance,
        refit=refit, tree=tree, compared_with=against,
        made=None if posed.measured is None else posed.measured.findings,
    )  # fmt: skip
    return replace(advice, posed=posed)


def _log_of(source: Any, how: Mapping[str, Any]) -> Log:
    """The Log of a problem that is given; nothing else is said of it."""
    if not isinstance(source, Log):
        raise ParameterError(
            f"a problem comes with its Log (surefoot.read_log), got a {type(source).__name__}"
        )
    for name in not_default(how):
        raise ParameterError(f"{option(name)}: the problem is posed already; say it there")
    return source


@dataclass(frozen=True, repr=False)
class Compared(Paged):
    """Algorithms on one log, a row for each."""

    command: ClassVar[str] = "compare"
    document: Mapping[str, Any]

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """One for each algorithm, in the order asked for."""
        found: Sequence[Mapping[str, Any]] = self.document["algorithms"]
        return found

    def said(self, document: Mapping[str, Any], *, explain: bool = False) -> str:
        """The table for people."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        log = self.document["log"]
        header = ("", "states", "mass", "optimistic", "gain", "90 % interval", "supported")
        yield from (read_text(log), "")
        yield from aligned([header, *(_cells(x, log) for x in self.rows)], "<>>>>><")
        if self.document["vetoes"]:
            keys = ", ".join(self.document["vetoes"])
            yield f"\nWARNING: what surefoot check finds speaks against a promise: {keys}"
        yield (
            "\noptimistic: gain in sample, on the data the policy was learned from. gain: learned"
            " from one half of the log,\ntested on the other, with its 90 % interval"
            f"{in_unit(log)}. Each row is judged by itself;\n{LUCKY}."
        )
        yield from (f"note: {note}" for note in self.document["notes"])

    def page(self) -> str:
        """The page of the table."""
        from surefoot.report.log_pages import compare_page

        return compare_page(self.document)


def compare(
    source: Any,
    only: Sequence[str | Algorithm] = (),
    *,
    shown: Told = silent,
    **how: Unpack[Question],
) -> Compared:
    """Every algorithm on one log, each by its own held-out test: `surefoot compare`. `only`: names,
    or objects.
    """
    of_the_whole(how)
    posed = pose(source, **how)
    findings = findings_about(posed.log, posed.problem)
    document = {
        "log": log_summary(posed.log, posed.source, posed.problem),
        "gamma": posed.gamma,
        "vetoes": [x.key for x in findings if x.vetoes],
        "algorithms": list(_compared(posed, findings, several(only) or list(ALGORITHMS), shown)),
        "notes": posed.notes,
    }
    return Compared(document)


def _compared(
    posed: Posed,
    findings: tuple[Finding, ...],
    asked: Sequence[str | Algorithm],
    shown: Told,
) -> Iterator[dict[str, Any]]:
    """One row of the table for each algorithm; one that cannot run on this log says why."""
    log, problem = posed.log, posed.problem
    units = units_of(log, problem.log, problem.gamma)
    for i, given in enumerate(asked):
        try:
            algorithm = chosen_algorithm(problem, given) if isinstance(given, str) else given
            advice = learn_and_test(log, problem, algorithm, units=units, against=findings)
            yield {
                "algorithm": algorithm.name,
                "parameters": parameters_of(algorithm),
                "states_changed": len(advice.changed),
                "mass_moved": advice.mass_moved,
                "verdict": advice.verdict,
                "reason": advice.reason,
                "converged": None if advice.solution is None else bool(advice.solution.status.ok),
            } | gain_summary(advice.gain, advice.in_sample)
        except (BaselineError, NotAvailableError, ParameterError) as error:
            name = given if isinstance(given, str) else given.name
            yield {"algorithm": name, "not_available": str(error)}
        shown("comparing algorithms", i + 1, len(asked))


def _cells(row: Mapping[str, Any], log: Mapping[str, Any]) -> tuple[str, ...]:
    if "not_available" in row:
        return row["algorithm"], f"not available: {row['not_available']}"
    inside, cross = row["in_sample_optimistic"] or {}, row["held_out"] or {}
    lost = "" if row["converged"] in (True, None) else "  NOT CONVERGED"
    gains = (inside.get("gain"), *(cross.get(x) for x in ("gain", "low", "high")))
    seen, gain, low, high = (
        "" if x is None or math.isnan(x) else figure(x, log, "+") for x in gains
    )
    return (
        row["algorithm"],
        f"{row['states_changed']:d}",
        f"{row['mass_moved']:.1%}",
        seen or "-",
        gain or "-",
        f"[{low}, {high}]" if low and high else "-",
        ("yes" if row["verdict"] == "supported" else "no") + lost,
    )


@dataclass(frozen=True, repr=False)
class Evaluated(Answer):
    """What a policy is worth on a log, by the model and by weights."""

    command: ClassVar[str] = "evaluate"
    document: Mapping[str, Any]

    @property
    def values(self) -> Mapping[str, Mapping[str, float]]:
        """value, low, high of "policy", "baseline" and "gain", by the model of the log."""
        found: Mapping[str, Mapping[str, float]] = self.document["values"]
        return found

    def said(self, document: Mapping[str, Any], *, explain: bool = False) -> str:
        """The values for people."""
        return text(evaluation_statements(document), explain=explain)


def evaluate_policy(source: Any, policy: Any, **how: Unpack[Question]) -> Evaluated:
    """What a policy is worth from a log: `surefoot evaluate`. It is the path of a policy file, a
    `Policy`, a table, a dict, a function of a state's label, or an array.
    """
    of_the_whole(how)
    posed = pose(source, **how)
    document = {
        "log": log_summary(posed.log, posed.source, posed.problem),
        "policy": in_words(policy),
        "gamma": posed.gamma,
        **evaluation(posed.log, posed.problem, policy_over(policy, posed.log).pi),
        "notes": posed.notes,
    }
    return Evaluated(document)


@dataclass(frozen=True, repr=False)
class Certified(Answer):
    """A lower bound on what a policy gains: a certificate, None where findings of the log forbid
    it.
    """

    command: ClassVar[str] = "certify"
    document: Mapping[str, Any]
    certificate: Certificate | None

    @property
    def proved(self) -> bool:
        """Whether the policy is proved to be no worse, but for what was `waived`."""
        return self.certificate is not None and self.certificate.useful

    @property
    def waived(self) -> tuple[str, ...]:
        """The keys of what speaks against the bound, and was passed over as asked."""
        return () if self.certificate is None else self.certificate.waived

    def said(self, document: Mapping[str, Any], *, explain: bool = False) -> str:
        """The bound, with what it assumes."""
        return text(certificate_statements(document), explain=explain)


def certify_policy(
    source: Any,
    policy: Any,
    method: str = "",
    *,
    fresh: bool = False,
    delta: float = 0.05,
    despite: Sequence[str] = (),
    **how: Unpack[Question],
) -> Certified:
    """What a policy gains at least, from the log it may have been made from: `surefoot certify`."""
    of_the_whole(how)
    despite = several(despite)
    check_keys(despite)
    if not 0 < delta <= MOST:
        raise ParameterError(f"--delta must lie in (0, {MOST:g}], got {delta!r}")
    if fresh and not method:
        raise ParameterError("--fresh goes with --method delta-method: no other bound needs it")
    source, asked = as_said(source, how)
    if asked.get("baseline") is None and asked.get("baseline_policy") is None:
        raise BaselineError(
            "--baseline is missing: every proof compares with the policy that made the log, and one"
            " estimated from it is another (surefoot improve does without, and proves nothing)"
        )
    posed = pose(source, **asked)
    pi, more = policy_over(policy, posed.log).pi, {}
    if fresh:
        refuse_own_log(posed, policy, own_log(policy))
        more = {"data": "fresh"}
    made = certificate_of(posed.problem, pi, method or None, delta=delta, **more)
    against = vetoes(posed.log, Policy(pi=posed.problem.logging_policy, labels=posed.log.labels))
    found = unless_contradicted(made, against, despite)
    if fresh and not isinstance(policy, (str, Path)) and isinstance(found, Certificate):
        unchecked = "the log had no part in making the policy: NOT CHECKED, as it is no file"
        found = replace(found, assumptions=(*found.assumptions, unchecked))
    certificate = found if isinstance(found, Certificate) else None
    document = {
        "log": log_summary(posed.log, posed.source, posed.problem),
        "policy": in_words(policy),
        "gamma": posed.gamma,
        **assurance_summary(found),
        "waived": [] if certificate is None else list(certificate.waived),
        "notes": posed.notes,
    }
    return Certified(document, certificate)


def certify(source: Any, policy: Any, method: Any = None, **given: Any) -> Any:
    """A lower bound on what a policy gains.

    Of a log (a file, a table, a `Log`): as `surefoot certify`, see `certify_policy`. Of a Problem:
    the `Certificate` of a solution or a policy [S, A], see `surefoot.certificates.certify`.
    """
    if isinstance(source, Problem):
        return certificate_of(source, policy, method, **given)
    return certify_policy(source, policy, method or "", **given)
