"""The lists of cases that stay in the default run, and of long files: what they name is there."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest
from longest import LONGEST
from places import ROOT
from thorough import CASES, KEPT


def test_every_test_of_the_list_is_there():
    for path, tests in KEPT.items():
        text = (ROOT / "tests" / path).read_text("utf-8")
        for test in tests:
            assert re.search(rf"^ *def {test}\(", text, re.M), f"{path}: {test}"


def test_every_long_file_is_there():
    assert [path for path in LONGEST if not (ROOT / "tests" / path).exists()] == []


def test_every_pattern_fits_a_case(request):
    """Of the files that this session collects: all of them in a run of all tests."""
    if any("::" in each for each in request.config.args) or request.config.getoption("lf", False):
        pytest.skip("this session collects parts of files")
    cases = request.config.stash[CASES]
    collected = {path for path, _ in cases}
    idle = [
        (path, test, pattern)
        for path, tests in KEPT.items()
        if path in collected  # otherwise another file was asked for, or a package that it needs is missing
        for test, patterns in tests.items()
        for pattern in patterns
        if not any(fnmatchcase(case, pattern) for case in cases.get((path, test), ()))
    ]
    assert idle == [], idle
