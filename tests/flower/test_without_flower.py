"""privol.flower can be imported without Flower, and says what it needs."""

from __future__ import annotations

import sys

import pytest

from privol.errors import StateError
from privol.flower import device_app, learner_app, network_app, node_app


def test_without_flower(monkeypatch):
    monkeypatch.setitem(sys.modules, "flwr", None)
    for name in [name for name in sys.modules if name.startswith("flwr.")]:
        monkeypatch.delitem(sys.modules, name)
    for make in (device_app, learner_app, network_app, node_app):
        with pytest.raises(StateError, match=r"needs Flower \(pip install 'privol\[flower\]' brings it\)"):
            make(None, None)
