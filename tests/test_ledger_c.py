# SPDX-License-Identifier: LGPL-3.0
"""The ledger's unit test in C, plain and under sanitizers; and the Python tests under them.

Where there is a built flux-core tree (live.py), the C test runs against its libraries too.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from epilog_replay import ledger_build
from live import tree

PROJECT = Path(__file__).resolve().parents[1]
JOB_MANAGER = PROJECT / "src/modules/job-manager"
FLUX_CORE_DIR = tree() or Path("/nonexistent")

CC = os.environ.get("CC", "cc")
CFLAGS = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]

# Heavy on the ledger, light on the rest.
SANITIZED_TESTS = ["tests/test_ledger_properties.py", "tests/test_idset.py"]


def run(command: list[str], **env: str) -> str:
    """Run a command; return its output, which is shown if it fails."""
    result = subprocess.run(
        command,
        cwd=PROJECT,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout[-4000:]
    return result.stdout


def library(name: str) -> str:
    """Return the path of a library of the compiler; skip the test if it is not installed."""
    path = run([CC, f"-print-file-name={name}"]).strip()
    if not os.path.isabs(path):
        pytest.skip(f"{CC} has no {name} (Debian: libgcc-*-dev; RHEL: libasan, libubsan)")
    return path


def check_tap(output: str) -> None:
    """A whole TAP stream in which all went well."""
    plans = re.findall(r"^1\.\.(\d+)$", output, re.MULTILINE)
    good = re.findall(r"^ok \d+", output, re.MULTILINE)
    assert not re.findall(r"^not ok.*", output, re.MULTILINE)
    assert plans == [str(len(good))]
    assert len(good) > 500


def build_and_run(flags: list[str], sources: list[Path], libs: list[str], program: Path) -> str:
    """Compile the ledger and its unit test with the most warnings; run it, leaks included."""
    sources = [JOB_MANAGER / "epilog.c", JOB_MANAGER / "test/epilog.c", *sources]
    run([CC, *CFLAGS, *flags, *map(str, sources), *libs, "-ldl", "-o", str(program)])
    return run([str(program)], ASAN_OPTIONS="detect_leaks=1", UBSAN_OPTIONS="print_stacktrace=1")


def test_unit(tmp_path: Path) -> None:
    """Against the stand-ins."""
    include = [f"-I{PROJECT / 'standin'}", f"-I{PROJECT}"]
    sources = [PROJECT / "standin/idset.c"]
    check_tap(build_and_run(include, sources, [], tmp_path / "test_epilog"))


def test_unit_sanitized(tmp_path: Path) -> None:
    """Against the stand-ins, under AddressSanitizer, LeakSanitizer and UBSan."""
    library("libasan.so")
    library("libubsan.so")
    include = [f"-I{PROJECT / 'standin'}", f"-I{PROJECT}"]
    sources = [PROJECT / "standin/idset.c"]
    check_tap(build_and_run([*SANITIZE, *include], sources, [], tmp_path / "test_epilog"))


def unit_flux(tmp_path: Path) -> None:
    """Against flux-core's own libidset, errprintf and libtap."""
    common = FLUX_CORE_DIR / "src/common"
    include = [PROJECT, FLUX_CORE_DIR, FLUX_CORE_DIR / "config", FLUX_CORE_DIR / "src/include"]
    flags = ["-DHAVE_CONFIG_H", *(f"-I{path}" for path in include)]
    libs = [
        str(common / "libtap/.libs/libtap.a"),
        f"-L{common / '.libs'}",
        f"-Wl,-rpath,{common / '.libs'}",
        "-lflux-core",
        "-lflux-idset",
        str(common / ".libs/libflux-internal.a"),
        "-ljansson",
    ]
    check_tap(build_and_run(flags, [], libs, tmp_path / "test_epilog"))


if (FLUX_CORE_DIR / "src/common/.libs/libflux-idset.so").exists():
    test_unit_flux = unit_flux


def test_python_sanitized(tmp_path: Path) -> None:
    """The property tests, with the ledger built under AddressSanitizer and UBSan.

    Leaks are not looked for here (Python itself has some); test_unit_sanitized does that.
    """
    preload = f"{library('libasan.so')} {library('libubsan.so')}"
    env: dict[str, str] = {"LEDGER_CFLAGS": " ".join(["-g", "-O1", *SANITIZE])}
    code = (
        "import sys; from pathlib import Path; from epilog_replay.ledger_build import build; "
        "build(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    package = tmp_path / "package"
    run([sys.executable, "-c", code, str(package), str(tmp_path / "work")], **env)
    assert ledger_build.module_path(package).exists()

    # The package's own module would be found first, were it not for this.
    code = (
        "import sys, epilog_replay, pytest; epilog_replay.__path__.insert(0, sys.argv[1]); "
        "from epilog_replay import _ledger; assert _ledger.__file__.startswith(sys.argv[1]); "
        "sys.exit(pytest.main(['-o', 'addopts=', '-p', 'no:cacheprovider', *sys.argv[2:]]))"
    )
    output = run(
        [sys.executable, "-c", code, str(package), *SANITIZED_TESTS],
        LD_PRELOAD=preload,
        LEDGER_EXAMPLES="0.25",
        ASAN_OPTIONS="detect_leaks=0",
        UBSAN_OPTIONS="print_stacktrace=1",
    )
    assert re.search(r"= \d+ passed.* in ", output)
