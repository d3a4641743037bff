#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test flux epilog

It lists what epilog actions hold, and lets an admin hold, release, drain and
finish.
'

# Append --logfile option if FLUX_TESTS_LOGFILE is set in environment:
test -n "$FLUX_TESTS_LOGFILE" && set -- "$@" --logfile
. $(dirname $0)/sharness.sh

# Errors are looked at: one line, whatever this test was started with.
unset FLUX_PYCLI_LOGLEVEL

# A job that is held for good must not hold the instance.
export FLUX_DISABLE_JOB_CLEANUP=t

flux R encode -r 0-7 -c 0-1 -H node[0-7] >R
test_under_flux 8 full \
    --test-hosts=node[0-7] \
    --conf=resource.path=$(pwd)/R \
    --conf=resource.noverify=true

MAN=${SHARNESS_TEST_SRCDIR}/../doc/man1/flux-epilog.rst
HEADER="       JOBID USER     STATE   DESCRIPTION       AGE  NHELD NRELEASED HELD"

# Usage: list_is FORMAT [JOB]... <<EOT
# flux epilog list prints these lines.
list_is () {
	flux epilog list -no "$@" >list.out &&
	cat >list.expected &&
	test_cmp list.expected list.out
}

# Usage: fails STATUS TEXT COMMAND...
# The command fails with one line that has TEXT in it.
fails () {
	local status=$1
	local text="$2"
	shift 2
	test_expect_code $status "$@" >fails.out 2>fails.err &&
	test_must_be_empty fails.out &&
	test $(wc -l <fails.err) = 1 &&
	grep -e "^flux-epilog: ERROR: .*$text" fails.err
}

test_expect_success 'start the watcher and load the plugin' '
	epilog_watch_start &&
	flux jobtap load $(epilog_hold_plugin)
'

#
# list
#

test_expect_success 'an empty list is a header' '
	flux epilog list >empty.out &&
	echo "$HEADER" >empty.expected &&
	test_cmp empty.expected empty.out &&
	flux epilog list -n >empty2.out &&
	test_must_be_empty empty2.out &&
	test "$(flux epilog list --json)" = "{\"jobs\": []}"
'
test_expect_success 'a job that runs is held when it ends' '
	id=$(flux submit -N8 sleep inf) &&
	epilog_wait $id start &&
	flux epilog hold $id copy >hold.out 2>&1 &&
	test_must_be_empty hold.out &&
	list_is "{state} {description} {held.ranks}" <<-EOT &&
	RUN copy 0-7
	EOT
	flux cancel $id &&
	epilog_wait $id release &&
	epilog_allocated_are 0-7 &&
	list_is "{state} {description} {held.ranks}" <<-EOT
	CLEANUP copy 0-7
	EOT
'
test_expect_success 'hosts and ranks are folded' '
	flux epilog hold $id unmount node[2-3,5] &&
	flux epilog hold $id stay "" &&
	list_is "{description} {held.ranks} {held.nodelist} {held.nnodes}" <<-EOT
	copy 0-7 node[0-7] 8
	unmount 2-3,5 node[2-3,5] 3
	stay   0
	EOT
'
test_expect_success 'release takes hosts or ranks' '
	flux epilog release $id copy node[0-2] &&
	epilog_wait_gone $id 0-1 &&
	flux epilog release $id unmount "[2,5]" &&
	epilog_wait_gone $id 2 &&
	list_is "{description} {held.nodelist} {released.nodelist}" <<-EOT
	copy node[3-7] node[0-2]
	unmount node3 node[2,5]
	stay  
	EOT
'
test_expect_success 'all fields can be printed' '
	sed -n "/headings = {/,/^    }/s/^ *\"\([a-z0-9_.]*\)\": .*/\1/p" \
	    ${SHARNESS_TEST_SRCDIR}/../src/cmd/flux-epilog.py >fields &&
	printf "%s\n" id id.dec id.hex id.f58 id.f58plain id.emoji id.kvs \
	    id.words id.dothex >>fields &&
	test $(wc -l <fields) -ge 30 &&
	for field in $(cat fields); do
		flux epilog list -o "{$field}" >field.out 2>field.err &&
		test_must_be_empty field.err &&
		test $(wc -l <field.out) -ge 1 || return 1
	done
