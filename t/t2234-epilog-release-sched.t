#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test partial release by epilogs with schedulers

Any scheduler may be loaded, and reloaded at any time, with or without the
partial-ok of RFC 27: it is told of what a job has left, once, and gets each
rank back once.
'

# Append --logfile option if FLUX_TESTS_LOGFILE is set in environment:
test -n "$FLUX_TESTS_LOGFILE" && set -- "$@" --logfile
. $(dirname $0)/sharness.sh

# Don't wait for a job that an epilog holds if a test failed.
export FLUX_DISABLE_JOB_CLEANUP=t

# Ranks other than 0 have no broker, so housekeeping is over there at once.
test_under_flux 1 full -Slog-stderr-level=1 \
    --conf=fake-resources.nnodes=8 \
    --conf=fake-resources.cores-per-node=2

HOLD='[{"description":"a"}]'

# Usage: run_short_id OPTION...
# Run a job that ends at once, wait until it is gone, and print its id.
run_short_id () {
	local id
	id=$(flux submit --setattr=system.exec.test.run_duration=0.01s "$@" true) &&
	epilog_wait $id clean &&
	echo $id
}

# Usage: run_short OPTION...
# Run a job that ends at once and gets no exception; wait until it is gone.
run_short () {
	local id
	id=$(run_short_id "$@") &&
	flux job status $id
}

# Usage: run_long OPTION...
# Start a job that runs until it is canceled, and print its id.
run_long () {
	local id
	id=$(flux submit --setattr=system.exec.test.run_duration=600s "$@" true) &&
	epilog_wait $id start &&
	echo $id
}

# Usage: cancel_long ID
cancel_long () {
	flux cancel $1 &&
	epilog_wait $1 clean
}

# Usage: housekeeping_is LINES
# Wait until housekeeping runs for these jobs and ranks: "ID RANKS".
housekeeping_is () {
	test_wait_until -i 100 \
	    "test \"\$(flux housekeeping list -no \"{id.f58} {ranks}\")\" = \"$1\""
}

# A job that gets what another has gets an exception, in any test.
test_expect_success 'load plugins' '
	epilog_watch_start &&
	flux jobtap load alloc-check.so &&
	flux jobtap load $(epilog_hold_plugin)
'

#
# The schedulers of flux-core.  A fault in a free stops the module.
#
for sched in sched-simple sched-fifo sched-backfill; do
	test_expect_success "$sched: load it" '
		flux module remove sched-simple &&
		flux module load $sched log-level=debug &&
		flux dmesg -C
	'
	test_expect_success "$sched: a job waits for ranks that an epilog holds" '
		id=$(epilog_submit "$HOLD" -N6 --requires=rank:0-5) &&
		next=$(flux submit -N4 --requires=rank:0-1,6-7 \
		    --setattr=system.exec.test.run_duration=0.01s true) &&
		epilog_finish $id a 0 &&
		epilog_wait_gone $id 0 &&
		epilog_allocated_are 1-5 &&
		test "$(flux jobs -no {state} $next)" = "SCHED"
	'
	test_expect_success "$sched: and starts as soon as they go" '
		epilog_finish $id a 1 &&
		epilog_wait $next clean &&
		epilog_allocated_are 2-5
	'
	test_expect_success "$sched: two jobs share a node that went" '
		share=$(flux submit --setattr=system.exec.test.run_duration=600s \
		    -n1 -c1 --requires=rank:0 true) &&
		run_short -n1 -c1 --requires=rank:0 &&
		epilog_allocated_are 0,2-5 &&
		flux cancel $share &&
		epilog_wait $share clean
	'
	test_expect_success "$sched: reload it, and let go of the rest" '
		flux module reload $sched log-level=debug &&
		epilog_finish $id a 3,5 &&
		epilog_wait_gone $id 3,5 &&
		epilog_allocated_are 2,4 &&
		epilog_finish $id a &&
		epilog_wait $id clean &&
		epilog_allocated_are "" &&
		epilog_handoffs_are $id "0 1 3,5 free"
	'
	test_expect_success "$sched: it had one final free, and no fault" '
		flux dmesg >$sched.log &&
		grep "$sched.*free: $id" $sched.log >$sched.frees &&
		test_debug "cat $sched.frees" &&
		test $(grep -c . $sched.frees) -eq 4 &&
		tail -1 $sched.frees | grep "rank\[2,4\].*(final)" &&
		test $(grep -c final $sched.frees) -eq 1 &&
		! grep "$sched.err" $sched.log &&
		flux module remove $sched &&
		flux module load sched-simple
	'
