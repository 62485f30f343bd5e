#!/bin/sh
# bench_peer.sh [OPTIONS] - Lockstep and llama.cpp on the same files, in alternating runs; options
# as of bench/peer/compare.mjs. Give it a quiet machine. Needs Node.js with npm, git and a C++
# compiler beside what the build needs. LOCKSTEP_PEER is the folder that the peer goes to.
set -eu
cd "$(dirname "$0")/.."
for tool in node npm git c++; do
    command -v $tool >/dev/null || {
        echo "bench_peer.sh: $tool is missing" >&2
        exit 1
    }
done
mkdir -p build/logs
if ! { cmake --preset release && cmake --build --preset release --target lockstep_tool; } \
    >build/logs/bench.log 2>&1; then
    tail -n 40 build/logs/bench.log >&2
    exit 1
fi
exec node bench/peer/compare.mjs "$@"
