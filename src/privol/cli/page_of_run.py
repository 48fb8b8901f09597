"""The page of a run: its files as HTML, by a template in the same folder."""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, UndefinedError

from ..errors import InvalidParameter, StateError
from ..guarantees import format_up, gdp_epsilon
from ..tables import dropped_note, facts_of
from .records import fields_of, read_run

__all__ = ["page_of"]

_NOT_PRIVATE = "NOT PRIVATE"
_METRICS = {
    "loss": "loss", "log_loss": "log-loss", "accuracy": "accuracy", "auc": "AUC", "r_squared": "R²",
    "root_mean_squared_error": "RMSE", "mean_absolute_error": "MAE",
}  # fmt: skip
_RUNS = {"run": "this run", "noiseless": "without noise", "noiseless_every_row": "without noise, all released"}


def page_of(run: Path, *, public: bool) -> tuple[str, bool]:
    """Return the page, and whether it may be published: whether nothing in it is computed from the raw rows.

    Parameters
    ----------
    run : Path
        The directory of a run that has ended, or was interrupted.
    public : bool
        Leave out all figures that are not private.

    Raises
    ------
    StateError
        If no run is there, or its files are damaged.
    InvalidParameter
        If the model itself is not private, and the page is to be public.
    """
    record = _record(run)
    with fields_of(run):
        return _page_of(run, record, public)


def _page_of(run: Path, record: dict[str, Any], public: bool) -> tuple[str, bool]:
    if public and not record["model_private"]:
        raise InvalidParameter(f"{run}: the model itself is not private, so there is nothing to publish")
    found = None if public else record["diagnostics"]
    raw = [words for words in record["warnings"] if words.startswith(_NOT_PRIVATE)]
    warnings = [words for words in record["warnings"] if not public or words not in raw]
    dropped = None if public or record["dropped"] is None else dropped_note(record).plain
    # no noise hides how long rows took
    facts = [(name, text) for name, text in facts_of(record) if not public or name != "throughput"]
    publishable = record["model_private"] and (public or not (raw or dropped or found))
    values: dict[str, Any] = {
        "record": record,
        "public": public,
        "warnings": warnings,
        "facts": facts,
        "dropped": dropped,
        "spending": _spending(run, record["budget"]["delta"]),
        "shapes": _shapes(run) if record["releases"] else None,
        "scores": None if found is None else list(_scores(found)),
        "scored": found is not None and "run" in found,
        "curves": None if found is None else _image(run / "plot.png"),
        "private_metrics": record["private_metrics"],
        "parameters": {name: json.dumps(value) for name, value in sorted(record["parameters"].items())},
        "environment": dict(_environment(record)),
    }
    page = Environment(
        loader=PackageLoader("privol.cli", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    try:
        return page.get_template("run.html").render(values), publishable
    except UndefinedError as error:  # a field that only the page asks for
        raise KeyError(str(error)) from error


def _record(run: Path) -> dict[str, Any]:
    try:
        found = read_run(run)
    except FileNotFoundError as error:
        raise StateError(f"{run}: no run is here, or it has not ended (run.json is missing)") from error
    if found.get("format") != "privol.run":
        raise StateError(f"{run / 'run.json'}: is not the record of a run: format {found.get('format')!r}")
    return found


def _image(path: Path) -> str | None:
    return _encoded(path.read_bytes()) if path.exists() else None


def _encoded(picture: bytes) -> str:
    return base64.b64encode(picture).decode()


def _spending(run: Path, delta: float) -> dict[str, Any] | None:
    """Return the content of the run's journal: a table of its accounts, and a picture if there is a history."""
    from ..ledger import history
    from ..plots import plot_spending

    path = run / "ledger.jsonl"
    if not path.exists():
        return None  # the learner had its own ledger
    steps = history(path)
    last = {step.plan_id: step for step in steps}
    finite = [step for step in steps if math.isfinite(step.mu_squared)]
    drawn = [(step.learner, step.rows, gdp_epsilon(math.sqrt(step.mu_squared), delta)) for step in finite]
    return {
        "delta": format_up(delta),
        "accounts": [
            {
                "learner": step.learner,
                "rows": step.rows,
                "releases": step.releases,
                "epsilon": format_up(gdp_epsilon(math.sqrt(step.mu_squared), delta)),
            }
            for step in last.values()
        ],
        "picture": _encoded(plot_spending(drawn, delta=delta)) if drawn else None,
    }


def _shapes(run: Path) -> dict[str, Any] | None:
    """Return the shapes of the columns; None for models whose noise is unknown."""
    from ..explaining import explain
    from ..state import load_learner, read_record
    from ..streams import Schema

    with suppress(InvalidParameter):
        inputs = read_record(run)["inputs"] or {}
        if inputs.get("schema") is not None:
            made = explain(load_learner(run), Schema.from_record(inputs["schema"]))
        else:
            made = explain(load_learner(run), None, features=inputs.get("feature_names"), ranges=inputs.get("ranges"))
        buffer = io.BytesIO()
        made.plot().savefig(buffer, format="png", dpi=100)
        return {"text": made.text(), "picture": _encoded(buffer.getvalue())}
    return None


def _scores(found: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, list[str]]]]]:
    """Yield a heading and rows of figures; the first row has the headers of the columns."""
    constant = {"accuracy": found["majority_accuracy"], "auc": 0.5}
    if not found["classification"]:
        constant = {"r_squared": 0.0, "root_mean_squared_error": found["deviation_of_targets"]}
    name = "majority class" if found["classification"] else "mean of the targets"
    if "run" not in found:
        yield "On the rows it was learnt from", _rows_of({"this model": found["final_model"], name: constant})
        return
    for when, words in (("progressive", "Progressive"), ("final_model", "Last model, on the rows it was learnt from")):
        scores = {head: found[key][when] for key, head in _RUNS.items() if found[key] is not None}
        yield words, _rows_of({**scores, "best fixed in hindsight": found["best_fixed"], name: constant})


def _rows_of(scores: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    words = [word for word in _METRICS if word in next(iter(scores.values()))]
    if "log_loss" in words and "loss" in words:
        words.remove("loss")
    figures = [
        (_METRICS[word], ["" if score.get(word) is None else f"{score[word]:.4f}" for score in scores.values()])
        for word in words
    ]
    return [("", list(scores)), *figures]


def _environment(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the versions that wrote the page; the run itself records the release of privol that made it."""
    from ..config import show_config

    yield "privol of the run", record["privol"]
    for name, value in show_config().items():
        if isinstance(value, Mapping):
            yield name, ", ".join(f"{library} {version}" for library, version in value.items() if version is not None)
        else:
            yield name if name != "privol" else "privol of this page", str(value)
