"""Fixtures of several test files."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from longest import LONGEST
from thorough import CASES, is_thorough
from threadpoolctl import threadpool_limits

from privol.noise import bits

# If the tests are started in the background of a shell, or by nohup, they would ignore Ctrl-C, and so would the
# programs that they start and interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# The same examples in every run, whatever ran before, and no time limits: a failure is a defect of the code under test.
# To search for new examples: --hypothesis-profile=default.
settings.register_profile("fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fixed")

# The caller's preferences for terminal output, which the text under test would follow.
for _name in ("FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(_name, None)

# What clients of servers leave behind waits for their threads when it is collected, and a forked child has none of
# them: a child collects no garbage but its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=gc.freeze)


class _FixedKeys:
    """In place of the system's entropy for noise keys: each test gets the same keys in every run.

    A test whose fits state no ``random_state`` would fail by chance otherwise, once in some hundred runs. Processes
    that a test starts have the system's entropy, and so do tests that ask for ``system_keys``.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.begin("")

    def begin(self, test: str) -> None:
        with self._lock:
            self._test, self._generator = test, None  # most tests ask for no key

    def urandom(self, size: int) -> bytes:
        with self._lock:
            if self._generator is None:
                self._generator = np.random.default_rng(list(self._test.encode()))
            return self._generator.bytes(size)


_KEYS = _FixedKeys()
bits.os = _KEYS
if hasattr(os, "register_at_fork"):  # a child would draw what its parent draws next
    os.register_at_fork(after_in_child=lambda: setattr(bits, "os", os))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _KEYS.begin(item.nodeid)


@pytest.fixture
def system_keys(monkeypatch):
    """Noise keys come from the system's entropy, as they do for users."""
    monkeypatch.setattr(bits, "os", os)


SLOW = ("slow", "statistical", "process", "mpi", "thorough")


def pytest_configure(config: pytest.Config) -> None:
    """Each worker collects all tests, from a folder of its own on: what one has compiled, the others read."""
    if not hasattr(config, "workerinput"):
        return
    sys.dont_write_bytecode = False
    folder, asked = Path(__file__).parent, [config.invocation_params.dir / each for each in config.args]
    if [path.resolve() for path in asked] == [folder.resolve()]:
        parts = sorted({path.relative_to(folder).parts[0] for path in folder.rglob("test_*.py")})
        first = len(parts) * int(config.workerinput["workerid"].removeprefix("gw")) // config.workerinput["workercount"]
        config.args = [str(folder / part) for part in parts[first:] + parts[:first]]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What tests are collected from stays to the end, and the garbage collector would go through it again and again.

    It waits for the end of the collection, and passes over what is there then.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before any are deselected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests without another marker are fast: ``pytest -m fast`` gives a verdict within a minute."""
    folder = Path(__file__).parent
    cases = config.stash[CASES] = {}
    for item in items:
        path = item.path.relative_to(folder).as_posix()
        case = item.callspec.id if hasattr(item, "callspec") else ""
        cases.setdefault((path, item.originalname), []).append(case)
        if is_thorough(path, item.originalname, case):
            item.add_marker("thorough")
        if not any(item.get_closest_marker(name) for name in SLOW):
            item.add_marker("fast")
    if hasattr(config, "workerinput"):  # no processor should wait at the end for the one with the longest file
        rank = {name: (place, "") for place, name in enumerate(LONGEST)}
        names = {path: path.relative_to(folder).as_posix() for path in {item.path for item in items}}
        items.sort(key=lambda item: rank.get(names[item.path], (len(rank), names[item.path])))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """``-n auto``: a worker more than processors, as many tests wait for processes, servers and time to pass."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """``-n`` distributes whole files, in the order above: what a file starts or builds once is done only once."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


@pytest.fixture(autouse=True, scope="module")
def _what_earlier_files_left_is_not_garbage():
    """Libraries that earlier files imported, and what these keep: every full collection would go through it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _environment_is_restored():
    """What a library under test writes into the environment stays with its test: later processes would inherit it."""
    before = dict(os.environ)
    yield
    if dict(os.environ) != before:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


@pytest.fixture(autouse=True, scope="session")
def _plots_are_quiet(tmp_path_factory):
    """Matplotlib writes to stderr if its home cannot be written, or if listing many fonts is slow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLCONFIGDIR", str(tmp_path_factory.mktemp("matplotlib")))
        if importlib.util.find_spec("matplotlib"):
            importlib.import_module("matplotlib.font_manager")  # writes the list for the processes under test
        yield


@pytest.fixture(autouse=True, scope="session")
def _one_thread_a_worker():
    """With several workers each has one processor: threads of BLAS would wait busily for those of others."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for the processes that tests start
    importlib.import_module("scipy.linalg")  # it brings its own BLAS
    with threadpool_limits(limits=1, user_api="blas"):
        yield


@pytest.fixture
def table():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(500, 3)).round(6)
    return X, (rng.random(500) < 0.4).astype(float)


@pytest.fixture
def data_folder():
    folder = os.environ.get("PRIVOL_DATA")
    if not folder:
        pytest.skip("PRIVOL_DATA does not name the folder of the real data sets")
    return Path(folder)


@pytest.fixture(scope="module")
def postgres():
    """A PostgreSQL server for the tests of a file."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the server is that of a Linux distribution")
    from postgres import Server

    server = Server()
    yield server
    server.close()


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def clinic(here):
    """``train.csv`` with a header and three features, ``new.csv`` without the target, and a range for the first."""
    pytest.importorskip("click")
    from cli_tools import N, write

    rng = np.random.default_rng(8)
    X = rng.uniform(-1, 1, size=(N, 3)) * [50.0, 1.0, 1.0] + [50.0, 0.0, 0.0]
    y = np.where((X[:, 0] - 50) / 50 + X[:, 1] > 0, "sick", "well")
    body = [[*map(repr, x.tolist()), label] for x, label in zip(X, y, strict=True)]
    write(here / "train.csv", ["age", "dose", "size", "state"], body)
    write(here / "new.csv", ["age", "dose", "size"], [map(repr, x.tolist()) for x in X[:20]])
    (here / "ranges.json").write_text('{"age": [0, 100]}')
    return X, y
