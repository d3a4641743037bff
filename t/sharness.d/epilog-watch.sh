# SPDX-License-Identifier: LGPL-3.0

# Watch what becomes of resources while a test file runs.  Call the first
# in the first test and the second in the last one, when no job is active: it
# fails if a rank was freed twice, freed while held, or lost, and so on: see
# scripts/epilog_books.py.  Records are left in $1 (default: epilog-watch.jsonl).

# Usage: epilog_watch_start [FILE]
epilog_watch_start() {
    flux python "${SHARNESS_TEST_SRCDIR}/scripts/epilog-watch.py" \
        start "${1:-epilog-watch.jsonl}"
}

# Usage: epilog_watch_check [FILE] [--active-ok]
epilog_watch_check() {
    test $# -gt 0 || set -- epilog-watch.jsonl
    flux python "${SHARNESS_TEST_SRCDIR}/scripts/epilog-watch.py" check "$@"
}
