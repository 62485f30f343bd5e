#!/bin/sh
# run.sh - the main job, from a fresh clone to text: installs what is missing, builds, writes a
# story with the model that the repository ships, and then shows that sequences do not influence one
# another. Change the model, the prompt or the settings through the variables below.
set -eu
cd "$(dirname "$0")/.."

MODEL=${MODEL:-models/small-q4_k_m.gguf}
PROMPT=${PROMPT:-Once upon a time, a little girl named Emma}
SETTINGS=${SETTINGS:---temp 0.7 --top-p 0.9 --top-k 40 --seed 7 -n 160 --echo}
TOKENS=${TOKENS:-64}

say() {
    printf '\n-- %s\n\n' "$1"
}

# quietly LOG COMMAND...: the output matters only when it fails.
quietly() {
    log=$1
    shift
    "$@" >"$log" 2>&1 || {
        tail -n 40 "$log" >&2
        exit 1
    }
}

sh tools/packages.sh run
mkdir -p build/logs
say "building (release)"
quietly build/logs/run.log cmake --preset release
quietly build/logs/run.log cmake --build --preset release --target lockstep_tool example_isolation

say "$MODEL, \"$PROMPT\", $SETTINGS"
# shellcheck disable=SC2086 # the settings are several arguments
build/release/apps/lockstep/lockstep run "$MODEL" -p "$PROMPT" $SETTINGS

say "isolation: the same sequence alone and in company, every row of logits compared bit for bit"
build/release/examples/isolation "$MODEL" "$TOKENS"
