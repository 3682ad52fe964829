# SPDX-License-Identifier: Apache-2.0
# Farside is built by meson and ninja; this file gives the usual names to the usual commands.

BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= 2
FUZZ ?=
FUZZ_TIME ?= 300
SOAK ?= --time 10m

help:
	@echo 'make all      build the library, the program and their tests into $(BUILD)/'
	@echo 'make demo     install what is missing, build, and see Farside at work on real data (< 2 minutes)'
	@echo 'make quick    build and run the quick tests (< 5 minutes)'
	@echo 'make check    everything: compilers, sanitizers, style, documents, installation'
	@echo 'make fuzz     run each fuzz target for FUZZ_TIME=$(FUZZ_TIME) seconds (FUZZ="TARGET ...": only these)'
	@echo 'make soak     play simulated schedules in a build that was trained for it (SOAK="$(SOAK)")'
	@echo 'make bench    compare with memcached and with a local hash table'
	@echo 'make tidy     check the style rules only'
	@echo 'make install  install under PREFIX=$(PREFIX) (DESTDIR is honoured)'
	@echo 'make clean    remove all build folders'

$(BUILD)/build.ninja:
	@script/deps build
	meson setup $(BUILD) --prefix=$(PREFIX)

all: $(BUILD)/build.ninja
	ninja -C $(BUILD) -j$(JOBS)

# The program alone: the tests are three quarters of what there is to compile.
demo:
	@script/deps build demo
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	ninja -C $(BUILD) -j$(JOBS) farside
	$(BUILD)/farside demo

quick:
	@script/deps build
	@script/check --quick -j$(JOBS)

check:
	@script/deps
	@script/check -j$(JOBS)

fuzz:
	@script/deps build test
	[ -f build-fuzz/build.ninja ] || CC=clang CXX=clang++ meson setup build-fuzz -Dfuzz=true \
		-Db_sanitize=address,undefined -Db_lundef=false
	ninja -C build-fuzz -j$(JOBS) fuzzers
	test/fuzz/run -j$(JOBS) --time $(FUZZ_TIME) build-fuzz $(FUZZ)

# Compiled anew, by gcc and with the profile of a few schedules: two minutes that save a seventh of all the others.
soak:
	@script/deps build
	rm -rf build-soak
	CC=gcc meson setup build-soak --buildtype=release -Dwerror=false -Db_pgo=generate
	ninja -C build-soak -j$(JOBS) sim_schedules
	build-soak/sim_schedules 1 5000
	meson configure build-soak -Db_pgo=use
	ninja -C build-soak -j$(JOBS) farside
	build-soak/farside sim soak --jobs $(JOBS) $(SOAK)

bench:
	@script/deps build bench
	@$(MAKE) --no-print-directory all
	BUILD=$(BUILD) bench/vs-memcached || [ $$? = 77 ]
	BUILD=$(BUILD) bench/vs-local || [ $$? = 77 ]

tidy:
	@script/deps lint
	@script/tidy

# A prefix that was asked for wins over the one that the folder was set up with.
install: $(BUILD)/build.ninja
ifneq ($(origin PREFIX),file)
	meson configure $(BUILD) --prefix=$(PREFIX)
endif
	@$(MAKE) --no-print-directory all
	meson install -C $(BUILD) --no-rebuild
# A staged installation is none on this machine.
ifeq ($(DESTDIR),)
	@[ "$$(id -u)" != 0 ] || PATH="$$PATH:/usr/sbin:/sbin" ldconfig
endif

clean:
	rm -rf build build-*

.PHONY: help all demo quick check fuzz soak bench tidy install clean
