#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test partial release by epilogs with housekeeping

Ranks that an epilog lets go of go to housekeeping first, each handoff on its
own.  The job is still one: in what is listed, and in its one final free.
'

# Append --logfile option if FLUX_TESTS_LOGFILE is set in environment:
test -n "$FLUX_TESTS_LOGFILE" && set -- "$@" --logfile
. $(dirname $0)/sharness.sh

# A job that is held for good must not hold the instance.
export FLUX_DISABLE_JOB_CLEANUP=t

test_under_flux 4 full --test-exit-mode=leader

# Be patient with a busy machine.
TEST_WAIT_UNTIL_DEFAULT_ITERS=600

# Usage: sched_frees ID
# Print what sched.free named, in order, "final" with the last.
sched_frees () {
	jq -r "select (.what == \"free\" and .id == $(flux job id --to=dec $1))
	       | [ .R.execution.R_lite[].rank ] +
	         (if .final then [ \"final\" ] else [] end) | join (\" \")" \
	    epilog-watch.jsonl | paste -s -d " "
}

# Usage: housekeeping_is "RANKS" "PENDING RANKS"
# Wait until flux-housekeeping lists this, as one line, or nothing.
housekeeping_is () {
	test_wait_until -i 100 "flux housekeeping list -no \"{ranks}/{pending.ranks}\" \
	    >hk.list; test \"\$(cat hk.list)\" = \"${1:+$1/$2}\"" && return 0
	echo >&2 "housekeeping list: got '$(cat hk.list)', want '$1/$2'"
	return 1
}

# Usage: hold_up RANK...
# Let housekeeping hang on ranks.
hold_up () {
	for rank in "$@"; do
		touch block.$rank || return 1
	done
}

# Usage: go_on RANK...
go_on () {
	for rank in "$@"; do
		rm block.$rank || return 1
	done
}

# Usage: housekeeping_ran ID RANKS
# Housekeeping ran once on each rank, and no other, and knew the whole job.
housekeeping_ran () {
	local id=$(flux job id --to=dec $1)
	cat ran.$id | sort >ran.out &&
	for rank in 0 1 2 3; do
		case ",$2," in
		*,$rank,*) echo "$rank 0-3" ;;
		esac
	done >ran.expected &&
	test_cmp ran.expected ran.out
}

test_expect_success 'start the watcher and load the plugin' '
	epilog_watch_start &&
	flux jobtap load $(epilog_hold_plugin)
'
# Note: housekeeping does not run in the working directory of this script.
test_expect_success 'create a housekeeping script that can be held up' '
	cat >housekeeping.sh <<-EOT &&
	#!/bin/sh
	cd $(pwd)
	rank=\$(flux getattr rank)
	echo "\$rank \$FLUX_JOB_RANKS" >>ran.\$FLUX_JOB_ID
	while test -f block.\$rank; do sleep 0.1; done
	test ! -f fail.\$rank
	EOT
	chmod +x housekeeping.sh
'
test_expect_success 'create configurations' '
	cat >unset.toml <<-EOT &&
	[job-manager.housekeeping]
	command = [ "$(pwd)/housekeeping.sh" ]
	EOT
	{ cat unset.toml && echo "release-after = \"0\""; } >zero.toml &&
	{ cat unset.toml && echo "release-after = \"1s\""; } >second.toml &&
	{ cat unset.toml && echo "release-after = \"1h\""; } >hour.toml &&
	cat >noexist.toml <<-EOT &&
	[job-manager.housekeeping]
	command = [ "/noexist" ]
	EOT
	touch off.toml
'

#
# release-after unset
#

test_expect_success 'ranks that go are in housekeeping, and allocated' '
	flux config load <unset.toml &&
	hold_up 2 3 &&
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -N4) &&
	epilog_wait_gone $id 2-3 &&
	housekeeping_is 2-3 2-3 &&
	epilog_allocated_are 0-3 &&
	test "$(flux jobs -no {state} $id)" = "CLEANUP"
'
test_expect_success 'they stay so until it is done on all of them' '
	go_on 2 &&
	housekeeping_is 2-3 3 &&
	epilog_allocated_are 0-3
'
test_expect_success 'then they are free while the job goes on' '
	go_on 3 &&
	housekeeping_is "" &&
	epilog_allocated_are 0-1 &&
	test "$(flux jobs -no {state} $id)" = "CLEANUP" &&
	run_timeout 60 flux run --requires=rank:2-3 -N2 true
