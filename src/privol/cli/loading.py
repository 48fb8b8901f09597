"""How commands load libraries: scikit-learn's unnecessary imports are postponed until they are needed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from threading import Lock
from types import ModuleType
from typing import Any

__all__ = ["load_libraries"]

# sklearn.utils imports these for functions that no learner calls.
_LATER = ("scipy.stats", "scipy.spatial", "narwhals", "narwhals.stable", "narwhals.stable.v2")
_LOCK = Lock()


class _Later(ModuleType):
    """Stands in ``sys.modules`` for a module until it is first used, which imports it in the usual way.

    The stand-ins for the rest of its package are removed too: a module cannot be imported from a stand-in as its
    parent.
    """

    def __getattr__(self, name: str) -> Any:
        package = self.__name__.partition(".")[0]
        with _LOCK:
            for other in [other for other, found in sys.modules.items() if type(found) is _Later]:
                if other.partition(".")[0] == package:
                    del sys.modules[other]
        return getattr(importlib.import_module(self.__name__), name)


def load_libraries() -> None:
    """Import pyarrow and scikit-learn's base, but not what they bring without need, which takes longer than both.

    Both would import pandas if it is there, for frames of which a command has none: while they look for it, there is
    none. Other modules are loaded when they are used. The classes are scikit-learn's own, so that learners of a command
    are what they are everywhere else. For processes of the command line only: a program that imports privol decides
    itself what else is imported.
    """
    with _without("pandas"):
        import pyarrow

        # otherwise pyarrow would handle Ctrl-C a second time, in the middle of the clean-up after the first
        pyarrow.enable_signal_handlers(False)
        pyarrow.array([])  # looks for pandas, once and for all
        if "sklearn" not in sys.modules:
            for name in _LATER:
                _let_wait(name)
            import sklearn.base  # noqa: F401


def _let_wait(name: str) -> None:
    package, (parent, _, last) = name.partition(".")[0], name.rpartition(".")
    if name in sys.modules or (spec := importlib.util.find_spec(package)) is None:  # older scikit-learns lack narwhals
        return
    sys.modules[name] = found = _Later(name)
    if not parent:
        found.__spec__ = spec
    elif type(sys.modules.get(parent)) is _Later:
        setattr(sys.modules[parent], last, found)


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Make a module appear not to be installed, unless it is already imported."""
    finder = _NotInstalled(name)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _NotInstalled(MetaPathFinder):
    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name == self._name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
