"""Tables and queries of SQLite, DuckDB and PostgreSQL: Arrow batches in the order of a key, which is the position."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidParameter, StreamError
from .arrow import TypedColumns, cut
from .base import Facts, Progress, arrow, plainly
from .columns import Kind
from .files import listed
from .positions import Positions
from .served import answers, reach
from .source_urls import parsed
from .sql_clients import DATABASES, OWN, Database, identifier

__all__ = ["SqlColumns", "open_sql"]

# Seconds for which a server that is away is waited for, and between two attempts.
PATIENCE, PAUSE = 60.0, 0.25

IntArray = npt.NDArray[np.int64]


def open_sql(url: str) -> SqlColumns:
    """Return the columns of a table or query, by a URL such as ``sqlite:///file.db?table=visits&order=id``."""
    found = parsed(url)
    own, others = found.own(*OWN)
    if ("table" in own) == ("query" in own):
        raise InvalidParameter(f"the {found.title} URL needs either table=NAME or query=SELECT ..., and order=COLUMN")
    if not own.get("order"):
        raise InvalidParameter(
            f"the {found.title} URL needs order=COLUMN, a key of the rows: without an order a database may return rows "
            "in another order each time, so that a run could not go on after a crash, and rows that taught an encoding "
            "could be learnt again, which the guarantee excludes"
        )
    if "table" in own:
        what, name = ".".join(map(identifier, own["table"].split("."))), own["table"]
    else:
        what, name = f"({own['query'].strip().rstrip(';')}\n)", "query"
    database = DATABASES[found.scheme](found, others)
    return SqlColumns(database, what, own["order"], f"{name} ({found.title})")


