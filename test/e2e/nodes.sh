# SPDX-License-Identifier: Apache-2.0
# nodes.sh -- for scripts that start memory nodes, which source it after tap.sh: nodes that end with the script, which
# goes on in $dir; clients in the middle of a load; what a file says in time.

nodes=
patience=5 # seconds that waits() looks

finish() {
	for pid in $nodes; do
		kill -9 "$pid" 2>/dev/null
	done
	wait
	rm -rf "$dir"
}
trap finish EXIT
cd "$dir" || exit 1

# launch SECONDS ARGUMENT...: a node; its process id is in $node, what it says in so much time when it is ready in $line
launch() {
	ready_in=$1
	shift
	mkfifo ready || exit 1
	"$farside" node "$@" --ready-fd 3 3>ready >/dev/null &
	node=$!
	nodes="$nodes $node"
	line=$(timeout "$ready_in" cat ready)
	rm ready
}

# ends PID SIGNAL: sends it and waits; the exit status is in $code
ends() {
	kill "-$2" "$1"
	wait "$1" 2>/dev/null
	code=$?
}

# waits TEXT FILE [N]: until N lines (1) of FILE have it
waits() {
	for _ in $(seq $((patience * 20))); do
		[ "$(grep -c "$1" "$2")" -lt "${3:-1}" ] || return 0
		sleep 0.05
	done
	return 1
}

# loads ROWS: leaves a client ($client) in the middle of a load from the fifo `feed`, of which descriptor 4 is the other
# end: it has got ROWS and waits for more
loads() {
	"$farside" load t feed --key id --value v >load.out 2>load.err &
	client=$!
	exec 4>feed
	printf '%s\n' "$1" >&4
	at_work $client
}
