"""An independent check of runs' guarantees: ``privol verify RUN...``, or by F.checker.verify(RUN), whatever folder F.

It trusts the record about the noise drawn and the clipping of gradients; what it has no proof for is not checked."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections import namedtuple
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from mpmath import mp, mpf

from .mechanisms import Mechanism, NotChecked, Record, delta_in_order, delta_of_gdp, mechanism_of, upper, worst_places

__all__ = ["Finding", "Unreadable", "verdict", "verify"]
#: A double in a claim may be a unit below its square's root. How probable it is that two users' hashes are the same.
SLACK, COLLISION = mpf(1) + mpf(2) ** -52, mpf(2) ** -72
#: What a damaged record leads to, in mpmath too.
DAMAGE = ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError
#: What runs say of themselves, and how a number is written.
_TEXTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("sentences.toml").read_text("utf-8"))
_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d{1,3})?|inf(?:inity)?"
#: Parameters that a record has by another name.
_NAMES = {"fit_intercept": "intercept", "batch": "rows_of_step", "leaf": "rows_of_step", "epochs": "uses"}
_NAMES |= {"noise_position": "position"}


class Unreadable(Exception):
    """A file of a run is missing, damaged or of another format; the message says which and where."""


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
        header, shared = ({}, {}) if ledger is None else _journal_of(path)
        for path in (Path(folder) / "run.json" for folder in folders):
            name, (run, journals) = f"{path.parent}: " if len(folders) > 1 else "", _run_of(path)
            for first, own in (_journal_of(each) for each in journals):
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
        price = partial(found.price, n=self.releases) if spent and self.releases < (found.most or 0) else found.price
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
        yield Finding(f"{name}: mu", self.law(1, 1).mu <= record.get("mu", mp.inf) * SLACK, "as its record says")
        needed, whole = (mp.inf if law.slack else law.mu**2 for law in (spent, self.stated))
        most, releases = mp.inf if found.most is None else found.most, max(self.releases, self.said["releases"] or 0)
        within = self.rows <= record["rows"] and releases <= most and self.reserved * SLACK >= whole
        within = within and self.rows >= run.get("rows", 0) and self.releases >= run.get("releases", 0)
        within = within and ("epochs" in record or self.said["horizon"] <= record["rows"])
        within = within and found.ends in (None, self.rows if self.releases else found.ends)
        within = within and self.facts.get("first_row", first) == first
        paid = bool(self.charged * SLACK >= needed) or (None if spent.why else False)
        said = f"{self.rows:,} of rows {first:,} to {last:,}; mu^2 {float(self.charged):.8g} for {float(needed):.8g}"
        yield Finding(f"{name}: ledger", paid if within else False, said)


def _run_of(path: Path) -> tuple[Record, list[Path]]:
    """The record of a run, with that of its model, and the journals of its ledgers."""
    run, (model, at) = json.loads(path.read_text("utf-8")), map(path.with_name, ("model.json", "schema.toml"))
    if (run["format"], run["version"]) not in (("privol.run", 1), ("privol.network-run", 1)):
        raise ValueError("not a record of format 'privol.run' or 'privol.network-run', version 1")
    journals = sorted(path.parent.glob("rank-*/ledger.jsonl")) or [path.with_name("ledger.jsonl")]
    if len(journals) != run.get("ranks", 1):
        raise ValueError(f"{len(journals)} ledgers of {run.get('ranks', 1)} ranks")
    found = (run.get("inputs") or {}).get("schema") or {}
    run["schema"] = tomllib.loads(at.read_text("utf-8")) if at.exists() else found
    return {**run, "model": json.loads(model.read_text("utf-8")) if model.exists() else None}, journals


def _journal_of(path: Path) -> tuple[Record, dict[str, _Account]]:
    """A journal's header, and its accounts; each line has the SHA-256 of the previous line and of itself."""
    digest, number, plans = "", 0, dict[str, list[Record]]()
    try:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            entry = json.loads(line)
            said, text = entry.pop("sha256"), json.dumps(entry, sort_keys=True, allow_nan=False)
            digest = hashlib.sha256(f"{digest}\n{text}".encode()).hexdigest()
            if said != digest or entry.get("number") != number:
                raise Unreadable(f"{path}, line {number}: altered, or a line before it is missing")
            plans.setdefault(entry.get("plan_id", ""), []).append(entry)
    except (ValueError, AttributeError, KeyError, RecursionError) as error:
        raise Unreadable(f"{path}, line {number}: damaged ({error})") from error
    return plans.pop("", [{}])[0], {plan: _Account(*each) for plan, each in plans.items()}


