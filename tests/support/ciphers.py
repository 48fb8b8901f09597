"""A cipher between privol and OpenSSL that records the traffic and fails on request."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher as OpenSSL

from privol._core import _noise


@dataclass
class Watched:
    """The actions of the ciphers made since ``watch``.

    Attributes
    ----------
    addresses : list of (key, bytes)
        All 16-byte addresses encrypted, in order.
    outputs : list of (int, int)
        Memory address and length of every output.
    fail : callable or None
        ``fail(real, data, out)`` in place of ``real.update_into(data, out)``.
    """

    addresses: list[tuple[bytes, bytes]] = field(default_factory=list)
    outputs: list[tuple[int, int]] = field(default_factory=list)
    fail: object = None

    def output(self, k=-1):
        """The present content of an output's memory; its owner must be alive."""
        return ctypes.string_at(*self.outputs[k])


def watch(monkeypatch):
    """Put a watched cipher into all noise sources made from now on."""
    watched = Watched()

    class Cipher:
        def __init__(self, algorithm, mode):
            self.key, self.real = bytes(algorithm.key), OpenSSL(algorithm, mode).encryptor()

        def encryptor(self):
            return self

        def update_into(self, data, out):
            blocks = bytes(data)
            watched.addresses += [(self.key, blocks[i : i + 16]) for i in range(0, len(blocks), 16)]
            watched.outputs.append((np.frombuffer(out, np.uint8).ctypes.data, len(blocks)))
            if watched.fail is not None:
                return watched.fail(self.real, data, out)
            return self.real.update_into(data, out)

    monkeypatch.setattr(_noise, "Cipher", Cipher)
    return watched


def deepen(monkeypatch):
    """Make all future noise sources so deep in the tail that the first coordinate takes the last resort.

    Its word, the first at level 0 of every row, is zero; the following digits are the cipher's.
    """

    class Cipher:
        def __init__(self, algorithm, mode):
            self.real = OpenSSL(algorithm, mode).encryptor()

        def encryptor(self):
            return self

        def update_into(self, data, out):
            written = self.real.update_into(data, out)
            for i in range(0, len(data), 16):
                if bytes(data[i + 2 : i + 8]) == bytes(6):  # level 0, block 0
                    out[i : i + 8] = bytes(8)
            return written

    monkeypatch.setattr(_noise, "Cipher", Cipher)


def breaks(real, data, out):
    raise RuntimeError("the cipher is broken")


def stops_short(real, data, out):
    return real.update_into(data[:-16], out)


def writes_nothing(real, data, out):
    return 0


def writes_too_much(real, data, out):
    real.update_into(data, out)
    return len(data) + 16


FAILURES = [breaks, stops_short, writes_nothing, writes_too_much]
