"""The same bits for NumPy, whose own samplers are outside privol's guarantees."""

from __future__ import annotations

from typing import Any, Self

from .._core._bitgen import KeyedBitGenerator, fits_numpy
from .._validate import integer
from ..errors import SourceFailure
from .bits import STREAM_GENERATOR, make_source

__all__ = ["BitGenerator"]


class BitGenerator(KeyedBitGenerator):
    """Cryptographic bits for :class:`numpy.random.Generator`: simulation, shuffling, sampling of rows, keys.

    ``numpy.random.Generator(privol.noise.BitGenerator())`` draws from AES-256 in counter mode, keyed by the operating
    system. **The Generator's floating-point samplers are not privacy noise**: the last bits of ``normal()`` or
    ``laplace()`` can give away what they are added to (Mironov 2012), however good the random bits are. Privacy noise
    is :class:`Gaussian` and its siblings.

    Parameters
    ----------
    random_state : None, int, SeedSequence, BitGenerator, Generator or RandomState
        ``None``: a fresh key from the operating system. Anything else: reproducible, and not secret. See
        :func:`make_source`.

    Attributes
    ----------
    private : bool
        Whether the key is known to nobody.
    description : str
        What the bits are.
    lock : Keystream
        What NumPy holds while it draws, as of any of its bit generators; it refuses where no words may be drawn.

    Notes
    -----
    Never two identical streams. It cannot be pickled or copied, has no readable state and does not jump; a Generator
    that holds it cannot be pickled or deeply copied either (``copy.copy`` of a Generator shares its bit generator, and
    so the stream). In a forked child every method of a Generator raises ``SourceFailure``. Code that reads the C
    interface without taking the lock (Numba) has no way to be told: there the process ends with a fatal error, as it
    does should the cipher fail in the middle of a call.

    64-bit words are those of stream ``STREAM_GENERATOR``, rows 0, 1, ... of 8192 words, each overwritten once it is
    read. About 2 ns a word.
    """

    def __new__(cls, random_state: Any = None) -> Self:
        """Refuse a NumPy whose bit generators have other fields, before memory is laid out by them."""
        if not fits_numpy():
            raise SourceFailure("privol was compiled for another version of NumPy's bit generators: install it again")
        return super().__new__(cls)

    def __init__(self, random_state: Any = None) -> None:
        super().__init__(make_source(random_state), stream=STREAM_GENERATOR)

    def __repr__(self) -> str:
        return f"<BitGenerator: {self.description}>"

    def spawn(self, n_children: int) -> list[Self]:
        """Return independent bit generators: with fresh keys, or for a seeded one with keys drawn from it."""
        n = integer(n_children=n_children, at_least=0)
        return [type(self)(None if self.private else self) for _ in range(n)]
