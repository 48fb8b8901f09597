"""A run that learns in the process of the service: what it has released is served, and nothing else of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from ..errors import PrivolError
from ..learners import OnlineLearner
from ..learners.views import export_of, released_copy
from ._predictor import Predictor
from ._shelf import Served, Shelf, told

__all__ = ["Learning"]

log = logging.getLogger("privol.serving")


class Learning:
    """What is known of the run that learns here, and what it has handed out.

    Attributes
    ----------
    state : str
        ``none``: nothing is learnt here; ``running``; ``ended``: its rows are over, the model is its last;
        ``stopped``: it is kept, and can be resumed; ``failed``: an error has ended it, which the log names.
    offered : bool
        Whether a block has been learnt.
    """

    STATES: ClassVar[tuple[str, ...]] = ("none", "running", "ended", "stopped", "failed")

    def __init__(self) -> None:
        self.state = "none"
        self.offered = False
        self._releases = 0
        self._refused = False
        self._predictor: Predictor | None = None

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
