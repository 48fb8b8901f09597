"""Nodes of a network as client apps of Flower: the bits of one process, one version of a message, what is refused."""

from __future__ import annotations

import os
import re
import shutil
import signal

import numpy as np
import pytest
from flower_tools import ConfigRecord, Context, Error, LoopGrid, Message, RecordDict, ask
from forged import caught, change_run

import privol
from privol import DOLA, NOGD, SparseDOLA, _files
from privol.errors import InvalidMessage, InvalidParameter, StateError
from privol.flower import KeptNode, Network, _kept_node, _relay, network_app, node_app, relay
from privol.flower._kept_node import _HEAD, pack_step
from privol.losses import Huber
from privol.state import load_model
from privol.topology import MatchingCycle, RandomMatching, erdos_renyi, ring
from privol.verifying import verdict, verify

FEATURES, ROWS = 3, 50
CASES = {
    "ring": (DOLA, {"nodes": 4, "batch": 4, "horizon": 48}),
    "part of a round": (DOLA, {"nodes": 3, "batch": 4, "topology": "complete", "horizon": 50}),
    "matching": (DOLA, {"topology": RandomMatching(erdos_renyi(5, 0.7, seed=2), seed=1), "l2": 0.1, "horizon": 20}),
    "output": (DOLA, {"topology": MatchingCycle(ring(3)), "noise_position": "output", "step_size": 0.5, "horizon": 9}),
    "sparse": (SparseDOLA, {"nodes": 4, "topology": "grid", "l1": 0.5, "epsilon": 20.0, "batch": 6, "horizon": 48}),
    "epochs": (DOLA, {"nodes": 5, "batch": 5, "epochs": 2, "horizon": 100, "randomizer": "l2laplace"}),
    "numbers": (DOLA, {"nodes": 2, "batch": 10, "loss": Huber(width=0.5), "fit_intercept": False, "horizon": 40}),
}  # fmt: skip


def make(name, **words):
    kind, parameters = CASES[name]
    return kind(**{"random_state": 5, "epsilon": 4.0, **parameters, **words})


def table(name):
    learner = make(name)
    n = learner.horizon // learner.epochs
    X = np.random.default_rng(0).normal(size=(n, FEATURES)) / 2
    return X, X[:, 0] if name == "numbers" else (X[:, 0] > 0).astype(int)


def labels(name):
    return None if name == "numbers" else (0, 1)


def alone(name):
    X, y = table(name)
    return make(name).fit_stream(privol.open_stream((X, y), classes=labels(name)))


@pytest.fixture(autouse=True)
def _no_power_is_cut(monkeypatch):
    """Here processes are killed at most, and what they have written stays: waiting for the disk would test nothing."""
    monkeypatch.setattr(_files.os, "fsync", lambda descriptor: None)


class Federation:
    """The nodes of a case, each with a directory."""

    def __init__(self, home, name="ring"):
        self.home, self.name, self.seen, self.nodes = home, name, [], make(name).mixing().n_nodes
        self.network = Network(make(name), FEATURES, labels(name))
        self.X, self.y = table(name)
        self.app = node_app(lambda c: self.node(c.node_config["partition-id"]), self.rows, failed=self.seen.append)

    def node(self, k, **words):
        return KeptNode(
            self.home / f"node-{k}", make(self.name, **words), node=k, n_features=FEATURES, classes=labels(self.name)
        )

    def rows(self, context):
        return self.stream(context.node_config["partition-id"])

    def stream(self, k):
        return privol.open_stream((self.X[k :: self.nodes], self.y[k :: self.nodes]), classes=labels(self.name))

    def grid(self, **words):
        return LoopGrid(self.app, [{"partition-id": k} for k in range(self.nodes)], **words)


def record(**values):
    return RecordDict({"privol": ConfigRecord(values)})


def same_model(found, learner):
    for name, expected in (
        ("coef", learner.coef_),
        ("intercept", learner.intercept_),
        ("average_coef", learner.average_coef_),
        ("average_intercept", learner.average_intercept_),
    ):
        assert np.ravel(getattr(found, name)).tobytes() == np.ravel(expected).tobytes(), name
    assert np.any(found.coef != 0.0)


