#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test when Fluxion gets back an SSD that belongs to no rank

It is free with the final free of the job that has it.  With final-free=auto,
the default, that comes after the last epilog action, whether or not R tells of
the SSD.
'

. $(dirname $0)/sharness.sh

test_under_flux 1 full -Slog-stderr-level=1 $RACKS

test_expect_success 'load plugins' '
	epilog_watch_start &&
	flux jobtap load alloc-check.so &&
	flux jobtap load $(epilog_hold_plugin)
'

for format in rv1 rv1_nosched; do
	test_expect_success "$format: load Fluxion" '
		fluxion_reload $format &&
		flux config load </dev/null &&
		flux dmesg -C
	'
	test_expect_success "$format: a job without actions is free as a whole" '
		id=$(submit_ssd) &&
		ran $id &&
		frees_are $id "0,4 final" &&
		ran $(submit_ssd)
	'
	test_expect_success "$format: R tells of the SSDs, or not" '
		flux job info $id R >ssd.R &&
		case $format in
		rv1)
			jq -e "[.scheduling.graph.nodes[].metadata.type] |
			       map (select (. == \"ssd\")) | length == 2" ssd.R ;;
		*)
			jq -e ".scheduling == null" ssd.R ;;
		esac
	'
	test_expect_success "$format: auto: an action holds both ranks of a job" '
		id=$(submit_ssd "$HOLD") &&
		epilog_wait $id release &&
		epilog_allocated_are 0,4
	'
	test_expect_success "$format: auto: the next job for the SSDs waits" '
		next=$(submit_ssd) &&
		has_to_wait $next
	'
	test_expect_success "$format: auto: a rank goes, and is given to another" '
		epilog_finish $id a 4 &&
		epilog_wait_gone $id 4 &&
		run_short -N7 &&
		has_to_wait $next
	'
	test_expect_success "$format: auto: the SSDs are free at the end of the action" '
		end $id &&
		ran $next &&
		epilog_handoffs_are $id "4 free" &&
		frees_are $id "4 0 final"
	'
	test_expect_success "$format: auto: an action that holds no rank holds the SSDs" '
		id=$(submit_ssd "$NONE") &&
		epilog_wait_gone $id 4 &&
		epilog_allocated_are 0 &&
		next=$(submit_ssd) &&
		run_short -N7 &&
		has_to_wait $next &&
		outstanding $id
	'
	test_expect_success "$format: auto: so does one that let go of all its ranks" '
		flux post-job-event $id epilog-start description=b &&
		epilog_finish $id a &&
		epilog_finish $id b all &&
		flux job wait-event -t 60 -m ranks=all $id epilog-finish &&
		epilog_allocated_are 0 &&
		has_to_wait $next &&
		outstanding $id
	'
	test_expect_success "$format: auto: they are free after the last action" '
		end $id b &&
		ran $next &&
		frees_are $id "4 0 final"
	'
	test_expect_success "$format: last-action: they are free after the last action" '
		final_free last-action &&
		id=$(submit_ssd "$NONE") &&
		epilog_wait_gone $id 4 &&
		next=$(submit_ssd) &&
		has_to_wait $next &&
		end $id &&
		ran $next &&
		frees_are $id "4 0 final"
	'
	test_expect_success "$format: last-rank: they are free under the open action" '
		final_free last-rank &&
		id=$(submit_ssd "$NONE") &&
		epilog_wait $id free &&
		ran $(submit_ssd) &&
		outstanding $id &&
		end $id &&
		frees_are $id "0,4 final"
	'
	test_expect_success "$format: Fluxion had nothing to complain of" '
		fluxion_no_errors
	'
done

#
# As rabbit jobs ask for it; Fluxion is reloaded while the job has only one rank
# and the SSDs.
#
test_expect_success 'rv1: SSDs by rack: all ranks but one go' '
	flux config load </dev/null &&
	fluxion_reload rv1 &&
	id=$(submit_ssd_by_rack "$NONE") &&
	epilog_wait_gone $id 1,4-5 &&
	epilog_allocated_are 0 &&
	run_short -N7
'
test_expect_success 'rv1: SSDs by rack: the next job for them waits' '
	next=$(submit_ssd_by_rack) &&
	has_to_wait $next
'
test_expect_success 'rv1: SSDs by rack: so it does after a reload' '
	fluxion_reload rv1 &&
	epilog_allocated_are 0 &&
	run_short -N7 &&
	has_to_wait $next
'
test_expect_success 'rv1: SSDs by rack: they are free after the last action' '
	end $id &&
	ran $next &&
	frees_are $id "1,4-5 0 final" &&
	ran $(submit_ssd)
'
test_expect_success 'rv1: Fluxion had nothing to complain of' '
	fluxion_no_errors
'
test_expect_success 'the watch saw nothing wrong' '
	epilog_watch_check
'
test_expect_success 'unload plugins' '
	flux jobtap remove epilog-hold.so &&
	flux jobtap remove alloc-check.so
'

test_done
