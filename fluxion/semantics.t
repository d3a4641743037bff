#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

# t2227-epilog-release.t on Fluxion, which gives out the lowest ranks first,
# as that file expects.  With the queue policy fcfs, Fluxion denies a job that names
# ranks in use instead of letting it wait.

. $(dirname $0)/fluxion.sh
export FLUXION_RESOURCE_OPTIONS="match-format=rv1_nosched match-policy=low"
export FLUXION_QMANAGER_OPTIONS="queue-policy=easy"
. $SHARNESS_TEST_SRCDIR/t2227-epilog-release.t
