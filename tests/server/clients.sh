#!/bin/sh
# clients.sh - clients that others wrote, against a server over the shipped model. curl always;
# with LK_FULL=1 also npm's openai, the AI SDK, OpenAI Agents and LangChain (versions of
# clients/package-lock.json; Node 18 or newer, and a network) and, where a Chromium is found, the
# page in it. Gets the tool in LK_TOOL, the model in LK_MODEL and this folder in LK_CLIENTS.
set -u
scratch=$(mktemp -d) || exit 1
pid=
# shellcheck disable=SC2154 # set by the trap itself
trap 'status=$?; [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null; rm -rf "$scratch"; exit $status' EXIT
trap 'exit 1' INT TERM
fail() {
    echo "FAILED: $1" >&2
    sed 's/^/    /' "$scratch/out" >&2
    exit 1
}
skip() {
    echo "skipped: $1"
    exit 77
}

command -v curl >/dev/null || skip "curl is missing"
"$LK_TOOL" serve "$LK_MODEL" --port 0 -np 4 -t 2 >"$scratch/port" 2>"$scratch/log" &
pid=$!
for _ in $(seq 300); do
    [ -s "$scratch/port" ] && break
    sleep 0.1
done
port=$(cat "$scratch/port")
[ -n "$port" ] || { cp "$scratch/log" "$scratch/out"; fail "the server did not start"; }
at=http://127.0.0.1:$port

# say PATH BODY [CURL OPTIONS...]: the answer in $scratch/out, the status printed.
say() {
    path=$1 body=$2
    shift 2
    curl -sN --max-time 60 -o "$scratch/out" -w '%{http_code}' "$@" \
        -H 'Content-Type: application/json' -d "$body" "$at$path"
}

chat='"messages": [{"role": "user", "content": "Tell me a story."}], "seed": 7, "max_tokens": 16'
[ "$(say /v1/chat/completions "{$chat}")" = 200 ] || fail "a chat"
grep -q '"object":"chat.completion"' "$scratch/out" || fail "a chat without its object"
[ "$(say /v1/chat/completions "{$chat, \"stream\": true}" --http1.0)" = 200 ] || fail "HTTP/1.0"
tail -n 2 "$scratch/out" | grep -q '^data: \[DONE\]$' || fail "a stream without its end"
[ "$(say /v1/chat/completions "{$chat, \"n\": -1}")" = 400 ] || fail "a wrong field"
grep -q '"param":"n"' "$scratch/out" || fail "an error that names no field"
printf '{%s}' "$chat" >"$scratch/body"
code=$(curl -s --max-time 60 -o "$scratch/out" -w '%{http_code}' -H 'Transfer-Encoding: chunked' \
    -H 'Expect: 100-continue' --data-binary @"$scratch/body" "$at/v1/chat/completions")
[ "$code" = 200 ] || fail "a body in chunks"
curl -sN --max-time 1 -o "$scratch/out" -d "{$chat, \"stream\": true, \"ignore_eos\": true, \
\"max_tokens\": 2000}" "$at/v1/chat/completions"
for _ in $(seq 100); do
    curl -s -o "$scratch/out" "$at/metrics"
    grep -q '^lockstep_slots_busy 0$' "$scratch/out" && break
    sleep 0.1
done
grep -q '^lockstep_slots_busy 0$' "$scratch/out" || fail "work goes on for a client that is gone"
echo "curl: ok"

if [ -n "${LK_FULL:-}" ]; then
    command -v node >/dev/null && command -v npm >/dev/null || skip "node and npm are missing"
    [ "$(node -p 'process.versions.node.split(".")[0] >= 18')" = true ] || skip "node is too old"
    cp "$LK_CLIENTS"/*.mjs "$LK_CLIENTS"/package*.json "$LK_CLIENTS"/.npmrc "$scratch"/
    (cd "$scratch" && npm ci >out 2>&1) || fail "npm ci"
    (cd "$scratch" && timeout 300 node clients.mjs "$port" >out 2>&1) || fail "clients of npm"
    cat "$scratch/out"
    for browser in chromium chromium-browser google-chrome; do
        path=$(command -v $browser) || continue
        (cd "$scratch" && timeout 120 node page.mjs "$port" "$path" >out 2>&1) || fail "the page"
        cat "$scratch/out"
        break
    done
fi

kill -TERM "$pid"
wait "$pid" || fail "the server did not end well"
pid=
