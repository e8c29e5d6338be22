"""The Open Bandit data (60,000 real rows with propensities, in the package obp): the value of each
logged policy, estimated from the log of the other, against its own mean.

    pip install --no-deps --target obp-data obp==0.4.1
    python measurements/open_bandit.py obp-data/obp/dataset/obd

"random" shows every item equally often. "bts" (Bernoulli Thompson sampling) changes with what it
sees: as a policy it is taken as the shares of its own log, position by position.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from surefoot import read_log
from surefoot.evidence.value_on_log import weighted_values
from surefoot.logs import Log

PAGES = ("all", "men", "women")


def read(folder: Path, policy: str, page: str) -> Log:
    """One of the six logs."""
    return read_log(
        folder / policy / page / f"{page}.csv",
        bandit=True,
        state="position",
        action="item_id",
        reward="click",
        time="timestamp",
    )


def shares(log: Log, of: Log) -> np.ndarray:
    """The policy of one log, in the codes of another."""
    pi = np.full((log.n_states, log.n_actions), 1 / log.n_actions)
    estimated = of.estimated_baseline().pi
    for s, state in enumerate(log.states):
        if state in of.states and of.n_sa[of.states.index(state)].sum():
            row = estimated[of.states.index(state)]
            pi[s] = [row[of.actions.index(a)] if a in of.actions else 0.0 for a in log.actions]
            pi[s] /= pi[s].sum()
    return pi


def main() -> None:
    """One table."""
    folder = Path(sys.argv[1])
    print("clicks a thousand rows, 90 % intervals; 10,000 rows in each log")
    print(
        f"{'page':6} {'policy':7} {'its own mean':22} {'from the log of the other: IPS':32} SNIPS"
    )
    for page in PAGES:
        logs = {policy: read(folder, policy, page) for policy in ("random", "bts")}
        for policy, log in logs.items():
            other = logs["bts" if policy == "random" else "random"]
            pi = shares(other, log)
            if policy == "random":
                pi = np.full_like(pi, 1 / other.n_actions)
            found = weighted_values(other.problem(0.0), pi)
            own = weighted_values(log.problem(0.0), shares(log, log))["log"]
            cells = [
                f"{1000 * x['value']:.2f} [{1000 * x['low']:.2f}, {1000 * x['high']:.2f}]"
                for x in (own, found["ips"], found["snips"], found["dr"])
            ]
            size = found["ips"]["effective_episodes"]
            print(
                f"{page:6} {policy:7} {cells[0]:22} {cells[1]:32} {cells[2]}  DR {cells[3]}", end=""
            )
            print(f"  ({size:.0f} effective rows)")


if __name__ == "__main__":
    main()
