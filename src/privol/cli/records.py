"""The description of a run: its record, and the files of its directory."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import PrivolError, StateError

__all__ = [
    "describe_cells", "describe_dropped", "describe_run", "doubts_of_fit", "fields_of", "figures_of", "noise_record",
    "read_run", "sealed_record", "write_run",
]  # fmt: skip

_SHOWN_RELEASES = 12
#: From this share of a column's cells on, the schema was probably made for another column.
_MISDECLARED = 0.9
_NOT_PRIVATE = "NOT PRIVATE: counted on the raw rows and covered by no guarantee; do not publish"


#: What a record raises where a field is missing or of another type.
_GARBLED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)


def read_run(folder: Path) -> dict[str, Any]:
    """Return the ``run.json`` of a run's directory: a JSON object; what it has to hold, :func:`fields_of` asks for.

    Raises
    ------
    StateError
        If it is no JSON object.
    OSError
        If it is missing, or cannot be read.
    """
    path = folder / "run.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # as text of JSON, or nested too deep
        raise StateError(f"{path}: is not the record of a run: {error}") from error
    if not isinstance(found, dict):
        raise StateError(f"{path}: is not the record of a run: found {type(found).__name__}, allowed is an object")
    return found


@contextmanager
def fields_of(folder: Path) -> Iterator[None]:
    """Refuse the ``run.json`` of a directory if a field that is used meanwhile is missing, or of another type."""
    try:
        yield
    except PrivolError:
        raise
    except _GARBLED as error:
        raise StateError(
            f"{folder / 'run.json'}: lacks or garbles a field, allowed is what privol run has written: {error!r}"
        ) from error


def _json_number(x: float) -> float | str:
    return "inf" if math.isinf(x) else x


def describe_cells(stream: Any) -> dict[str, Any] | None:
    """Return the counts of cells that the stream's schema cannot use unchanged; None if there are none."""
    return {"rows": stream.cell_rows, "columns": stream.cells} if stream.cells else None


def describe_dropped(stream: Any) -> dict[str, Any] | None:
    """Return the counts of rows that a stream dropped; None if there are none."""
    return {"private": False, "notice": _NOT_PRIVATE, "rows": stream.counts} if stream.counts else None


def describe_run(
    made: Any,
    stream: Any,
    inputs: dict[str, Any],
    *,
    whole: Any,
    seconds: float,
    interrupted: str | None,
    resumed: bool,
    shared: bool = False,
    unsized: bool = False,
) -> dict[str, Any]:
    """Return the record of a run whose learner is closed, without what :func:`write_run` adds.

    ``whole``: the guarantee of all that is released, with the private metrics where there are some.
    ``interrupted``: what Ctrl-C struck (learning, comparing), or None. ``resumed``: whether an earlier call began it.
    ``shared``: ``whole`` is together with the schema, which the same rows taught. ``unsized``: the horizon is nobody's
    expectation, so delta is judged by the rows that there were.
    """
    from .. import __version__
    from ..guarantees import weaknesses
    from ..planning import noise_row
    from ..state import claims_of, describe_parameters, run_record

    guarantee, ledger, plan = made.guarantee_, made.ledger_, made.plan_
    n, releases = made.n_rows_, plan.releases
    early = releases.only_last and n < releases.last_row and made.n_releases_ > 0
    rows = [n] if early else _release_rows(releases, made.n_releases_, n)
    delta = guarantee.delta
    promises = {account.learner: account.guarantee for account in ledger.accounts}
    reserved, users = claims_of(guarantee, ledger.accounts)
    spent = ledger.spent
    bounded = math.isfinite(plan.problem.radius)  # otherwise no score is the largest
    noise = noise_row(plan, rows[-1], early=early) if rows and bounded else None
    warnings = [*weaknesses(whole, rows=n if unsized else max(n, plan.problem.horizon)), *_warnings(made, noise)]
    warnings += _more_than_kept(guarantee, stream)
    if stream.schema is not None and stream.schema.derived_from_data:
        warnings.insert(
            0,
            f"{stream.schema.name} was derived from the data (derived_from_data = true): the guarantee does not hold "
            "until each range, level and label in it is replaced or confirmed by public knowledge",
        )
    return {
        "format": "privol.run",
        "version": 1,
        "privol": __version__,
        "status": "complete" if interrupted is None else "interrupted",
        "interrupted_while": interrupted,
        "resumed": resumed,
        "source": stream.source,
        "learner": type(made).__name__,
        "parameters": describe_parameters(made),
        "inputs": inputs,
        "rows": n,
        "horizon": guarantee.horizon,
        "features": stream.n_features,
        "classes": None if stream.classes is None else [str(label) for label in stream.classes],
        "model_private": guarantee.private and guarantee.kind != "none",
        "summary": whole.summary(),
        "warnings": warnings,
        "guarantee": guarantee.to_record(),
        "mechanism": run_record(made, inputs.get("first_row", 1)),
        "sentence": (whole if shared else guarantee).sentence(),
        "together": ledger.sentence(delta) if len(promises) > 1 else None,
        "users": users,
        "budget": {
            "delta": delta,
            "reserved": reserved,
            "spent": figures_of(spent.mu, spent.epsilon(delta)),
            "shares": {name: figures_of(promise.mu, promise.epsilon(delta)) for name, promise in promises.items()},
        },
        "releases": made.n_releases_,
        "release_rows": rows if len(rows) <= _SHOWN_RELEASES else [rows[0], rows[-1]],
        # for the points: their average, which is shown, has less
        "noise": None
        if noise is None
        else noise_record(noise, stream, bound=getattr(plan, "tuning", None) is not None),
        "dropped": describe_dropped(stream),
        "set_aside": stream.set_aside,
        "seconds": seconds,
        "rows_per_second": n / max(seconds, 1e-9),
        "out": None,
        "files": {},
        "private_metrics": None,
        "diagnostics": None,
    }


