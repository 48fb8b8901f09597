"""Prove with an SMT solver that no two draws of a key share a block of the cipher, with the packing as coded.

The shifts, masks and limits are read from the C sources. Each claim is that its negation has no solution over all bit
vectors; each has a control without one of its conditions, which must have a solution.
"""

from __future__ import annotations

from pathlib import Path

from verification.first_pass import found
from verification.solver import Query, answers

CORE = Path(__file__).parents[1] / "src" / "privol" / "_core" / "c"


def queries() -> list[Query]:
    """Return name, SMT-LIB text and expected answer of every claim and control."""
    source = (CORE / "noise" / "bits.c").read_text()
    stream_mask, level_mask, level_shift, block_shift = found(
        r"store\(out, \(uint64_t\)\(stream & (0x[0-9A-F]+)\) \| \(uint64_t\)\(level & (0x[0-9A-F]+)\) << (\d+) \| "
        r"\(uint64_t\)block << (\d+)\);\s+store\(out \+ 8, row\);",
        source,
    )
    header = (CORE / "noise" / "pv_bits.h").read_text()
    (field,) = found(r"#define PV_FIELD_MAX (0x[0-9A-F]+)", header)
    (dimension,) = found(r"#define PV_DIMENSION_MAX \(INT64_C\(1\) << (\d+)\)", header)
    (draws,) = found(r"#define PV_STEP_DRAWS (\d+)", (CORE / "prefix" / "pv_prefix.h").read_text())
    found(
        r"return \(uint64_t\)\(first_step \+ step\) \* PV_STEP_DRAWS \+ \(uint64_t\)(node);",
        (CORE / "prefix" / "prefix.c").read_text(),
    )

    def word(i: int) -> str:
        return (
            f"(bvor (bvand ((_ zero_extend 32) s{i}) (_ bv{int(stream_mask, 16)} 64))"
            f" (bvshl (bvand ((_ zero_extend 32) l{i}) (_ bv{int(level_mask, 16)} 64)) (_ bv{level_shift} 64))"
            f" (bvshl ((_ zero_extend 32) b{i}) (_ bv{block_shift} 64)))"
        )

    def declared(names: str, bits: int) -> str:
        return "".join(f"(declare-const {name}{i} (_ BitVec {bits}))" for name in names for i in (1, 2))

    def most(names: str, limit: int, bits: int) -> str:
        return "".join(f"(assert (bvule {name}{i} (_ bv{limit} {bits})))" for name in names for i in (1, 2))

    start, end = "(set-logic QF_BV)", "(check-sat)"
    same = f"(assert (= {word(1)} {word(2)}))(assert (= r1 r2))"
    other = "(assert (not (and (= s1 s2) (= l1 l2) (= b1 b2) (= r1 r2))))"
    packing = start + declared("slb", 32) + declared("r", 64)
    fits = most("sl", int(field, 16), 32)
    # level 0: block j of a row has coordinates 2j and 2j + 1; above, block c is a coordinate's own
    cut = start + declared("j", 64) + "(assert (= ((_ extract 31 0) j1) ((_ extract 31 0) j2)))(assert (not (= j1 j2)))"
    row = f"(bvadd (bvmul t{{0}} (_ bv{draws} 64)) k{{0}})"
    steps = start + declared("tk", 64) + f"(assert (= {row.format(1)} {row.format(2)}))"
    steps += "(assert (not (and (= t1 t2) (= k1 k2))))"
    nodes = most("k", int(draws) - 1, 64)
    long = most("t", 2**57, 64)
    return [
        ("two addresses of one pair of blocks", packing + fits + same + other + end, "unsat"),
        ("control: streams without a limit", packing + most("l", int(field, 16), 32) + same + other + end, "sat"),
        ("coordinates cut to 32 bits", cut + most("j", 2 ** int(dimension) - 1, 64) + end, "unsat"),
        ("control: twice as many coordinates", cut + most("j", 2 ** (int(dimension) + 1) - 1, 64) + end, "sat"),
        ("two draws of prefix sums in one row", steps + nodes + long + end, "unsat"),
        ("control: one node more", steps + most("k", int(draws), 64) + long + end, "sat"),
        ("control: steps that wrap around", steps + nodes + end, "sat"),
    ]


def report() -> list[str]:
    """Ask the solver about every claim; another answer than expected ends the program."""
    return answers("addresses", queries())
