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
from surefoot.advice.tuning.choice import Tuning, choose
from surefoot.advice.tuning.settings import parsed_settings
from surefoot.core.atomic import write_csv, write_whole
from surefoot.core.errors import ParameterError
from surefoot.core.text import aligned, interval, signed
from surefoot.logs.description import is_description
from surefoot.problems import Problem
from surefoot.report.log_words import reward_text
from surefoot.report.value_words import LOSES


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
        path = Path(path)
        if path.suffix == ".json":
            return write_whole(path, self.to_json() + "\n")
        if path.suffix == ".csv":
            rows = self.document["settings"]
            cells = [["" if x is None else x for x in row.values()] for row in rows]
            return write_csv(path, tuple(rows[0]), cells)
        raise ParameterError(f"--out takes a .csv or .json file, got {str(path)!r}")


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
    shown: Shown = silent,
    **how: Unpack[Question],
) -> Tuned:
    """Choose by gains in models drawn from the posterior of the log: `surefoot tune`.

    settings    such as "pi-b-spibb n_wedge=5,20" (one for each value); none: the default method at
                three budgets
    """
    of_the_whole(how)
    posed = pose(source, **how)
    tuning = choose(
        posed.problem,
        parsed_settings(posed.problem, several(settings)) if settings else None,
        models=models,
        simulated=simulated,
        alpha=alpha,
        seed=seed,
        progress=lambda done, total: shown("models x settings", done, total),
    )
    return Tuned(_document(tuning, posed, source, dict(how)), tuning)


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
        "alpha": tuning.alpha,
        "models": simulation.on_log.shape[1],
        "simulated": len(simulation.reward),
        "next": next_line(source, asked, chosen.options) if tuning.changes else None,
        "settings": [
            {"setting": row.setting.label, "chosen": row is tuning.chosen}
            | dataclasses.asdict(row.on_log)
            | {"loses": row.loses}
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
    yield reward_text(found)
    yield from _table(found["settings"], f"CVaR {found['alpha']:.0%}")
    yield (
        f"\ngains over the baseline at the start, in {found['models']} models drawn from the"
        f" posterior of this log ({found['prior']['successors']:.2g} successors a pair on average)"
    )
    yield LOSES
    nothing = "nothing: no setting beats the baseline in the worst models"
    if found["simulated"]:
        check, (low, high) = found["check"], found["check"]["reward_simulated"]
        yield (
            f"check     mean reward a step {check['reward_observed']:.4g}; of simulated logs"
            f" {low:.4g} to {high:.4g} (p = {check['p_value']:.2g})"
        )
    yield f"chosen    {found['chosen']}"
    yield f"next      {found['next'] or nothing}"
    yield from (f"note: {note}" for note in found["notes"])


def _table(rows: list[Mapping[str, Any]], tail: str) -> list[str]:
    """Each setting on a line, its numbers on the next."""
    lines = [["", "mean gain", "95 % interval", tail, "95 % interval", "loses"]]
    for row in rows:
        cells = [""]
        for name in ("mean", "cvar"):
            cells += [signed(row[name]), interval(row[f"{name}_low"], row[f"{name}_high"], ".3g")]
        lines += [[f"{'>' if row['chosen'] else ' '} {row['setting']}"]]
        lines += [[*cells, f"{row['loses']:.0%}"]]
    return aligned(lines, "<" + ">" * (len(lines[0]) - 1))
