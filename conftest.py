# SPDX-License-Identifier: LGPL-3.0
"""Let pytest run the live tests in t/: tests/live.py says how."""

from live import (  # noqa: F401
    pytest_collect_file,
    pytest_runtest_protocol,
    pytest_sessionfinish,
    pytest_terminal_summary,
    tree,
)

collect_ignore = []
if not (tree() and (tree() / ".git").exists()):
    collect_ignore.append("tests/test_series_real.py")