done

#
# Reload at each step, with a scheduler that checks what it is told.
#
test_expect_success 'load sched-strict' '
	flux module remove sched-simple &&
	strict_start
'
test_expect_success 'scheduler reloaded before any rank went is told of all' '
	id=$(epilog_submit "$HOLD" -N4 --requires=rank:0-3) &&
	strict_reload &&
	test "$(strict_told $id)" = "0-3" &&
	epilog_allocated_are 0-3
'
test_expect_success 'scheduler reloaded between partial frees is told the rest' '
	epilog_finish $id a 0-1 &&
	epilog_wait_gone $id 0-1 &&
	test "$(strict_freed $id)" = "0-1" &&
	strict_reload &&
	test "$(strict_told $id)" = "2-3" &&
	epilog_allocated_are 2-3
'
test_expect_success 'ranks that go while no scheduler is loaded are not told' '
	strict_stop &&
	epilog_finish $id a 2 &&
	epilog_wait_gone $id 2 &&
	strict_start &&
	test "$(strict_told $id)" = "3" &&
	epilog_allocated_are 3
'
test_expect_success 'scheduler reloaded after the last rank went is not told' '
	epilog_finish $id a 3 &&
	epilog_wait $id free &&
	test "$(strict_freed $id)" = "3 final" &&
	strict_reload &&
	test "$(strict_told $id)" = "" &&
	epilog_allocated_are ""
'
test_expect_success 'the action ends, and so does the job' '
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "0-1 2 free" &&
	test "$(strict_freed $id)" = ""
'
test_expect_success 'the last rank may go while no scheduler is loaded' '
	id=$(epilog_submit "$HOLD" -N2 --requires=rank:0-1) &&
	epilog_finish $id a 0 &&
	epilog_wait_gone $id 0 &&
	strict_stop &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	strict_start &&
	test "$(strict_told $id)" = "" &&
	epilog_allocated_are ""
'

# Usage: strict_start_hello KEY
# Load the scheduler, and return when it has had its answer to hello.  It is
# not ready before KEY is in the KVS.
strict_start_hello () {
	flux dmesg -C &&
	flux module load \
	    ${SHARNESS_TEST_SRCDIR}/scheduler/sched-strict.py ready-key=$1 &&
	test_wait_until -i 100 "flux dmesg | grep \"scheduler: hello\""
}

test_expect_success 'start jobs, then stop at hello' '
	part=$(epilog_submit "$HOLD" -N4 --requires=rank:0-3) &&
	last=$(epilog_submit "$HOLD" -N2 --requires=rank:4-5) &&
	plain=$(run_long -N1 --requires=rank:6) &&
	epilog_finish $part a 0 &&
	epilog_wait_gone $part 0 &&
	epilog_finish $last a 4 &&
	epilog_wait_gone $last 4 &&
	strict_stop &&
	strict_start_hello ready1
'
test_expect_success 'between hello and ready, ranks go' '
	epilog_finish $part a 1 &&
	epilog_wait_gone $part 1 &&
	epilog_finish $part a 2 &&
	epilog_wait_gone $part 2 &&
	epilog_finish $last a &&
	epilog_wait $last clean
'
test_expect_success 'and so do those of a job without epilog' '
	cancel_long $plain
'
test_expect_success 'the scheduler gets these frees once it is ready' '
	flux kvs put ready1=1 &&
	test "$(strict_told $part)" = "1-3" &&
	test "$(strict_freed $part)" = "1 2" &&
	test "$(strict_told $last)" = "5" &&
	test "$(strict_freed $last)" = "5 final" &&
	test "$(strict_told $plain)" = "6" &&
	test "$(strict_freed $plain)" = "6 final" &&
	epilog_allocated_are 3
'
test_expect_success 'scheduler dies between hello and ready, the last rank goes' '
	strict_stop &&
	strict_start_hello ready2 &&
	epilog_finish $part a &&
	epilog_wait $part clean &&
	flux dmesg >hello.log &&
	pid=$(sed -n "s/.*sched-strict.*: process //p" hello.log) &&
	flux setattr broker.module-nopanic 1 &&
	kill -9 $pid &&
	test_wait_until -i 100 \
	    "flux module list >modules && ! grep sched-strict modules" &&
	flux setattr broker.module-nopanic 0
