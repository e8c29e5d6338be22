"""`tune`: an algorithm and its hyper-parameters from a log alone, in one line."""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Unpack, get_type_hints

import numpy as np

from surefoot.advice import chosen_algorithm
from surefoot.advice.answers import Paged
from surefoot.advice.posing import (
    Posed,
    Question,
    in_words,
    of_the_whole,
    pose,
    said,
    several,
    typed,
)
from surefoot.advice.questions import Shown, silent
from surefoot.atomic import write_csv, write_whole
from surefoot.errors import ParameterError
from surefoot.logs.description import is_description
from surefoot.problems import Problem
from surefoot.report.log_words import reward_text
from surefoot.report.value_words import LOSES
from surefoot.text import aligned, interval, signed
from surefoot.tuning.choice import Tuning, choose
from surefoot.tuning.history_choice import best_history, try_history
from surefoot.tuning.settings import parsed_settings
from surefoot.tuning.wedge import n_wedge_for


@dataclass(frozen=True, repr=False)
class Tuned(Paged):
    """The settings that were tried, the one that was chosen, and the command to run next."""

    command: ClassVar[str] = "tune"
    document: Mapping[str, Any]
    tuning: Tuning

    @property
    def next(self) -> str | None:
        """The command that runs the chosen setting on the same log; None: no change is best."""
        found: str | None = self.document["next"]
        return found

    def said(self, document: Mapping[str, Any], *, explain: bool = False) -> str:
        """The choice for people."""
        return "\n".join(_lines(document))

    def page(self) -> str:
        """The page of the choice."""
        from surefoot.report.log_pages import tune_page

        return tune_page(self.document)

    def save(self, path: str | Path) -> Path:
        """Write the table as .csv, or everything as .json; whole or not at all."""
        return _save(self, Path(path))


@dataclass(frozen=True, repr=False)
class Bounded(Paged):
    """The n_wedge with which Pi_b-SPIBB provably loses at most so much."""

    command: ClassVar[str] = "tune-bound"
    document: Mapping[str, Any]

    @property
    def next(self) -> str | None:
        """The command that runs it on the same log; None: no change has such a proof."""
        found: str | None = self.document["next"]
        return found

    def said(self, document: Mapping[str, Any], *, explain: bool = False) -> str:
        """The bound for people."""
        return "\n".join(_bound_lines(document))

    def page(self) -> str:
        """The page of the bound."""
        from surefoot.report.log_pages import bound_page

        return bound_page(self.document)

    def save(self, path: str | Path) -> Path:
        """Write it as .csv or .json; whole or not at all."""
        return _save(self, Path(path))


def tune(source: Any, *how: Any, **given: Any) -> Any:
    """Choose an algorithm and its hyper-parameters.

    Of a log (a file, a table, a `Log`): as `surefoot tune`, see `tune_log`. Of a Problem: the
    `Tuning` of its settings, see `surefoot.tuning.choose`.
    """
    if isinstance(source, Problem):
        return choose(source, *how, **given)
    return tune_log(source, *how, **given)


def tune_log(
    source: Any,
    settings: Sequence[str] = (),
    *,
    models: int = 200,
    simulated: int = 100,
    alpha: float = 0.2,
    seed: int = 0,
    histories: Sequence[int] = (),
    bound: float | None = None,
    delta: float | None = None,
    shown: Shown = silent,
    **how: Unpack[Question],
) -> Tuned | Bounded:
    """Choose by gains in models drawn from the posterior of the log: `surefoot tune`.

    settings    such as "pi-b-spibb n_wedge=5,20" (one for each value); none: the default method at
                three budgets
    histories   choose first how many steps states remember
    bound       instead: the n_wedge at which Pi_b-SPIBB loses at most this, with probability
                1 - `delta` (0.05)
    """
    if delta is not None and bound is None:
        raise ParameterError(
            "--delta is the failure probability of --bound: give --bound, too, or leave --delta out"
        )
    of_the_whole(how)
    asked: dict[str, Any] = dict(how)
    tried = _tried(source, asked, histories) if histories else []
    if tried:
        asked["history"] = next(x["history"] for x in tried if x["chosen"])
    posed = pose(source, **asked)
    if bound is not None:
        return Bounded(_bound_document(posed, source, asked, bound, delta))
    tuning = choose(
        posed.problem,
        parsed_settings(posed.problem, several(settings)) if settings else None,
        models=models,
        simulated=simulated,
        alpha=alpha,
        seed=seed,
        progress=lambda done, total: shown("models x settings", done, total),
    )
    document = _document(tuning, posed, source, asked)
    return Tuned(document | ({"histories": tried} if tried else {}), tuning)


