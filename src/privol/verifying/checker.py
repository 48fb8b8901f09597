"""An independent check of a run's guarantee: ``python checker.py RUN``, or ``privol verify RUN``.

Reads ``run.json`` and ``ledger.jsonl`` of a run, and computes again, from the proofs and in interval arithmetic, what
one row can move, what rounding adds to that, which noise this needs, what several mechanisms cost together, and which
epsilon follows. It imports nothing of privol, so it shares no mistake with the code that it checks. It trusts the
record to say what the program did: which noise was drawn, and what gradients were cut to.

A figure that does not hold is an error; what this file has no proof for is said to be not checked. Only a run of which
every claim holds passes. Sections are of ``docs/proofs``.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from mpmath import iv, mp, mpf

iv.prec = 200
mp.prec = 200

__all__ = ["Finding", "Unreadable", "main", "verdict", "verify"]

Record = Mapping[str, Any]

#: Roundoff of a double.
UNIT = Fraction(1, 2**53)
#: Printed figures have so many digits, and are rounded up.
_PRINTED = re.compile(r"epsilon (\S+) at delta (\S+) for (one row|the presence of one row) \((\S+)-GDP\)")
_UNITS = {"replace": "one row", "zero_out": "the presence of one row"}


class Unreadable(Exception):
    """A file of the run is missing, damaged or of another format; the message says which and where."""


class NotChecked(Exception):
    """What this file has no proof for."""


@dataclass(frozen=True)
class Finding:
    """What was looked at, and what was found.

    Attributes
    ----------
    what : str
    holds : bool or None
        None: it was not checked, and ``detail`` says why.
    detail : str
    """

    what: str
    holds: bool | None
    detail: str


def verdict(findings: Sequence[Finding]) -> str:
    """Return "holds", "does not hold" or "not checked": the worst of all findings."""
    if any(finding.holds is False for finding in findings):
        return "does not hold"
    return "holds" if findings and all(finding.holds for finding in findings) else "not checked"


def verify(folder: str | Path) -> list[Finding]:
    """Check a run's guarantee.

    Parameters
    ----------
    folder : str or Path
        As ``privol run --out`` wrote it.

    Returns
    -------
    list of Finding
        The run's guarantee is shown to hold if all of them hold, see :func:`verdict`.

    Raises
    ------
    Unreadable
        If ``run.json`` or ``ledger.jsonl`` cannot be read.
    """
    folder = Path(folder)
    run, entries = _run(folder / "run.json"), _ledger(folder / "ledger.jsonl")
    try:
        return list(_findings(run, entries))
    except (KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"{folder / 'run.json'}: damaged ({type(error).__name__}: {error})") from error


# ---- files -----------------------------------------------------------------------------------------------------------


def _run(path: Path) -> Record:
    try:
        run = json.loads(path.read_text("utf-8"), parse_constant=_no_constant)
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path}: {error}") from error
    if not isinstance(run, dict) or (run.get("format"), run.get("version")) != ("privol.run", 1):
        raise Unreadable(f"{path}: not a record of format 'privol.run', version 1")
    return run


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no number that a record may have")


def _ledger(path: Path) -> list[Record]:
    """Return the entries of a journal. Each line has the SHA-256 of the one before and of its own canonical JSON."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path}: {error}") from error
    entries, digest = [], ""
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            said = entry.pop("sha256")
        except (ValueError, AttributeError, KeyError) as error:
            raise Unreadable(f"{path}, line {number}: damaged ({error})") from error
        text = json.dumps(entry, sort_keys=True, allow_nan=False)
        digest = hashlib.sha256(f"{digest}\n{text}".encode()).hexdigest()
        if said != digest or entry.get("number") != number:
            raise Unreadable(f"{path}, line {number}: altered, or a line before it is missing")
        entries.append(entry)
    if not entries:
        raise Unreadable(f"{path}: empty")
    return entries


# ---- the run ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A mechanism: the rows of the stream that it reads, and what it costs, as a claim and as computed here."""

    name: str
    first: int
    last: int
    mu: float


