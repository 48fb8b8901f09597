"""From options to streams: the rows to learn from, and how to read rows again for a saved model."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..errors import InvalidParameter, StreamError
from ..readers.formats import FORMATS, by_name
from .option_types import SeparatorType, TargetType

__all__ = [
    "FILE_OPTIONS",
    "base_option",
    "file_options",
    "flag_of",
    "open_for_model",
    "open_for_run",
    "parts_for_run",
    "rows_that_taught",
    "stream_options",
    "unread_pipe",
    "width_of_schema",
]

_STDIN = "-"

#: What a schema states and where, by the parameter that states it otherwise.
_IN_SCHEMA = {
    "target": "the target's column is stated in the schema: column under [target]",
    "classes": "the labels are stated in the schema: negative and positive under [target]",
    "positive": 'the labels are stated in the schema: positive and rest = "negative" under [target]',
    "ranges": "the ranges are stated in the schema: range under [columns.NAME]",
    "header": "whether the file's first line names the columns is stated in the schema: header under [file]",
    "sep": "the file's separator is stated in the schema: sep under [file]",
    "encoding": "the file's encoding is stated in the schema: encoding under [file]",
    "columns": "the names of the columns are stated in the schema: names under [file]",
}
FILE_OPTIONS = "header sep encoding format"

base_option = click.option(
    "--zero-based/--one-based",
    "zero_based",
    default=None,
    help="Whether the first index of a libsvm file is 0 or 1.  [default: 1, or 0 if index 0 occurs]",
)


def file_options(command: Any) -> Any:
    """Decorate a command with the options that say how a file is written."""
    for option in reversed(
        (
            click.option(
                "--header/--no-header",
                default=None,
                help="Whether the first line of a CSV names the columns.  [default: detected]",
            ),
            click.option(
                "--sep",
                type=SeparatorType(),
                help="The character that separates CSV columns, or the word tab.  [default: detected]",
            ),
            click.option(
                "--encoding", metavar="CODEC", help="Encoding of a CSV: utf-8, latin-1, cp1252, ...  [default: utf-8]"
            ),
            click.option(
                "--format",
                "format",
                type=click.Choice(list(FORMATS)),
                help="Format of FILE.  [default: detected from its first bytes, its name and its content]",
            ),
        )
    ):
        command = option(command)
    return command


def stream_options(command: Any) -> Any:
    """Decorate a command with the options that say what the columns of a file mean, and how it is written."""
    command = file_options(command)
    for option in reversed(
        (
            click.option(
                "--schema",
                metavar="S.toml",
                help="What is public about the columns: ranges, levels, target, user. Replaces all other options about "
                "the columns and about how FILE is written, except --format. privol info FILE drafts one.",
            ),
            click.option(
                "--target",
                type=TargetType(),
                metavar="COLUMN",
                help="Column of the target: its name, or its 0-based number.  [default: the last column]",
            ),
            click.option(
                "--classes",
                metavar="A,B",
                help="The public labels, the negative one first; or more than two. Any other label is an error.",
            ),
            click.option(
                "--positive",
                metavar="V",
                help="Learn this label against all others. With --classes it must be one of them; without, a misspelt "
                "V goes unnoticed.",
            ),
            click.option(
                "--ranges",
                metavar="R.json",
                help='JSON file of public ranges, {"column": [low, high]}: each is mapped to [-1, 1]. '
                "Never compute them from the data.",
            ),
            click.option("--n-features", type=int, help="Width of a libsvm file, where it is public."),
            click.option("--columns", metavar="A,B,...", help="Names of the columns of a CSV without header."),
            base_option,
        )
    ):
        command = option(command)
    return command


def unread_pipe() -> bool:
    """Whether something is piped in that is not read, because FILE is not -."""
    try:
        return stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode)
    except (AttributeError, OSError, ValueError):  # there is no standard input, or it is not a file
        return False


def open_for_run(
    file: str | None,
    options: dict[str, Any],
    diagnostics: bool,
    *,
    encoder: Any = None,
    kept: Mapping[str, Any] | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Open the rows to learn, and describe publicly how they are read (for ``predict``).

    With ``diagnostics`` the stream counts the cells that the schema, if there is one, does not take as they are.
    ``encoder`` learns the schema from the first rows; ``kept``: the description of a run whose schema was learnt so.
    """
    from ..data import covtype_path, covtype_ranges, open_covtype
    from ..streams import open_stream

    stream: Any
    words = ("schema", *_IN_SCHEMA, "format", "n_features", "zero_based")
    given = {word: options.pop(word) for word in words}
    named = [word for word in words if given[word] is not None]
    if given["columns"] is not None:
        given["columns"] = [word.strip() for word in given["columns"].split(",")]
    if kept is not None:
        stream = _behind(file, given, kept["schema"], kept["first_row"], count_cells=diagnostics)
        return stream, {**_inputs(stream, given, None), "first_row": stream.first_row}
    classes = None if given["classes"] is None else [word.strip() for word in given["classes"].split(",")]
    if file is None:
        others = [word for word in named if word != "classes"]
        if others:
            raise click.UsageError(f"{flag_of(others[0])} needs a FILE")
        if encoder is not None:
            table: dict[str, Any] = {"target": "Cover_Type", "sep": ",", "header": True, "classes": classes}
            table["positive"] = 2 if classes is None else None
            stream = open_stream(covtype_path(), **table, schema=encoder, count_cells=diagnostics)
            return stream, {**_inputs(stream, {**given, **table}, None), "first_row": stream.first_row}
        stream = open_covtype(classes=classes)
        return stream, _inputs(stream, {**given, "target": "Cover_Type", "sep": ","}, covtype_ranges())
    if given["schema"] is not None and encoder is None:
        for word in named:
            if word in _IN_SCHEMA:
                raise click.UsageError(
                    f"--schema and {flag_of(word)} exclude each other: with --schema {_IN_SCHEMA[word]}; where it "
                    "leaves something to be learnt, --learn-schema takes both"
                )
    if encoder is not None:
        stream = open_stream(file, **{**given, "schema": encoder, "classes": classes}, count_cells=diagnostics)
        return stream, {**_inputs(stream, given, None), "first_row": stream.first_row}
    counted = diagnostics and given["schema"] is not None
    stream = open_stream(file, **{**given, "classes": classes}, count_cells=counted)
    ranges = None if given["ranges"] is None else _load_ranges(given["ranges"])
    return stream, _inputs(stream, given, ranges)


