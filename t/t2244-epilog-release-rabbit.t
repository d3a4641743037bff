#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test partial release by epilogs with a service as for rabbits

After a job, its nodes unmount, data moves between storage nodes, and the file
systems are torn down.  The nodes are needed for the first of these only.  The
service (scripts/epilog-rabbit.py) and its plugin (epilog-rabbit) let go of them
then, whatever goes wrong meanwhile.
'

# Append --logfile option if FLUX_TESTS_LOGFILE is set in environment:
test -n "$FLUX_TESTS_LOGFILE" && set -- "$@" --logfile
. $(dirname $0)/sharness.sh

# A job that is held for good must not hold the instance.
export FLUX_DISABLE_JOB_CLEANUP=t

test_under_flux 8 full -Slog-stderr-level=1

FOUR="-N4 --requires=rank:0-3"

# Usage: before ID NAME NAME
# The first of these events was before the first of the other.
before () {
	flux job info $1 eventlog | jq -r .name >before.names &&
	test $(grep -n -m1 "^$2\$" before.names | cut -d: -f1) \
	    -lt $(grep -n -m1 "^$3\$" before.names | cut -d: -f1)
}

test_expect_success 'start the watcher, the plugins, a strict scheduler, the service' '
	epilog_watch_start &&
	flux jobtap load alloc-check.so &&
	flux jobtap load $(epilog_hold_plugin) &&
	flux jobtap load $(rabbit_plugin) &&
	flux module remove sched-simple &&
	strict_start &&
	rabbit_start
'

#
# All goes well
#
test_expect_success 'each: a node goes when it is unmounted' '
	id=$(rabbit_submit "{\"release\":\"each\",$RABBIT_WAIT}" -N8) &&
	epilog_allocated_are 0-7 &&
	rabbit_tell $id unmount 3 &&
	epilog_wait_gone $id 3 &&
	rabbit_tell $id unmount 0-1 &&
	epilog_wait_gone $id 0-1 &&
	epilog_allocated_are 2,4-7 &&
	rabbit_run_on 3
'
test_expect_success 'each: all have gone when the last is' '
	rabbit_tell $id unmount 2,4-7 &&
	rabbit_said $id move &&
	epilog_wait $id free &&
	epilog_allocated_are ""
'
test_expect_success 'each: the job stays while data moves, and until teardown is done' '
	rabbit_in_cleanup $id &&
	rabbit_run_on 2 &&
	rabbit_tell $id move &&
	rabbit_said $id teardown &&
	rabbit_in_cleanup $id &&
	rabbit_tell $id teardown &&
	rabbit_ended $id 0 "3 0-1 free" &&
	rabbit_did $id "unmounted 3, unmounted 0-1, unmounted 2,4-7, move, teardown" &&
	test "$(strict_freed $id)" = "3 0-1 2,4-7 final" &&
	test "$(flux jobs -no {result} $id)" = "COMPLETED"
'
test_expect_success 'all: no node goes before all are unmounted' '
	id=$(rabbit_submit "{\"release\":\"all\",$RABBIT_WAIT}" -N8) &&
	rabbit_tell $id unmount 0-6 &&
	rabbit_said $id "unmounted 0-6" &&
	epilog_allocated_are 0-7 &&
	rabbit_tell $id unmount 7 &&
	epilog_wait $id free &&
	epilog_allocated_are "" &&
	rabbit_in_cleanup $id &&
	rabbit_run_on 7 &&
	rabbit_tell $id move &&
	rabbit_tell $id teardown &&
	rabbit_ended $id 0 "free" &&
	rabbit_did $id "unmounted 0-6, unmounted 7, move, teardown" &&
	test "$(strict_freed $id)" = "0-7 final"
'
test_expect_success 'whole: no node goes before the job ends' '
	id=$(rabbit_submit "{\"release\":\"whole\",$RABBIT_WAIT}" -N8) &&
	rabbit_tell $id unmount 0-7 &&
	rabbit_tell $id move &&
	rabbit_said $id teardown &&
	epilog_allocated_are 0-7 &&
	rabbit_tell $id teardown &&
	rabbit_ended $id 0 "free" &&
	before $id epilog-finish free
