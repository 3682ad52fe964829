#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cli.sh PROGRAM -- the command against a memory node of its own: what it prints, how it fails, what it exits with.
# Prints one TAP line per case.

. "$(dirname "$0")/tap.sh"
node=
mounted=
export FARSIDE_POOL="shm:$dir/n0"

finish() {
	[ -z "$node" ] || kill "$node" 2>/dev/null
	[ -z "$node" ] || wait "$node" 2>/dev/null
	[ -z "$mounted" ] || umount "$dir/small"
	rm -rf "$dir"
}
trap finish EXIT
cd "$dir" || exit 1

start_node() {
	"$farside" node "shm:$dir/n0" --size 256m >node.out 2>&1 &
	node=$!
	for _ in $(seq 100); do
		! grep -q ready node.out || return 0
		sleep 0.05
	done
	cat node.out
	exit 1
}

start_node

# The program itself ------------------------------------------------------------------------------------------

runs 0 --help && grep -q '^  load ' out; ok "help lists commands"
runs 0 help get && grep -q 'Usage: farside get' out; ok "help of a command"
runs 0 help help && grep -q '^  load ' out; ok "help of help"
runs 0 help --help && grep -q '^  load ' out; ok "help --help is help"
runs 0 --version && grep -q '^farside [0-9]' out; ok "version"
runs 2; ok "no command is wrong usage"
runs 2 gte && grep -q "did you mean 'get'" err; ok "mistyped command gets a suggestion"
runs 2 frobnicate && grep -q "farside --help" err; ok "unknown command points to the help"
runs 2 x && grep -q "farside --help" err; ok "no suggestion has nothing in common with what was written"
runs 2 get t && grep -q 'missing; expected TABLE KEY$' err; ok "missing argument is wrong usage"
runs 2 get t k k; ok "surplus argument is wrong usage"
runs 2 put t k -40.5 && grep -q "'-40.5' .* behind --" err && runs 2 get t -abc && grep -q "'-abc' .* behind --" err &&
	runs 2 get t --key && grep -q "'--key' .* behind --" err && runs 2 del t -x && grep -q "missing; .* behind --" err
ok "what starts with a dash is no option: the way out is named"
runs 2 ls -abc && grep -q "'-abc' is no option ('farside ls --help' lists them)$" err; ok "unless a command takes no arguments"
runs 2 put t k v --i && grep -q "ambiguous" err && runs 2 get t k --json=1 && grep -q "allow an argument" err; ok "options that are nearly right"
runs 0 get -h && grep -q 'Usage: farside get' out; ok "-h is --help, too"
runs 2 --pool "$FARSIDE_POOL" ls && grep -q "the command comes first" err; ok "an option before the command: where it belongs"
runs 2 create t --groups 0 && grep -q "is no number from 1 to 1m (k, m, g, t: powers of 1024)$" err &&
	runs 2 scan t --limit x && grep -q "'x' is no number (k" err && runs 2 bench --nodes 17 && grep -q "from 1 to 16$" err
ok "a number that is none: what is expected"
runs 2 get --nonsense t k; ok "unknown option is wrong usage"
(unset FARSIDE_POOL; runs 2 ls && grep -q -e '--pool shm:PATH' err); ok "no pool is wrong usage"
runs 2 ls --pool nonsense && grep -q 'expected shm:PATH' err; ok "malformed URI says what is expected"
runs 3 ls --pool "shm:$dir/none" && grep -q "^farside ls: memory node 0 at '$dir/none': nobody serves it" err; ok "node that is not there is named"

# Exit codes: 0 done, 1 no, 2 wrong usage, 3 pool or system failed; signals stand below.
runs 0 create codes && runs 0 put codes k v --insert && runs 0 get codes k && runs 0 check codes; ok "exit 0: done"
runs 0 get codes k --json && version=$(sed 's/.*"version":"\([0-9]*\)".*/\1/' out) && runs 0 put codes k w &&
	runs 1 get codes none && runs 1 get none k && runs 1 put codes k v --insert && runs 1 put codes none v --update &&
	runs 1 put codes k v --if-version "$version" && runs 1 del codes none && runs 1 create codes && runs 1 drop none
ok "exit 1: not there, there already, changed"
runs 2 get codes && runs 2 get codes k --nonsense && runs 2 get codes k --pool nonsense && runs 2 ls --pool shm:a,,b &&
	runs 2 bench --pool nonsense && runs 2 load codes a.csv --pool tcp:a && runs 2 get 'a b' k && runs 2 put codes '' v
