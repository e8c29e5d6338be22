"""Write the small logs that the pages of this documentation use, into the current folder.

    python docs/make_logs.py

log.csv, rule.csv          the boat of `surefoot demo` and its rule of thumb
visits.csv, later.csv      visits to three wards, last year's and this year's; ends are flagged
visits-rule.csv            how often the wards treat as usual: 7 times of 10
careless.csv               a policy that does the wrong thing in every ward
export.csv                 last year's visits as another program exports them: other names, ";",
                           decimal commas, an outcome in the last row of a visit alone
machines.csv               the lives of machines that are run or serviced every week
machines-later.csv         as many others
machines-rule.csv          how often each is done: run 8 times of 10
readings.csv               measurements instead of states
infusions.csv              millilitres of fluid as actions, by lactate and pressure
protocol.csv               how often much of it is given, by the band of lactate
banners.csv, house.csv     which banner two policies showed, with propensities; and a third policy
bold.csv                   a policy to be tested on them
"""

from __future__ import annotations

import csv
import shutil
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from surefoot import Labels, Policy

HEALS = {"usual": (0.30, 0.30, 0.45), "other": (0.50, 0.45, 0.20)}  # in ward 0, 1, 2
LABELS = Labels(("ward 0", "ward 1", "ward 2"), ("usual", "other"))
Rows = list[tuple[Any, ...]]


def visits(n: int, rng: np.random.Generator, prefix: str) -> Rows:
    """n visits of up to three steps: the healed go home with reward 1."""
    rows: Rows = []
    for visit in range(n):
        for step in range(3):
            ward, action = int(rng.integers(3)), "usual" if rng.random() < 0.7 else "other"
            healed = rng.random() < HEALS[action][ward]
            ended = healed or step == 2
            rows.append((f"{prefix}{visit}", step, f"ward {ward}", action, int(healed), int(ended)))
            if healed:
                break
    return rows


CONDITIONS, WEAR, MENDED = ("new", "worn", "old"), (0.4, 0.4, 0.5), (1.0, 0.8, 0.6)


def machines(n: int, rng: np.random.Generator) -> Rows:
    """n machines, from new until each breaks. To run one for a week earns 1 and may wear it, the
    old one breaks; a week with a service earns 0.3 and may make it new.
    """
    rows: Rows = []
    for machine in range(n):
        week, now = 0, 0
        while now < 3:
            action = "run" if rng.random() < 0.8 else "service"
            if action == "run":
                after, reward = now + (rng.random() < WEAR[now]), 1.0
            else:
                after, reward = 0 if rng.random() < MENDED[now] else now, 0.3
            names = CONDITIONS[now], action, reward, (*CONDITIONS, "broken")[after]
            rows.append((machine, week, *names, int(after == 3)))
            week, now = week + 1, after
    return rows


def exported(rows: Rows) -> Rows:
    """The same as another program writes it: no reward but in the last row, decimal commas."""
    return [
        (visit, step, ward.removeprefix("ward "), "B", action, f"{healed},0" if ended else "")
        for visit, step, ward, action, healed, ended in rows
    ]


