#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test reload of Fluxion with jobs that have let go of a part

Fluxion is told of what such a job has left, in each format of R.  It gives that
to no other, and gets it back.
'

. $(dirname $0)/sharness.sh

# Ranks other than 0 have no broker, so housekeeping is over there at once.
test_under_flux 1 full -Slog-stderr-level=1 $RACKS

# Usage: allocated_cores_are COUNT
allocated_cores_are () {
	test $(flux resource list -s allocated -no {ncores}) -eq $1 &&
	test $(FLUX_RESOURCE_LIST_RPC=sched.resource-status \
	    flux resource list -s allocated -no {ncores}) -eq $1
}

# Usage: order ID
# Print, a line each, what the watch saw: hello, ready, and for a job gone (some
# of its ranks, by its events) and free.
order () {
	jq -r "if .what == \"hello\" or .what == \"ready\" then .what
	    elif .id != $1 then empty
	    elif .what == \"free\" then .what
	    elif .name == \"free\" or .name == \"partial-free\" then \"gone\"
	    else empty end" epilog-watch.jsonl
}

# Usage: reload_between FORMAT ID [RANKS]
# Reload Fluxion, and let the action of a job let go of ranks, or end, when it
# says hello.  Succeed if that was before it said ready.
reload_between () {
	local format=$1
	local id=$(flux job id --to=dec $2)
	local count=$(order $id | grep -c hello)
	shift
	fluxion_remove &&
	rm -f post.out &&
	mkfifo post.out &&
	{ flux python $FLUXION_DIR/post-at-hello.py $id a $2 >post.out & } &&
	read line <post.out &&
	fluxion_load $format &&
	wait $! &&
	test_wait_until "order $id >order &&
	    test \$(grep -c hello order) -gt $count &&
	    test \"\$(tail -1 order)\" = free" &&
	tail -4 order | paste -s -d " " | grep "^hello gone ready free$"
}

# Usage: rank_goes_between FORMAT ID
# Let ranks of a job of 8 go, from 0 on, until it was between hello and ready.
# Print the first that the job still has.
rank_goes_between () {
	local rank
	for rank in 0 1 2 3 4 5 6; do
		reload_between $1 $2 $rank >&2 && echo $(($rank+1)) && return
	done
	return 1
}

# Usage: last_goes_between FORMAT
# Let the last of a job's ranks go until it was between hello and ready.
last_goes_between () {
	local tries
	local id
	for tries in 1 2 3 4 5 6 7; do
		id=$(epilog_submit "$HOLD" -N2) &&
		epilog_finish $id a 0 &&
		epilog_wait_gone $id 0 &&
		reload_between $1 $id && return
	done
	return 1
}

test_expect_success 'load plugins' '
	epilog_watch_start &&
	flux jobtap load alloc-check.so &&
	flux jobtap load $(epilog_hold_plugin)
'
test_expect_success 'create housekeeping that does not end' '
	cat >housekeeping.sh <<-EOT &&
	#!/bin/sh
	exec sleep inf
	EOT
	chmod +x housekeeping.sh &&
	cat >housekeeping.toml <<-EOT
	[job-manager.housekeeping]
	release-after = "0"
	command = [ "$(pwd)/housekeeping.sh" ]
	EOT
'

