# tool_bench.sh - `lockstep bench`: each output, that digests agree over threads, instruction sets
# and batches, that the machine is measured, and wrong use.
. "$(dirname "$0")/../support/tool_checks.sh"
command=bench

"$LK_TOOL" make-random qwen3-tiny Q4_K_M a.gguf >out 2>err || fail "no model: $(cat err)"

# All that ends at position 24 has one digest: pp24, tg8 after 16, tg8 of 1 and 3 sequences after
# prompts of 16, on any threads and instruction sets.
run 0 a.gguf -p 24 -n 8 -d 0,16 -b 1,3 --batch-prompt 16 --batch-gen 8 -t 1,2 --isa all,scalar \
    -r 2 --no-machine --no-warmup -o csv
[ ! -s err ] || fail "$last wrote to standard error: $(cat err)"
n=$(wc -l <out)
[ "$n" = 49 ] || fail "$last printed $n lines, expected 49"
n=$(awk -F, '$9 + $10 == 24 { print $17 }' out | sort -u | wc -l)
[ "$n" = 1 ] || fail "$last: $n digests of the row at position 24, expected 1: $(cat out)"
n=$(awk -F, 'NR > 1 { print $17 }' out | sort -u | wc -l)
[ "$n" = 5 ] || fail "$last: $n digests of the rows at 5 positions, expected 5: $(cat out)"
awk -F, 'NR > 1 && !($13 > 0) { exit 1 }' out || fail "$last: a speed is not above 0: $(cat out)"

# Other keys and values, other bits.
run 0 -m a.gguf -p 24 -n 0 --kv-type f16 --kv-type q8_0 --kv-type q8_0,f16 -t 1 -r 1 --no-machine \
    -o csv
n=$(awk -F, 'NR > 1 { print $17 }' out | sort -u | wc -l)
[ "$n" = 3 ] || fail "$last: $n digests of three KV types: $(cat out)"

run 0 a.gguf -p 16 -n 4 -t 1 -r 2
matches out '^machine, 1 threads, all: reads [1-9][0-9.]* GB/s, int8 '
matches out ' pp16 .* +- .* % '
run 0 -t 1
matches out '^machine, 1 threads'
run 0 a.gguf -p 16 -n 4 -t 1 -r 2 --no-machine --no-repack -o md
matches out '^| model  *|  *MiB '
matches out '^| qwen3 1.5M Q4_K - Medium '
run 0 a.gguf -p 16 -n 4 -t 1 -r 2 --no-machine -o json
matches out '"test": "pp16"'
matches out '"is_wrong": false'
matches out '"load_seconds": '
run 0 a.gguf -p 16 -n 4 -d 8 -t 1 -r 2 --no-machine --peer-style
matches out '^| model  *|  *size |  *params | backend    | threads |  *test |  *t/s |$'
matches out '^| qwen3 1.5M Q4_K - Medium  *|  *0.94 MiB |  *1.51 M | CPU  *|  *1 |  *pp16 @ d8 |'

# The encoder of recordings: one digest for a length, on any threads and instruction sets.
"$LK_TOOL" make-random omni-tiny-mmproj Q8_0 mmproj.gguf >out 2>err || fail "$(cat err)"
run 0 --mmproj mmproj.gguf --audio 1,3 -t 1,2 --isa all,scalar -r 2 --no-machine -o json
n=$(grep -c '"median_seconds": [0-9.e-]*[1-9]' out)
[ "$n" = 8 ] || fail "$last: $n times above 0, expected 8: $(cat out)"
n=$(grep '"vectors": ' out | sort -u | wc -l)
[ "$n" = 2 ] || fail "$last: $n digests of two lengths: $(cat out)"
run 0 a.gguf -p 16 -n 0 --mmproj mmproj.gguf --audio 1 -t 1 -r 1
matches out ' pp16 '
matches out ' 1 s .* % '
with_devices 0
run 2 --mmproj mmproj.gguf --audio 1 --projector device --no-machine
matches err 'bench: --projector device: '
if has_device_code; then
    with_devices 1
    run 0 --mmproj mmproj.gguf --audio 1 --projector cpu,device -t 1 -r 1 --no-machine
    matches out '^device: emulated device 0, 1.0 GiB, CUDA, compute capability 7.0$'
    matches out '^qwen2.5o .*  -  device  1 s '
    n=$(grep '^qwen2.5o ' out | sed 's/.* //' | sort -u | wc -l)
    [ "$n" = 1 ] || fail "$last: the device has another digest: $(cat out)"
fi
with_devices -1
run 2 --mmproj mmproj.gguf --audio 1 --projector gpu
matches err "--projector needs cpu, device or both, not 'gpu'"
run 2 --projector cpu
run 2 --mmproj mmproj.gguf
matches err '--mmproj FILE and --audio SECONDS go together'
run 2 --audio 3
run 2 --mmproj mmproj.gguf --audio 0
run 1 --mmproj a.gguf --audio 1 --no-machine
matches err 'the file is no projector'
rm -f mmproj.gguf

# Repacked weights are no second copy: while a model loads, little more than its file is in memory.
if [ -n "${LK_FULL:-}" ]; then
    "$LK_TOOL" make-random qwen3-0.6b Q8_0 large.gguf --layers 1 >out 2>err || fail "$(cat err)"
    run 0 large.gguf -p 8 -n 0 -t 2 -r 1 --no-machine -o json
    awk '/"load_peak_bytes"/ { peak = $2 + 0 } /"tensor_bytes"/ { size = $2 + 0 }
        END { exit !(peak > size && peak < 1.15 * size + 4e7) }' out ||
        fail "$last: more memory than a copy needs: $(grep _bytes out)"
    rm -f large.gguf
fi

run 1 none.gguf
matches err 'none.gguf'
run 2 a.gguf -p 1,x
matches err "--prompt needs up to 16 numbers from 0 to 1048576, not '1,x'"
run 2 a.gguf -n -1
run 2 a.gguf -b 0
run 2 a.gguf -t 1,0
run 2 a.gguf --isa avx3
matches err "not 'avx3'"
run 2 a.gguf --kv-type q4_0
run 2 a.gguf -o xml
run 2 a.gguf -r 0
run 0 --help

rm -f a.gguf out err
exit $failed
