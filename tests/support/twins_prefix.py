"""Plain twins of the designs of private prefix sums, with the same noise words; they keep everything for ever.

Sums of intervals are Python integers, added up again for every node by the definition of the node; double-precision
computations use NumPy in the order that ``docs/proofs/prefix.md`` states, and must agree bit for bit.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from twins import gaussian, power_of_two_grid

from privol.noise import Source, decide_lattice_point

DESIGNS = ("tree", "honaker", "smooth", "sqrt", "blt", "banded", "independent")


def trailing_zeros(t):
    return (t & -t).bit_length() - 1


def words_with_ones(length, ones):
    """All words of a given number of bits, highest bit first, as strings in ascending order."""
    found = []
    for places in combinations(range(length), ones):
        word = ["0"] * length
        for place in places:
            word[place] = "1"
        found.append("".join(word))
    return sorted(found)


def svec(v):
    """The upper triangle of v v^T by rows, times sqrt(2) off the diagonal, rounded as in the kernel."""
    root = 1.4142135623730951
    return np.array([v[i] * v[i] if i == j else (root * v[i]) * v[j] for i in range(len(v)) for j in range(i, len(v))])


class Twin:
    """A run. ``add`` takes a row (None: one of zeros) and returns the last prefix sum."""

    def __init__(self, design, *, dim, leaf, bound, std, grid, key, gram=False, length=0, ones=0, theta=(), omega=(),
                 coefficients=(), first_step=0, discount=1.0, window=None, decoder=None):  # fmt: skip
        self.design, self.dim, self.leaf, self.bound, self.std, self.grid = design, dim, leaf, bound, std, grid
        self.gram, self.theta, self.omega, self.coefficients = gram, theta, omega, coefficients
        self.source = Source(key, private=False, description="twin") if key else None
        self.h = power_of_two_grid(std) if std else grid
        self.words = words_with_ones(length, ones) if design == "smooth" else []
        self.waiting, self.leaves, self.sizes, self.first_step = [], [], [], first_step
        self.noisy, self.estimates, self.released = {}, {}, []
        self.buffers = [np.zeros(dim) for _ in theta]
        self.noisy_buffers = [np.zeros(dim) for _ in theta]
        self.prefix = np.zeros(dim)
        self.discount, self.window, self.added, self.mass = discount, window, [], 0.0
        self.decoder = coefficients if decoder is None else decoder
        self.used = []  # address rows

    # ---- rows ------------------------------------------------------------------------------------------------

    def add(self, row):
        w = np.zeros(self.dim) if row is None else self.clipped(np.asarray(row, dtype=float))
        self.waiting.append(w)
        if len(self.waiting) == self.leaf:
            self.end_leaf()
        return self.prefix

    def clipped(self, row):
        lanes = [0.0] * 8
        for j, v in enumerate(row):
            lanes[j % 8] += v * v
        norm = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]))
        if norm > self.bound * self.bound:
            row = (self.bound / math.sqrt(norm)) * row
        return svec(row) if self.gram else row

    def end_leaf(self):
        if not self.waiting:
            return
        if self.design in ("tree", "honaker", "smooth"):
            self.leaves.append([sum(int(w[c] / self.grid) for w in self.waiting) for c in range(self.dim)])
        else:
            total = self.waiting[0]
            for w in self.waiting[1:]:
                total = total + w
            self.leaves.append(total)
        self.sizes.append(len(self.waiting))
        self.mass = self.discount * self.mass + len(self.waiting)
        self.mass -= self.leaf if self.window is not None and len(self.sizes) > self.window else 0
        self.waiting = []
        getattr(self, self.design)(len(self.leaves))

    # ---- draws -----------------------------------------------------------------------------------------------

    def draw(self, t, k, x, whole=None):
        """Release number k of step t, in units of the grid h (added to the integers ``whole``)."""
        row = 64 * (self.first_step + t) + k
        self.used.append(row)
        if not self.std:
            return [a + b for a, b in zip(whole, [round(v / self.h) for v in x], strict=True)] if whole else x
        found = []
        for j, value in enumerate(x):
            word = self.source.words(stream=0, level=0, block=j // 2, row=row)[j % 2]
            place = (value + self.std * gaussian(word)) / self.h
            if abs(abs(place - math.floor(place)) - 0.5) > 1e-7 + abs(place) * 1e-15:
                found.append(round(place))
                continue

            def extra(level, j=j, row=row):
                return self.source.words(stream=0, level=level, block=j, row=row)

            found.append(int(decide_lattice_point(word, extra, value, self.std, self.h)))
        if whole is None:
            return np.array([m * self.h for m in found])
        return [a + m for a, m in zip(whole, found, strict=True)]

    def node(self, t, k, first, last):
        """Noisy sum of leaves first + 1, ..., last, in units of h."""
        sums = [sum(leaf[c] for leaf in self.leaves[first:last]) for c in range(self.dim)]
        ratio = round(self.h / self.grid)
        parts = [divmod(s, ratio) for s in sums]
        return self.draw(t, k, [r * self.grid for _, r in parts], [q for q, _ in parts])

    # ---- designs ---------------------------------------------------------------------------------------------

    def tree(self, t):
        j = trailing_zeros(t)
        self.noisy[j, t] = self.node(t, j, t - 2**j, t)
        end, total = t, [0] * self.dim
        while end:  # the dyadic decomposition of 1..t
            j = trailing_zeros(end)
            total = [a + b for a, b in zip(total, self.noisy[j, end], strict=True)]
            end -= 2**j
        self.prefix = np.array([m * self.h for m in total])

    def honaker(self, t):
        for j in range(trailing_zeros(t) + 1):
            own = np.array([m * self.h for m in self.node(t, j, t - 2**j, t)])
            if j:
                c = 2**j / (2 * 2**j - 1)
                below = self.estimates[j - 1, t - 2 ** (j - 1)] + self.estimates[j - 1, t]
                own = c * own + (1 - c) * below
            self.estimates[j, t] = own
        self.prefix = self.sum_of_estimates(t)

    def sum_of_estimates(self, t):
        """The sum of the estimates, starting with the longest interval."""
        j = trailing_zeros(t)
        before = t - 2**j
        return self.sum_of_estimates(before) + self.estimates[j, t] if before else self.estimates[j, t]

    def smooth(self, t):
        word, before = self.words[t], self.words[t - 1]
        heads = [word[:place] for place in range(len(word)) if word[place] == "1"]
        old = {before[:place] for place in range(len(before)) if before[place] == "1"} if t > 1 else set()
        k = 0
        for head in heads:
            if head in old:
                continue
            under = [i for i, leaf in enumerate(self.words[:t]) if leaf.startswith(head + "0")]
            first, last = (under[0], under[-1] + 1) if under else (t, t)
            assert under == list(range(first, last))
            self.noisy[head] = self.node(t, k, first, last)
            k += 1
        total = [sum(self.noisy[head][c] for head in heads) for c in range(self.dim)]
        self.prefix = np.array([m * self.h for m in total])

    def independent(self, t):
        self.increase(self.draw(t, 0, self.leaves[-1]))

    def increase(self, y):
        """Add an increment to the sum, which forgets; after a full turn of the window the sum is computed again."""
        self.added.append(y)
        t, w = len(self.added), self.window
        self.prefix = (self.prefix * self.discount if self.discount < 1.0 else self.prefix) + y
        if w is None:
            return
        if t > w:
            self.prefix = self.prefix - self.added[t - 1 - w]
        if t % w == 0:
            self.prefix = np.zeros(self.dim)
            for increment in self.added[t - w :]:
                self.prefix = self.prefix + increment

    @property
    def weight(self):
        """The weight of the rows in the sum, by definition, without waiting rows. ``mass``: step by step."""
        sizes = self.sizes if self.window is None else self.sizes[-self.window :]
        return sum(size * self.discount**age for age, size in enumerate(reversed(sizes)))

    def blt(self, t):
        w = x = self.leaves[-1]
        for j, (theta, omega) in enumerate(zip(self.theta, self.omega, strict=True)):
            x = x + omega * self.buffers[j]
            self.buffers[j] = theta * self.buffers[j] + w
        y = self.draw(t, 0, x)
        for j, omega in enumerate(self.omega):
            y = y - omega * self.noisy_buffers[j]
        for j, theta in enumerate(self.theta):
            self.noisy_buffers[j] = theta * self.noisy_buffers[j] + y
        self.increase(y)

    def banded(self, t):
        x, before = self.leaves[-1], list(enumerate(self.coefficients[1:t], 1))
        for k, c in before:
            x = x + c * self.leaves[t - 1 - k]
        y = self.draw(t, 0, x)
        for k, c in before:
            y = y - c * self.added[t - 1 - k]
        self.increase(y)

    def sqrt(self, t):
        self.released.append(self.draw(t, 0, self.convolved(self.coefficients, self.leaves)))
        self.prefix = self.convolved(self.decoder, self.released)

    def convolved(self, series, vectors):
        total = np.zeros(self.dim)
        for r, v in zip(series, reversed(vectors), strict=False):
            total = total + r * v
        return total


class EpochsTwin:
    """Twins one after another, each with the number of rows in ``rows``: their sums are added up.

    ``make`` gives the twin of an epoch from its number and the steps before it.
    """

    def __init__(self, rows, make):
        self.rows, self.make = rows, make
        self.epoch, self.learnt, self.before, self.used = 0, 0, 0, []
        self.now = make(0, 0)
        self.base = np.zeros(self.now.dim)

    @property
    def prefix(self):
        return self.base + self.now.prefix

    @property
    def leaves(self):
        return range(self.steps)

    @property
    def steps(self):
        return self.before + len(self.now.leaves)

    def add(self, row):
        if self.learnt == self.rows(self.epoch):
            self.base, self.before = self.prefix, self.steps
            self.used += self.now.used
            self.epoch, self.learnt = self.epoch + 1, 0
            self.now = self.make(self.epoch, self.before)
        self.now.add(row)
        self.learnt += 1
        if self.learnt == self.rows(self.epoch):
            self.end_leaf()
        return self.prefix

    def end_leaf(self):
        self.now.end_leaf()
