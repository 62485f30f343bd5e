# tool_quantize.sh - `lockstep quantize`: the report in both forms, what it writes, refusals, wrong
# use.
. "$(dirname "$0")/../support/tool_checks.sh"
command=quantize
model=$LK_DATA/archs/qwen2.gguf

run 0 "$model" q8.gguf q8_0 -t 2
matches out '^Q8_0 '
matches out '^F32 '
matches out '^total '
matches out '^q8.gguf written in '
[ ! -s err ] || fail "$last wrote to standard error: $(cat err)"
"$LK_TOOL" inspect --no-digest q8.gguf >out 2>err || fail "q8.gguf cannot be read: $(cat err)"
matches out 'Q8_0 '

# Rows of 64 do not divide into blocks of 256: another format, and the report says so.
run 0 "$model" q4.gguf Q4_K_M --threads=1
matches out ' tensors are Q5_0 instead of Q4_K: '
run 0 "$model" q4t.gguf Q4_K_M --threads=3 --json
cmp -s q4.gguf q4t.gguf || fail "the number of threads changes the file"
matches out '"type": "Q4_K_M"'
matches out '"wanted": "Q4_K"'
matches out '"relative_error": 0.0'

# The input is not overwritten, under whatever name.
cp "$model" own.gguf
ln -s own.gguf link.gguf
run 1 own.gguf own.gguf Q8_0
matches err 'own.gguf is the input'
run 1 own.gguf ./link.gguf Q8_0
matches err 'link.gguf is the input'
cmp -s "$model" own.gguf || fail "the input was changed"
rm -f own.gguf link.gguf

# Ctrl-C leaves nothing behind, whenever it comes.
stories=$LK_DATA/llama2c/stories260K.f32.gguf
if command -v timeout >/dev/null; then
    for try in "INT 130 0.005" "INT 130 0.01" "INT 130 0.02" \
        "TERM 143 0.03" "INT 130 0.05" "TERM 143 0.08"; do
        set -- $try
        signal=$1 expected=$2 seconds=$3
        last="quantize with SIG$signal after $seconds s"
        timeout --preserve-status -s $signal $seconds \
            "$LK_TOOL" quantize "$stories" cut.gguf Q4_K_M -t 1 >out 2>err
        status=$?
        [ "$status" = $expected ] || [ "$status" = 0 ] ||
            fail "$last: exit status $status: $(cat err)"
        [ "$status" = 0 ] || [ ! -e cut.gguf ] || fail "$last: there is an output"
        rm -f cut.gguf
        [ -z "$(ls | grep tmp)" ] || fail "$last left $(ls)"
    done
fi

run 1 q8.gguf again.gguf Q4_0
matches err "is Q8_0 already"
run 1 no_such_file.gguf x.gguf Q8_0
matches err 'no_such_file.gguf'
run 1 "$model" no/such/folder/x.gguf Q8_0
matches err 'no/such/folder/x.gguf'
run 2 "$model" x.gguf Q9
matches err "'Q9' is no type; the types are Q4_0 .*BF16"
run 2 "$model" x.gguf
run 2 "$model" x.gguf Q8_0 more
run 2 "$model" x.gguf Q8_0 -t 0
run 0 --help
[ "$(wc -l <out)" -le 24 ] || fail "the help does not fit a screen"
rm -f q8.gguf q4.gguf q4t.gguf out err
[ -z "$(ls)" ] || fail "files were left behind: $(ls)"
exit $failed
