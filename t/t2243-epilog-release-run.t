#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test flux epilog run

It holds a job that runs, runs a command when that has ended, on each node or
here, and lets go of each node as the command gets done there.
'

# Append --logfile option if FLUX_TESTS_LOGFILE is set in environment:
test -n "$FLUX_TESTS_LOGFILE" && set -- "$@" --logfile
. $(dirname $0)/sharness.sh

# A job that is held for good must not hold the instance.
export FLUX_DISABLE_JOB_CLEANUP=t

flux R encode -r 0-7 -c 0-1 -H node[0-7] >R
test_under_flux 8 full \
    --test-exit-mode=leader \
    --test-hosts=node[0-7] \
    --conf=resource.path=$(pwd)/R \
    --conf=resource.noverify=true \
    --conf=exec.kill-timeout=600s

# What a command has to say is one line.
unset FLUX_PYCLI_LOGLEVEL

# Be patient with a busy machine.
TEST_WAIT_UNTIL_DEFAULT_ITERS=600

export SHARNESS_TEST_SRCDIR FLUX_BUILD_DIR

startctl="flux python ${SHARNESS_TEST_SRCDIR}/scripts/startctl.py"

# Usage: job [OPTION]... COMMAND...
# Start a job on all nodes.  Set id.
job () {
	id=$(flux submit -N8 --exclusive "$@") &&
	epilog_wait $id start
}

# Usage: start NAME ARG...
# Start flux epilog run in the background.
start () {
	name=$1
	shift
	flux epilog run "$@" >$name.out 2>$name.err &
	run=$!
}

# Usage: hold NAME ARG... -- COMMAND...
# Start it for the job, and wait until that is held.
hold () {
	local name1=$1
	shift
	start $name1 $id "$@" &&
	epilog_wait $id epilog-start
}

# Usage: gate NAME [ARG...]
# Run gate.sh for a new job, which is canceled.
gate () {
	local name1=$1
	shift
	job sleep inf &&
	hold $name1 "$@" -- ./gate.sh $name1 &&
	flux cancel $id
}

# Usage: ends STATUS
# What was started last ends so.
ends () {
	local status=0
	wait $run || status=$?
	test_debug "cat $name.out $name.err" &&
	test $status = $1
}

# Usage: says TEXT
# The last that it has to say is TEXT and a time.
says () {
	tail -1 $name.err | sed "s/: [0-9.]*s\$//" >$name.said &&
	echo "$id: $1" >$name.expected &&
	test_cmp $name.expected $name.said
}

