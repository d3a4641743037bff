#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test partial release by epilogs across restarts

Whatever step a job is at when its instance stops or crashes: no rank is handed
over twice, what an epilog action holds stays held, and the job ends properly.
'

# Append --logfile option if FLUX_TESTS_LOGFILE is set in environment:
test -n "$FLUX_TESTS_LOGFILE" && set -- "$@" --logfile
. $(dirname $0)/sharness.sh

# Leave jobs as they are when an instance stops.
export FLUX_DISABLE_JOB_CLEANUP=t
export SHARNESS_TEST_SRCDIR FLUX_BUILD_DIR

DUMPS=${SHARNESS_TEST_SRCDIR}/job-manager/dumps

test_expect_success 'create configuration for instance of 64 ranks' '
	cat >restart.toml <<-EOT
	[fake-resources]
	nnodes = 64
	cores-per-node = 2
	[job-manager]
	plugins = [ { load = "$(epilog_hold_plugin)" } ]
	EOT
'

cat >functions.sh <<'EOT'
. ${SHARNESS_TEST_SRCDIR}/sharness.d/epilog-job.sh
. ${SHARNESS_TEST_SRCDIR}/sharness.d/epilog-watch.sh
. ${SHARNESS_TEST_SRCDIR}/sharness.d/sched-strict.sh