'
test_expect_success 'the fields of the job say what became of it' '
	list_is "{nodelist} {nnodes} {ranks} {handed_over.nodelist} {kept.ranks} {ready.nnodes} {username} {userid}" $id <<-EOT
	node[0-7] 8 0-7 node[0-2]  0 $(id -un) $(id -u)
	EOT
'
test_expect_success 'lines that look the same are made one' '
	list_is "{state} {held.nodelist} {released.nnodes}" <<-EOT
	CLEANUP node[3-7] 4
	EOT
'
test_expect_success 'formats have names' '
	for format in default ranks job; do
		flux epilog list -o $format >$format.out &&
		test $(wc -l <$format.out) = 4 &&
		flux epilog list -o help | grep -q "^  $format " || return 1
	done &&
	FLUX_EPILOG_FORMAT_DEFAULT="{description}" flux epilog list -n >env.out &&
	test "$(head -1 env.out)" = copy &&
	fails 1 "No such format nosuch" flux epilog list -o nosuch &&
	fails 1 "Unknown format field" flux epilog list -o "{nosuch}"
'
test_expect_success 'the list can be cut to some jobs, and is sorted by age' '
	id2=$(epilog_submit "[{\"description\":\"late\"}]" -N2) &&
	flux epilog hold $id last "" &&
	list_is "{description}" <<-EOT &&
	copy
	unmount
	stay
	late
	last
	EOT
	list_is "{description}" $id2 <<-EOT &&
	late
	EOT
	list_is "{description}" $id2 $id $id2 <<-EOT &&
	copy
	unmount
	stay
	late
	last
	EOT
	list_is "sort:-t_start {description}" $id2 $id <<-EOT
	last
	late
	stay
	unmount
	copy
	EOT
'
test_expect_success 'age is that of the action' '
	flux epilog list -no "{t_start} {age}" >age.out &&
	awk -v now=$(date +%s) "{ t = \$1 + \$2 - now; if (t < -2 || t > 60) exit 1 }" age.out
'
test_expect_success 'a job without actions is no error, one that is unknown is' '
	id3=$(flux submit --urgency=hold true) &&
	flux epilog list -n $id3 >none.out &&
	test_must_be_empty none.out &&
	flux cancel $id3 &&
	fails 1 "unknown job" flux epilog list $id 1 &&
	fails 1 "unknown job" flux epilog list --json 1 &&
	test_expect_code 2 flux epilog list xyzzy!
'
test_expect_success 'json has what the RPC says, oldest first' '
	flux epilog list --json >list.json &&
	jq -e ".jobs | length == 2" list.json &&
	jq -e ".jobs[0].id == $(flux job id --to=dec $id)" list.json &&
	jq -e ".jobs[1].id == $(flux job id --to=dec $id2)" list.json &&
	jq -e ".jobs[0].actions[1].held == \"3\"" list.json &&
	flux epilog list --json $id2 | jq -e ".jobs | length == 1"
'

#
# What is wrong
#

test_expect_success 'a mistyped description is refused, and those outstanding are named' '
	fails 1 "no action .coppy. is outstanding (late)" \
	    flux epilog release $id2 coppy 0 &&
	fails 1 "no action .coppy. is outstanding (late)" \
	    flux epilog finish $id2 coppy &&
	fails 1 "no action .coppy. is outstanding (late)" \
	    flux epilog release --drain=x $id2 coppy 0 &&
	fails 1 "(copy, unmount, stay, last)" flux epilog finish $id coppy
'
test_expect_success 'so are targets' '
	fails 1 "nosuch: no such host" flux epilog release $id copy nosuch &&
	fails 1 "node8: no such host" flux epilog release $id copy node[7-9] &&
	fails 1 "neither an idset nor a hostlist" flux epilog release $id copy "node[1" &&
	fails 1 "rank 8 is not in the job" flux epilog release $id copy 8 &&
	fails 1 "ranks" flux epilog release $id copy 0-4294967290 &&
	fails 1 "ranks" flux epilog release $id copy "" &&
	fails 1 "ranks" flux epilog release $id copy 3-1 &&
	fails 1 "0" flux epilog hold $id new 0-1 &&
	fails 1 "node9: no such host" flux epilog hold $id new node9
'
test_expect_success 'so are jobs' '
	for command in "hold 1 x" "release 1 x 0" "finish 1 x"; do
		fails 1 "unknown job" flux epilog $command || return 1
	done &&
	for command in "hold $id3 x" "release $id3 x 0" "finish $id3 x"; do
		fails 1 "inactive" flux epilog $command || return 1
	done &&
	fails 1 "unknown job" flux epilog release --drain=x 1 x 0
