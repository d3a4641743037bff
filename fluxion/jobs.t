#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

# t2225-epilog-release-jobs.t on Fluxion, which gives out the lowest ranks first,
# as that file expects.

. $(dirname $0)/fluxion.sh
export FLUXION_RESOURCE_OPTIONS="match-format=rv1 match-policy=low"
. $SHARNESS_TEST_SRCDIR/t2225-epilog-release-jobs.t
