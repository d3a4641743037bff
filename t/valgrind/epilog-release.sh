#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0
#
# Usage: epilog-release.sh begin|end
# What jobs with epilogs may go through, once each, in an instance of 8 ranks of
# which only rank 0 has a broker: housekeeping is over on the others at once.
# "begin" leaves jobs that hold ranks, for an instance that restarts with them:
# "end" ends those.

. ${SHARNESS_TEST_SRCDIR}/sharness.d/epilog-job.sh
. ${SHARNESS_TEST_SRCDIR}/sharness.d/sched-strict.sh

A='{"description":"a"}'

say () {
	echo "$(basename $0): $*"
}

# Usage: refused ID KEY=VALUE...
# The event is not taken.
refused () {
	! flux post-job-event "$@" 2>/dev/null
}

# Usage: configure [LINE]...
# Let the table job-manager have these lines.
configure () {
	printf '%s\n' '[job-manager]' "$@" >valgrind.toml &&
	flux config load valgrind.toml
}

partial_release () {
	id=$(epilog_submit "[$A,{\"description\":\"b\",\"ranks\":\"0-1\"}]" -N4) &&
	refused $id epilog-finish description=b status=0 ranks=1 &&
	refused $id epilog-finish description=b status=0 "ranks=\"9\"" &&
	refused $id epilog-finish description=x status=0 &&
	refused $id epilog-start description=c "ranks=\"0-4294967294\"" &&
	epilog_finish $id a 2 &&
	epilog_wait_gone $id 2 &&
	flux post-job-event $id epilog-start description=c "ranks=\"\"" &&
	epilog_finish $id a &&
	epilog_wait_gone $id 3 &&
	flux module stats job-manager >/dev/null &&
	flux resource list -s allocated >/dev/null &&
	epilog_finish $id b all &&
	epilog_wait $id free &&
	epilog_finish $id b &&
	epilog_finish $id c &&
	epilog_wait $id clean
}

# A burst of events is one handoff.  A finish of the only action needs no name.
burst () {
	id=$(epilog_submit "[$A]" -N8) &&
	for rank in 0 1 2 3; do
		epilog_finish $id a $rank &
	done &&
	wait &&
	epilog_finish $id typo &&
	epilog_wait $id clean
}

last_free () {
	configure 'epilog-release.final-free = "last-action"' &&
	id=$(epilog_submit "[$A]" -N4) &&
	epilog_finish $id a all &&
	epilog_wait_gone $id 1-3 &&
	configure &&
	epilog_wait $id free &&
	epilog_finish $id a &&
	epilog_wait $id clean
}

housekeeping () {
	configure 'housekeeping.command = ["sleep", "inf"]' \
	    'housekeeping.release-after = "1ms"' &&
	id=$(epilog_submit "[$A]" -N4) &&
	epilog_finish $id a 0-1 &&
	epilog_wait_gone $id 0-1 &&
	flux housekeeping list >/dev/null &&
	flux module stats job-manager >/dev/null &&
	epilog_finish $id a 2 &&
	epilog_wait_gone $id 2 &&
	flux module reload sched-simple &&
	flux housekeeping kill --all &&
	configure &&
	epilog_finish $id a &&
	epilog_wait $id clean
}

exceptions () {
	id=$(flux submit -N2 --setattr=system.epilog-hold-run="[$A]" \
	    --setattr=system.exec.test.run_duration=600s true) &&
	epilog_wait $id epilog-start &&
	flux cancel $id &&
	epilog_finish $id a 0 &&
	flux job raise --severity=0 --type=test $id &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	id=$(epilog_submit "[$A]" -N4) &&
	epilog_finish $id a 0 &&
	epilog_wait_gone $id 0 &&
	flux job raise --severity=0 --type=scheduler-restart $id &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	flux module reload sched-simple
}

# A scheduler that does not take parts, with a job that has one back and a job
# that runs on it: the first can't stay.
strict_scheduler () {
	id=$(epilog_submit "[$A]" -N4) &&
	epilog_finish $id a 0 &&
	epilog_wait_gone $id 0 &&
	next=$(flux submit -N1 --requires=rank:0 \
	    --setattr=system.exec.test.run_duration=600s true) &&
	epilog_wait $next start &&
	flux module remove sched-simple &&
	strict_start nopartial &&
	epilog_wait $id exception &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	flux cancel $next &&
	epilog_wait $next clean &&
	strict_stop &&
	flux module load sched-simple
}

purge () {
	flux job purge --force --num-limit=1
}

leave () {
	configure &&
	id=$(epilog_submit "[$A]" -N4) &&
	epilog_finish $id a 0-2 &&
	epilog_wait_gone $id 0-2 &&
	epilog_submit "[$A,{\"description\":\"b\"}]" -N2
}

finish_left () {
	for id in $(flux jobs -f cleanup -no {id}); do
		epilog_finish $id a || return 1
	done &&
	for id in $(flux jobs -f cleanup -no {id}); do
		epilog_finish $id b || return 1
	done &&
	flux queue drain --timeout=120
}

case $1 in
begin)
	flux jobtap load $(epilog_hold_plugin) &&
	flux jobtap load alloc-check.so || exit 1
	steps="partial_release burst last_free housekeeping exceptions"
	steps="$steps strict_scheduler purge leave"
	;;
end)
	steps=finish_left
	;;
*)
	say "$1 is neither begin nor end" >&2
	exit 1
	;;
esac
for step in $steps; do
	say $step
	if ! $step; then
		say $step failed >&2
		exit 1
	fi
done
