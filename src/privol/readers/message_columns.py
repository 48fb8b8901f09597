"""Columns of a live source: the rows of its messages, in its order, until an end that the reader states."""

from __future__ import annotations

import re
import time
import warnings
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from ..errors import InvalidParameter, SourceAway, StreamError
from .aside import CONDITION, Aside
from .base import Facts, Progress, arrow
from .columns import ColumnsAround, Kind
from .csv_text import CsvOptions
from .feeds import OWN, Away, Feed, Message
from .payloads import Payload, payloads_of
from .pipe import BEAT
from .pipe import PAUSE as QUIET
from .positions import Positions

__all__ = ["MessageColumns"]

# Seconds for which a broker that is away is waited for, and between two attempts.
PATIENCE, PAUSE = 60.0, 0.25
# Messages that are asked for at once, and bundles whose names are remembered for errors.
MOST, _REMEMBERED = 8192, 64


class _Bundle(NamedTuple):
    """Consecutive messages with how many rows each has, those that are set aside none; and where they begin."""

    messages: list[Message]
    sizes: list[int]
    ends: list[int]  # rows up to the end of each message
    at: Any  # the feed's position before them
    aside: int  # messages that were set aside before them

    @classmethod
    def of(cls, messages: list[Message], sizes: list[int], at: Any, aside: int) -> _Bundle:
        ends, rows = [], 0
        for size in sizes:
            rows += size
            ends.append(rows)
        return cls(messages, sizes, ends, at, aside)

    @property
    def rows(self) -> int:
        return self.ends[-1] if self.ends else 0

    def passed(self, rows: int) -> tuple[int, int]:
        """Return how many messages the first so many rows complete, and how many rows there are of the next one."""
        whole = bisect_right(self.ends, rows)
        return whole, rows - (self.ends[whole - 1] if whole else 0)


