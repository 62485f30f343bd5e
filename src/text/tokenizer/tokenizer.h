/* tokenizer.h - the tokenizer as its parts see it, and what one call of encode works with. */
#ifndef LK_TEXT_TOKENIZER_H
#define LK_TEXT_TOKENIZER_H

#include "text/splitters/pre_splitter.h"
#include "text/text_buffer.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/merge.h"
#include "text/tokenizer/vocab.h"
#include "text/tokenizer/word_cache.h"

#define LK_NO_TOKEN UINT32_MAX
#define LK_MAX_ENDS 32u /* tokens that end generation */

struct lk_tokenizer {
    lk_allocator allocator;
    lk_vocab vocab;
    lk_added_tokens added;
    const lk_pre_splitter *pre; /* byte level; NULL for SPM */
    uint64_t *pairs;            /* SPM: see spm.c */
    uint32_t byte_ids[256];     /* the token of one byte, or LK_NO_TOKEN */
    int32_t bos, eos, unknown;  /* -1: none */
    bool add_bos, add_eos, add_space_prefix;
    bool has_unused; /* SPM: tokens of type UNUSED that joining may give */
    uint32_t n_ends;
    int32_t ends[LK_MAX_ENDS];
};

/* Makes a tokenizer from what a file says. The strings of the source are copied. On success *out is
 * owned by the caller (lk_tokenizer_close). */
lk_status lk_tokenizer_create(const lk_vocab_source *source, const lk_allocator *allocator,
                              lk_tokenizer **out, lk_error *err);

/* lk_tokenizer_encode; control tokens are recognised only where all their bytes are 0 in `foreign`
 * [n_bytes], unless it is NULL. With it the text must be well-formed UTF-8. */
lk_status lk_tokenizer_encode_marked(const lk_tokenizer *t, const char *text,
                                     const uint8_t *foreign, size_t n_bytes, uint32_t flags,
                                     int32_t *ids, size_t capacity, size_t *n_ids, lk_error *err);

/* One call of encode. */
typedef struct lk_encoder {
    const lk_tokenizer *t;
    lk_error *err;
    int32_t *ids;
    size_t capacity;
    size_t n_ids; /* counts on beyond the capacity */
    lk_text_buffer normal;
    lk_merge_list list;
    lk_word_cache words;
    size_t n_unknown; /* SPM: characters of the current piece that no token stands for */
    uint16_t *splits; /* SPM: [n_tokens] bytes of the left part of an unused token, or NULL */
} lk_encoder;

static inline void lk_encoder_emit(lk_encoder *e, uint32_t id) {
    if (e->n_ids < e->capacity) {
        e->ids[e->n_ids] = (int32_t)id;
    }
    e->n_ids++;
}

/* Emits again what was emitted for an equal word. */
static inline void lk_encoder_repeat(lk_encoder *e, const lk_word_entry *entry) {
    for (size_t i = 0; i < entry->n_ids; i++) {
        const size_t from = entry->first_id + i;
        lk_encoder_emit(e, from < e->capacity ? (uint32_t)e->ids[from] : 0);
    }
}

/* Encode a well-formed text without added tokens. `text` is in the form that the pre-splitter
 * wants, or for SPM has all its spaces, the leading one included, as ' '. */
lk_status lk_bpe_encode(lk_encoder *e, const uint8_t *text, size_t n);
lk_status lk_spm_encode(lk_encoder *e, const uint8_t *text, size_t n);
/* SPM: makes and frees t->pairs. */
lk_status lk_spm_prepare(lk_tokenizer *t, lk_error *err);
void lk_spm_release(lk_tokenizer *t);

#endif