def noise_record(noise: Any, stream: Any, *, bound: bool) -> dict[str, Any]:
    """Return figures of the last release's noise as JSON values; for a target with a range also in its own units."""
    found = {name: None if math.isinf(value) else value for name, value in asdict(noise).items()}
    span = None if stream.schema is None or stream.schema.target is None else stream.schema.target.range
    units = None if span is None else (span[1] / 2 - span[0] / 2) * noise.score_std
    return {**found, "bound": bound, "score_std_in_target_units": units}


def _warnings(made: Any, noise: Any) -> list[str]:
    """Public figures of a run that are surely unwanted; ``noise``: of the last release, None without one."""
    from ..planning import drowning

    releases, n = made.plan_.releases, made.n_rows_
    warnings = []
    if noise is None:
        if releases.count and not made.n_releases_:
            first = releases.every or int(releases.rows[0])
            warnings.append(f"no model was released: the first was due after row {first:,}, and {n:,} were learnt")
        return warnings
    drowned = drowning(noise, made.plan_.problem.radius)
    if drowned is not None:
        warnings.append(f"{drowned}; privol plan with the same options says what would help")
    left = n - noise.row
    if left > releases.horizon - releases.last_row:  # a published schedule itself ends a row before the horizon
        rows = "1 row is" if left == 1 else f"{left:,} rows are"
        warnings.append(f"{rows} in no released model: the last release came after row {noise.row:,} of {n:,}")
    return warnings


def _more_than_kept(guarantee: Any, stream: Any) -> list[str]:
    """Say if a budget covers more rows of a user, or closer ones, than the stream keeps. Public numbers."""
    kept = stream.rows_per_user
    if guarantee.unit != "user" or kept is None:
        return []
    most, apart = guarantee.rows_per_user, guarantee.user_separation
    further = max(stream.user_separation, apart) if kept > 1 else 1
    if kept == most and further == apart:
        return []
    paid = f"{most} rows of a user" + (f", {apart} rows apart" if apart > 1 else "")
    learnt = f"{kept}, {further} rows apart," if further > 1 else f"{kept}"
    options = f"--rows-per-user {kept}" + (f" --user-separation {further}" if further > 1 else "")
    return [f"the noise is for {paid}, and of the stream no more than {learnt} are learnt: {options} takes less noise"]