'
test_expect_success 'without a wait it takes the time that it takes' '
	id=$(rabbit_submit "{\"release\":\"each\",\"move\":0.2,\"teardown\":0.1,
	    \"unmount\":{\"0-6\":0.1,\"7\":0.5}}" -N8) &&
	epilog_wait $id clean &&
	grep "^$id unmounted" service.out | tail -1 | grep " 7$" &&
	grep "^$id unmounted" service.out >unmounted &&
	test $(wc -l <unmounted) -eq 8 &&
	before $id partial-free free
'
test_expect_success 'a job without the attribute is not held' '
	id=$(flux submit --setattr=system.exec.test.run_duration=0.01s true) &&
	epilog_wait $id clean &&
	! grep "^$id" service.out
'

#
# It does not go well
#
test_expect_success 'data movement fails: an exception, no rank is held for it' '
	id=$(rabbit_submit "{\"release\":\"each\",\"move\":\"wait\",
	    \"teardown\":\"wait\"}" $FOUR) &&
	epilog_wait $id free &&
	rabbit_tell $id move "" false &&
	rabbit_excepted $id exception &&
	rabbit_in_cleanup $id &&
	rabbit_tell $id teardown &&
	epilog_wait $id clean &&
	flux job info $id eventlog | grep exception | grep "move failed" &&
	before $id free exception
'
test_expect_success 'and its status says so' '
	flux job info $id eventlog | grep epilog-finish | tail -1 | jq -e \
	    ".context == {description: \"rabbit-epilog\", status: 1}" &&
	epilog_allocated_are ""
'
test_expect_success 'a node fails to unmount: it goes when it is drained, others before' '
	id=$(rabbit_submit "{\"release\":\"each\",\"teardown\":\"wait\",
	    \"unmount\":{\"2\":\"wait\"}}" $FOUR) &&
	epilog_wait_until "epilog_allocated_are 2 2>allocated.err" &&
	rabbit_tell $id unmount 2 false &&
	epilog_wait $id free &&
	rabbit_status_is drained 2 &&
	rabbit_excepted $id exception &&
	before $id exception free &&
	rabbit_tell $id teardown &&
	epilog_wait $id clean &&
	rabbit_did_last $id "drained 2, unmounted 2, teardown, remove" &&
	! grep "^$id move" service.out &&
	flux resource undrain 2
'
test_expect_success 'all: the others wait for that one' '
	id=$(rabbit_submit "{\"release\":\"all\",
	    \"unmount\":{\"2\":\"wait\"}}" $FOUR) &&
	rabbit_said $id "unmounted 3" &&
	epilog_allocated_are 0-3 &&
	rabbit_tell $id unmount 2 false &&
	rabbit_ended $id 1 "free" &&
	rabbit_status_is drained 2 &&
	flux resource undrain 2
'
test_expect_success 'nodes hang: when the time is over they are drained, and go' '
	id=$(rabbit_submit "{\"release\":\"each\",\"unmount-timeout\":1,
	    \"unmount\":{\"4,6\":\"wait\"}}" -N4 --requires=rank:4-7) &&
	epilog_wait $id clean &&
	rabbit_excepted $id rabbit-timeout &&
	rabbit_said $id "drained 4,6" &&
	rabbit_status_is drained 4,6 &&
	before $id partial-free exception &&
	before $id exception free &&
	! grep "^$id move" service.out &&
	flux resource undrain 4,6
'
test_expect_success 'whole: they are drained too, but nobody gets the others' '
	id=$(rabbit_submit "{\"unmount-timeout\":0.1,\"teardown\":\"wait\",
	    \"unmount\":{\"4\":\"wait\"}}" -N4 --requires=rank:4-7) &&
	rabbit_said $id teardown &&
	epilog_allocated_are 4-7 &&
	rabbit_tell $id teardown &&
	rabbit_ended $id 1 "free" &&
	flux resource undrain 4
'