def _findings(run: Record, entries: Sequence[Record]) -> Iterator[Finding]:
    guarantee = run["guarantee"]
    if guarantee["kind"] != "gdp" or guarantee["claim"] is not None or guarantee["unit"] != "row":
        yield Finding("guarantee", None, f"of kind {guarantee['kind']!r}, claim {guarantee['claim']!r}")
        return
    if not guarantee["private"]:
        yield Finding("bits", False, "the noise is of a known seed: whoever has it can take it off")
    if guarantee["rows_per_user"] is not None:
        yield Finding("unit", None, "a budget for all rows of a user")
    opened = [entry for entry in entries if entry["kind"] == "open"]
    parts, of = [], {run["learner"]: run.get("mechanism")}
    if run.get("encoding") is not None:
        of["PrivateEncoder"] = run["encoding"].get("mechanism")
    for entry in opened:
        name, said = entry["learner"], entry["guarantee"]
        record = of.pop(name, None)
        if record is None:
            yield Finding(name, None, "its mechanism is not in the record")
            continue
        if said["adjacency"] != guarantee["adjacency"] or said["adjacency"] != record["adjacency"]:
            yield Finding(name, False, "the relation between streams is not the same in ledger, run and mechanism")
        try:
            found = list(_mechanism(name, record, said["parameter"]))
        except NotChecked as error:
            yield Finding(name, None, str(error))
            continue
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            yield Finding(name, False, f"its record is damaged: {type(error).__name__} {error}")
            continue
        yield from found
        first = record["first_row"]
        parts.append(Part(name, first, first + record["rows"] - 1, said["parameter"]))
        yield from _entries(name, entry, entries, record)
    for name in of:
        yield Finding(name, False, "no account of the ledger pays for it")
    if run["encoding"] is None and any(entry["learner"] == "PrivateEncoder" for entry in opened):
        yield Finding("PrivateEncoder", False, "the ledger has an account of it, the run has none")
    if len(parts) == len(opened):
        yield from _together(run, parts)


def _entries(name: str, opened: Record, entries: Sequence[Record], record: Record) -> Iterator[Finding]:
    """What the ledger says of an account: no more rows than planned, and all of the cost charged."""
    own = [entry for entry in entries if entry.get("plan_id") == opened["plan_id"] and entry is not opened]
    square = Fraction(opened["guarantee"]["parameter"]) ** 2
    charged = max((Fraction(entry["mu_squared"]) for entry in own), default=Fraction(0))
    rows = max((entry["rows"] for entry in own), default=0)
    holds = rows <= record["rows"] and (charged >= square or rows == 0)
    yield Finding(
        f"{name}: ledger",
        holds and Fraction(opened["reserved_mu_squared"]) >= square,
        f"{rows:,} of {record['rows']:,} rows, mu^2 {float(charged):.6g} charged, {float(square):.6g} needed",
    )


def _together(run: Record, parts: Sequence[Part]) -> Iterator[Finding]:
    """Composition, and the figures that are printed. Rows of one mechanism alone cost what it costs (phases.md)."""
    total = iv.mpf(0)
    ends = sorted({part.first for part in parts} | {part.last + 1 for part in parts})
    for row in ends:  # squares of all that read a row add up; the row that costs most decides
        inside = [iv.mpf(part.mu) ** 2 for part in parts if part.first <= row <= part.last]
        total = max([total, sum(inside, iv.mpf(0))], key=lambda x: mpf(x.b))
    mu = _upper(iv.sqrt(total))
    reserved, delta = run["budget"]["reserved"], run["budget"]["delta"]
    # a claim that is a double may be one below the root of its square
    slack = mpf(1) + mpf(2) ** -52
    yield Finding(
        "composition",
        mu <= mpf(reserved["mu"]) * slack,
        f"mu {_shown(mu)} of {len(parts)} mechanism(s), {_shown(reserved['mu'])} stated",
    )
    yield _conversion("epsilon", mpf(reserved["mu"]), reserved["epsilon"], delta)
    printed = _PRINTED.search(run["summary"])
    if printed is None:
        yield Finding("printed figures", None, f"in {run['summary']!r}")
        return
    epsilon, at, unit, gdp = printed.groups()
    yield Finding("printed unit", unit == _UNITS[run["guarantee"]["adjacency"]], f"for {unit}")
    yield Finding("printed mu", mpf(reserved["mu"]) <= mpf(gdp), f"{gdp}-GDP for mu {_shown(reserved['mu'])}")
    yield _conversion("printed epsilon", mpf(reserved["mu"]), epsilon, at)


