"""What this machine can do at most, and what a row cannot do without: ``python bench/limits.py`` prints the rates.

Nothing here is a time that somebody wrote down. The rates are measured in the process that asks for them, when it first
does, each as the least of some rounds of processor time:

* a block of the keystream: 128 bits of AES-256 by OpenSSL, the cipher that the kernels call, 8,192 blocks at a time;
* a noise value: the first pass of a sampler over words that are there, at the instruction set that privol uses;
* a multiply-add: in a product of matrices that stay in the cache, by NumPy's BLAS on one thread. An addition or a
  multiplication alone takes the same place;
* an exponential: NumPy's, over an array in the nearest cache;
* a byte read or written in the nearest cache (a copy), and one read from memory (a sum) or written to it (a fill);
* a call: of a C function with two arguments from a Python loop; a cell: the next value of a dict, in C. One
  that is looked up by its name takes longer, but rows with the same names in the same order need no look-up.

A :class:`Work` counts what a row, a step or a value needs at least, from the code as it is written. Its limit, in
nanoseconds, is

    max(memory, blocks + values + exponentials + calls + cells + max(multiply-adds, nearest cache)),

because a core does one after the other what it does itself, has separate units for arithmetic and for loads, and can
fetch the rows that come while it works. Where a second core draws the noise ahead, blocks and values are a third side
of the outer maximum. **It leaves out all waiting**: operations that need each other's results (a row's gradient for the
point of the row before, an exponential for the score), branches, and what only the written code needs beside it. No
program comes to 100 %; what is far below waits or does more than it has to. As rates are the best of several rounds and
figures are medians, a busy machine makes the share smaller, never larger. Rows count as read from memory: where few of
them stay in a cache (``--quick``), that part of the limit is too large.
"""

from __future__ import annotations

import math
import operator
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from figures import Limit, figure, no_limit, number, show
from threadpoolctl import threadpool_limits

import privol
from privol._core._noise import first_pass_open

INSTRUCTIONS = ("avx2", "avx512f", "aes", "vaes", "sha_ni")
BUFFERS = 4  # of a BLT, by default


def machine() -> str:
    """Return the conditions of the figures: processor, its features, its load, versions."""
    import cpuinfo  # only runs need it, not lists of commands

    info = cpuinfo.get_cpu_info()
    flags = [name for name in INSTRUCTIONS if name in info.get("flags", ())]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    config = privol.show_config()
    libraries = ", ".join(f"{name} {found}" for name, found in config["dependencies"].items() if found)
    return "\n".join(
        [
            f"{info.get('brand_raw', 'unnamed processor')}, {cores} of {os.cpu_count()} processors, {' '.join(flags)}",
            f"load of the last minute {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "load not known",
            f"noise kernels of {config['instruction_set']}, {config['cipher']}",
            f"privol {config['privol']}, Python {config['python']}, {libraries}",
        ]
    )


# ---- rates: nanoseconds ----------------------------------------------------------------------------------------


def _least(run: Callable[[], Any], rounds: int = 15) -> float:
    run()
    best = math.inf
    for _ in range(rounds):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best * 1e9


@cache
def block() -> float:
    """Of 128 bits of keystream."""
    encryptor = Cipher(algorithms.AES(os.urandom(32)), modes.ECB()).encryptor()
    addresses, words = bytearray(1 << 17), bytearray((1 << 17) + 16)
    return _least(lambda: [encryptor.update_into(addresses, words) for _ in range(8)]) / (1 << 16)


@cache
def value(law: str = "gaussian") -> float:
    """Of a noise value in the first pass, whose word is there."""
    words = np.random.default_rng(0).integers(0, 1 << 64, 1 << 13, dtype=np.uint64)
    return _least(lambda: [first_pass_open(words, 1.0, law) for _ in range(20)]) / (20 * words.size)


@cache
def multiply_add() -> float:
    """Of a multiplication with an addition in float64, by BLAS in the cache."""
    n = 192
    left, right, product = np.ones((n, n)), np.ones((n, n)), np.empty((n, n))
    with threadpool_limits(1):
        return _least(lambda: [np.matmul(left, right, out=product) for _ in range(4)]) / (4 * n**3)


