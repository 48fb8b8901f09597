"""The data of an arena: tables, the user's files, synthetic streams, and the rows of each, cut once for all."""

from __future__ import annotations

import csv
import hashlib
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._validate import choice
from ..data import covtype_path
from ..errors import InvalidParameter, StreamError
from ..readers.files import LineFile
from .synthetic import GENERATORS, Cells, generate

__all__ = ["EMBEDDED", "ORDERS", "SEEN", "SEEN_OF_RIVER", "Prepared", "Spec", "load_specs", "named", "prepare"]

ORDERS = "file", "shuffled"
_MANY_VALUES = 100  # a numeric target with more distinct values is real
_FEWEST_ROWS = 200


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A stream by name.

    Attributes
    ----------
    name : str
    file : str or None
        A table in text, perhaps compressed. None: synthetic, by :data:`privol.arena.synthetic.GENERATORS`.
    generator : str or None
    target : str, int or None
        Column of the target: its name or its 0-based number, negative from the end. None: the last.
    columns : tuple of str or None
        Names of the columns of a file that has no header.
    header : bool or None
        Whether the first line names the columns. None: it does if ``target`` is a name and ``columns`` are not given.
    sep : str
        What separates the columns.
    order : {"file", "shuffled"}
        The rows as they come, or in a random order that depends on the seed.
    regression : bool or None
        Whether the target is a real number. None: it is if it has more than a hundred values, all of them numbers.
    schema : str or None
        A schema that is declared; nothing is learnt of the columns then.
    seen : str
        What of privol's defaults was chosen with these rows in view; empty: nothing.
    """

    name: str
    file: str | None = None
    generator: str | None = None
    target: str | int | None = None
    columns: tuple[str, ...] | None = None
    header: bool | None = None
    sep: str = ","
    order: str = "file"
    regression: bool | None = None
    schema: str | None = None
    seen: str = ""

    def __post_init__(self) -> None:
        choice(ORDERS, order=self.order)
        if (self.file is None) == (self.generator is None):
            raise InvalidParameter(f"stream {self.name!r} must have a file or a generator, and not both")
        if self.generator is not None:
            choice(GENERATORS, generator=self.generator)
        if len(self.sep) != 1:
            raise InvalidParameter(f"stream {self.name!r}: sep must be one character, found {self.sep!r}")

    @property
    def varies(self) -> bool:
        """Whether the rows depend on the seed."""
        return self.generator is not None or self.order == "shuffled"


#: What was chosen with these tables in view (``docs/encoding.md``), and with some of River's generators at other seeds.
SEEN, SEEN_OF_RIVER = "many of its constants", "one constant"
#: The rows that come with privol.
EMBEDDED = Spec(name="embedded", file=str(covtype_path()), target="Cover_Type", seen=SEEN)
_TYPES: dict[str, Any] = {
    "name": str, "file": str, "generator": str, "target": (str, int), "columns": list, "header": bool, "sep": str,
    "order": str, "regression": bool, "schema": str, "seen": str,
}  # fmt: skip


def load_specs(path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> list[Spec]:
    """Read streams from a TOML file: a list ``[[stream]]`` of tables with the keys of :class:`Spec`.

    Parameters
    ----------
    path : path
    folder : path, optional
        Where its files are. Default: where the TOML file is.

    Raises
    ------
    StreamError
        If the file cannot be read or is not TOML.
    InvalidParameter
        If a key is unknown, or a value wrong.
    """
    path = Path(path)
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StreamError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise StreamError(f"{path.name}: is not TOML: {error}") from error
    tables = found.pop("stream", None)
    if found or not isinstance(tables, list) or not tables:
        raise InvalidParameter(f"{path.name}: must have [[stream]] and nothing else, found {sorted(found) or 'none'}")
    at = path.parent if folder is None else Path(folder)
    return [_spec(table, path.name, at) for table in tables]


def _spec(table: Any, source: str, folder: Path) -> Spec:
    if not isinstance(table, Mapping) or "name" not in table:
        raise InvalidParameter(f"{source}: each [[stream]] must have a name")
    words = dict(table)
    for key, value in words.items():
        if key not in _TYPES:
            raise InvalidParameter(f"{source}: stream {table['name']!r} has {key!r}, allowed are {', '.join(_TYPES)}")
        wrong = isinstance(value, bool) and _TYPES[key] is not bool
        if wrong or not isinstance(value, _TYPES[key]):
            raise InvalidParameter(
                f"{source}: stream {table['name']!r} has {key} = {value!r}, which is of a wrong type"
            )
    if "columns" in words:
        words["columns"] = tuple(map(str, words["columns"]))
    for key in ("file", "schema"):
        if key in words:
            words[key] = str(folder / words[key])
    return Spec(**words)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The rows of a stream, cut once for everyone, as two CSV files with a header.

    Attributes
    ----------
    name : str
    seed : int or None
        That the rows depend on.
    path, held_path : str
        Rows of the stream, and rows after its end, which are not learnt.
    target : str
    rows, held : int
    classes : tuple of str
        Labels in their order; empty: the target is a real number.
    schema : str or None
    digest : str
        Of both files.
    """

    name: str
    seed: int | None
    path: str
    held_path: str
    target: str
    rows: int
    held: int
    classes: tuple[str, ...]
    schema: str | None
    digest: str

    @property
    def teach(self) -> int:
        """Rows at the beginning that may teach an encoding; they are scored for no entrant."""
        return self.rows // 4

    @property
    def half(self) -> int:
        """First row of the second half."""
        return self.rows // 2

    @property
    def regression(self) -> bool:
        """Whether the target is a real number."""
        return not self.classes

    def to_record(self) -> dict[str, Any]:
        """Return what results must agree on, as JSON values."""
        facts = asdict(self)
        return {name: facts[name] for name in ("name", "seed", "target", "rows", "held", "digest")} | {
            "classes": list(self.classes)
        }


