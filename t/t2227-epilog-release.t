#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test partial release of resources by epilogs

An epilog action may say which ranks it holds, and let go of them as it runs.
What no action holds goes back to the scheduler while the job is in CLEANUP.
'

# Append --logfile option if FLUX_TESTS_LOGFILE is set in environment:
test -n "$FLUX_TESTS_LOGFILE" && set -- "$@" --logfile
. $(dirname $0)/sharness.sh

# A job that is held for good must not hold the instance.
export FLUX_DISABLE_JOB_CLEANUP=t

test_under_flux 1 full \
    --conf=fake-resources.nnodes=256 \
    --conf=fake-resources.cores-per-node=2

# Usage: state_is ID STATE
state_is () {
	test "$(flux jobs -no {state} $1)" = "$2"
}

# Usage: refused ID <<EOT
# Lines of standard input are EVENT | TEXT | CONTEXT.  Posting each fails, the
# answer and the log say TEXT, and the job is untouched.
refused () {
	flux python ${SHARNESS_TEST_SRCDIR}/scripts/epilog-refused.py $1
}

# Usage: sched_frees ID
# Print what sched.free named, in order, "final" with the last.
sched_frees () {
	jq -r "select (.what == \"free\" and .id == $(flux job id --to=dec $1))
	       | [ .R.execution.R_lite[].rank ] +
	         (if .final then [ \"final\" ] else [] end) | join (\" \")" \
	    epilog-watch.jsonl | paste -s -d " "
}

test_expect_success 'start the watcher and load the plugin' '
	epilog_watch_start &&
	flux jobtap load $(epilog_hold_plugin)
'

#
# What an action holds
#

test_expect_success 'without a ranks key, actions hold all, as ever' '
	id=$(epilog_submit "[{\"description\":\"a\"},{\"description\":\"b\"}]" -N4) &&
	epilog_finish $id b &&
	epilog_wait $id epilog-finish &&
	epilog_allocated_are 0-3 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_allocated_are ""
'
test_expect_success 'and the eventlog and the scheduler see what they always saw' '
	flux job info $id eventlog >plain.log &&
	jq -r .name <plain.log >plain.events &&
	cat >plain.expected <<-EOT &&
	submit
	validate
	depend
	priority
	alloc
	start
	finish
	epilog-start
	epilog-start
	release
	epilog-finish
	epilog-finish
	free
	clean
	EOT
	test_cmp plain.expected plain.events &&
	test "$(sched_frees $id)" = "0-3 final"
'
test_expect_success 'ranks=all holds all' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"all\"}]" -N4) &&
	epilog_allocated_are 0-3 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id free
'
test_expect_success 'a subset holds these, and the others go' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0,3\"}]" -N4) &&
	epilog_wait_gone $id 1-2 &&
	epilog_allocated_are 0,3 &&
	state_is $id CLEANUP
'
test_expect_success 'the job has all of its ranks in flux-jobs and in R' '
	test "$(flux jobs -no {ranks} $id)" = "[0-3]" &&
	flux job info $id R >subset.R &&
	flux R decode --ranks <subset.R >subset.ranks &&
	test "$(cat subset.ranks)" = "0-3"
'
test_expect_success 'another job runs on what went' '
	run_timeout 60 flux run --setattr=system.exec.test.run_duration=0.01s \
	    -N2 --requires=rank:1-2 true &&
	epilog_allocated_are 0,3
'
test_expect_success 'a job that wants what is held has to wait' '
	id2=$(flux submit --setattr=system.exec.test.run_duration=0.01s \
	    --requires=rank:0 -N1 true) &&
	flux job wait-event -t 60 $id2 priority &&
	run_timeout 60 flux run --setattr=system.exec.test.run_duration=0.01s --urgency=31 \
	    -N1 --requires=rank:4 true &&
	state_is $id2 SCHED
'
test_expect_success 'the finish lets go of the rest, and there is one final free' '
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_wait $id2 clean &&
	epilog_handoffs_are $id "1-2 free" &&
	test "$(sched_frees $id)" = "1-2 0,3 final"
'
test_expect_success 'an empty set holds the job only' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"\"}]" -N4) &&
	epilog_wait $id free &&
	epilog_allocated_are "" &&
	state_is $id CLEANUP &&
	run_timeout 60 flux run --setattr=system.exec.test.run_duration=0.01s -N256 true &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id free &&
	test "$(sched_frees $id)" = "0-3 final"
