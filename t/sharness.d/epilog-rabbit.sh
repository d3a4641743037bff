# SPDX-License-Identifier: LGPL-3.0
#
# The service scripts/epilog-rabbit.py and its plugin, and what they do to jobs.
#
# Functions only, for tests and for scripts that tests run in an instance of
# their own.  They want those of epilog-job.sh, SHARNESS_TEST_SRCDIR and
# FLUX_BUILD_DIR.

# Settings for a job: each step waits until it is told to be done.
RABBIT_WAIT='"unmount":"wait","move":"wait","teardown":"wait"'

# Path of the plugin.
rabbit_plugin () {
	echo ${FLUX_BUILD_DIR}/t/job-manager/plugins/.libs/epilog-rabbit.so
}

# Usage: rabbit_rpc TOPIC [JSON]
rabbit_rpc () {
	printf "%s" "$2" | timeout 60 ${FLUX_BUILD_DIR}/t/request/rpc $1
}

# Usage: rabbit_plugin_rpc NAME ID MEMBERS
# What the service sends to its plugin.
rabbit_plugin_rpc () {
	rabbit_rpc job-manager.epilog-rabbit.$1 "{\"id\":$(flux job id --to=dec $2),$3}"
}

# Start the service.  What it prints is appended to service.out and service.err.
rabbit_start () {
	flux python ${SHARNESS_TEST_SRCDIR}/scripts/epilog-rabbit.py \
	    >>service.out 2>>service.err &
	service=$!
	epilog_wait_until "rabbit_rpc rabbit.status >status.json 2>status.err"
}

# Crash it.
rabbit_kill () {
	kill -9 $service
	wait $service 2>killed.err
	test $? -eq 137
}

# Usage: rabbit_tell ID STEP [RANKS] [OK]
# Work that waits is done, or failed if OK is false.
rabbit_tell () {
	rabbit_rpc rabbit.tell "{\"id\":$(flux job id --to=dec $1),\"step\":\"$2\",
	    \"ranks\":\"$3\",\"ok\":${4-true}}" >tell.json
}

# Usage: rabbit_said ID WHAT
# Wait until the service did this.
rabbit_said () {
	epilog_wait_until "grep -q \"^$1 $2\$\" service.out"
}

# Usage: rabbit_did ID "WHAT, WHAT"
# The service did just this for the job, from the beginning to the end.
rabbit_did () {
	rabbit_did_last $1 "begins, $2, remove" "^"
}

# Usage: rabbit_did_last ID "WHAT, WHAT" [ANCHOR]
# This is what it did last.
rabbit_did_last () {
	local steps
	steps="$(grep "^$1 " service.out | grep -v storage \
	    | cut -d" " -f2- | paste -s -d, | sed "s/,\([a-z]\)/, \1/g")"
	echo "$steps" | grep -q "$3$2\$" && return 0
	echo >&2 "did for $1: '$steps', want '$2'"
	return 1
}

# Usage: rabbit_submit SETTINGS [OPTION]...
# Submit a job that ends, and wait until nothing but its epilog can hold it, and
# the service is at work.  Print its id.
rabbit_submit () {
	local settings="$1"
	local id
	shift
	id=$(flux submit --env-remove="*" \
	    --setattr=system.exec.test.run_duration=0.01s \
	    --setattr=system.rabbit="$settings" "$@" true) &&
	epilog_wait $id release &&
	rabbit_said $id begins &&
	echo $id
}

# Usage: rabbit_run_on RANK
# Another job gets the rank, and ends, while this one is held.
rabbit_run_on () {
	local id
	id=$(flux submit --env-remove="*" --requires=rank:$1 -N1 \
	    --setattr=system.exec.test.run_duration=0.01s true) &&
	epilog_wait $id clean
}

# Usage: rabbit_in_cleanup ID
rabbit_in_cleanup () {
	test "$(flux jobs -no {state} $1)" = "CLEANUP"
}

# Usage: rabbit_ended ID STATUS "HANDOFFS"
# The job ends, with that status of its epilog, and what went is this.
rabbit_ended () {
	local status
	epilog_wait $1 clean &&
	status=$(flux job info $1 eventlog \
	    | jq -r "select (.name == \"epilog-finish\" and
	        .context.description == \"rabbit-epilog\" and
	        (.context | has(\"ranks\") | not)) | .context.status") &&
	test "$status" = "$2" &&
	epilog_handoffs_are $1 "$3"
}

# Usage: rabbit_excepted ID TYPE
# The job has a fatal exception of that type.
rabbit_excepted () {
	flux job wait-event -q -t 60 -m severity=0 -m type=$2 $1 exception
}

# Usage: rabbit_status_is STATUS RANKS
# Wait until flux resource lists these.
rabbit_status_is () {
	epilog_wait_until "test \"\$(flux resource status -s $1 -no {ranks})\" = \"$2\""
}

# The service and the scheduler have nothing to complain of, and nothing left.
rabbit_check () {
	strict_check &&
	test_debug "cat service.err" &&
	test_must_be_empty service.err &&
	rabbit_rpc rabbit.status | jq -e ". == {jobs: {}, storage: []}" &&
	flux queue drain --timeout=60s &&
	epilog_watch_check
}
