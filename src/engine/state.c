/* state.c - saving and loading one sequence. All numbers are little-endian.
 *
 *   offset  bytes
 *        0      8  "LKSTATE" and a zero byte
 *        8      4  version of this layout: 2, or 3 where vectors took the place of tokens
 *       12      4  bytes of the head: 144
 *       16     32  model digest
 *       48     16  numerics version, zero-padded
 *       64      4  type of the keys: 0 f32, 1 f16, 2 q8_0
 *       68      4  type of the values
 *       72      4  1 when activations are kept in float32 (LK_CONTEXT_F32_ACTIVATIONS), else 0
 *       76      4  positions per page: 64
 *       80      8  bytes per page of the layers without windows
 *       88      8  number of tokens n
 *       96      4  first page of the layers with windows that is there; 0 where there are none
 *      100      4  0
 *      104      8  bytes per page of the layers with windows
 *      112     32  SHA-256 of bytes 0 .. 111
 *      144    4 n  the tokens
 *             32  SHA-256 of the tokens
 *   in version 3 then 16 n  for each token the digest of the vector in its place, or zero
 *             32  SHA-256 of the digests
 *   then, for each page of 64 positions: its bytes (the form of lk_backend_ops.page_read; what
 *   belongs to positions from n on is zero) and their SHA-256; after all of the layers without
 *   windows likewise those with windows, from the first one that is there
 *   at the end  32  SHA-256 of everything before
 *
 * Loading reads the file once, in order, and checks each part before it is used. Pages go to free
 * pages of the context; the sequence gets them only when all is well, so that every failure, and a
 * file that changes or shrinks meanwhile, leaves the sequences as they were. */
#include "engine/state.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/filewrite.h"
#include "base/sha256.h"

enum {
    HEAD_BYTES = 144,
    HASHED_HEAD_BYTES = 112,
    SHA_BYTES = 32,
    LAYOUT_TOKENS = 2,
    LAYOUT_VECTORS = 3
};
static const uint8_t magic[8] = {'L', 'K', 'S', 'T', 'A', 'T', 'E', 0};

static void fill_head(const lk_context *c, const uint8_t digest[32], uint32_t version,
                      int64_t n_tokens, uint32_t first_window, uint8_t head[HEAD_BYTES]) {
    const char *numerics = lk_numerics_version();
    memset(head, 0, HEAD_BYTES);
    memcpy(head, magic, sizeof magic);
    lk_store_u32(head + 8, version);
    lk_store_u32(head + 12, HEAD_BYTES);
    memcpy(head + 16, digest, 32);
    for (size_t i = 0; i < 16 && numerics[i] != '\0'; i++) {
        head[48 + i] = (uint8_t)numerics[i];
    }
    lk_store_u32(head + 64, (uint32_t)c->params.k_type);
    lk_store_u32(head + 68, (uint32_t)c->params.v_type);
    lk_store_u32(head + 72, (c->params.flags & LK_CONTEXT_F32_ACTIVATIONS) != 0);
    lk_store_u32(head + 76, LK_CHUNK);
    lk_store_u64(head + 80, c->ops->page_bytes(c->backend));
    lk_store_u64(head + 88, (uint64_t)n_tokens);
    lk_store_u32(head + 96, first_window);
    lk_store_u64(head + 104, c->ops->window_page_bytes(c->backend));
    lk_sha256_of(head, HASHED_HEAD_BYTES, head + HASHED_HEAD_BYTES);
}

/* Page i of a sequence of n tokens holds this many positions. */
static uint32_t positions_of_page(int64_t n_tokens, uint32_t i) {
    const int64_t rest = n_tokens - (int64_t)i * LK_CHUNK;
    return (uint32_t)(rest < LK_CHUNK ? rest : LK_CHUNK);
}

/* The tokens of page i as bytes. */
static size_t token_bytes(const int32_t *tokens, uint32_t n, uint8_t bytes[LK_CHUNK * 4]) {
    for (uint32_t k = 0; k < n; k++) {
        lk_store_u32(bytes + (size_t)k * 4, (uint32_t)tokens[k]);
    }
    return (size_t)n * 4;
}

static size_t largest_page(const lk_context *c) {
    const size_t bytes = c->ops->page_bytes(c->backend);
    const size_t window_bytes = c->ops->window_page_bytes(c->backend);
    return bytes > window_bytes ? bytes : window_bytes;
}

