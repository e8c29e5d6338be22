"""A pump without states: pressure and temperature every minute, three speeds, one long log. What
would finer or coarser states give? Then improve, and write a block for the machine's controller.

    python examples/measured_pump.py

The rule runs fast until it is 66 degrees warm, and takes any speed in two of five minutes. From 60
degrees on a pump moves less: the cut points of the temperature are those that a fitter knows.
"""

import csv
import tempfile
from pathlib import Path

import numpy as np

import surefoot

COLUMNS = ("minute", "pressure", "temperature", "speed", "litres")
HEATS = {"slow": -1.5, "middle": -0.2, "fast": 1.2}
MOVES = {"slow": 2.0, "middle": 3.0, "fast": 4.0}


def minutes(n: int, rng: np.random.Generator) -> list[tuple[object, ...]]:
    """Hot pumps move little; the pressure ahead comes and goes."""
    rows: list[tuple[object, ...]] = []
    warm, ahead = 50.0, 3.0
    for minute in range(n):
        speed = "fast" if warm < 66 else "slow"
        if rng.random() < 0.4:
            speed = str(rng.choice(list(HEATS)))
        litres = MOVES[speed] * (1.0 if warm < 60 else 0.3) - 0.2 * ahead + rng.normal(0, 0.2)
        rows.append((minute, f"{ahead:.3f}", f"{warm:.2f}", speed, f"{litres:.3f}"))
        warm = float(np.clip(warm + HEATS[speed] + rng.normal(0, 1), 30, 80))
        ahead = float(np.clip(ahead + rng.normal(0, 0.5), 1, 6))
    return rows


def main() -> None:
    """Check, improve, export."""
    folder = Path(tempfile.mkdtemp())
    log = folder / "pump.csv"
    with open(log, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *minutes(6000, np.random.default_rng(3))])
    how = {"features": ["pressure"], "episode": "-", "time": "minute"}
    how |= {"action": "speed", "reward": "litres", "gamma": 0.9}
    how |= {"edges": {"temperature": [58, 60, 62, 66]}}
    print(surefoot.check(log, **how))
    advice = surefoot.advise(log, deterministic="mixture", **how)
    print(advice)
    files = advice.save(folder / "improved")
    block, made_by = folder / "pump.st", files["encoder.json"]
    surefoot.export(files["policy.csv"], block, encoder=made_by, accept=not advice.supported)
    print(f"{len(block.read_text().splitlines())} lines of Structured Text")


if __name__ == "__main__":
    main()
