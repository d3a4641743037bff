#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test partial release by epilogs on Fluxion

A rank that an epilog lets go of is given to the next job at once, in each
format of R, and what is held is not.
'

. $(dirname $0)/sharness.sh

test_under_flux 1 full -Slog-stderr-level=1 $RACKS

# A job that gets what another has gets an exception, in any test.
test_expect_success 'load plugins' '
	epilog_watch_start &&
	flux jobtap load alloc-check.so &&
	flux jobtap load $(epilog_hold_plugin)
'

for format in rv1 rv1_nosched; do
	test_expect_success "$format: load Fluxion" '
		fluxion_reload $format &&
		flux dmesg -C
	'
	test_expect_success "$format: an action holds two ranks, two go" '
		id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0,3\"}]" -N4) &&
		epilog_wait_gone $id 1-2 &&
		epilog_allocated_are 0,3
	'
	test_expect_success "$format: R has a scheduling key, or not" '
		flux job info $id R >R.json &&
		case $format in
		rv1) jq -e ".scheduling.graph" R.json ;;
		*) jq -e ".scheduling == null" R.json ;;
		esac
	'
	test_expect_success "$format: a job gets all the others" '
		run_short -N6
	'
	test_expect_success "$format: one that wants seven nodes waits" '
		next=$(submit_short -N7) &&
		has_to_wait $next
	'
	test_expect_success "$format: and starts when a third rank goes" '
		epilog_finish $id a 3 &&
		ran $next &&
		epilog_allocated_are 0 &&
		outstanding $id
	'
	test_expect_success "$format: the rest is free at the end of the action" '
		next=$(submit_short -N8) &&
		has_to_wait $next &&
		end $id &&
		ran $next &&
		epilog_allocated_are "" &&
		epilog_handoffs_are $id "1-2 3 free" &&
		frees_are $id "1-2 3 0 final"
	'
	test_expect_success "$format: ranks may go one at a time, in any order" '
		id=$(epilog_submit "$HOLD" -N8) &&
		nnodes=0 &&
		for rank in 5 0 7; do
			epilog_finish $id a $rank &&
			epilog_wait_gone $id $rank &&
			nnodes=$(($nnodes+1)) &&
			run_short -N$nnodes || return 1
		done &&
		epilog_allocated_are 1-4,6 &&
		end $id &&
		epilog_allocated_are "" &&
		frees_are $id "5 0 7 1-4,6 final"
	'
	test_expect_success "$format: a rank goes when two actions let go of it" '
		id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"0-2\"},
		    {\"description\":\"b\",\"ranks\":\"1-3\"}]" -N4) &&
		epilog_finish $id a 1 &&
		epilog_finish $id b 2-3 &&
		epilog_wait_gone $id 3 &&
		epilog_allocated_are 0-2 &&
		epilog_finish $id b 1 &&
		epilog_wait_gone $id 1 &&
		run_short -N6 &&
		epilog_finish $id b &&
		end $id &&
		epilog_allocated_are ""
	'
	test_expect_success "$format: of a node that jobs share, only the cores of one go" '
		id=$(epilog_submit "$HOLD" -N2 -n2 -c1) &&
		other=$(run_long -N2 -n2 -c1) &&
		epilog_allocated_are 0-1 &&
		epilog_finish $id a 0 &&
		epilog_wait_gone $id 0 &&
		test $(flux resource list -s allocated -no {ncores}) -eq 3 &&
		run_short -n13 -c1 &&
		end $id &&
		epilog_allocated_are 0-1 &&
		test $(flux resource list -s allocated -no {ncores}) -eq 2 &&
		cancel $other &&
		epilog_allocated_are ""
	'
	test_expect_success "$format: parts of an R whose ranks differ go as they are" '
		other=$(run_long -n1 -c1) &&
		id=$(epilog_submit "$HOLD" -n15 -c1) &&
		flux job info $id R | jq -e ".execution.R_lite | length == 2" &&
		epilog_finish $id a 0,3 &&
		epilog_wait_gone $id 0,3 &&
		run_short -n3 -c1 &&
		next=$(submit_short -n4 -c1) &&
		has_to_wait $next &&
		end $id &&
		ran $next &&
		cancel $other &&
		run_short -n16 -c1
	'
	test_expect_success "$format: a running job is held from its end on" '
		id=$(run_long -N4 --setattr=system.epilog-hold="$HOLD") &&
		flux cancel $id &&
		epilog_wait $id release &&
		epilog_finish $id a 1-3 &&
		epilog_wait_gone $id 1-3 &&
		run_short -N7 &&
		end $id
	'
	test_expect_success "$format: two jobs let go at the same time" '
		id=$(epilog_submit "$HOLD" -N4) &&
		id2=$(epilog_submit "$HOLD" -N4) &&
		epilog_finish $id a 0-1 &&
		epilog_finish $id2 a 6-7 &&
		epilog_wait_gone $id 0-1 &&
		epilog_wait_gone $id2 6-7 &&
		run_short -N4 &&
		epilog_allocated_are 2-5 &&
		epilog_finish $id a &&
		end $id2 &&
		epilog_wait $id clean &&
		run_short -N8
	'
	test_expect_success "$format: Fluxion had nothing to complain of" '
		fluxion_no_errors
	'
done

#
# An action that holds no rank.  With "auto", which is the default, one rank
# is kept back for a job whose R has a scheduling key.
#
test_expect_success 'rv1_nosched: all ranks are free while the action goes on' '
	id=$(epilog_submit "$NONE" -N4) &&
	epilog_wait $id free &&
	outstanding $id &&
	run_short -N8 &&
	end $id &&
	epilog_handoffs_are $id free &&
	frees_are $id "0-3 final"
'
test_expect_success 'rv1: one is kept back, the others are free' '
	fluxion_reload rv1 &&
	id=$(epilog_submit "$NONE" -N4) &&
	epilog_wait_gone $id 1-3 &&
	run_short -N7 &&
	next=$(submit_short -N8) &&
	has_to_wait $next &&
	outstanding $id &&
	end $id &&
	ran $next &&
	frees_are $id "1-3 0 final"
'
test_expect_success 'rv1: none is kept back with final-free=last-rank' '
	final_free last-rank &&
	id=$(epilog_submit "$NONE" -N4) &&
	epilog_wait $id free &&
	outstanding $id &&
	run_short -N8 &&
	end $id &&
	frees_are $id "0-3 final"
'
test_expect_success 'the watch saw nothing wrong' '
	epilog_watch_check &&
	fluxion_no_errors
'
test_expect_success 'unload plugins' '
	flux jobtap remove epilog-hold.so &&
	flux jobtap remove alloc-check.so
'

test_done
