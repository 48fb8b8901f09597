"""A node of a network as a ClientApp: its rows and its noise stay with it, and a message carries what it sends."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from .._files import LockFile, sync_folder, write_atomically
from .._validate import integer
from ..errors import InvalidMessage, InvalidParameter, StateError
from ..learners import DOLA, SparseDOLA
from ..state import State, load_model, network_record
from ._carried import LARGEST, Carried, Waiting, heard_by
from ._contents import RowFailure, content_of, flwr_app, guarded, record_of

__all__ = ["MEET", "STEP", "KeptNode", "Network", "node_app", "pack_step", "parse_reply"]

FloatArray = NDArray[np.float64]

MEET, STEP = "meet", "step"  # what messages are for
_HEAD = struct.Struct("<16s32sqq")  # run, terms, node, step
_FORMAT = {"format": "privol.kept-node", "version": 1}
_DOUBLES = np.dtype("<f8")
_KEPT = 4  # rounds of which a node keeps what it has heard; a run continues from one of the last two


class Network:
    """The public facts of a network's run: the same at all nodes and at the server.

    Parameters
    ----------
    learner : DOLA or SparseDOLA
        With a ``horizon``: all uses of the rows of all nodes.
    n_features : int
        Features of a row.
    classes : sequence of labels, optional
        The public labels of a classifier, in the order of :func:`privol.open_stream`.

    Attributes
    ----------
    plan : RunPlan
        The noise, and all that it follows from.
    nodes, rounds, dim : int
        Nodes, their rounds, and coordinates of a message.
    steps : int
        Messages that a node answers: one a round, one in which it has mixed the last, and one for the model.
    terms : bytes
        Digest of parameters, labels, topology, sizes and the version of privol.
    """

    def __init__(self, learner: DOLA | SparseDOLA, n_features: int, classes: Any = None) -> None:
        if not isinstance(learner, DOLA | SparseDOLA):
            raise InvalidParameter(f"learner must be a DOLA or SparseDOLA, found {learner!r}")
        self.n_features = integer(n_features=n_features, at_least=1)
        horizon = integer(horizon=learner.horizon, at_least=1)
        self.schedule = learner.mixing()
        self.nodes = self.schedule.n_nodes
        if self.nodes < 2:
            raise InvalidParameter(f"a network has at least 2 nodes, found {self.nodes}")
        self.plan = plan = learner.calibrate(self.n_features, horizon)
        self.rounds, self.dim = int(plan.rounds), int(plan.problem.dim)
        self.rows = horizon // integer(epochs=learner.epochs, at_least=1)
        if self.rows < self.nodes:
            raise InvalidParameter(f"every node must have a row, found {self.rows} rows for {self.nodes} nodes")
        self.steps = self.rounds + 2
        labels = None if classes is None else tuple(np.asarray(classes).tolist())
        facts = [__version__, self.n_features, horizon, sorted(learner.shared_terms(labels).items())]
        self.terms = hashlib.sha256(repr(facts).encode()).digest()

    def heard(self, step: int, node: int) -> int:
        """Numbers that the question of a step brings to a node."""
        if step == 1:
            return 0
        if step == self.steps:
            return self.nodes * 3 * self.dim
        return len(heard_by(self.schedule, step - 1, node)) * self.dim

    def sent(self, step: int) -> int:
        """Numbers with which a node answers a step."""
        if step <= self.rounds:
            return self.dim
        return 3 * self.dim if step < self.steps else 2 * (self.n_features + 1)


class _Step(NamedTuple):
    """A question or an answer of a step."""

    run: bytes
    terms: bytes
    node: int
    step: int
    numbers: FloatArray


def pack_step(run: bytes, terms: bytes, node: int, step: int, numbers: FloatArray) -> bytes:
    """Return a question or an answer as bytes."""
    return _HEAD.pack(run, terms, node, step) + np.ascontiguousarray(numbers, dtype=_DOUBLES).tobytes()


def _parse(message: bytes, what: str) -> _Step:
    if len(message) < _HEAD.size or (len(message) - _HEAD.size) % 8:
        raise InvalidMessage(f"{what} has {_HEAD.size} bytes and then numbers of 8 bytes, found {len(message)} bytes")
    numbers = np.frombuffer(message, _DOUBLES, offset=_HEAD.size).astype(np.float64)
    if not (np.abs(numbers) <= LARGEST).all():
        place = int(np.argmin(np.abs(numbers) <= LARGEST))
        raise InvalidMessage(f"{what} has finite numbers up to {LARGEST:g}, number {place} is {numbers[place]}")
    run, terms, node, step = _HEAD.unpack_from(message)
    return _Step(run, terms, node, step, numbers)


def parse_reply(message: bytes, network: Network, run: bytes, node: int, step: int) -> FloatArray:
    """Return the numbers of a node's answer to a step.

    Raises
    ------
    InvalidMessage
        If it is none.
    """
    found = _parse(message, "an answer")
    if found[:4] != (run, network.terms, node, step):
        raise InvalidMessage(
            f"expected the answer of node {node} to step {step} of the run {run.hex()}, found node {found.node}, step "
            f"{found.step}, run {found.run.hex()}"
        )
    if len(found.numbers) != network.sent(step):
        raise InvalidMessage(f"the answer to step {step} has {network.sent(step)} numbers, found {len(found.numbers)}")
    return found.numbers


class KeptNode:
    """A node of :class:`privol.DOLA` or :class:`privol.SparseDOLA` that outlives its process.

    Its rows and its noise stay here. It takes part in one run: that of the first question it answers. Every answer is
    on the disk before it is handed out, and the same question is then answered by the same bytes; no message of a round
    is ever made in two versions, whatever is asked.

    Parameters
    ----------
    directory : path
        Of this node alone: **secret** while the run lasts (the key of its noise is below). Made if it does not exist;
        its parent must. In the end ``run/model.npz`` and ``run/model.json`` hold the network's model, with the
        guarantee of this node's rows, and ``privol verify`` checks ``run``.
    learner : DOLA or SparseDOLA
        New in every process, always with the same parameters: epsilon and all else are the owner's. ``horizon``: all
        uses of the rows of all nodes.
    node : int
        Number of this node, from 0.
    n_features : int
        Features of a row.
    classes : sequence of labels, optional
        The public labels of a classifier, as the stream of rows has them.

    Notes
    -----
    A round may be learnt twice, with the same noise, because a run continues from a checkpoint before it. Never remove
    the directory of a run that goes on, or restore it from a copy. A user may have rows at other nodes, which do not
    say: the guarantee is for one row.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        learner: DOLA | SparseDOLA,
        *,
        node: int,
        n_features: int,
        classes: Any = None,
    ) -> None:
        self.directory = Path(directory)
        self.network = Network(learner, n_features, classes)
        self.node = integer(node=node, at_least=0, at_most=self.network.nodes - 1)
        self._learner = learner

    def __repr__(self) -> str:
        return f"<KeptNode {self.node} of {self.network.nodes} in {self.directory}>"

    def answer(self, question: bytes, rows: Callable[[], Any]) -> bytes:
        """Return the answer to a step, the same whenever this question comes.

        Parameters
        ----------
        question : bytes
            From the server, not trusted.
        rows : callable
            ``rows()`` returns the stream of this node's own rows, as :func:`privol.open_stream` does: the same at every
            call. It knows its number of rows, which is public.

        Returns
        -------
        bytes
            Public: what the node sends to its neighbours; at the end its mix, and the network's model.

        Raises
        ------
        InvalidMessage
            If the question is malformed, of another network or run, or not the next one. Nothing was learnt.
        StateError
            If the directory is damaged or in use elsewhere; if rows have changed.
        """
        network = self.network
        asked = self._checked(question)
        digest = hashlib.sha256(question).hexdigest()
        with suppress(FileExistsError):
            os.mkdir(self.directory, 0o700)
        try:
            lock = LockFile(self.directory / "lock")
        except BlockingIOError:
            raise StateError(f"{self.directory}: is in use by another process") from None
        try:
            last, before, answer = self._place(asked.run)
            if asked.step == last and digest == before:
                sync_folder(self.directory)  # whoever wrote it may have ended before this, and handed out nothing
                return answer
            if asked.step != last + 1:
                raise InvalidMessage(
                    f"node {self.node} has answered step {last} and answers {last + 1} next, found "
                    f"{'another question of ' if asked.step == last else ''}step {asked.step}"
                )
            heard, everyone = self._heard(asked)
            numbers = self._learn(asked.step, heard, everyone, rows)
            answer = pack_step(asked.run, network.terms, self.node, asked.step, numbers)
            self._write({"run": asked.run.hex(), "step": asked.step, "question": digest, "answer": answer.hex()})
            return answer
        finally:
            lock.release()

    def _checked(self, question: bytes) -> _Step:
        asked = _parse(question, "a question")
        if asked.terms != self.network.terms:
            raise InvalidMessage(
                "the question is of a network with other parameters, labels, topology or version of privol than this "
                f"node's: its digest is {asked.terms.hex()[:16]}, this one {self.network.terms.hex()[:16]}"
            )
        if asked.node != self.node:
            raise InvalidMessage(f"the question is for node {asked.node}, this one is node {self.node}")
        if not 1 <= asked.step <= self.network.steps:
            raise InvalidMessage(f"a run has steps 1 to {self.network.steps}, found {asked.step}")
        wanted = self.network.heard(asked.step, self.node)
        if len(asked.numbers) != wanted:
            raise InvalidMessage(f"the question of step {asked.step} has {wanted} numbers, found {len(asked.numbers)}")
        return asked

    # ---- the directory -----------------------------------------------------------------------------------------------

    def _place(self, run: bytes) -> tuple[int, str, bytes]:
        """The last step, the digest of its question, and its answer; a new directory is bound to the run."""
        path = self.directory / "node.json"
        if not path.exists():
            if (self.directory / "run").exists():
                raise StateError(f"{path}: is not there, but a run is, whose answers nobody knows any more")
            sync_folder(self.directory.parent)  # whoever made the directory may have ended before this
            self._write({"run": run.hex(), "step": 0, "question": "", "answer": ""})
            return 0, "", b""
        try:
            found = json.loads(path.read_bytes())
            head = {name: found[name] for name in _FORMAT}
            step, question, answer = int(found["step"]), str(found["question"]), bytes.fromhex(found["answer"])
            known, sum_ = bytes.fromhex(found["run"]), found["sum"]
        except Exception as error:
            raise StateError(f"{path}: cannot be read: {error!r}") from None
        if head != _FORMAT or sum_ != _sum(found):
            raise StateError(f"{path}: is damaged, or of another format or version")
        if known != run:
            raise InvalidMessage(
                f"the rows of node {self.node} are in the run {known.hex()}, asked is {run.hex()}: another run of them "
                "pays again, and needs another directory"
            )
        return step, question, answer

    def _write(self, facts: dict[str, Any]) -> None:
        facts = _FORMAT | facts
        content = json.dumps(facts | {"sum": _sum(facts)}).encode()
        write_atomically(self.directory / "node.json", content, mode=0o600)

    def _heard(self, asked: _Step) -> tuple[dict[int, FloatArray], FloatArray | None]:
        """What has been heard in the last rounds, kept before it is used, and the rows of all nodes at the end."""
        network, last = self.network, min(asked.step - 1, self.network.rounds)
        if 1 < asked.step < network.steps:
            path, content = self._of_round(last), asked.numbers.tobytes()
            if not path.exists():
                write_atomically(path, content, mode=0o600)
            elif path.read_bytes() != content:
                raise InvalidMessage(f"node {self.node} has heard something else in round {last}")
        heard = {}
        for round_ in range(max(1, last - _KEPT + 1), last + 1):
            heard[round_] = np.fromfile(self._of_round(round_), dtype=_DOUBLES).reshape(-1, network.dim)
        self._of_round(max(0, last - _KEPT)).unlink(missing_ok=True)
        everyone = asked.numbers.reshape(network.nodes, -1) if asked.step == network.steps else None
        return heard, everyone

    def _of_round(self, round_: int) -> Path:
        return self.directory / f"heard-{round_:012d}.bin"

    # ---- the run -----------------------------------------------------------------------------------------------------

    def _learn(
        self, step: int, heard: dict[int, FloatArray], everyone: FloatArray | None, rows: Callable[[], Any]
    ) -> FloatArray:
        """Continue the run until it waits, or ends; return what the node sends."""
        network, kept = self.network, self.directory / "run"
        state = State(kept, every=1)
        ended = (kept / "model.json").exists() and not (kept / "secret").exists()
        if step == network.steps and (ended or state.finish()):
            return self._model(load_model(kept))  # a call that was cut short had ended it
        ranks: Any = Carried(network.schedule, self.node, network.rows, network.rounds, heard, everyone)
        try:
            found = self._learner.fit_ranks(rows(), ranks, checkpoint=state)
        except Waiting as waiting:
            if waiting.round != step:
                raise StateError(f"{kept}: the run waits in round {waiting.round}, asked is step {step}") from None
            return waiting.sent
        return self._model(found)

    def _model(self, learner: Any) -> FloatArray:
        """The network's model and the mean of its models, with their intercepts; what the run claims is written."""
        record = {**network_record(learner, self.network.plan), "ranks": 1}
        content = json.dumps(record, indent=1, allow_nan=False).encode() + b"\n"
        write_atomically(self.directory / "run" / "run.json", content)
        parts = (learner.coef_, learner.intercept_, learner.average_coef_, learner.average_intercept_)
        return np.concatenate([np.ravel(part) for part in parts])


