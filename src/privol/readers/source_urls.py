"""URLs: what those of databases and live sources say, and what of any URL may be kept and shown.

Nothing but the standard library is imported here: the command line reads URLs when it starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from urllib.parse import quote, unquote

from ..errors import InvalidParameter

__all__ = [
    "NOT_KEPT",
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
]

#: What is to be said where a run goes on without what :func:`to_keep` has left out.
NOT_KEPT = "passwords, keys and whatever else of a URL may be secret are not kept with a run"
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
# Those that name a file; the others name a server, where a user and a password may stand.
_FILES = {"sqlite", "duckdb", "file"}
# Those whose user part begins with a name that is no secret, for Azure that of a container.
_NAMED = SOURCES.keys() | {"hdfs", "viewfs", "abfs", "abfss"}
# Options whose values are no secrets. Of all other options, schemes and misspelt names none is kept or shown: nobody
# knows what web servers call their keys.
_ENDS, _TABLE = "rows quarantine", "table query order"
_PLAIN = {
    scheme: frozenset(options.split())
    for schemes, options in {
        "sqlite duckdb": _TABLE,
        "postgresql postgres": f"{_TABLE} host hostaddr port dbname user passfile service options application_name "
        "fallback_application_name client_encoding connect_timeout tcp_user_timeout keepalives keepalives_idle "
        "keepalives_interval keepalives_count channel_binding require_auth requirepeer sslmode sslnegotiation "
        "sslcompression sslcert sslkey sslcertmode sslrootcert sslcrl sslcrldir sslsni ssl_min_protocol_version "
        "ssl_max_protocol_version gssencmode gssdelegation gsslib krbsrvname target_session_attrs load_balance_hosts",
        "redis rediss": f"{_ENDS} stream group field ssl_ca_certs ssl_cert_reqs ssl_certfile ssl_keyfile",
        "kafka": f"{_ENDS} group",
        "mqtt mqtts": f"{_ENDS} client sequence ca_certs certfile keyfile",
        "s3": "scheme region endpoint_override allow_bucket_creation allow_bucket_deletion force_virtual_addressing",
        "gs gcs": "scheme endpoint_override retry_limit_seconds",
        "abfs abfss": "enable_tls blob_storage_authority dfs_storage_authority credential_kind tenant_id client_id "
        "background_writes",
        "hdfs viewfs": "user replication buffer_size default_block_size",
    }.items()
    for scheme in schemes.split()
}
# At least two characters: a single one is a drive.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(:\d*)?")
# Names of options whose values are secret, among them those of librdkafka, which has too many options to list.
_SECRET = re.compile(r"pass|secret|token|credential|api_?key|scram|key\.pem|oauthbearer|kinit", re.IGNORECASE)
# Shorter secrets are not hidden in texts, as they would occur in ordinary words; nor are shorter values that may be no
# secrets.
_LEAST, _LEAST_UNKNOWN = 4, 8
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
        What is shown nowhere, decoded and as given.
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
        return _without(text, self.secrets)


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
    scheme = scheme.lower()
    if scheme not in _FILES and _misplaced(url):
        raise InvalidParameter(
            f"the {SOURCES[scheme]} URL is ambiguous: in a user's name or password % / ? # @ are "
            "written %25, %2F, %3F, %23, %40"
        )
    options = []
    for part in query.split("&"):
        if not part:
            continue
        name, is_there, value = part.partition("=")
        if not is_there:
            raise InvalidParameter(f"the {SOURCES[scheme]} URL has an option without a value: write name=value")
        options.append((unquote(name), unquote(value)))
    return SourceUrl(
        scheme=scheme,
        base=base,
        path=unquote(rest.partition("/")[2]),
        options=tuple(options),
        secrets=tuple(sorted(_apart(url)[1])),
    )


def is_url(data: object) -> bool:
    """Whether something is a URL of any kind, and no path."""
    return isinstance(data, str) and _SCHEME.match(data) is not None


def to_keep(word: str) -> str:
    """Return a word of a command as it may be kept and shown.

    A URL, which may be the value of an option, is left without passwords, keys, its fragment, and all options that are
    not known to be harmless.
    """
    found = _SCHEME.search(word)
    return word if found is None else word[: found.start()] + _apart(word[found.start() :])[0]


def shown(text: str, words: Iterable[str]) -> str:
    """Return a message without the secrets of the URLs that are among the words of a command."""
    found = [word[at.start() :] for word in words if (at := _SCHEME.search(word)) is not None]
    for url in sorted(found, key=len, reverse=True):  # one may begin as another does
        kept, secrets = _apart(url)
        for said in (url, str(PurePath(url))):  # the second where a command took it for a path
            text = text.replace(said, kept)
        text = _without(text, secrets)
    return text


def _without(text: str, secrets: Iterable[str]) -> str:
    for word in sorted(secrets, key=len, reverse=True):  # one may be a part of another
        if len(word) >= _LEAST:
            text = text.replace(word, _HIDDEN)
    return text


def _apart(url: str) -> tuple[str, set[str]]:
    """Return a URL as it may be kept, and what it has lost, decoded and as given."""
    base, _, query = url.partition("?")
    scheme, _, rest = base.partition("://")
    kind = scheme.lower()
    secrets: set[str] = set()

    def lost(text: str, certain: bool) -> None:
        plain = unquote(text)
        if certain or len(text) >= _LEAST_UNKNOWN:
            secrets.update({text, plain, quote(plain, safe="", errors="surrogateescape")} - {""})

    if kind not in _FILES and _misplaced(url):  # nobody knows what of it is the password
        lost(url.partition("://")[2].rpartition("@")[0].partition(":")[2], certain=False)
        return f"{scheme}://{_HIDDEN}", secrets
    if kind not in SOURCES:
        (rest, _, first), (query, _, second) = rest.partition("#"), query.partition("#")
        lost(first, certain=False)
        lost(second, certain=False)
    if kind not in _FILES:
        netloc, slash, path = rest.partition("/")
        user, at, host = netloc.rpartition("@")
        name, _, password = user.partition(":")
        lost(password, certain=True)
        if kind not in _NAMED and (kind, name) not in (("gs", "anonymous"), ("gcs", "anonymous")):
            lost(name, certain=False)
            name = at = ""
        rest = f"{name}{at}{host}{slash}{path}"
    parts = []
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        if _is_plain(kind, unquote(name)):
            parts.append(part)
        else:
            lost(value or name, certain=_SECRET.search(unquote(name)) is not None)
    return f"{scheme}://{rest}" + (f"?{'&'.join(parts)}" if parts else ""), secrets


def _is_plain(scheme: str, name: str) -> bool:
    """Whether the value of an option is known to be no secret."""
    dotted = scheme == "kafka" and "." in name  # librdkafka's
    return name in _PLAIN.get(scheme, ()) or (dotted and _SECRET.search(name) is None)


def _misplaced(url: str) -> bool:
    """Whether an @ or a : stands where a password with signs of its own would put it."""
    base, _, query = url.partition("?")
    netloc, _, path = base.partition("://")[2].partition("/")
    name = query.partition("&")[0].partition("=")[0]
    user, _, hosts = netloc.rpartition("@")
    # the names of files may have an @: it ends a password only behind a colon
    behind = (path, name) if is_source(url) or ":" in netloc else ()
    return (
        any("@" in text for text in (user, *behind))
        or "#" in netloc
        or not all(_HOST.fullmatch(host) for host in hosts.split(","))
    )
