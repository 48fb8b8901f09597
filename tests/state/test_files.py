"""Files that survive a crash: the order in which data reach the disk."""

from __future__ import annotations

import os
import stat

import pytest

from privol._files import write_atomically


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