def parts_for_run(file: str, options: Mapping[str, Any]) -> list[Any]:
    """Return the files of FILE, which are on the disk, as parts: opened as :func:`open_for_run` opens all of them."""
    from ..distributed import file_parts
    from ..readers.places import Folder, place_of
    from ..streams import format_of

    words = ("schema", *_IN_SCHEMA, "format", "n_features", "zero_based")
    given = {word: options[word] for word in words if options[word] is not None}
    for word in ("columns", "classes"):
        if word in given:
            given[word] = [each.strip() for each in given[word].split(",")]
    found = place_of(file)
    places = found.places if isinstance(found, Folder) else [found]
    paths = [place.path("--workers") for place in places]
    if "zero_based" not in given and "libsvm" in (options["format"], format_of(str(paths[0])).name):
        raise click.UsageError("--workers need --zero-based or --one-based: each file alone may not tell which it is")
    return list(file_parts(paths, **given))


def _behind(file: str | None, given: Mapping[str, Any], schema: Any, first_row: int, **how: Any) -> Any:
    """Open rows, from a given one on, by a schema that the first ones taught."""
    from ..data import covtype_path
    from ..streams import open_stream

    known: dict[str, Any] = {"schema": schema, "first_row": first_row, "format": given["format"]}
    if "rows" in schema:
        classes = None if given["classes"] is None else [word.strip() for word in given["classes"].split(",")]
        known |= {"classes": classes, "positive": given["positive"], "zero_based": given["zero_based"]}
    return open_stream(covtype_path() if file is None else file, **known, **how)


