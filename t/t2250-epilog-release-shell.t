#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Compare work after the tasks in the shell with an epilog action

A process beside the tasks holds a completion reference of its shell.  While it
works on one node, the job still runs, and has all of its nodes, even those whose
shells have ended.  An epilog action that does the same work holds that node only.
'

# Append --logfile option if FLUX_TESTS_LOGFILE is set in environment:
test -n "$FLUX_TESTS_LOGFILE" && set -- "$@" --logfile
. $(dirname $0)/sharness.sh

# A job that is held for good must not hold the instance.
export FLUX_DISABLE_JOB_CLEANUP=t

test_under_flux 4 full -Slog-stderr-level=1 --test-exit-mode=leader

# Be patient with a busy machine.
TEST_WAIT_UNTIL_DEFAULT_ITERS=600

# Usage: next_submit
# Submit a job for the nodes that have no work.
next_submit () {
	flux submit -N3 --requires=rank:0,2-3 true
}

# Usage: state_is ID STATE
state_is () {
	test "$(flux jobs -no {state} $1)" = "$2"
}

# Usage: node_seconds ID
# How long its nodes waited after the first task had ended: all of them, and the
# last one.
node_seconds () {
	flux python node-seconds.py $(flux job id --to=dec $1)
}

test_expect_success 'start the watcher and load the plugin' '
	epilog_watch_start &&
	flux jobtap load $(epilog_hold_plugin)
'
test_expect_success 'create work, that goes on until it is told that it is done' '
	cat >work.sh <<-EOT &&
	#!/bin/sh
	trap "touch $(pwd)/\$1.asked" TERM
	touch $(pwd)/\$1.works
	until test -f $(pwd)/\$1.done; do sleep 0.1; done
	EOT
	chmod +x work.sh &&
	cat >shell.lua <<-EOT &&
	shell.options["coprocess"] = {
	    work = { command = { "$(pwd)/work.sh", "shell" }, ranks = "1" }
	}
	shell.options["coprocess-kill-timeout"] = "600s"
	plugin.register {
	    name = "watch-shells",
	    handlers = {
	        { topic = "shell.tasks-complete",
	          fn = function () io.open ("$(pwd)/complete", "w"):close () end },
	        { topic = "shell.exit",
	          fn = function ()
	                   io.open ("$(pwd)/exit." .. shell.info.rank, "w"):close ()
	               end },
	    }
	}
	EOT
	cat >node-seconds.py <<-EOT
	import json, sys
	import flux
	from flux.idset import IDset
	from flux.job import job_kvs_lookup

	keys = ["eventlog", "guest.exec.eventlog"]
	found = job_kvs_lookup(flux.Flux(), int(sys.argv[1]), keys)
	main, shell = [[json.loads(line) for line in found[key].splitlines()] for key in keys]
	times = {event["name"]: event["timestamp"] for event in main}
	begin = min(e["timestamp"] for e in shell if e["name"] == "shell.task-exit")
	left = 4
	total = 0.0
	for event in main:
	    if event["name"] == "partial-free":
	        ranks = len(IDset(event["context"]["ranks"]))
	        total += ranks * (event["timestamp"] - begin)
	        left -= ranks
	last = times["free"] - begin
	print(f"{total + left * last:.3f} {last:.3f}")
	EOT
'

#
# In the shell
#
test_expect_success 'all tasks have ended, a process beside them works on one node' '
	shell=$(flux submit -N4 -n4 -o userrc=$(pwd)/shell.lua \
	    sh -c "until test -f $(pwd)/shell.works; do sleep 0.1; done") &&
	test_wait_until "test -f shell.asked" &&
	test_wait_until "test -f complete"
'
test_expect_success 'two shells have ended, but the job runs, and has all nodes' '
	test_wait_until "test -f exit.2 && test -f exit.3" &&
	test ! -f exit.0 &&
	test ! -f exit.1 &&
	state_is $shell RUN &&
	epilog_allocated_are 0-3 &&
	next=$(next_submit) &&
	flux job wait-event -q -t 60 $next priority &&
	state_is $next SCHED &&
	state_is $shell RUN
'
test_expect_success 'they go, all at once, when the work is done' '
	touch shell.done &&
	epilog_wait $shell clean &&
	epilog_handoffs_are $shell free &&
	epilog_wait $next clean
'

#
# In an epilog action
#
test_expect_success 'the same work in an epilog action holds its node only' '
	epilog=$(flux submit -N4 -n4 \
	    --setattr=system.epilog-hold="[{\"description\":\"work\",\"ranks\":\"1\"}]" \
	    true) &&
	epilog_wait $epilog epilog-start &&
	{ flux exec -r 1 $(pwd)/work.sh epilog & } &&
	work=$! &&
	test_wait_until "test -f epilog.works" &&
	epilog_wait_gone $epilog 0,2-3 &&
	state_is $epilog CLEANUP &&
	epilog_allocated_are 1
'
test_expect_success 'the others run the next job meanwhile' '
	next=$(next_submit) &&
	epilog_wait $next clean &&
	flux job status $next &&
	test ! -f epilog.done &&
	epilog_allocated_are 1
'
test_expect_success 'that node goes when the work is done' '
	touch epilog.done &&
	wait $work &&
	epilog_finish $epilog work &&
	epilog_wait $epilog clean &&
	epilog_handoffs_are $epilog "0,2-3 free"
'

#
# What it cost
#
test_expect_success 'in the shell, all nodes waited as long as the last' '
	node_seconds $shell >shell.cost &&
	read all last <shell.cost &&
	say "in the shell: $all node-seconds, the last node waited $last s" &&
	jq -n -e "($all - 4 * $last) | fabs < 0.01"
'
test_expect_success 'in the epilog action, one did' '
	node_seconds $epilog >epilog.cost &&
	read all last <epilog.cost &&
	say "in an epilog action: $all node-seconds, the last node waited $last s" &&
	jq -n -e "$all < 4 * $last - 0.01 and $all >= $last"
'
test_expect_success 'nothing was freed twice, freed while held, or lost' '
	flux jobtap remove epilog-hold.so &&
	flux queue drain --timeout=60s &&
	epilog_watch_check
'

test_done