'
test_expect_success 'the job ends while the rest is in housekeeping' '
	hold_up 0 1 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	housekeeping_is 0-1 0-1 &&
	epilog_allocated_are 0-1 &&
	go_on 0 1 &&
	housekeeping_is "" &&
	epilog_allocated_are ""
'
test_expect_success 'there were two frees, the last one final' '
	epilog_handoffs_are $id "2-3 free" &&
	test "$(sched_frees $id)" = "2-3 0-1 final"
'
test_expect_success 'housekeeping ran once on each rank, and knew the whole job' '
	housekeeping_ran $id 0,1,2,3
'
test_expect_success 'the first handoff may be the last to be done' '
	hold_up 3 &&
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -N4) &&
	epilog_wait_gone $id 2-3 &&
	housekeeping_is 2-3 3 &&
	epilog_finish $id a 0 &&
	epilog_wait_gone $id 0 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	housekeeping_is 2-3 3 &&
	epilog_allocated_are 2-3 &&
	go_on 3 &&
	housekeeping_is "" &&
	test "$(sched_frees $id)" = "0 1 2-3 final" &&
	housekeeping_ran $id 0,1,2,3
'
test_expect_success 'a job without ranks keys is as ever' '
	id=$(epilog_submit "[{\"description\":\"a\"},{\"description\":\"b\"}]" -N4) &&
	epilog_finish $id a &&
	epilog_finish $id b &&
	epilog_wait $id clean &&
	housekeeping_is "" &&
	epilog_handoffs_are $id free &&
	test "$(sched_frees $id)" = "0-3 final" &&
	housekeeping_ran $id 0,1,2,3
'

#
# Several handoffs in housekeeping at once
#

test_expect_success 'handoffs of a job are listed as one' '
	hold_up 0 1 2 3 &&
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-2\"}]" -N4) &&
	epilog_wait_gone $id 3 &&
	housekeeping_is 3 3 &&
	epilog_finish $id a 0 &&
	epilog_wait_gone $id 0 &&
	housekeeping_is 0,3 0,3 &&
	epilog_finish $id a 2 &&
	epilog_wait_gone $id 2 &&
	housekeeping_is 0,2-3 0,2-3 &&
	flux housekeeping list -n >one.list &&
	test $(wc -l <one.list) -eq 1
'
test_expect_success 'and so they are in the stats of the job manager' '
	flux module stats job-manager >stats.json &&
	test_debug "jq .housekeeping stats.json" &&
	jq -e ".housekeeping.running | length == 1" stats.json &&
	jq -e ".housekeeping.running.\"$(flux job id --to=f58plain $id)\" //
	       .housekeeping.running.\"$(flux job id --to=f58 $id)\" |
	       .allocated == \"0,2-3\" and .pending == \"0,2-3\" and .t_start > 0" \
	    stats.json
'
test_expect_success 'a list may be cut down to ranks of any handoff' '
	test "$(flux housekeeping list -i 0 -no {ranks})" = "0" &&
	test "$(flux housekeeping list -i 2-3 -no {ranks})" = "2-3" &&
	test "$(flux housekeeping list -i 1 -no {ranks})" = ""
'
test_expect_success 'each handoff is freed when it is done' '
	go_on 0 &&
	housekeeping_is 2-3 2-3 &&
	epilog_allocated_are 1-3 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	go_on 2 &&
	housekeeping_is 1,3 1,3 &&
	go_on 1 3 &&
	housekeeping_is "" &&
	epilog_handoffs_are $id "3 0 2 free" &&
	housekeeping_ran $id 0,1,2,3
'
test_expect_success 'and the final free is the last of them, and only one' '
	sched_frees $id >several.out &&
	test_debug "cat several.out" &&
	grep "^0 2 . . final$" several.out
