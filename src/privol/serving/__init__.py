"""Predictions over HTTP, and a registry of released models.

:class:`Service` answers for a run, or for the models of a :class:`Registry`; ``privol serve`` and ``privol publish``
are their commands. Everything that is served was released, so it costs nothing and is public as far as the guarantee
goes. The service needs ``pip install 'privol[serve]'``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._guards import Limits as Limits
    from ._guards import Token as Token
    from ._service import Service as Service
    from ._versions import Registry as Registry
    from ._versions import Version as Version

# Imported on first use: a registry needs no server.
_MODULES = {
    "Limits": "_guards",
    "Registry": "_versions",
    "Service": "_service",
    "Token": "_guards",
    "Version": "_versions",
}

__all__ = ["Limits", "Registry", "Service", "Token", "Version"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: Any = getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
