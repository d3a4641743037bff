#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test partial release by epilogs with real tasks

The exec system, prologs, the administrative epilog, and nested instances all
have their say in when a rank may go.
'

# Append --logfile option if FLUX_TESTS_LOGFILE is set in environment:
test -n "$FLUX_TESTS_LOGFILE" && set -- "$@" --logfile
. $(dirname $0)/sharness.sh

# A job that is held for good must not hold the instance.
export FLUX_DISABLE_JOB_CLEANUP=t

test_under_flux 4 full --test-exit-mode=leader \
    --conf=exec.kill-timeout=600s

# Be patient with a busy machine.
TEST_WAIT_UNTIL_DEFAULT_ITERS=600

export SHARNESS_TEST_SRCDIR FLUX_BUILD_DIR

# Usage: event_order ID EVENT...
# The first of each of these events are in that order.
event_order () {
	local id=$1
	shift
	flux job info $id eventlog >order.log &&
	jq -r .name <order.log >order.names &&
	test_debug "paste -s -d \" \" order.names" &&
	for name in "$@"; do
		grep -n -m1 "^$name\$" order.names || echo missing $name
	done | cut -d: -f1 >order.lines &&
	sort -n -c order.lines
}

# Usage: status_is STATUS RANKS
status_is () {
	test "$(flux resource status -s $1 -no {ranks})" = "$2"
}

test_expect_success 'start the watcher and load the plugin' '
	epilog_watch_start &&
	flux jobtap load $(epilog_hold_plugin)
'
test_expect_success 'create a command that waits for a file' '
	cat >wait-for.sh <<-EOT &&
	#!/bin/sh
	trap "" TERM
	touch $(pwd)/\$1.waits
	until test -f $(pwd)/\$1; do sleep 0.1; done
	EOT
	chmod +x wait-for.sh
'

#
# The exec system
#

test_expect_success 'start a job whose tasks ignore SIGTERM' '
	id=$(flux submit -N4 -n4 \
	    --setattr=system.epilog-hold="[{\"description\":\"a\"}]" \
	    $(pwd)/wait-for.sh tasks) &&
	flux job wait-event -t 60 $id start &&
	test_wait_until "test -f tasks.waits"
'
test_expect_success 'no rank goes before the exec system is done' '
	flux cancel $id &&
	epilog_wait $id epilog-start &&
	epilog_finish $id a 1-3 &&
	flux job wait-event -t 60 -m ranks=1-3 $id epilog-finish &&
	epilog_allocated_are 0-3
'
test_expect_success 'then it goes' '
	touch tasks &&
	epilog_wait_gone $id 1-3 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "1-3 free" &&
	event_order $id exception epilog-start epilog-finish release partial-free
'

#
# What resource tools say
#

test_expect_success 'a held rank that is drained is draining until it goes' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"1-2\"}]" -N4) &&
	epilog_wait_gone $id 0,3 &&
	flux resource drain 2-3 test &&
	status_is draining 2 &&
	status_is drained 3 &&
	epilog_finish $id a 2 &&
	epilog_wait_gone $id 2 &&
	status_is draining "" &&
	status_is drained 2-3 &&
	flux resource undrain 2-3 &&
	test "$(flux resource list -s free -no {ranks})" = "0,2-3" &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	test "$(flux resource list -s free -no {ranks})" = "0-3"
'
test_expect_success 'real tasks run on what went' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0,2\"}]" -N4) &&
	epilog_wait_gone $id 1,3 &&
	run_timeout 60 flux run -N2 -n2 flux getattr rank >ran.out &&
	sort ran.out >ran.sorted &&
	printf "1\n3\n" >ran.expected &&
	test_cmp ran.expected ran.sorted &&
	epilog_finish $id a &&
	epilog_wait $id clean
'

#
# Prologs, and the administrative epilog
#

test_expect_success 'configure a prolog that fails, and an epilog that takes long' '
	flux config load <<-EOT &&
	[job-manager.prolog]
	command = [ "false" ]
	[job-manager.epilog]
	command = [ "$(pwd)/wait-for.sh", "epilog" ]
	EOT
	flux jobtap load perilog.so
'
test_expect_success 'the epilog of a failed prolog holds all ranks' '
	id=$(flux submit -N4 true) &&
	test_wait_until "test -f epilog.waits" &&
	flux job wait-event -t 60 $id prolog-finish &&
	epilog_allocated_are 0-3 &&
	test "$(flux jobs -no {state} $id)" = "CLEANUP"
