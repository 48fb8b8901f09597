"""The service: who may ask, what is answered, what is shown, and what happens when a model changes or is damaged."""

from __future__ import annotations

import datetime
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import threading
import time
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from patience import WAIT
from prometheus_client.parser import text_string_to_metric_families
from serving_tools import ARROW, X, all_logs, ask, learnt, rows_of, saved, serving, slot_of, stream, told, wait_for

from privol import NOGD, open_stream
from privol.errors import InvalidParameter, StateError
from privol.guarantees import Guarantee
from privol.ledger import Ledger
from privol.serving import Limits, Registry, Service, Token
from privol.serving._guards import Rate
from privol.serving._live_run import Learning
from privol.serving._predictor import Predictor
from privol.serving._public_metrics import PublicMetrics
from privol.serving._shelf import InRun, Shelf, Watch
from privol.state import State

TOKEN = "a-token-of-32-letters-for-tests!"
ROWS = rows_of(*X[:5].tolist())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("run") / "run")


@pytest.fixture(scope="module")
def plain(run):
    with serving(run) as service:
        yield service


def replace_model(source, target):
    for file in ("model.npz", "model.json"):
        shutil.copy(source / file, target / f".{file}")
        os.replace(target / f".{file}", target / file)


# ---- answers -----------------------------------------------------------------------------------------------


def test_predictions_in_both_forms(plain):
    model = learnt()  # another fit, as its noise is fresh: only forms are compared
    answer = told(plain, "/v1/predict", ROWS)
    assert answer["model"] == {"name": "model", "rows": 300, "releases": 300, "private": True}
    assert answer["classes"] == model.classes_.tolist()
    assert np.allclose(np.sum(answer["probabilities"], axis=1), 1.0)
    assert told(plain, "/v1/models/model/predict", ROWS) == answer
    table = pa.table({str(j): X[:5, j] for j in range(3)})
    status, headers, body = ask(plain, body=stream(table), Content_Type=ARROW)
    assert (status, headers["content-type"]) == (200, ARROW)
    assert pa.ipc.open_stream(body).read_all()["prediction"].to_pylist() == answer["predictions"]
    status, headers, body = ask(plain, body=stream(table), Content_Type=ARROW, Accept="application/json")
    assert json.loads(body) == answer
    many = rows_of(*X.tolist() * 20)  # in a thread beside
    assert len(told(plain, "/v1/predict", many)["predictions"]) == 6000


def test_descriptions(plain, run):
    found = told(plain, "/v1/models/model")
    assert found["learner"] == "DPFTRL"
    assert (found["columns"], found["cells"], found["classes"]) == (None, 3, ["no", "yes"])
    record = json.loads((run / "model.json").read_text())
    assert found["guarantee"]["record"] == record["guarantee"]
    assert Guarantee.from_record(found["guarantee"]["record"]).sentence() == found["guarantee"]["sentence"]
    assert found["spent"] is None  # no ledger is beside it
    assert told(plain, "/v1/models") == {"models": {"model": {k: found[k] for k in ("name", "rows", "releases",
                                                                                   "private")}}}  # fmt: skip
    assert told(plain, "/healthz") == {"status": "ok", "models": {"model": "served"}, "learning": "none"}
    assert told(plain, "/readyz") == told(plain, "/healthz")


@pytest.mark.parametrize(
    ("path", "words", "status"),
    [
        ("/v1/predict", {"body": b"[", "method": "POST"}, 400),
        ("/v1/predict", {"body": rows_of([1, 2])}, 422),
        ("/v1/predict", {"body": ROWS, "Content_Type": "text/plain"}, 415),
        ("/v1/predict", {"body": ROWS, "Accept": "text/html"}, 406),
        ("/v1/predict", {}, 405),
        ("/v1/models/other/predict", {"body": ROWS}, 404),
        ("/v1/models/other", {}, 404),
        ("/v1/predict/", {"body": ROWS}, 404),
        ("/nothing", {}, 404),
        ("/v1/models/%2e%2e", {}, 404),
        ("/metrics", {"body": b"", "method": "POST"}, 405),
    ],
)
def test_other_requests(plain, path, words, status):
    assert ask(plain, path, **words)[0] == status


