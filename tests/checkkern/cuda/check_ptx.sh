#!/bin/sh
# check_ptx.sh PTX_DIR: the instructions of the kernels, as Clang made them for the card when the
# library was built, round as the definition says. Every binary32 operation has to be a rounded one
# (.rn), none fused, flushed or approximate; fused ones are allowed where device.h writes them
# itself, between the marks of inline assembly, for exact products. Exit status 77: there are none,
# because the build found no Clang that can make them.
set -u
ls "$1"/*.ptx >/dev/null 2>&1 || {
    echo "check_ptx: no device code in $1"
    exit 77
}

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

planted=$(mktemp) || exit 1
printf '%s\n' 'fma.rn.f32 %f1, %f2;' 'add.f32 %f1;' 'div.approx.f32 %f1;' '@%p1 fma.rn.f32 %f1;' \
    'add.rn.f32 %f1;' >"$planted"
n=$(find_wrong "$planted" | wc -l)
rm -f "$planted"
[ "$n" -eq 4 ] || {
    echo "check_ptx: the check itself does not see what it has to"
    exit 1
}
status=0
n=0
for ptx in "$1"/*.ptx; do
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
