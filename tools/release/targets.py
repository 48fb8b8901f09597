"""What wheels are built for: a kind of processor, a C library, and the compiler that makes code for them."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A platform that gets wheels.

    Attributes
    ----------
    name : str
        What the command line calls it.
    machine : str
        The processor's kind, as Linux names it.
    tag : str
        The platform tag that its wheels must have at most: one of an older C library is better, a newer one is refused.
    triple : str or None
        What Zig's C compiler calls the target; None: the compiler of this machine (``$CC``, else ``cc``).
    libc : str
        How CPython's file names end there: ``gnu`` or ``musl``.
    """

    name: str
    machine: str
    tag: str
    triple: str | None
    libc: str

    @property
    def suffix(self) -> str:
        """Return how CPython names the platform in file names of extension modules."""
        return f"{self.machine}-linux-{self.libc}"


#: x86-64 with the GNU C library is what the build machine itself is: its compiler is the one that all tests ran with.
TARGETS = (
    Target("manylinux-x86_64", "x86_64", "manylinux_2_17_x86_64", None, "gnu"),
    Target("manylinux-aarch64", "aarch64", "manylinux_2_17_aarch64", "aarch64-linux-gnu.2.17", "gnu"),
    Target("musllinux-x86_64", "x86_64", "musllinux_1_2_x86_64", "x86_64-linux-musl", "musl"),
    Target("musllinux-aarch64", "aarch64", "musllinux_1_2_aarch64", "aarch64-linux-musl", "musl"),
)
BY_NAME = {target.name: target for target in TARGETS}


def zig() -> list[str]:
    """Return the command of Zig, which comes as the package ``ziglang``."""
    return [sys.executable, "-m", "ziglang"]


def compiler(target: Target, own: str) -> list[str]:
    """Return the command of the C compiler for a target; ``own`` is that of this machine."""
    return own.split() if target.triple is None else [*zig(), "cc", "-target", target.triple]
