"""libsvm / svmlight text: ``label index:value ...`` lines become CSR, in chunks of whole lines."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .._core._plain import filled_lines, read_svm, scan_svm
from ..errors import StreamError
from .base import PAUSE, Piece, Progress, Source, Targets
from .files import LineFile, shown
from .formats import reads_as, tokens

__all__ = ["LibsvmSource", "of_one_width"]

# How far an index 0 is searched for if the file is not read twice.
HEAD_BYTES = 8 << 20
_ZERO = re.compile(rb"[ \t]0:")
# Up to this, indices have 32 bits.
_NARROW = 2**31


class LibsvmSource(Source):
    """A libsvm file; see :func:`privol.open_stream`.

    A kernel parses plain lines some twenty times as fast as scikit-learn's reader. That reader takes over for a chunk
    that has a comment, ``qid`` or anything unusual, and it decides about errors. Both give the same numbers.
    """

    sparse = True

    def __init__(self, file: LineFile, labels: Targets, n_features: int | None, zero_based: bool | None) -> None:
        self.facts = file.facts
        if n_features is None and not file.facts.repeatable:
            raise StreamError(
                f"{self.name}: libsvm data that can be read only once need n_features= (the number of columns of X), "
                "which is found by reading a file twice"
            )
        inferred = ("index base",) * (zero_based is None) + ("number of features",) * (n_features is None)
        n_rows = None
        self._file = file
        self._labels = labels
        if n_features is None:
            low, high, n_rows = self._scan()
            self._zero_based = low == 0 if zero_based is None else zero_based
            self.n_features = max(high + 1 if self._zero_based else high, 1)
        else:
            self.n_features = n_features
            self._zero_based = self._begins_with_zero() if zero_based is None else zero_based
        self.facts = replace(file.facts, inferred=inferred, n_rows=n_rows)
        self._index_type = np.int32 if self.n_features < _NARROW else np.int64

    @property
    def zero_based(self) -> bool:
        """Whether indices count from 0."""
        return self._zero_based

    def _scan(self) -> tuple[int, int, int]:
        """Return the least and greatest index and the number of rows (indices ascend within a line)."""
        low, high, rows = 2**62, 0, 0

        def done() -> int:
            return rows

        for chunk, _ in self._file.chunks(done):
            found = scan_svm(chunk)
            if found is not None:
                least, most, filled = found
                rows += filled
                if least <= most:
                    low, high = min(low, least), max(high, most)
                continue
            for line in chunk.split(b"\n"):
                if b"#" in line:
                    line = line.split(b"#", 1)[0]
                if not line or line.isspace():
                    continue
                rows += 1
                last = line.rfind(b":")
                if last < 0:
                    continue
                pair = line[:last].rsplit(None, 1)[-1]
                first = line.find(b":")
                label = line[:first].rsplit(None, 1)[-1]
                if label == b"qid":
                    if first == last:
                        continue
                    first = line.find(b":", first + 1)
                    label = line[:first].rsplit(None, 1)[-1]
                # What is not an index is left to the parser, whose error names the row.
                if reads_as(int, pair) and reads_as(int, label):
                    low, high = min(low, int(label)), max(high, int(pair))
        if not rows:
            raise StreamError(f"{self.name}: no rows, at least one is needed")
        return low, high, rows

    def _begins_with_zero(self) -> bool:
        """Whether an index 0 occurs in the first 8 MiB, or in the first row of a live input, whose rows do not wait."""
        if not self._file.live:
            text, _ = self._file.head(lambda text: len(text) >= HEAD_BYTES)
            text = text[:HEAD_BYTES]
            return b" 0:" in text or b"\t0:" in text  # much faster than the pattern
        text, _ = self._file.head(lambda text: any(map(tokens, text.split(b"\n")[:-1])))
        first = next(filter(tokens, text.split(b"\n")), b"")
        return _ZERO.search(first.split(b"#", 1)[0]) is not None

    def pieces(self, limit: int, progress: Progress) -> Iterator[Piece]:
        row = 1

        def done() -> int:
            return row - 1

        for chunk, fraction in self._file.chunks(done):
            if not chunk:
                yield PAUSE
                progress(fraction)
                continue
            parsed = self._parse_fast(chunk)
            X, values = parsed if parsed is not None else self._parse(chunk, row)
            n = X.shape[0]
            if not n:
                continue
            y = self._labels.encode(values, row, f"{self.name}, label")
            row += n
            yield Piece(X, y)
            progress(fraction)

    def _parse_fast(self, chunk: bytes) -> tuple[Any, npt.NDArray[np.float64]] | None:
        """Parse plain lines, or return None for anything unusual."""
        if self.n_features >= _NARROW:
            return None
        found = read_svm(chunk, 0 if self._zero_based else 1, self.n_features)
        if found is None:
            return None
        labels, values, indices, starts = found
        X = sp.csr_array((values, indices, starts.astype(self._index_type)), shape=(len(labels), self.n_features))
        return X, labels

    def _parse(self, chunk: bytes, first_row: int) -> tuple[Any, npt.NDArray[np.float64]]:
        from sklearn.datasets import load_svmlight_file  # loads most of SciPy, which no other format needs

        try:
            X, values = load_svmlight_file(
                io.BytesIO(chunk), n_features=self.n_features, dtype=np.float64, zero_based=self._zero_based
            )
        except (ValueError, OverflowError) as err:
            raise self._located(chunk, first_row, str(err)) from None
        indices, indptr = X.indices.astype(self._index_type), X.indptr.astype(self._index_type)
        return sp.csr_array((X.data, indices, indptr), shape=X.shape), np.asarray(values, dtype=np.float64)

    def _located(self, chunk: bytes, first_row: int, message: str) -> StreamError:
        base = 0 if self._zero_based else 1
        top = self.n_features - 1 + base
        row = first_row - 1
        for line in chunk.split(b"\n"):
            words = tokens(line)
            if not words:
                continue
            row += 1
            what = None
            if not reads_as(float, words[0]):
                what = f", label: found {_show(words[0])}, allowed is a number"
            before = base - 1
            for token in words[1:]:
                index, _, value = token.partition(b":")
                if what is not None or index == b"qid":
                    continue
                if not (reads_as(int, index) and reads_as(float, value)):
                    what = f": found {_show(token)}, allowed is index:value"
                elif not base <= int(index) <= top:
                    what = f": found index {int(index)}, allowed are {base} to {top}"
                    other = not self._zero_based
                    what += f" (counted from {base}; zero_based={other} counts from {int(not other)})"
                elif int(index) <= before:
                    what = f": found index {int(index)} after {before}, allowed are ascending indices"
                elif reads_as(int, index):
                    before = int(index)
            if what is not None:
                return StreamError(f"{self.name}, row {row}{what}", row=row)
        return StreamError(f"{self.name}, after row {first_row - 1}: {message}")

    def count(self) -> int:
        rows = 0

        def done() -> int:
            return rows

        for chunk, _ in self._file.chunks(done):
            if b"#" in chunk:
                rows += sum(1 for line in chunk.split(b"\n") if line.split(b"#", 1)[0].strip())
            else:
                rows += filled_lines(chunk, blanks=True)
        if not rows:
            raise StreamError(f"{self.name}: no rows, at least one is needed")
        return rows

    def again(self, n_features: int, zero_based: bool) -> LibsvmSource:
        """Return the same rows, read with another width or first index."""
        if (n_features, zero_based) == (self.n_features, self.zero_based):
            return self
        source = LibsvmSource(self._file, self._labels, n_features, zero_based)
        source.facts = self.facts
        return source


def of_one_width(parts: Sequence[LibsvmSource], n_features: int | None) -> list[LibsvmSource]:
    """Return parts that agree on the width and on the first index."""
    zero_based = any(part.zero_based for part in parts)
    if n_features is None and any(part.zero_based != zero_based for part in parts):
        # a part without an index 0 was assumed to count from 1
        width = max(part.n_features + (not part.zero_based) for part in parts)
    else:
        width = max(part.n_features for part in parts)
    return [part.again(width, zero_based) for part in parts]


def _show(token: bytes) -> str:
    return shown(token.decode("utf-8", "replace"))
