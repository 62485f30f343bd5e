/* added_tokens.c - a sorted list of texts, searched by narrowing a range byte by byte. */
#include "text/tokenizer/added_tokens.h"

#include <string.h>

#include "base/error.h"
#include "text/unicode/normalize.h"

static uint32_t set_of(const lk_vocab *vocab, uint32_t id) {
    switch ((lk_token_type)vocab->types[id]) {
    case LK_TOKEN_USER_DEFINED:
        return LK_ADDED_USER;
    case LK_TOKEN_CONTROL:
    case LK_TOKEN_UNKNOWN:
        return LK_ADDED_CONTROL;
    case LK_TOKEN_NORMAL:
    case LK_TOKEN_UNUSED:
    case LK_TOKEN_BYTE:
        break;
    }
    return 0;
}

static int compare(const lk_vocab *vocab, uint32_t a, uint32_t b) {
    size_t n_a = 0, n_b = 0;
    const uint8_t *text_a = lk_strings_get(&vocab->texts, a, &n_a);
    const uint8_t *text_b = lk_strings_get(&vocab->texts, b, &n_b);
    const int order = memcmp(text_a, text_b, n_a < n_b ? n_a : n_b);
    return order != 0 ? order : (n_a > n_b) - (n_a < n_b);
}

/* Merge sort, stable: runs of `width` become runs of twice that. `scratch` is as long as `ids`. */
static void sort_ids(const lk_vocab *vocab, uint32_t *ids, uint32_t *scratch, size_t n) {
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t low = 0; low < n; low += 2 * width) {
            const size_t middle = low + width < n ? low + width : n;
            const size_t high = middle + width < n ? middle + width : n;
            size_t a = low, b = middle;
            for (size_t i = low; i < high; i++) {
                const bool take_a =
                    a < middle && (b >= high || compare(vocab, ids[a], ids[b]) <= 0);
                scratch[i] = take_a ? ids[a++] : ids[b++];
            }
        }
        memcpy(ids, scratch, n * sizeof *ids);
    }
}

/* An ill-formed text never occurs in a well-formed one and could cut a character if it did. */
static bool is_usable(const lk_vocab *vocab, uint32_t id) {
    size_t n = 0;
    const uint8_t *text = lk_strings_get(&vocab->texts, id, &n);
    return set_of(vocab, id) != 0 && n != 0 && lk_utf8_is_valid(text, n);
}

static void index_first_bytes(lk_added_tokens *added, const lk_vocab *vocab) {
    uint32_t i = 0;
    for (uint32_t byte = 0; byte < 256; byte++) {
        added->first[byte] = i;
        for (; i < added->n; i++) {
            size_t n = 0;
            if (lk_strings_get(&vocab->texts, added->ids[i], &n)[0] != byte) {
                break;
            }
            added->sets[byte] = (uint8_t)(added->sets[byte] | set_of(vocab, added->ids[i]));
        }
    }
    added->first[256] = i;
}

lk_status lk_added_tokens_init(lk_added_tokens *added, const lk_vocab *vocab, lk_error *err) {
    memset(added, 0, sizeof *added);
    uint32_t count = 0;
    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        count += is_usable(vocab, id);
    }
    if (count > LK_MAX_ADDED) {
        return lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT("tokenizer.ggml.token_type"),
                       "%lu control and user-defined tokens, at most %lu are supported",
                       (unsigned long)count, (unsigned long)LK_MAX_ADDED);
    }
    uint32_t *scratch = lk_alloc_array(vocab->allocator, count, sizeof *scratch);
    added->ids = lk_alloc_array(vocab->allocator, count, sizeof *added->ids);
    added->capacity = count;
    if (scratch == NULL || added->ids == NULL) {
        lk_free_array(vocab->allocator, scratch, count, sizeof *scratch);
        lk_added_tokens_deinit(added, vocab->allocator);
        return lk_fail_nomem(err, "the added tokens", count * sizeof *added->ids);
    }
    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        if (is_usable(vocab, id)) {
            added->ids[added->n++] = id;
        }
    }
    sort_ids(vocab, added->ids, scratch, added->n);
    lk_free_array(vocab->allocator, scratch, count, sizeof *scratch);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < added->n; i++) {
        if (kept == 0 || compare(vocab, added->ids[kept - 1], added->ids[i]) != 0) {
            added->ids[kept++] = added->ids[i];
        }
    }
    added->n = kept;
    index_first_bytes(added, vocab);
    return LK_OK;
}

void lk_added_tokens_deinit(lk_added_tokens *added, const lk_allocator *allocator) {
    lk_free_array(allocator, added->ids, added->capacity, sizeof *added->ids);
    memset(added, 0, sizeof *added);
}

/* Narrows ids[*low .. *high), which agree on the first `depth` bytes and are longer, to those with
 * `byte` next. */
static void narrow(const lk_added_tokens *added, const lk_vocab *vocab, size_t depth, uint8_t byte,
                   uint32_t *low, uint32_t *high) {
    for (int side = 0; side < 2; side++) { /* the first one >= byte, then the first one > byte */
        uint32_t a = *low, b = *high;
        while (a < b) {
            const uint32_t middle = a + (b - a) / 2;
            size_t n = 0;
            const uint8_t other = lk_strings_get(&vocab->texts, added->ids[middle], &n)[depth];
            if (other < byte || (side == 1 && other == byte)) {
                a = middle + 1;
            } else {
                b = middle;
            }
        }
        if (side == 0) {
            *low = a;
        } else {
            *high = a;
        }
    }
}

/* Length of the longest token of the sets at `pos`, or 0. */
static size_t longest_at(const lk_added_tokens *added, const lk_vocab *vocab, uint32_t sets,
                         const uint8_t *text, const uint8_t *foreign, size_t n, size_t pos,
                         uint32_t *id) {
    uint32_t low = added->first[text[pos]], high = added->first[text[pos] + 1];
    size_t longest = 0;
    for (size_t depth = 1; low < high; depth++) {
        size_t n_text = 0;
        if (foreign != NULL && foreign[pos + depth - 1] != 0) {
            sets &= ~(uint32_t)LK_ADDED_CONTROL;
        }
        (void)lk_strings_get(&vocab->texts, added->ids[low], &n_text);
        if (n_text == depth) { /* texts are distinct, so only the first of the range can end here */
            if ((set_of(vocab, added->ids[low]) & sets) != 0) {
                longest = depth;
                *id = added->ids[low];
            }
            low++;
        }
        if (pos + depth >= n) {
            break;
        }
        narrow(added, vocab, depth, text[pos + depth], &low, &high);
    }
    return longest;
}

size_t lk_added_tokens_next(const lk_added_tokens *added, const lk_vocab *vocab, uint32_t sets,
                            const uint8_t *text, const uint8_t *foreign, size_t n, size_t pos,
                            uint32_t *id, size_t *length) {
    for (; pos < n; pos++) {
        if ((added->sets[text[pos]] & sets) != 0) {
            *length = longest_at(added, vocab, sets, text, foreign, n, pos, id);
            if (*length != 0) {
                break;
            }
        }
    }
    return pos;
}
