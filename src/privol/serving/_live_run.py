"""A run that learns in the process of the service: what it has released is served, and nothing else of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from ..errors import PrivolError
from ..learners import OnlineLearner
from ..learners.views import export_of, released_copy
from ._predictor import Predictor
from ._shelf import Served, Shelf, told

__all__ = ["Learning", "Source"]

log = logging.getLogger("privol.serving")


class Source(Protocol):
    """What this module needs of a stream, which the thread of the rows changes."""

    @property
    def away(self) -> bool: ...

    @property
    def lag(self) -> int | None: ...


class Learning:
    """What is known of the run that learns here, and what it has handed out.

    Parameters
    ----------
    show_lag : bool, default=False
        Whether the messages that wait at the broker may be shown.

    Attributes
    ----------
    offered : bool
        Whether a block has been learnt.
    """

    STATES: ClassVar[tuple[str, ...]] = ("none", "running", "waiting", "ended", "stopped", "failed")

    def __init__(self, *, show_lag: bool = False) -> None:
        self._show_lag = show_lag
        self._state = "none"
        self._source: Source | None = None
        self.offered = False
        self._releases = 0
        self._refused = False
        self._predictor: Predictor | None = None

    @property
    def state(self) -> str:
        """What the run does.

        ``none``: nothing is learnt here; ``running``; ``waiting``: its source is away, and it goes on when that is
        back; ``ended``: its rows are over, the model is its last; ``stopped``: it is kept, and can be resumed;
        ``failed``: an error has ended it, which the log names.
        """
        source = self._source
        away = self._state == "running" and source is not None and source.away
        return "waiting" if away else self._state

    @property
    def lag(self) -> int | None:
        """How many messages wait at the broker, where that is known and may be shown. **Not private.**"""
        source = self._source
        return None if source is None or not self._show_lag else source.lag

    def enter(self, state: str) -> None:
        """Note what the run does from now on."""
        self._state = state
        if state != "running":
            self._source = None  # what it said last holds no more

    def follow(self, source: Source) -> None:
        """Note what the run reads from now on: it is there."""
        if self._state == "waiting":
            log.info("the source is back: learning goes on")
        self._source = source
        self.enter("running")

    def wait(self) -> bool:
        """Note that the source is away, and that the run has ended by that; return whether it had been there."""
        was_there = self._source is not None
        self.enter("waiting")
        return was_there

    def offer(self, shelf: Shelf, name: str, learner: OnlineLearner, inputs: Mapping[str, Any] | None) -> None:
        """Serve the model that a kept run has released last, if it has released one since the last call.

        Only the public export of the learner is read. With a checkpoint this is what is on the disk and paid for: not
        even this process sees what the run has released since.
        """
        self.offered = True
        export = export_of(learner)
        if export.n_releases <= self._releases or self._refused:
            return
        shown = released_copy(learner, export.guarantee)
        try:
            self._predictor = Predictor(shown, inputs) if self._predictor is None else self._predictor.of_release(shown)
        except PrivolError as error:  # whatever cannot be served can be learnt
            self._refused = True
            shelf.blame(name)
            log.warning("%s: %s", name, error)
            return
        spent = learner.ledger_.spent
        served = Served.of(self._predictor, spent=(spent.mu, spent.epsilon(export.guarantee.delta)))
        if not self._releases:
            log.info("%s: serving %s", name, told(served))
        self._releases = export.n_releases
        shelf.put(name, served)