def test_limits(run):
    with serving(run, limits=Limits(body=2000, rows=10)) as service:
        assert ask(service, body=ROWS)[0] == 200
        status, _, body = ask(service, body=rows_of(*[[1, 2, 3]] * 11))
        assert (status, json.loads(body)["error"]) == (413, "found 11 rows, at most 10 are answered at once")
        with closing(socket.create_connection((service.host, service.port), WAIT)) as stated:  # the body never comes
            head = "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            stated.sendall(f"{head}Content-Length: 2001\r\n\r\n".encode())
            answer = stated.recv(65536)
            assert answer.startswith(b"HTTP/1.1 413")
            assert b"connection: close" in answer
        with closing(socket.create_connection((service.host, service.port), WAIT)) as chunked:
            piece = b"3e8\r\n" + b" " * 1000 + b"\r\n"
            chunked.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + 3 * piece)
            assert chunked.recv(65536).startswith(b"HTTP/1.1 413")


def test_rate(run, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("privol.serving._guards.time.monotonic", lambda: now[0])
    rate = Rate(2.0)
    assert [rate.take() for _ in range(3)] == [0.0, 0.0, 0.5]
    now[0] = 0.5
    assert [rate.take() for _ in range(2)] == [0.0, 0.5]
    now[0] = 100.0  # no more than a second's worth is saved
    assert [rate.take() for _ in range(3)] == [0.0, 0.0, 0.5]
    slow = Rate(0.5)
    assert [slow.take() for _ in range(2)] == [0.0, 2.0]
    monkeypatch.undo()
    with serving(run, limits=Limits(rate=0.01)) as service:
        assert ask(service, body=ROWS)[0] == 200
        status, headers, _ = ask(service, body=ROWS)
        assert (status, int(headers["retry-after"]) > 50) == (429, True)
        assert told(service, "/healthz")["status"] == "ok"  # whoever watches the service is not counted


# ---- who may ask -------------------------------------------------------------------------------------------


def test_tokens(run):
    with serving(run, token=TOKEN) as service:
        for path, words in (("/v1/predict", {"body": ROWS}), ("/metrics", {}), ("/v1/models", {}), ("/nothing", {})):
            for shown in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": f"Basic {TOKEN}"},
                          {"Authorization": TOKEN}, {"Authorization": "Bearer "}):  # fmt: skip
                status, headers, body = ask(service, path, **words, **shown)
                assert (status, headers["www-authenticate"]) == (401, "Bearer")
                assert TOKEN.encode() not in body
        assert told(service, "/v1/predict", ROWS, Authorization=f"Bearer {TOKEN}")["predictions"]
        assert told(service, "/v1/predict", ROWS, Authorization=f"bearer {TOKEN}", Host="models.example")
        assert told(service, "/readyz")["status"] == "ok"
    assert TOKEN not in repr(Token(TOKEN)) + repr(vars(Token(TOKEN)))


def test_where_tokens_come_from(tmp_path, monkeypatch):
    monkeypatch.delenv("PRIVOL_TOKEN", raising=False)
    assert Token.found() is None
    monkeypatch.setenv("PRIVOL_TOKEN", TOKEN)
    assert Token.found().admits(f"Bearer {TOKEN}")
    (tmp_path / "token").write_text(f"{TOKEN[::-1]}\n")
    found = Token.found(tmp_path / "token")  # before the variable
    assert found.admits(f"Bearer {TOKEN[::-1]}")
    assert not found.admits(f"Bearer {TOKEN}")
    for text in ("", "short", "with a blank in it is no token", "tokens-are-ASCII-ä-only-say-we"):
        (tmp_path / "token").write_text(text, encoding="utf-8")
        with pytest.raises(InvalidParameter, match="ASCII") as error:
            Token.found(tmp_path / "token")
        assert not text or text not in str(error.value)
    with pytest.raises(InvalidParameter, match="cannot be read"):
        Token.found(tmp_path / "none")
    monkeypatch.setenv("PRIVOL_TOKEN", "")
    with pytest.raises(InvalidParameter, match="at least 16"):
        Token.found()  # set, and empty: no service without a token by mistake


def test_addresses_of_others_need_a_token(run):
    for host in ("0.0.0.0", "::", "192.0.2.1", "models.example", ""):
        with pytest.raises(InvalidParameter, match="can be reached from other machines"):
            Service(run, host=host)
        Service(run, host=host, token=TOKEN)
    for host in ("127.0.0.1", "localhost", "::1", "127.1.2.3"):
        Service(run, host=host)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "[2001:db8::1]", ""])
