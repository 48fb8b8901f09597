"""Searches everything that leaves a run for secrets: as bytes, numbers in texts, hex or base64, and inside archives.

The search compares eight bytes at a time: a double, two neighbouring floats of single precision, a part of a key; or a
number with at least six significant digits in a text. By chance, one of ten thousand secrets occurs in a random
megabyte with probability below 1e-9. Uninformative numbers (0, 0.25, 1000) are no secrets, and neither are released
ones.
"""

from __future__ import annotations

import base64
import functools
import gc
import inspect
import io
import itertools
import math
import pathlib
import re
import struct
import traceback
import types
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Secrets", "of_run", "reachable", "story", "surface"]

NUMERAL = re.compile(r"(?<![\w.])\d*\.?\d+(?:[eE][-+]?\d+)?(?![\w.])")
HEXADECIMAL = re.compile(rb"0x[01]\.[0-9a-f]+p[+-]\d+")
HEX = re.compile(rb"[0-9a-fA-F]{16,}")
BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{11,}")
ESCAPE = re.compile(rb"\\(x[0-9a-f]{2}|[\\'\"nrt])")
MEANT = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}
SMALL_NUMBERS = re.compile(rb"\d{1,3}(?:[,\s]+\d{1,3}){7,}")


def digits(x: float) -> int:
    """The significant digits needed to write a number."""
    return len(f"{x!r}".split("e")[0].replace(".", "").replace("-", "").strip("0"))


class Secrets:
    """Numbers, keys and words that must not be found anywhere.

    ``but``: numbers that were released, and so are not secret.
    """

    def __init__(self) -> None:
        self._sorted: Any = None
        self._marked: Any = None
        self._known: Any = None
        self._clean: set[bytes] = set()  # runs of hex or base64 without findings so far
        self._words: dict[int, str] = {}  # eight bytes, read as a little-endian number
        self._numbers: dict[float, str] = {}
        self._many: set[str] = set()
        self._hexadecimals: dict[bytes, str] = {}
        self._texts: dict[bytes, str] = {}

    def copy(self) -> Secrets:
        """The same secrets, as a copy to which others may be added."""
        other = Secrets()
        for name, value in vars(self).items():
            setattr(other, name, value.copy() if isinstance(value, (dict, set)) else value)
        return other

    def __len__(self) -> int:
        return len(self._words) + len(self._texts)

    def _word(self, content: bytes, name: str) -> None:
        if len(set(content)) > 4:
            self._words[int.from_bytes(content, "little")] = name

    def _changed(self) -> None:
        self._sorted = self._known = None
        self._clean.clear()

    def numbers(self, name: str, values: Any, *, but: Any = (), many: bool = False) -> None:
        """Add numbers: floating-point ones, or integers that may be either (the memory of a run).

        ``many``: so many that one of them resembles some number of eight digits by chance; two do not.
        """
        if many:
            self._many.add(name)
        values = np.asarray(values).ravel()
        released = np.abs(np.concatenate([np.asarray(b, dtype=np.float64).ravel() for b in but] or [np.empty(0)]))
        if values.dtype.kind in "iu":
            whole, values = values.astype(np.float64), values.astype(np.int64).view(np.float64)
            self._reals(name, whole[(np.abs(whole) > 1e6) & ~np.isin(np.abs(values), released)], released)
            values = values[np.isfinite(values) & (np.abs(values) > 1e-30) & (np.abs(values) < 1e30)]
        self._reals(name, values.astype(np.float64), released)

    def _reals(self, name: str, values: Any, released: Any) -> None:
        least = 10 if name in self._many else 6  # numbers on a coarse lattice resemble many others
        kept = [float(v) for v in values if digits(float(v)) >= least and abs(v) not in released]
        for k, value in enumerate(kept):
            called = f"{name}[{k}] = {value!r}"
            for order in "<>":
                self._word(struct.pack(f"{order}d", value), called)
                self._word(struct.pack(f"{order}d", -value), called)
                if float(value).is_integer() and abs(value) < 2.0**63:
                    self._word(struct.pack(f"{order}q", int(value)), called)
            self._hexadecimals[value.hex().lstrip("-").encode()] = called
            self._numbers[abs(value)] = called
        with np.errstate(over="ignore"):
            pairs = [struct.pack("<2f", *np.float32(pair)) for pair in itertools.pairwise(kept)]
        for pair in pairs:
            self._word(pair, f"two neighbours of {name} in single precision")
        self._changed()

    def key(self, name: str, key: bytes) -> None:
        """Add a key: any eight bytes of it."""
        assert len(key) == 32
        for content in (key, key[::-1]):
            for k in range(25):
                self._word(content[k : k + 8], name)
            self._texts[str(int.from_bytes(content, "big")).encode()] = name
        self._changed()

    def text(self, name: str, words: str) -> None:
        for encoding in ("utf-8", "utf-16-le", "utf-32-le"):
            self._texts[words.encode(encoding)] = name

    # ---- searching --------------------------------------------------------------------------------------------

    def found_in(self, haystack: bytes | str) -> list[str]:
        """Names of the secrets found there."""
        content = haystack.encode("utf-8", "surrogateescape") if isinstance(haystack, str) else haystack
        runs: set[bytes] = set()
        found = self._in_bytes(b"\0\xff".join(_parts(content, self._clean, runs)))  # eight bytes at any position
        if not found:
            self._clean |= runs
        found |= {name for text, name in self._texts.items() if text in content}
        found |= {self._hexadecimals[text] for text in HEXADECIMAL.findall(content) if text in self._hexadecimals}
        return sorted(found | self._in_text(content.decode("latin-1")))

    def _in_bytes(self, content: bytes) -> set[str]:
        if self._sorted is None:
            self._sorted = np.sort(np.fromiter(self._words, dtype=np.uint64, count=len(self._words)))
            self._marked = np.zeros(1 << 20, dtype=np.bool_)
            self._marked[_mark(self._sorted)] = True
        if len(content) < 8:
            return set()
        words = np.ndarray(len(content) - 7, "<u8", content, strides=(1,)).astype(np.uint64)  # at every position
        words = words[self._marked[_mark(words)]]  # few remain
        near = self._sorted[np.minimum(np.searchsorted(self._sorted, words), len(self._sorted) - 1)]
        return {self._words[int(w)] for w in words[near == words]}

    def _in_text(self, text: str) -> set[str]:
        if self._known is None:
            self._known = np.sort(np.fromiter(self._numbers, dtype=np.float64, count=len(self._numbers)))
        known, found, doubtful = self._known, set(), {}
        for written in set(NUMERAL.findall(text)):
            k = len(re.split("[eE]", written)[0].replace(".", "").lstrip("0"))
            if k < 6 or not known.size:
                continue
            value = float(written)
            for near in known[max(0, int(np.searchsorted(known, value)) - 1) :][:2]:
                last = 10.0 ** (math.floor(math.log10(near)) - min(k, 17) + 1)  # the last digit that is written
                if abs(value - near) <= 1.01 * last:
                    called = self._numbers[near]
                    group = called.split("[")[0]
                    if k < 10 and group in self._many:
                        doubtful.setdefault(group, set()).add(f"{called} as {written}")
                    else:
                        found.add(f"{called} as {written}")
        return found.union(*(names for names in doubtful.values() if len(names) > 1))


