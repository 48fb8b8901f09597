"""The C kernels alone, without Python: drivers in tests/core/c, under the sanitizers.

Every driver is compiled twice, once as the package ships the kernels and once unoptimised under the sanitizers of
addresses and of undefined behaviour. Both must pass, and print the same digest of results: the bits may not depend on
how the compiler arranged the code. Drivers also run in two threads at once under the thread sanitizer:
PRIVOL_THREADED=all takes all of them, otherwise the fast ones.

Without a compiler, or with one that lacks the sanitizers, the tests are skipped, and fail where CI=true.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from patience import WAIT
from places import ROOT

pytestmark = pytest.mark.process

TESTS = Path(__file__).parent / "c"
CORE = ROOT / "src" / "privol" / "_core" / "c"
DRIVERS = sorted(path.stem for path in TESTS.glob("test_*.c"))

WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wsign-conversion", "-Wdouble-promotion"]
WARNINGS += ["-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Wcast-qual", "-Wundef", "-Wvla"]
COMMON = ["-std=c11", "-ffp-contract=off", f"-I{CORE}", f"-I{TESTS}"]
BUILDS = {  # warnings once: they take a tenth of the time
    "shipped": ["-O3", "-fno-math-errno", "-fno-trapping-math", *WARNINGS],
    "sanitized": ["-O1", "-g1", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all"],
}
#: Drivers themselves, which call kernels and compare: optimising them takes longer than they run.
OF_DRIVERS = {"shipped": "-O1", "sanitized": "-O0"}
OVERRUN = """
#include <stdlib.h>
int main(int argc, char **argv) {
    (void)argv;
    double *p = malloc(8 * (size_t)argc);
    p[argc] = 1.0;
    return p[argc] > 2.0;
}
"""
#: Unoptimised: no access is optimised away, and what the compiler saves is more than what the runs cost.
THREADED = ["-O0", "-g1", "-fsanitize=thread"]
#: It forks, after which a thread has no others.
FORKS = "test_keystream"
#: Those that take a second or two so.
FAST = {
    f"test_{name}" for name in ("bits", "discrete", "experts", "gradient", "magnitude", "math", "network", "outputs")
}
FAST |= {"test_prefix", "test_update"}
RACE = """
#include <pthread.h>
static int count;
static void *add(void *p) { ++count; return p; }
int main(void) {
    pthread_t one, two;
    if (pthread_create(&one, 0, add, 0) || pthread_create(&two, 0, add, 0)) return 0;
    return pthread_join(one, 0) + pthread_join(two, 0);
}
"""
UNDEFINED = """
int main(int argc, char **argv) { (void)argv; int x = 2147483647; x += argc; return x == 5; }
"""


def refuse(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}; with CI=true the C tests may not be skipped")
    pytest.skip(reason)


def compile_c(compiler: str, flags: list[str], sources: list[Path], out: Path) -> subprocess.CompletedProcess[str]:
    command = [*shlex.split(compiler), *COMMON, *flags, *map(str, sources), "-o", str(out), "-lm", "-pthread"]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT)


def symbols(object_file: Path, which: str) -> set[str]:
    """Return the names of functions and data that an object file defines, or wants of others."""
    listed = subprocess.run(["nm", which, str(object_file)], capture_output=True, text=True, check=True, timeout=WAIT)
    return {line.split()[-1] for line in listed.stdout.splitlines()}


def run(program: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program)], capture_output=True, text=True, timeout=WAIT)


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A C compiler whose sanitizers detect the errors that they should."""
    found = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if not found:
        refuse("no C compiler (gcc, cc, clang or $CC)")
    folder = tmp_path_factory.mktemp("sanitizers")
    for name, text, expected in (("overrun", OVERRUN, "AddressSanitizer"), ("undefined", UNDEFINED, "runtime error")):
        source = folder / f"{name}.c"
        source.write_text(text)
        built = compile_c(found, BUILDS["sanitized"], [source], folder / name)
        if built.returncode:
            refuse(f"{found} cannot build with sanitizers: {built.stderr[-500:]}")
        result = run(folder / name)
        assert result.returncode != 0, f"the sanitizer let {name} pass"
        assert expected in result.stderr
    return found