def _facts(said: Record, accounts: Sequence[_Account]) -> dict[str, str]:
    """What guarantees fix in a text, as patterns."""
    of = "" if said.get("user") is None else f"column {said['user']!r}"
    rows, near, claim = said["rows_per_user"], said.get("user_separation", 1), said.get("claim") or {}
    facts = {"m": rows, "s": "s" * (rows != 1), "apart": f", any two of them {near} rows apart or more" * (near > 1)}
    facts |= {"in_column": f" ({of})" * bool(of), "of_column": f"{of}, " * bool(of), "k": said["releases"]}
    facts |= {key: said[key] for key in ("adjacency", "arithmetic", "bit_source")} | {"source": claim.get("source")}
    known = {key: re.escape(str(fact)) for key, fact in facts.items()}
    own = {x for each in accounts for x in each.said["conditions"] if not re.search(_TEXTS["claim"], x)}
    conditions = "|".join([*map(re.escape, own), *_TEXTS["taught"].values()])
    horizons = [each.said["horizon"] for each in accounts]
    known |= {"h": "|".join(map(str, [*horizons, sum(horizons)])), "n": "|".join(map(str, range(2, len(accounts) + 1)))}
    part = rf"(?:{'|'.join(each.name for each in accounts)})"
    known["runs"] = rf"(?P<runs>(?:(?:, )?{part}(?: (?:or|and) {part})*(?:{_TEXTS['joined']})?: (?:{_NUMBER}))+)"
    known |= {key: re.escape(f"{claim[key]:.6g}") if claim else "(?!)" for key in ("epsilon", "delta")}
    return known | {"conditions": f"none besides these|(?:{conditions})(?:; (?:{conditions}))*"}


def _figures_of(text: str, form: str, said: Record, accounts: Sequence[_Account]) -> list[tuple[str, str, str]] | None:
    """The figures of a text about a guarantee, by their names, those of epsilon with a delta; None if it is of another
    form. It may have the horizon and the releases of each of the accounts, and any of their conditions."""
    facts, form, of = _facts(said, accounts), _TEXTS["forms"][form], said["released"]
    texts = _TEXTS[said["unit"]] | _TEXTS["common"] | _TEXTS["held" if said.get("users_fixed", True) else "hidden"]
    pure = said["kind"] == "pure" and (said["unit"] == "row" or said.get("users_fixed", True))
    texts |= _TEXTS[said["adjacency"]] | _TEXTS["pure" if pure else "impure"] | {"another": texts[said["adjacency"]]}
    texts |= {"uncovered": _TEXTS["uncovered"][of], "released": _TEXTS["released"][of + "1" * (said["releases"] == 1)]}
    while (inside := re.search(r"\{(" + "|".join(texts) + r")\}", form)) is not None:
        form = form.replace(inside[0], texts[inside[1]])
    form = re.escape(form).replace("<", "(?:").replace(">", ")").replace(r"\|", "|").replace(r"\?", "?")

    def hole(at: re.Match[str]) -> str:
        return f"(?:{facts[at[1]]})" if at[1] in facts else f"(?P<{at[1]}_{at.start()}>{_NUMBER})"

    match = re.fullmatch(re.sub(r"\\{(\w+)\\}", hole, form), text)
    if match is None:
        return None
    found = [(key.partition("_")[0], value or "") for key, value in match.groupdict().items()]
    deltas = [value for key, value in found if key[0] == "d"]  # each follows its epsilon
    found += [("run", value) for key, runs in found if key == "runs" for value in re.findall(f": ({_NUMBER})", runs)]
    own = iter(deltas)
    told = [(key, value, next(own) or deltas[0] or "0" if key[0] == "e" else "") for key, value in found]
    return [(key, value.replace("inity", ""), delta * (value[:3] != "inf")) for key, value, delta in told if value]


