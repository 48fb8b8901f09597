"""The registry of formats: every entry can be opened, counted and recognised, and is named where it must be."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from format_files import WRITERS, X, Y, digest
from stream_files import together

from privol.cli.run import run as run_command
from privol.errors import InvalidParameter, StreamError
from privol.readers.formats import FORMATS, PACKED, by_name, by_start
from privol.readers.open import OPENERS
from privol.streams import open_stream


def test_every_format_has_an_opener_and_test_rows():
    assert OPENERS.keys() == FORMATS.keys() == WRITERS.keys()
    assert [format.name for format in FORMATS.values()] == list(FORMATS)
    suffixes = [suffix for format in FORMATS.values() for suffix in format.suffixes]
    assert len(set(suffixes)) == len(suffixes)
    assert not set(suffixes) & PACKED.keys()


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_rows_in_every_format(tmp_path, name):
    expected = digest(open_stream((X, Y), classes=(0, 1), block_rows=2))
    separated = {".tsv": {"sep": ","}}
    for suffix in FORMATS[name].suffixes:
        path = tmp_path / f"rows{suffix}"
        WRITERS[name](path)
        assert by_name(path.name) is by_name(f"{path.name}.gz") is FORMATS[name]
        stream = open_stream(path, classes=(0, 1), block_rows=2, **separated.get(suffix, {}))
        assert digest(stream) == expected
        assert (stream.count_rows(), stream.n_features, stream.source) == (5, 3, path.name)
    nameless = tmp_path / "rows"
    WRITERS[name](nameless)
    assert digest(open_stream(nameless, classes=(0, 1), format=name, block_rows=3)) == expected
    assert digest(open_stream(nameless, classes=(0, 1), block_rows=3)) == expected  # by its first bytes or its form
    assert (by_start(nameless.read_bytes()) is FORMATS[name]) == bool(FORMATS[name].starts)
    told = "format" in "".join(open_stream(nameless, classes=(0, 1)).conditions)
    assert told == (not FORMATS[name].starts)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_reads_compressed_and_piped_input_or_says_why_not(tmp_path, name):
    path = tmp_path / "rows"
    WRITERS[name](path)
    text = path.read_bytes()
    packed = tmp_path / f"rows{FORMATS[name].suffixes[0]}.gz"
    packed.write_bytes(gzip.compress(text))
    options = {"n_features": 3} if name == "libsvm" else {}
    for what, data in (("unpack it first", packed), ("from a pipe", io.BytesIO(text))):
        if FORMATS[name].starts:
            with pytest.raises(StreamError, match=what):
                open_stream(data, classes=(0, 1))
        else:
            assert len(together(open_stream(data, classes=(0, 1), **options))[1]) == 5


@pytest.mark.parametrize("name", FORMATS)
def test_options_of_one_format_mean_nothing_for_others(tmp_path, name):
    path = tmp_path / "rows"
    WRITERS[name](path)
    values = {"header": True, "sep": ",", "encoding": "utf-8", "zero_based": False}
    for format in FORMATS.values():
        for option in format.options:
            if format.name != name:
                with pytest.raises(InvalidParameter, match=f"{option} is for {format.title} files"):
                    open_stream(path, format=name, **{option: values[option]})
    if FORMATS[name].own_target:
        with pytest.raises(InvalidParameter, match="has its own y"):
            open_stream(path, format=name, target=0)
    if not FORMATS[name].columns:
        with pytest.raises(InvalidParameter, match="inputs with columns"):
            open_stream(path, format=name, schema={"columns": {"a": {}}, "others": "drop"})


def test_every_format_is_named_where_users_look():
    for format in FORMATS.values():
        assert f'"{format.name}"' in open_stream.__doc__
        assert format.starts or all(f"``{suffix}``" in open_stream.__doc__ for suffix in format.suffixes)
        assert format.title in run_command.help
    page = (Path(__file__).parents[2] / "docs" / "schemas.md").read_text(encoding="utf-8")
    columns = ", ".join(f'`"{format.name}"`' for format in FORMATS.values() if format.columns)
    assert f"\n| `format` | {columns} |" in page