def _tried(source: Any, asked: Mapping[str, Any], histories: Sequence[int]) -> list[dict[str, Any]]:
    """What each history is worth, and which one is chosen."""
    if asked.get("history"):
        raise ParameterError("--histories chooses the history: leave --history out")
    tried = []
    for k in sorted({int(x) for x in histories}):
        found = pose(source, **{**asked, "history": k})
        algorithm = chosen_algorithm(found.problem, "priced-soft-spibb")
        tried.append(try_history(found.log, found.problem, algorithm, k))
    best = best_history(tried)
    return [dataclasses.asdict(x) | {"passes": x.passes, "chosen": x is best} for x in tried]


def next_line(source: Any, asked: Mapping[str, Any], setting: Sequence[str]) -> str:
    """The `surefoot improve` command that runs a setting on the same log."""
    words = ["surefoot", "improve", in_words(source)]
    order = list(get_type_hints(Question))
    # a default that is said may stand against what the file says that describes the log
    given = asked if is_description(source) else said(asked)
    for name, value in sorted(given.items(), key=lambda x: order.index(x[0])):
        if name == "progress" or value is None or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is True:
            words += ["all"] * (name == "drop_bad_rows")
        else:
            words.append(typed(value))
    return shlex.join([*words, *setting])


def _document(
    tuning: Tuning, posed: Posed, source: Any, asked: Mapping[str, Any]
) -> dict[str, Any]:
    """Everything about a choice."""
    simulation, chosen, prior = tuning.simulation, tuning.chosen.setting, tuning.prior
    reward = simulation.reward if len(simulation.reward) else [math.nan]
    return {
        "log": posed.source,
        "reward": posed.log.reward_summary,
        "warnings": list(posed.log.warnings),
        "gamma": posed.gamma,
        "chosen": chosen.label,
        "rule": tuning.rule,
        "by": tuning.by,
        "alpha": tuning.alpha,
        "models": simulation.on_log.shape[1],
        "simulated": simulation.on_simulated.shape[1],
        "next": next_line(source, asked, chosen.options) if tuning.changes else None,
        "settings": [
            {"setting": row.setting.label, "chosen": row is tuning.chosen}
            | dataclasses.asdict(row.on_log)
            | {
                "loses": row.loses,
                "simulated_mean": row.on_simulated and row.on_simulated.mean,
                "simulated_cvar": row.on_simulated and row.on_simulated.cvar,
            }
            for row in tuning.rows
        ],
        "baseline": {
            "estimated": posed.problem.pi_b_estimated,
            "value": float(simulation.rho_b.mean()),
        },
        "check": {
            "reward_observed": simulation.observed,
            "reward_simulated": [float(np.quantile(reward, p)) for p in (0.05, 0.95)],
            "p_value": tuning.predictive_p,
        },
        "prior": {
            "successors": prior.mean_number,
            "alpha": prior.alpha,
            "guesses": [float(x) for x in prior.guess],
        },
        "notes": [*tuning.notes, *posed.notes],
    }


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    """The choice for people."""
    simulated = found["simulated"] > 0
    yield reward_text(found)
    yield from _history_lines(found.get("histories", []))
    yield from _table(found["settings"], f"CVaR {found['alpha']:.0%}", simulated)
    yield (
        f"\ngains over the baseline at the start, in {found['models']} models drawn from the"
        f" posterior of this log ({found['prior']['successors']:.2g} successors a pair on average)"
    )
    yield LOSES
    nothing = "nothing: no setting beats the baseline in the worst models"
    if simulated:
        check, (low, high) = found["check"], found["check"]["reward_simulated"]
        yield (
            f"check     mean reward a step {check['reward_observed']:.4g}; of simulated logs"
            f" {low:.4g} to {high:.4g} (p = {check['p_value']:.2g})"
        )
    yield f"chosen    {found['chosen']}"
    yield f"next      {found['next'] or nothing}"
    yield from (f"note: {note}" for note in found["notes"])