#
# The job did not end by itself, or did not begin
#
# Usage: cut_short EXCEPTION [OPTION]...
# A job runs until something ends it, and then goes the whole way.
cut_short () {
	local type=$1
	shift
	id=$(flux submit $FOUR "$@" \
	    --setattr=system.rabbit="{\"release\":\"each\",$RABBIT_WAIT}" sleep inf) &&
	epilog_wait $id start &&
	{ test $type != cancel || flux cancel $id; } &&
	rabbit_excepted $id $type &&
	rabbit_said $id begins &&
	epilog_allocated_are 0-3 &&
	rabbit_tell $id unmount 0-2 &&
	epilog_wait_gone $id 0-2 &&
	rabbit_tell $id unmount 3 &&
	rabbit_tell $id move &&
	rabbit_tell $id teardown &&
	rabbit_ended $id 0 "0-2 free" &&
	rabbit_did $id "unmounted 0-2, unmounted 3, move, teardown"
}
test_expect_success 'a job that is canceled has its data moved' '
	cut_short cancel
'
test_expect_success 'so has one whose time is over (sched-strict sets no limit)' '
	strict_stop &&
	flux module load sched-simple &&
	cut_short timeout -t 1s &&
	flux module remove sched-simple &&
	strict_start
'
test_expect_success 'a job that got nodes but did not start lets go of them at once' '
	id=$(rabbit_submit "{\"release\":\"each\",$RABBIT_WAIT}" $FOUR \
	    --setattr=system.exec.test.mock_exception=init) &&
	epilog_wait $id free &&
	rabbit_said $id teardown &&
	rabbit_in_cleanup $id &&
	rabbit_tell $id teardown &&
	rabbit_ended $id 0 "free" &&
	rabbit_did $id "unmounted 0-3, teardown"
'
test_expect_success 'a job that never got any is torn down' '
	id=$(flux submit --urgency=hold $FOUR \
	    --setattr=system.rabbit="{\"release\":\"each\",$RABBIT_WAIT}" true) &&
	flux cancel $id &&
	rabbit_said $id teardown &&
	rabbit_in_cleanup $id &&
	rabbit_tell $id teardown &&
	epilog_wait $id clean &&
	rabbit_did $id teardown &&
	epilog_handoffs_are $id ""
'
test_expect_success 'canceled while data moves: that is skipped' '
	id=$(rabbit_submit "{\"release\":\"each\",\"move\":\"wait\"}" $FOUR) &&
	rabbit_said $id move &&
	flux cancel $id &&
	epilog_wait $id clean &&
	grep "^$id teardown" service.out
'
test_expect_success 'canceled while nodes unmount: they go on, and go' '
	id=$(rabbit_submit "{\"release\":\"each\",$RABBIT_WAIT}" $FOUR) &&
	rabbit_tell $id unmount 1 &&
	flux cancel $id &&
	rabbit_tell $id unmount 0,2 &&
	epilog_wait_gone $id 0,2 &&
	rabbit_tell $id unmount 3 &&
	rabbit_said $id teardown &&
	rabbit_tell $id teardown &&
	rabbit_ended $id 0 "1 0,2 free" &&
	rabbit_did $id "unmounted 1, unmounted 0,2, unmounted 3, teardown"
'
test_expect_success 'abort: nodes that are mounted are drained, and all ends' '
	id=$(rabbit_submit "{\"release\":\"each\",$RABBIT_WAIT}" \
	    -N4 --requires=rank:4-7) &&
	rabbit_tell $id unmount 5-6 &&
	epilog_wait_gone $id 5-6 &&
	flux job raise --type=rabbit-abort --severity=0 $id &&
	rabbit_ended $id 1 "5-6 free" &&
	rabbit_did $id "unmounted 5-6, drained 4,7" &&
	rabbit_status_is drained 4,7 &&
	flux resource undrain 4,7
'
test_expect_success 'abort: if none is mounted, none is drained' '
	id=$(rabbit_submit "{\"release\":\"all\",\"move\":\"wait\"}" $FOUR) &&
	rabbit_said $id move &&
	flux job raise --type=rabbit-abort --severity=0 $id &&
	rabbit_ended $id 1 "free" &&
	! grep "^$id drained" service.out &&
	rabbit_status_is drained ""
'

