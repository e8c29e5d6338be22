"""`make bench`: all benchmarks, each in a process of its own; figures are ratios taken in one
run, since machines are noisy.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    """Fits of many small problems, trials of the figures, the LP against the sweep, groups, then
    one large problem at several sizes.
    """
    jobs = [
        ["fits.py"],
        ["studies.py"],
        ["lp.py"],
        ["logs.py"],
        ["groups.py"],
        ["scale.py", "compare"],
        ["scale.py", "compare", "--local"],
        ["scale.py", "growth"],
    ]
    chosen = [job for job in jobs if not sys.argv[1:] or job[0].removesuffix(".py") in sys.argv[1:]]
    for job in chosen:
        print(f"\n== {' '.join(job)}\n", flush=True)
        subprocess.run([sys.executable, str(HERE / job[0]), *job[1:]], check=True)


if __name__ == "__main__":
    main()
