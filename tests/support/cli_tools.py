"""Shared code of the tests of the command line: a small table, and calls in this process and in a new one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import warm
from click.testing import CliRunner

import privol
import privol.cli.run as run_command
from privol.cli.app import OK, app
from privol.ledger import Ledger

N = 500
RUN = ("run", "train.csv", "--classes", "well,sick", "--ranges", "ranges.json", "--radius", "5", "--x-bound", "2")


def write(path, header, body):
    lines = [] if header is None else [",".join(header)]
    path.write_text("\n".join([*lines, *(",".join(map(str, row)) for row in body)]) + "\n")


def privol_cli(*words, text=None):
    return CliRunner().invoke(app, [str(word) for word in words], input=text, catch_exceptions=False)


def piped(text, *words):
    """The same with text through a pipe of the operating system as standard input; None: an empty file."""
    if text is None:
        with open(os.devnull, "rb") as nothing:
            return CliRunner().invoke(app, list(map(str, words)), input=nothing, catch_exceptions=False)
    ours, theirs = os.pipe()

    def send():
        with open(theirs, "wb") as writer, contextlib.suppress(BrokenPipeError):
            writer.write(text.encode())

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with open(ours, "rb") as reader:
            return CliRunner().invoke(app, list(map(str, words)), input=reader, catch_exceptions=False)
    finally:
        sender.join()


def run_json(*words):
    result = privol_cli(*words, "--json")
    assert result.exit_code == OK, result.output
    return json.loads(result.stdout)


def listed(folder):
    """Names of the files that a user sees: a lock next to a journal is hidden."""
    return sorted(path.name for path in Path(folder).iterdir() if not path.name.startswith("."))


def entries_of(folder):
    """The entries of the ledger of a run directory."""
    return Ledger.read(Path(folder) / "ledger.jsonl").entries()


def sparse_rows(path, n, seed=0):
    """Rows of twelve words by Zipf's law, where two frequent words determine the label."""
    rng = np.random.default_rng(seed)
    words = np.minimum(rng.zipf(1.4, size=(n, 12)) * 7 % 3000, 2999)
    label = np.where(((words == 7) | (words == 28)).any(axis=1), "1", "-1")
    with open(path, "w") as file:
        for row, y in zip(words, label, strict=True):
            pairs = " ".join(f"{at + 1}:1" for at in np.unique(row))
            file.write(f"{y} {pairs}\n")


@contextlib.contextmanager
def no_file_above(limit):
    """Simulate a full disk by a limit on file sizes: the write fails, whoever owns the process."""
    import resource

    before, deaf = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, deaf)


def start(*words, imported=True, before=None, **settings):
    """Start the command line as a separate process, with its imports already made, or as a user starts it.

    ``before``: statements that it carries out first.
    """
    source = str(Path(privol.__file__).parent.parent)
    path = os.pathsep.join(p for p in (source, os.environ.get("PYTHONPATH")) if p)
    program = ("-m", "privol") if before is None else ("-c", f"{before}\nfrom privol.cli import main\nmain()")
    return (warm if imported else subprocess).Popen(
        [sys.executable, *program, *map(str, words)],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **settings},
        env={**os.environ, "PYTHONPATH": path},
    )


@contextlib.contextmanager
def interrupted_at(monkeypatch, row):
    """Ctrl-C once a number of rows has been learnt."""

    @contextlib.contextmanager
    def watched(*_, **__):
        def tick(learner, stream):
            if learner._run.state.n_rows >= row:
                raise KeyboardInterrupt

        yield tick, lambda stage: None

    with monkeypatch.context() as patch:
        patch.setattr(run_command, "watched", watched)
        yield