ok "exit 2: what cannot be meant"
runs 3 get codes k --pool "shm:$dir/none" && runs 3 bench --pool "shm:$dir/none" && runs 3 load codes none.csv --key id
ok "exit 3: pool or system failed"
runs 0 drop codes

# Tables and keys ---------------------------------------------------------------------------------------------

runs 0 create t && [ ! -s out ]; ok "create"
runs 1 create t && grep -q "^farside create: table 't': exists already" err; ok "create twice"
runs 0 create t --if-missing; ok "create if missing"
runs 2 create 'a b' && grep -q 'a name has' err; ok "bad name"
runs 2 create u --design nosuch && grep -q "design 'nosuch'" err; ok "bad design"
runs 2 create u --groups 5000 && grep -q "design 'race': no subtables of 5000 groups" err; ok "too many groups"
runs 0 ls && grep -q '^t  *race$' out; ok "ls"
runs 0 ls --json && [ "$(cat out)" = '[{"name": "t", "design": "race"}]' ]; ok "ls as JSON"
runs 1 get none k && grep -q "^farside get: table 'none': not found" err; ok "missing table"
runs 1 get t k && grep -q "^farside get: table 't': key 'k': not found" err; ok "missing key"
runs 0 put t k hello && runs 0 get t k && [ "$(cat out)" = hello ]; ok "put and get"
runs 1 put t k again --insert && grep -q 'exists already' err; ok "put --insert of a present key"
runs 1 put t absent v --update; ok "put --update of an absent key"
runs 0 get t k --json && version=$(sed 's/.*"version":"\([0-9]*\)".*/\1/' out) &&
	runs 0 put t k newer --if-version "$version" && runs 1 put t k x --if-version "$version" &&
	grep -q 'version is not' err; ok "put --if-version"
runs 0 get t k --with-version && version=$(head -n 1 out) && [ "$(tail -n +2 out)" = newer ] &&
	runs 0 put t k newest --if-version "$version" && runs 0 get -V t k && [ "$(head -n 1 out)" != "$version" ]
ok "get --with-version: a line with what put --if-version takes"
runs 1 del t k --if-version "$version" && grep -q 'version is not' err && runs 0 get t k && [ "$(cat out)" = newest ]
ok "del --if-version of another one: nothing is deleted"
runs 1 del t k -V "$version" --json && grep -q '"deleted": 0, "missing": 0, "changed": 1' out; ok "and JSON counts it"
runs 0 get t k -V && runs 0 del t k --if-version "$(head -n 1 out)" && runs 1 get t k && runs 1 del t k --if-version 1 &&
	grep -q "not found" err; ok "del --if-version"
runs 2 del t k j --if-version 1 && grep -q 'one key' err && runs 2 put t k v -V 1k && grep -q "'1k' is no version" err &&
	runs 2 del t k -V ' 1'; ok "what is no version, and one of two keys"
runs 0 put t k newer
runs 0 put t -- -k -v && runs 0 get t -- -k && [ "$(cat out)" = -v ] && runs 0 del t -- -k &&
	runs 0 put --json -- t -abc v && runs 0 get -- t -abc && runs 0 del -- t -abc; ok "keys that start with a dash"
runs 0 put t --hex 00ff '' && runs 0 get t --base64 AP8= --json && grep -q '"key64":"AP8=","value64":""' out; ok "any bytes as key, empty value"
runs 2 put t k v --insert --update && grep -q 'exclude each other' err; ok "put under two conditions"
runs 2 get t 00 --hex --base64 && grep -q 'exclude each other' err; ok "two codes at once"
runs 0 get t --hex 00ff --json && grep -q '^{"keyhex":"00ff","valuehex":"","version"' out && runs 0 put t --base64 aw== dg== --json &&
	grep -q '^{"key64":"aw=="' out && runs 0 get t --hex 6b --json && grep -q '"valuehex":"76"' out; ok "JSON in the code asked for"
echo k | "$farside" put t - - >out 2>err; [ $? = 2 ] && grep -q 'only one argument can be -' err; ok "standard input for two arguments"
runs 2 put t --hex 0g 00 && grep -q 'the key is not hexadecimal' err; ok "malformed hexadecimal"
head -c 100000 /dev/urandom >blob
"$farside" put t blob - <blob && "$farside" get t blob >back && cmp -s blob back; ok "value from standard input, byte for byte"
head -c 16777217 /dev/zero >huge
"$farside" put t huge - <huge >out 2>err; [ $? = 2 ] && grep -q 'the value has more than 16777216 bytes' err; ok "value too long"
head -c 65537 /dev/zero | "$farside" get t - >out 2>err; [ $? = 2 ] && grep -q 'the key has more than 65536 bytes' err; ok "key too long"
head -c 65536 /dev/zero | "$farside" get t - >out 2>err; [ $? = 1 ]; ok "longest key"
runs 2 get t '' && grep -q '1 to 65536 bytes' err; ok "empty key"
runs 1 del t k nokey --json && grep -q '"deleted": 1, "missing": 1' out && runs 1 get t k; ok "del"
runs 0 drop t && runs 1 drop t && [ -z "$("$farside" ls)" ]; ok "drop"