def rows_that_taught(
    file: str | None, given: Mapping[str, Any], inputs: Mapping[str, Any], key: bytes
) -> Iterator[Any]:
    """Yield the rows that taught a schema, block by block, as it encodes them; the input is read once more.

    Parameters
    ----------
    file : path or None
    given : mapping
        Options of the command.
    inputs : mapping
        Of :func:`open_for_run`.
    key : bytes of length 16
        By a hash of it they say whose they are, where a cap counts them.
    """
    stream = _behind(file, given, inputs["schema"], 1, last_row=inputs["first_row"] - 1)
    stream.go_on(key)
    yield from stream


def flag_of(word: str) -> str:
    return f"--{word.replace('_', '-')}"


def _load_ranges(path: str) -> dict[str, Any]:
    import json

    found: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))  # open_stream has read it already
    return found


def _inputs(stream: Any, given: Mapping[str, Any], ranges: Mapping[str, Any] | None) -> dict[str, Any]:
    names = None if stream.feature_names is None else list(stream.feature_names)
    pairs: list[Any] | None = None
    if ranges is not None:
        pairs = [None] * stream.n_features
        for key, pair in ranges.items():
            at = int(key) if names is None else names.index(key.strip())
            pairs[at] = None if pair is None else [float(v) for v in pair]
    return {
        "feature_names": names,
        "target": given["target"],
        "ranges": pairs,
        "sep": given["sep"],
        "encoding": given["encoding"],
        "zero_based": given["zero_based"],
        "schema": None if stream.schema is None else stream.schema.to_record(),
    }


def width_of_schema(path: str) -> tuple[int, float | None, Any]:
    """Return how many features rows of a schema have, their largest norm, and the schema."""
    from ..streams import Schema, open_stream

    schema = Schema.load(path)
    if schema.others == "number":
        raise InvalidParameter(f'{path}: others = "number" leaves the features to the file: state --n-features')
    names = [name for name, _ in schema.columns]
    if not names:
        raise InvalidParameter(f"{path}: names no column")
    stream = open_stream([dict.fromkeys(names)], schema=schema, target=False)
    return stream.n_features, stream.row_bound, schema


# ---- rows for a saved model ---------------------------------------------------------------------------------


def open_for_model(file: str, run: str, record: dict[str, Any], options: dict[str, Any]) -> Any:
    """Open rows to predict, encoded like the model's rows; a target column is recognised and ignored."""
    inputs = record["inputs"] or {}
    if inputs.get("schema") is not None:
        if "rows" in inputs["schema"]:
            return _open_frequent(file, run, record, inputs, options)
        return _open_by_schema(file, run, inputs["schema"], options)
    return _open_by_columns(file, run, record, inputs, options)


def _open_by_schema(file: str, run: str, record: Mapping[str, Any], options: dict[str, Any]) -> Any:
    from ..streams import Schema, open_stream

    if options["zero_based"] is not None:
        raise click.UsageError("--zero-based applies to libsvm, which has no schema, and the run has one")
    if options["target"] is not None:
        raise click.UsageError("--target is not needed here: the run's schema says which column is the target")
    schema = Schema.from_record(record)
    written = schema.file
    written.update({word: options[word] for word in ("header", "sep", "encoding") if options[word] is not None})
    if options["header"]:
        written.pop("names", None)
    stated = written.pop("format", None)
    if options["format"] is None and stated is not None and by_name(file) in (None, FORMATS[stated]):
        written["format"] = stated  # rows in another format than the run's are recognised by name or content
    # columns that the model never saw do not affect its predictions
    others = "drop" if schema.others == "refuse" else schema.others
    schema = replace(schema, file_options=tuple(written.items()), others=others, name=f"the schema of {Path(run)}")
    return open_stream(file, schema=schema, target=False, format=options["format"], count_cells=True)


def _open_frequent(
    file: str, run: str, record: Mapping[str, Any], inputs: Mapping[str, Any], options: dict[str, Any]
) -> Any:
    from ..streams import Schema, open_stream

    for word in ("target", "header", "sep", "encoding"):
        if options[word] is not None:
            raise click.UsageError(f"--{word} applies to columns, and the run's rows have none")
    schema = replace(Schema.from_record(inputs["schema"]), name=f"the schema of {Path(run)}")
    labels = {} if record["classes"] is None else {"positive": record["classes"]["values"][1]}
    zero_based = inputs.get("zero_based") if options["zero_based"] is None else options["zero_based"]
    return open_stream(file, schema=schema, format=options["format"], zero_based=zero_based, **labels)