# ---- the same bits, and nothing else ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_the_model_is_that_of_one_process(name, tmp_path):
    federation = Federation(tmp_path, name)
    grid = federation.grid()
    expected = alone(name)
    found = relay(grid, federation.network, pause=0.001)
    same_model(found, expected)
    assert found.rounds == federation.network.rounds == expected.plan_.rounds
    for k in range(federation.nodes):
        kept = load_model(tmp_path / f"node-{k}" / "run")
        assert kept.coef_.tobytes() == expected.coef_.tobytes()
        assert kept.guarantee_.mu == expected.guarantee_.mu
        assert not (tmp_path / f"node-{k}" / "run" / "secret").exists()
    # replies have one record with what the protocol says, and no other bytes
    sizes = [_HEAD.size + 8 * federation.network.sent(step) for step in range(1, federation.network.steps + 1)]
    found = [reply.content for _, reply, _, _ in grid.sent]
    assert [list(content) for content in found] == [["privol"]] * len(found)
    answers = [content["privol"] for content in found if "answer" in content["privol"]]
    assert [(list(each), len(each["answer"])) for each in answers] == [
        (["answer"], size) for size in sizes for _ in range(federation.nodes)
    ]
    assert [dict(each["privol"]) for each in found[: federation.nodes]] == [
        {"node": k.to_bytes(8, "little")} for k in range(federation.nodes)
    ]


@pytest.mark.parametrize("name", CASES)
def test_what_a_node_claims_is_checked(name, tmp_path, monkeypatch):
    monkeypatch.setitem(CASES, name, (CASES[name][0], {**CASES[name][1], "random_state": None}))
    federation = Federation(tmp_path, name)
    relay(federation.grid(), federation.network, pause=0.001)
    for k in range(federation.nodes):
        run = tmp_path / f"node-{k}" / "run"
        assert verdict(verify(run)) == "holds"
    change_run(run, lambda record: record["mechanism"]["noise"].update(less(**record["mechanism"]["noise"])))
    assert f"{CASES[name][0].__name__}: noise" in caught(run)