/* ---- saving ---- */

typedef struct writer {
    lk_filewrite *file;
    lk_sha256 total;
} writer;

static lk_status put(writer *w, const void *data, size_t n_bytes, lk_error *err) {
    lk_sha256_update(&w->total, data, n_bytes);
    return lk_filewrite_append(w->file, data, n_bytes, err);
}

/* The digests of all positions. */
static lk_status put_digests(writer *w, const lk_context *c, const lk_seq *seq, lk_error *err) {
    uint8_t sha[SHA_BYTES];
    lk_sha256 digests_sha;
    lk_sha256_init(&digests_sha);
    lk_status status = LK_OK;
    for (uint32_t i = 0; i < seq->n_pages && status == LK_OK; i++) {
        const lk_row_digest *digests = c->kv.pages.digests + (size_t)seq->pages[i] * LK_CHUNK;
        const size_t n = positions_of_page(seq->length, i) * sizeof digests[0];
        lk_sha256_update(&digests_sha, digests, n);
        status = put(w, digests, n, err);
    }
    lk_sha256_final(&digests_sha, sha);
    return status == LK_OK ? put(w, sha, sizeof sha, err) : status;
}

/* Head, tokens and digests. */
static lk_status put_head(writer *w, const lk_context *c, const lk_seq *seq,
                          const uint8_t digest[32], lk_error *err) {
    uint8_t head[HEAD_BYTES];
    uint8_t bytes[LK_CHUNK * 4];
    uint8_t sha[SHA_BYTES];
    lk_sha256 tokens_sha;
    const bool has_vectors = lk_seq_has_vectors(seq, &c->kv.pages, (size_t)seq->length);
    fill_head(c, digest, has_vectors ? LAYOUT_VECTORS : LAYOUT_TOKENS, seq->length,
              seq->first_window, head);
    lk_sha256_init(&tokens_sha);
    lk_status status = put(w, head, sizeof head, err);
    for (uint32_t i = 0; i < seq->n_pages && status == LK_OK; i++) {
        const int32_t *tokens = c->kv.pages.tokens + (size_t)seq->pages[i] * LK_CHUNK;
        const size_t n = token_bytes(tokens, positions_of_page(seq->length, i), bytes);
        lk_sha256_update(&tokens_sha, bytes, n);
        status = put(w, bytes, n, err);
    }
    lk_sha256_final(&tokens_sha, sha);
    if (status == LK_OK) {
        status = put(w, sha, sizeof sha, err);
    }
    return status == LK_OK && has_vectors ? put_digests(w, c, seq, err) : status;
}

/* Page i of the sequence, whose id is `id`. */
static lk_status put_page(writer *w, lk_context *c, const lk_seq *seq, uint32_t i, uint32_t id,
                          size_t page_bytes, uint8_t *page, lk_error *err) {
    uint8_t sha[SHA_BYTES];
    lk_status status =
        c->ops->page_read(c->backend, id, positions_of_page(seq->length, i), page, err);
    if (status == LK_OK) {
        lk_sha256_of(page, page_bytes, sha);
        status = put(w, page, page_bytes, err);
    }
    return status == LK_OK ? put(w, sha, sizeof sha, err) : status;
}

/* All pages, and the end of the file. */
static lk_status put_pages(writer *w, lk_context *c, const lk_seq *seq, uint8_t *page,
                           lk_error *err) {
    const size_t page_bytes = c->ops->page_bytes(c->backend);
    const size_t window_bytes = c->ops->window_page_bytes(c->backend);
    uint8_t sha[SHA_BYTES];
    lk_status status = LK_OK;
    for (uint32_t i = 0; i < seq->n_pages && status == LK_OK; i++) {
        status = put_page(w, c, seq, i, seq->pages[i], page_bytes, page, err);
    }
    for (uint32_t i = seq->first_window; c->kv.window != 0 && i < seq->n_pages && status == LK_OK;
         i++) {
        status = put_page(w, c, seq, i, seq->window_pages[i], window_bytes, page, err);
    }
    if (status == LK_OK) {
        lk_sha256_final(&w->total, sha);
        status = lk_filewrite_append(w->file, sha, sizeof sha, err);
    }
    return status;
}

