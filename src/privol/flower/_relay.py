"""The server of a network's nodes: it carries what they send to their neighbours, and learns nothing else."""

from __future__ import annotations

import math
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._files import write_atomically
from .._validate import number
from ..errors import InvalidMessage, StateError
from ._carried import heard_by
from ._contents import content_of, flwr_app, record_of, was_lost
from ._kept_node import MEET, STEP, Network, pack_step, parse_reply

__all__ = ["NetworkModel", "network_app", "relay"]

FloatArray = NDArray[np.float64]

_SOON = 5.0  # seconds until a node whose reply was lost is asked again, at most


@dataclass(frozen=True)
class NetworkModel:
    """The model that a network's nodes have learnt: public, as all that nodes send.

    Attributes
    ----------
    coef, average_coef : ndarray of shape (n_features,)
        Mean of the nodes' last models, and the mean of those over the released rounds.
    intercept, average_intercept : float
    rounds : int
    messages : int
        Questions that were sent, repeated ones too.
    """

    coef: FloatArray
    intercept: float
    average_coef: FloatArray
    average_intercept: float
    rounds: int
    messages: int


def relay(
    grid: Any,
    network: Network,
    *,
    directory: str | os.PathLike[str] | None = None,
    patience: float = 600.0,
    wait: float = 600.0,
    pause: float = 0.2,
) -> NetworkModel:
    """Carry the messages of a network's run between its nodes, from the first round to the model.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        What Flower gives to a ServerApp.
    network : Network
    directory : path, optional
        Keeps what nodes have sent in the last step, so that another call continues the run, in another process too.
        Made if it does not exist; its parent must. Default: a run that is cut short cannot go on.
    patience : float, default=600.0
        Seconds after which a question without a reply is sent again. Above 0. Where Flower says that the client app was
        killed, or a reply lost, it is sent again within five seconds.
    wait : float, default=600.0
        Seconds to wait for all nodes to be there, and for all replies of a step. Above 0.
    pause : float, default=0.2
        Seconds between two looks for replies. Above 0.

    Returns
    -------
    NetworkModel

    Raises
    ------
    StateError
        If a node is missing for too long, two nodes have one number, or nodes disagree on the model.
    InvalidMessage
        If a node refuses, or replies with something that is no answer: what it said.
    """
    patience, wait = number(patience=patience, above=0.0), number(wait=wait, above=0.0)
    pause = number(pause=pause, above=0.0)
    kept = _Kept(None if directory is None else Path(directory), network)
    post = _Post(grid, network, patience, wait, pause)
    post.meet()
    step, sent = kept.step, kept.sent
    while step < network.steps:
        step += 1
        sent = post.carry(kept.run, step, sent)
        kept.keep(step, sent)
    if any(row.tobytes() != sent[0].tobytes() for row in sent):
        raise StateError("the nodes do not have the same model: at least one of them is not what it should be")
    model, d = sent[0], network.n_features
    return NetworkModel(
        model[:d], float(model[d]), model[d + 1 : 2 * d + 1], float(model[2 * d + 1]), network.rounds, post.messages
    )


class _Kept:
    """The run's name and the last step's answers, on the disk if there is a directory."""

    def __init__(self, directory: Path | None, network: Network) -> None:
        self._directory, self._network = directory, network
        self.run, self.step, self.sent = os.urandom(16), 0, np.empty((network.nodes, 0))
        if directory is None:
            return
        directory.mkdir(exist_ok=True)
        path = directory / "step.bin"
        if path.exists():
            self._read(path)
        else:
            self.keep(0, self.sent)

    def _read(self, path: Path) -> None:
        content, network = path.read_bytes(), self._network
        head = struct.Struct("<16s32sq")
        try:
            self.run, terms, self.step = head.unpack_from(content)
            numbers = np.frombuffer(content, np.float64, offset=head.size)
            self.sent = numbers.reshape(network.nodes, network.sent(self.step) if self.step else 0)
        except (struct.error, ValueError) as error:
            raise StateError(f"{path}: cannot be read: {error}") from None
        if terms != network.terms:
            raise StateError(f"{path}: is of a network with other parameters, labels, topology or version of privol")

    def keep(self, step: int, sent: FloatArray) -> None:
        """Keep what the nodes have sent in a step."""
        if self._directory is not None:
            head = struct.pack("<16s32sq", self.run, self._network.terms, step)
            write_atomically(self._directory / "step.bin", head + np.ascontiguousarray(sent).tobytes())


