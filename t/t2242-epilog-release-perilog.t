#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test that the administrative epilog lets go of ranks one by one

With release-after in the epilog table, a rank goes when its own process has
ended well.  Ranks where that failed are drained, and go with the end of the
action.
'

# Append --logfile option if FLUX_TESTS_LOGFILE is set in environment:
test -n "$FLUX_TESTS_LOGFILE" && set -- "$@" --logfile
. $(dirname $0)/sharness.sh

# A job that is held for good must not hold the instance.
export FLUX_DISABLE_JOB_CLEANUP=t

# Each rank can be lost without another one.
test_under_flux 8 full --test-exit-mode=leader -Stbon.topo=kary:0

# Usage: configure LINE...
# Load a configuration with a per-rank epilog that has these lines too.
configure () {
	cat >config.toml <<-EOT &&
	[job-manager.epilog]
	command = [ "$(pwd)/epilog.sh" ]
	per-rank = true
	EOT
	printf "%s\n" "$@" >>config.toml &&
	flux config load <config.toml
}

# Usage: refused TEXT LINE...
# A configuration with these lines is refused, and TEXT is in the reason.
refused () {
	local text="$1"
	shift
	! configure "$@" 2>refused.err &&
	test_debug "cat refused.err" &&
	grep -e "$text" refused.err
}

# For this file, and for scripts in instances of their own.
cat >functions.sh <<'EOT'
. ${SHARNESS_TEST_SRCDIR}/sharness.d/epilog-job.sh
. ${SHARNESS_TEST_SRCDIR}/sharness.d/epilog-watch.sh

# Usage: each_of RANKS
# Print the numbers of a range.
each_of () {
	seq ${1%-*} ${1#*-}
}

# Usage: run_job RANKS [OPTION]...
# Run a job, wait until its epilog runs on all ranks, and print its id.
run_job () {
	local ranks=$1
	local id
	shift
	id=$(flux submit -N$(each_of $ranks | wc -l) --requires=rank:$ranks \
	    "$@" true) &&
	epilogs_run $id $ranks &&
	echo $id
}

# Usage: epilogs_run ID RANKS
epilogs_run () {
	local id
	id=$(flux job id --to=dec $1)
	for rank in $(each_of $2); do
		epilog_wait_until "test -s $id.$rank.pid" || return 1
	done
}

# Usage: tell ID RANKS HOW
# Tell the epilogs of a job on these ranks what to do: see epilog.sh.
tell () {
	local id
	id=$(flux job id --to=dec $1)
	for rank in $(each_of $2); do
		echo $3 >$id.$rank.new &&
		mv $id.$rank.new $id.$rank || return 1
	done
}

# Usage: finishes_are ID STATUS[:RANKS]...
# These are the epilog-finish events of a job.
finishes_are () {
	local got
	got="$(flux job info $1 eventlog \
	    | jq -r "select (.name == \"epilog-finish\") | .context
	             | \"\(.status)\" + if .ranks then \":\" + .ranks else \"\" end" \
	    | paste -s -d " ")"
	shift
	test "$got" = "$*" && return 0
	echo >&2 "finishes: got '$got', want '$*'"
	return 1
}
EOT
. ./functions.sh

# Usage: drained_are RANKS
# These are drained, and then no more.
drained_are () {
	test "$(flux resource status -s drain -no {ranks})" = "$1" &&
	flux resource undrain $1
}

# Usage: exception_is ID TEXT
# The epilog raised an exception that does not end the job.
exception_is () {
	flux job wait-event -t 60 -m type=epilog $1 exception >exception.out &&
	grep "severity=2 .*$2" exception.out
}

test_expect_success 'start the watcher and load the plugin' '
	epilog_watch_start &&
	flux jobtap load perilog.so
'
test_expect_success 'create an epilog that does what it is told' '
	cat >epilog.sh <<-EOT &&
	#!/bin/sh
	cd $(pwd)
	me=\$(flux job id --to=dec \$FLUX_JOB_ID).\$(flux getattr rank)
	echo \$\$ >\$me.pid.new
	mv \$me.pid.new \$me.pid
	while true; do
	    how=
	    test -s \$me && read how <\$me
	    case "\$how" in
	        kill) kill -KILL \$\$ ;;
	        good-on-term) trap "exit 0" TERM ;;
	        ignore-term) trap "" TERM ;;
	        [0-9]*) exit \$how ;;
	    esac
	    test "\$how" = "" || touch \$me.heard
	    sleep 0.05
	done
	EOT
	chmod +x epilog.sh
