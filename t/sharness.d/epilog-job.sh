# SPDX-License-Identifier: LGPL-3.0
#
# Jobs with epilog actions, and what becomes of their resources.
#
# Functions only, for tests and for scripts that tests run in an instance of
# their own.  SHARNESS_TEST_SRCDIR and FLUX_BUILD_DIR have to be set.

# May gdb attach to processes of this user?
epilog_gdb_works () {
	gdb -nx --batch -p $$ -ex detach >/dev/null 2>&1
}

# Path of the plugin that starts the epilog actions.
epilog_hold_plugin () {
	echo ${FLUX_BUILD_DIR}/t/job-manager/plugins/.libs/epilog-hold.so
}

# Usage: epilog_submit HOLDS [OPTION]...
# Submit a job that ends without anything run, and wait until nothing but its
# epilog actions can hold it.  HOLDS is a JSON array of epilog-start contexts.
# Print the job id.
epilog_submit () {
	local holds="$1"
	local id
	shift
	id=$(flux submit \
	    --env-remove="*" \
	    --setattr=system.exec.test.run_duration=0.01s \
	    --setattr=system.epilog-hold="$holds" \
	    "$@" true) &&
	epilog_wait $id release &&
	echo $id
}

# Usage: epilog_finish ID DESCRIPTION [RANKS]
epilog_finish () {
	flux post-job-event $1 epilog-finish \
	    description=$2 status=0 ${3+ranks="\"$3\""}
}

# Usage: epilog_wait_gone ID RANKS
# Wait until RANKS have gone as one while the job goes on.
epilog_wait_gone () {
	flux job wait-event -q -t 60 -m ranks=$2 $1 partial-free
}

# Usage: epilog_wait ID EVENT
epilog_wait () {
	flux job wait-event -q -t 60 $1 $2
}

# Usage: epilog_wait_until QUERY [SECONDS]
# As test_wait_until, for scripts too.
epilog_wait_until () {
	local tries=$((10*${2:-60}))
	until eval "$1"; do
		tries=$(($tries-1))
		test $tries -gt 0 || return 1
		sleep 0.1
	done
}

# Usage: epilog_handoffs ID
# Print what went, in order: ranks for a partial-free, "free" for a free.
epilog_handoffs () {
	flux job info $1 eventlog \
	    | jq -r "select (.name == \"partial-free\" or .name == \"free\")
	             | .context.ranks // .name" \
	    | paste -s -d " "
}

# Usage: epilog_handoffs_are ID "RANKS... free"
epilog_handoffs_are () {
	local handoffs
	handoffs="$(epilog_handoffs $1)"
	test "$handoffs" = "$2" && return 0
	echo >&2 "handoffs of $1: got '$handoffs', want '$2'"
	return 1
}

# Usage: epilog_allocated_are RANKS
# The job manager and the scheduler both say that these are allocated.
epilog_allocated_are () {
	local manager
	local sched
	manager="$(flux resource list -s allocated -no {ranks})"
	sched="$(FLUX_RESOURCE_LIST_RPC=sched.resource-status \
		flux resource list -s allocated -no {ranks})"
	test "$manager" = "$1" && test "$sched" = "$1" && return 0
	echo >&2 "allocated: job manager '$manager', scheduler '$sched', want '$1'"
	return 1
}
