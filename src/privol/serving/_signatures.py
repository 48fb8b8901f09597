"""Who made a version: Ed25519 signatures over its manifest, by keys in PEM files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from ..errors import InvalidParameter

__all__ = ["PrivateKey", "PublicKey", "private_key_of", "public_key_of", "sign", "signed_by"]

PrivateKey: TypeAlias = "Ed25519PrivateKey | str | os.PathLike[str]"
PublicKey: TypeAlias = "Ed25519PublicKey | str | os.PathLike[str]"

# Before what is signed: a signature for anything else by the same key is none for a manifest.
_PURPOSE = b"privol.registry manifest, version 1\n"


def _read(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidParameter(f"{os.fspath(path)}: the key cannot be read: {error.strerror}") from error


def private_key_of(given: PrivateKey) -> Ed25519PrivateKey:
    """Return the key of a PEM file (PKCS #8, not encrypted), or the key itself.

    Raises
    ------
    InvalidParameter
        If it cannot be read, or is no private key of Ed25519. No part of the file is shown.
    """
    if isinstance(given, Ed25519PrivateKey):
        return given
    content = _read(given)
    try:
        found = load_pem_private_key(content, password=None)
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        what = "is encrypted" if isinstance(error, TypeError) else "is no private key in PEM"
        raise InvalidParameter(f"{os.fspath(given)}: {what}; allowed is one of Ed25519 that is not encrypted") from None
    if not isinstance(found, Ed25519PrivateKey):
        raise InvalidParameter(f"{os.fspath(given)}: found another kind of private key, allowed is Ed25519")
    return found


def public_key_of(given: PublicKey) -> Ed25519PublicKey:
    """Return the key of a PEM file, or the key itself.

    Raises
    ------
    InvalidParameter
        If it cannot be read, or is no public key of Ed25519.
    """
    if isinstance(given, Ed25519PublicKey):
        return given
    content = _read(given)
    try:
        found = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidParameter(f"{os.fspath(given)}: is no public key in PEM") from None
    if not isinstance(found, Ed25519PublicKey):
        raise InvalidParameter(f"{os.fspath(given)}: found another kind of public key, allowed is Ed25519")
    return found


def sign(manifest: bytes, key: Ed25519PrivateKey) -> bytes:
    """Return the signature of a manifest, 64 bytes."""
    return key.sign(_PURPOSE + manifest)


def signed_by(manifest: bytes, signature: bytes, key: Ed25519PublicKey) -> bool:
    """Whether the owner of a key has signed a manifest."""
    try:
        key.verify(signature, _PURPOSE + manifest)
    except InvalidSignature:
        return False
    return True