def figures_of(mu: float, epsilon: float) -> dict[str, Any]:
    """A budget as JSON values."""
    return {"mu": _json_number(mu), "epsilon": _json_number(epsilon)}


def _release_rows(releases: Any, made: int, n: int) -> list[int]:
    """The first releases made, and the last, which may have come after the run's last row, whatever was planned."""
    if made == 0:
        return []
    shown = range(1, made + 1) if made <= _SHOWN_RELEASES else (1, *range(made - _SHOWN_RELEASES, made + 1))
    if releases.every:
        return [min(releases.every * k, n) for k in shown]
    return [int(releases.rows[k - 1]) if k <= len(releases.rows) else n for k in shown]


def write_run(
    folder: Path,
    made: Any,
    record: dict[str, Any],
    metrics: dict[str, Any] | None,
    private_metrics: dict[str, Any] | None,
) -> None:
    """Write all files of a run and complete its record by them; ``run.json`` is the record itself.

    Parameters
    ----------
    folder : Path
        The directory, which holds the journal of its ledger, and the model of a kept run that has ended.
    made : learner
        Whose run has ended, or is kept.
    record : dict
        Of :func:`describe_run`; changed in place.
    metrics, private_metrics : dict or None
        Records of the diagnostics (not private) and of the private metrics.
    """
    from .._files import write_atomically
    from ..state import write_released

    files = _name_files(folder, made, record)
    if made.n_releases_:
        write_released(made, folder, record["inputs"])
    if private_metrics is not None:
        write_atomically(folder / "private_metrics.json", _line(private_metrics))
        shown = "released with noise" if private_metrics["private"] else "NOT PRIVATE"
        files["private_metrics.json"] = f"progressive metrics, {shown}"
        record["private_metrics"] = private_metrics
    if metrics is not None:
        from ..calibration import epsilon_of
        from ..plots import plot_comparison

        loss = record["parameters"]["loss"]["name"]
        epsilon = made.guarantee_.epsilon() if (stated := epsilon_of(made)) is None else stated
        title = f"{record['learner']}, {loss} loss, {record['source']}, epsilon {epsilon:.4g}"
        picture = plot_comparison(metrics, title=title, releases=record["release_rows"])
        # not private, so only the owner may read it
        own = _line({"format": "privol.metrics", "version": 1, **metrics})
        write_atomically(folder / "metrics.json", own, mode=0o600)
        write_atomically(folder / "plot.png", picture, mode=0o600)
        files |= {"metrics.json": "diagnostics, NOT PRIVATE", "plot.png": "progressive curves, NOT PRIVATE"}
        curves = ("run", "noiseless", "noiseless_every_row")
        record["diagnostics"] = {
            name: {k: v for k, v in value.items() if k != "curve"} if name in curves and value is not None else value
            for name, value in metrics.items()
        }
        record["warnings"] += _doubts(record["diagnostics"], record["x_bound_from"])
    mode = _name_itself(record)
    text = json.dumps(record, indent=1, allow_nan=False).encode() + b"\n"
    write_atomically(folder / "run.json", text, mode=mode)


def sealed_record(
    folder: Path, made: Any, record: dict[str, Any], metrics: dict[str, Any] | None
) -> tuple[dict[str, Any], int]:
    """Complete the record of a run that is about to close its account, and return the mode of its file too.

    It is replaced by that of :func:`write_run` unless the process is killed in between. Then the private metrics
    (``metrics``: their record, without windows) are lost, and all that they reserved counts as spent.
    """
    _name_files(folder, made, record)
    if metrics is not None:
        record["private_metrics"] = metrics
        record["budget"]["spent"] = record["budget"]["reserved"]
        record["warnings"].append(
            "the run was killed before its private metrics were out: they are lost, and their budget counts as spent"
        )
    return record, _name_itself(record)


def _name_files(folder: Path, made: Any, record: dict[str, Any]) -> dict[str, str]:
    """Name the files that every run leaves."""
    files: dict[str, str] = record["files"]
    record["out"] = str(folder)
    if made.n_releases_:
        files["model.npz"] = "the last released model and the mean of all released ones"
        files["model.json"] = "parameters, labels, encoding of the rows, guarantee"
    files["ledger.jsonl"] = "the journal of what was spent"
    return files


