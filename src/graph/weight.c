/* weight.c - checks of a weight against what an operator needs; the messages name tensor, found and
 * expected. */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "graph/graph.h"

enum { TEXT = 96 };

/* "[512, 16384]", fastest dimension first as GGUF tools print them; 0 prints as "any". */
static void print_shape(const uint64_t *ne, uint32_t n_dims, char text[TEXT]) {
    size_t n = 0;
    for (uint32_t i = 0; i < n_dims && n < TEXT; i++) {
        const char *before = i == 0 ? "[" : ", ";
        n += (size_t)(ne[i] != 0 ? snprintf(text + n, TEXT - n, "%s%" PRIu64, before, ne[i])
                                 : snprintf(text + n, TEXT - n, "%sany", before));
    }
    if (n < TEXT) {
        (void)snprintf(text + n, TEXT - n, "]");
    }
}

lk_status lk_weight_check_shape(const lk_weight *w, uint32_t n_dims, const uint64_t *ne,
                                lk_error *err) {
    bool same = w->n_dims >= 1 && w->n_dims <= 4;
    for (uint32_t i = 0; i < 4; i++) {
        const uint64_t expected = i < n_dims ? ne[i] : 1;
        same = same && (expected == 0 || w->ne[i] == expected) && w->ne[i] <= INT32_MAX;
    }
    if (same) {
        return LK_OK;
    }
    char found[TEXT];
    char expected[TEXT];
    print_shape(w->ne, w->n_dims, found);
    print_shape(ne, n_dims, expected);
    return lk_fail(err, LK_E_FORMAT, LK_AT_SUBJECT(w->name),
                   "tensor %.128s has shape %s, expected %s", w->name, found, expected);
}

lk_status lk_weight_check_f32(const lk_weight *w, lk_error *err) {
    if (w->format->type == LK_FORMAT_F32) {
        return LK_OK;
    }
    return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT(w->name),
                   "tensor %.128s has format %s, expected F32", w->name, w->format->name);
}

lk_status lk_weight_check_product(const lk_weight *w, lk_error *err) {
    const lk_format *format = w->format;
    const uint32_t step =
        format->act_group > format->block_elems ? format->act_group : format->block_elems;
    if (w->ne[0] % step == 0) {
        return LK_OK;
    }
    return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_SUBJECT(w->name),
                   "tensor %.128s has rows of %" PRIu64 " elements, expected a multiple of %u (%s)",
                   w->name, w->ne[0], step, format->name);
}