'

# Usage: tell_and_wait ID RANKS HOW
# Wait until that was heard.
tell_and_wait () {
	local id
	id=$(flux job id --to=dec $1)
	tell "$@" &&
	for rank in $(each_of $2); do
		test_wait_until -i 600 "test -f $id.$rank.heard" || return 1
	done
}

#
# Configuration
#

test_expect_success 'bad values are refused' '
	refused "release-after: .soon. is not a duration" "release-after = \"soon\"" &&
	refused "release-after: .-1. is not a duration" "release-after = \"-1\"" &&
	refused "Expected string" "release-after = 1"
'
test_expect_success 'a query of the plugin tells what is set' '
	configure "release-after = \"1m\"" &&
	flux jobtap query perilog.so >query.json &&
	jq -e ".conf.epilog[\"release-after\"] == 60" query.json &&
	configure &&
	flux jobtap query perilog.so >query.json &&
	jq -e ".conf.epilog | has(\"release-after\") | not" query.json
'
test_expect_success 'so is a whole-job epilog that lets go by rank' '
	test_must_fail flux config load <<-EOT 2>whole.err &&
	[job-manager.epilog]
	command = [ "true" ]
	release-after = "0"
	EOT
	grep "release-after needs per-rank = true" whole.err
'
test_expect_success 'and a prolog' '
	refused "release-after" "[job-manager.prolog]" "command = [ \"true\" ]" \
	    "per-rank = true" "release-after = \"0\""
'
test_expect_success 'other faults of the table are still found' '
	refused "unpacked" "release-after = \"0\"" "release = 1"
'

#
# Without failures
#

test_expect_success 'without release-after, ranks wait for the last one' '
	configure &&
	id=$(run_job 0-3) &&
	tell $id 0-2 0 &&
	tell $id 3 0 &&
	epilog_wait $id clean &&
	finishes_are $id 0 &&
	epilog_handoffs_are $id free
'
test_expect_success 'with infinity too' '
	configure "release-after = \"infinity\"" &&
	id=$(run_job 0-3) &&
	tell $id 0-2 0 &&
	tell $id 3 0 &&
	epilog_wait $id clean &&
	finishes_are $id 0
'
test_expect_success 'with 0, a rank goes when its epilog has ended' '
	configure "release-after = \"0\"" &&
	id=$(run_job 0-3) &&
	tell $id 1 0 &&
	epilog_wait_gone $id 1 &&
	epilog_allocated_are 0,2-3
'
test_expect_success 'flux epilog list shows what the epilog still holds' '
	flux epilog list -no "{description} {held.ranks} {released.ranks}" $id \
	    >list.out &&
	echo "job-manager.epilog 0,2-3 1" >list.expected &&
	test_cmp list.expected list.out
'
test_expect_success 'the next job runs there' '
	next=$(run_job 1) &&
	tell $next 1 0 &&
	epilog_wait $next clean &&
	finishes_are $next 0
'
test_expect_success 'the scheduler is reloaded in the middle' '
	flux module reload sched-simple &&
	tell $id 3 0 &&
	epilog_wait_gone $id 3 &&
	epilog_allocated_are 0,2
'
test_expect_success 'the last ranks go with the end' '
	tell $id 0 0 &&
	epilog_wait_gone $id 0 &&
	tell $id 2 0 &&
	epilog_wait $id clean &&
	finishes_are $id 0:1 0:3 0:0 0 &&
	epilog_handoffs_are $id "1 3 0 free" &&
	epilog_allocated_are ""
'
test_expect_success 'ranks that end before the timer go together' '
	configure "release-after = \"4s\"" &&
	id=$(run_job 0-3) &&
	tell $id 1-2 0 &&
	epilog_wait_gone $id 1-2
'
test_expect_success 'and after that each at once' '
	tell $id 0 0 &&
	epilog_wait_gone $id 0 &&
	tell $id 3 0 &&
	epilog_wait $id clean &&
	finishes_are $id 0:1-2 0:0 0
'
test_expect_success 'if all end before the timer, they go at once' '
	configure "release-after = \"1h\"" &&
	id=$(run_job 0-3) &&
	tell $id 0-3 0 &&
	epilog_wait $id clean &&
	finishes_are $id 0 &&
	epilog_handoffs_are $id free
