#!/bin/sh
# SPDX-License-Identifier: LGPL-3.0
#
# Let a call in the job manager fail, as for want of memory.
#
# Usage: epilog-fail.sh PID FUNCTION VALUE CONDITION READY
#
#   PID        of the broker
#   FUNCTION   the next call of it for which CONDITION holds is not made: it returns
#              VALUE, a C expression, at once
#   CONDITION  on its arguments; $n counts from 0, if it is used
#   READY      file to create when that may come
#
# What called it goes to standard output.  Symbols of other parts are left out:
# reading all takes longer than the rest.

cat >gdb.commands <<HERE
set pagination off
set confirm off
set width 0
handle all nostop noprint pass
sharedlibrary job-manager\\.so
set \$n = 0
tbreak $2 if $4
shell touch $5
continue
backtrace 3
return $3
detach
HERE
exec gdb -nx --batch -iex "set auto-solib-add off" -x gdb.commands -p $1
