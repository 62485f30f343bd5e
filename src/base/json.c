/* json.c - see json.h. One pass over the text; open arrays and objects are found again through the
 * parents of the values, so there is no stack. */
#include "base/json.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/utf8_bytes.h"

typedef struct reader {
    lk_json *json;
    lk_json_limits limits;
    const uint8_t *text;
    size_t n;
    size_t pos;
    size_t depth;
    uint32_t *last;   /* [capacity of values] last child of an open array or object */
    uint32_t *sorted; /* scratch: the members of one object */
    size_t n_sorted;  /* capacity of it */
    lk_error *err;
} reader;

static lk_status bad(const reader *r, size_t at, const char *what) {
    if (at < r->n && r->text[at] > 0x20 && r->text[at] < 0x7f) {
        return lk_fail(r->err, LK_E_FORMAT, LK_AT_OFFSET(at, "JSON"),
                       "JSON, byte %zu: %s, found '%c'", at, what, r->text[at]);
    }
    if (at < r->n) {
        return lk_fail(r->err, LK_E_FORMAT, LK_AT_OFFSET(at, "JSON"),
                       "JSON, byte %zu: %s, found the byte 0x%02x", at, what, r->text[at]);
    }
    return lk_fail(r->err, LK_E_FORMAT, LK_AT_OFFSET(at, "JSON"),
                   "JSON, byte %zu: %s, found the end of the text", at, what);
}

static lk_status no_memory(const reader *r) {
    return lk_fail_nomem(r->err, "a JSON text", r->n);
}

static void skip_space(reader *r) {
    while (r->pos < r->n && (r->text[r->pos] == ' ' || r->text[r->pos] == '\t' ||
                             r->text[r->pos] == '\n' || r->text[r->pos] == '\r')) {
        r->pos++;
    }
}

static int peek(const reader *r) {
    return r->pos < r->n ? r->text[r->pos] : -1;
}

static lk_status add_bytes(reader *r, const void *bytes, size_t n) {
    lk_json *j = r->json;
    void *data = j->text;
    if (!lk_grow_array(j->allocator, &data, j->n_text, &j->text_capacity, j->n_text + n, 1)) {
        return no_memory(r);
    }
    j->text = data;
    if (n != 0) {
        memcpy(j->text + j->n_text, bytes, n);
        j->n_text += n;
    }
    return LK_OK;
}

/* ---- strings ---- */

