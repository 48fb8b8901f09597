"""Devices as client apps of Flower: what leaves them, what they refuse, lost and repeated messages, the same bits."""

from __future__ import annotations

import copy
import logging
import re

import numpy as np
import pytest
from flower_tools import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    LoopGrid,
    Message,
    MetricRecord,
    RecordDict,
    ask,
    wire,
)
from round_tools import changed

from privol import BANCO, LDPSGD, MIOGD, AgnosticBANCO, MultiscaleSGD
from privol.errors import InvalidParameter, StateError
from privol.flower import device_app, learner_app, play_rounds
from privol.rounds import Collector, Device, KeptDevice

FEATURES, USERS = 4, 20
LIMITS = {"n_features": FEATURES, "epsilon": 2.0}
SECRET = 1234.5678


def table():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(USERS, FEATURES)) / 2
    return X, (X[:, 0] > 0).astype(float)


def seed_of(user):
    return 50 + user


@pytest.fixture
def app(tmp_path):
    X, y = table()

    def device(context):
        user = context.node_config["partition-id"]
        return KeptDevice(tmp_path / f"device-{user}", random_state=seed_of(user), **LIMITS)

    def row(context, number):
        user = context.node_config["partition-id"]
        return X[user], y[user]

    return device_app(device, row)


def collector_of(rounds):
    learner = LDPSGD(epsilon=2.0, horizon=rounds).declare_classes([0, 1])
    return learner, Collector(learner, FEATURES)


def grid_of(app, users=USERS, **words):
    return LoopGrid(app, [{"partition-id": user} for user in range(users)], **words)


def record(**values):
    return RecordDict({"privol": ConfigRecord(values)})


def the_answer(reply):
    assert not reply.has_error(), reply.error
    return reply.content["privol"]["answer"]


def in_one_process(order):
    """The run of these users, in this order, by devices and a learner without Flower."""
    X, y = table()
    learner, collector = collector_of(len(order))
    for user in order:
        seed = np.random.SeedSequence(seed_of(user), spawn_key=(0,))
        collector.tell(Device(random_state=seed, **LIMITS).answer(collector.ask(), X[user], y[user]))
    return learner


def same_models(learner, other):
    for name in ("coef_", "intercept_", "average_coef_"):
        assert np.asarray(getattr(learner, name)).tobytes() == np.asarray(getattr(other, name)).tobytes(), name
    assert np.any(learner.coef_ != 0.0)


# ---- the same bits, and nothing else --------------------------------------------------------------------------------


def test_the_model_is_that_of_one_process(app):
    grid = grid_of(app)
    learner, collector = collector_of(USERS)
    played = play_rounds(grid, collector, pause=0.001)
    assert (played.rounds, played.asked, played.refused, played.lost) == (USERS, USERS, 0, 0)
    same_models(learner, in_one_process(range(USERS)))


