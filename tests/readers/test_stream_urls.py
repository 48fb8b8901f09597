"""Files behind URLs: an object store that this process serves, read through pyarrow like files on disk."""

from __future__ import annotations

import gzip
import threading
import traceback
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cli_tools import privol_cli
from format_files import WRITERS, X, Y, digest
from stream_files import fails, together

from privol.errors import StreamError
from privol.readers.formats import FORMATS
from privol.streams import draft_schema, open_stream

pytest.importorskip("pyarrow.fs")

pytestmark = pytest.mark.slow

KEY = "ABSOLUTELYSECRET"


class Store(BaseHTTPRequestHandler):
    """The part of S3 that reading needs: sizes, ranges of objects, and listings of a folder."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise the data after the headers wait 40 ms for the other side

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        key = urllib.parse.unquote(url.path).removeprefix("/bucket").lstrip("/")
        objects = self.server.objects
        if "list-type" in query:
            prefix = query.get("prefix", "")
            found = [name for name in objects if name.startswith(prefix)]
            listed = "".join(
                f"<Contents><Key>{name}</Key><Size>{len(objects[name][0])}</Size>"
                "<LastModified>2020-01-01T00:00:00.000Z</LastModified></Contents>"
                for name in found
            )
            body = f"<ListBucketResult><KeyCount>{len(found)}</KeyCount>{listed}</ListBucketResult>"
            self.answer(200, body.encode(), Content_Type="application/xml")
        elif not key:
            self.answer(200)
        elif key not in objects:
            self.answer(404)
        else:
            data, changed = objects[key]
            headers = {"Last_Modified": formatdate(changed, usegmt=True), "ETag": f'"{changed}"'}
            first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
            part = data[int(first) : int(last) + 1 if last else None]
            if "Range" in self.headers:
                headers["Content_Range"] = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
            self.answer(206 if "Range" in self.headers else 200, part, **headers)


@pytest.fixture
def store(monkeypatch):
    """Objects by key, each with its time, and a way to make a URL from a key."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    server.daemon_threads = True
    server.objects = {}
    server.url = lambda key: (
        f"s3://me:{KEY}@bucket/{key}?endpoint_override=127.0.0.1:{server.server_port}&scheme=http&region=us-east-1"
    )
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_rows_as_from_disk(tmp_path, store, name):
    path = tmp_path / f"rows{FORMATS[name].suffixes[0]}"
    WRITERS[name](path)
    store.objects[f"a/{path.name}"] = path.read_bytes(), 1
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
        store.objects[f"a/{path.name}.gz"] = gzip.compress(path.read_bytes()), 1
        assert digest(open_stream(store.url(f"a/{path.name}.gz"), classes=(0, 1))) == digest(stream)
    if FORMATS[name].columns:
        assert draft_schema(url) == draft_schema(path)


def test_a_folder_of_objects(store):
    for name, text in (("b.csv", "a,y\n3,0\n4,1\n"), ("a.csv", "a,y\n1,0\n2,1\n"), ("_SUCCESS", ""), (".x", "1")):
        store.objects[f"parts/{name}"] = text.encode(), 1
    rows, y = together(open_stream(store.url("parts"), classes=(0, 1)))
    assert (rows.ravel().tolist(), y.tolist()) == ([1, 2, 3, 4], [0, 1, 0, 1])
    store.objects["parts/b.csv"] = b"a,y\n3,0\nx,1\n", 1
    fails(lambda: together(open_stream(store.url("parts"))), "b.csv", "row 2 (row 4 of all)", "'x'", row=4)


def test_an_object_that_changes_is_no_longer_read(tmp_path, store):
    for name, row in (("csv", None), ("parquet", 1)):
        path = tmp_path / f"rows.{name}"
        WRITERS[name](path)
        store.objects[path.name] = path.read_bytes(), 1
        stream = open_stream(store.url(path.name), classes=(0, 1))
        together(stream)
        store.objects[path.name] = path.read_bytes(), 2
        fails(lambda stream=stream: together(stream), path.name, "has changed since it was opened", row=row)


def test_errors_about_urls_show_no_key(store):
    store.objects["empty.csv"] = b"", 1
    url = store.url("rows.csv").replace(f":{store.server_port}", ":9")  # nothing listens there
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
    store.objects["rows.csv"] = ("a,y\n" + rows).encode(), 1
    url = store.url("rows.csv")
    found = privol_cli(
        "run", url, "--classes", "0,1", "--x-bound", "1", "--epsilon", "1", "--out", "R", "--no-diagnostics"
    )
    assert found.exit_code == 0, found.output
    again = privol_cli("predict", "R", url)
    assert again.stdout.count("\n") == 201
    kept = [path.read_bytes() for path in here.rglob("*") if path.is_file()]
    assert not any(KEY.encode() in data for data in (*kept, found.output.encode(), again.output.encode()))
