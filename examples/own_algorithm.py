"""Your own algorithm in 20 lines: keep the baseline where an action is rare *for its state*.

    python examples/own_algorithm.py

It says how far each probability may move, and nothing else.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import surefoot
from surefoot.algorithms import Restricts
from surefoot.planning import by_count


@dataclass(frozen=True)
class OnlyOften(Restricts):
    """max_pi v(pi; M_hat)  s.t.  pi = pi_b  wherever fewer than a share of the visits took a."""

    name: ClassVar[str] = "only-often"
    share: float = 0.01

    def trust(self, problem: surefoot.Problem, n: Any) -> Any:
        """Known pairs move freely, the others not at all."""
        known = n > self.share * n.sum(axis=-1, keepdims=True)
        return by_count(problem, known, free_fall=False)


def main() -> None:
    """Alone, and inside it the values of another algorithm."""
    data = Path(surefoot.__file__).parent / "data"
    log = surefoot.read_log(data / "wet_chicken.csv")
    problem = log.problem(0.95, data / "wet_chicken_rule.csv", reward_range=(0, 4))
    penalised = surefoot.Composed(surefoot.RaMDP(kappa=2), OnlyOften())
    for algorithm in (OnlyOften(), OnlyOften(share=0.5), penalised):
        advice = surefoot.advise(log, problem, algorithm)
        print(f"{algorithm.name}: {advice.verdict}, {len(advice.changed)} states change")


if __name__ == "__main__":
    main()