def less(scale, threshold=None, **noise):
    """A part in 100,000 less noise."""
    return {"scale": scale * (1 - 1e-5)} if threshold is None else {"threshold": threshold + 2**64 // 10**5}


def test_noise_is_in_what_nodes_send(tmp_path):
    """With another key every number that a node sends is another; with other rows of another node none of it."""
    sent = {}
    for key in (5, 6):
        federation = Federation(tmp_path / str(key))
        (tmp_path / str(key)).mkdir()
        question = pack_step(b"r" * 16, Network(make("ring", random_state=key), FEATURES, (0, 1)).terms, 0, 1, [])
        sent[key] = federation.node(0, random_state=key).answer(
            question, lambda federation=federation: federation.stream(0)
        )
    first, other = (np.frombuffer(sent[key], "<f8", offset=_HEAD.size) for key in (5, 6))
    assert np.all(first != other)


def test_a_cap_on_users_of_one_node_promises_nothing(tmp_path):
    """A user may have rows at other nodes, which do not say: the guarantee is for one row."""
    federation = Federation(tmp_path, "output")

    def capped(k):
        stream = Federation.stream(federation, k)
        stream.rows_per_user, stream.user = 2, "patient"
        return stream

    federation.stream = capped
    relay(federation.grid(), federation.network, pause=0.001)
    guarantee = load_model(tmp_path / "node-0" / "run").guarantee_
    assert (guarantee.unit, guarantee.rows_per_user) == ("row", None)


# ---- repeated and lost messages --------------------------------------------------------------------------------------


def test_lost_replies_are_asked_for_again(tmp_path):
    """Every third reply is lost; the node answers the same question by the same bytes."""
    federation, count = Federation(tmp_path), [0]

    def fate(node, message, reply):
        count[0] += 1
        return None if count[0] % 3 == 0 else reply

    grid = federation.grid(fate=fate)
    found = relay(grid, federation.network, patience=0.01, pause=0.001)
    same_model(found, alone("ring"))
    assert found.messages > federation.nodes * (federation.network.steps + 1)
    versions = {}
    for (node, reply, _, _), (_, asked) in zip(grid.sent, grid.asked, strict=True):
        answer = reply.content["privol"].get("answer")
        if answer is not None:
            versions.setdefault((node, asked.content["privol"]["question"]), set()).add(answer)
    assert all(len(each) == 1 for each in versions.values())


def test_killed_client_apps_are_asked_again(tmp_path, monkeypatch):
    monkeypatch.setattr(_relay, "_SOON", 0.001)
    federation, count = Federation(tmp_path), [0]

    def fate(node, message, reply):
        count[0] += 1
        lost = Message(Error(code=8, reason="ClientApp stopped responding."), reply_to=message)
        return lost if count[0] % 3 == 0 else reply

    found = relay(federation.grid(fate=fate), federation.network, pause=0.001)
    same_model(found, alone("ring"))
    assert found.messages > federation.nodes * (federation.network.steps + 1)


def test_a_supernode_that_is_started_again_takes_its_node_over(tmp_path, monkeypatch):
    """It is another one for Flower, and waits until the one before is gone; a stranger is not heard."""
    monkeypatch.setattr(_relay, "_SOON", 0.001)
    federation, calls = Federation(tmp_path), []

    def fate(node, message, reply):
        calls.append((node, message.metadata.group_id))
        if message.metadata.group_id == "2" and node == 2:
            grid.contexts[9] = Context(7, 9, {"partition-id": 1}, RecordDict(), {})
            grid.contexts[8] = Context(7, 8, {"partition-id": 7}, RecordDict(), {})
            return None
        if node == 9:
            grid.contexts.pop(2, None)
        return reply

    grid = federation.grid(fate=fate)
    found = relay(grid, federation.network, pause=0.001)
    same_model(found, alone("ring"))
    assert {step for node, step in calls if node == 9} == {"meet", "2", "3", "4", "5"}
    assert {step for node, step in calls if node == 8} == {"meet"}


def test_a_server_that_dies_goes_on(tmp_path):
    federation, done = Federation(tmp_path), []

    def fate(node, message, reply):
        done.append(node)
        if len(done) == 19:
            raise KeyboardInterrupt
        return reply

    with pytest.raises(KeyboardInterrupt):
        relay(federation.grid(fate=fate), federation.network, directory=tmp_path / "server", pause=0.001)
    found = relay(federation.grid(), federation.network, directory=tmp_path / "server", pause=0.001)
    same_model(found, alone("ring"))
    again = relay(federation.grid(), federation.network, directory=tmp_path / "server", pause=0.001)
    same_model(again, alone("ring"))
    with pytest.raises(StateError, match="is of a network with other parameters"):
        relay(federation.grid(), Network(make("ring", epsilon=3.0), FEATURES, (0, 1)), directory=tmp_path / "server")
    content = (tmp_path / "server" / "step.bin").read_bytes()
    (tmp_path / "server" / "step.bin").write_bytes(content[:-3])
    with pytest.raises(StateError, match="cannot be read"):
        relay(federation.grid(), federation.network, directory=tmp_path / "server")


def test_a_message_that_was_made_is_not_made_again_with_another_key(tmp_path, monkeypatch):
    """The key of the noise is kept before a message is made: a call that is cut short behind that changes nothing."""
    federation, made = Federation(tmp_path), []

    def cut(node, facts):
        made.append(bytes.fromhex(facts["answer"]))
        if facts["answer"]:
            raise OSError("power")
        return written(node, facts)

    written = KeptNode._write
    node = federation.node(0, random_state=None)
    question = pack_step(b"r" * 16, node.network.terms, 0, 1, [])
    with monkeypatch.context() as patch:
        patch.setattr(KeptNode, "_write", cut)
        for _ in range(2):
            with pytest.raises(OSError, match="power"):
                federation.node(0, random_state=None).answer(question, lambda: federation.stream(0))
    answer = federation.node(0, random_state=None).answer(question, lambda: federation.stream(0))
    assert made[-2:] == [answer, answer]


@pytest.mark.process
def test_a_node_that_is_killed_sends_no_second_version(tmp_path):
    """A child is killed before one of its calls of the system in every step; its successor sends what it would have."""
    federation = Federation(tmp_path / "nodes")
    (tmp_path / "nodes").mkdir()
    honest = federation.grid()
    relay(honest, federation.network, pause=0.001)
    questions, answers = [], []
    for (node, reply, _, _), (_, asked) in zip(honest.sent, honest.asked, strict=True):
        if node == 2 and "question" in asked.content["privol"]:
            questions.append(asked.content["privol"]["question"])
            answers.append(reply.content["privol"]["answer"])
    shutil.rmtree(tmp_path / "nodes" / "node-1")
    killed = 0
    for step, (question, expected) in enumerate(zip(questions, answers, strict=True)):
        for last in (2 + step, 9 + 2 * step, 30):
            child = os.fork()
            if child == 0:
                _kill_before(last)
                federation.node(1).answer(question, lambda: federation.stream(1))
                os._exit(0)
            killed += os.waitpid(child, 0)[1] == signal.SIGKILL
        assert federation.node(1).answer(question, lambda: federation.stream(1)) == expected
    assert killed > len(questions)


def _kill_before(last):
    """End this process before the last of so many calls that change the disk."""
    calls = [0]

    def counting(name):
        real = getattr(os, name)

        def count(*args, **words):
            calls[0] += 1
            if calls[0] == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **words)

        return count

    for name in ("mkdir", "replace", "write", "fsync", "ftruncate", "unlink"):
        setattr(_files.os, name, counting(name))


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Node 0 after two steps, with the questions that it was asked."""
    home = tmp_path_factory.mktemp("begun")
    federation, run = Federation(home), b"r" * 16
    terms = federation.network.terms
    asked = [
        pack_step(run, terms, 0, 1, np.empty(0)),
        pack_step(run, terms, 0, 2, np.full(federation.network.heard(2, 0), 0.25)),
    ]
    answers = [federation.node(0).answer(question, lambda: federation.stream(0)) for question in asked]
    return federation, run, asked, answers


def never():
    raise AssertionError("rows were read")


def numbers_of(federation, step, value=0.25):
    return np.full(federation.network.heard(step, 0), value)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("run", "rows of node 0 are in the run 7272.*asked is 7878.*pays again"),
        ("terms", "other parameters, labels, topology or version of privol than this node's"),
        ("node", "is for node 1, this one is node 0"),
        ("step 0", "a run has steps 1 to 5, found 0"),
        ("step 6", "a run has steps 1 to 5, found 6"),
        ("past", "has answered step 2 and answers 3 next, found step 1"),
        ("ahead", "has answered step 2 and answers 3 next, found step 4"),
        ("changed", "has answered step 2 and answers 3 next, found another question of step 2"),
        ("short", "question of step 3 has 8 numbers, found 7"),
        ("cut", "56|64 bytes and then numbers of 8 bytes, found"),
        ("empty", "bytes and then numbers of 8 bytes, found 0 bytes"),
        ("nan", r"finite numbers up to 1e\+150, number 0 is nan"),
        ("far", r"number 0 is 1e\+160"),
    ],
)
def test_a_node_refuses(begun, what, said):
    federation, run, asked, _ = begun
    terms, step = federation.network.terms, 3
    question = {
        "run": lambda: pack_step(b"x" * 16, terms, 0, step, numbers_of(federation, step)),
        "terms": lambda: pack_step(run, b"t" * 32, 0, step, numbers_of(federation, step)),
        "node": lambda: pack_step(run, terms, 1, step, numbers_of(federation, step)),
        "step 0": lambda: pack_step(run, terms, 0, 0, []),
        "step 6": lambda: pack_step(run, terms, 0, 6, []),
        "past": lambda: asked[0],
        "ahead": lambda: pack_step(run, terms, 0, 4, numbers_of(federation, 4)),
        "changed": lambda: pack_step(run, terms, 0, 2, numbers_of(federation, 2, 0.5)),
        "short": lambda: pack_step(run, terms, 0, step, numbers_of(federation, step)[:-1]),
        "cut": lambda: asked[1][:-1],
        "empty": lambda: b"",
        "nan": lambda: pack_step(run, terms, 0, step, numbers_of(federation, step, np.nan)),
        "far": lambda: pack_step(run, terms, 0, step, numbers_of(federation, step, 1e160)),
    }[what]()
    before = (federation.home / "node-0" / "node.json").read_bytes()
    with pytest.raises(InvalidMessage, match=said):
        federation.node(0).answer(question, never)
    assert (federation.home / "node-0" / "node.json").read_bytes() == before
    reply = federation.grid().call(1, ask(record(question=question), what="query.step"))
    assert re.search(said, reply.error.reason)


def test_the_last_question_has_the_same_answer(begun):
    federation, _, asked, answers = begun
    assert federation.node(0).answer(asked[1], never) == answers[1]


def test_what_an_earlier_call_could_not_sync_is_synced_before_an_answer(begun, tmp_path, monkeypatch):
    """A loss of power would take the directory, or the answer that was handed out last."""
    _, _, asked, _ = begun
    federation, real, synced = Federation(tmp_path / "nodes"), _kept_node.sync_folder, []
    (tmp_path / "nodes").mkdir()

    def sync_folder(path):
        synced.append(path)
        if len(synced) == 1:
            raise OSError("the disk")
        real(path)

    monkeypatch.setattr(_kept_node, "sync_folder", sync_folder)
    with pytest.raises(OSError, match="the disk"):
        federation.node(0).answer(asked[0], never)
    answer = federation.node(0).answer(asked[0], lambda: federation.stream(0))
    assert synced == [tmp_path / "nodes"] * 2
    assert federation.node(0).answer(asked[0], never) == answer
    assert synced[2:] == [tmp_path / "nodes" / "node-0"]


def test_a_node_hears_one_version_of_a_round(begun, tmp_path):
    """Killed between hearing and answering, it is asked with other numbers: its noise would be in two messages."""
    federation, run, _, _ = begun
    shutil.copytree(federation.home / "node-0", tmp_path / "node-0")
    copy = Federation(tmp_path)

    def dies():
        raise OSError("power")

    step = pack_step(run, copy.network.terms, 0, 3, numbers_of(copy, 3))
    with pytest.raises(OSError, match="power"):
        copy.node(0).answer(step, dies)
    with pytest.raises(InvalidMessage, match="has heard something else in round 2"):
        copy.node(0).answer(pack_step(run, copy.network.terms, 0, 3, numbers_of(copy, 3, 0.5)), never)
    answer = copy.node(0).answer(step, lambda: copy.stream(0))
    assert len(answer) == _HEAD.size + 8 * copy.network.dim


def test_changed_rows_are_not_learnt(begun, tmp_path):
    federation, run, _, _ = begun
    shutil.copytree(federation.home / "node-0", tmp_path / "node-0")
    copy = Federation(tmp_path)
    copy.X = copy.X.copy()
    copy.X[0] *= 0.5
    step = pack_step(run, copy.network.terms, 0, 3, numbers_of(copy, 3))
    with pytest.raises(StateError, match="rows"):
        copy.node(0).answer(step, lambda: copy.stream(0))


@pytest.mark.parametrize("damage", [lambda text: text[:-9], lambda text: text.replace(b'"step": 2', b'"step": 1')])
def test_a_damaged_record_ends_it(begun, tmp_path, damage):
    federation, _, asked, _ = begun
    shutil.copytree(federation.home / "node-0", tmp_path / "node-0")
    path = tmp_path / "node-0" / "node.json"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(StateError, match=r"node\.json"):
        Federation(tmp_path).node(0).answer(asked[1], never)


def test_a_run_without_its_record_ends(begun, tmp_path):
    federation, _, asked, _ = begun
    shutil.copytree(federation.home / "node-0", tmp_path / "node-0")
    (tmp_path / "node-0" / "node.json").unlink()
    with pytest.raises(StateError, match="is not there, but a run is"):
        Federation(tmp_path).node(0).answer(asked[0], never)


def test_errors_of_rows_stay_at_the_node(tmp_path):
    """A row that is refused by name, and a file that cannot be read: the server learns of neither."""
    federation = Federation(tmp_path)
    federation.X[5, 1] = np.nan
    question = pack_step(b"r" * 16, federation.network.terms, 1, 1, [])
    grid = federation.grid()
    reply = grid.call(2, ask(record(question=question), node=2, what="query.step"))
    assert reply.error.reason == "this client cannot answer; its owner may know why"
    assert "row 2" in str(federation.seen[-1])
    federation.stream = lambda k: (tmp_path / "1234.csv").read_text()
    reply = grid.call(
        1, ask(record(question=pack_step(b"r" * 16, federation.network.terms, 0, 1, [])), what="query.step")
    )
    assert reply.error.reason == "this client cannot read its rows; its owner may know why"
    assert "1234.csv" in str(federation.seen[-1])


def test_rows_that_a_node_should_not_have(tmp_path):
    federation = Federation(tmp_path)
    question = pack_step(b"r" * 16, federation.network.terms, 0, 1, [])
    with pytest.raises(InvalidParameter, match="node 0 must have 12 of the 48 rows that 4 nodes have in all, found 11"):
        federation.node(0).answer(
            question, lambda: privol.open_stream((federation.X[:11], federation.y[:11]), classes=(0, 1))
        )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"learner": NOGD(horizon=4)}, "must be a DOLA or SparseDOLA"),
        ({"learner": DOLA(nodes=4)}, "horizon"),
        ({"learner": DOLA(nodes=1, topology="complete", horizon=8)}, "at least 2 nodes, found 1"),
        ({"learner": DOLA(nodes=4, horizon=3)}, "every node must have a row, found 3 rows for 4 nodes"),
        ({"n_features": 0}, "n_features"),
        ({"node": 4}, "node must be an integer"),
    ],
)
def test_parameters(tmp_path, words, said):
    words = {"learner": make("ring"), "node": 0, "n_features": FEATURES, **words}
    with pytest.raises(InvalidParameter, match=said):
        KeptNode(tmp_path / "node", words.pop("learner"), **words)
    assert not (tmp_path / "node").exists()


# ---- the server ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fate", "error", "said"),
    [
        (lambda step, answer: answer[:-8], InvalidMessage, "the answer to step 2 has 4 numbers, found 3"),
        (lambda step, answer: b"\0" + answer[1:], InvalidMessage, "expected the answer of node 1 to step 2 of the run"),
        (lambda step, answer: answer[:-8] + np.float64(np.inf).tobytes(), InvalidMessage, "number 3 is inf"),
        (lambda step, answer: None, StateError, r"nodes \[1\] have not answered step 2 of 5 in time"),
    ],
)
def test_the_server_refuses(tmp_path, fate, error, said):
    federation = Federation(tmp_path)

    def spoil(node, message, reply):
        if node != 2 or message.metadata.group_id != "2":
            return reply
        answer = fate(2, reply.content["privol"]["answer"])
        return None if answer is None else Message(record(answer=answer), reply_to=message)

    with pytest.raises(error, match=said):
        relay(federation.grid(fate=spoil), federation.network, wait=1.0, pause=0.001)


def test_a_node_that_ends_with_another_model(tmp_path):
    federation = Federation(tmp_path)

    def spoil(node, message, reply):
        if node == 1 and message.metadata.group_id == "5":
            answer = reply.content["privol"]["answer"]
            return Message(record(answer=answer[:-8] + np.float64(0.5).tobytes()), reply_to=message)
        return reply

    with pytest.raises(StateError, match="do not have the same model"):
        relay(federation.grid(fate=spoil), federation.network, pause=0.001)


def test_who_is_who(tmp_path):
    federation = Federation(tmp_path)
    twice = LoopGrid(federation.app, [{"partition-id": k} for k in (0, 1, 1, 2)])
    with pytest.raises(StateError, match="the SuperNodes 2 and 3 both say that they are node 1"):
        relay(twice, federation.network, wait=0.2, pause=0.001)
    few = LoopGrid(federation.app, [{"partition-id": k} for k in (0, 2)])
    with pytest.raises(StateError, match=r"nodes \[1, 3\] of 4 are not there"):
        relay(few, federation.network, wait=0.05, pause=0.001)
    with pytest.raises(InvalidMessage, match="the network has other parameters, labels, topology"):
        relay(federation.grid(), Network(make("ring", epsilon=9.0), FEATURES, (0, 1)), pause=0.001)

    def spoil(node, message, reply):
        return Message(record(node=(9).to_bytes(8, "little")), reply_to=message)

    with pytest.raises(InvalidMessage, match="says that it is node 9 of 4"):
        relay(federation.grid(fate=spoil), federation.network, pause=0.001)


@pytest.mark.parametrize("words", [{"patience": 0.0}, {"wait": -1}, {"pause": 0}])
def test_parameters_of_the_server(tmp_path, words):
    federation = Federation(tmp_path)
    with pytest.raises(InvalidParameter):
        relay(federation.grid(), federation.network, **words)


def test_a_server_app(tmp_path):
    federation, done = Federation(tmp_path, "output"), []
    server = network_app(lambda context: federation.network, lambda context, model: done.append(model), pause=0.001)
    server(federation.grid(), Context(7, 0, {}, RecordDict(), {}))
    same_model(done[0], alone("output"))
