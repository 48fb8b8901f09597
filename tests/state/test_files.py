"""Files that survive a crash: the order in which data reach the disk."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys

import pytest

from privol._files import LockFile, write_atomically


@pytest.mark.skipif(os.name != "posix", reason="folders are not synced elsewhere")
@pytest.mark.parametrize("before", [None, b"old"], ids=["new", "replaced"])
def test_a_file_is_synced_before_and_its_folder_after_renaming(before, tmp_path, monkeypatch):
    path, seen = tmp_path / "kept", []
    if before is not None:
        path.write_bytes(before)

    def noted(name, describe):
        real = getattr(os, name)

        def call(*given):
            found = real(*given)
            seen.append((name, *describe(*given)))
            return found

        monkeypatch.setattr(os, name, call)

    def kind(descriptor):
        held = os.fstat(descriptor)
        return ("folder",) if stat.S_ISDIR(held.st_mode) and held.st_ino == tmp_path.stat().st_ino else ("file",)

    noted("fsync", kind)
    noted("replace", lambda draft, name: (os.fspath(name),))
    write_atomically(path, b"new", mode=0o600)
    assert seen == [("fsync", "file"), ("replace", str(path)), ("fsync", "folder")]
    assert path.read_bytes() == b"new"


HOLDER = """
import sys, time
from privol._files import LockFile
lock = LockFile(sys.argv[1])
print("taken", flush=True)
time.sleep(600)
"""


def test_a_lock_has_one_holder_here_and_elsewhere(tmp_path):
    path = tmp_path / "lock"
    lock = LockFile(path)
    with pytest.raises(BlockingIOError):
        LockFile(path)
    taken = subprocess.run([sys.executable, "-c", HOLDER, path], capture_output=True, text=True, check=False)
    assert "BlockingIOError" in taken.stderr
    lock.release()
    lock.release()
    with subprocess.Popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "taken\n"
        with pytest.raises(BlockingIOError):
            LockFile(path)
        holder.kill()
    LockFile(path)  # a dead holder holds nothing, nor does one without references
    LockFile(path).release()


def test_a_lock_is_of_the_file_that_has_the_name(tmp_path, monkeypatch):
    """The last holder may remove it between opening and locking: others would lock the next one beside us."""
    path, real = tmp_path / "lock", os.open
    first, others = LockFile(path), []

    def meanwhile(*given):
        descriptor = real(*given)
        if not others:
            path.unlink()
            first.release()
            others.append(None)
        return descriptor

    monkeypatch.setattr(os, "open", meanwhile)
    lock = LockFile(path)
    with pytest.raises(BlockingIOError):
        LockFile(path)
    lock.release()


@pytest.mark.skipif(not hasattr(os, "symlink") or os.name != "posix", reason="links of POSIX")
def test_a_lock_follows_no_link(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        LockFile(tmp_path / "lock")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_keeps_nothing_locked(tmp_path):
    path = tmp_path / "lock"
    lock = LockFile(path)
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(theirs, b"x")
        signal.pause()
        os._exit(0)
    try:
        os.read(ours, 1)
        with pytest.raises(BlockingIOError):  # the child's end of it is not the parent's
            LockFile(path)
        lock.release()
        LockFile(path).release()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ours)
        os.close(theirs)
