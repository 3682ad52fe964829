#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# node.sh PROGRAM -- memory nodes that are killed, restarted and misused, with tables in them. Prints one TAP line per
# case.

. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/nodes.sh"
limit=20
export FARSIDE_POOL="shm:$dir/n0,$dir/n1"

# start NAME ARGUMENT...: a node at shm:DIR/NAME; its process id is in $node
start() {
	name=$1
	shift
	launch 20 "shm:$dir/$name" "$@" 2>"$name.err"
	[ "${line#ready "shm:$dir/$name" }" != "$line" ]
}

# Starting ----------------------------------------------------------------------------------------------------

start n0 --size 64m --file f0; ok "node on a new file"
n0=$node
start n1 --size 64m; ok "node in memory"
n1=$node
[ "$(stat -c %a n0 n1 f0 | tr '\n' ' ')" = "600 600 600 " ] && [ "$(stat -c %s f0)" = 67108864 ]; ok "socket and file belong to the user alone"
[ ! -e f0.new ]; ok "nothing else is left beside the file"
runs 2 node; ok "no path is wrong usage"
runs 2 node "shm:$dir/n2"; ok "no size is wrong usage"
runs 2 node "shm:$dir/n2" --size 4x && grep -q "'4x' is no number of bytes from 1 to 64t" err; ok "malformed size"
runs 2 node "tcp:$dir/n2" --size 64m && grep -q 'shm:PATH' err; ok "another scheme"
runs 2 node "shm:$dir/n2" --size 100k && grep -q 'too few or too many' err && [ ! -e n2 ]; ok "size too small"
runs 3 node "shm:$dir/n0" --size 64m && grep -q "^farside node: $dir/n0: another memory node serves this socket" err; ok "second node on one socket"
runs 3 node "shm:$dir/n2" --file f0 && grep -q 'f0: another memory node serves this file' err; ok "second node on one file"
echo text >n2
runs 3 node "shm:$dir/n2" --size 64m && grep -q 'not a socket' err && [ "$(cat n2)" = text ]; ok "a file in the socket's place is kept"
rm n2
runs 2 node "shm:$dir/$(printf '%0120d' 0)" --size 64m && grep -q "a socket's path has" err; ok "path too long"
runs 3 node "shm:$dir/n2" --size 64m --file none/f && grep -q '^farside node: none/f: No such file' err; ok "folder of the file is missing"
runs 3 node "shm:$dir/n2" --size 60000g --file f2 && grep -q "f2: cannot take" err && [ ! -e f2 ] && [ ! -e f2.new ]; ok "no room for the file"

# Clients that die --------------------------------------------------------------------------------------------

seq 1 2000 | sed 's/.*/{"id":"k&","v":"value &"}/' >rows
"$farside" create t && "$farside" load t rows --key id --value v >out 2>err; ok "load"
mkfifo feed
loads "$(seq 3000 3500 | sed 's/.*/{"id":"k&","v":"late"}/')"
ends $client KILL
exec 4>&-
[ $code = 137 ] && runs 0 get t k1999 && [ "$(cat out)" = 'value 1999' ]; ok "a client killed while it loads harms nobody"
runs 0 put t after v && runs 0 check t; ok "writes go on, the table is sound"

loads "$(head -100 rows)"
kill -STOP $client
sleep 3
runs 0 check t --repair && wait $client 2>/dev/null
[ $? = 137 ] && cat n0.err n1.err | grep -q "killed process $client: a client that was silent past its lease"
ok "a client that stands still is killed, and the node says so"
exec 4>&-

# Nodes that die ----------------------------------------------------------------------------------------------

ends $n1 TERM
[ $code = 0 ] && [ ! -e n1 ]; ok "SIGTERM: exit 0, the socket is gone"
runs 3 get t k1 && grep -q "memory node 1 at '$dir/n1'" err; ok "node gone: the client names it"
start n1 --size 64m
n1=$node
runs 3 get t k1 && grep -q "came back empty" err; ok "node that came back empty is refused"
ends $n1 INT
[ $code = 0 ]; ok "SIGINT: exit 0"

