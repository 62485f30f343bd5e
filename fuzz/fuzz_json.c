/* fuzz_json.c - the JSON reader on any bytes. Invariants: a status with a message and an offset
 * within the text, or a table whose links are a tree in the order of the text; memory in
 * proportion, all given back. */
#include "fuzz.h"

#include <string.h>

#include "base/json.h"

static void check_tree(const lk_json *j, size_t size) {
    size_t n_children = 0;
    for (uint32_t i = 0; i < j->n_values; i++) {
        const lk_json_value *v = &j->values[i];
        fuzz_check(v->offset < size && v->type <= LK_JSON_OBJECT);
        fuzz_check((size_t)v->text + v->n_text <= j->n_text &&
                   (size_t)v->key + v->n_key <= j->n_text);
        fuzz_check(i == 0 || v->parent < i);
        uint32_t n = 0;
        for (uint32_t c = v->first; c != 0; c = j->values[c].next) {
            fuzz_check(c > i && c < j->n_values && j->values[c].parent == i);
            n++;
        }
        fuzz_check(n == v->n);
        n_children += n;
    }
    fuzz_check(n_children + 1 == j->n_values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_memory c;
    fuzz_memory_init(&c);
    lk_json j;
    lk_error err = {0};
    const lk_json_limits limits = {1 << 20, 100};
    const lk_status status = lk_json_parse((const char *)data, size, limits, &c.base, &j, &err);
    if (status == LK_OK) {
        check_tree(&j, size);
    } else {
        fuzz_check((status == LK_E_FORMAT || status == LK_E_LIMIT) && err.message[0] != '\0');
        fuzz_check(size > limits.n_bytes || err.offset <= size);
        fuzz_check(j.values == NULL && j.n_values == 0);
    }
    fuzz_check(c.peak <= 4096 + 160 * size);
    lk_json_deinit(&j);
    fuzz_check(c.live == 0);
    return 0;
}
