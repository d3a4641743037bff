#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test a service as for rabbits when nodes die or Flux stops

Whatever goes away while a job is held: its other nodes go when they are
unmounted, those that can not be are drained, and nothing is done twice.
'

# Append --logfile option if FLUX_TESTS_LOGFILE is set in environment:
test -n "$FLUX_TESTS_LOGFILE" && set -- "$@" --logfile
. $(dirname $0)/sharness.sh

# A job that is held for good must not hold the instance.
export FLUX_DISABLE_JOB_CLEANUP=t

# Brokers die here: only that of rank 0 has children, and ends the instance.
test_under_flux 8 full -Stbon.topo=kary:0 -Slog-stderr-level=1 \
    --test-exit-mode=leader

export SHARNESS_TEST_SRCDIR FLUX_BUILD_DIR

# Usage: kept_are RANKS
# The job manager says that these are allocated.  The scheduler does not, of
# nodes that are down.
kept_are () {
	test "$(flux resource list -s allocated -no {ranks})" = "$1"
}

# Usage: kill_broker RANK
# Crash it, and wait until it is missed.
kill_broker () {
	local pid
	pid=$(flux exec -r $1 flux getattr broker.pid) &&
	kill -9 $pid &&
	epilog_wait_until \
	    "test -n \"\$(flux resource status -s offline -i $1 -no {ranks})\""
}

test_expect_success 'start the watcher, the plugins, a strict scheduler, the service' '
	epilog_watch_start &&
	flux jobtap load alloc-check.so &&
	flux jobtap load $(rabbit_plugin) &&
	flux module remove sched-simple &&
	strict_start &&
	rabbit_start
'

#
# Nodes die
#
test_expect_success 'a node dies while the job runs: it is drained, the others go' '
	id=$(flux submit -N4 --requires=rank:4-7 \
	    --setattr=system.rabbit="{\"release\":\"each\",$RABBIT_WAIT}" sleep inf) &&
	epilog_wait $id start &&
	kill_broker 7 &&
	rabbit_excepted $id exec &&
	rabbit_said $id begins &&
	epilog_wait $id release &&
	rabbit_tell $id unmount 4-6 &&
	epilog_wait_gone $id 4-6 &&
	kept_are 7 &&
	rabbit_tell $id unmount 7 false &&
	epilog_wait $id free &&
	rabbit_status_is drained 7 &&
	rabbit_tell $id teardown &&
	rabbit_ended $id 1 "4-6 free" &&
	rabbit_did $id "unmounted 4-6, drained 7, unmounted 7, teardown"
'
test_expect_success 'a node dies while it unmounts' '
	id=$(rabbit_submit "{\"release\":\"each\",$RABBIT_WAIT}" \
	    -N4 --requires=rank:3-6) &&
	rabbit_tell $id unmount 3 &&
	kill_broker 6 &&
	kept_are 4-6 &&
	rabbit_tell $id unmount 4-5 &&
	epilog_wait_gone $id 4-5 &&
	rabbit_tell $id unmount 6 false &&
	epilog_wait $id free &&
	rabbit_status_is drained 6-7 &&
	rabbit_tell $id teardown &&
	rabbit_ended $id 1 "3 4-5 free"
'
test_expect_success 'a node dies when it is unmounted, and has gone' '
	id=$(rabbit_submit "{\"release\":\"each\",$RABBIT_WAIT}" \
	    -N4 --requires=rank:2-5) &&
	rabbit_tell $id unmount 5 &&
	epilog_wait_gone $id 5 &&
	kill_broker 5 &&
	kept_are 2-4 &&
	rabbit_tell $id unmount 2-4 &&
	epilog_wait $id free &&
	rabbit_tell $id move &&
	rabbit_tell $id teardown &&
	rabbit_ended $id 0 "5 free" &&
	rabbit_status_is drained 6-7
'
test_expect_success 'no job was hurt, no rank lost, none freed twice' '
	rabbit_check
'
test_expect_success 'stop the service, load sched-simple, remove plugins' '
	rabbit_kill &&
	strict_stop &&
	flux module load sched-simple &&
	flux jobtap remove epilog-rabbit.so &&
	flux jobtap remove alloc-check.so
'

#
# The instance stops, or crashes, and starts again, with jobs that are held: one
# whose nodes unmount, one whose data moves, and one that waits for its last node.
#
test_expect_success 'create configuration for instance of 16 ranks' '
	rm -f service.out service.err &&
	cat >restart.toml <<-EOT
	[fake-resources]
	nnodes = 16
	cores-per-node = 2
	[job-manager]
	plugins = [ { load = "$(rabbit_plugin)" } ]
	EOT
'
cat >functions.sh <<'EOT'
. ${SHARNESS_TEST_SRCDIR}/sharness.d/epilog-job.sh
. ${SHARNESS_TEST_SRCDIR}/sharness.d/epilog-watch.sh
. ${SHARNESS_TEST_SRCDIR}/sharness.d/epilog-rabbit.sh
. ${SHARNESS_TEST_SRCDIR}/sharness.d/sched-strict.sh
EOT
cat >begin.sh <<'EOT'
settings='{"release":"each","unmount":"wait","move":"wait"}'
part=$(rabbit_submit "$settings" -N4 --requires=rank:0-3)
rabbit_tell $part unmount 0-1
epilog_wait_gone $part 0-1
gone=$(rabbit_submit "$settings" -N4 --requires=rank:4-7)
rabbit_tell $gone unmount 4-7
epilog_wait $gone free
all=$(rabbit_submit '{"release":"all","unmount":"wait","move":"wait"}' \
    -N4 --requires=rank:8-11)