# Usage: noted STATUS
# Its action has ended, once, with that status.
noted () {
	epilog_wait $id clean &&
	test "$(flux job info $id eventlog | jq "select (.name == \"epilog-finish\"
	    and .context.description == \"run\" and .context.ranks == null)
	    | .context.status")" = $1
}

# Usage: fails STATUS TEXT ARG...
# flux epilog run fails at once, and says why in one line.
fails () {
	local status=$1
	local text="$2"
	shift 2
	test_expect_code $status run_timeout 60 flux epilog run "$@" \
	    >fails.out 2>fails.err &&
	test_must_be_empty fails.out &&
	grep -v "^usage:" fails.err >fails.said &&
	test $(wc -l <fails.said) = 1 &&
	grep -i "^flux.epilog.* error: .*$text" fails.said
}

# Usage: waits RANK...
# gate.sh runs there.
waits () {
	for rank in "$@"; do
		test_wait_until "test -s $name.waits.$rank" || return 1
	done
}

# Usage: open RANK...|all
# gate.sh may end there.
open () {
	for rank in "$@"; do
		touch $name.open.$rank || return 1
	done
}

# Usage: let_go RANK...
# One after the other, gate.sh ends there, and the rank goes.
let_go () {
	for rank in "$@"; do
		open $rank &&
		epilog_wait_gone $id $rank || return 1
	done
}

# Usage: dead RANK...
# gate.sh does not run there any more.
dead () {
	waits "$@" &&
	for rank in "$@"; do
		test_wait_until "! kill -0 $(cat $name.waits.$rank)" || return 1
	done
}

# Usage: job_is_watched [COUNT]
# More than COUNT (default: 0) wait for events of a job.
job_is_watched () {
	flux module stats job-info | jq -e ".watchers > ${1:-0}"
}

# Usage: event_before NAME TIME
event_before () {
	flux job info $id eventlog | jq -s -e ".[] | select (.name == \"$1\")
	    | .timestamp < $2"
}

# Usage: drained_are [LINE]...
# These nodes are drained, for these reasons.
drained_are () {
	flux resource drain -no "{nodelist}: {reason}" | sort >drained.out &&
	for line in "$@"; do
		echo "$line" || return 1
	done | sort >drained.expected &&
	test_cmp drained.expected drained.out
}

test_expect_success 'start the watcher' '
	epilog_watch_start
'
test_expect_success 'create a command that waits to be let through' '
	cat >gate.sh <<-EOT &&
	#!/bin/sh
	# Usage: gate.sh NAME
	rank=\$(flux getattr rank)
	test -f \$1.deaf.\$rank && trap "" TERM INT
	test -f \$1.polite.\$rank && trap "exit 0" TERM INT
	echo \$\$ >\$1.waits.\$rank
	until test -f \$1.open.\$rank || test -f \$1.open.all; do sleep 0.1; done
	echo through
	EOT
	chmod +x gate.sh
'

#
# What the command gets
#

test_expect_success 'a job that runs is held, and nothing is run yet' '
	job sleep inf &&
	hold env --per-rank --label-io -- sh -c "
		echo \$FLUX_JOB_ID \$FLUX_JOB_USERID \$FLUX_JOB_RANKS \$FLUX_JOB_STATUS
		echo \$FLUX_JOB_EXCEPTION: \$FLUX_JOB_EXCEPTION_NOTE
		echo \$FLUX_EPILOG_DESCRIPTION \$FLUX_EPILOG_RANKS \$(pwd) \$(cat) >&2
		printf \$(flux getattr rank)" &&
	test "$(flux epilog list -no "{state} {description} {held.ranks}")" = \
	    "RUN run 0-7" &&
	test_must_be_empty env.out
'
test_expect_success 'how it ended is in the environment, and output is labeled' '
	flux job raise --type=quench --severity=1 $id &&
	flux job raise --type=boom --message="it 100% broke" $id &&
	flux job raise --type=late $id &&
	ends 0 &&
	status=$(flux job info $id eventlog \
	    | jq "select (.name == \"finish\") | .context.status") &&
	for rank in 0 1 2 3 4 5 6 7; do
		echo $rank: $id $(id -u) 0-7 $status &&
		echo $rank: boom: it 100% broke &&
		echo $rank: $rank || return 1
	done >env.expected &&
	sort -s -n -k1,1 env.out >env.sorted &&
	test_cmp env.expected env.sorted &&
	for rank in 0 1 2 3 4 5 6 7; do
		echo $rank: run 0-7 $(pwd) || return 1
	done >env2.expected &&
	grep "^[0-7]:" env.err | sort >env2.sorted &&
	test_cmp env2.expected env2.sorted &&
	says "sh on 8 nodes: 8 ok" &&
	noted 0
'
test_expect_success 'a job may end well, or by its time limit' '
	job sh -c "until test -f $(pwd)/well; do sleep 0.1; done; exit 3" &&
	hold well -- sh -c "echo \$FLUX_JOB_STATUS, \$FLUX_JOB_EXCEPTION." &&
	touch well &&
	ends 0 &&
	echo "768, ." >well.expected1 &&
	test_cmp well.expected1 well.out &&
	begin=$(date +%s) &&
	job -t 1h sleep inf &&
	hold limit -- sh -c "echo \$FLUX_JOB_EXCEPTION" &&
	flux update $id duration=$(($(date +%s) - $begin + 1))s &&
	ends 0 &&
	test "$(cat limit.out)" = timeout
'
test_expect_success 'output without labels is as it was written' '
	job sleep inf &&
	hold raw --on=3 -- sh -c "printf \"a\\\\0\\\\377\\nb\"" &&
	flux cancel $id &&
	ends 0 &&
	printf "a\\0\\377\\nb" >raw.expected1 &&
	cmp raw.expected1 raw.out &&
	says "sh on 1 nodes: 1 ok"
'
test_expect_success 'nobody needs to read it' '
	job sleep inf &&
	{
		{
			flux epilog run $id --per-rank -- seq 10000
			echo $? >unread.status
		} 2>unread.err | true &
	} &&
	epilog_wait $id epilog-start &&
	flux cancel $id &&
	test_wait_until "test -s unread.status" &&
	test "$(cat unread.status)" = 0 &&
	noted 0
'

#
# What is let go of when
#

test_expect_success 'each node goes as the command is done there' '
	gate each --per-rank &&
	waits 0 1 2 3 4 5 6 7 &&
	epilog_allocated_are 0-7 &&
	let_go 2 5 &&
	epilog_allocated_are 0-1,3-4,6-7
'
test_expect_success 'another job runs there, while the command goes on elsewhere' '
	run_timeout 60 flux run -N2 flux getattr rank >there.out &&
	sort there.out >there.sorted &&
	printf "2\n5\n" >there.expected &&
	test_cmp there.expected there.sorted &&
	test "$(flux epilog list -no "{held.ranks} {released.ranks}")" = \
	    "0-1,3-4,6-7 2,5"
'
test_expect_success 'a scheduler that is reloaded gets them later' '
	flux module remove sched-simple &&
	open 3 &&
	flux job wait-event -q -t 60 -m ranks=3 $id epilog-finish &&
	flux module load sched-simple &&
	epilog_wait_gone $id 3 &&
	epilog_allocated_are 0-1,4,6-7
'
test_expect_success 'when all are done, the action ends' '
	open all &&
	ends 0 &&
	says "gate.sh on 8 nodes: 8 ok" &&
	noted 0 &&
	test $(grep -c through each.out) = 8
'
test_expect_success 'with --on, others are not held' '
	gate on --on=node[1-2,6] &&
	waits 1 2 6 &&
	epilog_wait_gone $id 0,3-5,7 &&
	epilog_allocated_are 1-2,6 &&
	open all &&
	ends 0 &&
	says "gate.sh on 3 nodes: 3 ok" &&
	ls on.waits.* >on.ran &&
	test $(wc -l <on.ran) = 3
'
test_expect_success 'without both it runs here, and all nodes go when it is done' '
	gate here &&
	waits 0 &&
	epilog_allocated_are 0-7 &&
	open 0 &&
	ends 0 &&
	says "gate.sh for 8 nodes: 8 ok" &&
	epilog_handoffs_are $id free &&
	! test -e here.waits.1
'
test_expect_success 'it may let go of some itself' '
	job sleep inf &&
	hold self -- sh -c "
		flux epilog release \$FLUX_JOB_ID \$FLUX_EPILOG_DESCRIPTION 0-2 &&
		flux job wait-event -t 60 \$FLUX_JOB_ID partial-free &&
		exit 4" &&
	flux cancel $id &&
	ends 1 &&
	says "sh for 8 nodes: 3 ok, 5 failed (node[3-7]: exit 4)" &&
	epilog_handoffs_are $id "0-2 free" &&
	noted 1024
'
test_expect_success 'a job that has ended can be held if it is held already' '
	flux jobtap load $(epilog_hold_plugin) &&
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"4-7\"}]" -N8) &&
	flux jobtap remove epilog-hold.so &&
	epilog_wait_gone $id 0-3 &&
	start cleanup $id --per-rank -- true &&
	ends 0 &&
	says "true on 4 nodes: 4 ok" &&
	epilog_allocated_are 4-7 &&
	epilog_finish $id a 4-7 &&
	epilog_wait $id free &&
	fails 1 "no node left" $id -- true &&
	epilog_finish $id a &&
	epilog_wait $id clean