'
test_expect_success 'two jobs are listed as two' '
	hold_up 1 3 &&
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0\"}]" -N2 \
	    --requires=rank:0-1) &&
	id2=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"2\"}]" -N2 \
	    --requires=rank:2-3) &&
	epilog_wait_gone $id 1 &&
	epilog_wait_gone $id2 3 &&
	housekeeping_is 1,3 1,3 &&
	flux housekeeping list -no "{id.dec} {ranks}" >two.list &&
	sort two.list >two.out &&
	{ echo $(flux job id --to=dec $id) 1 &&
	  echo $(flux job id --to=dec $id2) 3; } | sort >two.expected &&
	test_cmp two.expected two.out &&
	epilog_finish $id a &&
	epilog_finish $id2 a &&
	go_on 1 3 &&
	epilog_wait $id clean &&
	epilog_wait $id2 clean &&
	housekeeping_is "" &&
	epilog_allocated_are ""
'

#
# release-after
#

test_expect_success 'with release-after=0, each rank is freed when it is done' '
	flux config load <zero.toml &&
	hold_up 0 1 2 3 &&
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -N4) &&
	epilog_wait_gone $id 2-3 &&
	go_on 3 &&
	housekeeping_is 2 2 &&
	epilog_allocated_are 0-2 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	housekeeping_is 0-2 0-2 &&
	go_on 0 &&
	housekeeping_is 1-2 1-2 &&
	go_on 2 &&
	housekeeping_is 1 1 &&
	go_on 1 &&
	housekeeping_is "" &&
	test "$(sched_frees $id)" = "3 0 2 1 final" &&
	housekeeping_ran $id 0,1,2,3
'
test_expect_success 'with release-after=1s, what is done is freed after a while' '
	flux config load <second.toml &&
	hold_up 1 3 &&
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -N4) &&
	epilog_wait_gone $id 2-3 &&
	housekeeping_is 3 3 &&
	epilog_allocated_are 0-1,3 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	housekeeping_is 1,3 1,3 &&
	go_on 3 &&
	housekeeping_is 1 1 &&
	go_on 1 &&
	housekeeping_is "" &&
	test "$(sched_frees $id)" = "2 0 3 1 final"
'
test_expect_success 'that time counts for each handoff' '
	flux config load <hour.toml &&
	hold_up 1 3 &&
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -N4) &&
	epilog_wait_gone $id 2-3 &&
	housekeeping_is 2-3 3 &&
	flux config load <second.toml &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	housekeeping_is 1-3 1,3 &&
	epilog_allocated_are 1-3 &&
	go_on 1 &&
	housekeeping_is 2-3 3 &&
	go_on 3 &&
	housekeeping_is "" &&
	test "$(sched_frees $id)" = "0 1 2-3 final"
'
test_expect_success 'release-after may be set between two handoffs' '
	flux config load <unset.toml &&
	hold_up 0 1 2 3 &&
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -N4) &&
	epilog_wait_gone $id 2-3 &&
	go_on 2 &&
	housekeeping_is 2-3 3 &&
	flux config load <zero.toml &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	go_on 0 &&
	housekeeping_is 1-3 1,3 &&
	go_on 3 &&
	housekeeping_is 1 1 &&
	go_on 1 &&
	housekeeping_is "" &&
	test "$(sched_frees $id)" = "0 2-3 1 final"
'

#
# Housekeeping switched off, and on
#

test_expect_success 'switched off: a handoff goes straight, an older one takes its time' '
	flux config load <unset.toml &&
	hold_up 3 &&
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -N4) &&
	epilog_wait_gone $id 2-3 &&
	housekeeping_is 2-3 3 &&
	flux config load <off.toml &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	housekeeping_is 2-3 3 &&
	epilog_allocated_are 2-3 &&
	go_on 3 &&
	housekeeping_is "" &&
	test "$(sched_frees $id)" = "0-1 2-3 final" &&
	housekeeping_ran $id 2,3
'
test_expect_success 'switched on: only what goes from then on is in housekeeping' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -N4) &&
	epilog_wait_gone $id 2-3 &&
	epilog_allocated_are 0-1 &&
	flux config load <unset.toml &&
	hold_up 0 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	housekeeping_is 0-1 0 &&
	go_on 0 &&
	housekeeping_is "" &&
	test "$(sched_frees $id)" = "2-3 0-1 final" &&
	housekeeping_ran $id 0,1
'

#
# Housekeeping that fails, or hangs
#

test_expect_success 'ranks where housekeeping fails are freed, and it is logged' '
	flux dmesg -C &&
	touch fail.1 fail.3 &&
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -N4) &&
	epilog_wait_gone $id 2-3 &&
	housekeeping_is "" &&
	epilog_allocated_are 0-1 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	housekeeping_is "" &&
	rm fail.1 fail.3 &&
	test "$(sched_frees $id)" = "2-3 0-1 final" &&
	flux dmesg >fail.log &&
	grep "housekeeping: .*(rank 1) .*nonzero exit code" fail.log &&
	grep "housekeeping: .*(rank 3) .*nonzero exit code" fail.log