def _conversion(what: str, mu: Any, epsilon: Any, delta: Any) -> Finding:
    """Whether mu-GDP implies (epsilon, delta): Dong, Roth and Su 2022, Corollary 1."""
    mu, epsilon, delta = mpf(mu), mpf(epsilon), mpf(delta)
    normal = mp.ncdf
    needed = normal(-epsilon / mu + mu / 2) - mp.exp(epsilon) * normal(-epsilon / mu - mu / 2) + mpf(10) ** -45
    return Finding(what, needed <= delta, f"{_shown(epsilon)} at delta {_shown(delta)}: delta {_shown(needed)} needed")


# ---- mechanisms ------------------------------------------------------------------------------------------------------


def _mechanism(name: str, record: Record, mu: float) -> Iterator[Finding]:
    kind = record["kind"]
    if kind == "histograms":
        yield from _histograms(name, record, mu)
    elif kind == "sums of gradients":
        yield from _sums(name, record, mu)
    elif kind == "gradients":
        yield from _steps(name, record, mu)
    else:
        raise NotChecked(f"a mechanism of kind {kind!r}")


def _histograms(name: str, record: Record, mu: float) -> Iterator[Finding]:
    """A row is in one cell of each histogram of its phase: another one in its place moves sqrt(2 k) (encoding.md)."""
    at = 1
    for phase in record["phases"]:
        moved = phase["histograms"] * (2 if _replaces(record) else 1)
        enough = Fraction(phase["std"]) ** 2 * Fraction(mu) ** 2 >= moved
        apart = phase["first_row"] == at and phase["rows"] >= 1
        at += phase["rows"]
        yield Finding(
            f"{name}: phase {phase['name']!r}",
            enough and apart and phase["histograms"] >= 1,
            f"rows {phase['first_row']:,} to {at - 1:,}, {phase['histograms']} histogram(s), std {phase['std']:.6g}, "
            f"{_shown(_upper(iv.sqrt(iv.mpf(moved)) / iv.mpf(mu)))} needed",
        )
    yield Finding(f"{name}: rows", at - 1 == record["rows"], f"{at - 1:,} in its phases, {record['rows']:,} stated")


def _sums(name: str, record: Record, mu: float) -> Iterator[Finding]:
    """Prefix sums of gradients, all of them one Gaussian mechanism (leaders.md, recursions.md)."""
    noise, design = record["noise"], record["noise"]["design"]
    steps, leaf, dim = design["steps"], record["rows_of_step"], record["dimension"]
    bound = iv.mpf(record["gradient_bound"])
    yield Finding(
        f"{name}: horizon",
        steps * leaf >= record["rows"] > 0,
        f"{steps:,} steps of {leaf:,} rows for {record['rows']:,} rows",
    )
    rounding = (40 + 4 * (record["outputs"] - 1)) * _unit()
    excess = rounding + 2 * _scaled_excess(dim)
    radius, streams = bound * (1 + excess), 2 if _replaces(record) else 1
    ball = radius * streams
    ideal = _least(ball, _change(record) + excess * bound * streams)
    integers = design["name"] in ("tree", "honaker", "smooth")
    if integers:
        grid = iv.mpf(noise["grid"])
        fits = steps * leaf * _upper(radius) <= mpf(2) ** 61 * mpf(noise["grid"])
        yield Finding(f"{name}: integers", fits and noise["grid"] <= noise["lattice"], f"grid {noise['grid']:.6g}")
        if streams == 2:  # truncation keeps a ball, and moves two rows of it apart by less than a grid a coordinate
            ideal = _least(ball, ideal + iv.sqrt(iv.mpf(dim)) * grid)
    one = ideal if integers else ideal + iv.mpf("2.1") * (leaf - 1) * _unit() * leaf * radius
    norm = _column_norm(design)
    drift = 2 * iv.sqrt(iv.mpf(steps)) * _recursion(design) * leaf * radius
    yield from _noise(name, record, mu, _upper(norm * one + drift))