def test_names_of_others_are_refused_without_a_token(plain, host):
    assert ask(plain, body=ROWS, Host=host)[0] == 421
    assert ask(plain, body=ROWS, Host="[::1]:80")[0] == ask(plain, body=ROWS, Host="localhost:80")[0] == 200


def certificate(folder):
    """A certificate for localhost, signed by itself, and its key."""
    key, name = Ed25519PrivateKey.generate(), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False).sign(key, None)
    )  # fmt: skip
    assert isinstance(made.signature_hash_algorithm, hashes.HashAlgorithm | None)
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption(), serialization.BestAvailableEncryption(b"words")
    for file, how in zip(("key.pem", "locked.pem"), plain, strict=True):
        secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
        (folder / file).write_bytes(secret)
    return folder / "cert.pem", folder / "key.pem"


def test_tls(run, tmp_path):
    cert, key = certificate(tmp_path)
    with serving(run, certificate=cert, key=key) as service:
        assert service.url.startswith("https://")
        trust = ssl.create_default_context(cafile=cert)
        with closing(http.client.HTTPSConnection("localhost", service.port, context=trust, timeout=WAIT)) as connection:
            connection.request("POST", "/v1/predict", ROWS, {"Content-Type": "application/json"})
            assert connection.getresponse().status == 200
        with pytest.raises((OSError, http.client.HTTPException)):
            ask(service, "/healthz")  # without TLS
    with pytest.raises(InvalidParameter, match="together"):
        Service(run, certificate=cert)
    for wrong in ("locked.pem", "cert.pem", "none.pem"):
        with pytest.raises(InvalidParameter, match=re.escape(wrong)):
            Service(run, port=0, certificate=cert, key=tmp_path / wrong).start()


def test_bad_parameters(run, tmp_path):
    for name in ("body", "rows", "rate", "connections", "request_seconds", "idle_seconds", "stop_seconds"):
        for value in (0, -1, float("nan"), "1"):
            with pytest.raises(InvalidParameter, match=name):
                Limits(**{name: value})
    for words in ({"port": -1}, {"port": 70000}, {"seconds": 0.0}, {"number": 1}, {"public_key": tmp_path}):
        with pytest.raises(InvalidParameter):
            Service(run, **words)
    with pytest.raises(StateError, match="no run and no registry"):
        Service(tmp_path / "none")
    with pytest.raises(StateError, match="no run has begun here"):
        Service(tmp_path)
    with serving(run) as service, pytest.raises(OSError, match=f"{service.port}"):
        Service(run, port=service.port).start()


# ---- what is shown -----------------------------------------------------------------------------------------


def test_metrics_are_these_and_no_others(tmp_path):
    """All of them are of requests, or public numbers of models: a new one must be derived in docs/serving.md first."""
    x = X[:300]
    data = open_stream((x, np.where(x[:, 0] > 0, "yes", "no")), classes=("no", "yes"))
    NOGD(epsilon=2.0, release=100).fit_stream(data, checkpoint=State(tmp_path / "run"))
    with serving(tmp_path / "run") as service:
        told(service, "/v1/predict", ROWS)
        ask(service, "/v1/predict", b"[")
        status, headers, body = ask(service, "/metrics")
    assert (status, headers["content-type"].startswith("text/plain")) == (200, True)
    found = {family.name: family.samples for family in text_string_to_metric_families(body.decode())}
    assert found.keys() == {
        "privol_model_rows", "privol_model_releases", "privol_model_loaded_timestamp_seconds", "privol_model_version",
        "privol_model_private", "privol_model_stale", "privol_guarantee_epsilon", "privol_guarantee_delta",
        "privol_budget_spent_epsilon", "privol_learning", "privol_requests", "privol_requests_created",
        "privol_predicted_rows",
        "privol_predicted_rows_created", "privol_request_seconds", "privol_request_seconds_created",
    }  # fmt: skip

    def value(name):
        (sample,) = found[name]
        return sample.value

    spent = Ledger.read(tmp_path / "run" / "ledger.jsonl").spent
    assert (value("privol_model_rows"), value("privol_model_releases")) == (300.0, 3.0)
    assert value("privol_budget_spent_epsilon") == spent.epsilon(1e-6)
    assert value("privol_guarantee_epsilon") == pytest.approx(2.0)
    assert (value("privol_model_private"), value("privol_model_stale")) == (1.0, 0.0)
    requests = {tuple(s.labels.values()): s.value for s in found["privol_requests"] if s.name.endswith("_total")}
    assert requests == {("/v1/predict", "200"): 1.0, ("/v1/predict", "400"): 1.0}
    (rows,) = (s.value for s in found["privol_predicted_rows"])
    assert rows == 5.0


