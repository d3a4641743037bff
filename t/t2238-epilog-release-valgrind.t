#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Run partial release by epilogs under valgrind

Errors and leaks of the broker and its modules, of which the job manager is
one, are failures: see valgrind/epilog-release.sh for what it goes through.
Slow: on demand only, as t5000-valgrind.t is, with -d or FLUX_ENABLE_VALGRIND_TEST.
'

# Append --logfile option if FLUX_TESTS_LOGFILE is set in environment:
test -n "$FLUX_TESTS_LOGFILE" && set -- "$@" --logfile
. $(dirname $0)/sharness.sh

if test -z "$FLUX_ENABLE_VALGRIND_TEST" && test "$debug" = ""; then
	skip_all='slow: set FLUX_ENABLE_VALGRIND_TEST to run under valgrind'
	test_done
fi
if ! which valgrind >/dev/null; then
	skip_all='valgrind is not installed'
	test_done
fi
if ! test_have_prereq NO_ASAN; then
	skip_all='valgrind and AddressSanitizer do not go together'
	test_done
fi

# Leave jobs as they are when the first instance stops.
export FLUX_DISABLE_JOB_CLEANUP=t
export SHARNESS_TEST_SRCDIR FLUX_BUILD_DIR

WORKLOAD=${SHARNESS_TEST_SRCDIR}/valgrind/epilog-release.sh

# Usage: under_valgrind NAME begin|end
# Run a part of the workload.  What valgrind says is in NAME.PID.
under_valgrind () {
	local name=$1 part=$2 option
	set -- --wrap=libtool,e,$(which valgrind)
	for option in tool=memcheck error-exitcode=1 log-file=$name.%p \
	    suppressions=${SHARNESS_TEST_SRCDIR}/valgrind/valgrind.supp \
	    leak-check=full leak-resolution=med num-callers=30 \
	    gen-suppressions=all trace-children=no child-silent-after-fork=yes; do
		set -- "$@" --wrap=--$option
	done
	run_timeout 900 flux start -Sstatedir=$(pwd)/state \
	    --conf=fake-resources.nnodes=8 \
	    --conf=fake-resources.cores-per-node=2 \
	    "$@" $WORKLOAD $part
}

# Usage: is_clean NAME
# Valgrind has looked to the end, and found nothing.
is_clean () {
	cat $1.* >$1.log &&
	grep "ERROR SUMMARY: 0 errors" $1.log && return 0
	cat $1.log >&2
	return 1
}

test_expect_success 'jobs go through partial release' '
	mkdir state &&
	under_valgrind begin begin
'
test_expect_success 'and valgrind finds no error' '
	is_clean begin
'
test_expect_success 'an instance restarts with jobs that hold ranks' '
	under_valgrind end end
'
test_expect_success 'and valgrind finds no error' '
	is_clean end
'

test_done
