#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0

test_description='Test partial release by epilogs with a crash at each step

Wherever the resources of a job change hands, the broker is killed right there,
with what the KVS got so far on disk.  After each restart no rank is handed over
twice, none is lost, what an action holds stays held, and the job ends properly.
'

# Append --logfile option if FLUX_TESTS_LOGFILE is set in environment:
test -n "$FLUX_TESTS_LOGFILE" && set -- "$@" --logfile
. $(dirname $0)/sharness.sh

if ! epilog_gdb_works; then
	skip_all='skipping crash tests, gdb is missing or may not attach'
	test_done
fi

# Leave jobs as they are when an instance stops.
export FLUX_DISABLE_JOB_CLEANUP=t
export FLUX_SCHED_MODULE=none
export SHARNESS_TEST_SRCDIR FLUX_BUILD_DIR FLUX_SOURCE_DIR

test_expect_success 'create configurations for instance of 8 ranks' '
	cat >crash.toml <<-EOT &&
	[fake-resources]
	nnodes = 8
	cores-per-node = 2
	[job-manager]
	plugins = [
	    { load = "alloc-check.so" },
	    { load = "$(epilog_hold_plugin)" }
	]
	EOT
	cat >housekeeping.sh <<-EOT &&
	#!/bin/sh
	echo \$FLUX_JOB_ID >>$(pwd)/housekeeping.runs
	exec flux kvs get --watch --waitcreate --count=1 hk.\$FLUX_JOB_ID
	EOT
	chmod +x housekeeping.sh &&
	flux run --dry-run --env-remove="*" -N1 \
	    --setattr=system.exec.test.run_duration=0.01s true >job.json &&
	cat crash.toml - >hk.toml <<-EOT
	[job-manager.housekeeping]
	command = [ "$(pwd)/housekeeping.sh" ]
	release-after = "0"
	EOT
'

cat >functions.sh <<'EOT'
. ${SHARNESS_TEST_SRCDIR}/sharness.d/epilog-job.sh
. ${SHARNESS_TEST_SRCDIR}/sharness.d/epilog-watch.sh
. ${SHARNESS_TEST_SRCDIR}/sharness.d/sched-strict.sh

# What follows does without commands that are in Python: they are slow to start.

# Usage: rpc TOPIC [JSON]
rpc () {
	printf "%s" "$2" | ${FLUX_BUILD_DIR}/t/request/rpc $1
}

# Usage: batch_timeout SECONDS
# Events that are posted within that time get to the KVS together.
batch_timeout () {
	rpc job-manager.set-batch-timeout "{\"timeout\":$1}"
}

# Usage: submit N RANKS [HOLDS]
# Submit a job on N RANKS, with HOLDS as in epilog_submit.  Print its id.
submit () {
	jq -c ".resources[0].count = $1
	       | .attributes.system.constraints.ranks = [\"$2\"]
	       | .attributes.system[\"epilog-hold\"] = ${3:-[]}" job.json >job.$2 &&
	flux job submit job.$2
}

# Usage: submit_held N RANKS
# Submit a job, and wait until nothing but action a can hold it.
submit_held () {
	local id
	id=$(submit $1 $2 '[{"description":"a"}]') &&
	epilog_wait $id release &&
	echo $id
}

# Usage: finish ID [RANKS]
# Action a ends, or lets go of RANKS.
finish () {
	rpc job-manager.post-event.post "{\"id\":$(flux job id --to=dec $1),
	    \"name\":\"epilog-finish\",\"context\":{\"description\":\"a\",
	    \"status\":0${2+,\"ranks\":\"$2\"}}}"
}

# Usage: wait_result WANT COMMAND...
# Wait until COMMAND prints WANT.
wait_result () {
	local want="$1"
	local tries=300
	shift
	until test "$("$@")" = "$want"; do
		tries=$(($tries-1))
		test $tries -gt 0 || return 1
		sleep 0.1
	done
}

# Usage: log ID
# What the KVS has of a job's eventlog.
log () {
	flux kvs get --raw $(flux job id --to=kvs $1).eventlog
}

log_last () {
	log $1 | tail -1 | jq -r .name
}

# Usage: journal_last ID
# The last event of a job that the job manager spoke of.
journal_last () {
	jq -r "select (.what == \"event\" and .id == $(flux job id --to=dec $1))
	       | .name" epilog-watch.jsonl | tail -1
}

# Usage: frees ID WANT
# What the scheduler was sent.  It can't be asked before it is ready, so if WANT
# is "told N", print how many jobs it was told of, and if WANT is -, that.
frees () {
	case "$2" in
		told*) jq -r .what epilog-watch.jsonl \
		    | awk '/hello/ { n = 0 } /told/ { n++ } END { print "told " n }' ;;
		-) echo - ;;
		*) strict_freed $1 ;;
	esac
}

