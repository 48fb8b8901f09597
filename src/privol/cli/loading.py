"""Libraries as commands load them: what scikit-learn imports without need, when it is needed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from threading import Lock
from types import ModuleType
from typing import Any

__all__ = ["load_libraries"]

# Imported for functions that no learner calls: by sklearn.utils, and by scipy.optimize.
_LATER = ("scipy.stats", "scipy.spatial")
_LOCK = Lock()


class _Later(ModuleType):
    """Stands in ``sys.modules`` for a module until something of it is used; that imports it in the usual way."""

    def __getattr__(self, name: str) -> Any:
        with _LOCK:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def load_libraries() -> None:
    """Import pyarrow and scikit-learn's base, but not what they bring without need, which takes longer than both.

    Both would import pandas if it is there, for frames of which a command has none: while they look for it, there is
    none. Other modules come when somebody uses them. The classes are scikit-learn's own, so that learners of a command
    are what they are everywhere else. For processes of the command line only: whoever imports privol decides alone what
    is imported besides.
    """
    with _without("pandas"):
        import pyarrow

        # pyarrow would answer Ctrl-C a second time, in the middle of the clean-up after the first
        pyarrow.enable_signal_handlers(False)
        pyarrow.array([])  # looks for pandas, once for all
        if "sklearn" not in sys.modules:
            for name in _LATER:
                sys.modules.setdefault(name, _Later(name))
            import sklearn.base  # noqa: F401


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Let a module be not installed, if nobody has imported it yet."""
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
