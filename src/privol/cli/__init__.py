"""The command line: ``privol run``, ``privol predict``, ``privol plan``, ``privol audit``, ``privol info``."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import warnings
from typing import Any, NoReturn

from ..errors import PrivacyWarning, ScaledRowsWarning

__all__ = ["main"]

_INTERRUPTED = 130  # as in .app, which may not be imported yet


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        code = _run()
    except KeyboardInterrupt:
        for number in signal.valid_signals():  # a second one must not end in a traceback
            if signal.getsignal(number) is signal.default_int_handler:
                signal.signal(number, signal.SIG_IGN)
        print("privol: error: interrupted", file=sys.stderr)
        code = _INTERRUPTED
        _flushed(sys.stdout)
    _flushed(sys.stderr)
    if code == _INTERRUPTED:
        # If Ctrl-C struck inside an eval(), the interpreter would kill itself by SIGINT on its way out.
        os._exit(_INTERRUPTED)
    sys.exit(code)


def _unraisable(found: Any) -> None:
    """Let Ctrl-C strike once more if it struck in a finalizer: an exception goes nowhere from there."""
    if not issubclass(found.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(found)
        return
    again = threading.Timer(0.01, _thread.interrupt_main)  # when the finalizer is over
    again.daemon = True
    again.start()


def _run() -> Any:
    """Run the command line, and return its code."""
    sys.unraisablehook = _unraisable
    for name in ("SIGTERM", "SIGHUP"):  # signals that stop a service or a lost terminal end a run like Ctrl-C
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    try:
        from .app import PIPE, app
    except ModuleNotFoundError as error:
        _explain_missing(error)
    warnings.simplefilter("ignore", PrivacyWarning)  # the reports say the same, for models and metrics together
    warnings.simplefilter("ignore", ScaledRowsWarning)  # nothing is said of raw rows except with --diagnostics
    code: Any
    try:
        app()
    except BrokenPipeError:
        code = PIPE
    except ModuleNotFoundError as error:
        _explain_missing(error)
    except SystemExit as stop:
        code = stop.code
    if not _flushed(sys.stdout) and code in (0, None):
        code = PIPE
    return code


def _explain_missing(error: ModuleNotFoundError) -> NoReturn:
    if error.name in ("h11", "orjson", "prometheus_client", "starlette", "uvicorn"):
        sys.exit(f"privol: error: privol serve needs {error.name}: pip install 'privol[serve]'")
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
