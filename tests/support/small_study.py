"""A study of seconds for the tests of spec, trials, store and runner; as a script:
small_study.py OUT WORKERS SHARD_TRIALS [TRIALS].
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from surefoot.research.studies.results import Results, summary_rows, write_summary
from surefoot.research.studies.runner import run
from surefoot.research.studies.spec import Study, parse_study
from surefoot.statistics.metrics import Intervals

TEXT = """
name = "small"
seed = 7
trials = 16
alpha = 0.4

[benchmark]
name = "random-mdps"
sizes = [5, 30]
n_states = 8
n_actions = 3
n_successors = 3
horizon = 20
eta = [0.9, 0.5]

[[algorithms]]
name = "basic-rl"

[[algorithms]]
name = "duipi"
xi = 0.2
max_steps = 300

[[algorithms]]
name = "pi-b-spibb"
n_wedge = [2, 5]

[[algorithms]]
name = "adv-approx-soft-spibb"
delta = 1
epsilon = 0.5
"""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
ARRAYS = ("score", "baseline", "converged")


def small(trials: int | None = None, seed: int = 7) -> Study:
    """The small study with so many trials, from this seed."""
    return parse_study(TEXT.replace("seed = 7", f"seed = {seed}"), "small.toml", trials)


def digest(results: Results) -> str:
    """Of the cells and every bit of the arrays."""
    found = hashlib.sha256(repr(results.cells).encode())
    for name in ARRAYS:
        found.update(getattr(results, name).tobytes())
    return found.hexdigest()


def start(
    out: Path, *, workers: int = 1, shard_trials: int = 4, trials: int | None = None
) -> subprocess.Popen[str]:
    """Run the study in a process group of its own: fresh processes import the main module, which
    must not be the test runner.
    """
    command = [
        sys.executable,
        __file__,
        str(out),
        str(workers),
        str(shard_trials),
        *([] if trials is None else [str(trials)]),
    ]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **ONE_THREAD},
        preexec_fn=heed_ctrl_c,
    )


def heed_ctrl_c() -> None:
    """What a shell switches off for commands in the background (Ctrl-C), or nohup (SIGHUP)."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def finish(out: Path, **options: Any) -> tuple[str, bytes]:
    """Run the study to its end: the digest of its results, and the bytes of its summary."""
    process = start(out, **options)
    said, complaint = process.communicate(timeout=120)
    assert process.returncode == 0, complaint
    return said.strip(), (out / "summary.csv").read_bytes()


@contextmanager
def tiny_disk(path: Path, size: str = "64k") -> Iterator[Path | None]:
    """A file system of a few kB at `path`; None where it may not be made."""
    path.mkdir()
    mount = shutil.which("mount")
    made = (
        mount
        and subprocess.run(
            [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True
        ).returncode
        == 0
    )
    try:
        yield path if made else None
    finally:
        if made:
            subprocess.run(["umount", str(path)], check=True)


def main() -> None:
    """Run it, write summary.csv into its folder, and print the digest of the results."""
    out, workers, shard_trials, *trials = sys.argv[1:]
    study = small(trials=int(trials[0]) if trials else None)
    results = run(study, out, workers=int(workers), shard_trials=int(shard_trials))
    write_summary(Path(out) / "summary.csv", summary_rows(results, Intervals(study.alpha, 50)))
    print(digest(results))


if __name__ == "__main__":
    main()
