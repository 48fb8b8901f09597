"""Audited programs: a callable or a command, called many times on one table."""

from __future__ import annotations

import json
import math
import os
import selectors
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

import numpy as np

from .._validate import choice, number
from .._vocabulary import ROW_FORMATS
from ..errors import InvalidParameter, ProgramFailure
from ._bounds import FloatArray
from ._exact import stated

__all__ = ["Called", "Command", "Program", "joined", "program_of"]

FAILED = -1.0  # in place of the number of values: for a failed run, if failures are counted
_LARGEST = 1e140
_SHOWN = 300  # characters of a program's output in an error


class Program(Protocol):
    """An audited program: tables in, numbers out."""

    @property
    def title(self) -> str:
        """Name for the sentence."""

    def released(self, rows: FloatArray, runs: int) -> list[FloatArray]:
        """Return the releases of ``runs`` independent runs on this table, one vector each."""

    def close(self) -> None:
        """End whatever is running."""


def joined(released: Sequence[FloatArray | None]) -> FloatArray:
    """Runs as one array: the number of values, then the values, padded with zeros; None: a failed run."""
    width = max((len(one) for one in released if one is not None), default=0)
    table = np.zeros((len(released), 1 + width))
    for row, one in zip(table, released, strict=True):
        row[0] = FAILED if one is None else len(one)
        if one is not None:
            # beyond this, squares overflow; larger values are not distinguished
            row[1 : 1 + len(one)] = np.clip(one, -_LARGEST, _LARGEST)
    return table