'

#
# What the job may still be doing
#

test_expect_success 'a job that waits is held when it has nodes' '
	id=$(flux submit -N8 --exclusive --urgency=hold sleep inf) &&
	start wait $id --per-rank -- true &&
	test_wait_until job_is_watched &&
	flux job urgency $id default &&
	epilog_wait $id epilog-start &&
	flux cancel $id &&
	ends 0 &&
	says "true on 8 nodes: 8 ok"
'
test_expect_success 'of two that wait, the first gets it' '
	id=$(flux submit -N8 --exclusive --urgency=hold sleep inf) &&
	start first $id --per-rank -- true &&
	first=$run &&
	test_wait_until job_is_watched &&
	start second $id --per-rank -- true &&
	second=$run &&
	test_wait_until "job_is_watched 1" &&
	flux job urgency $id default &&
	epilog_wait $id epilog-start &&
	test_wait_until "grep outstanding first.err second.err" &&
	flux cancel $id &&
	status= &&
	for one in $first $second; do
		wait $one && status="$status 0" || status="$status $?"
	done &&
	test_debug "cat first.err second.err" &&
	case "$status" in " 0 1"|" 1 0") true ;; *) false ;; esac &&
	cat first.err second.err >both.err &&
	grep "ERROR: an action .run. is outstanding already" both.err &&
	grep "true on 8 nodes: 8 ok" both.err &&
	noted 0
