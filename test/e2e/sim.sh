#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sim.sh PROGRAM -- `farside sim`: a run twice, as a scenario and told; soaks, their ledger and their end; shrinking.
# Prints one TAP line per case.

. "$(dirname "$0")/tap.sh"
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

runs 0 sim run --seed 7; ok "a run is good"
mv out first
runs 0 sim run -s 7 && cmp out first; ok "the same seed is the same run"
grep -v '^#' first >scenario
runs 0 sim run --file scenario && cmp out first; ok "its configuration is the same run, too"
runs 0 sim run --seed 7 --trace && grep -q ' c[0-9]* n0:0x[0-9a-f]* cas 0x' out && sed -n '/^# design/,$p' out | cmp - first
ok "a trace tells every step and changes none"
runs 0 sim run --seed 8 --flags 16 && grep -q '^plain 1' out; ok "flags choose what may be drawn"

runs 0 sim soak --runs 64 --jobs 2 --ledger book.md && grep -q '^race: 64 runs from seed 1,.* 0 not good' out
ok "a soak plays as many as it is told to"
grep -q 'client killed' out && grep -q 'split in flight' out; ok "it says how many met what"
runs 0 sim soak --runs 32 --from 65 --ledger book.md && grep -q '^book.md: 96 schedules' out
ok "the ledger adds up what is of the same protocol code"
[ "$(grep -c '^| .* | race, 47 | 1-64 | 64 |' book.md)" = 1 ] &&
	[ "$(grep -c '^| .* | race, 47 | 65-96 | 32 |' book.md)" = 1 ] && [ "$(grep -c '^|---' book.md)" = 1 ]
ok "the ledger gets a row for each"
runs 0 sim soak --time 1s --jobs 2; ok "a soak ends when its time is up"
"$farside" sim soak --time 1h --jobs 2 >out 2>err &
soak=$!
sleep 1
kill -INT $soak
wait $soak
[ $? = 130 ] && grep -q ' 0 not good' out; ok "an interrupted soak reports what it has played"
for signal in TERM:143 HUP:129; do
	setsid env --default-signal=HUP,TERM "$farside" sim soak --time 1h --jobs 2 --ledger "${signal%:*}.md" >out 2>err &
	soak=$!
	sleep 1
	kill -s "${signal%:*}" -- -$soak
	wait $soak
	[ $? = "${signal#*:}" ] && grep -q ' 0 not good' out && ! grep -q crash out "${signal%:*}.md"
	ok "a soak whose group gets SIG${signal%:*} finds nothing by that"
done

runs 0 sim shrink --seed 7 && grep -q 'nothing to shrink' out; ok "a good run is not shrunk"
echo nonsense >scenario
runs 3 sim run --file scenario && grep -q 'scenario:1: not a line' err; ok "a line that is none is named"
echo 'seed 1' >scenario
runs 3 sim run --file scenario && grep -q 'makes no run' err; ok "a scenario with nobody in it is refused"
runs 3 sim run --file nowhere; ok "a file that is not there is named"
runs 2 sim; ok "a verb is missing"
runs 2 sim walk && grep -q "run, soak, shrink" err; ok "an unknown verb is named"
runs 2 sim run more; ok "one verb is enough"
runs 2 sim soak --time 5; ok "a time has a unit"
runs 2 sim run --design none; ok "an unknown design is refused"
plan
