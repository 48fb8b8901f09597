"""Ranks of MPI: the nodes of :class:`privol.DOLA` in several processes, which exchange the nodes' messages.

Each process has some of the nodes, with their rows and their noise, which no other process sees. Ranks exchange only
counts and what nodes send to their neighbours anyway. This is the only module that imports mpi4py; it needs that and an
MPI library, for example from ``pip install privol[mpi]``.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._sparse import sound_rows
from .._validate import integer, number
from .._values import block_of
from ..errors import InvalidParameter, RankFailure, StateError
from ..topology import MixingMatrix, MixingSchedule, PeriodicMixing

__all__ = ["DealtRows", "Exchange", "InterleavedRows", "NetworkRows", "Ranks", "on_all_ranks"]

FloatArray = NDArray[np.float64]
Integers = NDArray[np.int64]

_PARAMETERS, _FAILURE = 1, 2  # tags
_WORDS = 512  # bytes of the message that a failing rank sends
_TEXT = 1 << 20  # bytes of what a rank states about its rows
_LARGEST = 1e150  # of a parameter's magnitude: the kernel limits all that it sends to this
_SPINS = 4096  # polls of the requests before the processor is yielded between polls
_PAUSE = 5e-5


def _mpi() -> Any:
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise StateError(
            f"privol.distributed needs mpi4py and an MPI library (pip install 'privol[mpi]' brings both): {error}"
        ) from error
    return MPI


def on_all_ranks(error: Exception) -> Exception:
    """Mark an error that every rank raises by itself, so that no rank needs to tell the others."""
    error.__dict__["on_all_ranks"] = True
    return error


class Ranks:
    """The processes of an MPI job, of which this is one.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm, optional
        Default: all processes. It is duplicated: no message of privol meets another's.
    timeout : float, default=600.0
        Seconds that the others may say nothing before :class:`privol.errors.RankFailure`; above 0, may be infinite.

    Attributes
    ----------
    rank, size : int
        The number of this process, from 0, and how many there are.
    messages, bytes : int
        What this rank has sent to others: messages (one a round to every rank that hears its nodes), and their bytes.
    """

    def __init__(self, comm: Any = None, *, timeout: float = 600.0) -> None:
        self._mpi = _mpi()
        self._timeout = number(timeout=timeout, above=0.0, infinite=True)
        self._comm = (self._mpi.COMM_WORLD if comm is None else comm).Dup()
        self.rank: int = self._comm.Get_rank()
        self.size: int = self._comm.Get_size()
        self.messages = self.bytes = 0
        self._said: Any = None  # the failure message of this rank, and the requests that send it
        self._heard = np.zeros(_WORDS, dtype=np.uint8)
        self._failure: RankFailure | None = None
        self._under_way: object = None  # buffers that MPI may still write into, however the wait for them has ended

    def __repr__(self) -> str:
        return f"<Ranks: {self.rank} of {self.size}>"

    def __reduce__(self) -> Any:
        raise StateError("ranks are connections of this process, and cannot be pickled or copied")

    def part(self, nodes: int, rank: int | None = None) -> tuple[int, int]:
        """Return the first node of a rank (default: this one), and how many it has: all in order, as even as can be.

        Raises
        ------
        InvalidParameter
            If there are more ranks than nodes.
        """
        nodes = integer(nodes=nodes, at_least=1)
        if nodes < self.size:
            raise InvalidParameter(f"nodes must be at least the number of ranks, {self.size}, found {nodes}")
        k = self.rank if rank is None else rank
        share, more = divmod(nodes, self.size)
        return k * share + min(k, more), share + (k < more)

    # ---- collective operations ---------------------------------------------------------------------------------------

    def gather(self, values: Integers | list[int]) -> Integers:
        """Return the integers of all ranks, shape (size, n); every rank gives the same number of them."""
        mine = np.ascontiguousarray(values, dtype=np.int64)
        found = np.empty((self.size, len(mine)), dtype=np.int64)
        self.wait([self._comm.Iallgather(mine, found)])
        return found

    def counts(self, rows: int) -> Integers:
        """Return how many rows each rank has; this one has ``rows``."""
        return self.gather([rows])[:, 0]

    def gather_nodes(self, rows: FloatArray) -> FloatArray:
        """Return the rows of all nodes, in order, from the rows that each rank has for its nodes."""
        mine = np.ascontiguousarray(rows)
        counts = self.gather(np.array([mine.size]))[:, 0]
        found = np.empty(int(counts.sum()))
        self.wait([self._comm.Iallgatherv(mine.reshape(-1), (found, counts))])
        return found.reshape(-1, mine.shape[1])

    def gather_json(self, value: Any) -> list[Any]:
        """Return the JSON values of all ranks.

        Raises
        ------
        InvalidParameter
            On every rank, if one has sent something else, or more than 2**20 bytes.
        """
        content = json.dumps(value).encode()
        lengths = self.gather([len(content)])[:, 0]
        if not ((lengths > 0) & (lengths <= _TEXT)).all():
            raise on_all_ranks(InvalidParameter(f"a rank may say at most {_TEXT} bytes, found {lengths.tolist()}"))
        padded = content.ljust(-(-int(lengths.max()) // 8) * 8)
        found = self.gather(np.frombuffer(padded, dtype=np.int64))
        try:
            return [json.loads(bytes(row)) for row in found]
        except ValueError:
            raise on_all_ranks(InvalidParameter("a rank has sent something other than JSON")) from None

    def agree(self, **values: Any) -> None:
        """Make sure that all ranks have the same values (of which the text is compared).

        Raises
        ------
        InvalidParameter
            On every rank, if they differ: it names the value and the first rank that differs from rank 0.
        """
        digests = [hashlib.sha256(repr(value).encode()).digest() for value in values.values()]
        found = self.gather(np.frombuffer(b"".join(digests), dtype=np.int64)).reshape(self.size, len(digests), 4)
        for k, (name, value) in enumerate(values.items()):
            different = np.flatnonzero((found[:, k] != found[0, k]).any(axis=1))
            if len(different):
                mine = "" if self.rank not in (0, different[0]) else f" (here: {value!r})"
                error = InvalidParameter(f"{name} must be the same on all ranks: rank {different[0]} has another{mine}")
                raise on_all_ranks(error)

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.wait([self._comm.Ibarrier()])

    # ---- waiting and failing ---------------------------------------------------------------------------------------

    def fail(self, words: str) -> None:
        """Tell the others that this rank must stop, so that they stop too; ``words`` must reveal nothing about rows."""
        if self._said is None and self.size > 1:
            content = np.zeros(_WORDS, dtype=np.uint8)
            text = words.encode()[:_WORDS]
            content[: len(text)] = np.frombuffer(text, dtype=np.uint8)
            others = [rank for rank in range(self.size) if rank != self.rank]
            self._said = content, [self._comm.Isend(content, dest=rank, tag=_FAILURE) for rank in others]

    def check(self) -> None:
        """See whether another rank has failed.

        Raises
        ------
        RankFailure
        """
        if self._failure is not None:
            raise self._failure
        if self._said is not None:
            raise StateError("this rank has told the others that it cannot go on: another run needs new Ranks")
        status = self._mpi.Status()
        if self._comm.Iprobe(tag=_FAILURE, status=status):
            source = status.Get_source()
            self._comm.Recv(self._heard, source=source, tag=_FAILURE)
            words = bytes(self._heard).rstrip(b"\0").decode(errors="replace")
            self._failed(f"rank {source} cannot go on: {words}", source)

    def refuse(self, message: str, rank: int) -> NoReturn:
        """End the run on all ranks because of what another rank has done."""
        self.fail(message)
        self._failed(message, rank)

    def _failed(self, message: str, rank: int | None) -> NoReturn:
        """From now on end every wait with this error: a kernel asks again after a wait that ended in an error."""
        self._failure = RankFailure(message, rank=rank)
        raise self._failure

    def wait(self, requests: list[Any]) -> None:
        """Wait for what is under way; signals are served meanwhile.

        Raises
        ------
        RankFailure
            If another rank has failed, or all have said nothing for as long as ``timeout`` says.
        """
        self.check()
        done, spins, start = self._mpi.Request.Testall, 0, 0.0
        while not done(requests):
            spins += 1
            if spins % 64 == 0:
                self.check()
            if spins >= _SPINS:
                start = start or time.monotonic()
                if time.monotonic() - start > self._timeout:
                    self._failed(f"the other ranks have said nothing for {self._timeout:g} s", None)
                time.sleep(_PAUSE)

    def exchange(self, schedule: MixingSchedule, dim: int) -> Exchange:
        """Return what moves the parameters of neighbours between ranks.

        Parameters
        ----------
        schedule : MixingSchedule
        dim : int
            Coordinates of what a node sends.
        """
        return Exchange(self, schedule, dim)


class Exchange:
    """Messages that nodes of this rank hear from those of others, round by round: only rows with mixing weights.

    Made by :meth:`Ranks.exchange`; called by the kernel after every round.

    Attributes
    ----------
    heard : ndarray of int64
        Nodes of other ranks that nodes here may hear, ascending.
    before : list of callable
        Each is called as ``f(round, rows)`` with the messages that the nodes here are about to send, and may raise.
    """

    def __init__(self, ranks: Ranks, schedule: MixingSchedule, dim: int) -> None:
        self._ranks, self._schedule, self._dim = ranks, schedule, dim
        nodes = schedule.n_nodes
        self._first, self._own = ranks.part(nodes)
        self._owner = np.empty(nodes, dtype=np.int64)
        for rank in range(ranks.size):
            first, own = ranks.part(nodes, rank)
            self._owner[first : first + own] = rank
        i, j = schedule.topology.edges[:, 0], schedule.topology.edges[:, 1]
        ends = np.concatenate([j[self._owner[i] == ranks.rank], i[self._owner[j] == ranks.rank]])
        self.heard: Integers = np.unique(ends[self._owner[ends] != ranks.rank])
        self._places = np.full(nodes, -1, dtype=np.int64)  # positions in the kernel's array of everything sent
        self._places[self._first : self._first + self._own] = np.arange(self._own)
        self._places[self.heard] = self._own + np.arange(len(self.heard))
        self._partners: dict[int, list[tuple[int, Integers, Integers]]] = {}
        self.before: list[Callable[[int, FloatArray], object]] = []

    def _of_round(self, t: int) -> list[tuple[int, Integers, Integers]]:
        """Yield each other rank with the positions of what it gets and of what comes from it, in the nodes' order."""
        schedule, me = self._schedule, self._ranks.rank
        periodic = isinstance(schedule, PeriodicMixing)
        key = (t - 1) % schedule.period if isinstance(schedule, PeriodicMixing) else t
        found = self._partners.get(key)
        if found is not None:
            return found
        matrix: MixingMatrix = schedule.matrix(t)
        hears, says = self._owner[matrix.rows], self._owner[matrix.indices]
        between = hears != says
        found = []
        for rank in np.unique(np.concatenate([hears[between & (says == me)], says[between & (hears == me)]])).tolist():
            given = np.unique(matrix.indices[(says == me) & (hears == rank)])
            taken = np.unique(matrix.indices[(hears == me) & (says == rank)])
            found.append((rank, self._places[given], self._places[taken]))
        if not periodic:
            self._partners.clear()
        self._partners[key] = found
        return found

    def __call__(self, round_: int, sent: FloatArray) -> None:
        """Send what nodes here have sent in a round to the others, and receive theirs into ``sent``.

        Any error ends the run: a message that has left is never made again.
        """
        ranks, comm = self._ranks, self._ranks._comm
        for see in self.before:
            see(round_, sent[: self._own])
        requests: list[Any] = []
        incoming: list[tuple[Integers, FloatArray, int]] = []
        outgoing: list[FloatArray] = []
        ranks._under_way = requests, incoming, outgoing
        for rank, _, taken in self._of_round(round_ + 1):
            if len(taken):
                rows = np.empty((len(taken), self._dim))
                incoming.append((taken, rows, rank))
                requests.append(comm.Irecv(rows, source=rank, tag=_PARAMETERS))
        for rank, given, _ in self._of_round(round_ + 1):
            if len(given):
                rows = sent[given]
                outgoing.append(rows)
                requests.append(comm.Isend(rows, dest=rank, tag=_PARAMETERS))
                ranks.messages += 1
                ranks.bytes += rows.nbytes
        ranks.wait(requests)
        for places, rows, rank in incoming:
            # the charge for the kernel's rounding assumes that no node sends anything else
            if not (np.abs(rows) <= _LARGEST).all():
                ranks.refuse(f"rank {rank} has sent numbers that are not finite, or beyond {_LARGEST:g}", rank)
            sent[places] = rows


