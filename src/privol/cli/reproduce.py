"""``privol reproduce``: tables and figures of the source papers, measured again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .outputs import printing

if TYPE_CHECKING:
    from ..reproduce import Figure, Result

__all__ = ["reproduce"]

RESULTS, INDEX = "results.json", "index.md"
#: Of a result, in the index.
_SHOWN = {"name": str, "file": str, "what": str, "quick": bool, "verdict": str, "how": str, "why": str}


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--list", "listing", is_flag=True, help="List the figures, what they need, and how long they take.")
@click.option(
    "--out", default="privol-reproduce", show_default=True, metavar="FOLDER", help="Where the results are written."
)
@click.option("--data", metavar="FOLDER", help="Where the data sets are, as downloaded, perhaps compressed.")
@click.option("--quick", is_flag=True, help="A small size of each, without data sets: compared with nothing.")
@click.option("--runs", type=click.IntRange(min=2), help="Repetitions with noise of their own.  [default: by figure]")
@click.option("--skip-missing", is_flag=True, help="Leave out the figures whose data sets are not there.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="Print no progress.")
def reproduce(
    names: tuple[str, ...],
    listing: bool,
    out: str,
    data: str | None,
    quick: bool,
    runs: int | None,
    skip_missing: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Measure figures and tables of the papers again. NOT PRIVATE.

    NAME is a figure by the paper's own number ("jain2012 fig. 2a", or jain2012-fig-2a), a paper (jain2012), or all.
    The verdict of each: "agrees" if every number of the paper is met within the stated tolerance and every
    statement holds; "differs" with what differs and why; "not compared" for a small size (--quick).

    \b
    Writes into FOLDER, and nowhere else, and keeps other files there:
        NAME.md, NAME.json, NAME.png    tables, results, and the picture
        NAME-quick.*                    the same at a small size
        index.md, results.json          all results in the folder

    \b
    Examples:
        privol reproduce --list
        privol reproduce "zhang2018 fig. 3"
        privol reproduce all --quick
        privol reproduce all --data DATA --skip-missing
    """
    from ..errors import StreamError
    from ..plots import plot_panels
    from ..reproduce import FIGURES, find, missing_files, where_to_get
    from ..reproduce import reproduce as measure
    from .app import OK

    if listing:
        with printing():
            _list(find(names) if names else list(FIGURES), as_json)
        return OK
    if not names:
        raise click.UsageError("NAME is missing: a figure, a paper, or all (privol reproduce --list)")
    figures = find(names)
    folder = None if data is None else Path(data)
    missing = {} if quick else missing_files(figures, folder)
    left_out = {name for users in missing.values() for name in users}
    if missing and not (skip_missing and len(left_out) < len(figures)):
        raise StreamError(
            f"{where_to_get(missing, folder)}. --skip-missing leaves out what needs them; --quick needs none"
        )
    place = Path(out)
    place.mkdir(parents=True, exist_ok=True)
    _write_index(place)  # fails before any measurement if nothing can be written
    results = []
    for figure in figures:
        if figure.name in left_out:
            continue
        if not quiet:
            click.echo(f"{figure.name}: {'a small size' if quick else figure.size}", err=True)
        say = (lambda _: None) if quiet else (lambda line: click.echo(f"  {line}", err=True))
        result = measure(figure, data=folder, runs=runs, quick=quick, say=say)
        picture = plot_panels(result.measured.panels) if result.measured.panels else None
        _write(place, result, picture)
        results.append(result)
        if not as_json:
            with printing(f"; the results are in {place}"):
                click.echo(f"{figure.name}: {result.verdict} ({result.how})")
                for check in result.measured.checks if len(figures) == 1 else ():
                    paper = "" if check.source is None else f", paper {check.source:g}"
                    verdict = "agrees" if check.agrees else "differs"
                    click.echo(f"  {verdict}  {check.what}: {check.measured}{paper}")
    if as_json:
        with printing(f"; the results are in {place}"):
            click.echo(json.dumps(_report(results, left_out, place), allow_nan=False))
    else:
        with printing():
            for name, users in missing.items():
                click.echo(f"left out without {name}: {', '.join(users)}")
            pages = f"{results[0].file}.md" if len(results) == 1 else f"the pages of {len(results)} figures"
            click.echo(f"Written to {place}: {pages}, {INDEX}, {RESULTS}. Not private.")
    return OK


def _report(results: list[Result], left_out: set[str], place: Path) -> dict[str, Any]:
    return {
        "private": False,
        "out": str(place),
        "left_out": sorted(left_out),
        "results": [result.to_record() for result in results],
    }


def _list(figures: list[Figure], as_json: bool) -> None:
    from ..reproduce import PAPERS

    if as_json:
        records = [
            {"name": f.name, "paper": PAPERS[f.paper], "what": f.what, "size": f.size, "runs": f.runs,
             "minutes": f.minutes, "files": list(f.files)}
            for f in figures
        ]  # fmt: skip
        click.echo(json.dumps({"figures": records}))
        return
    for key, paper in PAPERS.items():
        own = [figure for figure in figures if figure.paper == key]
        if not own:
            continue
        click.echo(f"{paper}")
        for figure in own:
            needs = f"; needs {', '.join(figure.files)}" if figure.files else ""
            click.echo(f"  {figure.name}")
            click.echo(f"      {figure.what} ({figure.minutes:g} min{needs})")


def _write(place: Path, result: Result, picture: bytes | None) -> None:
    """Write one result, then the index of all results in the folder."""
    from .._files import write_atomically

    image = None if picture is None else f"{result.file}.png"
    if picture is not None:
        write_atomically(place / f"{result.file}.png", picture)
    write_atomically(place / f"{result.file}.md", result.to_markdown(image).encode())
    write_atomically(place / f"{result.file}.json", _dumped(result.to_record()))
    _write_index(place)


def _write_index(place: Path) -> None:
    from .._files import write_atomically

    records = _records(place)
    write_atomically(place / RESULTS, _dumped({"private": False, "results": records}))
    write_atomically(place / INDEX, _index(records).encode())


def _dumped(record: dict[str, Any]) -> bytes:
    return (json.dumps(record, indent=1, allow_nan=False) + "\n").encode()


def _records(place: Path) -> list[dict[str, Any]]:
    """Read the results in a folder, in the registry's order."""
    from ..errors import StreamError
    from ..reproduce import FIGURES

    records = []
    for path in (place / f"{figure.slug}{end}.json" for figure in FIGURES for end in ("", "-quick")):
        if not path.is_file():
            continue
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise StreamError(f"{path} is no result of privol reproduce ({error}): choose another --out") from error
        if not isinstance(record, dict) or not all(isinstance(record.get(name), kind) for name, kind in _SHOWN.items()):
            raise StreamError(f"{path} is no result of privol reproduce: choose another --out")
        records.append(record)
    return records


def _index(records: list[dict[str, Any]]) -> str:
    from ..reproduce import index_table

    lines = ["# Figures of the source papers, measured again", "", "Not private.", ""]
    return "\n".join([*lines, *index_table(records, links=True)])
