"""An independent check of runs' guarantees: ``privol verify RUN...``, or by F.checker.verify(RUN), whatever folder F.

It trusts the record about the noise drawn and the clipping of gradients; what it has no proof for is not checked."""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from mpmath import mp, mpf

from .claimed import FIGURES, SENTENCE, SUMMARY, TOGETHER, USERS, Unreadable, compared, figures_of, journal_of, run_of
from .mechanisms import Mechanism, NotChecked, Record, delta_of_gdp, mechanism_of, upper, worst_places

__all__ = ["Finding", "Unreadable", "verdict", "verify"]
#: A double in a claim may be a unit below its square's root. How probable it is that two users' hashes are the same.
SLACK, COLLISION = mpf(1) + mpf(2) ** -52, mpf(2) ** -72
DAMAGE = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)  # of a record


class Finding(NamedTuple("Finding", [("what", str), ("holds", bool | None), ("detail", str)])):
    """What was checked, whether it holds (None: not checked), and the result, or why it was not checked."""


def verdict(findings: Sequence[Finding]) -> str:
    """Return "holds", "does not hold" or "not checked": the worst of all findings."""
    found = {finding.holds for finding in findings}
    return "does not hold" if False in found else "holds" if found == {True} else "not checked"


def verify(*folders: str | Path, ledger: str | Path | None = None) -> list[Finding]:
    """Return what was found of folders of runs, of several also together, by a ledger's journal or by their own."""
    path, found, known = Path(ledger or ""), list[Finding](), dict[str, _Account]()
    try:
        header, shared = ({}, {}) if ledger is None else journal_of(path, _Account)
        for path in (Path(folder) / "run.json" for folder in folders):
            name, (run, journals) = f"{path.parent}: " if len(folders) > 1 else "", run_of(path)
            for first, own in (journal_of(each, _Account) for each in journals):
                header = header or {**first, "epsilon": None}
                own = own if ledger is None else {plan: shared[plan] for plan in own if plan in shared}
                found += [each._replace(what=name + each.what) for each in _of_run(run, list(own.values()))]
            known |= own  # each rank has the figures of all
        if ledger is not None or len(folders) > 1:
            found += _composed(header, list((shared or known).values()))
    except FileNotFoundError as error:
        raise Unreadable(f"{error.filename} is missing") from error
    except (OSError, *DAMAGE) as error:
        raise Unreadable(f"{path}: damaged ({type(error).__name__}: {error})") from error
    return found


class Law(namedtuple("Law", "kind parameter slack why", defaults=[mpf(0), ""])):
    """A claim or a result: a mu, or an epsilon, with a slack; ``why``: a better one may exist."""

    def __str__(self) -> str:
        figure = f"{'mu' if self.kind == 'gdp' else 'epsilon'} {float(self.parameter):.8g}"
        return figure + (f" beside a delta of {float(self.slack):.8g}" if self.slack else "")

    @property
    def mu(self) -> Any:
        """For all but the slack; errors of epsilon-DP are both 1 / (1 + e^epsilon), and convex curves below chords."""
        return self.parameter if self.kind == "gdp" else 2 * mp.sqrt(2) * mp.erfinv(mp.tanh(self.parameter / 2))

    def within(self, what: str, stated: Law, said: str) -> Finding:  # whether the statement is at least as large
        holds = bool(self.parameter <= stated.parameter and self.slack <= stated.slack) or (None if self.why else False)
        return Finding(what, holds, f"{said}; {self.why or f'{self}, and {stated} is stated'}")

    def implies(self, what: str, epsilon: Any, delta: Any) -> Finding:
        """Whether (epsilon, delta)-differential privacy follows; the worst pure noise is a bit with these odds."""
        epsilon, delta, odds = mpf(float(epsilon)), mpf(float(delta)), mp.exp(self.parameter)
        needed = self.slack if epsilon < mp.inf else mpf(0)  # an infinite epsilon promises nothing
        gdp, pure = self.kind == "gdp", max((odds - mp.exp(epsilon)) / (1 + odds), mpf(0))
        needed += delta_of_gdp(epsilon, self.parameter) if gdp else pure
        holds = bool(needed <= delta) or (None if self.why else False)
        return Finding(what, holds, self.why or f"epsilon {float(epsilon):.8g} needs a delta of {float(needed):.8g}")


