/* gbnf.c - see gbnf.h. One pass; every group becomes a rule of its own, whose beginning is kept on
 * a stack while it is open. */
#include "grammar/gbnf.h"

#include <stdio.h>
#include <string.h>

#include "grammar/grammar_builder.h"
#include "text/strings.h"

enum { MAX_GROUPS = 256 }; /* open at once */

/* What stands in a sequence, with its repetition. */
typedef struct element {
    enum { LITERAL, CLASS, RULE } kind;
    uint32_t rule;
    size_t first, n; /* LITERAL: bytes of parser.literals; CLASS: ranges of parser.ranges */
    uint32_t min, max;
} element;

/* An alternative that begins with a literal; those of a group are read together. */
typedef struct word {
    size_t first, n; /* bytes of parser.word_bytes */
    uint32_t next;
} word;

/* A rule or group that is open. */
typedef struct group {
    uint32_t rule;
    size_t first_element;     /* of the sequence in work */
    size_t first_alternative; /* of this group */
    size_t first_word;
    size_t at; /* where it begins in the text */
} group;

typedef struct list {
    void *items;
    size_t n, capacity;
} list;

typedef struct parser {
    lk_grammar_builder b;
    const lk_allocator *a;
    const uint8_t *text;
    size_t n;
    size_t pos;
    lk_strings names; /* of the rules that are named */
    list named;       /* named_rule, by the number of the name */
    list owners;      /* uint32_t, by rule: the number of the name it belongs to */
    list elements;
    list alternatives; /* uint32_t: where each begins */
    list words;        /* word: the other alternatives */
    list word_bytes;
    list literals; /* bytes */
    list ranges;   /* lk_code_range */
    group groups[MAX_GROUPS];
    size_t n_groups;
    char name[80]; /* for messages */
} parser;

typedef struct named_rule {
    uint32_t rule;
    size_t used_at;
    bool is_defined;
} named_rule;

/* ---- helpers ---- */

static bool is_good(const parser *p) {
    return p->b.status == LK_OK;
}

static void *push(parser *p, list *l, size_t n, size_t size) {
    if (!is_good(p)) {
        return NULL;
    }
    if (!lk_grow_array(p->a, &l->items, l->n, &l->capacity, l->n + n, size)) {
        (void)lk_grammar_fail(&p->b, LK_E_NOMEM, LK_AT_SUBJECT("a grammar"),
                              "cannot allocate memory for a grammar of %zu bytes", p->n);
        return NULL;
    }
    void *place = (char *)l->items + l->n * size;
    l->n += n;
    return place;
}

static unsigned long line_at(const parser *p, size_t at) {
    unsigned long line = 1;
    for (size_t i = 0; i < at && i < p->n; i++) {
        line += p->text[i] == '\n';
    }
    return line;
}

static void fail_at(parser *p, size_t at, const char *what) {
    char found[24] = "the end";
    if (at < p->n) {
        const uint8_t c = p->text[at];
        (void)snprintf(found, sizeof found, c > 0x20 && c < 0x7f ? "'%c'" : "byte 0x%02x", c);
    }
    (void)lk_grammar_fail(&p->b, LK_E_FORMAT, LK_AT_OFFSET(at, "grammar"),
                          "grammar, line %lu: %s, found %s", line_at(p, at), what, found);
}

static int peek(const parser *p) {
    return p->pos < p->n ? p->text[p->pos] : -1;
}

/* Blanks and comments, and line ends where they mean nothing. */
static void skip(parser *p, bool over_lines) {
    for (;;) {
        const int c = peek(p);
        if (c == '#') {
            while (peek(p) >= 0 && peek(p) != '\n') {
                p->pos++;
            }
        } else if (c == ' ' || c == '\t' || c == '\r' || (over_lines && c == '\n')) {
            p->pos++;
        } else {
            return;
        }
    }
}

