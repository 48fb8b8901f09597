"""Prove with an SMT solver that no two draws of a key share a block of the cipher, with the packing as coded.

The shifts, masks and limits are read from the C sources. Each claim is that its negation has no solution over all bit
vectors; each has a control without one of its conditions, which must have a solution.
"""

from __future__ import annotations

import re
from pathlib import Path

from verification.first_pass import found
from verification.solver import Query, answers

PACKAGE = Path(__file__).parents[1] / "src" / "privol"
CORE = PACKAGE / "_core" / "c"


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


def of_users() -> list[Query]:
    """The same for the addresses that users of one key choose: the stream, and the row for whatever they count."""
    streams = [int(n) for n in re.findall(r"(?m)^STREAM_[A-Z]+ = (\d+)$", (PACKAGE / "noise" / "bits.py").read_text())]
    (bits,) = found(r"#define PV_REPORT_ROW_BITS (\d+)", (CORE / "reports" / "pv_report.h").read_text())
    found(r"rows\[n\+\+\] = row (\|) trial << PV_REPORT_ROW_BITS;", (CORE / "reports" / "report.c").read_text())
    found(
        r"return \(uint64_t\)\(it->round \* plan->nodes \+ plan->first \+ it->node \+ (1)\);",
        (CORE / "runs" / "network.c").read_text(),
    )
    (values,) = found(r"ROW = (\d+)", (PACKAGE / "_core" / "_sampler.pyx").read_text())
    bv, ints, end = "(set-logic QF_BV)", "(set-logic QF_NIA)", "(check-sat)"
    four = "".join(f"(declare-const {name}{i} (_ BitVec 64))" for name in "tk" for i in (1, 2))

    def trials(row_bits: int) -> str:
        rows = "".join(f"(assert (bvult t{i} (_ bv{1 << row_bits} 64)))" for i in (1, 2))
        fewer = "".join(f"(assert (bvult k{i} (_ bv{1 << (64 - int(bits))} 64)))" for i in (1, 2))
        same = "".join(f" (bvor t{i} (bvshl k{i} (_ bv{bits} 64)))" for i in (1, 2))
        return bv + four + rows + fewer + "(assert (=" + same + "))(assert (not (and (= t1 t2) (= k1 k2))))" + end

    def messages(most: str) -> str:
        names = "".join(f"(declare-const {name} Int)" for name in ("m", "t1", "t2", "i1", "i2"))
        ranges = "".join(f"(assert (<= 0 t{i}))(assert (<= 0 i{i}))(assert (< i{i} {most}))" for i in (1, 2))
        same = "(assert (= (+ (* t1 m) i1) (+ (* t2 m) i2)))(assert (not (and (= t1 t2) (= i1 i2))))"
        return ints + names + "(assert (< 0 m))" + ranges + same + end

    def places(mask: int) -> str:
        numbers = "".join(f"(declare-const n{i} (_ BitVec 64))" for i in (1, 2))
        rows = f"(assert (= (bvudiv n1 (_ bv{values} 64)) (bvudiv n2 (_ bv{values} 64))))"
        places = f"(assert (= (bvand n1 (_ bv{mask} 64)) (bvand n2 (_ bv{mask} 64))))"
        return bv + numbers + rows + places + "(assert (not (= n1 n2)))" + end

    def different(numbers: list[int]) -> str:
        return f"(assert (not (distinct {' '.join(map(str, numbers))})))" + end

    return [
        ("two purposes of one stream", different(streams), "unsat"),
        ("control: a number twice", different([*streams, streams[0]]), "sat"),
        ("two trials of reports in one row", trials(int(bits)), "unsat"),
        ("control: twice as many reports", trials(int(bits) + 1), "sat"),
        ("two messages of nodes in one row", messages("m"), "unsat"),
        ("control: a node too many", messages("(+ m 1)"), "sat"),
        ("two values of a sampler in one place", places(int(values) - 1), "unsat"),
        ("control: half of a row's places", places(int(values) // 2 - 1), "sat"),
    ]


def report() -> list[str]:
    """Ask the solver about every claim; another answer than expected ends the program."""
    return answers("addresses", queries() + of_users())
