# old_cpu.sh - the tool on emulated processors without AVX-512, without AVX2, without any AVX: an
# instruction that they lack ends the process, so none may run; what they have is used; and the
# logits are those of the processor at hand.
set -u
ulimit -c 0
command -v qemu-x86_64 >/dev/null || {
    echo "qemu-x86_64 is missing"
    exit 77
}
failed=0

fail() {
    printf 'FAILED: %s\n' "$*"
    failed=1
}

# bench OUT COMMAND...: the digests of a prompt and of generation, in both cache types.
bench() {
    out=$1
    shift
    timeout 300 "$@" bench model.gguf -p 9 -n 3 -r 1 -t 1 --no-warmup --no-machine --kv-type f16 \
        --kv-type q8_0 -o csv >"$out" 2>err
    status=$?
    [ $status = 0 ] || fail "$format on $name: exit status $status: $(cat err)"
}

formats='Q4_K_M Q8_0' # F16 takes long: the emulator computes products in software
[ -z "${LK_FULL:-}" ] || formats='Q4_K_M Q5_K_M Q4_0 Q8_0 Q5_1 Q3_K IQ4_XS F16 BF16 F32'
for format in $formats; do
    "$LK_TOOL" make-random qwen3-tiny $format model.gguf >err 2>&1 || fail "$format: $(cat err)"
    name='this processor'
    bench here.csv "$LK_TOOL"
    cut -d, -f17 here.csv >here.digests
    [ "$(wc -l <here.digests)" = 5 ] || fail "$format: $(cat here.csv)"
    # Model of the processor, and what it has: AVX2 is 1. The last one has AVX2 without FMA.
    for cpu in Nehalem:0 Haswell:1 Haswell,-fma:0; do
        name=${cpu%:*}
        bench old.csv qemu-x86_64 -cpu "$name" "$LK_TOOL"
        cut -d, -f17 old.csv >old.digests
        cmp -s here.digests old.digests || fail "$format on $name: other logits: $(cat old.csv)"
        used=$(sed 1d old.csv | cut -d, -f19 | sort -u)
        [ "$used" = "${cpu#*:}" ] || fail "$format on $name: uses sets '$used', not ${cpu#*:}"
    done
done

rm -f model.gguf ./*.csv ./*.digests err
exit $failed