static int hex_digit(int c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The four digits after \u. */
static lk_status read_unit(reader *r, uint32_t *unit) {
    *unit = 0;
    for (int i = 0; i < 4; i++) {
        const int digit = hex_digit(peek(r));
        if (digit < 0) {
            return bad(r, r->pos, "expected four hexadecimal digits after \\u");
        }
        *unit = *unit * 16 + (uint32_t)digit;
        r->pos++;
    }
    return LK_OK;
}

static lk_status read_code_point(reader *r, size_t start) {
    uint32_t cp = 0;
    lk_status status = read_unit(r, &cp);
    if (status == LK_OK && cp >= 0xD800 && cp <= 0xDFFF) {
        uint32_t low = 0;
        if (cp >= 0xDC00 || r->n - r->pos < 2 || memcmp(r->text + r->pos, "\\u", 2) != 0) {
            return bad(r, start, "half of a surrogate pair");
        }
        r->pos += 2;
        status = read_unit(r, &low);
        if (status == LK_OK && (low < 0xDC00 || low > 0xDFFF)) {
            return bad(r, start, "half of a surrogate pair");
        }
        cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
    }
    uint8_t bytes[4];
    return status == LK_OK ? add_bytes(r, bytes, lk_utf8_put(cp, bytes)) : status;
}

static lk_status read_escape(reader *r) {
    static const char names[] = "\"\\/bfnrt";
    static const char meant[] = "\"\\/\b\f\n\r\t";
    const size_t start = r->pos++;
    const int c = peek(r);
    if (c == 'u') {
        r->pos++;
        return read_code_point(r, start);
    }
    const char *found = c > 0 ? strchr(names, c) : NULL;
    if (found == NULL) {
        return bad(r, r->pos, "expected one of \"\\/bfnrtu after a backslash");
    }
    r->pos++;
    return add_bytes(r, &meant[found - names], 1);
}

/* A string, decoded to the end of the text; pos is at its quotation mark. */
static lk_status read_string(reader *r, uint32_t *text, uint32_t *n_text) {
    const size_t begin = r->json->n_text;
    lk_status status = LK_OK;
    r->pos++;
    while (status == LK_OK && peek(r) != '"') {
        const int c = peek(r);
        if (c < 0x20) {
            return bad(r, r->pos,
                       c < 0 ? "expected the end of a string"
                             : "a control character must be escaped in a string");
        }
        if (c == '\\') {
            status = read_escape(r);
            continue;
        }
        size_t n_bad = 0;
        const size_t n = lk_utf8_sequence(r->text + r->pos, r->n - r->pos, &n_bad);
        if (n == 0) {
            return bad(r, r->pos, "expected well-formed UTF-8");
        }
        status = add_bytes(r, r->text + r->pos, n);
        r->pos += n;
    }
    r->pos++;
    *text = (uint32_t)begin;
    *n_text = (uint32_t)(r->json->n_text - begin);
    return status == LK_OK ? add_bytes(r, "", 1) : status;
}

/* ---- numbers and words ---- */

static size_t count_digits(const reader *r, size_t at) {
    size_t n = 0;
    while (at + n < r->n && r->text[at + n] >= '0' && r->text[at + n] <= '9') {
        n++;
    }
    return n;
}

static lk_status read_number(reader *r, lk_json_value *v) {
    const size_t begin = r->pos;
    size_t at = begin + (r->text[begin] == '-');
    size_t n = count_digits(r, at);
    if (n == 0) {
        return bad(r, at, "expected a digit");
    }
    if (n > 1 && r->text[at] == '0') {
        return bad(r, at + 1, "a number does not begin with 0");
    }
    at += n;
    if (at < r->n && r->text[at] == '.') {
        n = count_digits(r, ++at);
        if (n == 0) {
            return bad(r, at, "expected a digit after the decimal point");
        }
        at += n;
    }
    if (at < r->n && (r->text[at] == 'e' || r->text[at] == 'E')) {
        at++;
        at += at < r->n && (r->text[at] == '+' || r->text[at] == '-');
        n = count_digits(r, at);
        if (n == 0) {
            return bad(r, at, "expected a digit in the exponent");
        }
        at += n;
    }
    v->type = LK_JSON_NUMBER;
    v->text = (uint32_t)r->json->n_text;
    v->n_text = (uint32_t)(at - begin);
    r->pos = at;
    const lk_status status = add_bytes(r, r->text + begin, at - begin);
    return status == LK_OK ? add_bytes(r, "", 1) : status;
}

static lk_status read_word(reader *r, lk_json_value *v) {
    static const struct {
        const char *word;
        lk_json_type type;
    } words[] = {{"null", LK_JSON_NULL}, {"false", LK_JSON_FALSE}, {"true", LK_JSON_TRUE}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t n = strlen(words[i].word);
        if (r->n - r->pos >= n && memcmp(r->text + r->pos, words[i].word, n) == 0) {
            v->type = words[i].type;
            r->pos += n;
            return LK_OK;
        }
    }
    return bad(r, r->pos, "expected a value");
}

/* ---- objects ---- */

static int compare_keys(const lk_json *j, uint32_t a, uint32_t b) {
    const lk_json_value *x = &j->values[a];
    const lk_json_value *y = &j->values[b];
    const size_t n = x->n_key < y->n_key ? x->n_key : y->n_key;
    const int order = memcmp(j->text + x->key, j->text + y->key, n);
    return order != 0 ? order : (x->n_key > y->n_key) - (x->n_key < y->n_key);
}

static void sift_down(const lk_json *j, uint32_t *heap, size_t n, size_t i) {
    const uint32_t moving = heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n) {
            break;
        }
        child += child + 1 < n && compare_keys(j, heap[child + 1], heap[child]) > 0;
        if (compare_keys(j, heap[child], moving) <= 0) {
            break;
        }
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moving;
}

static lk_status fail_twice(const reader *r, uint32_t a, uint32_t b) {
    const lk_json_value *v = &r->json->values[a > b ? a : b];
    return lk_fail(r->err, LK_E_FORMAT, LK_AT_OFFSET(v->offset, "JSON"),
                   "JSON, byte %lu: the member '%.80s' is there twice", (unsigned long)v->offset,
                   r->json->text + v->key);
}

