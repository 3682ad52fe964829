#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bench.sh PROGRAM -- `farside bench` on pools of its own: exact counts, every workload, interrupts, refusals.
# Prints one TAP line per case.

. "$(dirname "$0")/tap.sh"
export TMPDIR="$dir/tmp"
unset FARSIDE_POOL
mkdir "$TMPDIR"
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

# kind NAME MEMBER: a number of one kind of operation in the JSON
kind() {
	sed 's/.*"operations": {//' out | grep -o "\"$1\": {[^}]*" | grep -o "\"$2\": [0-9.e+-]*" | cut -d' ' -f2
}

# bytes KIND: both ways, without what the READs of false hits took: 78 out, 66 and a block of 64 in
bytes() {
	awk -v out="$(kind "$1" bytes_out)" -v in_="$(kind "$1" bytes_in)" -v false="$(kind "$1" false_hits)" \
		'BEGIN { printf "%.3f\n", out + in_ - 208 * false }'
}

# member NAME: a number at the top or in a section
member() {
	grep -o "\"$1\": [0-9.e+-]*" out | head -n 1 | cut -d' ' -f2
}

# Counts of operations that meet nobody: small values, so that false fingerprint hits are all that can add.
counts="--keys 2000 --ops 2000 --depth 1 --json --verify --value-size 8"

runs 0 bench --workload C --distribution uniform $counts && [ "$(kind get_hit n)" = 2000 ] &&
	[ "$(kind get_hit round_trips)" = 2 ] && [ "$(kind get_hit cas)" = 0 ] && [ "$(bytes get_hit)" = 752.000 ]
ok "a get takes two round trips and, false hits apart, 752 B"
runs 0 bench --workload update --distribution uniform $counts && [ "$(kind update round_trips)" = 3 ] &&
	[ "$(kind update writes)" = 1 ] && [ "$(kind update cas)" = 1 ] && [ "$(bytes update)" = 1124.000 ]
ok "an update takes three, one WRITE, one CAS, 1,124 B"
runs 0 bench --workload negative $counts && [ "$(kind get_miss n)" = 2000 ] &&
	[ "$(kind get_miss round_trips | cut -c1)" = 1 ] &&
	[ "$(bytes get_miss)" = 544.000 ] && [ "$(kind get_miss false_hits)" != 0 ]
ok "a miss takes one, and false hits are counted"
runs 0 bench --workload delete $counts && [ "$(kind delete round_trips | cut -c1)" = 3 ] && [ "$(kind delete cas)" = 1 ] &&
	grep -q '"table": {"keys": 0,' out
ok "a delete takes three, and all keys are gone"

for w in A B D F insert; do
	runs 0 bench --workload $w --keys 5000 --ops 20000 --threads 2 --verify --json && [ "$(member ops)" = 20000 ] &&
		[ "$(member failed)" = 0 ]
	ok "workload $w: two threads, every value is right, check finds nothing"
done

runs 0 bench --workload D --keys 5000 --ops 10000 --json &&
	[ $((5000 + $(kind insert n))) = "$(grep -o '"table": {"keys": [0-9]*' out | grep -o '[0-9]*$')" ]
ok "inserts counted are keys in the table"
runs 0 bench --workload A --keys 5000 --ops 20000 --clients 2 --nodes 2 --no-backoff --no-credits --shared-qp --verify --json
ok "all switches at once, on two nodes"
runs 0 bench --keys 1000 --ops 1000 && grep -q '^get_hit *1,000 ' out && grep -q 'operations/s$' out
ok "a text for people"
if command -v gnuplot >/dev/null; then
	runs 0 bench --keys 1000 --ops 1000 --plot plot.svg && grep -q '<svg' plot.svg
	ok "a plot"
	echo old >old.svg
	runs 3 bench --keys 1000 --ops 1000000000 --plot none/plot.svg && grep -q '^farside bench: --plot none/plot.svg: No such' err &&
		runs 3 bench --keys 1000 --ops 1000 --table bench --size 320k --plot old.svg && [ "$(cat old.svg)" = old ] &&
		runs 3 bench --keys 1000 --ops 1000 --table bench --size 320k --plot new.svg && [ ! -e new.svg ]
	ok "a plot that cannot be written is refused before the run"
fi