'
test_expect_success 'a configuration that is refused leaves the old one' '
	configure "release-after = \"0\"" &&
	refused release-after "release-after = \"1x\"" &&
	id=$(run_job 0-1) &&
	tell $id 1 0 &&
	epilog_wait_gone $id 1 &&
	tell $id 0 0 &&
	epilog_wait $id clean
'
test_expect_success 'a time limit ends the job, not its epilog' '
	id=$(flux submit -N2 -t 0.2s --requires=rank:0-1 sleep inf) &&
	flux job wait-event -t 60 -m type=timeout $id exception &&
	epilogs_run $id 0-1 &&
	tell $id 1 0 &&
	epilog_wait_gone $id 1 &&
	tell $id 0 0 &&
	epilog_wait $id clean &&
	finishes_are $id 0:1 0
'
test_expect_success 'an exception does not end it either' '
	id=$(run_job 0-1) &&
	flux job raise --severity=0 --type=test $id &&
	tell $id 1 0 &&
	epilog_wait_gone $id 1 &&
	tell $id 0 0 &&
	epilog_wait $id clean &&
	finishes_are $id 0:1 0
'

#
# Failures
#

test_expect_success 'a rank where it failed stays' '
	id=$(run_job 0-3) &&
	tell $id 1 3 &&
	tell $id 2 kill &&
	tell $id 3 0 &&
	epilog_wait_gone $id 3 &&
	epilog_allocated_are 0-2
'
test_expect_success 'it goes when it is drained: the next job does not get it' '
	next=$(flux submit -N1 --requires=rank:1 true) &&
	flux job wait-event -t 60 $next priority &&
	tell $id 0 0 &&
	epilog_wait $id clean &&
	finishes_are $id 0:3 768 &&
	epilog_handoffs_are $id "3 free" &&
	exception_is $id "exited with code=3 .*rank 1-2" &&
	flux resource drain -no "{ranks} {reason}" >drain.out &&
	echo "1-2 epilog failed for job $id" >drain.expected &&
	test_cmp drain.expected drain.out &&
	test "$(flux jobs -no {state} $next)" = SCHED &&
	flux cancel $next &&
	drained_are 1-2
'
test_expect_success 'after a timeout nothing goes before the end' '
	configure "release-after = \"0\"" "timeout = \"6s\"" "kill-timeout = 2" &&
	id=$(run_job 0-3) &&
	tell_and_wait $id 2 good-on-term &&
	tell_and_wait $id 3 ignore-term &&
	tell $id 1 0 &&
	epilog_wait_gone $id 1 &&
	epilog_wait $id clean
'
test_expect_success 'what was killed, and what was not, is drained' '
	exception_is $id "timed out .*rank 0,3" &&
	epilog_handoffs_are $id "1 free" &&
	drained_are 0,3 &&
	kill -KILL $(cat $(flux job id --to=dec $id).3.pid)
'
test_expect_success 'after it was canceled nothing goes before the end' '
	configure "release-after = \"0\"" "cancel-on-exception = true" &&
	id=$(run_job 0-3) &&
	tell_and_wait $id 2 good-on-term &&
	tell_and_wait $id 3 ignore-term &&
	tell $id 1 0 &&
	epilog_wait_gone $id 1 &&
	flux job raise --severity=0 --type=test $id &&
	test_wait_until -i 600 \
	    "! kill -0 $(cat $(flux job id --to=dec $id).2.pid)" &&
	tell $id 3 0 &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "1 free" &&
	test "$(flux resource status -s drain -no {ranks})" = ""
'
test_expect_success 'a timer that runs is stopped too' '
	configure "release-after = \"2s\"" "cancel-on-exception = true" &&
	id=$(run_job 0-2) &&
	tell_and_wait $id 2 ignore-term &&
	tell $id 1 0 &&
	other=$(run_job 4-5) &&
	flux job raise --severity=0 --type=test $id &&
	tell $other 4 0 &&
	epilog_wait_gone $other 4 &&
	tell $other 5 0 &&
	tell $id 2 0 &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id free
