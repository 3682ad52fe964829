#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# completion.sh PROGRAM -- what bash offers after some words, with a pool and without.

farside=$(realpath "$1")
. "$(dirname "$0")/../../script/completion.bash"
dir=$(mktemp -d /tmp/farside-completion-XXXXXX) || exit 1
at=0
failed=0
unset FARSIDE_POOL

# offers NAME WANTED WORD...: WANTED is among what is offered for the last word
offers()
{
	local name=$1 wanted=$2

	shift 2
	COMP_WORDS=("$farside" "$@")
	COMP_CWORD=$#
	COMP_LINE="farside $*"
	_farside
	at=$((at + 1))
	if [[ " ${COMPREPLY[*]} " == *" $wanted "* ]]; then
		echo "ok $at $name"
	else
		echo "not ok $at $name"
		echo "# '$*' offers: ${COMPREPLY[*]}"
		failed=1
	fi
}

offers test_completion_first_word_is_a_command load l
offers test_completion_help_takes_a_command scan help s
offers test_completion_dash_gives_options --create load --c
offers test_completion_format_gives_formats tsv load t --format t
offers test_completion_format_behind_a_sign_gives_formats tsv load t --format = t
offers test_completion_sign_alone_gives_formats ini load t --format =
offers test_completion_short_format_gives_formats tsv load t -f t
offers test_completion_short_design_gives_designs race create -d r
offers test_completion_dash_without_command_gives_options --version --v
offers test_completion_file_of_a_node_gives_files "$dir" node --file "${dir%?}"
offers test_completion_workload_gives_names F bench --workload ""
offers test_completion_sim_gives_verbs soak sim s

"$farside" node "shm:$dir/n0" --size 64m >"$dir/out" 2>&1 &
node=$!
trap 'kill $node; wait $node 2>/dev/null; rm -rf "$dir"' EXIT
for _ in $(seq 100); do
	! grep -q ready "$dir/out" || break
	sleep 0.05
done
"$farside" create devices --pool "shm:$dir/n0"
offers test_completion_table_of_the_pool_named_by_option devices get --pool "shm:$dir/n0" d
offers test_completion_option_table_gives_tables devices load --pool "shm:$dir/n0" --table d
offers test_completion_short_table_gives_tables devices load --pool "shm:$dir/n0" -t d
FARSIDE_POOL="shm:$dir/n0"
export FARSIDE_POOL
offers test_completion_table_of_the_pool_in_the_environment devices check ""
echo "1..$at"
exit $failed
