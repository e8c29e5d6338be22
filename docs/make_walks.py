"""The worlds of two walks from a raw export to a watched roll-out: their logs, and the truth.

    python docs/make_walks.py [ward POLICY | shop POLICY]

writes into the current folder

stays.csv            stays in hospital as another program exports them: ";", decimal commas, days
                     first, an outcome in words, vitals that are missing at times
shop.csv             what three versions of a shop showed to whom: propensities, clicks, revenue
shop-rule.csv        what the shop shows today

or, with a policy that `surefoot improve` made of one of them, the log of its roll-out,
stays-new.csv or shop-new.csv: by lot half by the policy, half as before. `Ward.worth` and
`Shop.worth` know what a policy is truly worth. Both worlds are invented.
"""

from __future__ import annotations

import csv
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

Rows = list[tuple[Any, ...]]
HABIT = np.array([0.2, 0.3, 0.35])  # how often a vasopressor is given today, by lactate
DRUGS = "fluids", "vasopressor"


class Ward:
    """A patient is a lactate level (below 2, 2 to 4, from 4 on) and a heart rate (calm, fast), and
    is seen every 8 hours until discharge or death. Early on a vasopressor does more harm than good;
    from lactate 4 on it helps.
    """

    die = np.array([[0.002, 0.010, 0.08], [0.004, 0.012, 0.04]])  # [drug, lactate]
    home = np.array([0.40, 0.10, 0.01])
    better = np.array([[0.0, 0.30, 0.20], [0.0, 0.20, 0.45]])
    worse = np.array([[0.10, 0.12, 0.0], [0.20, 0.22, 0.0]])
    fast = np.array([0.25, 0.35])  # heart rate at the next look, by drug
    start = np.array([0.2, 0.5, 0.3])
    cost = np.array([[180.0, 250.0, 700.0], [210.0, 280.0, 730.0]])  # of 8 hours, in EUR

    def look(self, rng: np.random.Generator, lactate: np.ndarray, fast: np.ndarray) -> np.ndarray:
        """Measurements [n, 2]; one in 25 is missing."""
        low, high = np.array([0.6, 2.0, 4.0])[lactate], np.array([2.0, 4.0, 9.0])[lactate]
        pulse = np.where(fast, rng.uniform(100, 140, len(fast)), rng.uniform(62, 100, len(fast)))
        found = np.stack([rng.uniform(low, high), pulse], axis=1)
        return np.where(rng.random(found.shape) < 0.04, np.nan, found)

    def run(
        self, rng: np.random.Generator, share: np.ndarray
    ) -> tuple[list[tuple[np.ndarray, ...]], np.ndarray]:
        """(of every look: who is there, measurements, drugs, cost; who survived). `share`
        [n, 3, 2]: how often each patient gets a vasopressor, by lactate and heart rate as last
        measured.
        """
        n = len(share)
        lactate, fast = rng.choice(3, n, p=self.start), rng.random(n) < 0.3
        seen = np.stack([lactate, fast], axis=1).astype(int)
        here, survived, looks = np.arange(n), np.zeros(n, dtype=bool), []
        while len(here):
            found = self.look(rng, lactate[here], fast[here])
            if looks:  # the first look is never without a number
                now = np.stack([np.digitize(found[:, 0], (2, 4)), found[:, 1] >= 100], axis=1)
                seen[here] = np.where(np.isnan(found), seen[here], now)
            else:
                first = self.look(rng, lactate[here], fast[here])
                while np.isnan(found).any():
                    found = np.where(np.isnan(found), first, found)
                    first = self.look(rng, lactate[here], fast[here])
            drug = (rng.random(len(here)) < share[here, seen[here, 0], seen[here, 1]]).astype(int)
            level, haste = lactate[here], np.where(fast[here], 0.6, 1.0)
            looks.append((here, found, drug, self.cost[drug, level] + rng.normal(0, 20, len(here))))
            dies = rng.random(len(here)) < self.die[drug, level] / haste
            goes = ~dies & (rng.random(len(here)) < self.home[level] * haste)
            survived[here[goes]] = True
            move = rng.random(len(here))
            lactate[here] = np.where(
                move < self.better[drug, level],
                level - 1,
                np.where(move > 1 - self.worse[drug, level], level + 1, level),
            )
            fast[here] = rng.random(len(here)) < self.fast[drug]
            here = here[~dies & ~goes]
        return looks, survived

    def worth(self, share: np.ndarray, n: int = 400_000) -> tuple[float, float]:
        """(the share that survives, EUR a stay) where a vasopressor is given in a share [3, 2]."""
        looks, survived = self.run(np.random.default_rng(1), np.broadcast_to(share, (n, 3, 2)))
        return float(survived.mean()), sum(float(x[3].sum()) for x in looks) / n

    def rows(self, rng: np.random.Generator, share: np.ndarray, arm: np.ndarray, year: int) -> Rows:
        """A row for every look, in the order of the stays."""
        looks, survived = self.run(rng, share)
        begin = datetime(year, 1, 6, 8)
        begins = [
            begin + timedelta(hours=float(x)) for x in np.sort(rng.integers(0, 8000, len(arm)))
        ]
        sex, ward = rng.choice(["f", "m"], len(arm)), rng.choice(["north", "south"], len(arm))
        found: list[Rows] = [[] for _ in arm]
        for i, (here, vitals, drug, cost) in enumerate(looks):
            stay_on = set(looks[i + 1][0].tolist()) if i + 1 < len(looks) else set()
            for p, x, a, c in zip(here.tolist(), vitals, drug, cost, strict=True):
                end = "" if p in stay_on else ("survived" if survived[p] else "died")
                when = (begins[p] + timedelta(hours=8 * i)).strftime("%d/%m/%Y %H:%M")
                numbers = ["" if np.isnan(y) else f"{y:.1f}".replace(".", ",") for y in x]
                paid = f"{c:.2f}".replace(".", ",")
                row = p + 1, when, ward[p], sex[p], *numbers, DRUGS[a], paid, end
                found[p].append((*row, arm[p]) if arm[p] else row)
        return [row for rows in found for row in rows]