#
# What is said twice
#
test_expect_success 'a service that repeats itself lets go of nothing else' '
	id=$(rabbit_submit "{\"release\":\"each\",$RABBIT_WAIT}" $FOUR \
	    --setattr=system.epilog-hold="[{\"description\":\"b\",\"ranks\":\"3\"}]") &&
	rabbit_tell $id unmount 0 &&
	epilog_wait_gone $id 0 &&
	rabbit_tell $id unmount 0 &&
	rabbit_plugin_rpc release $id "\"ranks\":\"0\",\"status\":0" &&
	rabbit_tell $id unmount 1-3 &&
	epilog_wait_gone $id 1-2 &&
	rabbit_tell $id unmount 1-3 &&
	epilog_allocated_are 3 &&
	rabbit_tell $id move &&
	rabbit_tell $id move &&
	rabbit_tell $id teardown &&
	rabbit_said $id remove
'
test_expect_success 'nor does it end an action of somebody else' '
	test_must_fail rabbit_plugin_rpc remove $id "\"status\":0" 2>twice.err &&
	grep "No such file" twice.err &&
	test_must_fail rabbit_plugin_rpc release $id "\"ranks\":\"3\",\"status\":0" &&
	rabbit_tell $id teardown &&
	epilog_allocated_are 3 &&
	epilog_finish $id b &&
	rabbit_ended $id 0 "0 1-2 free" &&
	rabbit_did $id "unmounted 0, unmounted 1-3, move, teardown"
'
test_expect_success 'of a job that is gone there is nothing to say' '
	test_must_fail rabbit_plugin_rpc remove $id "\"status\":0" &&
	test_must_fail rabbit_plugin_rpc release $id "\"ranks\":\"3\",\"status\":0" &&
	rabbit_tell $id unmount 0
'

#
# The service, and the scheduler, go and come back
#
test_expect_success 'the service is killed while nodes unmount' '
	id=$(rabbit_submit "{\"release\":\"each\",$RABBIT_WAIT}" -N8) &&
	rabbit_tell $id unmount 0-3 &&
	epilog_wait_gone $id 0-3 &&
	rabbit_kill &&
	epilog_allocated_are 4-7 &&
	rabbit_start &&
	rabbit_tell $id unmount 4-5 &&
	epilog_wait_gone $id 4-5
'
test_expect_success 'and while data moves' '
	rabbit_tell $id unmount 6-7 &&
	epilog_wait $id free &&
	rabbit_kill &&
	rabbit_start &&
	rabbit_tell $id move &&
	rabbit_said $id teardown
'
test_expect_success 'and during teardown, and nothing is done twice' '
	rabbit_kill &&
	rabbit_start &&
	rabbit_in_cleanup $id &&
	rabbit_tell $id teardown &&
	rabbit_ended $id 0 "0-3 4-5 free" &&
	rabbit_did $id "$(echo unmounted 0-3, goes on with unmount, \
	    unmounted 4-5, unmounted 6-7, move, goes on with move, \
	    teardown, goes on with teardown)"
'
test_expect_success 'what it had written down but not said, it says' '
	id=$(rabbit_submit "{\"release\":\"all\",$RABBIT_WAIT}" $FOUR) &&
	rabbit_kill &&
	flux kvs get rabbit-service.state \
	    | jq -c ".[].mounted = \"2-3\"" >half.json &&
	flux kvs put rabbit-service.state="$(cat half.json)" &&
	rabbit_start &&
	epilog_allocated_are 0-3 &&
	rabbit_kill &&
	jq -c ".[].mounted = \"\" | .[].step = \"move\"" half.json >whole.json &&
	flux kvs put rabbit-service.state="$(cat whole.json)" &&
	rabbit_start &&
	epilog_wait $id free &&
	rabbit_tell $id move &&
	rabbit_tell $id teardown &&
	rabbit_ended $id 0 "free"
'
test_expect_success 'a job that ends without a service is held until there is one' '
	rabbit_kill &&
	id=$(flux submit --setattr=system.exec.test.run_duration=0.01s $FOUR \
	    --setattr=system.rabbit="{\"release\":\"each\",$RABBIT_WAIT}" true) &&
	epilog_wait $id release &&
	epilog_allocated_are 0-3 &&
	rabbit_start &&
	rabbit_tell $id unmount 0-3 &&
	epilog_wait $id free &&
	rabbit_tell $id move &&
	rabbit_tell $id teardown &&
	rabbit_ended $id 0 "free" &&
	rabbit_did $id "unmounted 0-3, move, teardown"
