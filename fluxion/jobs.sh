# SPDX-License-Identifier: LGPL-3.0
#
# Fluxion, and jobs on it.  Functions only, for tests and for scripts that tests
# run in an instance of their own.  They add to sharness.d/epilog-job.sh.

# Options of an instance of 8 fake nodes in two racks, each with an SSD that
# belongs to no rank: see racks.py.
RACKS="--conf=fake-resources.nnodes=8
    --conf=fake-resources.cores-per-node=2
    --conf=fake-resources.gpus-per-node=1
    --conf=fake-resources.amend-r=$FLUXION_DIR/racks.py"

HOLD='[{"description":"a"}]'
NONE='[{"description":"a","ranks":""}]'

# The feasibility module, which an instance begins with, is not loaded again.
fluxion_remove () {
	flux module remove -f sched-fluxion-feasibility &&
	flux module remove sched-fluxion-qmanager &&
	flux module remove sched-fluxion-resource
}

# Usage: fluxion_load FORMAT [FILTERS]
# Load Fluxion with this match-format and these prune-filters, and wait until
# it is ready.  Its first choice is the lowest rank.
fluxion_load () {
	flux module load sched-fluxion-resource match-format=$1 match-policy=low \
	    prune-filters=${2:-ALL:core,ALL:node,ALL:ssd} &&
	fluxion_load_qmanager
}

# A job that fits may start before an older one that does not.  The stats are
# answered after the handshake with the job manager.
fluxion_load_qmanager () {
	flux module load sched-fluxion-qmanager queue-policy=easy &&
	flux module stats sched-fluxion-qmanager >/dev/null
}

# Usage: fluxion_reload FORMAT [FILTERS]
fluxion_reload () {
	fluxion_remove &&
	fluxion_load "$@"
}

# Usage: fluxion_errors
# Print what Fluxion had to complain of since the log was cleared.
fluxion_errors () {
	flux dmesg | sed -n "s/.*\(sched-fluxion.*\.\(err\|crit\)\)/\1/p"
}

fluxion_no_errors () {
	test -z "$(fluxion_errors)" && return 0
	fluxion_errors >&2
	return 1
}

# Usage: run_short OPTION...
# Run a job that ends at once and gets no exception; wait until it is gone.
run_short () {
	local id
	id=$(flux submit --setattr=system.exec.test.run_duration=0.01s "$@" true) &&
	epilog_wait $id clean &&
	flux job status $id
}

# Usage: submit_short OPTION...
# Submit such a job, and print its id.
submit_short () {
	flux submit --setattr=system.exec.test.run_duration=0.01s "$@" true
}

# Usage: run_long OPTION...
# Start a job that runs until it is canceled, and print its id.
run_long () {
	local id
	id=$(flux submit --setattr=system.exec.test.run_duration=600s "$@" true) &&
	epilog_wait $id start &&
	echo $id
}

# Usage: cancel ID...
cancel () {
	local id
	for id in "$@"; do
		flux cancel $id &&
		epilog_wait $id clean || return 1
	done
}

# Usage: has_to_wait ID
# The scheduler looked at the job and found that it has to wait: one core was
# given to another that came after it.
has_to_wait () {
	run_short -n1 &&
	test "$(flux jobs -no {state} $1)" = "SCHED"
}

# Usage: ran ID
# The job ran, and got no exception.
ran () {
	epilog_wait $1 clean &&
	flux job status $1
}

# Usage: submit_changed FILTER [HOLDS]
# Submit a job that ends at once, whose resources a filter for jq gives.  Print
# its id.
submit_changed () {
	flux run --dry-run --env-remove="*" -N1 \
	    --setattr=system.exec.test.run_duration=0.01s \
	    --setattr=system.epilog-hold="${2:-[]}" true \
	    | jq ".resources = $1" \
	    | flux job submit
}

# Usage: submit_ssd [HOLDS]
# Submit such a job with both SSDs, and a node in the rack of each.
submit_ssd () {
	submit_changed "[{type: \"slot\", count: 2, label: \"task\", with: [
	    {type: \"node\", count: 1, exclusive: true,
	     with: [{type: \"core\", count: 1}]},
	    {type: \"ssd\", count: 100, exclusive: true}]}]" "$1"
}

# Usage: submit_ssd_by_rack [HOLDS]
# The same, with two nodes in each rack, in the form of a rabbit's jobspec.
submit_ssd_by_rack () {
	submit_changed "[{type: \"rack\", count: 2, with: [
	    {type: \"node\", count: 2, exclusive: true, with: [
	        {type: \"slot\", count: 1, label: \"task\",
	         with: [{type: \"core\", count: 1}]}]},
	    {type: \"ssd\", count: 100, exclusive: true}]}]" "$1"
}

# Usage: submit_rack [HOLDS]
# Submit such a job with a rack of 4 nodes for itself.
submit_rack () {
	submit_changed "[{type: \"slot\", count: 1, label: \"task\", with: [
	    {type: \"rack\", count: 1, exclusive: true, with: [
	        {type: \"node\", count: 4, exclusive: true,
	         with: [{type: \"core\", count: 1}]}]}]}]" "$1"
}

# Usage: frees ID
# Print what each sched.free of the job named, in order, "final" with the last.
frees () {
	jq -r "select (.what == \"free\" and .id == $(flux job id --to=dec $1))
	       | [ .R.execution.R_lite[].rank ] +
	         (if .final then [ \"final\" ] else [] end) | join (\" \")" \
	    epilog-watch.jsonl | paste -s -d " "
}

# Usage: frees_are ID "FREES"
# The watch is told a little later.
frees_are () {
	test_wait_until -i 100 "test \"\$(frees $1)\" = \"$2\"" && return
	echo >&2 "frees of $1: got '$(frees $1)', want '$2'"
	return 1
}

# Usage: final_free VALUE
final_free () {
	flux config load <<-EOT
	[job-manager.epilog-release]
	final-free = "$1"
	EOT
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
