"""Statements: eight lines that say what matters and hide no warning, all of it on asking, and no
sentence written twice.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.advice import summarise
from surefoot.advice.gain import FINITE_SAMPLE as TEST_OF_EPISODES
from surefoot.advice.learn_and_test import NOTHING_TO_LEARN as VERDICT_OF_NOTHING
from surefoot.advice.summary import ALWAYS
from surefoot.algorithms.defaults import DEFAULT, chosen_algorithm
from surefoot.core.plain_values import plain
from surefoot.problems.guards import with_guards
from surefoot.report import improvement_words
from surefoot.report.doubt_words import doubts
from surefoot.report.improvement_page import improvement_page
from surefoot.report.improvement_words import about, improvement_statements, with_statements
from surefoot.report.page import number, signed_number
from surefoot.report.part_words import part_rows, part_rules
from surefoot.report.statements import LABEL, MOST, WIDE, Statement, sentence, text

SOURCE = Path(surefoot.__file__).parent
GOLDEN = Path(__file__).parents[1] / "net" / "golden"
NAMED = 6  # words from which on a text counts as a sentence
LABELS = {
    "verdict",
    "WARNING:",
    "worth",
    "sure",
    "changes",
    "weakest",
    "assumes",
    "files",
    "guards",
}
FILES = {"files": {x: f"out/{x}" for x in ("policy.csv", "report.html", "summary.json")}}


def visits(n: int = 2000, better: float = 1.0, drift: float = 0.0) -> dict[str, Any]:
    """Visits of one step: "b" pays so much more; with drift it becomes common as pay rises."""
    rng = np.random.default_rng(0)
    at = np.arange(n) / n
    b = rng.random(n) < 0.3 + drift * 0.5 * at
    reward = better * b + drift * 2 * at + rng.normal(0, 0.5, n)
    return {
        "episode": np.arange(n), "time": np.arange(n), "state": np.zeros(n, dtype=int),
        "action": np.where(b, "b", "a"), "reward": reward, "terminal": np.ones(n),
        "cost": rng.random(n), "sex": np.where(np.arange(n) % 400 == 7, "x", np.where(np.arange(n) % 2, "f", "m")),
    }  # fmt: skip


@cache
def found(case: str) -> dict[str, Any]:
    """The document of an improvement."""
    columns, asked, guards = visits(), {}, ()
    read: dict[str, Any] = {}
    posed: dict[str, Any] = {}
    name = DEFAULT
    if case in ("not supported", "accepted"):
        columns, asked = visits(200, better=0.0), {"accept": case == "accepted"}
    elif case in ("vetoed", "despite"):
        columns = visits(drift=1.0)
        asked = {"despite": ("drift", "policy-drift")} if case == "despite" else {}
    elif case == "nothing":
        columns["action"] = np.full(2000, "a")
    elif case == "bandit":
        columns = {x: columns[x] for x in ("state", "action", "reward")}
        read = {"bandit": True}
    elif case == "proof":
        columns["reward"] = np.where(columns["action"] == "b", 0.9, 0.1)
        posed = {"pi_b": np.array([[0.7, 0.3]]), "reward_range": (0, 1), "return_range": (0, 1)}
        name = "screened-advantage"
    elif case == "guard":
        guards, name = ("cost:lower:0.2:0,1",), "pi-b-spibb"
        read = {"guard": ["cost"], "group": "sex"}
    log = surefoot.read_log(columns, terminal_to_end=case == "proof", **read)
    if case == "proof":
        posed["pi_b"] = np.tile(posed["pi_b"], (log.n_states, 1))
    problem = with_guards(log.problem(0.0 if case == "bandit" else 0.9, **posed), guards)
    algorithm = chosen_algorithm(problem, name)
    advice = surefoot.advise(log, problem, algorithm, **asked)
    return summarise(advice, "log.csv")


VERDICTS = {
    "supported": "SUPPORTED: held-out data show that the new policy earns more than the baseline on",
    "not supported": "NOT SUPPORTED: no gain is shown on held-out data (estimate ",
    "accepted": "NOT SUPPORTED, but used as asked (--accept): no gain is shown on held-out",
    "vetoed": "NOT SUPPORTED: outcomes changed over time: ",
    "despite": "SUPPORTED despite drift, policy-drift: true only if this does not matter: outcomes",
    "guard": "NOT SUPPORTED: overall a gain is shown, but the group x is too small",
    "bandit": "SUPPORTED: held-out data show that the new policy earns more than the baseline on",
    "nothing": "NOTHING TO LEARN: the log never tried an alternative",
    "proof": "SUPPORTED: it is proved, under the assumptions below, that the new policy earns more",
}


def shown(case: str) -> str:
    return text(improvement_statements(found(case) | FILES))


@pytest.mark.parametrize("case", VERDICTS)
def test_eight_lines_are_shown_unasked_and_the_verdict_is_the_first(case: str) -> None:
    lines = shown(case).splitlines()
    labels = [x[:LABEL].strip() for x in lines if x[:LABEL].strip()]
    assert labels[0] == "verdict" and labels[-1] == "files"
    assert len(labels) == len(set(labels)) <= MOST
    assert set(labels) <= LABELS | {"reward"}
    assert max(map(len, lines)) <= WIDE
    words = " ".join(" ".join(lines).split())
    assert words.startswith(f"verdict {VERDICTS[case]}")
    assert f" policy.csv holds {found(case)['policy_is']} " in words


def test_what_fails_or_was_passed_over_is_named_in_the_first_lines() -> None:
    despite, guard = (" ".join(shown(x).split()) for x in ("despite", "guard"))
    assert "FOUND TO BE FALSE" in despite and "Condition: rewards stay within" in despite
    assert "but the group x is too small to say anything" in guard
    assert "TOO SMALL to say anything, so NOT PASSED; the 3 other guards and groups pass" in guard
    assert "Override: --despite drift,policy-drift" in " ".join(shown("vetoed").split())
    assert "the candidate, accepted although the data do not support it" in shown("accepted")
    assert re.search(r"episode|step", shown("bandit")) is None
    assert "Wrong for at most 5% of logs, if the assumptions hold" in " ".join(
        shown("proof").split()
    )


@pytest.mark.parametrize("case", VERDICTS)
def test_every_warning_is_named_in_the_first_lines(case: str) -> None:
    words = " ".join(shown(case).split())
    for x in found(case)["findings"]:
        if x["level"] == "warning":
            assert x["name"] in words or x["sentence"].partition(". ")[0] in words, x


def test_whatever_else_warns_is_named_in_the_first_lines() -> None:
    quiet = found("supported")
    log, baseline = quiet["log"], quiet["baseline"]
    doubtful = {"mean": 1.0, "standard_error": 0.1, "episodes": 9, "contradicts_model": True}
    wrong = {"disagrees": True, "p_value": 1e-9, "impossible_rows": 2, "worst_states": []}
    refused = quiet["reason"] + "; no policy from all rows: learning that did not converge"
    for change, words in (
        ({"log": log | {"warnings": ["WARNING: 'died' is the reward"]}}, "'died' is the reward"),
        ({"own_return": doubtful}, "they differ by more than chance"),
        ({"baseline": baseline | wrong}, "the baseline DISAGREES with the log (p = 1e-09"),
        ({"baseline": baseline | {"renormalised": True}}, "forbidden actions were taken out"),
        ({"converged": False}, "NOT CONVERGED"),
        ({"reason": refused}, "no policy from all rows: learning that did not converge"),
        ({"findings": [{"name": "copies", "level": "warning", "sentence": "x"}]}, "copies"),
    ):
        said = text(improvement_statements(quiet | change))
        assert words in " ".join(said.split()), words
        assert said.splitlines()[3].startswith("WARNING:"), words
    assert "WARNING" not in text(improvement_statements(quiet))


def test_a_reason_that_is_not_known_is_said_in_full() -> None:
    strange = {x: y for x, y in found("vetoed").items() if x != "reason_in_short"}
    strange |= {"reason": "a comet. It came from the left"}
    (verdict,) = improvement_statements(strange)[0].whole
    assert verdict == "NOT SUPPORTED: a comet. It came from the left"
    strange |= {"reason_in_short": "a comet. Override: --despite z"}
    short, whole = improvement_statements(strange)[0].whole
    assert short == "NOT SUPPORTED: a comet. Override: --despite z"
    assert whole == "A comet. It came from the left."


def test_a_supported_policy_is_never_said_to_be_perhaps_worse() -> None:
    for case in ("supported", "despite", "bandit", "proof"):
        assert "may be worse" not in text(improvement_statements(found(case)), explain=True)
    certificate = found("proof")["certificate"] | {
        "useful": False, "vacuous": True, "bound": -9.0, "rows_needed": 1.3e6,
    }  # fmt: skip
    said = improvement_statements(found("supported") | {"certificate": certificate})
    (proof,) = (x for x in said if x.kind == "proof")
    assert proof.words == "No proof from this log; about 1.3 million rows would be needed."
    assert "proof" not in text(said)
    assert [about(x) for x in (950.0, 24_321.0, 2.5e9)] == ["950", "24,000", "2.5 billion"]


@pytest.mark.parametrize("case", VERDICTS)
def test_page_and_file_say_what_the_terminal_says(case: str) -> None:
    document = found(case)
    said = improvement_statements(document)
    assert improvement_statements(plain(document)) == said
    kept = with_statements(document)["statements"]
    assert [(x["kind"], x["words"]) for x in kept] == [(x.kind, x.words) for x in said]
    page = improvement_page(plain(document), [])
    page = page.replace("&#39;", "'").replace("&lt;", "<").replace("&gt;", ">").lower()
    for x in said:
        whole = x.whole
        if x.kind in ("guards", "groups"):  # the others are a table
            whole = (x.words, *part_rules(document))
        if x.kind == "proof" and not document["certificate"].get("useful"):
            whole = x.whole[:1]
        if x.kind not in ("method", "changes", "alone"):  # those stand in the page's tables
            assert all(words.strip().rstrip(".").lower() in page for words in whole), x
    for row in part_rows(document):
        cells = (row[0], *(x.replace("-", "\u2212") for x in row[1:4]), *row[4:])
        assert all(f">{cell}<".lower() in page for cell in cells), row
    for x in plain(document)["changes"].get("alone", ()):
        ends = " to ".join(number(x[k]) for k in ("low", "high"))
        cells = (x["state"], x["more_of"], f"{signed_number(x['gain'])} ({ends})")
        assert all(f">{cell}<".lower() in page for cell in cells), x


def test_the_weakest_point_is_the_one_that_is_nearest_to_undoing_the_gain() -> None:
    quiet = found("supported")
    unseen = {
        "state": "s", "action": "b", "visits": 8, "more_often": True, "outcome": -2.0,
        "not_excluded_one_in": 8 / 3, "would_undo_one_in": 1 / 0.95, "gain": 1.0,
        "range_declared": True,
    }  # fmt: skip
    strong = quiet["confounding"] | {"shown_up_to": 5.0, "vanishes_at": 9.0}
    none = strong | {"shown_up_to": np.inf, "vanishes_at": np.inf}
    both = ["hidden", "unseen"]
    for would_undo, cause, kinds in (
        (1 / 0.95, strong, both), (0.5, strong, ["hidden", "time"]), (1 / 0.95, none, both[1:])
    ):  # fmt: skip
        change = {"cannot_exclude": unseen | {"would_undo_one_in": would_undo}}
        said = doubts(plain(quiet | change | {"confounding": cause}))
        assert [x.kind for x in said if x.first] == kinds
        assert [x.kind for x in said[: len(kinds)]] == kinds
    (said,) = (x for x in doubts(plain(quiet | {"cannot_exclude": unseen})) if x.kind == "unseen")
    assert said.words == (
        "'b' in 's', tested 8 times. If 95% more of these than seen went as badly as the declared rewards allow"
        ", the gain would vanish; the interval allows for 38% more."
    )


def test_the_words_of_the_document_are_those_of_the_library() -> None:
    assert improvement_words.NOTHING_TO_LEARN == VERDICT_OF_NOTHING
    assert improvement_words.FINITE_SAMPLE == TEST_OF_EPISODES
    begins = tuple(x for x, _ in improvement_words.JUDGED)
    assert sum(x.startswith(begins) for x in ALWAYS) == 2


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda x: x.stem)
def test_the_reason_of_a_verdict_says_what_the_verdict_does_not_and_all_of_that(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8")).get("improve", {})
    if "reason" in document:
        verdict, more = improvement_words.verdict_words(document)
        assert not any(x.rstrip(".").casefold() in verdict.casefold() for x in more)
        said = set(re.findall(r"\w+", " ".join((verdict, *more)).casefold()))
        assert set(re.findall(r"\w+", document["reason"].casefold())) <= said


def templates(file: Path) -> list[str]:
    """The texts of a file that are no docstrings, with {} for what is filled in."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    inside: set[int] = set()
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inside.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            inside |= {id(x) for x in node.values}
            parts = [x.value if isinstance(x, ast.Constant) else "{}" for x in node.values]
            found.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and id(node) not in inside:
            found += [node.value] if isinstance(node.value, str) else []
    return [x for x in found if len(re.findall(r"[A-Za-z]{2,}", x)) >= NAMED]


def test_no_sentence_is_written_twice() -> None:
    files = [x for y in ("report", "advice") for x in sorted((SOURCE / y).glob("*.py"))]
    times = Counter(x.strip(" ,;:.") for file in files for x in templates(file))
    assert len(times) > 100
    assert [words for words, n in times.items() if n > 1] == []


def test_a_sentence_has_a_capital_letter_but_the_name_of_a_file_stays() -> None:
    assert sentence("the policy is proved.") == "The policy is proved."
    assert sentence("policy.csv holds it") == "policy.csv holds it."
    assert sentence("2024/log.csv: 3 rows") == "2024/log.csv: 3 rows."
    assert sentence("nothing. And more") == "Nothing. And more."


def test_a_statement_is_said_whole_and_once() -> None:
    short = Statement("assumes", "two of three", ("one", "two", "three"), in_full=True)
    assert short.whole == ("one", "two", "three")
    assert text([short, Statement("files", "here")], explain=True) == (
        "assumes   one\n          two\n          three\nfiles     here"
    )
    assert text([short, Statement("files", "here")]) == (
        "assumes   two of three\nfiles     here (more: --explain)"
    )