class _Account:
    """A ledger's entry for a mechanism, and, once known, the rows that it reads and its computed cost."""

    def __init__(self, opened: Record, *later: Record) -> None:
        self.plan, self.name, said = opened["plan_id"], opened["learner"], opened["guarantee"]
        self.said, self.facts, self.reserved = said, opened.get("facts") or {}, mpf(opened["reserved_mu_squared"])
        self.charged = max((mpf(each["mu_squared"]) for each in later), default=mpf(0))
        self.rows, self.releases = (max((each[key] for each in later), default=0) for key in ("rows", "releases"))
        self.closed = any(each["kind"] == "closed" for each in later)
        self.stated = Law(said["kind"], mpf(said["parameter"]), mpf(said.get("slack", 0)))
        self.user = said["rows_per_user"] if said["unit"] == "user" else 1, said.get("user_separation", 1)
        self.hidden = COLLISION if said["unit"] == "user" and not said.get("users_fixed", True) else mpf(0)
        first = self.facts.get("first_row", 1)
        self.places, self.found = (first, first + max(said["horizon"], self.rows) - 1), list[Mechanism]()

    def law(self, rows: int, apart: int, spent: bool = False) -> Law:  # the stated one if nothing else is known
        if any(type(number) is not int or number < 1 for number in (rows, apart)):
            raise ValueError(f"{rows!r} rows of a user, {apart!r} apart")
        if not self.found:
            held = self.closed and self.stated.kind == "gdp"
            return self.stated._replace(parameter=mp.sqrt(self.charged)) if held else self.stated
        (found,) = self.found
        kind = "approximate" if found.slack is not None else "pure" if found.pure else "gdp"
        if spent and (self.rows == 0 or (found.most is not None and self.releases == 0)):
            return Law(kind, mpf(0))
        price = partial(found.few, n=self.releases) if spent and found.few is not None else found.price
        try:
            cost, why = upper(price(rows, apart)), ""
        except NotChecked as error:
            cost, why = rows * upper(found.price(1, 1)), str(error)
        return Law(kind, cost, found.slack(rows) if found.slack else mpf(0), why)

    def read(self, record: Record, run: Record) -> Iterator[Finding]:  # whether its noise and its charge suffice
        found, (first, last) = mechanism_of(record), (record["first_row"], record["first_row"] + record["rows"] - 1)
        self.found, self.places, name = [found], (first, last), self.name
        law, spent = self.law(*self.user), self.law(*self.user, spent=True)
        yield from (Finding(f"{name}: {what}", holds, detail) for what, holds, detail in found.facts)
        if law.kind != self.stated.kind:
            raise ValueError(f"a guarantee of kind {self.stated.kind!r}")
        yield law.within(f"{name}: noise", self.stated, found.said)
        needed, whole = (mp.inf if law.slack else law.mu**2 for law in (spent, self.stated))
        within = self.rows <= record["rows"] and self.releases <= (self.releases if found.most is None else found.most)
        within = within and self.rows >= run.get("rows", 0) and self.releases >= run.get("releases", 0)
        within = within and found.ends in (None, self.rows if self.releases else found.ends)
        within = within and self.reserved * SLACK >= whole and self.facts.get("first_row", first) == first
        paid = bool(self.charged * SLACK >= needed) or (None if spent.why else False)
        said = f"{self.rows:,} of rows {first:,} to {last:,}; mu^2 {float(self.charged):.8g} for {float(needed):.8g}"
        yield Finding(f"{name}: ledger", paid if within else False, said)


def _groups(accounts: Sequence[_Account]) -> list[list[_Account]]:  # of one stream; of others the squares add up
    of = [str(each.facts.get("beside", each.plan)) for each in accounts]
    return [[each for each, own in zip(accounts, of, strict=True) if own == group] for group in dict.fromkeys(of)]


def _whole(accounts: Sequence[_Account], rows: int, apart: int, spent: bool = False) -> Law:
    """The joint cost, for the worst division of rows among separate accounts (phases.md; participation.md, 8)."""
    if len(groups := _groups(accounts)) > 1:
        costs = [_whole(each, rows, apart, spent) for each in groups]
        return Law("gdp", mp.sqrt(sum(law.mu**2 for law in costs)), why=max(law.why for law in costs))
    if len(accounts) == 1:
        return accounts[0].law(rows, apart, spent and accounts[0].closed)
    parts, last, laws = list[list[_Account]](), 0, list[Law]()
    for each in sorted(accounts, key=lambda each: each.places):
        parts = [*parts, []] if each.places[0] > last else parts
        parts[-1].append(each)
        last = max(last, each.places[1])

    def square(part: list[_Account], m: int) -> Any:
        laws.extend(each.law(m, apart, spent and each.closed) for each in part)
        return sum(law.mu**2 for law in laws[-len(part) :])

    try:
        places = [(rows, 1, cache(partial(square, part))) for part in parts]
        total = max(worst_places(places, rows, 1).values()) if len(parts) > 1 else square(parts[0], rows)
    except NotChecked as error:
        return Law("gdp", rows * _whole(accounts, 1, 1).mu, why=str(error))
    return Law("gdp", mp.sqrt(total), why=max(law.why for law in laws))


