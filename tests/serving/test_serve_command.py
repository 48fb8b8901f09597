"""``privol serve`` as its users start it: rows come through a pipe, signals stop it, and what was learnt is kept."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import auto_tools
import numpy as np
import pytest
from cli_tools import privol_cli
from patience import WAIT
from serving_tools import X, ask, ended, listening, rows_of, saved, send, served, text_of, told, wait_for

import privol.cli.serve
from privol.cli import main
from privol.cli.app import BUDGET, DATA, IO, OK, USAGE
from privol.ledger import Ledger
from privol.state import State, load_learner, read_record

pytestmark = pytest.mark.process

HEAD = "a,b,c,y\n"
LINES = [f"{a!r},{b!r},{c!r},{'yes' if a > b else 'no'}\n" for a, b, c in X.tolist()]
RUN = ("--classes", "no,yes", "--x-bound", "2", "--learner", "dpftrl", "--horizon", "300", "--target", "y")
ASKED = rows_of(*[dict(zip("abc", row, strict=True)) for row in X[:3].tolist()])


def rows_served(known):
    status, _, body = ask(known, "/v1/predict", ASKED)
    return json.loads(body)["model"]["rows"] if status == 200 else 0


def kept_rows(run):
    """Rows that the journal knows of."""
    journal = run / "ledger.jsonl"
    entries = Ledger.read(journal).entries() if journal.exists() and journal.stat().st_size else []
    return entries[0].rows if entries else 0


def test_rows_of_a_pipe_are_learnt_while_they_are_served(tmp_path):
    """SIGTERM keeps the run, the same command goes on with it, a kill loses nothing, and it ends as any run."""
    run = tmp_path / "RUN"
    words = (run, "--source", "-", "--", *RUN)
    with served(*words) as known:
        listening(known)
        assert ask(known, "/readyz")[0] == 503
        assert ask(known, "/v1/predict", ASKED)[0] == 503
        assert told(known, "/healthz")["learning"] == "running"
        send(known, [HEAD, *LINES[:100]])
        wait_for(lambda: rows_served(known) == 100)  # as soon as they are there, though none follow
        assert ask(known, "/readyz")[0] == 200
        # what is served is on the disk, and the ledger has it
        assert read_record(run / "released")["n_rows"] == 100
        answer = told(known, "/v1/predict", ASKED)
        learner = load_learner(run / "released")
        assert np.array_equal(answer["probabilities"], learner.predict_proba(X[:3]))
        assert Ledger.read(run / "ledger.jsonl").entries()[0].releases == 100
        send(known, LINES[100:150])
        wait_for(lambda: rows_served(known) == 150)
        assert ended(known, signal.SIGTERM) == OK
    assert f"privol resume {run}, goes on with it" in text_of(known)
    assert "error" not in text_of(known)
    assert State(run).read()["horizon"] == 300
    with served(*words) as known:
        listening(known)
        assert rows_served(known) == 150  # before a row has come
        send(known, [HEAD, *LINES[:200]])
        wait_for(lambda: rows_served(known) == 200)
        known.process.kill()
    with served(*words) as known:
        listening(known)
        assert rows_served(known) == 200
        send(known, [HEAD, *LINES])
        known.process.stdin.close()
        wait_for(lambda: told(known, "/healthz")["learning"] == "ended")
        wait_for(lambda: rows_served(known) == 300)
        assert ended(known, signal.SIGINT) == OK
    assert sorted(path.name for path in run.iterdir()) == [
        ".ledger.jsonl.lock", "ledger.jsonl", "model.json", "model.npz", "run.json",
    ]  # fmt: skip
    (entry,) = Ledger.read(run / "ledger.jsonl").entries()
    assert (entry.rows, entry.releases, entry.open) == (300, 300, False)
    assert json.loads((run / "run.json").read_text())["diagnostics"] is None
    verified = privol_cli("verify", run)
    assert verified.exit_code == OK, verified.output
    with served(*words) as known:  # a container that is started again
        listening(known)
        wait_for(lambda: rows_served(known) == 300)
        assert f"the run in {run} is finished: nothing is learnt" in text_of(known)
        assert ended(known, signal.SIGTERM) == OK


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_ends_while_its_columns_are_learnt_does_not_go_on(tmp_path, number):
    """What it spent stays: the same command says so, and does not begin another run in its place."""
    run = tmp_path / "RUN"
    words = (run, "--source", "-", "--", "--target", "y", "--horizon", "20000", "--release", "1000", "--learn-schema")
    journal = run / "ledger.jsonl"
    for seconds in (1.0, 5.0, 25.0):  # nobody is told when a row has taught something: before, nothing is left of a run
        with served(*words) as known:
            listening(known)
            send(known, [HEAD, *LINES * 8])
            wait_for(lambda: journal.exists() and journal.stat().st_size > 0)
            time.sleep(seconds)
            code = ended(known, number)
        if run.exists():
            break
    before = journal.read_bytes()
    assert code == (IO if number == signal.SIGTERM else -signal.SIGKILL)
    if number == signal.SIGTERM:
        assert "this run ended before its first checkpoint" in " ".join(text_of(known).split())
    with served(*words) as known:
        assert known.process.wait(WAIT) == IO
    said = " ".join(text_of(known).split())
    assert "there is no model, and nothing to go on with. What it spent is in" in said
    assert "learn into another RUN" in said
    assert journal.read_bytes() == before


def test_nothing_unreleased_is_served(tmp_path):
    """With one release, at the end, there is no model before it, whatever has been learnt and kept."""
    run = tmp_path / "RUN"
    words = ("--classes", "no,yes", "--x-bound", "2", "--learner", "pigd", "--horizon", "300", "--target", "y",
             "--checkpoint", "50")  # fmt: skip
    with served(run, "--source", "-", "--", *words) as known:
        listening(known)
        send(known, [HEAD, *LINES[:200]])
        wait_for(lambda: kept_rows(run) >= 150)
        assert ask(known, "/v1/predict", ASKED)[0] == ask(known, "/readyz")[0] == 503
        assert not (run / "released").exists()
        send(known, LINES[200:])
        known.process.stdin.close()
        wait_for(lambda: rows_served(known) == 300)
        assert told(known, "/v1/models/model")["releases"] == 1
        assert ended(known, signal.SIGTERM) == OK


def test_an_error_in_the_rows_leaves_the_last_model(tmp_path):
    """Its words are for the operator's log; health says only that learning has failed."""
    run = tmp_path / "RUN"
    with served(run, "--source", "-", "--", *RUN) as known:
        listening(known)
        send(known, [HEAD, *LINES[:100]])
        wait_for(lambda: rows_served(known) == 100)
        send(known, ["0.1,Hildegard,0.1,yes\n", *LINES[100:110]])
        wait_for(lambda: told(known, "/healthz")["learning"] == "failed")
        assert rows_served(known) == 100
        health = ask(known, "/healthz")[2].decode() + ask(known, "/metrics")[2].decode()
        assert "Hildegard" not in health
        assert told(known, "/healthz")["status"] == "degraded"
        assert ended(known, signal.SIGTERM) == DATA
    assert "learning has ended" in text_of(known)
    assert "privol resume" in text_of(known)
    assert State(run).read() is not None


