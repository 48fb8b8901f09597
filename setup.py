"""Extension modules: one Cython module per C family, and one library of the C kernels that they call.

Metadata is in pyproject.toml. With PRIVOL_STRICT=1, as in CI, compiler warnings are errors and Cython shows all of its
own (which CI then refuses: Cython's switch to make them errors trips over its utility code).
"""

from __future__ import annotations

import os
import sys
from glob import glob
from pathlib import Path
from typing import Any

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_clib import build_clib
from setuptools.command.build_ext import build_ext

CORE = "src/privol/_core"
# Where builds in place keep their objects, so that the next one compiles what has changed and nothing else.
KEPT = "build/inplace"
STRICT = os.environ.get("PRIVOL_STRICT") == "1"
PROCESSORS = os.cpu_count() or 1
LINUX = sys.platform.startswith("linux")

if sys.platform == "win32":
    flags, link = ["/O2", "/fp:precise"], []
    usual, small = [], []
else:
    # No contraction of a*b+c: the same bits whatever the processor. No -march: a wheel runs on the oldest of its tag.
    flags = ["-std=c11", "-O3", "-ffp-contract=off", "-fvisibility=hidden", "-g0", "-fstack-protector-strong"]
    # Loops are in the kernels. What Cython writes around them is a tenth smaller at -O2, and no slower.
    usual, small = ["-O2"], ["-Os"]
    # What a module does not call is left out of it: 6 % of a wheel.
    flags += ["-ffunction-sections", "-fdata-sections"]
    # Nobody reads errno or the floating-point flags; with them in mind, compilers leave loops with comparisons scalar.
    flags += ["-fno-math-errno", "-fno-trapping-math"]
    flags += ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]
    # -pthread: before glibc 2.34, pthread_atfork is not in the C library itself
    link = ["-Wl,-s", "-Wl,--gc-sections", "-pthread"] if LINUX else []