OTHERS = {
    "MIOGD": (MIOGD, {"leakage": 0.5}),
    "MultiscaleSGD": (MultiscaleSGD, {"epsilon": 2.0}),
    "BANCO": (BANCO, {"epsilon": 2.0}),
    "AgnosticBANCO": (AgnosticBANCO, {"epsilon": 2.0}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_other_learners_of_reports(name, tmp_path):
    (kind, words), (X, y) = OTHERS[name], table()

    def limited(user, place=None):
        words_of = {"n_features": FEATURES, **words}
        if place is None:
            return Device(random_state=np.random.SeedSequence(seed_of(user), spawn_key=(0,)), **words_of)
        return KeptDevice(place, random_state=seed_of(user), **words_of)

    def device(context):
        user = context.node_config["partition-id"]
        return limited(user, tmp_path / f"device-{user}")

    def row(context, number):
        user = context.node_config["partition-id"]
        return X[user], y[user]

    learner, other = (kind(horizon=USERS, **words).declare_classes([0, 1]) for _ in range(2))
    play_rounds(grid_of(device_app(device, row)), Collector(learner, FEATURES), pause=0.001)
    collector = Collector(other, FEATURES)
    for user in range(USERS):
        collector.tell(limited(user).answer(collector.ask(), X[user], y[user]))
    same_models(learner, other)


def test_what_leaves_a_client_is_the_report_and_nothing_else(app):
    """Every byte that Flower sends of a reply's content is that of the device's answer, whatever the row was."""
    X, y = table()
    grid = grid_of(app)
    _, collector = collector_of(USERS)
    play_rounds(grid, collector, pause=0.001)
    assert len(grid.sent) == USERS
    for (node, reply, frame, objects), (_, asked) in zip(grid.sent, grid.asked, strict=True):
        seed = np.random.SeedSequence(seed_of(node - 1), spawn_key=(0,))
        question = asked.content["privol"]["question"]
        expected = Device(random_state=seed, **LIMITS).answer(question, X[node - 1], y[node - 1])
        bare = Message(record(answer=expected), reply_to=asked)
        # all that a reply has beside its content: times, and what the question had
        for name in ("created_at", "ttl"):
            bare.metadata.__dict__[f"_{name}"] = getattr(reply.metadata, name)
        assert wire(bare) == (frame, objects)
        for value in X[node - 1]:
            assert value.tobytes() not in frame + b"".join(objects.values())


def test_the_row_changes_nothing_but_the_report(tmp_path):
    """Two rows and a failed one: replies of the same sizes, records and types."""
    found = []
    for name, x in (
        ("a", np.full(FEATURES, 0.3)),
        ("b", np.full(FEATURES, -1e300)),
        ("null", np.full(FEATURES, np.nan)),
    ):
        made = device_app(lambda _, name=name: KeptDevice(tmp_path / name, **LIMITS), lambda *_, x=x: (x, 1.0))
        grid = LoopGrid(made, [{}])
        _, collector = collector_of(1)
        play_rounds(grid, collector, pause=0.001)
        ((_, _, frame, objects),) = grid.sent
        found.append((len(frame), sorted(map(len, objects.values()))))
    assert found[0] == found[1] == found[2]


# ---- repeated and lost messages -------------------------------------------------------------------------------------


def test_a_repeated_message_has_the_same_answer(app, tmp_path):
    """Also in a new run of Flower, and with a context that has lost its state, as after a crash."""
    grid = grid_of(app)
    _, collector = collector_of(3)
    content = record(question=collector.ask())
    first = the_answer(grid.call(1, ask(content)))
    grid.contexts[1] = Context(8, 1, {"partition-id": 0}, RecordDict(), {})
    assert the_answer(grid.call(1, ask(copy.deepcopy(content)))) == first
    assert not grid.contexts[1].state
    _, other = collector_of(3)
    refused = grid.call(1, ask(record(question=other.ask())))
    assert refused.error.reason == "this device makes 1 reports, and has made 1"
    assert KeptDevice(tmp_path / "device-0", **LIMITS).n_reports == 1


def test_another_question_of_a_round_gets_no_report(app):
    grid = grid_of(app)
    _, collector = collector_of(3)
    question = collector.ask()
    the_answer(grid.call(1, ask(record(question=question))))
    refused = grid.call(1, ask(record(question=changed(question, 88, np.float64(0.5).tobytes()))))
    assert "has answered another question of round 1" in refused.error.reason


def test_lost_clients_are_passed_over(app):
    """The third node's reply is lost, and the fifth's arrives when the next node was asked: the first answer counts."""
    late = []

    def fate(node, message, reply):
        if node == 3:
            return None
        if node == 5:
            late.append((message, reply))
            return None
        if node == 6:
            grid.waiting[late[0][0].object_id] = late[0][1]
        return reply

    grid = grid_of(app, fate=fate)
    learner, collector = collector_of(10)
    played = play_rounds(grid, collector, patience=0.02, pause=0.001)
    assert (played.rounds, played.asked, played.refused, played.lost) == (10, 12, 0, 2)
    heard = [0, 1, 3, 4, *range(6, 12)]  # user 5, of node 6, was second in its round
    same_models(learner, in_one_process(heard))


def test_a_killed_client_app_is_asked_again(app):
    """Flower says so in its place. What it had kept is its answer; one that stays away is passed over."""
    failures = {2: 1, 4: 9}

    def fate(node, message, reply):
        if failures.get(node, 0) > 0:
            failures[node] -= 1
            return Message(Error(code=8, reason="ClientApp stopped responding."), reply_to=message)
        return reply

    learner, collector = collector_of(5)
    played = play_rounds(grid_of(app, fate=fate), collector, pause=0.001)
    assert (played.rounds, played.asked, played.refused, played.lost) == (5, 9, 0, 4)
    same_models(learner, in_one_process([0, 1, 2, 4, 5]))


def test_a_run_without_enough_nodes_goes_on_with_others(app):
    grid = grid_of(app, users=3)
    learner, collector = collector_of(5)
    with pytest.raises(StateError, match="3 rounds were played, 3 nodes asked, each at most 1 times; 0 ref"):
        play_rounds(grid, collector, wait=0.01, pause=0.001)
    assert learner.n_rows_ == 3
    more = grid_of(app)
    played = play_rounds(more, collector, nodes=lambda: [4, 5], pause=0.001)
    assert played.rounds == 2
    same_models(learner, in_one_process(range(5)))


def test_a_node_may_play_several_users(tmp_path):
    X, y = table()
    asked = []

    def row(context, number):
        asked.append(number)
        return X[number], y[number]

    made = device_app(lambda _: KeptDevice(tmp_path / "one", reports=USERS, random_state=9, **LIMITS), row)
    learner, collector = collector_of(USERS)
    play_rounds(LoopGrid(made, [{}]), collector, reports=USERS, pause=0.001)
    assert asked == list(range(USERS))
    other, plain = collector_of(USERS)
    for n in range(USERS):
        seed = np.random.SeedSequence(9, spawn_key=(n,))
        plain.tell(Device(random_state=seed, **LIMITS).answer(plain.ask(), X[n], y[n]))
    same_models(learner, other)


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (RecordDict(), r"one ConfigRecord, 'privol', found \[\]"),
        (RecordDict({"other": ConfigRecord({"question": b""})}), r"found \['other'\]"),
        (RecordDict({"privol": MetricRecord({"question": 1})}), "one ConfigRecord, 'privol', found"),
        (RecordDict({"privol": ArrayRecord({"question": Array(np.zeros(2))})}), "one ConfigRecord, 'privol', found"),
        (RecordDict({"privol": ConfigRecord({"question": b""}), "x": ConfigRecord()}), r"found \['privol', 'x'\]"),
        (record(), r"bytes named \['question'\], found \{\}"),
        (record(question="text"), r"bytes named \['question'\], found \{'question': 'str'\}"),
        (record(question=b"", more=b""), "'more': 'bytes'"),
        (record(question=b""), "a message has at least 40 bytes, found 0"),
        (record(question=b"\0" * 130), "a message begins with b'pvRD'"),
    ],
)
def test_bad_messages_are_refused_with_what_was_found(app, tmp_path, content, said):
    refused = grid_of(app).call(1, ask(content))
    assert refused.error.code == 7100
    assert re.search(said, refused.error.reason), refused.error.reason
    assert not (tmp_path / "device-0").exists()


