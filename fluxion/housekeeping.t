#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

# t2228-epilog-release-housekeeping.t on Fluxion, which gives out the lowest ranks first,
# as that file expects.

. $(dirname $0)/fluxion.sh
export FLUXION_RESOURCE_OPTIONS="match-format=rv1_nosched match-policy=low"
. $SHARNESS_TEST_SRCDIR/t2228-epilog-release-housekeeping.t