for format in rv1 rv1_nosched; do
	# Without a graph, Fluxion does not find a job again that is in a rack:
	# see faults.t.
	test "$format" = rv1_nosched &&
	test_expect_success "$format: leave the racks out" '
		fluxion_remove &&
		flux kvs get resource.R | jq -c "del (.scheduling)" >flat.R &&
		flux resource reload -f flat.R &&
		fluxion_load rv1
	'
	test_expect_success "$format: load Fluxion" '
		fluxion_reload $format &&
		flux dmesg -C
	'
	test_expect_success "$format: before any rank went" '
		id=$(epilog_submit "$HOLD" -N4) &&
		fluxion_reload $format &&
		epilog_allocated_are 0-3 &&
		next=$(submit_short -N5) &&
		has_to_wait $next
	'
	test_expect_success "$format: between partial frees" '
		epilog_finish $id a 0-1 &&
		epilog_wait_gone $id 0-1 &&
		ran $next &&
		fluxion_reload $format &&
		epilog_allocated_are 2-3 &&
		run_short -N6
	'
	test_expect_success "$format: another job has what went" '
		other=$(run_long -N6) &&
		epilog_allocated_are 0-7 &&
		fluxion_reload $format &&
		epilog_allocated_are 0-7 &&
		test "$(flux jobs -no {state} $other)" = RUN &&
		epilog_finish $id a 2 &&
		epilog_wait_gone $id 2 &&
		run_short -N1 &&
		cancel $other &&
		epilog_allocated_are 3
	'
	test_expect_success "$format: the last rank goes after a reload" '
		fluxion_reload $format &&
		end $id &&
		epilog_allocated_are "" &&
		run_short -N8 &&
		epilog_handoffs_are $id "0-1 2 free" &&
		frees_are $id "0-1 2 3 final"
	'
	test_expect_success "$format: a rank goes while no scheduler is loaded" '
		id=$(epilog_submit "$HOLD" -N4) &&
		fluxion_remove &&
		epilog_finish $id a 1 &&
		epilog_wait_gone $id 1 &&
		fluxion_load $format &&
		epilog_allocated_are 0,2-3 &&
		run_short -N5
	'
	test_expect_success "$format: and so do the last ones" '
		fluxion_remove &&
		end $id &&
		fluxion_load $format &&
		epilog_allocated_are "" &&
		run_short -N8
	'
	test_expect_success "$format: cores of shared nodes stay apart" '
		id=$(epilog_submit "$HOLD" -N2 -n2 -c1) &&
		other=$(run_long -N2 -n2 -c1) &&
		epilog_finish $id a 0 &&
		epilog_wait_gone $id 0 &&
		allocated_cores_are 3 &&
		fluxion_reload $format &&
		allocated_cores_are 3 &&
		run_short -n13 -c1 &&
		end $id &&
		allocated_cores_are 2 &&
		cancel $other &&
		epilog_allocated_are ""
	'
	test_expect_success "$format: a rank goes between hello and ready" '
		id=$(epilog_submit "$HOLD" -N8) &&
		first=$(rank_goes_between $format $id) &&
		run_short -N$first &&
		next=$(submit_short -N$(($first+1))) &&
		has_to_wait $next
	'
	test_expect_success "$format: the others go after ready" '
		end $id &&
		ran $next &&
		epilog_allocated_are "" &&
		run_short -N8
	'
	test_expect_success "$format: the last rank goes between hello and ready" '
		last_goes_between $format &&
		epilog_allocated_are "" &&
		run_short -N8
	'
	test_expect_success "$format: a rank is in housekeeping, one is held" '
		flux config load <housekeeping.toml &&
		id=$(epilog_submit "$HOLD" -N3) &&
		epilog_finish $id a 0-1 &&
		epilog_wait_gone $id 0-1 &&
		test_wait_until -i 100 "epilog_allocated_are 0,2" &&
		flux config load </dev/null &&
		fluxion_reload $format &&
		epilog_allocated_are 0,2 &&
		run_short -N6
	'
	test_expect_success "$format: the job is inactive, a rank is in housekeeping" '
		end $id &&
		epilog_allocated_are 0 &&
		fluxion_reload $format &&
		epilog_allocated_are 0 &&
		run_short -N7
	'
	test_expect_success "$format: it is free when that is over" '
		flux housekeeping kill --all &&
		test_wait_until -i 100 "epilog_allocated_are \"\"" &&
		run_short -N8
	'
	test_expect_success "$format: Fluxion had nothing to complain of" '
		fluxion_no_errors
	'
done
test_expect_success 'the watch saw nothing wrong' '
	epilog_watch_check
'
test_expect_success 'unload plugins' '
	flux jobtap remove epilog-hold.so &&
	flux jobtap remove alloc-check.so
'

test_done