def _composed(header: Record, accounts: Sequence[_Account]) -> Iterator[Finding]:  # a stream counts as one
    for each in accounts:
        if not each.found:
            yield Finding(each.name, None, f"nothing is known of account {each.plan}: of a run that was not given?")
        if not each.said["private"] or each.said["adjacency"] != header["adjacency"]:
            yield Finding(each.name, False, "its noise is of a known seed, or its relation of streams is another")
    costs = [_whole(g, max(a.user[0] for a in g), min(a.user[1] for a in g), spent=True) for g in _groups(accounts)]
    slack = sum((law.slack for law in costs), sum((each.hidden for each in accounts), mpf(0)))
    laws = [Law("gdp", mp.sqrt(sum(law.mu**2 for law in costs)), slack, max((law.why for law in costs), default=""))]
    if all(law.kind != "gdp" for law in costs):
        laws.append(laws[0]._replace(kind="pure", parameter=sum((law.parameter for law in costs), mpf(0))))
    yield Finding("all together", True, f"{len(accounts)} accounts: {' or '.join(map(str, laws))}")
    if header["epsilon"] is not None:  # a share of it is left for users that are confused
        limits = [law.implies("limit", header["epsilon"], header["delta"] * (1 + mpf(2) ** -36)) for law in laws]
        yield max(limits, key=lambda finding: bool(finding.holds))


def _of_run(run: Record, accounts: Sequence[_Account]) -> Iterator[Finding]:  # on each mechanism, and together
    guarantee = run["guarantee"]
    if not guarantee["private"]:
        yield Finding("bits", False, "the noise is of a known seed: whoever has it can take it off")
    of = {run["learner"]: run.get("mechanism"), "PrivateEncoder": (run.get("encoding") or {}).get("mechanism")}
    if (paid := run.get("private_metrics")) is not None and run.get("mechanism") is not None:
        of["PrivateMetrics"] = {**run["mechanism"], "kind": "windows", **{k: paid[k] for k in ("std", "window_rows")}}
    for account in accounts:
        name, said, record = account.name, account.said, of.pop(account.name, None)
        same = set(guarantee) if name == run["learner"] else {"adjacency", "unit", "rows_per_user", "private"}
        try:
            if record is None:
                raise NotChecked("its mechanism is not in the record")
            other = said["adjacency"] != record["adjacency"] or said.get("leakage") not in (None, record.get("leakage"))
            if other or any(said.get(key) != guarantee[key] for key in same):
                yield Finding(name, False, "its account has another guarantee, or relation of streams, than the run")
            if name == run["learner"]:
                differ, record = compared(run["parameters"], record, guarantee)
                yield Finding(f"{name}: parameters", not differ, ", ".join(differ))
            yield from account.read(record, run if name == run["learner"] and "ranks" not in run else {})
        except NotChecked as error:
            yield Finding(name, None, str(error))
        except DAMAGE as error:
            account.found = []
            yield Finding(name, False, f"its record is damaged: {type(error).__name__} {error}")
    yield from (Finding(name, False, "no account of the ledger pays for it") for name in of if of[name] is not None)
    if all(account.found for account in accounts) and (len(accounts) == 1 or (accounts and guarantee["kind"] == "gdp")):
        yield from _together(run, accounts)
    else:
        yield Finding("composition", None, f"of {len(accounts)} mechanisms, {guarantee['kind']!r}")


def _laws(accounts: Sequence[_Account], said: Record, spent: bool = False) -> list[Law]:  # for a row and for a user
    if (most := said["rows_per_user"]) is None:
        return [_whole(accounts, 1, 1, spent), Law("gdp", mp.inf)]
    user, hidden = (
        _whole(accounts, max(most, 1), said.get("user_separation", 1), spent),
        not said.get("users_fixed", True),
    )
    return [_whole(accounts, 1, 1, spent), user._replace(slack=user.slack + COLLISION * hidden)]