def _sum(facts: dict[str, Any]) -> str:
    """Checksum of a record, against damage."""
    rest = sorted((name, value) for name, value in facts.items() if name != "sum")
    return hashlib.sha256(repr(rest).encode()).hexdigest()


def node_app(
    node: Callable[[Any], KeptNode],
    rows: Callable[[Any], Any],
    *,
    failed: Callable[[Exception], object] | None = None,
) -> Any:
    """Return a ClientApp that takes part in a network's run as one of its nodes.

    Its replies have one record, with what the node sends to its neighbours: the noisy message of its round, and at the
    end what it has computed from messages alone. What it refuses it replies to with an error (code 7100).

    Parameters
    ----------
    node : callable
        ``node(context)`` returns the node, with a new learner.
    rows : callable
        ``rows(context)`` returns the stream of the node's own rows, the same at every call. If it raises, the server is
        told so, and not why.
    failed : callable, optional
        Called on the node with every exception. Default: nobody sees them.

    Returns
    -------
    flwr.clientapp.ClientApp

    Notes
    -----
    As of :func:`device_app`: the code of an app comes from the server.
    """
    flwr_app()
    from flwr.clientapp import ClientApp

    def mine(context: Any) -> KeptNode:
        found = node(context)
        if not isinstance(found, KeptNode):
            raise InvalidParameter(f"node must return a KeptNode, found a {type(found).__name__}")
        return found

    def meet(message: Any, context: Any) -> Any:
        (terms,) = record_of(message, "terms")
        found = mine(context)
        if terms != found.network.terms:
            raise InvalidMessage(
                "the network has other parameters, labels, topology or version of privol than this node: its digest is "
                f"{terms.hex()[:16]}, this node's {found.network.terms.hex()[:16]}"
            )
        return content_of(node=struct.pack("<q", found.node))

    def step(message: Any, context: Any) -> Any:
        (question,) = record_of(message, "question")

        def read() -> Any:
            try:
                return rows(context)
            except Exception as error:
                raise RowFailure from error

        return content_of(answer=mine(context).answer(question, read))

    app = ClientApp()
    app.query(MEET)(guarded(meet, failed))
    app.query(STEP)(guarded(step, failed))
    return app
