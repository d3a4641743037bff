#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test restart of an instance on Fluxion

Jobs have let go of a part when the instance stops, or crashes.  When it comes
back, Fluxion gives what they have left to no other, nor the SSDs of a job.
'

. $(dirname $0)/sharness.sh

export FLUX_BUILD_DIR SHARNESS_TEST_SRCDIR FLUXION_DIR

# Usage: configure FORMAT
configure () {
	cat >config.toml <<-EOT
	[sched-fluxion-resource]
	match-format = "$1"
	match-policy = "low"
	prune-filters = "ALL:core,ALL:node,ALL:ssd"
	[sched-fluxion-qmanager]
	queue-policy = "easy"
	[job-manager]
	plugins = [ { load = "$(epilog_hold_plugin)" } ]
	[fake-resources]
	nnodes = 8
	cores-per-node = 2
	gpus-per-node = 1
	EOT
}

cat >functions.sh <<'EOT'
. $SHARNESS_TEST_SRCDIR/sharness.d/epilog-job.sh
. $SHARNESS_TEST_SRCDIR/sharness.d/epilog-watch.sh
. $FLUXION_DIR/jobs.sh

# Usage: left_are RANKS
# These are allocated, and all others are given to one who wants them.
left_are () {
	local count=$(flux resource list -i $1 -no {nnodes})
	local next
	epilog_allocated_are $1
	run_short -N$((8-$count))
	next=$(submit_short -N$((9-$count)))
	has_to_wait $next
	cancel $next
}
EOT

# Four jobs of two ranks each:
#
#   first   has the SSDs, if there are any, and let go of its second rank
#   held    let go of none
#   part    let go of its first rank
#   none    its action holds no rank
#
# A crash loses what was done after the KVS was last written down: lost().
cat >begin.sh <<'EOT'
case $format in
rv1)
	first=$(submit_ssd "$HOLD")
	epilog_wait $first release
	epilog_finish $first a 4
	held=$(epilog_submit "$HOLD" -N2 --requires=rank:1-2)
	part=$(epilog_submit "$HOLD" -N2 --requires=rank:3,5)
	epilog_finish $part a 3
	none=$(epilog_submit "$NONE" -N2 --requires=rank:6-7)
	epilog_wait_gone $none 7
	left=0-2,5-6
	then=1-2,5-6
	;;
rv1_nosched)
	first=$(epilog_submit "$HOLD" -N2)
	epilog_finish $first a 1
	held=$(epilog_submit "$HOLD" -N2 --requires=rank:2-3)
	part=$(epilog_submit "$HOLD" -N2 --requires=rank:4-5)
	epilog_finish $part a 4
	none=$(epilog_submit "$NONE" -N2 --requires=rank:6-7)
	epilog_wait $none free
	left=0,2-3,5
	then=2-3,5
	;;
esac
epilog_wait $first partial-free
epilog_wait $part partial-free
left_are $left
for name in format left then first held part none; do
	eval echo $name=\$$name
done >jobs

lost () {
	end $part
	epilog_finish $held a
	epilog_wait $held clean
}
EOT
cat >middle.sh <<'EOT'
left_are $left
if test $format = rv1; then
	next=$(submit_ssd)
	has_to_wait $next
	cancel $next
fi
epilog_finish $first a
epilog_wait $first clean
epilog_handoffs_are $first "$(test $format = rv1 && echo 4 || echo 1) free"
left_are $then
if test $format = rv1; then
	ran $(submit_ssd)
fi

lost () {
	end $part
	end $none
}
EOT
cat >end.sh <<'EOT'
left_are $then
end $held
end $part
end $none
epilog_allocated_are ""
run_short -N8
epilog_handoffs_are $held free
case $format in
rv1)
	epilog_handoffs_are $part "3 free"
	epilog_handoffs_are $none "7 free"
	ran $(submit_ssd)
	;;
*)
	epilog_handoffs_are $part "4 free"
	epilog_handoffs_are $none free
	;;
esac
EOT

# Usage: instance SCRIPT stop|crash
# Start an instance where the last one ended, run SCRIPT in it, and end it.
instance () {
	local code
	cat >step.sh <<-EOT &&
	. ./jobs
	. ./functions.sh
	flux module stats sched-fluxion-qmanager >/dev/null
	epilog_watch_start
	. ./$1
	fluxion_no_errors
	epilog_watch_check epilog-watch.jsonl --active-ok
	test $2 = crash || exit 0
	flux kvs sync
	lost
	kill -9 \$(flux getattr broker.pid)
	EOT
	case $2 in
		stop) code=0 ;;
		crash) code=137 ;;
	esac &&
	test_expect_code $code flux start -Sstatedir=$(pwd)/state \
	    -c $(pwd)/config.toml sh -ex step.sh
}

for format in rv1 rv1_nosched; do
	test_expect_success "$format: configure an instance of 8 nodes" '
		configure $format
	'
	# Without a graph, Fluxion does not find a job again that is in a rack:
	# see faults.t.
	test $format = rv1 &&
	test_expect_success "$format: in two racks, each with an SSD" '
		echo "amend-r = \"$FLUXION_DIR/racks.py\"" >>config.toml
	'
	for first in stop crash; do
		if test $first = stop; then second=crash; else second=stop; fi
		test_expect_success "$format: jobs let go of parts, then $first" '
			rm -rf state &&
			mkdir state &&
			echo format=$format >jobs &&
			instance begin.sh $first
		'
		test_expect_success "$format: after $first they go on, then $second" '
			instance middle.sh $second
		'
		test_expect_success "$format: after $first and $second they end properly" '
			instance end.sh stop
		'
	done
done

test_done