def _steps(name: str, record: Record, mu: float) -> Iterator[Finding]:
    """Noise of its own on the sum of each step's gradients: a row is in one step (gradients.md)."""
    batch, dim, bound = record["rows_of_step"], record["dimension"], iv.mpf(record["gradient_bound"])
    lanes = _lanes(dim) + 32
    excess = 2 * lanes * _unit() + iv.mpf("1.01") * batch * (batch + 1) * _unit()
    yield from _noise(name, record, mu, _upper(_change(record) + excess * bound))


def _noise(name: str, record: Record, mu: float, moved: Any) -> Iterator[Finding]:
    sigma = mpf(record["noise"]["sigma"])
    needed = moved / mpf(mu) if record["rows_per_user"] == 1 else None
    if needed is None:
        raise NotChecked(f"a budget for {record['rows_per_user']} rows of a user")
    yield Finding(
        f"{name}: noise",
        sigma >= needed,
        f"std {_shown(sigma)}; {_shown(needed)} needed, as one row moves {_shown(moved)} and mu is {_shown(mu)}",
    )


# ---- what one row moves ----------------------------------------------------------------------------------------------


def _replaces(record: Record) -> bool:
    if record["adjacency"] not in ("replace", "zero_out"):
        raise ValueError(f"adjacency {record['adjacency']!r}")
    return bool(record["adjacency"] == "replace")


def _unit() -> Any:
    return iv.mpf(UNIT.numerator) / UNIT.denominator


def _lanes(n: int) -> Any:
    return iv.mpf(n) / 8 + 8


def _scaled_excess(n: int) -> Any:
    """How far a vector that a computed factor scaled to a bound exceeds it, relative to it (recursions.md, 2)."""
    return 2 * (_lanes(n) + 8) * _unit()


def _change(record: Record) -> Any:
    """How far the gradients of two rows are from each other at one point, or of one row from 0 (gradients.md, 3)."""
    if record["cut"]:
        return iv.mpf(record["gradient_bound"]) * (2 if _replaces(record) else 1)
    if record["outputs"] != 1:
        raise NotChecked("gradients of several scores that are not cut")
    dim, weight = record["dimension"], iv.mpf(record["weight"])
    row = iv.mpf(record["x_bound"])
    if record["intercept"]:
        row = iv.sqrt(row * row + 1)
    point = iv.mpf(record["radius"]) * (1 + 2 * (_lanes(dim) + 16 * iv.sqrt(iv.mpf(dim)) + 24) * _unit())
    width, curvature = _width(record, row * point)
    slack = 1 + 2 * _scaled_excess(dim)
    predictions = 2 * weight * curvature * row * (2 * _lanes(dim) * _unit() * row * point)
    return slack * weight * row * width + predictions


def _width(record: Record, score: Any) -> tuple[Any, Any]:
    """Distance of the gradients of two rows of norm 1 with scores within a bound, at most; and the curvature."""
    replaces, loss = _replaces(record), record["loss"]
    if loss in ("hinge", "absolute"):
        return iv.mpf(2 if replaces else 1), iv.mpf(0)
    if loss == "logistic":
        width = _logistic_width(score) if replaces else _sigmoid(score)
        return width, iv.mpf(1) / 4
    raise NotChecked(f"gradients of the {loss} loss that are not cut")


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + iv.exp(-x))


def _logistic_width(score: Any) -> Any:
    """2 max sqrt(1 - c^2) sigma(score c), whose only maximum is where rho (1 - c^2) sigma(-rho c) falls to c."""
    rho = iv.mpf(_upper(score))
    low, high = mpf(0), mpf(1)
    for _ in range(120):
        c = (low + high) / 2
        x = iv.mpf(c)
        slope = rho * (1 - x * x) * _sigmoid(-rho * x) - x
        if mpf(slope.a) > 0:
            low = c
        elif mpf(slope.b) < 0:
            high = c
        else:
            break
    return 2 * iv.sqrt(1 - iv.mpf(low) ** 2) * _sigmoid(rho * iv.mpf(high))


