/* fuzz_receipt.c - the files of `lockstep verify --across` and of `lockstep replay` on any bytes:
 * both readers get them. Invariants: a refusal has a reason and holds nothing; what is accepted
 * keeps to its limits; a run's digests are as many as its ids. */
#include "fuzz.h"

#include <stdarg.h>
#include <string.h>

#include "replay/replay.h"
#include "shared/console.h"
#include "shared/open_model.h"
#include "verify/verify_receipt_read.h"

static size_t n_errors;

const char *lk_kv_type_name(lk_kv_type type) {
    static const char *const names[] = {"f32", "f16", "q8_0"};
    return names[type];
}

/* What replay.c says goes here instead of to the terminal. */
int lk_console_error(const char *command, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fuzz_check(command[0] != '\0' && n > 0);
    n_errors++;
    return 2;
}

bool lk_parse_kv_type(const char *command, const char *text, lk_kv_type *k_type,
                      lk_kv_type *v_type) {
    for (int k = LK_KV_F32; k <= LK_KV_Q8_0; k++) {
        if (strcmp(text, lk_kv_type_name((lk_kv_type)k)) == 0) {
            *k_type = *v_type = (lk_kv_type)k;
            return true;
        }
    }
    (void)lk_console_error(command, "no KV type");
    return false;
}

static void check_verify(const char *bytes, size_t size) {
    static verify_receipt receipt;
    char why[200] = "";
    if (!verify_receipt_read(bytes, size, &receipt, why, sizeof why)) {
        fuzz_check(why[0] != '\0' && receipt.n_types == 0);
        return;
    }
    fuzz_check(why[0] == '\0' && strlen(receipt.model) == 64);
    fuzz_check(receipt.n_types >= 1 && receipt.n_types <= VERIFY_RECEIPT_TYPES);
    for (size_t i = 0; i < receipt.n_types; i++) {
        const verify_receipt_type *type = &receipt.types[i];
        fuzz_check(type->n_runs >= 1 && type->n_runs <= VERIFY_RECEIPT_RUNS);
        for (size_t k = 0; k < type->n_runs; k++) {
            const verify_receipt_run *run = &type->runs[k];
            fuzz_check(run->i_prompt >= 0 && run->n >= 1 && run->n <= VERIFY_RECEIPT_TOKENS);
            fuzz_check(run->n_tokens >= 0 && run->n_tokens <= run->n);
            for (int32_t t = 0; t < run->n_tokens; t++) {
                fuzz_check(run->ids[t] >= 0);
            }
        }
    }
    verify_receipt_free(&receipt);
}

static void check_replay(const char *bytes, size_t size) {
    json_t *root = json_loadb(bytes, size, 0, NULL);
    const json_t *json = NULL;
    for (size_t i = 0; (json = replay_find(root, i)) != NULL; i++) {
        replay_receipt r;
        n_errors = 0;
        if (!replay_read(json, &r)) {
            fuzz_check(n_errors > 0 && r.tokens == NULL && r.biases == NULL);
            continue;
        }
        fuzz_check(n_errors == 0 && r.n_prompt >= 1 && json_array_size(r.digests) == r.n_ids);
        for (size_t k = 0; k < r.n_prompt + r.n_ids; k++) {
            fuzz_check(r.tokens[k] >= 0);
        }
        for (size_t k = 0; k < r.n_clips; k++) {
            fuzz_check(r.clips[k].n >= 1 && r.clips[k].first + r.clips[k].n <= r.n_prompt);
        }
        replay_free(&r);
    }
    json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size <= 1 << 16) {
        check_verify((const char *)data, size);
        check_replay((const char *)data, size);
    }
    return 0;
}