def habit() -> np.ndarray:
    """What the wards do today [3, 2]."""
    return np.repeat(HABIT[:, None], 2, axis=1)


CELLS = [
    f"{lactate} and {pulse}"
    for lactate in ("lactate < 2", "2 <= lactate < 4", "lactate >= 4")
    for pulse in ("heart_rate < 100", "heart_rate >= 100")
]
STAYS = "stay,when,ward,sex,lactate,heart_rate,treatment,cost,outcome"


def ward_log(n: int = 5000) -> Rows:
    """The export."""
    shares = np.broadcast_to(habit(), (n, 3, 2))
    return Ward().rows(np.random.default_rng(11), shares, np.array([""] * n), 2025)


def ward_trial(share: np.ndarray, n: int = 3000) -> Rows:
    """A roll-out: every stay by lot "old" or "new"."""
    rng = np.random.default_rng(12)
    arm = rng.choice(["old", "new"], n)
    shares = np.where((arm == "new")[:, None, None], share, habit())
    return Ward().rows(rng, shares, arm, 2026)


SEGMENTS = "new", "weekly", "gift", "sport", "home", "vip"
ITEMS = "lamp", "tent", "book", "mug", "shoes"


class Shop:
    """A visitor of one of six segments sees one of five items, clicks or not, and may buy."""

    clicks = np.array([
        [0.05, 0.03, 0.06, 0.04, 0.05],
        [0.06, 0.04, 0.05, 0.04, 0.05],
        [0.05, 0.03, 0.05, 0.10, 0.04],
        [0.03, 0.09, 0.03, 0.02, 0.08],
        [0.08, 0.03, 0.04, 0.06, 0.03],
        [0.06, 0.05, 0.06, 0.04, 0.06],
    ])  # fmt: skip
    price = np.array([40.0, 90.0, 15.0, 12.0, 70.0])
    bought = 0.2  # of the clicks
    visitors = np.array([0.3, 0.25, 0.1, 0.15, 0.15, 0.05])
    versions: ClassVar = {
        "popular": np.tile([0.5, 0.1, 0.2, 0.1, 0.1], (6, 1)),
        "season": np.tile([0.1, 0.4, 0.1, 0.1, 0.3], (6, 1)),
        "even": np.full((6, 5), 0.2),
    }

    def worth(self, pi: np.ndarray) -> tuple[float, float]:
        """(clicks, EUR) a visitor of a policy [6, 5]."""
        clicks = (pi * self.clicks).sum(axis=1) @ self.visitors
        paid = (pi * self.clicks * self.bought * self.price).sum(axis=1) @ self.visitors
        return float(clicks), float(paid)

    def rows(
        self, rng: np.random.Generator, n: int, policies: dict[str, np.ndarray], *, rolled_out: bool
    ) -> Rows:
        """n visits over 30 days; which policy chose is drawn by lot."""
        rows: Rows = []
        names, begin = list(policies), datetime(2026, 3, 1)
        seconds = np.sort(rng.integers(0, 30 * 86400, n)).tolist()
        for visit, second in enumerate(seconds):
            name, s = names[int(rng.integers(len(names)))], int(rng.choice(6, p=self.visitors))
            p = policies[name][s]
            a = int(rng.choice(5, p=p))
            clicked = rng.random() < self.clicks[s, a]
            paid = float(self.price[a]) if clicked and rng.random() < self.bought else 0.0
            when = (begin + timedelta(seconds=second)).isoformat()
            row = visit, when, SEGMENTS[s], ITEMS[a], name
            rows.append(
                (*row, *(() if rolled_out else (round(float(p[a]), 6),)), int(clicked), paid)
            )
        return rows


