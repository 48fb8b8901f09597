"""A registry of released models on the disk: versions that never change, and a pointer to the current one."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from .. import __version__
from .._files import LockFile, sync_folder, write_atomically
from .._validate import integer
from ..errors import InvalidParameter, StateError
from ..exporting import model_card
from ..state import load_model, read_record
from ._signatures import PrivateKey, PublicKey, private_key_of, public_key_of, sign, signed_by

__all__ = ["MODEL_FILES", "Registry", "Version", "is_registry"]

_FORMAT, _VERSION = "privol.registry", 1
_INDEX, _CURRENT, _MANIFEST, _SIGNATURE = "registry.json", "current.json", "manifest.json", "manifest.sig"
#: The files of a released model; the record last, which says that the other is whole.
MODEL_FILES = ("model.npz", "model.json")
_CARD, _GUARANTEE = "card.json", "guarantee.json"
_FILES = (*MODEL_FILES, _CARD, _GUARANTEE)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_NUMBER = re.compile(r"[0-9]{6,15}")
_LAST = 10**15
_DRAFT = re.compile(r"\.draft\.[0-9a-f]{32}")
_READ_ONLY = 0o444
_MOST = 1 << 16  # bytes of what is no model: an index, a pointer, a manifest, a signature


@dataclass(frozen=True)
class Version:
    """A version of a model, which never changes.

    Attributes
    ----------
    name : str
        Of the model.
    number : int
        From 1.
    path : Path
        Its folder, which :func:`privol.state.load_model` reads, as it is then: what was verified is in
        :meth:`Registry.read`.
    published : str
        When, by the clock of who published it: ISO 8601 in UTC.
    manifest : str
        SHA-256 of its manifest, in hexadecimal digits, and so of all of it.
    signed : bool
        Whether there is a signature. By whom, only a registry with ``public_key`` says.
    card : dict
        The model card, as :func:`privol.exporting.model_card` has made it: what was verified, even if the file changes
        afterwards.
    """

    name: str
    number: int
    path: Path
    published: str
    manifest: str
    signed: bool
    card: dict[str, Any] = field(repr=False, compare=False)


def is_registry(path: str | os.PathLike[str]) -> bool:
    """Whether a directory is a registry, or says that it is."""
    return (Path(path) / _INDEX).is_file()


class Registry:
    """A directory of released models by name, each with numbered versions that never change.

    A version is a folder ``NAME/000001`` with the model (``model.npz``, ``model.json``), its guarantee
    (``guarantee.json``), its model card (``card.json``), a manifest of the digests of these files and, if it was
    published with a key, a detached Ed25519 signature of the manifest. ``NAME/current.json`` names the version that is
    served. Both appear whole or not at all, whenever the process or the machine is stopped.

    Parameters
    ----------
    path : path
        Made if it does not exist; its parent must.
    public_key : Ed25519PublicKey or path of a PEM file, optional
        Only versions that the owner of this key has signed are read: others are refused.
    create : bool, default=True
        False: it must exist.

    Raises
    ------
    StateError
        If the directory has files of something else, or is of another version.
    InvalidParameter
        If the key is none.

    Notes
    -----
    The signature says who made a version, and covers its name and number; the pointer is not signed. Who can write to
    the directory can choose which of the signed versions is served, an older one too, but can make none. A digest
    without a signature finds damage, not malice.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, public_key: PublicKey | None = None, create: bool = True
    ) -> None:
        self.path = Path(path)
        self._key: Ed25519PublicKey | None = None if public_key is None else public_key_of(public_key)
        self._settled: set[Path] = set()
        if create and not self.path.exists():
            self.path.mkdir()
        if create and self.path.is_dir() and not is_registry(self.path):
            if any(found for found in self.path.iterdir() if not found.name.startswith(".")):
                raise StateError(f"{self.path}: exists, is not empty, and is no registry: choose another directory")
            sync_folder(self.path.absolute().parent)  # whoever made the directory may have ended before this
            text = json.dumps({"format": _FORMAT, "version": _VERSION}) + "\n"
            write_atomically(self.path / _INDEX, text.encode())
        self._check_index()

    def __repr__(self) -> str:
        return f"<Registry of {len(self.names)} models in {self.path}>"

    def _check_index(self) -> None:
        try:
            found = json.loads(_content(self.path / _INDEX, _MOST))
            kind, version = found["format"], found["version"]
        except FileNotFoundError:
            raise StateError(f"{self.path}: is no registry ({_INDEX} is missing)") from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise StateError(f"{self.path}: {_INDEX} cannot be read: {error!r}") from error
        if kind != _FORMAT or type(version) is not int or version != _VERSION:
            raise StateError(
                f"{self.path}: found format {kind!r}, version {version!r}; this release of privol reads version "
                f"{_VERSION} of {_FORMAT!r}"
            )

    # ---- reading ---------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """The names of the models, in order."""
        return sorted(path.name for path in self.path.iterdir() if _NAME.fullmatch(path.name) and path.is_dir())

    def numbers(self, name: str) -> list[int]:
        """Return the numbers of the versions of a model, ascending, whether they are whole or not."""
        folder = self._folder(name)
        if not folder.is_dir():
            raise StateError(f"{self.path}: no model {name!r}{self._known()}")
        return sorted(int(path.name) for path in folder.iterdir() if _NUMBER.fullmatch(path.name) and path.is_dir())

    def current(self, name: str) -> int:
        """Return the number of the version that is served.

        Raises
        ------
        StateError
            If there is no such model, no version is current yet, or the pointer is damaged.
        """
        file = self._folder(name) / _CURRENT
        try:
            found = json.loads(_content(file, _MOST))
            number = found["number"]
            if type(number) is not int or not 1 <= number < _LAST:
                raise ValueError("it names no version")
        except FileNotFoundError:
            self.numbers(name)
            raise StateError(f"{self.path}: no version of {name!r} is current") from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise StateError(f"{file}: cannot be read: {error!r}") from error
        return number

    def version(self, name: str, number: int | None = None) -> Version:
        """Return a version, once all of it is verified.

        Parameters
        ----------
        name : str
        number : int, optional
            Default: the current one.

        Raises
        ------
        StateError
            If it is not there, a file is missing, damaged or not of the version, or, with ``public_key``, there is no
            signature of its owner.
        """
        return self.read(name, number)[0]

    def read(self, name: str, number: int | None = None) -> tuple[Version, dict[str, bytes]]:
        """Return a version and the content of its files, which is what was verified, whatever happens to the files.

        Parameters and errors as for :meth:`version`.
        """
        at = self.current(name) if number is None else integer(number=number, at_least=1, at_most=_LAST - 1)
        folder = self._folder(name) / _named(at)
        if not folder.is_dir():
            raise StateError(f"{self.path}: {name!r} has no version {at}")
        manifest = _read(folder / _MANIFEST, _MOST)
        signature = _read(folder / _SIGNATURE, _MOST) if (folder / _SIGNATURE).exists() else None
        if self._key is not None:  # before anything of it is believed
            if signature is None:
                raise StateError(f"{folder}: is not signed, and only versions that a known key has signed are read")
            if not signed_by(manifest, signature, self._key):
                raise StateError(f"{folder}: its signature is not that of the known key")
        published, content = _verified(folder, manifest, name, at)
        digest = hashlib.sha256(manifest).hexdigest()
        try:
            card = json.loads(content[_CARD])
        except (ValueError, RecursionError) as error:
            raise StateError(f"{folder / _CARD}: is no JSON, allowed is a model card: {error}") from error
        self._settle(folder)
        return Version(name, at, folder, published, digest, signature is not None, card), content

    def _settle(self, version: Path) -> None:
        """Sync the name of a version, once: its publisher may have ended between rename and sync.

        A loss of power would take it, and its number would go to another one.
        """
        if version in self._settled:
            return
        try:
            sync_folder(version.parent)
        except OSError as error:
            if error.errno not in {errno.EROFS, errno.EINVAL}:  # no disk of ours, and nothing to write
                raise StateError(f"{version}: its name cannot be synced to the disk: {error.strerror}") from error
        self._settled.add(version)

    # ---- writing ---------------------------------------------------------------------------------------------

    def publish(
        self,
        run: str | os.PathLike[str],
        name: str,
        *,
        key: PrivateKey | None = None,
        current: bool = True,
        allow_not_private: bool = False,
    ) -> Version:
        """Add the released model of a directory as the next version.

        Parameters
        ----------
        run : path
            What ``privol run``, :func:`privol.state.save_model` or :class:`privol.state.State` has written a model
            into. It is copied; the run goes on.
        name : str
            1 to 64 letters, digits, ``_`` and ``-``, no mark first.
        key : Ed25519PrivateKey or path of a PEM file, optional
            Signs the version.
        current : bool, default=True
            Whether it is the version that is served from now on.
        allow_not_private : bool, default=False
            Whether a model that is marked NOT PRIVATE, or has no guarantee, is published all the same.

        Raises
        ------
        InvalidParameter
            If the name or the key is none, the model's rows are scaled by ranges (which are no schema), or it is not
            private and that is not allowed.
        StateError
            If there is no whole model, or another process is publishing under this name. Nothing is published then.
        """
        signer = None if key is None else private_key_of(key)
        folder = self._folder(name)
        draft = folder / f".draft.{os.urandom(16).hex()}"
        content = _model_of(Path(run))
        record = json.loads(content["model.json"])
        if not record.get("private") and not allow_not_private:
            raise InvalidParameter(
                f"{os.fspath(run)}: the model is NOT PRIVATE, as its record says, and is published only if that is "
                "allowed explicitly (allow_not_private)"
            )
        folder.mkdir(exist_ok=True)
        sync_folder(self.path)  # also of what another process made, and ended
        with self._locked(folder):
            for left in folder.iterdir():  # of a process that was killed
                if _DRAFT.fullmatch(left.name):
                    shutil.rmtree(left)
            number = max(self.numbers(name), default=0) + 1
            draft.mkdir()
            try:
                for file, data in content.items():
                    write_atomically(draft / file, data, mode=_READ_ONLY)
                load_model(draft)  # it must be whole
                card = {_CARD: model_card(draft), _GUARANTEE: record["guarantee"]}
                for file, values in card.items():
                    text = json.dumps(values, indent=1, allow_nan=False) + "\n"
                    write_atomically(draft / file, text.encode(), mode=_READ_ONLY)
                published = datetime.now(UTC).isoformat(timespec="seconds")
                manifest = _manifest(draft, name, number, published)
                write_atomically(draft / _MANIFEST, manifest, mode=_READ_ONLY)
                if signer is not None:
                    write_atomically(draft / _SIGNATURE, sign(manifest, signer), mode=_READ_ONLY)
                os.rename(draft, folder / _named(number))
                sync_folder(folder)
            except BaseException as error:
                shutil.rmtree(draft, ignore_errors=True)
                if type(error) in (InvalidParameter, StateError):  # of the run, not of a draft that is gone
                    raise type(error)(str(error).replace(str(draft), os.fspath(run))) from error
                raise
            if current:
                self._point(folder, number)
        digest = hashlib.sha256(manifest).hexdigest()
        return Version(name, number, folder / _named(number), published, digest, signer is not None, card[_CARD])

    def use(self, name: str, number: int) -> Version:
        """Make a version the current one, an older one too.

        Raises
        ------
        StateError
            As :meth:`version`, before anything changes; or another process is publishing under this name.
        """
        found = self.version(name, number)
        with self._locked(self._folder(name)):
            self._point(self._folder(name), found.number)
        return found

    def _point(self, folder: Path, number: int) -> None:
        write_atomically(folder / _CURRENT, (json.dumps({"number": number}) + "\n").encode())

    @contextmanager
    def _locked(self, folder: Path) -> Iterator[None]:
        try:
            lock = LockFile(folder / ".lock")
        except BlockingIOError:
            raise StateError(f"{folder}: another process is publishing here") from None
        try:
            yield
        finally:
            lock.release()

    def _folder(self, name: str) -> Path:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidParameter(f"name must be 1 to 64 letters, digits, _ and -, no mark first, found {name!r}")
        return self.path / name

    def _known(self) -> str:
        names = self.names
        return f", there are {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}" if names else ", it is empty"