lk_status lk_state_save(lk_context *context, int32_t seq, const char *path,
                        const uint8_t digest[32], lk_error *err) {
    lk_status status = lk_context_check_seq(context, seq, err);
    if (status != LK_OK) {
        return status;
    }
    const size_t page_bytes = largest_page(context);
    uint8_t *page = lk_alloc(context->allocator, page_bytes);
    if (page == NULL) {
        return lk_fail_nomem(err, "a KV page to save", page_bytes);
    }
    writer w = {.file = NULL};
    lk_sha256_init(&w.total);
    status = lk_filewrite_create(path, context->allocator, &w.file, err);
    if (status == LK_OK) {
        status = put_head(&w, context, &context->seqs[seq], digest, err);
    }
    if (status == LK_OK) {
        status = put_pages(&w, context, &context->seqs[seq], page, err);
    }
    if (status == LK_OK) {
        status = lk_filewrite_commit(w.file, err);
    } else {
        lk_filewrite_abort(w.file);
    }
    lk_free(context->allocator, page, page_bytes);
    return status;
}

/* ---- loading ---- */

typedef struct reader {
    const char *path;
    int fd;
    uint64_t offset;
    lk_sha256 total;
} reader;

static lk_status fail_format(const reader *r, const char *what, lk_error *err) {
    return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(r->offset, r->path), "%s: %s before byte %llu",
                   r->path, what, (unsigned long long)r->offset);
}

/* Reads exactly n bytes. Not mapped: a file that shrinks must be an error, not a signal. */
static lk_status take(reader *r, void *data, size_t n_bytes, lk_error *err) {
    size_t n = 0;
    while (n < n_bytes) {
        const ssize_t got = read(r->fd, (uint8_t *)data + n, n_bytes - n);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return lk_fail(err, LK_E_IO, LK_AT_OFFSET(r->offset + n, r->path), "cannot read %s: %s",
                           r->path, strerror(errno));
        }
        if (got == 0) {
            r->offset += n;
            return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(r->offset, r->path),
                           "%s ends at byte %llu, %zu bytes before its content does", r->path,
                           (unsigned long long)r->offset, n_bytes - n);
        }
        n += (size_t)got;
    }
    r->offset += n_bytes;
    lk_sha256_update(&r->total, data, n_bytes);
    return LK_OK;
}

static lk_status open_reader(reader *r, const char *path, uint64_t *size, lk_error *err) {
    struct stat info;
    *r = (reader){.path = path};
    lk_sha256_init(&r->total);
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (r->fd < 0) {
        return lk_fail(err, LK_E_IO, LK_AT_SUBJECT(path), "cannot open %s: %s", path,
                       strerror(errno));
    }
    if (fstat(r->fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        (void)close(r->fd);
        return lk_fail(err, LK_E_IO, LK_AT_SUBJECT(path), "%s is not a regular file", path);
    }
    *size = (uint64_t)info.st_size;
    return LK_OK;
}

/* Whether the head is whole and of a layout that is known here. */
static lk_status check_head(const reader *r, const uint8_t head[HEAD_BYTES], lk_error *err) {
    uint8_t sha[SHA_BYTES];
    if (memcmp(head, magic, sizeof magic) != 0) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(0, r->path),
                       "%s is not a saved sequence: it does not begin with \"LKSTATE\"", r->path);
    }
    lk_sha256_of(head, HASHED_HEAD_BYTES, sha);
    if (memcmp(head + HASHED_HEAD_BYTES, sha, sizeof sha) != 0) {
        return fail_format(r, "the checksum of the head is wrong", err);
    }
    const uint32_t version = lk_load_u32(head + 8);
    if ((version != LAYOUT_TOKENS && version != LAYOUT_VECTORS) ||
        lk_load_u32(head + 12) != HEAD_BYTES) {
        return lk_fail(err, LK_E_UNSUPPORTED, LK_AT_OFFSET(8, r->path),
                       "%s has layout version %u, this library reads versions %d and %d", r->path,
                       version, LAYOUT_TOKENS, LAYOUT_VECTORS);
    }
    return LK_OK;
}