# Print what is allocated: by the job manager, and by the scheduler.
allocated () {
	for topic in job-manager.resource-status sched.resource-status; do
		rpc $topic >allocated.json
		jq -r ".allocated.execution.R_lite | map (.rank) | join (\",\")" \
		    allocated.json
	done | paste -s -d " "
}

# Usage: allocated_are RANKS
# Wait until both say that these are.
allocated_are () {
	wait_result "$1 $1" allocated
}

# Usage: run_on N RANKS
# Another job gets these N ranks, and nobody objects.
run_on () {
	local id
	id=$(submit $1 $2) &&
	epilog_wait $id clean &&
	flux job status $id
}

# Usage: full_finish ID
# End action a, if the eventlog does not have that.
full_finish () {
	log $1 >full.log
	jq -e -s 'any(.name == "epilog-finish"
	              and (.context | has("ranks") | not))' full.log >full.json \
	    || finish $1
	epilog_wait $1 clean
}

# Usage: load_to_hello KEY
# Load the scheduler, and return when it has had its answer to hello.  It is
# not ready before KEY is in the KVS.
load_to_hello () {
	flux dmesg -C
	flux module load \
	    ${SHARNESS_TEST_SRCDIR}/scheduler/sched-strict.py ready-key=$1
	wait_result 1 hello_count
}
hello_count () {
	flux dmesg | grep -c "scheduler: hello"
}
EOT

#
# Scenarios.  Job $id has ranks 0-3, and action a holds them.  NAME-begin.sh
# gets it to the step before, NAME-trigger.sh makes it take the step, and after
# the crash NAME-end.sh makes it take the step, if need be, and end.
#
# part: a lets go of the first rank
cat >part-begin.sh <<'EOT'
id=$(submit_held 4 0-3)
EOT
cat >part-trigger.sh <<'EOT'
finish $id 0
EOT
cat >part-end.sh <<'EOT'
finish $id 0
epilog_wait_gone $id 0
run_on 1 0
allocated_are 1-3,7
full_finish $id
epilog_handoffs_are $id "0 free"
EOT

# together: the same, but its finish and its partial-free are committed at once
cat >together-begin.sh <<'EOT'
. ./part-begin.sh
batch_timeout 0.5
EOT
cp part-trigger.sh together-trigger.sh
cp part-end.sh together-end.sh

# next: it lets go of another one
cat >next-begin.sh <<'EOT'
. ./part-begin.sh
finish $id 0
epilog_wait_gone $id 0
EOT
cat >next-trigger.sh <<'EOT'
finish $id 1
EOT
cat >next-end.sh <<'EOT'
finish $id 1
epilog_wait_gone $id 1
run_on 2 0-1
full_finish $id
epilog_handoffs_are $id "0 1 free"
EOT

# last: a ends, and with it goes the last rank
cat >last-begin.sh <<'EOT'
. ./part-begin.sh
finish $id 0-2
epilog_wait_gone $id 0-2
EOT
cat >last-trigger.sh <<'EOT'
finish $id
EOT
cat >last-end.sh <<'EOT'
full_finish $id
epilog_handoffs_are $id "0-2 free"
EOT

# open: a lets go of the last rank, but goes on
cp last-begin.sh open-begin.sh
cat >open-trigger.sh <<'EOT'
finish $id 3
EOT
cat >open-end.sh <<'EOT'
finish $id 3
epilog_wait $id free
run_on 4 0-3
test "$(log_last $id)" != "clean"
full_finish $id
epilog_handoffs_are $id "0-2 free"
EOT