def _history_lines(tried: list[Mapping[str, Any]]) -> Iterator[str]:
    """The histories that were tried."""
    if not tried:
        return
    rows = [
        (
            f"{'>' if x['chosen'] else ' '} {x['history']}", f"{x['states']:,}", signed(x["gain"]),
            f"{x['p_value']:.2g}" if x["passes"] else f"{x['p_value']:.2g}: memory is left",
        )
        for x in tried
    ]  # fmt: skip
    yield from aligned([("  history", "states", "gain", "p of the test for memory"), *rows], "<>><")
    yield (
        "gain: of a policy learned from one quarter of the log, in the model of another; the half"
        " that improve tests on was not used for it\n"
    )


def _table(rows: list[Mapping[str, Any]], tail: str, simulated: bool) -> list[str]:
    """Each setting on a line, its numbers on the next."""
    lines = [["", "mean gain", "95 % interval", tail, "95 % interval", "loses"]]
    lines[0] += ["simulated: mean", tail] if simulated else []
    for row in rows:
        cells = [""]
        for name in ("mean", "cvar"):
            cells += [signed(row[name]), interval(row[f"{name}_low"], row[f"{name}_high"], ".3g")]
        cells += [f"{row['loses']:.0%}"]
        cells += [signed(row[f"simulated_{name}"]) for name in ("mean", "cvar") if simulated]
        lines += [[f"{'>' if row['chosen'] else ' '} {row['setting']}"], cells]
    return aligned(lines, "<" + ">" * (len(lines[0]) - 1))


def _bound_document(
    posed: Posed, source: Any, asked: Mapping[str, Any], bound: float, delta: float | None
) -> dict[str, Any]:
    """The n_wedge with which Pi_b-SPIBB provably loses at most --bound."""
    wedge = n_wedge_for(posed.problem, bound, 0.05 if delta is None else delta)
    setting = ["--algorithm", "pi-b-spibb", "--set", f"n_wedge={wedge.n_wedge}"]
    width, notes = posed.problem.return_range.width, posed.notes
    if wedge.bound >= width:
        notes.append(
            f"VACUOUS: no policy can lose more than {width:.4g}, the width of the return range; ask"
            " for less"
        )
    after = {"next": next_line(source, asked, setting) if wedge.free > 0 else None, "notes": notes}
    said = {"reward": posed.log.reward_summary, "warnings": list(posed.log.warnings)}
    return {"log": posed.source} | said | dataclasses.asdict(wedge) | after


def _bound_lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield reward_text(found)
    yield (
        f"n_wedge   {found['n_wedge']:,}: Pi_b-SPIBB then loses at most {found['bound']:.4g}"
        f" (asked: {found['loss']:.4g}) with probability {1 - found['delta']:g}"
    )
    yield f"          {found['label']}: {'; '.join(found['assumptions'])}"
    yield (
        f"known     {found['known']} pairs were seen more often; {found['free']:.1%} of decisions"
        " may change"
    )
    nothing = "nothing: this log proves no such bound for any change"
    yield f"next      {found['next'] or nothing}"
    yield from (f"note: {note}" for note in found["notes"])


def _save(found: Tuned | Bounded, path: Path) -> Path:
    """The table as CSV, or everything as JSON; whole or not at all."""
    if path.suffix == ".json":
        return write_whole(path, found.to_json() + "\n")
    if path.suffix == ".csv":
        rows = found.document.get("settings", [found.document])
        columns = tuple(k for k in rows[0] if not isinstance(rows[0][k], (dict, list, tuple)))
        cells = [["" if row[k] is None else row[k] for k in columns] for row in rows]
        return write_csv(path, columns, cells)
    raise ParameterError(f"--out takes a .csv or .json file, got {str(path)!r}")
