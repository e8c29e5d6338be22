"""A study of your own: three algorithms, two sizes of data, many trials, judged by the truth.

    python examples/own_study.py                                       (--quick: small, seconds)

The same file runs with `surefoot run study.toml --out FOLDER`; an interrupted run resumes.
"""

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

STUDY = """
name = "own-study"
seed = 1
trials = {trials}
alpha = 0.05                # the CVaR is the mean of the worst 5 % of the trials

[benchmark]
name = "wet-chicken"
sizes = [500, 2000]         # steps of the log

[[algorithms]]
name = "basic-rl"

[[algorithms]]
name = "lower-exact-soft-spibb"
epsilon = 0.5
delta = 1

[[algorithms]]
name = "priced-soft-spibb"
epsilon = 1
z = 0
growth = 0.12
"""


def main(trials: int) -> None:
    """Write the study, run it, and print its summary."""
    folder = Path(tempfile.mkdtemp())
    (folder / "study.toml").write_text(STUDY.format(trials=trials))
    run = [sys.executable, "-m", "surefoot.cli", "run", str(folder / "study.toml")]
    subprocess.run([*run, "--out", str(folder / "out"), "--workers", "1"], check=True)
    with open(folder / "out" / "summary.csv", newline="") as file:
        for row in csv.DictReader(file):
            mean, cvar, worse = (float(row[x]) for x in ("mean", "cvar", "worse_than_baseline"))
            said = f"mean {mean:.2f}, worst 5 % {cvar:.2f}, worse than the baseline {worse:.0%}"
            print(f"{row['size']:>5} steps  {row['algorithm']:24} {said}")


if __name__ == "__main__":
    main(100 if "--quick" in sys.argv else 2000)