static bool is_name_char(int c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* ---- rules by name ---- */

static uint32_t new_rule(parser *p, uint32_t owner) {
    uint32_t *place = push(p, &p->owners, 1, sizeof *place);
    const uint32_t rule = lk_grammar_rule(&p->b);
    if (place != NULL) {
        *place = owner;
    }
    return rule;
}

/* The number of the name at pos, which is read; it need not have been defined yet. */
static uint32_t read_name(parser *p) {
    const size_t begin = p->pos;
    while (is_name_char(peek(p))) {
        p->pos++;
    }
    const size_t n = p->pos - begin;
    const uint32_t known = lk_strings_find(&p->names, p->text + begin, n);
    if (known != LK_NO_STRING) {
        return known;
    }
    const uint32_t fresh = p->names.n;
    named_rule *rule = push(p, &p->named, 1, sizeof *rule);
    if (rule == NULL) {
        return 0;
    }
    *rule = (named_rule){new_rule(p, fresh), begin, false};
    if (!lk_strings_push(&p->names, p->text + begin, n, true)) {
        (void)lk_grammar_fail(&p->b, LK_E_LIMIT, LK_AT_OFFSET(begin, "grammar"),
                              "grammar: too many names of rules collide");
    }
    return fresh;
}

static named_rule *named(const parser *p, uint32_t number) {
    return (named_rule *)p->named.items + number;
}

static const char *name_of(void *ctx, uint32_t rule) {
    parser *p = ctx;
    size_t n = 0;
    const uint8_t *bytes = lk_strings_get(&p->names, ((const uint32_t *)p->owners.items)[rule], &n);
    n = n < sizeof p->name - 1 ? n : sizeof p->name - 1;
    memcpy(p->name, bytes, n);
    p->name[n] = '\0';
    return p->name;
}

/* ---- characters ---- */

static uint32_t read_hex(parser *p, int n_digits) {
    uint32_t value = 0;
    for (int i = 0; i < n_digits; i++) {
        const int c = peek(p);
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) {
            fail_at(p, p->pos, "expected a hexadecimal digit");
            return 0;
        }
        value = value * 16 + (uint32_t)digit;
        p->pos++;
    }
    return value;
}

/* One character of a literal or class, escaped or not. */
static uint32_t read_char(parser *p) {
    const size_t at = p->pos;
    if (peek(p) != '\\') {
        size_t n = 0;
        const uint32_t cp = lk_utf8_get(p->text + at, &n);
        p->pos += n;
        return cp;
    }
    p->pos++;
    const int c = peek(p);
    p->pos++;
    uint32_t cp = 0;
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^':
        return (uint32_t)c;
    case 'x':
        return read_hex(p, 2);
    case 'u':
        cp = read_hex(p, 4);
        break;
    case 'U':
        cp = read_hex(p, 8);
        break;
    default:
        fail_at(p, p->pos - 1, "expected one of nrt\\\"[]-^xuU after a backslash");
        return 0;
    }
    if (cp > LK_MAX_CODE_POINT || (cp >= 0xD800 && cp <= 0xDFFF)) {
        fail_at(p, at, "not a character");
    }
    return cp;
}

static void read_literal(parser *p, element *e) {
    const size_t begin = p->pos++;
    *e = (element){.kind = LITERAL, .first = p->literals.n, .min = 1, .max = 1};
    while (is_good(p) && peek(p) != '"') {
        if (peek(p) < 0 || peek(p) == '\n') {
            fail_at(p, p->pos, "expected the end of the literal");
            return;
        }
        uint8_t bytes[4];
        const size_t n = lk_utf8_put(read_char(p), bytes);
        uint8_t *place = push(p, &p->literals, n, 1);
        if (place != NULL) {
            memcpy(place, bytes, n);
        }
    }
    p->pos++;
    e->n = p->literals.n - e->first;
    (void)begin;
}

