"""Every call that parses bytes from outside has a fuzz target, or a reason why it has none."""

from __future__ import annotations

import ast

import fuzz_doors
import fuzz_kept
import fuzz_lines
import fuzz_records
import fuzz_small
import fuzz_streams
import pytest
from places import ROOT

SOURCE = ROOT / "src" / "privol"
PARSERS = {
    "json.loads", "json.load", "tomllib.loads", "tomllib.load", "orjson.loads", "ast.literal_eval", "pickle.loads",
    "pickle.load", "np.load", "np.loadtxt", "np.genfromtxt", "np.fromfile", "zipfile.ZipFile", "struct.unpack",
}  # fmt: skip
#: Of any module: pyarrow's readers and structures of bytes.
METHODS = {"open_file", "unpack", "unpack_from", "read_message", "ParquetFile", "iter_unpack"}
KINDS = {
    kind for each in (fuzz_records, fuzz_doors, fuzz_lines, fuzz_kept, fuzz_small, fuzz_streams) for kind in each.CHECKS
}
ITS_OWN = "a file of the package itself"
ROUND_TRIP = "what was dumped in the same expression"
OF_RANKS = "comes from ranks of the same run"
#: Where bytes are parsed: the kinds of fuzz targets that reach it, or why there is none.
REACHED = {
    "arena/diffprivlib_worker.py": "written by the process that starts it",
    "arena/results.py": {"arena"},
    "arena/rivals.py": "written by the process that it started",
    "arena/specs.py": {"specs"},
    "audit/_programs.py": {"audit"},
    "auto/kept.py": {"estimator"},
    "cli/audited_programs.py": "NumPy's text reader, whose errors are named; tests/cli/test_cli_audited_programs.py",
    "cli/options.py": "words of privol's own errors",
    "cli/records.py": {"card"},
    "cli/reproduce.py": {"result"},
    "cli/streams.py": "ranges that the reader of `ranges` has read already",
    "data/__init__.py": ITS_OWN,
    "distributed/_mpi_job.py": OF_RANKS,
    "distributed/_rank_crew.py": OF_RANKS,
    "encoding/ranges.py": {"ranges"},
    "encoding/schema.py": {"schema"},
    "exporting/_published.py": ITS_OWN,
    "factorizations/_choose.py": ITS_OWN,
    "flower/_kept_node.py": {"node", "reply"},
    "flower/_relay.py": {"reply"},
    "guarantees/_record.py": {"guarantee"},
    "readers/arrays.py": {"npy", "npz"},
    "readers/arrow.py": {"arrow", "parquet"},
    "readers/mqtt_topics.py": {"number"},
    "readers/parquet.py": {"arrow", "parquet"},
    "reproduce/sets.py": "its own schemas; archives are damaged in tests/core/test_damaged_files.py",
    "rounds/_device.py": {"question"},
    "rounds/_kept_device.py": {"answers"},
    "rounds/_messages.py": {"answer", "question"},
    "rounds/_terms.py": {"question"},
    "serving/_requests.py": {"request", "table-request"},
    "serving/_versions.py": {"manifest", "current"},
    "state/_checkpoints.py": {"plan", "checkpoint"},
    "state/_joined.py": {"joined"},
    "state/_kept_run.py": ROUND_TRIP,
    "state/_models.py": {"model", "arrays"},
    "state/_sealed.py": {"sealed"},
    "state/_seen_log.py": {"seen"},
    "state/_taught.py": {"taught"},
    "state/_together.py": "entries of one length, any bytes of which are numbers; the last is checked by its checksum",
    "verifying/checker.py": {"run", "run-ledger", "run-model", "run-schema"},
}  # fmt: skip


def parses(text: str) -> list[int]:
    """The lines of a module that call a parser."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    named = [(call.lineno, ast.unparse(call.func)) for call in calls]
    return [line for line, name in named if name in PARSERS or ("." in name and name.split(".")[-1] in METHODS)]


def test_all_that_parses_has_a_target_or_a_reason():
    found = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if parses(path.read_text())}
    assert found == set(REACHED)


@pytest.mark.parametrize("file", [file for file, kinds in REACHED.items() if isinstance(kinds, set)])
def test_targets_exist(file):
    assert REACHED[file]
    assert REACHED[file] <= KINDS


def test_parsers_are_seen():
    assert parses("import json\njson.loads('1')\nx = H.unpack_from(b'')\ndumps('2')\nunpack(3)") == [2, 3]
