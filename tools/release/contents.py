"""What a wheel may hold: the package, modules that need the C library and their kernels, nothing of the builder."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

#: Bytes beside the embedded rows.
LARGEST = 3_000_000
DATA = "privol/data/"
#: How ELF names processors.
ELF = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
#: The kernels; the C library, by the names of the two families of Linux; and the loader, which holds the stack's guard.
NEEDED = re.compile(r"lib(privol_kernels\.so|[cm]\.so\.6|pthread\.so\.0|c\.musl-\w+\.so\.1)|ld-linux-[\w-]+\.so\.\d")
#: Where builders work; a module must not know it.
BUILDERS = re.compile(rb"/(?:root|home|tmp|work|usr/local|opt|build)/[\w./-]{3,}")
#: The library of the kernels, which lies beside the modules.
KERNELS = "privol/_core/libprivol_kernels.so"
MODULE = re.compile(r"privol/_core/(\w+)\.(?:cpython-\d+t?-([\w-]+)|abi3)\.so")


def faults_of_module(name: str, code: bytes, machine: str) -> Iterator[str]:
    """Yield what is wrong with a compiled module."""
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile  # comes with auditwheel

    elf = ELFFile(io.BytesIO(code))
    if elf["e_machine"] != ELF[machine]:
        yield f"{name} is for {elf['e_machine']}, not for {machine}"
    for section in elf.iter_sections():
        if section.name.startswith((".debug", ".symtab")):
            yield f"{name} has the section {section.name}: it is not stripped"
        if isinstance(section, DynamicSection):
            for tag in section.iter_tags():
                if tag.entry.d_tag == "DT_RPATH" or (tag.entry.d_tag == "DT_RUNPATH" and tag.runpath != "$ORIGIN"):
                    yield f"{name} looks for libraries elsewhere than beside itself ({tag.entry.d_tag})"
                if tag.entry.d_tag == "DT_NEEDED" and not NEEDED.fullmatch(tag.needed):
                    yield f"{name} needs {tag.needed}"
        if section.name == ".dynsym":
            for symbol in section.iter_symbols():
                public = symbol["st_info"]["bind"] != "STB_LOCAL" and symbol["st_shndx"] != "SHN_UNDEF"
                if public and not symbol.name.startswith("pv_" if name == KERNELS else "PyInit_"):
                    yield f"{name} exports {symbol.name}"
    for path in sorted(set(BUILDERS.findall(code))):
        yield f"{name} holds a path of the build machine: {path.decode()}"


def faults(wheel: Path, modules: set[str] | None = None) -> list[str]:
    """Return what is wrong with a wheel; ``modules``: all that it must have compiled."""
    found: list[str] = []
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.infolist()
        rest = sum(entry.compress_size for entry in entries if not entry.filename.startswith(DATA))
        if rest > LARGEST:
            found.append(f"{rest:,} bytes beside the data, at most {LARGEST:,} are allowed")
        if len({entry.date_time for entry in entries}) > 1:
            found.append("its files have several times: it was not built with SOURCE_DATE_EPOCH")
        folders = {entry.filename.split("/")[0] for entry in entries}
        allowed = {"privol", f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"}
        found += [f"it installs {folder}" for folder in sorted(folders - allowed)]
        machine = next((name for name in ELF if wheel.stem.endswith(name)), None)
        if machine is None:
            return [*found, f"its name ends with none of the processors {', '.join(ELF)}"]
        family = "musl" if "musllinux" in wheel.name else "gnu"
        inside = set()
        for entry in entries:
            if not entry.filename.endswith(".so"):
                continue
            if entry.filename == KERNELS:
                inside.add("libprivol_kernels")
                found += faults_of_module(entry.filename, archive.read(entry), machine)
                continue
            matched = MODULE.fullmatch(entry.filename)
            if matched is None or matched[2] not in (None, f"{machine}-linux-{family}"):
                found.append(f"{entry.filename} would not be imported on {machine} with {family}")
                continue
            inside.add(matched[1])
            found += faults_of_module(entry.filename, archive.read(entry), machine)
        if modules is not None and modules != inside:
            found.append(f"its modules differ from those of the sources: {sorted(modules ^ inside)}")
    return found


def modules_of(core: Path) -> set[str]:
    """Return the compiled modules that a wheel of these sources has."""
    return {path.stem for path in core.glob("*.pyx")} | {"_cyutility", "libprivol_kernels"}


def sizes(wheel: Path) -> tuple[int, int]:
    """Return the bytes of a wheel: of the embedded rows, and of all else."""
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.infolist()
    data = sum(entry.compress_size for entry in entries if entry.filename.startswith(DATA))
    return data, sum(entry.compress_size for entry in entries) - data
