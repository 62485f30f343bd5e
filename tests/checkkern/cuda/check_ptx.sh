#!/bin/sh
# check_ptx.sh SOURCE_DIR WORK_DIR: the instructions of the kernels, as Clang makes them for the
# card, round as the definition says. Every binary32 operation has to be a rounded one (.rn), none
# fused, flushed or approximate; fused ones are allowed where device.h writes them itself, between
# the marks of inline assembly, for exact products. Exit status 77: no Clang that can make PTX.
set -u
source=$1 work=$2
mkdir -p "$work" || exit 1
skip() {
    echo "check_ptx: $1"
    [ -n "${CI:-}" ] && exit 1
    exit 77
}
command -v clang >/dev/null || skip "no clang"
flags=$(cat "$source/src/backend/cuda/kern/ptx_flags")
printf '__attribute__((global)) void f(int *p) { *p = 1; }\n' >"$work/probe.cu"
# shellcheck disable=SC2086 # a list of options
clang $flags -S "$work/probe.cu" -o "$work/probe.ptx" 2>"$work/probe.log" ||
    skip "clang makes no PTX: $(head -n 1 "$work/probe.log")"

# Lines outside inline assembly that must not be there.
find_wrong() {
    awk '
        /(begin|end) inline asm/ { inside = /begin/; next }
        inside {
            if (/\.f(16|32|64)/ && !/^[ \t]*(fma\.rn\.f32|cvt\.f32\.f16) /) print
            next
        }
        /\.ftz|\.approx|\.full|\.f64/ { print; next }
        /^[ \t]*(@[!%a-z0-9]+[ \t]+)?(fma|mad|rsqrt|rcp|ex2|lg2|sin|cos|tanh)\.[a-z.]*f(16|32)/ {
            if ($0 !~ /rcp\.rn\.f32/) print
            next
        }
        /^[ \t]*(@[!%a-z0-9]+[ \t]+)?(add|sub|mul|div|sqrt)\.[a-z.]*f(16|32)/ {
            if ($0 !~ /(add|sub|mul|div|sqrt)\.rn\.f32/) print
        }' "$1"
}

printf '%s\n' 'fma.rn.f32 %f1, %f2;' 'add.f32 %f1;' 'div.approx.f32 %f1;' '@%p1 fma.rn.f32 %f1;' \
    'add.rn.f32 %f1;' >"$work/planted.ptx"
[ "$(find_wrong "$work/planted.ptx" | wc -l)" -eq 4 ] || {
    echo "check_ptx: the check itself does not see what it has to"
    exit 1
}
status=0
n=0
for file in "$source"/src/backend/cuda/kern/*.cu; do
    ptx=$work/$(basename "$file" .cu).ptx
    # shellcheck disable=SC2086
    clang $flags -I"$source/src" -I"$source/include" -S "$file" -o "$ptx" || exit 1
    n=$((n + $(grep -c '\.rn\.f32' "$ptx")))
    wrong=$(find_wrong "$ptx")
    if [ -n "$wrong" ]; then
        echo "$ptx:"
        echo "$wrong" | head -n 5
        status=1
    fi
done
echo "check_ptx: $n rounded operations"
[ "$n" -gt 100 ] || status=1
exit $status
