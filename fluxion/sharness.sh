# SPDX-License-Identifier: LGPL-3.0
#
# For the tests here what the file of this name is for flux-core's.

. $(dirname $0)/fluxion.sh
. $SHARNESS_TEST_SRCDIR/sharness.sh
. $FLUXION_DIR/jobs.sh

# Leave a job alone that an epilog holds, if a test failed or was meant to.
export FLUX_DISABLE_JOB_CLEANUP=t

# Be patient with a busy machine.
TEST_WAIT_UNTIL_DEFAULT_ITERS=600
