"""What an MPI launcher starts for a rank that ``warm.py`` forks: ``python -I -S rank_door.py SOCKET WORDS...``.

It requests the process, passes on its standard streams and its environment, and ends as that process ends. Ending this
process ends the other one, because the socket is then closed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys


def main(door: str, *words: str) -> int:
    """Request the process and wait for its end; if it was killed, this process ends by the same signal."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(door)
        asked = {"words": words, "environment": dict(os.environ), "folder": os.getcwd()}
        content = json.dumps(asked).encode()
        socket.send_fds(connection, [len(content).to_bytes(8, "little")], [0, 1, 2])
        connection.sendall(content)
        answer = connection.recv(8)
    code = int.from_bytes(answer, "little", signed=True) if len(answer) == 8 else 1
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
