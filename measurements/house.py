"""How large the house is, and what one `surefoot improve` touches of it: the ledger of its size.

    python measurements/house.py [--runs 5]

Counts packages, files and lines; types of results, functions that word them, options of the command
line; then runs the README's `surefoot improve` of the shipped log: once under a profiler, for the
functions, files and classes it uses and the DuckDB connections it opens, and in fresh processes for
its seconds.
"""

from __future__ import annotations

import argparse
import ast
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "surefoot"
# thirteen answers to one question, in the words of the day they were counted
RESULTS = (
    *("Gain", "UnitEstimate", "Gate", "SafetyTest", "SafetyPart", "GainEvidence", "LowerBound"),
    *("ValueEstimate", "HcpiVerdict", "Certificate", "Assurance", "Capital", "Watch", "AtStrength"),
)
FUNCTION = 1  # CO_OPTIMIZED: code of a function, not of a module or of a class
# as README's: a process of its own, started as the command is
COMMAND = (sys.executable, "-c", "from surefoot.cli import main; main()")


def improvement(out: str) -> list[str]:
    """README's command on the log that ships."""
    data = SRC / "data"
    log, rule = str(data / "wet_chicken.csv"), str(data / "wet_chicken_rule.csv")
    more = ["--gamma", "0.95", "--baseline", rule, "--reward-range", "0,4", "--out", out]
    return ["improve", log, *more]


def sizes() -> dict[str, object]:
    """Packages, files and lines; types and functions by their names."""
    sources, tests = sorted(SRC.rglob("*.py")), sorted((ROOT / "tests").rglob("*.py"))
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sources]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    classes = {x.name for x in nodes if isinstance(x, ast.ClassDef)}
    functions = [x.name for x in nodes if isinstance(x, ast.FunctionDef)]
    return {
        "packages": sum(x.is_dir() and (x / "__init__.py").exists() for x in SRC.iterdir()),
        "modules beside them": sum(x.name != "__init__.py" for x in SRC.glob("*.py")),
        "files of src": len(sources),
        "lines of src": _lines(sources),
        "files of tests": len(tests),
        "lines of tests": _lines(tests),
        f"result types, of {len(RESULTS)} names": sum(x in classes for x in RESULTS),
        "functions *_summary": sum(x.endswith("_summary") for x in functions),
        "functions *_lines": sum(x.endswith("_lines") for x in functions),
    }


def _lines(paths: list[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def options() -> dict[str, object]:
    """Option slots: options of all commands together, without --help."""
    from typer.main import get_command

    from surefoot.cli import app

    shown, hidden = [], []
    for command in get_command(app).commands.values():  # type: ignore[attr-defined]
        for option in command.params:
            if option.param_type_name == "option" and option.name != "help":
                (hidden if getattr(option, "hidden", False) else shown).append(option.opts[0])
    return {
        "option slots shown": len(shown),
        "distinct options shown": len(set(shown)),
        "option slots hidden": len(hidden),
    }


def touched(out: str) -> dict[str, object]:
    """What one improve uses, in this process: nothing of surefoot may be imported before."""
    import duckdb

    functions: set[tuple[str, int]] = set()
    used: set[type] = set()
    opened = 0
    connect = duckdb.connect

    def counted(*given: Any, **named: Any) -> Any:
        nonlocal opened
        opened += 1
        return connect(*given, **named)

    def see(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call":
            return
        if code.co_name == "__init__" and "self" in frame.f_locals:
            made = type(frame.f_locals["self"])
            if made.__module__.split(".")[0] == "surefoot":
                used.add(made)
        inside = code.co_filename.startswith(str(SRC))
        if inside and code.co_flags & FUNCTION and not code.co_name.startswith("<"):
            functions.add((code.co_filename, code.co_firstlineno))

    duckdb.connect = counted
    sys.setprofile(see)
    try:
        _improve(out)
    finally:
        sys.setprofile(None)
    loaded = [m for name, m in sys.modules.items() if name.split(".")[0] == "surefoot"]
    defined = {
        x
        for module in loaded
        for x in vars(module).values()
        if isinstance(x, type) and x.__module__ == module.__name__
    }
    return {
        "functions touched": len(functions),
        "files touched": len({name for name, _ in functions}),
        "modules imported": len(loaded),
        "classes of these modules": len(defined),
        "classes with an instance": len(used),
        "DuckDB connections": opened,
    }


def _improve(out: str) -> None:
    from typer.main import get_command

    from surefoot.cli import app

    with redirect_stdout(StringIO()):
        get_command(app).main(improvement(out), standalone_mode=False)


def seconds(runs: int) -> dict[str, object]:
    """The medians of so many runs, each in a fresh process; those of the processor are disturbed
    less by other work on the machine.
    """
    found, work = [], []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(runs + 1):  # the first warms the files
            begin, used = time.perf_counter(), _processor()
            line = [*COMMAND, *improvement(f"{folder}/{i}")]
            subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
            found.append(time.perf_counter() - begin)
            work.append(_processor() - used)
    return {
        f"seconds of improve, median of {runs}": round(statistics.median(found[1:]), 2),
        "seconds of the processor": round(statistics.median(work[1:]), 2),
    }


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Count, run and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--touched", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.touched:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(touched(f"{folder}/out")))
        return
    line = [sys.executable, __file__, "--touched"]
    said = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout
    ledger = sizes() | options() | json.loads(said) | seconds(given.runs)
    for name, value in ledger.items():
        print(f"{name:36}{value:>10,}")


if __name__ == "__main__":
    main()
