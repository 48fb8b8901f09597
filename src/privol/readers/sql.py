"""Tables and queries of SQLite and DuckDB: Arrow batches in the order of a key."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ..errors import InvalidParameter, StreamError
from .arrow import TypedColumns, cut
from .base import Facts, Progress, arrow, plainly
from .columns import Kind
from .files import listed
from .source_urls import SourceUrl, parsed

__all__ = ["SqlColumns", "open_sql"]

# Rows by which SQLite's types are known, and that a client hands out at once.
_ROWS = 1 << 16
_OWN = ("table", "query", "order")

IntArray = npt.NDArray[np.int64]


class _Database(ABC):
    """A kind of database: how its client is opened and asked."""

    package: str

    def __init__(self, url: SourceUrl, options: list[tuple[str, str]]) -> None:
        self.url = url
        try:
            self.client = self.load()
        except ImportError as err:
            raise StreamError(f"reading {url.title} needs {self.package}: pip install 'privol[sources]'") from err
        self._options = options

    def refuse_options(self) -> None:
        """Raise InvalidParameter for an option that nobody knows."""
        if self._options:
            raise InvalidParameter(
                f"the {self.url.title} URL has the option {self._options[0][0]!r}, allowed are {', '.join(_OWN)}"
            )

    @abstractmethod
    def load(self) -> Any:
        """Return the module of the client; an ImportError where it is not installed."""

    @property
    @abstractmethod
    def errors(self) -> tuple[type[Exception], ...]:
        """What the client raises."""

    @abstractmethod
    def connect(self, stack: ExitStack) -> Any:
        """Return a connection that only reads, which the stack closes."""

    @abstractmethod
    def reader(self, connection: Any, statement: str, stack: ExitStack) -> Any:
        """Return a RecordBatchReader of what a statement finds."""


class _Adbc(_Database):
    @property
    def errors(self) -> tuple[type[Exception], ...]:
        return (self.client.Error, arrow("databases").ArrowException, OSError)

    def reader(self, connection: Any, statement: str, stack: ExitStack) -> Any:
        cursor = connection.cursor()
        stack.callback(_closed, cursor)
        self._prepare(cursor)
        cursor.execute(statement)
        return cursor.fetch_record_batch()

    def _prepare(self, cursor: Any) -> None:
        """Set what a statement needs."""


class _SQLite(_Adbc):
    package = "adbc-driver-sqlite"

    def load(self) -> Any:
        import adbc_driver_sqlite.dbapi

        return adbc_driver_sqlite.dbapi

    def connect(self, stack: ExitStack) -> Any:
        self.refuse_options()
        if not os.path.isfile(self.url.path):
            raise StreamError(f"{os.path.basename(self.url.path)}: cannot be read: there is no such SQLite file")
        escaped = self.url.path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        connection = self.client.connect(f"file:{escaped}?mode=ro")
        stack.callback(_closed, connection)
        return connection

    def _prepare(self, cursor: Any) -> None:
        # the types of columns are those of so many rows
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_ROWS)})


class _DuckDB(_Database):
    package = "duckdb"

    def load(self) -> Any:
        import duckdb

        return duckdb

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        return (self.client.Error, arrow("databases").ArrowException, OSError)

    def connect(self, stack: ExitStack) -> Any:
        self.refuse_options()
        if not os.path.isfile(self.url.path):
            raise StreamError(f"{os.path.basename(self.url.path)}: cannot be read: there is no such DuckDB file")
        connection = self.client.connect(self.url.path, read_only=True)
        stack.callback(_closed, connection)
        return connection

    def reader(self, connection: Any, statement: str, stack: ExitStack) -> Any:
        cursor = connection.cursor()  # a connection has one open result
        stack.callback(_closed, cursor)
        return cursor.sql(statement).to_arrow_reader(_ROWS)


_DATABASES: dict[str, type[_Database]] = {
    "sqlite": _SQLite,
    "duckdb": _DuckDB,
}


def open_sql(url: str) -> SqlColumns:
    """Return the columns of a table or query, by a URL such as ``sqlite:///file.db?table=visits&order=id``."""
    found = parsed(url)
    own, others = found.own(*_OWN)
    if ("table" in own) == ("query" in own):
        raise InvalidParameter(f"the {found.title} URL needs either table=NAME or query=SELECT ..., and order=COLUMN")
    if not own.get("order"):
        raise InvalidParameter(
            f"the {found.title} URL needs order=COLUMN, a key of the rows: without an order a database may return rows "
            "in another order each time, so that a run could not go on after a crash, and rows that taught an encoding "
            "could be learnt again, which the guarantee excludes"
        )
    if "table" in own:
        what, name = ".".join(map(_identifier, own["table"].split("."))), own["table"]
    else:
        what, name = f"({own['query'].strip().rstrip(';')}\n)", "query"
    database = _DATABASES[found.scheme](found, others)
    return SqlColumns(database, what, own["order"], f"{name} ({found.title})")


