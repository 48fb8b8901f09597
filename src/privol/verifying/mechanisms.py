"""What rows of a user cost in each kind of mechanism, rounded outwards; without privol. Sections: ``docs/proofs``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from operator import mul
from typing import Any, NamedTuple

from mpmath import iv, mp, mpf

iv.prec = mp.prec = 200

__all__ = ["Mechanism", "NotChecked", "Record", "delta_of_gdp", "mechanism_of", "shown", "upper"]

Record = Mapping[str, Any]
#: A name, whether it is as it must be, details.
Fact = tuple[str, bool, str]
#: Roundoff of a double; and outwards, by more than doubles round in a term and in ``fsum``.
UNIT, OUT = iv.mpf(1) / 2**53, 1.0 + 2.0**-42
#: Integers are in units of 1 / ONE where they stand for real numbers; so many numbers are looked at, at most.
ONE, _MOST_NUMBERS = 1 << 128, 1 << 21


class NotChecked(Exception):
    """What this program has no proof for."""


class Mechanism(NamedTuple):
    """What a mechanism costs, by the noise that was drawn, in words what that is, and what else was looked at.

    ``price``: of rows of a user, so many rows apart at least, a mu, or of ``pure`` an epsilon; NotChecked where only
    their number times that of one is known. ``slack``: of what is proved at one delta, that delta. ``most``: number of
    releases that it is the price of; ``first``: the price of the first so many; ``ends``: rows before the only one.
    """

    price: Callable[[int, int], Any]
    said: str
    facts: Sequence[Fact] = ()
    pure: bool = False
    slack: Any = None
    most: int | None = None
    first: Callable[[int, int, int], Any] | None = None
    ends: int | None = None


def mechanism_of(record: Record) -> Mechanism:
    """Return what a record says of a mechanism, or raise NotChecked, or KeyError and the like where it is damaged."""
    read = getattr(_Reader, "of_" + record["kind"].replace(" ", "_"), None)
    if read is None:
        raise NotChecked(f"a mechanism of kind {record['kind']!r}")
    if record["adjacency"] not in ("replace", "zero_out") or record["rows"] < 1:
        raise ValueError(f"adjacency {record['adjacency']!r}, {record['rows']} rows")
    found: Mechanism = read(_Reader(record))
    return found


def upper(x: Any) -> Any:
    """The upper end of an interval."""
    return mpf(x.b)


def shown(x: Any) -> str:
    """A number in eight digits."""
    return str(mp.nstr(mpf(x), 8))


def _root(falls: Callable[[Any], Any]) -> Any:
    """An interval of [0, 1] around the root of a function that falls, or at the end where it would come."""
    low, high = mpf(0), mpf(1)
    for _ in range(100):
        middle = (low + high) / 2
        found = falls(iv.mpf(middle))
        if mpf(found.a) <= 0 <= upper(found):
            break
        low, high = (middle, high) if mpf(found.a) > 0 else (low, middle)
    return iv.mpf([low, high])


def delta_of_gdp(epsilon: Any, mu: Any) -> Any:
    """Above the delta at which mu-GDP implies (epsilon, delta): Dong, Roth and Su 2022, Corollary 1."""
    mu, epsilon = mpf(mu), mpf(epsilon)
    found = mp.ncdf(-epsilon / mu + mu / 2) - mp.exp(epsilon) * mp.ncdf(-epsilon / mu - mu / 2)
    return found + mpf(10) ** -45


def _lanes(n: int, more: int = 0) -> Any:
    """Charge for a sum of n products in eight lanes and so many roundings more (iterates.md, 4), relative to it."""
    return (iv.mpf(n) / 8 + 8 + more) * UNIT


class Loss(NamedTuple):
    """A loss whose slopes at scores within m are at most min(cap, offset + rise m), or (no offset) the sigmoid of m.

    ``bend`` bounds the second derivative, None at kinks; ``one_sided``: the slopes of one label have one sign.
    """

    offset: Any
    rise: Any
    cap: Any
    bend: Any
    one_sided: bool = False

    @staticmethod
    def of(loss: Record, y: Any) -> Loss:
        """The loss of a record whose targets are within y."""
        one, flat, own = iv.mpf(1), iv.mpf(0), loss.get("lipschitz")
        if own is not None:  # of the user, as vouched for
            return Loss(iv.mpf(own), flat, iv.mpf(own), loss["curvature"] and iv.mpf(loss["curvature"]))
        width = iv.mpf(loss.get("width", 0))
        if loss["name"] == "smooth_hinge":
            return Loss((1 + width) / (2 * width), 1 / (2 * width), one, 1 / (2 * width), one_sided=True)
        known = {"logistic": Loss(None, None, one, one / 4, one_sided=True)}
        known |= {"hinge": Loss(one, flat, one, None, one_sided=True), "absolute": Loss(one, flat, one, None)}
        known |= {"squared": Loss(iv.mpf(y), one, None, one), "huber": Loss(iv.mpf(y), one, width, one)}
        return known[loss["name"]]

    def growth(self, m: Any) -> tuple[Any, Any]:
        """The slope and its derivative at scores of that sign and magnitude."""
        if self.offset is None:
            slope = 1 / (1 + iv.exp(-m))
            return slope, slope * (1 - slope)
        line = self.offset + self.rise * m
        flat = self.cap is not None and upper(line) >= upper(self.cap)
        return (self.cap, iv.mpf(0)) if flat else (line, self.rise)

    def slope(self, m: Any) -> Any:
        """At scores within m; None: at all."""
        if m is not None:
            return self.growth(m)[0]
        if self.cap is None:
            raise NotChecked("a loss whose slope has no bound over all models")
        return self.cap

    def width(self, m: Any, streams: int) -> Any:
        """Distance of gradients of two rows of norm 1 at one point with scores within m, or of one from 0: the cosine
        c from the point makes them as long as the slope at m c, and most apart are two on opposite sides of it.
        """
        if streams == 1 or m is None:
            return streams * self.slope(m)

        def falls(c: Any) -> Any:  # has the sign of the derivative of the logarithm, which is concave
            slope, grows = self.growth(m * c)
            return m * grows * (1 - c * c) - c * slope

        c = _root(falls)
        return 2 * iv.sqrt(1 - iv.mpf(c.a) ** 2) * self.slope(m * iv.mpf(c.b))

    def pull(self, m: Any) -> Any:
        """Largest -phi'(s) s over |s| <= m (offline.md, 2)."""

        def falls(x: Any) -> Any:
            slope, grows = self.growth(-m * x)
            return slope - m * x * grows

        x = _root(falls)
        return m * iv.mpf(x.b) * self.slope(-m * iv.mpf(x.a))


