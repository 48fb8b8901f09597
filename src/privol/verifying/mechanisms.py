"""The cost of a user's rows in each kind of mechanism, rounded outwards; without privol. Sections: ``docs/proofs``."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import accumulate, chain, pairwise, product, takewhile
from typing import Any

from mpmath import iv, mp, mpf

iv.prec = mp.prec = 200
Record = Mapping[str, Any]
#: Roundoff of a double; and an outward factor, larger than the rounding of doubles in a term and in ``fsum``.
UNIT, OUT = iv.mpf(1) / 2**53, 1.0 + 2.0**-42
#: Of a record, numbers that count something, numbers that may be 0 (others are above it), and what is no number.
_COUNTS = ["rows", "rows_of_step", "steps", "histograms", "uses", "nodes", "outputs", "dimension", "first_row", "row"]
_COUNTS += ["last_row", "report_dimension", "window_rows", "height", "ones", "bandwidth", "m"]
_OR_NONE, _FLAGS = ["every", "grid", "gradient_norm", "curvature", "rounding"], ["cut", "intercept", "constrained"]
_WORDS = ["kind", "adjacency", "name", "set", "update", "l2_schedule", "shape", "law", "position", "weights"]
#: Integers that stand for real numbers are in units of 1 / ONE. Limits: numbers, divided rows, exact distances back.
ONE, _MOST_NUMBERS, _MOST_DIVIDED, _BACK = 1 << 128, 1 << 21, 128, 8


class NotChecked(Exception):
    """A case that this program has no proof for."""


class Mechanism(namedtuple("Fields", "price said facts pure slack most ends", defaults=[(), False, None, None, None])):
    """What a mechanism costs: ``price``, by rows of a user and their distance, is a mu, or an epsilon if ``pure``, and
    NotChecked if only their number times that of one is known; ``slack``: of what is proved at one delta, that by rows;
    ``most``: releases that it is the price of, or, by a third argument, of the first n; ``ends``: rows before one."""


def mechanism_of(record: Record) -> Mechanism:
    """Return the mechanism of a record, or raise NotChecked, or KeyError and the like if it is damaged."""
    _refuse(record)
    read: Callable[[], Mechanism] | None = getattr(_Reader(record), "of_" + record["kind"].replace(" ", "_"), None)
    if read is None:
        raise NotChecked(f"a mechanism of kind {record['kind']!r}")
    return read()


def _refuse(found: Any, key: str = "") -> Any:  # numbers that cannot be: of another sign a cost may be too small
    for inside, value in found.items() if isinstance(found, Mapping) else ((key, value) for value in found):
        known = value is None or (inside in _FLAGS and isinstance(value, bool)) or (inside in _OR_NONE and value == 0)
        if isinstance(value, Mapping | list):
            known = _refuse(value, inside) is None and (inside == "rows" or inside not in _COUNTS)
            known = known and not (isinstance(found, list) and isinstance(value, list))  # an interval, to mpmath
        elif isinstance(value, str):  # mpmath reads numbers from texts, "nan" too
            known = isinstance(found, Mapping) and inside in _WORDS
        elif not known and not isinstance(value, bool):
            known = 0 < value < math.inf and not (inside in _COUNTS and isinstance(value, float))
        if not known:
            raise ValueError(f"{inside} {value!r}")


def upper(x: Any) -> Any:  # the upper end of an interval
    if (end := mpf(x.b)) != end:  # comparisons with it are all false
        raise ArithmeticError("no number")
    return end


def _root(falls: Callable[..., Any], given: Callable[[Any], Sequence[Any]] = lambda _: ()) -> Any:
    """An interval of [0, 1] around the root of a decreasing function, or at the end where it would be."""
    low, high = mpf(0), mpf(1)
    for _ in range(100):
        middle = (low + high) / 2
        found = falls(iv.mpf(middle), *given(iv.mpf(middle)))
        low, high = middle if mpf(found.a) > 0 else low, middle if upper(found) < 0 else high
    return iv.mpf([low, high])


def delta_of_gdp(epsilon: Any, mu: Any) -> Any:  # rounded up: Dong, Roth and Su 2022, Corollary 1
    mu, epsilon = mpf(mu) or mpf(10) ** -99, mpf(epsilon)
    return mp.ncdf(-epsilon / mu + mu / 2) - mp.exp(epsilon) * mp.ncdf(-epsilon / mu - mu / 2) + mpf(10) ** -45


def _best_of(m: int, delta: Any, mu: Any) -> Any:  # epsilon of about (m - 1) / ln m runs of mu-GDP (selection.md, 3)
    share, start = mpf((iv.log(m) * delta / (m - 1)).a), mp.sqrt(2) * mp.erfinv(mpf(2) / m - 1) + mpf(10) ** -40
    return iv.mpf(_spends(share, mu)) + iv.log(m * iv.mpf(mp.ncdf(start + mu)))


def _spends(delta: Any, mu: Any, c: Any = 0) -> Any:
    """Epsilon at which the delta of mu-GDP, times exp(-c epsilon), has fallen to this one."""
    most = mu * mu / 2 + mu * mp.sqrt(-2 * mp.log(delta))  # by the Gaussian tail
    return most * upper(_root(lambda x: iv.mpf(delta_of_gdp(most * x.a, mu) * mp.exp(-c * most * mpf(x.a)) - delta)))


def _chance(n: int, k: int, x: Any) -> Any:  # binomial, by the odds
    return mp.exp(mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1) + k * mp.log(x) - n * mp.log(1 + x))


def _told_in_crowd(others: int, clone: Any, epsilon: Any, local: Any, odds: Any, step: int) -> Any:
    """Divergence of counts of answers, of a user's among those of a binomial number of clones, who have these odds of
    the likelier (shuffling.md, 4): in blocks of so many fiftieths of a deviation, since it falls in that number."""
    own, limit, one, told = mp.exp(local), mp.exp(epsilon), clone / (1 - clone), mpf(0)
    lead, share = (own - limit) / (1 + own), odds * (limit * own - 1) / (own - limit)
    mean, width, each = others * clone, 3 + mp.sqrt(others * clone * (1 - clone)), float(odds)
    starts = sorted({0, int(mean), *(min(max(int(mean + width * x / 50), 0), others) for x in range(-600, 601, step))})
    for n, end in pairwise([*starts, others + 1]):
        near = n if n >= int(mean) else end - 1  # from it probabilities fall at least geometrically
        rate = (others - near) * one / (near + 1) if n >= int(mean) else near / (one * (others - near + 1))
        block = end - n if rate == 1 else (1 - rate ** (end - n)) / (1 - rate)
        first = min(int((n + 1) * share / (1 + share)), n)
        terms = accumulate(((n - k + 1) / k * each for k in range(first + 1, n + 1)), float.__mul__)  # they fall
        beyond = sum(takewhile(lambda term: term > 2.0**-60, terms)) * (1 - 2.0**-30)
        told += _chance(others, near, one) * block * min(lead, _chance(n, first, odds) * (lead - (limit - 1) * beyond))
    return told * OUT


def delta_in_order(users: int, epsilon: Any, delta: Any, law: Any, pure: bool, both: bool) -> Any:
    """A delta of users' reports in a secret order at epsilon, sought up to ``delta`` (shuffling.md): each is private by
    this law, an epsilon if ``pure``, else a mu; with any other row if ``both``, else with the null row."""
    others, parts, epsilon = min(users, 10**9) - 1, (mpf(1) / 50, mpf(1) / 10, mpf(2) / 5), min(epsilon, mpf(9999))

    def told(clone: Any, local: Any, step: int = 1) -> Any:
        odds = [mpf(1)] if both else [mp.exp(-local), mp.exp(local)]
        return max(_told_in_crowd(others, clone, epsilon, local, x, step) for x in odds) if epsilon < local else 0

    def spent(own: Any, share: Any, step: int = 1) -> Any:  # any parts of delta prove what they prove
        weight = (1 + mp.exp(epsilon)) * others
        local, close = _spends(own * delta, law), _spends(share * delta / weight, law, 1)
        known, clone = delta_of_gdp(local, law), mp.exp(-close)
        return known + weight * clone * delta_of_gdp(close, law) + told(clone * (1 - known), local, step)

    if pure or not others:
        return told(mp.exp(-law), law) if pure else delta_of_gdp(epsilon, law)
    pairs = product(parts, [*parts, *(part * 63 / 64 for part in parts)])
    return min(spent(*pair) for pair in sorted(pairs, key=lambda pair: spent(pair[0], pair[1], 10))[:2])


def worst_places(parts: Iterable[Any], rows: int, apart: int, most: int = _MOST_DIVIDED, barred: int = 0) -> Any:
    """Largest costs of a user's rows in parts of a stream, by their number and by how many places they bar behind.
    A part: length, times, cost by rows and, where places in it matter, its own such sums by places barred and rows."""
    if rows > most:
        raise NotChecked(f"divisions of {rows:,} rows of a user among parts of the stream")
    known: dict[tuple[int, int], Any] = {(0, barred): 0}
    for length, times, cost, *inside in parts:
        for _ in range(times):
            found: dict[tuple[int, int], Any] = {}
            for (before, near), best in known.items():
                fits = min(max(0, (length - 1 - near) // apart + 1), rows - before)
                early = ((m, max(near + m * apart - length, 0)) for m in range(fits + 1))  # as early as possible
                for (m, out), more in (inside[0](near, fits) if inside else dict.fromkeys(early, 0)).items():
                    found[before + m, out] = max(found.get((before + m, out), 0), best + more + (cost(m) if m else 0))
            kept, most_of = dict[tuple[int, int], Any](), dict[int, Any]()
            for (m, out), best in sorted(found.items()):
                if best > most_of.get(m, -1):  # who bars more must cost more
                    kept[m, out] = most_of[m] = best
            if kept == known:
                break
            known = kept
    return known


def _in_steps(n: int, leaf: int, rows: int, apart: int) -> Any:  # the largest sum of squares (participation.md, 4)
    rows, parts = min(rows, (n - 1) // apart + 1), [(leaf, n // leaf, lambda m: m * m), (n % leaf, 1, lambda m: m * m)]
    return iv.mpf(rows if apart >= leaf else max(worst_places(parts, rows, apart, 1 << 10).values()))


def _lanes(n: int, more: int = 0) -> Any:  # of a sum of n products in eight lanes, relative (iterates.md, 4)
    return (iv.mpf(n) / 8 + 8 + more) * UNIT


class Loss(namedtuple("Loss", "offset rise cap bend one_sided", defaults=[False])):
    """A loss whose slopes at scores within m are at most min(cap, offset + rise m), or (no offset) the sigmoid of m.
    ``bend`` bounds the second derivative, None at kinks; ``one_sided``: the slopes of one label have one sign."""

    @staticmethod
    def of(loss: Record, y: Any) -> Loss:  # the loss of a record, for targets within y
        one, flat, y, width = iv.mpf(1), iv.mpf(0), iv.mpf(y), iv.mpf(loss.get("width", 1))
        if loss.get("custom"):  # the user's own, as vouched for
            return Loss(cap := iv.mpf(loss["lipschitz"]), flat, cap, loss["curvature"] and iv.mpf(loss["curvature"]))
        return {
            "logistic": Loss(None, None, one, one / 4, one_sided=True),
            "hinge": Loss(one, flat, one, None, one_sided=True),
            "smooth_hinge": Loss((1 + width) / (2 * width), 1 / (2 * width), one, 1 / (2 * width), one_sided=True),
            "absolute": Loss(one, flat, one, None),
            "squared": Loss(y, one, None, one),
            "huber": Loss(y, one, width, one),
        }[loss["name"].replace("softmax", "logistic")]  # one of its outputs

    def slope(self, m: Any) -> tuple[Any, Any]:  # the largest at scores of a sign within m (None: at all), and its rate
        if m is not None and self.offset is None:
            slope = 1 / (1 + iv.exp(-m))
            return slope, slope * (1 - slope)
        flat = m is None or (self.cap is not None and upper(self.offset + self.rise * m) >= upper(self.cap))
        if flat and self.cap is None:
            raise NotChecked("a loss whose slope has no bound over all models")
        return (self.cap, iv.mpf(0)) if flat else (self.offset + self.rise * m, self.rise)

    def width(self, m: Any, streams: int) -> Any:
        """Distance of gradients of two rows of norm 1 at one point with scores within m, or of one from 0: the cosine
        c from the point makes them as long as the slope at m c, and two on opposite sides of it are farthest apart."""
        if streams == 1 or m is None:
            return streams * self.slope(m)[0]
        # the sign of the derivative of the logarithm, which is concave
        c = _root(lambda c, slope, grows: m * grows * (1 - c * c) - c * slope, lambda c: self.slope(m * c))
        return 2 * iv.sqrt(1 - iv.mpf(c.a) ** 2) * self.slope(m * iv.mpf(c.b))[0]

    def pull(self, m: Any) -> Any:  # largest -phi'(s) s over |s| <= m (offline.md, 2)
        x = _root(lambda x, slope, grows: slope - m * x * grows, lambda x: self.slope(-m * x))
        return m * iv.mpf(x.b) * self.slope(-m * iv.mpf(x.a))[0]


class Path(namedtuple("Path", "first l2 root diameter rounding cap")):
    """Weights of steps, and the effect of one row on secret iterates; in doubles."""

    def weight(self, t: int) -> Any:
        return self.first + self.l2 * (2.0 * math.sqrt(t) if self.root else t)

    def charge(self, t: int) -> Any:
        grown = 4.0 / 3.0 * (t + 1) * math.sqrt(t + 1) if self.root else 0.5 * t * (t + 1)
        return self.rounding[0] + self.rounding[1] * t + self.rounding[2] * (self.first * t + self.l2 * grown)

    def moved(self, t: int) -> Any:
        return min((self.diameter + self.charge(t)) / self.weight(t), self.cap)


class Design:
    """The matrix C of prefix sums: the effect of rows of norm 1 (recursions.md, 3 and 4; participation.md, 4)."""

    def __init__(self, design: Record) -> None:
        self.name, self.steps, self.of = design["name"], design["steps"], design
        self.intervals = self.name in ("tree", "honaker", "smooth")
        self.pairs = pairs = list(zip(*(map(iv.mpf, design.get(key, ())) for key in ("rates", "weights")), strict=True))
        p, ones = (design["height"], design["ones"]) if self.name == "smooth" else (self.steps.bit_length(), -1)
        if p > 128 or (not self.intervals and self.name not in ("sqrt", "blt", "banded", "independent")):
            raise NotChecked(f"sums of the design {self.name!r}, of {self.steps:,} steps")
        self.top, words = (p, ones, self.steps), math.comb(p, ones) if ones > 0 else 1 << p
        if words <= self.steps or design.get("decay", 1) > 1 or not all(0 < r < 1 and v >= 0 for r, v in pairs):
            raise ValueError("rates or weights of a BLT, or words of a tree")
        self.series = cache(lambda n: [sum(v * (1 - (a * b) ** n) / (1 - a * b) for b, v in pairs) for a, _ in pairs])
        self.known, self.blocks, self.both = cache(self.product), cache(self.laid), self.name == "honaker"
        self.powers = cache(lambda lag: [weight * rate**lag for rate, weight in pairs])
        self.sums, self.terms = dict[int, list[int]](), list[int]()
        if self.name == "sqrt":
            up, down = design["decay"].as_integer_ratio()
            rates = ((up * (2 * k - 1), down * 2 * k) for k in range(1, min(self.steps, _MOST_NUMBERS)))
            self.terms = list(accumulate(rates, lambda c, rate: -(-c * rate[0] // rate[1]), initial=ONE))
        if self.name == "banded":  # its coefficients are doubles
            ratios = (design["decay"] * (1.0 - 0.5 / k) for k in range(1, min(design["bandwidth"], self.steps)))
            self.terms = [math.ceil(mpf(c) * ONE) for c in accumulate(ratios, lambda c, r: c * r, initial=1.0)]

    def rounding(self) -> Any:  # the largest distance of a step's vector as computed from the real one
        if self.terms:
            n = len(self.terms) if self.name == "banded" else self.steps
            factor = 2 * (n - 1) if self.name == "banded" else (5 if self.of["decay"] == 1.0 else 6) * n + 1
            return UNIT * iv.mpf("1.05") * factor * (1 + 2 * iv.sqrt(n / iv.pi))
        reaches = [(weight, min(iv.mpf(self.steps - 1), 1 / (1 - rate), key=upper)) for rate, weight in self.pairs]
        gain, drift = (sum(weight * reach**power for weight, reach in reaches) for power in (1, 2))
        return UNIT * (iv.mpf("1.05") * (len(reaches) + 1) * (1 + gain) + iv.mpf("2.1") * drift) if reaches else 0

    def product(self, lag: int, left: int) -> int:  # of columns so far apart, the later with ``left`` rows; in 1 / ONE
        if left < 1:
            return 0
        if self.terms:
            if lag not in self.sums:
                if (self.steps if self.name == "sqrt" else len(self.terms)) * (len(self.sums) + 1) > _MOST_NUMBERS:
                    raise NotChecked(f"{self.steps:,} steps of {self.name} sums, at {len(self.sums) + 1} distances")
                self.sums[lag] = [0, *accumulate(map(int.__mul__, self.terms, self.terms[lag:]))]
            return -(-self.sums[lag][min(left, len(self.sums[lag]) - 1)] // ONE)
        terms = zip(self.pairs, self.powers(lag), self.series(left - 1), strict=True)
        parts = (power * (series + (1 / rate if lag else 0)) for (rate, _), power, series in terms)
        return int(mp.ceil(upper(sum(parts, iv.mpf(0 if lag else 1))) * ONE))

    def pattern(self, rows: int, apart: int, leaf: int) -> Any:  # the square of a user's joint effect in the worst case
        rows, bounds = min(rows, (self.steps * leaf - 1) // apart + 1), []
        work = (rows * rows * (rows + apart) + 32 * apart) * self.top[0] >> 6 if self.intervals else 2048 * rows
        if rows > 1 and (work > _MOST_NUMBERS or sum(upper(weight) for _, weight in self.pairs) > 1):
            raise NotChecked(f"{rows:,} rows of a user in {self.name} sums, {apart:,} apart")
        if self.intervals:
            found = self.blocks(((self.top, False),), leaf, apart, 0, 1 << (rows - 1).bit_length())
            return iv.mpf(max(best for (m, _), best in found.items() if m <= rows))  # one search serves several m
        if self.name == "independent":
            return _in_steps(self.steps * leaf, leaf, rows, apart)
        if apart < leaf:  # adjacent steps that are as full as possible
            full = -(-leaf // apart)
            counts = [full] * (rows // full) + [rows % full]
            pairs = ((c * d, abs(i - j), max(i, j)) for i, c in enumerate(counts) for j, d in enumerate(counts))
            bounds.append(sum(times * self.known(lag, self.steps - last) for times, lag, last in pairs))
        if apart >= leaf or leaf % apart:
            bounds.append(self.nearest(rows, apart // math.gcd(apart, leaf), leaf // math.gcd(apart, leaf)))
        return iv.mpf(min(bounds)) / ONE

    def halves(self, p: int, ones: int, steps: int) -> Any:  # halves of a block or a tree, and which are nodes
        if not ones or p in (0, ones):
            return ()
        size = math.comb(p - 1, ones) if ones > 0 else 1 << (p - 1)
        last = (p - 1, ones - (ones > 0), steps - size), self.both and steps == 2 * size
        return (((p - 1, ones, min(steps, size)), steps >= size), last)[: 1 + (steps > size)]

    def laid(self, blocks: Any, leaf: int, apart: int, barred: int, rows: int) -> Any:  # costs in nodes of blocks
        inside = {block: [partial(self.blocks, of, leaf, apart)] for block, _ in blocks if (of := self.halves(*block))}
        parts = [(leaf * b[-1], 1, lambda m, node=node: node * m * m, *inside.get(b, [])) for b, node in blocks]
        return worst_places(parts, rows, apart, rows, barred)

    def nearest(self, rows: int, apart: int, leaf: int) -> int:  # of rows as near as may be, or a step further
        steps = [k * apart // leaf for k in range(rows)]  # at least, from the first row
        ways: dict[tuple[int, ...], int] = {(0,): 0}  # by position in a step, and steps between the last rows
        for j, first in enumerate(steps):
            far = [self.known(steps[i], self.steps - first) for i in range(_BACK + 1, j + 1)]
            found = dict[tuple[int, ...], int]()
            for (place, *lags), best in ways.items():
                back = enumerate(accumulate(lags), 1)
                near = [self.known(lag, self.steps - max(first, steps[j - i] + lag)) for i, lag in back]
                best += self.known(0, self.steps - first) + 2 * sum(far + near)
                lag, start = divmod(place + apart, leaf)
                for key in ((start, lag, *lags[: _BACK - 1]), (0, lag + (start > 0), *lags[: _BACK - 1])):
                    found[key] = max(found.get(key, 0), best)
            ways = found
        return max(ways.values())


class _Reader:
    """A record, and the cost of rows in each kind of mechanism. ``streams``: how many have other than the null row."""

    def __init__(self, record: Record) -> None:
        self.of, self.streams = record, {"replace": 2, "zero_out": 1}[record["adjacency"]]

    def loss_and_row(self, offline: bool = False) -> tuple[Loss, Any]:  # with the intercept's 1, or a row's factor
        row, loss = iv.mpf(self.of["x_bound"]), Loss.of(self.of["loss"], self.of["y_bound"])
        row = iv.sqrt(row * row + 1) if self.of["intercept"] else row
        return loss, row * max(self.of["weight"], 1) * (1 + 2 * _lanes(self.of["dimension"], 10)) if offline else row

    def change(self) -> Any:  # the largest distance of two rows' gradients at one point, or of one from 0
        of, ball = self.of, self.streams * iv.mpf(self.of["gradient_bound"])
        if of["cut"]:
            return ball
        dim, weight, (loss, row) = of["dimension"], iv.mpf(of["weight"]), self.loss_and_row()
        score = row * of["radius"] * (1 + 2 * (_lanes(dim, 24) + 16 * iv.sqrt(dim) * UNIT))  # its rounding moves slopes
        apart = (1 + 4 * _lanes(dim, 8)) * loss.width(score, 2) + 4 * (loss.bend or 0) * row * _lanes(dim) * score
        if mpf((weight * row * loss.slope(score)[0]).a) > mpf(of["gradient_bound"]):
            raise ValueError("gradients longer than their bound, and none is cut")
        return ball if of["outputs"] > 1 or self.streams == 1 else min(ball, weight * row * apart, key=upper)

    def of_sums_of_gradients(self) -> Mechanism:  # all of them one Gaussian mechanism (leaders.md)
        rounding = (36 + 4 * self.of["outputs"]) * UNIT
        return self.sums(iv.mpf(self.of["gradient_bound"]), self.change(), rounding, self.of["dimension"])

    def of_sums_of_moments(self) -> Mechanism:  # v v^T and c v, |v|, |c| <= 1, as one vector (least_squares.md, 2, 3)
        dim, root = self.of["dimension"], iv.sqrt(2)
        return self.sums(root, 3 / root if self.streams == 2 else root, (dim + 128) * UNIT, dim * (dim + 1) // 2 + dim)

    def of_sums_of_vectors(self) -> Mechanism:  # of rows within a bound, or of v v^T of such rows (prefix.md)
        apart, error = {1: (2, 0), 2: (iv.sqrt(2), 4 * UNIT)}[self.of["power"]]
        bound = iv.mpf(self.of["bound"]) ** self.of["power"]
        return self.sums(bound, bound * (apart if self.streams == 2 else 1), error, self.of["dimension"])

    def sums(self, bound: Any, change: Any, error: Any, dim: int) -> Mechanism:  # of rows in a bound (recursions.md)
        if self.of.get("epochs") is not None:  # a row is in one epoch (prefix.md, 6)
            own = [{**self.of, "epochs": None, **{k: each[k] for k in ("noise", "rows")}} for each in self.of["epochs"]]
            found = [_Reader(epoch).sums(bound, change, error, dim) for epoch in own]
            costs = cache(lambda b: [cache(lambda m, each=each: upper(each.price(m, b)) ** 2) for each in found])
            # of epochs like the last one there may be any number
            parts = cache(lambda rows, b: [(rows, 1, cost) for cost in costs(b)] + [(rows, rows, costs(b)[-1])])
            price = cache(lambda m, b: iv.sqrt(max(worst_places(parts(m, b), m, 1).values())))
            return Mechanism(price, found[0].said, [*chain.from_iterable(each.facts for each in found)])
        noise, leaf, n, excess = self.of["noise"], self.of["rows_of_step"], self.of["rows"], error + 4 * _lanes(dim, 8)
        design, sigma, radius = Design(noise["design"]), mpf(noise["sigma"]), bound * (1 + excess)
        steps, one = design.steps, min(radius * self.streams, change + excess * bound * self.streams, key=upper)
        facts = [("horizon", steps * leaf >= n, f"{steps:,} steps of {leaf:,} rows for {n:,} rows")]
        if design.intervals:
            grid, fits = iv.mpf(noise["grid"]), steps * leaf * upper(radius) <= mpf(2) ** 61 * mpf(noise["grid"])
            facts.append(("integers", fits and noise["grid"] <= noise["lattice"], f"grid {noise['grid']:.6g}"))
            if self.streams == 2:  # truncation keeps a ball, and adds less than a grid a coordinate to a distance
                one = min(radius * 2, one + iv.sqrt(dim) * grid, key=upper)
        else:
            one += iv.mpf("2.1") * (leaf - 1) * UNIT * leaf * radius
        drift = 2 * iv.sqrt(steps) * design.rounding() * leaf * radius
        square, said = cache(partial(design.pattern, leaf=leaf)), f"std {float(sigma):.8g} of {design.name} sums"
        return Mechanism(lambda m, b: (iv.sqrt(square(m, b)) * one + drift) / sigma, said, facts)

    def of_gradients(self) -> Mechanism:  # independent noise on each step's sum of gradients (gradients.md)
        batch, sigma, n = self.of["rows_of_step"], mpf(self.of["noise"]["sigma"]), self.of["rows"]
        rounding = 2 * _lanes(self.of["dimension"], 32) + iv.mpf("1.01") * batch * (batch + 1) * UNIT
        one, said = self.change() + rounding * iv.mpf(self.of["gradient_bound"]), f"std {float(sigma):.8g} of a step"
        return Mechanism(lambda m, b: iv.sqrt(_in_steps(n, batch, m, b)) * one / sigma, said)

    def of_windows(self) -> Mechanism:  # totals of two numbers of a row, 0 to 1, for a null row 1/2 (metrics.md, 2)
        std, window, rows = mpf(self.of["std"]), self.of["window_rows"], self.of["rows"]
        one, said = iv.sqrt(2) * self.streams / 2 / std, f"std {float(std):.8g} of a total"
        return Mechanism(lambda m, b, n=0: iv.sqrt(_in_steps(rows, window, m, b)) * one, said, most=-(-rows // window))

    def path(self) -> tuple[Path, list[Any]]:  # how secret iterates in a bounded set move (iterates.md, 2 and 4)
        of, (loss, row) = self.of, self.loss_and_row()
        wide = {"L2Ball": 2, "L1Ball": 2, "Simplex": iv.sqrt(2), "Box": iv.mpf(of["diameter"]) / of["radius"]}
        if of["set"] not in wide or of["weight"] != 1.0 or of["outputs"] != 1:
            raise NotChecked(f"iterates in a set of kind {of['set']!r}, or of weighted classes")
        dim, n, refresh = of["dimension"], of["rows"], of["refresh"]
        r, l2, first = (iv.mpf(of[key]) for key in ("radius", "l2", "first_weight"))
        ball, gradient = of["set"] == "L2Ball", {"gradient": True, "implicit": False}[of["update"]]
        inside, lanes, sets = of["constrained"] and ball, _lanes(dim) / UNIT, 16 * iv.sqrt(dim) + 16
        drift, base, step = refresh * (4 * lanes + 12), iv.mpf(refresh) * 3 / 2 + 6 * lanes + 40, iv.mpf(32)
        drift, base, step = (drift, base, step) if ball else (iv.mpf(0), 2 * lanes + 20 + sets, 36 + sets)  # no norm
        longer = 1 + iv.mpf("1.01") * UNIT * (base + drift if ball else sets)
        score, slack = row * r * longer if gradient or inside else None, (1 + 4 * _lanes(dim, 8)) * row
        diameter, steepest = slack * loss.width(score, self.streams), slack * loss.slope(score)[0]
        if (gradient or inside) and loss.bend is None:
            raise NotChecked(f"steps of the {of['loss']['name']} loss that need a smooth one")
        curve = (loss.bend or 0) * row * slack  # from twice A_0 on, a step along the gradient is no contraction
        steps = "steps", upper(curve / 2) <= of["first_weight"], f"A_0 {float(of['first_weight']):.8g}"
        root, bent = {"constant": False, "inverse_sqrt": True}[of["l2_schedule"]], curve if inside else 0
        ratio, early = (first + l2 * (2 * iv.sqrt(t) if root else t) for t in (1, 4 * refresh))
        inverse = 1 / first + (iv.sqrt(n) if root else iv.log((first + l2 * n) / first)) / l2
        e0 = drift * r * 2 * refresh * early + bent * drift * (2 * refresh * r + steepest * inverse)
        e1 = (drift + lanes + step) * ratio / first * steepest + bent * base * r
        bounds = (diameter, *(iv.mpf("2.02") * UNIT * e for e in (e0, e1, base * r)), wide[of["set"]] * r * longer)
        diameter, *rounding, cap = (math.nextafter(float(upper(x)), math.inf) for x in bounds)
        return Path(of["first_weight"], of["l2"], root, diameter, rounding, cap), [steps] if gradient else []

    def of_iterates(self) -> Mechanism:  # released iterates: squares of a row's effects add up (iterates.md, 2)
        (path, facts), noise = self.path(), self.of["noise"]
        if "row" in noise:  # a single release, where the run ended
            rows, stds = range(noise["row"], noise["row"] + 1), [noise["std"]]
        else:
            rows = noise["rows"] or range(noise["every"], noise["last_row"] + 1, noise["every"])
            if len(rows) > _MOST_NUMBERS:
                raise NotChecked(f"more than {_MOST_NUMBERS:,} releases")
            law = path._replace(diameter=noise["diameter"], rounding=noise["rounding"], cap=noise["cap"])
            power = {"paper": None, "lipschitz": 2.0 / 3.0, "smooth": 0.5}[noise["shape"]]
            stds = [noise["gain"] * (1.0 / t if power is None else law.moved(t) ** power) for t in rows]
            ends = (stds[0], noise["first_std"]), (stds[-1], noise["last_std"])
            facts.append(("law of the noise", all(abs(a / b - 1.0) < 1e-12 for a, b in ends), f"{noise['shape']!r}"))
        return self.releases(rows, map(path.moved, rows), stds, facts, noise.get("row"))

    def of_declared_iterates(self) -> Mechanism:  # of a user's own algorithm, scaled into a ball (iterates.md, 2)
        noise, radius = self.of["noise"], iv.mpf(self.of["radius"])
        excess = 4 * (_lanes(self.of["dimension"], 8) + 2 * UNIT) * radius
        moved = (upper(min(iv.mpf(x), 2 * radius, key=upper) + excess) for x in noise["declared"])
        last = max(noise["rows"]) <= self.of["rows"] and all(a < b for a, b in pairwise(noise["rows"]))
        return self.releases(noise["rows"], map(float, moved), noise["std"], [("rows of releases", last, "in order")])

    def releases(self, rows: Any, moved: Any, stds: Any, facts: Any, ends: int | None = None) -> Mechanism:
        costs = [(t, x / std) for t, x, std in zip(rows, moved, stds, strict=True)]
        said = f"std {float(stds[0]):.8g} to {float(stds[-1]):.8g} of {len(rows):,} model(s)"
        square = cache(lambda m, b, n: math.fsum((min(m, (t - 1) // b + 1) * x) ** 2 for t, x in costs[:n]))
        price = cache(lambda m, b, n=None: iv.mpf(math.sqrt(square(m, b, n)) * OUT))
        return Mechanism(price, said, facts, most=len(rows), ends=ends)

    def of_average(self) -> Mechanism:  # the average of all iterates, once (offline.md, 3)
        (path, facts), n = self.path(), self.of["rows"]
        if self.of["weights"] == "last":
            return self.once(lambda m: m * iv.mpf(path.moved(n) * OUT), facts)
        shares = {"linear": range(n + 1), "uniform": [1] * (n + 1)}[self.of["weights"]]
        parts = [shares[t + 1] * path.moved(t) for t in range(1, n)]
        narrow = later = 0.0
        for t in range(n - 1, 0, -1):  # a part that a narrow set has cut off does not come back
            later += shares[t + 1] / path.weight(t)
            narrow = max(narrow, min(path.diameter, path.cap * path.weight(t)) * later)
        one, whole, total = narrow + path.charge(n) * later, sum(shares[1:]), math.fsum(parts)
        fewer = cache(lambda m: math.fsum((m - t) * x for t, x in enumerate(parts[: m - 1], 1)))  # t rows change by t
        moved = cache(lambda m: min(m * min(total, one), m * total - fewer(m)) / whole * (OUT + n * 2.0**-52))
        return self.once(lambda m: iv.mpf(moved(m)) + iv.mpf("2.02") * (n + 24) * UNIT * self.of["radius"], facts)

    def once(self, moved: Callable[[int], Any], facts: list[Any]) -> Mechanism:  # a vector that so many rows move
        law, scale = self.of["noise"]["law"], mpf(self.of["noise"]["scale"])
        pure = {"gaussian": False, "l2_laplace": True}[law]
        price = (lambda m, _: m * moved(1) / scale) if pure else (lambda m, _: moved(m) / scale)
        return Mechanism(price, f"{law} noise of scale {float(scale):.8g}", facts, pure, most=1, ends=self.of["rows"])

    def of_minimiser(self) -> Mechanism:  # a minimiser, as certified by its solver, with noise (offline.md, 2)
        of, (loss, row), total = self.of, self.loss_and_row(offline=True), iv.mpf(self.of["l2_sum"])
        rate = total / of["rows"]  # norms of minimisers fill an interval from 0 ("The ball"): logarithms are tried
        x = _root(lambda _, r: loss.pull(row * r) - rate * r * r, lambda x: [iv.mpf(2) ** (800 * x - 400)])
        diameter = row * loss.width(row * iv.mpf(2) ** (800 * upper(x) - 400), self.streams)
        moved = iv.sqrt(of["outputs"]) * (diameter + 2 * iv.mpf(of["gradient_norm"])) / total
        if of["scaled_to"] is not None:
            radius, excess = iv.mpf(of["scaled_to"]), 2 * _lanes(of["outputs"] * of["dimension"], 32)
            moved = min(moved + excess * radius, 2 * radius, key=upper) * (1 + excess)
        return self.once(lambda m: m * moved, [])

    def of_objective(self) -> Mechanism:  # of a random linear term, with little noise at the end (offline.md, 4 to 7)
        of, noise, (loss, row), k = self.of, self.of["noise"], self.loss_and_row(offline=True), self.of["outputs"]
        total, logistic, share = iv.mpf(of["l2_sum"]), loss.offset is None, row * loss.slope(None)[0] / noise["scale"]
        error = of["gradient_norm"] + noise["step"] * iv.sqrt(of["dimension"]) / 2
        final = 2 * iv.sqrt(k) * error / total / noise["final_scale"]
        said = f"{noise['law']} noise of scale {float(noise['scale']):.8g} in the objective"
        if noise["law"] == "l2_laplace":
            t, p, curve = share * iv.sqrt(k), iv.mpf(1), row * row / total
            if logistic:  # the largest of a concave function of p; the curvature is p (1 - p)
                p = _root(lambda p: t * (1 + curve * p * (1 - p)) + k * curve * (1 - 2 * p))
            curve *= iv.mpf(p.b) * (1 - iv.mpf(p.a)) if logistic else loss.bend
            cost = t * (self.streams - 1 + iv.mpf(p.b)) + k * iv.log(1 + curve) + final
            return Mechanism(lambda m, _: m * cost, said, pure=True, most=1, ends=of["rows"])
        if k > 1 and not loss.one_sided:
            raise NotChecked("several outputs whose slopes have both signs")
        left = mpf((noise["epsilon"] - k * iv.log(1 + row * row * loss.bend / total)).a)
        shifts = [[(math.comb(k, i), i) for i in range(1, k + 1)] if loss.one_sided else [(2, 1)]]  # squares, in R L
        if self.streams == 2 and loss.one_sided:
            both = [(i, j) for i in range(k + 1) for j in range(k - i + 1) if i + j]
            shifts = [[(math.comb(k, i) * math.comb(k - i, j) * 2**j, 4 * i + j) for i, j in both]]
        elif self.streams == 2:
            shifts = [[(2, high), (2, 4 - low)] for low, high in pairwise(2 + iv.mpf(i) / 32 for i in range(65))]
        delta = max(sum(n * delta_of_gdp(left, upper(iv.sqrt(x) * share)) for n, x in each) for each in shifts)
        delta = delta + delta_of_gdp(noise["final_epsilon"], upper(final)) if left > 0 else mpf(1)
        one = iv.mpf(noise["epsilon"]) + noise["final_epsilon"]
        price, slack = (lambda m, _: m * one), (lambda m: delta * mp.expm1(m * upper(one)) / mp.expm1(upper(one)))
        return Mechanism(price, said, (), True, slack, most=1, ends=of["rows"])

    def of_messages(self) -> Mechanism:  # of a network's nodes: a row is in one of an epoch (network.md, 3 and 4)
        of, batch, uses, bound = self.of, self.of["rows_of_step"], self.of["uses"], iv.mpf(self.of["gradient_bound"])
        lanes, scaled = _lanes(of["dimension"]) / UNIT, of["position"] == "scaled_gradient" and batch == 1
        rounding = (2 * (lanes + 32) + iv.mpf("1.01") * batch * (batch + 1)) * bound if batch > 1 else 0
        if of["position"] == "output":
            rounding += 2 * ((lanes + 22) * iv.mpf(of["radius"]) * batch / iv.mpf(of["last_step"]) + 7 * batch * bound)
        elif not scaled and (of["position"] != "gradient" or (batch > 1 and of["noise"]["law"] in ("cap", "sign"))):
            raise NotChecked(f"noise at {of['position']!r} of the law {of['noise']['law']!r}")
        found = self.of_reports((bound + rounding * UNIT) / (of["last_step"] * (1 - 4 * UNIT) if scaled else 1), uses)
        epochs = "epochs", uses == 1 or of["rows"] >= uses * of["nodes"] * batch, f"{uses} of {of['nodes']} nodes"
        return found._replace(facts=(*found.facts, epochs), price=lambda m, _: m * found.price(1, 1))

    def of_reports(self, bound: Any = None, uses: int = 1) -> Mechanism:  # of vectors cut to a bound (reports.md)
        noise, dim, facts = self.of["noise"], self.of["report_dimension"], list[Any]()
        if not self.of.get("cut", True):  # as long as the loss makes them
            (loss, row), radius = self.loss_and_row(), self.of["radius"]
            steepest = self.of["weight"] * row * loss.slope(radius and row * radius)[0] / OUT
            if mpf(steepest.a) > self.of.get("report_bound", self.of.get("gradient_bound")):
                raise ValueError("gradients longer than their bound, and none is cut")
        law, scale = noise["law"], iv.mpf(noise["scale"])
        longest = (bound or self.of["report_bound"]) * (1 + (dim + 64) * UNIT * iv.mpf("1.000001"))
        if law in ("cap", "sign"):  # how probable one side is, in units of 2^-64
            far = iv.mpf(noise["threshold"])
            one = iv.log(2**64 / (2**64 - far)) if law == "cap" else iv.log((2**63 + far) / (2**63 - far))
        else:
            one = self.streams * longest / scale * {"gaussian": 1, "l2_laplace": 1, "laplace": iv.sqrt(dim)}[law]
        if (most := self.of["leakage"]) is not None:
            told = upper(dim * iv.log(1 + longest**2 / (dim * scale**2)) / 2)
            facts.append(("nats", law == "gaussian" and told <= most, f"{float(told):.8g} of {float(most):.8g}"))
        price = (lambda m, _: iv.sqrt(m * uses) * one) if law == "gaussian" else (lambda m, _: m * uses * one)
        return Mechanism(price, f"{law} noise of scale {float(noise['scale']):.8g}", facts, law != "gaussian")

    def of_histograms(self) -> Mechanism:  # in phases on separate rows: a row is in one cell of each (encoding.md)
        at, facts, phases = 1, [], self.of["phases"]
        for phase in phases:
            apart = phase["first_row"] == at and min(phase["rows"], phase["histograms"]) >= 1
            at += phase["rows"]
            facts.append((f"phase {phase['name']!r}", apart, f"rows {phase['first_row']:,} to {at - 1:,}"))
        facts.append(("rows", at - 1 == self.of["rows"], f"{at - 1:,} in its phases, {self.of['rows']:,} stated"))
        parts, said = [(phase["rows"], 1, lambda m: m * m) for phase in phases], f"the noise of {len(phases)} phase(s)"
        one = max((iv.sqrt(phase["histograms"] * self.streams) / phase["std"] for phase in phases), key=upper)
        return Mechanism(lambda m, b: iv.sqrt(max(worst_places(parts, m, b, 1 << 10).values())) * one, said, facts)

    def of_selection(self) -> Mechanism:  # the best of random fits to the first rows, by noisy scores (selection.md)
        of, noise, m, fits = self.of, self.of["noise"], self.of["m"], [*map(mechanism_of, self.of["fits"])]
        pure, scored = {"gaussian": False, "discrete_laplace": True}[noise["law"]], of["scored_rows"]
        kinds = [(fit.pure, upper(fit.price(1, 1))) for fit in fits if fit.slack is None and fit.pure >= pure]
        if len(kinds) < len(fits) or {each["adjacency"] for each in of["fits"]} != {of["adjacency"]}:
            raise ValueError("a fit of another relation of streams, or of another kind of guarantee")
        mus = [2 * mp.sqrt(2) * mp.erfinv(mp.tanh(x / 2)) if own > pure else x for own, x in kinds]  # as of a Law
        one = max(*mus, upper(iv.mpf(of["score_bound"]) / noise["scale"]))
        whole = min(each["rows"] for each in of["fits"]) >= of["fitted_rows"] == of["rows"] - scored
        drawn = m > 1 and upper((m - 1) / iv.log(m)) >= of["repetitions"]
        facts = ("rows", whole, f"{scored:,} scored"), ("fits", drawn, f"m {m:,}"), *chain(*(fit.facts for fit in fits))
        price = (lambda k, _: 2 * k * iv.mpf(one)) if pure else (lambda k, _: _best_of(m, of["delta"], k * one))
        slack, said = (lambda _: mpf(of["delta"])), f"{noise['law']} noise of scale {noise['scale']:.8g} on scores"
        return Mechanism(price, said, facts, True, None if pure else slack, most=1, ends=of["rows"])
