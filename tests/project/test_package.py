"""The installed package: names, version, types, the cost of imports, the instructions of compiled modules."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import pytest
from patience import WAIT
from places import ROOT

import privol

pytestmark = pytest.mark.process

INSTALLED = Path(privol.__file__).parent
SOURCES = ROOT / "src" / "privol"
COMPILED = sorted(path.stem for path in SOURCES.joinpath("_core").glob("*.pyx"))
PUBLIC = {"PIGD", "PGIGA", "default_learner", "open_stream", "plan", "show_config", "guarantees", "ledger", "losses"}


def in_a_fresh_interpreter(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", privol.__all__)
def test_public_names_resolve(name: str) -> None:
    value = getattr(privol, name)
    if isinstance(value, types.ModuleType):
        assert value.__name__ == f"privol.{name}"
        for inner in getattr(value, "__all__", ()):
            assert hasattr(value, inner), f"privol.{name}.__all__ lists {inner}, which is not there"


def test_public_names_are_complete() -> None:
    assert set(privol.__all__) >= PUBLIC
    assert privol.__all__ == sorted(set(privol.__all__))
    assert dir(privol) == privol.__all__
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        privol.nonsense  # noqa: B018


def test_type_checkers_see_every_public_name() -> None:
    """The lazy names and the imports under TYPE_CHECKING are two lists: they must stay equal."""

    def seen(*path: str) -> set[str]:
        tree = ast.parse(SOURCES.joinpath(*path, "__init__.py").read_text(encoding="utf-8"))
        guarded = next(node for node in tree.body if isinstance(node, ast.If))
        aliases = [alias for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names]
        return {alias.asname or alias.name for alias in aliases}

    learners = seen("learners")
    assert learners == set(privol.learners.__all__) - {"ALL_LEARNERS", "LEARNERS", "OFFLINE_LEARNERS"}
    names = set(privol.__all__) - {"__version__"}
    assert seen() == names - learners | {"*"}


def test_the_installed_version() -> None:
    try:
        installed = importlib.metadata.version("privol")
    except importlib.metadata.PackageNotFoundError:
        if os.environ.get("CI") == "true":
            pytest.fail("privol is not installed; with CI=true this test may not be skipped")
        pytest.skip("privol runs from the source tree, it is not installed")
    assert installed == privol.__version__


def test_one_version() -> None:
    assert privol.show_config()["privol"] == privol.__version__
    pyproject = SOURCES.parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in pyproject
    assert not re.search(r"^version\s*=\s*\"", pyproject, re.MULTILINE)
    changelog = SOURCES.parents[1].joinpath("CHANGELOG.md").read_text(encoding="utf-8")
    first = re.search(r"^## (.+)$", changelog, re.MULTILINE)
    assert first, "the changelog has no entry"
    assert privol.__version__ in first[1], "the changelog's first entry is not of this version"


def test_import_is_cheap() -> None:
    loaded = json.loads(in_a_fresh_interpreter("import json, sys, privol; print(json.dumps(sorted(sys.modules)))"))
    heavy = {"numpy", "scipy", "sklearn", "matplotlib", "click", "rich", "pyarrow", "mpmath", "cryptography"}
    assert "privol" in loaded
    assert not heavy & set(loaded)
    assert [name for name in loaded if name.startswith("privol.")] == ["privol.learners"]  # the table of learners


def test_help_is_cheap() -> None:
    """Help needs click and text alone: it loads nothing that learns or reads."""
    code = """
    import json, sys
    from privol.cli import main
    sys.argv = ["privol", "run", "--help"]
    sys.stdout, out = sys.stderr, sys.stdout
    try:
        main()
    except SystemExit:
        print(json.dumps(sorted(sys.modules)), file=out)
    """
    loaded = set(json.loads(in_a_fresh_interpreter(textwrap.dedent(code))))
    assert "click" in loaded
    assert not {"scipy", "sklearn", "pandas", "matplotlib", "pyarrow", "mpmath", "cryptography"} & loaded


def test_a_run_is_cheap(tmp_path: Path) -> None:
    """The libraries that a run loads; none of those that take long is loaded without need."""
    rows = "".join(f"{i % 7},{i % 11},{'no' if i % 7 < 4 else 'yes'}\n" for i in range(600))
    tmp_path.joinpath("rows.csv").write_text("a,b,label\n" + rows)
    code = f"""
    import json, os, sys
    from privol.cli import main
    os.chdir({str(tmp_path)!r})
    sys.argv = "privol run rows.csv --epsilon 1000 --no-diagnostics --out run".split()
    sys.stdout, out = sys.stderr, sys.stdout
    try:
        main()
    except SystemExit as stop:
        assert stop.code == 0
    loaded = sorted(name for name, module in sys.modules.items() if type(module).__name__ != "_Later")
    import pandas, scipy.stats, sklearn.base, privol
    from scipy.spatial.distance import cdist
    assert scipy.stats.norm.cdf(0.0) == 0.5 and cdist([[0.0]], [[2.0]]) == 2.0 and pandas.Series([1]).size == 1
    assert isinstance(sklearn.base.clone(privol.NOGD()), sklearn.base.BaseEstimator)
    print(json.dumps(loaded), file=out)
    """
    loaded = set(json.loads(in_a_fresh_interpreter(textwrap.dedent(code))))
    assert not {"dp_accounting", "jinja2", "matplotlib", "mpi4py", "networkx", "pandas", "polars"} & loaded
    parts = {"scipy": "fft linalg optimize sparse special version", "sklearn": "base exceptions externals utils"}
    for whole, allowed in parts.items():
        names = {name.split(".")[1] for name in loaded if name.startswith(f"{whole}.")}
        assert {name for name in names if not name.startswith("_")} <= set(allowed.split())
    rooms = {name.split(".")[1] for name in loaded if name.startswith("privol.")}
    assert not {"arena", "audit", "evaluate", "plots", "reproduce", "tuning"} & rooms


def test_guarantees_are_cheap() -> None:
    code = "import json, sys, privol.guarantees; print(json.dumps(sorted(sys.modules)))"
    loaded = set(json.loads(in_a_fresh_interpreter(code)))
    assert "scipy.special" in loaded
    assert not {"scipy.stats", "sklearn", "pandas"} & loaded


def test_optional_libraries_are_not_loaded_by_learning() -> None:
    """The base installation has none of them, so a learner must not need them."""
    code = """
    import sys, numpy, privol
    blocked = {"matplotlib", "click", "rich", "pyarrow", "dp_accounting", "networkx", "mpi4py"}
    class Refuse:
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in blocked:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    sys.meta_path.insert(0, Refuse())
    x = numpy.random.default_rng(0).normal(size=(50, 3))
    learner = privol.PIGD(epsilon=1.0, delta=1e-6, x_bound=2.0).fit(x, (x[:, 0] > 0).astype(int))
    print(learner.guarantee_.sentence())
    print(learner.predict(x[:2]).shape)
    """
    output = in_a_fresh_interpreter("\n".join(line[4:] for line in code.splitlines()))
    assert output.splitlines()[-1] == "(2,)"


def test_show_config() -> None:
    config = privol.show_config()
    assert {"privol", "python", "machine", "system", "instruction_set", "cipher", "dependencies"} <= config.keys()
    assert {"numpy", "scipy", "scikit-learn", "cryptography", "mpmath"} <= config["dependencies"].keys()
    assert all(config["dependencies"][name] for name in ("numpy", "scipy", "scikit-learn", "cryptography", "mpmath"))
    assert "OpenSSL" in config["cipher"] or "LibreSSL" in config["cipher"]
    json.dumps(config)


def test_types_are_installed() -> None:
    assert INSTALLED.joinpath("py.typed").is_file()
    assert COMPILED, "no compiled modules found in the sources"
    for module in COMPILED:
        assert INSTALLED.joinpath("_core", f"{module}.pyi").is_file(), f"_core/{module} has no stub"
        assert list(INSTALLED.joinpath("_core").glob(f"{module}.*.so")) or os.name == "nt", f"_core/{module} is missing"
    assert {path.stem for path in INSTALLED.joinpath("_core").glob("*.pyi")} == set(COMPILED)


def cython_constructors(module: str) -> dict[str, list[str]]:
    """Keyword names of each class's ``__init__`` in a .pyx, C types dropped."""
    text = SOURCES.joinpath("_core", f"{module}.pyx").read_text(encoding="utf-8")
    found = {}
    for match in re.finditer(r"^cdef class (\w+)(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL):
        constructor = re.search(r"^    def __init__\(self,\s*(.*?)\):$", match[2], re.MULTILINE | re.DOTALL)
        if constructor:
            parameters = [part.split("=")[0].strip() for part in constructor[1].split(",")]
            named = [part.removesuffix("not None") for part in parameters if part != "*"]
            found[match[1]] = [re.findall(r"\w+", part)[-1] for part in named]
    return found


@pytest.mark.parametrize("module", COMPILED)
def test_stubs_list_the_constructors_parameters(module: str) -> None:
    """Cython gives constructors of its classes no signature that a stub checker could read: compare the sources."""
    tree = ast.parse(SOURCES.joinpath("_core", f"{module}.pyi").read_text(encoding="utf-8"))
    stubs = {}
    for node in tree.body:
        for inner in node.body if isinstance(node, ast.ClassDef) else []:
            if isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
                stubs[node.name] = [a.arg for a in [*inner.args.args[1:], *inner.args.kwonlyargs]]
    assert stubs == cython_constructors(module)


def test_the_comparison_of_constructors_sees_some() -> None:
    assert cython_constructors("_noise")["Source"] == ["key", "private", "description"]
    assert "refresh" in cython_constructors("_iterate")["IterateRun"]


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="only x86-64 has these levels")
def test_compiled_modules_run_on_every_x86_64() -> None:
    """No instruction above the baseline: a wheel must import on the oldest processor that its tag allows."""
    objdump = shutil.which("objdump")
    if objdump is None:
        if os.environ.get("CI") == "true":
            pytest.fail("objdump (binutils) is missing; with CI=true this test may not be skipped")
        pytest.skip("objdump (binutils) is missing")
    libraries = sorted(INSTALLED.joinpath("_core").glob("*.so"))
    # one extra object has what Cython would otherwise put into each module, and one all kernels
    shared = {"libprivol_kernels"} if sys.platform == "linux" else set()
    assert {library.name.split(".")[0] for library in libraries} == {"_cyutility", *COMPILED, *shared}
    # wider registers, any instruction in AVX encoding (they all begin with v), bit manipulation of later levels
    later = "andn|bextr|blsi|blsmsk|blsr|bzhi|lzcnt|mulx|pdep|pext|popcnt|rorx|sarx|shlx|shrx"
    above = re.compile(rf"%[yz]mm\d|\tv(?!err|erw)[a-z]|\t(?:{later})[lqw]?\s")
    for library in libraries:
        # kernels for higher levels, selected at run time, are in a section of their own
        command = [objdump, "-d", "--no-show-raw-insn", "-j", ".text", str(library)]
        listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert listing.count("\tret") > 10, f"{library.name} could not be disassembled"
        found = above.search(listing)
        line = listing[listing.rfind("\n", 0, found.start()) + 1 : listing.find("\n", found.end())] if found else ""
        assert found is None, f"{library.name}: {line}"


