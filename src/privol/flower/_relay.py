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

_SOON = 5.0  # seconds until a node whose reply was lost is asked again, and between two looks for new SuperNodes


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
        killed, or a reply lost, it is sent again within five seconds. A SuperNode that was started again, with the same
        directory, takes its node over as soon as Flower has noticed that the one before is gone.
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
    """Which SuperNode is which node, and the questions that are out."""

    def __init__(self, grid: Any, network: Network, patience: float, wait: float, pause: float) -> None:
        self._grid, self._network, self._app = grid, network, flwr_app()
        self._patience, self._wait, self._pause = patience, wait, pause
        self._places: dict[int, int] = {}  # of nodes: their SuperNodes
        self._claims: dict[int, int] = {}  # SuperNodes that say that they are a node which has another one
        self._asked: dict[str, int] = {}
        self._due: dict[
            int, float
        ] = {}  # when a SuperNode is asked who it is, once more; one that has replied never is
        self.messages = 0

    def meet(self) -> None:
        """Ask connected SuperNodes for their numbers until all nodes are there."""
        end = time.monotonic() + self._wait
        while True:
            self._look(begun=False)
            if len(self._places) == self._network.nodes:
                return
            if time.monotonic() > end:
                missing = sorted(set(range(self._network.nodes)) - self._places.keys())
                raise StateError(f"nodes {missing} of {self._network.nodes} are not there")
            time.sleep(self._pause)

    def _look(self, *, begun: bool) -> set[int]:
        """Ask new SuperNodes who they are; return the nodes that have another one now.

        A SuperNode that was started again has another identifier. It takes its node over when the one before is gone.
        """
        here, now = sorted(self._grid.get_node_ids()), time.monotonic()
        new = [place for place in here if now > self._due.get(place, -math.inf)]
        terms = content_of(terms=self._network.terms)
        self._asked |= self._send([(place, place, terms) for place in new], MEET, "meet")
        self._due |= dict.fromkeys(new, now + self._patience)
        for place, message in self._replies(self._asked, self._due, strict=not begun).items():
            (number,) = record_of(message, "node")
            node = struct.unpack("<q", number)[0] if len(number) == 8 else -1
            if not 0 <= node < self._network.nodes:
                raise InvalidMessage(f"the SuperNode {place} says that it is node {node} of {self._network.nodes}")
            self._due[place] = math.inf
            known = self._places.setdefault(node, place)
            if known != place and not begun:
                raise StateError(f"the SuperNodes {known} and {place} both say that they are node {node}")
            if known != place:
                self._claims[node] = place
        moved = {node for node in self._claims if self._places[node] not in here}
        for node in moved:
            self._places[node] = self._claims.pop(node)
        return moved

    def carry(self, run: bytes, step: int, before: FloatArray) -> FloatArray:
        """Send each node what it hears in a step, and return what all nodes answer, a row each."""
        network = self._network
        contents = {
            node: content_of(question=pack_step(run, network.terms, node, step, self._heard(step, node, before)))
            for node in range(network.nodes)
        }
        sent: dict[int, FloatArray] = {}
        out: dict[str, int] = {}
        start = time.monotonic()
        due, look = dict.fromkeys(contents, -math.inf), start + _SOON
        while len(sent) < network.nodes:
            now = time.monotonic()
            if now > start + self._wait:
                missing = sorted(set(range(network.nodes)) - sent.keys())
                raise StateError(f"nodes {missing} have not answered step {step} of {network.steps} in time")
            if now > look:
                due |= dict.fromkeys(self._look(begun=True) - sent.keys(), -math.inf)
                look = now + _SOON
            # a node that has answered, and whose reply was lost, answers by the same bytes
            rest = [(node, self._places[node], contents[node]) for node in contents if now > due[node]]
            out |= self._send(rest, STEP, str(step))
            due |= {node: now + self._patience for node, _, _ in rest}
            for node, message in self._replies(out, due, strict=True).items():
                (answer,) = record_of(message, "answer")
                sent[node] = parse_reply(answer, network, run, node, step)
                due[node] = math.inf
            if len(sent) < network.nodes:
                time.sleep(self._pause)
        return np.array([sent[node] for node in range(network.nodes)])

    def _heard(self, step: int, node: int, before: FloatArray) -> FloatArray:
        if step == 1:
            return np.empty(0)
        if step == self._network.steps:
            return before.reshape(-1)
        return before[heard_by(self._network.schedule, step - 1, node)].reshape(-1)

    def _send(self, contents: list[tuple[int, int, Any]], action: str, group: str) -> dict[str, int]:
        """Send contents to SuperNodes; return by message for whom each is."""
        ttl = max(2.0 * self._wait, 60.0)
        messages = [
            self._app.Message(content, place, f"query.{action}", ttl=ttl, group_id=group)
            for _, place, content in contents
        ]
        self.messages += len(messages)
        found = list(self._grid.push_messages(messages)) if messages else []
        return {name: whom for name, (whom, _, _) in zip(found, contents, strict=False) if name is not None}

    def _replies(self, out: dict[str, int], due: dict[int, float], *, strict: bool) -> dict[int, Any]:
        """Replies that have come, by whom they are from; who has lost one is soon asked again."""
        found = {}
        for message in list(self._grid.pull_messages(list(out))) if out else []:
            whom = out.pop(message.metadata.reply_to_message_id, None)
            if whom is None:
                continue
            if was_lost(message):
                due[whom] = min(due[whom], time.monotonic() + _SOON)
            elif not message.has_error():
                found[whom] = message
            elif strict:
                place = message.metadata.src_node_id
                raise InvalidMessage(
                    f"the SuperNode {place} refuses: {message.error.reason} (code {message.error.code})"
                )
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
