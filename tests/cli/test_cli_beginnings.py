"""How the program ends where no command has the last word: Ctrl-C while it begins, output that nobody takes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from patience import WAIT

from privol.cli.app import INTERRUPTED, PIPE

BEGINS = """
import privol.cli as cli

def struck():
    raise KeyboardInterrupt

cli._run = struck
cli.main()
"""
UNFLUSHED = """
import sys
import privol.cli as cli
import privol.cli.app as module

module.app = lambda: sys.exit(0 * sys.stdout.write("the last line"))
cli.main()
"""


def test_ctrl_c_while_the_program_begins():
    ended = subprocess.run([sys.executable, "-c", BEGINS], capture_output=True, text=True, timeout=WAIT)
    assert (ended.returncode, ended.stderr) == (INTERRUPTED, "privol: error: interrupted\n")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /dev/full")
def test_output_that_cannot_be_written_at_the_end():
    """The text that waits in a buffer is lost: the code must say so."""
    with open("/dev/full", "w") as full:
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        command = [sys.executable, "-c", UNFLUSHED]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=WAIT, env=buffered)
    assert (ended.returncode, ended.stderr) == (PIPE, "")