'
test_expect_success 'until it ends' '
	touch epilog &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id free &&
	event_order $id epilog-start prolog-finish epilog-finish free clean
'
test_expect_success 'another action may go on after it' '
	rm -f epilog epilog.waits &&
	id=$(flux submit -N4 \
	    --setattr=system.epilog-hold="[{\"description\":\"a\",\"ranks\":\"3\"}]" \
	    true) &&
	test_wait_until "test -f epilog.waits" &&
	flux job wait-event -t 60 -c 2 $id epilog-start &&
	epilog_allocated_are 0-3 &&
	touch epilog &&
	epilog_wait_gone $id 0-2 &&
	epilog_allocated_are 3 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "0-2 free"
'
test_expect_success 'configure a prolog that takes long, and is not canceled' '
	flux config load <<-EOT
	[job-manager.prolog]
	command = [ "$(pwd)/wait-for.sh", "prolog" ]
	cancel-on-exception = false
	EOT
'
test_expect_success 'while a prolog of a canceled job runs, no rank goes' '
	id=$(flux submit -N4 \
	    --setattr=system.epilog-hold="[{\"description\":\"a\",\"ranks\":\"0\"}]" \
	    true) &&
	test_wait_until "test -f prolog.waits" &&
	flux cancel $id &&
	epilog_wait $id epilog-start &&
	epilog_allocated_are 0-3 &&
	test "$(flux jobs -no {state} $id)" = "CLEANUP"
'
test_expect_success 'then it goes' '
	touch prolog &&
	epilog_wait_gone $id 1-3 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "1-3 free" &&
	event_order $id exception epilog-start prolog-finish partial-free
'
test_expect_success 'configure a per-rank epilog' '
	rm -f epilog epilog.waits &&
	flux config load <<-EOT
	[job-manager.epilog]
	per-rank = true
	command = [ "$(pwd)/wait-for.sh", "epilog" ]
	EOT
'
test_expect_success 'it holds all ranks of the job, beside other actions' '
	id=$(flux submit -N4 \
	    --setattr=system.epilog-hold="[{\"description\":\"a\",\"ranks\":\"1,3\"}]" \
	    true) &&
	test_wait_until "test -f epilog.waits" &&
	epilog_finish $id a 1 &&
	flux job wait-event -t 60 -m ranks=1 $id epilog-finish &&
	epilog_allocated_are 0-3 &&
	touch epilog &&
	epilog_wait_gone $id 0-2 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "0-2 free"
'
test_expect_success 'remove the perilog plugin' '
	flux jobtap remove perilog.so &&
	flux config load </dev/null
'

#
# Instances in jobs
#

test_expect_success 'create a batch script with a job that is held in its turn' '
	cat >nested.sh <<-\EOT &&
	. $SHARNESS_TEST_SRCDIR/sharness.d/epilog-job.sh
	. $SHARNESS_TEST_SRCDIR/sharness.d/epilog-watch.sh
	set -e
	epilog_watch_start nested.jsonl
	flux jobtap load $(epilog_hold_plugin)
	id=$(epilog_submit "[{\"description\":\"in\",\"ranks\":\"1\"}]" -N2)
	epilog_wait_gone $id 0
	epilog_allocated_are 1
	flux run -N1 true
	epilog_finish $id in
	epilog_wait $id clean
	epilog_handoffs_are $id "0 free"
	epilog_watch_check nested.jsonl
	echo all well
	EOT
	chmod +x nested.sh
'
test_expect_success 'in a nested instance, ranks are its own' '
	id=$(flux batch -N2 -n2 --requires=rank:2-3 --output=nested.out \
	    --setattr=system.epilog-hold="[{\"description\":\"a\",\"ranks\":\"2\"}]" \
	    --wrap sh $(pwd)/nested.sh) &&
	epilog_wait_gone $id 3 &&
	test_debug "cat nested.out" &&
	grep "all well" nested.out &&
	epilog_allocated_are 2 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "3 free"
'
test_expect_success 'no job was hurt, no rank lost, none freed twice' '
	flux jobtap remove epilog-hold.so &&
	flux queue drain --timeout=60s &&
	epilog_watch_check
'
test_done