# Loading -----------------------------------------------------------------------------------------------------

printf 'id,room,t\n1,kitchen,19\n2,"attic, north",23\n1,kitchen,20\n' >a.csv
runs 0 load --create s a.csv --key id && grep -q '^3 rows: 2 new, 0 replaced, 1 duplicates; 0 bad' out &&
	runs 0 get s 1 && [ "$(cat out)" = '{"room":"kitchen","t":"20"}' ]; ok "load CSV: the last of two keys wins"
head -n 1 a.csv >header.csv
: >void.csv
runs 2 load --create refused a.csv --key nocolumn && runs 3 load --create refused none.csv --key id &&
	runs 2 load --create refused header.csv --key nocolumn && grep -q "no column 'nocolumn'; the columns are id, room, t" err &&
	runs 2 load --create refused header.csv --key id --value no && runs 2 load --create refused void.csv --key id &&
	runs 1 get refused k
ok "load --create of an input that is refused leaves no table"
runs 0 load --create norows header.csv --key id && grep -q '^0 rows' out && runs 1 get norows k && runs 0 drop norows
ok "a table without rows is one"
runs 0 load s a.csv --key id --json && grep -q '"rows": 3, "new": 0, "replaced": 2, "duplicates": 1' out; ok "load again replaces"
gzip -c a.csv | "$farside" load s - --key id --value room --prefix dev: >out 2>err && runs 0 get s dev:2 &&
	[ "$(cat out)" = 'attic, north' ]; ok "load gzip from standard input, one column, prefix"
seq 1 30000 | sed 's/.*/{"id":"k&","n":&}/' >many.json
cat many.json many.json >twice.json
runs 0 load --create m twice.json --key id --json && grep -q '"rows": 60000, "new": 30000, "replaced": 0, "duplicates": 30000' out; ok "duplicates far apart are counted"
printf '[one]\nx = 1\n[two]\nx = 2\n' | "$farside" load s - >out 2>err && runs 0 get s two && [ "$(cat out)" = '{"x":"2"}' ]; ok "load INI by section"
printf 'id\tv\n7\tseven\n' >b.tsv
runs 0 load s b.tsv --key id --value v && runs 0 get s 7 && [ "$(cat out)" = seven ]; ok "load TSV"
printf 'id,v\n1,a\n2\n3,c\n' >bad.csv
runs 3 load s bad.csv --key id && grep -q '^farside load: bad.csv:3: 1 column where the header has 2' err; ok "malformed CSV names the line"
grep -q '^1 rows: 0 new, 1 replaced.*; 1 bad; .*; stopped$' out; ok "and says what was stored, and that it stopped"
runs 0 load s bad.csv --key id --skip-bad && grep -q '2 rows.*1 bad' out && grep -q 'skipped: bad.csv:3' err; ok "load --skip-bad counts it"
printf '{"id":1}\n{"id":\n' >bad.json
runs 3 load s bad.json --key id && grep -q 'bad.json:2: not JSON' err; ok "malformed JSON names the line"
printf '[{"id":1}]\n' >array.json
runs 3 load s array.json --key id && grep -q 'array.json:1: not a JSON object: a line holds one' err; ok "a JSON array says what is expected"
runs 2 load s a.csv --key nope && grep -q "no column 'nope'" err && [ ! -s out ]; ok "missing column: a message and nothing else"
runs 3 load s none.csv --key id && grep -q '^farside load: none.csv: No such file' err; ok "missing file"
[ ! -s out ]; ok "and nothing else, when nothing was done"
runs 1 load nosuch a.csv --key id && grep -q "not found; --create makes it" err; ok "missing table of a load"
gzip -c twice.json | head -c 20000 >short.gz
runs 3 load s short.gz --key id && grep -q 'the gzip data ends too early' err; ok "truncated gzip"