def test_metrics_say_when_a_model_was_loaded(tmp_path):
    def loaded():
        (sample,) = samples(service, "privol_model_loaded_timestamp_seconds")
        return sample.value

    before = time.time()
    with serving(saved(tmp_path / "run", 200)) as service:
        first = loaded()
        assert before <= first <= time.time()
        for file in saved(tmp_path / "newer").iterdir():
            shutil.copy(file, tmp_path / "run")
        wait_for(lambda: slot_of(service).served.rows == 300)
        assert first < loaded() <= time.time()


def test_what_waits_at_the_broker_is_shown_only_where_it_may_be(run):
    source = SimpleNamespace(away=False, lag=7)
    for words, shown in (({}, []), ({"show_lag": True}, [7.0])):
        with serving(run, **words) as service:
            assert samples(service, "privol_source_lag_messages") == []  # no broker
            service.follow(source)
            assert [sample.value for sample in samples(service, "privol_source_lag_messages")] == shown
            service.learning.enter("failed")
            assert samples(service, "privol_source_lag_messages") == []  # it would be an old figure


def samples(service, name):
    families = text_string_to_metric_families(ask(service, "/metrics")[2].decode())
    return [sample for family in families if family.name == name for sample in family.samples]


def test_routes_of_metrics_are_few(plain):
    for path in ("/a", "/b", "/v1/models/x", "/v1/models/y/predict"):
        ask(plain, path)
    routes = set(re.findall(r'route="([^"]*)"', ask(plain, "/metrics")[2].decode()))
    assert routes <= {"other", "/metrics", "/v1/predict", "/v1/models", "/v1/models/NAME", "/v1/models/NAME/predict",
                      "/healthz", "/readyz"}  # fmt: skip


def test_no_log_names_a_cell(run, caplog, capfd, monkeypatch):
    """Whatever happens to a request: of its path, its rows and its token nothing is written anywhere."""
    mark = "Hildegard"
    with all_logs(caplog), serving(run, token=TOKEN) as service:
        seen = {"Authorization": f"Bearer {TOKEN}"}
        for body in (rows_of({"0": mark}), rows_of([mark, 1, 2]), f'{{"rows": "{mark}'.encode(), rows_of([1, 2, 3])):
            ask(service, f"/v1/predict?patient={mark}", body, **seen)
        ask(service, f"/{mark}", **seen)
        ask(service, "/v1/predict", rows_of([mark]), Authorization=f"Bearer {mark}")

        def broken(self, rows):
            raise ValueError(f"could not convert {mark}")

        monkeypatch.setattr(Predictor, "of_rows", broken)
        status, _, body = ask(service, "/v1/predict", rows_of([1, 2, 3]), **seen)
        assert status == 500
        assert mark not in body.decode()
        with closing(socket.create_connection((service.host, service.port), WAIT)) as garbage:
            garbage.sendall(f"{mark} {mark}\r\n\r\n".encode())
            assert garbage.recv(100).startswith(b"HTTP/1.1 400")
        assert "ValueError at " in caplog.text
        assert mark not in ask(service, "/metrics", **seen)[2].decode()
    out, err = capfd.readouterr()
    for text in (caplog.text, out, err):
        assert mark not in text
        assert TOKEN not in text


# ---- models that change ------------------------------------------------------------------------------------


def test_a_newer_model_replaces_the_older_one(tmp_path):
    older, newer = saved(tmp_path / "run", 200), saved(tmp_path / "newer", 300)
    with serving(older) as service:
        assert told(service, "/v1/predict", ROWS)["model"]["rows"] == 200
        replace_model(newer, older)
        wait_for(lambda: told(service, "/v1/predict", ROWS)["model"]["rows"] == 300)