def readings(n: int, rng: np.random.Generator) -> Rows:
    """Episodes of ten steps with two measurements; the dose lowers a high pulse."""
    rows: Rows = []
    for i in range(n):
        if i % 10 == 0:
            pulse = rng.normal(95, 15)
        dose = "high" if rng.random() < 0.3 else "low"
        rows.append((i // 10, i % 10, round(pulse, 1), round(rng.normal(60, 9), 1), dose))
        pulse += rng.normal(-6 if dose == "high" else 0, 4)
        rows[-1] += (round(-abs(pulse - 75) / 10, 2),)
    return rows


MUCH = {"low": 0.33, "high": 0.67}  # how often the protocol gives much fluid


def infusions(n: int, rng: np.random.Generator) -> Rows:
    """Single decisions by a protocol that looks at lactate alone; at low pressure much helps."""
    rows: Rows = []
    for _ in range(n):
        lactate, pressure = round(rng.gamma(4, 0.6), 2), round(rng.normal(70, 12), 1)
        band = "high" if lactate > 2.4 else "low"
        much = rng.random() < MUCH[band]
        fluid = round(rng.uniform(500, 1000) if much else rng.uniform(0, 500))
        better = rng.random() < 0.35 + 0.35 * (much == (pressure < 65))
        rows.append((lactate, pressure, band, fluid, int(better)))
    return rows


CLICKS = {"new": (0.10, 0.14, 0.20), "returning": (0.15, 0.25, 0.10)}  # of each banner
BANNERS = ("calm", "plain", "loud")
SHOWN = {
    "careful": (0.6, 0.3, 0.1),
    "explorer": (0.2, 0.4, 0.4),
}  # how often each policy shows them


def banners(n: int, rng: np.random.Generator) -> Rows:
    """n visitors, each of whom sees one banner that one of two policies drew."""
    rows: Rows = []
    for _ in range(n):
        visitor, policy = str(rng.choice(list(CLICKS))), str(rng.choice(list(SHOWN)))
        a = int(rng.choice(3, p=SHOWN[policy]))
        clicked = int(rng.random() < CLICKS[visitor][a])
        rows.append((visitor, BANNERS[a], clicked, policy, SHOWN[policy][a]))
    return rows


def write(name: str, header: str, rows: Rows, delimiter: str = ",") -> None:
    """One file."""
    with open(name, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(header.split(","))
        writer.writerows(rows)


def main() -> None:
    """All of them."""
    with resources.as_file(resources.files("surefoot") / "data") as data:
        shutil.copy(data / "wet_chicken.csv", "log.csv")
        shutil.copy(data / "wet_chicken_rule.csv", "rule.csv")
    rng = np.random.default_rng(0)
    header = "episode,time,state,action,reward,terminal"
    last_year, this_year = visits(1500, rng, "a"), visits(4000, rng, "b")
    write("visits.csv", header, last_year)
    write("later.csv", header, this_year)
    write("export.csv", "patient,day,ward,severity,treatment,outcome", exported(last_year), ";")
    write("readings.csv", "episode,time,pulse,age,action,reward", readings(2000, rng))
    fluids = infusions(3000, np.random.default_rng(7))
    write("infusions.csv", "lactate,pressure,band,fluid,better", fluids)
    rule: Rows = [(x, dose, p) for x, y in MUCH.items() for dose, p in ((250, 1 - y), (750, y))]
    write("protocol.csv", "band,action,probability", rule)
    careless = np.array([(0.9, 0.1), (0.9, 0.1), (0.1, 0.9)])
    for name, pi in (("visits-rule", np.array([(0.7, 0.3)] * 3)), ("careless", careless)):
        Policy(pi=pi, labels=LABELS).save(Path(f"{name}.csv"))
    header = "episode,time,state,action,reward,next_state,terminal"
    rng = np.random.default_rng(1)
    write("machines.csv", header, machines(1000, rng))
    write("machines-later.csv", header, machines(1000, rng))
    labels = Labels(CONDITIONS, ("run", "service"))
    Policy(pi=np.array([(0.8, 0.2)] * 3), labels=labels).save(Path("machines-rule.csv"))
    rows = banners(6000, np.random.default_rng(5))
    write("banners.csv", "state,action,reward,policy,pscore", rows)
    labels = Labels(tuple(CLICKS), BANNERS)
    house, bold = [(0.5, 0.4, 0.1)] * 2, [(0.1, 0.1, 0.8), (0.1, 0.8, 0.1)]
    for name, shares in (("house", house), ("bold", bold)):
        Policy(pi=np.array(shares), labels=labels).save(Path(f"{name}.csv"))


if __name__ == "__main__":
    main()