class SqlColumns(TypedColumns):
    """A table or query, read in the order of a key: whole numbers, each once. Made by :func:`open_sql`.

    The key is no column of the rows. Its largest value at opening is the end: rows inserted later behind it are not
    read. An iteration is one statement; if the server goes away, the rest is asked for when it is back.

    A position consists of the number of rows read, their last key and a digest of all their keys. An iteration that
    continues from there, after a crash or an outage, first compares the keys up to the last one. A row inserted among
    them would be left out, and a row with a new key could come twice: both are errors. They are errors in a second
    iteration too, where rows that taught an encoding could come again.
    """

    def __init__(self, database: Database, what: str, order: str, name: str) -> None:
        self._arrow = arrow("databases")
        self._database, self._what, self._order = database, what, order
        self._positions = Positions(self._restore)
        self.facts = Facts(name=name, positions=self._positions)
        self._key = identifier(order)
        self._places: dict[int, dict[str, Any]] = {}  # rows -> the position after them, as it was kept
        self._named: dict[str, str] | None = None  # the types of all columns, for positions
        self._counted: int | None = None  # rows up to the end, if they were counted when the run began
        self._known: dict[int, bytes] = {}  # rows -> digest of their keys, as read before
        super().__init__(self.facts, self._look())

    # ---- what is asked once ---------------------------------------------------------------------------

    def _ask(self, asks: Callable[[Any, ExitStack], Any], what: str = "cannot be read") -> Any:
        """Return what is asked of a connection; the client's error becomes ours, without its cause: that may hold a
        password.
        """

        def asked() -> Iterator[Any]:
            with ExitStack() as stack:
                yield asks(self._database.connect(stack), stack)

        try:
            with closing(answers(self._database, asked, lambda: None)) as found:
                return next(found)
        except self._database.errors as err:
            told = self._told(err)
        raise StreamError(f"{self.name}: {what}: {told}") from None

    def _told(self, err: BaseException) -> str:
        """Return what a client says, without the secrets of the URL."""
        return self._database.url.hidden(plainly(err))

    def _look(self) -> Any:
        """Return the types of the columns, and note the first and the last key."""
        schema, first, last = self._ask(self._seen)
        if last is None:
            raise StreamError(f"{self.name}: no rows, at least one is needed")
        for end in (first, last):  # a column of SQLite may hold anything: its numbers come first, then its texts
            if not isinstance(end, int) or not -(2**63) <= end < 2**63:
                raise self._no_order(repr(end))
        self._first_key, self._until = first, last
        return self._arrow.schema([self._database.field(field) for field in schema if field.name != self._order])

    def _seen(self, connection: Any, stack: ExitStack) -> tuple[Any, Any, Any]:
        """Return the schema, the first and the last key; the latter are not checked yet."""
        order, what = self._order, self._what
        schema = self._schema(connection, f"SELECT * FROM {what} AS r LIMIT 0", stack)
        if order not in schema.names:
            raise StreamError(f"{self.name}: no column {order!r} to order by, allowed are {listed(schema.names)}")
        if rows := self._database.typing_rows:
            statement = f"SELECT * FROM {what} AS r ORDER BY {self._key} LIMIT {rows}"
            schema = self._schema(connection, statement, stack)
        if not self._arrow.types.is_integer(schema.field(order).type):
            raise self._no_order(f"the type {schema.field(order).type}")
        if self._one(connection, f"SELECT 1 AS a FROM {what} AS r WHERE {self._key} IS NULL LIMIT 1", stack):
            raise self._no_order("NULL")
        ends = f"SELECT min({self._key}) AS a, max({self._key}) AS b FROM {what} AS r"
        ((first, last),) = self._one(connection, ends, stack)
        return schema, first, last

    def _no_order(self, found: str) -> StreamError:
        return StreamError(
            f"{self.name}, column {self._order!r}: found {found}, allowed for an order are whole numbers of 64 bits, "
            "each of them once"
        )

    def _schema(self, connection: Any, statement: str, stack: ExitStack) -> Any:
        return self._database.reader(connection, statement, stack).read_all().schema

    def _one(self, connection: Any, statement: str, stack: ExitStack) -> list[tuple[Any, ...]]:
        """Return the rows of a small answer."""
        table = self._database.reader(connection, statement, stack).read_all()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def count(self) -> int:
        found = int(self._ask(self._rows_to_the_end, "cannot be counted"))
        if self._counted is None:
            self._counted = found
        return found

    def _rows_to_the_end(self, connection: Any, stack: ExitStack) -> int:
        statement = f"SELECT count(*) AS n FROM {self._what} AS r WHERE {self._key} <= {self._until}"
        ((rows,),) = self._one(connection, statement, stack)
        return int(rows)

    def sample(self, rows: int) -> Any:
        columns = ", ".join(self._database.wanted(name, self._types[name]) for name in self.names)
        where = f"WHERE {self._key} <= {self._until} ORDER BY {self._key} LIMIT {rows}"
        statement = f"SELECT {columns} FROM {self._what} AS r {where}"

        def asks(connection: Any, stack: ExitStack) -> list[Any]:
            return [self._as_known(batch, 1) for batch in self._database.reader(connection, statement, stack)]

        batches = self._ask(asks)
        schema = self._arrow.schema([(name, self._types[name]) for name in self.names])
        return self._arrow.Table.from_batches(batches, schema)

    # ---- positions ------------------------------------------------------------------------------------

    def _position(self, rows: int, after: int | None, digest: _Digest) -> dict[str, Any]:
        """Return the position after so many rows, the last of which has the key ``after``."""
        if self._named is None:
            self._named = {name: str(kind) for name, kind in self._types.items()}
        asked: dict[str, Any] = {"from": self._what, "order": self._order, "types": self._named}
        asked |= {"until": self._until, "count": self._counted}
        return {**asked, "rows": rows, "after": after, "keys": digest.hex()}

    def _restore(self, position: Any) -> None:
        """Take a position that was kept: these must be the same table and columns."""
        if (position["from"], position["order"]) != (self._what, self._order):
            raise StreamError(
                f"{self.name}: the run was begun with another table, query or order: it goes on only with the same"
            )
        for name, kind in position["types"].items():
            if str(self._types.get(name)) != kind:
                found = f"the type {self._types[name]}" if name in self._types else "no such column"
                raise StreamError(f"{self.name}, column {name!r}: found {found}, and it was {kind} when the run began")
        self._until, self._counted = position["until"], position["count"]
        self._places[position["rows"]] = position
        if position["rows"]:
            self._known[position["rows"]] = bytes.fromhex(position["keys"])

    # ---- an iteration ---------------------------------------------------------------------------------

    def typed(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Any]:
        return self._read(list(kinds), 0, progress)

    def batches_after(
        self, rows: int, kinds: Mapping[str, Kind], limit: int, progress: Progress, what: str
    ) -> Iterator[Any]:
        if rows not in self._places:  # by their number, and the keys are compared on the way
            return super().batches_after(rows, kinds, limit, progress, what)
        return self.converted(self._read(list(kinds), rows, progress), kinds, rows)

    def _read(self, names: list[str], rows: int, progress: Progress) -> Iterator[Any]:
        """Yield the rows after so many, whose position is known unless it is the beginning."""
        row, place = rows, self._places[rows] if rows else self._position(0, None, _Digest())
        last, wanted, broken_at, until = place["after"], place["keys"], -1, 0.0
        trail, digest = self._positions.begin(rows, place), _Digest(self._known)

        def alive() -> None:
            progress(self._fraction(last))  # ends here where nobody waits any more

        while True:
            begun = row
            try:
                asked = partial(self._statement, names, row, last, wanted)
                with closing(answers(self._database, asked, alive)) as found:
                    digest = next(found)
                    for keys, batch in found:
                        trail.add(len(keys), _After(self._position, row, keys, digest))
                        digest.update(keys, row, self.name)
                        row, last = row + len(keys), int(keys[-1])
                        progress(self._fraction(last))
                        yield batch
                return
            except self._database.errors as err:
                told = self._told(err)
            # an error of the statement comes again at once; a server that is going away may fail several times
            if not self._database.served or (broken_at == row and self._database.is_of_statement(told)):
                raise StreamError(f"{self.name}, from row {row + 1}: cannot be read: {told}", row=row + 1)
            if broken_at != row:
                broken_at, until = row, time.monotonic() + PATIENCE
            wanted = digest.hex() if row > begun else wanted
            self._wait_for_server(row, told, until, alive)

    def _statement(self, names: list[str], row: int, last: int | None, wanted: str) -> Iterator[Any]:
        """Yield the digest of the keys before, and then the batches of one statement with their keys."""
        with ExitStack() as stack:
            connection = self._database.connect(stack)
            yield _Digest(self._known) if last is None else self._compared(connection, stack, row, last, wanted)
            if last is not None or self._positions.kept:
                self._check_count(connection, stack)
            for batch in self._batches(connection, stack, names, last, row):
                keys = self._keys(batch, last, row)
                row, last = row + len(keys), int(keys[-1])
                yield keys, batch
            self._check_end(connection, stack, last, row)

    def _fraction(self, last: int | None) -> float:
        if last is None:
            return 0.0
        return float(min((last - self._first_key + 1) / (self._until - self._first_key + 1), 1.0))

    def _compared(self, connection: Any, stack: ExitStack, rows: int, last: int, wanted: str) -> _Digest:
        """Return the digest of all keys up to the last one that was read: they must still be the same."""
        found, digest = 0, _Digest()
        statement = f"SELECT {self._key} FROM {self._what} AS r WHERE {self._key} <= {last} ORDER BY {self._key}"
        for batch in self._database.reader(connection, statement, stack):
            keys = np.asarray(batch.column(0).cast(self._arrow.int64()), dtype=np.int64)
            digest.update(keys, found, self.name)
            found += len(keys)
        if found != rows or digest.hex() != wanted:
            what = f"now there are {found:,}" if found != rows else "now some have other keys"
            raise StreamError(
                f"{self.name}: {rows:,} rows were read up to the last one by {self._order!r}, and {what}: rows that "
                "are inserted before it would be left out, and one that was read and gets another key could come "
                "again; it goes on only behind the same rows, whose other columns may change"
            )
        return digest.knowing(self._known, rows)

    def _check_count(self, connection: Any, stack: ExitStack) -> None:
        """Raise StreamError if there are more rows up to the end than the run was begun for."""
        if self._counted is not None and (now := self._rows_to_the_end(connection, stack)) > self._counted:
            raise StreamError(
                f"{self.name}: {self._counted:,} rows were counted when the run began, and up to the same last key "
                f"there are now {now:,}: rows were inserted, and the budget is for as many as there were"
            )

    def _batches(
        self, connection: Any, stack: ExitStack, names: list[str], last: int | None, row: int
    ) -> Iterator[Any]:
        """Yield the batches of one statement, with the key."""
        columns = [self._key, *(self._database.wanted(name, self._types[name]) for name in names)]
        after = "" if last is None else f"{self._key} > {last} AND "
        where = f"WHERE {after}{self._key} <= {self._until} ORDER BY {self._key}"
        statement = f"SELECT {', '.join(columns)} FROM {self._what} AS r {where}"
        for batch in self._database.reader(connection, statement, stack):
            for part in cut(batch, len(names) + 1):
                if part.num_rows:
                    yield self._as_known(part, row + 1)
                    row += part.num_rows

    def _check_end(self, connection: Any, stack: ExitStack, last: int | None, row: int) -> None:
        """Raise StreamError if the answer has ended before its last row."""
        if last == self._until:
            return
        left = f"{self._key} <= {self._until}" + ("" if last is None else f" AND {self._key} > {last}")
        if self._one(connection, f"SELECT 1 AS a FROM {self._what} AS r WHERE {left} LIMIT 1", stack):
            raise StreamError(
                f"{self.name}, from row {row + 1}: cannot be read: the answer ended too early", row=row + 1
            )

    def _as_known(self, batch: Any, row: int) -> Any:
        """Return a batch with the types that were found when this was opened."""
        arrays, names = [], batch.schema.names
        for name, array in zip(names, batch.columns, strict=True):
            if name in self._types:
                kind = self._types[name]
                if isinstance(array, self._arrow.ExtensionArray):
                    array = array.storage
                if array.type != kind:
                    if array.null_count < len(array) and not self._database.converts(array.type, kind):
                        raise self.bad_cell(
                            row, name, f"found the type {array.type} from this row on, and before it was {kind}"
                        )
                    array = array.cast(kind)
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
        grows = found[1:] > found[:-1]
        bad = np.flatnonzero(~grows) + 1
        if last is not None and found[0] <= last:
            bad = np.zeros(1, dtype=np.int64)
        if len(bad):
            at = int(bad[0])
            before = found[at - 1] if at else last
            raise self.bad_cell(
                row + at + 1,
                self._order,
                f"found {found[at]} after {before}, allowed for an order are numbers of which each occurs once",
            )
        return found

    def _wait_for_server(self, row: int, told: str, until: float, alive: Callable[[], None]) -> None:
        """Wait until the server can be reached again; ``told``: what was said last, ``until``: how long to wait."""
        while time.monotonic() < until:
            alive()
            time.sleep(PAUSE)
            try:
                reach(self._database, alive)
                return
            except self._database.errors as err:
                told = self._told(err)
        raise StreamError(
            f"{self.name}, from row {row + 1}: the server was away for more than {PATIENCE:.0f} seconds: {told}",
            row=row + 1,
        )


