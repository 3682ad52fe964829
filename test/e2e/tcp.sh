#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tcp.sh PROGRAM -- memory nodes behind TCP on loopback, as a user meets them: keys, clients and nodes that die. Prints one
# TAP line per case.

. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/nodes.sh"
limit=30

# start ARGUMENT...: a node; its process id is in $node, what it says when it is ready in $line
start() {
	launch 20 "$@" 2>>node.err
	[ -n "$line" ]
}

# address: the tcp: URI of the last node
address() {
	echo "$line" | tr ' ' '\n' | grep '^tcp:'
}

# Starting ----------------------------------------------------------------------------------------------------

head -c 32 /dev/urandom >key && head -c 32 /dev/urandom >other && chmod 600 key other
runs 3 node --listen tcp://0.0.0.0:0 --size 64m && grep -q 'needs a key' err; ok "an address for everybody needs a key"
runs 2 node --listen tcp://127.0.0.1 --size 64m && grep -q 'port is missing' err; ok "an address without a port"
runs 2 node --listen udp://127.0.0.1:1 --size 64m && grep -q 'not of the form tcp://' err; ok "another scheme"
runs 3 node --listen 'tcp://127.0.0.1:0?key=none' --size 64m && grep -q 'none: No such file' err; ok "a key file that is missing"
runs 2 node "shm:$dir/n0" --size 64m --spin 5 && grep -q 'spin is for --listen' err; ok "nobody to spin for"
chmod 644 key
runs 3 node --listen 'tcp://127.0.0.1:0?key=key' --size 64m && grep -q 'mode 0600, not 0644' err; ok "a key that others may read"
chmod 600 key
start --listen 'tcp://0.0.0.0:0?key=key' --size 64m && n0=$node && port=${line%% 67108864} && port=${port##*:}
[ "$line" = "ready tcp://0.0.0.0:$port 67108864" ]; ok "with a key it serves everybody"
runs 3 node --listen "tcp://127.0.0.1:$port" --size 64m && grep -q 'already in use' err; ok "second node on one port"
start "shm:$dir/n1" --listen 'tcp://127.0.0.1:0?key=key' --size 64m --file f1 && n1=$node
echo "$line" | grep -q "^ready shm:$dir/n1 tcp://127.0.0.1:[0-9]* 67108864$"; ok "a node for this machine and for others"
port1=$(address) && port1=${port1##*:}

# Clients -----------------------------------------------------------------------------------------------------

pool="tcp://127.0.0.1:$port,localhost:$port1"
runs 3 create t --pool "$pool" && grep -q "memory node 0 at '127.0.0.1:$port': it may not be used" err; ok "no key, no pool"
runs 3 create t --pool "$pool?key=other" && grep -q 'wrong key' err; ok "another key, no pool"
export FARSIDE_POOL="$pool?key=$dir/key"
seq 1 3000 | sed 's/.*/{"id":"k&","v":"value &"}/' >rows
runs 0 create t && runs 0 load t rows --key id --value v; ok "load"
runs 0 get t k1999 && [ "$(cat out)" = 'value 1999' ]; ok "get"
runs 0 scan t && [ "$(wc -l <out)" = 3000 ] && sort out >before; ok "scan"
runs 0 put t big "$(head -c 100000 /dev/zero | tr '\0' x)" && runs 0 get t big && [ "$(wc -c <out)" = 100000 ]; ok "a value longer than a frame"
runs 0 del t big && runs 0 check t && runs 0 stat t; ok "del, check, stat"
runs 0 bench --keys 1000 --ops 3000 --workload A --verify; ok "bench"

# Clients that die --------------------------------------------------------------------------------------------

mkfifo feed
loads "$(seq 5000 5500 | sed 's/.*/{"id":"k&","v":"late"}/')"
ends $client KILL
exec 4>&-
runs 0 get t k1 && runs 0 put t after v && runs 0 check t; ok "a client killed while it loads harms nobody"
loads "$(head -100 rows)"
kill -STOP $client
sleep 3
runs 0 check t --repair && grep -q 'cut off 127.0.0.1 port [0-9]*: a client that was silent past its lease' node.err
ok "a client that stands still is cut off, and the node says so"
kill -CONT $client
tail -100 rows >&4
exec 4>&-
wait $client 2>/dev/null
code=$?
[ $code = 3 ] && grep -q 'revoked' load.err; ok "when it goes on, it learns that it was fenced"
runs 0 check t; ok "and has harmed nobody"

# Nodes that die ----------------------------------------------------------------------------------------------

loads "$(head -100 rows)"
begun=$(date +%s)
kill -9 $n1
tail -2000 rows >&4
exec 4>&-
wait $client 2>/dev/null
code=$?
[ $code = 3 ] && [ $(($(date +%s) - begun)) -le 3 ]; ok "kill -9 of a node ends its clients within 3 s"
runs 3 get t k1 && grep -q "memory node 1 at 'localhost:$port1': nobody serves it" err; ok "node gone: the client names it"
start "shm:$dir/n1" --listen "tcp://127.0.0.1:$port1?key=key" --file f1 && n1=$node; ok "it starts again on its file and its port"
ends $n0 TERM
[ $code = 0 ]; ok "SIGTERM: exit 0"
start --listen "tcp://127.0.0.1:$port?key=key" --size 64m && n0=$node
runs 3 get t k1 && grep -q 'came back empty' err; ok "an empty first node is refused"
ends $n0 TERM
ends $n1 TERM

# One region, both ways ---------------------------------------------------------------------------------------

start "shm:$dir/s" --listen tcp://127.0.0.1:0 --size 64m && n0=$node && both=$(address)
runs 0 create t --pool "$both" && runs 0 load t rows --key id --value v --pool "shm:$dir/s" && runs 0 scan t --pool "$both" &&
	sort out | cmp -s - before; ok "loaded on this machine, read over TCP"
runs 0 del t k1 --pool "$both" && runs 1 get t k1 --pool "shm:$dir/s" && runs 0 check t --pool "$both"; ok "and the other way round"
ends $n0 TERM
[ $code = 0 ] && [ ! -e s ]; ok "nothing is left"

# A region whose file is taken away ---------------------------------------------------------------------------

start --listen tcp://127.0.0.1:0 --size 64m --file lost && n0=$node && pool=$(address)
runs 0 create t --pool "$pool" && mv lost elsewhere && runs 3 get t k --pool "$pool" &&
	grep -q 'the file of its region was removed or replaced' err; ok "a node whose file lost its name takes no new client"
mv elsewhere lost && runs 1 get t k --pool "$pool"; ok "until the name is back"
ends $n0 TERM
plan
