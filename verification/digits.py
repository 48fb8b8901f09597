"""Prove with an SMT solver what numbers in texts are read with, eight bytes at once.

For all eight bytes, ``pv_digits`` finds how many of them are digits before the first other byte, so it reads its table
of powers of ten within its bounds and moves by at most eight bytes. The digits go to the upper end of a word, with
zeros below; there pairs of digits, pairs of these and both halves are put together, each to the number that it is.
Masks, shifts and factors are read from the C source. The controls take the byte below the digit 0 for a digit, or put
together what is one too large for its place.
"""

from __future__ import annotations

from pathlib import Path

from verification.first_pass import found
from verification.solver import Query, answers

SOURCE = Path(__file__).parents[1] / "src" / "privol" / "_core" / "c" / "cells" / "pv_number.h"
_HEX, _FOLD = r"(0x\w+)", r"\s+x = \((\d+) \* x \+ \(x >> (\d+)\)\) & UINT64_C\((0x\w+)\);"
_SHAPE = (
    rf"held = pv_eight\(p\) \^ PV_BYTES\({_HEX}\);.*\s+const uint64_t others = "
    rf"\(\(\(held & PV_BYTES\({_HEX}\)\) \+ PV_BYTES\({_HEX}\)\) \| held\) & PV_BYTES\({_HEX}\);"
    r"\s+uint64_t before = \(others - 1\) & ~others, n,\s+x;.*"
    rf"\s+n = \(\(before & PV_BYTES\({_HEX}\)\) >> (\d+)\) \* PV_BYTES\((\d+)\) >> (\d+);"
    rf"\s+x = n == 0 \? 0 : held << \(64 - 8 \* n\);.*{_FOLD}{_FOLD}{_FOLD}"
    r"\s+\*w = \*w \* tens\[n\] \+ x;\s+p \+= n;"
)


def _bits(value: int) -> str:
    return f"(_ bv{value} 64)"


def _let(name: str, value: str, sort: str = "(_ BitVec 64)") -> str:
    return f"(define-fun {name} () {sort} {value})"


def _counted(words: list[int]) -> str:
    """Return the lines of the source over the bytes b0 to b7 up to n and x, and what a reader of single bytes finds."""
    zero, low, above, high, kept, down, ones, top = words

    def all_bytes(value: int) -> str:
        return _bits(0x0101010101010101 * value)

    text = "(set-logic QF_BV)" + "".join(f"(declare-const b{i} (_ BitVec 8))" for i in range(8))
    text += _let("held", f"(bvxor (concat b7 b6 b5 b4 b3 b2 b1 b0) {all_bytes(zero)})")
    tested = f"(bvor (bvadd (bvand held {all_bytes(low)}) {all_bytes(above)}) held)"
    text += _let("others", f"(bvand {tested} {all_bytes(high)})")
    text += _let("before", f"(bvand (bvsub others {_bits(1)}) (bvnot others))")
    flags = f"(bvlshr (bvand before {all_bytes(kept)}) {_bits(down)})"
    text += _let("n", f"(bvlshr (bvmul {flags} {all_bytes(ones)}) {_bits(top)})")
    shift = f"(bvsub {_bits(64)} (bvmul {_bits(8)} n))"
    text += _let("x", f"(ite (= n {_bits(0)}) {_bits(0)} (bvshl held {shift}))")
    for i in range(8):
        text += _let(f"d{i}", f"(and {f'd{i - 1}' if i else 'true'} (bvuge b{i} #x30) (bvule b{i} #x39))", "Bool")
    count, placed = _bits(8), _bits(0)
    for i in reversed(range(8)):
        count = f"(ite d{i} {count} {_bits(i)})"
    for k in range(1, 9):  # of k digits: zeros, then the values of the digits, the last one uppermost
        values = [f"(bvsub b{i} #x30)" for i in reversed(range(k))] + ["#x00"] * (8 - k)
        placed = f"(ite (= count {_bits(k)}) (concat {' '.join(values)}) {placed})"
    return text + _let("count", count) + _let("placed", placed)


def _folded(fold: list[int], lanes: int, most: int) -> str:
    """Return the question whether a line that puts neighbours together, none above `most`, makes another number."""
    factor, by, mask = fold
    size = 64 // lanes

    def lane(word: str, k: int, bits: int) -> str:
        return f"((_ zero_extend {64 - bits}) ((_ extract {bits * k + bits - 1} {bits * k}) {word}))"

    text = "(set-logic QF_BV)(declare-const x (_ BitVec 64))"
    text += "".join(f"(assert (bvule {lane('x', k, size)} {_bits(most)}))" for k in range(lanes))
    text += _let("y", f"(bvand (bvadd (bvmul {_bits(factor)} x) (bvlshr x {_bits(by)})) {_bits(mask)})")
    right = "true"
    for k in range(0, lanes, 2):
        number = f"(bvadd (bvmul {_bits(factor)} {lane('x', k, size)}) {lane('x', k + 1, size)})"
        right = f"(and {right} (= {lane('y', k // 2, 2 * size)} {number}))"
    return text + f"(assert (not {right}))(check-sat)"


def queries() -> list[Query]:
    """Return name, SMT-LIB text and expected answer of every claim and control."""
    words = [int(word, 0) for word in found(_SHAPE, SOURCE.read_text())]
    counted, folds = words[:8], [words[8 + 3 * i : 11 + 3 * i] for i in range(3)]
    wrong = counted.copy()
    wrong[2] += 1
    claims = (
        ("more than eight digits in eight bytes", f"(assert (bvugt n {_bits(8)}))(check-sat)"),
        ("another number of digits than byte by byte", "(assert (not (= n count)))(check-sat)"),
        ("digits elsewhere than uppermost in their order", "(assert (not (= x placed)))(check-sat)"),
    )
    asked: list[Query] = [(name, _counted(counted) + claim, "unsat") for name, claim in claims]
    asked += [(f"control: {name}", _counted(wrong) + claim, "sat") for name, claim in claims[1:]]
    for fold, lanes, what in zip(folds, (8, 4, 2), ("digits", "pairs of digits", "halves of four"), strict=True):
        asked.append((f"two {what} put together to another number", _folded(fold, lanes, fold[0] - 1), "unsat"))
        asked.append((f"control: {what} without a limit", _folded(fold, lanes, (1 << 64 // lanes) - 1), "sat"))
    return asked


def report() -> list[str]:
    """Ask the solver about every claim; another answer than expected ends the program."""
    return answers("digits", queries())
