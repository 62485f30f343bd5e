# tool_verify_lib.sh - `lockstep verify --target lib:PATH` refuses what is not a libllama whose
# interface it knows, and says why. Stand-ins for such libraries are compiled here: functions that
# do nothing, and parameter structs as version 0.4 fills them, with one thing wrong in each. With a
# real one in LK_LIBLLAMA the experiments run on it.
. "$(dirname "$0")/../support/tool_checks.sh"
command=verify
model=$LK_DATA/models/tiny-q4_k_m.gguf
verify=$(cd "$(dirname "$0")/../../apps/lockstep/verify" && pwd)

# refused PATH REASON
refused() {
    run 2 "$model" --target "lib:$1"
    says "$2"
    [ ! -s out ] || fail "$last: printed a report: $(cat out)"
}
refused "$PWD/none.so" 'none.so: there is no such file'
echo text >text.so
refused text.so 'text.so: it cannot be loaded'
refused "$PWD" 'it cannot be loaded'

{
    echo '#include "llama_abi.h"'
    sed -n 's/^LLAMA_FUNCTION(\([a-z_]*\),.*/\1/p' "$verify/llama_functions.def" |
        grep -v 'llama_version\|default_params\|llama_batch_\|^llama_free$' |
        sed 's/.*/void *&(void);\nvoid *&(void) {\n    return 0;\n}/'
    cat <<'FAKE'
#ifndef WITHOUT_FREE
void llama_free(void);
void llama_free(void) {
}
#endif
#ifndef VERSION
#define VERSION "0.4.0"
#endif
const char *llama_version(void);
const char *llama_version(void) {
    return VERSION;
}
/* Shorter structs than the verifier has room for, as a real library returns them. */
llama_abi_model_params llama_model_default_params(void);
llama_abi_model_params llama_model_default_params(void) {
    llama_abi_model_params p = {0};
    p.n_gpu_layers = -1;
    p.split_mode = 1;
    p.use_extra_buffers = true;
    return p;
}
llama_abi_context_params llama_context_default_params(void);
llama_abi_context_params llama_context_default_params(void) {
    llama_abi_context_params p = {.n_ctx = 512,
                                  .n_batch = 2048,
                                  .n_ubatch = 512,
                                  .n_seq_max = 1,
                                  .n_outputs_max_per_seq = 1,
                                  .rope_scaling = -1,
                                  .pooling = -1,
                                  .attention = -1,
                                  .flash_attention = -1,
                                  .yarn_ext_factor = -1,
                                  .yarn_attn_factor = -1,
                                  .yarn_beta_fast = -1,
                                  .yarn_beta_slow = -1,
                                  .defrag_threshold = -1,
                                  .type_k = 1,
                                  .type_v = 1,
                                  .offload_kqv = true,
                                  .no_perf = true,
                                  .op_offload = true,
                                  .swa_full = true};
#ifdef MOVED
    p.n_ubatch = 2048; /* as if a field before it had gone */
#endif
    return p;
}
llama_abi_batch llama_batch_get_one(int32_t *tokens, int32_t n);
llama_abi_batch llama_batch_get_one(int32_t *tokens, int32_t n) {
    llama_abi_batch b = {.n_tokens = n, .token = tokens};
#ifdef BATCH
    b.pos = tokens;
#endif
    return b;
}
llama_abi_batch llama_batch_init(void);
llama_abi_batch llama_batch_init(void) {
    static int32_t ids[2];
    static int32_t *of[3] = {ids, ids, 0};
    static float none[1];
    static int8_t wanted[2];
    (void)none;
    llama_abi_batch b = {.token = ids, .pos = ids, .n_seq_id = ids, .seq_id = of,
                         .wants_logits = wanted};
    return b;
}
void llama_batch_free(void);
void llama_batch_free(void) {
}
FAKE
} >fake.c
# fake NAME FLAGS...
fake() {
    name=$1
    shift
    ${CC:-cc} -shared -fPIC -I"$verify" "$@" -o "$name.so" fake.c || fail "cannot compile $name.so"
}
if command -v "${CC:-cc}" >/dev/null; then
    fake lacking -DWITHOUT_FREE
    refused lacking.so "it has no function 'llama_free'"
    fake newer -DVERSION='"0.5.1"'
    refused newer.so 'it is libllama 0.5.1; the interface of version 0.4 is known'
    fake moved -DMOVED
    refused moved.so "has 'n_ubatch', which is 512 by default, there is 2048"
    fake batch -DBATCH
    refused batch.so 'a batch is laid out in another way'
    # All in order, and nothing behind it: no backend.
    fake empty
    refused empty.so 'it has no backend for the CPU'
fi

if [ -n "${LK_LIBLLAMA:-}" ]; then
    run 0 "$model" --target "lib:$LK_LIBLLAMA" --only alone
    matches out '^ *libllama 0\.4'
fi

rm -f out err ./*.so fake.c
exit $failed
