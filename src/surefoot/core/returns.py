"""Monte-Carlo returns per pair: their number, mean and scatter, additive like counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from surefoot.core.arrays import Array, namespace
from surefoot.core.counts import read_only
from surefoot.core.errors import LogError


@dataclass(frozen=True, repr=False)
class Returns:
    """n: returns used for each pair; mean: their mean, the estimate of q^{pi_b}; m2: their sum of
    squared deviations; [..., S, A].

    `cut` counts the returns among them that end in a cut, not in a terminal state: they are short
    of what would have followed. The mean is NaN where n = 0.
    """

    n: Array
    mean: Array
    m2: Array
    cut: int = 0

    def __repr__(self) -> str:
        return f"Returns(shape {tuple(self.n.shape)}, {self.cut} run into a cut)"

    def __post_init__(self) -> None:
        shapes = [tuple(x.shape) for x in (self.n, self.mean, self.m2)]
        if len(set(shapes)) > 1:
            raise LogError(
                f"n, mean and m2 of returns must have one shape [..., S, A], got {shapes}"
            )
        for name in ("n", "mean", "m2"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @cached_property
    def variance(self) -> Array:
        """The unbiased sample variance, NaN where n <= 1."""
        xp = namespace(self.n)
        enough = self.n > 1
        return xp.where(enough, self.m2 / xp.where(enough, self.n - 1, 1.0), xp.nan)

    def map(self, change: Callable[[Array], Array]) -> Returns:
        """The returns with every array changed."""
        return Returns(change(self.n), change(self.mean), change(self.m2), self.cut)

    def __add__(self, other: Returns) -> Returns:
        """The returns of both logs together (Chan's rule)."""
        if not isinstance(other, Returns):
            return NotImplemented
        if tuple(self.n.shape) != tuple(other.n.shape):
            raise LogError(
                f"returns of shapes {tuple(self.n.shape)} and {tuple(other.n.shape)} do not add up:"
                " use the same n_states and n_actions for both logs"
            )
        xp = namespace(self.n)
        n = self.n + other.n
        left, right = (xp.where(x.n > 0, x.mean, 0.0) for x in (self, other))
        some = n > 0
        total = xp.where(some, n, 1.0)
        mean = xp.where(some, (self.n * left + other.n * right) / total, xp.nan)
        m2 = self.m2 + other.m2 + self.n * other.n / total * (left - right) ** 2
        return Returns(n, mean, m2, self.cut + other.cut)
