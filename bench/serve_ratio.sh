#!/bin/sh
# serve_ratio.sh BUILD MODEL [PROMPT] [TOKENS] [REQUESTS EACH] [ROUNDS] - how much of the speed of
# batched decode is left when clients are served: in turn `lockstep bench -b 8` and 64 clients
# (serve_load, a build target) of `lockstep serve -np 8`, with the same lengths of prompts and
# answers, at most 512 tokens together, and the tokens of both counted on both sides.
#   bench  tokens/s of generation alone, and of prompts and generation
#   serve  the same of the server; processor time of each of its threads that used any
#   other  processor time of other programs meanwhile, in seconds: such rounds do not count
# BUILD: the build folder.
set -eu
[ $# -ge 2 ] || {
    echo "usage: serve_ratio.sh BUILD MODEL [PROMPT] [TOKENS] [REQUESTS EACH] [ROUNDS]" >&2
    exit 2
}
build=$1 model=$2 n_prompt=${3:-16} n_tokens=${4:-96} n_each=${5:-4} n_rounds=${6:-3}
lockstep=$build/apps/lockstep/lockstep
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || :; rm -r "$folder"' EXIT
"$lockstep" serve "$model" -np 8 -c 4096 --port 0 >"$folder/port" 2>"$folder/log" &
server=$!
while [ ! -s "$folder/port" ]; do
    kill -0 "$server" || { cat "$folder/log" >&2; exit 1; }
    sleep 0.1
done
port=$(cat "$folder/port")

# Microseconds that each thread of the server has used, by the order of their ids.
threads() {
    for task in /proc/"$server"/task/*; do
        awk '{ printf "%s %.0f\n", FILENAME, $1 / 1000 }' "$task/schedstat"
    done
}

# Every page of the cache has been used once, as on a server that has run for a while: the first use
# of memory costs the time that the system needs to find it.
"$build/bench/serve_load" "$port" 64 1 2 "$n_prompt" >/dev/null

# Notes how long the processors have been busy, and what children of this script that ended used.
mark() {
    awk '$1 == "cpu" { printf "%.2f ", ($2 + $3 + $4 + $7 + $8) / 100 }' /proc/stat >"$folder/$1"
    times >"$folder/times"
    awk -F'[ms ]+' 'NR == 2 { print 60 * $1 + $2 + 60 * $3 + $4 }' "$folder/times" >>"$folder/$1"
}
served() {
    awk '{ sum += $2 } END { print sum / 1e6 }' "$1"
}

for round in $(seq "$n_rounds"); do
    mark start
    "$lockstep" bench "$model" -p 0 -n 0 -b 8 --batch-prompt "$n_prompt" --batch-gen "$n_tokens" \
        -r $((4 * n_each)) --no-machine -o csv >"$folder/bench"
    mark middle
    threads >"$folder/before"
    "$build/bench/serve_load" "$port" 64 "$n_each" "$n_tokens" "$n_prompt" >"$folder/serve"
    threads >"$folder/after"
    mark end
    awk -v round="$round" -v np="$n_prompt" -v ng="$n_tokens" '
        FILENAME ~ /bench$/ && FNR == 2 { pp = $(NF - 6) }
        FILENAME ~ /bench$/ && FNR == 3 { tg = $(NF - 6) }
        FILENAME ~ /serve$/ && FNR == 1 { gen = $8; all = $11 }
        END {
            both = (np + ng) / (np / pp + ng / tg)
            printf "round %d: bench %.1f, with prompts %.1f tokens/s; ", round, tg, both
            printf "serve %.1f, %.1f; ratio %.3f, %.3f\n", gen, all, gen / tg, all / both
        }' FS=, "$folder/bench" FS=' ' "$folder/serve"
    sed 's/^/  /' "$folder/serve"
    awk 'NR == FNR { before[$1] = $2; next }
        $2 - before[$1] > 1000 { list = list sprintf(" %.3f", ($2 - before[$1]) / 1e6) }
        END { print "  threads of the server, s of processor time:" list }' \
        "$folder/before" "$folder/after"
    awk -v a="$(cat "$folder/start")" -v b="$(cat "$folder/middle")" -v c="$(cat "$folder/end")" \
        -v s="$(served "$folder/after") $(served "$folder/before")" 'BEGIN {
            split(a, x); split(b, y); split(c, z); split(s, w)
            printf "  other: bench %.2f, serve %.2f\n", y[1] - x[1] - y[2] + x[2],
                z[1] - y[1] - z[2] + y[2] - w[1] + w[2]
        }'
done
