"""docs/prefix_sums.md states what the code computes, and the measurements agree with it."""

from __future__ import annotations

import os
import re
import sys

import pytest
import warm
from patience import WAIT
from places import ROOT

from privol.factorizations import DESIGNS, factorization

pytestmark = pytest.mark.process

PAGE = ROOT / "docs" / "prefix_sums.md"


def test_the_closed_forms_are_those_of_the_code():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(ROOT / "tools" / "prefix_tables.py"), "--check", "--closed"]
    done = warm.run(command, capture_output=True, text=True, env=environment, timeout=WAIT, check=False)
    assert done.returncode == 0, done.stderr


def test_what_was_measured_agrees_with_the_closed_forms():
    """The noise is fixed, so this fails only if the page or a closed form changes. Five standard errors."""
    text = re.search("<!-- measured: .*?<!-- end of measured -->", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert text is not None
    number = r"([\d.,]+)"
    pair = rf"{number} \| {number} ± {number}"
    row = rf"^\| 2\^(\d+) \| (\w+)(?: \((\w+)\))? \| {number} \| {pair} \| {pair} \|"
    rows = re.findall(row, text[0], re.MULTILINE)
    assert {(int(power), design) for power, design, *_ in rows} == {
        (power, design)
        for power in (10, 16, 20)
        for design in DESIGNS
        if (power, design) != (20, "sqrt") and design != "banded"
    }
    for power, design, objective, *figures in rows:
        f = factorization(design, 2 ** int(power), objective=objective or "max")
        _, mean, found, error, worst, at_worst, worst_error = (float(figure.replace(",", "")) for figure in figures)
        assert (mean, worst) == (round(f.mean_error() ** 2, 2), round(f.max_error() ** 2, 2))
        assert abs(found - mean) < 5 * error < 2.5 * mean
        assert abs(at_worst - worst) < 5 * worst_error < 2.5 * worst
