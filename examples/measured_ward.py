"""A ward without states: lactate and pressure are numbers, fluids are given in millilitres, and the
protocol that chose them is a table over a column of the log.

    python examples/measured_ward.py

The protocol gives much fluid to high lactate in two of three cases. In truth low pressure matters.
"""

import csv
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import surefoot

COLUMNS = ("lactate", "pressure", "band", "fluid", "better")
MUCH = {"high": 0.67, "low": 0.33}  # how often the protocol gives much, by the band of lactate


def patients(n: int, rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """One decision each: lactate, pressure, the band of lactate, fluid in ml, whether it helped."""
    rows: list[tuple[Any, ...]] = []
    for _ in range(n):
        lactate, pressure = round(rng.gamma(4, 0.6), 2), round(rng.normal(70, 12), 1)
        much = rng.random() < MUCH[band := "high" if lactate > 2.4 else "low"]
        fluid = round(rng.uniform(500, 1000) if much else rng.uniform(0, 500))
        better = rng.random() < 0.35 + 0.35 * (much == (pressure < 65))
        rows.append((lactate, pressure, band, fluid, int(better)))
    return rows


def main() -> None:
    """Improve the protocol, and write what a bedside computer can ask."""
    folder, rng = Path(tempfile.mkdtemp()), np.random.default_rng(7)
    with open(folder / "ward.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *patients(4000, rng)])

    def protocol(row: Any) -> dict[str, float]:
        # a dose stands for the range that it falls into
        return {"250": 1 - MUCH[row["band"]], "750": MUCH[row["band"]]}

    advice = surefoot.advise(
        folder / "ward.csv", features=["lactate", "pressure"], action="fluid", action_bins=2,
        reward="better", bandit=True, reward_range=(0, 1), deterministic="mixture",
        baseline=surefoot.OfRows(protocol, ["band"]),
    )  # fmt: skip
    print(advice)
    files = advice.save(folder / "improved")
    made_by, bedside = files["encoder.json"], folder / "bedside.json"
    controller = surefoot.export(files["policy.csv"], bedside, encoder=made_by)
    for pressure in (50, 85):
        dose = controller.decide({"lactate": 1.5, "pressure": pressure})
        print(f"pressure {pressure}: {dose:g} ml")


if __name__ == "__main__":
    main()
