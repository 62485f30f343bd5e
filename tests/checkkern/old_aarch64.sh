# old_aarch64.sh - AArch64 processors that lack instruction sets, emulated: an instruction that one
# lacks ends the process, so none may run; what it has is used. LK_EMULATOR runs LK_CHECKKERN.
set -u
failed=0
export LK_SHORT=1

# expect MODEL LINE...: the check of one format on that processor prints these lines.
expect() {
    cpu=$1
    shift
    # shellcheck disable=SC2086 # a command and its options
    out=$(timeout 300 $LK_EMULATOR -cpu "$cpu" "$LK_CHECKKERN" --only Q4_K 2>&1)
    status=$?
    [ $status = 0 ] || {
        echo "FAILED: on $cpu: exit status $status: $out"
        failed=1
    }
    for line in "$@"; do
        printf '%s\n' "$out" | grep -q "^$line" || {
            echo "FAILED: on $cpu: no line '$line' in: $out"
            failed=1
        }
    done
}

lacks='this processor does not have it'
expect cortex-a72 "neon: $lacks" "i8mm: $lacks"
expect neoverse-n1 'neon *matmul_strip .* 0 failures' "i8mm: $lacks"
expect max 'neon *matmul_strip .* 0 failures' 'i8mm *matmul_strip .* 0 failures'
exit $failed
