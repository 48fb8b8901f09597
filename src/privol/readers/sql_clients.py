"""Clients of databases: how each is opened for reading, asked, and what its types are."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from contextlib import ExitStack, suppress
from typing import Any

from ..errors import InvalidParameter, StreamError
from .base import arrow
from .source_urls import SourceUrl

__all__ = ["DATABASES", "OWN", "Database", "identifier"]

# The types of SQLite's columns are taken from so many rows, which are also a client's batch.
ROWS = 1 << 16
#: Options of a URL that are not the client's.
OWN = ("table", "query", "order")


class Database(ABC):
    """A kind of database: how its client is opened and asked.

    Attributes
    ----------
    package : str
        What pip installs for it.
    served : bool
        Whether a server may be away for a while and come back.
    typing_rows : int
        Rows that have to be read to know the types of columns.
    """

    package: str
    served = False
    typing_rows = 0

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
                f"the {self.url.title} URL has the option {self._options[0][0]!r}, allowed are {', '.join(OWN)}"
            )

    @abstractmethod
    def load(self) -> Any:
        """Return the module of the client; an ImportError where it is not installed."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What the client raises."""
        return (self.client.Error, arrow("databases").ArrowException, OSError)

    @abstractmethod
    def connect(self, stack: ExitStack) -> Any:
        """Return a connection that only reads, which the stack closes.

        All of its statements see the database as it was at the first of them.
        """

    def is_of_statement(self, told: str) -> bool:
        """Whether the client says that a statement failed, and not the connection."""
        del told
        return True

    def is_answer(self, told: str) -> bool:
        """Whether a server that refuses a connection says so itself."""
        del told
        return False

    @abstractmethod
    def reader(self, connection: Any, statement: str, stack: ExitStack) -> Any:
        """Return a RecordBatchReader of what a statement finds; the one before it on this connection is at its end."""

    def wanted(self, name: str, kind: Any) -> str:
        """Return how a statement asks for a column that was found to have a type."""
        del kind
        return identifier(name)

    def field(self, field: Any) -> Any:
        """Return a column's field as it is read."""
        return field

    def converts(self, found: Any, wanted: Any) -> bool:
        """Whether a batch's column of one type may become the other, for which it is known."""
        del found, wanted
        return False


class _Adbc(Database):
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

    @property
    def typing_rows(self) -> int:  # type: ignore[override]
        """The types of columns are those of so many rows."""
        return ROWS

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
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(ROWS)})

    def wanted(self, name: str, kind: Any) -> str:
        # each cell has a type of its own, and what the client makes of it depends on the cells before it in its batch:
        # the same row would be read otherwise by whoever begins elsewhere
        types, cell = arrow("databases").types, identifier(name)
        if types.is_floating(kind):
            return f"CASE typeof({cell}) WHEN 'integer' THEN CAST({cell} AS REAL) ELSE {cell} END AS {cell}"
        if types.is_string(kind):
            return f"CASE typeof({cell}) WHEN 'blob' THEN {cell} ELSE CAST({cell} AS TEXT) END AS {cell}"
        return cell


class _PostgreSQL(_Adbc):
    package = "adbc-driver-postgresql"
    served = True

    def load(self) -> Any:
        import adbc_driver_postgresql.dbapi

        return adbc_driver_postgresql.dbapi

    def is_of_statement(self, told: str) -> bool:
        # connections fail with FATAL: or nothing; where these words are translated, a minute is waited in vain
        return "ERROR:" in told

    def is_answer(self, told: str) -> bool:
        return "FATAL:" in told  # it has too many connections, say

    # a connection that is cut is known within half a minute, unless the URL says otherwise
    _DEFAULTS = (
        ("connect_timeout", "10"),
        ("keepalives", "1"),
        ("keepalives_idle", "10"),
        ("keepalives_interval", "5"),
        ("keepalives_count", "3"),
        ("tcp_user_timeout", "30000"),
    )

    def connect(self, stack: ExitStack) -> Any:
        given = {name for name, _ in self._options}
        options = [*self._options, *(pair for pair in self._DEFAULTS if pair[0] not in given)]
        words = "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in options)
        connection = self.client.connect(f"postgresql{self.url.base[len(self.url.scheme) :]}?{words}")
        stack.callback(_closed, connection)
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.commit()
        return connection

    def field(self, field: Any) -> Any:
        pa, kind = arrow("databases"), field.type
        if (field.metadata or {}).get(b"ADBC:postgresql:typname") == b"numeric":
            kind = pa.float64()  # the client has it as text
        elif isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        return pa.field(field.name, kind)

    def converts(self, found: Any, wanted: Any) -> bool:
        types = arrow("databases").types
        return bool(types.is_string(found) and types.is_floating(wanted))


class _DuckDB(Database):
    package = "duckdb"

    def load(self) -> Any:
        import duckdb

        return duckdb

    def connect(self, stack: ExitStack) -> Any:
        self.refuse_options()
        if not os.path.isfile(self.url.path):
            raise StreamError(f"{os.path.basename(self.url.path)}: cannot be read: there is no such DuckDB file")
        connection = self.client.connect(self.url.path, read_only=True)
        stack.callback(_closed, connection)
        connection.begin()
        return connection

    def reader(self, connection: Any, statement: str, stack: ExitStack) -> Any:
        return connection.sql(statement).to_arrow_reader(ROWS)


DATABASES: dict[str, type[Database]] = {
    "sqlite": _SQLite,
    "duckdb": _DuckDB,
    "postgresql": _PostgreSQL,
    "postgres": _PostgreSQL,
}


def identifier(name: str) -> str:
    """Return a name as statements have it."""
    return '"' + name.replace('"', '""') + '"'


def _quoted(text: str) -> str:
    """Return a text for the options of a URL."""
    return "".join(c if re.fullmatch(r"[A-Za-z0-9_.~-]", c) else "".join(f"%{b:02X}" for b in c.encode()) for c in text)


def _closed(opened: Any) -> None:
    """Close what may be broken."""
    with suppress(Exception):
        opened.close()
