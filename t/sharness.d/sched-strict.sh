# SPDX-License-Identifier: LGPL-3.0
#
# The scheduler t/scheduler/sched-strict.py, and what it has been told.
#
# Functions only.  Its head says what it takes for a fault.

# Usage: strict_start [OPTION]...
# Load it, no scheduler being loaded, and wait until it is ready.
strict_start () {
	flux module load ${SHARNESS_TEST_SRCDIR}/scheduler/sched-strict.py "$@" &&
	strict_check
}

# It found no fault.  It can't answer before it is ready.
strict_check () {
	flux module stats sched-strict >strict.json &&
	jq -e ".faults == []" strict.json >/dev/null && return 0
	cat strict.json >&2
	return 1
}

# It found no fault, and is unloaded.
strict_stop () {
	strict_check &&
	flux module remove sched-strict
}

# Usage: strict_reload [OPTION]...
strict_reload () {
	strict_stop &&
	strict_start "$@"
}

# Usage: strict_told ID
# Print what hello told of the job: the ranks that it has left.
strict_told () {
	strict_check &&
	jq -r ".hello[] | select (.id == \"$(flux job id --to=dec $1)\") | .ranks" \
	    strict.json
}

# Usage: strict_freed ID
# Print the ranks of each free of the job since the scheduler was loaded, with
# "final" after those of the final one.
strict_freed () {
	strict_check &&
	jq -r ".frees[]
	       | select (.id == \"$(flux job id --to=dec $1)\")
	       | .ranks + if .final then \" final\" else \"\" end" strict.json \
	    | paste -s -d " "
}
