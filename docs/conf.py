"""The site: `python tools/build_site.py` builds it. The pages are GitHub's Markdown; `_toc.yml` orders them."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import shutil
import sys
import types
from pathlib import Path
from typing import Any

from sphinx.pycode import ModuleAnalyzer

from privol import __version__

HERE = Path(__file__).parent

project = "privol"
author = "the privol authors"
copyright = author
release = version = __version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx_external_toc",
]
exclude_patterns = ["conf.py", "**.ipynb_checkpoints"]

# Markdown, as GitHub has it: formulas between dollars, and an anchor at every heading
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
external_toc_path = "_toc.yml"

# Notebooks are kept without their output, and run by every build
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True

# The reference: the names that `__all__` of each module lists, in the words of their docstrings
autodoc_member_order = "groupwise"
autodoc_typehints = "none"  # numpydoc says types in words, with shapes and ranges
autodoc_class_signature = "mixed"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
toc_object_entries = False

html_theme = "furo"
html_title = f"privol {release}"
html_show_sphinx = False
html_copy_source = False
templates_path: list[str] = []
html_extra_path = ["../src/privol/data/guarantee.schema.json"]  # published beside the pages
mathjax_path = "mathjax/tex-chtml.js"

#: Files beside docs/, and the pages of the site that show them.
BESIDE = {
    "CHANGELOG.md": "site/changes",
    "CONTRIBUTING.md": "site/contributing",
    "SECURITY.md": "site/security",
    "examples": "site/examples",
    "src/privol/data": "site/examples",
    "examples/devices.py": "site/examples",
}


def _show_files_beside(app: Any, docname: str, source: list[str]) -> None:
    """Fill the pages of files beside docs/, and lead links to these files, which GitHub follows, to their pages."""
    place = HERE / f"{docname}.md"
    shown = next((file for file, page in BESIDE.items() if page == docname and file.endswith(".md")), None)
    if shown is not None:
        place = HERE.parent / shown
        app.env.note_dependency(str(place))
        source[0] = place.read_text(encoding="utf-8")

    def led(link: re.Match[str]) -> str:
        if "://" in link[1]:
            return link[0]
        target = Path(os.path.normpath(place.parent / link[1])).relative_to(HERE.parent).as_posix()
        page = HERE / f"{BESIDE[target]}.md" if target in BESIDE else HERE.parent / target
        return f"]({Path(os.path.relpath(page, (HERE / docname).parent)).as_posix()}"

    source[0] = re.sub(r"\]\(([^)#\s]+)", led, source[0])


def _choose(app: Any, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn adds to every estimator (``set_score_request``), and no public name of a module."""
    of = getattr(value, "__globals__", {}).get("__name__", "")
    if of == "sklearn.utils._metadata_requests":
        return True
    return False if what == "module" and not name.startswith("_") else None


def _list_constants(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """List the constants of a module below its docstring: autodoc finds no words of what another module defines."""
    if what != "module":
        return
    words: dict[str, list[str]] = {}
    for module in [m for found, m in sorted(sys.modules.items()) if found.startswith(f"{name}.")]:
        if str(getattr(module, "__file__", "")).endswith(".py"):
            documented = ModuleAnalyzer.for_module(module.__name__).find_attr_docs()
            words |= {constant: said for (of, constant), said in documented.items() if not of}
    here = {constant for _, constant in ModuleAnalyzer.for_module(name).find_attr_docs()}
    for constant in sorted(set(value.__all__) - here):
        found = getattr(value, constant)
        if not isinstance(found, (type, types.ModuleType)) and not inspect.isroutine(found):
            shown = repr(found)
            head = [f".. py:data:: {constant}", *([f"   :value: {shown}"] if len(shown) < 90 else [])]
            lines += ["", *head, "", *(f"   {line}" for line in words.get(constant, ()))]


def _name_inherited(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Name inherited attributes without a link: they are described where they are defined."""
    own = vars(value) if isinstance(value, type) else {}

    def named(link: re.Match[str]) -> str:
        return link[0] if link[1] in own else f"``{link[1]}``"

    lines[:] = [re.sub(r":obj:`(\w+) <[\w.]+>`", named, line) for line in lines]


def _ship_mathjax(app: Any, error: Exception | None) -> None:
    """Put MathJax and its fonts beside the pages: opened without a network, they show their formulas."""
    if error is None:
        spec = importlib.util.find_spec("sphinx-mathjax-offline")
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError("sphinx-mathjax-offline is missing: pip install '.[docs]'")
        shipped, target = Path(spec.origin).parent / "static" / "mathjax", Path(app.outdir, "_static", "mathjax")
        fonts = Path("output", "chtml", "fonts", "woff-v2")
        shutil.copytree(shipped / fonts, target / fonts, dirs_exist_ok=True)
        shutil.copy(shipped / "tex-chtml.js", target)


def setup(app: Any) -> dict[str, bool]:
    # sphinx_external_toc loads it for numbers of chapters. There are none here; it only does not say that it is safe.
    app.extensions["sphinx_multitoc_numbering"].parallel_read_safe = True
    app.connect("source-read", _show_files_beside)
    app.connect("autodoc-skip-member", _choose)
    app.connect("autodoc-process-docstring", _list_constants, priority=900)
    app.connect("autodoc-process-docstring", _name_inherited, priority=900)  # after numpydoc
    app.connect("build-finished", _ship_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
