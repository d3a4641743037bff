#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test the RPCs that start and finish epilog actions

Services use them from Python (flux.job.epilog).  They are for the instance
owner only, and whatever is sent to them, they answer.
'

# Append --logfile option if FLUX_TESTS_LOGFILE is set in environment:
test -n "$FLUX_TESTS_LOGFILE" && set -- "$@" --logfile
. $(dirname $0)/sharness.sh

# A job that is held for good must not hold the instance.
export FLUX_DISABLE_JOB_CLEANUP=t

flux R encode -r 0-7 -c 0-1 -H node[0-7] >R
test_under_flux 8 full \
    --test-hosts=node[0-7] \
    --conf=resource.path=$(pwd)/R \
    --conf=resource.noverify=true

hostile="flux python ${SHARNESS_TEST_SRCDIR}/scripts/epilog-hostile.py"

# Usage: rpc NAME PAYLOAD
# Send a request, and print the response.
rpc () {
	flux python -c "
import flux, sys
try:
    print(flux.Flux().rpc(\"job-manager.$1\", sys.argv[1]).get_str() or \"{}\")
except OSError as exc:
    sys.exit(f\"errno {exc.errno}: {exc.strerror}\")
" "$2"
}

# Usage: rpc_fails ERRNO TEXT NAME PAYLOAD
rpc_fails () {
	local errno=$1
	local text="$2"
	shift 2
	test_must_fail rpc "$@" 2>rpc.err &&
	grep "^errno $errno: .*$text" rpc.err
}

# Usage: as_guest COMMAND...
as_guest () {
	(
	    export FLUX_HANDLE_USERID=$(($(id -u) + 1)) FLUX_HANDLE_ROLEMASK=0x2 &&
	    "$@"
	)
}

# Usage: actions ID
# Print what holds the job, without times.
actions () {
	rpc epilog-list "{\"id\":$1}" \
	    | jq -c ".jobs[].actions[] | [ .description, .held, .released ]"
}

test_expect_success 'start the watcher' '
	epilog_watch_start
'

#
# What is answered
#

test_expect_success 'a job may be held while it runs' '
	id=$(flux submit -N8 sleep inf) &&
	dec=$(flux job id --to=dec $id) &&
	epilog_wait $id start &&
	test "$(rpc epilog-list "{}")" = "{\"jobs\":[]}" &&
	test "$(rpc epilog-start "{\"id\":$dec,\"description\":\"a\"}")" = "{}" &&
	rpc epilog-start "{\"id\":$dec,\"description\":\"b\",\"ranks\":\"2-3\"}" &&
	actions $dec >held.out &&
	cat >held.expected <<-EOT &&
	["a","0-7",""]
	["b","2-3",""]
	EOT
	test_cmp held.expected held.out
'
test_expect_success 'a second action of that name is refused, if that is asked for' '
	rpc_fails 17 "action .b. is outstanding already" epilog-start \
	    "{\"id\":$dec,\"description\":\"b\",\"unique\":true}" &&
	actions $dec >unique.out &&
	test_cmp held.expected unique.out
'
test_expect_success 'the list says that it has not ended' '
	rpc epilog-list "{}" >run.json &&
	jq -e ".jobs | length == 1" run.json &&
	jq -e ".jobs[0].id == $dec" run.json &&
	jq -e ".jobs[0].state == \"RUN\"" run.json &&
	jq -e ".jobs[0].userid == $(id -u)" run.json &&
	jq -e ".jobs[0].ranks == \"0-7\"" run.json &&
	jq -e ".jobs[0].ended == false" run.json &&
	jq -e ".jobs[0].obstacle | test(\"not ended\")" run.json
'
test_expect_success 'it is held when it ends' '
	flux cancel $id &&
	epilog_wait $id release &&
	epilog_allocated_are 0-7 &&
	rpc epilog-list "{\"id\":$dec}" >cleanup.json &&
	jq -e ".jobs[0].state == \"CLEANUP\"" cleanup.json &&
	jq -e ".jobs[0].ended == true" cleanup.json &&
	jq -e ".jobs[0] | has(\"obstacle\") | not" cleanup.json
'
test_expect_success 'ranks go when nobody holds them' '
	rpc epilog-finish "{\"id\":$dec,\"description\":\"a\",\"ranks\":\"1-2\"}" &&
	epilog_wait_gone $id 1 &&
	rpc epilog-finish "{\"id\":$dec,\"description\":\"b\",\"status\":3}" &&
	epilog_wait_gone $id 2 &&
	rpc epilog-list "{\"id\":$dec}" >gone.json &&
	jq -e ".jobs[0].handed_over == \"1-2\"" gone.json &&
	test "$(actions $dec)" = "[\"a\",\"0,3-7\",\"1-2\"]"
'
test_expect_success 'what can not be done is refused, with the reason' '
	rpc_fails 22 "rank 1 was already handed over" \
	    epilog-start "{\"id\":$dec,\"description\":\"c\",\"ranks\":\"1\"}" &&
	rpc_fails 22 "rank 8 is not in the job" \
	    epilog-start "{\"id\":$dec,\"description\":\"c\",\"ranks\":\"7-8\"}" &&
	rpc_fails 22 "ranks" \
	    epilog-finish "{\"id\":$dec,\"description\":\"a\",\"ranks\":\"\"}" &&
	rpc_fails 2 "no action .b. is outstanding (a)" \
	    epilog-finish "{\"id\":$dec,\"description\":\"b\",\"ranks\":\"0\"}" &&
	rpc_fails 2 "unknown job" \
	    epilog-start "{\"id\":1,\"description\":\"a\"}" &&
	rpc_fails 2 "unknown job" \
	    epilog-finish "{\"id\":1,\"description\":\"a\"}" &&
	rpc_fails 2 "unknown job" epilog-list "{\"id\":1}" &&
	rpc_fails 71 "malformed" \
	    epilog-start "{\"id\":$dec,\"description\":\"c\",\"unique\":1}" &&
	rpc_fails 71 "malformed" \
	    epilog-finish "{\"id\":$dec,\"description\":\"a\",\"rank\":\"0\"}" &&
	test "$(actions $dec)" = "[\"a\",\"0,3-7\",\"1-2\"]"
'
test_expect_success 'a finish of an unknown action ends no other, even if there is one only' '
	rpc_fails 2 "no action .b. is outstanding (a)" \
	    epilog-finish "{\"id\":$dec,\"description\":\"b\"}" &&
	test "$(actions $dec)" = "[\"a\",\"0,3-7\",\"1-2\"]"
'

#
# Guests
#

test_expect_success 'a guest is refused, and nothing is logged as done' '
	flux dmesg -C &&
	for name in start finish; do
		as_guest rpc_fails 1 "" \
		    epilog-$name "{\"id\":$dec,\"description\":\"a\"}" &&
		as_guest rpc_fails 1 "" epilog-$name \
		    "{\"id\":$dec,\"description\":\"a\",\"ranks\":\"0\"}" &&
		as_guest rpc_fails 1 "" epilog-$name "garbage" &&
		as_guest rpc_fails 1 "" post-event.post \
		    "{\"id\":$dec,\"name\":\"epilog-$name\",
		      \"context\":{\"description\":\"a\",\"ranks\":\"0\"}}" \
		    || return 1
	done &&
	as_guest rpc_fails 1 "" epilog-list "{}" &&
	as_guest rpc_fails 1 "" epilog-list "{\"id\":$dec}" &&
	flux dmesg >dmesg.guest &&
	test_must_fail grep -i epilog dmesg.guest &&
	test "$(actions $dec)" = "[\"a\",\"0,3-7\",\"1-2\"]"
'
test_expect_success 'the eventlog has what the owner did, and no more' '
	flux job info $id eventlog >guest.log &&
	test "$(grep -c epilog-start guest.log)" = 2 &&
	test "$(grep -c epilog-finish guest.log)" = 2
'
test_expect_success 'the owner can end it' '
	rpc epilog-finish "{\"id\":$dec,\"description\":\"a\"}" &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "1 2 free" &&
	rpc_fails 22 "inactive" epilog-finish "{\"id\":$dec,\"description\":\"a\"}" &&
	rpc_fails 22 "inactive" epilog-start "{\"id\":$dec,\"description\":\"a\"}" &&
	rpc_fails 22 "inactive" epilog-list "{\"id\":$dec}" &&
	test "$(rpc epilog-list "{}")" = "{\"jobs\":[]}"
'

#
# What nobody should send
#

test_expect_success 'hold a job' '
	id=$(flux submit -N8 sleep inf) &&
	dec=$(flux job id --to=dec $id) &&
	epilog_wait $id start &&
	rpc epilog-start "{\"id\":$dec,\"description\":\"keeper\"}" &&
	flux cancel $id &&
	epilog_wait $id release
'
test_expect_success 'bad requests are answered and change nothing' '
	flux setattr log-stderr-level 1 &&
	run_timeout 300 $hostile $id corpus
'
test_expect_success 'and memory does not grow' '
	run_timeout 600 $hostile $id memory
'
test_expect_success 'the job is held as it was, and ends as it should' '
	for description in $(rpc epilog-list "{}" \
	    | jq -r ".jobs[].actions[].description"); do
		rpc epilog-finish "{\"id\":$dec,\"description\":\"$description\"}" \
		    || return 1
	done &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id free &&
	flux setattr log-stderr-level 3
'

#
# A service
#

test_expect_success 'a service holds a job that runs' '
	flux python ${SHARNESS_TEST_SRCDIR}/scripts/epilog-service.py \
	    >service.out 2>service.err &
	service=$! &&
	id=$(flux submit -N8 --setattr=system.copy-out=1 sleep inf) &&
	epilog_wait $id start &&
	epilog_wait $id epilog-start &&
	epilog_allocated_are 0-7
'
test_expect_success 'it lets go of a node at a time when the job has ended, and others run' '
	flux cancel $id &&
	flux job wait-event -q -t 240 $id clean &&
	wait $service &&
	test_must_be_empty service.err &&
	test_debug "cat service.out" &&
	for rank in 0 1 2 3 4 5 6 7; do
		echo "release $rank" &&
		echo "ran $rank" || return 1
	done >service.expected &&
	grep "^r" service.out | cut -d" " -f1-2 >service.did &&
	test_cmp service.expected service.did &&
	tail -1 service.out >service.last &&
	grep done service.last
'
test_expect_success 'each of these jobs was over before the next node was let go of' '
	flux job info $id eventlog >service.log &&
	for rank in 0 1 2 3 4 5 6; do
		next=$(jq "select (.name == \"epilog-finish\" and
		    .context.ranks == \"$((rank + 1))\") | .timestamp" service.log) &&
		ran=$(awk "\$1 == \"ran\" && \$2 == $rank { print \$3 }" service.out) &&
		flux job info $ran eventlog >ran.log &&
		flux job info $ran R | flux R decode --ranks >ran.ranks &&
		test "$(cat ran.ranks)" = $rank &&
		test "$(jq "select (.name == \"free\") | .timestamp < $next" \
		    ran.log)" = true || return 1
	done
'
test_expect_success 'all is free, and each node went once' '
	epilog_handoffs_are $id "0 1 2 3 4 5 6 free" &&
	epilog_allocated_are ""
'
test_expect_success 'the watcher has nothing to say' '
	flux queue drain --timeout=60s &&
	epilog_watch_check
'
test_done
