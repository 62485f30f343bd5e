#!/bin/sh
# bench.sh - speeds of this machine: every kernel against what the machine could do, then the model,
# prompt and generation, on one thread and on all. Give it a quiet machine. MODEL is a variable.
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

# A prompt of about 500 tokens, then 128 new ones; the tool prints the speeds to standard error.
prompt=$(head -c 2200 LICENSE; head -c 1100 LICENSE)
for n_threads in 1 "$(nproc)"; do
    echo "-- $MODEL, $n_threads threads"
    build/release/apps/lockstep/lockstep run "$MODEL" -p "$prompt" -n 128 --temp 0 \
        -t "$n_threads" >/dev/null
done
