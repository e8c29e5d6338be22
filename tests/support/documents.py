"""The pages of docs/, their code blocks, and how those are run.

python     executed, all of a page in one namespace, in one folder; if its first line names a file
           ("# my_methods.py"), it is also written there
toml       written to the file that its first line names
console    "$ surefoot ..." and "$ python FILE ..." are run; "# exit code N" says how they end; the
           lines below are looked for in the output, in their order, "..." standing for anything
others     hold no command, unless a sentence before says "Not run in the tests:"
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BESIDE = ("changelog.md", "papers/")  # copies that the build makes of pages beside docs/
PAGES = sorted(
    page
    for page in (path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    if not page.startswith(BESIDE)
)
NOT_RUN = "Not run in the tests:"
Run = Callable[..., tuple[int, str, str]]  # arguments of surefoot -> exit code, stdout, stderr


@dataclass(frozen=True)
class Block:
    """A fenced block, and the paragraph before it."""

    language: str
    text: str
    before: str


@dataclass(frozen=True)
class Step:
    """A command of a console block, and what it must print."""

    words: tuple[str, ...]
    code: int
    shown: tuple[str, ...]


def text_of(page: str) -> str:
    """The Markdown of a page."""
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in their order."""
    found, text = [], text_of(page)
    for match in re.finditer(r"^```(\S*)[^\n]*\n(.*?)^```$", text, re.M | re.S):
        paragraphs = [x for x in text[: match.start()].split("\n\n") if x.strip()]
        found.append(Block(match[1], match[2], paragraphs[-1] if paragraphs else ""))
    return found


def public(module: ModuleType) -> list[str]:
    """The functions that a module defines for others."""
    own = [x for x in vars(module).values() if getattr(x, "__module__", "") == module.__name__]
    return [x.__name__ for x in own if not x.__name__.startswith("_")]


def inline(page: str) -> list[str]:
    """The commands in the prose of a page."""
    prose = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.M | re.S)
    spans = re.findall(r"`([^`]+)`", prose)
    return [" ".join(x.split()) for x in spans if x.startswith("surefoot ")]


def steps(block: Block) -> Iterator[Step]:
    """The commands of a console block."""
    for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        command, *shown = part.rstrip("\n").replace("\\\n", " ").split("\n")
        expected = re.search(r"# exit code (\d+)", command)
        words = shlex.split(command, comments=True)
        yield Step(tuple(words), int(expected[1]) if expected else 0, tuple(shown))


def missing(shown: tuple[str, ...], printed: str) -> str | None:
    """The first line that is shown but not printed, in this order; None if all are."""
    lines = iter(x.rstrip() for x in printed.splitlines())
    for line in shown:
        if line.strip() in ("", "..."):
            continue
        pattern = ".*".join(re.escape(x.rstrip()) for x in line.split("..."))
        if not any(re.fullmatch(pattern, x) for x in lines):
            return line
    return None


def run_page(page: str, run: Run, *, commands: bool = True) -> int:
    """Run the blocks of a page in the current folder; how many were run."""
    names: dict[str, Any] = {"__name__": "__docs__"}
    done = 0
    for block in blocks(page):
        if block.language == "python":
            named = re.match(r"# (\w+\.py)\n", block.text)
            if named:
                Path(named[1]).write_text(block.text)
            exec(compile(block.text, page, "exec", dont_inherit=True), names)
            done += 1
        elif block.language == "toml" and block.text.startswith("# "):
            Path(block.text.split("\n")[0].removeprefix("# ")).write_text(block.text)
        elif block.language == "console" and commands:
            for step in steps(block):
                _check(page, step, run)
                done += 1
    return done


def _check(page: str, step: Step, run: Run) -> None:
    program, *arguments = step.words
    if program == "surefoot":
        code, out, err = run(*arguments)
    else:
        assert program == "python", f"{page}: {step.words}: only surefoot and python are run"
        script = ROOT / arguments[0]
        ran = subprocess.run(
            [sys.executable, str(script), *arguments[1:]], capture_output=True, text=True
        )
        code, out, err = ran.returncode, ran.stdout, ran.stderr
    where = f"{page}: {' '.join(step.words)}"
    assert code == step.code, f"{where}\nended with {code}, not {step.code}\n{out}{err}"
    lost = missing(step.shown, out + err)
    assert lost is None, f"{where}\ndoes not print (in this order)\n  {lost}\nbut\n{out}{err}"