rabbit_tell $all unmount 8-10
epilog_allocated_are 2-3,8-11
for name in part gone all; do
	eval echo $name=\$$name
done >jobs
EOT
cat >middle.sh <<'EOT'
. ./jobs
test "$(strict_told $part)" = "2-3"
test "$(strict_told $gone)" = ""
test "$(strict_told $all)" = "8-11"
rabbit_run_on 0
rabbit_tell $part unmount 2
epilog_wait_gone $part 2
rabbit_tell $all unmount 11
epilog_wait $all free
rabbit_said $all move
epilog_allocated_are 3
EOT
cat >end.sh <<'EOT'
. ./jobs
test "$(strict_told $part)" = "3"
test "$(strict_told $gone)" = ""
test "$(strict_told $all)" = ""
rabbit_tell $part unmount 3
for id in $part $gone $all; do
	rabbit_tell $id move
done
rabbit_ended $part 0 "0-1 2 free"
rabbit_ended $gone 0 "free"
rabbit_ended $all 0 "free"
again="goes on with"
rabbit_did $part "unmounted 0-1, $again unmount, unmounted 2, $again unmount, unmounted 3, move, teardown"
rabbit_did $gone "unmounted 4-7, move, $again move, $again move, teardown"
rabbit_did $all "unmounted 8-10, $again unmount, unmounted 11, move, $again move, teardown"
epilog_allocated_are ""
EOT
# Usage: instance SCRIPT stop|crash
# Start an instance where the last one ended, run SCRIPT in it, and end it.
instance () {
	cat >step.sh <<-EOT &&
	. ./functions.sh
	epilog_watch_start
	flux module remove sched-simple
	strict_start
	rabbit_start
	. ./$1
	strict_check
	test ! -s service.err
	epilog_watch_check epilog-watch.jsonl --active-ok
	test $2 = crash || exit 0
	flux kvs sync
	kill -9 \$(flux getattr broker.pid)
	EOT
	case $2 in
		stop) code=0 ;;
		crash) code=137 ;;
	esac &&
	test_expect_code $code run_timeout 240 \
	    flux start -Sstatedir=$(pwd)/state -c $(pwd)/restart.toml sh -ex step.sh
}
for first in stop crash; do
	if test $first = stop; then second=crash; else second=stop; fi
	test_expect_success "jobs are held, then $first" '
		rm -rf state service.out service.err &&
		mkdir state &&
		instance begin.sh $first
	'
	test_expect_success "after $first they go on, then $second" '
		>service.err &&
		instance middle.sh $second
	'
	test_expect_success "after $first and $second they end properly" '
		>service.err &&
		instance end.sh stop
	'
done

#
# An instance that cancels its jobs when it stops, and waits for them.  A job in
# CLEANUP is not canceled: its data is moved.
#
cat >shutdown.sh <<'EOT'
. ./functions.sh
epilog_watch_start
rabbit_start
settings='"unmount":{"2":"wait"},"move":"wait"'
id=$(rabbit_submit "{\"release\":\"each\",$settings}" -N4 --requires=rank:0-3)
id2=$(rabbit_submit "{\"release\":\"whole\",$settings}" -N4 --requires=rank:4-7)
rabbit_said $id "unmounted 3"
rabbit_said $id2 move
echo $id $id2 >ids
{
	epilog_wait_until "flux queue status | grep -q 'Scheduling is stopped'"
	epilog_allocated_are 2,4-7 && echo held >shutdown.out
	rabbit_tell $id unmount 2
	rabbit_tell $id move
	rabbit_tell $id2 move
} &
EOT
cat >after.sh <<'EOT'
. ./functions.sh
grep held shutdown.out
read id id2 <ids
for one in $id $id2; do
	epilog_wait $one clean
	rabbit_did_last $one "move, teardown, remove"
	if flux job wait-event -q $one exception; then exit 1; fi
done
rabbit_ended $id2 0 free
epilog_allocated_are ""
EOT
test_expect_success 'an instance that stops waits for jobs that are held' '
	rm -rf state service.out service.err &&
	mkdir state &&
	(
	    unset FLUX_DISABLE_JOB_CLEANUP &&
	    run_timeout 120 flux start -Sstatedir=$(pwd)/state \
	        -c $(pwd)/restart.toml sh -ex shutdown.sh
	) &&
	run_timeout 120 flux start -Sstatedir=$(pwd)/state \
	    -c $(pwd)/restart.toml sh -ex after.sh
'
test_expect_success 'and what the watcher saw until then was right' '
	flux python ${SHARNESS_TEST_SRCDIR}/scripts/epilog-watch.py \
	    judge --active-ok epilog-watch.jsonl
'

test_done
