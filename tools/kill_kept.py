"""What the kill campaign strikes besides runs: devices of users, nodes of a network, registries, and fits.

They have no rows in order and no checkpoints, but the same promise: what somebody has seen is on the disk, and stays as
it was, whatever was killed. Each process does what is left to do. Noise has no seed here, so a second draw is seen.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from kill_jobs import Case, Rows, World
from kill_runs import folder_of_tables

from privol import DOLA, DPFTRL, LDPSGD
from privol._files import sync_folder
from privol.errors import BudgetExceeded, StateError
from privol.flower._carried import heard_by
from privol.flower._kept_node import KeptNode, Network, pack_step
from privol.learners import OFFLINE_LEARNERS
from privol.ledger import Ledger
from privol.rounds import Collector, KeptDevice
from privol.serving import Registry
from privol.state import SealedRelease, load_model, read_record, save_model
from privol.streams import open_stream

__all__ = ["KEPT_THINGS", "KeptCase", "Thing"]

Seen = list[tuple[str, int, int, str]]
DIM = 3
HEAD = 64  # bytes of a message of a network before its numbers


class Thing:
    """Something that is kept in a directory; its name is in what is found wrong."""

    name: str
    title: str
    shared = False
    seed = None
    renames = False  # folders, too
    slow = False  # then a call is struck in one way, in turns, and not in each
    # of a process, which sets them for all things:
    tries = 1  # that many times it begins or goes on, after errors of the disk or of the project
    ending: ClassVar[Callable[[], None]] = staticmethod(lambda: None)  # what strikes when all is done

    def prepare(self) -> None:
        """Make what all processes use."""

    def learn(self, case: Path, world: World, **_: Any) -> None:
        """Begin or go on, to the end."""
        for left in reversed(range(Thing.tries)):
            try:
                self.go_on(case, world)
                break
            except (OSError, StateError):
                if not left:
                    raise
        Thing.ending()

    def go_on(self, case: Path, world: World) -> None:
        """Do what is left to do."""
        raise NotImplementedError

    def journal(self, case: Path) -> Path:
        """That of its ledger, if it has one."""
        return case / "budget.jsonl"

    def marks(self, case: Path) -> dict[Any, str]:
        """What is on the disk for good: no later process may change it or take it away."""
        return {}

    def wrongs(self, case: Path, seen: Seen) -> Iterator[str]:
        """What does not hold, wherever it was struck."""
        marks = self.marks(case)
        for kind, number, _, value in seen:
            if kind != "use" and marks.get(number) != value:
                yield f"{kind} {number} was seen, and is not on the disk as it was seen"

    def wrongs_of_end(self, case: Path, seen: Seen) -> Iterator[str]:
        """What does not hold when all is done."""
        return iter(())


class KeptCase(Case):
    """A directory of a thing, and what the world has seen of it."""

    job: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        self.job.prepare()

    def check(self, *, journal: bool = True) -> None:
        seen, values = self.world.read(), dict[tuple[str, int], str]()
        for kind, number, _, value in seen:
            if values.setdefault((kind, number), value) != value:
                self.wrong(f"{kind} {number} was seen with two values: noise was drawn twice")
        now = self.job.marks(self.root)
        for name, value in vars(self).get("_marks", {}).items():
            if now.get(name) != value:
                self.wrong(f"{name} was on the disk, and is not there as it was")
        self._marks = now
        for what in self.job.wrongs(self.root, seen):
            self.wrong(what)
        self.check_ledger(self.entries())

    def check_end(self) -> None:
        self.check()
        try:
            for what in self.job.wrongs_of_end(self.root, self.world.read()):
                self.wrong(what)
        except (StateError, OSError) as error:
            self.wrong(f"what has ended cannot be read: {error}")


# ---- a device -----------------------------------------------------------------------------------------------------


class OfDevice(Thing):
    """A device that answers the questions of some rounds."""

    name, title, reports = "device", "devices of users", 10

    def prepare(self) -> None:
        _questions(self.reports + 1)

    def device(self, case: Path) -> KeptDevice:
        return KeptDevice(case / "device", n_features=DIM, epsilon=1.0, reports=self.reports)

    def go_on(self, case: Path, world: World) -> None:
        device = self.device(case)
        for number, question in enumerate(_questions(self.reports + 1)[:-1]):
            answer = device.answer(question, lambda n: (np.full(DIM, 0.1 * n), n % 2))
            world.publish("answer", number, 0, hashlib.sha256(answer).hexdigest())

    def marks(self, case: Path) -> dict[Any, str]:
        path = case / "device" / "answers.jsonl"
        lines = path.read_bytes().split(b"\n")[1:-1] if path.exists() else []
        return {number: json.loads(line)["sum"] for number, line in enumerate(lines)}

    def wrongs_of_end(self, case: Path, seen: Seen) -> Iterator[str]:
        if len(self.marks(case)) != self.reports:
            yield f"the device has {len(self.marks(case))} reports of {self.reports}"
        try:
            self.device(case).answer(_questions(self.reports + 1)[-1], lambda n: (np.zeros(DIM), 0))
        except BudgetExceeded:
            return
        yield "the device makes more reports than it may"


@functools.cache
def _questions(count: int) -> list[bytes]:
    learner = LDPSGD(epsilon=1.0, horizon=20, random_state=1)
    learner.declare_classes([0, 1])
    collector, found = Collector(learner, DIM), []
    device = KeptDevice(folder_of_tables() / f"asked-{count}", n_features=DIM, epsilon=1.0, reports=99, random_state=1)
    for n in range(count):
        found.append(collector.ask())
        collector.tell(device.answer(found[n], lambda n: (np.full(DIM, 0.1), 1)))
    return found


# ---- a node of a network --------------------------------------------------------------------------------------------


class OfNode(Thing):
    """Node 1 of a ring, which answers a server's questions up to the model."""

    name, title, nodes, number, slow = "node", "nodes of networks", 4, 1, True

    def prepare(self) -> None:
        assert self.questions

    def node(self, folder: Path, number: int) -> KeptNode:
        learner = DOLA(epsilon=4.0, horizon=32, nodes=self.nodes, topology="ring", batch=4, x_bound=2.0)
        return KeptNode(folder, learner, node=number, n_features=DIM, classes=(0, 1))

    def rows(self, number: int) -> Any:
        X = np.random.default_rng(0).normal(size=(32, DIM)) / 2
        return open_stream((X[number :: self.nodes], (X[number :: self.nodes, 0] > 0).astype(int)), classes=(0, 1))

    @functools.cached_property
    def questions(self) -> list[bytes]:
        """Those of a run whose other nodes nothing interrupts."""
        home = folder_of_tables() / "network"
        home.mkdir()
        nodes = [self.node(home / f"{k}", k) for k in range(self.nodes)]
        network: Network = nodes[0].network
        sent, found = np.empty((self.nodes, 0)), []
        for step in range(1, network.steps + 1):
            asked = []
            for k in range(self.nodes):
                heard = sent if step in (1, network.steps) else sent[heard_by(network.schedule, step - 1, k)]
                asked.append(pack_step(bytes(16), network.terms, k, step, heard.reshape(-1)))
            found.append(asked[self.number])
            answers = [nodes[k].answer(asked[k], functools.partial(self.rows, k)) for k in range(self.nodes)]
            sent = np.array([np.frombuffer(answer, "<f8", offset=HEAD) for answer in answers])
        return found

    def go_on(self, case: Path, world: World) -> None:
        begun = case / "node" / "node.json"
        last = json.loads(begun.read_bytes())["step"] if begun.exists() else 0
        answer = b""
        for step in range(max(1, last), 1 + len(self.questions)):
            if step == last == len(self.questions):
                return  # nothing is left to be asked
            question = self.questions[step - 1]
            if step == len(self.questions):  # it brings back what this node itself has sent last
                own = answer or bytes.fromhex(json.loads(begun.read_bytes())["answer"])
                question = _with_row(question, self.nodes, self.number, own[HEAD:])
            node = self.node(case / "node", self.number)
            answer = node.answer(question, functools.partial(self.rows, self.number))
            world.publish("answer", step, 0, hashlib.sha256(answer).hexdigest())

    def journal(self, case: Path) -> Path:
        return case / "node" / "run" / "ledger.jsonl"

    def wrongs(self, case: Path, seen: Seen) -> Iterator[str]:
        last = max((step for _, step, _, _ in seen), default=0)
        if not last:
            return
        try:
            found = json.loads((case / "node" / "node.json").read_bytes())
        except (OSError, ValueError) as error:
            yield f"an answer was seen, and its record cannot be read: {error!r}"
            return
        value = next(value for _, step, _, value in seen if step == last)
        if found["step"] < last:
            yield f"the answer to step {last} was seen, and the last one on the disk is {found['step']}"
        elif found["step"] == last and hashlib.sha256(bytes.fromhex(found["answer"])).hexdigest() != value:
            yield f"the answer to step {last} on the disk is not the one that was seen"
        accounts = Ledger.read(self.journal(case)).accounts
        if not accounts or not (accounts[-1].entry().open or accounts[-1].entry().mu_squared > 0.0):
            yield f"the ledger has no account of what was sent in step {last}"

    def wrongs_of_end(self, case: Path, seen: Seen) -> Iterator[str]:
        if load_model(case / "node" / "run").n_releases_ < 1 or (case / "node" / "run" / "secret").exists():
            yield "a node that has ended has no model, or holds secrets"
        entries = [entry for entry in Ledger.read(self.journal(case)).entries() if _may_have_spent(entry)]
        if len(entries) != 1 or entries[0].open or entries[0].mu_squared <= 0.0:
            yield f"the accounts of a node that has ended: {entries}"