static lk_status check_origin(const lk_context *c, const reader *r, const uint8_t head[HEAD_BYTES],
                              const uint8_t digest[32], lk_error *err) {
    static const struct {
        size_t offset, n_bytes;
        const char *what;
    } fields[] = {
        {16, 32, "the model"},
        {48, 16, "the numerics version"},
        {64, 4, "the type of the keys"},
        {68, 4, "the type of the values"},
        {72, 4, "the activation mode"},
        {76, 4, "the positions per page"},
        {80, 8, "the size of a KV page"},
        {104, 8, "the size of a KV page with windows"},
    };
    uint8_t ours[HEAD_BYTES];
    fill_head(c, digest, LAYOUT_TOKENS, 0, 0, ours);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (memcmp(head + fields[i].offset, ours + fields[i].offset, fields[i].n_bytes) != 0) {
            return lk_fail(err, LK_E_MISMATCH, LK_AT_OFFSET(fields[i].offset, r->path),
                           "%s was saved with another context: %s differs", r->path,
                           fields[i].what);
        }
    }
    return LK_OK;
}

/* Whether the pages with windows begin where a sequence of this length has them. */
static lk_status check_windows(const lk_context *c, const reader *r, uint64_t n_tokens,
                               uint32_t first, lk_error *err) {
    const uint32_t least = lk_seq_window_kept(&c->kv, (int64_t)n_tokens);
    const uint32_t most =
        (uint32_t)(lk_step_window_begin(c->kv.window, (int64_t)n_tokens) / LK_CHUNK);
    if (first >= least && first <= most) {
        return LK_OK;
    }
    return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(96, r->path),
                   "%s has window pages from page %u on, expected from %u or %u on for %llu tokens",
                   r->path, first, least, most, (unsigned long long)n_tokens);
}

/* Whether the file is as long as it should be and its content fits into free pages. */
static lk_status check_size(const lk_context *c, int32_t seq, const reader *r, uint64_t n_tokens,
                            bool has_vectors, uint32_t first_window, uint64_t size, lk_error *err) {
    const uint64_t digest_bytes =
        has_vectors ? n_tokens * sizeof(lk_row_digest) + SHA_BYTES : 0; /* limited below */
    if (n_tokens > (uint64_t)LK_MAX_POSITIONS) {
        return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(88, r->path),
                       "%s has %llu tokens, a sequence has at most %lld", r->path,
                       (unsigned long long)n_tokens, (long long)LK_MAX_POSITIONS);
    }
    const lk_status status = check_windows(c, r, n_tokens, first_window, err);
    if (status != LK_OK) {
        return status;
    }
    const uint32_t n_pages = lk_seq_pages_for((int64_t)n_tokens);
    const uint32_t n_window = c->kv.window != 0 ? n_pages - first_window : 0;
    if (n_pages <= c->kv.pages.n_pages) {
        const uint64_t page_bytes = c->ops->page_bytes(c->backend);
        const uint64_t wanted = HEAD_BYTES + 4 * n_tokens + digest_bytes +
                                n_pages * (page_bytes + SHA_BYTES) + 2 * SHA_BYTES +
                                n_window * (c->ops->window_page_bytes(c->backend) + SHA_BYTES);
        if (size != wanted) {
            return lk_fail(err, LK_E_FORMAT, LK_AT_OFFSET(size, r->path),
                           "%s has %llu bytes, its head says %llu", r->path,
                           (unsigned long long)size, (unsigned long long)wanted);
        }
    }
    const lk_kv_pages *short_of = n_pages > c->kv.pages.n_free           ? &c->kv.pages
                                  : n_window > c->kv.window_pages.n_free ? &c->kv.window_pages
                                                                         : NULL;
    if (short_of != NULL) {
        return lk_fail(err, LK_E_FULL, (lk_where){seq, -1, UINT64_MAX, r->path},
                       "%s needs %u KV pages, %u of %u are free", r->path,
                       short_of == &c->kv.pages ? n_pages : n_window, short_of->n_free,
                       short_of->n_pages);
    }
    return LK_OK;
}

/* A sequence in the making: its pages are taken, but no sequence has them. */
typedef struct arrival {
    uint32_t *pages; /* [2 n_pages]: without windows, with windows */
    uint32_t n_pages;
    uint32_t n_taken;
    uint32_t first_window;
    uint32_t window_end; /* window pages first_window .. window_end-1 are taken */
    int64_t length;
    int32_t *tokens;        /* [n_pages, LK_CHUNK] */
    lk_row_digest *digests; /* [n_pages, LK_CHUNK] zero at tokens */
    bool has_vectors;
} arrival;

