"""An independent check of a run's guarantee: ``privol verify RUN``.

Reads ``run.json`` and ``ledger.jsonl`` of a run, and computes again, in interval arithmetic, what its noise costs one
row and all rows of a user (``mechanisms.py``), what all mechanisms cost together, and which epsilon follows. Both files
import nothing of privol, so they share no mistake with the code that they check: copied to a folder F they do without
it, by ``F.checker.verify(RUN)``. They trust the record to say what the program did: which noise was drawn, and what
gradients were cut to. What they have no proof for is not checked. Sections are of ``docs/proofs``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mpmath import mp, mpf

from .mechanisms import Mechanism, NotChecked, Record, delta_of_gdp, mechanism_of, shown, upper

__all__ = ["Finding", "Unreadable", "verdict", "verify"]

#: A claim that is a double may be one below the root of its square. The probability that two users are taken for one
#: where whose rows they are is hidden, at most. Rows of a user whose divisions among parts of the stream are tried.
SLACK, COLLISION, _MOST_DIVIDED = mpf(1) + mpf(2) ** -52, mpf(2) ** -72, 64
#: Printed figures, which are rounded up.
_PRINTED = re.compile(
    r"differential privacy with epsilon (?P<epsilon>\S+) \(?(?:at )?delta (?P<delta>[^ )]+)\)? for "
    r"(?P<who>(?:the presence of )?one (?:row|user))(?P<rows> \(.*?\))? "
    r"\((?:(?P<mu>\S+)-GDP|proved at delta \S+ alone.*?)\)"
    r"(?:; epsilon (?P<other>\S+)(?: at delta (?P<beside>\S+))? for one (?:row|user))?"
)


class Unreadable(Exception):
    """A file of the run is missing, damaged or of another format; the message says which and where."""


class Finding(NamedTuple):
    """What was looked at, whether it holds (None: it was not checked), and what was found, or why it was not."""

    what: str
    holds: bool | None
    detail: str


def verdict(findings: Sequence[Finding]) -> str:
    """Return "holds", "does not hold" or "not checked": the worst of all findings."""
    if any(finding.holds is False for finding in findings):
        return "does not hold"
    return "holds" if findings and all(finding.holds for finding in findings) else "not checked"


def verify(folder: str | Path) -> list[Finding]:
    """Return what was found of a run's folder; raises :class:`Unreadable` where its files cannot be read."""
    path = Path(folder) / "run.json"
    try:
        run = json.loads(path.read_text("utf-8"))
        if (run["format"], run["version"]) != ("privol.run", 1):
            raise ValueError("not a record of format 'privol.run', version 1")
        return list(_Run(run, _ledger(path.with_name("ledger.jsonl"))).findings())
    except (OSError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise Unreadable(f"{path}: damaged ({type(error).__name__}: {error})") from error


def _ledger(path: Path) -> list[Record]:
    """Return the entries of a journal. Each line has the SHA-256 of the one before and of its own canonical JSON."""
    entries, digest = list[Record](), ""
    try:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            entry = json.loads(line)
            said, text = entry.pop("sha256"), json.dumps(entry, sort_keys=True, allow_nan=False)
            digest = hashlib.sha256(f"{digest}\n{text}".encode()).hexdigest()
            if said != digest or entry.get("number") != number:
                raise Unreadable(f"{path}, line {number}: altered, or a line before it is missing")
            entries.append(entry)
    except (OSError, ValueError, AttributeError, KeyError) as error:
        raise Unreadable(f"{path}, line {len(entries) + 1}: damaged ({error})") from error
    return entries


def _mu(kind: str, parameter: Any) -> Any:
    """The mu of epsilon-DP: both have the errors 1 / (1 + e^epsilon), and the chords of a convex curve are above it."""
    if kind == "approximate":
        return mp.inf
    return mpf(parameter) if kind == "gdp" else 2 * mp.sqrt(2) * mp.erfinv(mp.tanh(mpf(parameter) / 2))


class _Part(NamedTuple):
    """A mechanism that the ledger has an account of: the rows that it reads, what it was found to cost, the claim."""

    name: str
    rows: tuple[int, int]
    found: Mechanism
    claim: Record

    def cost(self, rows: int, apart: int) -> tuple[Any, str]:
        """Of rows of a user, at most; and, if a better bound may be known elsewhere, why there is none here."""
        try:
            return upper(self.found.price(rows, apart)), ""
        except NotChecked as error:
            return rows * upper(self.found.price(1, 1)), str(error)

    def slack(self, rows: int) -> Any:
        """Of so many rows, row by row (guarantee.md): slack (1 + e^epsilon + ... + e^((rows - 1) epsilon))."""
        if self.found.slack is None:
            return mpf(0)
        return sum(self.found.slack * mp.exp(i * self.cost(1, 1)[0]) for i in range(rows))

    def account(self, rows: int, apart: int) -> Iterator[Finding]:
        """What else is known of it, and whether its noise is enough for what the account claims."""
        for what, holds, detail in self.found.facts:
            yield Finding(f"{self.name}: {what}", holds, detail)
        said, pure = self.claim, self.found.pure
        if (said["kind"] != "gdp", said["kind"] == "approximate") != (pure, self.found.slack is not None):
            raise ValueError(f"a guarantee of kind {said['kind']!r}")
        (cost, why), stated = self.cost(rows, apart), mpf(said["parameter"])
        holds = bool(cost <= stated and self.slack(rows) <= mpf(said.get("slack", 0)))
        of = "one row" if rows == 1 else f"{rows:,} rows of a user"
        detail = f"{'epsilon' if pure else 'mu'} {shown(cost)} of {of}, {shown(stated)} stated"
        if self.found.slack is not None:
            detail += f"; delta {shown(self.slack(rows))}, {shown(said['slack'])} stated"
        yield Finding(f"{self.name}: noise", holds or (None if why else False), f"{self.found.said}; {why or detail}")


class _Law(NamedTuple):
    """What is claimed or was found: a mu, or an epsilon, beside a slack; ``why``: there may be a better one."""

    kind: str
    parameter: Any
    slack: Any
    why: str = ""

    def implies(self, what: str, epsilon: Any, delta: Any) -> Finding:
        """Whether (epsilon, delta)-differential privacy follows."""
        epsilon, delta, needed = mpf(epsilon), mpf(delta), self.slack
        if self.kind == "gdp":
            needed += delta_of_gdp(epsilon, self.parameter)
        else:  # no mechanism does worse than one bit of randomized response
            odds = mp.exp(self.parameter)
            needed += max((odds - mp.exp(epsilon)) / (1 + odds), mpf(0))
        holds = bool(needed <= delta) or (None if self.why else False)
        return Finding(what, holds, self.why or f"{shown(epsilon)} at delta {shown(delta)}: {shown(needed)} needed")


class _Run:
    """A run: its record, its ledger, and the mechanisms that were found."""

    def __init__(self, run: Record, entries: Sequence[Record]) -> None:
        self.run, self.entries, self.guarantee = run, entries, run["guarantee"]
        self.parts: list[_Part] = []

    def findings(self) -> Iterator[Finding]:
        run, guarantee = self.run, self.guarantee
        if guarantee["kind"] == "none" or guarantee["claim"] is not None:
            yield Finding("guarantee", None, f"of kind {guarantee['kind']!r}, claim {guarantee['claim']!r}")
            return
        if not guarantee["private"]:
            yield Finding("bits", False, "the noise is of a known seed: whoever has it can take it off")
        of = {run["learner"]: run.get("mechanism")}
        if run.get("encoding") is not None:
            of["PrivateEncoder"] = run["encoding"].get("mechanism")
        if run.get("private_metrics") is not None and run.get("mechanism") is not None:
            of["PrivateMetrics"] = {**run["mechanism"], **run["private_metrics"], "kind": "windows"}
        opened = [entry for entry in self.entries if entry["kind"] == "open"]
        for entry in opened:
            yield from self.of_account(entry, of.pop(entry["learner"], None))
        for name in of:
            yield Finding(name, False, "no account of the ledger pays for it")
        if len(self.parts) == len(opened) and (len(opened) == 1 or guarantee["kind"] == "gdp"):
            yield from self.together()
        else:
            yield Finding("composition", None, f"of {len(opened)} mechanisms, {guarantee['kind']!r}")

    def of_account(self, entry: Record, record: Record | None) -> Iterator[Finding]:
        """What was found of the mechanism that an account of the ledger pays for."""
        name, said = entry["learner"], entry["guarantee"]
        if record is None:
            yield Finding(name, None, "its mechanism is not in the record")
            return
        same = set(self.guarantee) if name == self.run["learner"] else {"adjacency", "unit", "rows_per_user", "private"}
        if any(said.get(key) != self.guarantee[key] for key in same) or said["adjacency"] != record["adjacency"]:
            yield Finding(name, False, "its account has another guarantee, or relation between streams, than the run")
        try:
            rows = record["first_row"], record["first_row"] + record["rows"] - 1
            part = _Part(name, rows, mechanism_of(record), said)
            user = said["rows_per_user"] if said["unit"] == "user" else 1, said.get("user_separation", 1)
            yield from [*part.account(*user), self.paid(entry, part.found, record["rows"], user)]
            if said.get("leakage") not in (None, record.get("leakage")):
                yield Finding(f"{name}: nats", False, f"{said['leakage']} stated, {record['leakage']} in the mechanism")
            self.parts.append(part)
        except NotChecked as error:
            yield Finding(name, None, str(error))
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            yield Finding(name, False, f"its record is damaged: {type(error).__name__} {error}")

    def paid(self, opened: Record, found: Mechanism, planned: int, user: tuple[int, int]) -> Finding:
        """What the ledger says of an account: no more rows and releases than planned, and all of the cost charged."""
        own = [each for each in self.entries if each.get("plan_id") == opened["plan_id"] and each is not opened]
        square = _mu(opened["guarantee"]["kind"], opened["guarantee"]["parameter"]) ** 2
        charged = max((mpf(each["mu_squared"]) for each in own), default=mpf(0))
        rows, released = (max((each[key] for each in own), default=0) for key in ("rows", "releases"))
        paid: bool | None = bool(charged * SLACK >= square) or rows == 0
        if not paid and found.most is not None:  # what is charged release by release
            needed = upper(found.first(*user, released)) if found.first is not None else None
            paid = not released or (None if needed is None else bool(charged * SLACK >= needed**2))
        within = rows <= planned and released <= (released if found.most is None else found.most)
        within = within and found.ends in (None, rows if released else found.ends)
        if not within or mpf(opened["reserved_mu_squared"]) * SLACK < square:
            paid = False
        said = f"{rows:,} of {planned:,} rows, mu^2 {shown(charged)} charged, {shown(square)} needed"
        return Finding(f"{opened['learner']}: ledger", paid, said)

    def whole(self, rows: int, apart: int) -> tuple[Any, str]:
        """The mu of all mechanisms for rows of a user in the worst division (phases.md; participation.md, 8)."""
        clusters: list[list[_Part]] = []
        for part in sorted(self.parts, key=lambda part: part.rows):
            if not clusters or part.rows[0] > max(other.rows[1] for other in clusters[-1]):
                clusters.append([])
            clusters[-1].append(part)
        if len(clusters) > 1 and rows > _MOST_DIVIDED:
            return rows * self.whole(1, 1)[0], f"divisions of {rows:,} rows of a user among parts of the stream"
        worst, reasons = {0: mpf(0)}, [""]
        for cluster in clusters:
            squares = {0: mpf(0)}
            for m in range(1, rows + 1) if len(clusters) > 1 else [rows]:
                costs = [(part.found.pure, *part.cost(m, apart)) for part in cluster]
                squares[m] = sum(_mu("pure" if pure else "gdp", cost) ** 2 for pure, cost, _ in costs)
                reasons += [why for _, _, why in costs]
            sums = [(m + n, one + other) for m, one in worst.items() for n, other in squares.items() if m + n <= rows]
            worst = {m: max(square for n, square in sums if n == m) for m, _ in sums}
        return mp.sqrt(max(worst.values())), max(reasons)

    def together(self) -> Iterator[Finding]:
        """Composition, and the figures that are printed."""
        run, guarantee, kind = self.run, self.guarantee, self.guarantee["kind"]
        reserved, most, of_user = run["budget"]["reserved"], guarantee["rows_per_user"], guarantee["unit"] == "user"
        apart = guarantee.get("user_separation", 1)
        hidden = mpf(0) if guarantee.get("users_fixed", True) else COLLISION

        def found(user: bool) -> _Law:
            rows, beside = (most, hidden) if user else (1, mpf(0))
            if kind == "gdp":
                mu, why = self.whole(rows, apart)
                return _Law(kind, mu, beside, why)
            return _Law(kind, self.parts[0].cost(rows, apart)[0], self.parts[0].slack(rows) + beside)

        mine, claim = found(of_user), mpf(reserved["mu"] if kind == "gdp" else guarantee["parameter"])
        stated = _Law(kind, claim, mpf(guarantee.get("slack", 0)) + (hidden if of_user else 0))
        within = bool(mine.parameter <= claim * SLACK and mine.slack <= stated.slack)
        detail = f"{shown(mine.parameter)} of {len(self.parts)} mechanism(s), {shown(claim)} stated"
        yield Finding("composition", within or (None if mine.why else False), mine.why or detail)
        yield stated.implies("epsilon", reserved["epsilon"], run["budget"]["delta"])
        if run.get("users") is not None:
            yield found(True).implies("epsilon of users", run["users"]["epsilon"], run["budget"]["delta"])
        printed = _PRINTED.search(run["summary"])
        if printed is None:
            yield Finding("printed figures", None, f"in {run['summary']!r}")
            return
        who = ("the presence of " if guarantee["adjacency"] == "zero_out" else "") + f"one {guarantee['unit']}"
        words = [f"at most {most} row", f" {apart} rows apart" if apart > 1 else ""] if of_user else []
        right = printed["who"] == who and all(word in printed["rows"] for word in words)
        yield Finding("printed unit", right, f"for {printed['who']}{printed['rows'] or ''}")
        if kind != "approximate":
            mu = _mu(kind, claim)
            yield Finding("printed mu", bool(mu <= mpf(printed["mu"])), f"{printed['mu']}-GDP for mu {shown(mu)}")
        yield stated.implies("printed epsilon", printed["epsilon"], printed["delta"])
        if printed["other"] is not None:
            at = printed["beside"] or printed["delta"]
            yield found(not of_user).implies("printed epsilon beside it", printed["other"], at)