'
test_expect_success 'the free that waited for it does not go to the next one' '
	strict_start &&
	test "$(strict_told $part)" = "" &&
	test "$(strict_freed $part)" = "" &&
	epilog_allocated_are ""
'

#
# Without partial-ok.
#
test_expect_success 'with a scheduler without partial-ok, a job keeps its ranks' '
	strict_reload nopartial &&
	flux dmesg -C &&
	id=$(epilog_submit "$HOLD" -N2 --requires=rank:0-1) &&
	id2=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"\"}]" \
	    -N2 --requires=rank:2-3) &&
	epilog_finish $id a 0 &&
	epilog_finish $id a 1 &&
	epilog_finish $id2 a all &&
	epilog_allocated_are 0-3
'
test_expect_success 'until its last epilog ends' '
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_finish $id2 a &&
	epilog_wait $id2 clean &&
	epilog_handoffs_are $id free &&
	epilog_handoffs_are $id2 free &&
	test "$(strict_freed $id)" = "0-1 final" &&
	test "$(strict_freed $id2)" = "2-3 final"
'
test_expect_success 'it is logged once' '
	flux dmesg >nopartial.log &&
	test $(grep -c "job-manager.info.*does not take them in parts" \
	    nopartial.log) -eq 1
'
test_expect_success 'and sched-simple is given nothing in parts, if it says so' '
	strict_stop &&
	flux module load sched-simple test-hello-nopartial &&
	id=$(epilog_submit "$HOLD" -N2 --requires=rank:0-1) &&
	epilog_finish $id a 0 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id free &&
	flux module remove sched-simple &&
	strict_start
'
test_expect_success 'ranks kept for want of partial-ok go with a later scheduler' '
	strict_reload nopartial &&
	id=$(epilog_submit "$HOLD" -N4 --requires=rank:0-3) &&
	epilog_finish $id a 0-1 &&
	strict_reload &&
	epilog_wait_gone $id 0-1 &&
	epilog_finish $id a 2 &&
	epilog_wait_gone $id 2 &&
	epilog_allocated_are 3
'
test_expect_success 'a scheduler without partial-ok is told of the job as a whole' '
	other=$(run_long -N1 --requires=rank:6) &&
	strict_reload nopartial &&
	test "$(strict_told $id)" = "0-3" &&
	test "$(strict_told $other)" = "6"
'
test_expect_success 'and last, although it is the older one' '
	test "$(jq -r ".hello[1].id" strict.json)" = $(flux job id --to=dec $id)
'
test_expect_success 'it gets the job back as a whole' '
	epilog_finish $id a &&
	epilog_wait $id clean &&
	test "$(strict_freed $id)" = "0-3 final" &&
	epilog_handoffs_are $id "0-1 2 free" &&
	cancel_long $other &&
	epilog_allocated_are ""
'

test_expect_success 'two jobs let go of the same rank in turn' '
	strict_reload &&
	id=$(epilog_submit "$HOLD" -N2 --requires=rank:0-1) &&
	epilog_finish $id a 0 &&
	epilog_wait_gone $id 0 &&
	id2=$(epilog_submit "$HOLD" -N2 --requires=rank:0,2) &&
	epilog_finish $id2 a 0 &&
	epilog_wait_gone $id2 0
'
test_expect_success 'a scheduler without partial-ok is told of one of them' '
	strict_reload nopartial &&
	test "$(strict_told $id)" = "0-1" &&
	test "$(strict_told $id2)" = "" &&
	flux job wait-event -t 60 -m type=scheduler-restart $id2 exception
'
test_expect_success 'each ends with its action, one gives its ranks back' '
	epilog_finish $id2 a &&
	epilog_wait $id2 clean &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	test "$(strict_freed $id)" = "0-1 final" &&
	test "$(strict_freed $id2)" = "" &&
	run_short -N1 --requires=rank:0
'

#
# A scheduler can't have the job back as it is.
#
test_expect_success 'create housekeeping script that does not end' '
	cat >housekeeping.sh <<-EOT &&
	#!/bin/sh
	echo \$\$ >$(pwd)/housekeeping.pid
	exec sleep inf
	EOT
	chmod +x housekeeping.sh
'

# Usage: configure EXCLUDE
# Exclude ranks, or none, from what a scheduler gets, and start it.
configure () {
	strict_stop &&
	flux config load <<-EOT &&
	resource.exclude = "$1"
	[job-manager.housekeeping]
	release-after = "0"
	command = [ "$(pwd)/housekeeping.sh" ]
	EOT
	flux module reload -f resource noverify monitor-force-up &&
	flux dmesg -C &&
	strict_start
}