'
test_expect_success 'what happens to a job without a service is made up for' '
	id=$(rabbit_submit "{\"release\":\"each\",\"move\":\"wait\"}" $FOUR) &&
	id2=$(rabbit_submit "{\"release\":\"each\",$RABBIT_WAIT}" \
	    -N4 --requires=rank:4-7) &&
	rabbit_said $id move &&
	rabbit_kill &&
	flux cancel $id &&
	flux job raise --type=rabbit-abort --severity=0 $id2 &&
	rabbit_in_cleanup $id &&
	epilog_allocated_are 4-7 &&
	rabbit_start &&
	epilog_wait $id clean &&
	rabbit_ended $id2 1 "free" &&
	rabbit_status_is drained 4-7 &&
	flux resource undrain 4-7
'
test_expect_success 'a scheduler that is reloaded is told of what is left' '
	id=$(rabbit_submit "{\"release\":\"each\",$RABBIT_WAIT}" -N8) &&
	rabbit_tell $id unmount 0,2,4,6 &&
	epilog_wait_gone $id 0,2,4,6 &&
	strict_reload &&
	test "$(strict_told $id)" = "1,3,5,7" &&
	epilog_allocated_are 1,3,5,7 &&
	rabbit_tell $id unmount 1,3 &&
	epilog_wait_gone $id 1,3 &&
	rabbit_tell $id unmount 5,7 &&
	epilog_wait $id free &&
	strict_reload &&
	test "$(strict_told $id)" = "" &&
	rabbit_tell $id move &&
	rabbit_tell $id teardown &&
	rabbit_ended $id 0 "0,2,4,6 1,3 free"
'

#
# Storage, that is on no rank, goes with the final free
#
# Usage: storage_submit FINAL-FREE
# A job that names storage, whose nodes unmount at once.
storage_submit () {
	flux config load <<-EOT &&
	[job-manager.epilog-release]
	final-free = "$1"
	EOT
	flux run --dry-run --env-remove="*" $FOUR \
	    --setattr=system.exec.test.run_duration=0.01s \
	    --setattr=system.rabbit="{\"release\":\"each\",\"unmount\":\"wait\",
	        \"move\":\"wait\",\"teardown\":\"wait\"}" true >plain.json &&
	jq ".resources[0].with += [{type: \"ssd\", count: 1}]" \
	    plain.json >storage.json &&
	id=$(flux job submit storage.json) &&
	rabbit_said $id begins &&
	rabbit_tell $id unmount 0-3 &&
	rabbit_said $id move
}
# Usage: has_storage ID
has_storage () {
	rabbit_rpc rabbit.status >storage.json &&
	jq -e ".storage == [\"$1\"]" storage.json
}
for when in auto last-action; do
	test_expect_success "$when: storage is the job's until it is torn down" '
		storage_submit $when &&
		epilog_wait_gone $id 1-3 &&
		epilog_allocated_are 0 &&
		has_storage $id &&
		rabbit_tell $id move &&
		rabbit_said $id teardown &&
		has_storage $id &&
		rabbit_tell $id teardown &&
		rabbit_ended $id 0 "1-3 free" &&
		rabbit_said $id "storage goes after all" &&
		test "$(strict_freed $id)" = "1-3 0 final"
	'
done
test_expect_success 'last-rank: storage goes to the next job while data moves' '
	storage_submit last-rank &&
	rabbit_said $id "storage goes during move" &&
	epilog_allocated_are "" &&
	test_must_fail has_storage $id &&
	rabbit_in_cleanup $id &&
	test "$(strict_freed $id)" = "0-3 final" &&
	rabbit_tell $id move &&
	rabbit_tell $id teardown &&
	rabbit_ended $id 0 "free" &&
	flux config load </dev/null
'

test_expect_success 'no job was hurt, no rank lost, none freed twice' '
	rabbit_check
'
test_expect_success 'stop the service, load sched-simple, remove plugins' '
	rabbit_kill &&
	strict_stop &&
	flux module load sched-simple &&
	flux jobtap remove epilog-rabbit.so &&
	flux jobtap remove epilog-hold.so &&
	flux jobtap remove alloc-check.so
'

test_done