/* Moves a set into the list of ranges. */
static void keep_set(parser *p, lk_code_points *set, element *e) {
    *e = (element){.kind = CLASS, .first = p->ranges.n, .n = set->n, .min = 1, .max = 1};
    lk_code_range *place = push(p, &p->ranges, set->n, sizeof *place);
    if (place != NULL && set->n != 0) {
        memcpy(place, set->ranges, set->n * sizeof *place);
    }
    lk_code_points_free(set, p->a);
}

static bool add_range(parser *p, lk_code_points *set, uint32_t low, uint32_t high) {
    return lk_code_points_add(set, low, high, p->a) ||
           lk_grammar_fail(&p->b, LK_E_NOMEM, LK_AT_SUBJECT("a grammar"),
                           "cannot allocate memory for a class") == LK_OK;
}

static void read_class(parser *p, element *e) {
    const size_t begin = p->pos++;
    lk_code_points set = {NULL, 0, 0};
    const bool is_negated = peek(p) == '^';
    p->pos += is_negated;
    while (is_good(p) && peek(p) != ']') {
        if (peek(p) < 0 || peek(p) == '\n') {
            fail_at(p, p->pos, "expected the end of the class");
            break;
        }
        const size_t at = p->pos;
        const uint32_t low = read_char(p);
        uint32_t high = low;
        if (peek(p) == '-' && p->pos + 1 < p->n && p->text[p->pos + 1] != ']') {
            p->pos++;
            if (p->text[p->pos] == '\n') {
                break;
            }
            high = read_char(p);
            if (is_good(p) && high < low) {
                fail_at(p, at, "a range of characters that ends before it begins");
            }
        }
        (void)(is_good(p) && add_range(p, &set, low, high));
    }
    p->pos++;
    if (is_good(p) && set.n == 0) {
        fail_at(p, begin, "a class without characters");
    }
    if (is_good(p) && is_negated && !lk_code_points_invert(&set, p->a)) {
        (void)lk_grammar_fail(&p->b, LK_E_NOMEM, LK_AT_SUBJECT("a grammar"),
                              "cannot allocate memory for a class");
    }
    keep_set(p, &set, e);
}

static void read_any(parser *p, element *e) {
    lk_code_points set = {NULL, 0, 0};
    p->pos++;
    (void)add_range(p, &set, 0, LK_MAX_CODE_POINT);
    keep_set(p, &set, e);
}

/* ---- repetitions ---- */

static uint32_t read_count(parser *p) {
    uint32_t value = 0;
    if (peek(p) < '0' || peek(p) > '9') {
        fail_at(p, p->pos, "expected a number");
    }
    const size_t at = p->pos;
    for (int c = peek(p); c >= '0' && c <= '9'; c = peek(p)) {
        value = value * 10 + (uint32_t)(c - '0');
        if (value > LK_GRAMMAR_MAX_REPEAT) {
            (void)lk_grammar_fail(&p->b, LK_E_LIMIT, LK_AT_OFFSET(at, "grammar"),
                                  "grammar, line %lu: a repetition of more than %d times",
                                  line_at(p, at), LK_GRAMMAR_MAX_REPEAT);
            return 0;
        }
        p->pos++;
    }
    return value;
}

static void read_braces(parser *p, element *e) {
    const size_t at = p->pos++;
    skip(p, false);
    e->min = read_count(p);
    e->max = e->min;
    skip(p, false);
    if (peek(p) == ',') {
        p->pos++;
        skip(p, false);
        e->max = peek(p) == '}' ? LK_GRAMMAR_NO_MAX : read_count(p);
        skip(p, false);
    }
    if (is_good(p) && peek(p) != '}') {
        fail_at(p, p->pos, "expected '}'");
    }
    p->pos++;
    if (is_good(p) && e->max < e->min) {
        fail_at(p, at, "a repetition whose end is before its beginning");
    }
}