# whole: a lets go of all ranks at once, but goes on
cp part-begin.sh whole-begin.sh
cat >whole-trigger.sh <<'EOT'
finish $id all
EOT
cat >whole-end.sh <<'EOT'
finish $id all
epilog_wait $id free
run_on 4 0-3
test "$(log_last $id)" != "clean"
full_finish $id
epilog_handoffs_are $id "free"
EOT

# stock: a ends, and no event has ranks
cp part-begin.sh stock-begin.sh
cp last-trigger.sh stock-trigger.sh
cat >stock-end.sh <<'EOT'
full_finish $id
epilog_handoffs_are $id "free"
EOT

# hello: after part, a scheduler starts.  Job $plain has not let go of anything.
cat >hello-begin.sh <<'EOT'
. ./next-begin.sh
plain=$(submit_held 2 4-5)
echo plain=$plain >>jobs
strict_stop
EOT
cat >hello-trigger.sh <<'EOT'
flux module load ${SHARNESS_TEST_SRCDIR}/scheduler/sched-strict.py
EOT
cat >hello-end.sh <<'EOT'
test "$(strict_told $plain)" = "4-5"
allocated_are 1-5,7
full_finish $plain
epilog_handoffs_are $plain "free"
run_on 3 0,4-5
full_finish $id
epilog_handoffs_are $id "0 free"
EOT

# between: a lets go of another rank between hello and ready
cat >between-begin.sh <<'EOT'
. ./next-begin.sh
strict_stop
load_to_hello ready-$id
EOT
cp next-trigger.sh between-trigger.sh
cp next-end.sh between-end.sh

# ready: a let go of two ranks between hello and ready, which comes
cat >ready-begin.sh <<'EOT'
. ./between-begin.sh
finish $id 1
epilog_wait_gone $id 1
finish $id 2
epilog_wait_gone $id 2
EOT
cat >ready-trigger.sh <<'EOT'
flux kvs put ready-$id=1
EOT
cat >ready-end.sh <<'EOT'
run_on 3 0-2
full_finish $id
epilog_handoffs_are $id "0 1 2 free"
EOT

# drop: the scheduler that starts takes no parts, and job $other has the rank
# that went
cat >drop-begin.sh <<'EOT'
. ./next-begin.sh
other=$(submit_held 1 0)
echo other=$other >>jobs
strict_stop
EOT
cat >drop-trigger.sh <<'EOT'
flux module load ${SHARNESS_TEST_SRCDIR}/scheduler/sched-strict.py nopartial
EOT
cat >drop-end.sh <<'EOT'
test "$(strict_told $other)" = "0"
if test -n "$told"; then handoffs="0 free"; else handoffs="0"; fi
full_finish $other
epilog_handoffs_are $other "free"
full_finish $id
epilog_handoffs_are $id "$handoffs"
EOT

# reuse: another job has the rank that went, and a lets go of one more
cat >reuse-begin.sh <<'EOT'
. ./next-begin.sh
other=$(submit_held 1 0)
echo other=$other >>jobs
EOT
cp next-trigger.sh reuse-trigger.sh
cat >reuse-end.sh <<'EOT'
test "$(strict_told $other)" = "0"
finish $id 1
epilog_wait_gone $id 1
full_finish $other
epilog_handoffs_are $other "free"
full_finish $id
epilog_handoffs_are $id "0 1 free"
EOT

# except: after part, the scheduler says that it dropped the job
cp next-begin.sh except-begin.sh
cat >except-trigger.sh <<'EOT'
flux job raise --type=scheduler-restart --severity=0 $id
EOT
cat >except-end.sh <<'EOT'
if test -n "$told"; then handoffs="0 free"; else handoffs="0"; fi
full_finish $id
epilog_handoffs_are $id "$handoffs"
EOT

# hk: a lets go of the first of two ranks, and housekeeping runs there until
# the KVS has key hk.ID.  Other ranks have no broker, so it ends there at once.
cat >hk-begin.sh <<'EOT'
id=$(submit_held 2 0-1)
EOT
cp part-trigger.sh hk-trigger.sh
cat >hk-end.sh <<'EOT'
flux kvs put hk.$(flux job id --to=dec $id)=1
finish $id 0
epilog_wait_gone $id 0
allocated_are 1,7
full_finish $id
epilog_handoffs_are $id "0 free"
allocated_are 7
case "$told" in
	0*) runs=1 ;;
	*) runs=0 ;;