class SqlColumns(TypedColumns):
    """A table or query, read in the order of a key: whole numbers, each once. Made by :func:`open_sql`.

    The key is no column. Its largest value when this is opened is the end: what is inserted later behind it is not
    read. An iteration is one statement. Keys are compared by a digest with those of the iteration before: where they
    have changed, rows that taught an encoding could come again, and the iteration ends with an error.
    """

    def __init__(self, database: _Database, what: str, order: str, name: str) -> None:
        self._arrow = arrow("databases")
        self._database, self._what, self._order = database, what, order
        self.facts = Facts(name=name, keyed=True)
        self._key = _identifier(order)
        self._known: dict[int, bytes] = {}  # rows -> digest of their keys, as read before
        schema = self._look()
        super().__init__(self.facts, schema)

    # ---- what is asked once ---------------------------------------------------------------------------

    def _look(self) -> Any:
        """Return the types of the columns, and note the first and the last key."""
        with ExitStack() as stack:
            try:
                connection = self._database.connect(stack)
                names = self._database.reader(
                    connection, f"SELECT * FROM {self._what} AS r LIMIT 0", stack
                ).schema.names
                if self._order not in names:
                    raise StreamError(
                        f"{self.name}: no column {self._order!r} to order by, allowed are {listed(names)}"
                    )
                statement = f"SELECT * FROM {self._what} AS r ORDER BY {self._key} LIMIT {_ROWS}"
                reader = self._database.reader(connection, statement, stack)
                schema = reader.schema
                kind = schema.field(self._order).type
                if not self._arrow.types.is_integer(kind):
                    raise StreamError(
                        f"{self.name}, column {self._order!r}: found the type {kind}, allowed for an order are whole "
                        "numbers, each of them once"
                    )
                null = self._one(
                    connection, f"SELECT 1 FROM {self._what} AS r WHERE {self._key} IS NULL LIMIT 1", stack
                )
                if null:
                    raise StreamError(
                        f"{self.name}, column {self._order!r}: found NULL, allowed for an order are whole numbers, "
                        "each of them once"
                    )
                ends = f"SELECT min({self._key}) AS a, max({self._key}) AS b FROM {self._what} AS r"
                (first, last), *_ = self._one(connection, ends, stack)
            except self._database.errors as err:
                self._refuse("cannot be read", err)
        if last is None:
            raise StreamError(f"{self.name}: no rows, at least one is needed")
        self._first_key, self._until = int(first), int(last)
        return self._arrow.schema([field for field in schema if field.name != self._order])

    def _one(self, connection: Any, statement: str, stack: ExitStack) -> list[tuple[Any, ...]]:
        """Return the rows of a small answer."""
        table = self._database.reader(connection, statement, stack).read_all()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def _refuse(self, what: str, err: BaseException, row: int | None = None) -> NoReturn:
        """Raise the error about what a client says."""
        told = plainly(err)
        at = "" if row is None else f", from row {row}"
        raise StreamError(f"{self.name}{at}: {what}: {told}", row=row) from err

    def count(self) -> int:
        statement = f"SELECT count(*) AS n FROM {self._what} AS r WHERE {self._key} <= {self._until}"
        with ExitStack() as stack:
            try:
                ((rows,),) = self._one(self._database.connect(stack), statement, stack)
            except self._database.errors as err:
                self._refuse("cannot be counted", err)
        return int(rows)

    # ---- an iteration ---------------------------------------------------------------------------------

    def typed(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Any]:
        row, last, digest = 0, None, _Digest(self._known)
        try:
            for batch in self._batches(list(kinds)):
                keys = self._keys(batch, last, row)
                digest.update(keys, row, self.name)
                row, last = row + len(keys), int(keys[-1])
                progress(min((last - self._first_key + 1) / (self._until - self._first_key + 1), 1.0))
                yield batch
        except self._database.errors as err:
            self._refuse("cannot be read", err, row + 1)

    def _batches(self, names: list[str]) -> Iterator[Any]:
        """Yield the batches of one statement, with the key."""
        columns = ", ".join(map(_identifier, [self._order, *names]))
        where = f"WHERE {self._key} <= {self._until} ORDER BY {self._key}"
        with ExitStack() as stack:
            connection = self._database.connect(stack)
            reader = self._database.reader(connection, f"SELECT {columns} FROM {self._what} AS r {where}", stack)
            for batch in reader:
                for part in cut(batch, len(names) + 1):
                    if part.num_rows:
                        yield self._as_known(part)

    def _as_known(self, batch: Any) -> Any:
        """Return a batch with the types that were found when this was opened."""
        arrays, names = [], batch.schema.names
        for name, array in zip(names, batch.columns, strict=True):
            if name != self._order and array.type != self._types[name]:
                array = array.cast(self._types[name])
            arrays.append(array)
        return self._arrow.RecordBatch.from_arrays(arrays, names=names)

    def _keys(self, batch: Any, last: int | None, row: int) -> IntArray:
        """Return the keys of a batch, which must grow from row to row."""
        column = batch.column(self._order)
        try:
            found: IntArray = np.asarray(column.cast(self._arrow.int64()), dtype=np.int64)
        except (self._arrow.ArrowInvalid, ValueError):
            raise self.bad_cell(
                row + 1, self._order, "found no whole number of 64 bits, which an order needs"
            ) from None
        before = np.concatenate([found[:1] - 1 if last is None else [last], found[:-1]])
        bad = np.flatnonzero(found <= before)
        if len(bad):
            at = int(bad[0])
            raise self.bad_cell(
                row + at + 1,
                self._order,
                f"found {found[at]} after {before[at]}, allowed for an order are numbers of which each occurs once",
            )
        return found

    def sample(self, rows: int) -> Any:
        names = list(self.names)
        statement = (
            f"SELECT {', '.join(map(_identifier, names))} FROM {self._what} AS r "
            f"WHERE {self._key} <= {self._until} ORDER BY {self._key} LIMIT {rows}"
        )
        with ExitStack() as stack:
            try:
                batches = list(self._database.reader(self._database.connect(stack), statement, stack))
            except self._database.errors as err:
                self._refuse("cannot be read", err)
        schema = self._arrow.schema([(name, self._types[name]) for name in names])
        return self._arrow.Table.from_batches([self._as_known(batch) for batch in batches], schema)


class _Digest:
    """Compares the keys of an iteration with those of earlier ones, of which ``known`` has digests by rows."""

    def __init__(self, known: dict[int, bytes]) -> None:
        self._known = known
        self._left = sorted(known)
        self._hash = hashlib.blake2b(digest_size=16)
        self._furthest = max(known, default=0)

    def update(self, keys: IntArray, before: int, name: str) -> None:
        """Take in the keys of the next rows."""
        at = 0
        while self._left and self._left[0] <= before + len(keys):
            rows = self._left.pop(0)
            self._hash.update(keys[at : rows - before].data)
            at = rows - before
            if self._hash.digest() != self._known[rows]:
                raise StreamError(
                    f"{name}: the first {rows:,} rows are not those that were read before: rows were inserted or "
                    "deleted among them since, and nobody can tell any more which of them taught the encoding",
                    row=rows,
                )
        self._hash.update(keys[at:].data)
        if before + len(keys) > self._furthest:
            self._furthest = before + len(keys)
            self._known[self._furthest] = self._hash.digest()


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _closed(opened: Any) -> None:
    """Close what may be broken."""
    with suppress(Exception):
        opened.close()
