#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# program.sh PROGRAM -- farside on memory nodes behind the RDMA device of this machine: counts, clients and nodes that
# are killed, stopped and fenced, and what it says when something is missing. Prints one TAP line per case.

. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/nodes.sh"
patience=30

# start NAME URI ARGUMENT...: a node; its process id is in $node, where it listens in $at_uri
start() {
	name=$1 uri=$2
	shift 2
	launch 60 --listen "$uri" "$@" 2>"$name.err"
	at_uri=$(echo "$line" | cut -d' ' -f2)
	case $line in "ready verbs://"*) ;; *) cp "$name.err" err && return 1 ;; esac
}

# kind NAME MEMBER: a number of one kind of operation in the JSON
kind() {
	sed 's/.*"operations": {//' out | grep -o "\"$1\": {[^}]*" | grep -o "\"$2\": [0-9.e+-]*" | cut -d' ' -f2
}

# The device ------------------------------------------------------------------------------------------------------

start zero "verbs://127.0.0.1:0" --size 64m && zero=$node && first=$at_uri
ok "a node serves"
grep -q "^farside node: RDMA device rxe0, port 1, GID 1: 10.99.0.1 (RoCE v2); clients get memory windows$" zero.err
ok "it says which device and address it took"
start one "verbs://127.0.0.1:0?gid=1&windows=no" --size 64m && one=$node
ok "another one, without windows"
export FARSIDE_POOL="$first,${at_uri#verbs://}"

for try in "device=mlx9_0:there is no RDMA device 'mlx9_0'" "gid=200:no GID of that index"; do
	runs 3 ls --pool "$first?${try%%:*}" && grep -q "${try#*:}" err
	ok "a client is told: ${try#*:}"
done
timeout 20 "$farside" node --listen "verbs://127.0.0.1:0?device=none" --size 8m >out 2>err
[ $? = 3 ] && grep -q "there is no RDMA device 'none'" err
ok "and so is a node"
runs 3 ls --pool "tcp${first#verbs}"
ok "a node of another transport is refused"

# As another user, who may lock 64 KiB. (Root may lock all there is.)
chmod 666 /dev/infiniband/* && chmod 777 "$dir" &&
	su -s /bin/sh nobody -c "ulimit -l 64; exec timeout 20 $farside node --listen verbs://127.0.0.1:0 --size 8m" >out 2>err
[ $? = 3 ] && grep -q "the limit of locked memory (ulimit -l) is 64 KiB. Raise it" err
ok "memory that may not be locked: the limit, its value and what to do"

# Tables ----------------------------------------------------------------------------------------------------------

runs 0 create t && runs 0 put t key value && runs 0 get t key && [ "$(cat out)" = value ]
ok "what was put comes back"
counts="--keys 500 --ops 500 --depth 1 --json --verify --value-size 8 --distribution uniform"
runs 0 bench --workload C $counts && [ "$(kind get_hit n)" = 500 ] && [ "$(kind get_hit round_trips)" = 2 ] &&
	[ "$(kind get_hit cas)" = 0 ]
ok "a get takes two round trips, as on shared memory"
runs 0 bench --workload update $counts && [ "$(kind update round_trips)" = 3 ] && [ "$(kind update writes)" = 1 ] &&
	[ "$(kind update cas)" = 1 ]
ok "an update takes three, one WRITE, one CAS"
runs 0 bench --workload insert $counts && [ "$(kind insert round_trips | cut -c1)" = 3 ]
ok "an insert takes three"
runs 0 bench --workload A --keys 2000 --ops 10000 --threads 2 --verify --json && [ "$(kind get_hit n)" != 0 ]
ok "two threads with 32 operations in flight each: every value is right"
grep -o '"ops_per_s": [0-9]*' out | sed 's/^/# /'

# Clients that die, stop and wake up --------------------------------------------------------------------------------

mkfifo feed
loads 'id,v
a,1'
kill -9 $client
wait $client
exec 4>&-
runs 0 put t after kill && runs 0 get t after && [ "$(cat out)" = kill ] && runs 0 check t
ok "a client is killed: the others work on"

loads 'id,v
a,1'
kill -STOP $client
# Its lease ends while others are at work, and who takes over what it holds has it fenced.
runs 0 bench --workload A --keys 2000 --ops 20000 --json && waits "a client that was silent past its lease" zero.err
ok "a client that is stopped past its lease is fenced"
kill -CONT $client
printf 'b,2\n' >&4
exec 4>&-
wait $client
[ $? != 0 ] && runs 1 get t b && runs 0 check t
ok "it wakes up, fails, and has changed nothing"

# Nodes that die ----------------------------------------------------------------------------------------------------

kill -9 $one
wait $one 2>/dev/null
runs 3 ls && grep -q "memory node 1 at" err && kill -0 $zero
ok "a node is killed: it is named"

plan