@pytest.fixture(scope="module")
def kernels(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Object files of all kernels, by build."""
    objects: dict[str, list[Path]] = {}
    for build, flags in BUILDS.items():
        folder = tmp_path_factory.mktemp(build)
        for source in sorted(CORE.glob("*/*.c")):
            out = folder / f"{source.stem}.o"
            built = compile_c(compiler, [*flags, "-c"], [source], out)
            assert built.returncode == 0, built.stderr
            objects.setdefault(build, []).append(out)
    return objects


def test_every_kernel_is_compiled(kernels: dict[str, list[Path]]) -> None:
    families = {"bits", "discrete", "draws", "first_pass", "fork", "geometry", "gradient", "iterate", "keystream"}
    families |= {"bandit", "lattice", "leader", "least_squares", "local", "loss", "magnitude", "mixture", "outputs"}
    families |= {"prefix", "report", "ridge", "rows", "run", "schedule", "update"}
    families |= {"columns", "csv", "knots", "libsvm", "moment", "written"}
    families |= {"experts", "hessian", "loss_rows", "newton", "objective"}
    for objects in kernels.values():
        assert families <= {path.stem for path in objects}
    drivers = {"test_bandit", "test_bits", "test_discrete", "test_first_pass", "test_lattice", "test_local"}
    assert drivers | {
        "test_cells",
        "test_experts",
        "test_objective",
        "test_outputs",
        "test_rows",
        "test_update",
    } <= set(DRIVERS)


@pytest.mark.parametrize("flag", ["-ffast-math", "-mfpmath=387"])
def test_arithmetic_that_violates_the_proofs_is_refused(flag: str, compiler: str, tmp_path: Path) -> None:
    if flag == "-mfpmath=387" and (platform.machine() != "x86_64" or "gcc" not in Path(shlex.split(compiler)[-1]).name):
        pytest.skip("an option of gcc for x86")
    built = compile_c(compiler, [flag, "-c"], [CORE / "noise" / "lattice.c"], tmp_path / "lattice.o")
    assert built.returncode != 0
    assert "privol's proofs need IEEE 754 arithmetic" in built.stderr


@pytest.mark.parametrize("driver", DRIVERS)
def test_driver(driver: str, compiler: str, kernels: dict[str, list[Path]], tmp_path: Path) -> None:
    output: dict[str, str] = {}
    for build, flags in BUILDS.items():
        part, program = tmp_path / f"{driver}_{build}.o", tmp_path / f"{driver}_{build}"
        for built in (  # kept apart: if the compiler is called through ccache, it keeps what is compiled
            compile_c(compiler, [*flags, OF_DRIVERS[build], "-c"], [TESTS / f"{driver}.c"], part),
            compile_c(compiler, flags, [part, *kernels[build]], program),
        ):
            assert built.returncode == 0, built.stderr
        result = run(program)
        assert result.returncode == 0, f"{driver}, {build}: {result.stderr}"
        assert result.stderr == ""
        output[build] = result.stdout
    assert output["shipped"].split()[0] == driver.removeprefix("test_")
    assert output["shipped"] == output["sanitized"], f"{driver}: the results depend on the compiler's optimisation"


@pytest.fixture(scope="module")
def threaded(
    compiler: str, kernels: dict[str, list[Path]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Path], list[Path]]:
    """Object files of the kernels that a driver needs, under the thread sanitizer, which detects a race."""
    folder = tmp_path_factory.mktemp("threaded")
    (folder / "race.c").write_text(RACE)
    built = compile_c(compiler, THREADED, [folder / "race.c"], folder / "race")
    if built.returncode:
        refuse(f"{compiler} cannot build with the thread sanitizer: {built.stderr[-500:]}")
    assert "data race" in run(folder / "race").stderr, "the sanitizer let a race pass"
    sources = {path.stem: path for path in [*CORE.glob("*/*.c"), TESTS / "threads.c"]}
    homes = {symbol: path.stem for path in kernels["shipped"] for symbol in symbols(path, "--defined-only")}

    def needed(driver: Path) -> list[Path]:
        objects: dict[str, Path] = {}
        waiting = [driver, folder / "threads.o"]
        while waiting:
            path = waiting.pop()
            if path != driver and path.stem not in objects:
                if not path.exists():
                    built = compile_c(compiler, [*THREADED, "-c"], [sources[path.stem]], path)
                    assert built.returncode == 0, built.stderr
                objects[path.stem] = path
            wanted = {homes[symbol] for symbol in symbols(path, "-u") if symbol in homes}
            waiting += [folder / f"{name}.o" for name in wanted - objects.keys()]
        return list(objects.values())

    return needed


@pytest.mark.parametrize("driver", [driver for driver in DRIVERS if driver != FORKS])
def test_threads_share_nothing_that_kernels_write(
    driver: str, compiler: str, threaded: Callable[[Path], list[Path]], tmp_path: Path
) -> None:
    if driver not in FAST and os.environ.get("PRIVOL_THREADED") != "all":
        pytest.skip("takes long under the sanitizer: PRIVOL_THREADED=all")
    part, program = tmp_path / f"{driver}.o", tmp_path / driver
    built = compile_c(compiler, [*THREADED, "-Dmain=driver_main", "-c"], [TESTS / f"{driver}.c"], part)
    assert built.returncode == 0, built.stderr
    built = compile_c(compiler, THREADED, [part, *threaded(part)], program)
    assert built.returncode == 0, built.stderr
    result = run(program)
    assert (result.returncode, result.stderr) == (0, "")
    (digest,) = set(result.stdout.splitlines())
    assert digest.split()[0] == driver.removeprefix("test_")
