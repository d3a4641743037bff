#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test partial release by epilogs when a call fails

Each step of a handoff may fail, for want of memory say.  It is tried again: no
rank goes twice, none is lost, and what went is recorded.
'

# Append --logfile option if FLUX_TESTS_LOGFILE is set in environment:
test -n "$FLUX_TESTS_LOGFILE" && set -- "$@" --logfile
. $(dirname $0)/sharness.sh

if ! epilog_gdb_works; then
	skip_all='skipping tests of failing calls, gdb is missing or may not attach'
	test_done
fi

# Don't wait for a job that an epilog holds if a test failed.
export FLUX_DISABLE_JOB_CLEANUP=t

test_under_flux 1 full -Slog-stderr-level=0 \
    --conf=fake-resources.nnodes=8 \
    --conf=fake-resources.cores-per-node=2

export SHARNESS_TEST_SRCDIR FLUX_BUILD_DIR

NEXT='$n++ == 0'
SECOND='$n++ == 1'
RECORD='flags == 2' # EVENT_HANDOFF

# Usage: fail_next FUNCTION VALUE CONDITION
# Let the next such call fail.  The second waits until it did.
fail_next () {
	rm -f ready &&
	flux dmesg -C &&
	{
		run_timeout 60 ${SHARNESS_TEST_SRCDIR}/scripts/epilog-fail.sh \
		    $(flux getattr broker.pid) "$@" ready >gdb.out 2>&1 &
	} &&
	fail_pid=$! &&
	test_wait_until "test -f ready"
}
failed () {
	test_when_finished "test_debug \"cat gdb.out\"" &&
	wait $fail_pid &&
	grep "^#1 .* $1 " gdb.out
}

# Usage: tried_again ID
# The job manager said so, once.
tried_again () {
	flux dmesg >dmesg.out &&
	test "$(grep -c "error handing over ranks" dmesg.out)" = 1 &&
	grep "$1: error handing over ranks" dmesg.out
}

# Usage: ended ID FREES
ended () {
	epilog_finish $1 a &&
	epilog_wait $1 clean &&
	test "$(strict_freed $1)" = "$2"
}

test_expect_success 'load plugins, and scheduler that checks what it is told' '
	epilog_watch_start &&
	flux jobtap load alloc-check.so &&
	flux jobtap load $(epilog_hold_plugin) &&
	flux module remove sched-simple &&
	strict_start
'

#
# On the way out of the job manager: nothing has gone
#

for step in \
    "fragment_create (void*)0" \
    "claim_create -1" \
    "housekeeping_start -1"; do
	function=${step% *}
	value=${step#* }
	test_expect_success "$function fails once: the rank goes a little later" '
		id=$(epilog_submit "[{\"description\":\"a\"}]" -N4) &&
		fail_next $function "$value" "$NEXT" &&
		epilog_finish $id a 0 &&
		failed hand_over &&
		epilog_wait_gone $id 0 &&
		tried_again $id &&
		test "$(strict_freed $id)" = "0"
	'
	test_expect_success 'and the others with the end' '
		ended $id "0 1-3 final" &&
		epilog_handoffs_are $id "0 free"
	'
done

test_expect_success 'the last handoff fails once: it is not lost' '
	id=$(epilog_submit "[{\"description\":\"a\"}]" -N4) &&
	epilog_finish $id a 0-2 &&
	epilog_wait_gone $id 0-2 &&
	fail_next housekeeping_start -1 "$NEXT" &&
	epilog_finish $id a &&
	failed hand_over &&
	epilog_wait $id clean &&
	tried_again $id &&
	test "$(strict_freed $id)" = "0-2 3 final" &&
	epilog_handoffs_are $id "0-2 free"
'

#
# When they have gone: what is missing is the record
#

# Usage: test_record_fails FUNCTION CONDITION CALLER [test_must_fail]
# With the last, whoever ended the action is told of it, else it is logged.
test_record_fails () {
	function=$1
	condition=$2
	caller=$3
	must_fail=$4
	test_expect_success "$function fails: partial-free comes later, the rank goes once" '
		id=$(epilog_submit "[{\"description\":\"a\"}]" -N4) &&
		fail_next $function -1 "$condition" &&
		epilog_finish $id a 0 &&
		failed "$caller" &&
		epilog_wait_gone $id 0 &&
		tried_again $id &&
		test "$(strict_freed $id)" = "0"
	'
	test_expect_success "after a restart of the scheduler the job has the others" '
		strict_reload &&
		test "$(strict_told $id)" = "1-3" &&
		ended $id "1-3 final" &&
		epilog_handoffs_are $id "0 free"
	'
	test_expect_success "$function fails: free comes later, and only that" '
		id=$(epilog_submit "[{\"description\":\"a\"}]" -N4) &&
		epilog_finish $id a 0 &&
		epilog_wait_gone $id 0 &&
		fail_next $function -1 "$condition" &&
		$must_fail epilog_finish $id a &&
		failed "$caller" &&
		epilog_wait $id clean &&
		{ test -n "$must_fail" || tried_again $id; } &&
		test "$(strict_freed $id)" = "0 1-3 final" &&
		epilog_handoffs_are $id "0 free"
	'
}

test_record_fails event_job_post_entry "$RECORD" record_post

test_expect_success 'what is let go of meanwhile goes when that is recorded' '
	id=$(epilog_submit "[{\"description\":\"a\"}]" -N4) &&
	fail_next event_job_post_entry -1 "$RECORD" &&
	epilog_finish $id a 0 &&
	failed record_post &&
	epilog_finish $id a 1-2 &&
	epilog_wait_gone $id 0 &&
	ended $id "0 1-2 3 final" &&
	epilog_handoffs_are $id "0 1-2 free"
'
test_expect_success 'the job that ends meanwhile ends when that is recorded' '
	id=$(epilog_submit "[{\"description\":\"a\"}]" -N4) &&
	fail_next event_job_post_entry -1 "$RECORD" &&
	epilog_finish $id a 0 &&
	failed record_post &&
	ended $id "0 1-3 final" &&
	epilog_handoffs_are $id "0 free"
'

#
# It is posted, and then what processes it fails: epilog-finish comes first
#

test_record_fails journal_process_event "$SECOND" "[a-z_]*" test_must_fail

test_expect_success 'nothing was freed twice, or while held, or is lost' '
	epilog_watch_check
'

# From here on the journal tells a record twice, which the watch would not like.
test_record_fails job_event_id_set "$SECOND" "[a-z_]*" test_must_fail

test_expect_success 'the scheduler found nothing wrong, nothing is left' '
	epilog_allocated_are "" &&
	strict_stop
'

test_done