def test_an_error_before_there_is_a_model_ends_the_command(tmp_path):
    for source, words, code in (
        (tmp_path / "none.csv", RUN, DATA),
        ("-", ("--classes", "no,yes", "--epsilon", "-1", "--horizon", "3"), USAGE),
    ):
        with served(tmp_path / "RUN", "--source", source, "--", *words) as known:
            if source == "-":
                send(known, [HEAD, *LINES])
            known.process.stdin.close()
            assert known.process.wait(WAIT) == code
        assert not (tmp_path / "RUN").exists()
        assert "privol: error:" in text_of(known)


def test_a_second_signal_ends_at_once(tmp_path):
    with served(saved(tmp_path / "run"), "--stop-timeout", "1000") as known:
        listening(known)
        import socket

        with contextlib.closing(socket.create_connection((known.host, known.port), WAIT)) as open_request:
            head = "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            open_request.sendall(f"{head}Content-Length: 10\r\n\r\n".encode())
            wait_for(lambda: ask(known, "/healthz")[0] == 200)  # the request before has been taken
            known.process.send_signal(signal.SIGTERM)

            def gone():
                known.process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    known.process.wait(0.2)
                return known.process.poll() is not None

            wait_for(gone)


def test_the_token_of_the_environment(tmp_path):
    run = saved(tmp_path / "run")
    token = "0123456789abcdef0123456789abcdef"
    (tmp_path / "token").write_text(token + "\n")
    with served(run, "--token-file", tmp_path / "token", "--host", "0.0.0.0") as known:
        listening(known)
        assert ask(known, "/v1/models")[0] == 401
        assert told(known, "/v1/models", Authorization=f"Bearer {token}")["models"]["model"]["rows"] == 300
        with open(f"/proc/{known.process.pid}/cmdline", "rb") as words:
            assert token.encode() not in words.read()
        assert ended(known, signal.SIGTERM) == OK
    assert token not in text_of(known)


