# SPDX-License-Identifier: LGPL-3.0
#
# Let a sharness file run in a patched flux-core tree, FLUX_CORE_DIR, with the
# scheduler of a flux-sched tree, FLUX_SCHED_DIR.  Both have to be built; they are
# ~/flux-core-epilog and ~/flux-sched if not set.

: ${FLUX_CORE_DIR:=${REAL_HOME:-$HOME}/flux-core-epilog}
: ${FLUX_SCHED_DIR:=${REAL_HOME:-$HOME}/flux-sched}
FLUX_CORE_DIR=$(readlink -m $FLUX_CORE_DIR)
FLUX_SCHED_DIR=$(readlink -m $FLUX_SCHED_DIR)
FLUXION_DIR=$(cd $(dirname $0) && pwd)
export FLUX_CORE_DIR FLUX_SCHED_DIR FLUXION_DIR

for file in $FLUX_CORE_DIR/t/sharness.d/epilog-job.sh \
    $FLUX_CORE_DIR/src/cmd/flux \
    $FLUX_SCHED_DIR/build/resource/modules/sched-fluxion-resource.so \
    $FLUX_SCHED_DIR/build/qmanager/modules/sched-fluxion-qmanager.so; do
	if ! test -f $file; then
		echo "Bail out! $file: not found: set FLUX_CORE_DIR and" \
		    "FLUX_SCHED_DIR to trees that are built"
		exit 1
	fi
done

# An instance loads Fluxion if it finds it.
export FLUX_MODULE_PATH_PREPEND=$FLUX_SCHED_DIR/build/resource/modules:$FLUX_SCHED_DIR/build/qmanager/modules
export FLUX_MODPROBE_PATH_APPEND=$FLUX_SCHED_DIR/etc/modprobe

export FLUX_BUILD_DIR=$FLUX_CORE_DIR
export SHARNESS_BUILD_DIRECTORY=$FLUX_CORE_DIR
export SHARNESS_TEST_SRCDIR=$FLUX_CORE_DIR/t
export HARNESS_ACTIVE=t # or sharness leaves its counts here
