"""The coverage tool sorts what was not reached by reason, and says what has none."""

from __future__ import annotations

import importlib.util
import sys
import tomllib

import pytest
from places import ROOT

SOURCE = """def f(x):
    if x < 0:
        words = "no"
        raise ValueError(words)
    if x > 9:
        return 9
    return x
"""


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("coverage_tool", ROOT / "tools" / "coverage_page.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["coverage_tool"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["coverage_tool"]


@pytest.fixture
def counted(tool, tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "PACKAGE", tmp_path)
    tool.lines_of.cache_clear()
    (tmp_path / "one.py").write_text(SOURCE)
    lines = tool.Lines()
    for line, times in ((1, 1), (2, 1), (3, 0), (4, 0), (5, 1), (6, 0), (7, 1)):
        lines.add(line, times, {2: [0, 1], 5: [0, 1]}.get(line, []))
    yield {"one.py": lines}
    tool.lines_of.cache_clear()


def test_places_are_sorted_by_reason(tool, counted):
    found = list(tool.places(counted))
    assert [(place.line, place.raises, place.function) for place in found] == [
        (2, True, "f"), (3, True, "f"), (4, True, "f"), (5, False, "f"), (6, False, "f"),
    ]  # fmt: skip
    words = {"id": "a", "title": "A", "why": "So.", "at": [{"file": "*.py", "raises": True}]}
    by, left, idle = tool.sort_out(found, tool.reasons({"reason": [words]}))
    assert ([place.line for place in by["a"]], [place.line for place in left], idle) == ([2, 3, 4], [5, 6], [])
    other = {**words, "id": "b", "at": [{"file": "one.py", "text": ["x > 9", "return 9"]}, {"file": "two.py"}]}
    page, wrong = tool.page(counted, [], tool.reasons({"reason": [words, other]}))
    assert wrong == ["explains nothing: b: two.py"]
    assert "`one.py` 5-6." in page
    assert "| `(top)` | 7 | 57.1 % | 4 | 50.0 % |" in page


def test_what_was_measured_of_kernels_stays(tool, counted):
    before = tool.compiled_before(tool.PAGE.read_text(encoding="utf-8"))
    assert before.tables[0].startswith("| C kernels |")
    assert before.tables[-1].endswith("are reached.")
    listed = {file for files in before.lines.values() for file in files}
    assert listed
    assert all(file.startswith("_core/c/") for file in listed)
    words = {"id": "a", "title": "Kernels for other processors", "why": "So.", "at": [{"file": "one.py"}]}
    kept = tool.Before("abc", before.tables, {words["title"]: {"_core/c/x.c": [3, 5, 6]}, "Gone": {"_core/c/y.c": [1]}})
    page, wrong = tool.page(counted, [], tool.reasons({"reason": [words]}), kept)
    assert "(8 lines). So.\n\n`_core/c/x.c` 3, 5-6; `one.py` 2-6." in page
    assert before.tables[-1] in page
    assert wrong == ["explains nothing: Gone: a reason of C on the page alone"]
    assert tool.numbers("3, 5-6") == [3, 5, 6]


def test_copies_of_a_line_are_added_up(tool):
    lines = tool.Lines()
    lines.add(3, 0, [0, 0])
    assert lines.open() == [3]
    lines.add(3, 5, [5, 0, 1])
    assert lines.counts() == [1, 1, 3, 2]
    assert lines.open() == [3]
    lines.add(3, 1, [0, 1])
    assert lines.open() == []


def test_the_list_names_files_that_exist(tool):
    words = tomllib.loads(tool.LIST.read_text(encoding="utf-8"))
    for reason in tool.reasons(words):
        assert f"**{reason.title}**" in tool.PAGE.read_text(encoding="utf-8")
        for entry in reason.entries:
            assert entry.file == "*" or list(tool.PACKAGE.glob(entry.file)), entry
    for step in words["run"]:
        assert step.get("drivers") or all(tool.jobs_of(step)), step["name"]
