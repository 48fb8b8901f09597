"""What a run says of itself, in its files, sentences and parameters; without privol, and without arithmetic.

In a form ``<a|b>`` are alternatives, ``?`` follows what may be missing, ``~`` is text without figures and promises, and
``{mu}`` is a figure or a fact of the guarantee; ``{mu1}`` is beside it: of a row if the unit is a user, else of a user.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

__all__ = [
    "FIGURES", "SENTENCE", "SUMMARY", "TOGETHER", "USERS",
    "Unreadable", "compared", "figures_of", "journal_of", "run_of",
]  # fmt: skip
Record = Mapping[str, Any]
_T = TypeVar("_T")
#: Words that promise something, of a condition and of all other text; and how a number is written.
_CLAIM, _PROMISE = "epsilon|DP|protect", "epsilon|delta|DP|privacy|protect|guarant|user|person|all rows"
_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf(?:inity)?"
#: Parameters that a record has by another name.
_NAMES = {"fit_intercept": "intercept", "batch": "rows_of_step", "leaf": "rows_of_step", "epochs": "uses"}
_NAMES |= {"noise_position": "position"}
FIGURES, USERS = "{mu} {e} {d}", "{mu1} {e1} {d1}"
SUMMARY = (
    "<pure >?differential privacy with epsilon {e}< <at |(>?delta {d}<)>?>? for {who} (<{mu}-GDP|proved at delta "
    "{slack} alone, which implies no GDP>)<; epsilon {e1}< at delta {d1}>? for {other}>?<; the source claims epsilon "
    "{n} at delta {n}>?"
)
TOGETHER = (
    "Differential privacy with (epsilon, delta) = ({e}, {d})< (a delta of {hash} of it is that two users ~ hash; mu "
    'holds beside it)>?, from {mu}-GDP, for {whom} (adjacency "{adjacency}") that may have been in ~{n}?~ (mu by run: '
    "{runs}; squares add up), what was released ~; <several rows of one person are not protected as one|<one row "
    "alone|all rows of {user} that are learnt>: {mu1}-GDP, (epsilon, delta) = ({e1}, {d1})<, by group privacy>?>."
)
SENTENCE = (
    "<Pure d|D>ifferential privacy{all} with <epsilon = {pure} (delta = 0), which implies >?(epsilon, delta) = ({e}, "
    "{d})<, which implies ({e}, {d})>?< and, beside that delta>?<, <from >?{mu}-GDP (Gaussian differential "
    'privacy)~{rho}-zCDP|. It is proved at this one delta: ~ ("slack"), so no smaller delta has an epsilon, and ~ '
    "differential privacy does not follow>.< Mutual information: a report tells at most {nats} nats ({bits} bits) ~ k "
    "rows of one person tell at most k times as much.>?< The source ({source}) claims (epsilon, delta) = ({n}, {n}); "
    'what is proved for this noise is ({e}, {d}), ~.>? Adjacency "{adjacency}": replace {what}<, where they are,>? by '
    "~< (to replace ~ is covered by <{twice}-GDP|epsilon = {twice}|(epsilon, delta) = ({twice}, {slack2})>, <twice "
    "~|by group privacy>)>?; the number of rows is public. Unit: {unit} Horizon: at most {h} row<s>?, the whole run "
    "together. Released: ~{k}~ out of {h} row<s>?, to an observer ~; nothing else is covered (not ~). Arithmetic: "
    "{arithmetic}. Bit source: {bit_source}. Conditions: {conditions}.<\nIf, before the first report, a trusted "
    "shuffler puts {h} users, ~ all reports together are ({n}, {n})-differentially private for one row (adjacency "
    '"{adjacency}") against whoever does not know that order; users ~ do not count, nor do several rows of one user, '
    "and of fewer users it does not hold.>?"
)
_WHOSE = (
    "one row; <several rows of one person are not protected as one.|of {user} {cap} <is|are> learnt{apart}, and "
    "replacing ~ covered by <{mu1}-GDP, >?(epsilon, delta) = ({e1}, {d1}), <by group privacy|{times} times the mu of "
    "one row>; {fixed}>",
    "{user} with {cap}{apart}; one row alone is covered by <{mu1}-GDP, >?(epsilon, delta) = ({e1}, {d1}); {fixed}",
)
_FIXED = (
    "whose rows they are may change with them, to somebody's ~ hidden too, but for a probability of at most {hash} "
    "that two users have one ~, which each delta for a user includes; the figures without a delta hold beside it.",
    "which rows are whose~ is held fixed and is not hidden.",
)
#: Conditions of an encoding and a model together: where the same rows taught, and where others did.
_TAUGHT = (
    rf"the schema was learnt from the same rows by [a-z ]+, under the Gaussian mechanism with mu = (?:{_NUMBER})(?: "
    "for one row)?, which is counted here",
    rf"row 1 to [\d,]+ taught the schema by [a-z ]+, under the Gaussian mechanism with mu = (?:{_NUMBER})(?: for one "
    r"row)?, and the model learnt row [\d,]+ and later ones alone: a row is in one part only, so together they cost as "
    r"much as the more expensive of them \(parallel composition\)",
)


class Unreadable(Exception):
    """A file of a run is missing, damaged or of another format; the message says which and where."""


def run_of(path: Path) -> tuple[Record, list[Path]]:
    """Return the record of a run, with that of its model, and the journals of its ledgers."""
    run, model = json.loads(path.read_text("utf-8")), path.with_name("model.json")
    if (run["format"], run["version"]) not in (("privol.run", 1), ("privol.network-run", 1)):
        raise ValueError("not a record of format 'privol.run' or 'privol.network-run', version 1")
    journals = sorted(path.parent.glob("rank-*/ledger.jsonl")) or [path.with_name("ledger.jsonl")]
    if len(journals) != run.get("ranks", 1):
        raise ValueError(f"{len(journals)} ledgers of {run.get('ranks', 1)} ranks")
    return {**run, "model": json.loads(model.read_text("utf-8")) if model.exists() else None}, journals


def journal_of(path: Path, account: Callable[..., _T]) -> tuple[Record, dict[str, _T]]:
    """Return a journal's header, and an account of all entries of each plan.

    Each line has the SHA-256 of the previous line and of itself.
    """
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
    return plans.pop("", [{}])[0], {plan: account(*each) for plan, each in plans.items()}


def _facts(said: Record, accounts: Sequence[Record]) -> dict[str, str]:
    """What guarantees fix in a text, as patterns."""
    user, rows, near = said.get("user"), said["rows_per_user"], said.get("user_separation", 1)
    column = [] if user is None else [f"column {user!r}"]
    cap, apart = f"at most {rows} row{'s' * (rows != 1)}", f", any two of them {near} rows apart or more" * (near > 1)
    one, capped = ("one user" + f" ({', '.join(told)})" * bool(told) for told in (column, [*column, cap + apart]))
    facts = {key: said[key] for key in ("adjacency", "arithmetic", "bit_source")} | {
        "cap": cap,
        "apart": apart,
        "user": one,
    }
    if said["unit"] == "user":
        facts |= {"all": f" for all rows of {one}", "what": "all rows of one user", "who": capped, "other": "one row"}
        facts |= {"whom": f"all rows of {one}, as many and as far apart as each run says"}
    else:
        facts |= {"all": "", "what": "one row", "who": "one row", "other": capped, "whom": "one row"}
    facts["who"] = "the presence of " * (said["adjacency"] == "zero_out") + facts["who"]
    horizons, releases = ([each[key] for each in accounts] for key in ("horizon", "releases"))
    known = {key: re.escape(fact) for key, fact in facts.items()}
    known |= {"h": "|".join(map(str, [*horizons, sum(horizons)])), "k": "|".join(map(str, releases))}
    known["runs"] = rf"(?P<runs>(?:(?:, )?\w+(?: (?:or|and) \w+)*(?: \([a-z, ]+\))?: (?:{_NUMBER}))+)"
    conditions = {
        x for each in accounts for x in (*each["conditions"], "none besides these") if not re.search(_CLAIM, x)
    }
    own = "|".join([*map(re.escape, conditions), *_TAUGHT])
    return known | {"source": "[^()]*", "conditions": f"(?:{own})(?:; (?:{own}))*"}


def figures_of(text: str, form: str, said: Record, accounts: Sequence[Record]) -> list[tuple[str, str, str]] | None:
    """Return the figures of a text, by names of its form, those of epsilon with a delta; None if it is of no such form.

    Parameters
    ----------
    said : dict
        The guarantee that it is about.
    accounts : sequence of dict
        Those of the accounts that it is about: it may have the horizon and the releases of each, and any conditions.
    """
    form = form.replace("{unit}", _WHOSE[said["unit"] == "user"])
    form = form.replace("{fixed}", _FIXED[said.get("users_fixed", True)])
    facts, number, form = _facts(said, accounts), count(), re.escape(form)
    for sign, means in ("<", "(?:"), (">", ")"), (r"\|", "|"), (r"\?", "?"), (r"\~", rf"(?:(?!{_PROMISE})\D)*?"):
        form = form.replace(sign, means)

    def hole(at: re.Match[str]) -> str:
        return f"(?:{facts[at[1]]})" if at[1] in facts else f"(?P<{at[1]}_{next(number)}>{_NUMBER})"

    match = re.fullmatch(re.sub(r"\\{(\w+)\\}", hole, form), text)
    if match is None:
        return None
    found = [(key.partition("_")[0], value or "") for key, value in match.groupdict().items()]
    deltas = [value for key, value in found if key[0] == "d"]  # each follows its epsilon
    found += [("run", value) for key, runs in found if key == "runs" for value in re.findall(f": ({_NUMBER})", runs)]
    own = iter(deltas)
    told = [(key, value, next(own) or deltas[0] or "0" if key[0] == "e" else "") for key, value in found]
    return [(key, value.replace("inity", ""), delta) for key, value, delta in told if value]


def compared(parameters: Record, record: Record, guarantee: Record) -> tuple[list[str], Record]:
    """Names of parameters that a run's mechanism has otherwise, and its record: were gradients cut where a row is?"""
    asked = [parameters, *({**each, "candidate": True} for each in parameters.get("candidates", ()))]
    own = [record, *record.get("fits", ())]
    wrong = [name for each, fit in zip(asked, own, strict=True) for name in _other(each, fit, guarantee)]
    if record["kind"] in ("reports", "messages"):
        cut = parameters.get("gradient_bound") is not None or "value_bounds" in parameters
        return wrong, {**record, "cut": cut}
    return wrong, record


def _other(asked: Record, record: Record, guarantee: Record) -> list[str]:
    """Names of a learner's parameters that its mechanism, or the run's guarantee, has otherwise; None fits all."""
    guarantee = {} if asked.get("candidate") else guarantee  # the budget of a fit is not its own
    noise = record["noise"] if "noise" in record else record["epochs"][0]["noise"]
    design, published, domain = noise.get("design", {}), guarantee.get("claim") is not None, asked.get("domain")
    told = {**record, "design": design.get("name"), "bandwidth": design.get("bandwidth")}
    told |= {"noise_shape": noise.get("shape")}
    told |= {name: record.get(key) for name, key in _NAMES.items()} | {"delta": guarantee.get("delta")}
    told |= {"radius": record.get("radius", record.get("scaled_to"))}
    if asked.get("renewal", "none") == "none":  # else the last epoch may be of any length
        told["horizon"] = guarantee.get("horizon")
    if guarantee and asked.get("rows_per_user") is not None:
        told |= {
            "rows_per_user": guarantee.get("rows_per_user") or 0,
            "user_separation": guarantee.get("user_separation", 1),
        }
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