'
test_expect_success 'if it never gets any, there is nothing to be done' '
	id=$(flux submit -N8 --exclusive --urgency=hold sleep inf) &&
	start never $id --per-rank -- true &&
	test_wait_until job_is_watched &&
	flux cancel $id &&
	ends 1 &&
	echo "flux-epilog: ERROR: $id: the job has ended" >never.expected &&
	test_cmp never.expected never.err
'
test_expect_success 'the command waits for tasks that do not want to end' '
	job sh -c "trap \"\" TERM; touch $(pwd)/task; until test -f $(pwd)/task.ends
	    do sleep 0.1; done" &&
	test_wait_until "test -f task" &&
	hold tasks -- date +%s.%N &&
	flux cancel $id &&
	epilog_wait $id exception &&
	flux job raise --type=more --severity=1 $id &&
	flux job wait-event -q -t 60 -m type=more $id exception &&
	touch task.ends &&
	ends 0 &&
	event_before release $(cat tasks.out)
'
test_expect_success 'and for a prolog that does not' '
	cat >prolog.sh <<-EOT &&
	#!/bin/sh
	touch $(pwd)/prolog
	until test -f $(pwd)/prolog.ends; do sleep 0.1; done
	EOT
	chmod +x prolog.sh &&
	flux config load <<-EOT &&
	[job-manager.prolog]
	command = [ "$(pwd)/prolog.sh" ]
	cancel-on-exception = false
	EOT
	flux jobtap load perilog.so &&
	id=$(flux submit -N8 --exclusive true) &&
	test_wait_until "test -f prolog" &&
	hold prolog --per-rank -- sh -c "
	    echo \$(date +%s.%N) .\$FLUX_JOB_STATUS. \$FLUX_JOB_EXCEPTION" &&
	flux cancel $id &&
	epilog_wait $id exception &&
	flux job raise --type=more --severity=1 $id &&
	flux job wait-event -q -t 60 -m type=more $id exception &&
	touch prolog.ends &&
	ends 0 &&
	test $(grep -c "\.\. cancel" prolog.out) = 8 &&
	event_before prolog-finish $(sort -n prolog.out | sed "s/ .*//;q") &&
	flux jobtap remove perilog.so &&
	flux config load </dev/null
'

#
# What goes wrong
#

test_expect_success 'the worst status is noted, and what failed is said and logged' '
	job sleep inf &&
	hold worst --per-rank -- sh -c "
		rank=\$(flux getattr rank)
		test \$rank = 6 && kill -9 \$\$
		test \$rank -lt 3 || exit \$((rank % 2 + 2))" &&
	flux cancel $id &&
	ends 1 &&
	noted 9 &&
	grep "^$id: sh on 8 nodes: 3 ok, 5 failed (" worst.err &&
	for cause in "node\[3,5,7\]: exit 3" "node4: exit 2" "node6: signal 9"; do
		grep "[(;] *$cause[;)]" worst.err &&
		flux dmesg | grep "epilog run of $id: .*${cause#*: }" || return 1
	done &&
	drained_are
'
test_expect_success 'what failed is held until the end' '
	id=$(flux job last) &&
	test "$(epilog_handoffs $id | sed "s/.*[34567].*/bad/")" != bad
'
test_expect_success 'a command that can not be run has failed' '
	job sleep inf &&
	hold missing --per-rank -- ./nosuch &&
	flux cancel $id &&
	ends 1 &&
	says "nosuch on 8 nodes: 0 ok, 8 failed (node[0-7]: error launching process: No such file or directory)" &&
	noted $((127 * 256))
