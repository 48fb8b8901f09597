"""The command line: ``privol run``, ``privol predict``, ``privol plan``, ``privol info``."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        import pyarrow

        from .app import INTERRUPTED, app
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich", "matplotlib", "pyarrow"):
            raise
        sys.exit(f"privol: error: the command line needs {error.name}: pip install 'privol[cli]'")
    # pyarrow would answer Ctrl-C a second time, in the middle of the clean-up after the first
    pyarrow.enable_signal_handlers(False)
    try:
        app()
    except KeyboardInterrupt:
        print("privol: error: interrupted", file=sys.stderr)
        code: object = INTERRUPTED
    except SystemExit as stop:
        code = stop.code
    if code == INTERRUPTED:
        # Where Ctrl-C struck inside an eval(), the interpreter would kill itself by SIGINT on its way out.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    sys.exit(code)  # type: ignore[arg-type]