static lk_status take_digests(reader *r, arrival *a, lk_error *err) {
    uint8_t found[SHA_BYTES];
    uint8_t sha[SHA_BYTES];
    const size_t n_bytes = (size_t)a->length * sizeof a->digests[0];
    lk_status status = take(r, a->digests, n_bytes, err);
    if (status == LK_OK) {
        status = take(r, found, sizeof found, err);
    }
    if (status != LK_OK) {
        return status;
    }
    lk_sha256_of(a->digests, n_bytes, sha);
    return memcmp(sha, found, sizeof sha) == 0
               ? LK_OK
               : fail_format(r, "the checksum of the digests is wrong", err);
}

static lk_status take_tokens(const lk_context *c, reader *r, arrival *a, lk_error *err) {
    uint8_t bytes[LK_CHUNK * 4] = {0};
    uint8_t found[SHA_BYTES];
    uint8_t sha[SHA_BYTES];
    lk_sha256 s;
    lk_sha256_init(&s);
    bool in_range = true;
    for (uint32_t i = 0; i < a->n_pages; i++) {
        const uint32_t n = positions_of_page(a->length, i);
        const lk_status status = take(r, bytes, (size_t)n * 4, err);
        if (status != LK_OK) {
            return status;
        }
        lk_sha256_update(&s, bytes, (size_t)n * 4);
        for (uint32_t k = 0; k < n; k++) {
            const uint32_t token = lk_load_u32(bytes + (size_t)k * 4);
            in_range = in_range && token < c->graph->n_vocab;
            a->tokens[(size_t)i * LK_CHUNK + k] = (int32_t)token;
        }
    }
    lk_sha256_final(&s, sha);
    const lk_status status = take(r, found, sizeof found, err);
    if (status != LK_OK) {
        return status;
    }
    if (memcmp(sha, found, sizeof sha) != 0) {
        return fail_format(r, "the checksum of the tokens is wrong", err);
    }
    return in_range ? LK_OK : fail_format(r, "a token is outside the vocabulary", err);
}

/* A page of the file into a free one of the pool. */
static lk_status take_page(lk_context *c, reader *r, lk_kv_pages *pool, size_t page_bytes,
                           uint8_t *bytes, uint32_t *page, lk_error *err) {
    uint8_t found[SHA_BYTES];
    uint8_t sha[SHA_BYTES];
    lk_status status = take(r, bytes, page_bytes, err);
    if (status == LK_OK) {
        status = take(r, found, sizeof found, err);
    }
    if (status != LK_OK) {
        return status;
    }
    lk_sha256_of(bytes, page_bytes, sha);
    if (memcmp(sha, found, sizeof sha) != 0) {
        return fail_format(r, "the checksum of a KV page is wrong", err);
    }
    status = lk_kv_pages_take(pool, page, err);
    if (status != LK_OK) {
        return status;
    }
    status = c->ops->page_write(c->backend, *page, bytes, err);
    if (status != LK_OK) {
        lk_kv_pages_release(pool, *page);
    }
    return status;
}

/* The pages and the end of the file. */
static lk_status take_pages(lk_context *c, reader *r, arrival *a, lk_error *err) {
    const size_t largest = largest_page(c);
    uint8_t *bytes = lk_alloc(c->allocator, largest);
    if (bytes == NULL) {
        return lk_fail_nomem(err, "a KV page to load", largest);
    }
    lk_status status = LK_OK;
    while (status == LK_OK && a->n_taken < a->n_pages) {
        status = take_page(c, r, &c->kv.pages, c->ops->page_bytes(c->backend), bytes,
                           &a->pages[a->n_taken], err);
        a->n_taken += status == LK_OK;
    }
    while (status == LK_OK && c->kv.window != 0 && a->window_end < a->n_pages) {
        status = take_page(c, r, &c->kv.window_pages, c->ops->window_page_bytes(c->backend), bytes,
                           &a->pages[a->n_pages + a->window_end], err);
        a->window_end += status == LK_OK;
    }
    lk_free(c->allocator, bytes, largest);
    uint8_t found[SHA_BYTES];
    uint8_t sha[SHA_BYTES];
    if (status == LK_OK) {
        lk_sha256_final(&r->total, sha);
        status = take(r, found, sizeof found, err);
    }
    if (status == LK_OK && memcmp(sha, found, sizeof sha) != 0) {
        status = fail_format(r, "the checksum of the whole file is wrong", err);
    }
    return status;
}

