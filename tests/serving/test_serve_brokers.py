"""``privol serve`` learns from brokers: they go away for longer than a reader waits, and come back."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pytest
from brokers import PASSWORD, ROWS, STATED_TOML, TOML, Kafka, Mosquitto, Redis, as_json
from cli_tools import entries_of, privol_cli
from patience import WAIT
from serving_tools import ask, ended, listening, rows_of, served, text_of, told, wait_for

import privol.cli.serve as serve_command
from privol.cli.app import DATA, OK
from privol.errors import SourceAway
from privol.serving._live_run import Learning
from privol.state import State, load_model

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the servers are those of a Linux distribution"),
]
MORE = ROWS[::-1]
ASKED = rows_of(*ROWS[:3])
IMPATIENT = """
import privol.cli.serve as serve, privol.readers.message_columns as columns
serve._PAUSE, serve._LONGEST, columns.PATIENCE = {pause}, {pause}, 0.3
"""


@pytest.fixture
def redis(tmp_path, monkeypatch):
    """A server with the first rows, of which fifty come after the last release."""
    monkeypatch.chdir(tmp_path)
    Path("visits.toml").write_text(TOML)
    server = Redis()
    server.add("visits", ROWS[:450])
    yield server
    server.close()


def words(rows=1000, seed=1):
    return ("--schema", "visits.toml", "--horizon", rows, "--learner", "dpftrl", "--release", 100, "--seed", seed)


def learning(url, *more, pause=0.2):
    """The service of a run that learns a broker's rows, where reader and service lose patience quickly."""
    before = IMPATIENT.format(pause=pause)
    return served("RUN", *more, "--source", url, "--", *words(), before=before)


def metric(known, name):
    """The value of a metric without labels, or of the only model; None where it is not shown."""
    text = ask(known, "/metrics")[2].decode()
    found = [line for line in text.splitlines() if line.split("{")[0].split(" ")[0] == name]
    return float(found[0].rsplit(" ", 1)[1]) if found else None


def releases(known):
    return metric(known, "privol_model_releases")


def state_of(known):
    return told(known, "/healthz")["learning"]


def attempts(known):
    assert "learning has ended" not in text_of(known)
    return text_of(known).count("the next attempt is in")


def test_a_broker_that_is_away_for_long_and_comes_back(redis):
    """The run goes on by itself: nothing is learnt twice, lost or charged twice, and meanwhile its model answers."""
    with learning(redis.url(group="model", rows=1000)) as known:
        listening(known)
        wait_for(lambda: releases(known) == 4)
        assert state_of(known) == "running"
        for rows in ([], MORE):
            redis.kill()
            tried = attempts(known)
            wait_for(lambda tried=tried: attempts(known) > tried + 1)  # not once: until it is back
            health = told(known, "/healthz")  # 200: the model is served
            assert health == {"status": "degraded", "models": {"model": "served"}, "learning": "waiting"}
            assert 'privol_learning{state="waiting"} 1.0' in ask(known, "/metrics")[2].decode()
            assert told(known, "/v1/predict", ASKED)["model"]["releases"] == 4
            redis.start()
            wait_for(lambda: state_of(known) == "running")  # though no row has come
            assert told(known, "/healthz")["status"] == "ok"
            redis.add("visits", rows)
        wait_for(lambda: releases(known) == 9)
        redis.add("visits", MORE[:50])
        wait_for(lambda: state_of(known) == "ended")
        assert ended(known, signal.SIGTERM) == OK
    assert text_of(known).count("the source is back: learning goes on") == 2
    assert PASSWORD not in text_of(known)
    assert redis.client.xpending("visits", "model")["pending"] == 0
    assert privol_cli("run", redis.url(rows=1000), *words(), "--no-diagnostics", "--out", "WHOLE").exit_code == OK
    ours, whole = load_model("RUN"), load_model("WHOLE")
    assert np.array_equal(ours.average_coef_, whole.average_coef_)
    assert np.array_equal(ours.coef_, whole.coef_)
    spent = [[(e.rows, e.releases, e.mu_squared, e.open) for e in entries_of(run)] for run in ("RUN", "WHOLE")]
    assert spent[0] == spent[1]