/* Sorts the members of a closed object by name; two that are equal are an error. */
static lk_status check_names(reader *r, uint32_t object) {
    const lk_json *j = r->json;
    const size_t n = j->values[object].n;
    void *scratch = r->sorted;
    if (!lk_grow_array(j->allocator, &scratch, 0, &r->n_sorted, n, sizeof r->sorted[0])) {
        return no_memory(r);
    }
    r->sorted = scratch;
    size_t i = 0;
    for (uint32_t v = j->values[object].first; v != 0; v = j->values[v].next) {
        r->sorted[i++] = v;
    }
    for (i = n / 2; i-- > 0;) {
        sift_down(j, r->sorted, n, i);
    }
    for (size_t end = n; end > 1;) {
        const uint32_t top = r->sorted[0];
        end--;
        r->sorted[0] = r->sorted[end];
        sift_down(j, r->sorted, end, 0);
        r->sorted[end] = top;
        if (end + 1 < n && compare_keys(j, top, r->sorted[end + 1]) == 0) {
            return fail_twice(r, top, r->sorted[end + 1]);
        }
    }
    if (n > 1 && compare_keys(j, r->sorted[0], r->sorted[1]) == 0) {
        return fail_twice(r, r->sorted[0], r->sorted[1]);
    }
    return LK_OK;
}

/* The name of the next member and its colon. */
static lk_status read_name(reader *r, lk_json_value *v) {
    if (peek(r) != '"') {
        return bad(r, r->pos, "expected the name of a member in quotation marks");
    }
    const lk_status status = read_string(r, &v->key, &v->n_key);
    if (status != LK_OK) {
        return status;
    }
    skip_space(r);
    if (peek(r) != ':') {
        return bad(r, r->pos, "expected ':'");
    }
    r->pos++;
    skip_space(r);
    return LK_OK;
}

/* ---- values ---- */

static lk_status push_value(reader *r, const lk_json_value *v, uint32_t *index) {
    lk_json *j = r->json;
    void *values = j->values;
    void *last = r->last;
    size_t capacity = j->capacity; /* both arrays have it */
    size_t last_capacity = j->capacity;
    if (!lk_grow_array(j->allocator, &last, j->n_values, &last_capacity, j->n_values + 1,
                       sizeof r->last[0])) {
        return no_memory(r);
    }
    r->last = last;
    if (!lk_grow_array(j->allocator, &values, j->n_values, &capacity, j->n_values + 1,
                       sizeof j->values[0])) {
        lk_free_array(j->allocator, r->last, last_capacity, sizeof r->last[0]);
        r->last = NULL;
        return no_memory(r);
    }
    j->values = values;
    j->capacity = capacity;
    *index = (uint32_t)j->n_values++;
    j->values[*index] = *v;
    r->last[*index] = 0;
    if (*index != 0) {
        lk_json_value *parent = &j->values[v->parent];
        if (parent->n++ == 0) {
            parent->first = *index;
        } else {
            j->values[r->last[v->parent]].next = *index;
        }
        r->last[v->parent] = *index;
    }
    return LK_OK;
}

/* Reads one value, of an array or object only its bracket; *opened is that one then, else 0 with
 * *is_open false. */
static lk_status read_value(reader *r, uint32_t parent, bool *is_open, uint32_t *opened) {
    lk_json_value v = {.parent = parent};
    lk_status status = LK_OK;
    if (r->json->n_values != 0 && r->json->values[parent].type == LK_JSON_OBJECT) {
        status = read_name(r, &v);
    }
    v.offset = (uint32_t)r->pos;
    *is_open = false;
    if (status != LK_OK) {
        return status;
    }
    const int c = peek(r);
    if (c == '{' || c == '[') {
        if (r->depth == r->limits.depth) {
            return lk_fail(r->err, LK_E_LIMIT, LK_AT_OFFSET(r->pos, "JSON"),
                           "JSON, byte %zu: arrays and objects nest deeper than %zu", r->pos,
                           r->limits.depth);
        }
        r->depth++;
        r->pos++;
        v.type = c == '{' ? LK_JSON_OBJECT : LK_JSON_ARRAY;
        *is_open = true;
    } else if (c == '"') {
        v.type = LK_JSON_STRING;
        status = read_string(r, &v.text, &v.n_text);
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        status = read_number(r, &v);
    } else {
        status = read_word(r, &v);
    }
    return status == LK_OK ? push_value(r, &v, opened) : status;
}

/* After a value: closes what ends here. *open is what the next value belongs to; *is_done when the
 * root is closed. */