static void install(lk_context *c, int32_t seq, const arrival *a) {
    lk_seq *sequence = &c->seqs[seq];
    lk_seq_cut(sequence, &c->kv, 0);
    for (uint32_t i = 0; i < a->n_pages; i++) {
        sequence->pages[i] = a->pages[i];
        memcpy(c->kv.pages.tokens + (size_t)a->pages[i] * LK_CHUNK,
               a->tokens + (size_t)i * LK_CHUNK,
               positions_of_page(a->length, i) * sizeof a->tokens[0]);
        memcpy(c->kv.pages.digests + (size_t)a->pages[i] * LK_CHUNK,
               a->digests + (size_t)i * LK_CHUNK,
               positions_of_page(a->length, i) * sizeof a->digests[0]);
    }
    for (uint32_t i = a->first_window; i < a->window_end; i++) {
        sequence->window_pages[i] = a->pages[a->n_pages + i];
    }
    sequence->n_pages = a->n_pages;
    sequence->first_window = a->first_window;
    sequence->length = a->length;
}

/* Fills free pages from the file and gives them to the sequence; on failure they go back. */
static lk_status take_body(lk_context *c, int32_t seq, reader *r, arrival *a, lk_error *err) {
    lk_status status = take_tokens(c, r, a, err);
    if (status == LK_OK && a->has_vectors) {
        status = take_digests(r, a, err);
    }
    if (status == LK_OK) {
        status = take_pages(c, r, a, err);
    }
    if (status == LK_OK) {
        install(c, seq, a);
        return LK_OK;
    }
    while (a->n_taken > 0) {
        lk_kv_pages_release(&c->kv.pages, a->pages[--a->n_taken]);
    }
    while (a->window_end > a->first_window) {
        lk_kv_pages_release(&c->kv.window_pages, a->pages[a->n_pages + --a->window_end]);
    }
    return status;
}

static lk_status load_body(lk_context *c, int32_t seq, reader *r, int64_t n_tokens,
                           bool has_vectors, uint32_t first_window, lk_error *err) {
    arrival a = {.length = n_tokens,
                 .has_vectors = has_vectors,
                 .n_pages = lk_seq_pages_for(n_tokens),
                 .first_window = first_window,
                 .window_end = first_window};
    const size_t page_tokens_bytes = LK_CHUNK * sizeof a.tokens[0];
    a.pages = lk_alloc_array(c->allocator, a.n_pages, 2 * sizeof a.pages[0]);
    a.tokens = lk_alloc_array(c->allocator, a.n_pages, page_tokens_bytes);
    a.digests = lk_alloc_array_zero(c->allocator, a.n_pages, LK_CHUNK * sizeof a.digests[0]);
    lk_status status = LK_E_NOMEM;
    if (a.pages != NULL && a.tokens != NULL && a.digests != NULL) {
        status = take_body(c, seq, r, &a, err);
    } else {
        (void)lk_fail_nomem(err, "the tokens of a saved sequence", a.n_pages * page_tokens_bytes);
    }
    lk_free_array(c->allocator, a.digests, a.n_pages, LK_CHUNK * sizeof a.digests[0]);
    lk_free_array(c->allocator, a.tokens, a.n_pages, page_tokens_bytes);
    lk_free_array(c->allocator, a.pages, a.n_pages, 2 * sizeof a.pages[0]);
    return status;
}

lk_status lk_state_load(lk_context *context, int32_t seq, const char *path,
                        const uint8_t digest[32], lk_error *err) {
    uint8_t head[HEAD_BYTES] = {0};
    reader r;
    uint64_t size = 0;
    lk_status status = lk_context_check_seq(context, seq, err);
    if (status != LK_OK) {
        return status;
    }
    status = open_reader(&r, path, &size, err);
    if (status != LK_OK) {
        return status;
    }
    status = take(&r, head, sizeof head, err);
    if (status == LK_OK) {
        status = check_head(&r, head, err);
    }
    if (status == LK_OK) {
        status = check_origin(context, &r, head, digest, err);
    }
    const uint64_t n_tokens = status == LK_OK ? lk_load_u64(head + 88) : 0;
    const uint32_t first_window = status == LK_OK ? lk_load_u32(head + 96) : 0;
    const bool has_vectors = status == LK_OK && lk_load_u32(head + 8) == LAYOUT_VECTORS;
    if (status == LK_OK) {
        status = check_size(context, seq, &r, n_tokens, has_vectors, first_window, size, err);
    }
    if (status == LK_OK) {
        status = load_body(context, seq, &r, (int64_t)n_tokens, has_vectors, first_window, err);
    }
    (void)close(r.fd);
    return status;
}
