"""Pages in a headless browser without a network, where one is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from patience import WAIT

BROWSERS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")


def browser() -> str:
    """Return the path of a browser; without one the test is skipped, or fails where CI should have installed one.

    ``CI=true`` requires one, unless ``.ci/run`` has set ``PRIVOL_BROWSER=none`` because it could not install any.
    """
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is not None:
        return found
    missing = f"no browser is installed: {', '.join(BROWSERS)}"
    if os.environ.get("CI") == "true" and os.environ.get("PRIVOL_BROWSER") != "none":
        pytest.fail(f"{missing}; with CI=true this test may not be skipped")
    pytest.skip(missing)


def page_after_its_scripts(page: Path, profile: Path, query: str = "", wait: int = 0) -> str:
    """Return the HTML of a page from a file after the page's scripts have run in a browser.

    Parameters
    ----------
    page, profile : Path
        The file, and a folder for the browser's own files.
    query : str
        Appended to the address, such as ``"?q=word"``.
    wait : int
        Milliseconds of the page's own clock for its scripts; 0: until it is loaded.
    """
    offline = ("--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}")
    patient = (f"--virtual-time-budget={wait}",) if wait else ()
    address = page.resolve().as_uri() + query
    words = (browser(), "--headless", "--no-sandbox", "--disable-gpu", *offline, *patient, "--dump-dom", address)
    return subprocess.run(words, capture_output=True, text=True, timeout=WAIT, check=True).stdout