# Usage: partly_released
# Print the id of a job on ranks 0-3 that has let go of 0-1, where rank 0 is
# in housekeeping, and 1 is free.
partly_released () {
	local id
	rm -f housekeeping.pid &&
	id=$(epilog_submit "$HOLD" -N4 --requires=rank:0-3) &&
	epilog_finish $id a 0-1 &&
	epilog_wait_gone $id 0-1 &&
	housekeeping_is "$id 0" >/dev/null &&
	test_wait_until "test -s housekeeping.pid" &&
	echo $id
}

# Housekeeping is over for all jobs, and was not left running.
housekeeping_canceled () {
	housekeeping_is "" &&
	test_wait_until -i 100 "! kill -0 $(cat housekeeping.pid)"
}

# Usage: rest_comes_back ID
# Housekeeping ends, and the scheduler gets rank 0 of the job, with nothing left.
rest_comes_back () {
	flux housekeeping kill --all &&
	housekeeping_canceled &&
	test "$(strict_freed $1)" = "0 final" &&
	epilog_allocated_are ""
}

test_expect_success 'another job is on a rank that came back' '
	configure "" &&
	id=$(partly_released) &&
	other=$(run_long -N1 --requires=rank:1) &&
	epilog_allocated_are 0-3
'
test_expect_success 'the first job is dropped for a scheduler without partial-ok' '
	strict_reload nopartial &&
	test "$(strict_told $other)" = "1" &&
	test "$(strict_told $id)" = "" &&
	flux job wait-event -t 60 -m type=scheduler-restart $id exception
'
test_expect_success 'its holds and its housekeeping are dropped with it' '
	housekeeping_canceled &&
	epilog_allocated_are 1
'
test_expect_success 'it ends with its action, and nothing more is freed' '
	epilog_finish $id a &&
	epilog_wait $id clean &&
	test "$(strict_freed $id)" = "" &&
	epilog_handoffs_are $id "0-1"
'
test_expect_success 'the other job was not touched' '
	test "$(flux jobs -no {state} $other)" = "RUN" &&
	cancel_long $other &&
	test_wait_until -i 100 "test \"\$(strict_freed $other)\" = \"1 final\"" &&
	epilog_allocated_are ""
'
test_expect_success 'the rank in housekeeping is excluded, a scheduler drops the job' '
	strict_reload &&
	id=$(partly_released) &&
	configure 0 &&
	test "$(strict_told $id)" = "0,2-3" &&
	flux job wait-event -t 60 -m type=scheduler-restart $id exception
'
test_expect_success 'its holds and its housekeeping are dropped with it' '
	housekeeping_canceled &&
	epilog_allocated_are ""
'
test_expect_success 'it ends with its action, and nothing more is freed' '
	epilog_finish $id a 2 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	test "$(strict_freed $id)" = "" &&
	epilog_handoffs_are $id "0-1"
'

#
# The job is inactive, but housekeeping runs on a part of it.
#
test_expect_success 'a scheduler is told of an inactive job in housekeeping' '
	configure "" &&
	id=$(partly_released) &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	test_wait_until -i 100 "epilog_allocated_are 0" &&
	strict_reload &&
	test "$(strict_told $id)" = "0" &&
	epilog_allocated_are 0
'
test_expect_success 'and gets the final free when that is over' '
	rest_comes_back $id
'
test_expect_success 'housekeeping ends if such a job was purged' '
	id=$(partly_released) &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	test_wait_until -i 100 "epilog_allocated_are 0" &&
	flux job purge --force --num-limit=0 &&
	flux dmesg -C &&
	strict_reload &&
	housekeeping_canceled &&
	test "$(strict_told $id)" = "" &&
	epilog_allocated_are "" &&
	flux dmesg >purged.log &&
	test $(grep -c "job-manager.err.*$id: resources are dropped .* purged" \
	    purged.log) -eq 1
'
test_expect_success 'or if a scheduler without partial-ok can not have it' '
	id=$(partly_released) &&
	other=$(run_long -N1 --requires=rank:1) &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	test_wait_until -i 100 "epilog_allocated_are 0-1" &&
	flux dmesg -C &&
	strict_reload nopartial &&
	housekeeping_canceled &&
	test "$(strict_told $id)" = "" &&
	epilog_allocated_are 1 &&
	flux dmesg >dropped.log &&
	test $(grep -c "job-manager.err.*$id: resources are dropped" \
	    dropped.log) -eq 1 &&
	cancel_long $other &&
	epilog_allocated_are ""