'
test_expect_success 'with --drain-failed, nothing can start on what failed' '
	job sleep inf &&
	hold drain --per-rank --drain-failed -- sh -c "
		test \$(flux getattr rank) -lt 6 || exit 1" &&
	id2=$(flux submit -N1 --requires=host:node6 true) &&
	flux cancel $id &&
	ends 1 &&
	says "sh on 8 nodes: 6 ok, 2 failed (node[6-7]: exit 1)" &&
	noted 256 &&
	drained_are "node[6-7]: epilog run of $id: exit 1" &&
	run_timeout 60 flux run -N1 --urgency=31 true &&
	test "$(flux jobs -no {state} $id2)" = SCHED &&
	flux cancel $id2 &&
	flux resource undrain 6-7
'
test_expect_success 'it goes when it is drained, while others go on' '
	touch deaf.deaf.4 &&
	gate deaf --per-rank --drain-failed --timeout=1s &&
	epilog_wait_gone $id 0-3,5-7 &&
	test "$(flux epilog list -no {held.ranks})" = 4 &&
	ends 1 &&
	tail -1 deaf.err >deaf.last &&
	grep "0 ok, 8 failed (node\[0-3,5-7\]: timed out; node4: timed out)" deaf.last \
	    || grep "0 ok, 8 failed (node\[0-7\]: timed out)" deaf.last &&
	dead 4 &&
	drained_are "node[0-7]: epilog run of $id: timed out" &&
	flux resource undrain 0-7
'
test_expect_success 'where the command can not be killed, no other job may start' '
	job sleep inf &&
	name=survive &&
	touch survive.out &&
	{ flux python ${SHARNESS_TEST_SRCDIR}/scripts/epilog-run-scale.py $id inf \
	    >survive.time 2>survive.err & } &&
	run=$! &&
	epilog_wait $id epilog-start &&
	flux cancel $id &&
	ends 1 &&
	grep "0 ok, 8 failed (0-7: can.t be killed)" survive.err &&
	noted 9 &&
	drained_are "node[0-7]: epilog run of $id: can'\''t be killed" &&
	flux resource undrain 0-7
'
test_expect_success 'if it can not be drained, it stays held, and that is said' '
	gate stay --per-rank --drain-failed &&
	waits 0 1 2 3 4 5 6 7 &&
	let_go 0 1 &&
	flux module remove sched-simple &&
	flux module remove resource &&
	kill -9 $(cat stay.waits.5) &&
	open all &&
	ends 1 &&
	grep "^$id: .run. goes on to hold .*: drain: " stay.err &&
	flux module load resource noverify &&
	flux module load sched-simple &&
	test "$(flux epilog list -no {held.ranks})" = 5 &&
	flux epilog release --drain=broken $id run 5 &&
	flux epilog finish $id run &&
	epilog_wait $id clean &&
	drained_are "node5: broken" &&
	flux resource undrain 5
'
test_expect_success 'what somebody else lets go of is left alone' '
	gate other --per-rank --drain-failed &&
	waits 0 1 2 3 4 5 6 7 &&
	flux epilog release $id run 3 &&
	dead 3 &&
	open all &&
	ends 1 &&
	says "gate.sh on 8 nodes: 7 ok, 1 failed (node3: let go of by somebody else)" &&
	drained_are
'
test_expect_success 'so are all, if somebody else ends the action' '
	gate ended --per-rank --drain-failed &&
	waits 0 1 2 3 4 5 6 7 &&
	flux epilog finish $id run &&
	ends 1 &&
	echo "flux-epilog: ERROR: somebody else has ended .run." >ended.expected &&
	grep -x -f ended.expected ended.err &&
	test $(wc -l <ended.err) = 1 &&
	dead 0 1 2 3 4 5 6 7 &&
	noted 0
'

#
# What is done to it
#

test_expect_success 'Ctrl-C is passed on, and nothing stays held' '
	touch int.polite.0 int.polite.1 int.deaf.7 &&
	gate int --per-rank --drain-failed &&
	waits 0 1 2 3 4 5 6 7 &&
	kill -INT $run &&
	ends 1 &&
	grep "2 ok, 6 failed (node\[2-6\]: signal 2; node7: signal 9)" int.err &&
	noted 9 &&
	drained_are "node[2-6]: epilog run of $id: signal 2" \
	    "node7: epilog run of $id: signal 9" &&
	flux resource undrain 2-7
