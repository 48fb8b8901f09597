"""Fixtures of several test files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest


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