@pytest.mark.parametrize("damage", ["npz", "json", "gone", "empty", "fields"])
def test_a_damaged_model_leaves_the_last_good_one(tmp_path, damage, caplog):
    run = saved(tmp_path / "run", 200)
    with all_logs(caplog), serving(run) as service:
        before = told(service, "/v1/predict", ROWS)
        if damage == "gone":
            (run / "model.json").unlink()
        elif damage == "fields":  # with a checksum that is right
            record = json.loads((run / "model.json").read_text())
            del record["sha256"], record["parameters"]["loss"]
            from privol.state._models import digest_of

            (run / "model.json").write_text(json.dumps({**record, "sha256": digest_of(record)}))
        else:
            (run / f"model.{'json' if damage == 'json' else 'npz'}").write_bytes(b"" if damage == "empty" else b"{")
        stale = {"status": "degraded", "learning": "none",
                 "models": {"model": "a newer model cannot be read, the last good one is served"}}  # fmt: skip
        wait_for(lambda: told(service, "/healthz") == stale)
        assert told(service, "/readyz") == stale
        assert told(service, "/v1/predict", ROWS) == before
        assert 'privol_model_stale{model="model"} 1.0' in ask(service, "/metrics")[2].decode()
        said = [record.getMessage() for record in caplog.records if record.name == "privol.serving"]
        assert len(said) == 2  # that it serves a model and, once, what is wrong
        assert str(run) in said[1]
        (run / "model.json").unlink(missing_ok=True)
        replace_model(saved(tmp_path / "whole", 300), run)
        wait_for(lambda: told(service, "/healthz")["status"] == "ok")
        assert told(service, "/v1/predict", ROWS)["model"]["rows"] == 300


