/* fuzz_answer.c - answers of models, in any call syntax. Byte 0 of an input is the syntax, the rest
 * the answer. Invariants: a status; whole or byte by byte, the deltas joined are the same; calls
 * begin and end one after another; memory in proportion, all given back. */
#include "fuzz.h"

#include <string.h>

#include "lk/chat_parser.h"

enum { MAX_ANSWER = 1 << 16 };

/* Arguments a to e of every kind, for the syntaxes that ask the schema. */
static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"a\":{\"type\":\"string\"},\"b\":{\"type\":\"integer\"},\"c\":{\"type\":"
    "[\"string\",\"null\"]},\"d\":{\"$ref\":\"#/$defs/x\"},\"e\":{\"anyOf\":[{\"const\":1},"
    "{\"enum\":[\"x\",true]}]}},\"$defs\":{\"x\":{\"type\":\"array\",\"items\":{\"$ref\":"
    "\"#/$defs/x\"}}}}}}]";

/* The deltas joined: a byte for each change of kind, then the texts. */
typedef struct record {
    char *text;
    size_t n, capacity;
    lk_chat_delta_kind last;
    int32_t n_calls;
    int is_open;
} record;

static void put(record *r, const char *text, size_t n) {
    if (r->n + n > r->capacity) {
        r->capacity = 2 * (r->n + n) + 64;
        r->text = realloc(r->text, r->capacity);
        fuzz_check(r->text != NULL);
    }
    if (n != 0) {
        memcpy(r->text + r->n, text, n);
    }
    r->n += n;
}

static void on_delta(void *ctx, const lk_chat_delta *delta) {
    record *r = ctx;
    const char kind = (char)('0' + delta->kind);
    if (delta->kind != r->last || delta->kind == LK_DELTA_CALL_BEGIN) {
        put(r, &kind, 1);
    }
    r->last = delta->kind;
    put(r, delta->text, delta->n_text);
    switch (delta->kind) {
    case LK_DELTA_CALL_BEGIN:
        fuzz_check(!r->is_open && delta->call == r->n_calls && delta->n_text != 0);
        fuzz_check(delta->n_text <= LK_MAX_CALL_NAME && strlen(delta->id) <= LK_MAX_CALL_NAME);
        r->is_open = 1;
        break;
    case LK_DELTA_CALL_END:
        fuzz_check(r->is_open && delta->call == r->n_calls);
        r->is_open = 0;
        r->n_calls++;
        break;
    case LK_DELTA_CALL_ARGUMENTS:
        fuzz_check(r->is_open && delta->n_text != 0);
        break;
    default:
        fuzz_check(!r->is_open && delta->n_text != 0);
        break;
    }
}

static void take_apart(const lk_chat_template *t, const char *syntax, const char *text, size_t n,
                       size_t piece, fuzz_memory *c, record *r) {
    lk_chat_parser_params params = LK_CHAT_PARSER_PARAMS_INIT;
    lk_chat_parser *p = NULL;
    *r = (record){.text = NULL};
    params.allocator = &c->base;
    params.syntax = syntax;
    params.tools = tools;
    params.n_tools = sizeof tools - 1;
    params.on_delta = on_delta;
    params.ctx = r;
    fuzz_check(lk_chat_parser_create(t, &params, &p, NULL) == LK_OK);
    lk_status status = LK_OK;
    for (size_t i = 0; i < n && status == LK_OK; i += piece) {
        status = lk_chat_parser_push(p, text + i, n - i < piece ? n - i : piece, NULL);
    }
    if (status == LK_OK) {
        status = lk_chat_parser_finish(p, NULL);
        fuzz_check(status != LK_OK || !r->is_open);
    }
    fuzz_check(status == LK_OK || status == LK_E_LIMIT);
    lk_chat_parser_destroy(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char source[] = "{{ messages[0].content }}<think></think>";
    fuzz_memory c;
    fuzz_memory_init(&c);
    lk_chat_template *t = NULL;
    size_t n_syntaxes = 0;
    while (lk_chat_syntax_name(n_syntaxes) != NULL) {
        n_syntaxes++;
    }
    if (size == 0 || size > MAX_ANSWER) {
        return 0;
    }
    fuzz_check(lk_chat_template_create(source, sizeof source - 1, NULL, &t, NULL) == LK_OK);
    const char *syntax = lk_chat_syntax_name(data[0] % n_syntaxes);
    const char *text = (const char *)data + 1;
    record whole, bytes;
    take_apart(t, syntax, text, size - 1, size, &c, &whole);
    take_apart(t, syntax, text, size - 1, 1, &c, &bytes);
    fuzz_check(whole.n == bytes.n &&
               (whole.n == 0 || memcmp(whole.text, bytes.text, whole.n) == 0));
    fuzz_check(whole.n_calls == bytes.n_calls);
    fuzz_check(c.live == 0 && c.peak <= 64 * size + (1u << 16));
    free(whole.text);
    free(bytes.text);
    lk_chat_template_close(t);
    return 0;
}
