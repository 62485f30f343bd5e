# tool_inspect.sh - `lockstep inspect`: both outputs on the tiny model, hostile strings, wrong use.
# The digest was computed by another program from the definition in lk/gguf.h.
. "$(dirname "$0")/../support/tool_checks.sh"
command=inspect
model=$LK_DATA/models/tiny-q4_k_m.gguf
digest=8d90a270f4db0983abf3b19de0cf835efc58690f9b0e7852044535a485b5d748

run 0 "$model"
has "architecture  qwen3"
has "can be run    yes"
! grep -q 'not supported' out || fail "$last: something is not supported"
has "digest        $digest"
has "qwen3.embedding_length"
has "tokenizer.ggml.tokens"
has ", ..]"
has "parameters    4.2 million (4197120)"
has "metadata: 28 entries"
has "tensors: 46"
has "F32         17 tensors"
[ ! -s err ] || fail "$last wrote to standard error: $(cat err)"

run 0 "$model" --no-digest
! grep -q '^digest' out || fail "$last printed a digest"

run 0 "$model" --all
! grep -q ', \.\.]' out || fail "$last shortened an array"

run 0 "$model" --json -t 2
has "\"digest\": \"$digest"
has '"architecture": "qwen3"'
has '"architecture_supported": true'
has '"can_be_run": true'
has '"problems": []'
has '"parameters": 4197120'
has '"complete": false'
run 0 --json --all --no-digest "$model"
has '"digest": null'
! grep -q '"complete": false' out || fail "$last shortened an array"

# A file whose strings would clear the screen, reorder text and forge a line; tensors of a format
# without code and of an architecture that nobody knows are shown.
{
    printf 'GGUF\003\000\000\000'
    printf '\001\000\000\000\000\000\000\000'
    printf '\002\000\000\000\000\000\000\000'
    printf '\001\000\000\000\000\000\000\000k\010\000\000\000'
    printf '\021\000\000\000\000\000\000\000a\033[2J\302\233\342\200\256\377\000\nz\\"\177'
    printf '\024\000\000\000\000\000\000\000general.architecture\010\000\000\000'
    printf '\006\000\000\000\000\000\000\000nobody'
    printf '\001\000\000\000\000\000\000\000t\001\000\000\000'
    printf '\000\001\000\000\000\000\000\000\020\000\000\000'
    printf '\000\000\000\000\000\000\000\000'
    head -c 120 /dev/zero
} >hostile.gguf
run 0 hostile.gguf
has 'a\u{1b}[2J\u{9b}\u{202e}\xff\u{0}\nz\\\"\u{7f}'
has 'architecture  nobody  (not supported)'
has 'can be run    no'
has '  architecture  architecture "nobody" is not supported'
has '  format        format IQ2_XXS (16), first met in tensor t, is not supported'
has 'IQ2_XXS  256                66 B  (not supported)'
! LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177\233]')" out ||
    fail "$last printed a control character"
run 0 hostile.gguf --json
has '"hex": "611b5b324ac29be280aeff000a7a5c227f"'
has '"supported": false'
has '"architecture_supported": false'
has '"can_be_run": false'
has '"kind": "format"'

# What is missing is named without reading weights: a tensor, a key, the tokenizer. Same-length
# replacements in copies of the model.
broken() {
    LC_ALL=C sed "s/$1/$2/" "$model" >broken.gguf
    run 0 broken.gguf --no-digest
    has 'can be run    no'
    has "$3"
}
broken 'blk\.0\.attn_q\.weight' 'blk.0.attn_q.weighs' \
    '  model         tensor blk.0.attn_q.weight is missing'
broken 'qwen3\.block_count' 'qwen3.block_kount' '  model         key qwen3.block_count is missing'
broken 'tokenizer\.ggml\.pre\(.\{12\}\)qwen2' 'tokenizer.ggml.pre\1qwenX' '  tokenizer     '
rm -f broken.gguf

run 1 no_such_file.gguf
grep -q 'no_such_file.gguf' err || fail "the error does not name the file: $(cat err)"
head -c 1000 "$model" >cut.gguf
run 1 cut.gguf
grep -q 'cut.gguf: byte [0-9]*: ' err || fail "the error does not name the place: $(cat err)"
run 2
run 2 "$model" extra
run 2 "$model" --nonsense
run 2 "$model" --threads 0
run 0 --help
[ "$(wc -l <out)" -le 24 ] || fail "the help does not fit a screen"
if [ -c /dev/full ]; then
    "$LK_TOOL" inspect "$model" >/dev/full 2>err
    [ $? = 1 ] || fail "a full disk was not noticed"
    "$LK_TOOL" inspect "$model" --json >/dev/full 2>err
    [ $? = 1 ] || fail "a full disk was not noticed (JSON)"
fi
rm -f out err hostile.gguf cut.gguf
exit $failed
