"""The registry: versions whole or not at all, never changed, and only by known keys."""

from __future__ import annotations

import errno
import json
import os
import shutil

import pytest
from cli_tools import OK, privol_cli
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from serving_tools import X, files_of, learnt, saved

from privol._files import LockFile
from privol.cli.app import IO, USAGE
from privol.errors import InvalidParameter, StateError
from privol.exporting import model_card
from privol.serving import Registry, _versions
from privol.serving._versions import is_registry
from privol.state import load_model

FILES = ["card.json", "guarantee.json", "manifest.json", "model.json", "model.npz"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("run") / "run")


@pytest.fixture(scope="module")
def other_run(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("run") / "run", 200)


def pem(path, key, *, password=None):
    """A private key and its public key as files."""
    how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
    path.write_bytes(secret)
    public = path.with_suffix(".pub")
    info = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, info))
    return path, public


def test_versions_are_numbered_and_never_change(tmp_path, run, other_run):
    registry = Registry(tmp_path / "models")
    first = registry.publish(run, "risk")
    before = {path.name: path.read_bytes() for path in first.path.iterdir()}
    second = registry.publish(other_run, "risk")
    assert [first.number, second.number] == registry.numbers("risk") == [1, 2]
    assert (registry.names, registry.current("risk")) == (["risk"], 2)
    assert registry.version("risk") == second
    assert registry.version("risk", 1) == first
    assert before == {path.name: path.read_bytes() for path in first.path.iterdir()}
    assert files_of(first.path) == FILES
    assert not first.signed
    assert all(path.stat().st_mode & 0o222 == 0 for path in first.path.iterdir())
    assert first.card == model_card(run)
    assert (load_model(first.path).predict(X) == load_model(run).predict(X)).all()
    assert json.loads((first.path / "guarantee.json").read_text()) == learnt().guarantee_.to_record()
    third = registry.publish(run, "risk", current=False)
    assert (third.number, registry.current("risk")) == (3, 2)
    assert registry.use("risk", 1) == registry.version("risk") == first


def test_signatures(tmp_path, run, other_run):
    key, public = pem(tmp_path / "key.pem", Ed25519PrivateKey.generate())
    _, foreign = pem(tmp_path / "other.pem", Ed25519PrivateKey.generate())
    registry = Registry(tmp_path / "models")
    signed = registry.publish(run, "risk", key=key)
    assert (signed.signed, files_of(signed.path)) == (True, sorted([*FILES, "manifest.sig"]))
    trusted = Registry(tmp_path / "models", public_key=public)
    assert trusted.version("risk") == signed
    with pytest.raises(StateError, match="not that of the known key"):
        Registry(tmp_path / "models", public_key=foreign).version("risk")
    registry.publish(other_run, "risk")
    with pytest.raises(StateError, match="is not signed"):
        trusted.version("risk")
    with pytest.raises(StateError, match="is not signed"):
        trusted.use("risk", 2)
    assert trusted.version("risk", 1) == signed
    # a signed version under another number or name is not what was signed
    shutil.copytree(signed.path, tmp_path / "models" / "risk" / "000003")
    with pytest.raises(StateError, match="of version 1 of 'risk'"):
        trusted.version("risk", 3)
    shutil.copytree(tmp_path / "models" / "risk", tmp_path / "models" / "price")
    with pytest.raises(StateError, match="of version 1 of 'risk'"):
        trusted.version("price", 1)


