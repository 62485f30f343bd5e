# The door: each target is one script or one CMake preset, and all logic is there.
#
#   make run        install what is missing, build, generate text, show that sequences stay isolated
#   make test       every rung in bounded form, with the seconds of each
#   make test-full  the long matrices too (hours)
#   make install    library, headers and tool, to PREFIX (and DESTDIR)
#   make bench      speeds of this machine; make bench-peer: beside llama.cpp (docs/benchmark.md)
#   make format     rewrite the sources as .clang-format says
#   make clean      remove build/
PREFIX ?= /usr/local

.PHONY: all run test test-full install bench bench-peer format clean help

all:
	@sh tools/packages.sh run
	cmake --preset release
	cmake --build --preset release

run:
	@sh tools/run.sh

test:
	@bash tools/test.sh

test-full:
	@LK_FULL=1 bash tools/test.sh

install:
	@sh tools/packages.sh run
	cmake --preset release -DCMAKE_INSTALL_PREFIX="$(PREFIX)"
	cmake --build --preset release --target lockstep_static lockstep_shared lockstep_tool
	cmake --install build/release --prefix "$(PREFIX)"

bench:
	@sh tools/bench.sh

bench-peer:
	@sh tools/bench_peer.sh

format:
	@sh tools/format.sh fix

clean:
	rm -rf build

help:
	@sed -n '3,9s/^# *//p' Makefile
