"""The checker's worst pattern of a user's rows, against all possible patterns."""

from __future__ import annotations

import random
from itertools import accumulate, combinations, pairwise, product

import numpy as np
import pytest

from privol.factorizations import BLT, Honaker, Smooth, SquareRoot, Tree, group_squares
from privol.verifying.mechanisms import Design, NotChecked, upper, worst_places

pytestmark = pytest.mark.fast

BLT_NUMBERS = {"rates": [0.98, 0.7], "weights": [0.2, 0.25]}
#: Rows within one step have so much more in common than others that waiting for the next step may be worse.
FORGETFUL = {"rates": [0.5], "weights": [0.02]}


def placed(n, rows, apart):
    """All positions of the given number of n rows, from 0, with at least the given distance."""
    fits = (n - 1) // apart + 1
    for places in combinations(range(n), min(rows, fits)):
        if all(later - earlier >= apart for earlier, later in pairwise(places)):
            yield places


def longest(coefficients, leaf, rows, apart):
    """The largest square of a sum of columns of a Toeplitz matrix, by exhaustive search."""
    steps = len(coefficients)
    matrix = np.array([[coefficients[t - s] if t >= s else 0.0 for s in range(steps)] for t in range(steps)])
    columns = matrix.T
    return max(
        float(np.sum(sum(columns[place // leaf] for place in places) ** 2))
        for places in placed(steps * leaf, rows, apart)
    )


def design(name, steps):
    """A record of a design, and the coefficients of its matrix."""
    if name == "sqrt":
        found = [1.0]
        for k in range(1, steps):
            found.append(found[-1] * (1 - 1 / (2 * k)))
        return {"name": name, "steps": steps, "decay": 1.0}, found
    if name == "independent":
        return {"name": name, "steps": steps}, [1.0] + [0.0] * (steps - 1)
    numbers = FORGETFUL if name == "forgetful" else BLT_NUMBERS
    pairs = list(zip(*numbers.values(), strict=True))
    series = [sum(weight * rate**k for rate, weight in pairs) for k in range(steps - 1)]
    return {"name": "blt", "steps": steps, **numbers}, [1.0, *series]


@pytest.mark.parametrize("name", ["blt", "forgetful", "sqrt", "independent"])
def test_no_pattern_is_worse(name):
    rng = random.Random(5)
    exact = 0
    cases = [(rng.randint(1, 5), rng.randint(1, 7), rng.randint(1, 4), rng.random()) for _ in range(40)]
    for leaf, apart, rows, share in [(3, 2, 4, 1.0), (4, 3, 4, 1.0), *cases]:
        record, coefficients = design(name, max(1, int(share * 18) // leaf))
        true = longest(coefficients, leaf, rows, apart)
        found = float(upper(Design(record).pattern(rows, apart, leaf)))
        assert found >= true * (1 - 1e-12), (record, leaf, rows, apart)
        if name == "independent" or apart % leaf == 0 or leaf % apart == 0:
            assert found == pytest.approx(true, rel=1e-12), (record, leaf, rows, apart)
            exact += 1
        else:
            assert found <= true * 1.05
    assert exact >= 10


def record_of(name, steps):
    """The record of a design of intervals."""
    if name != "smooth":
        return {"name": name, "steps": steps}
    height, ones = Smooth(steps).shape
    return {"name": name, "steps": steps, "height": height, "ones": ones}


def nodes(name, steps):
    """Intervals of steps that have a node: of the blocks of 2^k steps each first of two, in Honaker's design all.

    In the smooth design, the places of the words that have the same bits and then 0, if another word has 1 there.
    """
    if name == "smooth":
        height, ones = Smooth(steps).shape
        words = sorted(word for word in range(1 << height) if word.bit_count() == ones)
        for bit in range(height):
            for start in sorted({word >> bit for word in words if not word >> bit & 1}):
                places = [i for i, word in enumerate(words) if word >> bit == start]
                if any(word >> bit == start + 1 for word in words) and places[-1] < steps:
                    yield range(places[0], places[-1] + 1)
        return
    for height in range(steps.bit_length()):
        for k in range(steps >> height):
            if name == "honaker" or k % 2 == 0:
                yield range(k << height, (k + 1) << height)


@pytest.mark.parametrize("name", ["tree", "honaker", "smooth"])
def test_no_rows_move_more_nodes_of_a_tree(name):
    cases = [(1, 3, 2), (5, 1, 3), (6, 2, 4), (7, 2, 3), (8, 1, 5), (11, 1, 4), (13, 1, 3), (4, 3, 6), (16, 1, 5)]
    for (steps, leaf, rows), apart in product(cases, (1, 2, 3, 5)):
        sides = [(node.start * leaf, node.stop * leaf) for node in nodes(name, steps)]
        true = max(
            sum(sum(start <= place < end for place in places) ** 2 for start, end in sides)
            for m in range(1, rows + 1)
            for places in placed(steps * leaf, m, apart)
        )
        found = upper(Design(record_of(name, steps)).pattern(rows, apart, leaf))
        assert found == true, (steps, leaf, rows, apart)
    if name != "smooth":
        assert upper(Design({"name": name, "steps": 100_003}).pattern(1, 1, 7)) == (100_003).bit_length()


@pytest.mark.parametrize("own", [Tree(1000), Tree(65_537), Honaker(1000), Smooth(1000), Smooth(65_537)])
def test_trees_cost_no_more_than_the_noise_covers(own):
    record = record_of(own.design, own.steps)
    for leaf, rows, apart in ((1, 12, 1), (32, 64, 1), (1, 12, 7), (8, 10, 20), (5, 16, 3), (1, 5, 200)):
        stated = float(group_squares(own, rows, separation=apart, leaf=leaf)[-1])
        assert stated * (1 - 1e-9) <= float(upper(Design(record).pattern(rows, apart, leaf))) <= stated


@pytest.mark.parametrize(
    ("name", "leaf", "apart"), [("blt", 7, 60), ("sqrt", 12, 100), ("blt", 5, 3), ("sqrt", 64, 20), ("blt", 1, 250)]
)
def test_patterns_cost_no_more_than_the_noise_covers(name, leaf, apart):
    """The calibration's own bound, by other code: if the result were above it, sound runs would not pass."""
    steps, rows = 600, 12
    record, _ = design(name, steps)
    numbers = {"theta": BLT_NUMBERS["rates"], "omega": BLT_NUMBERS["weights"]}
    own = BLT(steps, **numbers) if name == "blt" else SquareRoot(steps)
    stated = float(group_squares(own, rows, separation=apart, leaf=leaf)[-1])
    assert stated * (1 - 1e-6) <= float(upper(Design(record).pattern(rows, apart, leaf))) <= stated


def test_parts_of_a_stream_against_all_places():
    rng = random.Random(9)
    for _ in range(60):
        lengths = [rng.randint(1, 6) for _ in range(rng.randint(1, 4))]
        rows, apart, weight = rng.randint(1, 4), rng.randint(1, 6), rng.randint(1, 3)
        ends = list(accumulate(lengths))

        def cost(places, ends=ends, weight=weight):
            counts = np.bincount(np.searchsorted(ends, places, side="right"), minlength=len(ends))
            return sum(weight**e * m * m for e, m in enumerate(counts))

        true = max(cost(places) for m in range(rows + 1) for places in placed(ends[-1], m, apart) if places or not m)
        parts = [(n, 1, lambda m, e=e, weight=weight: weight**e * m * m) for e, n in enumerate(lengths)]
        assert max(worst_places(parts, rows, apart).values()) == true, (lengths, rows, apart)


def test_unchecked_patterns_are_reported():
    with pytest.raises(NotChecked, match="129 rows of a user"):
        worst_places([(1000, 1, lambda m: m)], 129, 1)
    with pytest.raises(NotChecked, match="300 rows of a user in tree sums, 2 apart"):
        Design({"name": "tree", "steps": 1000}).pattern(300, 2, 1)
    with pytest.raises(NotChecked, match="300 rows of a user in smooth sums, 2 apart"):
        Design({"name": "smooth", "steps": 8000, "height": 16, "ones": 8}).pattern(300, 2, 1)
    with pytest.raises(NotChecked, match="blt sums"):
        Design({"name": "blt", "steps": 8, "rates": [0.9], "weights": [1.5]}).pattern(2, 1, 1)