class _After:
    """The position after the first k rows of a block."""

    def __init__(self, position: Callable[..., Any], before: int, keys: IntArray, digest: _Digest) -> None:
        self._position, self._before, self._keys, self._digest = position, before, keys, digest.plain()

    def __call__(self, rows: int) -> Any:
        digest = self._digest.plain()
        digest.update(self._keys[:rows], 0, "")
        return self._position(self._before + rows, int(self._keys[rows - 1]), digest)


class _Digest:
    """The digest of all keys from the first on, compared with earlier ones, of which ``known`` has digests by rows."""

    def __init__(self, known: dict[int, bytes] | None = None, rows: int = 0, of: Any = None) -> None:
        self._known = known
        self._left = deque(sorted(at for at in known or () if at > rows))
        self._hash = hashlib.blake2b(digest_size=16) if of is None else of.copy()

    def plain(self) -> _Digest:
        """Return a copy that is compared with nothing."""
        return _Digest(of=self._hash)

    def knowing(self, known: dict[int, bytes], rows: int) -> _Digest:
        """Return a copy that goes on after so many rows, and is compared with these digests."""
        return _Digest(known, rows, self._hash)

    def hex(self) -> str:
        return self._hash.hexdigest()

    def update(self, keys: IntArray, before: int, name: str) -> None:
        """Take in the keys of the next rows, which come after ``before`` rows."""
        at, stop = 0, before + len(keys)
        while self._left and self._left[0] <= stop:
            rows = self._left.popleft()
            self._hash.update(keys[at : rows - before].data)
            at = rows - before
            if self._known is not None and self._hash.digest() != self._known[rows]:
                raise StreamError(
                    f"{name}: the first {rows:,} rows are not those that were read before: rows were inserted or "
                    "deleted among them since, so it is unknown which of them taught the encoding",
                    row=rows,
                )
        self._hash.update(keys[at:].data)
        if self._known is not None:
            self._known.setdefault(stop, self._hash.digest())