'
test_expect_success 'ranks may be let go of one at a time' '
	id=$(epilog_submit "[{\"description\":\"a\"}]" -N4) &&
	for rank in 2 0 3; do
		epilog_finish $id a $rank &&
		epilog_wait_gone $id $rank || return 1
	done &&
	epilog_allocated_are 1 &&
	epilog_finish $id a 1 &&
	epilog_wait $id free &&
	state_is $id CLEANUP &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "2 0 3 free" &&
	test "$(sched_frees $id)" = "2 0 3 1 final"
'
test_expect_success 'partial finish of all is not the end of the action' '
	id=$(epilog_submit "[{\"description\":\"a\"}]" -N4) &&
	epilog_finish $id a all &&
	epilog_wait $id free &&
	state_is $id CLEANUP &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id free
'
test_expect_success 'letting go of what is not held is without effect' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -N4) &&
	epilog_wait_gone $id 2-3 &&
	epilog_finish $id a 2-3 &&
	epilog_finish $id a 1-2 &&
	epilog_wait_gone $id 1 &&
	epilog_finish $id a 1 &&
	epilog_allocated_are 0 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "2-3 1 free"
'
test_expect_success 'a rank goes when the last of two actions lets go of it' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-2\"}, \
	                     {\"description\":\"b\",\"ranks\":\"1-3\"}]" -N4) &&
	epilog_finish $id a 0-1 &&
	epilog_wait_gone $id 0 &&
	epilog_allocated_are 1-3 &&
	epilog_finish $id b 1 &&
	epilog_wait_gone $id 1 &&
	epilog_finish $id b &&
	epilog_wait_gone $id 3 &&
	epilog_allocated_are 2 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "0 1 3 free"
'
test_expect_success 'an action that holds all outweighs one that holds none' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"\"}, \
	                     {\"description\":\"b\"}, \
	                     {\"description\":\"c\",\"ranks\":\"3\"}]" -N4) &&
	epilog_allocated_are 0-3 &&
	epilog_finish $id b &&
	epilog_wait_gone $id 0-2 &&
	epilog_finish $id c &&
	epilog_wait $id free &&
	state_is $id CLEANUP &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "0-2 free"
'
test_expect_success 'one description twice: a finish is for the oldest' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}, \
	                     {\"description\":\"a\",\"ranks\":\"2-3\"}]" -N5) &&
	epilog_wait_gone $id 4 &&
	epilog_finish $id a 0,2 &&
	epilog_wait_gone $id 0 &&
	epilog_allocated_are 1-3 &&
	epilog_finish $id a &&
	epilog_wait_gone $id 1 &&
	epilog_finish $id a 2 &&
	epilog_wait_gone $id 2 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "4 0 1 2 free"
'
test_expect_success 'a job of one node has no part to let go of' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0\"}]" -N1) &&
	epilog_allocated_are 0 &&
	epilog_finish $id a 0 &&
	epilog_wait $id free &&
	state_is $id CLEANUP &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id free &&
	test "$(sched_frees $id)" = "0 final"
'

#
# Late and early
#

test_expect_success 'a late start holds what has not gone yet' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -N4) &&
	epilog_wait_gone $id 2-3 &&
	flux post-job-event $id epilog-start description=late &&
	epilog_finish $id a &&
	flux job wait-event -t 60 -c 1 $id epilog-finish &&
	epilog_allocated_are 0-1 &&
	flux post-job-event $id epilog-start description=later "ranks=\"1\"" &&
	epilog_finish $id late &&
	epilog_wait_gone $id 0 &&
	epilog_finish $id later &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "2-3 0 free"
'
test_expect_success 'a start after the last rank went holds the job only' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"\"}]" -N4) &&
	epilog_wait $id free &&
	flux post-job-event $id epilog-start description=late &&
	epilog_finish $id a &&
	flux job wait-event -t 60 -c 1 $id epilog-finish &&
	state_is $id CLEANUP &&
	epilog_finish $id late &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id free
'
test_expect_success 'a partial-free from outside is refused in any state' '
	id=$(flux submit -N4 --urgency=hold \
	    --setattr=system.exec.test.run_duration=0.01s \
	    --setattr=system.epilog-hold="[{\"description\":\"a\",\"ranks\":\"1\"}]" \
	    true) &&
	flux job wait-event -t 60 $id depend &&
	refused $id <<-EOT &&
	partial-free | only the job manager posts this event | {"ranks":"0"}
	EOT
	flux job urgency $id default &&
	epilog_wait_gone $id 0,2-3 &&
	epilog_finish $id a &&
	epilog_wait $id clean
