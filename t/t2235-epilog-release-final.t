#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test when the last free of a job goes out

With it the scheduler lets go of what belongs to no rank, such as storage.
Whatever job-manager.epilog-release.final-free says, it goes out once.
'

# Append --logfile option if FLUX_TESTS_LOGFILE is set in environment:
test -n "$FLUX_TESTS_LOGFILE" && set -- "$@" --logfile
. $(dirname $0)/sharness.sh

# Don't wait for a job that an epilog holds if a test failed.
export FLUX_DISABLE_JOB_CLEANUP=t

# Ranks other than 0 have no broker, so housekeeping is over there at once.
test_under_flux 1 full -Slog-stderr-level=1 \
    --conf=fake-resources.nnodes=8 \
    --conf=fake-resources.cores-per-node=2 \
    --conf=fake-resources.gpus-per-node=1

export SHARNESS_TEST_SRCDIR FLUX_BUILD_DIR

NONE='[{"description":"a","ranks":""}]'

# Usage: final_free VALUE
final_free () {
	flux config load <<-EOT
	[job-manager.epilog-release]
	final-free = $1
	EOT
}

# Usage: submit_with FILTER [OPTION]...
# Like epilog_submit(), for a jobspec changed by jq, and an action that holds
# no rank.
submit_with () {
	local filter="$1"
	local id
	shift
	flux run --dry-run --env-remove="*" \
	    --setattr=system.exec.test.run_duration=0.01s \
	    --setattr=system.epilog-hold="$NONE" \
	    "$@" true >plain.json &&
	jq "$filter" plain.json >jobspec.json &&
	id=$(flux job submit jobspec.json) &&
	epilog_wait $id release &&
	echo $id
}

# Usage: freed_are ID "FREES"
freed_are () {
	test_wait_until -i 100 "test \"\$(strict_freed $1)\" = \"$2\"" && return
	echo >&2 "frees of $1: got '$(strict_freed $1)', want '$2'"
	return 1
}

# Usage: outstanding ID
# The job's last epilog has not ended.
outstanding () {
	test "$(flux jobs -no {state} $1)" = "CLEANUP"
}

# Usage: end ID [ACTION]
end () {
	epilog_finish $1 ${2-a} &&
	epilog_wait $1 clean
}

test_expect_success 'load plugins, and scheduler that checks what it is told' '
	epilog_watch_start &&
	flux jobtap load alloc-check.so &&
	flux jobtap load $(epilog_hold_plugin) &&
	flux module remove sched-simple &&
	strict_start
'

#
# Configuration.
#
test_expect_success 'each value of final-free is taken' '
	final_free "\"auto\"" &&
	final_free "\"last-rank\"" &&
	final_free "\"last-action\""
'
test_expect_success 'so is an empty table, or none' '
	echo "[job-manager.epilog-release]" | flux config load &&
	flux config load </dev/null
'
test_expect_success 'another value is refused' '
	test_must_fail final_free "\"last\"" 2>value.err &&
	test_debug "cat value.err" &&
	grep "job-manager.epilog-release.final-free: .last. is not" value.err
'
test_expect_success 'so is another type' '
	test_must_fail final_free 1 2>type.err &&
	test_debug "cat type.err" &&
	grep "job-manager.epilog-release: .*Expected string" type.err
'
test_expect_success 'so is an unknown key' '
	test_must_fail flux config load 2>key.err <<-EOT &&
	[job-manager.epilog-release]
	final = "auto"
	EOT
	test_debug "cat key.err" &&
	grep "job-manager.epilog-release: .*unpacked: final" key.err
'
test_expect_success 'and so is what is no table' '
	test_must_fail flux config load 2>table.err <<-EOT &&
	[job-manager]
	epilog-release = "auto"
	EOT
	test_debug "cat table.err" &&
	grep "job-manager.epilog-release: " table.err
'
test_expect_success 'an instance does not start with a bad value' '
	test_must_fail flux start \
	    --conf=job-manager.epilog-release.final-free=never true 2>start.err &&
	grep "job-manager.epilog-release.final-free: .never. is not" start.err
'

#
# auto.
#
test_expect_success 'auto: a job of nodes is free with its last rank' '
	id=$(epilog_submit "$NONE" -N4) &&
	epilog_wait $id free &&
	freed_are $id "0-3 final" &&
	outstanding $id &&
	end $id