'
test_expect_success 'usage errors have their own status' '
	for command in "" "list --nosuch" "hold" "hold $id" "release $id copy" \
	    "finish" "finish $id" "finish --status=x $id copy" "hold xyzzy! a" \
	    "nosuch"; do
		test_expect_code 2 flux epilog $command || return 1
	done
'
test_expect_success 'guests are refused' '
	for command in "list" "list $id" "hold $id x" "release $id copy 3" \
	    "finish $id copy"; do
		FLUX_HANDLE_USERID=$(($(id -u) + 1)) FLUX_HANDLE_ROLEMASK=0x2 \
		    fails 1 "" flux epilog $command || return 1
	done
'
test_expect_success 'without a job manager, that is said' '
	test_expect_code 1 flux start -Sbroker.rc1_path= -Sbroker.rc3_path= \
	    flux epilog list 2>nomgr.err &&
	grep "flux-epilog: ERROR: this job manager has no epilog service" nomgr.err
'
test_expect_success 'nothing has changed' '
	list_is "{description} {held.nodelist}" <<-EOT
	copy node[3-7]
	unmount node3
	stay 
	late node[0-1]
	last 
	EOT
'
test_expect_success 'nor is anything drained' '
	test "$(flux resource drain -no {ranks})" = ""
'

#
# --drain
#

test_expect_success 'a job waits for node4' '
	id4=$(flux submit -N1 --requires=host:node4 true) &&
	flux job wait-event -t 60 $id4 priority
'
test_expect_success 'release --drain drains first: the job still waits' '
	flux epilog release --drain="will not unmount" $id copy node4 &&
	epilog_wait_gone $id 4 &&
	test "$(flux resource drain -no "{nodelist} {state} {reason}")" = \
	    "node4 drained will not unmount" &&
	run_timeout 60 flux run -N1 --urgency=31 --requires=host:node2 true &&
	test "$(flux jobs -no {state} $id4)" = SCHED &&
	flux cancel $id4
'
test_expect_success 'a node that the action does not hold is not drained' '
	fails 1 "rank 0 is not held by .copy.: nothing was drained" \
	    flux epilog release --drain=x $id copy node0 &&
	fails 1 "rank 1 is not held by .copy.: nothing was drained" \
	    flux epilog release --drain=x $id copy 1-6 &&
	fails 1 "rank 4 is not held by .copy.: nothing was drained" \
	    flux epilog release --drain=x $id copy 3-7 &&
	fails 1 "rank 4294967290 is not held" \
	    flux epilog release --drain=x $id copy 4294967290 &&
	for what in "stay all" "copy []"; do
		fails 1 "no ranks to let go of: nothing was drained" \
		    flux epilog release --drain=x $id $what || return 1
	done &&
	for what in 3- 5-3 3-5-7 -; do
		fails 1 "$what: not an idset: nothing was drained" \
		    flux epilog release --drain=x $id copy $what || return 1
	done &&
	test "$(flux resource drain -no {ranks})" = 4 &&
	list_is "{held.nodelist}" $id <<-EOT
	node[3,5-7]
	EOT
'
test_expect_success 'a node that is drained already keeps its reason' '
	flux resource drain node5 earlier &&
	flux epilog release --drain=later $id copy node[5-6] &&
	epilog_wait_gone $id 5-6 &&
	test "$(flux resource drain -no "{nodelist} {reason}" | sort)" = \
"node4 will not unmount
node5 earlier
node6 later"
'
test_expect_success 'if draining fails, nothing is released' '
	flux module remove sched-simple &&
	flux module remove resource &&
	fails 1 "drain: .*: nothing was released" \
	    flux epilog release --drain=x $id copy 7 &&
	grep "ERROR: drain" fails.err &&
	list_is "{description} {held.ranks}" $id <<-EOT &&
	copy 3,7
	unmount 3
	stay 
	last 
	EOT
	flux module load resource noverify &&
	flux module load sched-simple
'
test_expect_success 'all means all that the action holds' '
	flux epilog release --drain=rest $id copy all &&
	epilog_wait_gone $id 7 &&
	list_is "{description} {held.ranks} {released.ranks}" $id <<-EOT
	copy  0-7
	unmount 3 2,5
	stay  
	last  
	EOT