# Usage: edit ID FILTER
# Change the eventlog of a job in the KVS.  FILTER is for jq, gets an array of
# events, and may use $a and $b, the two ranks of the job.
edit () {
	local key=$(flux job id --to=kvs $1).eventlog
	local ranks=$(flux job info $1 R | jq -r .execution.R_lite[0].rank)
	flux kvs get --raw $key >eventlog.$1
	jq -s -c --arg a ${ranks%-*} --arg b ${ranks#*-} "
	    def post(n; c): . + [ { timestamp: (last.timestamp + 0.1),
	                            name: n, context: c } ];
	    def start(c): (.[] | select (.name == \"epilog-start\")).context |= c;
	    $2 | .[]" eventlog.$1 >edited.$1
	flux kvs put --raw $key=- <edited.$1
}

crash () {
	kill -9 $(flux getattr broker.pid)
}
EOT

#
# Jobs at each step, each on ranks of its own:
#
#   held    0-1    action a holds all, none went
#   part    2-3    a let go of 2
#   gone    4-5    a holds none, all went
#   two     6-7    a holds 6, b held 7 and has ended
#   kept    8-9    a holds none, 8 is kept back for the last action
#   twice   10-11  two actions a, of which one has ended
#   run     12-13  still running, action a, placed in RUN, holds 13, and b none
#   stock   14-15  actions a and b without ranks, b has ended
#
# A crash loses what was done after the KVS was last written down: lost().
#
test_expect_success 'create jobspec, and one that names storage' '
	flux run --dry-run --env-remove="*" -N2 \
	    --setattr=system.exec.test.run_duration=0.01s \
	    --setattr=system.epilog-hold="[{\"description\":\"a\"}]" \
	    true >plain.json &&
	jq ".resources[0].with += [{type: \"ssd\", count: 1}] |
	    .attributes.system.constraints = {ranks: [\"8-9\"]} |
	    .attributes.system[\"epilog-hold\"][0].ranks = \"\"" \
	    plain.json >storage.json
'
cat >begin.sh <<'EOT'
held=$(epilog_submit '[{"description":"a"}]' -N2 --requires=rank:0-1)
part=$(epilog_submit '[{"description":"a"}]' -N2 --requires=rank:2-3)
epilog_finish $part a 2
epilog_wait_gone $part 2
gone=$(epilog_submit '[{"description":"a","ranks":""}]' \
    -N2 --requires=rank:4-5)
epilog_wait $gone free
two=$(epilog_submit \
    '[{"description":"a","ranks":"6"},{"description":"b","ranks":"7"}]' \
    -N2 --requires=rank:6-7)
epilog_finish $two b
epilog_wait_gone $two 7
kept=$(flux job submit storage.json)
epilog_wait_gone $kept 9
twice=$(epilog_submit '[{"description":"a"},{"description":"a"}]' \
    -N2 --requires=rank:10-11)
epilog_finish $twice a
run=$(flux submit -N2 --requires=rank:12-13 \
    --setattr=system.exec.test.run_duration=600s \
    --setattr=system.epilog-hold-run='[{"description":"a","ranks":"13"},
        {"description":"b","ranks":""}]' true)
epilog_wait $run start
stock=$(epilog_submit '[{"description":"a"},{"description":"b"}]' \
    -N2 --requires=rank:14-15)
epilog_finish $stock b
epilog_allocated_are 0-1,3,6,8,10-15
for name in held part gone two kept twice run stock; do
	eval echo $name=\$$name
done >jobs

lost () {
	epilog_finish $held a 0
	epilog_wait_gone $held 0
	epilog_finish $two a
	epilog_wait $two clean
}
EOT
cat >middle.sh <<'EOT'
. ./jobs
test "$(flux resource list -s allocated -i 0-9 -no {ranks})" = "0-1,3,6,8"
test "$(strict_told $held)" = "0-1"
test "$(strict_told $part)" = "3"
test "$(strict_told $gone)" = ""
test "$(strict_told $two)" = "6"
test "$(strict_told $kept)" = "8"
test "$(strict_told $twice)" = "10-11"
test "$(strict_told $stock)" = "14-15"
flux job raise $run # a running job survives a stop, but not a crash
epilog_wait_gone $run 12
epilog_allocated_are 0-1,3,6,8,10-11,13-15
# what has gone is for others to have
id=$(flux submit -N6 --requires=rank:2,4-5,7,9,12 \
    --setattr=system.exec.test.run_duration=0.01s true)
epilog_wait $id clean
epilog_finish $held a 0
epilog_wait_gone $held 0
if flux post-job-event $gone epilog-start description=b 'ranks="4"'; then
	exit 1 # it has gone
fi
epilog_finish $gone a
epilog_wait $gone clean
# a plugin may start its action again, not knowing that it is there
flux post-job-event $twice epilog-start description=a
epilog_finish $twice a
epilog_finish $run a
epilog_wait $run free
test "$(flux jobs -no {state} $run)" = "CLEANUP"
epilog_finish $run b
epilog_wait $run clean
epilog_allocated_are 1,3,6,8,10-11,14-15

lost () {
	epilog_finish $kept a
	epilog_wait $kept clean
	flux post-job-event $part epilog-start description=c
	epilog_finish $part a
}
EOT
cat >end.sh <<'EOT'
. ./jobs
test "$(strict_told $held)" = "1"
test "$(strict_told $part)" = "3"
test "$(strict_told $gone)" = ""
test "$(strict_told $two)" = "6"
test "$(strict_told $kept)" = "8"
test "$(strict_told $twice)" = "10-11"
test "$(strict_told $run)" = ""
test "$(strict_told $stock)" = "14-15"
epilog_allocated_are 1,3,6,8,10-11,14-15
for name in held part two kept twice stock; do
	eval id=\$$name
	epilog_finish $id a
	epilog_wait $id clean
done
epilog_allocated_are ""
epilog_handoffs_are $held "0 free"
epilog_handoffs_are $part "2 free"
epilog_handoffs_are $gone "free"
epilog_handoffs_are $two "7 free"
epilog_handoffs_are $kept "9 free"
epilog_handoffs_are $twice "free"
epilog_handoffs_are $run "12 free"
epilog_handoffs_are $stock "free"
flux dmesg >end.log
if grep "job-manager.*\(err\|crit\)" end.log; then exit 1; fi
EOT

# Usage: instance SCRIPT stop|crash
# Start an instance where the last one ended, run SCRIPT in it, and end it.
instance () {
	cat >step.sh <<-EOT &&
	. ./functions.sh
	epilog_watch_start
	flux module remove sched-simple
	strict_start
	. ./$1
	strict_check
	epilog_watch_check epilog-watch.jsonl --active-ok
	test $2 = crash || exit 0
	flux kvs sync
	lost
	crash
	EOT
	case $2 in
		stop) code=0 ;;
		crash) code=137 ;;
	esac &&
	test_expect_code $code \
	    flux start -Sstatedir=$(pwd)/state -c $(pwd)/restart.toml sh -ex step.sh
}

for first in stop crash; do
	if test $first = stop; then second=crash; else second=stop; fi
	test_expect_success "jobs reach each step, then $first" '
		rm -rf state &&
		mkdir state &&
		instance begin.sh $first
	'
	test_expect_success "after $first they go on, then $second" '
		instance middle.sh $second
	'
	test_expect_success "after $first and $second they end properly" '
		instance end.sh stop
	'
done

#
# Eventlogs with what is refused today, from a job manager that knew no better
# or from a hand edit.  Action a has started on both ranks of the job, $a and $b.
#
# NAME@FILTER@HELD@LOGGED: a filter for edit(), the ranks that the job holds
# after replay, and what is logged of it, if anything.
#
cat >odd <<'EOT'
start-number@start({description:"a",ranks:0})@$a-$b@holds all ranks: .* 0 is not a string
start-null@start({description:"a",ranks:null})@$a-$b@holds all ranks: .* null is not a string
start-text@start({description:"a",ranks:"x"})@$a-$b@holds all ranks: .*'x' is not an idset
start-huge@start({description:"a",ranks:"0-4294967294"})@$a-$b@holds all ranks: .* is not in the job's R
start-other@start({description:"a",ranks:"1000"})@$a-$b@holds all ranks: .*rank 1000 is not in the job's R
start-nameless@start({ranks:$a})@$a-$b@holds all ranks: description is missing
finish-number@post("epilog-finish";{description:"a",ranks:1})@$a-$b@ignored: .* 1 is not a string
finish-text@post("epilog-finish";{description:"a",ranks:"1-"})@$a-$b@ignored: .*'1-' is not an idset
finish-none@post("epilog-finish";{description:"a",ranks:""})@$a-$b@ignored: 
finish-other@post("epilog-finish";{description:"a",ranks:"1000"})@$a-$b@ignored: .*rank 1000 is not in the job's R
finish-unknown@post("epilog-finish";{description:"x",ranks:$a})@$a-$b@ignored: .*x
finish-nameless@post("epilog-finish";{ranks:$a})@$a-$b@ignored: description is missing
finish-which@post("epilog-start";{description:"b"})|post("epilog-finish";{description:"x"})@$a-$b@ignored: .*x
part-missing@post("partial-free";{})@$a-$b@ignored: ranks is missing
part-number@post("partial-free";{ranks:0})@$a-$b@ignored: .* 0 is not a string
part-other@post("partial-free";{ranks:"1000"})@$a-$b@ignored: .*rank 1000 is not in the job's R
part-held@post("partial-free";{ranks:$a})@$b@
part-twice@post("partial-free";{ranks:$a})|post("partial-free";{ranks:$a})@$b@
part-all@post("partial-free";{ranks:"all"})@@
EOT
cat >odd-make.sh <<'EOT'
while IFS=@ read -r name filter held log; do
	id=$(flux job submit plain.json)
	epilog_wait $id release
	edit $id "$filter"
	echo "$id@$name@$filter@$held@$log" >>odd-jobs
done <odd
EOT
cat >odd-check.sh <<'EOT'
strict_start
flux dmesg >odd.log
# of all jobs first, before any event makes the job manager act on one
while IFS=@ read -r id name filter held log; do
	echo "== $name"
	ranks=$(flux job info $id R | jq -r .execution.R_lite[0].rank)
	a=${ranks%-*}
	b=${ranks#*-}
	test "$(strict_told $id)" = "$(eval echo $held)"
	grep "job-manager.err.*$id" odd.log >logged || true
	cat logged
	if test -n "$log"; then
		test $(grep -c . logged) -eq 1
		grep "$log" logged
	else
		test ! -s logged
	fi
done <odd-jobs
# a was renamed in one, and has company in another
while IFS=@ read -r id name filter held log; do
	echo "== $name"
	test $name = finish-which && epilog_finish $id b
	epilog_finish $id a
	epilog_wait $id clean
done <odd-jobs
epilog_allocated_are ""
EOT
test_expect_success 'make jobs with odd eventlogs' '
	cat functions.sh odd-make.sh >odd1.sh &&
	flux start -c $(pwd)/restart.toml -Scontent.dump=$(pwd)/odd.tar \
	    sh -ex odd1.sh
'
test_expect_success 'they are kept, hold what they may, and end properly' '
	cat functions.sh odd-check.sh >odd2.sh &&
	FLUX_SCHED_MODULE=none \
	    flux start -c $(pwd)/restart.toml -Scontent.restore=$(pwd)/odd.tar \
	    sh -e odd2.sh
'

#
# A job of 4 ranks as of v0.88.0 with partial release.  Action a has let go of
# rank 1, and action b, which held rank 3, has ended.  See also t2219.
#
cat >dump.sh <<'EOT'
strict_start
id=$(flux jobs -n -o {id.f58} -f pending,running)
test "$(strict_told $id)" = "0,2-3"
epilog_finish $id a 0
epilog_wait_gone $id 0
epilog_finish $id a
epilog_wait $id clean
epilog_handoffs_are $id "1 0 free"
test "$(strict_freed $id)" = "0 2-3 final"
epilog_allocated_are ""
EOT
test_expect_success 'a partly released job goes on from a stored dump' '
	cat functions.sh dump.sh >dump1.sh &&
	FLUX_SCHED_MODULE=none \
	    flux start -c $(pwd)/restart.toml \
	    -Scontent.restore=${DUMPS}/valid/dump-0-88-0-partial-free.tar.bz2 \
	    sh -ex dump1.sh
'

#
# Housekeeping is not run again on ranks that went, done or not, before restart.
#
cat >hk-begin.sh <<'EOT'
id=$(epilog_submit '[{"description":"a"}]' -N2)
epilog_finish $id a 1
epilog_wait_gone $id 1
epilog_wait_until "test -s hk.1" 20
flux housekeeping list -no "{id.f58} {ranks}" | grep "$id 1"
EOT
cat >hk-end.sh <<'EOT'
id=$(flux job last)
test "$(flux housekeeping list -no {id})" = ""
epilog_allocated_are 0
epilog_finish $id a
epilog_wait $id clean
epilog_wait_until "test -s hk.0" 20
flux housekeeping kill --all
epilog_wait_until "epilog_allocated_are \"\"" 20
cat hk.0 hk.1
test $(wc -l <hk.0) -eq 1
test $(wc -l <hk.1) -eq 1
EOT
test_expect_success 'create housekeeping script that does not end' '
	cat >housekeeping.sh <<-EOT &&
	#!/bin/sh
	echo \$FLUX_JOB_ID \$FLUX_JOB_RANKS >>$(pwd)/hk.\$(flux getattr rank)
	exec sleep inf
	EOT
	chmod +x housekeeping.sh &&
	cat >hk.toml <<-EOT
	[job-manager]
	plugins = [ { load = "$(epilog_hold_plugin)" } ]
	[job-manager.housekeeping]
	command = [ "$(pwd)/housekeeping.sh" ]
	release-after = "0"
	EOT
'
test_expect_success 'stop while housekeeping runs on a rank that went' '
	rm -rf state &&
	mkdir state &&
	cat functions.sh hk-begin.sh >hk1.sh &&
	flux start -s2 -Sstatedir=$(pwd)/state -c $(pwd)/hk.toml sh -ex hk1.sh
'
test_expect_success 'it is run on the other rank only' '
	cat functions.sh hk-end.sh >hk2.sh &&
	flux start -s2 -Sstatedir=$(pwd)/state -c $(pwd)/hk.toml sh -ex hk2.sh
'
test_expect_success 'and FLUX_JOB_RANKS has both ranks each time' '
	grep " 0-1$" hk.0 &&
	grep " 0-1$" hk.1
'

test_done