esac
test $(wc -l <housekeeping.runs) -eq $runs
EOT

# hkslow: the same, but what is posted does not get to the KVS before
cat >hkslow-begin.sh <<'EOT'
. ./hk-begin.sh
batch_timeout 60.0
EOT
cp hk-trigger.sh hkslow-trigger.sh
cp hk-end.sh hkslow-end.sh

# hkdone: the same, and then housekeeping ends
cp hk-begin.sh hkdone-begin.sh
cat >hkdone-trigger.sh <<'EOT'
finish $id 0
epilog_wait_gone $id 0
flux kvs put hk.$(flux job id --to=dec $id)=1
EOT
cp hk-end.sh hkdone-end.sh

# hklast: the first rank goes last, and housekeeping ends after the job has
cat >hklast-begin.sh <<'EOT'
. ./hk-begin.sh
finish $id 1
epilog_wait_gone $id 1
allocated_are 0,7
EOT
cat >hklast-trigger.sh <<'EOT'
finish $id
epilog_wait $id clean
flux kvs put hk.$(flux job id --to=dec $id)=1
EOT
cat >hklast-end.sh <<'EOT'
epilog_handoffs_are $id "1 free"
test ! -s housekeeping.runs
EOT

#
# A job that sees all of the crashes: action a let go of rank 6, and holds 7.
#
cat >witness.sh <<'EOT'
witness=$(submit_held 2 6-7)
finish $witness 6
epilog_wait_gone $witness 6
echo witness=$witness >jobs
EOT

# After a crash: what was on disk is there, what it says has gone has gone, and
# the rest is the job's still.
cat >back.sh <<'EOT'
if ! test -f point; then
	. ./witness.sh
	return
fi
. ./jobs
. ./point
test "$(strict_told $witness)" = "7"
log $id >log.back
head -n $(wc -l <log.hit) log.back >log.head
cmp log.hit log.head
test "$(strict_told $id)" = "$told"
. ./$scenario-end.sh
allocated_are 7
test $(log $id | grep -c "\"name\":\"clean\"") -eq 1
test "$(strict_freed $id)" = "$freed"
flux dmesg >back.log
if grep "job-manager.*\(err\|crit\)" back.log | grep -v "housekeeping: "; then
	exit 1
fi
EOT

# At the place: see what others know, write to disk what they have, and crash.
cat >then.sh <<'EOT'
. ./functions.sh
. ./jobs
. ./point
# others hear of it in their own time
wait_result "$journal" journal_last $id || true
wait_result "$log" log_last $id || true
wait_result "$frees" frees $id "$frees" || true
flux kvs sync
log $id >log.hit
echo "$(journal_last $id)|$(log_last $id)|$(frees $id "$frees")" >seen
kill -9 $(flux getattr broker.pid)
EOT

# Usage: instance CONFIG [OPTION]... <SCRIPT
# Start an instance where the last one ended, run SCRIPT in it.
instance () {
	local toml=$1
	shift
	cat functions.sh - >step.sh &&
	>housekeeping.runs &&
	run_timeout 300 flux start -Sstatedir=$(pwd)/state -c $(pwd)/$toml "$@" \
	    sh -ex step.sh
}

# Usage: crash_at PLACE
# What to do in an instance to end it there; see then.sh and trigger.sh.
crash_at () {
	cat <<-EOT
	exec ${SHARNESS_TEST_SRCDIR}/scripts/epilog-crash.sh \
	    \$(flux getattr broker.pid) "$1" trigger.sh then.sh >gdb.out 2>&1
	EOT
}

# Print the scenario of the last crash, if there was one.
last_scenario () {
	test ! -f point || sed -n "s/^scenario=//p" point
}

# Usage: config_of SCENARIO
config_of () {
	case $1 in
		hk*) echo hk.toml ;;
		*) echo crash.toml ;;
	esac
}