@cache
def exponential() -> float:
    """Of an exponential among many."""
    powers, found = np.linspace(-3.0, 3.0, 1024), np.empty(1024)
    return _least(lambda: [np.exp(powers, out=found) for _ in range(200)]) / (200 * 1024)


@cache
def near() -> float:
    """Of a byte read or written in the nearest cache: what 8 KiB more to copy take."""

    def copies(size: int) -> float:
        source, copy = memoryview(bytearray(size)), memoryview(bytearray(size))

        def run() -> None:
            for _ in range(4000):
                copy[:] = source

        return _least(run) / 4000

    few, more = 2048, 10240
    return (copies(more) - copies(few)) / (2 * (more - few))


@cache
def memory() -> float:
    """Of a byte read from memory, one after the other."""
    numbers = np.ones(1 << 24)
    return _least(lambda: np.add.reduce(numbers), 5) / numbers.nbytes


@cache
def written() -> float:
    """Of a byte written to memory, one after the other."""
    numbers = np.ones(1 << 24)
    return _least(lambda: numbers.fill(1.0), 5) / numbers.nbytes


@cache
def call() -> float:
    """Of a call from a Python loop, with two arguments from lists."""
    things, function = [object()] * 20_000, operator.is_

    def run() -> None:
        for i in range(20_000):
            function(things[i], things[i])

    return _least(run) / 20_000


@cache
def cell() -> float:
    """Of a dict's next value."""
    names = [f"feature {j}" for j in range(54)]
    rows = [dict(zip(names, map(float, range(54)), strict=True)) for _ in range(500)]
    return _least(lambda: [list(row.values()) for row in rows]) / (500 * len(names))


# ---- work ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """Counts of what a row, a step or a value needs at least: see the top of this file."""

    blocks: float = 0.0
    values: float = 0.0
    exponentials: float = 0.0
    calls: float = 0.0
    cells: float = 0.0
    multiply_adds: float = 0.0
    near: float = 0.0
    memory: float = 0.0
    written: float = 0.0
    law: str = "gaussian"

    def __add__(self, other: Work) -> Work:
        if self.law != other.law and self.values and other.values:
            raise ValueError(f"values of two laws, {self.law} and {other.law}, have no common rate")
        sums = {name: getattr(self, name) + getattr(other, name) for name in COUNTS}
        return Work(**sums, law=self.law if self.values else other.law)

    def __mul__(self, times: float) -> Work:
        return Work(**{name: getattr(self, name) * times for name in COUNTS}, law=self.law)

    def nanoseconds(self, cores: int = 1) -> float:
        """Return the limit; with two cores, the second draws the noise."""
        noise, own, fetched = (sum(ns for _, ns in terms) for terms in self._sides())
        return max(noise, own, fetched) if cores > 1 else max(noise + own, fetched)

    def limit(self, unit: str, cores: int = 1) -> Limit:
        """Return the limit in a figure's unit, with what it consists of (parts below 0.5 % are not listed)."""
        noise, own, fetched = self._sides()
        most = max(ns for side in (noise, own, fetched) for _, ns in side)
        noise, own, fetched = ([term for term in side if term[1] > most / 200] for side in (noise, own, fetched))
        told = [" + ".join(f"{text} {number(ns)}" for text, ns in side) for side in (noise, own, fetched) if side]
        doing = [" + ".join(f"{text} {number(ns)}" for text, ns in noise + own)] if noise + own else []
        sides = told if cores > 1 else doing + ([told[-1]] if fetched else [])
        of = sides[0] if len(sides) == 1 else "the larger of: " + "; ".join(sides)
        return Limit(in_unit(self.nanoseconds(cores), unit), f"ns: {of}")

    def _sides(self) -> tuple[list[tuple[str, float]], ...]:
        """Nanoseconds of the noise, of what else the core does itself, and of what it fetches meanwhile."""
        rates = {
            "blocks": ("blocks of keystream", block), "values": ("noise values", lambda: value(self.law)),
            "exponentials": ("exponentials", exponential), "calls": ("calls", call), "cells": ("cells of a dict", cell),
            "multiply_adds": ("multiply-adds", multiply_add), "near": ("bytes in the nearest cache", near),
            "memory": ("bytes from memory", memory), "written": ("bytes to memory", written),
        }  # fmt: skip
        found = {}
        for name, (text, rate) in rates.items():
            if count := getattr(self, name):
                found[name] = (f"{number(count)} {text}", count * rate())
        arithmetic = [found.pop(name) for name in ("multiply_adds", "near") if name in found]
        fetched = [found.pop(name) for name in ("memory", "written") if name in found]
        noise = [found.pop(name) for name in ("blocks", "values") if name in found]
        return noise, [*found.values(), *([max(arithmetic, key=operator.itemgetter(1))] if arithmetic else [])], fetched


