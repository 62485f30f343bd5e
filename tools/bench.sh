#!/bin/sh
# bench.sh - speeds of this machine: every kernel against what the machine could do, then the model,
# prompt, generation and batches, on one thread and on all. Give it a quiet machine. MODEL is a
# variable.
set -eu
cd "$(dirname "$0")/.."
MODEL=${MODEL:-models/small-q4_k_m.gguf}

sh tools/packages.sh run
mkdir -p build/logs
if ! { cmake --preset release && cmake --build --preset release --target lockstep_tool \
    test_checkkern; } >build/logs/bench.log 2>&1; then
    tail -n 40 build/logs/bench.log >&2
    exit 1
fi

build/release/tests/test_checkkern --bench
threads=$(nproc)
[ "$threads" = 1 ] || threads=1,$threads
build/release/apps/lockstep/lockstep bench "$MODEL" -t "$threads" -p 512 -n 128 -d 0,1024 -b 1,2,4,8