def _mark(words: Any) -> Any:
    """Twenty bits that depend on the whole word."""
    return (words * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(44)


def _parts(content: bytes, clean: set[bytes], runs: set[bytes]) -> Iterator[bytes]:
    """The content, its decoded hex, base64, escapes and lists of small numbers, and the contents of archives.

    Runs of hex or base64 without findings are left out; the others are added to ``runs``.
    """
    yield content
    for run in {b"#" + run for run in HEX.findall(content)} - clean:  # marked: it may be base64 as well
        runs.add(run)
        for start in (1, 2):
            part = run[start:]
            yield bytes.fromhex(part[: len(part) // 2 * 2].decode())
    for run in set(BASE64.findall(content)) - clean:
        runs.add(run)
        for start in range(4):
            part = run.replace(b"-", b"+").replace(b"_", b"/")[start:] + b"AAA"
            yield base64.b64decode(part[: len(part) // 4 * 4])
    if b"\\x" in content:
        yield ESCAPE.sub(
            lambda m: bytes.fromhex(m[1][1:].decode()) if m[1][:1] == b"x" else MEANT.get(m[1], m[1]), content
        )
    for match in SMALL_NUMBERS.finditer(content):
        values = [int(v) for v in re.split(rb"[,\s]+", match.group())]
        if max(values) < 256:
            yield bytes(values)
    if content[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in archive.namelist():
                yield from _parts(archive.read(name), clean, runs)


# ---- what a run keeps to itself -----------------------------------------------------------------------------------


def of_run(secrets: Secrets, state: Any, moments: Any = ()) -> None:
    """Add the secrets of a live compiled run; ``moments``: its other releases."""
    arrays = state.secret_arrays()
    released = [arrays[name] for name in ("released", "released_sum", "point") if name in arrays]
    if "counts" in arrays and arrays["counts"][1] and "released_sum" in arrays:
        released.append(arrays["released_sum"] / arrays["counts"][1])
    for name, array in arrays.items():
        if name in ("iterate", "scale_norm", "sum", "sums", "memory", "gradients"):
            secrets.numbers(name, array, but=[*released, *moments], many=array.size > 50)
    for hook in ("_secret_iterate", "_secret_sum", "_secret_gradient", "_secret_gradients"):
        if hasattr(state, hook):
            secrets.numbers(hook, getattr(state, hook)(), but=released)
    if arrays["key"].size:
        secrets.key("key", bytes(arrays["key"]))


# ---- what is visible ----------------------------------------------------------------------------------------------

#: Methods without arguments that change something, or are documented to return secrets.
NOT_CALLED = {
    "close",
    "commit",
    "leave",
    "secret_state",
    "finish",
    "fit",
    "attach",
    "release_last",
    "set_params",
    "end",
}
#: Methods' results for a fitted learner, and figures of raw rows at the caller's request, are not searched.
SKIPPED = {"metadata_routing"}


def surface(*objects: Any, private: bool = False) -> bytes:
    """Everything visible of objects: public attributes, properties and methods without arguments, repr and str.

    ``private``: attributes with a leading underscore as well, for objects from a pickle.
    """
    out: list[bytes] = []
    seen: dict[int, Any] = {}
    for each in objects:
        _walk(each, out, seen, private)
    return b"\n".join(dict.fromkeys(out))


def _walk(it: Any, out: list[bytes], seen: dict[int, Any], private: bool) -> None:
    if it is None or isinstance(it, (bool, type, types.ModuleType)):
        return
    if isinstance(it, (int, float, np.generic, str, bytes)):
        out.append(it if isinstance(it, bytes) else repr(it).encode("utf-8", "surrogateescape"))
        if isinstance(it, (float, np.floating)):
            out.append(struct.pack("<d", it))
        return
    if id(it) in seen:
        return
    seen[id(it)] = it
    out.append(repr(it).encode("utf-8", "surrogateescape"))
    if type(it).__str__ is not object.__str__:  # which is repr
        out.append(str(it).encode("utf-8", "surrogateescape"))
    if isinstance(it, np.ndarray):
        out += [it.tobytes(), repr(it.tolist()).encode()]
        if it.base is not None:
            _walk(it.base, out, seen, private)
    elif isinstance(it, Mapping):
        for pair in it.items():
            _walk(pair, out, seen, private)
    elif isinstance(it, (list, tuple, set, frozenset)):
        for each in it:
            _walk(each, out, seen, private)
    elif not isinstance(it, (types.FunctionType, types.MethodType, types.BuiltinFunctionType, pathlib.PurePath)):
        _walk_object(it, out, seen, private)


def _walk_object(it: Any, out: list[bytes], seen: dict[int, Any], private: bool) -> None:
    if private:
        _walk(dict(getattr(it, "__dict__", {})), out, seen, private)
    if not any(kind.__module__.startswith("privol") for kind in type(it).__mro__):
        return
    for name in sorted({*dir(type(it)), *getattr(it, "__dict__", {})}):
        if name.startswith("_") or name in SKIPPED:
            continue
        try:
            value = getattr(it, name)
            if callable(value) and name not in NOT_CALLED and _needs_nothing(value):
                value = value()
        except Exception as error:
            value = story(error)
        if not callable(value):
            _walk(value, out, seen, private)


def _needs_nothing(call: Any) -> bool:
    """Whether a callable needs no arguments; for methods with their first argument bound."""
    function = getattr(call, "__func__", None)
    return _may_be_called(call) if function is None else _is_method_without_arguments(function)


@functools.cache
def _is_method_without_arguments(function: Any) -> bool:
    return _may_be_called(types.MethodType(function, ...))


def _may_be_called(call: Any) -> bool:
    try:
        found = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return False
    return all(p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in found)


def story(error: BaseException) -> str:
    """Everything that an exception says: arguments, attributes, notes, causes, contexts, and Python's traceback."""
    parts: list[str] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        now = waiting.pop()
        if now is not None:
            parts += [repr(now), str(now), repr(now.args), repr(vars(now)), repr(getattr(now, "__notes__", []))]
            waiting += [now.__cause__, now.__context__]
    return "\n".join([*parts, *traceback.format_exception(error)])


def reachable(*objects: Any) -> Iterator[Any]:
    """Every object that the garbage collector reaches from some, except modules, classes and imports of functions."""
    seen: set[int] = set()
    waiting = list(objects)
    while waiting:
        it = waiting.pop()
        if id(it) in seen or isinstance(it, (types.ModuleType, type, types.FunctionType, types.FrameType)):
            continue
        seen.add(id(it))
        yield it
        waiting += gc.get_referents(it)


def files_in(folder, without=()):
    """The bytes of every file of a directory, each after its name."""
    found = sorted(
        p for p in Path(folder).rglob("*") if p.is_file() and not set(p.relative_to(folder).parts) & {*without}
    )
    return [part for path in found for part in (path.name.encode(), path.read_bytes())]