def _named(number: int) -> str:
    return f"{number:06d}"


def _content(path: Path, most: int) -> bytes:
    """Read a file of at most so many bytes: who can write to the directory may have put a pipe or a device there."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise StateError(f"{path}: is no plain file")
        if found.st_size > most:
            raise StateError(f"{path}: has {found.st_size:,} bytes, more than {most:,}, which are all that it may have")
        return file.read(found.st_size)


def _read(path: Path, most: int = sys.maxsize) -> bytes:
    try:
        return _content(path, most)
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from error


def _model_of(run: Path) -> dict[str, bytes]:
    """The files of a whole model; a live run replaces them now and then, so they are read until they fit."""
    for _ in range(10):
        record = read_record(run)
        content = {file: _read(run / file) for file in MODEL_FILES}
        whole = hashlib.sha256(content["model.npz"]).hexdigest() == record["arrays"]["sha256"]
        with suppress(ValueError):
            found = json.loads(content["model.json"])
            if whole and {**found, "sha256": None} == {**record, "sha256": None}:
                return content
    raise StateError(f"{run}: model.npz is truncated, altered or of another run (its checksum does not match)")


def _manifest(folder: Path, name: str, number: int, published: str) -> bytes:
    files = {}
    for file in _FILES:
        content = (folder / file).read_bytes()
        files[file] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    return _canonical(
        {
            "format": f"{_FORMAT}.version",
            "version": _VERSION,
            "name": name,
            "number": number,
            "published": published,
            "privol": __version__,
            "files": files,
        }
    )


def _canonical(values: dict[str, Any]) -> bytes:
    """The only bytes that a manifest of these values has."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _verified(folder: Path, manifest: bytes, name: str, number: int) -> tuple[str, dict[str, bytes]]:
    """Check a version against its manifest; return when it was published, and its files."""
    try:
        found = json.loads(manifest)
        if _canonical(found) != manifest:
            raise ValueError("it is not in its canonical form")
        if (found["format"], found["version"]) != (f"{_FORMAT}.version", _VERSION):
            raise ValueError(f"found format {found['format']!r}, version {found['version']!r}")
        if (found["name"], found["number"]) != (name, number):
            raise ValueError(f"it is of version {found['number']!r} of {found['name']!r}")
        if sorted(found["files"]) != sorted(_FILES):
            raise ValueError(f"it has the files {sorted(found['files'])}")
        stated = {file: str(found["files"][file]["sha256"]) for file in _FILES}
        sizes = {file: integer(size=found["files"][file]["size"], at_least=0, at_most=1 << 40) for file in _FILES}
        published = str(found["published"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidParameter) as error:
        raise StateError(f"{folder}: {_MANIFEST} is damaged, or of something else: {error}") from error
    content = {file: _read(folder / file, sizes[file]) for file in _FILES}
    for file, data in content.items():
        if hashlib.sha256(data).hexdigest() != stated[file]:
            raise StateError(f"{folder}: {file} is not what was published (its digest does not match)")
    return published, content
