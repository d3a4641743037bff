#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0
#
# Stop the job manager at a place in its source, while the broker goes on.
#
# Usage: epilog-crash.sh PID PLACE TRIGGER THEN
#
#   PID      of the broker, or - to print the line or function of PLACE and exit
#   PLACE    FILE:FUNCTION[:TEXT[:N]], before the Nth time (default: 1) that the
#            first line of FUNCTION with TEXT in it is executed, or FUNCTION is
#            called if there is no TEXT.  FILE is in src/modules/job-manager
#   TRIGGER  script that makes it get there
#   THEN     script to run when it is there.  It has to end the broker
#
# Both scripts are for sh(1), with -ex, and run in the background.  gdb's
# output tells where it stopped, with the stack.  It may be a line further on,
# if the compiler left nothing at this one.  FLUX_SOURCE_DIR has to be set.
#
# Symbols of other parts are left out: reading all takes longer than the rest.
# If the job manager is not loaded yet, that is waited for.
# The thread is kept where it is by a call of pause(3) that is made for it.

pid=$1
trigger=$3
then=$4
IFS=: read -r file function text count <<HERE
$2
HERE

source=$FLUX_SOURCE_DIR/src/modules/job-manager/$file
if test -n "$text"; then
	where=$(awk -v function_="$function (" -v text="$text" '
		/^[a-z]/ && index ($0, function_) { found = 1 }
		found && !inside && /;$/ { found = 0 }
		found && /^{/ { inside = 1 }
		inside && index ($0, text) { print NR; exit }
		inside && /^}/ { exit }
	' $source)
else
	where=$function
fi
if test -z "$where"; then
	echo >&2 "epilog-crash: $source: no '$text' in $function()"
	exit 1
fi
if test "$pid" = "-"; then
	echo "$where"
	exit 0
fi

cat >gdb.commands <<HERE
set pagination off
set confirm off
set width 0
set scheduler-locking off
handle all nostop noprint pass
set breakpoint pending on
sharedlibrary job-manager\\.so
sharedlibrary libc\\.so
set auto-solib-add on
tbreak $file:$where
ignore \$bpnum $((${count:-1} - 1))
shell sh -ex $trigger >trigger.log 2>&1 &
continue
backtrace 5
shell sh -ex $then >then.log 2>&1 &
while 1
call (int)pause ()
end
HERE
exec gdb -nx --batch -iex "set auto-solib-add off" -x gdb.commands -p $pid