# Kept from Cython, which writes an extension's flags into the C that it generates, and line numbers of that into the
# module: so a strict build has the same bytes as any other.
warnings = []
if STRICT:
    warnings = ["-Werror", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-missing-field-initializers"]
    warnings += ["-Wno-cast-function-type"]

# Headers and declarations also go into the sdist, by these lists.
HEADERS = sorted([*glob(f"{CORE}/c/*/*.h"), *glob(f"{CORE}/*.pxd")])
MODULES = sorted(Path(path).stem for path in glob(f"{CORE}/*.pyx"))
# What these do is done once a run or a fit, or is a call of a kernel: they are compiled for their size.
CALLED_ONCE = {"_geometry", "_guarded", "_losses", "_newton", "_objective", "_prefix_plan", "_report", "_schedule"}
# What Cython would else put into every module, memoryviews above all: three fifths of a wheel's code.
SHARED = "_cyutility"
KERNELS = sorted(glob(f"{CORE}/c/*/*.c"))

# Compiled once for all modules. On Linux these share one library, which lies beside them: a wheel is a fifth smaller
# than with a copy in each module of what it calls. Elsewhere each takes its copy from an archive.
NAME = "privol_kernels"
LIBRARY = f"lib{NAME}.so"
visible = flags
if LINUX:
    # modules see them, and yet their own calls of each other are direct
    visible = [*(flag for flag in flags if flag != "-fvisibility=hidden"), "-fno-semantic-interposition"]
    library_link = ["-Wl,-s", "-Wl,-Bsymbolic", f"-Wl,-soname,{LIBRARY}", "-pthread"]
    link += ["-Wl,--as-needed", "-Wl,-rpath,$ORIGIN"]
kernels = (
    NAME,
    {
        "sources": KERNELS,
        "include_dirs": [f"{CORE}/c"],
        "cflags": visible + warnings,
        "obj_deps": {"": [*(path for path in HEADERS if path.endswith(".h")), "setup.py"]},
    },
)

extensions = [
    Extension(
        f"privol._core.{module}",
        sources=[f"{CORE}/{module}.pyx"],
        include_dirs=[f"{CORE}/c", numpy.get_include()],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"), ("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION")],
        depends=[*HEADERS, *KERNELS],
        extra_compile_args=[*flags, *(small if module in CALLED_ONCE else usual)],
        extra_link_args=link,
    )
    for module in MODULES
]
extensions.append(
    Extension(
        f"privol._core.{SHARED}",
        sources=[f"{CORE}/{SHARED}.c"],
        extra_compile_args=[*flags, *small],
        extra_link_args=link,
    )
)


def compile_what_changed(compiler: Any) -> None:
    """Let a compiler keep an object whose source, headers (the compiler lists them) and command are as they were."""
    compile_always = compiler._compile

    def compile_if_changed(obj: str, src: str, ext: str, cc_args: Any, extra_postargs: Any, pp_opts: Any) -> None:
        record, listed = Path(f"{obj}.command"), Path(f"{obj}.d")
        command = repr((compiler.compiler_so, src, cc_args, extra_postargs, pp_opts))
        if all(path.exists() for path in (Path(obj), record, listed)) and record.read_text() == command:
            built = Path(obj).stat().st_mtime
            used = [Path(name) for name in listed.read_text().replace("\\\n", " ").split(":", 1)[1].split()]
            if all(path.exists() and path.stat().st_mtime < built for path in used):
                return
        record.unlink(missing_ok=True)
        compile_always(obj, src, ext, cc_args, [*extra_postargs, "-MMD", "-MF", str(listed)], pp_opts)
        record.write_text(command)

    compiler._compile = compile_if_changed


class BuildKernels(build_clib):
    """In place where the extensions are: an editable install builds the kernels before it asks for extensions."""

    def run(self) -> None:
        modules = self.get_finalized_command("build_ext")
        if modules.inplace and sys.platform != "win32":
            self.build_temp = self.build_clib = KEPT
        if LINUX:
            self.build_clib = CORE if modules.inplace else os.path.join(modules.build_lib, "privol", "_core")
        super().run()

    def build_libraries(self, libraries: Any) -> None:
        if self.build_temp == KEPT:
            compile_what_changed(self.compiler)
        if LINUX:
            self.compiler.create_static_lib = self.link_library
        super().build_libraries(libraries)

    def link_library(self, objects: list[str], name: str, output_dir: str, **given: Any) -> None:
        """In place of an archive."""
        path = os.path.join(output_dir, LIBRARY)
        self.compiler.link_shared_object(objects, path, extra_postargs=library_link, **given)


class BuildExtensions(build_ext):
    """The kernels first, also where extensions alone are asked for."""

    def run(self) -> None:
        if self.inplace and sys.platform != "win32":
            self.build_temp = KEPT
            for path in Path(CORE).glob("*.*"):  # of a module that had another name: it could still be imported
                if path.suffix in (".c", ".so") and path.name.split(".")[0] not in [*MODULES, SHARED, f"lib{NAME}"]:
                    path.unlink()
        self.run_command("build_clib")
        super().run()

    def build_extensions(self) -> None:
        for extension in self.extensions:
            extension.extra_compile_args = [*extension.extra_compile_args, *warnings]
        if self.build_temp == KEPT:
            compile_what_changed(self.compiler)
            if not LINUX:
                archive = Path(KEPT, f"lib{NAME}.a")  # as Unix compilers name it, which alone build here
                for extension in self.extensions:  # a linker is called where objects are new, and the archive is none
                    made = Path(self.build_lib, self.get_ext_filename(extension.name))
                    if made.exists() and made.stat().st_mtime <= archive.stat().st_mtime:
                        made.unlink()
        super().build_extensions()


setup(
    libraries=[kernels],
    cmdclass={"build_clib": BuildKernels, "build_ext": BuildExtensions},
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
        shared_utility_qualified_name=f"privol._core.{SHARED}",
    ),
)
