"""Five minutes with a log: check it, improve its baseline, look at what changed, and use it.

    python examples/five_minutes.py

The log ships with surefoot: a boat on a river with a waterfall, steered by a rule of thumb.
"""

from pathlib import Path

import numpy as np

import surefoot

DATA = Path(surefoot.__file__).parent / "data"
LOG, RULE = DATA / "wet_chicken.csv", DATA / "wet_chicken_rule.csv"


def main() -> None:
    """What `surefoot check` and `surefoot improve` do, step by step."""
    # 1. Check: what can the log teach?
    found = surefoot.check(LOG, baseline=RULE)
    print(f"1. {len(found.findings)} findings; these forbid a promise: {found.vetoes or 'none'}")

    # 2. Improve, and test on the half of the log that the policy was not learned from.
    advice = surefoot.advise(LOG, gamma=0.95, baseline=RULE, reward_range=(0, 4))
    print(f"2. {advice.verdict}: {advice.reason}")

    # 3. What changes? The three states with the largest moves.
    print(f"3. {len(advice.changed)} states change, {advice.mass_moved:.0%} of decisions")
    log = advice.log
    for s in np.argsort(-advice.moved)[:3]:
        more = int(np.argmax(advice.pi[s] - advice.pi_b[s]))
        pair = log.labels.states[s], log.labels.actions[more]
        print(f"   {pair[0]}: more often {pair[1]!r}, seen {log.n_sa[s, more]:.0f} times")

    # 4. Use it. advice.save("improved") writes policy.csv, report.html and the rest.
    print("4. in state x=2 y=2:", advice.policy.act("x=2 y=2", np.random.default_rng(0)))


if __name__ == "__main__":
    main()