# ---- designs of prefix sums ------------------------------------------------------------------------------------------


def _column_norm(design: Record) -> Any:
    """The L2 norm of the longest column of C: what one row of norm 1 moves (recursions.md, 4)."""
    name, steps = design["name"], design["steps"]
    if name == "blt":
        rates, weights = ([iv.mpf(x) for x in design[key]] for key in ("rates", "weights"))
        if len(rates) != len(weights) or not all(0 < x < 1 for x in design["rates"]):
            raise ValueError("rates of a BLT")
        square = iv.mpf(1)
        for a, u in zip(rates, weights, strict=True):
            for b, v in zip(rates, weights, strict=True):
                square += u * v * (1 - (a * b) ** (steps - 1)) / (1 - a * b)
        return iv.sqrt(square)
    if name == "independent":
        return iv.mpf(1)
    if name in ("tree", "honaker"):
        return iv.sqrt(iv.mpf(steps.bit_length()))
    if name == "smooth":
        if math.comb(design["height"], design["ones"]) <= steps:
            raise ValueError("words of a smooth tree")
        return iv.sqrt(iv.mpf(design["height"] - design["ones"]))
    if name == "sqrt" and design["decay"] == 1.0:
        return iv.sqrt(_root_square(steps))
    raise NotChecked(f"sums of the design {name!r} that forget")


def _root_square(steps: int) -> Any:
    """Sum of the squares of binomial(2 k, k) / 4^k, k < steps: each below 1 / (pi (k + 1/4)) (Watson 1959)."""
    exact = min(steps, 1 << 14)
    total, term = iv.mpf(0), iv.mpf(1)
    for k in range(exact):
        total += term * term
        term = term * (2 * k + 1) / (2 * k + 2)
    if steps > exact:  # convex in k, so each term is below the integral around it
        total += iv.log((iv.mpf(steps) - iv.mpf("0.25")) / (iv.mpf(exact) - iv.mpf("0.25"))) / iv.pi
    return total


def _recursion(design: Record) -> Any:
    """How far a step's vector as computed is from the real one, for rows of norm 1, at most (recursions.md, 3)."""
    name, n = design["name"], design["steps"]
    if name == "blt":
        rates, weights = ([iv.mpf(x) for x in design[key]] for key in ("rates", "weights"))
        reach = [_least(iv.mpf(n - 1), 1 / (1 - rate)) for rate in rates]
        gain = 1 + sum((w * r for w, r in zip(weights, reach, strict=True)), iv.mpf(0))
        drift = sum((w * r * r for w, r in zip(weights, reach, strict=True)), iv.mpf(0))
        return _unit() * (iv.mpf("1.05") * (len(rates) + 1) * gain + iv.mpf("2.1") * drift)
    if name == "sqrt":
        return _unit() * iv.mpf("1.05") * (5 * n + 1) * (1 + 2 * iv.sqrt(iv.mpf(n) / iv.pi))
    return iv.mpf(0)


# ---- numbers ---------------------------------------------------------------------------------------------------------


def _upper(x: Any) -> Any:
    return mpf(x.b)


def _least(a: Any, b: Any) -> Any:
    """The interval whose upper end is the smaller one."""
    return a if _upper(a) <= _upper(b) else b


def _shown(x: Any) -> str:
    return str(mp.nstr(mpf(x), 8))


# ---- by itself -------------------------------------------------------------------------------------------------------


def main(words: Sequence[str]) -> int:
    """Print what was found: 0 where all holds, 1 where something does not, 3 where something was not checked."""
    if len(words) != 1:
        print("usage: checker.py RUN", file=sys.stderr)
        return 2
    try:
        findings = verify(words[0])
    except Unreadable as error:
        print(error, file=sys.stderr)
        return 1
    for finding in findings:
        found = {True: "holds", False: "DOES NOT HOLD", None: "not checked"}[finding.holds]
        print(f"{found:13}  {finding.what}: {finding.detail}")
    print(f"the guarantee: {verdict(findings)}")
    return {"holds": 0, "does not hold": 1, "not checked": 3}[verdict(findings)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
