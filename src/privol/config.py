"""What this installation is made of."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from typing import Any

__all__ = ["show_config"]


def show_config() -> dict[str, Any]:
    """Return the versions and choices that a bug report needs.

    Returns
    -------
    dict
        privol's version, the interpreter and machine, the instruction-set level of the kernels, the cipher library
        behind the noise, and the versions of the dependencies (``None``: not installed).
    """
    from cryptography.hazmat.backends.openssl import backend

    from . import __version__

    def version(name: str) -> str | None:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return None

    needed = ("numpy", "scipy", "scikit-learn", "cryptography", "mpmath")
    optional = ("pyarrow", "click", "rich", "matplotlib", "dp-accounting")
    return {
        "privol": __version__,
        "python": sys.version.split()[0],
        "machine": platform.machine(),
        "system": platform.system(),
        "instruction_set": "baseline",
        "cipher": backend.openssl_version_text(),
        "dependencies": {name: version(name) for name in needed + optional},
    }