'
test_expect_success 'a second one kills' '
	touch int2.deaf.0 &&
	gate int2 &&
	waits 0 &&
	kill -TERM $run &&
	kill -INT $run &&
	ends 1 &&
	says "gate.sh for 8 nodes: 0 ok, 8 failed (node[0-7]: signal 9)" &&
	noted 9
'
test_expect_success 'before the end of the job, it ends the action' '
	job sleep inf &&
	hold int3 -- touch int3.ran &&
	kill -TERM $run &&
	ends 1 &&
	echo "$id: interrupted before the job has ended" >int3.expected &&
	test_cmp int3.expected int3.err &&
	flux cancel $id &&
	noted 15 &&
	epilog_handoffs_are $id free &&
	! test -e int3.ran
'
test_expect_success 'if it is killed, so is the command, and the action stays' '
	gate killed --per-rank &&
	waits 0 1 2 3 4 5 6 7 &&
	let_go 0 &&
	kill -9 $run &&
	ends 137 &&
	dead 1 2 3 4 5 6 7 &&
	test "$(flux epilog list -no "{description} {held.ranks}")" = "run 1-7" &&
	epilog_allocated_are 1-7
'
test_expect_success 'it is not taken up unless that is asked for' '
	fails 1 "run. is outstanding already: .*--resume" $id --per-rank -- true
'
test_expect_success 'then the command runs on what is held yet' '
	start resume $id --resume --per-rank -- sh -c "
	    echo \$(flux getattr rank) \$FLUX_EPILOG_RANKS \$FLUX_JOB_EXCEPTION
	    echo \$FLUX_JOB_STATUS" &&
	ends 0 &&
	says "sh on 7 nodes: 7 ok" &&
	noted 0 &&
	status=$(flux job info $id eventlog \
	    | jq "select (.name == \"finish\") | .context.status") &&
	for rank in 1 2 3 4 5 6 7; do
		echo $rank 1-7 cancel && echo $status || return 1
	done | sort >resume.expected1 &&
	sort resume.out >resume.sorted &&
	test_cmp resume.expected1 resume.sorted
'
test_expect_success 'what makes no sense is refused' '
	ended=$(flux submit true) &&
	epilog_wait $ended clean &&
	job sleep inf &&
	fails 2 "COMMAND" $id &&
	fails 2 "COMMAND" $id -- &&
	fails 2 "JOB" xyzzy! -- true &&
	fails 2 "not allowed with" --per-rank --on=0 $id -- true &&
	fails 2 "timeout" --timeout=x $id -- true &&
	fails 1 "unknown job" 1 -- true &&
	fails 1 "inactive" $ended -- true &&
	fails 1 "node9: no such host" --on=node9 $id -- true &&
	fails 1 "rank 9 is not in the job" --on=9 $id -- true &&
	fails 1 "no node left" --on= $id -- true &&
	fails 1 "no action .run. is outstanding" --resume $id -- true &&
	fails 1 "no action .x. is outstanding" --resume --description=x $id -- true &&
	test "$(flux epilog list -no {description})" = "" &&
	flux cancel $id &&
	epilog_wait $id clean
'

#
# Nodes that are lost, the way of SCR: the scavenger copies what is on the nodes
#