def _compared(parameters: Record, record: Record, guarantee: Record) -> tuple[list[str], Record]:
    """Names of parameters that a run's mechanism has otherwise, and its record: were gradients cut where a row is?"""
    asked = [parameters, *({**each, "candidate": True} for each in parameters.get("candidates", ()))]
    own = [record, *record.get("fits", ())]
    wrong = [name for each, fit in zip(asked, own, strict=True) for name in _other(each, fit, guarantee)]
    cut = parameters.get("gradient_bound") is not None or "value_bounds" in parameters
    return wrong, {**record, "cut": cut} if record["kind"] in ("reports", "messages") else record


def _other(asked: Record, record: Record, guarantee: Record) -> list[str]:
    """Names of a learner's parameters that its mechanism, or the run's guarantee, has otherwise; None fits all."""
    guarantee = {} if asked.get("candidate") else guarantee  # the budget of a fit is not its own
    noise = record["noise"] if "noise" in record else record.get("epochs", [{}])[0].get("noise", {})
    design, published, domain = noise.get("design", {}), guarantee.get("claim") is not None, asked.get("domain")
    told = {**record, "design": design.get("name"), "bandwidth": design.get("bandwidth")}
    told |= {"noise_shape": noise.get("shape"), "radius": record.get("radius", record.get("scaled_to"))}
    told |= {name: record.get(key) for name, key in _NAMES.items()} | {"delta": guarantee.get("delta"), "mu": None}
    if asked.get("renewal", "none") == "none":  # else the last epoch may be of any length
        told["horizon"] = guarantee.get("horizon")
    if guarantee and asked.get("rows_per_user") is not None:
        told |= {"rows_per_user": guarantee.get("rows_per_user") or 0}
        told |= {"user_separation": guarantee.get("user_separation", 1)}
    if domain is not None:
        asked = {**asked, "radius": domain.get("radius", domain.get("total"))}
    if record["kind"] == "objective" and asked["loss"] == {"name": "squared"} and record["loss"]["name"] == "huber":
        told["loss"] = None  # which it minimises in its place
    if asked.get("delta") == 0.0 or published:  # a source's own noise, of its own delta and by its own design
        told |= dict.fromkeys(("delta", "design", "noise_shape", "noise_position") if published else ("delta",))
    wrong = [name for name, value in asked.items() if value is not None and told.get(name) not in (None, value)]
    if domain is not None and domain["set"] not in record["set"].lower():
        wrong.append("domain")
    decay = None if asked.get("window") is not None else design.get("decay")  # a window's is its own
    if decay is not None and abs(decay - asked["discount"] ** record["rows_of_step"]) > 1e-12:
        wrong.append("discount")
    return wrong


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
    for key in ("arithmetic", "bit_source"):
        if _figures_of(str(guarantee[key]), key, guarantee, ()) is None:
            yield Finding(key, False, f"other words than those of a mechanism: {guarantee[key]!r}")
    mechanism = run.get("mechanism") or {}
    believed = "user's claim" if mechanism.get("kind") == "declared iterates" else ""
    believed = "the user vouches" if (mechanism.get("loss") or {}).get("custom") else believed
    if believed and not any(believed in condition for condition in guarantee["conditions"]):
        yield Finding("conditions", False, f"none of them says that something is {believed!r}")
    if not guarantee["private"] or ("operating system" not in guarantee["bit_source"] and guarantee["kind"] != "none"):
        yield Finding("bits", False, "the noise is of a known seed, or there is none: who has the seed can take it off")
    of = {"PrivateEncoder": (run.get("encoding") or {}).get("mechanism"), run["learner"]: run.get("mechanism")}
    if (paid := run.get("private_metrics")) is not None and run.get("mechanism") is not None:
        of["PrivateMetrics"] = {**run["mechanism"], "kind": "windows", **{k: paid[k] for k in ("std", "window_rows")}}
    for account in accounts:
        name, said, record = account.name, account.said, of.pop(account.name, None)
        same = set(guarantee) if name == run["learner"] else {"adjacency", "unit", "rows_per_user", "private"}
        try:
            if record is None:
                raise NotChecked("its mechanism is not in the record")
            other = said["adjacency"] != record["adjacency"] or said.get("leakage") not in (None, record.get("leakage"))
            other = other or said["released"] not in _TEXTS["of_kind"].get(record["kind"], ["models"])
            if other or any(said.get(key) != guarantee[key] for key in same):
                yield Finding(name, False, "its account has another guarantee, or relation of streams, than the run")
            if name == run["learner"]:
                differ, record = _compared(run["parameters"], record, guarantee)
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
    user = _whole(accounts, max(most, 1), said.get("user_separation", 1), spent)
    slack = user.slack + (mpf(0) if said.get("users_fixed", True) else COLLISION)
    return [_whole(accounts, 1, 1, spent), user._replace(slack=slack)]


