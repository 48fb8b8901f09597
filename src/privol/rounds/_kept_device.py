"""A device that outlives its process: every answer is on the disk before it is handed out, and is never made twice."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._files import AppendOnly, sync_folder
from .._validate import integer
from ..errors import BudgetExceeded, InvalidMessage, InvalidParameter, StateError
from ..losses import Loss
from ._device import Device
from ._messages import parse_question, read_place

__all__ = ["KeptDevice"]

_NAME = "answers.jsonl"
_FORMAT = {"format": "privol.kept-device", "version": 1}


class _Answered(NamedTuple):
    """An answer that was made: the digest of its question, and its bytes."""

    question: str
    answer: bytes


class KeptDevice:
    """A user's device whose reports are counted on the disk, so that no crash or repetition makes another one.

    What :class:`Device` is in one process, this is over all processes that use the same directory. An answer reaches
    the disk before it is handed out. The same question is then answered by the same bytes, without a look at the row,
    as often as it comes; another question of the same round is refused.

    Parameters
    ----------
    directory : path
        Of this device alone. Made if it does not exist; its parent must. Holds ``answers.jsonl``: what was answered.
    n_features, epsilon, delta, leakage, adjacency, loss, fit_intercept
        As of :class:`Device`.
    reports : int, default=1
        Reports in the lifetime of the directory, whoever asks: k of them on one row cost k epsilon.
    random_state : None or int
        ``None``: noise that cannot be reproduced. An integer is for tests: report n, from 0 on, has the noise of
        ``numpy.random.SeedSequence(random_state, spawn_key=(n,))``.

    Notes
    -----
    A crash before an answer is on the disk loses it with its noise, which nobody has seen: the next call makes another.
    Never remove the directory, or restore it from a copy: the device would forget what it has reported. One process at
    a time uses it; another gets a :class:`~privol.errors.StateError` meanwhile. The directory holds answers and digests
    of questions, which are public, and nothing of the row.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        n_features: int,
        epsilon: float | None = None,
        delta: float | None = None,
        leakage: float | None = None,
        adjacency: str = "replace",
        reports: int = 1,
        loss: str | Loss = "logistic",
        fit_intercept: bool = True,
        random_state: int | None = None,
    ) -> None:
        self.directory = Path(directory)
        self._words: dict[str, Any] = {
            "n_features": n_features,
            "epsilon": epsilon,
            "delta": delta,
            "leakage": leakage,
            "adjacency": adjacency,
            "loss": loss,
            "fit_intercept": fit_intercept,
        }
        self._reports = integer(reports=reports, at_least=1)
        self._seed = None if random_state is None else integer(random_state=random_state, at_least=0)
        self.dim = Device(**self._words).dim

    def __repr__(self) -> str:
        return f"<KeptDevice in {self.directory}: {self.dim} coordinates, at most {self._reports} reports>"

    @property
    def n_reports(self) -> int:
        """Reports that were made, by whatever process."""
        with _Journal(self.directory) as journal:
            return len(journal.answered)

    def answer(self, question: bytes, row: Callable[[int], tuple[ArrayLike, float]]) -> bytes:
        """Return the answer of one round, the same whenever this question comes.

        Parameters
        ----------
        question : bytes
            From the learner, not trusted.
        row : callable
            ``row(n)`` returns the features and the target that :meth:`Device.answer` takes, for report n, from 0 on: a
            device that plays many users gives the row of user n. Called only if a report is to be made: after the
            question was accepted, and never for a question that is repeated.

        Returns
        -------
        bytes
            Public.

        Raises
        ------
        InvalidMessage
            If the question is malformed, of another task than this device has, or another one of a round that was
            answered. No report was made.
        BudgetExceeded
            If its noise is less than the owner accepts, or all reports are made. No report was made.
        InvalidParameter
            If the row is an array of another shape. No report was made.
        StateError
            If the directory is damaged, or in use elsewhere. No report was made.
        OSError
            If the answer cannot be kept: nobody has seen its report, which does not count.
        """
        place, _, _ = parse_question(question, self.dim)
        digest = hashlib.sha256(question).hexdigest()
        with _Journal(self.directory) as journal:
            known = journal.answered.get(place)
            if known is not None:
                if known.question != digest:
                    run, number = read_place(place)
                    raise InvalidMessage(
                        f"this device has answered another question of round {number} of the run {run.hex()}: a round "
                        "has one question"
                    )
                return known.answer
            made = len(journal.answered)
            if made >= self._reports:
                raise BudgetExceeded(f"this device makes {self._reports} reports, and has made {made}")
            seed = None if self._seed is None else np.random.SeedSequence(self._seed, spawn_key=(made,))
            device = Device(**self._words, random_state=seed)
            device.check(question)
            x, y = _pair(row(made))
            answer = device.answer(question, x, y)
            journal.keep(place, _Answered(digest, answer))
            return answer


def _pair(found: Any) -> tuple[Any, Any]:
    """A row and its target; nothing of what was found is shown."""
    if not (isinstance(found, tuple) and len(found) == 2):
        raise InvalidParameter(f"row must return the features and the target, found a {type(found).__name__}")
    return found[0], found[1]


class _Journal:
    """The answers in a directory, open for one process; reading it costs time in proportion to their number."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._path = directory, directory / _NAME
        self.answered: dict[bytes, _Answered] = {}

    def __enter__(self) -> _Journal:
        with suppress(FileExistsError):
            os.mkdir(self._directory, 0o700)
        self._file = AppendOnly(self._path)
        try:
            self._read()
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _read(self) -> None:
        content = self._path.read_bytes()
        whole = content.rfind(b"\n") + 1  # an answer that a crash cut short was never handed out
        self._file.begin(whole)
        lines = content[:whole].splitlines()
        if not lines:
            sync_folder(self._directory.parent)  # whoever made the directory may have ended before this
            self._file.append(json.dumps(_FORMAT).encode() + b"\n")
            return
        try:
            if json.loads(lines[0]) != _FORMAT:
                raise ValueError("its first line is of another format or version")
            for line in lines[1:]:
                found = json.loads(line)
                place, answer = bytes.fromhex(found["place"]), base64.b64decode(found["answer"], validate=True)
                read_place(place)
                if place in self.answered or hashlib.sha256(answer).hexdigest() != found["sum"]:
                    raise ValueError("a round is there twice, or an answer is not what was kept")
                self.answered[place] = _Answered(found["question"], answer)
        except Exception as error:
            raise StateError(
                f"{self._path}: cannot be read, line {len(self.answered) + 2}: {error!r}; without it the device does "
                "not know what it has reported, and reports nothing more"
            ) from None

    def keep(self, place: bytes, made: _Answered) -> None:
        """Write an answer for good."""
        record = {
            "place": place.hex(),
            "question": made.question,
            "answer": base64.b64encode(made.answer).decode(),
            "sum": hashlib.sha256(made.answer).hexdigest(),
        }
        self._file.append(json.dumps(record).encode() + b"\n")
        self.answered[place] = made
