"""Five minutes with a log: check it, improve its baseline, look at what changed, and use it.

    python examples/five_minutes.py

The log ships with surefoot: a boat on a river with a waterfall, steered by a rule of thumb.
"""

from pathlib import Path

import numpy as np

import surefoot

DATA = Path(surefoot.__file__).parent / "data"


def main() -> None:
    """What `surefoot check` and `surefoot improve` do, step by step."""
    # 1. Read: labels, counts, and an account of every row.
    log = surefoot.read_log(DATA / "wet_chicken.csv")
    rule = surefoot.read_policy(DATA / "wet_chicken_rule.csv", log, unknown_states="ignore")
    print(f"1. {log.n_sa.sum():.0f} steps, {log.n_states} states, {log.n_actions} actions")

    # 2. Check: what can it teach?
    findings = surefoot.check_log(log, gamma=0.95, baseline=rule)
    worried = [x.sentence for x in findings if x.level == "warning"]
    print(f"2. {len(findings)} findings, {len(worried)} warnings", *worried)

    # 3. Improve, and test on the half of the log that the policy was not learned from.
    problem = log.problem(0.95, rule, reward_range=(0, 4))
    method = surefoot.PricedSoftSPIBB(epsilon=1, z=0, growth=0.12)
    advice = surefoot.advise(log, problem, method)
    print(f"3. {advice.verdict}: {advice.reason}")

    # 4. What changed? The three states with the largest moves.
    print(f"4. {len(advice.changed)} states change, {advice.mass_moved:.0%} of decisions")
    for s in np.argsort(-advice.moved)[:3]:
        more = int(np.argmax(advice.policy[s] - problem.pi_b[s]))
        pair = log.labels.states[s], log.labels.actions[more]
        print(f"   {pair[0]}: more often {pair[1]!r}, seen {log.n_sa[s, more]:.0f} times")

    # 5. Use it.
    policy = problem.policy_of(advice.policy)
    print("5. in state x=2 y=2:", policy.act("x=2 y=2", np.random.default_rng(0)))


if __name__ == "__main__":
    main()