def test_a_file_whose_columns_are_learnt(tmp_path):
    """The encoding that the first rows teach is that of the requests, before the run has ended and after."""
    table = auto_tools.table(2000)
    table.assign(y=auto_tools.labels_of(table)).to_csv(tmp_path / "rows.csv", index=False)
    asked = rows_of(*table[:9].replace({np.nan: None}).to_dict("records"))
    words = ("--source", tmp_path / "rows.csv", "--", "--target", "y", "--epsilon", "20")
    with served(tmp_path / "RUN", *words) as known:
        listening(known)
        wait_for(lambda: told(known, "/healthz")["learning"] == "ended")
        answer = told(known, "/v1/predict", asked)
        assert told(known, "/v1/models/model")["columns"] == ["age", "town", "dose"]
        assert ended(known, signal.SIGTERM) == OK
    table[:9].to_csv(tmp_path / "new.csv", index=False)
    lines = privol_cli("predict", tmp_path / "RUN", tmp_path / "new.csv").stdout.splitlines()[1:]
    assert [line.split(",")[0] for line in lines] == answer["predictions"]
    assert [float(line.split(",")[1]) for line in lines] == [shares[1] for shares in answer["probabilities"]]
    assert len(set(answer["predictions"])) == 2


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["none"], IO, "no run and no registry here"),
        (["RUN", "--host", "0.0.0.0"], USAGE, "without a token"),
        (["RUN", "--token-file", "none"], USAGE, "the token cannot be read"),
        (["RUN", "--certificate", "c.pem"], USAGE, "certificate and key must be given together"),
        (["RUN", "--public-key", "p.pem"], USAGE, "are for a registry"),
        (["RUN", "--rest"], USAGE, "--rest is about a source to learn: give --source"),
        (["RUN", "--show-lag"], USAGE, "--show-lag is about a source to learn: give --source"),
        (["RUN", "--", "--epsilon", "1"], USAGE, "give --source"),
        (["RUN", "--max-rate", "0"], USAGE, "rate"),
        (["NEW", "--source", "rows.csv", "--", "--out", "x"], USAGE, "RUN is the directory"),
        (["NEW", "--source", "rows.csv", "--", "more.csv"], USAGE, "unexpected extra argument"),
        (["NEW", "--source", "rows.csv", "--", "--checkpoint", "0"], USAGE, "must be on the disk before"),
        (["NEW", "--source", "rows.csv", "--", "--workers", "2"], USAGE, "one process learns and serves"),
        (["NEW", "--source", "rows.csv", "--", "--diagnostics"], USAGE, "nothing that is not private"),
        (["NEW", "--source", "rows.csv", "--", "--learner", "pol"], USAGE, "releases one model"),
        (["NEW", "--source", "rows.csv", "--", "--nonsense"], USAGE, "--nonsense"),
        (["NEW", "--source", "rows.csv", "--rest", "--", *RUN], IO, "no run to go on with"),
        (["KEPT", "--source", "rows.csv", "--", *RUN, "--epsilon", "3"], IO, r"other options (--epsilon)"),
    ],
)
def test_what_is_refused(tmp_path, monkeypatch, words, code, says):
    """Before anything is learnt, spent or made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PRIVOL_TOKEN", raising=False)
    if "RUN" in words:
        saved(tmp_path / "RUN")
    with open("rows.csv", "w") as file:
        file.writelines([HEAD, *LINES])
    if "KEPT" in words:
        from cli_tools import interrupted_at

        with interrupted_at(monkeypatch, 100):
            privol_cli("run", "rows.csv", *RUN, "--out", "KEPT", "--no-diagnostics")
    before = sorted(os.listdir())
    result = privol_cli("serve", "--port", "0", *words)
    assert (result.exit_code, says in result.stderr) == (code, True), result.output
    assert sorted(os.listdir()) == before


def test_a_run_with_a_budget_that_ends(tmp_path, monkeypatch):
    """A row more than the horizon: the model of the rows before stays."""
    with served(tmp_path / "RUN", "--source", "-", "--", *RUN) as known:
        listening(known)
        send(known, [HEAD, *LINES])
        wait_for(lambda: rows_served(known) == 300)
        send(known, LINES[:1])
        wait_for(lambda: told(known, "/healthz")["learning"] == "failed")
        assert rows_served(known) == 300
        assert ended(known, signal.SIGTERM) == BUDGET


def test_without_its_extra(monkeypatch):
    """The other commands work; this one says what to install."""

    def missing(*given, **words):
        raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")

    monkeypatch.setattr(privol.cli.serve, "_service", missing)
    monkeypatch.setattr(sys, "argv", ["privol", "serve", "RUN"])
    monkeypatch.setattr(signal, "signal", lambda *given: None)  # the process of the tests keeps its handlers
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    with pytest.raises(SystemExit, match=r"privol serve needs uvicorn: pip install 'privol\[serve\]'"):
        main()