def test_messages_that_come_once_are_waited_for_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("visits.toml").write_text(STATED_TOML)
    broker = Mosquitto()
    try:
        broker.subscribe("visits")
        broker.add("visits", as_json(ROWS[:450]), range(1, 451))
        with learning(broker.url("visits")) as known:
            listening(known)
            wait_for(lambda: releases(known) == 4)
            broker.save()
            broker.kill()
            wait_for(lambda: attempts(known) > 1)
            broker.start()
            wait_for(lambda: state_of(known) == "running")
            broker.add("visits", as_json(MORE), range(451, 951))
            wait_for(lambda: releases(known) == 9)
            assert ended(known, signal.SIGTERM) == OK
        assert 901 <= State("RUN").next_row() <= 951  # behind the ninth release messages may be under way still
        assert PASSWORD not in text_of(known)
    finally:
        broker.close()


def test_a_signal_while_the_source_is_away_stops_at_once(redis):
    """As while rows come: the run is kept, the exit code is that of a stop, and the next call waits again."""
    with learning(redis.url(group="model"), pause=1e6) as known:
        listening(known)
        wait_for(lambda: releases(known) == 4)
        redis.kill()
        wait_for(lambda: attempts(known))
        assert ended(known, signal.SIGTERM) == OK
    assert "the run is kept in RUN: the same command, or privol resume RUN, goes on with it" in text_of(known)
    assert State("RUN").next_row() == 451
    with learning(redis.url(group="model")) as known:
        listening(known)
        wait_for(lambda: state_of(known) == "waiting")
        assert releases(known) == 4
        redis.start()
        redis.add("visits", MORE)
        wait_for(lambda: releases(known) == 9)
        assert ended(known, signal.SIGTERM) == OK


def test_health_knows_before_the_reader_loses_patience(redis):
    with served("RUN", "--source", redis.url(group="model"), "--", *words()) as known:
        listening(known)
        wait_for(lambda: releases(known) == 4)
        redis.kill()
        wait_for(lambda: state_of(known) == "waiting")
        redis.start()
        wait_for(lambda: state_of(known) == "running")
        assert attempts(known) == 0
        assert ended(known, signal.SIGTERM) == OK


def test_a_broker_that_comes_back_without_its_messages_ends_the_learning(redis):
    with learning(redis.url(group="model")) as known:
        listening(known)
        wait_for(lambda: releases(known) == 4)
        redis.kill()
        wait_for(lambda: attempts(known))
        for path in redis.folder.glob("appendonlydir/*"):
            path.unlink()
        redis.start()
        wait_for(lambda: state_of(known) == "failed")
        assert releases(known) == 4
        assert ended(known, signal.SIGTERM) == DATA
    assert "learning has ended: visits (Redis): cannot be read: there is no such stream" in text_of(known)


def test_a_broker_that_is_not_there_where_nothing_is_kept_ends_the_command(redis):
    redis.kill()
    with learning(redis.url(group="model")) as known:
        assert known.process.wait(WAIT) == DATA
    assert not Path("RUN").exists()
    assert PASSWORD not in text_of(known)


def test_the_pauses_between_attempts_grow_up_to_a_minute_and_begin_anew(monkeypatch):
    service = SimpleNamespace(learning=Learning(), running=True)
    came, slept = iter([True, *[False] * 8, True, False, None]), []

    def learn_rows(*given):
        there = next(came)
        if there is None:
            return
        if there:
            service.learning.follow(SimpleNamespace(away=False, lag=None))
        raise SourceAway("visits (Redis): it is away")

    monkeypatch.setattr(serve_command, "_learn_rows", learn_rows)
    monkeypatch.setattr(serve_command, "_is_kept", lambda path: True)
    monkeypatch.setattr(serve_command.time, "sleep", slept.append)
    context = click.Context(serve_command.serve)
    serve_command._learn_through_outages(context, service, "RUN", "redis://h/0?stream=visits", context, False)
    assert slept == [1, 2, 4, 8, 16, 32, 60, 60, 60, 1, 2]
    service.running = False
    with pytest.raises(OSError, match="the server has ended"):
        serve_command._learn_through_outages(context, service, "RUN", "redis://h/0?stream=visits", context, False)


def test_what_waits_at_the_broker(redis, tmp_path):
    """Kafka is a source like Redis."""
    kafka = Kafka()
    kafka.add("visits", as_json(ROWS[:450]))
    for url in (redis.url(), kafka.url("visits")):
        with served(tmp_path / url[:5], "--show-lag", "--source", url, "--", *words()) as known:
            listening(known)
            wait_for(lambda known=known: releases(known) == 4)
            wait_for(lambda known=known: metric(known, "privol_source_lag_messages") == 0.0)
            assert ended(known, signal.SIGTERM) == OK