# ---- rows of the nodes here --------------------------------------------------------------------------------------


class _Block:
    """A block of rows, as streams give it."""

    def __init__(self, X: Any, y: Any, first_row: int, seen: Any = None) -> None:
        self.X, self.y, self.first_row, self.seen = X, y, first_row, seen


def _name_users(streams: list[Any], key: bytes) -> bool:
    """Have streams state the users of their rows, by hashes under one key; none of these streams is resumed here."""
    for stream in streams:
        go_on = getattr(stream, "go_on", None)
        if go_on is not None:
            go_on(key)
    return False


class DealtRows:
    """The rows of one stream that the nodes of a rank have: row k, from 0 on, is node ``k mod nodes``'s.

    Every rank reads the same whole stream and keeps its own rows: its statements on users cover all rows.

    Parameters
    ----------
    stream : Stream
        As :func:`privol.open_stream` returns; it must know its number of rows.
    ranks : Ranks
    nodes : int
    """

    dealt = True

    def __init__(self, stream: Any, ranks: Ranks, nodes: int) -> None:
        self._stream, self._nodes = stream, nodes
        self._first, self._own = ranks.part(nodes)
        self.classes = stream.classes
        total = stream.n_rows
        if total is None:
            raise InvalidParameter("the stream must know its number of rows, by count_rows(): ranks deal them out")
        full, rest = divmod(total, nodes)
        self.n_rows = full * self._own + min(max(rest - self._first, 0), self._own)
        self.rows_per_user = getattr(stream, "rows_per_user", None)
        self.user = getattr(stream, "user", None)
        self.conditions = tuple(getattr(stream, "conditions", ()))

    def __iter__(self) -> Iterator[Any]:
        seen = 0
        for block in self._stream:
            node = (seen + np.arange(block.X.shape[0])) % self._nodes
            kept = np.flatnonzero((node >= self._first) & (node < self._first + self._own))
            seen += block.X.shape[0]
            if len(kept):
                X, y = block_of(block)
                named = getattr(block, "seen", None)
                own = None if named is None else named[kept]
                yield _Block(sound_rows(X)[kept], None if y is None else y[kept], block.first_row, own)

    def go_on(self, key: bytes, *, rows: int = 0, seen: Any = tuple) -> bool:
        """Have blocks state their users, for a run that is kept; earlier rows all come again."""
        return _name_users([self._stream], key)