# Usage: crash SCENARIO PLACE
# Come back from the last crash, if there was one, and crash again.
crash () {
	cat >trigger.sh <<-EOT &&
	. ./functions.sh
	. ./jobs
	. ./$1-trigger.sh
	EOT
	test_expect_code 137 instance $(config_of "$(last_scenario)") <<-EOT &&
	epilog_watch_start
	strict_start
	. ./back.sh
	flux config load $(config_of $1)
	batch_timeout 0.001 # less than a handoff waits
	. ./$1-begin.sh
	echo id=\$id >>jobs
	mv point.next point
	flux kvs sync
	$(crash_at "$2")
	EOT
	flux python ${SHARNESS_TEST_SRCDIR}/scripts/epilog-watch.py \
	    judge --active-ok epilog-watch.jsonl
}

# Usage: crash_again SCENARIO PLACE
# Crash while coming back from the last crash.
crash_again () {
	cat >trigger.sh <<-EOT &&
	. ./functions.sh
	flux modprobe rc1
	EOT
	test $1 = restart || echo strict_start >>trigger.sh
	test_expect_code 137 instance crash.toml -Sbroker.rc1_path= <<-EOT
	>epilog-watch.jsonl
	mv point.next point
	$(crash_at "$2")
	EOT
}

# Usage: point NAME SCENARIO PLACE JOURNAL LOG FREES TOLD FREED
# The test of one point.  Leave a line in the table.
point () {
	local scenario=$2
	rm -f seen
	if test -f broken; then
		rm -rf state point jobs
	fi &&
	>broken &&
	mkdir -p state &&
	case $2 in
		restart|reload) scenario=$(last_scenario) ;;
	esac &&
	cat >point.next <<-EOT &&
	scenario=$scenario
	journal="$4"
	log="$5"
	frees="$6"
	told="$7"
	freed="$8"
	EOT
	case $2 in
		restart|reload) crash_again $2 "$3" ;;
		*) crash $2 "$3" ;;
	esac &&
	cp gdb.out gdb.$1 &&
	stack gdb.$1 >stack.$1 &&
	grep -qx "$(echo "$3" | cut -d: -f2)" stack.$1 &&
	echo "$1|$2|$(paste -s -d " " stack.$1)|$(cat seen)|$7|$8" \
	    >>table &&
	test "$(cat seen)" = "$4|$5|$6" &&
	rm broken
}

# Usage: stack FILE
# Print where gdb stopped, and how the job manager got there.
stack () {
	sed -n -e "s/^#0 .* at \([a-z-]*\.c:[0-9]*\)$/\1/p" $1 &&
	sed -n -e "s/^#[0-9] *\(0x[0-9a-f]* in \)\?\([a-z][a-z_0-9]*\) .*/\2/p" $1
}

