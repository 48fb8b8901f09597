"""What of a URL may be secret is kept in no file and shown nowhere, whatever its scheme and wherever it stands."""

from __future__ import annotations

import io
import json
import os
import signal
import time
import traceback
from contextlib import suppress
from types import SimpleNamespace

import pytest
from cli_tools import privol_cli, start
from format_files import WRITERS
from object_store import KEY, LocalStore
from patience import WAIT

from privol.cli.app import DATA, IO, OK, USAGE
from privol.distributed import FilePart
from privol.distributed._row_parts import check_parts
from privol.errors import InvalidParameter, StreamError
from privol.readers import kafka_topics, mqtt_topics, redis_streams, sql_clients
from privol.readers.feeds import OWN
from privol.readers.source_urls import shown, to_keep
from privol.streams import open_stream

WORD = "S3cr3t-Value"
AZURE = "abfs://box@there.dfs.core.windows.net/rows.csv"


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        (f"s3://me:{WORD}@bucket/rows.csv?region=eu-1&scheme=http", "s3://bucket/rows.csv?region=eu-1&scheme=http"),
        (f"S3://me:{WORD}@bucket/a@b.csv", "S3://..."),  # it might be the end of a password
        (f"s3://me:x/{WORD}@bucket/rows.csv", "s3://..."),
        (f"s3://me:1/{WORD}@bucket/rows.csv", "s3://..."),
        (f"s3://me:1#{WORD}@bucket/rows.csv", "s3://..."),
        (f"s3://me:1?{WORD}@bucket/rows.csv", "s3://..."),
        ("s3://bucket/a@b.csv", "s3://bucket/a@b.csv"),
        (f"s3://bucket/rows.csv?access_key={WORD}&secret_key={WORD}", "s3://bucket/rows.csv"),
        (f"gs://{WORD}@bucket/rows.csv?retry_limit_seconds=3", "gs://bucket/rows.csv?retry_limit_seconds=3"),
        ("gs://anonymous@bucket/rows.csv", "gs://anonymous@bucket/rows.csv"),
        (f"abfs://box:{WORD}@there.dfs.core.windows.net/rows.csv", AZURE),
        (f"{AZURE}?account_key={WORD}&enable_tls=true", f"{AZURE}?enable_tls=true"),
        (f"{AZURE}?sv=2024&sig={WORD}", AZURE),
        (f"hdfs://ann:{WORD}@there:8020/rows.csv?user=ann", "hdfs://ann@there:8020/rows.csv?user=ann"),
        (f"ftp://ann:{WORD}@there/rows.csv", "ftp://there/rows.csv"),
        (f"https://{WORD}@there:443/rows.csv", "https://there:443/rows.csv"),
        (f"https://there/@ann/rows.csv#{WORD}", "https://there/@ann/rows.csv"),
        (f"https://there/rows.csv?part=1#{WORD}", "https://there/rows.csv"),
        (f"https://there/rows.csv#part?sig={WORD}", "https://there/rows.csv"),
        (f"https://there/rows.csv?{WORD}", "https://there/rows.csv"),
        *(
            (f"https://there/rows.csv?{name}={WORD}", "https://there/rows.csv")
            for name in ("sig", "sas", "code", "jwt", "pwd", "bearer", "session", "hmac", "%73ig", "X-Amz-Credential")
        ),
        (f"tcp://ann:{WORD}@there:8786", "tcp://there:8786"),
        (f"redis://:{WORD}@there/0?stream=a&auth={WORD}", "redis://@there/0?stream=a"),
        (f"postgresql://ann@there/db?table=a&PGPASS={WORD}&sslmode=require", "postgresql://ann@there/db?table=a&sslmode=require"),
        (f"kafka://there:1/a?sasl.username=ann&sasl.password={WORD}", "kafka://there:1/a?sasl.username=ann"),
        (f"kafka://there:1/a?ssl.key.location=k&ssl.key.pem={WORD}&key={WORD}", "kafka://there:1/a?ssl.key.location=k"),
        (f"sqlite:////a#b:c@d.db?table=a&order=b&key={WORD}", "sqlite:////a#b:c@d.db?table=a&order=b"),
        ("file:///a@b:c.csv", "file:///a@b:c.csv"),
    ],
)  # fmt: skip
def test_what_is_left_of_a_url(url, kept):
    assert to_keep(url) == kept
    assert to_keep(kept) == kept
    assert to_keep(f"--workers={url}") == f"--workers={kept}"
    for words in (("explain", url), ("run", url, url), ("run", "--epsilon", url), ("run", f"--epsilon={url}")):
        refused = privol_cli(*words, "--json")
        assert refused.exit_code in (USAGE, IO)
        assert kept in refused.stderr
        assert json.loads(refused.stdout)["error"]["message"] in refused.stderr
        assert WORD not in refused.output