def test_a_run_reports_its_input_at_once():
    """On a terminal, before the libraries that take a second to load; elsewhere, and with --quiet, nothing."""
    code = """
        import io, sys

        class Terminal(io.StringIO):
            def isatty(self):
                return ANSWER

            def write(self, text):
                if not seen and text.strip():
                    text = text.decode() if isinstance(text, bytes) else text
                    seen.append((text.strip(), sorted({"sklearn", "scipy", "pyarrow", "rich"} & set(sys.modules))))
                    raise KeyboardInterrupt  # the rest of the run loads the libraries
                return len(text)

        seen = []
        from privol.cli.app import app

        usual, sys.stderr = sys.stderr, Terminal()
        try:
            app(WORDS, standalone_mode=False)
        except BaseException:
            pass
        sys.stderr = usual
        print(seen[:1])
    """
    for answer, words, expected in (
        (True, ["run", "none.csv"], "[('Reading none.csv', [])]"),
        (True, ["run"], "[('Reading the rows that come with privol', [])]"),
        (True, ["run", "none.csv", "--quiet"], "[]"),
        (False, ["run", "none.csv"], "[]"),
    ):
        given = textwrap.dedent(code).replace("ANSWER", str(answer)).replace("WORDS", str([*words, "--horizon", "0"]))
        assert in_a_fresh_interpreter(given).strip().splitlines()[-1] == expected