class InterleavedRows:
    """Streams of single nodes as one: a row of each in turn.

    Parameters
    ----------
    streams : list of Stream
        One for each node of this rank, in the nodes' order; they must know their numbers of rows, which are equal.
    rounds : int, default=256
        Rows of each stream that are read at a time.

    Raises
    ------
    InvalidParameter
        If their numbers of rows or their classes differ.
    """

    def __init__(self, streams: list[Any], *, rounds: int = 256) -> None:
        lengths = [stream.n_rows for stream in streams]
        if None in lengths or len(set(lengths)) != 1:
            raise InvalidParameter(f"all nodes must have the same number of rows, found {lengths}")
        classes = {stream.classes for stream in streams}
        if len(classes) != 1:
            raise InvalidParameter(f"all nodes must have the same classes, found {sorted(map(str, classes))}")
        self._streams, self._rounds = streams, integer(rounds=rounds, at_least=1)
        self.classes = streams[0].classes
        self.n_rows = sum(lengths)
        self.rows_per_user, self.user = _of_users(
            [(getattr(stream, "rows_per_user", None), getattr(stream, "user", None)) for stream in streams]
        )
        self.conditions = tuple(dict.fromkeys(c for s in streams for c in getattr(s, "conditions", ())))

    def __iter__(self) -> Iterator[Any]:
        readers = [_Pieces(iter(stream), self._rounds) for stream in self._streams]
        seen, own = 0, len(readers)
        while True:
            read = [reader.read() for reader in readers]
            pieces = [piece for piece in read if piece is not None]
            lengths = {piece.X.shape[0] for piece in pieces}
            if not pieces:
                return
            if len(lengths) > 1 or len(pieces) < own:
                raise InvalidParameter(f"a node's stream ended before others: at most {self._rounds} rows after {seen}")
            n = lengths.pop()
            order = np.arange(own * n).reshape(own, n).T.reshape(-1)
            named = [p.seen for p in pieces]
            users = None if any(part is None for part in named) else np.concatenate(named)[order]
            y = np.concatenate([p.y for p in pieces])[order]
            yield _Block(_joined([p.X for p in pieces])[order], y, seen, users)
            seen += own * n

    def go_on(self, key: bytes, *, rows: int = 0, seen: Any = tuple) -> bool:
        """Have blocks state their users, for a run that is kept; earlier rows all come again."""
        return _name_users(self._streams, key)


