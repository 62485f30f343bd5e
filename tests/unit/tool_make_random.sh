# tool_make_random.sh - `lockstep make-random`: the file that it writes, and wrong use.
. "$(dirname "$0")/../support/tool_checks.sh"
command=make-random

run 0 qwen3-tiny q4_k_m a.gguf
matches out '^a.gguf written in '
[ ! -s err ] || fail "$last wrote to standard error: $(cat err)"
run 0 Qwen3-Tiny Q4_K_M b.gguf --seed 1 -t 1
cmp -s a.gguf b.gguf || fail "the same parameters give two files"
run 0 qwen3-tiny Q4_K_M b.gguf --seed 2
cmp -s a.gguf b.gguf && fail "the seed changes nothing"
run 0 qwen3-tiny Q4_K_M b.gguf --layers 1
"$LK_TOOL" inspect --no-digest b.gguf >out 2>err || fail "b.gguf cannot be read: $(cat err)"
matches out 'qwen3.block_count .* 1$'
matches out 'Q6_K '

run 2 qwen9 Q4_K_M c.gguf
matches err 'shapes: .*qwen3-1.7b'
run 2 qwen3-tiny Q4 c.gguf
matches err '"Q4" is no tensor format'
run 2 qwen3-tiny Q4_0
run 2 qwen3-tiny Q4_0 c.gguf --layers 0
run 1 qwen3-tiny Q4_0 c.gguf --layers 3
matches err 'n_layers is 3, qwen3-tiny has 2'
run 1 qwen3-tiny Q4_0 no/such/folder/c.gguf
[ ! -e c.gguf ] || fail "a refused call left a file"
run 0 --help
matches out 'qwen3-1.7b'
"$LK_TOOL" --help | grep -e '  make-random ' >/dev/null || fail "the help does not list it"
"$LK_TOOL" make_random >out 2>err && fail "make_random is a command"

rm -f a.gguf b.gguf out err
exit $failed