def _said(what: str, text: str, form: str, said: Record, accounts: Sequence[_Account], spent: bool = False) -> Finding:
    """Whether a text is all of a form, with the facts of a guarantee, and no figure in it is below the computed one."""
    unit, laws = said["unit"] == "user", _laws(accounts, said, spent)
    found = figures_of(text, form, said, [each.said for each in accounts])
    if found is None:
        return Finding(what, False, f"it has other words than those of this guarantee: {text!r}")
    own, other, leakage = laws[unit], laws[not unit], mpf(said.get("leakage") or 0)
    p, rho = own.parameter, own.mu**2 / 2 if own.kind == "gdp" else own.parameter * mp.tanh(own.parameter / 2)
    printed = next((value for key, value, _ in found if key == "mu"), "inf")
    least = {"mu": own.mu, "rho": rho, "pure": p, "twice": 2 * p, "slack": own.slack, "hash": COLLISION}
    least |= {"slack2": own.slack * (1 + mp.exp(p)), "mu1": other.mu, "times": other.mu / mpf(printed)}
    least |= {"nats": leakage, "bits": leakage / mp.ln(2)}
    few = [f"{key} {value}" for key, value, _ in found if key in least and mpf(value) * SLACK < least[key]]
    costs = sorted(_laws(each, said)[unit].mu for each in _groups(accounts))
    runs = sorted(mpf(value) for key, value, _ in found if key == "run")
    if runs and (len(runs) != len(costs) or any(run * SLACK < cost for run, cost in zip(runs, costs, strict=True))):
        few.append("mu by run")
    implied = [(other if key == "e1" else own).implies("", value, at) for key, value, at in found if at]
    few += [each.detail for each in implied if not each.holds]
    holds = (None if own.why or other.why else False) if few else True  # of a cost that may be less
    return Finding(what, holds, f"too small: {', '.join(few)}" if few else f"{len(found)} figures")


def _together(run: Record, accounts: Sequence[_Account]) -> Iterator[Finding]:  # what is said of accounts
    guarantee, budget, of = run["guarantee"], run["budget"], {each.name: [each] for each in accounts}
    own, model, encoding, asked = of[run["learner"]], run["model"] or {}, run.get("encoding") or {}, run["parameters"]
    told: list[tuple[Any, ...]] = [
        ("composition", FIGURES, budget["reserved"], guarantee, accounts),
        ("summary", SUMMARY, run["summary"], guarantee, accounts),
        ("sentence", SENTENCE, run.get("sentence"), guarantee, accounts if run.get("shared", True) else own),
        ("together", TOGETHER, run.get("together"), guarantee, accounts),
        ("sentence of model.json", SENTENCE, model.get("sentence"), guarantee, own),
        ("spent", FIGURES, budget.get("spent"), guarantee, accounts, True),
        ("users", FIGURES if guarantee["unit"] == "user" else USERS, run.get("users"), guarantee, accounts),
    ]
    shares = budget.get("shares", dict.fromkeys(of))
    told += [(f"share of {name}", FIGURES, shares.get(name), of[name][0].said, of[name]) for name in of]
    yield Finding("shares", set(shares) == set(of), ", ".join(shares))
    yield Finding("horizon", run.get("horizon") in (None, guarantee["horizon"]), f"{guarantee['horizon']:,} rows")
    if asked.get("epsilon") is not None and asked.get("mu") is None and guarantee.get("claim") is None:
        told.append(("parameters", FIGURES, {"mu": "inf", "epsilon": asked["epsilon"]}, guarantee, own))
    if (users := run.get("users")) is not None:
        yield Finding(
            "rows of users", users["most_rows"] == guarantee["rows_per_user"], f"{users['most_rows']} of each"
        )
    same = (
        model["guarantee"] == guarantee and (model["parameters"] == asked or "candidates" in asked) if model else True
    )
    yield Finding("model.json", same, "its guarantee and parameters" if model else "there is none")
    if "PrivateEncoder" in of:
        (encoder,), learnt = of["PrivateEncoder"], [(each.get("inputs") or {}).get("schema") for each in (run, model)]
        told.append(("sentence of the encoding", SENTENCE, encoding.get("sentence"), encoder.said, [encoder]))
        mus = [each["mu"] for each in (encoding, *(each["learnt"] for each in learnt if each)) if "mu" in each]
        words = [*guarantee["conditions"], str(run.get("sentence")), str(model.get("sentence"))]
        mus += [
            f"{mu}5" for mu in re.findall(r"mu = ([\d.]*\d)", "; ".join(words))
        ]  # of 6 digits, one may be rounded off
        yield Finding(
            "mu of the encoding", min(map(mpf, mus), default=mp.inf) * SLACK >= encoder.law(1, 1).mu, f"{mus}"
        )
    for what, form, text, *about in told:
        if text is not None and not str(text).upper().startswith("NOT PRIVATE"):  # which claims nothing
            given = text if isinstance(text, str) else f"{text['mu']} {text['epsilon']} {budget['delta']}"
            yield _said(what, given, form, *about)