'

#
# finish
#

test_expect_success 'finish ends the action, with a status' '
	flux epilog finish $id copy &&
	flux epilog finish --status=3 $id unmount &&
	flux epilog finish $id stay &&
	flux epilog finish $id last &&
	epilog_wait $id clean &&
	flux job info $id eventlog >finish.log &&
	jq -c "select (.name == \"epilog-finish\" and .context.ranks == null)
	       | .context | [ .description, .status ]" finish.log >finish.out &&
	cat >finish.expected <<-EOT &&
	["copy",0]
	["unmount",3]
	["stay",0]
	["last",0]
	EOT
	test_cmp finish.expected finish.out &&
	flux epilog finish $id2 late &&
	epilog_wait $id2 clean &&
	flux resource undrain 3-7
'

#
# The manual page
#

test_expect_success 'the session of the manual page goes as it says' '
	id=$(epilog_submit "[{\"description\":\"unmount\"}]" -N8) &&
	epilog_finish $id unmount 0-4,6-7 &&
	epilog_wait_gone $id 0-4,6-7 &&
	flux python ${SHARNESS_TEST_SRCDIR}/scripts/epilog-session.py \
	    $MAN $id $(id -un) &&
	epilog_wait $id clean &&
	flux resource undrain 5
'
test_expect_success 'the page names all fields, commands and formats' '
	for word in $(sed "s/\..*//" fields | sort -u) list hold release finish \
	    --drain --status --json --format --no-header; do
		grep -qe "$word" $MAN || return 1
	done
'
test_expect_success 'flux help has the command' '
	flux help >help.out 2>&1 &&
	grep "^   epilog  *list and release" help.out
'
test_expect_success 'completions know it' '
	id=$(epilog_submit "[{\"description\":\"unmount\"}]" -N8) &&
	cat >complete.sh <<-EOT &&
	compopt () { :; }
	. ${SHARNESS_TEST_SRCDIR}/../etc/completions/flux.pre
	# Usage: complete WORD...  The last one is completed.
	complete () {
	    COMP_WORDS=("\$@")
	    COMP_CWORD=\$((\$# - 1))
	    COMPREPLY=()
	    _flux_core
	    echo \${COMPREPLY[@]}
	}
	complete flux epil
	complete flux epilog ""
	complete flux epilog re
	complete flux epilog list --j
	complete flux epilog release --d
	complete flux epilog finish --s
	complete flux epilog list -o r
	complete flux epilog release ""
	complete flux epilog finish $id u
	EOT
	cat >complete.expected <<-EOT &&
	epilog
	list hold release finish run -h --help
	release
	--json
	--drain=
	--status=
	ranks
	$id
	unmount
	EOT
	bash complete.sh >complete.out &&
	test_cmp complete.expected complete.out &&
	flux epilog finish $id unmount &&
	epilog_wait $id clean
'

#
# Size
#

test_expect_success 'a thousand jobs are listed' '
	echo "[{\"description\":\"unmount\"}]" >thousand.holds &&
	cat >thousand.sh <<-EOT &&
	flux jobtap load $(epilog_hold_plugin) &&
	flux submit --cc=1-1000 -N1 -n1 --exclusive --env-remove="*" \
	    --setattr=system.exec.test.run_duration=0.01s \
	    --setattr=^system.epilog-hold=thousand.holds \
	    --wait-event=release --quiet true &&
	flux epilog list -no "{t_start} {held.nnodes} {held.nodelist}" >thousand.out &&
	flux epilog list --json >thousand.json
	EOT
	run_timeout 500 flux start --conf=fake-resources.nnodes=1000 \
	    --conf=fake-resources.cores-per-node=1 sh thousand.sh &&
	test $(wc -l <thousand.out) = 1000 &&
	sort -n -k1,1 -s thousand.out >thousand.sorted &&
	test_cmp thousand.sorted thousand.out &&
	test $(awk "{ print \$2 }" thousand.out | sort -u) = 1 &&
	test $(awk "{ print \$3 }" thousand.out | sort -u | wc -l) = 1000 &&
	test $(jq ".jobs | length" thousand.json) = 1000
'
test_expect_success 'the watcher has nothing to say' '
	flux queue drain --timeout=60s &&
	epilog_watch_check
'
test_done
