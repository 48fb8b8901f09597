"""Pages in a headless browser that has no network, where one is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from patience import WAIT

BROWSERS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")


def browser() -> str:
    """Return the path of a browser; none is found: the test is skipped, but fails where CI should have installed one.

    ``CI=true`` asks for one, unless ``.ci/run`` has said by ``PRIVOL_BROWSER=none`` that it could not install any.
    """
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is not None:
        return found
    missing = f"no browser is installed: {', '.join(BROWSERS)}"
    if os.environ.get("CI") == "true" and os.environ.get("PRIVOL_BROWSER") != "none":
        pytest.fail(f"{missing}; with CI=true this test may not be skipped")
    pytest.skip(missing)


def page_after_its_scripts(page: Path, profile: Path, query: str = "", wait: int = 0) -> str:
    """Return the HTML of a page of files as a browser has it when the scripts of the page have run.

    Parameters
    ----------
    page, profile : Path
        The file, and a folder for what the browser writes.
    query : str
        Behind the address, such as ``"?q=word"``.
    wait : int
        Milliseconds of the page's own clock for its scripts; 0: until it is loaded.
    """
    offline = ("--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}")
    patient = (f"--virtual-time-budget={wait}",) if wait else ()
    address = page.resolve().as_uri() + query
    words = (browser(), "--headless", "--no-sandbox", "--disable-gpu", *offline, *patient, "--dump-dom", address)
    return subprocess.run(words, capture_output=True, text=True, timeout=WAIT, check=True).stdout
