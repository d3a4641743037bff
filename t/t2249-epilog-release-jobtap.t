#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test the jobtap functions that name the ranks of an epilog

The plugin epilog-calls makes the calls that a job, or a request, asks for, and
says what came back.
'

# Append --logfile option if FLUX_TESTS_LOGFILE is set in environment:
test -n "$FLUX_TESTS_LOGFILE" && set -- "$@" --logfile
. $(dirname $0)/sharness.sh

# A job that is held for good must not hold the instance.
export FLUX_DISABLE_JOB_CLEANUP=t

test_under_flux 1 full \
    --conf=fake-resources.nnodes=256 \
    --conf=fake-resources.cores-per-node=2

EINVAL=22
ENOENT=2
EOVERFLOW=75

# Usage: submit CALLS [OPTION]...
submit () {
	local calls="$1"
	shift
	flux submit \
	    --env-remove="*" \
	    --setattr=system.exec.test.run_duration=0.01s \
	    --setattr=system.epilog-calls="$calls" \
	    "$@" true
}

# Usage: called_are ID TOPIC ERRNO...
# The calls that the job made in a callback had these results.
called_are () {
	local got
	got="$(flux job info $1 eventlog \
	    | jq "select (.name == \"call-returned\")
	          | select (.context.topic == \"$2\") | .context.errno" \
	    | paste -s -d " ")"
	shift 2
	test "$got" = "$*" && return 0
	echo >&2 "calls returned '$got', want '$*'"
	return 1
}

# Usage: call JSON
# Make a call from outside of any job, print errno.
call () {
	cat >call.py <<-EOT &&
	import flux, json, sys
	request = json.loads(sys.argv[2])
	print(json.dumps(flux.Flux().rpc("job-manager.epilog-calls." + sys.argv[1], request).get()))
	EOT
	flux python call.py call "$1" | jq .errno
}

# Usage: finish ID MORE
# MORE is JSON that follows the id.
finish () {
	call "{\"call\":\"finish\",\"id\":$(flux job id --to=dec $1)$2}"
}

# Usage: starts N
# Print N calls of start as JSON.
starts () {
	seq 1 $1 | jq -c "{call:\"start\",description:\"d\(.)\",ranks:\"\"}" \
	    | paste -s -d ,
}

# Usage: seen_are ID BOOL...
seen_are () {
	local got
	got="$(flux job info $1 eventlog \
	    | jq "select (.name == \"finish-seen\") | .context.partial" \
	    | paste -s -d " ")"
	shift
	test "$got" = "$*"
}

test_expect_success 'start the watcher and load the plugin' '
	epilog_watch_start &&
	flux jobtap load \
	    ${FLUX_BUILD_DIR}/t/job-manager/plugins/.libs/epilog-calls.so
'
test_expect_success 'a plugin can ask for functions that may be missing' '
	call "{}" >/dev/null &&
	flux python call.py have "{}" >have.out &&
	echo "{\"start_ranks\": true, \"finish_ranks\": true, \"not_yet\": false}" \
	    >have.expected &&
	test_cmp have.expected have.out
'
test_expect_success 'ranks that are named are held, the others go' '
	id=$(submit "{\"job.state.cleanup\":[
	    {\"call\":\"start\",\"description\":\"a\",\"ranks\":\"1-2\"}]}" -N4) &&
	epilog_wait_gone $id 0,3 &&
	called_are $id job.state.cleanup 0 &&
	epilog_allocated_are 1-2
'
test_expect_success 'a partial finish lets go of some' '
	test $(finish $id ",\"description\":\"a\",\"ranks\":\"2\"") -eq 0 &&
	epilog_wait_gone $id 2 &&
	epilog_allocated_are 1
'
test_expect_success 'ranks in any universe size are taken' '
	test $(finish $id ",\"description\":\"a\",\"ranks\":\"9000\"") \
	    -eq $EINVAL &&
	epilog_allocated_are 1
'
test_expect_success 'a finish without ranks ends the action, with its status' '
	test $(finish $id ",\"description\":\"a\",\"status\":3") -eq 0 &&
	epilog_wait $id clean &&
	flux job info $id eventlog \
	    | jq -c "select (.name == \"epilog-finish\") | .context" \
	    | tail -1 >finish.out &&
	echo "{\"description\":\"a\",\"status\":3}" >finish.expected &&
	test_cmp finish.expected finish.out &&
	epilog_handoffs_are $id "0,3 2 free" &&
	epilog_allocated_are ""
'
test_expect_success 'a subscriber can tell partial finishes by their ranks key' '
	seen_are $id true false
'
test_expect_success 'NULL holds all ranks, the empty set none' '
	id=$(submit "{\"job.state.cleanup\":[
	    {\"call\":\"start\",\"description\":\"job\",\"ranks\":\"\"},
	    {\"call\":\"start\",\"description\":\"all\"}]}" -N2) &&
	epilog_wait $id release &&
	epilog_allocated_are 0-1 &&
	test $(finish $id ",\"description\":\"all\"") -eq 0 &&
	epilog_wait $id free &&
	epilog_allocated_are "" &&
	test "$(flux jobs -no {state} $id)" = CLEANUP &&
	test $(finish $id ",\"description\":\"job\"") -eq 0 &&
	epilog_wait $id clean
'
test_expect_success 'an action may start in RUN, and the job runs' '
	id=$(submit "{\"job.state.run\":[
	    {\"call\":\"start\",\"description\":\"early\",\"ranks\":\"0\"}]}" -N3) &&
	epilog_wait $id start &&
	epilog_wait_gone $id 1-2 &&
	called_are $id job.state.run 0 &&
	test $(finish $id ",\"description\":\"early\"") -eq 0 &&
	epilog_wait $id clean
'
test_expect_success 'another description is ENOENT, with one action or several' '
	id=$(submit "{\"job.state.cleanup\":[
	    {\"call\":\"start\",\"description\":\"a\",\"ranks\":\"\"},
	    {\"call\":\"finish\",\"description\":\"b\"},
	    {\"call\":\"start\",\"description\":\"c\"},
	    {\"call\":\"finish\",\"description\":\"b\"}]}") &&
	epilog_wait $id release &&
	called_are $id job.state.cleanup 0 $ENOENT 0 $ENOENT &&
	test $(finish $id ",\"description\":\"c\"") -eq 0 &&
	epilog_wait $id free &&
	test $(finish $id ",\"description\":\"c\"") -eq $ENOENT &&
	test $(finish $id ",\"description\":\"a\"") -eq 0 &&
	epilog_wait $id clean
'
test_expect_success 'start and finish in one callback: the queue is looked at' '
	id=$(submit "{\"job.state.cleanup\":[
	    {\"call\":\"finish\",\"description\":\"a\"},
	    {\"call\":\"start\",\"description\":\"a\",\"ranks\":\"0\"},
	    {\"call\":\"finish\",\"description\":\"a\",\"ranks\":\"0\"},
	    {\"call\":\"finish\",\"description\":\"b\",\"ranks\":\"0\"},
	    {\"call\":\"finish\",\"description\":\"a\"},
	    {\"call\":\"finish\",\"description\":\"a\"}]}") &&
	epilog_wait $id clean &&
	called_are $id job.state.cleanup $ENOENT 0 0 $ENOENT 0 $ENOENT
'
test_expect_success 'what is missing or makes no sense is EINVAL' '
	id=$(submit "{\"job.state.cleanup\":[
	    {\"call\":\"start\"},
	    {\"call\":\"start\",\"plugin\":false,\"description\":\"a\"},
	    {\"call\":\"start\",\"description\":\"a\",\"ranks\":\"0-2\"},
	    {\"call\":\"start\",\"description\":\"a\",\"ranks\":\"1,70000\"},
	    {\"call\":\"start\",\"description\":\"a\",\"ranks\":\"0-1\"},
	    {\"call\":\"finish\"},
	    {\"call\":\"finish\",\"plugin\":false,\"description\":\"a\"},
	    {\"call\":\"finish\",\"description\":\"a\",\"ranks\":\"\"},
	    {\"call\":\"finish\",\"description\":\"a\",\"ranks\":\"2\"}]}" -N2) &&
	epilog_wait $id release &&
	called_are $id job.state.cleanup $EINVAL $EINVAL $EINVAL $EINVAL 0 \
	    $EINVAL $EINVAL $EINVAL $EINVAL &&
	epilog_allocated_are 0-1
'
test_expect_success 'so are start outside of a callback, and ranks that went' '
	test $(call "{\"call\":\"start\",\"description\":\"a\"}") -eq $EINVAL &&
	test $(finish $id ",\"description\":\"a\",\"ranks\":\"0\"") -eq 0 &&
	epilog_wait_gone $id 0 &&
	test $(finish $id ",\"description\":\"a\",\"ranks\":\"0\"") -eq 0 &&
	test $(finish $id ",\"description\":\"a\"") -eq 0 &&
	epilog_wait $id clean
'
test_expect_success 'unknown and inactive jobs are ENOENT' '
	test $(finish $id ",\"description\":\"a\"") -eq $ENOENT &&
	test $(call "{\"call\":\"finish\",\"id\":42,\"description\":\"a\"}") \
	    -eq $ENOENT
'
test_expect_success 'other states than RUN and CLEANUP are EINVAL' '
	id=$(submit "{\"job.state.sched\":[
	    {\"call\":\"start\",\"description\":\"a\"},
	    {\"call\":\"finish\",\"description\":\"a\"}]}") &&
	epilog_wait $id clean &&
	called_are $id job.state.sched $EINVAL $EINVAL
'
test_expect_success 'the 256th action is EOVERFLOW' '
	id=$(submit "{\"job.state.cleanup\":[$(starts 256)]}") &&
	epilog_wait $id free &&
	called_are $id job.state.cleanup \
	    $(yes 0 | head -255 | paste -s -d " ") $EOVERFLOW
'
test_expect_success 'a prolog is one too many, too, and nobody is told of it' '
	cat >journal.py <<-EOT &&
	import sys
	import flux
	from flux.job import JobID
	from flux.job.journal import JournalConsumer
	handle = flux.Flux()
	consumer = JournalConsumer(handle, full=True).start()
	request = {"id": JobID(sys.argv[1]), "name": "prolog-start"}
	request["context"] = {"description": "p"}
	try:
	    handle.rpc("job-manager.post-event.post", request).get()
	except OSError as exc:
	    print(exc.strerror)
	handle.rpc("job-manager.post-event.post", {**request, "name": "memo"}).get()
	while True:
	    event = consumer.poll(timeout=60)
	    if event.jobid == request["id"] and event.name in ("prolog-start", "memo"):
	        print(event.name)
	        if event.name == "memo":
	            break
	EOT
	flux python journal.py $id >journal.out &&
	cat >journal.expected <<-EOT &&
	prolog-start: 255 actions are outstanding
	memo
	EOT
	test_cmp journal.expected journal.out
'
test_expect_success 'when they end, so does the job' '
	flux python ${SHARNESS_TEST_SRCDIR}/scripts/epilog-post.py \
	    $id finish $(seq -f d%.0f 1 255) &&
	epilog_wait $id clean
'

HOLD="\"job.state.cleanup\":[{\"call\":\"start\",\"description\":\"a\"}]"

# Usage: hold_two FIRST [CALLS]
# Start a job that holds two ranks from FIRST on, and print its id.
hold_two () {
	local id
	id=$(submit "{$HOLD${2+,$2}}" -N2 --requires=rank:$1-$(($1+1))) &&
	epilog_wait $id release &&
	echo $id
}

# Usage: let_go_of ID RANK
# Print a call that makes the action of a job let go of a rank.
let_go_of () {
	printf "{\"call\":\"finish\",\"id\":%d,\"description\":\"a\",\"ranks\":\"%d\"}" \
	    $(flux job id --to=dec $1) $2
}

# A burst is cut after a time: the handoff of one job is then made while the
# other one waits for its turn.
test_expect_success 'start two jobs that make others let go when they do' '
	a=$(hold_two 0) &&
	b=$(hold_two 2) &&
	c=$(hold_two 4) &&
	calls="\"job.event.partial-free\":[$(let_go_of $a 0),$(let_go_of $b 2),
	    $(let_go_of $c 4)]" &&
	d=$(hold_two 6 "$calls") &&
	e=$(hold_two 8 "$calls")
'
test_expect_success 'let go of their ranks in a long burst' '
	cat >burst.py <<-EOT &&
	import sys
	import flux
	from flux.job.epilog import epilog_finish_async
	handle = flux.Flux()
	first, other = sys.argv[1:]
	finish = lambda job, rank: epilog_finish_async(handle, job, "a", ranks=[rank])
	futures = [finish(other, 8)] + [finish(first, 6) for _ in range(4000)]
	for future in futures:
	    future.get()
	EOT
	flux python burst.py $d $e
'
test_expect_success 'all that let go of ranks get rid of them' '
	epilog_wait_gone $d 6 &&
	epilog_wait_gone $e 8 &&
	epilog_wait_gone $a 0 &&
	epilog_wait_gone $b 2 &&
	epilog_wait_gone $c 4 &&
	for id in $a $b $c $d $e; do
		test $(finish $id ",\"description\":\"a\"") -eq 0 &&
		epilog_wait $id clean || return 1
	done
'
test_expect_success 'a refusal is logged with its reason' '
	flux dmesg -H >dmesg.out &&
	grep "refused epilog-start.*ranks: rank 2 is not" dmesg.out &&
	grep "refused epilog-finish.*no action .b. is outstanding (a)" dmesg.out
'
test_expect_success 'nothing was freed twice, freed while held, or lost' '
	epilog_watch_check
'

test_done
