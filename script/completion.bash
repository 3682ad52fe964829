# SPDX-License-Identifier: Apache-2.0
# bash completion for farside. Commands and options are asked of the program itself, tables of the pool.

# _farside_commands PROGRAM
_farside_commands()
{
	"$1" --help 2>/dev/null | sed -n 's/^  \([a-z]\{2,\}\)  *.*/\1/p'
}

# _farside_options PROGRAM COMMAND
_farside_options()
{
	"$1" "$2" --help 2>/dev/null | grep -o -e '--[a-z][a-z-]*' | sort -u
}

# _farside_tables PROGRAM [--pool URI]: nothing when no pool is known or it does not answer at once
_farside_tables()
{
	local program=$1

	shift
	timeout 1 "$program" ls --json "$@" 2>/dev/null | grep -o '"name": *"[^"]*"' | sed 's/.*"\([^"]*\)"$/\1/'
}

_farside()
{
	local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local command=${COMP_WORDS[1]} pool=()

	COMPREPLY=()
	# Readline splits --option=value at the sign.
	if [ "$current" = = ]; then
		current=
	elif [ "$previous" = = ]; then
		previous=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	if [ "$COMP_CWORD" = 1 ] && [[ $current == -* ]]; then
		COMPREPLY=($(compgen -W "--help --version" -- "$current"))
		return
	fi
	if [ "$COMP_CWORD" = 1 ] || [[ $COMP_CWORD = 2 && $command = help ]]; then
		COMPREPLY=($(compgen -W "$(_farside_commands "$program")" -- "$current"))
		return
	fi
	case $command$previous in # the short options, which commands have for themselves
	load-f) previous=--format ;;
	load-t) previous=--table ;;
	create-d) previous=--design ;;
	*-p) previous=--pool ;;
	esac
	case $previous in
	--workload)
		COMPREPLY=($(compgen -W "A B C D F insert update delete negative" -- "$current"))
		return
		;;
	--distribution)
		COMPREPLY=($(compgen -W "zipfian scrambled latest uniform" -- "$current"))
		return
		;;
	--format)
		COMPREPLY=($(compgen -W "auto csv tsv ini json dump" -- "$current"))
		return
		;;
	--design)
		COMPREPLY=($(compgen -W "race" -- "$current"))
		return
		;;
	--table)
		[[ ! $COMP_LINE =~ (--pool|-p)[\ =]*([^ ]+) ]] || pool=(--pool "${BASH_REMATCH[2]}")
		COMPREPLY=($(compgen -W "$(_farside_tables "$program" "${pool[@]}")" -- "$current"))
		return
		;;
	--ieee-data | --weather-data)
		COMPREPLY=($(compgen -d -- "$current"))
		return
		;;
	--pool | --plot | -o | --output | --file | --ledger)
		COMPREPLY=($(compgen -f -- "$current"))
		return
		;;
	esac
	if [[ $current == -* ]]; then
		COMPREPLY=($(compgen -W "$(_farside_options "$program" "$command")" -- "$current"))
		return
	fi
	# The line, not the words: readline splits a URI at its colons.
	[[ ! $COMP_LINE =~ (--pool|-p)[\ =]*([^ ]+) ]] || pool=(--pool "${BASH_REMATCH[2]}")
	case $command in
	get | put | del | drop | scan | stat | check | dump | load)
		COMPREPLY=($(compgen -W "$(_farside_tables "$program" "${pool[@]}")" -- "$current"))
		;;
	esac
	[ "$command" != sim ] || [ "$COMP_CWORD" != 2 ] || COMPREPLY=($(compgen -W "run soak shrink" -- "$current"))
	[ "$command" != load ] && [ "$command" != node ] || COMPREPLY+=($(compgen -f -- "$current"))
}

complete -o bashdefault -F _farside farside