class MessageColumns(ColumnsAround):
    """The rows of a feed's messages.

    A position says where the feed is after a row: behind its last whole message, and behind so many rows of the next.
    Its other columns, its names and its start are the same wherever a run goes on.

    Parameters
    ----------
    feed : Feed
    options : CsvOptions
        How messages of CSV are written; its ``names`` are those of the columns, if they are stated.
    format : str or None
        Of messages, if it is stated.
    named_target : bool
        Whether the target is known by its name.
    """

    def __init__(self, feed: Feed, options: CsvOptions, format: str | None, *, named_target: bool) -> None:
        self._feed = feed
        own, _ = feed.url.own(*OWN)
        self._rows = _count(own["rows"]) if "rows" in own else None
        folder = own.get("quarantine")
        if folder == "":
            raise InvalidParameter("quarantine in the URL must name a folder, found nothing")
        self._aside = None if folder is None else Aside(folder)
        self._positions = Positions(self._restore, self._settled, eager=feed.eager)
        self._away = False
        try:
            self._start = feed.start()
            feed.seek(self._start)
            facts = Facts(
                name=feed.name,
                n_rows=self._rows,
                sized=self._rows is not None,
                conditions=(*feed.conditions, *((CONDITION,) if folder is not None else ())),
                positions=self._positions,
                set_aside=None if folder is None else lambda: self._count,
                away=lambda: self._away,
                lag=lambda: feed.lag,
            )
            found = self._look(facts, options, format)
        except Away as err:
            raise SourceAway(f"{feed.name}: cannot be read: {err}") from None
        self.written_as, self._payloads, facts = found
        super().__init__(self._payloads.columns)
        self._payloads.columns.facts = facts
        self.facts = facts
        self.names = tuple(name for name in self.names if name not in feed.hidden)
        if self.written_as in ("jsonl", "fields") and not named_target:
            raise InvalidParameter(
                f"{feed.name}: target= is needed: the columns of its messages have names and no order, found "
                f"{', '.join(self.names)}"
            )
        self.format = None if self.written_as == "fields" else self.written_as
        self._places: dict[int, dict[str, Any]] = {}
        self._recent: deque[tuple[int, _Bundle]] = deque(maxlen=_REMEMBERED)
        self._count, self._begun = 0, False

    # ---- what is asked once ---------------------------------------------------------------------------

    def _look(self, facts: Facts, options: CsvOptions, format: str | None) -> Any:
        """Find out how messages are written, by one of them unless all of it is stated."""
        if not self._feed.again and (options.names is None or format != "jsonl"):
            raise InvalidParameter(
                f"{self._feed.name}: its messages come once, so none shows beforehand how they are written: they are "
                "JSON objects (format='jsonl'), whose fields columns=, or a schema under [file], names"
            )
        if options.names is not None and (hidden := [n for n in self._feed.hidden if n not in options.names]):
            options = replace(options, names=(*options.names, *hidden))
        if options.names is not None and self._feed.by_name:
            return payloads_of(format, dict.fromkeys((n.encode() for n in options.names), b""), facts, options)
        if options.names is not None and format in ("csv", "jsonl"):
            return payloads_of(format, None, facts, options)
        while True:
            refused = None
            for message in self._feed.peek(BEAT):
                try:
                    if message.payload is None:
                        raise StreamError(f"{facts.name}, row 1: has no content", row=1)
                    found = payloads_of(format, message.payload, facts, options)
                    found[1].put([message.payload])
                    return found
                except StreamError as err:
                    if self._aside is None:
                        raise self._of_message(err, message) from None
                except InvalidParameter as err:
                    if self._aside is None:
                        raise
                    refused = refused or err  # what is no message of any format may be one that is set aside
            if refused is not None:
                raise refused

    @property
    def ahead(self) -> bool:
        return self.facts.ahead and self.facts.repeatable

    def count(self) -> int:
        if self._rows is None:
            raise StreamError(f"{self.name}: has no end, so its rows cannot be counted: 'rows=N' in the URL ends it")
        return self._rows

    def sample(self, rows: int) -> Any:
        self._feed.seek(self._start)
        found = [message.payload for message in self._feed.peek(0.0) if message.payload is not None]
        kinds: dict[str, Kind] = dict.fromkeys(self.names, "cells")
        for size in (len(found), 1):
            try:
                self._payloads.put(found[:size])
                return self._payloads.columns.sample(rows).select(list(self.names))
            except StreamError:
                continue
        return arrow("messages").table({name: arrow("messages").nulls(0) for name in kinds})

    # ---- positions ------------------------------------------------------------------------------------

    def _place(self, rows: int, at: Any, within: int, aside: int) -> dict[str, Any]:
        asked: dict[str, Any] = {"from": self._feed.identity(), "written": self.written_as, "names": list(self.names)}
        return {**asked, "start": self._start, "rows": rows, "at": at, "within": within, "aside": aside}

    def _restore(self, position: Any) -> None:
        """Take a position that was kept: this must be the same source, with the same columns."""
        for word, now in (("from", self._feed.identity()), ("written", self.written_as), ("names", list(self.names))):
            if position[word] != now:
                raise StreamError(
                    f"{self.name}: the run was begun with {_said(position[word])}, and finds {_said(now)}: it goes on "
                    "only with the same stream and columns (columns= states them where messages differ)"
                )
        if self._rows is not None and position["rows"] > self._rows:
            raise StreamError(
                f"{self.name}: {position['rows']:,} rows are learnt, and it ends after {self._rows:,} (rows= in the "
                "URL, or the horizon)"
            )
        self._start = position["start"]
        self._places[position["rows"]] = position

    def _settled(self, position: Any, last: bool) -> None:
        """Acknowledge what a checkpoint has: if the broker is away, with the next one, and for the last one wait."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self._feed.acknowledge(position["at"])
                if last:
                    self._feed.confirm()
                return
            except Away as err:
                told = str(err)
            except StreamError as err:
                told, until = str(err), 0.0  # it comes again
            if not last or time.monotonic() >= until:
                break
            time.sleep(PAUSE)
            with suppress(Away, StreamError):
                self._feed.recall(position["at"])
        if last or not until:
            warnings.warn(
                f"{self.name}: what is learnt could not be acknowledged ({told}). No row is lost or learnt twice by "
                "that in this run; another run of the same group would get these messages again",
                RuntimeWarning,
                stacklevel=2,
            )

    # ---- an iteration ---------------------------------------------------------------------------------

    def batches(self, kinds: Mapping[str, Kind], limit: int, progress: Progress) -> Iterator[Any]:
        return self._read(kinds, 0, progress)

    def batches_after(
        self, rows: int, kinds: Mapping[str, Kind], limit: int, progress: Progress, what: str
    ) -> Iterator[Any]:
        if rows not in self._places:
            return super().batches_after(rows, kinds, limit, progress, what)
        return self._read(kinds, rows, progress)

    def _read(self, kinds: Mapping[str, Kind], rows: int, progress: Progress) -> Iterator[Any]:
        """Yield the rows after so many, whose position is known unless it is the beginning; None where it pauses."""
        if not self._feed.again and (self._begun or any(known > rows for known in self._places)):
            raise StreamError(
                f"{self.name}: its messages come once, and the first ones are learnt: a run that is evaluated, or "
                "takes its rows several times, cannot read them again (--no-diagnostics)"
            )
        self._begun = True
        place = self._places[rows] if rows else self._place(0, self._start, 0, 0)
        row, at, within = rows, place["at"], place["within"]
        self._count = place["aside"]
        trail = self._positions.begin(rows, place)
        behind, until, told, quiet = True, 0.0, "", False
        while self._rows is None or row < self._rows:
            progress(0.0 if self._rows is None else row / self._rows)
            self._feed.kept, asked = self._positions.followed, time.monotonic()
            try:
                if behind:
                    self._feed.seek(at)
                    behind = False
                left = MOST if self._rows is None else min(MOST, self._rows - row + within)
                messages = self._feed.read(left, BEAT if quiet else QUIET)
                until, self._away = 0.0, False
            except Away as err:
                until, told, behind = until or asked + PATIENCE, str(err), True
                self._away = True
                if time.monotonic() >= until:
                    raise SourceAway(
                        f"{self.name}, from row {row + 1}: it was away for more than {PATIENCE:.0f} seconds: {told}",
                        row=row + 1,
                    ) from None
                yield None  # rows that have come need not wait for it
                time.sleep(PAUSE)
                continue
            except StreamError:
                yield None  # what has come is learnt
                raise
            quiet = not messages
            if quiet:
                yield None
                continue
            bundle, batches = self._bundle(messages, kinds, at)
            behind = len(bundle.messages) < len(messages)  # one that cannot be read comes again, as the first one
            before, done, skipped, within = row - within, 0, within, 0
            self._recent.append((before, bundle))
            at = self._feed.after(at, bundle.messages)
            for batch in batches:
                first = max(skipped - done, 0)
                stop = batch.num_rows if self._rows is None else min(batch.num_rows, self._rows - before - done)
                if first < stop:
                    trail.add(stop - first, _After(self._position_in, before, bundle, done + first))
                    row += stop - first
                    yield batch.slice(first, stop - first)
                done += batch.num_rows
            self._count += sum(not size for size in bundle.sizes)
            if behind:
                yield None  # what comes before it is learnt

    def _position_in(self, before: int, bundle: _Bundle, rows: int) -> dict[str, Any]:
        """Return the position after so many rows of a bundle, which comes after ``before`` rows."""
        whole, within = bundle.passed(rows)
        aside = bundle.aside + sum(not size for size in bundle.sizes[:whole])
        return self._place(before + rows, self._feed.after(bundle.at, bundle.messages[:whole]), within, aside)

    def _bundle(self, messages: list[Message], kinds: Mapping[str, Kind], at: Any) -> tuple[_Bundle, list[Any]]:
        """Return the rows of messages, and those messages: up to one that cannot be read, unless it is set aside.

        Raises
        ------
        StreamError
            If the first of them cannot be read.
        """
        sizes: list[int] = []
        batches: list[Any] = []
        todo = [messages]
        while todo:
            part = todo.pop()
            try:
                found = self._taken([self._payload(message) for message in part], kinds)
            except StreamError as err:
                if len(part) > 1:  # the careful look: which one is it?
                    middle = len(part) // 2
                    todo += [part[middle:], part[:middle]]
                    continue
                bad = self._of_message(err, part[0])
                if self._aside is None:
                    if sizes:
                        break
                    raise bad from None
                self._aside.put(part[0].name, part[0].payload, str(bad))
                found = [0], []
            sizes += found[0]
            batches += found[1]
        return _Bundle.of(messages[: len(sizes)], sizes, at, self._count), batches

    def _payload(self, message: Message) -> Payload:
        if message.payload is None or message.fault is not None:
            raise StreamError(f"{self.name}, row 1: {message.fault or 'has no content'}", row=1)
        return message.payload

    def _taken(self, payloads: Sequence[Payload], kinds: Mapping[str, Kind]) -> tuple[list[int], list[Any]]:
        """Return how many rows messages have, and these rows, which are whole and right, or raise StreamError."""
        wanted, accept = self._judge(kinds)
        sizes = self._payloads.put(payloads)
        batches = list(self._payloads.columns.batches(wanted, sum(sizes), lambda _: None))
        found = sum(batch.num_rows for batch in batches)
        if found != sum(sizes):
            raise StreamError(f"{self.name}, row 1: found {found} row(s) in {sum(sizes)} line(s)", row=1)
        if accept is not None:
            row = 1
            for batch in batches:
                accept(batch, row)
                row += batch.num_rows
            batches = [batch.select(list(kinds)) for batch in batches]
        return sizes, batches

    def _judge(self, kinds: Mapping[str, Kind]) -> tuple[Mapping[str, Kind], Callable[[Any, int], object] | None]:
        """Return the columns to read, and what refuses rows of them where such messages are set aside.

        It is the latest encoder of the most columns, whoever reads: whoever asks for the users alone has the same rows.
        """
        fit = [] if self._aside is None else self.accepts
        fit = [known for known in fit if all(kinds.get(name, kind) == kind for name, kind in known[0].items())]
        if not fit:
            return kinds, None
        asked, accept = max(reversed(fit), key=lambda known: len(known[0]))
        return {**kinds, **asked}, accept

    def _of_message(self, err: StreamError, message: Message) -> StreamError:
        """Return the error about a message alone, whose rows are counted from 1, in terms of the message."""
        text, name = str(err), message.name
        if err.row is not None and err.row > 1:
            name += f", row {err.row} of it"
        found = re.sub(r", (from )?row \d+", f", {name}", text, count=1)
        if found == text:
            found = f"{self._feed.name}, {name}: {text.removeprefix(f'{self._feed.name}: ')}"
        return StreamError(found)

    def located(self, error: StreamError) -> StreamError:
        """Return the error about a row with the name of the message that has it."""
        if error.row is None:
            return error
        for before, bundle in reversed(self._recent):
            if before < error.row <= before + bundle.rows:
                whole, _ = bundle.passed(error.row - before - 1)
                name = bundle.messages[whole].name
                return StreamError(re.sub(rf"\brow {error.row}\b", f"row {error.row} ({name})", str(error), count=1),
                                   row=error.row)  # fmt: skip
        return error


class _After:
    """The position after the first k rows of a part of a bundle."""

    def __init__(self, position: Callable[..., Any], before: int, bundle: _Bundle, first: int) -> None:
        self._position, self._before, self._bundle, self._first = position, before, bundle, first

    def __call__(self, rows: int) -> Any:
        return self._position(self._before, self._bundle, self._first + rows)


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text) or not int(text):
        raise InvalidParameter(f"rows in the URL must be a whole number of at least 1, found {text!r}")
    return int(text)


def _said(what: Any) -> str:
    if isinstance(what, dict):
        return ", ".join(f"{name} {value!r}" for name, value in what.items())
    return ", ".join(map(repr, what)) if isinstance(what, list) else repr(what)