def prepare(spec: Spec, seed: int, rows: int | None, folder: Path) -> Prepared:
    """Write the rows of a stream into a folder: the first five sixths to be learnt, the last sixth held out.

    Parameters
    ----------
    spec : Spec
    seed : int
        Of the run; it matters where ``spec.varies``.
    rows : int or None
        At most this many, spread evenly over those of a file. None: all of a file, 50,000 of a generator.
    folder : Path

    Raises
    ------
    StreamError
        If the file cannot be read, a row has another number of cells than the first, the target is not there, or there
        are too few rows.
    """
    if spec.generator is not None:
        names, cells = generate(spec.generator, rows or 50_000, seed)
        target = names[-1]
    else:
        names, cells = _read(spec, seed, rows)
        target = _column(spec, names)
    n = len(cells)
    if n < _FEWEST_ROWS:
        raise StreamError(f"{spec.name}: has {n} rows, and an arena needs {_FEWEST_ROWS}")
    at, learnt = names.index(target), n - n // 6
    labels = {row[at] for row in cells}
    regression = _is_real(labels) if spec.regression is None else spec.regression
    if not regression and len(labels) < 2:
        raise StreamError(f"{spec.name}: the target {target!r} has one value only")
    if not regression and len(labels) > _MANY_VALUES:
        raise StreamError(
            f"{spec.name}: the target {target!r} has {len(labels)} labels, at most {_MANY_VALUES} are run"
        )
    tag = hashlib.sha256(spec.name.encode()).hexdigest()[:12] + (f"-{seed}" if spec.varies else "")
    digest = hashlib.sha256()
    paths = []
    for part, rest in (("stream", cells[:learnt]), ("held", cells[learnt:])):
        path = folder / f"{tag}-{part}.csv"
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(names)
            writer.writerows(rest)
        digest.update(path.read_bytes())
        paths.append(str(path))
    return Prepared(
        name=spec.name,
        seed=seed if spec.varies else None,
        path=paths[0],
        held_path=paths[1],
        target=target,
        rows=learnt,
        held=n - learnt,
        classes=() if regression else tuple(sorted(labels)),
        schema=spec.schema,
        digest=digest.hexdigest(),
    )


def _is_real(labels: set[str]) -> bool:
    if len(labels) <= _MANY_VALUES:
        return False
    try:
        return all(np.isfinite(float(label)) for label in labels)
    except ValueError:
        return False


def _column(spec: Spec, names: Sequence[str]) -> str:
    target = -1 if spec.target is None else spec.target
    if isinstance(target, int):
        if not -len(names) <= target < len(names):
            raise StreamError(f"{spec.name}: no column {target}, the file has {len(names)}")
        return names[target]
    if target not in names:
        raise StreamError(f"{spec.name}: no column {target!r}, the file has {', '.join(map(repr, names[:20]))}")
    return target


def _read(spec: Spec, seed: int, rows: int | None) -> Cells:
    """Return names and cells of rows spread evenly over a file, in order or shuffled."""
    lines = _lines(spec)
    header = spec.header
    if header is None:
        header = spec.columns is None and isinstance(spec.target, str)
    first = next(lines, None)
    if first is None:
        raise StreamError(f"{spec.name}: the file has no rows")
    start = 1 if header else 0
    n = 1 + sum(1 for _ in lines) - start
    wanted = np.arange(n) if rows is None or rows >= n else np.arange(rows, dtype=np.int64) * n // rows
    cells: list[list[str]] = []
    width, take = len(_cells(spec, first)), iter((*wanted.tolist(), n))
    following = next(take)
    for number, line in enumerate(_lines(spec), -start):
        if number != following:
            continue
        following = next(take)
        row = _cells(spec, line)
        if len(row) != width:
            raise StreamError(f"{spec.name}, row {number + 1}: has {len(row)} cells, and the first line {width}")
        cells.append(row)
    names = spec.columns
    if names is None:
        names = tuple(_cells(spec, first)) if header else tuple(f"x{j}" for j in range(width))
    if len(names) != width or len(set(names)) != width:
        raise StreamError(f"{spec.name}: has {width} columns, and {len(set(names))} names for them")
    if spec.order == "shuffled":
        order = np.random.default_rng((7_320_000, seed)).permutation(len(cells))
        cells = [cells[i] for i in order.tolist()]
    return names, cells


def _cells(spec: Spec, line: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], delimiter=spec.sep, skipinitialspace=True))]


def _lines(spec: Spec) -> Iterator[str]:
    """Lines of a file, possibly compressed, that are not blank."""
    assert spec.file is not None
    for chunk, _ in LineFile(spec.file).chunks(lambda: 0):
        for line in chunk.decode("utf-8", "replace").split("\n"):
            if line.strip():
                yield line.rstrip("\r")


def named(specs: Sequence[Spec]) -> list[Spec]:
    """Return the streams, each with a unique name."""
    found: list[Spec] = []
    for spec in specs:
        same = sum(spec.name == other.name or other.name.startswith(f"{spec.name} (") for other in found)
        found.append(replace(spec, name=f"{spec.name} ({same + 1})") if same else spec)
    return found