static void read_repetition(parser *p, element *e) {
    switch (peek(p)) {
    case '*':
        e->min = 0;
        e->max = LK_GRAMMAR_NO_MAX;
        break;
    case '+':
        e->max = LK_GRAMMAR_NO_MAX;
        break;
    case '?':
        e->min = 0;
        break;
    case '{':
        read_braces(p, e);
        return;
    default:
        return;
    }
    p->pos++;
}

/* ---- building ---- */

static uint32_t build_once(parser *p, const element *e, uint32_t next) {
    if (e->kind == LITERAL) {
        return lk_grammar_bytes(&p->b, (const uint8_t *)p->literals.items + e->first, e->n, next);
    }
    if (e->kind == CLASS) {
        return lk_grammar_chars(&p->b, (const lk_code_range *)p->ranges.items + e->first, e->n,
                                next);
    }
    return lk_grammar_call(&p->b, e->rule, next);
}

static uint32_t build(parser *p, const element *e, uint32_t next) {
    lk_grammar_builder *b = &p->b;
    if (e->kind == LITERAL && e->n == 0) {
        return next;
    }
    if (e->min == 1 && e->max == 1) {
        return build_once(p, e, next);
    }
    if (e->min == 0 && e->max == 1) {
        return lk_grammar_either(b, build_once(p, e, next), next);
    }
    if (e->min <= 1 && e->max == LK_GRAMMAR_NO_MAX) {
        const uint32_t loop = lk_grammar_reserve(b);
        const uint32_t body = build_once(p, e, loop);
        lk_grammar_set_split(b, loop, (const uint32_t[]){body, next}, 2);
        return e->min == 0 ? loop : body;
    }
    return lk_grammar_repeat(b, build_once(p, e, LK_GRAMMAR_END), e->min, e->max, next);
}

/* An alternative that is a literal and what follows it. */
static void keep_word(parser *p, const element *e, uint32_t next) {
    char *bytes = push(p, &p->word_bytes, e->n, 1);
    word *place = push(p, &p->words, 1, sizeof *place);
    if (bytes != NULL && place != NULL) {
        memcpy(bytes, (const char *)p->literals.items + e->first, e->n);
        *place = (word){p->word_bytes.n - e->n, e->n, next};
    }
}

/* Ends the sequence in work. */
static void end_sequence(parser *p) {
    const group *g = &p->groups[p->n_groups - 1];
    const bool is_empty = p->elements.n == g->first_element;
    const element *first = is_empty ? NULL : (const element *)p->elements.items + g->first_element;
    const bool is_word = is_good(p) && first != NULL && first->kind == LITERAL && first->n > 0 &&
                         first->min == 1 && first->max == 1;
    uint32_t next = LK_GRAMMAR_END;
    for (size_t i = p->elements.n; i-- > g->first_element + is_word && is_good(p);) {
        next = build(p, (const element *)p->elements.items + i, next);
    }
    if (is_word) {
        keep_word(p, first, next);
    }
    p->elements.n = g->first_element;
    if (p->n_groups == 1) { /* nobody looks at these any more */
        p->literals.n = 0;
        p->ranges.n = 0;
    }
    uint32_t *place = is_word ? NULL : push(p, &p->alternatives, 1, sizeof *place);
    if (place != NULL) {
        *place = next;
    }
}

/* Makes the words of a group one more alternative. */
static void end_words(parser *p, const group *g) {
    const size_t n = p->words.n - g->first_word;
    const word *own = n > 0 ? (const word *)p->words.items + g->first_word : NULL;
    lk_grammar_word *words = n > 0 ? lk_alloc_array(p->a, n, sizeof words[0]) : NULL;
    for (size_t i = 0; words != NULL && i < n; i++) {
        words[i] = (lk_grammar_word){(const char *)p->word_bytes.items + own[i].first, own[i].n,
                                     own[i].next};
    }
    if (n > 0 && words == NULL) {
        (void)lk_grammar_fail(&p->b, LK_E_NOMEM, LK_AT_SUBJECT("a grammar"),
                              "cannot allocate memory for %zu words", n);
    } else if (n > 0) {
        uint32_t *place = push(p, &p->alternatives, 1, sizeof *place);
        if (place != NULL) {
            *place = lk_grammar_words(&p->b, words, n);
        }
        p->word_bytes.n = own->first;
    }
    lk_free_array(p->a, words, n, sizeof words[0]);
    p->words.n = g->first_word;
}

