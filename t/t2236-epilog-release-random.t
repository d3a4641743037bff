#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test partial release by epilogs with random events

Random sequences of good and bad epilog events of many jobs at once, through
scheduler reloads, restarts, crashes and changes of configuration, and hostile
events by each way in.  Whatever happens is held against a model, see
scripts/epilog_model.py.

EPILOG_RANDOM_COUNT sequences are played, 500 if it is not set, from seed
EPILOG_RANDOM_SEED, 1 if it is not set.
'

# Append --logfile option if FLUX_TESTS_LOGFILE is set in environment:
test -n "$FLUX_TESTS_LOGFILE" && set -- "$@" --logfile
. $(dirname $0)/sharness.sh

SCRIPTS=${SHARNESS_TEST_SRCDIR}/scripts
COUNT=${EPILOG_RANDOM_COUNT:-500}
SEED=${EPILOG_RANDOM_SEED:-1}
PART=250 # sequences in one instance

# Usage: random_sequences FIRST COUNT
random_sequences () {
	flux python ${SCRIPTS}/epilog-random.py --plugin=$(epilog_hold_plugin) \
	    --folder=random.$1 --seed=$SEED --first=$1 --count=$2 &&
	rm -rf random.$1
}

first=0
while test $first -lt $COUNT; do
	count=$(($COUNT-$first))
	test $count -gt $PART && count=$PART
	last=$(($first+$count-1))
	test_expect_success "seed $SEED: sequences $first to $last" '
		random_sequences $first $count
	'
	first=$(($first+$count))
done

test_expect_success "seed $SEED: hostile events" '
	flux python ${SCRIPTS}/epilog-fuzz.py --plugin=$(epilog_hold_plugin) \
	    --seed=$SEED --count=2000 &&
	rm -rf fuzz
'

test_done