COUNTS = tuple(field.name for field in fields(Work) if field.name != "law")


def in_unit(nanoseconds: float, unit: str) -> float:
    """Return a time in another unit, such as "us/row", or as a speed, such as "million rows/s"."""
    times = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
    if (first := unit.partition("/")[0].partition(" ")[0]) in times:
        return nanoseconds / times[first]
    if unit.endswith("/s"):
        return 1e9 / nanoseconds / {"million": 1e6, "1,000": 1e3}.get(unit.partition(" ")[0], 1.0)
    raise ValueError(f"{unit!r} is no time, and nothing a second")


# ---- what the pieces of a learner need at least, d coordinates ---------------------------------------------------


def of_row(features: int, d: int | None = None) -> Work:
    """A dense row of float64 from memory, with its label, and its gradient: norm, score, slope, update."""
    d = features + 1 if d is None else d
    return Work(memory=8.0 * features + 8.0, multiply_adds=3.0 * d, exponentials=1.0)


def of_noise(d: float, law: str = "gaussian", bits: int = 64) -> Work:
    """Noise of d coordinates: words of so many bits each."""
    return Work(blocks=float(math.ceil(d * bits / 128)), values=float(d), law=law)


def of_release(d: int) -> Work:
    """A model that is released: its norm, scaling, average; read once and written twice."""
    return Work(multiply_adds=3.0 * d, near=8.0 * 3 * d)


def of_sums(d: int, design: str = "blt") -> Work:
    """A step of private prefix sums. A BLT mixes its buffers with the sum and separates them again, exactly and from
    what was released: 33 additions and multiplications a coordinate, none of which may be fused, as the bits would
    change; two sets of four buffers are read and written, the sum and what is released too. The other designs add a row
    to a sum, and what is released to another."""
    if design == "blt":
        return Work(multiply_adds=33.0 * d, near=8.0 * d * 2 * (2 * BUFFERS + 2))
    return Work(multiply_adds=2.0 * d, near=8.0 * d * 4)


def of_moments(features: int) -> Work:
    """The moments v v' and y v of a row: products of all pairs, added to their sums."""
    sums = moments(features)
    return Work(multiply_adds=float(sums))


def moments(features: int) -> int:
    """How many sums the moments of a row are, with the intercept: those of v v' once, and those of y v."""
    d = features + 1
    return d * (d + 1) // 2 + d


def of_ridge(features: int) -> Work:
    """A model from the moments: Cholesky's factor, and two triangular systems."""
    d = features + 1
    return Work(multiply_adds=d**3 / 6 + d**2)


def main() -> None:
    print(machine())
    rows = []
    for name, rate, unit in (
        ("a block of 128 bits of keystream", block(), "ns"),
        *((f"a noise value in the first pass, {law}", value(law), "ns") for law in ("gaussian", "laplace")),
        ("multiply-adds in float64", 1e3 / multiply_add(), "million/s"),
        ("an exponential among many", exponential(), "ns"),
        ("read and written in the nearest cache", 1.0 / near(), "GB/s"),
        ("read from memory", 1.0 / memory(), "GB/s"),
        ("written to memory", 1.0 / written(), "GB/s"),
        ("a call from Python", call(), "ns"),
        ("a cell of a dict", cell(), "ns"),
    ):
        rows.append(figure(name, unit, rate, limit=no_limit("it is what other limits are made of")))
    show(rows)


if __name__ == "__main__":
    main()
