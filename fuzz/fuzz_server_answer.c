/* fuzz_server_answer.c - what a server that is verified sends: a stream of events, or any bytes.
 * Byte 0 is the size of the pieces in which they come. Invariants: however it is cut, the answer is
 * the same; a refusal has a reason; the text is one C string; messages can be printed. */
#include "fuzz.h"

#include <string.h>

#include "verify/http_answer.h"
#include "verify/http_events.h"

typedef struct reader {
    http_answer answer;
    http_pieces pieces;
    http_events events;
    int ok;
} reader;

static bool take(void *user, const char *data, size_t n) {
    reader *r = user;
    const bool ok = http_answer_add(&r->answer, &r->pieces, data, n);
    fuzz_check(ok || r->answer.failure[0] != '\0');
    return ok;
}

static void read_all(reader *r, const char *bytes, size_t n, size_t piece) {
    memset(r, 0, sizeof *r);
    http_answer_init(&r->answer);
    r->ok = 1;
    for (size_t i = 0; i < n && r->ok; i += piece) {
        r->ok = http_events_feed(&r->events, bytes + i, n - i < piece ? n - i : piece, take, r);
    }
    r->ok = r->ok && http_events_finish(&r->events, take, r);
}

static void finish(reader *r) {
    http_answer_deinit(&r->answer);
    http_pieces_deinit(&r->pieces);
    http_events_deinit(&r->events);
}

static void check_same(const reader *a, const reader *b) {
    fuzz_check(a->ok == b->ok && a->events.n_events == b->events.n_events);
    fuzz_check(a->answer.n_tokens == b->answer.n_tokens && a->answer.n_text == b->answer.n_text);
    fuzz_check(a->answer.n_tokens == 0 ||
               memcmp(a->answer.ids, b->answer.ids, a->answer.n_tokens * sizeof a->answer.ids[0]) ==
                   0);
    fuzz_check(a->answer.n_text == 0 || strcmp(a->answer.text, b->answer.text) == 0);
    fuzz_check(a->answer.text == NULL || strlen(a->answer.text) == a->answer.n_text);
    fuzz_check(strcmp(a->answer.failure, b->answer.failure) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    reader whole, pieces;
    char text[200];
    if (size == 0 || size > 1 << 16) {
        return 0;
    }
    const char *bytes = (const char *)data + 1;
    read_all(&whole, bytes, size - 1, size);
    read_all(&pieces, bytes, size - 1, 1 + data[0] % 16);
    check_same(&whole, &pieces);
    finish(&pieces);
    http_answer_error(bytes, size - 1, text, sizeof text);
    for (size_t i = 0; text[i] != '\0'; i++) {
        fuzz_check((unsigned char)text[i] >= ' ' && text[i] != 127);
    }
    if (whole.ok) {
        fuzz_check(http_answer_split(&whole.answer, &whole.pieces, 8));
        fuzz_check(whole.answer.n_tokens <= 8);
    }
    finish(&whole);
    return 0;
}
