"""Files behind URLs: objects of a store on loopback, read through pyarrow like files on disk."""

from __future__ import annotations

import gzip
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest
from brokers import ROWS, as_json, fit
from cli_tools import privol_cli
from databases import outcome, stops
from format_files import WRITERS, X, Y, digest
from object_store import KEY, LocalStore, MotoStore
from stream_files import fails, together

from privol.errors import StreamError
from privol.readers.formats import FORMATS
from privol.streams import draft_schema, open_stream

pytest.importorskip("pyarrow.fs")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[LocalStore, MotoStore])
def server(request):
    """A store that this process serves, and a server that others have written."""
    made = request.param()
    yield made
    made.close()


@pytest.fixture
def store(server, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    server.clear()
    return server


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_rows_as_from_disk(tmp_path, store, name):
    path = tmp_path / f"rows{FORMATS[name].suffixes[0]}"
    WRITERS[name](path)
    store.put(f"a/{path.name}", path.read_bytes())
    url = store.url(f"a/{path.name}")
    if name in ("npy", "npz"):
        fails(lambda: open_stream(url), path.name, "cannot be read from a URL")
        return
    stream = open_stream(url, classes=(0, 1), block_rows=2)
    assert (stream.source, stream.repeatable) == (path.name, True)
    assert digest(stream) == digest(stream) == digest(open_stream((X, Y), classes=(0, 1)))
    assert stream.count_rows() == 5
    assert stream.fraction_read == 1.0
    assert digest(open_stream(path.as_uri(), classes=(0, 1))) == digest(stream)  # file:// is on disk
    if not FORMATS[name].starts:
        store.put(f"a/{path.name}.gz", gzip.compress(path.read_bytes()))
        assert digest(open_stream(store.url(f"a/{path.name}.gz"), classes=(0, 1))) == digest(stream)
    if FORMATS[name].columns:
        assert draft_schema(url) == draft_schema(path)


def test_a_folder_of_objects(store):
    for name, text in (("b.csv", "a,y\n3,0\n4,1\n"), ("a.csv", "a,y\n1,0\n2,1\n"), ("_SUCCESS", ""), (".x", "1")):
        store.put(f"parts/{name}", text.encode())
    rows, y = together(open_stream(store.url("parts"), classes=(0, 1)))
    assert (rows.ravel().tolist(), y.tolist()) == ([1, 2, 3, 4], [0, 1, 0, 1])
    store.put("parts/b.csv", b"a,y\n3,0\nx,1\n")
    fails(lambda: together(open_stream(store.url("parts"))), "b.csv", "row 2 (row 4 of all)", "'x'", row=4)


def test_an_object_that_changes_is_no_longer_read(tmp_path, store):
    for name, row in (("csv", None), ("parquet", 1)):
        path = tmp_path / f"rows.{name}"
        WRITERS[name](path)
        store.put(path.name, path.read_bytes())
        stream = open_stream(store.url(path.name), classes=(0, 1))
        together(stream)
        store.put(path.name, path.read_bytes())
        fails(lambda stream=stream: together(stream), path.name, "has changed since it was opened", row=row)


def test_a_run_that_is_left_goes_on_to_the_same_bits(tmp_path, store):
    store.put("rows.jsonl", b"\n".join(as_json(ROWS)))
    url, run = store.url("rows.jsonl"), tmp_path / "RUN"
    whole = fit(url, tmp_path / "WHOLE")
    for blocks in (3, 12):
        with pytest.raises(KeyboardInterrupt):
            fit(url, run, stops(blocks))
    assert outcome(fit(url, run), run)[:4] == outcome(whole, tmp_path / "WHOLE")[:4]
    assert KEY.encode() not in b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file())


@pytest.mark.parametrize("server", [LocalStore], indirect=True)  # most of them are about servers that are not there
def test_errors_about_urls_show_no_key(store):
    store.put("empty.csv", b"")
    url = store.url("rows.csv", 9)  # nothing listens there
    unread, unknown = "cannot be read", "cannot be opened by pyarrow's file systems"
    cases = (
        (store.url("none.csv"), ("none.csv", "there is no such file")),
        (store.url("empty.csv"), ("empty.csv", "the file is empty")),
        (url, ("rows.csv", unread)),
        (
            "gs://anonymous@b/rows.csv?scheme=http&endpoint_override=127.0.0.1:9&retry_limit_seconds=1",
            ("rows.csv", unread),
        ),
        (f"abfs://c:{KEY}@127.0.0.1:9/c/rows.csv?enable_tls=false", ("rows.csv", unread)),
        (f"s3://me:{KEY}@bucket/rows.csv?nonsense=1", ("rows.csv", unknown)),
        (f"foo://me:{KEY}@there/rows.csv?x=y", ("rows.csv", unknown)),
    )

    def refused(wrong):
        with pytest.raises(StreamError) as found:
            open_stream(wrong)
        return found.value

    with ThreadPoolExecutor() as pool:  # each retries for seconds where nothing listens
        errors = list(pool.map(refused, [wrong for wrong, _ in cases]))
    for error, (_, words) in zip(errors, cases, strict=True):
        assert all(word in str(error) for word in words), str(error)
        assert KEY not in "".join(traceback.format_exception(error, limit=0))


def test_a_run_from_a_url_keeps_no_key(here, store):
    rows = "".join(f"{i % 7 / 7},{i % 2}\n" for i in range(200))
    store.put("rows.csv", ("a,y\n" + rows).encode())
    url = store.url("rows.csv")
    found = privol_cli(
        "run", url, "--classes", "0,1", "--x-bound", "1", "--epsilon", "1", "--out", "R", "--no-diagnostics"
    )
    assert found.exit_code == 0, found.output
    again = privol_cli("predict", "R", url)
    assert again.stdout.count("\n") == 201
    kept = [path.read_bytes() for path in here.rglob("*") if path.is_file()]
    assert not any(KEY.encode() in data for data in (*kept, found.output.encode(), again.output.encode()))
