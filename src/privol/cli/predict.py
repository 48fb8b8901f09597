"""``privol predict``: a saved model on new rows."""

from __future__ import annotations

import csv
import io
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import click
import numpy as np

from .options import TargetType
from .streams import open_for_model

__all__ = ["predict"]


@click.command()
@click.argument("run")
@click.argument("file")
@click.option("--out", metavar="PRED.csv", help="File to write.  [default: standard output]")
@click.option(
    "--target",
    type=TargetType(),
    metavar="COLUMN",
    help="Column to leave out.  [default: the run's target column, if FILE has one column more than the model]",
)
@click.option("--header/--no-header", default=None, help="Whether the first line of a CSV names the columns.")
@click.option(
    "--format", "format", type=click.Choice(["csv", "libsvm", "npy", "npz"]), help="Overrules the file's look."
)
@click.option("--sep", help="The character that separates CSV columns.  [default: as in the run]")
@click.option("--json", "as_json", is_flag=True, help="Report errors, and the number of rows with --out, as JSON.")
def predict(run: str, file: str, out: str | None, as_json: bool, **options: Any) -> None:
    """Predict the rows of FILE with the released model of RUN.

    Rows are scaled as the run's rows were. Writes CSV with a header: the label, and for the logistic loss the
    probability of the positive label; or the predicted value. One line per row, in order. Predictions from a released
    model cost no budget.

    \b
    Examples:
        privol predict RUN new.csv
        privol predict RUN new.csv --out predictions.csv
    """
    from ..state import load_model, read_record

    learner = load_model(run)
    stream = open_for_model(file, read_record(run), options)
    if out is None:
        text = io.StringIO()
        for _ in _predictions(learner, stream, text):
            click.echo(text.getvalue(), nl=False)
            text.seek(0)
            text.truncate()
        return
    rows = _write(learner, stream, Path(out))
    click.echo(f'{{"rows": {rows}}}' if as_json else f"{rows:,} rows predicted to {out}", err=not as_json)


def _write(learner: Any, stream: Any, target: Path) -> int:
    """Write the predictions whole or not at all."""
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(draft, "x", encoding="utf-8", newline="") as file:
            rows = sum(_predictions(learner, stream, file))
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return rows


def _predictions(learner: Any, stream: Any, file: IO[str]) -> Iterator[int]:
    """Write block after block; yield the number of rows of each."""
    from .._core._rows import squared_norms
    from ..losses import get_loss

    logistic = get_loss(learner.loss).name == "logistic"
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["prediction", "probability"] if logistic else ["prediction"])
    for block in stream:
        squared_norms(block.X, learnt=block.first_row - 1, refuse=True)
        labels = learner.predict(block.X).tolist()
        if logistic:
            positive = learner.predict_proba(block.X)[:, 1]
            writer.writerows(zip(labels, np.asarray(positive).tolist(), strict=True))
        else:
            writer.writerows([label] for label in labels)
        yield block.X.shape[0]