class Path(NamedTuple):
    """Weights of steps, and what one row moves, of secret iterates; in doubles."""

    weights: tuple[float, float, bool]
    diameter: float
    rounding: Sequence[float]
    cap: float

    def weight(self, t: int) -> float:
        first, l2, root = self.weights
        return first + (2.0 * l2 * math.sqrt(t) if root else l2 * t)

    def charge(self, t: int) -> float:
        first, l2, root = self.weights
        grown = l2 * (4.0 / 3.0 * (t + 1) * math.sqrt(t + 1) if root else 0.5 * t * (t + 1))
        return self.rounding[0] + self.rounding[1] * t + self.rounding[2] * (first * t + grown)

    def moved(self, t: int) -> float:
        return min((self.diameter + self.charge(t)) / self.weight(t), self.cap)


class Design:
    """The matrix C of prefix sums: what rows of norm 1 move (recursions.md, 3 and 4; participation.md, 4)."""

    def __init__(self, design: Record) -> None:
        self.name, self.steps, self.of = design["name"], design["steps"], design
        self.kept = max(min(design["bandwidth"], self.steps), 1) if self.name == "banded" else self.steps
        if self.name not in ("tree", "honaker", "smooth", "sqrt", "blt", "banded", "independent"):
            raise NotChecked(f"sums of the design {self.name!r}")
        self.pairs = list(zip(design.get("rates", ()), design.get("weights", ()), strict=True))
        if not all(0 < rate < 1 and weight >= 0 for rate, weight in self.pairs):
            raise ValueError("rates or weights of a BLT")

    def column(self) -> Any:
        """Square of the L2 norm of the longest column."""
        if self.name in ("tree", "honaker"):
            return iv.mpf(self.steps.bit_length())
        if self.name == "smooth":
            if math.comb(self.of["height"], self.of["ones"]) <= self.steps:
                raise ValueError("words of a smooth tree")
            return iv.mpf(self.of["height"] - self.of["ones"])
        if self.name in ("sqrt", "banded"):
            return self.pattern(1, 1, 1)
        pairs = ((iv.mpf(a) * b, iv.mpf(u) * v) for a, u in self.pairs for b, v in self.pairs)
        return iv.mpf(1) + sum(weight * (1 - rate ** (self.steps - 1)) / (1 - rate) for rate, weight in pairs)

    def rounding(self) -> Any:
        """How far a step's vector as computed is from the real one, at most."""
        n, gain, drift = self.steps, iv.mpf(1), iv.mpf(0)
        if self.name in ("sqrt", "banded"):
            factor = 5 * n + 1 if self.of["decay"] == 1.0 else 6 * n + 1
            factor = 2 * (self.kept - 1) if self.name == "banded" else factor  # its coefficients are doubles
            return UNIT * iv.mpf("1.05") * factor * (1 + 2 * iv.sqrt(iv.mpf(self.kept) / iv.pi))
        for rate, weight in self.pairs:
            reach = min(iv.mpf(n - 1), 1 / (1 - iv.mpf(rate)), key=upper)
            gain, drift = gain + weight * reach, drift + weight * reach**2
        return UNIT * (iv.mpf("1.05") * (len(self.pairs) + 1) * gain + iv.mpf("2.1") * drift) if self.pairs else 0

    def terms(self) -> list[int]:
        """The coefficients of C in units of 1 / ONE, rounded up."""
        if self.name == "sqrt":
            up, down = self.of["decay"].as_integer_ratio()
            rates = ((up * (2 * k - 1), down * 2 * k) for k in range(1, self.steps))
            return list(accumulate(rates, lambda c, rate: -(-c * rate[0] // rate[1]), initial=ONE))
        if self.name == "banded":
            rates = (self.of["decay"] * (1.0 - 0.5 / k) for k in range(1, self.kept))
            return [math.ceil(mpf(c) * ONE) for c in accumulate(rates, mul, initial=1.0)]
        terms = [ONE] + [0] * (self.steps - 1)
        for rate, weight in self.pairs:
            at, (up, down) = math.ceil(mpf(weight) * ONE), rate.as_integer_ratio()
            for k in range(1, self.steps):
                terms[k], at = terms[k] + at, -(-at * up // down)
        return terms

    def pattern(self, rows: int, apart: int, leaf: int) -> Any:
        """Square of what equal rows of a user move together at their worst places, in steps of ``leaf`` rows."""
        full, lag = -(-leaf // apart), max(apart // leaf, 1)
        rows = min(rows, (self.steps * leaf - 1) // apart + 1)
        counts = [full] * (rows // full) + [rows % full] * (rows % full > 0)
        if self.name not in ("blt", "sqrt", "banded", "independent") or (apart % leaf and leaf % apart):
            raise NotChecked(f"rows of a user {apart:,} apart, of {self.name} sums with steps of {leaf:,} rows")
        if self.kept * len(counts) > _MOST_NUMBERS or sum(weight for _, weight in self.pairs) > 1:
            raise NotChecked(f"{rows:,} rows of a user in {self.steps:,} steps of {self.name} sums")
        terms, total = self.terms(), 0  # they fall, so the earliest and nearest places are the worst
        for d in range(len(counts)):
            sums = [0, *accumulate(map(mul, terms, terms[d * lag :]))]
            for j in range(d, len(counts)):
                both = sums[min(self.steps - j * lag, len(sums) - 1)]
                total += counts[j] * (2 * counts[j - d] if d else counts[j]) * both
        return iv.mpf(total) / ONE**2


class _Reader:
    """A record, and of each kind of mechanism what rows cost. ``streams``: in how many the row is not the null row."""

    def __init__(self, record: Record) -> None:
        self.of, self.streams = record, 2 if record["adjacency"] == "replace" else 1

    def loss_and_row(self, offline: bool = False) -> tuple[Loss, Any]:
        """The loss, and the bound of a row with the intercept's 1; or of what its factor makes of it (offline.md)."""
        row, loss = iv.mpf(self.of["x_bound"]), Loss.of(self.of["loss"], self.of["y_bound"])
        row = iv.sqrt(row * row + 1) if self.of["intercept"] else row
        return loss, row * (1 + 2 * _lanes(self.of["dimension"], 10)) if offline else row

    def change(self) -> Any:
        """How far gradients of two rows are apart at one point, at most the bound of all, or of one from 0."""
        of, ball = self.of, self.streams * iv.mpf(self.of["gradient_bound"])
        if of["cut"] or of["outputs"] > 1 or self.streams == 1:
            return ball
        dim, weight, (loss, row) = of["dimension"], iv.mpf(of["weight"]), self.loss_and_row()
        point = iv.mpf(of["radius"]) * (1 + 2 * (_lanes(dim, 24) + 16 * iv.sqrt(iv.mpf(dim)) * UNIT))
        predictions = 4 * (loss.bend or 0) * row * _lanes(dim) * row * point
        apart = (1 + 4 * _lanes(dim, 8)) * loss.width(row * point, 2) + predictions
        return min(ball, weight * row * apart, key=upper)

    def of_sums_of_gradients(self) -> Mechanism:
        """Prefix sums of gradients, all of them one Gaussian mechanism (leaders.md)."""
        rounding = (36 + 4 * self.of["outputs"]) * UNIT
        return self.sums(iv.mpf(self.of["gradient_bound"]), self.change(), rounding, self.of["dimension"])

    def of_sums_of_moments(self) -> Mechanism:
        """Prefix sums of v v^T and c v, |v| <= 1 and |c| <= 1, as one vector (least_squares.md, 2 and 3)."""
        dim, root = self.of["dimension"], iv.sqrt(iv.mpf(2))
        change = 3 / root if self.streams == 2 else root
        return self.sums(root, change, (dim + 128) * UNIT, dim * (dim + 1) // 2 + dim)

    def sums(self, bound: Any, change: Any, rounding: Any, dim: int) -> Mechanism:
        """Sums of rows that are at most ``bound`` long and move by ``change`` (recursions.md)."""
        if "epochs" in self.of:  # a row is in one epoch (prefix.md, 6)
            kept = {key: value for key, value in self.of.items() if key != "epochs"}
            found = [_Reader(kept | epoch).sums(bound, change, rounding, dim) for epoch in self.of["epochs"]]

            def most(m: int, apart: int) -> Any:
                if m > 1:
                    raise NotChecked("several rows of a user in epochs")
                return max((each.price(1, 1) for each in found), key=upper)

            return Mechanism(most, found[0].said, [fact for each in found for fact in each.facts])
        noise, leaf, sigma = self.of["noise"], self.of["rows_of_step"], mpf(self.of["noise"]["sigma"])
        design = Design(noise["design"])
        steps, excess = design.steps, rounding + 4 * _lanes(dim, 8)
        radius = bound * (1 + excess)
        one = min(radius * self.streams, change + excess * bound * self.streams, key=upper)
        horizon = f"{steps:,} steps of {leaf:,} rows for {self.of['rows']:,} rows"
        facts = [("horizon", steps * leaf >= self.of["rows"], horizon)]
        if design.name in ("tree", "honaker", "smooth"):
            grid = iv.mpf(noise["grid"])
            fits = steps * leaf * upper(radius) <= mpf(2) ** 61 * mpf(noise["grid"])
            facts.append(("integers", fits and noise["grid"] <= noise["lattice"], f"grid {noise['grid']:.6g}"))
            if self.streams == 2:  # truncation keeps a ball, and adds less than a grid a coordinate to a distance
                one = min(radius * 2, one + iv.sqrt(iv.mpf(dim)) * grid, key=upper)
        else:
            one += iv.mpf("2.1") * (leaf - 1) * UNIT * leaf * radius
        drift, column = 2 * iv.sqrt(iv.mpf(steps)) * design.rounding() * leaf * radius, design.column()

        def price(rows: int, apart: int) -> Any:
            square = column if rows == 1 else design.pattern(rows, apart, leaf)
            return (iv.sqrt(square) * one + drift) / sigma

        return Mechanism(price, f"std {shown(sigma)} of {design.name} sums", facts)

    def of_gradients(self) -> Mechanism:
        """Noise of its own on the sum of each step's gradients: a row is in one step (gradients.md)."""
        batch, sigma = self.of["rows_of_step"], mpf(self.of["noise"]["sigma"])
        rounding = 2 * _lanes(self.of["dimension"], 32) + iv.mpf("1.01") * batch * (batch + 1) * UNIT
        one = (self.change() + rounding * iv.mpf(self.of["gradient_bound"])) / sigma
        return self.in_steps(batch, one, f"std {shown(sigma)} of a step's sum")

    def of_windows(self) -> Mechanism:
        """Noisy totals of windows of two numbers of a row, from 0 to 1, of a null row 1/2 (metrics.md, 2)."""
        std, window = mpf(self.of["std"]), self.of["window_rows"]
        found = self.in_steps(window, iv.sqrt(iv.mpf(2)) * self.streams / 2 / std, f"std {shown(std)} of a total")
        return found._replace(most=-(-self.of["rows"] // window))

    def in_steps(self, batch: int, one: Any, said: str) -> Mechanism:
        """Rows of a user add up within a step, and squares of steps (participation.md, 4, "Independent")."""

        def price(rows: int, apart: int) -> Any:
            rows, most = min(rows, (self.of["rows"] - 1) // apart + 1), -(-batch // apart)
            if rows > 1 and apart < batch and batch % apart:
                raise NotChecked(f"rows of a user that are {apart:,} apart, in steps of {batch:,} rows")
            return iv.sqrt(iv.mpf(rows // most * most**2 + (rows % most) ** 2)) * one

        return Mechanism(price, said)

    def path(self) -> tuple[Path, list[Fact]]:
        """How secret iterates in an L2 ball move (iterates.md, 2 and 4)."""
        of, (loss, row) = self.of, self.loss_and_row()
        if of["set"] != "L2Ball" or of["weight"] != 1.0 or of["outputs"] != 1:
            raise NotChecked(f"iterates in a set of kind {of['set']!r}, or of weighted classes")
        dim, n, refresh, facts, curve = of["dimension"], of["rows"], of["refresh"], [], iv.mpf(0)
        r, l2, first = (iv.mpf(of[key]) for key in ("radius", "l2", "first_weight"))
        gradient, inside = {"gradient": True, "implicit": False}[of["update"]], of["constrained"]
        lanes = _lanes(dim) / UNIT
        drift, base = refresh * (4 * lanes + 12), iv.mpf(refresh) * 3 / 2 + 6 * lanes + 40
        longer = 1 + iv.mpf("1.01") * UNIT * (base + drift)
        score, slack = row * r * longer if gradient or inside else None, (1 + 4 * _lanes(dim, 8)) * row
        diameter, steepest = slack * loss.width(score, self.streams), slack * loss.slope(score)
        if gradient or inside:
            if loss.bend is None:
                raise NotChecked(f"steps of the {of['loss']['name']} loss that need a smooth one")
            curve = loss.bend * row * slack
        if gradient:  # else a step along the gradient is no contraction
            facts.append(("steps", upper(curve / 2) <= of["first_weight"], f"A_0 {shown(of['first_weight'])}"))
        root = {"constant": False, "inverse_sqrt": True}[of["l2_schedule"]]
        ratio = (first + (2 if root else 1) * l2) / first
        inverse = 1 / first + (iv.sqrt(iv.mpf(n)) if root else iv.log((first + l2 * n) / first)) / l2
        early = first + (2 * l2 * iv.sqrt(iv.mpf(4 * refresh)) if root else l2 * 4 * refresh)
        bent = curve if inside else 0
        e0 = drift * r * 2 * refresh * early + bent * drift * (2 * refresh * r + steepest * inverse)
        e1 = (drift + lanes + 32) * ratio * steepest + bent * base * r
        bounds = (diameter, *(iv.mpf("2.02") * UNIT * e for e in (e0, e1, base * r)), 2 * r * longer)
        diameter, *rounding, cap = (math.nextafter(float(upper(x)), math.inf) for x in bounds)
        return Path((of["first_weight"], of["l2"], root), diameter, rounding, cap), facts

    def of_iterates(self) -> Mechanism:
        """Released iterates: each moves by what one row moves it, and squares add up (iterates.md, 2)."""
        (path, facts), noise = self.path(), self.of["noise"]
        if "row" in noise:  # a single release, where the run ended
            rows, stds = [noise["row"]], [noise["std"]]
        else:
            rows = noise["rows"] or list(range(noise["every"], noise["last_row"] + 1, noise["every"]))
            if len(rows) > _MOST_NUMBERS:
                raise NotChecked(f"more than {_MOST_NUMBERS:,} releases")
            law = path._replace(diameter=noise["diameter"], rounding=noise["rounding"], cap=noise["cap"])
            power = {"paper": None, "lipschitz": 2.0 / 3.0, "smooth": 0.5}[noise["shape"]]
            stds = [noise["gain"] * (1.0 / t if power is None else law.moved(t) ** power) for t in rows]
            ends = (stds[0], noise["first_std"]), (stds[-1], noise["last_std"])
            facts.append(("law of the noise", all(abs(a / b - 1.0) < 1e-12 for a, b in ends), f"{noise['shape']!r}"))
        costs = [(t, path.moved(t) / std) for t, std in zip(rows, stds, strict=True)]
        said = f"std {shown(stds[0])} to {shown(stds[-1])} of {len(rows):,} model(s)"

        def price(m: int, apart: int, n: int | None = None) -> Any:
            return iv.mpf(math.sqrt(math.fsum((min(m, (t - 1) // apart + 1) * x) ** 2 for t, x in costs[:n])) * OUT)

        return Mechanism(price, said, facts, most=len(rows), first=price, ends=noise.get("row"))

    def of_average(self) -> Mechanism:
        """The average of all iterates, once (offline.md, 3)."""
        (path, facts), n = self.path(), self.of["rows"]
        if self.of["weights"] == "last":
            last = iv.mpf(path.moved(n) * OUT)
            return self.once(lambda m: m * last, facts)
        shares = {"linear": range(n + 1), "uniform": [1] * (n + 1)}[self.of["weights"]]
        parts = [shares[t + 1] * path.moved(t) for t in range(1, n)]
        narrow = later = 0.0
        for t in range(n - 1, 0, -1):  # what a narrow set has cut off does not come back
            later += shares[t + 1] / path.weight(t)
            narrow = max(narrow, min(path.diameter, path.cap * path.weight(t)) * later)
        one, whole, total = narrow + path.charge(n) * later, sum(shares[1:]), math.fsum(parts)
        adding = iv.mpf("2.02") * (n + 24) * UNIT * self.of["radius"]

        def together(m: int) -> Any:  # up to row t at most t rows have changed
            fewer = math.fsum((m - t) * x for t, x in enumerate(parts[: m - 1], 1))
            return iv.mpf(min(m * min(total, one), m * total - fewer) / whole * (OUT + n * 2.0**-52)) + adding

        return self.once(together, facts)

    def once(self, moved: Callable[[int], Any], facts: list[Fact]) -> Mechanism:
        """A vector with noise, which rows move by so much; of pure noise epsilons add up."""
        law, scale = self.of["noise"]["law"], mpf(self.of["noise"]["scale"])
        pure = {"gaussian": False, "l2_laplace": True}[law]
        price = (lambda m, _: m * moved(1) / scale) if pure else (lambda m, _: moved(m) / scale)
        said = f"{law} noise of scale {shown(scale)}"
        return Mechanism(price, said, facts, pure, most=1, ends=self.of["rows"])

    def of_minimiser(self) -> Mechanism:
        """A minimiser, as its solver certifies it, with noise (offline.md, 2)."""
        of, (loss, row), total = self.of, self.loss_and_row(offline=True), iv.mpf(self.of["l2_sum"])
        low, high = mpf(2) ** -400, mpf(2) ** 400
        while high > low * (1 + mpf(2) ** -60):  # norms of minimisers are in an interval from 0 ("The ball")
            r = mp.sqrt(low * high)
            outside = mpf((total / of["rows"] * r * r).a) > upper(loss.pull(row * r))
            low, high = (low, r) if outside else (r, high)
        diameter = row * loss.width(row * high, self.streams)
        moved = iv.sqrt(iv.mpf(of["outputs"])) * (diameter + 2 * iv.mpf(of["gradient_norm"])) / total
        if of["scaled_to"] is not None:
            radius, excess = iv.mpf(of["scaled_to"]), 2 * _lanes(of["outputs"] * of["dimension"], 32)
            moved = min(moved + excess * radius, 2 * radius, key=upper) * (1 + excess)
        return self.once(lambda m: m * moved, [])

    def of_objective(self) -> Mechanism:
        """A minimiser whose objective has a random linear term, and little noise on it (offline.md, 4 to 7)."""
        of, noise, (loss, row), k = self.of, self.of["noise"], self.loss_and_row(offline=True), self.of["outputs"]
        total, logistic = iv.mpf(of["l2_sum"]), loss.offset is None
        share = row * loss.slope(None) / iv.mpf(noise["scale"])
        error = iv.mpf(of["gradient_norm"]) + iv.mpf(noise["step"]) * iv.sqrt(iv.mpf(of["dimension"])) / 2
        final = 2 * iv.sqrt(iv.mpf(k)) * error / total / noise["final_scale"]
        said = f"{noise['law']} noise of scale {shown(noise['scale'])} in the objective"
        if noise["law"] == "l2_laplace":
            t, p, curve = share * iv.sqrt(iv.mpf(k)), iv.mpf(1), row * row / total
            if logistic:  # the largest of a concave function of p; the curvature is p (1 - p)
                p = _root(lambda p: t * (1 + curve * p * (1 - p)) + k * curve * (1 - 2 * p))
            curve *= iv.mpf(p.b) * (1 - iv.mpf(p.a)) if logistic else loss.bend
            cost = t * (self.streams - 1 + iv.mpf(p.b)) + k * iv.log(1 + curve) + final
            return Mechanism(lambda m, _: m * cost, said, pure=True, most=1, ends=of["rows"])
        if k > 1 and not loss.one_sided:
            raise NotChecked("several outputs whose slopes have both signs")
        left = mpf((iv.mpf(noise["epsilon"]) - k * iv.log(1 + row * row * loss.bend / total)).a)

        def beyond(square: Any) -> Any:  # of a shift with that square, in units of R L
            return delta_of_gdp(left, upper(iv.sqrt(iv.mpf(square)) * share))

        shifts = [(math.comb(k, i), i) for i in range(1, k + 1)] if loss.one_sided else [(2, 1)]
        if self.streams == 2:
            both = [(i, j) for i in range(k + 1) for j in range(k - i + 1) if i + j]
            shifts = [(math.comb(k, i) * math.comb(k - i, j) * 2**j, 4 * i + j) for i, j in both]
        delta = sum(times * beyond(square) for times, square in shifts)
        if self.streams == 2 and not loss.one_sided:
            edges = [2 + iv.mpf(i) / 32 for i in range(65)]
            delta = max(2 * beyond(high) + 2 * beyond(4 - low) for low, high in pairwise(edges))
        delta = delta + delta_of_gdp(noise["final_epsilon"], upper(final)) if left > 0 else mpf(1)
        epsilon = iv.mpf(noise["epsilon"]) + iv.mpf(noise["final_epsilon"])
        return Mechanism(lambda m, _: m * epsilon, said, (), True, delta, most=1, ends=of["rows"])

    def of_messages(self) -> Mechanism:
        """What the nodes of a network send: a row is in one message of an epoch (network.md, 3 and 4)."""
        of, batch, lanes = self.of, self.of["rows_of_step"], _lanes(self.of["dimension"]) / UNIT
        bound, rounding = iv.mpf(of["gradient_bound"]), iv.mpf(0)
        if batch > 1:
            rounding = (2 * (lanes + 32) + iv.mpf("1.01") * batch * (batch + 1)) * bound
        if of["position"] == "output":
            rounding += 2 * ((lanes + 22) * iv.mpf(of["radius"]) * batch / iv.mpf(of["last_step"]) + 7 * batch * bound)
        elif of["position"] != "gradient" or (batch > 1 and of["noise"]["law"] in ("cap", "sign")):
            raise NotChecked(f"noise at {of['position']!r} of the law {of['noise']['law']!r}")
        apart = of["uses"] == 1 or of["rows"] >= of["uses"] * of["nodes"] * batch
        found = self.of_reports(bound + rounding * UNIT, of["uses"])
        facts = (*found.facts, ("epochs", apart, f"{of['uses']} of {of['nodes']} nodes"))
        return found._replace(facts=facts, price=lambda m, _: m * found.price(1, 1))

    def of_reports(self, bound: Any = None, uses: int = 1) -> Mechanism:
        """So many uses of a row in one randomizer each, of vectors that are clipped to a bound (reports.md)."""
        noise, dim, facts = self.of["noise"], self.of["report_dimension"], list[Fact]()
        law, scale = noise["law"], iv.mpf(noise["scale"])
        longest = (bound or iv.mpf(self.of["report_bound"])) * (1 + (dim + 64) * UNIT * iv.mpf("1.000001"))
        if law == "cap":
            one = -iv.log(1 - iv.mpf(noise["threshold"]) / 2**64)
        elif law == "sign":
            one = iv.log((2**63 + iv.mpf(noise["threshold"])) / (2**63 - iv.mpf(noise["threshold"])))
        else:
            root = {"gaussian": 1, "l2_laplace": 1, "laplace": iv.sqrt(iv.mpf(dim))}[law]
            one = self.streams * longest * root / scale
        if self.of["leakage"] is not None:
            told = upper(iv.mpf(dim) / 2 * iv.log(1 + longest**2 / (dim * scale**2)))
            within = law == "gaussian" and told <= mpf(self.of["leakage"])
            facts.append(("nats", within, f"{shown(told)} of {shown(self.of['leakage'])}"))
        price = (lambda m, _: iv.sqrt(iv.mpf(m * uses)) * one) if law == "gaussian" else (lambda m, _: m * uses * one)
        return Mechanism(price, f"{law} noise of scale {shown(noise['scale'])}", facts, law != "gaussian")

    def of_histograms(self) -> Mechanism:
        """Histograms in phases on rows of their own: a row is in one cell of each of its phase (encoding.md)."""
        at, facts, costs, phases = 1, [], [], self.of["phases"]
        for phase in phases:
            costs.append(iv.sqrt(iv.mpf(phase["histograms"] * self.streams)) / iv.mpf(phase["std"]))
            apart = phase["first_row"] == at and min(phase["rows"], phase["histograms"]) >= 1
            at += phase["rows"]
            said = f"{phase['histograms']} histogram(s), std {phase['std']:.6g}"
            facts.append((f"phase {phase['name']!r}", apart, f"rows {phase['first_row']:,} to {at - 1:,}, {said}"))
        facts.append(("rows", at - 1 == self.of["rows"], f"{at - 1:,} in its phases, {self.of['rows']:,} stated"))
        longest, one = max(phase["rows"] for phase in phases), max(costs, key=upper)

        def price(m: int, apart: int) -> Any:
            if apart < longest <= apart * (m - 1):
                raise NotChecked("a phase with several rows of a user, but not all")
            return (iv.sqrt(iv.mpf(min(m, len(phases)))) if apart >= longest else m) * one

        return Mechanism(price, f"the noise of {len(costs)} phase(s)", facts)
