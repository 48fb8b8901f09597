"""The command line: ``privol run``, ``privol predict``, ``privol plan``, ``privol info``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        from .app import app

        app()
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich", "matplotlib"):
            raise
        sys.exit(f"privol: error: the command line needs {error.name}: pip install 'privol[cli]'")
