"""The Industrial Benchmark: a plant with three set-points, effects that come late, and more that
nobody sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.core.parameters import check_number
from surefoot.research.benchmarks.continuous import explored

QUARTER = 6  # steps of phi in a right angle
WIDEST = np.sin(np.pi / 12)  # the largest step that the best operation of the shift needs
SAFE = WIDEST / 2  # an effective shift within this lets phi return to 0
STEPS = np.array([1.0, 10.0, 20 * WIDEST / 0.9])  # of velocity, gain and shift
LAGS = np.array([0, 0, 0, 0, 0, 1, 2, 3, 2, 1]) / 9  # how late costs are felt, from the newest
SCALE = np.sqrt(2 / 27)
COLUMNS = (  # of a state
    "velocity", "gain", "shift", "fatigue", "consumption",
    "tired velocity", "tired gain", "domain", "response", "phi",
)  # fmt: skip
_AT = {name: i for i, name in enumerate(COLUMNS)}


@dataclass(frozen=True)
class IndustrialBenchmark:
    """Reward -consumption - 3 fatigue, of velocity v, gain g, shift h in [0, 100] and setpoint p.

    Hein, Depeweg, Tokic, Udluft, Hentschel, Runkler & Sterzing 2017 (arXiv:1709.09480); the noise
    of consumption as in their code. What happens, in this order:

    1. one of v, g, h moves by 1, 10 or 5.75, up or down, or none: seven actions where the paper
       has three continuous ones;
    2. fatigue = f (1 + 2 alpha) / 3,  f = max(0, 30000 / (5 v + 100) - 0.01 g^2); alpha is noise
       that grows with hidden states of v and g, which collapse into exhaustion above 1.2;
    3. cost = exp((2 p + 4 v + 2.5 g) / 100), felt with the weights 1, 2, 3, 2, 1 ninths five to
       nine steps later;
    4. the effective shift  h_e = h / 20 - p / 50 - 1.5  turns a hidden angle phi, whose penalty m
       is a Goldstone potential: 0 at best, 1 where h_e and phi are 0;
    5. consumption = c + N(0, (1 + noise c)^2),  c = cost felt + 25 m.

    A policy sees v, g, h, fatigue and consumption. Episodes start with 50 of each and do not end.
    The baseline steers v, g and h to `target`, whichever is the most steps away, and takes a random
    action with probability epsilon.
    """

    name: ClassVar[str] = "industrial"
    features: ClassVar[tuple[str, ...]] = COLUMNS[:5]
    actions: ClassVar[tuple[str, ...]] = (
        "nothing", "velocity down", "velocity up", "gain down", "gain up", "shift down", "shift up",
    )  # fmt: skip
    setpoint: float = 70.0
    target: float = 25.0
    epsilon: float = 0.3
    noise: float = 0.005
    gamma: float = 0.97

    def __post_init__(self) -> None:
        check_number(self, "setpoint", low=0, high=100)
        check_number(self, "target", low=0, high=100)
        check_number(self, "epsilon", low=0, high=1)
        check_number(self, "noise", low=0, finite=True)
        check_number(self, "gamma", low=0, high=1, open_high=True)

    @property
    def reward_range(self) -> None:
        """None: the noise of consumption has no bounds."""
        return None

    def reset(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """50 everywhere, as if it had always been so; after one step without a move."""
        state = np.zeros((n, len(COLUMNS) + len(LAGS)))
        state[:, :3] = 50.0
        state[:, _AT["domain"]] = state[:, _AT["response"]] = 1.0
        state[:, len(COLUMNS) :] = self._cost(state)[:, None]
        return self.step(rng, state, np.zeros(n, dtype=int))[0]

    def step(
        self, rng: np.random.Generator, state: np.ndarray, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The plant, see above."""
        there = state.copy()
        moved, up = (action + 1) // 2 - 1, np.where(action % 2 == 0, 1.0, -1.0)
        some = np.flatnonzero(action > 0)
        there[some, moved[some]] += (up * STEPS[moved])[some]
        there[:, :3] = there[:, :3].clip(0, 100)
        tired = self._tired(rng, there)
        there[:, len(COLUMNS) :] = np.roll(state[:, len(COLUMNS) :], 1, axis=1)
        there[:, len(COLUMNS)] = self._cost(there)
        c = there[:, len(COLUMNS) :] @ LAGS + 25 * self._miscalibration(there)
        there[:, _AT["fatigue"]] = tired
        there[:, _AT["consumption"]] = c + (1 + self.noise * c) * rng.standard_normal(len(state))
        reward = -there[:, _AT["consumption"]] - 3 * tired
        return there, reward, np.zeros(len(state), dtype=bool)

    def baseline(self, x: np.ndarray) -> np.ndarray:
        """Steer what is the most steps away from its target; within half a step nothing moves."""
        off = (self.target - x[:, :3]) / STEPS
        far = np.abs(off).argmax(axis=1)
        worst = off[np.arange(len(x)), far]
        chosen = np.where(np.abs(worst) > 0.5, 1 + 2 * far + (worst > 0), 0)
        return explored(chosen, len(self.actions), self.epsilon)

    def _cost(self, state: np.ndarray) -> np.ndarray:
        """exp((2 p + 4 v + 2.5 g) / 100)."""
        v, g = state[:, 0], state[:, 1]
        cost: np.ndarray = np.exp((2 * self.setpoint + 4 * v + 2.5 * g) / 100)
        return cost

    def _effective(self, v: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(v_e, v_g) in [0, 1]: how much velocity and gain tire the plant."""
        p = self.setpoint

        def scaled(x: np.ndarray, low: float, high: float) -> np.ndarray:
            return (x - low) / (high - low)

        v_e = scaled((g + p + 2) / (v - p + 101), (p + 2) / (201 - p), (p + 102) / (101 - p))
        return v_e, scaled(1 / (g + p + 1), 1 / (p + 101), 1 / (p + 1))

    def _tired(self, rng: np.random.Generator, there: np.ndarray) -> np.ndarray:
        """Fatigue; the hidden states of velocity and gain move on."""
        v, g = there[:, 0], there[:, 1]
        noises = []
        for name, effect in zip(
            ("tired velocity", "tired gain"), self._effective(v, g), strict=True
        ):
            slow = 2 / (1 + np.exp(-rng.exponential(0.1, len(v)))) - 1
            hit = rng.random(len(v)) < effect.clip(0.001, 0.999)
            noise = slow + (1 - slow) * rng.random(len(v)) * hit * effect
            before = there[:, _AT[name]]
            there[:, _AT[name]] = np.select(
                [effect <= 0.05, before >= 1.2],
                [effect, np.minimum(5, 1.1 * before)],
                0.9 * before + noise / 3,
            )
            noises.append(noise)
        hidden = np.maximum(there[:, _AT["tired velocity"]], there[:, _AT["tired gain"]])
        broken = 1 / (1 + np.exp(-rng.normal(2.4, 0.4, len(v))))
        alpha = np.where(hidden == 5, broken, np.maximum(*noises))
        basic = np.maximum(0, 30000 / (5 * v + 100) - 0.01 * g**2)
        tired: np.ndarray = basic * (1 + 2 * alpha) / 3
        return tired

    def _miscalibration(self, there: np.ndarray) -> np.ndarray:
        """m >= 0 of the shift; the hidden domain, response and angle phi move on."""
        h_e = (there[:, 2] / 20 - self.setpoint / 50 - 1.5).clip(-1.5, 1.5)
        domain, response, phi = (there[:, _AT[x]] for x in ("domain", "response", "phi"))
        out, side = np.abs(h_e) > SAFE, np.sign(h_e)
        new = np.where(out, side, domain)
        response = np.where(new == domain, response, 1.0)
        stuck = phi == -new * QUARTER
        phi = phi + np.where(out, np.where(stuck, 0.0, response * side), -np.sign(phi))
        response = np.where(np.abs(phi) >= QUARTER, -1.0, response)
        beyond = 2 * QUARTER - phi % (4 * QUARTER)
        phi = np.where(np.abs(phi) < QUARTER, phi, beyond)
        home = (phi == 0) & ~out
        there[:, _AT["domain"]] = np.where(home, 1.0, new)
        there[:, _AT["response"]] = np.where(home, 1.0, response)
        there[:, _AT["phi"]] = phi
        return 1 + goldstone(phi * np.pi / (2 * QUARTER), h_e)


def goldstone(phi: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """The potential  -2 r^2 / l + r^4 / l - 8 sqrt(2/27) sin(phi) r / l  in [-1, ...], with its
    lowest point along phi moved to the shift  max(|sin phi|, sin 15 degrees)  on the side of phi.
    """
    sine = np.sin(phi)
    best = np.maximum(np.abs(sine), WIDEST)
    lowest = _lowest(np.abs(sine))
    power = (2 - best) / (2 - lowest)
    beyond = np.maximum(np.abs(shift) - best, 0)
    further = lowest + (2 - lowest) * (beyond / (2 - best)) ** power
    near = np.abs(shift) * lowest / best
    r = np.sign(shift) * np.where(np.abs(shift) <= best, near, further)
    one = _lowest(np.ones(1))[0]
    norm = 2 * one**2 - one**4 + 8 * SCALE * one
    found: np.ndarray = (r**4 - 2 * r**2 - 8 * SCALE * sine * r) / norm
    return found


def _lowest(sine: np.ndarray) -> np.ndarray:
    """The largest root of  r^3 - r = 2 sqrt(2/27) |sin phi|: the lowest point of the potential."""
    q = SCALE * sine  # Cardano: r = u + 1 / (3 u), or its three real roots
    many = 27 * q**2 <= 1
    root = np.sqrt(np.maximum(q**2 - 1 / 27, 0))
    u = np.cbrt(np.where(many, 1.0, q + root))
    three = np.sqrt(4 / 3) * np.cos(np.arccos(np.minimum(q * np.sqrt(27), 1)) / 3)
    return np.where(many, three, u + 1 / (3 * u))