def _name_itself(record: dict[str, Any]) -> int:
    """Name the file of the record, and return its mode: with figures that are not private it is the owner's."""
    own_eyes = record["diagnostics"] is not None or record["dropped"] is not None
    record["files"]["run.json"] = "what was run, and how it ended" + (
        "; with figures that are NOT PRIVATE" if own_eyes else ""
    )
    return 0o600 if own_eyes else 0o666


def _doubts(found: dict[str, Any], x_bound_from: str | None) -> list[str]:
    """Findings of the diagnostics that are surely unwanted. Not private."""
    doubts = [] if found["cells"] is None else _misdeclared(found["cells"], learnt=x_bound_from == "encoding")
    if found["majority_accuracy"] == 1.0:
        doubts.append(
            "NOT PRIVATE: all rows that were learnt have the same label: the model learnt a constant; are the labels "
            "spelled as in the data? Where all are declared (--classes, or negative and positive under [target] of a "
            "schema), a row with any other is an error"
        )
    doubts += _constant(found)
    rows = found["run"]["progressive"]["rows"]
    if (found["targets_clipped_to_y_bound"] or 0) > rows / 2:
        doubts.append(
            "NOT PRIVATE: most targets lie beyond the bound and were clipped to it; --y-bound sets a larger one, and "
            "range under [target] of a schema maps targets to -1 ... 1"
        )
    scaled = found["rows_scaled_to_x_bound"]
    # a learnt encoding's bound is the usual norm of its rows, which many slightly exceed
    if scaled > rows / 2 and x_bound_from != "encoding":
        doubts.append(
            f"NOT PRIVATE: {scaled:,} of {rows:,} rows were longer than the bound and were scaled to it; --x-bound "
            "sets a larger one, and --ranges, or range under [columns.NAME] of a schema, map numbers to -1 ... 1"
        )
    return doubts


def _constant(found: dict[str, Any]) -> list[str]:
    """Whether a constant does as well as the last model."""
    if found["run"]["releases"] == 0:
        return []
    return _beside(found, found["run"]["final_model"], found["best_fixed"])


def doubts_of_fit(found: dict[str, Any]) -> list[str]:
    """Findings of the diagnostics of a fit that are surely unwanted. Not private."""
    return _beside(found, found["final_model"], None)


def _beside(found: dict[str, Any], last: dict[str, Any], best: dict[str, Any] | None) -> list[str]:
    if found["classification"]:
        name, own, always = "accuracy", last["accuracy"], found["majority_accuracy"]
        if own > always or always == 1.0:
            return []
        figures = f"its accuracy is {own:.4f}, and that of the majority class alone {always:.4f}"
    else:
        name = "r_squared"
        if not found["deviation_of_targets"] or last[name] > 0.0:
            return []
        figures = f"its R² is {last[name]:.4f}"
    reach = "" if best is None else f" (the best fixed model: {best[name]:.4f})"
    return [
        f"NOT PRIVATE: the last model does not beat a constant: {figures}{reach}; more rows, a larger --epsilon or "
        "other features may help, and privol plan says what the noise is"
    ]


def _misdeclared(cells: dict[str, Any], *, learnt: bool) -> list[str]:
    """Name the columns in which a schema clips, misses or does not know nearly all cells."""
    most = {
        name: f"{name!r} ({', '.join(f'{n:,} {kind}' for kind, n in found.items())})"
        for name, found in cells["columns"].items()
        if sum(found.values()) >= _MISDECLARED * cells["rows"]
    }
    if not most:
        return []
    listed = ", ".join(list(most.values())[:5]) + (f" and {len(most) - 5} more" if len(most) > 5 else "")
    why = "are its levels, ranges and missing = those of the data?"
    if learnt:
        why = "too few rows taught the encoding at this budget; to declare ranges and levels in a schema costs nothing"
    return [
        f"NOT PRIVATE: of some columns at least {_MISDECLARED:.0%} of the {cells['rows']:,} cells are clipped, unknown "
        f"or missing: {listed}; {why}"
    ]


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, allow_nan=False).encode() + b"\n"
