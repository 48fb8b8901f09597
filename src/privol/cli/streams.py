"""From options to streams: what to learn from, and how to read rows again for a saved model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ..errors import InvalidParameter, StreamError
from .options import TargetType

__all__ = ["open_for_model", "open_for_run", "stream_options"]


def stream_options(command: Any) -> Any:
    """Decorate a command with the options that say how to read a file."""
    for option in reversed(
        (
            click.option(
                "--target",
                type=TargetType(),
                metavar="COLUMN",
                help="Column of the target: its name, or its 0-based number.  [default: the last column]",
            ),
            click.option(
                "--classes",
                metavar="A,B",
                help="The public label set, negative first. A label outside it is an error.",
            ),
            click.option("--positive", metavar="V", help="This label against all the rest."),
            click.option(
                "--ranges",
                type=click.Path(),
                help='JSON file of public ranges, {"column": [low, high]}: each is mapped to [-1, 1]. '
                "Never compute them from the data.",
            ),
            click.option(
                "--header/--no-header", default=None, help="Whether the first line of a CSV names the columns."
            ),
            click.option(
                "--format",
                "format",
                type=click.Choice(["csv", "libsvm", "npy", "npz"]),
                help="Overrules the file's name and look.",
            ),
            click.option("--sep", default=",", show_default=True, help="The character that separates CSV columns."),
            click.option("--n-features", type=int, help="Width of a libsvm file, where it is public."),
        )
    ):
        command = option(command)
    return command


def open_for_run(file: str | None, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Open the rows to learn, and describe publicly how they are read (for ``predict``)."""
    from ..data import covtype_ranges, open_covtype
    from ..streams import open_stream

    words = ("target", "classes", "positive", "ranges", "header", "format", "sep", "n_features")
    given = {word: options.pop(word) for word in words}
    if file is None:
        wrong = [w for w in words if given[w] is not None and not (w == "sep" and given[w] == ",")]
        if wrong:
            raise click.UsageError(f"--{wrong[0].replace('_', '-')} is about a FILE, and none is given")
        stream: Any = open_covtype()
        return stream, _inputs(stream, "Cover_Type", covtype_ranges(), ",")
    classes = None if given["classes"] is None else [word.strip() for word in given["classes"].split(",")]
    ranges = given["ranges"]
    stream = open_stream(file, **{**given, "classes": classes})
    return stream, _inputs(stream, given["target"], None if ranges is None else _load_ranges(ranges), given["sep"])


def _load_ranges(path: str) -> dict[str, Any]:
    import json
    from pathlib import Path

    found: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))  # open_stream has read it already
    return found


def _inputs(stream: Any, target: Any, ranges: Mapping[str, Any] | None, sep: str) -> dict[str, Any]:
    names = None if stream.feature_names is None else list(stream.feature_names)
    pairs: list[Any] | None = None
    if ranges is not None:
        pairs = [None] * stream.n_features
        for key, pair in ranges.items():
            at = int(key) if names is None else names.index(key.strip())
            pairs[at] = None if pair is None else [float(v) for v in pair]
    return {"feature_names": names, "target": target, "ranges": pairs, "sep": sep}


def open_for_model(file: str, record: dict[str, Any], options: dict[str, Any]) -> Any:
    """Open rows to be predicted, scaled as the model's rows were; a target column is recognised and left out."""
    from ..streams import open_stream

    inputs = record["inputs"] or {"feature_names": None, "target": None, "ranges": None, "sep": ","}
    header, format, target = options["header"], options["format"], options["target"]
    sep = options["sep"] or inputs["sep"]
    n = record["n_features"]
    classes = record["classes"]
    positive = None if classes is None else classes["values"][1]
    given: dict[str, Any] = {"header": header, "format": format, "sep": sep}
    if target is not None:
        given |= {"target": target, "positive": positive}
        stream = open_stream(file, **given)
    else:
        try:
            given["target"] = False
            stream = open_stream(file, **given)
        except InvalidParameter:  # a format whose rows always have a target
            given |= {"target": None, "positive": positive, "n_features": n}
            stream = open_stream(file, **given)
        if stream.n_features == n + 1:
            given |= {"target": inputs["target"], "positive": positive}
            stream = open_stream(file, **given)
    if stream.n_features != n:
        raise StreamError(
            f"{stream.source}: found {stream.n_features} feature(s), the model has {n} "
            "(a target column is left out with --target)"
        )
    names = inputs["feature_names"]
    if names is not None and stream.feature_names is not None and list(stream.feature_names) != names:
        wrong = next(i for i, (a, b) in enumerate(zip(stream.feature_names, names, strict=True)) if a != b)
        raise StreamError(
            f"{stream.source}: feature {wrong} is {stream.feature_names[wrong]!r}, the model's is {names[wrong]!r}"
        )
    return stream if inputs["ranges"] is None else open_stream(file, **given, ranges=inputs["ranges"])
