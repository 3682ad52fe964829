# SPDX-License-Identifier: Apache-2.0
# tap.sh -- what the scripts beside it share, which source it first: the program's path in $farside, a folder $dir that
# is the script's own (and its to remove), one TAP line per case, the plan at the end.

farside=$(realpath "$1")
dir=$(mktemp -d "/tmp/farside-$(basename "$0" .sh)-XXXXXX") || exit 1
at=0
failed=0
limit=60 # seconds that a command may take
export LC_ALL=C

# ok NAME: one case; the status of the command before it tells how it went
ok() {
	status=$?
	at=$((at + 1))
	if [ $status = 0 ]; then
		echo "ok $at $1"
	else
		echo "not ok $at $1"
		sed 's/^/# /' err out 2>/dev/null | head -20
		failed=1
	fi
}

# skip NAME REASON: a case that cannot run here
skip() {
	at=$((at + 1))
	echo "ok $at $1 # SKIP $2"
}

# runs EXPECTED ARGUMENT...: farside exits with that; its output lies in out and err
runs() {
	want=$1
	shift
	timeout "$limit" "$farside" "$@" >out 2>err
	code=$?
	[ $code = "$want" ] || echo "# farside $*: exit $code, not $want" >>err
	[ $code = "$want" ]
}

# at_work PID: waits until that client has opened its handle, which gives it a second thread, and for a moment more
at_work() {
	for _ in $(seq 400); do
		[ ! -d "/proc/$1/task" ] || [ "$(ls "/proc/$1/task" | wc -l)" -lt 2 ] || break
		sleep 0.05
	done
	sleep 0.3
}

# Prints the plan and ends the script.
plan() {
	echo "1..$at"
	exit $failed
}