test_expect_success 'start a job that has a file on each of its nodes' '
	mkdir shared &&
	cat >app.sh <<-EOT &&
	#!/bin/sh
	rank=\$(flux getattr rank)
	mkdir node\$rank
	echo checkpoint of \$rank >node\$rank/ckpt
	touch app.\$rank
	exec sleep inf
	EOT
	cat >copy.sh <<-EOT &&
	#!/bin/sh
	# Copy what is on this node.  It takes long on one of them.
	rank=\$(flux getattr rank)
	test \$rank != 4 || until test -f scr.open; do sleep 0.1; done
	cp node\$rank/ckpt shared/\$rank
	EOT
	cat >scavenge.sh <<-EOT &&
	#!/bin/sh
	# Copy from all nodes at once, and let go of each that is done.
	let_go () {
		flux epilog release "\$@" \$FLUX_JOB_ID \$FLUX_EPILOG_DESCRIPTION \$rank
	}
	for rank in \$(flux hostlist -e "[\$FLUX_EPILOG_RANKS]"); do
		(flux exec -r \$rank ./copy.sh && let_go || let_go --drain="no copy") &
	done
	wait
	cat shared/*
	EOT
	chmod +x app.sh copy.sh scavenge.sh &&
	id=$(flux submit -N5 -n5 --exclusive --requires=rank:3-7 ./app.sh) &&
	for rank in 3 4 5 6 7; do
		test_wait_until "test -f app.$rank" || return 1
	done &&
	hold scr --timeout=1h -- ./scavenge.sh
'
test_expect_success 'a node crashes, the job fails, and the others are copied' '
	$startctl kill 7 9 &&
	epilog_wait $id exception &&
	for rank in 3 5 6; do
		test_wait_until "test -f shared/$rank" || return 1
	done &&
	test_wait_until "test \"\$(flux epilog list -no {held.ranks})\" = 4" &&
	flux job info $id eventlog >scr.log &&
	jq -r "select (.name == \"exception\") | .context.note" scr.log | grep node7
'
test_expect_success 'the next job runs on them, while the last is being copied' '
	run_timeout 60 flux run -N3 -n3 --requires=rank:3-7 flux getattr rank \
	    >next.out &&
	sort next.out >next.sorted &&
	printf "3\n5\n6\n" >next.expected &&
	test_cmp next.expected next.sorted &&
	! test -e shared/4 &&
	test "$(flux epilog list -no {held.ranks})" = 4
'
test_expect_success 'all but the one that crashed is there, and that is drained' '
	touch scr.open &&
	ends 0 &&
	for rank in 3 4 5 6; do
		echo checkpoint of $rank || return 1
	done >scr.expected1 &&
	test_cmp scr.expected1 scr.out &&
	noted 0 &&
	drained_are "node7: no copy" &&
	test_debug "flux job eventlog -H $id"
'
test_expect_success 'a node that is lost before its turn has failed' '
	id=$(flux submit -N3 -n3 --exclusive --requires=rank:4-6 sleep inf) &&
	epilog_wait $id start &&
	hold lost --per-rank --drain-failed -- ./gate.sh lost &&
	$startctl kill 6 9 &&
	waits 4 5 &&
	epilog_wait_gone $id 6 &&
	drained_are "node6: epilog run of $id: node lost" "node7: no copy"
'
test_expect_success 'so has one that is lost while the command runs' '
	$startctl kill 5 9 &&
	epilog_wait_gone $id 5 &&
	drained_are "node[5-6]: epilog run of $id: node lost" "node7: no copy" &&
	test "$(flux epilog list -no {held.ranks})" = 4 &&
	open all &&
	ends 1 &&
	says "gate.sh on 3 nodes: 1 ok, 2 failed (node[5-6]: node lost)" &&
	noted $((68 * 256))
'
test_expect_success 'one that is lost later has not' '
	id=$(flux submit -N2 -n2 --exclusive --requires=rank:3-4 sleep inf) &&
	epilog_wait $id start &&
	hold later --per-rank --drain-failed -- ./gate.sh later &&
	flux cancel $id &&
	waits 3 4 &&
	let_go 4 &&
	$startctl kill 4 9 &&
	test_wait_until "flux resource status -s offline -no {ranks} | grep 4" &&
	open 3 &&
	ends 0 &&
	says "gate.sh on 2 nodes: 2 ok" &&
	noted 0
'
test_expect_success 'no job was hurt, no rank lost, none freed twice' '
	flux queue drain --timeout=60s &&
	epilog_watch_check
'

#
# Instances that stop
#

cat >functions.sh <<'EOT'
. ${SHARNESS_TEST_SRCDIR}/sharness.d/epilog-job.sh
. ${SHARNESS_TEST_SRCDIR}/sharness.d/epilog-watch.sh

# Usage: wait_until COMMAND...
wait_until () {
	until "$@"; do sleep 0.1; done
}

# Usage: begin NAME
# Hold a job, and leave the rest to the background.
begin () {
	id=$(flux submit -N2 -n2 --exclusive sleep inf)
	epilog_wait $id start
	(
	    flux epilog run $id --per-rank -- ./gate.sh $1 >$1.out 2>$1.err && rc=0 || rc=$?
	    echo $rc >$1.status
	) &
	epilog_wait $id epilog-start
}

# The job ends, and is done on one of its nodes.
half () {
	flux cancel $id
	touch $1.open.0
	epilog_wait_gone $id 0
	wait_until test -s $1.waits.1
}

# Usage: again NAME
# Run the command where it was not done.
again () {
	test "$(flux epilog list -no "{description} {held.ranks}")" = "run 1"
	epilog_allocated_are 1
	flux epilog run $id --resume --per-rank --label-io -- echo again >$1.again
	test "$(cat $1.again)" = "1: again"
	epilog_wait $id clean
	epilog_handoffs_are $id "0 free"
}

job_manager_stop () {
	for module in sched-simple job-exec job-manager; do
		flux module remove $module
	done
}
job_manager_start () {
	for module in job-manager job-exec sched-simple; do
		flux module load $module
	done
}
EOT
cat >stop.sh <<'EOT'
epilog_watch_start
begin $1
half $1
epilog_watch_check epilog-watch.jsonl --active-ok
EOT
cat >resume.sh <<'EOT'
epilog_watch_start
id=$(flux jobs -no {id})
again $1
epilog_watch_check
EOT
cat >cleanup.sh <<'EOT'
touch $1.open.all
begin $1
EOT
cat >manager.sh <<'EOT'
begin $1
job_manager_stop
job_manager_start
half $1
job_manager_stop
touch $1.open.1
wait_until test -s $1.status
job_manager_start
again $1
EOT

# Usage: instance SCRIPT [OPTION]...
# Run SCRIPT in an instance.
instance () {
	local script=$1
	shift
	cat functions.sh $script.sh >$script.all &&
	run_timeout 240 flux start -s2 "$@" sh -ex $script.all $script
}

# Usage: left_behind NAME
# What begin() began has failed, and said what to do.
left_behind () {
	test_wait_until "test -s $1.status" &&
	test_debug "cat $1.err" &&
	test "$(cat $1.status)" = 1 &&
	test $(wc -l <$1.err) = 1 &&
	grep "^flux-epilog: ERROR: .*: .run. of .* is still outstanding, go on with --resume" \
	    $1.err
}

test_expect_success 'stop an instance while the command runs: that is noticed' '
	mkdir state &&
	instance stop -Sstatedir=$(pwd)/state &&
	left_behind stop
'
test_expect_success 'when the instance is back, it goes on where it was' '
	instance resume -Sstatedir=$(pwd)/state
'
test_expect_success 'a job manager may be reloaded, but not be missing' '
	instance manager &&
	left_behind manager
'
test_expect_success 'an instance that cancels its jobs waits for the command, no longer' '
	(unset FLUX_DISABLE_JOB_CLEANUP && instance cleanup) &&
	test "$(cat cleanup.status)" = 0 &&
	grep "gate.sh on 2 nodes: 2 ok" cleanup.err
'

#
# Size
#

cat >scale.sh <<'EOT'
epilog_watch_start scale.jsonl

# Usage: count FILTER
count () {
	jq -c "select ($1)" | wc -l
}
# Usage: measure SECONDS
# Hold a thousand nodes, and let go of them within that time.
measure () {
	id=$(flux submit -N1024 --exclusive --env-remove="*" \
	    --setattr=system.exec.test.run_duration=600s true)
	epilog_wait $id start
	flux python ${SHARNESS_TEST_SRCDIR}/scripts/epilog-run-scale.py $id $1 \
	    >scale.time &
	run=$!
	epilog_wait $id epilog-start
	flux cancel $id
	wait $run && rc=0 || rc=$?
	epilog_wait $id clean
	finishes=$(flux job info $id eventlog | count ".name == \"epilog-finish\"")
	frees=$(count ".what == \"free\" and .id == $(flux job id --to=dec $id)" \
	    <scale.jsonl)
	echo $1: $(cat scale.time) s, $finishes finishes, $frees frees, exit $rc
}
for seconds in 0 2; do
	measure $seconds
	test $rc = 0
	test $finishes -lt 64
	test $frees -le $finishes
done
epilog_watch_check scale.jsonl
EOT
test_expect_success 'a thousand nodes go in a few steps' '
	cat >scale.toml <<-EOT &&
	[fake-resources]
	nnodes = 1024
	cores-per-node = 1
	EOT
	cat functions.sh scale.sh >scale.all &&
	run_timeout 240 flux start -c $(pwd)/scale.toml sh -e scale.all scale
'
test_done
