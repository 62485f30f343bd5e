/* fuzz_json.c - the JSON reader on any bytes. Invariants: a status with a message and an offset
 * within the text, or a table whose links are a tree in the order of the text; memory in
 * proportion, all given back. */
#include "fuzz.h"

#include <string.h>

#include "base/json.h"

typedef struct counter {
    lk_allocator base;
    size_t live;
    size_t peak;
} counter;

static void *counted_alloc(void *ctx, size_t size, size_t align) {
    counter *c = ctx;
    c->live += size;
    c->peak = c->live > c->peak ? c->live : c->peak;
    return aligned_alloc(align, (size + align - 1) & ~(align - 1));
}

static void counted_free(void *ctx, void *ptr, size_t size, size_t align) {
    counter *c = ctx;
    (void)align;
    c->live -= size;
    free(ptr);
}

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
    counter c = {{&c, counted_alloc, counted_free}, 0, 0};
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