def test_bad_answers_are_not_learnt(app):
    """Each of the first nodes sends something else; the round then goes to the next, and the model is of the rest."""
    spoilt = {
        1: lambda message, reply: Message(record(answer=b"x"), reply_to=message),
        2: lambda message, reply: Message(record(report=the_answer(reply)), reply_to=message),
        3: lambda message, reply: Message(RecordDict(), reply_to=message),
        4: lambda message, reply: Message(
            record(answer=changed(the_answer(reply), 40, np.float64(1e9).tobytes())), reply_to=message
        ),
        5: lambda message, reply: Message(record(answer=changed(the_answer(reply), 32, b"\7")), reply_to=message),
    }

    def fate(node, message, reply):
        return spoilt.get(node, lambda _, reply: reply)(message, reply)

    learner, collector = collector_of(4)
    played = play_rounds(grid_of(app, fate=fate), collector, pause=0.001)
    assert (played.rounds, played.refused) == (4, 5)
    for words, said in zip(
        played.words,
        ("at least 40 bytes, found 1", "bytes named ['answer']", "found []", "norm of at most", "was not asked"),
        strict=True,
    ):
        assert said in words
    same_models(learner, in_one_process([5, 6, 7, 8]))


class Hostile(Exception):
    def __str__(self):
        return f"row {SECRET}"


@pytest.mark.parametrize("where", ["row", "device", "shape", "pair", "failed"])
def test_no_error_tells_of_a_row(tmp_path, where, caplog, capfd):
    """Flower sends the words of an app's exception to the server, and logs them: no exception leaves a client app."""
    seen = []

    def device(context):
        if where == "device":
            raise Hostile
        return KeptDevice(tmp_path / "device", **LIMITS)

    def row(context, number):
        if where in ("row", "failed"):
            raise Hostile
        return (np.full(FEATURES + 1, SECRET), SECRET) if where == "shape" else SECRET

    def failed(error):
        seen.append(error)
        if where == "failed":
            raise Hostile

    made = device_app(device, row, failed=failed)
    _, collector = collector_of(3)
    with caplog.at_level(logging.DEBUG):
        grid = LoopGrid(made, [{}])
        reply = grid.call(1, ask(record(question=collector.ask())))
    words = "cannot read its rows" if where == "row" else "cannot answer"
    assert reply.error.reason == f"this client {words}; its owner may know why"
    ((_, _, frame, objects),) = grid.sent
    shown = capfd.readouterr()
    for text in (frame, *objects.values(), caplog.text.encode(), shown.out.encode(), shown.err.encode()):
        assert b"1234" not in text
    assert len(seen) == 1
    assert isinstance(seen[0], InvalidParameter if where in ("shape", "pair") else Hostile)
    if where != "device":
        assert KeptDevice(tmp_path / "device", **LIMITS).n_reports == 0


def test_a_device_that_is_none(tmp_path):
    seen = []
    made = device_app(lambda _: Device(**LIMITS), lambda *_: ([0.0] * FEATURES, 1.0), failed=seen.append)
    _, collector = collector_of(3)
    assert LoopGrid(made, [{}]).call(1, ask(record(question=collector.ask()))).has_error()
    assert "device must return a KeptDevice, found a Device" in str(seen[0])


@pytest.mark.parametrize("words", [{"reports": 0}, {"patience": 0.0}, {"wait": -1}, {"pause": 0}, {"pause": "x"}])
def test_parameters_of_the_server(app, words):
    with pytest.raises(InvalidParameter):
        play_rounds(grid_of(app), collector_of(2)[1], **words)


def test_a_server_app(app):
    done = []
    made = LDPSGD(epsilon=2.0, horizon=5).declare_classes([0, 1])
    server = learner_app(lambda context: (made, FEATURES), lambda *given: done.append(given), pause=0.001)
    context = Context(7, 0, {}, RecordDict(), {})
    server(grid_of(app), context)
    ((given, learner, played),) = done
    assert given is context
    assert played.rounds == 5
    same_models(learner, in_one_process(range(5)))