class NetworkRows:
    """The stream of a rank, with what it says of users and rows replaced by what holds of the rows of all ranks.

    A guarantee between ranks is the network's. A user may have rows on several ranks, so the caps of all are added;
    where a rank has none, or goes by another column, nothing is said of users.

    Parameters
    ----------
    stream : RowStream
    ranks : Ranks
        All of them make one at the same time.

    Raises
    ------
    InvalidParameter
        On every rank, if one says what cannot be.
    """

    def __init__(self, stream: Any, ranks: Ranks) -> None:
        self._stream = stream
        self.n_rows: int | None = stream.n_rows
        self.classes = stream.classes
        said = {
            "rows_per_user": getattr(stream, "rows_per_user", None),
            "user": getattr(stream, "user", None),
            "dealt": bool(getattr(stream, "dealt", False)),
            "conditions": list(getattr(stream, "conditions", ())),
        }
        found = ranks.gather_json(said)
        if not all(map(_can_be_said, found)):
            raise on_all_ranks(InvalidParameter(f"what a rank says of its rows cannot be: {found}"))
        users = [(one["rows_per_user"], one["user"]) for one in found]
        conditions = [condition for one in found for condition in one["conditions"]]
        one_stream = all(one["dealt"] for one in found) and len(set(users)) == 1
        self.rows_per_user, self.user = _of_users(users[:1] if one_stream else users)
        if one_stream and len(users) > 1 and self.rows_per_user is not None:
            conditions.append("all ranks deal out the rows of the same stream, in which those of a user are counted")
        self.conditions = tuple(dict.fromkeys(conditions))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._stream)

    def go_on(self, key: bytes, *, rows: int = 0, seen: Any = tuple) -> bool:
        """Have blocks state their users, for a run that is kept; earlier rows all come again."""
        return _name_users([self._stream], key)


