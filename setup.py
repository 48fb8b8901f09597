"""Extension modules: one Cython module per C family, linked with the C kernels they call.

Metadata is in pyproject.toml. With PRIVOL_STRICT=1, as in CI, compiler warnings are errors and Cython shows all of its
own (which CI then refuses: Cython's switch to make them errors trips over its utility code).
"""

from __future__ import annotations

import os
import sys
from glob import glob
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CORE = "src/privol/_core"
STRICT = os.environ.get("PRIVOL_STRICT") == "1"
PROCESSORS = os.cpu_count() or 1

if sys.platform == "win32":
    flags, link = ["/O2", "/fp:precise"], []
else:
    # No contraction of a*b+c: the same bits whatever the processor. No -march: a wheel runs on the oldest of its tag.
    flags = ["-std=c11", "-O3", "-ffp-contract=off", "-fvisibility=hidden", "-g0", "-fstack-protector-strong"]
    # Nobody reads errno or the floating-point flags; with them in mind, compilers leave loops with comparisons scalar.
    flags += ["-fno-math-errno", "-fno-trapping-math"]
    flags += ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]
    # -pthread: before glibc 2.34, pthread_atfork is not in the C library itself
    link = ["-Wl,-s", "-pthread"] if sys.platform.startswith("linux") else []
    if STRICT:
        flags += ["-Werror", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-missing-field-initializers"]
        flags += ["-Wno-cast-function-type"]

# Every module is compiled again when any of these changed; the list also puts them into the sdist.
HEADERS = sorted([*glob(f"{CORE}/include/*.h"), *glob(f"{CORE}/*.inc.h"), *glob(f"{CORE}/*.pxd")])
MODULES = sorted(Path(path).stem for path in glob(f"{CORE}/*.pyx"))
# What Cython writes has its module's name.
KERNELS = sorted(path for path in glob(f"{CORE}/*.c") if Path(path).stem not in MODULES)

# Compiled once for all modules, each of which takes what it calls from the archive.
kernels = (
    "privol_kernels",
    {
        "sources": KERNELS,
        "include_dirs": [f"{CORE}/include", CORE],
        "cflags": flags,
        "obj_deps": {"": [path for path in HEADERS if path.endswith(".h")]},
    },
)

extensions = [
    Extension(
        f"privol._core.{module}",
        sources=[f"{CORE}/{module}.pyx"],
        include_dirs=[f"{CORE}/include", CORE, numpy.get_include()],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"), ("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION")],
        depends=[*HEADERS, *KERNELS],
        extra_compile_args=flags,
        extra_link_args=link,
    )
    for module in MODULES
]


class BuildExtensions(build_ext):
    """The kernels first, also where extensions alone are asked for."""

    def run(self) -> None:
        self.run_command("build_clib")
        super().run()


setup(
    libraries=[kernels],
    cmdclass={"build_ext": BuildExtensions},
    options={"build_ext": {"parallel": PROCESSORS}},
    ext_modules=cythonize(
        extensions,
        nthreads=PROCESSORS,
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "freethreading_compatible": True,
        },
        show_all_warnings=STRICT,
    )
)