def _may_have_spent(entry: Any) -> bool:
    """Not so a run that ended with an error before its first row."""
    return bool(entry.open or entry.mu_squared or entry.releases or entry.rows)


def _with_row(question: bytes, nodes: int, number: int, row: bytes) -> bytes:
    """A question with another row of one node."""
    size = (len(question) - HEAD) // nodes
    return question[: HEAD + number * size] + row + question[HEAD + (number + 1) * size :]


# ---- a registry -----------------------------------------------------------------------------------------------------


class OfRegistry(Thing):
    """Three versions are published under a name, and then the first is made current again."""

    name, title, versions = "registry", "registries", 3
    renames = True

    def prepare(self) -> None:
        assert self.models

    @functools.cached_property
    def models(self) -> list[Path]:
        (whole,) = Rows(60, 60)
        found = []
        for k in range(self.versions):
            found.append(folder_of_tables() / f"model-{k}")
            save_model(DPFTRL(epsilon=1.0, horizon=60, random_state=k, x_bound=4.0).fit(whole.X, whole.y), found[k])
        return found

    def go_on(self, case: Path, world: World) -> None:
        registry = Registry(case / "shelf")
        while (number := len(registry.numbers("m")) if "m" in registry.names else 0) < self.versions:
            made = registry.publish(self.models[number], "m", allow_not_private=True)
            world.publish("version", made.number, 0, made.manifest)
        registry.use("m", 1)
        world.publish("use", 1, 0, "-")

    def marks(self, case: Path) -> dict[Any, str]:
        try:
            registry = Registry(case / "shelf", create=False)
        except StateError:  # the registry itself was being made
            return {}
        numbers = registry.numbers("m") if "m" in registry.names else []
        return {number: _said(lambda number=number: registry.version("m", number).manifest) for number in numbers}

    def wrongs(self, case: Path, seen: Seen) -> Iterator[str]:
        yield from super().wrongs(case, seen)
        marks = self.marks(case)
        for number, digest in marks.items():
            if digest.startswith("!"):
                yield f"a reader finds version {number} in part: {digest}"
        if seen:
            last = seen[-1][1]
            allowed = {last} | {number for number in marks if number > last and seen[-1][0] == "version"}
            if len(marks) == self.versions:
                allowed.add(1)
            found = _said(lambda: str(Registry(case / "shelf", create=False).current("m")))
            if found not in map(str, allowed):
                yield f"after {seen[-1][0]} {last} the current version is {found}"

    def wrongs_of_end(self, case: Path, seen: Seen) -> Iterator[str]:
        shelf = case / "shelf"
        if len(self.marks(case)) != self.versions or Registry(shelf, create=False).current("m") != 1:
            yield f"in the end there are {self.marks(case)}"
        if left := [path.name for path in (shelf / "m").glob(".draft.*")]:
            yield f"drafts are left: {left}"


