"""privol: learn online from a sensitive stream, release models under a stated privacy guarantee.

Names are imported on first use, so that ``import privol`` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .learners import TABLE

__version__ = "0.1.0"

_MODULES = (
    "audit",
    "calibration",
    "distributed",
    "errors",
    "evaluate",
    "factorizations",
    "geometry",
    "guarantees",
    "ledger",
    "losses",
    "noise",
    "prefix",
    "randomizers",
    "rounds",
    "state",
    "streams",
    "topology",
    "tuning",
)
_NAMES = {
    **{entry.kind: "learners" for entry in TABLE},
    "PrivateClassifier": "auto.estimators",
    "PrivateRegressor": "auto.estimators",
    "default_learner": "learners",
    "open_stream": "streams",
    "plan": "planning",
    "set_threads": "_threads",
    "show_config": "config",
}

__all__ = sorted([*_MODULES, *_NAMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(f".{_NAMES[name]}", __name__), name)
    elif name in _MODULES:
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'privol' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:
    from . import audit as audit
    from . import calibration as calibration
    from . import distributed as distributed
    from . import errors as errors
    from . import evaluate as evaluate
    from . import factorizations as factorizations
    from . import geometry as geometry
    from . import guarantees as guarantees
    from . import ledger as ledger
    from . import losses as losses
    from . import noise as noise
    from . import prefix as prefix
    from . import randomizers as randomizers
    from . import rounds as rounds
    from . import state as state
    from . import streams as streams
    from . import topology as topology
    from . import tuning as tuning
    from ._threads import set_threads as set_threads
    from .auto.estimators import PrivateClassifier as PrivateClassifier
    from .auto.estimators import PrivateRegressor as PrivateRegressor
    from .config import show_config as show_config
    from .learners import *  # noqa: F403 (the learners: by their table)
    from .planning import plan as plan
    from .streams import open_stream as open_stream
