"""URLs of databases: what they say.

Nothing but the standard library is imported here: the command line reads URLs when it starts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from ..errors import InvalidParameter

__all__ = ["SOURCES", "SourceUrl", "is_source", "parsed"]

#: Schemes of URLs that are read as sources, and what each one is.
SOURCES = {
    "sqlite": "SQLite",
    "duckdb": "DuckDB",
}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


@dataclass(frozen=True)
class SourceUrl:
    """A URL of a source in its parts, decoded.

    Attributes
    ----------
    scheme : str
    path : str
        Without its first slash.
    options : tuple of (str, str)
        In their order: those of privol and those of the client.
    """

    scheme: str
    path: str
    options: tuple[tuple[str, str], ...]

    @property
    def title(self) -> str:
        """What kind of source it is."""
        return SOURCES[self.scheme]

    def own(self, *names: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
        """Return the options of these names, each of which may be given once, and the others."""
        found: dict[str, str] = {}
        others = []
        for name, value in self.options:
            if name not in names:
                others.append((name, value))
            elif name in found:
                raise InvalidParameter(f"the {self.title} URL has {name}= twice, allowed is once")
            else:
                found[name] = value
        return found, others


def is_source(data: object) -> bool:
    """Whether something is the URL of a source."""
    found = _SCHEME.match(data) if isinstance(data, str) else None
    return found is not None and found[1].lower() in SOURCES


def parsed(url: str) -> SourceUrl:
    """Return the parts of a URL for which :func:`is_source` is true.

    Options are separated by ``&``; a ``%``, ``&`` or ``#`` in a value is written as %25, %26 or %23, and a ``+`` is a
    plus.
    """
    base, _, query = url.partition("?")
    options = []
    for part in query.split("&"):
        if not part:
            continue
        name, is_there, value = part.partition("=")
        if not is_there:
            raise InvalidParameter(f"the {_title(url)} URL has an option without a value: write name=value")
        options.append((unquote(name), unquote(value)))
    scheme, _, path = base.partition("://")
    return SourceUrl(
        scheme=scheme.lower(),
        path=unquote(path.partition("/")[2]),
        options=tuple(options),
    )


def _title(url: str) -> str:
    return SOURCES[url.partition("://")[0].lower()]
