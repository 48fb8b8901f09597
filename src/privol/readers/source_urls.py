"""URLs of databases and live sources: what they say, without what must not be shown.

Nothing but the standard library is imported here: the command line reads URLs when it starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from ..errors import InvalidParameter

__all__ = [
    "SOURCES",
    "SourceUrl",
    "ended_after",
    "is_live",
    "is_source",
    "is_url",
    "parsed",
    "shown",
    "states_rows",
    "to_keep",
    "without_secrets",
]

#: Schemes of URLs that are read as sources, and what each one is.
SOURCES = {
    "sqlite": "SQLite",
    "duckdb": "DuckDB",
    "postgresql": "PostgreSQL",
    "postgres": "PostgreSQL",
    "redis": "Redis",
    "rediss": "Redis",
    "kafka": "Kafka",
    "mqtt": "MQTT",
    "mqtts": "MQTT",
}
#: Of these, those that have no end: brokers of messages.
_LIVE = {"redis", "rediss", "kafka", "mqtt", "mqtts"}
#: Of these, those that name a file; the others name a server, where a user and a password may stand.
_FILES = {"sqlite", "duckdb"}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(:\d*)?")
# Names of options whose values are secret, and an exception: the name of a file.
_SECRET = re.compile(r"pass|secret|token|credential|api_?key|scram|key\.pem|oauthbearer", re.IGNORECASE)
_NO_SECRET = {"passfile"}
# The same in the URL of a file, which may be signed.
_SIGNED = re.compile(rf"{_SECRET.pattern}|sig|key|auth", re.IGNORECASE)
# Shorter secrets are not hidden: they would occur in ordinary words.
_LEAST = 4
_HIDDEN = "..."


@dataclass(frozen=True)
class SourceUrl:
    """A URL of a source in its parts, decoded but for ``base``.

    Attributes
    ----------
    scheme : str
    base : str
        The URL without its options, as it was given: **secret** where it has a password.
    path : str
        Without its first slash.
    options : tuple of (str, str)
        In their order: those of privol and those of the client.
    secrets : tuple of str
        What is shown nowhere, decoded and as given; the longest first.
    """

    scheme: str
    base: str
    path: str
    options: tuple[tuple[str, str], ...]
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<URL of {self.title}>"

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

    def hidden(self, text: str) -> str:
        """Return a text without the secrets of the URL."""
        for word in self.secrets:
            if len(word) >= _LEAST:
                text = text.replace(word, _HIDDEN)
        return text


def is_source(data: object) -> bool:
    """Whether something is the URL of a source."""
    found = _SCHEME.match(data) if isinstance(data, str) else None
    return found is not None and found[1].lower() in SOURCES


def is_live(data: object) -> bool:
    """Whether something is the URL of a source of messages, which has no end of its own."""
    return is_source(data) and str(data).partition("://")[0].lower() in _LIVE


def states_rows(url: str) -> bool:
    """Whether the URL of a live source says after how many rows it ends."""
    return any(name == "rows" for name, _ in parsed(url).options)


def ended_after(url: str, rows: int) -> str:
    """Return the URL of a live source with an end: after so many rows, unless it states another."""
    if states_rows(url):
        return url
    return f"{url}{'&' if '?' in url else '?'}rows={rows}"


def parsed(url: str) -> SourceUrl:
    """Return the parts of a URL for which :func:`is_source` is true.

    Options are separated by ``&``; a ``%``, ``&`` or ``#`` in a value is written as %25, %26 or %23, and a ``+`` is a
    plus.

    Raises
    ------
    InvalidParameter
        If an option has no value, or a password the signs that end it.
    """
    base, _, query = url.partition("?")
    scheme, _, rest = base.partition("://")
    netloc, _, path = rest.partition("/")
    scheme = scheme.lower()
    secrets = set()
    if scheme not in _FILES:
        if _misplaced(url):
            raise InvalidParameter(
                f"the {SOURCES[scheme]} URL is ambiguous: in a user's name or password % / ? # @ are "
                "written %25, %2F, %3F, %23, %40"
            )
        user = netloc.rpartition("@")[0]
        secrets |= {word for word in (user.partition(":")[2], unquote(user.partition(":")[2])) if word}
    options = []
    for part in query.split("&"):
        if not part:
            continue
        name, is_there, value = part.partition("=")
        if not is_there:
            raise InvalidParameter(f"the {SOURCES[scheme]} URL has an option without a value: write name=value")
        options.append((unquote(name), unquote(value)))
        if _is_secret(name) and value:
            secrets |= {value, unquote(value)}
    return SourceUrl(
        scheme=scheme,
        base=base,
        path=unquote(path),
        options=tuple(options),
        secrets=tuple(sorted(secrets, key=len, reverse=True)),
    )


def without_secrets(url: str) -> str:
    """Return a URL of a source without passwords and what else is secret, as it may be kept and shown."""
    base, _, query = url.partition("?")
    scheme, _, rest = base.partition("://")
    if scheme.lower() not in _FILES:
        if _misplaced(url):  # it is refused, and nobody knows what of it is the password
            return f"{scheme}://{_HIDDEN}"
        netloc, slash, path = rest.partition("/")
        user, at, host = netloc.rpartition("@")
        rest = f"{user.partition(':')[0]}{at}{host}{slash}{path}"
    parts = [part for part in query.split("&") if part and not _is_secret(part.partition("=")[0])]
    return f"{scheme}://{rest}" + (f"?{'&'.join(parts)}" if parts else "")


def is_url(data: object) -> bool:
    """Whether something is a URL of any kind, and no path."""
    return isinstance(data, str) and _SCHEME.match(data) is not None


def to_keep(word: str) -> str:
    """Return a word of a command as it may be kept and shown: a URL without passwords, keys and signatures."""
    if is_source(word):
        return without_secrets(word)
    base, mark, query = word.partition("?")
    if not mark or not base.lower().startswith(("http://", "https://")):
        return word
    parts = [part for part in query.split("&") if not _SIGNED.search(unquote(part.partition("=")[0]))]
    return base + (f"?{'&'.join(parts)}" if parts else "")


def shown(text: str, words: Iterable[str]) -> str:
    """Return a message without the secrets of the URLs that are among the words of a command."""
    for word in words:
        at = _SCHEME.search(word)
        url = "" if at is None else word[at.start() :]
        if not is_source(url):
            continue
        text = text.replace(url, without_secrets(url))
        try:
            text = parsed(url).hidden(text)
        except InvalidParameter:  # one that is refused is quoted nowhere but as a whole
            continue
    return text


def _is_secret(name: str) -> bool:
    return _SECRET.search(unquote(name)) is not None and unquote(name) not in _NO_SECRET


def _misplaced(url: str) -> bool:
    """Whether an @ or a : stands where a password with signs of its own would put it."""
    base, _, query = url.partition("?")
    netloc, _, path = base.partition("://")[2].partition("/")
    name = query.partition("&")[0].partition("=")[0]
    user, _, hosts = netloc.rpartition("@")
    return (
        any("@" in text for text in (user, path, name))
        or "#" in netloc
        or not all(_HOST.fullmatch(host) for host in hosts.split(","))
    )