def test_secrets_and_urls_that_begin_as_others_do():
    short, long = "https://there/rows.csv?sig=abc", "https://there/rows.csv?sig=abc&code=xyz"
    assert shown(f"{short} {long}", [short, long]) == "https://there/rows.csv https://there/rows.csv"
    url = f"{AZURE}?token={WORD}&secret={WORD}-more"
    assert shown(f"{WORD}-more {WORD}", [url]) == "... ..."


@pytest.mark.parametrize("path", ["rows?.csv", "C://a?b=c", "a#b.csv", "--classes=0,1"])
def test_other_words_stay_as_they_are(path):
    assert to_keep(path) == path


def test_options_that_privol_reads_are_kept():
    known = {
        "sqlite": sql_clients.OWN,
        "duckdb": sql_clients.OWN,
        "postgres": (*sql_clients.OWN, *(name for name, _ in sql_clients._PostgreSQL._DEFAULTS)),
        "rediss": (*OWN, *redis_streams._OPTIONS, *redis_streams._TLS),
        "mqtts": (*OWN, *mqtt_topics._OPTIONS, *mqtt_topics._TLS),
        "kafka": (*OWN, "group", *(name for name in kafka_topics._OURS if "." in name)),
    }
    for scheme, names in known.items():
        url = f"{scheme}://there/a?" + "&".join(f"{name}=1" for name in names)
        assert to_keep(url) == url


@pytest.mark.parametrize("url", [f"sqlite:///{{}}?table=a&order=b&key={WORD}", "file://{}?key=" + WORD])
def test_parts_that_are_refused_show_no_key(tmp_path, url):
    (tmp_path / "rows").write_text("")
    part = FilePart(url.format(tmp_path / "rows"), {})
    with pytest.raises(InvalidParameter, match="more than once") as caught:
        check_parts([part, part])
    assert WORD not in str(caught.value)


# ---- object stores --------------------------------------------------------------------------------------------------


def test_what_a_client_says_is_shown_without_the_key(monkeypatch):
    fs = pytest.importorskip("pyarrow.fs")
    from pyarrow import ArrowInvalid

    url = f"{AZURE}?sv=2024&sig={WORD}%2Fmore"
    said = f"403 for {url}, signed {WORD}/more"

    def fails(kind):
        def failing(*_):
            raise kind(*((13, said) if kind is PermissionError else (said,)))

        return failing

    found = SimpleNamespace(type=fs.FileType.File, size=9, mtime_ns=1)
    for kind in (OSError, PermissionError, ArrowInvalid):
        fine = {"type_name": "abfs", "get_file_info": lambda _: found, "open_input_file": fails(kind)}
        cases = (
            fails(kind),
            lambda _, kind=kind: (SimpleNamespace(type_name="abfs", get_file_info=fails(kind)), "box/rows.csv"),
            lambda _, fine=fine: (SimpleNamespace(**fine), "box/rows.csv"),
        )
        for made in cases:
            monkeypatch.setattr(fs, "FileSystem", SimpleNamespace(from_uri=made))
            with pytest.raises(StreamError, match=r"rows\.csv: .*403 for abfs://box@.* signed \.\.\.") as caught:
                open_stream(url)
            assert WORD not in "".join(traceback.format_exception(caught.value))


