"""``privol explain``: a released model by columns, and how much of it may be noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .outputs import printing
from .predict import has_model

__all__ = ["explain"]


@click.command()
@click.argument("run")
@click.option("--column", metavar="NAME", help="Show the shape of this column, or cross, instead of all columns.")
@click.option(
    "--plot", metavar="FILE.png", help="Draw the shapes into this file (png, svg, pdf), replacing an old one."
)
@click.option(
    "--names",
    metavar="COLUMN=A,B,...",
    multiple=True,
    help="Public values of a column of categories, of which a learnt encoding keeps hashes alone; may be given several "
    "times. Never read them off the rows.",
)
@click.option("--coverage", type=float, default=0.95, show_default=True, help="Coverage of the bands.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def explain(
    run: str, column: str | None, plot: str | None, names: tuple[str, ...], coverage: float, as_json: bool
) -> None:
    """Explain what the released model of RUN makes of each column.

    Shows how much each column contributes to the score, how much noise alone would contribute, and whether the
    contribution may be noise. With --column it shows the shape of one column, with a band for the noise of privacy.
    This is post-processing of the released model, its schema and noise scales, which are public: no row is read, and it
    costs no budget.

    \b
    Examples:
        privol explain RUN
        privol explain RUN --column age
        privol explain RUN --column work --names work=Private,State-gov,Local-gov
        privol explain RUN --plot shapes.png
    """
    from ..explaining import explain as make
    from ..state import load_learner, read_record
    from ..streams import Schema

    has_model(run)
    known = dict(_names_of(given) for given in names)
    learner, inputs = load_learner(run), read_record(run)["inputs"] or {}
    words: dict[str, Any] = {"features": inputs.get("feature_names"), "ranges": inputs.get("ranges")}
    schema = None
    if inputs.get("schema") is not None:
        schema, words = Schema.from_record(inputs["schema"]), {"names": known}
    elif known:
        raise click.UsageError("--names applies to columns of categories, and the run has no schema")
    found = make(learner, schema, coverage=coverage, **words)
    text = found.text(column)  # also if it is not printed: the column may not exist
    if plot is not None:
        target = Path(plot)
        if target.suffix not in (".png", ".svg", ".pdf"):
            raise click.UsageError(f"--plot writes .png, .svg or .pdf, found {plot}")
        found.plot(column).savefig(target, dpi=110)
    with printing():
        click.echo(found.to_json() if as_json else text)
        if plot is not None and not as_json:
            click.echo(f"\ndrawn to {plot}")


def _names_of(given: str) -> tuple[str, list[str]]:
    column, equals, values = given.partition("=")
    if not equals:
        raise click.UsageError(f"--names needs COLUMN=A,B,..., found {given!r}")
    return column, [value.strip() for value in values.split(",")]
