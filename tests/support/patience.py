"""How long a test waits for what must come: the end of a test that hangs, never a measure of speed.

A process of the command line, which takes a second or two, has been observed to take 70 seconds on a busy machine.
"""

from __future__ import annotations

WAIT = 600  # seconds