'
test_expect_success 'so they are if it can not be started' '
	flux config load <noexist.toml &&
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -N4) &&
	epilog_wait_gone $id 2-3 &&
	housekeeping_is "" &&
	epilog_allocated_are 0-1 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	housekeeping_is "" &&
	epilog_allocated_are "" &&
	test "$(sched_frees $id)" = "2-3 0-1 final"
'
test_expect_success 'a kill by job reaches all handoffs of that job' '
	flux config load <unset.toml &&
	hold_up 0 1 2 3 &&
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0\"}]" -N3 \
	    --requires=rank:0-2) &&
	epilog_wait_gone $id 1-2 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	id2=$(epilog_submit "[{\"description\":\"b\",\"ranks\":\"\"}]" -N1) &&
	epilog_wait $id2 free &&
	test_wait_until -i 100 "flux housekeeping list -n >hk.list; \
	    test \$(wc -l <hk.list) -eq 2" &&
	test_wait_until "test \$(cat ran.$(flux job id --to=dec $id) | wc -l) -eq 3" &&
	flux housekeeping kill --jobid=$id --signal=9 &&
	housekeeping_is 3 3 &&
	epilog_allocated_are 3 &&
	sched_frees $id >killed.out &&
	grep -e "^0 1-2 final$" -e "^1-2 0 final$" killed.out
'
test_expect_success 'a kill of all reaches the other' '
	test_wait_until "test \$(cat ran.$(flux job id --to=dec $id2) | wc -l) -eq 1" &&
	flux housekeeping kill --all --signal=9 &&
	housekeeping_is "" &&
	epilog_finish $id2 b &&
	epilog_wait $id2 clean &&
	go_on 0 1 2 3
'
test_expect_success 'a kill by target reaches that rank only' '
	flux config load <zero.toml &&
	hold_up 0 1 2 3 &&
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -N4) &&
	epilog_wait_gone $id 2-3 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	test_wait_until "test \$(cat ran.$(flux job id --to=dec $id) | wc -l) -eq 4" &&
	flux housekeeping kill --targets=1,3 --signal=9 &&
	housekeeping_is 0,2 0,2 &&
	epilog_allocated_are 0,2 &&
	flux housekeeping kill --targets=0 --signal=9 &&
	housekeeping_is 2 2 &&
	flux housekeeping kill --all --signal=9 &&
	housekeeping_is "" &&
	go_on 0 1 2 3 &&
	sched_frees $id >target.out &&
	grep -e "^[13] [13] 0 2 final$" target.out
'

#
# Holds and housekeeping
#

test_expect_success 'an action may not start on ranks that are in housekeeping' '
	hold_up 3 &&
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -N4) &&
	epilog_wait_gone $id 2-3 &&
	housekeeping_is 3 3 &&
	test_must_fail flux post-job-event $id epilog-start \
	    description=late "ranks=\"1,3\"" 2>late.err &&
	grep "rank 3 was already handed over" late.err
'
test_expect_success 'an action that holds all holds what is left' '
	flux post-job-event $id epilog-start description=late &&
	epilog_finish $id a &&
	flux job wait-event -t 60 -c 1 $id epilog-finish &&
	go_on 3 &&
	housekeeping_is "" &&
	epilog_allocated_are 0-1 &&
	epilog_finish $id late &&
	epilog_wait $id clean &&
	housekeeping_is "" &&
	epilog_handoffs_are $id "2-3 free" &&
	housekeeping_ran $id 0,1,2,3
'
test_expect_success 'the job may be outlived by housekeeping, and its action by the job' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"\"}]" -N4) &&
	epilog_wait $id free &&
	housekeeping_is "" &&
	epilog_allocated_are "" &&
	test "$(flux jobs -no {state} $id)" = "CLEANUP" &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id free
'
test_expect_success 'no job was hurt, no rank lost, none freed twice' '
	flux config load <off.toml &&
	flux jobtap remove epilog-hold.so &&
	flux queue drain --timeout=60s &&
	epilog_watch_check
'
test_done
