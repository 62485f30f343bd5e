#!/usr/bin/env bash
# check_schemas.sh - samples at temperature 1.5 under every schema of tests/data/schemas: none may
# be refused, and texts must come to their end. With LK_FULL=1 the finished ones are validated with
# npm's ajv (installed into the working folder), which must find nothing wrong. Other files, each an
# array of schemas, can be given after the folder.
#     check_schemas.sh SAMPLER SOURCE_FOLDER WORKING_FOLDER [FILE...]
set -u
sampler=$1 source=$2 work=$3
shift 3
mkdir -p "$work"
cd "$work" || exit 1
files=("$source"/tests/data/schemas/*.json "$@")
tokens=${LK_SCHEMA_TOKENS:-24}
model=$source/tests/data/models/tiny-q4_k_m.gguf
if [ -n "${LK_FULL:-}" ]; then
    tokens=${LK_SCHEMA_TOKENS:-200}
    model=${LK_SCHEMA_MODEL:-$source/models/small-q4_k_m.gguf}
fi
"$sampler" "$model" "$tokens" "${LK_SEED:-1}" "${files[@]}" >texts.jsonl || exit 1
if grep '"refused"' texts.jsonl; then
    echo "FAILED: schemas were refused"
    [ $# -gt 0 ] || exit 1
fi
finished=$(grep -c '"finished": *true' texts.jsonl)
total=$(grep -c '"finished"' texts.jsonl)
echo "$finished of $total texts finished within $tokens tokens"
[ "$finished" -ge $((total / 4)) ] || { echo "FAILED: too few"; exit 1; }
[ -n "${LK_FULL:-}" ] || exit 0
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    echo "skipped: node or npm is missing"
    exit 77
fi
if [ ! -d node_modules/ajv ] &&
    ! npm install --no-audit --no-fund ajv@8 ajv-formats@3 >npm.log 2>&1; then
    echo "skipped: npm cannot install ajv"
    exit 77
fi
export NODE_PATH=$work/node_modules
node "$source/tests/schemas/validate.js" texts.jsonl || exit 1
# The same schemas as those of a tool that must be called, in syntaxes of every kind: the arguments
# that the parser of answers gives are validated. Properties that a syntax cannot name are refused.
for syntax in hermes qwen-coder glm minicpm-5 deepseek-4 lfm-2.5 gemma-4 apertus harmony; do
    echo "calls, $syntax:"
    "$sampler" "$model" "$tokens" "${LK_SEED:-1}" --calls $syntax "${files[@]}" >calls.jsonl ||
        exit 1
    node "$source/tests/schemas/validate.js" calls.jsonl || exit 1
done
