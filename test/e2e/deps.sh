#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# deps.sh PROGRAM -- script/deps as root, through sudo, without either, and where there is no dpkg, on fakes of what it
# calls. Prints one TAP line per case.

. "$(dirname "$0")/tap.sh"
deps=$(realpath "$(dirname "$0")/../../script/deps")
shell=$(command -v sh)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

# fake NAME: a program that reads its lines from standard input
fake() {
	{ printf '#!%s\n' "$shell"; cat; } >"bin/$1"
	chmod +x "bin/$1"
}

# system USER-ID [NAME...]: a machine with these packages. apt-get fails when the file `broken` is there, until it was
# asked to update; every call goes to `log`.
system() {
	rm -rf bin log broken
	mkdir bin
	for tool in cat env grep rm sed tr; do
		ln -s "$(command -v $tool)" bin/
	done
	echo "echo $1" | fake id
	shift
	{ for package; do echo "echo 'ii  $package'"; done; echo :; } | fake dpkg-query
	fake apt-get <<-'END'
		echo "apt-get $*" >>log
		case $1 in
		update) rm -f broken ;;
		*) [ ! -e broken ] ;;
		esac
	END
	fake sudo <<-'END'
		echo sudo >>log
		exec "$@"
	END
}

# installs EXPECTED ARGUMENT...: script/deps exits with that, seeing nothing but the fakes
installs() {
	want=$1
	shift
	PATH="$dir/bin" "$shell" "$deps" "$@" >out 2>err
	[ $? = "$want" ]
}

called="apt-get install -y -q --no-install-recommends"

system 0 ieee-data weather-util-data
installs 0 demo && [ ! -e log ] && [ ! -s err ]; ok "nothing is missing: nothing is done"
system 0 ieee-data
installs 0 demo && [ "$(cat log)" = "$called weather-util-data" ]; ok "root installs what is missing"
installs 1 --check demo && grep -q '^missing packages: weather-util-data$' err && [ "$(wc -l <log)" = 1 ]; ok "--check installs nothing"
system 0
: >broken
installs 0 demo && [ "$(sed -n 2p log)" = "apt-get update -q" ] && [ "$(sed -n 3p log)" = "$called ieee-data weather-util-data" ]
ok "package lists are fetched when the first try fails"
system 1000 ieee-data
installs 0 demo && [ "$(tr '\n' ' ' <log)" = "sudo $called weather-util-data " ]; ok "another user installs through sudo"
rm log bin/sudo
installs 1 demo && grep -q 'neither root nor sudo: please run apt-get install weather-util-data$' err && [ ! -e log ]
ok "without sudo it says what to run"
rm bin/dpkg-query
installs 1 demo && grep -q 'no Debian packages' err && grep -qx '  weather-util-data' err && [ ! -e log ]
ok "another system gets a list"
installs 2 nonsense && grep -q '^usage:' err; ok "unknown group"

plan
