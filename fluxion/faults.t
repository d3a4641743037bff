#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Show what Fluxion does not do right with jobs freed in parts

Each test shows a fault of Fluxion, and the way out if there is one.  One that
fails may mean that Fluxion was mended: then doc/fluxion.md has to say so.
'

. $(dirname $0)/sharness.sh

test_under_flux 1 full -Slog-stderr-level=1 $RACKS

# Usage: allocated_are RANKS RANKS
# The job manager says that the first are allocated, Fluxion says the second.
allocated_are () {
	test "$(flux resource list -s allocated -no {ranks})" = "$1" &&
	test "$(FLUX_RESOURCE_LIST_RPC=sched.resource-status \
	    flux resource list -s allocated -no {ranks})" = "$2"
}

# Usage: housekeeping_on
# Let housekeeping hang on rank 0, and be over on the others at once.
housekeeping_on () {
	flux config load <<-EOT
	[job-manager.housekeeping]
	release-after = "0"
	command = [ "sleep", "inf" ]
	EOT
}

# No job is in housekeeping any more.
housekeeping_end () {
	flux config load </dev/null &&
	flux housekeeping kill --all &&
	test_wait_until -i 100 "epilog_allocated_are \"\""
}

# Print R without the racks: nodes and SSDs are right under the cluster.
flat_R () {
	flux kvs get resource.R | jq -c ".scheduling.graph |= (
	    [.nodes[] | select (.metadata.type == \"rack\") | .id] as \$racks
	    | def is_rack: IN (\$racks[]);
	    .nodes |= map (select (.id | is_rack | not) | .metadata |= (
	        .paths.containment |= (sub (\"rack(?<n>.)/ssd0\"; \"ssd\\(.n)\")
	                               | sub (\"rack./\"; \"\"))
	        | .name = (.paths.containment | split (\"/\") | last)))
	    | .edges |= map (select (.target | is_rack | not)
	        | if .source | is_rack then .source = \"0\" else . end))"
}

# Usage: dropped ID
# Fluxion could not take the job over, and said so.
dropped () {
	flux job wait-event -t 60 -m type=scheduler-restart $1 exception
}

test_expect_success 'load plugins' '
	epilog_watch_start &&
	flux jobtap load $(epilog_hold_plugin)
'

#
# flux-sched #1561.
#
for format in rv1 rv1_nosched; do
	test_expect_success "#1561: $format: a job has a rack for itself" '
		fluxion_reload $format &&
		final_free last-rank &&
		id=$(submit_rack "$HOLD") &&
		epilog_wait $id release &&
		epilog_allocated_are 0-3
	'
	test_expect_success "#1561: $format: three of its nodes go" '
		epilog_finish $id a 1-3 &&
		epilog_wait_gone $id 1-3 &&
		allocated_are 0 0-3
	'
	test_expect_success "#1561: $format: but they are given to no other job" '
		run_short -N4 &&
		next=$(submit_short -N5) &&
		has_to_wait $next
	'
	test_expect_success "#1561: $format: before the last of them goes" '
		epilog_finish $id a 0 &&
		ran $next &&
		outstanding $id &&
		end $id &&
		run_short -N8
	'
done
test_expect_success '#1561: housekeeping that frees in parts does the same' '
	housekeeping_on &&
	ran $(submit_rack) &&
	test_wait_until -i 100 "allocated_are 0 0-3" &&
	flux config load </dev/null &&
	next=$(submit_short -N5) &&
	has_to_wait $next &&
	housekeeping_end &&
	ran $next
'

#
# flux-sched #1544: the final free does not get where the partial ones left
# nothing that is counted.
#
test_expect_success '#1544: by default, prune-filters do not count SSDs' '
	final_free auto &&
	fluxion_reload rv1 ALL:core,ALL:node
'
test_expect_success '#1544: the ranks of one rack go before those of the other' '
	id=$(submit_ssd "$HOLD") &&
	epilog_wait $id release &&
	epilog_finish $id a 4 &&
	epilog_wait_gone $id 4 &&
	end $id &&
	epilog_allocated_are "" &&
	run_short -N8
'
test_expect_success '#1544: the SSD of the first is not given to another job' '
	next=$(submit_ssd) &&
	has_to_wait $next
'
test_expect_success '#1544: before Fluxion is reloaded' '
	fluxion_reload rv1 ALL:core,ALL:node &&
	ran $next
'
test_expect_success '#1544: housekeeping that frees in parts does the same' '
	housekeeping_on &&
	ran $(submit_ssd) &&
	test_wait_until -i 100 "epilog_allocated_are 0" &&
	housekeeping_end &&
	run_short -N8 &&
	next=$(submit_ssd) &&
	has_to_wait $next &&
	fluxion_reload rv1 ALL:core,ALL:node &&
	ran $next
'
test_expect_success '#1544: nothing was logged' '
	fluxion_no_errors
'
test_expect_success '#1544: all is well if the filters count SSDs' '
	fluxion_reload rv1 ALL:core,ALL:node,ALL:ssd &&
	id=$(submit_ssd "$HOLD") &&
	epilog_wait $id release &&
	epilog_finish $id a 4 &&
	epilog_wait_gone $id 4 &&
	end $id &&
	ran $(submit_ssd)
'

#
# The resource module keeps its books when only the queue manager is reloaded.
#
test_expect_success 'queue manager alone: jobs that let go of nothing are taken over' '
	id=$(epilog_submit "$HOLD" -N2) &&
	other=$(run_long -N2) &&
	flux module remove sched-fluxion-qmanager &&
	fluxion_load_qmanager &&
	epilog_allocated_are 0-3
'
test_expect_success 'queue manager alone: one that let go of a rank is dropped' '
	epilog_finish $id a 0 &&
	epilog_wait_gone $id 0 &&
	flux module remove sched-fluxion-qmanager &&
	fluxion_load_qmanager &&
	dropped $id &&
	fluxion_errors | grep "with different R exists"
'
test_expect_success 'queue manager alone: what it had left is given to no other' '
	allocated_are 2-3 1-3 &&
	end $id &&
	run_short -N5 &&
	next=$(submit_short -N6) &&
	has_to_wait $next
'
test_expect_success 'queue manager alone: before both modules are reloaded' '
	fluxion_reload rv1 &&
	ran $next &&
	test "$(flux jobs -no {state} $other)" = RUN &&
	cancel $other &&
	epilog_allocated_are ""
'

#
# R of rv1_nosched does not say where in the graph its nodes are, and nothing of
# what has no rank.
#
test_expect_success 'rv1_nosched in racks: a reload drops every job that has resources' '
	fluxion_reload rv1_nosched &&
	flux dmesg -C &&
	running=$(run_long -N2) &&
	id=$(epilog_submit "$HOLD" -N2) &&
	epilog_finish $id a 2 &&
	epilog_wait_gone $id 2 &&
	fluxion_reload rv1_nosched &&
	dropped $running &&
	dropped $id &&
	fluxion_errors | grep "find vertex in graph"
'
test_expect_success 'rv1_nosched in racks: what an action holds is given to others' '
	epilog_allocated_are "" &&
	outstanding $id &&
	run_short -N8 &&
	end $id
'
test_expect_success 'rv1_nosched without racks: a job has the SSDs, and a rank' '
	fluxion_remove &&
	flat_R >flat.R &&
	flux resource reload -f flat.R &&
	fluxion_load rv1_nosched &&
	flux dmesg -C &&
	id=$(submit_ssd "$NONE") &&
	epilog_wait_gone $id 1 &&
	next=$(submit_ssd) &&
	has_to_wait $next
'
test_expect_success 'rv1_nosched without racks: a reload forgets the SSDs' '
	fluxion_reload rv1_nosched &&
	ran $next &&
	epilog_allocated_are 0 &&
	outstanding $id
'
test_expect_success 'rv1_nosched without racks: nothing was logged' '
	end $id &&
	fluxion_no_errors
'
test_expect_success 'the watch saw nothing wrong' '
	flux config load </dev/null &&
	epilog_watch_check
'

#
# flux-sched #1558.
#
test_expect_success '#1558: rv1_shorthand: a job lets go of two ranks of four' '
	fluxion_reload rv1_shorthand &&
	epilog_watch_start shorthand.jsonl &&
	id=$(epilog_submit "$HOLD" -N4) &&
	epilog_finish $id a 0-1 &&
	epilog_wait_gone $id 0-1 &&
	epilog_allocated_are 2-3 &&
	run_short -N6
'
test_expect_success '#1558: rv1_shorthand: a reload forgets the others' '
	fluxion_reload rv1_shorthand &&
	allocated_are 2-3 "" &&
	run_short -N8 &&
	outstanding $id
'
test_expect_success '#1558: rv1_shorthand: the watch sees that' '
	end $id &&
	! epilog_watch_check shorthand.jsonl 2>shorthand.err &&
	test_debug "cat shorthand.err" &&
	grep "alloc of ranks 2-3 of $(flux job id --to=f58plain $id)" shorthand.err
'
test_expect_success 'unload plugin' '
	flux jobtap remove epilog-hold.so
'

test_done