def _can_be_said(said: Any) -> bool:
    """Whether a value from another rank is a valid statement about its rows."""
    if not isinstance(said, dict) or set(said) != {"rows_per_user", "user", "dealt", "conditions"}:
        return False
    cap, conditions = said["rows_per_user"], said["conditions"]
    return (
        (cap is None or (type(cap) is int and cap >= 1))
        and (said["user"] is None or isinstance(said["user"], str))
        and isinstance(said["dealt"], bool)
        and isinstance(conditions, list)
        and all(isinstance(condition, str) for condition in conditions)
    )


def _of_users(parts: list[tuple[int | None, str | None]]) -> tuple[int | None, str | None]:
    """Rows per user over several streams, and what tells users apart; None where one stream does not know."""
    caps = [cap for cap, _ in parts if cap is not None]
    columns = {user for _, user in parts}
    if len(caps) < len(parts) or len(columns) > 1:
        return None, None
    return sum(caps), columns.pop()


class _Pieces:
    """Cuts the blocks of a stream into pieces with a given number of rows."""

    def __init__(self, blocks: Iterator[Any], rows: int) -> None:
        self._blocks, self._rows = blocks, rows
        self._X: Any = None
        self._y: Any = None
        self._seen: Any = None

    def read(self) -> _Block | None:
        while self._X is None or self._X.shape[0] < self._rows:
            block = next(self._blocks, None)
            if block is None:
                break
            X, y = block_of(block)
            X = sound_rows(X)
            # a copy, because streams may reuse their memory
            self._X = X.copy() if self._X is None else _joined([self._X, X])
            self._y = np.array(y) if self._y is None else np.concatenate([self._y, y])
            named = getattr(block, "seen", None)
            if named is not None:  # either all blocks of a stream name users, or none does
                self._seen = np.array(named) if self._seen is None else np.concatenate([self._seen, named])
        if self._X is None or self._X.shape[0] == 0:
            return None
        users = None if self._seen is None else self._seen[: self._rows]
        piece = _Block(self._X[: self._rows], self._y[: self._rows], 0, users)
        self._X, self._y = self._X[self._rows :], self._y[self._rows :]
        self._seen = None if self._seen is None else self._seen[self._rows :]
        return piece


def _joined(blocks: list[Any]) -> Any:
    return sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.concatenate(blocks)