'
test_expect_success 'a hold that is placed in RUN does not keep the job from starting' '
	id=$(flux submit -N4 --setattr=system.exec.test.run_duration=600s \
	    --setattr=system.epilog-hold-run="[{\"description\":\"a\"}, \
	        {\"description\":\"b\",\"ranks\":\"0\"}]" \
	    --wait-event=start true) &&
	state_is $id RUN
'
test_expect_success 'and is let go of in RUN without any rank going' '
	epilog_finish $id a 2-3 &&
	flux post-job-event $id epilog-start description=c "ranks=\"2\"" &&
	epilog_allocated_are 0-3 &&
	state_is $id RUN
'
test_expect_success 'it counts from CLEANUP on' '
	flux cancel $id &&
	epilog_wait_gone $id 3 &&
	epilog_allocated_are 0-2 &&
	epilog_finish $id c &&
	epilog_wait_gone $id 2 &&
	epilog_finish $id a &&
	epilog_wait_gone $id 1 &&
	epilog_finish $id b &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "3 2 1 free"
'
test_expect_success 'actions that begin and end in RUN leave no trace' '
	id=$(flux submit -N4 --setattr=system.exec.test.run_duration=600s \
	    --setattr=system.epilog-hold-run="[{\"description\":\"a\"}]" \
	    --wait-event=start true) &&
	epilog_finish $id a &&
	flux cancel $id &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id free
'
test_expect_success 'an exception in CLEANUP changes no hold' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -N4) &&
	epilog_wait_gone $id 2-3 &&
	flux job raise --severity=0 --type=test $id &&
	flux job raise --severity=1 --type=scheduler-restart $id &&
	flux job wait-event -t 60 -c 2 $id exception &&
	epilog_allocated_are 0-1 &&
	state_is $id CLEANUP &&
	epilog_finish $id a 0 &&
	epilog_wait_gone $id 0 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "2-3 0 free"
'

#
# Jobs that end before they have begun
#

test_expect_success 'a job that never got resources is held by its actions' '
	flux queue stop &&
	id=$(flux submit -N4 \
	    --setattr=system.epilog-hold="[{\"description\":\"a\"}, \
	        {\"description\":\"b\",\"ranks\":\"\"}, \
	        {\"description\":\"c\",\"ranks\":\"all\"}]" true) &&
	flux job wait-event -t 60 $id priority &&
	flux cancel $id &&
	epilog_wait $id epilog-start &&
	epilog_finish $id a all &&
	epilog_finish $id b &&
	epilog_finish $id c &&
	state_is $id CLEANUP &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id ""
'
test_expect_success 'and has no rank that could be held' '
	flux dmesg -C &&
	id=$(flux submit -N4 \
	    --setattr=system.epilog-hold="[{\"description\":\"a\",\"ranks\":\"0\"}]" \
	    true) &&
	flux job wait-event -t 60 $id priority &&
	flux cancel $id &&
	epilog_wait $id clean &&
	flux dmesg -H >noR.log &&
	grep "ranks: rank 0 is not in the job" noR.log
'
test_expect_success 'a job held by urgency is no different' '
	flux queue start &&
	id=$(flux submit -N4 --urgency=hold \
	    --setattr=system.epilog-hold="[{\"description\":\"a\",\"ranks\":\"\"}]" \
	    true) &&
	flux job wait-event -t 60 $id depend &&
	flux cancel $id &&
	epilog_wait $id epilog-start &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id ""
'
test_expect_success 'nor when it is let run' '
	id=$(flux submit -N4 --urgency=hold \
	    --setattr=system.exec.test.run_duration=0.01s \
	    --setattr=system.epilog-hold="[{\"description\":\"a\",\"ranks\":\"1\"}]" \
	    true) &&
	flux job wait-event -t 60 $id depend &&
	flux job urgency $id default &&
	epilog_wait_gone $id 0,2-3 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "0,2-3 free"
