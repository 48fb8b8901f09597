"""``privol report``: a run as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from .outputs import printing

__all__ = ["report"]

_NAME = "report.html"


@click.command()
@click.argument("run")
@click.option("--out", metavar="FILE.html", help="File to write, replacing an old one.  [default: report.html in RUN]")
@click.option(
    "--public",
    is_flag=True,
    help="Leave out all that is NOT PRIVATE, so that the file may be published with the model.",
)
def report(run: str, out: str | None, public: bool) -> None:
    """Write a report of RUN into one HTML file.

    It needs no network and no script. It has the guarantee (in a sentence and in full), what was learnt, what the model
    makes of each column with bands of the noise, the budget over time, the quality of the run (marked NOT PRIVATE), a
    model card, configuration and environment.

    The file contains figures that are not private, so only you can read it. --public leaves these figures out.

    \b
    Examples:
        privol report RUN
        privol report RUN --public --out card.html
    """
    from .._files import write_atomically
    from .page_of_run import page_of

    path = Path(run)
    target = path / _NAME if out is None else Path(out)
    if target.suffix not in (".html", ".htm"):
        raise click.UsageError(f"--out writes .html, found {out}")
    text, publishable = page_of(path, public=public)
    write_atomically(target, text.encode(), mode=0o666 if publishable else 0o600)
    with printing():
        said = "" if publishable else " (NOT PRIVATE: for your own eyes; --public leaves out what is not)"
        click.echo(f"{target}{said}")