export FARSIDE_POOL="shm:$dir/m0,$dir/m1"
start m0 --size 64m --file g0 && m0=$node && start m1 --size 64m --file g1 && m1=$node
"$farside" create t && "$farside" load t rows --key id --value v >out 2>err && runs 0 scan t; ok "a pool on files"
sort out >before
# One client stops in the middle of its work and never learns of the restart.
loads "$(head -100 rows)"
kill -STOP $client
ends $m0 KILL
ends $m1 KILL
start m0 --file g0 && m0=$node && start m1 --file g1 --size 64m && m1=$node; ok "both nodes killed and restarted on their files"
wait $client 2>/dev/null
[ $? = 137 ] && cat m0.err m1.err | grep -q "killed process $client: a client of the node's former life"
ok "the restart killed the client that was left, and said so"
exec 4>&-
runs 0 scan t && sort out | cmp -s - before && runs 0 check t; ok "every record is still there"
runs 0 put t new v && runs 0 get t new; ok "and the table takes more"
ends $m0 TERM
ends $m1 TERM
cp g0 h0 && chmod 600 h0 && printf '\377' | dd of=h0 bs=1 seek=16 conv=notrunc 2>/dev/null
runs 3 node "shm:$dir/m0" --file h0 && grep -q 'h0: format version' err; ok "another format version"
cp g0 h0 && truncate -s 1m h0
runs 3 node "shm:$dir/m0" --file h0 && grep -q 'h0: truncated' err; ok "truncated file"
cp g0 h0 && chmod 644 h0
runs 3 node "shm:$dir/m0" --file h0 && grep -q 'mode 0600, not 0644' err; ok "file that others may read"
runs 2 node "shm:$dir/m0" --file g0 --size 32m && grep -q 'not the 33554432 asked for' err; ok "another size than the file has"
start m0 --file g1 && m0=$node && start m1 --file g0 && m1=$node
runs 3 get t k1 && grep -q "stand in another order" err; ok "nodes in another order are refused"
ends $m0 TERM
ends $m1 TERM
start m0 --size 64m && m0=$node && start m1 --file g1 && m1=$node
runs 3 get t k1 && grep -q "memory node 0 at .* is new or came back empty" err; ok "an empty first node is refused"
ends $m0 TERM
start m0 --file g0 && m0=$node
runs 0 get t k1 && [ "$(cat out)" = 'value 1' ]; ok "and has not harmed the other one"
runs 3 ls --pool "shm:$dir/m0" && grep -q "has 2 memory nodes, of which the URI names 1: node 1 is missing" err &&
	runs 3 ls --pool "shm:$dir/m1" && grep -q "node 0 is missing" err; ok "a URI that leaves out a node is told which"
ends $m0 TERM
ends $m1 TERM

# A file that loses its name -----------------------------------------------------------------------------------

export FARSIDE_POOL="shm:$dir/l0"
start l0 --size 64m --file lost && l0=$node
"$farside" create t && "$farside" load t rows --key id --value v >out 2>err; ok "a pool whose file will be taken away"
"$farside" load t feed --key id --value v >load.out 2>load.err &
client=$!
exec 4>feed
head -100 rows >&4
at_work $client
mv lost elsewhere
waits "removed or replaced" l0.err; ok "its node says when the file loses its name"
runs 3 get t k1 && grep -q "memory node 0 at .*: the file of its region was removed or replaced" err
ok "and new clients learn why it does not take them"
mv elsewhere lost
waits "is back" l0.err && runs 0 get t k1; ok "they are welcome when the name is back"
cp lost other && chmod 600 other && mv other lost
waits "removed or replaced" l0.err 2 && runs 3 get t k1 && grep -q "removed or replaced" err; ok "a file put in its place is another one"
rm lost
runs 3 ls && [ "$(grep -c 'removed or replaced' l0.err)" = 2 ]; ok "once is enough"
seq 5000 5100 | sed 's/.*/{"id":"k&","v":"late"}/' >&4
exec 4>&-
wait $client
[ $? = 0 ]; ok "a client at work goes on"
kill -STOP $l0
cp "$(sed -n 's/.*bytes are in \([^ ]*\) .*/\1/p' l0.err | tail -n 1)" saved && chmod 600 saved
kill -KILL $l0
wait $l0 2>/dev/null
start l0 --file saved && l0=$node
runs 0 get t k1 && runs 0 get t k5100 && [ "$(cat out)" = late ] && runs 0 check t; ok "a copy of what it still held is the pool"
ends $l0 TERM