def _checked(values: Any, said: str) -> FloatArray:
    """The numbers of one run, as one vector."""
    try:
        vector = np.asarray(values, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise ProgramFailure(f"{said} released what is not numbers: {str(values)[:_SHOWN]!r}") from None
    if not len(vector):
        raise ProgramFailure(f"{said} released nothing")
    if not np.isfinite(vector).all():
        at = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise ProgramFailure(f"{said} released {vector[at]} as value {at + 1}: only finite numbers can be audited")
    return np.array(vector)


@dataclass
class Called:
    """A callable: ``release(rows)``, or ``many(rows, runs)`` where it has such an attribute."""

    release: Callable[[FloatArray], Any]
    title: str

    def released(self, rows: FloatArray, runs: int) -> list[FloatArray]:
        many = getattr(self.release, "many", None)
        where = f"{self.title}, given {_of(rows)},"
        try:
            # each run gets its own copy of the rows: a program may change them
            found = many(rows.copy(), runs) if many else [self.release(rows.copy()) for _ in range(runs)]
        except Exception as error:
            raise ProgramFailure(f"{where} failed: {type(error).__name__}: {error}") from error
        if len(found) != runs:
            raise ProgramFailure(f"{where} released {len(found)} results for {runs} runs")
        return [_checked(one, where) for one in found]

    def close(self) -> None:
        """Do nothing, because nothing is running."""


def _of(rows: FloatArray) -> str:
    return "an empty table" if not len(rows) else "1 row" if len(rows) == 1 else f"{len(rows):,} rows"


def _flat(value: Any, said: str) -> list[float]:
    """The numbers of a JSON value, in their order."""
    if isinstance(value, (bool, int, float)):
        try:
            return [float(value)]
        except OverflowError:
            return [math.inf if value > 0 else -math.inf]
    if isinstance(value, (list, dict)):
        inside = value.values() if isinstance(value, dict) else value
        return [number for one in inside for number in _flat(one, said)]
    raise ProgramFailure(f"{said} released what is not a number: {json.dumps(value)[:_SHOWN]}")


def _parsed(line: str, said: str) -> list[float]:
    try:
        return _flat(json.loads(line), said)
    except (ValueError, RecursionError):
        raise ProgramFailure(f"{said} printed what is not JSON: {line.strip()[:_SHOWN]!r}") from None


@dataclass
class Command:
    """A program of any language that reads rows and prints what it releases.

    Without ``requests`` the command is started once for each run. It reads the rows from its standard input, one a
    line, to the end, and prints one or several lines of JSON: numbers, or lists and objects of numbers, which together
    are what the run releases. An empty table has no line.

    With ``requests`` it is started once for all. It reads requests, one a line, each a JSON object
    ``{"rows": [[...], ...], "runs": 500}``, and answers each with as many lines as there are ``runs``: each of them is
    all that one run on these rows releases. It has to flush its output, and to draw noise anew for each run.

    With ``exact`` it is not run: it answers ``{"rows": [[...], ...], "distribution": true}`` with one line that states
    the distribution of what it releases: ``{"probabilities": [0.25, 0.75]}``, the same with an object of outcomes and
    their probabilities, or ``{"law": "laplace", "loc": 3.0, "scale": 1.0}`` for one number. Laws are those of
    scipy.stats, with its parameters: norm, laplace, logistic, uniform, expon, cauchy, t, gumbel_r, dlaplace, geom,
    binom, poisson.

    Parameters
    ----------
    command : str or sequence of str
        The program and its arguments; a text is split as a shell does, but no shell is started. In every word
        ``{seed}`` becomes a number below 2**63, another one each time that the command is started.
    rows : {"json", "csv"}, default="json"
        A row as a JSON list, or as numbers between commas; requests are JSON always.
    requests : bool, default=False
        Whether the program answers requests.
    exact : bool, default=False
        Whether it answers them with distributions.
    timeout : float, default=60.0
        Seconds that the program may take for its answer, above 0: for each run, or for each request.
    random_state : None or int
        Of the seeds. None: from the operating system.

    Raises
    ------
    InvalidParameter
        If the command is empty, a parameter is out of its range, or ``exact`` is given without ``requests``.

    Notes
    -----
    :class:`~privol.errors.ProgramFailure` is raised while it is used: where the program cannot be started, ends with
    another code than 0, prints nothing, or too little, or what is not numbers, or takes too long. It names what the
    program wrote to standard error last. A program that fails is ended with all processes that it started.
    """

    command: str | Sequence[str]
    rows: str = "json"
    requests: bool = False
    timeout: float = 60.0
    random_state: int | None = None
    exact: bool = False
    title: str = field(init=False)

    def __post_init__(self) -> None:
        choice(ROW_FORMATS, rows=self.rows)
        self.timeout = number(timeout=self.timeout, above=0.0)
        if self.exact and not self.requests:
            raise InvalidParameter("exact applies to commands that answer requests: set requests=True")
        try:
            self.words = shlex.split(self.command) if isinstance(self.command, str) else list(self.command)
        except ValueError as error:
            raise InvalidParameter(f"command cannot be split into words: {error}: {self.command!r}") from None
        if not self.words or not all(isinstance(word, str) for word in self.words):
            raise InvalidParameter(f"command must name a program, found {self.command!r}")
        self.title = shlex.join(self.words)
        self._random = np.random.default_rng(self.random_state)
        self._server: _Server | None = None

    def _started(self) -> list[str]:
        seed = str(self._random.integers(2**63))
        return [word.replace("{seed}", seed) for word in self.words]

    def released(self, rows: FloatArray, runs: int) -> list[FloatArray]:
        """Return the releases of ``runs`` runs on these rows, one vector each; ProgramFailure if the program fails."""
        said = self._said(rows)
        if self.exact:
            raise InvalidParameter(f"{self.title!r} states distributions (exact=True): this audit needs runs")
        if not self.requests:
            text = "".join(self._line(row) + "\n" for row in rows)
            return [_checked(self._once(text, said), said) for _ in range(runs)]
        with self._asked({"rows": rows.tolist(), "runs": runs}, runs, said) as lines:
            return [_checked(_parsed(line, said), said) for line in lines]

    @property
    def distribution(self) -> Callable[[FloatArray], Any] | None:
        """With ``exact``: a function from rows to the distribution that the program states for them."""
        return self._stated if self.exact else None

    def _stated(self, rows: FloatArray) -> Any:
        said = self._said(rows)
        with self._asked({"rows": rows.tolist(), "distribution": True}, 1, said) as (line,):
            try:
                return stated(json.loads(line))
            except (ValueError, RecursionError, InvalidParameter) as error:
                found = str(error) if isinstance(error, InvalidParameter) else "no JSON"
                raise ProgramFailure(f"{said} stated no distribution: {found}: {line.strip()[:_SHOWN]!r}") from None

    def _said(self, rows: FloatArray) -> str:
        return f"{self.title!r}, given {_of(rows)},"

    @contextmanager
    def _asked(self, request: dict[str, Any], lines: int, said: str) -> Iterator[list[str]]:
        """The lines that answer a request; if they are wrong, the program is ended."""
        if self._server is None:
            self._server = _Server(self._started(), said)
        try:
            yield self._server.answer(json.dumps(request), lines, self.timeout, said)
        except ProgramFailure:
            self.close()
            raise

    def _line(self, row: FloatArray) -> str:
        return json.dumps(row.tolist()) if self.rows == "json" else ",".join(map(repr, row.tolist()))

    def _once(self, text: str, said: str) -> list[float]:
        with tempfile.TemporaryFile("w+") as errors:
            process = _popen(self._started(), errors, said)
            try:
                printed, _ = process.communicate(text, timeout=self.timeout)
            except subprocess.TimeoutExpired:
                raise ProgramFailure(f"{said} took longer than {self.timeout:g} s{_last(errors)}") from None
            finally:
                _end(process)
            if process.returncode:
                raise ProgramFailure(f"{said} ended with code {process.returncode}{_last(errors)}")
            lines = [line for line in printed.splitlines() if line.strip()]
            if not lines:
                raise ProgramFailure(f"{said} printed nothing{_last(errors)}")
            return [value for line in lines for value in _parsed(line, said)]

    def close(self) -> None:
        """End the program if it answers requests and is running."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def __enter__(self) -> Command:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _popen(words: list[str], errors: IO[str], said: str) -> subprocess.Popen[str]:
    try:
        # a new session: the processes that it starts end with it
        return subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise ProgramFailure(f"{said} cannot be started: {error.strerror or error}") from None


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # the rest of a request to a program that has ended
                pipe.close()


def _last(errors: IO[str]) -> str:
    """The last line that a program wrote to standard error, for an error."""
    errors.seek(0)
    lines = [line.strip() for line in errors.read().splitlines() if line.strip()]
    return f"; it said last: {lines[-1][:_SHOWN]}" if lines else ""


class _Server:
    """A program that answers requests."""

    def __init__(self, words: list[str], said: str) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = _popen(words, self.errors, said)
        self.pending = b""

    def answer(self, request: str, lines: int, timeout: float, said: str) -> list[str]:
        """Send a request and wait for the given number of lines."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        source, sink = self.process.stdout.fileno(), self.process.stdin.fileno()
        for pipe in (source, sink):
            os.set_blocking(pipe, False)
        left, found = memoryview((request + "\n").encode()), list[bytes]()  # a pipe takes it in small pieces
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as ready:
            ready.register(source, selectors.EVENT_READ)
            ready.register(sink, selectors.EVENT_WRITE)
            while len(found) < lines:
                rest = deadline - time.monotonic()
                events = ready.select(max(0.0, rest))
                if not events and rest <= 0.0:
                    got = f" ({len(found)} of {lines} runs came)" if found else ""
                    raise ProgramFailure(f"{said} took longer than {timeout:g} s{got}{_last(self.errors)}")
                for key, _ in events:
                    if key.fd == sink:
                        try:
                            left = left[os.write(sink, left) :]
                        except BrokenPipeError:
                            left = left[:0]
                        if not left:
                            ready.unregister(sink)
                        continue
                    came = os.read(source, 1 << 16)
                    if not came:
                        code = self.process.wait()
                        raise ProgramFailure(
                            f"{said} ended with code {code} after {len(found)} of {lines} runs{_last(self.errors)}"
                        )
                    *whole, self.pending = (self.pending + came).split(b"\n")
                    found += [line for line in whole if line.strip()]
        if len(found) > lines or self.pending.strip():
            raise ProgramFailure(f"{said} printed more than one line for each of {lines} runs")
        return [line.decode("utf-8", "replace") for line in found]

    def close(self) -> None:
        _end(self.process)
        self.errors.close()


def program_of(program: Callable[[FloatArray], Any] | Command, name: str | None) -> Program:
    """Return the program for an argument."""
    if isinstance(program, Command):
        if name is not None:
            program.title = name
        return program
    if not callable(program):
        raise InvalidParameter(f"program must be a callable or a Command, found {program!r}")
    title = name or getattr(program, "__name__", None) or type(program).__name__
    return Called(program, Path(title).name if os.sep in title else title)