static lk_status close_values(reader *r, uint32_t *open, bool *is_done) {
    for (;;) {
        const lk_json_value *v = &r->json->values[*open];
        const int close = v->type == LK_JSON_OBJECT ? '}' : ']';
        skip_space(r);
        if (peek(r) == ',' && v->n != 0) {
            r->pos++;
            skip_space(r);
            return LK_OK;
        }
        if (peek(r) != close) {
            if (v->n == 0) {
                return LK_OK; /* the first value; whatever is wrong with it is found there */
            }
            return bad(r, r->pos, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
        }
        r->pos++;
        r->depth--;
        const lk_status status = v->type == LK_JSON_OBJECT ? check_names(r, *open) : LK_OK;
        if (status != LK_OK) {
            return status;
        }
        if (*open == 0) {
            *is_done = true;
            return LK_OK;
        }
        *open = r->json->values[*open].parent;
    }
}

static lk_status read_all(reader *r) {
    uint32_t open = 0;
    bool is_done = false;
    skip_space(r);
    while (!is_done) {
        bool is_open = false;
        uint32_t index = 0;
        lk_status status = read_value(r, open, &is_open, &index);
        if (status != LK_OK) {
            return status;
        }
        if (is_open) {
            open = index;
        } else if (index == 0) {
            break; /* the root is no array or object */
        }
        status = close_values(r, &open, &is_done);
        if (status != LK_OK) {
            return status;
        }
    }
    skip_space(r);
    return r->pos == r->n ? LK_OK : bad(r, r->pos, "expected the end of the text");
}

lk_status lk_json_parse(const char *text, size_t n_bytes, lk_json_limits limits,
                        const lk_allocator *allocator, lk_json *json, lk_error *err) {
    const lk_allocator *a = lk_allocator_or_default(allocator);
    *json = (lk_json){.allocator = a};
    const size_t max_bytes =
        limits.n_bytes < LK_JSON_MAX_BYTES ? limits.n_bytes : LK_JSON_MAX_BYTES;
    if (n_bytes > max_bytes) {
        return lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT("JSON"),
                       "the JSON text has %zu bytes, at most %zu are read", n_bytes, max_bytes);
    }
    if (limits.depth > LK_JSON_MAX_DEPTH) {
        limits.depth = LK_JSON_MAX_DEPTH;
    }
    reader r = {
        .json = json, .limits = limits, .text = (const uint8_t *)text, .n = n_bytes, .err = err};
    const lk_status status = read_all(&r);
    lk_free_array(a, r.last, json->capacity, sizeof r.last[0]);
    lk_free_array(a, r.sorted, r.n_sorted, sizeof r.sorted[0]);
    if (status != LK_OK) {
        lk_json_deinit(json);
    }
    return status;
}

void lk_json_deinit(lk_json *json) {
    lk_free_array(json->allocator, json->values, json->capacity, sizeof json->values[0]);
    lk_free(json->allocator, json->text, json->text_capacity);
    *json = (lk_json){.allocator = json->allocator};
}

/* ---- looking at values ---- */

uint32_t lk_json_find_bytes(const lk_json *json, uint32_t object, const char *name, size_t n_name) {
    if (json->values[object].type != LK_JSON_OBJECT) {
        return 0;
    }
    for (uint32_t v = json->values[object].first; v != 0; v = json->values[v].next) {
        if (json->values[v].n_key == n_name &&
            memcmp(json->text + json->values[v].key, name, n_name) == 0) {
            return v;
        }
    }
    return 0;
}

uint32_t lk_json_find(const lk_json *json, uint32_t object, const char *name) {
    return lk_json_find_bytes(json, object, name, strlen(name));
}

bool lk_json_text_is(const lk_json *json, uint32_t value, const char *text) {
    size_t n = 0;
    const char *own = lk_json_text(json, value, &n);
    return n == strlen(text) && memcmp(own, text, n) == 0;
}

bool lk_json_int64(const lk_json *json, uint32_t value, int64_t *out) {
    if (json->values[value].type != LK_JSON_NUMBER) {
        return false;
    }
    size_t n = 0;
    const char *text = lk_json_text(json, value, &n);
    const bool is_negative = text[0] == '-';
    uint64_t sum = 0;
    for (size_t i = is_negative; i < n; i++) {
        const uint64_t digit = (uint64_t)(text[i] - '0');
        if (text[i] < '0' || text[i] > '9' || sum > (UINT64_MAX - digit) / 10) {
            return false;
        }
        sum = sum * 10 + digit;
    }
    if (sum > (uint64_t)INT64_MAX + is_negative) {
        return false;
    }
    *out = is_negative ? (int64_t)(0 - sum) : (int64_t)sum;
    return true;
}

const char *lk_json_type_name(lk_json_type type) {
    switch (type) {
    case LK_JSON_NULL:
        return "null";
    case LK_JSON_FALSE:
        return "false";
    case LK_JSON_TRUE:
        return "true";
    case LK_JSON_NUMBER:
        return "number";
    case LK_JSON_STRING:
        return "string";
    case LK_JSON_ARRAY:
        return "array";
    case LK_JSON_OBJECT:
        return "object";
    }
    return "?";
}