@pytest.mark.parametrize("file", [*FILES, "manifest.sig"])
@pytest.mark.parametrize("how", ["changed", "cut", "gone"])
def test_damage_is_found(tmp_path, run, file, how):
    key, public = pem(tmp_path / "key.pem", Ed25519PrivateKey.generate())
    signed = Registry(tmp_path / "models").publish(run, "risk", key=key)
    path = signed.path / file
    content = bytearray(path.read_bytes())
    path.unlink()
    content[len(content) // 2] ^= 1
    if how != "gone":
        path.write_bytes(content if how == "changed" else content[: len(content) // 2])
    for public_key in (public, None):
        if public_key is None and file == "manifest.sig":
            continue  # nobody asked for it
        with pytest.raises(StateError):
            Registry(tmp_path / "models", public_key=public_key).version("risk")


def test_a_manifest_has_one_form(tmp_path, run):
    registry = Registry(tmp_path / "models")
    path = registry.publish(run, "risk").path / "manifest.json"
    values = json.loads(path.read_bytes())
    path.unlink()
    path.write_text(json.dumps(values, indent=1))
    with pytest.raises(StateError, match="canonical"):
        registry.version("risk")
    path.write_text(json.dumps({**values, "files": {}}, sort_keys=True, separators=(",", ":")) + "\n")
    with pytest.raises(StateError, match="it has the files"):
        registry.version("risk")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no pipes in folders")
@pytest.mark.parametrize("file", ["model.npz", "manifest.json", "manifest.sig", "../current.json"])
def test_what_is_no_plain_file_or_too_long_is_refused_unread(tmp_path, run, file):
    """Reading a pipe waits for ever, a device has no end, and a hole of a terabyte costs nothing to make."""
    key, public = pem(tmp_path / "key.pem", Ed25519PrivateKey.generate())
    path = Registry(tmp_path / "models").publish(run, "risk", key=key).path / file
    trusted = Registry(tmp_path / "models", public_key=public)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(StateError, match="no plain file"):
        trusted.version("risk")
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(StateError, match="no plain file"):
        trusted.version("risk")
    path.unlink()
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(StateError, match="which are all that it may"):
        trusted.version("risk")


def test_the_card_is_the_one_that_was_verified(tmp_path, run):
    found = Registry(tmp_path / "models").publish(run, "risk")
    read = Registry(tmp_path / "models").version("risk")
    (found.path / "card.json").unlink()
    (found.path / "card.json").write_text('{"guarantee": "any"}')
    assert found.card == read.card == model_card(run)


class Killed(BaseException):
    """The machine stops here."""


def test_whatever_stops_a_publication_leaves_the_version_before(tmp_path, run, other_run, monkeypatch):
    """Before each call that changes the disk in turn: the current version is whole, the next publication succeeds."""
    steps = ("open", "write", "fsync", "replace", "rename", "mkdir")
    real = {name: getattr(os, name) for name in steps}
    key = Ed25519PrivateKey.generate()
    left, died, current = 0, 0, []
    monkeypatch.setattr(shutil, "rmtree", lambda *given, **words: None)  # a process that is killed cleans up nothing

    def step(name, *given, **words):
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        return real[name](*given, **words)

    Registry(tmp_path / "models").publish(run, "risk", key=key)
    monkeypatch.setattr(_versions, "model_card", lambda model: {})  # it takes longer than all else, and writes nothing
    while True:
        folder = tmp_path / f"models-{died}"
        shutil.copytree(tmp_path / "models", folder)
        registry = Registry(folder, public_key=key.public_key())
        left = died
        with monkeypatch.context() as patch:
            for name in steps:
                patch.setattr(os, name, lambda *given, _name=name, **words: step(_name, *given, **words))
            try:
                registry.publish(other_run, "risk", key=key)
            except Killed:
                whole = True
            else:
                whole = False
        if not whole:
            break
        died += 1
        found = registry.version("risk")  # verified
        current.append(found.number)
        again = Registry(folder, public_key=key.public_key())
        assert all(again.version("risk", number) for number in again.numbers("risk"))
    assert died > 40
    assert current == sorted(current)  # the new one from some step on
    assert {1, 2} == set(current)


def test_what_an_earlier_call_could_not_sync_is_synced_before_a_version_is_published(tmp_path, run, monkeypatch):
    """A loss of power would take the whole registry."""
    folder, real, synced, broken = tmp_path / "models", _versions.sync_folder, [], True

    def sync_folder(path):
        synced.append(path)
        if broken:
            raise OSError("the disk")
        real(path)

    monkeypatch.setattr(_versions, "sync_folder", sync_folder)
    with pytest.raises(OSError, match="the disk"):
        Registry(folder)
    broken = False
    registry = Registry(folder)
    assert synced == [tmp_path] * 2
    broken = True
    with pytest.raises(OSError, match="the disk"):
        registry.publish(run, "risk")
    broken = False
    registry.publish(run, "risk")
    assert synced[2:4] == [folder] * 2


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS])
def test_a_version_that_is_read_stays_after_a_loss_of_power(number, tmp_path, run, monkeypatch):
    """Its publisher may have ended between rename and sync: the number would then go to another version."""
    folder, real, synced, fails = tmp_path / "models", _versions.sync_folder, [], False

    def sync_folder(path):
        synced.append(path)
        if fails:
            raise OSError(number, os.strerror(number))
        real(path)

    monkeypatch.setattr(_versions, "sync_folder", sync_folder)
    rename = os.rename

    def rename_and_break(*args):
        nonlocal fails
        rename(*args)
        fails = True

    publisher = Registry(folder)
    with monkeypatch.context() as patch:
        patch.setattr(_versions.os, "rename", rename_and_break)
        with pytest.raises(OSError, match=os.strerror(number)):
            publisher.publish(run, "risk")
    reader = Registry(folder, create=False)
    assert synced.pop() == folder / "risk"
    if number == errno.EIO:
        with pytest.raises(StateError, match=r"000001: its name cannot be synced to the disk: Input/output error"):
            reader.version("risk", 1)
        fails = False
    assert [reader.version("risk", 1).number for _ in range(2)] == [1, 1]
    assert synced[-1] == folder / "risk"
    assert len(synced) == (4 if number == errno.EIO else 3)  # once for each version


def test_what_a_killed_process_left_is_removed(tmp_path, run):
    registry = Registry(tmp_path / "models")
    registry.publish(run, "risk")
    left = tmp_path / "models" / "risk" / f".draft.{'0' * 32}"
    left.mkdir()
    (left / "model.json").write_text("half")
    assert registry.numbers("risk") == [1]
    assert registry.publish(run, "risk").number == 2
    assert not left.exists()


def test_what_is_not_published(tmp_path, run):
    registry = Registry(tmp_path / "models")
    for name in ("", "a/b", "..", "-a", "a" * 65, "a b", 1):
        with pytest.raises(InvalidParameter, match="name must be"):
            registry.publish(run, name)
    with pytest.raises(StateError, match=r"model\.json is missing"):
        registry.publish(tmp_path, "risk")
    damaged = tmp_path / "damaged"
    shutil.copytree(run, damaged)
    (damaged / "model.npz").write_bytes(b"x")
    with pytest.raises(StateError, match="checksum") as caught:
        registry.publish(damaged, "risk")
    assert str(damaged) in str(caught.value)  # and not a draft that is gone
    assert ".draft" not in str(caught.value)
    seeded = saved(tmp_path / "seeded", random_state=1)
    with pytest.raises(InvalidParameter, match="NOT PRIVATE"):
        registry.publish(seeded, "risk")
    assert registry.names == []  # nothing is half there
    assert registry.publish(seeded, "risk", allow_not_private=True).card["guarantee"]["private"] is False
    lock = LockFile(tmp_path / "models" / "risk" / ".lock")
    with pytest.raises(StateError, match="another process is publishing"):
        registry.publish(run, "risk")
    lock.release()
    assert registry.publish(run, "risk").number == 2


def test_bad_keys(tmp_path, run):
    registry = Registry(tmp_path / "models")
    encrypted, public = pem(tmp_path / "locked.pem", Ed25519PrivateKey.generate(), password=b"secret words")
    curve, curve_public = pem(tmp_path / "curve.pem", generate_private_key(SECP256R1()))
    (tmp_path / "text").write_text("SECRET")
    for key, says in ((encrypted, "encrypted"), (curve, "another kind"), (tmp_path / "text", "no private key"),
                      (tmp_path / "none", "cannot be read"), (public, "no private key")):  # fmt: skip
        with pytest.raises(InvalidParameter, match=says) as found:
            registry.publish(run, "risk", key=key)
        assert "SECRET" not in str(found.value)
    for key, says in ((curve_public, "another kind"), (encrypted, "no public key"), (tmp_path / "none", "cannot be")):
        with pytest.raises(InvalidParameter, match=says):
            Registry(tmp_path / "models", public_key=key)
    assert registry.names == []


def test_directories_that_are_no_registry(tmp_path, run):
    with pytest.raises(StateError, match="is no registry"):
        Registry(tmp_path / "none", create=False)
    with pytest.raises(StateError, match="not empty"):
        Registry(run)
    assert not is_registry(run)
    folder = tmp_path / "models"
    Registry(folder)
    with pytest.raises(StateError, match="no model 'risk', it is empty"):
        Registry(folder).current("risk")
    (folder / "registry.json").write_text('{"format": "privol.registry", "version": 2}')
    with pytest.raises(StateError, match="version 2; this release"):
        Registry(folder)
    (folder / "registry.json").write_text("{")
    with pytest.raises(StateError, match="cannot be read"):
        Registry(folder)


@pytest.mark.parametrize("text", ["", "{}", '{"number": "1"}', '{"number": true}', '{"number": 0}', "[1]"])
def test_a_damaged_pointer(tmp_path, run, text):
    registry = Registry(tmp_path / "models")
    registry.publish(run, "risk")
    (tmp_path / "models" / "risk" / "current.json").write_text(text)
    with pytest.raises(StateError, match="cannot be read"):
        registry.version("risk")
    assert registry.version("risk", 1).number == 1
    (tmp_path / "models" / "risk" / "current.json").write_text('{"number": 7}')
    with pytest.raises(StateError, match="no version 7"):
        registry.version("risk")


def test_commands(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    key, public = pem(tmp_path / "key.pem", Ed25519PrivateKey.generate())
    done = privol_cli("publish", run, "MODELS", "--name", "risk", "--key", key)
    assert (done.exit_code, done.stdout) == (OK, "MODELS/risk/000001: version 1 of risk\n")
    done = privol_cli("publish", run, "MODELS", "--name", "risk", "--not-current", "--json")
    assert json.loads(done.stdout)["signed"] is False
    done = privol_cli("registry", "MODELS")
    assert done.exit_code == OK
    first, second = done.stdout.splitlines()
    assert first.startswith("* risk 1  20")
    assert second.startswith("  risk 2  20")
    assert second.endswith("  not signed")
    done = privol_cli("registry", "MODELS", "--public-key", public)
    assert done.exit_code == IO
    assert "risk 2  MODELS/risk/000002: is not signed" in done.stdout
    assert "1 of 2 version(s) cannot be used" in done.stderr
    assert privol_cli("registry", "MODELS", "--use", "2").exit_code == USAGE
    assert privol_cli("registry", "MODELS", "--name", "risk", "--use", "2").exit_code == OK
    assert Registry("MODELS").current("risk") == 2
    done = privol_cli("publish", tmp_path, "MODELS", "--name", "risk")
    assert (done.exit_code, "no saved model here" in done.stderr) == (IO, True)
    done = privol_cli("registry", tmp_path)
    assert (done.exit_code, "is no registry" in done.stderr) == (IO, True)
