"""Released models for other tools: scikit-learn pipelines, graphs of ONNX, model cards, guarantees as JSON, MLflow.

All of it is made of what was released, so it costs nothing and is public as far as the guarantee goes. Nothing that a
run keeps for its owner alone (seeds, diagnostics, counts of null rows, metrics on raw rows) is exported.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._card import model_card as model_card
    from ._mlflow import log_run as log_run
    from ._onnx import to_onnx as to_onnx
    from ._published import guarantee_schema as guarantee_schema
    from ._sklearn import to_sklearn as to_sklearn
    from .steps import ClippedLogisticRegression as ClippedLogisticRegression
    from .steps import RowScaler as RowScaler

# Imported on first use: a pipeline that is unpickled needs its steps alone, and no learner.
_MODULES = {
    "ClippedLogisticRegression": "steps",
    "RowScaler": "steps",
    "guarantee_schema": "_published",
    "log_run": "_mlflow",
    "model_card": "_card",
    "to_onnx": "_onnx",
    "to_sklearn": "_sklearn",
}

__all__ = [
    "ClippedLogisticRegression",
    "RowScaler",
    "guarantee_schema",
    "log_run",
    "model_card",
    "to_onnx",
    "to_sklearn",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: Any = getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
