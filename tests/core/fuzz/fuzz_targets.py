"""What the fuzz targets of records and of doors have in common: checks by kind, mutated seeds, and a fuzzer's run."""

from __future__ import annotations

import importlib
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Targets", "drive"]


@dataclass(frozen=True)
class Targets:
    """Checks of inputs by kind.

    Parameters
    ----------
    checks : dict
        By kind, what takes an input and a folder of its own.
    seeds : callable
        Of a kind, inputs that are right.
    mutate : callable
        One change of an input of a kind.
    allowed : tuple of exceptions
        What a check may end in.
    """

    checks: dict[str, Callable[[bytes, Path], None]]
    seeds: Callable[[str], list[bytes]]
    mutate: Callable[[str, bytes, random.Random], bytes]
    allowed: tuple[type[Exception], ...]

    def check(self, kind: str, data: bytes, folder: Path) -> bool:
        """Whether an input is read; anything but an error of privol is raised."""
        try:
            self.checks[kind](data, folder)
        except self.allowed:
            return False
        return True

    def mutations(self, kind: str, count: int, seed: int) -> Iterator[bytes]:
        """Inputs for the test suite, without a fuzzer."""
        rng = random.Random(seed)
        for _ in range(count):
            yield self.mutate(kind, rng.choice(self.seeds(kind)), rng)


def drive(name: str, rooms: tuple[str, ...]) -> None:
    """Fuzz one kind of a module's inputs with libFuzzer: ``NAME.py KIND [corpus ...] [-max_total_time=...]``.

    The module has ``TARGETS``, and in ``_made`` the inputs that belong together: a run and its ledger.
    """
    import atheris

    kind, own = sys.argv.pop(1), importlib.import_module(name)
    with tempfile.TemporaryDirectory() as temporary:
        folder, corpus = Path(temporary) / "input", Path(temporary) / "seeds"
        folder.mkdir()
        corpus.mkdir()
        for number, data in enumerate([*own.TARGETS.seeds(kind), *own.TARGETS.mutations(kind, 100, 1)]):
            (corpus / str(number)).write_bytes(data)
        # imported again, with the counters that libFuzzer reads
        for module in [module for module in sys.modules if module.startswith((*rooms, "fuzz_"))]:
            del sys.modules[module]
        with atheris.instrument_imports(include=[*rooms]):
            again = importlib.import_module(name)
        again._made = own._made

        def check(data: bytes) -> None:
            try:
                again.TARGETS.check(kind, data, folder)
            except BaseException:
                print(f"found by {data!r}", flush=True)
                raise

        def changed(data: bytes, most: int, seed: int) -> bytes:
            return bytes(own.TARGETS.mutate(kind, data, random.Random(seed)))[:most]

        atheris.Setup([*sys.argv, str(corpus)], check, custom_mutator=changed)
        atheris.Fuzz()
