"""Every code block and every command that the documentation shows runs, and prints what is shown."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from support import logfiles
from support.documents import DOCS, NOT_RUN, PAGES, blocks, inline, missing, run_page, steps
from surefoot.cli import app

QUICK = ("first-log.md", "your-log.md")  # pages whose commands are run by make test, too
TOLD_APART = ("walks.md",)  # run by test_walks
NOTEBOOKS = "notebooks/"  # run by test_docs_site, as the files that the build makes of them
# their Python reads what their commands write, or takes seconds
WHOLE = ("questions.md", "report.md", "in-use.md", "guards.md", "rollout.md")
WHOLE = (*WHOLE, "studies.md", "benchmark.md")


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of the pages."""
    folder = tmp_path_factory.mktemp("logs")
    spec = importlib.util.spec_from_file_location("make_logs", DOCS / "make_logs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        module.main()
    return folder


@pytest.fixture
def here(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the logs, as the current one."""
    for path in logs.iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # modules of pages are found in the folder
    for name in ("my_methods", "my_worlds"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    return lambda *arguments: logfiles.run(monkeypatch, capsys, *arguments)


def has(page: str, *languages: str) -> bool:
    return any(x.language in languages for x in blocks(page))


@pytest.mark.parametrize(
    "page",
    [
        x
        for x in PAGES
        if has(x, "python") and x not in (*QUICK, *WHOLE) and not x.startswith(NOTEBOOKS)
    ],
)
def test_the_python_of_a_page_runs(page: str, here: Path, run: Any) -> None:
    assert run_page(page, run, commands=False) > 0


def test_the_first_use_in_python_finds_the_action_that_pays(here: Path) -> None:
    names: dict[str, Any] = {}
    code = next(x.text for x in blocks("python.md") if x.language == "python")
    exec(compile(code, "python.md", "exec", dont_inherit=True), names)
    assert names["solution"].pi.argmax(axis=1).tolist() == [1, 1]


@pytest.mark.parametrize("page", QUICK)
def test_the_first_pages_run_whole(page: str, here: Path, run: Any) -> None:
    assert run_page(page, run) > 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [x for x in PAGES if has(x, "console") and x not in (*QUICK, *TOLD_APART)]
)
def test_a_page_runs_whole(page: str, here: Path, run: Any) -> None:
    assert run_page(page, run) > 0


def test_blocks_that_hold_commands_are_run_or_say_why_not() -> None:
    for page in PAGES:
        for block in blocks(page):
            commands = [
                x for x in block.text.splitlines() if x.lstrip("$ ").startswith("surefoot ")
            ]
            if block.language == "console":
                assert len(commands) <= len(list(steps(block))), page
            elif block.language != "python" and commands:
                assert NOT_RUN in block.before, f"{page}: {commands[0]}"


def test_no_command_hides_in_an_indented_block() -> None:
    for page in PAGES:
        text = (DOCS / page).read_text()
        assert "\n    surefoot " not in text, page
        assert "\n    $ " not in text, page


def options(command: str) -> set[str]:
    """The options of a command."""
    found = typer.main.get_command(app).commands[command]  # type: ignore[attr-defined]
    return {x for parameter in found.params for x in parameter.opts} | {"--help"}


def test_commands_in_the_prose_exist_with_their_options() -> None:
    seen = 0
    for page in PAGES:
        for line in inline(page):
            words = shlex.split(line)
            if words[1].isupper():  # surefoot COMMAND --help
                continue
            given = {x.split("=")[0] for x in words if x.startswith("--")}
            assert given <= options(words[1]), f"{page}: {line}"
            seen += 1
    assert seen > 30


def test_what_is_shown_must_be_printed_in_its_order() -> None:
    printed = "first line\nsecond line, with 3 numbers\nthird\n"
    assert missing(("first line", "...", "third"), printed) is None
    assert missing(("second line, ... numbers",), printed) is None
    assert missing(("third", "first line"), printed) == "first line"
    assert missing(("second",), printed) == "second"