static void open_group(parser *p, uint32_t rule) {
    if (p->n_groups == MAX_GROUPS) {
        (void)lk_grammar_fail(&p->b, LK_E_LIMIT, LK_AT_OFFSET(p->pos, "grammar"),
                              "grammar, line %lu: more than %d groups are open", line_at(p, p->pos),
                              MAX_GROUPS);
        return;
    }
    p->groups[p->n_groups++] = (group){rule, p->elements.n, p->alternatives.n, p->words.n, p->pos};
}

static void close_group(parser *p) {
    end_sequence(p);
    const group *g = &p->groups[--p->n_groups];
    if (is_good(p)) {
        end_words(p, g);
    }
    if (is_good(p)) {
        const uint32_t start =
            lk_grammar_split(&p->b, (const uint32_t *)p->alternatives.items + g->first_alternative,
                             p->alternatives.n - g->first_alternative);
        lk_grammar_set_rule(&p->b, g->rule, start);
    }
    p->alternatives.n = g->first_alternative;
}

static void add_element(parser *p, element *e) {
    if (is_good(p)) {
        read_repetition(p, e);
    }
    element *place = push(p, &p->elements, 1, sizeof *place);
    if (place != NULL) {
        *place = *e;
    }
}

/* ---- the text ---- */

/* After a line end outside groups: true when the rule goes on with another alternative. */
static bool goes_on(parser *p) {
    skip(p, true);
    return peek(p) == '|';
}

static void read_body(parser *p, uint32_t owner) {
    bool over_lines = true; /* after ::= and | */
    while (is_good(p)) {
        element e = {.kind = RULE, .min = 1, .max = 1};
        skip(p, over_lines || p->n_groups > 1);
        over_lines = false;
        const int c = peek(p);
        if (c == '"') {
            read_literal(p, &e);
            add_element(p, &e);
        } else if (c == '[') {
            read_class(p, &e);
            add_element(p, &e);
        } else if (c == '.') {
            read_any(p, &e);
            add_element(p, &e);
        } else if (is_name_char(c)) {
            e.rule = read_name(p);
            e.rule = is_good(p) ? named(p, e.rule)->rule : 0;
            add_element(p, &e);
        } else if (c == '(') {
            open_group(p, new_rule(p, owner));
            p->pos++;
        } else if (c == '|') {
            end_sequence(p);
            p->pos++;
            over_lines = true;
        } else if (c == ')' && p->n_groups > 1) {
            e.rule = p->groups[p->n_groups - 1].rule;
            close_group(p);
            p->pos++;
            add_element(p, &e);
        } else if (p->n_groups > 1 || (c >= 0 && c != '\n')) {
            fail_at(p, p->pos,
                    p->n_groups > 1 ? "expected an element or ')'"
                                    : "expected an element or the end of the rule");
        } else if (!goes_on(p)) {
            return;
        }
    }
}

static void read_rule(parser *p) {
    const size_t at = p->pos;
    if (!is_name_char(peek(p))) {
        fail_at(p, at, "expected the name of a rule");
        return;
    }
    const uint32_t number = read_name(p);
    skip(p, false);
    if (!is_good(p)) {
        return;
    }
    if (p->n - p->pos < 3 || memcmp(p->text + p->pos, "::=", 3) != 0) {
        fail_at(p, p->pos, "expected ::=");
        return;
    }
    p->pos += 3;
    if (named(p, number)->is_defined) {
        const uint32_t rule = named(p, number)->rule;
        (void)lk_grammar_fail(&p->b, LK_E_FORMAT, LK_AT_OFFSET(at, name_of(p, rule)),
                              "grammar, line %lu: the rule '%s' is defined twice", line_at(p, at),
                              name_of(p, rule));
        return;
    }
    named(p, number)->is_defined = true;
    open_group(p, named(p, number)->rule);
    read_body(p, number);
    if (is_good(p)) {
        close_group(p);
    }
}