def test_no_request_sees_two_models(tmp_path):
    """While two models take turns, every answer is that of the one that it names."""
    run, models = saved(tmp_path / "run", 200), [saved(tmp_path / str(rows), rows) for rows in (200, 300)]
    replace_model(models[0], run)
    expected = {}
    for model in models:
        with serving(model) as service:
            answer = told(service, "/v1/predict", ROWS)
            expected[answer["model"]["rows"]] = answer
    seen, wrong, done = set(), [], threading.Event()

    def hammer(service):
        while not done.is_set():
            answer = told(service, "/v1/predict", ROWS)
            seen.add(answer["model"]["rows"])
            if answer != expected[answer["model"]["rows"]]:
                wrong.append(answer)

    with serving(run, seconds=0.001, limits=Limits(rate=1e9)) as service:
        threads = [threading.Thread(target=hammer, args=(service,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for k in range(12):
            replace_model(models[(k + 1) % 2], run)
            rows = (200, 300)[(k + 1) % 2]
            wait_for(lambda rows=rows: slot_of(service).served.rows == rows)
        done.set()
        for thread in threads:
            thread.join()
    assert seen == {200, 300}
    assert not wrong


def test_whatever_reading_a_model_brings_about_ends_nothing(tmp_path, monkeypatch, caplog):
    """An error that no format foresees, of a model or of a folder, is said once; a later look may succeed."""
    run, broken, looks = saved(tmp_path / "run", 200), [], []
    real_load, real_look = InRun.load, Watch.look

    def load(self):
        if broken:
            raise ZeroDivisionError("of a library")
        return real_load(self)

    def look(self):
        looks.append(1)
        if broken == ["folder"]:
            raise MemoryError
        real_look(self)

    monkeypatch.setattr(InRun, "load", load)
    monkeypatch.setattr(Watch, "look", look)
    with all_logs(caplog), serving(run) as service:
        before = told(service, "/v1/predict", ROWS)
        for trouble, words in (
            ("model", "ZeroDivisionError while the model was read"),
            ("folder", "MemoryError while looking"),
        ):
            broken[:] = [trouble]
            replace_model(saved(tmp_path / trouble, 250 if trouble == "model" else 300), run)
            wait_for(lambda words=words: any(words in record.getMessage() for record in caplog.records))
            seen = len(looks)
            wait_for(lambda seen=seen: len(looks) > seen + 3)
            assert told(service, "/v1/predict", ROWS) == before
        assert sum("ZeroDivisionError" in record.getMessage() for record in caplog.records) == 1
        broken.clear()
        wait_for(lambda: told(service, "/v1/predict", ROWS)["model"]["rows"] == 300)


def test_a_model_that_cannot_be_served_ends_no_run(tmp_path, caplog):
    """It is said once, and what the run releases later is not tried."""
    learner, shelf, learning = learnt(200), Shelf(), Learning()
    shelf.expect("model")
    foreign = {"schema": {"columns": {"other": {"range": [0, 1]}}}}
    with all_logs(caplog):
        for _ in range(2):
            learning.offer(shelf, "model", learner, foreign)
    assert [record.levelname for record in caplog.records if record.name == "privol.serving"] == ["WARNING"]
    assert shelf.slots["model"].served is None
    assert shelf.slots["model"].problem is not None
    metrics = PublicMetrics(shelf, learning).text().decode()
    assert 'privol_model_stale{model="model"} 0.0' in metrics
    assert "privol_model_rows{" not in metrics


def test_a_service_that_never_started_stops(run):
    service = Service(run, port=0)
    service.stop()
    assert not service.running
    with pytest.raises(OSError, match="does not run"):
        service.offer(learnt(), None)


def has_loopback_of_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as asking:
            asking.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_loopback_of_ipv6(), reason="this machine has no address ::1")
def test_an_address_of_ipv6(run):
    with serving(run, host="::1") as service:
        assert len(told(service, "/v1/predict", ROWS)["predictions"]) == 5


def test_registries_are_served_by_name(tmp_path, run):
    key = Ed25519PrivateKey.generate()
    registry = Registry(tmp_path / "models")
    with serving(tmp_path / "models", public_key=key.public_key()) as service:
        assert ask(service, "/readyz")[0] == 503  # nothing is there yet
        assert ask(service, body=ROWS)[0] == 404
        first = registry.publish(run, "risk", key=key)
        wait_for(lambda: ask(service, "/readyz")[0] == 200)
        answer = told(service, "/v1/predict", ROWS)  # one name needs none
        assert answer["model"] == {"name": "risk", "rows": 300, "releases": 300, "private": True, "version": 1,
                                   "manifest": first.manifest}  # fmt: skip
        assert 'privol_model_version{model="risk"} 1.0' in ask(service, "/metrics")[2].decode()
        registry.publish(saved(tmp_path / "other", 200), "risk")  # by nobody who is known
        wait_for(lambda: told(service, "/healthz")["status"] == "degraded")
        assert told(service, "/v1/models/risk/predict", ROWS) == answer
        registry.use("risk", 1)
        wait_for(lambda: told(service, "/healthz")["status"] == "ok")
        registry.publish(saved(tmp_path / "price", 200), "price", key=key)
        wait_for(lambda: len(told(service, "/v1/models")["models"]) == 2)
        wait_for(lambda: ask(service, "/readyz")[0] == 200)
        assert told(service, "/v1/models/price/predict", ROWS)["model"]["rows"] == 200
        assert ask(service, body=ROWS)[0] == 404  # which of two?
    with serving(tmp_path / "models", name="risk", number=2) as service:
        assert told(service, "/v1/predict", ROWS)["model"]["version"] == 2
        assert list(told(service, "/v1/models")["models"]) == ["risk"]
    for words, says in (({"name": "none"}, "no model 'none'"), ({"number": 1}, "give its name")):
        with pytest.raises((StateError, InvalidParameter), match=says):
            Service(tmp_path / "models", **words)


def test_what_was_verified_is_what_is_loaded(tmp_path, run, monkeypatch):
    """Somebody changes the files between the check of their signature and their use."""
    key, other, real = Ed25519PrivateKey.generate(), saved(tmp_path / "other", 200), Registry.read
    version = Registry(tmp_path / "models").publish(run, "risk", key=key)

    def read(self, name, number=None):
        found = real(self, name, number)
        replace_model(other, version.path)
        return found

    monkeypatch.setattr(Registry, "read", read)
    with serving(tmp_path / "models", public_key=key.public_key()) as service:
        assert told(service, "/v1/predict", ROWS)["model"]["rows"] == 300


def test_half_a_registry(tmp_path, run):
    """A version that is being copied is not served before it is whole."""
    whole = Registry(tmp_path / "whole")
    version = whole.publish(run, "risk")
    Registry(tmp_path / "models")
    (tmp_path / "models" / "risk" / "000001").mkdir(parents=True)
    with serving(tmp_path / "models") as service:
        assert ask(service, "/v1/models/risk/predict", ROWS)[0] == 503
        shutil.copy(whole.path / "risk" / "current.json", tmp_path / "models" / "risk")
        for file in sorted(version.path.iterdir()):
            assert ask(service, "/readyz")[0] == 503
            shutil.copy(file, tmp_path / "models" / "risk" / "000001")
        wait_for(lambda: ask(service, "/readyz")[0] == 200)
