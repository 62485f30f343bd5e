#!/usr/bin/env bash
# test.sh - every rung, over every preset that can see something of its own in it. All of them
# run, also after a failure; the exit status is 1 when anything failed.
#
# Which tests run under which preset goes by ctest labels (a test's label is its rung). How long
# they take goes by a variable that every test reads: LK_SHORT=1 very short, unset bounded,
# LK_FULL=1 long.
#
#   test.sh           everything
#   test.sh STEP...   only these: format release dev-clang asan tsan debug cross-aarch64 fuzz
#                     lint faults
#
# With CI set nothing is skipped: a missing tool fails its step. Elsewhere the reason is printed.
set -uo pipefail
cd "$(dirname "$0")/.."

logs=build/logs
mkdir -p $logs
summary=$logs/summary
rungs=$logs/rungs
failures=$logs/failures
: >$summary
: >$rungs
: >$failures
n_passed=0 n_failed=0 n_skipped=0
started=$SECONDS
jobs=$(nproc 2>/dev/null || echo 2)
wanted=("$@")

# record STEP SECONDS RESULT
record() {
    printf '%s|%s|%s\n' "$1" "$2" "$3" >>$summary
}

is_wanted() {
    [ ${#wanted[@]} -eq 0 ] && return 0
    local step
    for step in "${wanted[@]}"; do
        [ "$step" = "$1" ] && return 0
    done
    return 1
}

# skip STEP REASON: only outside CI.
skip() {
    if [ -n "${CI:-}" ]; then
        echo "$1: FAILED: $2 (nothing is skipped in CI)"
        n_failed=$((n_failed + 1))
        record "$1" 0 "FAILED: $2"
    else
        echo "$1: skipped: $2"
        n_skipped=$((n_skipped + 1))
        record "$1" 0 "skipped: $2"
    fi
}

# needs STEP PROGRAM...: skips the step when a program is missing.
needs() {
    local step=$1 program
    shift
    for program in "$@"; do
        if ! command -v "$program" >/dev/null; then
            skip "$step" "$program is missing"
            return 1
        fi
    done
}

# note_failures STEP LOG: the lines of LOG that say what failed, shown again at the very end.
note_failures() {
    words='error|warning|ERROR|SUMMARY|FAILED'
    grep -E "([^a-z]|^)($words)[: ]|\*\*\*(Failed|Timeout|Exception)" "$2" |
        head -n 20 | sed "s/^/$1: /" >>$failures
}

# command_step STEP COMMAND...: one command, one verdict; status 77 is a skip, its last line the
# reason.
command_step() {
    local step=$1 start=$SECONDS status=0
    shift
    echo "== $step"
    "$@" >"$logs/$step.log" 2>&1 || status=$?
    if [ $status -eq 77 ]; then
        skip "$step" "$(tail -n 1 "$logs/$step.log")"
    elif [ $status -ne 0 ]; then
        tail -n 60 "$logs/$step.log"
        note_failures "$step" "$logs/$step.log"
        n_failed=$((n_failed + 1))
        record "$step" $((SECONDS - start)) "FAILED"
    else
        n_passed=$((n_passed + 1))
        record "$step" $((SECONDS - start)) "passed"
    fi
}

# Reads ctest's JUnit file: counts, and the seconds of each rung.
count_junit() {
    local step=$1 file=$2 line
    line=$(awk -v step="$step" '
        function attribute(name,    text) {
            if (!match($0, " ?" name "=\"[^\"]*\"")) return ""
            text = substr($0, RSTART, RLENGTH)
            sub(/^[^"]*"/, "", text)
            sub(/"$/, "", text)
            return text
        }
        /<testcase / {
            rung = attribute("name"); sub(/\..*/, "", rung)
            seconds[rung] += attribute("time")
            status = attribute("status")
            if (status == "run") passed++
            else if (status == "notrun" || status == "disabled") skipped++
            else failed++
        }
        END {
            for (rung in seconds) printf "%s %s %.1f\n", rung, step, seconds[rung] >>"'$rungs'"
            printf "%d %d %d\n", passed, failed, skipped
        }' "$file")
    read -r passed failed skipped <<<"$line"
}

# preset_step PRESET all|tests LABELS [ARGUMENT OF env...]: configure, build all or what the tests
# of these labels need, run them.
preset_step() {
    local preset=$1 what=$2 labels=$3 start=$SECONDS status=0 build_seconds
    local passed=0 failed=0 skipped=0 targets=(all)
    shift 3
    if [ "$what" = tests ]; then
        IFS='|' read -ra targets <<<"$labels"
        targets=("${targets[@]/#/label_}")
    fi
    echo "== $preset: build"
    if ! { cmake --preset "$preset" &&
        cmake --build --preset "$preset" --target "${targets[@]}"; } \
        >"$logs/$preset.log" 2>&1; then
        grep -E -A 12 'error|FAILED|Error' "$logs/$preset.log" | head -n 60
        note_failures "$preset" "$logs/$preset.log"
        n_failed=$((n_failed + 1))
        record "$preset" $((SECONDS - start)) "FAILED to build (build/logs/$preset.log)"
        return
    fi
    build_seconds=$((SECONDS - start))
    echo "== $preset: test ($build_seconds s to build)"
    rm -f "$logs/$preset.xml"
    env "$@" "${steady[@]}" ctest --preset "$preset" -j "$jobs" --timeout "$limit_s" \
        -L "^($labels)\$" --output-junit "$PWD/$logs/$preset.xml" 2>&1 |
        tee "$logs/$preset.ctest.log" || status=$?
    if [ -f "$logs/$preset.xml" ]; then
        count_junit "$preset" "$logs/$preset.xml"
    fi
    if [ $((passed + failed)) -eq 0 ]; then
        echo "$preset: no test ran"
        failed=1
    elif [ $status -ne 0 ] && [ "$failed" -eq 0 ]; then
        failed=1
    fi
    if [ -n "${CI:-}" ]; then
        failed=$((failed + skipped))
        skipped=0
    fi
    [ "$failed" -eq 0 ] || note_failures "$preset" "$logs/$preset.ctest.log"
    n_passed=$((n_passed + passed))
    n_failed=$((n_failed + failed))
    n_skipped=$((n_skipped + skipped))
    local result="passed"
    [ "$failed" -eq 0 ] || result="FAILED"
    record "$preset" $((SECONDS - start)) \
        "$result: $passed passed, $failed failed, $skipped skipped; build $build_seconds s"
}

print_table() {
    echo
    printf '%-14s %8s  %s\n' step seconds result
    while IFS='|' read -r step seconds result; do
        printf '%-14s %8s  %s\n' "$step" "$seconds" "$result"
    done <$summary
    if [ -s $rungs ]; then
        echo
        printf '%-14s %9s  %s\n' rung seconds "(processor seconds of its tests, by preset)"
        sort $rungs | awk '
            $1 != rung { if (rung != "") printf "%-14s %9.1f  %s\n", rung, sum, parts
                         rung = $1; sum = 0; parts = "" }
            { sum += $3; parts = parts (parts == "" ? "" : ", ") $2 " " $3 }
            END { printf "%-14s %9.1f  %s\n", rung, sum, parts }'
    fi
    echo
    echo "$((SECONDS - started)) s in all"
}

# fuzz_one TARGET: lets a fuzz target look for new inputs for some seconds.
fuzz_one() {
    local name=${1##*/fuzz_} options
    mkdir -p "$logs/fuzz/$name"
    options=(-max_total_time="$fuzz_s" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
        -artifact_prefix="$logs/fuzz/$name-")
    [ ! -f "fuzz/dict/$name.dict" ] || options+=(-dict="fuzz/dict/$name.dict")
    "$1" "${options[@]}" "$logs/fuzz/$name" "fuzz/corpus/$name" >"$logs/fuzz/$name.log" 2>&1 ||
        {
            echo "fuzz_$name: FAILED"
            tail -n 40 "$logs/fuzz/$name.log"
            return 1
        }
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/fuzz/$name.log")
    echo "fuzz_$name: $runs runs"
}

# fuzz_run: builds the fuzz targets and runs them, one on each core.
fuzz_run() {
    local found
    cmake --preset asan && cmake --build --preset asan || return 1
    found=$(find build/asan/fuzz -maxdepth 1 -type f -name 'fuzz_*' -perm -u+x | sort)
    [ -n "$found" ] || { echo "no fuzz targets"; return 1; }
    export -f fuzz_one
    export logs fuzz_s
    xargs -P "$jobs" -n 1 bash -c 'fuzz_one "$1"' fuzz <<<"$found"
}

# The sanitizers of older compilers cannot place their shadow memory under some kernels' address
# randomisation; without it they always can.
steady=()
if command -v setarch >/dev/null && setarch "$(uname -m)" -R true 2>/dev/null; then
    steady=(setarch "$(uname -m)" -R)
fi

sh tools/packages.sh run || exit 1
if ! sh tools/packages.sh test && [ -n "${CI:-}" ]; then
    echo "CI needs every tool"
fi

# The sizes: in the full run the slow builds do what a release build does in the bounded one.
short=(LK_SHORT=1)
limit_s=900
fuzz_s=${LK_FUZZ_SECONDS:-5}
if [ -n "${LK_FULL:-}" ]; then
    short=(-u LK_FULL)
    limit_s=86400
    fuzz_s=${LK_FUZZ_SECONDS:-600}
fi
every='unit|checkkern|conform|golden|isolation|fault|fuzz|server|tidy|abi'

if is_wanted format; then
    command_step format sh tools/format.sh check
fi
if is_wanted release; then
    preset_step release all "$every"
fi
if is_wanted dev-clang && needs dev-clang clang; then
    preset_step dev-clang tests 'checkkern|golden' "${short[@]}"
fi
if is_wanted asan && needs asan clang; then
    preset_step asan all 'unit|fault|fuzz|golden' "${short[@]}"
fi
if is_wanted tsan; then
    preset_step tsan tests 'threads' "${short[@]}"
fi
if is_wanted debug; then
    preset_step debug tests 'unit|golden' "${short[@]}"
fi
if is_wanted cross-aarch64 && needs cross-aarch64 aarch64-linux-gnu-gcc qemu-aarch64; then
    preset_step cross-aarch64 tests 'unit|golden|checkkern' "${short[@]}"
fi
if [ -d fuzz ] && is_wanted fuzz && needs fuzz clang; then
    command_step fuzz fuzz_run
fi
if is_wanted lint && needs lint clang-tidy; then
    command_step lint bash tools/lint.sh
fi

if [ -n "${LK_FULL:-}" ] && is_wanted faults; then
    command_step faults bash tests/isolation/planted_faults.sh
fi

print_table
if [ -s $failures ]; then
    echo
    cat $failures
    echo
fi
if [ $n_skipped -eq 0 ]; then
    echo "$n_passed passed, $n_failed failed"
else
    echo "$n_passed passed, $n_failed failed, $n_skipped skipped"
fi
[ $n_failed -eq 0 ]