# A pipe that never ends: what came is stored at once, SIGINT ends it with a summary.
mkfifo endless
(trap '' INT; exec 3>endless; printf 'id,v\na,1\n' >&3; exec sleep 20) &
writer=$!
"$farside" create slow
sh -c 'trap - INT; exec "$0" load slow - --key id --value v --json' "$farside" <endless >sum 2>err &
loader=$!
seen=1
for _ in $(seq 100); do
	"$farside" get slow a >/dev/null 2>&1 && seen=0 && break
	sleep 0.05
done
[ $seen = 0 ]; ok "rows of a slow pipe are stored while it waits"
kill -INT $loader
wait $loader
[ $? = 130 ] && grep -q '"rows": 1,.*"interrupted": true' sum; ok "SIGINT during load ends with a summary"
kill $writer 2>/dev/null
wait $writer 2>/dev/null

# Dumping -----------------------------------------------------------------------------------------------------

"$farside" create bytes
for i in $(seq 0 255); do
	printf '{"key64":"%s","value64":"%s"}\n' "$(printf "\\$(printf %03o "$i")" | base64)" \
		"$(printf "\\$(printf %03o "$i")x\\$(printf %03o "$i")" | base64)"
done >bytes.dump
printf '{"key":"empty","value":""}\n' >>bytes.dump
runs 0 load bytes bytes.dump && grep -q '^257 rows: 257 new' out; ok "load recognises a dump"
"$farside" put bytes blob - <blob
"$farside" dump bytes >d1 2>err && "$farside" load --create bytes2 - <d1 >out 2>>err && "$farside" dump bytes2 >d2 2>>err &&
	sort d1 >s1 && sort d2 >s2 && cmp -s s1 s2 && [ "$(wc -l <s1)" = 258 ]; ok "dump and load round-trip every byte"
runs 0 get bytes2 --hex 00 && [ "$(cat out)" = 007800 ]; ok "NUL survives"
"$farside" get bytes2 blob | cmp -s - blob; ok "random bytes survive"
runs 0 dump bytes --output saved && sort saved | cmp -s - s1 && [ "$(ls saved*)" = saved ]; ok "dump --output leaves one whole file"
runs 0 dump bytes --json --output saved && grep -q '^{"table": "bytes", "file": "saved", "keys": 258, "bytes": [0-9]*}$' out &&
	[ "$(sed 's/.*"bytes": \([0-9]*\).*/\1/' out)" = "$(stat -c %s saved)" ]; ok "dump --output --json reports"
"$farside" dump bytes >/dev/full 2>err; [ $? = 3 ] && grep -q '^farside dump: standard output: No space left' err; ok "disk full on standard output"
runs 3 dump bytes --output /dev/full && grep -q '^farside dump: /dev/full: No space left' err; ok "disk full on a device"
runs 3 dump bytes --output none/x && grep -q '^farside dump: none/x: No such file' err; ok "directory that is not there"
"$farside" ls >/dev/full 2>err; [ $? = 3 ] && grep -q 'standard output' err; ok "disk full of another command"
{ "$farside" dump m 2>err; echo $? >code; } | head -1 >/dev/null
[ "$(cat code)" = 141 ] && [ ! -s err ]; ok "a reader that goes away ends it without a word"
# Signals while nobody reads the output, or the node does not answer: the first one ends it, and leaves nothing behind.
mkfifo full
exec 5<>full
for how in "dump m" "dump m --output full" "scan m --json"; do
	"$farside" $how >full 2>err &
	writer=$!
	sleep 0.5
	kill -TERM $writer
	wait $writer
	[ $? = 143 ] && grep -q '^farside [a-z]*: interrupted$' err; ok "SIGTERM ends $how whose reader sleeps"
	timeout 0.2 cat <&5 >/dev/null
done
exec 5>&-
kill -STOP $node
for how in "check m" "stat m"; do
	"$farside" $how >out 2>err &
	looker=$!
	sleep 0.3
	kill -INT $looker
	wait $looker
	[ $? = 130 ] && grep -q '^farside [a-z]*: interrupted$' err; ok "SIGINT ends $how while a node does not answer"
done
kill -CONT $node
runs 0 dump m --output whole && runs 0 check m && [ "$(wc -l <whole)" = 30000 ] && [ -z "$(ls whole.* full.* 2>/dev/null)" ]; ok "and the table is whole"
mkdir small
if mount -t tmpfs -o size=64k tmpfs small 2>/dev/null; then
	mounted=1
	echo old >small/x
	"$farside" dump m --output small/x >out 2>err
	[ $? = 3 ] && grep -q 'No space left' err && [ "$(cat small/x)" = old ] && [ "$(ls small)" = x ]
	ok "disk full leaves the old file and nothing else"