'
test_expect_success 'a prolog holds everything, whatever the actions hold' '
	id=$(flux submit -N4 --setattr=system.exec.test.run_duration=600s \
	    --setattr=system.epilog-hold="[{\"description\":\"a\",\"ranks\":\"0-1\"}]" \
	    --wait-event=start true) &&
	flux cancel $id &&
	epilog_wait_gone $id 2-3 &&
	flux post-job-event $id prolog-start description=p &&
	epilog_finish $id a 0 &&
	flux job wait-event -t 60 -m ranks=0 $id epilog-finish &&
	epilog_allocated_are 0-1 &&
	flux post-job-event $id prolog-finish description=p status=0 &&
	epilog_wait_gone $id 0 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "2-3 0 free"
'
test_expect_success 'a prolog-finish without a prolog ends no action' '
	id=$(epilog_submit \
	    "[{\"description\":\"a\",\"ranks\":\"0\"},{\"description\":\"b\",\"ranks\":\"\"}]" \
	    -N2) &&
	epilog_wait_gone $id 1 &&
	flux post-job-event $id prolog-finish description=p status=0 &&
	flux post-job-event $id prolog-finish description=a status=0 &&
	epilog_finish $id a 0 &&
	epilog_wait $id free &&
	state_is $id CLEANUP &&
	epilog_finish $id b &&
	state_is $id CLEANUP &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "1 free"
'

#
# Other kinds of jobs
#

test_expect_success 'ranks go while the queue is stopped' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -N4) &&
	flux queue stop &&
	epilog_finish $id a 0 &&
	epilog_wait_gone $id 0 &&
	epilog_allocated_are 1 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	flux queue start &&
	epilog_allocated_are ""
'
test_expect_success 'a job with the debug flag is no different' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -N4 \
	    --flags=debug) &&
	epilog_wait_gone $id 2-3 &&
	epilog_finish $id a 0 &&
	epilog_wait_gone $id 0 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "2-3 0 free"
'
test_expect_success 'of a node that jobs share, only the cores of one go' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0\"}]" \
	    -N2 -n2 -c1 --requires=rank:0-1) &&
	id2=$(flux submit -N2 -n2 -c1 --requires=rank:0-1 \
	    --setattr=system.exec.test.run_duration=600s \
	    --setattr=system.epilog-hold="[{\"description\":\"b\",\"ranks\":\"1\"}]" \
	    --wait-event=start true) &&
	epilog_wait_gone $id 1 &&
	test $(flux resource list -s allocated -no {ncores}) -eq 3 &&
	flux cancel $id2 &&
	epilog_wait_gone $id2 0 &&
	test $(flux resource list -s allocated -no {ncores}) -eq 2 &&
	epilog_allocated_are 0-1 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_allocated_are 1 &&
	epilog_finish $id2 b &&
	epilog_wait $id2 clean &&
	epilog_allocated_are ""
'
test_expect_success 'parts of an R whose ranks differ go as they are' '
	id2=$(flux submit -n1 -c1 --requires=rank:0 \
	    --setattr=system.exec.test.run_duration=600s --wait-event=start true) &&
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0,2\"}]" \
	    -n5 -c1 --requires=rank:0-2) &&
	flux job info $id R >differ.R &&
	jq -e ".execution.R_lite | length == 2" differ.R &&
	epilog_wait_gone $id 1 &&
	test $(flux resource list -s allocated -no {ncores}) -eq 4 &&
	epilog_finish $id a 2 &&
	epilog_wait_gone $id 2 &&
	test $(flux resource list -s allocated -no {ncores}) -eq 2 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	test $(flux resource list -s allocated -no {ncores}) -eq 1 &&
	flux cancel $id2 &&
	epilog_wait $id2 clean
'
test_expect_success 'resources that bypass the scheduler do not go' '
	flux jobtap load alloc-bypass.so &&
	flux kvs get resource.R >all.R &&
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -n1 \
	    --setattr=system.alloc-bypass.R="$(cat all.R)") &&
	epilog_finish $id a 0 &&
	flux job wait-event -t 60 -m ranks=0 $id epilog-finish &&
	run_timeout 60 flux run --setattr=system.exec.test.run_duration=0.01s -N256 true &&
	epilog_handoffs_are $id "" &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id free &&
	test "$(sched_frees $id)" = "" &&
	flux jobtap remove alloc-bypass.so
'

#
# Finishes that don't match
#

test_expect_success 'a mistyped finish ends the only action, and is logged' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -N4) &&
	epilog_wait_gone $id 2-3 &&
	flux dmesg -C &&
	epilog_finish $id typo &&
	epilog_wait $id clean &&
	flux dmesg -H >typo.log &&
	grep "$(flux job id --to=f58 $id).*no action .typo. is outstanding: it ends .a." typo.log &&
	epilog_handoffs_are $id "2-3 free"
