"""The command line: ``privol run``, ``privol predict``, ``privol plan``, ``privol audit``, ``privol info``."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from typing import Any, NoReturn

from ..errors import PrivacyWarning, ScaledRowsWarning

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        from .app import INTERRUPTED, PIPE, app
    except ModuleNotFoundError as error:
        _explain_missing(error)
    for name in ("SIGTERM", "SIGHUP"):  # signals that stop a service or a lost terminal end a run like Ctrl-C
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    warnings.simplefilter("ignore", PrivacyWarning)  # the reports say the same, for models and metrics together
    warnings.simplefilter("ignore", ScaledRowsWarning)  # nothing is said of raw rows except with --diagnostics
    code: Any
    try:
        app()
    except KeyboardInterrupt:
        print("privol: error: interrupted", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:
        code = PIPE
    except ModuleNotFoundError as error:
        _explain_missing(error)
    except SystemExit as stop:
        code = stop.code
    if not _flushed(sys.stdout) and code in (0, None):
        code = PIPE
    _flushed(sys.stderr)
    if code == INTERRUPTED:
        # If Ctrl-C struck inside an eval(), the interpreter would kill itself by SIGINT on its way out.
        os._exit(INTERRUPTED)
    sys.exit(code)


def _explain_missing(error: ModuleNotFoundError) -> NoReturn:
    if error.name not in ("click", "rich", "matplotlib", "pyarrow", "jinja2"):
        raise error
    sys.exit(f"privol: error: the command line needs {error.name}: pip install 'privol[cli]'")


def _flushed(stream: Any) -> bool:
    """Flush; drop output that cannot be written, because the interpreter would complain about it on its way out."""
    if stream is None:
        return True
    try:
        stream.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return False
    return True
