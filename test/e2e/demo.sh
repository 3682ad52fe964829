#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# demo.sh PROGRAM -- `farside demo`, smaller than for people: right, and gone afterwards, however it ends.
# Prints one TAP line per case.

. "$(dirname "$0")/tap.sh"
export TMPDIR="$dir/tmp"
mkdir "$TMPDIR"
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

# The demo, with a mark in the environment of all its processes.
demo() {
	exec env "FARSIDE_TEST=$dir" "$farside" demo "$@"
}

# True when no marked process is left. A killed one's children need a moment.
gone() {
	for _ in $(seq 50); do
		cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | grep -qx "FARSIDE_TEST=$dir" || return 0
		sleep 0.1
	done
	return 1
}

(demo --ieee-data "$dir") >out 2>err
[ $? = 3 ] && grep -q 'install the package ieee-data' err; ok "missing data says what to install"
(demo --clients 1) >out 2>err; [ $? = 2 ]; ok "one client is too few"

if [ ! -r /usr/share/ieee-data/oui.csv ] || [ ! -r /usr/share/weather-util/places.gz ]; then
	echo "ok $((at + 1)) the demo # SKIP ieee-data and weather-util-data are not installed"
	echo "1..$((at + 1))"
	exit $failed
fi

for seed in 1 2 3; do
	(demo --readings 30000 --ops 20000 --seed $seed --json) >out 2>err
	[ $? = 0 ] && grep -q '"wrong": 0, "violations": 0' out
	ok "every record is right after a kill, seed $seed"
done
(demo --readings 30000 --ops 20000 --clients 2) >out 2>err
[ $? = 0 ] && grep -q '^All is as it must be.$' out; ok "a report for people"

demo --ops 2000000 >out 2>err &
pid=$!
sleep 1
kill -INT $pid
wait $pid
[ $? = 130 ] && grep -q 'interrupted' err; ok "an interrupt ends it"
(demo --readings 100000 --size 24m) >out 2>err
[ $? = 3 ] && grep -q 'memory' err; ok "too little memory ends it"
gone && [ -z "$(ls -A "$TMPDIR")" ]; ok "no process and no socket is left behind"

demo --ops 2000000 >out 2>err &
pid=$!
sleep 1
kill -KILL $pid
wait $pid 2>/dev/null
gone; ok "not even after it was killed itself"

plan
