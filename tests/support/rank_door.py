"""What a launcher of MPI starts for a rank that ``warm.py`` forks: ``python -I -S rank_door.py SOCKET WORDS...``.

It asks for the process, hands over its standard streams and its environment, and ends as that process ends. Whoever
ends this one ends the other: the socket is closed then.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys


def main(door: str, *words: str) -> int:
    """Ask for the process, wait for its end; a process that was killed ends this one by the same signal."""
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
