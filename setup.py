"""Extension modules: one Cython module per C family, compiled with the C kernels they call.

Metadata is in pyproject.toml. With PRIVOL_STRICT=1, as in CI, compiler warnings are errors and Cython shows all of its
own (which CI then refuses: Cython's switch to make them errors trips over its utility code).
"""

from __future__ import annotations

import os
import sys
from glob import glob

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

CORE = "src/privol/_core"
STRICT = os.environ.get("PRIVOL_STRICT") == "1"

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

KERNELS = {
    "_rows": ["rows"],
    "_noise": ["rows", "bits", "fork", "first_pass", "lattice", "mixture"],
    "_sampler": ["bits", "lattice"],
    "_vectors": ["bits", "lattice", "mixture"],
    "_report": ["bits", "first_pass", "lattice", "mixture", "draws", "report"],
    "_bitgen": ["bits", "keystream"],
    "_discrete": ["bits", "discrete"],
    "_losses": ["loss"],
    "_geometry": ["rows", "geometry"],
    "_schedule": ["schedule"],
    "coin": ["first_pass", "magnitude"],
    "_prefix_plan": ["bits", "lattice"],
    "_prefix": ["rows", "bits", "lattice", "draws", "prefix"],
    "_run": ["rows", "bits", "lattice", "draws", "geometry", "outputs", "run"],
    "_iterate": ["rows", "bits", "lattice", "draws", "geometry", "outputs", "run", "schedule", "update", "iterate"],
    "_gradient": ["rows", "bits", "lattice", "draws", "geometry", "outputs", "run", "gradient"],
    "_local": [
        *("rows", "bits", "first_pass", "lattice", "mixture", "draws", "geometry", "outputs", "run", "report"),
        *("magnitude", "local"),
    ],
    "_bandit": [
        *("rows", "bits", "first_pass", "lattice", "mixture", "draws", "geometry", "outputs", "run", "report", "bandit")
    ],
    "_least_squares": [
        *("rows", "bits", "lattice", "draws", "geometry", "outputs", "run", "prefix", "ridge", "least_squares")
    ],
    "_leader": ["rows", "bits", "lattice", "draws", "geometry", "prefix", "outputs", "run", "leader"],
}

# Every module is compiled again when any of these changed; the list also puts them into the sdist.
HEADERS = sorted([*glob(f"{CORE}/include/*.h"), *glob(f"{CORE}/*.inc.h"), *glob(f"{CORE}/*.pxd")])

extensions = [
    Extension(
        f"privol._core.{module}",
        sources=[f"{CORE}/{module}.pyx", *(f"{CORE}/{kernel}.c" for kernel in kernels)],
        include_dirs=[f"{CORE}/include", CORE, numpy.get_include()],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"), ("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION")],
        depends=HEADERS,
        extra_compile_args=flags,
        extra_link_args=link,
    )
    for module, kernels in KERNELS.items()
]

setup(
    ext_modules=cythonize(
        extensions,
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