'
test_expect_success 'so does one without a description' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-1\"}]" -N4) &&
	epilog_wait_gone $id 2-3 &&
	flux post-job-event $id epilog-finish name=a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "2-3 free"
'
test_expect_success 'with several actions it is refused, and they are named' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0\"}, \
	                     {\"description\":\"b\",\"ranks\":\"1\"}]" -N4) &&
	epilog_wait_gone $id 2-3 &&
	refused $id <<-EOT &&
	epilog-finish | is outstanding (a, b) | {"description":"typo","status":0}
	epilog-finish | is outstanding (a, b) | {"name":"a","status":0}
	epilog-finish | is outstanding (a, b) | {"status":0}
	EOT
	epilog_allocated_are 0-1
'
test_expect_success 'a partial finish has to match, even if there is only one' '
	epilog_finish $id b &&
	epilog_wait_gone $id 1 &&
	refused $id <<-EOT &&
	epilog-finish | is outstanding (a) | {"description":"b","ranks":"0"}
	epilog-finish | description is missing | {"ranks":"0"}
	epilog-finish | description is missing | {"name":"a","ranks":"0"}
	EOT
	epilog_allocated_are 0
'

#
# Malformed input: refused with a reason, the job untouched.  The job has
# ranks 0-3, of which action a holds 0, and 1-3 have gone.
#

test_expect_success 'ranks that are not an idset are refused' '
	refused $id <<-EOT
	epilog-finish | is not an idset | {"description":"a","ranks":"x"}
	epilog-finish | is not an idset | {"description":"a","ranks":"0-x"}
	epilog-finish | is not an idset | {"description":"a","ranks":"-1"}
	epilog-finish | is not an idset | {"description":"a","ranks":"0-"}
	epilog-finish | is not an idset | {"description":"a","ranks":"0,,1"}
	epilog-finish | is not an idset | {"description":"a","ranks":"0,"}
	epilog-finish | is not an idset | {"description":"a","ranks":",0"}
	epilog-finish | is not an idset | {"description":"a","ranks":" 0"}
	epilog-finish | is not an idset | {"description":"a","ranks":"00"}
	epilog-finish | is not an idset | {"description":"a","ranks":"0x0"}
	epilog-finish | is not an idset | {"description":"a","ranks":"3-1"}
	epilog-finish | is not an idset | {"description":"a","ranks":"0-0"}
	epilog-finish | is not an idset | {"description":"a","ranks":"[0"}
	epilog-finish | is not an idset | {"description":"a","ranks":"0]"}
	epilog-finish | is not an idset | {"description":"a","ranks":"[[0]]"}
	epilog-finish | is not an idset | {"description":"a","ranks":"ALL"}
	epilog-finish | is not an idset | {"description":"a","ranks":"fake0"}
	epilog-finish | is not an idset | {"description":"a","ranks":"4294967296"}
	epilog-finish | is not an idset | {"description":"a","ranks":"\u2713"}
	epilog-finish | is repeated or out of order | {"description":"a","ranks":"0,0"}
	epilog-finish | is repeated or out of order | {"description":"a","ranks":"1-2,0"}
	epilog-start | is not an idset | {"description":"b","ranks":"x"}
	epilog-start | is repeated or out of order | {"description":"b","ranks":"1,0"}
	EOT
'
test_expect_success 'ranks that are not a string are refused' '
	refused $id <<-EOT
	epilog-finish | ranks: 0 is not a string | {"description":"a","ranks":0}
	epilog-finish | ranks: null is not a string | {"description":"a","ranks":null}
	epilog-finish | ranks: true is not a string | {"description":"a","ranks":true}
	epilog-finish | ranks: 0.5 is not a string | {"description":"a","ranks":0.5}
	epilog-start | ranks: [0,1] is not a string | {"description":"b","ranks":[0,1]}
	epilog-start | is not a string | {"description":"b","ranks":{"0":1}}
	EOT
'
test_expect_success 'a string is not what flux-post-job-event makes of ranks=0' '
	test_must_fail flux post-job-event $id epilog-finish \
	    description=a status=0 ranks=0 2>integer.err &&
	test_debug "cat integer.err" &&
	grep "ranks: 0 is not a string: want an idset or" integer.err