'
test_expect_success 'an epilog that follows a failed prolog goes by rank' '
	configure "release-after = \"0\"" "[job-manager.prolog]" \
	    "command = [ \"false\" ]" "per-rank = true" &&
	id=$(flux submit -N2 --requires=rank:0-1 true) &&
	epilogs_run $id 0-1 &&
	flux job wait-event -t 60 -m type=prolog $id exception &&
	tell $id 1 0 &&
	epilog_wait_gone $id 1 &&
	tell $id 0 0 &&
	epilog_wait $id clean &&
	finishes_are $id 0:1 0 &&
	drained_are 0-1
'

#
# Nodes that are lost
#

test_expect_success 'a rank that is lost during its turn is no success' '
	configure "release-after = \"0\"" &&
	id=$(run_job 4-7) &&
	tell $id 4 0 &&
	epilog_wait_gone $id 4 &&
	flux overlay disconnect 7 &&
	tell $id 5 0 &&
	epilog_wait_gone $id 5 &&
	tell $id 6 0 &&
	epilog_wait $id clean &&
	finishes_are $id 0:4 0:5 256 &&
	exception_is $id "lost contact with .*rank 7" &&
	drained_are 7
'
test_expect_success 'nor is one that is lost before it' '
	id=$(flux submit -N3 --requires=rank:4-6 sleep inf) &&
	flux job wait-event -t 60 $id start &&
	flux overlay disconnect 6 &&
	epilogs_run $id 4-5 &&
	tell $id 4 0 &&
	epilog_wait_gone $id 4 &&
	tell $id 5 0 &&
	epilog_wait $id clean &&
	finishes_are $id 0:4 256 &&
	exception_is $id "lost contact with .*rank 6" &&
	drained_are 6
'
test_expect_success 'one that is lost after its turn is none of its business' '
	id=$(run_job 3-5) &&
	tell $id 5 0 &&
	epilog_wait_gone $id 5 &&
	flux overlay disconnect 5 &&
	tell $id 3-4 0 &&
	epilog_wait $id clean &&
	test "$(flux resource status -s drain -no {ranks})" = "" &&
	flux job info $id eventlog >lost-after.log &&
	! grep exception lost-after.log
'
test_expect_success 'a lost rank and a failed one' '
	id=$(run_job 2-4) &&
	flux overlay disconnect 4 &&
	tell $id 3 1 &&
	tell $id 2 0 &&
	epilog_wait $id clean &&
	exception_is $id "exited with code=1 .*rank 3-4" &&
	drained_are 3-4
'
test_expect_success 'one that hangs besides is named, and so is the timeout' '
	configure "release-after = \"0\"" "timeout = \"4s\"" "kill-timeout = 2" &&
	id=$(run_job 2-3) &&
	tell_and_wait $id 2 ignore-term &&
	flux overlay disconnect 3 &&
	epilog_wait $id clean &&
	finishes_are $id 256 &&
	exception_is $id "timed out on .*rank 2-3" &&
	drained_are 2-3 &&
	kill -KILL $(cat $(flux job id --to=dec $id).2.pid)
'

#
# The processes don't outlive their instance, what went does.
#

cat >before.sh <<-EOT
. ./functions.sh
flux jobtap load perilog.so
id=\$(run_job 0-2)
tell \$id 1 0
epilog_wait_gone \$id 1
echo \$id >stopped
EOT
cat >after.sh <<-EOT
. ./functions.sh
flux jobtap load perilog.so
epilog_watch_start after.jsonl
id=\$(cat stopped)
epilog_allocated_are 0,2
next=\$(run_job 1)
tell \$next 1 0
epilog_wait \$next clean
flux epilog list -no "{description} {held.ranks}" \$id >stopped.list
flux epilog finish --status=1 \$id job-manager.epilog
epilog_wait \$id clean
finishes_are \$id 0:1 1
epilog_handoffs_are \$id "1 free"
epilog_allocated_are ""
epilog_watch_check after.jsonl
EOT

# Usage: restart_with SCRIPT
restart_with () {
	mkdir -p state &&
	run_timeout 300 flux start -s3 -Sstatedir=$(pwd)/state \
	    -c $(pwd)/config.toml sh -ex $1
}

test_expect_success 'an instance stops while its epilog holds ranks' '
	configure "release-after = \"0\"" &&
	restart_with before.sh
'
test_expect_success 'the next one has them held, and an admin ends that' '
	restart_with after.sh &&
	echo "job-manager.epilog 0,2" >stopped.expected &&
	test_cmp stopped.expected stopped.list
'
test_expect_success 'nothing was freed twice, freed while held, or lost' '
	epilog_watch_check
'

test_done