# Each point is hit once.  The fields are:
#
#   NAME      + in front: always done, not only in long tests
#   SCENARIO  see above; restart and reload are about coming back itself, the
#             latter with a scheduler
#   PLACE     where to stop: see scripts/epilog-crash.sh
#   JOURNAL   last event of the job that was told by the job manager's journal
#   LOG       last event of the job that was in the KVS
#   FREES     what the scheduler was sent for the job: see frees()
#   TOLD      ranks that the scheduler is told of after the crash
#   FREED     what it is sent for the job then
#
cat >points <<'EOT'
+queued|part|event.c:event_job_post_entry:json_array_size|release|release||0-3|0 1-3 final
journaled|part|event.c:event_job_process_entry:event_job_update|epilog-finish|release||0-3|0 1-3 final
taken|part|event.c:event_job_cache:event_index|epilog-finish|release||0-3|0 1-3 final
batched|part|event.c:event_job_process_entry:FLUX_JOB_STATE_RUNNING|epilog-finish|release||0-3|0 1-3 final
due|part|handoff.c:let_go_soon:zhashx_insert|epilog-finish|release||0-3|0 1-3 final
+commit-sent|part|event.c:event_batch_commit:flux_future_then|epilog-finish|epilog-finish||0-3|0 1-3 final
reload-free-sent|reload|claim.c:free_send_now:flux_future_destroy||epilog-finish|0|0-3|0 1-3 final
timer|part|handoff.c:let_all_go:let_go|epilog-finish|epilog-finish||0-3|0 1-3 final
claimed|part|handoff.c:hand_over:housekeeping_start|epilog-finish|epilog-finish||0-3|0 1-3 final
free-unsent|part|claim.c:free_send_now:flux_rpc_pack|epilog-finish|epilog-finish||0-3|0 1-3 final
+free-sent|part|claim.c:free_send_now:flux_future_destroy|epilog-finish|epilog-finish|0|0-3|0 1-3 final
returned|part|alloc.c:free_request:if (rc != 0)|epilog-finish|epilog-finish|0|0-3|0 1-3 final
unmarked|part|epilog.c:epilog_gone|epilog-finish|epilog-finish|0|0-3|0 1-3 final
gone|part|handoff.c:hand_over:if (!last)|epilog-finish|epilog-finish|0|0-3|0 1-3 final
partial-free-queued|part|event.c:event_job_post_entry:json_array_size:2|epilog-finish|epilog-finish|0|0-3|0 1-3 final
+partial-free-journaled|part|event.c:event_job_process_entry:event_job_update:2|partial-free|epilog-finish|0|0-3|0 1-3 final
partial-free-batched|part|event.c:event_job_process_entry:FLUX_JOB_STATE_RUNNING:2|partial-free|epilog-finish|0|0-3|0 1-3 final
together-commit-sent|together|event.c:event_batch_commit:flux_future_then|partial-free|partial-free|0|1-3|1-3 final
together-committed|together|event.c:commit_continuation:flux_future_get|partial-free|partial-free|0|1-3|1-3 final
partial-free-commit-sent|part|event.c:event_batch_commit:flux_future_then:2|partial-free|partial-free|0|1-3|1-3 final
+partial-free-committed|part|event.c:commit_continuation:flux_future_get:2|partial-free|partial-free|0|1-3|1-3 final
+restart-claim|restart|claim.c:claim_create||partial-free|-|1-3|1-3 final
next-free-sent|next|claim.c:free_send_now:flux_future_destroy|epilog-finish|epilog-finish|0 1|1-3|1 2-3 final
next-commit-sent|next|event.c:event_batch_commit:flux_future_then:2|partial-free|partial-free|0 1|2-3|2-3 final
final-unsent|last|claim.c:free_send_now:flux_rpc_pack|epilog-finish|partial-free|0-2|3|3 final
+final-sent|last|claim.c:free_send_now:flux_future_destroy|epilog-finish|partial-free|0-2 3 final|3|3 final
claim-ended|last|epilog.c:epilog_gone|epilog-finish|partial-free|0-2 3 final|3|3 final
free-unposted|last|handoff.c:record_post:event_job_post_entry|epilog-finish|partial-free|0-2 3 final|3|3 final
free-queued|last|event.c:event_job_post_entry:json_array_size:2|epilog-finish|partial-free|0-2 3 final|3|3 final
free-journaled|last|event.c:event_job_process_entry:event_job_update:2|free|partial-free|0-2 3 final|3|3 final
clean-queued|last|event.c:event_job_post_entry:json_array_size:3|free|partial-free|0-2 3 final|3|3 final
+clean-journaled|last|event.c:event_job_process_entry:event_job_update:3|clean|partial-free|0-2 3 final|3|3 final
clean-inactive|last|event.c:event_job_action:eventlog_readonly|clean|partial-free|0-2 3 final|3|3 final
clean-commit-sent|last|event.c:event_batch_commit:flux_future_then|clean|clean|0-2 3 final||
reuse-commit-sent|reuse|event.c:event_batch_commit:flux_future_then:2|partial-free|partial-free|0 1|2-3|2-3 final
+clean-committed|last|event.c:commit_continuation:flux_future_get|clean|clean|0-2 3 final||
+open-final-sent|open|claim.c:free_send_now:flux_future_destroy|epilog-finish|epilog-finish|0-2 3 final|3|3 final
open-free-unposted|open|handoff.c:record_post:event_job_post_entry|epilog-finish|epilog-finish|0-2 3 final|3|3 final
open-free-journaled|open|event.c:event_job_process_entry:event_job_update:2|free|epilog-finish|0-2 3 final|3|3 final
open-free-commit-sent|open|event.c:event_batch_commit:flux_future_then:2|free|free|0-2 3 final||
+open-free-committed|open|event.c:commit_continuation:flux_future_get:2|free|free|0-2 3 final||
+whole-free-sent|whole|alloc.c:free_request:flux_msg_destroy|epilog-finish|epilog-finish|0-3 final|0-3|0-3 final
whole-commit-sent|whole|event.c:event_batch_commit:flux_future_then:2|free|free|0-3 final||
stock-free-sent|stock|alloc.c:free_request:flux_msg_destroy|epilog-finish|release|0-3 final|0-3|0-3 final
stock-free-queued|stock|event.c:event_job_post_entry:json_array_size:2|epilog-finish|release|0-3 final|0-3|0-3 final
stock-commit-sent|stock|event.c:event_batch_commit:flux_future_then|clean|clean|0-3 final||
hello-asked|hello|alloc.c:hello_cb:flux_log|partial-free|partial-free|told 0|1-3|1-3 final
hello-plain-told|hello|housekeeping.c:housekeeping_hello_respond:claims_hello_respond|partial-free|partial-free|told 1|1-3|1-3 final
+hello-one-told|hello|claim.c:hello_respond_one:flux_respond_pack:2|partial-free|partial-free|told 2|1-3|1-3 final
hello-all-told|hello|housekeeping.c:housekeeping_hello_respond:a = zlistx_first|partial-free|partial-free|told 3|1-3|1-3 final
hello-answered|hello|alloc.c:hello_cb:flux_respond_error|partial-free|partial-free|told 3|1-3|1-3 final
ready-asked|hello|alloc.c:ready_cb:scheduler_is_online = true|partial-free|partial-free|told 3|1-3|1-3 final
free-waits|between|epilog.c:epilog_gone|epilog-finish|epilog-finish|told 2|1-3|1 2-3 final
+free-waits-committed|between|event.c:commit_continuation:flux_future_get:2|partial-free|partial-free|told 2|2-3|2-3 final
ready-no-free-sent|ready|claim.c:claims_ready:claims->between = false|partial-free|partial-free||3|3 final
+ready-one-free-sent|ready|claim.c:claims_ready:zlistx_delete|partial-free|partial-free|1|3|3 final
ready-two-frees-sent|ready|claim.c:claims_ready:zlistx_delete:2|partial-free|partial-free|1 2|3|3 final
ready-done|ready|alloc.c:ready_cb:job = zhashx_first|partial-free|partial-free|1 2|3|3 final
drop-decided|drop|claim.c:hello_drop:claim_drop|partial-free|partial-free|-|1-3|1-3 final
+drop-done|drop|claim.c:hello_drop:if (job|partial-free|partial-free|-|1-3|1-3 final
drop-commit-sent|drop|event.c:event_batch_commit:flux_future_then|exception|exception|-||
except-dropped|except|claim.c:claim_drop:housekeeping_drop|partial-free|partial-free|0|1-3|1-3 final
except-commit-sent|except|event.c:event_batch_commit:flux_future_then|exception|exception|0||
hk-created|hk|housekeeping.c:allocation_create:claim_setenv_ranks|epilog-finish|epilog-finish||0-1|0 1 final
+hk-listed|hk|epilog.c:epilog_gone|epilog-finish|epilog-finish||0-1|0 1 final
hk-committed|hk|event.c:commit_continuation:flux_future_get:2|partial-free|partial-free||1|1 final
+hk-started|hkslow|housekeeping.c:bulk_start|partial-free|release||0-1|0 1 final
+hk-ended|hkdone|housekeeping.c:housekeeping_finish_one:idset_clear|partial-free|partial-free||1|1 final
hk-free-sent|hkdone|claim.c:free_send_now:flux_future_destroy|partial-free|partial-free|0|1|1 final
hk-returned|hkdone|housekeeping.c:allocation_release:rlist_destroy (rl)|partial-free|partial-free|0|1|1 final
hk-removed|hkdone|housekeeping.c:bulk_complete:allocation_remove|partial-free|partial-free|0|1|1 final
hk-last-ended|hklast|housekeeping.c:housekeeping_finish_one:idset_clear|clean|clean|1||
+hk-final-sent|hklast|claim.c:free_send_now:flux_future_destroy|clean|clean|1 0 final||
EOT

test_expect_success 'each place is in the source' '
	cut -d"|" -f3 points >places &&
	while read -r place; do
		${SHARNESS_TEST_SRCDIR}/scripts/epilog-crash.sh - "$place" \
		    >line </dev/null &&
		test -s line || return 1
	done <places
'

# CRASH_POINTS=NAME,... does these only.
last=
while IFS="|" read -r name scenario place journal log frees told freed; do
	case "$name,$CRASH_POINTS," in
		+*,,) ;;
		*,,) test_have_prereq LONGTEST || continue ;;
		*) case ",$CRASH_POINTS," in *,${name#+},*) ;; *) continue ;; esac ;;
	esac
	name=${name#+}
	test_expect_success "${last:+come back from $last, }crash at $name" '
		test_when_finished "test_debug \"cat gdb.out then.log\"" &&
		point "$name" "$scenario" "$place" \
		    "$journal" "$log" "$frees" "$told" "$freed"
	'
	last=$name
done <points

test_expect_success 'come back from the last crash, and let go of everything' '
	instance $(config_of "$(last_scenario)") <<-EOT
	epilog_watch_start
	strict_start
	. ./back.sh
	flux config load crash.toml
	finish \$witness
	epilog_wait \$witness clean
	epilog_handoffs_are \$witness "6 free"
	test "\$(strict_freed \$witness)" = "7 final"
	allocated_are ""
	run_on 8 0-7
	epilog_watch_check
	EOT
'

#
# The scheduler is a process, and may be killed alone.  (The broker takes that
# for the end, if not told otherwise.)  No watch: it would take the scheduler
# for one that is still there.
#
# METHOD:WHEN|STEP|TOLD, where WHEN is about the first call of METHOD since the
# scheduler was started, STEP is what the job does next, and TOLD is what the
# next scheduler is told of.  + in front: as above.
#
cat >deaths <<'EOT'
hello:before|finish $id 1|2-3
+hello:after|finish $id 1|2-3
_sched_ready:before|finish $id 1|2-3
_sched_ready:after|finish $id 1|2-3
+free:before|finish $id 1|2-3
free:after|finish $id 1|2-3
free:before|finish $id 1-3|
+free:after|finish $id 1-3|
alloc_success:before|other=$(submit 1 0)|1-3
+_alloc_commit_continuation:before|other=$(submit 1 0)|1-3
_alloc_commit_continuation:after|other=$(submit 1 0)|1-3
EOT
cat >death.sh <<'EOT'
schedulers () {
	flux module list >modules
	grep -c sched-strict modules
}
strict_start
while IFS="|" read -r die step told; do
	echo "== $die $step"
	id=$(submit_held 4 0-3)
	finish $id 0
	epilog_wait_gone $id 0
	strict_stop
	flux module load --name=sched-strict \
	    ${SHARNESS_TEST_SRCDIR}/scripts/epilog-crash.py die=$die
	case $die in
		hello:*|_sched_ready:*) wait_result 0 schedulers ;;
	esac
	eval "$step"
	case $step in
		*1-3) epilog_wait $id free ;;
		finish*) epilog_wait_gone $id 1 ;;
	esac
	wait_result 0 schedulers
	strict_start
	test "$(strict_told $id)" = "$told"
	case $step in
		other*)
			epilog_wait $other clean
			flux job status $other
			;;
		*) run_on 2 0-1 ;;
	esac
	full_finish $id
	case $step in
		*1-3) epilog_handoffs_are $id "0 free" ;;
		finish*) epilog_handoffs_are $id "0 1 free" ;;
		*) epilog_handoffs_are $id "0 free" ;;
	esac
	test "$(strict_freed $id)" = "${told:+$told final}"
	allocated_are ""
done <deaths.now
flux dmesg >death.log
if grep "job-manager.*\(err\|crit\)" death.log; then exit 1; fi
EOT
# Usage: deaths <FILE
deaths () {
	rm -rf state &&
	mkdir state &&
	cat - >deaths.now &&
	instance crash.toml -Sbroker.module-nopanic=1 <death.sh
}
test_expect_success 'scheduler is killed at some of its steps' '
	sed -n "s/^+//p" deaths >deaths.some &&
	deaths <deaths.some
'
if test_have_prereq LONGTEST; then
	test_expect_success 'scheduler is killed at the others' '
		grep -v "^+" deaths >deaths.others &&
		deaths <deaths.others
	'
fi

test_done
