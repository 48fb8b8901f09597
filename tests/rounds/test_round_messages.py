"""The messages of rounds: their layout, the effect of random ones, and reading them from a socket."""

from __future__ import annotations

import math
import random
import socket
import struct
import threading

import numpy as np
import pytest
from round_tools import FEATURES, changed, pair, rows, terms

from privol.errors import BudgetExceeded, InvalidMessage
from privol.rounds import VERSION, Device, receive_answer, receive_question
from privol.rounds._messages import ANSWER, QUESTION, pack_answer, pack_question, parse_question, place_of, size_of
from privol.rounds._terms import Terms

# ---- messages -------------------------------------------------------------------------------------------------------


def test_the_layout_of_version_1():
    """The bytes are those in docs/rounds.md, on which devices of other makers rely."""
    run, point = bytes(range(16)), np.array([0.5, -2.0])
    assert VERSION == 1
    head = b"pvRD" + struct.pack("<HBBII", 1, 1, 0, 40 + 48 + 16, 2) + run + struct.pack("<Q", 77)
    content = struct.pack("<BBBBB3xddddd", 2, 1, 5, 1, 0, 1.25, 0.75, 3.0, 4.0, 0.5)
    stated = terms(
        randomizer="l2laplace",
        adjacency="zero_out",
        loss="huber",
        amount=0.75,
        bound=1.25,
        x_bound=3.0,
        y_bound=4.0,
        width=0.5,
    )
    assert stated == content
    question = pack_question(place_of(run, 77), stated, point)
    assert question == head + content + struct.pack("<dd", 0.5, -2.0)
    assert (head + content)[40:45] == b"\2\1\5\1\0"
    answer = pack_answer(place_of(run, 77), point)
    assert answer == b"pvRD" + struct.pack("<HBBII", 1, 2, 0, 56, 2) + run + struct.pack("<Qdd", 77, 0.5, -2.0)
    assert (size_of(QUESTION, 2), size_of(ANSWER, 2)) == (len(question), len(answer))
    assert Terms.unpack(content).pack() == content
    for dim in (0, 1 << 29):
        with pytest.raises(InvalidMessage, match="1 to 536870848 coordinates"):
            size_of(ANSWER, dim)


def mutations(seeds, n, seed):
    """Messages changed, cut, lengthened or joined, and random bytes."""
    draw = random.Random(seed)
    special = [0.0, -0.0, math.nan, math.inf, 5e-324, 1e200, -1.0, 1e-12, 1e30]
    for _ in range(n):
        message = bytearray(draw.choice(seeds))
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(message) + 1)
            match draw.randrange(7):
                case 0:
                    message[at : at + 1] = bytes([draw.randrange(256)])
                case 1:
                    del message[at : at + draw.randrange(1, 60)]
                case 2:
                    message[at:at] = draw.randbytes(draw.randrange(1, 60))
                case 3:
                    at = at // 8 * 8
                    message[at : at + 8] = struct.pack("<d", draw.choice(special))
                case 4:
                    message = bytearray(draw.randbytes(draw.choice([0, 1, 40, 104, 152, 300])))
                case 5:
                    message[40:] = draw.choice(seeds)[40:]
                case _:
                    at = min(at, 40)
                    message[at : at + 1] = bytes([message[at] ^ 1 << draw.randrange(8)]) if at < len(message) else b""
        yield bytes(message)


@pytest.mark.filterwarnings("error")
def test_random_messages_leave_the_run_unchanged():
    X, y = rows()
    learner, collector, device = pair(horizon=5000)
    seeds = []
    for t in range(3):
        seeds.append(collector.ask())
        seeds.append(device.answer(seeds[-1], X[t], y[t]))
        collector.tell(seeds[-1])
    seeds.append(collector.ask())
    seeds.append(device.answer(seeds[-1], X[3], y[3]))
    careful = Device(n_features=FEATURES, epsilon=1.5, delta=1e-6, reports=10**6)
    learnt = answered = 0
    for message in mutations(seeds, 6000, seed=3):
        before = (learner.n_rows_, learner.coef_.tobytes(), careful.n_reports)
        open_round, place = collector.round, message[32:40]
        try:
            collector.tell(message)
        except InvalidMessage:
            assert (learner.n_rows_, learner.coef_.tobytes()) == before[:2]
        else:  # the numbers of a report may be any that a report can have
            report = np.frombuffer(message, "<f8", 8, 40)
            assert (len(message), message[:16], message[16:32]) == (104, seeds[1][:16], collector.run)
            assert int.from_bytes(place, "little") == open_round
            assert np.linalg.norm(report) <= collector.longest
            assert learner.n_rows_ == before[0] + 1
            learnt += 1
        try:
            answer = careful.answer(message, X[0], y[0])
        except (InvalidMessage, BudgetExceeded):
            assert careful.n_reports == before[2]
        else:
            stated = Terms.unpack(message[40:88])
            assert stated.pack() == message[40:88]
            assert stated.figure == "sigma" or stated.amount <= 1.5
            assert answer[16:40] == message[16:40]
            assert np.isfinite(parse_question(message, 8)[2]).all()
            answered += 1
    assert learnt >= 1
    assert answered > 100


# ---- sockets --------------------------------------------------------------------------------------------------------


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_messages_in_pieces(ends):
    ours, theirs = ends
    _, collector, device = pair()
    question = collector.ask()
    answer = device.answer(question, np.ones(FEATURES), 1.0)

    def trickle():
        for message in (question, question):
            for k in range(len(message)):
                theirs.sendall(message[k : k + 1])
        theirs.close()

    writer = threading.Thread(target=trickle)
    writer.start()
    assert [receive_question(ours, 8) for _ in range(3)] == [question, question, None]
    writer.join()
    assert ours.gettimeout() is None
    one, other = socket.socketpair()
    with one, other:
        other.sendall(answer + answer)
        assert [receive_answer(one, 8) for _ in range(2)] == [answer, answer]


def test_a_connection_that_ends_within_a_message_is_an_error(ends):
    ours, theirs = ends
    _, collector, _ = pair()
    theirs.sendall(collector.ask()[:100])
    theirs.close()
    with pytest.raises(InvalidMessage, match="ended after 100 of 152 bytes"):
        receive_question(ours, 8)


def test_a_wrong_beginning_is_refused_before_the_rest_comes(ends):
    ours, theirs = ends
    _, collector, _ = pair()
    theirs.sendall(changed(collector.ask(), 8, b"\xff\xff\xff\xff")[:40])  # 4 GB are announced, and nothing follows
    with pytest.raises(InvalidMessage, match="has 152 bytes, this one states 4294967295"):
        receive_question(ours, 8)


def test_a_message_that_never_ends_times_out(ends):
    ours, theirs = ends
    _, collector, _ = pair()
    theirs.sendall(collector.ask()[:50])
    with pytest.raises(TimeoutError):
        receive_question(ours, 8, seconds=0.05)
    ours.settimeout(0.05)
    with pytest.raises(TimeoutError):
        receive_question(ours, 8)
    assert ours.gettimeout() == 0.05