VISITS = "visit,when,segment,item,version,propensity,clicked,revenue"


def read(path: str | Path, states: list[str], actions: tuple[str, ...]) -> np.ndarray:
    """A policy file [states, actions]."""
    pi = np.zeros((len(states), len(actions)))
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            state = row.get("state", row.get("segment"))
            if state in states:
                pi[states.index(state), actions.index(row["action"])] = float(row["probability"])
    return pi


def ward_share(path: str | Path) -> np.ndarray:
    """How often a policy gives a vasopressor [3, 2]."""
    return read(path, CELLS, DRUGS)[:, 1].reshape(3, 2)


def write(name: str, header: str, rows: Rows, delimiter: str = ",") -> None:
    """One file."""
    with open(name, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(header.split(","))
        writer.writerows(rows)


def main(words: list[str]) -> None:
    """The exports, or a roll-out."""
    shop = Shop()
    if words[:1] == ["ward"]:
        write("stays-new.csv", f"{STAYS},arm", ward_trial(ward_share(words[1])), ";")
    elif words[:1] == ["shop"]:
        both = {"old": shop.versions["popular"], "new": read(words[1], list(SEGMENTS), ITEMS)}
        rows = shop.rows(np.random.default_rng(14), 30_000, both, rolled_out=True)
        write("shop-new.csv", VISITS.replace(",propensity", ""), rows)
    else:
        write("stays.csv", STAYS, ward_log(), ";")
        rows = shop.rows(np.random.default_rng(13), 60_000, shop.versions, rolled_out=False)
        write("shop.csv", VISITS, rows)
        today = zip(SEGMENTS, shop.versions["popular"], strict=True)
        rule = [(s, a, p) for s, row in today for a, p in zip(ITEMS, row, strict=True)]
        write("shop-rule.csv", "segment,action,probability", rule)


if __name__ == "__main__":
    main(sys.argv[1:])