else
	at=$((at + 1))
	echo "ok $at disk full leaves the old file # SKIP mounting is not permitted"
fi

# Dying --------------------------------------------------------------------------------------------------------

# Clients that replace every value and are killed before they hand their memory back; the next ones take it over.
"$farside" create dying
"$farside" load dying many.json --key id >out 2>err
mkfifo pipe
for round in 1 2 3; do
	sh -c 'exec "$0" load dying - --key id --json' "$farside" <pipe >out 2>>err &
	loader=$!
	exec 4>pipe
	sed "s/}\$/,\"r\":$round}/" many.json >&4
	for _ in $(seq 200); do
		case $("$farside" get dying k30000) in *"\"r\":$round"*) break ;; esac
		sleep 0.05
	done
	kill -9 $loader
	wait $loader 2>/dev/null
	exec 4>&-
	runs 0 check dying; ok "table is whole after killed client $round"
done
runs 0 load dying many.json --key id && runs 0 check dying && runs 0 check dying --repair && runs 0 check dying &&
	"$farside" dump dying | sort >d1 && "$farside" load --create living many.json --key id >out && "$farside" dump living | sort | cmp -s - d1
ok "table is whole after its memory was taken over"

# Looking ------------------------------------------------------------------------------------------------------

runs 0 scan s --prefix dev: --limit 1 && [ "$(wc -l <out)" = 1 ] && grep -q '^dev:' out; ok "scan with prefix and limit"
runs 0 scan s --keys --json --limit 2 && [ "$(grep -c '^{"key":"[^"]*"}$' out)" = 2 ]; ok "scan keys as JSON"
"$farside" scan bytes >out 2>err && ! LC_ALL=C grep -q "$(printf '\033')" out; ok "scan escapes control characters"
runs 0 stat m --json && tr -d ' ' <out >flat && grep -q '"keys":30000,' flat && grep -q '"nodes":\[{"node":0,' flat &&
	grep -q '"quarantined":{"sessions":0,"bytes":0,"pid":0}' flat; ok "stat as JSON"
runs 0 stat m && grep -q '^keys  *30000 in' out &&
	sed -n 's/^total .* = \([0-9]*\); granted \([0-9]*\)$/\1 \2/p' out | awk '{ exit !(NF == 2 && $1 == $2) }'; ok "stat: use, free and headers are what was granted"
"$farside" create held
mkfifo heldfeed
"$farside" load held heldfeed --key id --value v >/dev/null 2>&1 &
loader=$!
exec 5>heldfeed
printf '{"id":"k","v":"v"}\n' >&5
for _ in $(seq 100); do
	"$farside" get held k >/dev/null 2>&1 && break
	sleep 0.05
done
kill -9 $loader
exec 5>&-
wait $loader 2>/dev/null
runs 0 stat held && grep -q '^total .* + [1-9][0-9]* with clients at work or dead' out &&
	sed -n 's/^total .* = \([0-9]*\); granted \([0-9]*\)$/\1 \2/p' out | awk '{ exit !(NF == 2 && $1 == $2) }'; ok "stat: with what a dead client held, too"
runs 0 check held --repair && runs 0 stat held --json && tr -d ' ' <out | grep -q '"held_bytes":0,*'; ok "stat: nothing of it after a repair"
runs 0 drop held
runs 0 bench --table large --keys 40 --ops 1 --value-size 500000 --keep && runs 0 stat large &&
	sed -n 's/^total .* + \([0-9]*\) headers.*granted \([0-9]*\)$/\1 \2/p' out | awk '{ exit !(NF == 2 && $1 * 10 < $2) }'
ok "stat: ends of chunks are few with large values"
sum=0
for t in $("$farside" ls | cut -d' ' -f1); do
	sum=$((sum + $("$farside" stat "$t" | sed -n 's/^total.*granted //p')))
done
runs 0 stat && [ "$sum" = "$(awk '{ print $5 }' out | head -n 1)" ]; ok "stat: what the tables were granted is what the node gave"
runs 0 stat && grep -q '^node 0 ' out; ok "stat of the pool"
runs 0 check m && grep -q 'no violations' out; ok "check"
runs 0 check m --repair --json && grep -q '"violations": 0, "found": \[\]' out; ok "check --repair as JSON"

kill $node
wait $node 2>/dev/null
node=
runs 3 get s 1 && grep -q "^farside get: memory node 0 at '$dir/n0'" err; ok "node gone"

plan
