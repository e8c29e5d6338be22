"""Sampling logs: the episodes of many trials walk at once, and are counted as they go.

The draws come from a counter-based generator, the same on NumPy and PyTorch. A draw is a function
of a key and a counter, and a key of what it is for: (seed, benchmark, trial, size, episode). So no
draw depends on how trials are cut into shards, on the number of workers, on the algorithms that are
run, or on the device.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from surefoot.core import Counts, Returns
from surefoot.core.arrays import Array, bincount, count_up, is_numpy_array, like, namespace
from surefoot.research.simulate.worlds import Worlds

STRIDE = 16  # steps drawn and recorded together
BUFFER = 1 << 14  # records counted together, at least
# of fewer episodes a trial, a CPU walks all worlds at once: a step costs the same for one walker as
# for a hundred
FEW = 20

# The increments and multipliers of SplitMix64 (Steele, Lea & Flood 2014), as signed 64-bit
# integers.
GOLDEN = 0x9E3779B97F4A7C15 - 2**64
FIRST = 0xBF58476D1CE4E5B9 - 2**64
SECOND = 0x94D049BB133111EB - 2**64


def mix(z: Array) -> Array:
    """SplitMix64's finaliser on int64 arrays: every input bit reaches every output bit.

    Products wrap around. Array libraries shift signed integers arithmetically, so the sign is
    masked away after each shift.
    """
    if is_numpy_array(z):  # the same in place, with unsigned shifts
        u = np.array(z, dtype=np.int64, copy=True, ndmin=1).view(np.uint64)
        u ^= u >> np.uint64(30)
        u *= np.uint64(FIRST + 2**64)
        u ^= u >> np.uint64(27)
        u *= np.uint64(SECOND + 2**64)
        u ^= u >> np.uint64(31)
        return u.view(np.int64).reshape(z.shape)
    z = (z ^ ((z >> 30) & ((1 << 34) - 1))) * FIRST
    z = (z ^ ((z >> 27) & ((1 << 37) - 1))) * SECOND
    return z ^ ((z >> 31) & ((1 << 33) - 1))


def fold(key: Array, part: Array) -> Array:
    """The key for one part of what `key` is for: arrays of whole numbers broadcast."""
    return mix(key ^ mix(part * GOLDEN + FIRST))


def first_key(seed: int, benchmark: str, trials: Array) -> Array:
    """One key for every trial [B]; the benchmark enters by its name."""
    name = int.from_bytes(hashlib.sha256(benchmark.encode()).digest()[:8], "big", signed=True)
    return fold(fold(fold(trials * 0, trials * 0 + int(seed)), trials * 0 + name), trials)


def bits(key: Array, counter: Array) -> Array:
    """64 random bits for each pair of key and counter (they broadcast)."""
    return mix(key + (counter + 1) * GOLDEN)


def uniforms(key: Array, counter: Array) -> Array:
    """Uniform floats in [0, 1) with 53 bits."""
    z = bits(key, counter)
    xp = namespace(z)
    return xp.astype((z >> 11) & ((1 << 53) - 1), xp.float64) * 2.0**-53


def below(key: Array, counter: Array, n: int) -> Array:
    """Whole numbers in 0, 1, ..., n - 1."""
    xp = namespace(key)
    return xp.astype(uniforms(key, counter) * n, xp.int64)  # n < 2^53: the product stays below n


def trial_numbers(start: int, stop: int, device: str = "cpu") -> Any:
    """start, ..., stop - 1 as an int64 array: NumPy for "cpu", PyTorch on other devices ("torch"
    is PyTorch on the CPU).
    """
    if device == "cpu":
        return np.arange(start, stop, dtype=np.int64)
    import torch

    return torch.arange(
        start, stop, dtype=torch.int64, device="cpu" if device == "torch" else device
    )


def alias_tables(weights: Array) -> tuple[Array, Array]:
    """Walker's tables (keep, alias) [rows, K] for rows of weights [rows, K].

    Draw a cell c evenly, keep it with probability keep[c], else take alias[c]: two look-ups a draw.
    Vose's construction (1991), all rows in step: the cells of a row are scaled to the mean 1; every
    round settles one poor cell, and a rich one fills it up. A cell of weight 0 is never kept.
    """
    xp = namespace(weights)
    rows, k = weights.shape
    at = count_up(rows, weights)
    # in this order: another one rounds differently, and tables of equal weights hang on rounding
    total = weights[:, 0]
    for column in range(1, k):
        total = total + weights[:, column]
    # full_like: PyTorch divides a scalar by way of the reciprocal
    mass = weights * (xp.full_like(total, k) / total)[:, None]
    order = xp.argsort(mass, axis=-1, stable=True)
    keep = xp.ones_like(mass)
    alias = xp.zeros_like(order) + count_up(k, weights)
    small, large = xp.zeros_like(at), xp.zeros_like(at) + (k - 1)
    poor = order[:, 0]
    for _ in range(k - 1):
        rich = order[at, large]
        lacking = mass[at, poor]
        keep[at, poor] = lacking
        alias[at, poor] = rich
        left = mass[at, rich] + lacking - 1.0
        mass[at, rich] = left
        spent = left < 1.0  # the rich one has become poor: it is settled next
        large = large - xp.astype(spent, large.dtype)
        small = small + xp.astype(~spent, small.dtype)
        poor = xp.where(spent, rich, order[at, small])
    return keep, alias


@dataclass(frozen=True)
class Episodes:
    """What a data set of this `size` consists of: so many episodes of at most so many steps."""

    size: int
    number: int
    steps: int


@dataclass(frozen=True, repr=False)
class Sampler:
    """Samples data sets under the baseline; a draw depends on (key, size, episode, step) alone."""

    worlds: Worlds

    @cached_property
    def _chain(self) -> _Chain:
        return _chain(self.worlds)

    def counts(
        self, keys: Array, data: tuple[Episodes, ...], *, with_returns: bool
    ) -> Iterator[tuple[Counts, Returns | None]]:
        """A data set for every trial (its key [B]), one entry of `data` after the other.

        Counts are [B, S, A, S], returns [B, S, A]. A cut counts as an end in the returns, as in the
        paper's experiments; how many returns ran into one is not counted here.
        """
        xp = namespace(keys)
        chain, plan = self._chain, _plan(keys, data)
        if chain.keep.shape[0] == 1 or not is_numpy_array(keys) or len(plan.episode) < FEW:
            walked = [_tallies(chain, plan, keys, with_returns)]
        else:  # a CPU walks trial by trial: the tables of one world stay in its first cache
            walked = [
                _tallies(chain.only(w), plan, keys[w : w + 1], with_returns)
                for w in range(keys.shape[0])
            ]
        # each [sizes, B, ...]
        tallies = [xp.concat(list(parts), axis=1) for parts in zip(*walked, strict=True)]
        for i in range(len(data)):
            counts = _counts(self.worlds, chain, tallies[0][i, ...])
            sums = [x[i, ...] for x in tallies[1:]]
            yield counts, _returns(counts, chain.middle, *sums) if with_returns else None

    def log(self, key: int, data: Episodes) -> dict[str, np.ndarray]:
        """The log of one trial as columns, the arguments of `surefoot.problem`.

        It has the steps that `counts` counts for its key. The worlds are one, in NumPy. `truncated`
        marks the last step of an episode that was cut.
        """
        return next(self.logs(np.array([key], dtype=np.int64), data))

    def logs(self, keys: np.ndarray, data: Episodes) -> Iterator[dict[str, np.ndarray]]:
        """The same for trials that share the world; they walk together."""
        chain, n_trials, terminal = self._chain, len(keys), self.worlds.terminal[0]
        walkers, *_ = _start(chain, _plan(keys, (data,)), keys)
        parts = []
        for number, entries in _walk(chain, walkers):
            alive = chain.pair[0, entries] < chain.n_pairs  # without steps of rest
            parts.append((np.broadcast_to(number, entries.shape)[alive], entries[alive]))
        number, entry = (np.concatenate(x) for x in zip(*parts, strict=True))
        place = (number % n_trials) * data.number + number // n_trials
        small = place.astype(np.min_scalar_type(n_trials * data.number))
        order = np.argsort(small, kind="stable")  # steps are in order already
        place, entry = place[order], entry[order]
        n_actions = self.worlds.n_actions
        for trial in range(n_trials):
            mine = slice(*np.searchsorted(place, [trial * data.number, (trial + 1) * data.number]))
            episode, drawn = place[mine] - trial * data.number, entry[mine]
            pair, to = chain.pair[0, drawn], chain.to[0, drawn]
            first = np.append(True, np.diff(episode) != 0)
            row = np.arange(len(episode))
            yield {
                "episode": episode,
                "time": row - np.maximum.accumulate(np.where(first, row, 0)),
                "state": pair // n_actions,
                "action": pair % n_actions,
                "reward": chain.reward[0, drawn],
                "next_state": to,
                "truncated": np.append(first[1:], True) & ~terminal[to],
            }


@dataclass(frozen=True, kw_only=True)
class _Chain:
    """The joint law of (a, s') in every state as alias tables; all [W, cells].

    A state's row has K = A * successors cells, each in two versions, kept or alias: entries 2 c and
    2 c + 1. The last row of a world is where walkers rest that have ended.
    """

    keep: Array
    onward: Array  # the first entry of the next state's row
    pair: Array  # s * A + a, and S * A at rest
    to: Array  # s'
    reward: Array
    start: Array  # keep and alias of the start state
    start_alias: Array
    terminal: Array
    width: int  # 2 K
    gamma: float
    n_pairs: int
    middle: float  # of the return range: squares are taken around it

    def only(self, w: int) -> _Chain:
        """The chain of one world."""
        part = slice(w, w + 1)
        names = ("keep", "onward", "pair", "to", "reward", "start", "start_alias", "terminal")
        return replace(self, **{name: getattr(self, name)[part, ...] for name in names})


def _chain(worlds: Worlds) -> _Chain:
    xp = namespace(worlds.pi_b)
    w, s, a = worlds.pi_b.shape
    successors = worlds.successor.shape[-1]
    k = a * successors
    weights = xp.reshape(worlds.pi_b[..., None] * worlds.probability, (w * s, k))
    # A terminal state is never left, whatever its row says: any law does.
    weights = xp.where(xp.reshape(worlds.terminal, (-1, 1)), xp.ones_like(weights), weights)
    keep, alias = alias_tables(weights)
    own = xp.zeros_like(alias) + count_up(k, weights)
    outcome = xp.reshape(xp.stack([own, alias], axis=-1), (w, s, 2 * k))
    to = xp.take_along_axis(xp.reshape(worlds.successor, (w, s, k)), outcome, axis=-1)
    action = outcome // successors
    table = xp.broadcast_to(worlds.reward_table, (w, s, a, s))
    world, state = count_up(w, weights)[:, None, None], count_up(s, weights)[None, :, None]
    pair, reward = state * a + action, table[world, state, action, to]
    arrival = xp.reshape(to, (w, -1))
    ends = xp.take_along_axis(xp.astype(worlds.terminal, xp.int64), arrival, axis=-1)
    after = xp.where(ends > 0, s, arrival)  # the row of rest, or of s'

    def rested(x: Array, rest: float) -> Array:
        """x [W, S, 2 K] as [W, cells], with the row of rest at the end."""
        x = xp.reshape(x, (w, -1))
        return xp.concat([x, xp.zeros_like(x[:, : 2 * k]) + rest], axis=-1)

    begins = worlds.start if worlds.log_start is None else worlds.log_start
    start, start_alias = alias_tables(begins)
    return _Chain(
        keep=rested(xp.stack([keep, keep], axis=-1), 1),
        onward=rested(2 * k * after, 2 * k * s),
        pair=rested(pair, s * a),
        to=rested(to, 0),
        reward=rested(reward, 0),
        start=start,
        start_alias=start_alias,
        terminal=worlds.terminal,
        width=2 * k,
        gamma=worlds.gamma,
        n_pairs=s * a,
        middle=0.5 * (worlds.return_range.lo + worlds.return_range.hi),
    )


@dataclass(frozen=True)
class _Walkers:
    """Episodes under way, the longest first; `at` is the first entry of the row they stand in."""

    key: Array
    at: Array
    steps: Array
    number: Array

    def take(self, index: Array) -> _Walkers:
        return _Walkers(*(x.take(index) for x in (self.key, self.at, self.steps, self.number)))


@dataclass(frozen=True)
class _Plan:
    """The episodes of one trial, the longest first; `index` and `size` say which `data`."""

    n_sizes: int
    index: Array
    size: Array
    episode: Array
    steps: Array


def _plan(keys: Array, data: tuple[Episodes, ...]) -> _Plan:
    order = sorted(range(len(data)), key=lambda i: -data[i].steps)
    index = np.concatenate([np.full(data[i].number, i) for i in order])
    episode = np.concatenate([np.arange(data[i].number) for i in order])
    size, steps = (np.array([getattr(x, name) for x in data])[index] for name in ("size", "steps"))
    return _Plan(len(data), *(like(keys, x) for x in (index, size, episode, steps)))


def _start(chain: _Chain, plan: _Plan, keys: Array) -> tuple[_Walkers, Array, Array]:
    """All episodes at their start; the data set (size index * B + trial) and the world of each."""
    xp = namespace(keys)
    n_trials = keys.shape[0]
    key = xp.reshape(fold(fold(keys[None, :], plan.size[:, None]), plan.episode[:, None]), (-1,))
    trial = count_up(n_trials, keys)[None, :]
    data_set = xp.reshape(plan.index[:, None] * n_trials + trial, (-1,))
    steps = xp.reshape(plan.steps[:, None] + 0 * trial, (-1,))
    world = 0 * key if chain.keep.shape[0] == 1 else data_set % n_trials
    n_states = chain.start.shape[-1]
    spot = uniforms(key, xp.zeros_like(key)) * n_states
    cell = xp.astype(spot, xp.int64)
    entry = world * n_states + cell
    kept = spot - xp.astype(cell, xp.float64) < xp.reshape(chain.start, (-1,)).take(entry)
    state = xp.where(kept, cell, xp.reshape(chain.start_alias, (-1,)).take(entry))
    ends = xp.reshape(chain.terminal, (-1,)).take(world * n_states + state)
    state = xp.where(ends, n_states, state)  # to rest at once
    at = world * chain.keep.shape[-1] + state * chain.width
    walkers = _Walkers(key, at, steps, count_up(key.shape[0], key))
    return walkers, data_set, world


def _walk(chain: _Chain, walkers: _Walkers) -> Iterator[tuple[Array, Array]]:
    """Strides of the walk: the numbers of the walkers, and the entries drawn [steps, walkers].

    A walker that ended rests until the end of the stride and then leaves, as does one that has used
    up its steps.
    """
    xp = namespace(walkers.key)
    n_worlds, cells = chain.keep.shape
    offset = count_up(n_worlds, walkers.key)[:, None] * cells
    keep, onward = xp.reshape(chain.keep, (-1,)), xp.reshape(chain.onward + offset, (-1,))
    done = 0
    while walkers.key.shape[0]:
        stride = min(STRIDE, int(walkers.steps[-1]) - done)
        counter = done + 1 + count_up(stride, walkers.key)
        spot = uniforms(walkers.key[None, :], counter[:, None]) * (chain.width // 2)
        cell = xp.astype(spot, xp.int64)
        part = spot - xp.astype(cell, xp.float64)
        cell = cell * 2
        at, drawn = walkers.at, []
        for t in range(stride):
            entry = at + cell[t, :]
            entry = entry + xp.astype(part[t, :] >= keep.take(entry), xp.int64)
            drawn.append(entry)
            at = onward.take(entry)
        yield walkers.number, xp.stack(drawn)
        done += stride
        going = (walkers.steps > done) & (at % cells != cells - chain.width)
        walkers = _Walkers(walkers.key, at, walkers.steps, walkers.number)
        if not bool(xp.all(going)):
            walkers = walkers.take(xp.nonzero(going)[0])


class _Tally:
    """Sums of weights by index, many records at a time."""

    def __init__(self, n: int) -> None:
        self.n, self.waiting = n, 0
        self.total: list[Array] = []
        self.pending: list[tuple[Array, ...]] = []

    def add(self, index: Array, *weights: Array) -> None:
        """Add records, counted when enough are waiting."""
        self.pending.append((index, *weights))
        self.waiting += index.shape[0] * index.shape[1]
        if self.waiting >= max(BUFFER, self.n):
            self.flush()

    def flush(self) -> list[Array]:
        """Count what is waiting; the sums so far."""
        if self.pending:
            xp = namespace(self.pending[0][0])
            parts = (
                [xp.reshape(x, (-1,)) for x in part] for part in zip(*self.pending, strict=True)
            )
            index, *weights = (part[0] if len(part) == 1 else xp.concat(part) for part in parts)
            found = [bincount(index, self.n, w) for w in weights] or [bincount(index, self.n)]
            if self.total:
                found = [x + y for x, y in zip(self.total, found, strict=True)]
            self.total, self.pending, self.waiting = found, [], 0
        return self.total


def _tallies(chain: _Chain, plan: _Plan, keys: Array, with_returns: bool) -> tuple[Array, ...]:
    """How often each entry was drawn [sizes, B, cells], and sums of returns [sizes, B, S A + 1].

    The sums are those of G - middle and of its square.
    """
    xp = namespace(keys)
    shape = (plan.n_sizes, keys.shape[0])
    cells = chain.keep.shape[-1]
    walkers, data_set, world = _start(chain, plan, keys)
    offset = (data_set - world) * cells  # an entry counts from the first world's first cell
    drawn, strides = _Tally(shape[0] * shape[1] * cells), []
    small = xp.int16 if chain.keep.shape[0] * cells < 2**15 else xp.int32
    for number, entries in _walk(chain, walkers):
        drawn.add(entries + offset.take(number)[None, :])
        if with_returns:
            strides.append((number, xp.astype(entries, small)))
    found = [xp.reshape(drawn.flush()[0], (*shape, cells))]
    if with_returns:
        bins = chain.n_pairs + 1
        sums = _sum_returns(chain, strides, data_set, shape[0] * shape[1] * bins)
        found += [xp.reshape(x, (*shape, bins)) for x in sums]
    return tuple(found)


def _sum_returns(
    chain: _Chain, strides: list[tuple[Array, Array]], data_set: Array, n: int
) -> list[Array]:
    """Sums over visits of G - middle and (G - middle)^2, by data set and pair.

    G_t = r_t + gamma G_{t+1}, from the last stride back.
    """
    xp = namespace(data_set)
    reward, pair = xp.reshape(chain.reward, (-1,)), xp.reshape(chain.pair, (-1,))
    later = xp.astype(xp.zeros_like(data_set), xp.float64)
    sums = _Tally(n)
    for number, entries in reversed(strides):
        steps = entries.shape[0]
        entries = xp.astype(entries, xp.int64)
        ahead = np.arange(steps + 1)[None, :] - np.arange(steps)[:, None]  # from t to t'
        discount = like(reward, np.where(ahead >= 0, chain.gamma ** np.maximum(ahead, 0), 0.0))
        g = xp.matmul(
            discount, xp.concat([reward.take(entries), later.take(number)[None, :]], axis=0)
        )
        later[number] = g[0, :]
        index = pair.take(entries) + (data_set.take(number) * (chain.n_pairs + 1))[None, :]
        centred = g - chain.middle
        sums.add(index, centred, centred**2)
    return sums.flush()


def _counts(worlds: Worlds, chain: _Chain, drawn: Array) -> Counts:
    """Counts [B, S, A, S] from how often each entry was drawn [B, cells]."""
    xp = namespace(drawn)
    n_trials, s, a = drawn.shape[0], worlds.n_states, worlds.n_actions
    inside = slice(0, s * chain.width)  # without the row of rest
    triple = (chain.pair * s + chain.to)[:, inside] + xp.zeros_like(
        drawn[:, inside], dtype=xp.int64
    )
    index = triple + (count_up(n_trials, drawn) * (s * a * s))[:, None]
    n_sas = xp.reshape(bincount(index, n_trials * s * a * s, drawn[:, inside]), (n_trials, s, a, s))
    return Counts(n_sas, None, None, s, a)


def _returns(counts: Counts, middle: float, total: Array, squares: Array) -> Returns:
    """n, mean and m2 [B, S, A] of the returns of every visit."""
    xp = namespace(total)
    n = counts.n_sa
    seen = n > 0
    some = xp.where(seen, n, 1.0)
    total, squares = (xp.reshape(x[:, :-1], n.shape) for x in (total, squares))
    mean = total / some
    m2 = xp.where(seen, squares - total * mean, 0.0)
    return Returns(n, xp.where(seen, mean + middle, xp.nan), xp.where(m2 > 0, m2, 0.0))
