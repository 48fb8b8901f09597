"""The components of this installation."""

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
        privol's version, the interpreter and machine, the instruction-set level of the noise kernels, the cipher
        library behind the noise, and the versions of the dependencies (``None``: not installed).

    Notes
    -----
    The level is the highest that the build has and the processor runs: "baseline", on x86-64 also "x86-64-v3" and
    "x86-64-v4". The environment variable ``PRIVOL_INSTRUCTION_SET``, read at import, forces another. Results do not
    depend on it.
    """
    from cryptography.hazmat.backends.openssl import backend

    from . import __version__
    from ._core._noise import instruction_set

    def version(name: str) -> str | None:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return None

    needed = ("numpy", "scipy", "scikit-learn", "cryptography", "mpmath", "xxhash")
    optional = ("pyarrow", "click", "rich", "matplotlib", "dp-accounting", "networkx")
    return {
        "privol": __version__,
        "python": sys.version.split()[0],
        "machine": platform.machine(),
        "system": platform.system(),
        "instruction_set": instruction_set(),
        "cipher": backend.openssl_version_text(),
        "dependencies": {name: version(name) for name in needed + optional},
    }