class Breaking(io.BytesIO):
    """A file whose connection breaks where a number of calls has been made, with an error that quotes the URL."""

    left = -1

    def _called(self):
        if self.left == 0:
            raise OSError(f"403 for {AZURE}?sig={WORD}")
        self.left -= 1

    def read(self, *given):
        self._called()
        return super().read(*given)

    def seek(self, *given):
        self._called()
        return super().seek(*given)


@pytest.mark.parametrize("name", ["parquet", "arrow"])
def test_a_file_that_breaks_off_shows_no_key(tmp_path, monkeypatch, name):
    pa, fs = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.fs")
    WRITERS[name](tmp_path / "rows")
    content, said = (tmp_path / "rows").read_bytes(), []

    def opened(_):
        made = Breaking(content)
        made.left = len(said)
        return pa.PythonFile(made, mode="r")

    found = SimpleNamespace(type=fs.FileType.File, size=len(content), mtime_ns=1)
    system = SimpleNamespace(type_name="abfs", get_file_info=lambda _: found, open_input_file=opened)
    monkeypatch.setattr(fs, "FileSystem", SimpleNamespace(from_uri=lambda _: (system, f"box/rows.{name}")))
    while True:
        try:
            assert sum(len(block.X) for block in open_stream(f"{AZURE}?sig={WORD}", classes=(0, 1))) == 5
            break
        except StreamError as error:
            said.append("".join(traceback.format_exception(error)))
    assert len(said) > 3
    assert all("403 for" in each and WORD not in each for each in said)


@pytest.fixture
def store(monkeypatch):
    pytest.importorskip("pyarrow.fs")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    made = LocalStore()
    yield made
    made.close()


def holding(folder, word):
    return [path for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


def killed(url, run, *words):
    """Learn until something is kept, in a process with a terminal that is killed then; return what that has shown."""
    ours, theirs = os.openpty()
    process = start("run", url, *words, "--out", run, stdout=theirs, stderr=theirs)
    os.close(theirs)
    until = time.monotonic() + WAIT
    while not (run / "secret" / "run.json").exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.002)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    printed = b""
    with suppress(OSError):  # the end of a terminal
        while part := os.read(ours, 65536):
            printed += part
    os.close(ours)
    return printed.decode()


WORDS = ("--classes", "0,1", "--x-bound", "1", "--learner", "dpftrl", "--release", "1", "--checkpoint", "1000",
         "--horizon", "400000", "--no-diagnostics")  # fmt: skip
MANY = ("a,y\n" + "".join(f"{i % 7 / 7},{i % 2}\n" for i in range(60_000))).encode()


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals")
def test_a_killed_run_keeps_no_key_and_needs_it_again(here, store, monkeypatch):
    store.put("rows.csv", MANY)
    url, run = store.url("rows.csv"), here / "RUN"
    printed = killed(url, run, *WORDS)
    assert f"Reading s3://bucket/rows.csv?endpoint_override=127.0.0.1:{store.port}" in printed
    assert KEY not in printed
    assert holding(run, f"endpoint_override=127.0.0.1:{store.port}")
    assert not holding(here, KEY)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(here / "none"))
    refused = privol_cli("resume", run)
    assert refused.exit_code == DATA
    assert f"are not kept with a run: give the URL once more, privol resume {run} URL, unless" in refused.stderr
    assert "give the URL" not in privol_cli("resume", run, store.url("none.csv")).stderr  # it was given
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    outputs = [privol_cli("resume", run, "--json"), privol_cli("card", run), privol_cli("report", run)]
    assert [each.exit_code for each in outputs] == [OK] * 3
    assert not any(KEY in each.output for each in outputs)
    assert not holding(here, KEY)