'
test_expect_success 'ranks that the job does not have are refused' '
	refused $id <<-EOT
	epilog-finish | rank 4 is not in the job | {"description":"a","ranks":"0-4"}
	epilog-finish | rank 4 is not in the job | {"description":"a","ranks":"0-4294967294"}
	epilog-finish | is not in the job | {"description":"a","ranks":"4294967295"}
	epilog-start | rank 255 is not in the job | {"description":"b","ranks":"255"}
	epilog-start | is not in the job | {"description":"b","ranks":"1000000000-4294967295"}
	EOT
'
test_expect_success 'ranks that have gone are refused at the start of an action' '
	refused $id <<-EOT
	epilog-start | rank 1 was already handed over | {"description":"b","ranks":"0-1"}
	epilog-start | rank 3 was already handed over | {"description":"b","ranks":"3"}
	EOT
'
test_expect_success 'an empty set is refused at a finish' '
	refused $id <<-EOT
	epilog-finish | the set is empty | {"description":"a","ranks":""}
	epilog-finish | the set is empty | {"description":"a","ranks":"[]"}
	EOT
'
test_expect_success 'a start with ranks but no description is refused' '
	refused $id <<-EOT
	epilog-start | description is missing | {"ranks":"0"}
	epilog-start | description is missing | {"description":1,"ranks":"0"}
	epilog-start | description is missing | {"description":null,"ranks":"0"}
	EOT
'
test_expect_success 'a partial-free from outside is refused' '
	refused $id <<-EOT
	partial-free | only the job manager posts this event | {"ranks":"0"}
	partial-free | only the job manager posts this event | {"ranks":"0-1"}
	partial-free | only the job manager posts this event | {"ranks":"1"}
	partial-free | only the job manager posts this event | {"ranks":"all"}
	partial-free | only the job manager posts this event | {"ranks":""}
	partial-free | only the job manager posts this event | {"ranks":"9"}
	partial-free | only the job manager posts this event | {"ranks":0}
	partial-free | only the job manager posts this event | {}
	partial-free | only the job manager posts this event |
	EOT
'
test_expect_success 'the job has come to no harm' '
	epilog_allocated_are 0 &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	epilog_handoffs_are $id "2-3 1 free" &&
	test "$(sched_frees $id)" = "2-3 1 0 final"
'
test_expect_success 'what a plugin posts is refused too, and logged' '
	flux dmesg -C &&
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-4\"}, \
	                     {\"description\":\"b\",\"ranks\":3}]" -N4) &&
	epilog_wait $id clean &&
	flux dmesg -H >plugin.log &&
	grep "refused epilog-start .*\"a\".*rank 4 is not in the job" plugin.log &&
	grep "refused epilog-start .*\"b\".*ranks: 3 is not a string" plugin.log &&
	epilog_handoffs_are $id free
'
test_expect_success 'more actions than fit are refused' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"\"}]" -N4) &&
	epilog_wait $id free &&
	flux python ${SHARNESS_TEST_SRCDIR}/scripts/epilog-post.py $id \
	    start $(seq -f b%g 1 254) &&
	refused $id <<-EOT &&
	epilog-start | actions are outstanding | {"description":"z"}
	epilog-start | actions are outstanding | {"description":"z","ranks":""}
	EOT
	flux python ${SHARNESS_TEST_SRCDIR}/scripts/epilog-post.py $id \
	    finish $(seq -f b%g 1 254) &&
	state_is $id CLEANUP &&
	epilog_finish $id a &&
	epilog_wait $id clean
'

#
# Many ranks
#

test_expect_success '200 ranks let go of one at a time, but together, go together' '
	id=$(epilog_submit "[{\"description\":\"a\"}]" -N256) &&
	flux python ${SHARNESS_TEST_SRCDIR}/scripts/epilog-post.py $id \
	    finish --ranks a $(seq 0 199) &&
	epilog_finish $id a 200 &&
	flux job wait-event -t 60 -m ranks=200 $id epilog-finish &&
	epilog_finish $id a &&
	epilog_wait $id clean &&
	flux job info $id eventlog >many.log &&
	grep -c epilog-finish many.log >many.count &&
	test $(cat many.count) -eq 202 &&
	test $(grep -c partial-free many.log) -le 25
'
test_expect_success 'no job was hurt, no rank lost, none freed twice' '
	flux jobtap remove epilog-hold.so &&
	flux queue drain --timeout=60s &&
	epilog_watch_check
'
test_done