def _open_by_columns(
    file: str, run: str, record: dict[str, Any], inputs: Mapping[str, Any], options: dict[str, Any]
) -> Any:
    from ..streams import open_stream

    n, classes, ranges = record["n_features"], record["classes"], inputs.get("ranges")
    known: Any = inputs.get("feature_names")
    labels = {} if classes is None else {"positive": classes["values"][1]}
    plain = {word: options[word] for word in ("header", "format")}
    # as in the run, whose rows may have had such a format too
    for kind in FORMATS.values():
        fits = by_name(file) in (None, kind) and options["format"] in (None, kind.name)
        for word in kind.options:
            plain[word] = inputs.get(word) if fits and options[word] is None else options[word]
    own_target = {"target": None, "n_features": n, **labels}
    if options["target"] is not None:
        tries: list[dict[str, Any]] = [{"target": options["target"], **labels}]
    elif options["format"] is not None and FORMATS[options["format"]].own_target:
        tries = [own_target]
    else:
        tries = [{"target": False}, {"target": inputs.get("target"), **labels}]
    if file == _STDIN:
        tries = tries[:1]  # it cannot be opened twice
    found = None
    for wanted in tries:
        given: dict[str, Any] = {**plain, **wanted}
        try:
            stream = open_stream(file, **given, ranges=ranges if file == _STDIN else None)
        except StreamError:
            if found is None:
                raise
            break  # no such target here: the first attempt says what is wrong
        except InvalidParameter as error:
            if file == _STDIN:
                raise StreamError(
                    f"{error} (standard input is read only once: --format libsvm says that each row has its label, "
                    "--target COLUMN leaves a column out)"
                ) from error
            if given["target"] is not False:
                raise
            given = {**_without_csv(plain), **own_target}
            stream = open_stream(file, **given)
        if file != _STDIN and _among(known, stream.feature_names):
            return _open_by_names(file, run, known, ranges, plain)
        if stream.n_features == n:
            _same_names(stream, known)
            return stream if ranges is None or file == _STDIN else open_stream(file, **given, ranges=ranges)
        found = stream if found is None else found
    assert found is not None
    names = found.feature_names
    absent = [] if known is None or names is None else [name for name in known if name not in names]
    more = f", and there is no {', '.join(map(repr, absent[:5]))} here" if absent else ""
    helps = "one column is left out with --target"
    if file == _STDIN:
        helps += "; of a file, not of standard input, the model's columns are taken by their names"
    raise StreamError(f"{found.source}: found {found.n_features} feature(s), the model has {n}{more} ({helps})")


def _among(known: list[str] | None, names: tuple[str, ...] | None) -> bool:
    """Whether the model's columns are all here, among others or in another order."""
    return known is not None and names is not None and list(names) != known and set(known) <= set(names)


def _open_by_names(
    file: str, run: str, names: list[str], ranges: list[tuple[float, float] | None] | None, plain: Mapping[str, Any]
) -> Any:
    """Open the model's columns by their names; columns that it never saw do not affect its predictions."""
    from ..streams import Schema, open_stream

    pairs = [None] * len(names) if ranges is None else ranges
    columns = {name: {} if pair is None else {"range": pair} for name, pair in zip(names, pairs, strict=True)}
    written = {word: plain[word] for word in ("header", "sep", "encoding") if plain[word] is not None}
    schema = Schema.load({"columns": columns, "others": "drop", "file": written})
    schema = replace(schema, name=f"the model of {Path(run)}")
    return open_stream(file, schema=schema, target=False, format=plain["format"], count_cells=True)


def _without_csv(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {**plain, "sep": None, "encoding": None}


def _same_names(stream: Any, names: list[str] | None) -> None:
    found = stream.feature_names
    if names is not None and found is not None and list(found) != names:
        wrong = next(i for i, (a, b) in enumerate(zip(found, names, strict=True)) if a != b)
        raise StreamError(f"{stream.source}: feature {wrong} is {found[wrong]!r}, the model's is {names[wrong]!r}")