static void check_names(parser *p, uint32_t *root) {
    bool has_root = false;
    for (uint32_t i = 0; i < p->names.n && is_good(p); i++) {
        const named_rule *rule = named(p, i);
        size_t n = 0;
        const uint8_t *name = lk_strings_get(&p->names, i, &n);
        if (!rule->is_defined) {
            const char *text = name_of(p, rule->rule);
            (void)lk_grammar_fail(&p->b, LK_E_FORMAT, LK_AT_OFFSET(rule->used_at, text),
                                  "grammar, line %lu: the rule '%s' is not defined",
                                  line_at(p, rule->used_at), text);
        }
        if (n == 4 && memcmp(name, "root", 4) == 0) {
            *root = rule->rule;
            has_root = true;
        }
    }
    if (is_good(p) && !has_root) {
        (void)lk_grammar_fail(&p->b, LK_E_FORMAT, LK_AT_SUBJECT("root"),
                              "grammar: the rule 'root' is not defined");
    }
}

static bool check_text(parser *p) {
    for (size_t i = 0; i < p->n;) {
        size_t n_bad = 0;
        const size_t n = lk_utf8_sequence(p->text + i, p->n - i, &n_bad);
        if (n == 0) {
            fail_at(p, i, "expected well-formed UTF-8");
            return false;
        }
        i += n;
    }
    return true;
}

static void parse(parser *p, uint32_t *root) {
    if (!check_text(p)) {
        return;
    }
    if (!lk_strings_init(&p->names, p->a, (uint32_t)p->n + 1, p->n + 1, true)) {
        (void)lk_grammar_fail(&p->b, LK_E_NOMEM, LK_AT_SUBJECT("a grammar"),
                              "cannot allocate memory for a grammar of %zu bytes", p->n);
        return;
    }
    for (skip(p, true); is_good(p) && p->pos < p->n; skip(p, true)) {
        read_rule(p);
    }
    check_names(p, root);
}

lk_status lk_gbnf_compile(const char *text, size_t n_bytes, const lk_allocator *allocator,
                          lk_grammar **out, lk_error *err) {
    parser p = {
        .a = lk_allocator_or_default(allocator), .text = (const uint8_t *)text, .n = n_bytes};
    uint32_t root = 0;
    *out = NULL;
    if (n_bytes > LK_GRAMMAR_MAX_BYTES) {
        return lk_fail(err, LK_E_LIMIT, LK_AT_SUBJECT("grammar"),
                       "the grammar has %zu bytes, at most %d are read", n_bytes,
                       LK_GRAMMAR_MAX_BYTES);
    }
    if (lk_grammar_begin(&p.b, p.a, err) == LK_OK) {
        parse(&p, &root);
    }
    const lk_status status = lk_grammar_finish(&p.b, root, name_of, &p, out);
    lk_free_array(p.a, p.named.items, p.named.capacity, sizeof(named_rule));
    lk_free_array(p.a, p.owners.items, p.owners.capacity, sizeof(uint32_t));
    lk_free_array(p.a, p.elements.items, p.elements.capacity, sizeof(element));
    lk_free_array(p.a, p.alternatives.items, p.alternatives.capacity, sizeof(uint32_t));
    lk_free_array(p.a, p.words.items, p.words.capacity, sizeof(word));
    lk_free_array(p.a, p.word_bytes.items, p.word_bytes.capacity, 1);
    lk_free_array(p.a, p.literals.items, p.literals.capacity, 1);
    lk_free_array(p.a, p.ranges.items, p.ranges.capacity, sizeof(lk_code_range));
    lk_strings_deinit(&p.names);
    return status;
}
