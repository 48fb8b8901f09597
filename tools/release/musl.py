"""A Python of musl for a clean room, and what has no wheels there: both are compiled by this machine.

CPython and the libraries of its modules come from Debian's sources and are compiled by Debian's ``musl-gcc``
(``apt-get install musl-tools make``). scikit-learn has no wheels for musl: of its modules, those that its base classes
import are compiled from its sdist, by Zig.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tarfile
import urllib.request
from pathlib import Path

from targets import BY_NAME, compiler
from wheels import KEPT, builder, run

POOL = "http://deb.debian.org/debian/pool/main"
#: Where sources are, and their SHA-256.
SOURCES = {
    "zlib": (
        f"{POOL}/z/zlib/zlib_1.3.dfsg+really1.3.2.orig.tar.gz",
        "7b6903eb019983987b7112eccf90f1703f1c6c0e0cede36564bf611d19ca579d",
    ),
    "bzip2": (
        f"{POOL}/b/bzip2/bzip2_1.0.8.orig.tar.gz",
        "ab5a03176ee106d3f0fa90e381da478ddae405918153cca248e682cd0c4a2269",
    ),
    "xz": (
        f"{POOL}/x/xz-utils/xz-utils_5.4.1.orig.tar.xz",
        "5d9827aa1875b21c288f78864bb26d2650b436ea8d2cad364e4921eb6266a5a5",
    ),
    "libffi": (
        f"{POOL}/libf/libffi/libffi_3.4.4.orig.tar.gz",
        "d66c56ad259a82cf2a9dfc408b32bf5da52371500b84745f7fb8b645712df676",
    ),
    "openssl": (
        f"{POOL}/o/openssl/openssl_3.0.19.orig.tar.gz",
        "fa5a4143b8aae18be53ef2f3caf29a2e0747430b8bc74d32d88335b94ab63072",
    ),
    "python": (
        f"{POOL}/p/python3.13/python3.13_3.13.15.orig.tar.xz",
        "1e66a7945a48390ee4c2a4268a0e4185884059a13c4aab6d148aa208deea4a76",
    ),
    "scikit-learn": (
        "https://files.pythonhosted.org/packages/d2/eb/"
        "eaf5e07fcc0da7149b0e084f24e54edd7441b9a89ce7e034032ae97fe3a0/scikit_learn-1.9.1.tar.gz",
        "629cada3e33e2b9bf376cdc7614a47a4140b8aedc1d836579e359736fbd82977",
    ),
}
PYTHON, TAG, HOST = "3.13", "cp313", "x86_64-linux-musl"
LEARN = "1.9.1"
#: What `sklearn.base` and the checks of rows import, and the C++ that belongs to one of them.
MODULES = ("__check_build/_check_build", "utils/_isfinite", "utils/_openmp_helpers", "utils/murmurhash")
MODULES += ("utils/sparsefuncs_fast", "utils/_typedefs")
HASHES = "utils/src/MurmurHash3.cpp"
#: The directives that scikit-learn itself gives to Cython.
DIRECTIVES = ("boundscheck", "wraparound", "initializedcheck", "nonecheck")
#: gcc's own answer to this question names the GNU C library.
WRAPPER = """#!/bin/sh
case "$*" in
*--print-multiarch*) echo {host} ;;
*) exec {cache} musl-gcc "$@" ;;
esac
"""


def unpacked(name: str, folder: Path) -> Path:
    """Return the folder of a source, which is fetched and checked, below another."""
    address, digest = SOURCES[name]
    kept = KEPT / "sources" / address.rsplit("/", 1)[1]
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(address) as answer:
            kept.with_suffix(".part").write_bytes(answer.read())
        kept.with_suffix(".part").rename(kept)
    if hashlib.sha256(kept.read_bytes()).hexdigest() != digest:
        kept.unlink()
        raise SystemExit(f"{address} is not the file that it was")
    tree = folder / name
    shutil.rmtree(tree, ignore_errors=True)
    with tarfile.open(kept) as archive:
        archive.extractall(tree, filter="data")
    (inner,) = tree.iterdir()
    return inner


def python_into(room: Path) -> None:
    """Compile CPython with the libraries of its modules inside, and put it into a room as ``/opt/python``."""
    folder = KEPT / "musl"
    headers, own, wrapper = folder / "headers", folder / "own", folder / "musl-cc"
    headers.mkdir(parents=True, exist_ok=True)
    for name, place in (("linux", "linux"), ("asm-generic", "asm-generic"), ("asm", "x86_64-linux-gnu/asm")):
        (headers / name).unlink(missing_ok=True)
        (headers / name).symlink_to(f"/usr/include/{place}")  # the kernel's, which are those of any C library
    wrapper.write_text(WRAPPER.format(host=HOST, cache=shutil.which("ccache") or ""))
    wrapper.chmod(0o755)
    kernel = f"-idirafter {headers}"
    variables = {
        **{name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "CCACHE_DIR")},
        "CC": str(wrapper),
        "CFLAGS": f"-O2 -fPIC {kernel}",
        "PKG_CONFIG_LIBDIR": str(own / "lib" / "pkgconfig"),
    }
    make, prefix = ["make", f"-j{os.cpu_count()}"], f"--prefix={own}"
    alone = ["--host=" + HOST, "--disable-shared", prefix]
    xz = [f"--disable-{part}" for part in ("doc", "nls", "xz", "xzdec", "lzmadec", "lzmainfo", "scripts")]
    without = ["no-shared", "no-tests", "no-dso", "no-engine", "no-legacy", "no-async"]
    # bzip2's make file has its own flags, which have to be told to make itself
    told = [f"CC={wrapper}", f"CFLAGS={variables['CFLAGS']} -D_FILE_OFFSET_BITS=64", f"PREFIX={own}"]
    steps = {
        "zlib": [["./configure", "--static", prefix], make, ["make", "install"]],
        "bzip2": [[*make, "libbz2.a", *told]],
        "xz": [["./configure", *alone, *xz], make, ["make", "install"]],
        "libffi": [
            ["./configure", *alone, "--disable-docs", "--disable-multi-os-directory"],
            make,
            ["make", "install"],
        ],
        "openssl": [
            ["./Configure", "linux-x86_64", *without, prefix, "--libdir=lib"],
            [*make, "build_libs"],
            ["make", "install_dev"],
        ],
    }
    for name, commands in steps.items():
        if (folder / f"{name}.ready").exists():
            continue
        tree = unpacked(name, folder)
        for command in commands:
            run(command, cwd=tree, env=variables)
        if name == "bzip2":
            shutil.copy(tree / "bzlib.h", own / "include")
            shutil.copy(tree / "libbz2.a", own / "lib")
        (folder / f"{name}.ready").touch()
    tree = unpacked("python", folder)
    # threads of musl have 128 KiB of stack unless the program asks for more
    variables |= {"CPPFLAGS": f"-I{own}/include {kernel}", "LDFLAGS": f"-L{own}/lib -Wl,-z,stack-size=8388608"}
    variables |= {"CFLAGS": "", "OPT": "-DNDEBUG -g0 -O2"}
    options = ["--prefix=/opt/python", "--with-ensurepip=no", "--disable-test-modules", f"--with-openssl={own}"]
    run(["./configure", *options], cwd=tree, env=variables)
    run(make, cwd=tree, env=variables)
    run(["make", "install", f"DESTDIR={room}"], cwd=tree, env=variables)


def scikit_learn(room: Path) -> Path:
    """Return a folder with a wheel of scikit-learn that has its base classes, and nothing else that is compiled."""
    found = KEPT / "musl" / "wheels"
    if list(found.glob("scikit_learn-*.whl")):
        return found
    folder = KEPT / "musl"
    tree = unpacked("scikit-learn", folder)
    python = str(builder(sys.executable))
    made = folder / "packed"
    shutil.rmtree(made, ignore_errors=True)
    shutil.copytree(tree / "sklearn", made / "sklearn")
    notes = made / f"scikit_learn-{LEARN}.dist-info"
    notes.mkdir()
    shutil.copy(tree / "PKG-INFO", notes / "METADATA")
    platform = "musllinux_1_2_x86_64"
    wheel = f"Wheel-Version: 1.0\nGenerator: privol\nRoot-Is-Purelib: false\nTag: {TAG}-{TAG}-{platform}\n"
    (notes / "WHEEL").write_text(wheel)
    numpy = run([python, "-c", "import numpy; print(numpy.get_include())"]).strip()
    flags = ["-shared", "-fPIC", "-O2", "-DNDEBUG", "-fwrapv", "-w", f"-I{numpy}", "-Isklearn/utils"]
    flags.append(f"-I{room}/opt/python/include/python{PYTHON}")
    command = [*compiler(BY_NAME["musllinux-x86_64"], ""), *flags]
    cython = [python, "-m", "cython", "-3"]
    words = [part for name in DIRECTIVES for part in ("-X", f"{name}=False")]
    run([*cython, "--generate-shared=sklearn/_cyutility.c"], cwd=tree)
    for name in ("_cyutility", *MODULES):
        source = f"sklearn/{name}.c"
        if name != "_cyutility":
            asked = [*words, "-X", "cdivision=True", "--shared=sklearn._cyutility"]
            run([*cython, *asked, f"sklearn/{name}.pyx", "--output-file", source], cwd=tree)
        more = [f"sklearn/{HASHES}"] if name.endswith("murmurhash") else []
        target = made / "sklearn" / f"{name}.cpython-{TAG.removeprefix('cp')}-{HOST}.so"
        run([*command, source, *more, "-o", str(target)], cwd=tree)
    found.mkdir(exist_ok=True)
    run([sys.executable, "-m", "wheel", "pack", "-d", str(found), str(made)])
    return found