def _said(what: str, text: str, form: str, said: Record, accounts: Sequence[_Account], spent: bool = False) -> Finding:
    """Whether a text is all of a form, with the facts of a guarantee, and no figure in it is below the computed one."""
    unit, laws = said["unit"] == "user", _laws(accounts, said, spent)
    found = _figures_of(text, form, said, accounts)
    left = [x for x in said["conditions"] if x not in text and x[:10] != "the schema" and form == "sentence"]
    if found is None or left:
        return Finding(what, False, f"it has other words than those of this guarantee: {text!r}")
    own, other, leakage = laws[unit], laws[not unit], mpf(said.get("leakage") or mp.inf)
    p, rho = own.parameter, own.mu**2 / 2 if own.kind == "gdp" else own.parameter * mp.tanh(own.parameter / 2)
    printed, why = next((value for key, value, _ in found if key == "mu"), "inf"), own.why or other.why
    least = {"mu": own.mu, "rho": rho, "slack": own.slack, "slack2": own.slack * (1 + mp.exp(p)), "hash": COLLISION}
    least |= {"mu1": other.mu, "times": other.mu / mpf(printed), "nats": leakage, "bits": leakage / mp.ln(2)}
    # what is said of another kind of guarantee is too small, whatever it is
    least |= dict.fromkeys(("pure", "pure2", "mu2", "alone2"), mp.inf) | {{"gdp": "mu2"}.get(own.kind, "alone2"): 2 * p}
    least |= {"pure": p, "pure2": 2 * p} if own.kind == "pure" and not own.slack else {}
    least |= dict.fromkeys(("mu", "mu1", "rho", "times"), mp.inf) if own.kind == "approximate" else {}
    few = [f"{key} {value}" for key, value, _ in found if key in least and mpf(value) * SLACK < least[key]]
    costs = sorted(_laws(each, said)[unit].mu for each in _groups(accounts))
    runs = sorted(mpf(value) for key, value, _ in found if key == "run")
    if runs and (len(runs) != len(costs) or any(run * SLACK < cost for run, cost in zip(runs, costs, strict=True))):
        few.append("mu by run")
    implied = [(other if key == "e1" else own).implies("", value, at) for key, value, at in found if at]
    few += [each.detail for each in implied if not each.holds]
    if order := [mpf(value) for key, value, _ in found if key in ("crowd", "ordered", "hidden")]:
        (users, epsilon, delta), law, both = order, laws[0], said["adjacency"] == "replace"
        known = said.get("reports") and (said["rows_per_user"] or 1) == 1 and users == said["horizon"] and 0 < delta < 1
        told = delta_in_order(int(users), epsilon, delta, law.parameter, law.kind == "pure", both) if known else mp.inf
        why = why or (not few and told < delta * 21 / 20)  # by sums that are as fine as those of the run
        few += ["delta of a secret order"] * (not told <= delta)
    holds = (None if why else False) if few else True  # of a cost that may be less
    return Finding(what, holds, f"too small: {', '.join(few)}" if few else f"{len(found)} figures")