# The simulator: the same report in virtual time, the same twice.
sim="--pool sim:cx6-200 --nodes 2 --keys 5000 --ops 20000 --depth 4 --json"
runs 0 bench $sim --threads 8 --workload A --warmup 1000 --footprint 10 --verify && [ "$(member ops)" = 20000 ] &&
	[ "$(member failed)" = 0 ] && cp out first && runs 0 bench $sim --threads 8 --workload A --warmup 1000 --footprint 10 \
	--verify && cmp -s out first
ok "a simulated pool: every value is right, and one seed is one run"
runs 0 bench $sim --threads 8 --workload C --seed 2 && ! cmp -s out first && [ "$(kind get_hit n)" = 20000 ] &&
	[ "$(kind get_hit round_trips | cut -c1)" = 2 ] && [ "$(kind get_hit p50_ns)" -gt 3000 ]
ok "a get there takes two round trips, and their time"
for profile in cx4-100 cx5-100 tcp cxl; do
	runs 0 bench --pool sim:$profile --keys 1000 --ops 2000 --workload D --json && [ "$(member ops)" = 2000 ]
	ok "profile $profile"
done
runs 0 bench $sim --threads 16 --workload A && fast=$(member ops_per_s | cut -d. -f1) &&
	runs 0 bench $sim --threads 16 --workload A --no-backoff --no-credits --shared-qp=1 &&
	[ "$fast" -gt $((2 * $(member ops_per_s | cut -d. -f1))) ]
ok "the switches act there"
runs 0 bench --pool sim:cx6-200 --keys 2000 --ops 4000 --clients 1,2,4 && [ "$(grep -c '^ *[124] ' out)" = 3 ] &&
	grep -q ' 2,000 keys' out && grep -q '^ *4  *[0-9]*,[0-9,]* ' out
ok "a list of clients: a line of each"
runs 0 bench --pool sim:cx6-200 --keys 2000 --ops 4000 --clients 1,4 --json && [ "$(grep -o '"design"' out | wc -l)" = 2 ]
ok "and an array"
if command -v gnuplot >/dev/null; then
	runs 0 bench --pool sim:cx6-200 --keys 2000 --ops 4000 --clients 1,4 --plot sweep.svg && grep -q '<svg' sweep.svg
	ok "and a plot"
fi
runs 2 bench --pool sim:cx9 && grep -q "there are cx4-100, cx5-100, cx6-200, cxl, tcp" err
ok "an unknown profile: which there are"
runs 2 bench --warmup 5 --keys 10 && grep -q -- "--warmup is for --pool sim:PROFILE" err
ok "options of the simulator are refused elsewhere"
runs 2 bench --pool sim:tcp --clients 1,0 && runs 2 bench --pool sim:tcp --clients 1,,2
ok "a list with something else in it"
runs 0 bench --pool sim:cxl --keys 2000 --ops 2000 --workload delete --json && grep -q '"table": {"keys": 0,' out
ok "a delete workload there ends with an empty table"

# An interrupt ends the run with a report of what was done, and leaves no process.
"$farside" bench --keys 1000 --ops 1000000000 --json >out 2>err &
pid=$!
sleep 1
nodes=$(pgrep -P $pid)
kill -INT $pid
wait $pid
code=$?
[ $code = 130 ] && grep -q '"interrupted": true' out && [ "$(member ops)" -gt 0 ] && [ -n "$nodes" ] &&
	! kill -0 $nodes 2>/dev/null
ok "an interrupt gives a partial report and leaves no node"

runs 2 bench --workload E && grep -q "not one of A" err; ok "unknown workload"
runs 2 bench --theta 1; ok "theta out of range"
runs 2 bench --cache 1m && grep -q 'no cache' err; ok "a cache is refused while there is none"
runs 2 bench --keys 300 --key-size 2; ok "keys too short for so many"
runs 2 bench --threads 0; ok "no threads"
runs 2 bench --ops 0; ok "no operations"
runs 2 bench --pool "shm:$dir/none" --nodes 2 && grep -q 'a pool of its own' err; ok "nodes to start, and a pool that is there"
runs 3 bench --pool "shm:$dir/none"; ok "no such pool"
runs 2 bench --pool nonsense && grep -q "expected shm:PATH" err; ok "malformed URI"
runs 2 bench --design nonsense; ok "no such design"
runs 3 bench --keys 1000000 --size 16m && grep -q 'memory' err; ok "nodes too small"
[ -z "$(ls -A "$TMPDIR")" ]; ok "no socket is left behind"

plan
