"""Rows that are given one by one to a run which outlives its process: ``learn_one`` with a directory."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self, cast

from sklearn.base import is_classifier

from ._validate import integer
from ._values import shown
from .auto.base import PrivateModel
from .encoding.schema import Schema
from .errors import BudgetExceeded, InvalidParameter, StateError
from .learners import OnlineLearner
from .learners.views import declared_classes, declared_names, horizon_of_rows, most_rows
from .ledger import Ledger
from .readers.queues import QueueRows
from .state import State
from .streams import open_stream

__all__ = ["LiveRun"]

#: Rows that may wait to be learnt, and seconds after which whoever waits for room looks again.
_MOST, _LOOK = 8192, 0.001
_BINARY = (False, True)


#: What the guarantee takes for granted of rows that are given so.
ONCE = (
    "that each row was given once, also where a run went on in another process, is the caller's claim: nobody has "
    "compared the rows before"
)


class _Stopped(Exception):
    """Ends the stream of rows, and not the run."""


class LiveRun:
    """A run that rows are given to one by one, and that is kept on the disk.

    A thread learns the rows by ``model.fit_stream``, as they come: those that have come while it was busy are a block.
    ``model`` shows meanwhile what is on the disk, and predicts by it, once this object has been given a row. Any thread
    may give rows; their order is that of the calls.

    Parameters
    ----------
    model : OnlineLearner, PrivateClassifier or PrivateRegressor
        That has not begun, with its ``horizon``; after a crash another one with the same parameters.
    checkpoint : State
        Its directory, with ``rest=True``: rows that are kept are not given again.
    classes : sequence of labels, optional
        The public labels of a learner that classifies. Default: those that were declared, or else False and True. Of
        :class:`PrivateClassifier` its own parameter decides.
    target : str, default="target"
        Name of the target among the columns; no feature may have it.

    Attributes
    ----------
    first_row : int
        Number of the row to begin with, from 1: all rows before it are kept. Rows that teach an encoding are kept with
        their last one.
    features : tuple of str or None
        Names of the features: of a run that goes on, or declared, or else those of the first row.

    Raises
    ------
    InvalidParameter
        If the model is no such model or has no horizon, ``checkpoint`` has no ``rest=True``, or rows of users are
        capped: whose rows were learnt cannot be known without them.
    StateError
        If the run that is kept there has ended.

    Notes
    -----
    A row that was given is lost in a crash if no checkpoint was written since: ``State(every=, seconds=)`` say how many
    these may be, and ``first_row`` of the next process is the first of them. While rows teach an encoding nothing is
    kept: if the process ends then, the next one pays for the encoding again. Rows are refused if somebody else has
    learnt in the directory since ``first_row`` was found. What privol cannot see is whether each row is given once; the
    guarantee takes it for granted.

    Leaving the ``with`` statement ends the run, as :meth:`close` does; an exception only stops it, as :meth:`stop`
    does, and the same lines go on later.

    Examples
    --------
    >>> import tempfile
    >>> from privol import PIGD
    >>> from privol.live import LiveRun
    >>> from privol.state import State
    >>> model = PIGD(epsilon=1.0, delta=1e-6, horizon=100, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with LiveRun(model, State(f"{folder}/RUN", rest=True)) as run:
    ...         for i in range(run.first_row, 101):
    ...             run.learn_one({"a": i / 200, "b": 0.5}, i > 50)
    >>> model.n_rows_
    100
    """

    def __init__(
        self, model: Any, checkpoint: State, *, classes: Sequence[Any] | None = None, target: str = "target"
    ) -> None:
        if not isinstance(model, OnlineLearner | PrivateModel):
            raise InvalidParameter(
                f"model must be a learner of streams, PrivateClassifier or PrivateRegressor, found {shown(model)}"
            )
        if isinstance(model, PrivateModel) and model.horizon is None:
            raise InvalidParameter("horizon must be given: the number of rows that the budget must last for")
        if not isinstance(checkpoint, State) or not checkpoint.rest:
            raise InvalidParameter("checkpoint must be State(..., rest=True): rows that are kept do not come again")
        if not isinstance(target, str):
            raise InvalidParameter(f"target must be the name of a column, found {shown(target)}")
        declared = getattr(model, "declared", None)
        if declared is not None and Schema.load(declared, partial=True).user is not None:
            raise InvalidParameter("declared must have no [user]: whose rows were learnt is not known without them")
        self.model, self.checkpoint, self.target = model, checkpoint, target
        self._classes = self._labels(classes)
        self.first_row: int = checkpoint.next_row(ledger=cast("Ledger | None", model.ledger))
        self.features = self._known_features()
        self._left = self._most() - (self.first_row - 1)
        self._rows: SimpleQueue[Any] = SimpleQueue()  # a handler of a signal may put, too
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._ended = False
        self._pid = os.getpid()

    def _most(self) -> int:
        """How many rows the run may learn, those that teach included."""
        if isinstance(self.model, PrivateModel):
            return integer(horizon=self.model.horizon, at_least=1)
        return most_rows(self.model, horizon_of_rows(self.model))

    def _labels(self, classes: Sequence[Any] | None) -> list[Any] | None:
        own = isinstance(self.model, PrivateModel)
        if not is_classifier(self.model) or own:
            if classes is not None:
                why = "the parameter of the model decides" if own else "the model is for real targets"
                raise InvalidParameter(f"classes are for a learner that classifies, and {why}")
            return None
        declared = declared_classes(self.model)
        return list(classes if classes is not None else _BINARY if declared is None else declared)

    def _known_features(self) -> tuple[str, ...] | None:
        kept = (self.checkpoint.read() or {}).get("inputs") or {}
        names = kept.get("feature_names")
        if isinstance(self.model, PrivateModel):
            names = (kept.get("estimator") or {}).get("features", {}).get("names")
        else:
            names = names or declared_names(self.model)
        return None if names is None else tuple(names)

    def learn_one(self, x: Mapping[str, Any], y: Any) -> None:
        """Give a row to the run; it is learnt soon, and kept by the next checkpoint.

        Parameters
        ----------
        x : mapping
            Cells by the names of the columns. The first row has all of them; one that is missing later is a missing
            cell: for a learner no finite number, which ``on_invalid`` decides about.
        y : label or number

        Raises
        ------
        BudgetExceeded
            If it is one row more than the horizon; those before it stay.
        StreamError, InvalidRow, OSError, ...
            What ``fit_stream`` raised about a row before. Nothing of its block was learnt, and what was learnt before
            is kept: ``first_row`` of the next object says where to go on. A StreamError numbers rows from the first
            that this object was given.
        StateError
            If the run has ended or was stopped, or somebody else has learnt in the directory meanwhile.
        """
        if not isinstance(x, Mapping) or not all(isinstance(name, str) for name in x):
            raise InvalidParameter(f"x must be a dict whose keys are names, found {shown(x)}")
        if self.target in x:
            raise InvalidParameter(f"x has a feature {self.target!r}, as target= names the target: choose another name")
        with self._lock:
            if self._left <= 0:
                raise BudgetExceeded(f"the horizon of {self._most():,} rows is used up: this row was not taken")
            if self._thread is None and not self._ended:
                own = tuple(x if isinstance(self.model, PrivateModel) else sorted(x))
                self._begin(own if self.features is None else self.features)
            self._put({**x, self.target: y})
            self._left -= 1

    def close(self) -> Any:
        """End the run when all rows that were given are learnt, make its last release, and return the model.

        Raises
        ------
        StreamError, InvalidRow, BudgetExceeded, OSError, ...
            As :meth:`learn_one`: then the run is kept, and has not ended.
        StateError
            If it was stopped, or no row was given.
        """
        with self._lock:
            if self._thread is None and not self._ended:
                if self.features is None or self.first_row == 1:
                    raise StateError(f"{self.checkpoint.directory}: no row was given, so there is no run to end")
                self._begin(self.features)  # the last row was kept before, and the run had not ended
            self._put(None, last=True)
        self._join()
        return self.model

    def stop(self) -> None:
        """Leave the run when all rows that were given are learnt and kept; the next object goes on behind them.

        Raises
        ------
        StreamError, InvalidRow, OSError, ...
            As :meth:`learn_one`.
        StateError
            If rows still taught the encoding: nothing of it is kept, and what it cost stays spent.
        """
        self._stop()
        own = isinstance(self.model, PrivateModel) and self._thread is not None
        if own and "encoder_" not in vars(self.model):
            raise StateError(
                f"{self.checkpoint.directory}: stopped while rows taught the encoding: nothing of it is kept, what it "
                "cost stays spent, and the next run begins at row 1"
            )

    def _stop(self) -> None:
        with self._lock:
            begun = self._thread is not None and not self._ended
            if begun:
                self._put(_Stopped(), last=True)
            self._ended = True
        if begun:
            self._join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            if not self._ended:
                self.close()
        elif self._thread is not None and self._thread.is_alive():
            self._stop()

    # ---- the thread that learns --------------------------------------------------------------------------

    def _begin(self, names: tuple[str, ...]) -> None:
        self.features = names
        self.checkpoint.promise(self.first_row)
        if not isinstance(self.model, PrivateModel):
            self.model.declare_features(list(names))
            self.checkpoint.describe({"feature_names": list(names)})
        self._thread = threading.Thread(target=self._learn, name="privol-live-run", daemon=True)
        self._thread.start()

    def _learn(self) -> None:
        rows = QueueRows(self._rows, (*(self.features or ()), self.target), (ONCE,))
        try:
            if isinstance(self.model, PrivateModel):
                self.model.fit_stream(rows, target=self.target, checkpoint=self.checkpoint)
            else:
                stream = open_stream(rows, target=self.target, classes=self._classes)
                self.model.fit_stream(stream, checkpoint=self.checkpoint)
        except _Stopped:
            pass
        except BaseException as error:
            self._error = error

    def _put(self, row: Any, *, last: bool = False) -> None:
        """Give something to the thread that learns, when it has room; ``last``: nothing comes after it."""
        if os.getpid() != self._pid:
            raise StateError(f"{self.checkpoint.directory}: a forked child cannot give rows to the run of its parent")
        thread = self._thread
        while thread is not None and thread.is_alive() and not self._ended:
            if not last and self._rows.qsize() >= _MOST:
                time.sleep(_LOOK)
                continue
            if last:
                self._ended = True
            self._rows.put(row)
            if last or not self._ended:
                return
            break  # the handler of a signal has stopped the run before the row was there
        if thread is not None:
            self._join()
        raise StateError(f"{self.checkpoint.directory}: this run has ended here, and takes no more rows")

    def _join(self) -> None:
        """Wait for the thread, and raise what ended it; only once."""
        assert self._thread is not None
        self._thread.join()
        error, self._error = self._error, None
        if error is not None:
            self._ended = True
            raise error