class _Post:
    """Who is which node, and the questions that are out."""

    def __init__(self, grid: Any, network: Network, patience: float, wait: float, pause: float) -> None:
        self._grid, self._network, self._app = grid, network, flwr_app()
        self._patience, self._wait, self._pause = patience, wait, pause
        self._places: dict[int, int] = {}
        self.messages = 0

    def meet(self) -> None:
        """Ask connected nodes for their numbers until all are there."""
        end = time.monotonic() + self._wait
        out: dict[str, int] = {}
        due: dict[int, float] = {}  # when a place is asked again; one that has replied never is
        terms = content_of(terms=self._network.terms)
        while len(self._places) < self._network.nodes:
            now = time.monotonic()
            if now > end:
                missing = sorted(set(range(self._network.nodes)) - self._places.keys())
                raise StateError(f"nodes {missing} of {self._network.nodes} are not there")
            new = [place for place in sorted(self._grid.get_node_ids()) if now > due.get(place, -math.inf)]
            out |= self._send(dict.fromkeys(new, terms), MEET, "meet")
            due |= dict.fromkeys(new, now + self._patience)
            for place, message in self._replies(out, due).items():
                (node,) = record_of(message, "node")
                self._settle(place, struct.unpack("<q", node)[0] if len(node) == 8 else -1)
                due[place] = math.inf
            if len(self._places) < self._network.nodes:
                time.sleep(self._pause)

    def _settle(self, place: int, node: int) -> None:
        if not 0 <= node < self._network.nodes:
            raise InvalidMessage(f"the SuperNode {place} says that it is node {node} of {self._network.nodes}")
        if self._places.setdefault(node, place) != place:
            raise StateError(f"the SuperNodes {self._places[node]} and {place} both say that they are node {node}")

    def carry(self, run: bytes, step: int, before: FloatArray) -> FloatArray:
        """Send each node what it hears in a step, and return what all nodes answer, a row each."""
        network = self._network
        questions = {
            self._places[node]: content_of(
                question=pack_step(run, network.terms, node, step, self._heard(step, node, before))
            )
            for node in range(network.nodes)
        }
        nodes = {place: node for node, place in self._places.items()}
        sent: dict[int, FloatArray] = {}
        out: dict[str, int] = {}
        end, due = time.monotonic() + self._wait, dict.fromkeys(questions, -math.inf)
        while len(sent) < network.nodes:
            now = time.monotonic()
            if now > end:
                missing = sorted(set(range(network.nodes)) - sent.keys())
                raise StateError(f"nodes {missing} have not answered step {step} of {network.steps} in time")
            # a node that has answered, and whose reply was lost, answers by the same bytes
            rest = {place: content for place, content in questions.items() if now > due[place]}
            out |= self._send(rest, STEP, str(step))
            due |= dict.fromkeys(rest, now + self._patience)
            for place, message in self._replies(out, due).items():
                (answer,) = record_of(message, "answer")
                sent[nodes[place]] = parse_reply(answer, network, run, nodes[place], step)
                due[place] = math.inf
            if len(sent) < network.nodes:
                time.sleep(self._pause)
        return np.array([sent[node] for node in range(network.nodes)])

    def _heard(self, step: int, node: int, before: FloatArray) -> FloatArray:
        if step == 1:
            return np.empty(0)
        if step == self._network.steps:
            return before.reshape(-1)
        return before[heard_by(self._network.schedule, step - 1, node)].reshape(-1)

    def _send(self, contents: dict[int, Any], action: str, group: str) -> dict[str, int]:
        ttl = max(2.0 * self._wait, 60.0)
        messages = [
            self._app.Message(content, place, f"query.{action}", ttl=ttl, group_id=group)
            for place, content in contents.items()
        ]
        self.messages += len(messages)
        found = list(self._grid.push_messages(messages)) if messages else []
        return {name: place for name, place in zip(found, contents, strict=False) if name is not None}

    def _replies(self, out: dict[str, int], due: dict[int, float]) -> dict[int, Any]:
        """Replies that have come, by place; where one was lost, the place is soon asked again."""
        found = {}
        for message in list(self._grid.pull_messages(list(out))) if out else []:
            place = out.pop(message.metadata.reply_to_message_id, None)
            if place is None:
                continue
            if was_lost(message):
                due[place] = min(due[place], time.monotonic() + _SOON)
                continue
            if message.has_error():
                raise InvalidMessage(
                    f"the SuperNode {place} refuses: {message.error.reason} (code {message.error.code})"
                )
            found[place] = message
        return found


def network_app(
    begin: Callable[[Any], Network],
    end: Callable[[Any, NetworkModel], object],
    **words: Any,
) -> Any:
    """Return a ServerApp that carries the messages of a network's run.

    Parameters
    ----------
    begin : callable
        ``begin(context)`` returns the :class:`Network`.
    end : callable
        ``end(context, model)`` is called with the :class:`NetworkModel`.
    **words
        As :func:`relay` takes them.

    Returns
    -------
    flwr.serverapp.ServerApp
    """
    flwr_app()
    from flwr.serverapp import ServerApp

    def main(grid: Any, context: Any) -> None:
        end(context, relay(grid, begin(context), **words))

    app = ServerApp()
    app.main()(main)
    return app