'
test_expect_success 'auto: so is one that names sockets, cores and gpus' '
	id=$(submit_with ".resources[0].with[0].with = [
	    {type: \"socket\", count: 1, with: [
	        {type: \"core\", count: 1}, {type: \"gpu\", count: 1}]}]" -N2) &&
	epilog_wait $id free &&
	freed_are $id "0-1 final" &&
	outstanding $id &&
	end $id
'
test_expect_success 'auto: one that names storage keeps a rank for its action' '
	id=$(submit_with ".resources[0].with += [{type: \"ssd\", count: 1}]" \
	    -N4) &&
	epilog_wait_gone $id 1-3 &&
	freed_are $id "1-3" &&
	epilog_allocated_are 0 &&
	end $id &&
	freed_are $id "1-3 0 final" &&
	epilog_handoffs_are $id "1-3 free"
'
test_expect_success 'auto: so does one that names it beside its nodes' '
	id=$(submit_with ".resources += [{type: \"ssd\", count: 1}]" -N2) &&
	epilog_wait_gone $id 1 &&
	end $id &&
	freed_are $id "1 0 final"
'
test_expect_success 'auto: or in a slot' '
	id=$(submit_with ".resources[0].with[0].with += [
	    {type: \"ssd\", count: 1}]" -N2) &&
	epilog_wait_gone $id 1 &&
	end $id &&
	freed_are $id "1 0 final"
'

#
# auto, and R with a scheduling key.  The job manager has R from the scheduler
# at first, and from the KVS once it was restarted.
#
cat >scheduling.sh <<'EOT'
. ${SHARNESS_TEST_SRCDIR}/sharness.d/epilog-job.sh
. ${SHARNESS_TEST_SRCDIR}/sharness.d/sched-strict.sh
strict_start scheduling
id=$(epilog_submit '[{"description":"a","ranks":""}]' -N4)
epilog_wait_gone $id 1-3
flux job info $id R | jq -e .scheduling
strict_reload scheduling
test "$(strict_told $id)" = "0"
epilog_allocated_are 0
strict_stop
for module in job-list job-exec job-ingest job-manager; do
	flux module remove $module
done
for module in job-manager job-ingest job-exec job-list; do
	flux module load $module
done
strict_start scheduling
test "$(strict_told $id)" = "0"
epilog_allocated_are 0
epilog_finish $id a
epilog_wait $id clean
epilog_handoffs_are $id "1-3 free"
test "$(strict_freed $id)" = "0 final"
EOT
test_expect_success 'auto: a job whose R has a scheduling key keeps a rank' '
	cat >scheduling.toml <<-EOT &&
	[fake-resources]
	nnodes = 4
	cores-per-node = 2
	[job-manager]
	plugins = [ { load = "$(epilog_hold_plugin)" } ]
	EOT
	FLUX_SCHED_MODULE=none flux start -c $(pwd)/scheduling.toml \
	    sh -ex scheduling.sh
'

#
# last-rank.
#
test_expect_success 'last-rank: a job with storage is free with its last rank' '
	final_free "\"last-rank\"" &&
	id=$(submit_with ".resources[0].with += [{type: \"ssd\", count: 1}]" \
	    -N2) &&
	epilog_wait $id free &&
	freed_are $id "0-1 final" &&
	outstanding $id &&
	end $id &&
	epilog_handoffs_are $id "free"
'

#
# last-action.
#
test_expect_success 'last-action: one rank is kept until the action ends' '
	final_free "\"last-action\"" &&
	id=$(epilog_submit "$NONE" -N4) &&
	epilog_wait_gone $id 1-3 &&
	freed_are $id "1-3" &&
	epilog_allocated_are 0 &&
	outstanding $id &&
	end $id &&
	freed_are $id "1-3 0 final" &&
	epilog_handoffs_are $id "1-3 free"
'
test_expect_success 'last-action: it is one of those held longest' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"2-3\"}]" -N4) &&
	epilog_wait_gone $id 0-1 &&
	epilog_finish $id a 2 &&
	epilog_wait_gone $id 2 &&
	epilog_finish $id a 3 &&
	epilog_allocated_are 3 &&
	end $id &&
	freed_are $id "0-1 2 3 final" &&
	epilog_handoffs_are $id "0-1 2 free"
'
test_expect_success 'last-action: with two actions, until the second ends' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"\"},
	    {\"description\":\"b\",\"ranks\":\"1\"}]" -N2) &&
	epilog_wait_gone $id 0 &&
	epilog_finish $id b &&
	epilog_allocated_are 1 &&
	end $id &&
	freed_are $id "0 1 final"
'
test_expect_success 'last-action: a late action keeps it too' '
	id=$(epilog_submit "$NONE" -N2) &&
	epilog_wait_gone $id 1 &&
	flux post-job-event $id epilog-start description=b "ranks=\"\"" &&
	epilog_finish $id a &&
	epilog_allocated_are 0 &&
	end $id b &&
	freed_are $id "1 0 final"
'
test_expect_success 'last-action: a job of one rank is free with its action' '
	id=$(epilog_submit "$NONE" -N1) &&
	epilog_allocated_are 0 &&
	end $id &&
	freed_are $id "0 final" &&
	epilog_handoffs_are $id "free"
'
test_expect_success 'last-action: a job without ranks keys is as ever' '
	id=$(epilog_submit "[{\"description\":\"a\"}]" -N2) &&
	epilog_allocated_are 0-1 &&
	end $id &&
	freed_are $id "0-1 final" &&
	epilog_handoffs_are $id "free"
'

#
# A change applies to jobs that are there.
#
test_expect_success 'a rank that is kept goes when the rule changes' '
	id=$(epilog_submit "$NONE" -N2) &&
	epilog_wait_gone $id 1 &&
	epilog_allocated_are 0 &&
	final_free "\"last-rank\"" &&
	epilog_wait $id free &&
	freed_are $id "1 0 final" &&
	outstanding $id &&
	end $id &&
	epilog_handoffs_are $id "1 free"
'
test_expect_success 'a rank that is held is kept when the rule changes' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"1\"}]" -N2) &&
	epilog_wait_gone $id 0 &&
	final_free "\"last-action\"" &&
	epilog_finish $id a 1 &&
	epilog_allocated_are 1 &&
	outstanding $id
'
test_expect_success 'a bad value changes nothing' '
	test_must_fail final_free "\"first\"" &&
	flux post-job-event $id epilog-start description=b "ranks=\"\"" &&
	epilog_finish $id a &&
	epilog_allocated_are 1
'
test_expect_success 'without the table it is auto again' '
	flux config load </dev/null &&
	epilog_wait $id free &&
	outstanding $id &&
	end $id b &&
	freed_are $id "0 1 final" &&
	epilog_handoffs_are $id "0 free"
'

#
# With housekeeping that does not end on rank 0, and release-after unset.
#
test_expect_success 'configure housekeeping' '
	cat >housekeeping.sh <<-EOT &&
	#!/bin/sh
	exec sleep inf
	EOT
	chmod +x housekeeping.sh &&
	cat >housekeeping.toml <<-EOT &&
	[job-manager.housekeeping]
	command = [ "$(pwd)/housekeeping.sh" ]
	[job-manager.epilog-release]
	final-free = "last-action"
	EOT
	flux config load <housekeeping.toml
'
test_expect_success 'the final free is that of the rank kept back' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"1\"}]" -N3) &&
	epilog_wait_gone $id 0,2 &&
	flux housekeeping kill --all &&
	freed_are $id "0,2" &&
	epilog_finish $id a 1 &&
	epilog_allocated_are 1 &&
	end $id &&
	freed_are $id "0,2 1 final"
'
test_expect_success 'or of the last that housekeeping is done with' '
	id=$(epilog_submit "[{\"description\":\"a\",\"ranks\":\"1\"}]" -N3) &&
	epilog_wait_gone $id 0,2 &&
	end $id &&
	freed_are $id "1" &&
	flux housekeeping kill --all &&
	freed_are $id "1 0,2 final" &&
	epilog_handoffs_are $id "0,2 free"
'
test_expect_success 'the watch saw nothing wrong' '
	flux config load </dev/null &&
	strict_check &&
	epilog_watch_check
'
test_expect_success 'load sched-simple again, unload plugins' '
	strict_stop &&
	flux module load sched-simple &&
	flux jobtap remove epilog-hold.so &&
	flux jobtap remove alloc-check.so
'

test_done
