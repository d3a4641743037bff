# SPDX-License-Identifier: LGPL-3.0
"""Build epilog_replay._ledger: the job manager's ledger as a Python module (cffi, API mode).

``python3 -m epilog_replay.ledger_build`` builds it beside this file if it is missing or older
than what it is made from. What cffi has to know is taken from the C headers, so that no
prototype is written twice. Extra compiler and linker flags are read from LEDGER_CFLAGS.
"""

import os
import re
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path

from cffi import FFI

PACKAGE = Path(__file__).resolve().parent
PROJECT = PACKAGE.parent

MODULE = "epilog_replay._ledger"

HEADERS = (
    PROJECT / "standin/src/common/libflux/types.h",
    PROJECT / "standin/flux/idset.h",
    PROJECT / "src/modules/job-manager/epilog.h",
    PACKAGE / "ledger_text.h",
)
SOURCES = (
    PROJECT / "src/modules/job-manager/epilog.c",
    PROJECT / "standin/idset.c",
    PACKAGE / "ledger_text.c",
)
# Not in HEADERS: nothing in it is for Python.
OTHER = (PROJECT / "standin/src/common/libutil/errprintf.h", Path(__file__).resolve())
INCLUDE_DIRS = (PROJECT / "standin", PROJECT, PACKAGE)


def declarations(header: str) -> str:
    """Return what cffi can read of the text of a C header.

    That is all but comments and preprocessor lines; a ``#define`` of an integer becomes
    ``#define NAME ...``, whose value cffi asks the compiler for.
    """
    header = re.sub(r"/\*.*?\*/|//[^\n]*", "", header, flags=re.DOTALL)
    header = re.sub(r"^#define (\w+) +\S.*$", r"@define \1 ...", header, flags=re.MULTILINE)
    header = re.sub(r"^#.*$", "", header, flags=re.MULTILINE)
    return header.replace("@define", "#define")


def make_ffi() -> FFI:
    """Return the cffi description of the module, flags from LEDGER_CFLAGS included."""
    flags = shlex.split(os.environ.get("LEDGER_CFLAGS", ""))
    ffi = FFI()
    for header in HEADERS:
        ffi.cdef(declarations(header.read_text(encoding="utf-8")))
    ffi.set_source(
        MODULE,
        '#include "ledger_text.h"\n',
        sources=[str(path) for path in SOURCES],
        include_dirs=[str(path) for path in INCLUDE_DIRS],
        extra_compile_args=["-std=gnu11", "-O2", *flags],
        extra_link_args=flags,
    )
    return ffi


def module_path(directory: Path) -> Path:
    """Return the path of the built module in ``directory``."""
    return directory / f"_ledger{sysconfig.get_config_var('EXT_SUFFIX')}"


def is_stale(path: Path) -> bool:
    """Return whether the module at ``path`` is missing or older than what it is made from."""
    inputs: list[Path] = [*HEADERS, *SOURCES, *OTHER]
    return not path.exists() or any(
        source.stat().st_mtime > path.stat().st_mtime for source in inputs
    )


def build(directory: Path = PACKAGE, work: Path = PROJECT / "build/ledger") -> Path:
    """Build the module and put it in ``directory``; intermediate files go to ``work``.

    Returns the module's path. Raises distutils' errors if the compiler is missing or fails.
    """
    directory.mkdir(parents=True, exist_ok=True)
    work.mkdir(parents=True, exist_ok=True)
    path = module_path(directory)
    built = make_ffi().compile(tmpdir=str(work), target=path.name)
    part = path.with_suffix(".part")  # a program that has the old one open keeps it
    shutil.copyfile(built, part)
    part.replace(path)
    return path


def main() -> int:
    """Build the module in place if need be; say what was done."""
    path = module_path(PACKAGE)
    if not is_stale(path):
        print(f"{path.name}: up to date")
        return 0
    build()
    print(f"{path.name}: built")
    return 0


if __name__ == "__main__":
    sys.exit(main())
