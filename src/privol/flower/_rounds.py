"""The learner's side of rounds with devices, as a ServerApp: one question a round, until an answer is learnt."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .._validate import integer, number
from ..errors import InvalidMessage, StateError
from ..rounds import Collector
from ._contents import content_of, flwr_app, record_of, was_lost
from ._devices import ACTION

__all__ = ["Played", "learner_app", "play_rounds"]

_KEPT = 100  # refusals whose words are kept
_AGAIN = 2  # times that a node is asked again in a round, where its reply was lost


@dataclass(frozen=True)
class Played:
    """What happened in the rounds of a call: public.

    Attributes
    ----------
    rounds : int
        Rounds that have their report now.
    asked : int
        Questions that were sent.
    refused : int
        Replies that were errors, or no possible reports of their round.
    lost : int
        Questions without a reply in time, or whose reply Flower has lost.
    words : tuple of str
        What the first hundred refusals said.
    """

    rounds: int
    asked: int
    refused: int
    lost: int
    words: tuple[str, ...]


def play_rounds(
    grid: Any,
    collector: Collector,
    *,
    nodes: Callable[[], Iterable[int]] | None = None,
    reports: int = 1,
    patience: float = 600.0,
    wait: float = 600.0,
    pause: float = 0.2,
) -> Played:
    """Play the open rounds of a learner with the nodes of a Flower federation, until its horizon is reached.

    One node is asked at a time. If it refuses, or says nothing for ``patience`` seconds, the same question goes to the
    next node; whichever answer is there first is learnt. A node whose client app was killed, or whose reply Flower has
    lost, is asked the same question up to twice more, to which it has the same answer.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        What Flower gives to a ServerApp.
    collector : privol.rounds.Collector
        Its learner has learnt every round that was played, whatever ends the call; another call goes on.
    nodes : callable, optional
        Returns the nodes to ask, in order. Default: all that are connected, in the order of their identifiers.
    reports : int, default=1
        Questions that a node is asked in this call at most, as its devices have to agree; further ones go to nodes that
        were asked less.
    patience : float, default=600.0
        Seconds after which another node is asked. Above 0.
    wait : float, default=600.0
        Seconds to wait for a node that may still be asked. Above 0.
    pause : float, default=0.2
        Seconds between two looks for replies. Above 0.

    Returns
    -------
    Played

    Raises
    ------
    StateError
        If no node is left to be asked, and none comes in time; how many rounds were played, and what was refused.
    """
    reports = integer(reports=reports, at_least=1)
    patience, wait = number(patience=patience, above=0.0), number(wait=wait, above=0.0)
    pause = number(pause=pause, above=0.0)
    asking = _Asking(grid, (lambda: sorted(grid.get_node_ids())) if nodes is None else nodes, reports, wait, pause)
    rounds = 0
    while not collector.done:
        asking.begin(collector.ask(), collector.round)
        told = False
        while not told:
            asking.ask(patience)
            told = asking.hear(collector, patience)
        rounds += 1
        asking.played(rounds)
    return asking.result(rounds)


class _Asking:
    """The nodes of a call, how often each was asked, and the questions that are out."""

    def __init__(self, grid: Any, nodes: Callable[[], Iterable[int]], reports: int, wait: float, pause: float) -> None:
        self._grid, self._nodes, self._reports, self._wait, self._pause = grid, nodes, reports, wait, pause
        self._times: dict[int, int] = {}
        self._out: dict[str, int] = {}
        self._asked = self._refused = self._lost = self._played = 0
        self._words: list[str] = []

    def begin(self, question: bytes, number: int) -> None:
        """Forget the questions of the last round, which has its report."""
        self._out.clear()
        self._again: dict[int, int] = {}
        self._question, self._number = question, number

    def played(self, rounds: int) -> None:
        self._played = rounds

    def result(self, rounds: int) -> Played:
        return Played(rounds, self._asked, self._refused, self._lost, tuple(self._words))

    def ask(self, patience: float) -> None:
        """Send the question to the next node: that which was asked least, the first of these in the given order."""
        node = self._next()
        self._times[node] = self._times.get(node, 0) + 1
        self._send(node, patience)

    def _send(self, node: int, patience: float) -> None:
        content, ttl = content_of(question=self._question), max(2.0 * patience, 60.0)
        message = flwr_app().Message(content, node, f"query.{ACTION}", ttl=ttl, group_id=str(self._number))
        self._asked += 1
        (sent,) = list(self._grid.push_messages([message])) or (None,)
        if sent is None:
            self._refuse(f"node {node}: the SuperLink did not take the question")
            return
        self._out[sent] = node

    def _next(self) -> int:
        end = time.monotonic() + self._wait
        while True:
            fresh = [node for node in self._nodes() if self._times.get(node, 0) < self._reports]
            if fresh:
                return min(fresh, key=lambda node: self._times.get(node, 0))
            if time.monotonic() > end:
                said = f"; the last refusal: {self._words[-1]}" if self._words else ""
                raise StateError(
                    f"no node is left to ask: {self._played} rounds were played, {len(self._times)} nodes asked, each "
                    f"at most {self._reports} times; {self._refused} refusals, {self._lost} lost{said}"
                )
            time.sleep(self._pause)

    def hear(self, collector: Collector, patience: float) -> bool:
        """Wait for a reply to any question that is out; return whether the round has its report."""
        end = time.monotonic() + (patience if self._out else -math.inf)
        newest = next(reversed(self._out), None)
        while newest in self._out:
            for message in list(self._grid.pull_messages(list(self._out))):
                node = self._out.pop(message.metadata.reply_to_message_id, None)
                if node is None:
                    continue
                if was_lost(message):
                    self._lost += 1
                    self._again[node] = self._again.get(node, 0) + 1
                    if self._again[node] <= _AGAIN:
                        time.sleep(self._pause)
                        self._send(node, patience)
                        newest = next(reversed(self._out), None)
                    continue
                try:
                    if message.has_error():
                        raise InvalidMessage(f"{message.error.reason} (code {message.error.code})")
                    (answer,) = record_of(message, "answer")
                    collector.tell(answer)
                except InvalidMessage as error:
                    self._refuse(f"node {node}: {error}")
                else:
                    return True
            if time.monotonic() > end:
                self._lost += newest in self._out
                return False
            if newest in self._out:
                time.sleep(self._pause)
        return False

    def _refuse(self, words: str) -> None:
        self._refused += 1
        if len(self._words) < _KEPT:
            self._words.append(words[:500])


def learner_app(
    begin: Callable[[Any], tuple[Any, int]],
    end: Callable[[Any, Any, Played], object],
    **words: Any,
) -> Any:
    """Return a ServerApp that plays a learner's run with the devices of a federation.

    Parameters
    ----------
    begin : callable
        ``begin(context)`` returns the learner, as :class:`~privol.rounds.Collector` takes it, and the number of
        features of the devices' rows.
    end : callable
        ``end(context, learner, played)`` is called when the horizon is reached, to save the model: all of it is public.
    **words
        As :func:`play_rounds` takes them.

    Returns
    -------
    flwr.serverapp.ServerApp
    """
    flwr_app()
    from flwr.serverapp import ServerApp

    def main(grid: Any, context: Any) -> None:
        learner, n_features = begin(context)
        end(context, learner, play_rounds(grid, Collector(learner, n_features), **words))

    app = ServerApp()
    app.main()(main)
    return app