def _said(read: Any) -> str:
    try:
        return str(read())
    except StateError as error:
        return f"! {error}"


# ---- a fit ----------------------------------------------------------------------------------------------------------


class OfFit(Thing):
    """The fit of an offline learner: what was sealed is paid for and shown; else another fit pays again."""

    title, shared, rows = "fits of offline learners", True, 300

    def __init__(self, learner: Callable[..., Any]) -> None:
        self.learner, self.name = learner, f"fit of {learner.__name__}"

    def go_on(self, case: Path, world: World) -> None:
        run = case / "run"
        if not run.exists():
            run.mkdir()
            sync_folder(case)
        with closing(Ledger(epsilon=1000.0, delta=2e-3, slack=1e-3, journal=self.journal(case))) as ledger:
            seal = SealedRelease(run)
            if seal.read() is not None or (run / "model.json").exists():
                seal.complete(ledger)
            else:
                self.learner(epsilon=1.0, ledger=ledger).fit_stream(Rows(self.rows, 100), seal=seal)
        world.publish("shown", 1, 1, self.marks(case)[1])

    def marks(self, case: Path) -> dict[Any, str]:
        run = case / "run"
        record = SealedRelease(run).read()
        if record is None and (run / "model.json").exists():
            record = read_record(run)
        return {} if record is None else {1: str(record["arrays"]["sha256"])}

    def wrongs(self, case: Path, seen: Seen) -> Iterator[str]:
        yield from super().wrongs(case, seen)
        if (case / "run" / "model.json").exists():
            entries = Ledger.read(self.journal(case)).entries()
            if not any(not entry.open and entry.mu_squared > 0.0 and entry.releases for entry in entries):
                yield f"a model is shown, and no account has paid for it: {entries}"

    def wrongs_of_end(self, case: Path, seen: Seen) -> Iterator[str]:
        load_model(case / "run")
        if (case / "run" / "secret").exists():
            yield "the folder of secrets is left"
        accounts = Ledger.read(self.journal(case)).accounts
        paid = [account for account in accounts if account.closed and account.entry().releases]
        if len(paid) != 1:
            yield f"{len(paid)} accounts have paid for one model"
        for account in accounts:
            if account not in paid and account.entry().mu_squared + account.entry().open <= 0.0:
                yield "the reservation of a fit that was killed counts no more"


KEPT_THINGS: dict[str, list[Thing]] = {
    "device": [OfDevice()],
    "node": [OfNode()],
    "registry": [OfRegistry()],
    "fit": [OfFit(learner) for learner in OFFLINE_LEARNERS.values()],
}
