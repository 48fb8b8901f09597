"""``privol predict``: a saved model on new rows."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import click
import numpy as np

from .._values import shown
from ..errors import StateError, StreamError
from .option_types import TargetType
from .outputs import naming_rows, printing
from .records import read_run
from .streams import FILE_OPTIONS, base_option, file_options, open_for_model
from .topics import GroupedCommand, Topic

__all__ = ["has_model", "predict"]


@click.command(cls=GroupedCommand, topics=(Topic("file", "How FILE is written", f"{FILE_OPTIONS} zero_based"),))
@click.argument("run")
@click.argument("file")
@file_options
@base_option
@click.option("--out", metavar="PRED.csv", help="File to write, over one that exists.  [default: standard output]")
@click.option(
    "--target",
    type=TargetType(),
    metavar="COLUMN",
    help="Column to leave out.  [default: the run's target column, if FILE has it]",
)
@click.option("--json", "as_json", is_flag=True, help="Report errors, and the number of rows with --out, as JSON.")
def predict(run: str, file: str, out: str | None, as_json: bool, **options: Any) -> None:
    """Predict the rows of FILE with the released model of RUN.

    Rows are encoded as the run's rows were: by its schema, or scaled by its ranges. Named columns may come in any
    order; other columns are left out, and target and user may be absent. FILE is read as in privol run: any format, -
    for standard input, a directory or a quoted pattern.

    Writes CSV with a header, one line per row, in order: the label, and for the logistic loss and the softmax the
    probability of the positive label (with more than two classes, of each label), which the header names; or the
    predicted value, in the units of the target. Predictions from a released model cost no budget. Standard error
    reports how many cells are clipped, unknown or missing; this is about the rows of FILE.

    \b
    Examples:
        privol predict RUN new.csv
        privol predict RUN new.parquet --out predictions.csv
        zcat new.csv.gz | privol predict RUN - | head
    """
    from ..state import load_learner, read_record

    has_model(run)
    learner, record = load_learner(run), read_record(run)
    stream, cut = open_for_model(file, run, record, options), _cut_of(learner, record)
    if out is None:
        text = io.StringIO()
        for _ in _predictions(learner, stream, text, cut):
            with printing():
                click.echo(text.getvalue(), nl=False)
            text.seek(0)
            text.truncate()
        if not as_json:
            _say_cells(stream)
        return
    rows = _write(learner, stream, Path(out), cut)
    with printing():
        if as_json:
            cells = {} if stream.cells is None else {"cells": {"rows": stream.cell_rows, "columns": stream.cells}}
            click.echo(json.dumps({"rows": rows, **cells}))
            return
        click.echo(f"{rows:,} rows predicted to {out}", err=True)
    _say_cells(stream)


def _say_cells(stream: Any) -> None:
    """Say which cells the model's schema cannot use unchanged: it knows less of these rows than it might seem."""
    from ..tables import cells_note

    if stream.cells:
        with printing():
            click.echo(cells_note({"rows": stream.cell_rows, "columns": stream.cells}), err=True)


def has_model(run: str) -> None:
    """Say why a run has no model, if it has none."""
    folder = Path(run)
    if (folder / "model.json").exists():
        return
    try:
        record = read_run(folder)
        status, rows = record["status"], record["rows"]
    except (OSError, KeyError):
        return  # not a run at all: reported when its model is requested
    if type(status) is not str or type(rows) is not int:
        raise StateError(
            f"{folder / 'run.json'}: found the status {shown(status)} and rows {shown(rows)}, allowed are a word and "
            "an integer"
        )
    if status == "failed":
        raise StateError(f"{folder}: the run has no model, because its fit failed, and released nothing")
    how = "it was interrupted" if status in ("interrupted", "ended") else "its rows ended"
    when = f"{how} after row {rows:,}"
    raise StateError(f"{folder}: the run has no model, because {when}, before its first release")


def _write(learner: Any, stream: Any, target: Path, cut: float) -> int:
    """Write the predictions completely or not at all."""
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(draft, "x", encoding="utf-8", newline="") as file:
            rows = sum(_predictions(learner, stream, file, cut))
        os.replace(draft, target)
    except BaseException as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise
    return rows


def _cut_of(learner: Any, record: dict[str, Any]) -> float:
    """How long the gradients of the run's rows could be: the probabilities for a score depend on it."""
    from ..explaining import cut_of
    from ..streams import Schema

    schema = (record["inputs"] or {}).get("schema")
    if schema is None or not hasattr(learner, "classes_"):
        return math.inf
    return cut_of(learner, Schema.from_record(schema), learner.n_features_in_, len(learner.classes_))


def _predictions(learner: Any, stream: Any, file: IO[str], cut: float) -> Iterator[int]:
    """Write block by block; yield the number of rows of each."""
    from .._core._rows import squared_norms
    from ..explaining import probabilities
    from ..losses import get_loss

    likely = get_loss(learner.loss).log_odds
    scaled = stream.schema is not None and stream.schema.target is not None
    in_units = scaled and not hasattr(learner, "classes_")
    writer = csv.writer(file, lineterminator="\n")
    several = likely and len(learner.classes_) > 2
    named = learner.classes_.tolist()[0 if several else 1 :] if likely else []
    writer.writerow(["prediction", *(f"probability of {label}" for label in named)])
    for block in stream:
        with naming_rows(stream, learning=False):
            squared_norms(block.X, learnt=block.first_row - 1, refuse=True)
        n = block.X.shape[0]
        try:
            predicted = learner.predict(block.X)
            shares = probabilities(learner, block.X, cut)[:, 0 if several else 1 :] if likely else None
        except ValueError as error:  # scikit-learn's checks quote rows
            last = block.first_row + n - 1
            raise StreamError(f"{stream.source}, rows {block.first_row} to {last}: do not fit the model") from error
        if in_units:
            predicted = stream.schema.unscale(predicted)
        if shares is not None:
            both = zip(predicted.tolist(), np.asarray(shares).tolist(), strict=True)
            writer.writerows([label, *row] for label, row in both)
        else:
            writer.writerows([label] for label in predicted.tolist())
        yield n