'
test_expect_success 'or if the scheduler drops it' '
	strict_reload &&
	id=$(partly_released) &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	test_wait_until -i 100 "epilog_allocated_are 0" &&
	configure 0 &&
	test "$(strict_told $id)" = "0" &&
	housekeeping_canceled &&
	test "$(strict_freed $id)" = "" &&
	epilog_allocated_are "" &&
	configure ""
'
test_expect_success 'so does that of a job that never had an epilog' '
	rm -f housekeeping.pid &&
	id=$(run_short_id -N1 --requires=rank:0) &&
	test_wait_until "test -s housekeeping.pid" &&
	configure 0 &&
	test "$(strict_told $id)" = "0" &&
	housekeeping_canceled &&
	test "$(strict_freed $id)" = "" &&
	epilog_allocated_are "" &&
	configure ""
'
test_expect_success 'undo the configuration, load sched-simple again' '
	flux config load </dev/null &&
	strict_stop &&
	flux module load sched-simple
'

#
# alloc-check is still of use.
#
test_expect_success 'alloc-check: a job may have what another let go of' '
	flux jobtap load alloc-bypass.so &&
	id=$(epilog_submit "$HOLD" -N4 --requires=rank:0-3) &&
	epilog_finish $id a 0-1 &&
	epilog_wait_gone $id 0-1 &&
	run_short -N1 --setattr=alloc-bypass.R="$(flux R encode -r0 -c0-1)"
'
test_expect_success 'alloc-check: but not what it holds' '
	double=$(flux submit --setattr=alloc-bypass.R="$(flux R encode -r1-2 -c0-1)" \
	    --setattr=system.exec.test.run_duration=0.01s -N2 true) &&
	flux job wait-event -t 60 -m type=alloc-check $double exception
'
test_expect_success 'alloc-check: nor what it held, before the rest is free' '
	epilog_finish $id a 2 &&
	epilog_wait_gone $id 2 &&
	epilog_wait $double clean &&
	double=$(flux submit --setattr=alloc-bypass.R="$(flux R encode -r2-3 -c0-1)" \
	    --setattr=system.exec.test.run_duration=0.01s -N2 true) &&
	flux job wait-event -t 60 -m type=alloc-check $double exception &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_wait $double clean &&
	run_short -N4 --setattr=alloc-bypass.R="$(flux R encode -r0-3 -c0-1)"
'
test_expect_success 'alloc-check: no other job got an exception from it' '
	flux jobs -a -no "{id.f58} {exception.type}" >exceptions &&
	test $(grep -c alloc-check exceptions) -eq 2
'
test_expect_success 'the watch saw nothing wrong' '
	epilog_watch_check
'
#
# Somebody who is not the scheduler says that it dropped a job.  The watch does
# not know of that.
#
test_expect_success 'a job loses what it holds by an exception' '
	flux module remove sched-simple &&
	strict_start &&
	configure "" &&
	id=$(partly_released) &&
	flux job raiseall --force --severity=0 --states=CLEANUP \
	    scheduler-restart &&
	flux job wait-event -t 60 -m type=scheduler-restart $id exception &&
	test "$(strict_freed $id)" = "1" &&
	epilog_finish $id a &&
	epilog_wait $id clean
'
test_expect_success 'a scheduler is told of what is in housekeeping, and no more' '
	strict_reload &&
	test "$(strict_told $id)" = "0" &&
	epilog_allocated_are 0 &&
	rest_comes_back $id
'
test_expect_success 'or of nothing, if housekeeping is over' '
	id=$(partly_released) &&
	flux housekeeping kill --all &&
	housekeeping_canceled &&
	test_wait_until -i 100 "test \"\$(strict_freed $id)\" = \"1 0\"" &&
	flux job raiseall --force --severity=0 --states=CLEANUP \
	    scheduler-restart &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	test "$(strict_freed $id)" = "1 0" &&
	strict_reload &&
	test "$(strict_told $id)" = "" &&
	epilog_allocated_are ""
'
test_expect_success 'undo the configuration' '
	flux config load </dev/null &&
	strict_stop &&
	flux module load sched-simple &&
	run_short -N8
'
test_expect_success 'unload plugins' '
	flux jobtap remove epilog-hold.so &&
	flux jobtap remove alloc-bypass.so &&
	flux jobtap remove alloc-check.so
'

test_done
