"""The site: the findings of its check; where one is built (``PRIVOL_SITE``), a browser shows it without a network."""

from __future__ import annotations

import importlib
import json
import os
import re
import types
import zlib
from pathlib import Path

import pytest
from browser import page_after_its_scripts
from places import ROOT

import privol
from privol.exporting import guarantee_schema

DOCS = ROOT / "docs"
#: Rooms of the reference that are not among the names of privol itself.
BEYOND = ("auto", "encoding", "explaining", "exporting", "learners", "planning")


@pytest.fixture(scope="module")
def tool():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        yield importlib.import_module("build_site")


@pytest.fixture(scope="module")
def site():
    folder = os.environ.get("PRIVOL_SITE")
    if folder is None:
        pytest.skip("no site is built: python tools/build_site.py, then PRIVOL_SITE=build/site")
    return Path(folder)


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ('<link rel="stylesheet" href="https://cdn.example/a.css">', "fetches https://cdn.example/a.css"),
        ('<script src="//cdn.example/a.js"></script>', "fetches //cdn.example/a.js"),
        ('<img src="HTTP://example.com/a.png">', "fetches HTTP://example.com/a.png"),
        ("<style>@import 'https://cdn.example/f.css';</style>", "fetches https://cdn.example/f.css"),
        ('<p style="background: url(https://example.com/a.png)">', "fetches https://example.com/a.png"),
        ('<a href="nowhere.html">', "leads to nowhere.html, which is not there"),
        ('<img src="gone.png">', "leads to gone.png, which is not there"),
        ('<a href="other.html#gone">', "leads to other.html#gone, which has no such anchor"),
        ('<a href="#gone">', "leads to #gone, which has no such anchor"),
    ],
)
def test_the_site_check_refuses_broken_pages(tool, tmp_path, page, wrong):
    (tmp_path / "other.html").write_text('<h1 id="there">')
    (tmp_path / "index.html").write_text(f'<a href="other.html#there"><a href="https://example.com">{page}')
    assert tool.faults(tmp_path) == [f"index.html {wrong}"]


def test_resources_in_style_sheets_are_found(tool, tmp_path):
    (tmp_path / "a.css").write_text("@font-face { src: url('https://fonts.example/f.woff') }")
    assert tool.faults(tmp_path) == ["a.css fetches https://fonts.example/f.woff"]


def test_notebooks_are_kept_without_output():
    notebooks = sorted(DOCS.rglob("*.ipynb"))
    assert len(notebooks) >= 2
    for path in notebooks:
        cells = json.loads(path.read_text("utf-8"))["cells"]
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells), path


def test_the_reference_has_all_public_names(site):
    body = (site / "objects.inv").read_bytes().split(b"using zlib.\n", 1)[1]
    known = {line.split(" ")[0] for line in zlib.decompress(body).decode().splitlines()}
    rooms = [name for name in privol.__all__ if isinstance(getattr(privol, name), types.ModuleType)]
    for room in {*rooms, *BEYOND}:
        module = importlib.import_module(f"privol.{room}")
        missing = [name for name in module.__all__ if f"privol.{room}.{name}" not in known]
        assert not missing, (room, missing)
    assert "privol.show_config" in known


def test_the_schema_of_guarantees_is_published(site):
    assert json.loads((site / "guarantee.schema.json").read_text("utf-8")) == guarantee_schema()


@pytest.mark.process
def test_search_needs_no_network(site, tmp_path):
    shown = page_after_its_scripts(site / "search.html", tmp_path, query="?q=adjacency", wait=10_000)
    assert re.search(r'class="search".*guarantee\.html', shown, re.DOTALL)
    assert re.search(r"found \d+ pages", shown)


@pytest.mark.process
def test_formulas_are_drawn_without_a_network(site, tmp_path):
    page = site / "proofs" / "iterates.html"
    formulas = len(re.findall(r'class="math notranslate', page.read_text("utf-8")))
    shown = page_after_its_scripts(page, tmp_path, wait=10_000)
    assert shown.count("<mjx-container") == formulas > 0
    assert "data-mjx-error" not in shown


@pytest.mark.process
def test_notebooks_have_run(site, tmp_path):
    shown = page_after_its_scripts(site / "notebooks" / "first_model.html", tmp_path, wait=5000)
    assert "for one row (0.2368-GDP)" in shown
    assert float(re.findall(r"accuracy +([\d.]+)", shown)[0]) > 0.7
    assert "Traceback" not in shown