# A file that is cut -------------------------------------------------------------------------------------------

export FARSIDE_POOL="shm:$dir/c0"
start c0 --size 64m --file cut && c0=$node
"$farside" create t && "$farside" load t rows --key id --value v >out 2>err; ok "a pool whose file will be cut"
"$farside" load t feed --key id --value v >/dev/null 2>load.err &
client=$!
exec 4>feed
head -100 rows >&4
at_work $client
truncate -s 1m cut
wait $c0 2>/dev/null
[ $? = 3 ] && grep -q "somebody cut the region's file" c0.err && [ ! -e c0 ]; ok "its node ends and says why"
seq 5000 9000 | sed 's/.*/{"id":"k&","v":"late"}/' >&4 2>/dev/null
exec 4>&-
wait $client 2>/dev/null
[ $? = 3 ] && grep -q 'memory node' load.err; ok "its client ends with an error, not with a crash"
runs 3 node "shm:$dir/c0" --file cut && grep -q 'cut: truncated' err; ok "the file is refused from then on"

# Other users --------------------------------------------------------------------------------------------------

# A node that may not stop its clients: another user's. Only root can connect to its socket then.
other='setpriv --reuid=65534 --regid=65534 --clear-groups'
export FARSIDE_POOL="shm:$dir/user/u0"
if [ "$(id -u)" != 0 ]; then
	skip "a client that its node may not stop" "needs root, to be two users"
elif ! chmod 711 "$dir" || ! mkdir user || ! chown 65534 user || ! $other "$farside" --version >out 2>err; then
	skip "a client that its node may not stop" "user 65534 cannot run $farside"
else
	mkfifo uready
	$other "$farside" node "shm:$dir/user/u0" --size 64m --ready-fd 3 3>uready >/dev/null 2>u0.err &
	u0=$!
	nodes="$nodes $u0"
	timeout 20 cat uready >/dev/null
	"$farside" create t && "$farside" load t rows --key id --value v >out 2>err
	"$farside" load t feed --key id --value v >/dev/null 2>load.err &
	client=$!
	exec 4>feed
	head -100 rows >&4
	at_work $client
	kill -STOP $client
	# Another client watches its lease run out, and sends FENCE.
	(sleep 4) | timeout 20 "$farside" load t - --key id --value v >/dev/null 2>&1
	runs 0 stat && grep -q "1 silent clients that it may not stop, process $client among them" out &&
		grep -q '^warning ' out; ok "stat shows a client that its node may not stop"
	runs 0 stat --json && tr -d ' \n' <out >flat && grep -q "\"quarantined\":{\"sessions\":1,\"bytes\":[1-9][0-9]*,\"pid\":$client}" flat; ok "stat --json, too"
	runs 0 get t k1999; ok "others go on meanwhile"
	kill -CONT $client
	sleep 1
	tail -500 rows >&4 2>/dev/null
	exec 4>&-
	wait $client 2>/dev/null
	[ $? = 3 ] && grep -q 'revoked' load.err; ok "when it goes on it learns that its session was revoked"
	runs 0 stat && ! grep -q 'quarantine' out; ok "and that lifts the quarantine"
	runs 0 check t; ok "the table is sound"
	ends $u0 TERM
fi

plan