def _together(run: Record, accounts: Sequence[_Account]) -> Iterator[Finding]:  # what is said of accounts
    reports = {"reports": (run.get("mechanism") or {}).get("kind") == "reports"}
    guarantee, budget, of = {**run["guarantee"], **reports}, run["budget"], {each.name: [each] for each in accounts}
    own, model, encoding, asked = of[run["learner"]], run["model"] or {}, run.get("encoding") or {}, run["parameters"]
    most = {"mu": asked.get("mu") or "inf", "epsilon": "inf" if asked.get("mu") else asked.get("epsilon")}
    told: list[tuple[Any, ...]] = [
        ("composition", "figures", budget["reserved"], guarantee, accounts),
        ("summary", "summary", run["summary"], guarantee, accounts),
        ("sentence", "sentence", run.get("sentence"), guarantee, accounts if run.get("shared", True) else own),
        ("together", "together", run.get("together"), guarantee, accounts),
        ("sentence of model.json", "sentence", model.get("sentence"), guarantee, own),
        ("spent", "figures", budget.get("spent"), guarantee, accounts, True),
        ("parameters", "figures", most if most["epsilon"] and guarantee.get("claim") is None else None, guarantee, own),
        ("users", "figures" if guarantee["unit"] == "user" else "users", run.get("users"), guarantee, accounts),
    ]
    shares = budget.get("shares", dict.fromkeys(of))
    told += [(f"share of {name}", "figures", shares.get(name), of[name][0].said, of[name]) for name in of]
    yield Finding("shares", set(shares) == set(of), ", ".join(shares))
    yield Finding("delta", budget["delta"] == guarantee["delta"], f"{guarantee['delta']!r}")
    yield Finding("horizon", run.get("horizon") in (None, guarantee["horizon"]), f"{guarantee['horizon']:,} rows")
    caps = {(run.get("users") or {}).get("most_rows"), run["schema"].get("user", {}).get("max_rows")} - {None}
    yield from (Finding("rows of users", cap <= (guarantee["rows_per_user"] or mp.inf), f"{cap}") for cap in caps)
    same = model.get("guarantee") == run["guarantee"] and (model["parameters"] == asked or "candidates" in asked)
    yield Finding("model.json", same or not model, "its guarantee and parameters" if model else "there is none")
    if "PrivateEncoder" in of:
        (encoder,), learnt = of["PrivateEncoder"], [(each.get("inputs") or {}).get("schema") for each in (run, model)]
        told.append(("sentence of the encoding", "sentence", encoding.get("sentence"), encoder.said, [encoder]))
        stated = [encoding, run["schema"].get("learnt", {}), *(each["learnt"] for each in learnt if each)]
        mus = [each["mu"] for each in stated if "mu" in each]
        words = [*guarantee["conditions"], str(run.get("sentence")), str(model.get("sentence"))]
        # of six digits, rounded to the nearest
        mus += [mpf(mu) * (1 + mpf(10) ** -5) for mu in re.findall(rf"mu = ({_NUMBER})", "; ".join(words))]
        least = min(map(mpf, mus), default=mp.inf) * SLACK
        yield Finding("mu of the encoding", least >= encoder.law(1, 1).mu, f"{mus}")
    for what, form, text, *about in told:
        if text is None and what in ("summary", "sentence"):
            yield Finding(what, False, "there is none")
        elif text is not None and (guarantee["private"] or not str(text).startswith("NOT PRIVATE")):  # or no claim
            given = text if isinstance(text, str) else f"{text['mu']} {text['epsilon']} {guarantee['delta']}"
            yield _said(what, given, form, *about)
